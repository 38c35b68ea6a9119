//! Servers of several hosts: their links carry messages between these hosts.

use crate::common::*;
use tidegate_core::collective::{Collective, Op, Stragglers};
use tidegate_core::fabric::Servers;
use tidegate_core::workload::{Flow, Pattern, Sizes, Traffic};
use tidegate_core::{Rate, Span, Time};
use tidegate_sim::Setup;

const SERVERS: Servers = Servers { hosts: 2, rate: Rate::gbps(1_600), delay: Span::ns(300) };

/// Two racks of four hosts at 100 Gbit/s, which are four servers.
fn with(flows: Vec<Flow>) -> Setup {
    let rate = Rate::gbps(100);
    let mut fabric = leaf_spine(2, 4, 2, rate, rate, Span::us(1), 1000);
    fabric.servers = Some(SERVERS);
    setup(fabric, stack("swift"), flows, Time::ms(5))
}

#[test]
fn messages_within_take_the_link_one_by_one() {
    let flows = vec![
        flow(0, 1, 1_000_000, Time::ZERO),
        flow(0, 1, 200_000, Time::us(1)),
        flow(0, 2, 10_000, Time::us(1)),
        flow(1, 0, 200_000, Time::us(2)),
        flow(0, 1, 200_000, Time::us(10)),
    ];
    let (finished, outcome) = run(with(flows));
    let took = |id| {
        let row = finished.iter().find(|row| row.id == id).unwrap();
        (row.completed.unwrap(), row.acked.unwrap(), row.ideal)
    };
    // 5 ps a byte.
    assert_eq!(took(0), (Time::ns(5_300), Time::ns(5_300), Span::ns(5_300)));
    assert_eq!(took(1), (Time::ns(6_300), Time::ns(6_300), Span::ns(1_300)));
    assert_eq!(took(3).0, Time::ns(3_300));
    assert_eq!(took(4).0, Time::ns(11_300));
    // Only the message to another server is in packets.
    assert!(took(2).0 > Time::us(3));
    let sent: u64 = outcome.links.iter().step_by(2).take(8).map(|link| link.packets).sum();
    // Its ten packets and ten acknowledgements.
    assert_eq!(sent, 20);
}

/// A message that began before the window counts with the bytes carried in it.
#[test]
fn window_counts_carried_bytes() {
    let mut setup = with(vec![flow(0, 1, 1_000_000, Time::ZERO), flow(3, 2, 50_000, Time::us(4))]);
    setup.warmup = Time::us(3);
    let (finished, _) = run(setup);
    // From 3 us to 5.3 us of 5.3 us.
    assert_eq!(finished[1].window_bytes, 1_000_000 * 2_300 / 5_300);
    assert_eq!(finished[0].window_bytes, 50_000);
    // A message that arrives in the drain counts until the end of the window.
    let mut setup = with(vec![flow(0, 1, 1_000_000, Time::ZERO)]);
    (setup.duration, setup.drain) = (Time::us(4), Span::us(9));
    let (finished, _) = run(setup);
    assert_eq!(finished[0].window_bytes, 1_000_000 * 4_000 / 5_300);
}

#[test]
fn collective_continues_after_messages_within() {
    let mut setup = with(Vec::new());
    let of = Collective {
        op: Op::RingAllReduce,
        hosts: (0..8).collect(),
        bytes: 800_000,
        chunks: 1,
        iterations: 2,
        compute: Span::us(1),
        stragglers: Stragglers::default(),
    };
    setup.workload.traffic = vec![Traffic {
        pattern: Pattern::Collective(of),
        sizes: Sizes::Fixed(1),
        stack: 0,
        label: 0,
        start: Time::ZERO,
        stop: Time::ms(5),
    }];
    let results = |partitions: usize| {
        let engine = unobserved(setup.clone(), partitions).unwrap();
        assert_eq!(engine.partitions(), partitions.min(2));
        let mut engine = engine;
        engine.advance(Time::NEVER);
        let mut outcome = engine.finish().unwrap();
        (std::mem::take(&mut outcome.finished), outcome.unfinished.len(), outcome.iterations)
    };
    let (rows, left, times) = results(1);
    // 14 steps of 8 messages, twice.
    assert_eq!((rows.len(), left, times.len()), (224, 0, 2));
    assert!(results(2) == (rows.clone(), left, times));
    let within = rows.iter().filter(|row| SERVERS.joins(row.src, row.dst));
    let took = within.map(|row| row.completed.unwrap().since(row.start));
    assert_eq!(took.clone().count(), 112);
    // 100 kB at 1.6 Tbit/s.
    assert!(took.into_iter().all(|took| took == Span::ns(800)));
}

/// Racks whose hosts are in the same servers are in one partition.
#[test]
fn servers_across_racks_join_their_partitions() {
    let mut setup = with(vec![flow(0, 5, 10_000, Time::ZERO)]);
    setup.fabric.servers = Some(Servers { hosts: 8, ..SERVERS });
    let engine = unobserved(setup, 2).unwrap();
    assert_eq!(engine.partitions(), 1);
}
