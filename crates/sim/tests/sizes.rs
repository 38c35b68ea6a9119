//! Sizes of packets on the wire that protocols declare, and windows and paces that count payload,
//! compared with values computed by hand.

use crate::common::*;
use tidegate_algos::{Protocol, Stack};
use tidegate_core::params::Value;
use tidegate_core::{Extent, PacketSizes, Rate, Span, Time};
use tidegate_sim::{LinkRecord, Outcome};

const MTU: u32 = 1000;
const RATE: Rate = Rate::gbps(100);

fn sized(name: &str, header: u64, control: u64) -> Stack {
    with(stack(name), &[("header_bytes", header), ("control_bytes", control)])
}

fn with(mut stack: Stack, set: &[(&str, u64)]) -> Stack {
    set.iter().for_each(|&(name, value)| stack.set(name, Value::Integer(value)).unwrap());
    stack
}

/// Links of a star: to the switch, and from it.
fn link_of(outcome: &Outcome, host: usize) -> [&LinkRecord; 2] {
    [&outcome.links[2 * host], &outcome.links[2 * host + 1]]
}

/// Host 0 sends `bytes` to host 1 of a star of `hosts`.
fn alone(stack: Stack, bytes: u64) -> Outcome {
    let flows = vec![flow(0, 1, bytes, Time::ZERO)];
    let setup = setup(star(2, RATE, Span::us(1), MTU), stack, flows, Time::ms(10));
    let (finished, outcome) = run(equipped(setup, 1e6));
    assert_eq!(finished.len(), 1, "the message is complete");
    outcome
}

#[test]
fn windowed_packets_and_acks_have_declared_sizes() {
    let windowed = Protocol::ALL.iter().filter(|p| p.family() == "congestion control");
    for info in windowed.map(|protocol| protocol.info()) {
        // 100 full packets, and one of a byte.
        let outcome = alone(sized(info.name, 48, 60), 100 * u64::from(MTU) + 1);
        let [there, back] = [link_of(&outcome, 0)[0], link_of(&outcome, 0)[1]];
        let (data, acks) = (there.wire_bytes, back.wire_bytes);
        assert_eq!((there.packets, back.packets), (101, 101), "{}", info.name);
        // Telemetry is added to the declared sizes; switches do not change them.
        let last = (1 + 48 + info.telemetry(1)).max(60);
        let expected = 100 * (MTU + 48 + info.telemetry(1)) + last;
        assert_eq!(data, u64::from(expected), "{}", info.name);
        // Protocols with records echo those that the packet collected: of one switch.
        assert_eq!(acks, u64::from(101 * (60 + info.echo(1))), "{}", info.name);
    }
}

#[test]
fn receiver_driven_control_has_its_declared_size() {
    for name in ["sird", "dcpim"] {
        let outcome = alone(sized(name, 40, 40), 300 * u64::from(MTU));
        let [there, back] = link_of(&outcome, 0);
        // Requests or notifications leave beside the data: 300 packets.
        let control = there.packets - 300;
        assert_eq!(there.wire_bytes, 300 * 1_040 + 40 * control, "{name}");
        // dcPIM's tokens, SIRD's credit. Not all packets need one.
        assert_eq!(back.wire_bytes, 40 * back.packets, "{name}");
        assert!(back.packets > 100, "{name}: {}", back.packets);
    }
}

#[test]
fn homa_header_and_grant_exceed_the_declared_sizes() {
    // A single packet is unscheduled: 16 bytes more.
    let outcome = alone(sized("homa", 40, 40), 500);
    assert_eq!(link_of(&outcome, 1)[1].wire_bytes, 500 + 40 + 16);
    let outcome = alone(sized("homa", 40, 40), 1_000 * u64::from(MTU));
    let [there, back] = link_of(&outcome, 0);
    let unscheduled = (there.wire_bytes - 1_000 * 1_042) / 14;
    assert_eq!(there.wire_bytes, 1_000 * 1_042 + 14 * unscheduled);
    assert!((1..1_000).contains(&unscheduled), "{unscheduled}");
    // A grant has 2 bytes more; the only other packet is an acknowledgement.
    assert_eq!(back.wire_bytes, 42 * (back.packets - 1) + 40);
}

/// A credit and its packet share the link in both directions, so data has `full / (full + credit)`
/// of it. The authors' sizes: packets of 1,538 B with headers of 78 B, credits of 76 to 92 B.
#[test]
fn expresspass_share_is_that_of_credits_and_data() {
    for (credits, mean, range) in [([76, 92], 84.0, 83.5..84.5), ([40, 40], 40.0, 40.0..40.1)] {
        let sizes = [("smallest_credit", credits[0]), ("largest_credit", credits[1])];
        let stack = with(sized("expresspass", 78, 84), &sizes);
        let flows = vec![unlimited(0, 1, Time::ZERO)];
        let fabric = star(2, RATE, Span::us(1), 1_460);
        let mut setup = crediting(setup(fabric, stack, flows, Time::ms(4)));
        setup.warmup = Time::ms(1);
        let queue = setup.fabric.switches[0].credit_queue.unwrap();
        assert!((queue.share - mean / (mean + 1_538.0)).abs() < 1e-12, "{}", queue.share);
        let (_, outcome) = run(setup);
        let [data, back] = [link_of(&outcome, 1)[1], link_of(&outcome, 0)[1]];
        assert_eq!(data.wire_bytes, 1_538 * data.packets);
        let size = back.wire_bytes as f64 / back.packets as f64;
        assert!(range.contains(&size), "a credit has {size} B");
        let goal = 1_538.0 / (1_538.0 + mean);
        assert!((data.utilisation / goal - 1.0).abs() < 0.01, "{} of {goal}", data.utilisation);
    }
}

#[test]
fn protocols_beside_each_other_keep_their_sizes() {
    let flows = vec![flow(0, 1, 100_000, Time::ZERO), flow(2, 3, 100_000, Time::ZERO)];
    let fabric = star(4, RATE, Span::us(1), MTU);
    let mut setup = setup(fabric, sized("dctcp", 40, 40), flows, Time::ms(1));
    setup.stacks.push(stack("reno"));
    setup.workload.flows[1].stack = 1;
    let (finished, outcome) = run(setup);
    let wire = |host| link_of(&outcome, host).map(|link| link.wire_bytes);
    assert_eq!([wire(0), wire(2)], [[100 * 1_040, 100 * 40], [100 * 1_080, 100 * 84]]);
    let ideal = |src| finished.iter().find(|row| row.src == src).unwrap().ideal;
    // 100 packets on the first link, one on the second, and two propagation delays.
    let expected = |full: u64| RATE.serialise(full).times(101) + Span::us(2);
    assert_eq!([ideal(0), ideal(2)], [expected(1_040), expected(1_080)]);
}

/// A message of 2,500 B in packets of 1,200, 1,200 and 700 B on the wire: the second link starts
/// when the first packet has arrived and is never idle, so it takes 1,200 B of the first link, all
/// 3,100 B of the second, and two propagation delays.
#[test]
fn ideal_and_slowdown_contain_declared_headers() {
    for (header, wire) in [(200, 1_200 + 3_100), (40, 1_040 + 2_620)] {
        let mut open_loop = sized("open-loop", header, 84);
        open_loop.set("rate", Value::Rate(Rate::gbps(400))).unwrap();
        let flows = vec![flow(0, 1, 2_500, Time::ZERO)];
        let (finished, _) =
            run(setup(star(2, RATE, Span::us(1), MTU), open_loop, flows, Time::ms(1)));
        let expected = RATE.serialise(wire) + Span::us(2);
        assert_eq!(finished[0].ideal, expected, "{header} B");
        let took = finished[0].completed.unwrap() - finished[0].start;
        assert_eq!(took, expected, "a slowdown of 1 with {header} B");
    }
}

/// A connection with a constant window: DCQCN whose packets are never marked.
fn constant_window(bytes: f64, window: &'static str, pace: &'static str) -> Stack {
    let mut stack = sized("dcqcn", 250, 84);
    stack.set("max_window", Value::Extent(Extent::Bytes(bytes))).unwrap();
    stack.set("window_rule", Value::Choice("fits")).unwrap();
    stack.set("window_counts", Value::Choice(window)).unwrap();
    stack.set("pace_counts", Value::Choice(pace)).unwrap();
    stack
}

fn lone_flow(stack: Stack, receiver: Rate, delay: Span) -> (f64, Outcome) {
    let mut fabric = star(2, RATE, delay, MTU);
    fabric.links[1].rate = receiver;
    let mut setup = setup(fabric, stack, vec![unlimited(0, 1, Time::ZERO)], Time::ms(6));
    setup.warmup = Time::ms(1);
    let (finished, outcome) = run(setup);
    (goodputs(&finished, &outcome)[0], outcome)
}

/// 20,000 B are 20 packets by payload, and 16 of 1,250 B on the wire. They leave once a round trip,
/// which is far longer than their transmission.
#[test]
fn window_counts_payload_or_wire_bytes() {
    let trip = RATE.serialise(1_250).times(2) + RATE.serialise(84).times(2) + Span::us(20);
    for pace in ["wire", "payload"] {
        for (window, packets) in [("wire", 16.0), ("payload", 20.0)] {
            let (goodput, _) = lone_flow(constant_window(20e3, window, pace), RATE, Span::us(5));
            let expected = packets * 8e3 / trip.as_s_f64();
            assert!((goodput / expected - 1.0).abs() < 0.01, "{window}: {goodput} of {expected}");
        }
    }
}

/// The receiver's link has a quarter of the rate, and the window exceeds the BDP: what the path
/// does not hold is the queue. A packet and its acknowledgement take 2.5 us in all, in which the
/// link carries 6.3 packets, of which the last is in transmission and not in the queue.
#[test]
fn queue_is_the_window_beyond_the_path() {
    let slow = Rate::gbps(25);
    let trip = [(RATE, 1_250), (slow, 1_250), (slow, 84), (RATE, 84)]
        .iter()
        .fold(Span::us(2), |sum, &(rate, bytes)| sum + rate.serialise(bytes));
    let path = trip.as_s_f64() * 25e9 / 8.0;
    for (window, packets) in [("wire", 16.0), ("payload", 20.0)] {
        let stack = constant_window(20e3, window, "wire");
        let (_, outcome) = lone_flow(stack, slow, Span::ns(500));
        let queue = link_of(&outcome, 1)[1].queue_bytes.mean;
        let expected = packets * 1_250.0 - path;
        assert!((queue - expected).abs() < 1_250.0, "{window}: {queue} of {expected}");
    }
}

#[test]
fn pace_counts_payload_or_wire_bytes() {
    for (counts, expected) in [("wire", 8e9), ("payload", 10e9)] {
        let mut stack = sized("open-loop", 250, 84);
        stack.set("rate", Value::Rate(Rate::gbps(10))).unwrap();
        stack.set("pace_counts", Value::Choice(counts)).unwrap();
        let (goodput, _) = lone_flow(stack, RATE, Span::us(1));
        assert!((goodput / expected - 1.0).abs() < 1e-3, "{counts}: {goodput}");
    }
}

#[test]
fn defaults_are_the_standard_sizes() {
    for protocol in Protocol::ALL {
        assert_eq!(protocol.stack().sizes(), PacketSizes::STANDARD, "{protocol:?}");
    }
    let sizes = with(stack("expresspass"), &[("smallest_credit", 76)]).sizes();
    assert_eq!(sizes, PacketSizes { least_bytes: 76, ..PacketSizes::STANDARD });
}
