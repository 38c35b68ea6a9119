//! Hosts with processing time for received packets.

use crate::common::observers::{Explicit, Observer, ObserverAccess, TestProbe};
use crate::common::*;
use crate::explicit_engine::recorded;
use tidegate_algos::Protocol;
use tidegate_algos::windowed::header::Header;
use tidegate_core::fabric::{Routing, StackTime};
use tidegate_core::wire::Carried;
use tidegate_core::{Body, Frame, MIN_WIRE_BYTES, Rate, Span, Time};
use tidegate_sim::{Departure, Engine, Setup};

/// Time, port or host, and packet.
type Seen = (Time, u32, Header);

/// Data and acknowledgements between two hosts over one switch: departures from NICs, and
/// deliveries to transports.
#[derive(Default)]
struct Log {
    left: Vec<Seen>,
    taken: Vec<Seen>,
    rtts: Vec<Span>,
}

impl Observer for Log {
    fn departed(&mut self, d: &Departure<'_>) {
        self.left.push((d.at, d.port, Header::read(d.body).unwrap()));
    }
    fn arrived(&mut self, now: Time, host: u32, _frame: &Frame, body: &Body) {
        let header = Header::read(body).unwrap();
        if let Header::Ack(ack) = header {
            self.rtts.push(now - ack.sent_at);
        }
        self.taken.push((now, host, header));
    }
}

fn pair(protocol: &str, bytes: u64, delay: Span, jitter: Span) -> Setup {
    let fabric = star(2, Rate::gbps(100), Span::us(1), 1000);
    let mut setup =
        setup(fabric, stack(protocol), vec![flow(0, 1, bytes, Time::us(3))], Time::ms(20));
    setup.stack_time = StackTime { delay, jitter };
    setup
}

fn logged(setup: Setup) -> Engine<TestProbe> {
    let duration = setup.duration;
    let mut engine = Engine::new(setup, TestProbe::of(Log::default())).unwrap();
    engine.advance(duration);
    engine
}

#[test]
fn processing_time_delays_packets_but_not_rtts() {
    let (full, least) = (Span::ps(80 * 1_080), Span::ps(80 * MIN_WIRE_BYTES as u64));
    let one_way = |wire: Span| wire.times(2) + Span::us(2);
    let delay = Span::ps(7_654_321);
    let engine = logged(pair("dctcp", 1_000, delay, Span::ZERO));
    assert_eq!(engine.probe().inner::<Log>().rtts, [one_way(full) + one_way(least)]);
    let row = engine.finish().unwrap().finished[0];
    assert_eq!(row.completed, Some(Time::us(3) + one_way(full) + delay));
    assert_eq!(row.acked, Some(Time::us(3) + one_way(full) + delay + one_way(least) + delay));
}

#[test]
fn rtt_samples_do_not_depend_on_the_delay() {
    // No packet waits for a window here, so packets leave as they would without processing time.
    let of = |delay, jitter| {
        logged(pair("open-loop", 200_000, delay, jitter)).probe().inner::<Log>().rtts.clone()
    };
    let plain = of(Span::ZERO, Span::ZERO);
    assert_eq!(plain.len(), 200);
    assert_eq!(of(Span::us(5), Span::ZERO), plain);
    // With jitter, acknowledgements leave together and queue briefly at their own NIC, after the
    // delay.
    let jittered = of(Span::us(5), Span::us(4));
    assert!(
        jittered.iter().all(|rtt| *rtt >= plain[0] && *rtt < plain[0] + Span::us(1)),
        "{jittered:?}"
    );
}

#[test]
fn jitter_has_its_mean_and_keeps_the_order() {
    // A packet every 10 us: no packet waits for another.
    let mut setup = pair("open-loop", 1_000, Span::us(2), Span::us(3));
    setup.workload.flows = (0..2_000).map(|i| flow(0, 1, 1_000, Time::us(10 * i))).collect();
    setup.duration = Time::ms(21);
    let engine = logged(setup);
    let log: &Log = engine.probe().inner();
    let seq = |seen: &Seen| match seen.2 {
        Header::Data(data) => Some(data.seq),
        Header::Ack(_) => None,
    };
    let data = |seen: &&Seen| seq(seen).is_some();
    let left = log.left.iter().filter(data).filter(|at| at.1 == 0).map(|at| at.0);
    let held: Vec<f64> = left
        .zip(log.taken.iter().filter(data))
        .map(|(left, taken)| (taken.0 - left).as_us_f64() - 2.0 - 2.0 * 0.0864)
        .collect();
    assert_eq!(held.len(), 2_000);
    let mean = held.iter().sum::<f64>() / 2_000.0;
    // Uniform over 3 us: a standard error of 0.02 us.
    assert!((mean - 3.5).abs() < 0.08, "{mean} us for 2 us and 0 to 3 us");
    assert!(held.iter().all(|us| (1.999..5.001).contains(us)));

    // Back to back, with a jitter of many packets: the order is preserved.
    let engine = logged(pair("open-loop", 300_000, Span::us(2), Span::us(30)));
    let order: Vec<u64> = engine.probe().inner::<Log>().taken.iter().filter_map(seq).collect();
    assert!(order.len() == 300 && order.is_sorted(), "{order:?}");
}

/// The outcome of a small incast with processing time at hosts, with lazy commits and with explicit
/// dequeues.
#[test]
fn lazy_commits_equal_explicit_dequeues_with_delay() {
    for &protocol in Protocol::ALL {
        for routing in [Routing::Ecmp, Routing::Spray] {
            let fabric = leaf_spine(3, 4, 2, Rate::gbps(100), Rate::gbps(100), Span::ns(600), 1000);
            let flows =
                (0..110u32).map(|i| flow(i % 11, 11, 1 + 997 * i as u64, Time::us(i as u64 / 2)));
            let mut setup = setup(fabric, protocol.stack(), flows.collect(), Time::ms(100));
            setup.routing = routing;
            setup.stack_time = StackTime { delay: Span::us(3), jitter: Span::us(9) };
            let lazy = run(setup.clone());
            let (_, finished, digest, _) = recorded::<Explicit>(setup);
            let name = protocol.info().name;
            assert_eq!(lazy.0.len(), 110, "{name}: some messages are incomplete");
            assert_eq!(lazy.1.digest, digest, "{name}");
            assert_eq!(lazy.0, finished, "{name}");
        }
    }
}
