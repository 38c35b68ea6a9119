//! What nodes learn of their path: the round trip of a full datagram and a short answer, which is
//! what protocols are told as base RTT, and whether the protocol is at home there.

mod common;

use std::collections::BTreeMap;

use tidegate_algos::Protocol;
use tidegate_core::{Rate, Span, Time};
use tidegate_endpoint::node::{Arrival, Config, Event, Node};
use tidegate_endpoint::session::Key;

use common::{address, entropy};

const DELAY: Span = Span::us(2);
/// IP, UDP, Ethernet, gap and preamble.
const BELOW_BYTES: usize = 66;
/// An answer to the question whether somebody is there: header of its session, its own, a tag.
const PONG_BYTES: usize = 20 + 12 + 16;
/// An answer to the question for a session.
const ACCEPT_BYTES: usize = 84;

/// One way.
fn takes(rate: Rate, bytes: usize) -> Span {
    rate.serialise((bytes + BELOW_BYTES) as u64) + DELAY
}

/// Two nodes that open a session over a link of that rate: what each says of the other when it
/// opens, and in the end.
fn learned(rate: Rate) -> [[(Span, Option<String>); 2]; 2] {
    let config = Config::new(Protocol::named("swift").unwrap().stack(), Key::new(b"key"), rate);
    let mut nodes = [1, 2].map(|seed| Node::new(config.clone(), entropy(seed, 0)).unwrap());
    let (mut now, mut out, mut order) = (Time::ms(1), vec![0; 2_048], 0);
    let mut wires = BTreeMap::new();
    let peer = nodes[0].connect(now, address(1)).unwrap();
    assert_eq!(nodes[0].domain_warning(peer), None, "nothing is known yet");
    let said = |node: &Node, peer| (node.base_rtt(peer).unwrap(), node.domain_warning(peer));
    let mut peers = [None, None];
    let mut first = [None, None];
    while now < Time::ms(20) {
        for (from, node) in nodes.iter_mut().enumerate() {
            if node.deadline() <= now {
                node.on_deadline(now);
            }
            while let Some(departure) = node.transmit(now, &mut out) {
                order += 1;
                let lands = now + takes(rate, departure.bytes);
                wires.insert((lands, order), (1 - from, out[..departure.bytes].to_vec()));
            }
            while let Some(event) = node.event() {
                let Event::Opened(peer) = event else { panic!("{event:?}") };
                (peers[from], first[from]) = (Some(peer), Some(said(node, peer)));
            }
        }
        let deadlines = nodes.iter().map(Node::deadline).min().unwrap();
        let landing = wires.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at);
        now = landing.min(deadlines.max(now + Span::ns(1)));
        if landing <= now {
            let (_, (to, mut bytes)) = wires.pop_first().unwrap();
            let from = address(1 - to as u8);
            nodes[to].receive(now, Arrival { from, tos: 0, held: Span::ZERO, bytes: &mut bytes });
        }
    }
    let last = [0, 1].map(|at: usize| said(&nodes[at], peers[at].unwrap()));
    [first.map(Option::unwrap), last]
}

#[test]
fn the_base_rtt_is_that_of_a_full_datagram_and_swift_says_where_it_is_too_long() {
    for (rate, warns) in [(Rate::mbps(100), true), (Rate::gbps(1), false)] {
        let full = takes(rate, 1_472);
        let least = full + takes(rate, PONG_BYTES);
        let [opened, ended] = learned(rate);
        for (rtt, warning) in opened {
            assert!(least <= rtt && rtt <= full + takes(rate, ACCEPT_BYTES), "{rate}: {rtt}");
            assert_eq!(warning.is_some(), warns, "{rate}: {warning:?}");
        }
        for (rtt, warning) in ended {
            assert_eq!((rtt, warning.is_some()), (least, warns), "{rate}: {warning:?}");
        }
    }
}
