//! With symmetric ECMP, acknowledgements cross the same links as their data.

use crate::common::observers::{Observer, ObserverAccess, TestProbe};
use crate::common::*;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_algos::Protocol;
use tidegate_algos::windowed::header::Header;
use tidegate_core::fabric::Routing;
use tidegate_core::params::Value;
use tidegate_core::wire::Carried;
use tidegate_core::{Rate, Span, Time};
use tidegate_sim::{Departure, Engine, Setup};

/// Links that packets of each kind crossed, by the pair of hosts of the data.
#[derive(Default)]
struct Links {
    data: BTreeMap<(u32, u32), BTreeSet<u32>>,
    acks: BTreeMap<(u32, u32), BTreeSet<u32>>,
}

impl Observer for Links {
    fn departed(&mut self, d: &Departure<'_>) {
        let (from, to) = (d.body.src, d.frame.dst);
        match Header::read(d.body) {
            Some(Header::Data(_)) => self.data.entry((from, to)).or_default().insert(d.port / 2),
            _ => self.acks.entry((to, from)).or_default().insert(d.port / 2),
        };
    }
}

fn links(routing: Routing, protocol: Protocol, ack_every: u64) -> Links {
    let gbps = Rate::gbps(100);
    let fabric = leaf_spine(4, 4, 5, gbps, gbps, Span::us(1), 1436);
    let flows = (0..16).map(|h| flow(h, (h + 5) % 16, 50_000, Time::ZERO)).collect();
    let mut stack = protocol.stack();
    stack.set("ack_every", Value::Integer(ack_every)).unwrap();
    stack.set("multipath", Value::Choice("off")).unwrap();
    let setup = Setup { routing, ..setup(fabric, stack, flows, Time::ms(1)) };
    let mut engine = Engine::new(setup, TestProbe::of(Links::default())).unwrap();
    engine.advance(Time::ms(1));
    let Links { data, acks } = engine.probe().inner();
    Links { data: data.clone(), acks: acks.clone() }
}

#[test]
fn acknowledgements_cross_the_links_of_their_data() {
    let windowed = Protocol::ALL.iter().filter(|p| p.family() == "congestion control");
    for &protocol in windowed {
        for ack_every in [1, 4] {
            let Links { data, acks } = links(Routing::SymmetricEcmp, protocol, ack_every);
            assert_eq!(data.len(), 16);
            assert_eq!(data, acks, "{protocol:?}, an acknowledgement every {ack_every}");
        }
    }
    // Control experiment: the check fails with plain ECMP.
    let Links { data, acks } = links(Routing::Ecmp, Protocol::ALL[0], 1);
    assert_ne!(data, acks);
}
