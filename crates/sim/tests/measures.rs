//! Measurements: goodput within the window, buffers and utilisation to the bit, distant events, and
//! the drain.
//!
//! The engine itself checks in every run of every test that no flow and no host gets more than its
//! links carry, so these tests do not repeat it.

use std::collections::BTreeMap;

use crate::common::busy::Recorder;
use crate::common::observers::{Observer, ObserverAccess, TestProbe};
use crate::common::*;
use tidegate_algos::{Protocol, Stack};
use tidegate_core::faults::{Failing, Faults, Outage};
use tidegate_core::params::Value;
use tidegate_core::workload::{Flow, Pattern, Sizes, Traffic};
use tidegate_core::{ConnectionPolicy, Message, Rate, Span, Time};
use tidegate_sim::{Departure, Engine, FlowRecord, Outcome, Setup};

/// Payload share of a link with full packets of 4,096 B.
const SHARE: f64 = 4096.0 / 4176.0;

/// Senders without a limit.
fn at_full_rate() -> Stack {
    let mut stack = stack("open-loop");
    stack.set("rate", Value::Rate(Rate::gbps(100))).unwrap();
    stack
}

fn gbps(record: &FlowRecord) -> f64 {
    record.goodput_bps().expect("a life of ten packets") / 1e9
}

#[test]
fn unlimited_sender_gets_the_link_in_any_window() {
    // Windows of 10.5 to 40 packet times that begin in the middle of packets.
    for eighth in 84..320 {
        let mut setup = setup(
            star(2, Rate::gbps(100), Span::us(1), 4096),
            at_full_rate(),
            vec![unlimited(0, 1, Time::ZERO)],
            Time::us(50),
        );
        setup.warmup = Time::us(50) - Span::ps(eighth * 4176 * 80 / 8);
        let (_, outcome) = run(setup);
        let record = &outcome.unfinished[0];
        let (got, most) = (gbps(record), 100.0 * SHARE);
        // Packets in flight at the end have not been delivered.
        let whole = eighth as f64 / 8.0;
        assert!(
            got <= most * (1.0 + 1e-6) && got >= most * (whole - 1.0) / whole,
            "{got} of {most}"
        );
    }
}

#[test]
fn goodput_below_ten_packet_times_is_none() {
    let packet = Span::ps(4176 * 80);
    let lifetime = |ten: u64| {
        let flows = vec![unlimited(0, 1, Time::ZERO)];
        let mut setup =
            setup(star(2, Rate::gbps(100), Span::us(1), 4096), at_full_rate(), flows, Time::us(50));
        setup.warmup = Time::us(50) - Span::ps(ten * packet.as_ps() / 10);
        run(setup).1.unfinished[0].lifetime()
    };
    assert_eq!((lifetime(99), lifetime(100)), (None, Some(packet.times(10))));
}

#[test]
fn delivery_after_a_stop_extends_the_lifetime() {
    // Four senders at full rate for 30 us into one port, which needs 120 us to deliver.
    let stop = |flow: Flow| Flow { stop: Time::us(30), ..flow };
    let flows = (0..4).map(|host| stop(unlimited(host, 4, Time::ZERO))).collect();
    let fabric = star(5, Rate::gbps(100), Span::us(1), 4096);
    let (_, outcome) = run(setup(fabric, at_full_rate(), flows, Time::us(400)));
    let sum: f64 = outcome.unfinished.iter().map(gbps).sum();
    assert!(sum > 90.0 && sum < 100.0 * SHARE, "{sum} Gbit/s");
    for record in &outcome.unfinished {
        assert!(
            record.measured.until > Time::us(110) && record.measured.until < Time::us(130),
            "{record:?}"
        );
    }
    // A flow without deliveries has no last delivery but is still reported: it lived until its
    // stop.
    let mut starved = setup_of_two(vec![stop(unlimited(0, 1, Time::ZERO))], Time::us(400));
    starved.faults = Faults {
        outages: vec![Outage { of: Failing::Link(1), down: Time::ZERO, up: Time::NEVER }],
        ..Faults::default()
    };
    let (_, outcome) = run(starved);
    assert_eq!(outcome.unfinished[0].goodput_bps(), Some(0.0));
}

#[test]
fn stopped_flow_lives_until_its_last_delivery() {
    let stop = |us| Flow { stop: Time::us(us), ..unlimited(0, 1, Time::ZERO) };
    // Nothing arrives while the link is down. A message keeps the drain going until the
    // retransmissions arrive.
    let record = |down, drain| {
        let flows = vec![stop(300), flow(0, 1, 40_000_000, Time::us(350))];
        let mut cut = setup_of_two(flows, Time::us(400));
        cut.faults.outages = vec![Outage { of: Failing::Link(1), down, up: Time::us(900) }];
        cut.drain = drain;
        run(cut).1.unfinished[0]
    };
    for (down, life) in [(Time::us(40), 39..=40), (Time::ZERO, 300..=300)] {
        let (cut, drained) = (record(down, Span::ZERO), record(down, Span::ms(30)));
        assert!(life.contains(&(cut.measured.until.as_us_f64() as u64)), "{cut:?}");
        assert!(drained.delivered_bytes > cut.delivered_bytes, "{drained:?}");
        assert_eq!((cut.measured, cut.goodput_bps()), (drained.measured, drained.goodput_bps()));
    }
    assert!(gbps(&record(Time::us(40), Span::ZERO)) > 90.0);
    // Flows that stop when the run ends have not ended before it.
    let at_end = setup_of_two(vec![stop(400)], Time::us(400));
    assert_eq!(run(at_end).1.unfinished[0].measured.until, Time::us(400));
}

fn setup_of_two(flows: Vec<Flow>, duration: Time) -> Setup {
    setup(star(2, Rate::gbps(100), Span::us(1), 4096), at_full_rate(), flows, duration)
}

#[test]
fn out_of_order_data_counts_on_arrival() {
    // Losses, and warm-up at many times of one run: if data counted on in-order delivery, a burst
    // would exceed the capacity of the link.
    let mut filled = 0;
    for name in ["swift", "dctcp", "sird"] {
        for warmup in 0..40 {
            let fabric = star(3, Rate::gbps(25), Span::us(1), 1000);
            let flows = vec![unlimited(0, 2, Time::ZERO), flow(1, 2, 40_000, Time::us(5))];
            let mut setup = setup(fabric, stack(name), flows, Time::us(240) + Span::us(7 * warmup));
            setup.warmup = Time::us(200) + Span::us(7 * warmup);
            setup.faults = Faults {
                loss: 0.02,
                reordering: 0.05,
                reorder_delay: Span::us(20),
                ..Faults::default()
            };
            let (finished, outcome) = run(setup);
            filled += finished
                .iter()
                .chain(&outcome.unfinished)
                .filter(|record| record.retransmitted_bytes > 0)
                .count();
        }
    }
    assert!(filled > 50, "{filled} flows that lost something are too few to mean anything");
}

#[test]
fn arrivals_far_apart_are_on_time() {
    for name in ["poseidon", "sird"] {
        let starts = [Time::ZERO, Time::s(17), Time::s(100)];
        let flows = starts.map(|start| flow(0, 1, 5_000, start));
        let mut setup = setup(
            star(2, Rate::gbps(100), Span::us(1), 1000),
            stack(name),
            flows.into(),
            Time::s(101),
        );
        setup.warmup = Time::s(100) - Span::us(1);
        setup.faults.outages =
            vec![Outage { of: Failing::Link(0), down: Time::s(50), up: Time::s(99) }];
        let (mut finished, outcome) = run(setup);
        finished.sort_by_key(|record| record.id);
        assert_eq!(finished.iter().map(|record| record.start).collect::<Vec<_>>(), starts);
        let took: Vec<_> =
            finished.iter().map(|record| record.completed.unwrap() - record.start).collect();
        assert!(took.iter().all(|&it| it == took[0]), "{name}: {took:?}");
        assert_eq!(outcome.faults.outages, 1);
    }
}

#[test]
fn links_that_are_too_slow_to_schedule_are_refused() {
    for (rate, delay, latency) in [
        (Rate::gbps(100), Span::s(20), Span::ZERO),
        (Rate::gbps(100), Span::ZERO, Span::s(20)),
        (Rate::bps(10_000), Span::ZERO, Span::ZERO),
        (Rate::gbps(100), Span::s(2), Span::s(3)),
    ] {
        let mut fabric = star(2, rate, delay, 1000);
        fabric.switches[0].latency = latency;
        let setup = setup(fabric, stack("swift"), vec![flow(0, 1, 1, Time::ZERO)], Time::ms(1));
        let error = unobserved(setup, 1).err().expect("too slow");
        assert!(
            error.contains("link between h0 and s0") && error.contains("at most 4s"),
            "{error}"
        );
    }
}

/// Records when packets entered and left the queues of switches.
#[derive(Default)]
struct Queues {
    hosts: u32,
    /// (time, change in bytes).
    changes: Vec<(Time, i64)>,
    /// By port: (time, bytes).
    sent: Vec<Vec<(Time, u64)>>,
}

impl Observer for Queues {
    fn departed(&mut self, d: &Departure<'_>) {
        let port = d.port as usize;
        self.sent.resize(self.sent.len().max(port + 1), Vec::new());
        self.sent[port].push((d.at, d.frame.wire_bytes as u64));
        // A star: odd ports lead from the switch to hosts.
        if d.port % 2 == 1 && d.port < 2 * self.hosts {
            self.changes.push((d.at - d.waited, d.frame.wire_bytes as i64));
            self.changes.push((d.at, -(d.frame.wire_bytes as i64)));
        }
    }
}

#[test]
fn buffers_are_exact_for_packets_of_every_size() {
    for mtu in [1_000, 4_096, 60_000] {
        let hosts = 6;
        let mut setup = setup(
            star(hosts, Rate::gbps(100), Span::us(1), mtu),
            stack("swift"),
            Vec::new(),
            Time::ms(2),
        );
        let block = |pattern, sizes| Traffic {
            pattern,
            sizes,
            stack: 0,
            label: 0,
            start: Time::us(3),
            stop: Time::us(500),
        };
        let incast = Pattern::Incast {
            fan_in: 4,
            dst: None,
            interval: Span::us(50),
            poisson: false,
            jitter: Span::us(1),
        };
        setup.workload.traffic = vec![
            block(incast, Sizes::Fixed(50_001)),
            block(Pattern::Permutation, Sizes::Fixed(300_000)),
        ];
        setup.warmup = Time::us(77);
        let (warmup, end) = (setup.warmup, setup.duration);
        let mut engine =
            Engine::new(setup, TestProbe::of(Queues { hosts, ..Queues::default() })).unwrap();
        engine.advance(end);
        assert_eq!(engine.packets_in_flight(), 0, "every queue must be empty now");
        let mut changes = engine.probe().inner::<Queues>().changes.clone();
        // Departures before arrivals at equal times.
        changes.sort();
        let (mut level, mut since, mut area, mut max) = (0i64, warmup, 0u128, 0i64);
        for (at, change) in changes {
            if at >= warmup {
                area += level as u128 * (at - since).as_ps() as u128;
                since = at;
                max = max.max(level);
            }
            level += change;
        }
        let outcome = engine.finish().unwrap();
        let buffer = &outcome.switches[0].buffer_bytes;
        assert_eq!(level, 0);
        assert!(max > 100_000, "{max} B");
        assert_eq!(buffer.max, max as f64, "mtu {mtu}");
        let mean = area as f64 / (end - warmup).as_ps() as f64;
        assert!((buffer.mean / mean - 1.0).abs() < 1e-12, "mtu {mtu}: {} and {mean}", buffer.mean);
    }
}

#[test]
fn means_and_percentiles_are_below_the_maximum() {
    for us in [1, 2, 3, 5, 9, 11, 25] {
        let flows = (0..5).map(|host| unlimited(host, 5, Time::ZERO)).collect();
        let mut setup =
            setup(star(6, Rate::gbps(100), Span::us(1), 4096), at_full_rate(), flows, Time::us(30));
        setup.warmup = Time::us(30 - us);
        setup.histograms = true;
        let (_, outcome) = run(setup);
        let spreads = outcome
            .switches
            .iter()
            .map(|s| s.buffer_bytes)
            .chain(outcome.links.iter().map(|l| l.queue_bytes));
        for spread in spreads {
            assert!(
                spread.mean <= spread.max && spread.p99.is_none_or(|p99| p99 <= spread.max),
                "{spread:?}"
            );
        }
        assert!(outcome.switches[0].buffer_bytes.mean > 100_000.0);
    }
}

/// Nine packets of ten find the port free and wait for nothing, with and without PFC.
#[test]
fn percentiles_of_waits_include_waits_of_zero() {
    for is_lossless in [false, true] {
        let mut open_loop = open_loop(3);
        open_loop.set("arrivals", Value::Choice("poisson")).unwrap();
        let flows = (0..4).map(|host| unlimited(host, 4, Time::ZERO)).collect();
        let fabric = star(5, Rate::gbps(100), Span::us(1), 1000);
        let mut setup = setup(fabric, open_loop, flows, Time::ms(12));
        if is_lossless {
            lossless(&mut setup, 200_000);
        }
        (setup.histograms, setup.warmup) = (true, Time::ms(2));
        let mut engine = Engine::new(setup, TestProbe::of(Recorder::default())).unwrap();
        engine.advance(Time::NEVER);
        let ports = engine.probe().inner::<Recorder>().take_ports();
        let link = &engine.finish().unwrap().links[9];
        let measured = ports[9].iter().filter(|record| record.at > Time::ms(2));
        let mut waits: Vec<_> = measured.map(|record| record.waited.as_us_f64()).collect();
        waits.sort_by(f64::total_cmp);
        let at = |waits: &[f64], share: f64| waits[(share * waits.len() as f64) as usize];
        let positive = waits.partition_point(|&wait| wait < 1e-3);
        assert!(waits.len() > 10_000 && positive > waits.len() * 8 / 10, "{positive}");
        let (low, high) = (at(&waits, 0.989) * 0.99 - 1e-3, at(&waits, 0.991) * 1.01);
        let p99 = link.queue_delay_us.p99.unwrap();
        assert!((low..=high).contains(&p99), "{p99} of {low} to {high}");
        assert!(at(&waits[positive..], 0.99) > 1.5 * high, "zeros matter");
    }
}

#[test]
fn utilisation_ends_with_the_window_and_with_the_link() {
    // 4,176 B at 1 Gbit/s take 33.408 us.
    let used = |start: Time, warmup: Time, down: Option<Time>| {
        let fabric = star(2, Rate::gbps(1), Span::us(1), 4096);
        let mut setup = setup(fabric, at_full_rate(), vec![flow(0, 1, 4096, start)], Time::us(40));
        setup.warmup = warmup;
        setup.faults.outages = down
            .map(|down| Outage { of: Failing::Link(0), down, up: Time::us(39) })
            .into_iter()
            .collect();
        run(setup).1.links[0].utilisation
    };
    let is = |got: f64, us: f64, of: f64| {
        assert!((got - us / of).abs() < 1e-9, "{got} and not {us} of {of} us")
    };
    is(used(Time::ZERO, Time::ZERO, None), 33.408, 40.0);
    is(used(Time::us(10), Time::ZERO, None), 30.0, 40.0);
    is(used(Time::us(10), Time::us(20), None), 20.0, 20.0);
    is(used(Time::us(10), Time::ZERO, Some(Time::us(15))), 5.0, 40.0);
    is(used(Time::us(10), Time::us(12), Some(Time::us(15))), 3.0, 28.0);
    is(used(Time::us(10), Time::us(16), Some(Time::us(15))), 0.0, 24.0);
}

/// A loaded star whose last messages do not complete within a millisecond.
fn loaded(name: &str, drain: Span) -> (Vec<FlowRecord>, Outcome, Time) {
    let mut setup = setup(
        star(8, Rate::gbps(25), Span::us(1), 1000),
        stack(name),
        vec![
            unlimited(0, 1, Time::ZERO),
            flow(2, 1, 100_000, Time::us(999)),
            flow(3, 1, 1_000, Time::us(1_001)),
        ],
        Time::ms(1),
    );
    let pattern = Pattern::Poisson {
        mean_gap_ps: 3e7,
        senders: (0..8).collect(),
        receivers: (0..8).collect(),
    };
    setup.workload.traffic = vec![Traffic {
        pattern,
        sizes: Sizes::Fixed(50_000),
        stack: 0,
        label: 0,
        start: Time::ZERO,
        stop: Time::s(1),
    }];
    setup.connections = ConnectionPolicy::PerMessage;
    setup.warmup = Time::us(200);
    setup.drain = drain;
    let mut engine = unobserved(setup, 1).unwrap();
    engine.advance(Time::NEVER);
    assert!(engine.is_over());
    let end = engine.now();
    let mut outcome = engine.finish().unwrap();
    let finished = std::mem::take(&mut outcome.finished);
    (finished, outcome, end)
}

#[test]
fn drain_changes_no_measurement() {
    for &protocol in Protocol::ALL {
        let name = protocol.info().name;
        let (cut, cut_outcome, cut_end) = loaded(name, Span::ZERO);
        let (drained, outcome, end) = loaded(name, Span::ms(500));
        assert!(cut_outcome.unfinished.len() > 2, "{name}: nothing was left to drain");
        let open =
            outcome.unfinished.iter().filter(|record| record.bytes != Message::UNLIMITED).count();
        assert_eq!(open, 0, "{name}");
        assert_eq!(cut_end, Time::ms(1));
        assert!(end > cut_end && end < Time::ms(400), "{name}: the drain could end before {end}");
        // Nothing new, nothing lost; earlier results are unchanged.
        let all = |a: &[FlowRecord], b: &[FlowRecord]| {
            let mut all: Vec<_> = a.iter().chain(b).copied().collect();
            all.sort_by_key(|record| record.id);
            all
        };
        let (before, after) =
            (all(&cut, &cut_outcome.unfinished), all(&drained, &outcome.unfinished));
        assert_eq!(before.len(), after.len(), "{name}");
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(
                (before.start, before.window_bytes),
                (after.start, after.window_bytes),
                "{name}"
            );
            assert_eq!(before.goodput_bps(), after.goodput_bps(), "{name}: {before:?} {after:?}");
            assert!(before.completed.is_none_or(|at| after.completed == Some(at)), "{name}");
        }
        assert_eq!(
            (cut_outcome.links, cut_outcome.switches),
            (outcome.links, outcome.switches),
            "{name}"
        );
        // The unlimited flow stops: only packets in flight still arrive.
        let delivered = |all: &[FlowRecord]| {
            let unlimited = all.iter().find(|record| record.bytes == Message::UNLIMITED).unwrap();
            unlimited.delivered_bytes
        };
        let in_flight = delivered(&after) - delivered(&before);
        assert!(in_flight < 300_000, "{name}: {in_flight} B after its stop, {end}");
    }
}

#[test]
fn drain_ends_at_its_limit_at_the_latest() {
    let mut setup = setup_of_two(vec![flow(0, 1, 10_000, Time::us(1))], Time::us(10));
    setup.faults.outages = vec![Outage { of: Failing::Link(1), down: Time::ZERO, up: Time::NEVER }];
    setup.drain = Span::us(70);
    let mut engine = unobserved(setup, 1).unwrap();
    engine.advance(Time::NEVER);
    assert!(engine.is_over());
    assert_eq!(engine.now(), Time::us(80));
}

/// Every sample visits all ports, so an idle fabric can keep the engine as busy as traffic does.
#[test]
fn samples_of_many_ports_count_as_work() {
    let fabric = leaf_spine(32, 32, 32, Rate::gbps(100), Rate::gbps(100), Span::us(1), 1000);
    let (ports, work) = (fabric.links.len() as u64 * 2, 1 << 14);
    let mut engine = unobserved(setup(fabric, stack("swift"), Vec::new(), Time::s(1)), 1).unwrap();
    assert!(
        !engine.advance_some(Time::ms(100), work).unwrap(),
        "10,000 samples of {ports} ports in one go"
    );
    let samples = 8 * work / ports;
    assert!(
        engine.now() <= Time::us(10 * (samples + 2)),
        "more than {samples} samples by {}",
        engine.now()
    );
    while !engine.advance_some(Time::ms(100), work).unwrap() {}
    assert_eq!(engine.now(), Time::ms(100));
}

/// If a full packet is in flight at warm-up, only the part counts that the slowest link has carried
/// since.
#[test]
fn packet_in_flight_at_warm_up_counts_in_part() {
    let lone = |bytes: u64, warmup: Time| {
        let mut fabric = star(2, Rate::gbps(100), Span::us(1), 4096);
        fabric.links[1].rate = Rate::gbps(10);
        let mut setup =
            setup(fabric, at_full_rate(), vec![flow(0, 1, bytes, Time::ZERO)], Time::us(50));
        setup.warmup = warmup;
        run(setup).0[0]
    };
    // At 10 Gbit/s 4,176 B take 3,340.8 ns, and 1,080 B take 864 ns.
    for (bytes, span, counts) in [
        (4096, Span::ps(1_670_400), 2048),
        (4096, Span::ps(3_340_800), 4096),
        (1000, Span::ns(864), 1000),
        (1000, Span::ns(432), 529),
        (1000, Span::ZERO, 0),
    ] {
        let landed = lone(bytes, Time::ZERO).completed.unwrap();
        assert_eq!(
            lone(bytes, landed - span).window_bytes,
            counts,
            "{bytes} B, {span} before the end"
        );
    }
}

/// Time of the last delivery of each flow.
#[derive(Default)]
struct Deliveries(BTreeMap<u64, Time>);

impl Observer for Deliveries {
    fn delivered(&mut self, now: Time, flow: u64, _bytes: u32) {
        self.0.insert(flow, now);
    }
}

#[test]
fn waiting_message_lives_until_its_own_last_byte() {
    let shared = |i| Flow { dedicated: false, ..flow(0, 1, 3_000, Time::us(i)) };
    let fabric = star(2, Rate::gbps(25), Span::us(1), 1000);
    let mut setup = setup(fabric, stack("dctcp"), (0..200).map(shared).collect(), Time::ms(50));
    setup.faults = Faults { loss: 0.02, ..Faults::default() };
    let mut engine = Engine::new(setup, TestProbe::of(Deliveries::default())).unwrap();
    engine.advance(Time::NEVER);
    let last = engine.probe().inner::<Deliveries>().0.clone();
    let finished = engine.finish().unwrap().finished;
    assert_eq!(finished.len(), 200);
    finished
        .iter()
        .for_each(|record| assert_eq!(record.measured.until, last[&record.id], "{record:?}"));
    let waited = finished.iter().filter(|record| record.completed > Some(last[&record.id])).count();
    assert!(waited > 5, "{waited} are too few to mean anything");
}

#[test]
fn queue_at_warm_up_is_measured_from_then() {
    // Four bursts are queued before warm-up; afterwards the queue only drains.
    let flows = (0..4).map(|host| flow(host, 4, 100_000, Time::ZERO)).collect();
    let mut setup =
        setup(star(5, Rate::gbps(100), Span::us(1), 4096), at_full_rate(), flows, Time::us(60));
    setup.warmup = Time::ns(20_001);
    let (warmup, end) = (setup.warmup, setup.duration);
    let mut engine =
        Engine::new(setup, TestProbe::of(Queues { hosts: 5, ..Queues::default() })).unwrap();
    engine.advance(end);
    // Acknowledgements of 84 B do not wait: every other queue is empty.
    let changes = engine.probe().inner::<Queues>().changes.clone();
    let standing: i64 =
        changes.iter().filter(|(at, _)| *at < warmup).map(|(_, change)| change).sum();
    let later = || changes.iter().filter(|(at, _)| *at >= warmup);
    let more: Vec<_> = later().filter(|(_, change)| *change > 84).collect();
    assert!(standing > 100_000 && more.is_empty(), "{standing} B, {more:?}");
    let area: i128 =
        later().map(|(at, change)| -change as i128 * (*at - warmup).as_ps() as i128).sum();
    let mean = area as f64 / (end - warmup).as_ps() as f64;
    let outcome = engine.finish().unwrap();
    for (what, spread) in
        [("port", outcome.links[9].queue_bytes), ("switch", outcome.switches[0].buffer_bytes)]
    {
        assert_eq!(spread.max, standing as f64, "{what}");
        assert!((spread.mean / mean - 1.0).abs() < 1e-12, "{what}: {} and {mean}", spread.mean);
    }
}

/// A drain with few events is cheap, however long it is.
#[test]
fn nothing_is_sampled_in_a_drain() {
    let mut setup = setup_of_two(vec![flow(0, 1, 10_000, Time::us(1))], Time::us(10));
    setup.faults.outages = vec![Outage { of: Failing::Link(1), down: Time::ZERO, up: Time::NEVER }];
    setup.drain = Span::s(1);
    let events = run(setup).1.events;
    assert!(events < 10_000, "{events} events; samples every 10 us would be 100,000");
}
