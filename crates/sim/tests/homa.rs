//! Homa on small fabrics, compared with computed values.

use crate::common::observers::{Observer, ObserverAccess, TestProbe};
use crate::common::*;
use tidegate_algos::Stack;
use tidegate_algos::message::homa::header::Header;
use tidegate_core::fabric::Node;
use tidegate_core::params::Value;
use tidegate_core::routes::Routes;
use tidegate_core::wire::Carried;
use tidegate_core::workload::{Distribution, Pattern, Sampling, Sizes, Traffic};
use tidegate_core::{Extent, FabricProperties, Rate, Span, Time};
use tidegate_sim::{Departure, Engine, FlowRecord, Outcome, Setup};

const MTU: u32 = 1442;
const RATE: Rate = Rate::gbps(100);
const DELAY: Span = Span::us(2);

fn homa(set: &[(&str, Value)]) -> Stack {
    let mut stack = stack("homa");
    set.iter().for_each(|&(name, value)| stack.set(name, value).unwrap());
    stack
}

fn bytes(bytes: u64) -> Value {
    Value::Extent(Extent::Bytes(bytes as f64))
}

fn took(record: &FlowRecord) -> Span {
    record.completed.expect("delivered") - record.start
}

fn downlink(outcome: &Outcome, host: u32) -> &tidegate_sim::LinkRecord {
    outcome.links.iter().find(|link| link.to == Node::Host(host)).unwrap()
}

/// Time of packets back to back over two links and a switch, with the first ones sent without a
/// grant.
fn back_to_back(size: u64, unscheduled: u64) -> Span {
    let (mut first, mut second) = (Span::ZERO, Span::ZERO);
    for packet in 0..size.div_ceil(u64::from(MTU)) {
        let payload = (size - packet * u64::from(MTU)).min(u64::from(MTU));
        let headers = if packet < unscheduled { 96 } else { 82 };
        let time = RATE.serialise((payload + headers).max(84));
        first += time;
        second = second.max(first) + time;
    }
    second + DELAY.times(2)
}

#[test]
fn lone_message_is_sent_back_to_back() {
    // 8 us and a few packets make 70 packets that need no grant; the others follow without gaps.
    for size in [1, 9, 1_442, 1_443, 60_000, 100_000, 150_000, 1_000_000, 20_000_000] {
        let fabric = star(2, RATE, DELAY, MTU);
        let setup = setup(fabric, homa(&[]), vec![flow(0, 1, size, Time::us(1))], Time::ms(4));
        let unscheduled = setup_bdp(&setup).div_ceil(u64::from(MTU));
        let (finished, _) = run(setup);
        assert_eq!(took(&finished[0]), back_to_back(size, unscheduled), "{size} B");
    }
}

/// Bytes of a base RTT at the hosts' rate.
fn setup_bdp(setup: &Setup) -> u64 {
    let reach = tidegate_core::routes::Routes::new(&setup.fabric).unwrap().reach();
    RATE.bytes_in(reach.base_rtt)
}

/// Long messages to host 0.
fn incast(senders: u32, set: &[(&str, Value)]) -> Setup {
    let flows = (1..=senders).map(|h| flow(h, 0, 20_000_000, Time::ns(u64::from(h) * 37)));
    let fabric = star(senders + 1, RATE, DELAY, MTU);
    let mut setup = setup(fabric, homa(set), flows.collect(), Time::ms(1));
    // Measured after the packets without grants are gone.
    setup.warmup = Time::us(200);
    setup
}

#[test]
fn overcommitment_is_the_queue_of_a_busy_downlink() {
    // Of the bytes in flight from k senders, a round trip's worth is on links, and the rest waits.
    // Bytes on the wire: a hundred packets.
    let rtt_bytes = 100 * 1_524;
    for senders in [1, 2, 4, 7] {
        let more = [
            ("rtt_bytes", bytes(rtt_bytes)),
            ("overcommitment", Value::Integer(senders)),
            ("scheduled_priorities", Value::Integer(7)),
        ];
        let setup = incast(12, &more);
        let trip = RATE.serialise(1_524).times(2) + RATE.serialise(86).times(2) + DELAY.times(4);
        let on_links = RATE.bytes_in(trip) as f64;
        let (_, outcome) = run(setup);
        let queue = &downlink(&outcome, 0).queue_bytes;
        let expected = senders as f64 * 100.0 * 1_524.0 - on_links;
        println!("{senders} senders: {} B, {expected} expected", queue.mean);
        assert!((queue.mean / expected - 1.0).abs() < 0.03, "{} of {expected} B", queue.mean);
        assert!(queue.max <= expected * 1.05, "{} B at most", queue.max);
        let used = downlink(&outcome, 0).utilisation;
        assert!(used > 0.999, "{used} of the link");
    }
}

#[test]
fn unlimited_messages_hold_no_more_than_others() {
    // Messages within the limit of bytes in flight would be granted at once, one message after the
    // other. Other packet sizes change how a round trip is rounded up.
    for mtu in [500, 1_000, 1_442, 1_500, 3_000, 4_096, 9_000] {
        let flows = (1..=12).map(|host| unlimited(host, 0, Time::ZERO)).collect();
        let set =
            [("overcommitment", Value::Integer(4)), ("scheduled_priorities", Value::Integer(7))];
        let mut setup = setup(star(13, RATE, DELAY, mtu), homa(&set), flows, Time::ms(3));
        setup.warmup = Time::ms(1);
        let full = u64::from(mtu) + 82;
        let in_flight = 4 * setup_bdp(&setup).div_ceil(full) * full;
        let (_, outcome) = run(setup);
        let link = downlink(&outcome, 0);
        let (queue, used) = (link.queue_bytes.mean, link.utilisation);
        println!("{mtu} B: {queue} B wait, {in_flight} B may be in flight");
        assert!(queue < in_flight as f64, "{mtu} B: {queue} B wait");
        assert!(used > 0.999, "{used} of the link");
    }
}

#[test]
fn messages_complete_in_the_order_of_their_sizes() {
    // The longest message starts first. If it started later it would leave one packet behind,
    // granted at the lower level that it had while there were fewer messages.
    let sizes = [1_900_000, 1_200_000, 800_000, 400_000];
    let begins = |i: u32| Time::us(1) + Span::ns(200 * u64::from(i));
    let flows = (0..4).map(|i| flow(1 + i, 0, sizes[i as usize], begins(i)));
    let fabric = star(5, RATE, DELAY, MTU);
    let (finished, _) = run(setup(fabric, homa(&[]), flows.collect(), Time::ms(2)));
    let mut order: Vec<_> = finished.iter().map(|row| (row.bytes, took(row))).collect();
    order.sort_unstable();
    let mut before = 0;
    for (size, took) in order {
        before += size;
        // Packets without grants arrived from all senders at once.
        let ideal = RATE.serialise(before * 1_524 / 1_442).as_us_f64();
        let took = took.as_us_f64();
        assert!(took > ideal && took < ideal + 45.0, "{size} B: {took} us, ideally {ideal}");
    }
}

#[test]
fn short_messages_overtake_by_priority() {
    // Three long messages to a host, and a message of one packet that arrives while they fill its
    // downlink.
    let passing = |priorities| {
        let three =
            [("priorities", Value::Integer(priorities)), ("overcommitment", Value::Integer(3))];
        let mut setup = incast(3, &three);
        setup.warmup = Time::ZERO;
        setup.workload.flows.push(flow(2, 0, 100, Time::us(300)));
        let (finished, _) = run(setup);
        took(finished.iter().find(|row| row.bytes == 100).unwrap()).as_us_f64()
    };
    let alone = back_to_back(100, 1).as_us_f64();
    let with = [8, 2, 1].map(passing);
    // With one packet ahead of it at each link.
    assert!(with[0] < alone + 0.26 && with[1] < alone + 0.26, "{with:?}, alone {alone}");
    assert!(with[2] > alone + 8.0, "at least a queue of a round trip: {with:?}");
}

/// Wire bytes that left for host 0 without a grant, by priority.
#[derive(Default)]
struct Levels([u64; 8]);

impl Observer for Levels {
    fn departed(&mut self, d: &Departure<'_>) {
        // Only at the switch.
        if d.port == 1
            && let Some(Header::Data(data)) = Header::read(d.body)
            && !data.scheduled
        {
            self.0[d.frame.priority as usize] += d.frame.wire_bytes as u64;
        }
    }
}

/// Hosts 1 to 8 send messages of up to 60 KB to host 0, all without a grant, which fill four fifths
/// of its link.
fn unscheduled_crowd(set: &[(&str, Value)], is_fitted: bool) -> Setup {
    let points = vec![(100.0, 0.0), (4_000.0, 0.6), (60_000.0, 1.0)];
    let mean_bytes = 0.6 * 2_050.0 + 0.4 * 32_000.0;
    let sizes = Distribution { points, sampling: Sampling::Linear, mean_bytes };
    let pattern = Pattern::Poisson {
        mean_gap_ps: 8.0 * mean_bytes * 8.0 / 0.8 / 100e9 * 1e12,
        senders: (1..9).collect(),
        receivers: vec![0],
    };
    let traffic = Traffic {
        pattern,
        sizes: Sizes::Drawn(sizes),
        stack: 0,
        label: 0,
        start: Time::ZERO,
        stop: Time::ms(20),
    };
    let mut setup = setup(star(9, RATE, DELAY, MTU), homa(set), Vec::new(), Time::ms(20));
    setup.workload.traffic = vec![traffic];
    setup.drain = Span::ms(1);
    if is_fitted {
        let reach = Routes::new(&setup.fabric).unwrap().reach();
        let properties = FabricProperties::of(&setup.fabric, reach, None);
        let mix = setup.workload.size_mix(0, 9, setup.duration);
        assert_eq!(setup.stacks[0].fit(&properties, &mix), None);
    }
    setup
}

/// Additional time of messages of these sizes compared with an empty network, in full packets:
/// median and 99th percentile.
fn waits(rows: &[FlowRecord], bytes: std::ops::Range<u64>) -> [f64; 2] {
    let rows = rows.iter().filter(|row| bytes.contains(&row.bytes));
    let mut waits: Vec<f64> = rows.map(|row| (took(row) - row.ideal).as_us_f64()).collect();
    waits.sort_by(f64::total_cmp);
    assert!(waits.len() > 1_000, "{}", waits.len());
    let packet = RATE.serialise(1_538).as_us_f64();
    [waits.len() / 2, waits.len() * 99 / 100].map(|at| waits[at] / packet)
}

#[test]
fn levels_fitted_to_sizes_carry_as_many_bytes_each() {
    let shares = |is_fitted| {
        let setup = unscheduled_crowd(&[], is_fitted);
        let mut engine = Engine::new(setup, TestProbe::of(Levels::default())).unwrap();
        engine.advance(Time::NEVER);
        let bytes = engine.probe().inner::<Levels>().0;
        let all: u64 = bytes.iter().sum();
        bytes.map(|bytes| bytes as f64 / all as f64)
    };
    let (fitted, even) = (shares(true), shares(false));
    println!("{fitted:.3?} fitted, {even:.3?} divided evenly");
    // All packets are sent without a grant, so one level is left for granted ones.
    for share in &fitted[..7] {
        assert!((share * 7.0 - 1.0).abs() < 0.1, "{fitted:?}");
    }
    assert_eq!(fitted[7], 0.0);
    // With even division of a BDP, some levels carry most of it.
    let most = even.iter().fold(0.0, |most: f64, &share| most.max(share));
    assert!(most > 0.4, "{even:?}");
}

#[test]
fn short_messages_overtake_on_fitted_levels() {
    let of = |priorities: u64, is_fitted| {
        let set = [("priorities", Value::Integer(priorities))];
        let (finished, _) = run(unscheduled_crowd(&set, is_fitted));
        [waits(&finished, 0..1_000), waits(&finished, 30_000..60_001)]
    };
    let (fitted, even, one) = (of(8, true), of(8, false), of(1, false));
    println!("{fitted:.2?} fitted, {even:.2?} divided evenly, {one:.2?} with one priority");
    // A packet in transmission, and other messages that are as short: at a seventh of the load, few
    // packets are ahead of it.
    assert!(fitted[0][1] < 3.0, "{fitted:?}");
    assert!(even[0][1] > 1.5 * fitted[0][1], "{even:?}");
    // Without priorities they wait for the whole queue, at four fifths of a busy link.
    assert!(one[0][1] > 10.0 * fitted[0][1], "{one:?}");
}

#[test]
fn message_to_a_faster_host_is_granted_to_its_end() {
    // The receiver allows a round trip of its own link in flight, 20 and 40 times that of the
    // sender. A grant that the sender forgot would be repeated only after a timeout of 5 ms.
    for (gbps, size) in [(200, 1_000_000), (400, 1_000_000), (400, 300_000)] {
        let mut fabric = star(2, Rate::gbps(10), DELAY, MTU);
        fabric.links[1].rate = Rate::gbps(gbps);
        let setup = setup(fabric, homa(&[]), vec![flow(0, 1, size, Time::us(1))], Time::ms(20));
        let (finished, outcome) = run(setup);
        assert!(outcome.unfinished.is_empty());
        // At most packets of 1,538 B back to back, and a round trip until the first grant.
        let most = Rate::gbps(10).serialise(size * 1_538 / u64::from(MTU)) + Span::us(30);
        let took = took(&finished[0]);
        assert!(took < most, "{size} B to {gbps} Gbit/s: {took}, at most {most}");
    }
}

#[test]
fn incast_control_keeps_replies_out_of_the_queue() {
    // Forty requests of a host to eight others, each for a reply of 400 KB.
    let at_most = |requests: u64| {
        let more = [
            ("incast_requests", Value::Integer(requests)),
            ("overcommitment", Value::Integer(2)),
            ("scheduled_priorities", Value::Integer(4)),
        ];
        let mut setup = setup(star(9, RATE, DELAY, MTU), homa(&more), Vec::new(), Time::ms(4));
        let pattern = Pattern::ClosedLoop {
            clients: vec![0; 40],
            servers: (1..9).collect(),
            replies: Sizes::Fixed(400_000),
            reply_label: 1,
            think: Span::ms(1),
            exponential: false,
        };
        setup.workload.traffic = vec![Traffic {
            pattern,
            sizes: Sizes::Fixed(200),
            stack: 0,
            label: 0,
            start: Time::us(10),
            stop: setup.duration,
        }];
        let bdp = setup_bdp(&setup);
        let (finished, outcome) = run(setup);
        let replies = finished.iter().filter(|row| row.bytes == 400_000).count();
        assert!(replies > 80, "{replies} replies");
        (downlink(&outcome, 0).queue_bytes.max, bdp as f64)
    };
    let ((without, bdp), (with, _)) = (at_most(0), at_most(1));
    println!("{without} B at most without, {with} B with, BDP {bdp} B");
    // All unscheduled bytes arrive at one link in a short time: eight servers send 40 BDP in the
    // time of five.
    assert!(without > 33.0 * bdp, "{without} B without");
    // One reply starts with a BDP, two senders have one grant each, and the others send one packet.
    let most = 3.0 * bdp + 39.0 * 1_538.0;
    assert!(with < most, "{with} B with it, at most {most}");
}
