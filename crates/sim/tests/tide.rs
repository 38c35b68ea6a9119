//! Tide's shares and queues on links between switches, beside the fluid model of its law and beside
//! SIRD.

use crate::common::*;
use tidegate_algos::Stack;
use tidegate_core::fabric::{Ecn, Fabric, MarkAt, Node, Routing, Stamping, TelemetryResolution};
use tidegate_core::params::Value;
use tidegate_core::{Extent, Rate, Span, Time};
use tidegate_fluid::{Arrivals, Bottleneck, Feedback, Targets};
use tidegate_sim::{FlowRecord, LinkRecord, Outcome, Setup};

const RATE: Rate = Rate::gbps(100);
const MTU: u32 = 1458;

/// Telemetry and marks, as the two protocols need them.
fn configure(fabric: &mut Fabric, stamping: Stamping) {
    for switch in &mut fabric.switches {
        switch.telemetry = stamping;
        switch.ecn = Some(Ecn {
            min_bytes: 125e3,
            max_bytes: 125e3,
            max_probability: 1.0,
            at: MarkAt::Enqueue,
            core_only: true,
            per: None,
        });
    }
}

/// Permanent flows between these hosts of racks of twenty with one spine.
fn racks(stack: Stack, pairs: &[(u32, u32)], delay: Span) -> Setup {
    let mut fabric = leaf_spine(3, 20, 1, RATE, RATE, delay, MTU);
    configure(&mut fabric, Stamping::Core);
    let flows =
        pairs.iter().zip(0..).map(|(&(a, b), i)| unlimited(a, b, Time::ns(1_370 * i))).collect();
    let mut setup = setup(fabric, stack, flows, Time::ms(12));
    setup.warmup = Time::ms(4);
    setup.routing = Routing::Spray;
    setup
}

/// The link from one switch to another.
fn between(outcome: &Outcome, from: u32, to: u32) -> &LinkRecord {
    let ends = (Node::Switch(from), Node::Switch(to));
    outcome.links.iter().find(|link| (link.from, link.to) == ends).unwrap()
}

/// The law with the default parameters.
fn fluid(base_rtt_us: f64, arrivals: Arrivals) -> Targets {
    Targets {
        link: Bottleneck { gbps: 100.0, base_rtt_us },
        p_us: 12.5,
        k_us: 1.0,
        m: 0.1,
        rates_gbps: (0.1, 400.0),
        feedback: Feedback::Delayed { forward_us: base_rtt_us / 4.0 },
        arrivals,
    }
}

#[test]
fn flows_over_one_link_rest_where_the_fluid_does() {
    for (flows, delay_ns) in [(2, 1_000), (4, 500), (16, 500), (4, 1_000)] {
        let pairs: Vec<_> = (0..flows).map(|i| (i, 20 + i)).collect();
        let setup = racks(stack("tide"), &pairs, Span::ns(delay_ns));
        let (finished, outcome) = run(setup);
        let base_rtt_us = delay_ns as f64 * 8e-3;
        let model = fluid(base_rtt_us, Arrivals::Clocked);
        let core = between(&outcome, 0, 3);
        let queue = core.queue_bytes.mean / 1e3;
        let expected = model.equilibrium_kb(f64::from(flows));
        let used = core.wire_bytes as f64 / RATE.bytes_in(Span::ms(8)) as f64;
        let jain = jain(&goodputs(&finished, &outcome));
        let case = format!(
            "{flows} flows, {base_rtt_us} us: {queue:.1} KB for {expected:.1}, {used:.4} of the \
             link, Jain {jain:.4}"
        );
        println!("{case}");
        assert!((queue / expected - 1.0).abs() < 0.1, "{case}");
        assert!(used > 0.99 && jain > 0.995, "{case}");
    }
}

/// Four flows rest at 0.9 times the longest round trip, queue included, at which the fluid with
/// clocked arrivals is stable, and oscillate at 1.1 times. Paced flows would oscillate at both.
#[test]
fn packets_are_stable_as_far_as_the_clocked_fluid() {
    let target_us = fluid(1.0, Arrivals::Clocked).target_us(25.0);
    let [paced, clocked] = [Arrivals::Paced, Arrivals::Clocked]
        .map(|arrivals| fluid(1.0, arrivals).longest_stable_us());
    let swing = |round_trip_us: f64| {
        // A full packet waits for its own bytes at each of four links.
        let links_us = round_trip_us - target_us - 4.0 * 0.1232;
        let pairs: Vec<_> = (0..4).map(|i| (i, 20 + i)).collect();
        let setup = racks(stack("tide"), &pairs, Span::from_ps_f64(links_us / 8.0 * 1e6));
        let (_, outcome) = run(setup);
        let most = between(&outcome, 0, 3).queue_delay_us.max / target_us;
        println!("{round_trip_us:.1} us: the longest delay is {most:.2} targets");
        most
    };
    println!("fluid: stable up to {paced:.2} us if paced, {clocked:.2} us if clocked");
    assert!(paced < 0.8 * clocked, "{paced} {clocked}");
    let [below, above] = [0.9, 1.1].map(|share| swing(share * clocked));
    assert!(below < 1.25 && above > 1.6, "{below} {above}");
}

/// Goodput of the first flow, over two congested hops, as a part of its max-min share. `one` and
/// `two` flows of other hosts cross one of the two hops each.
fn victim(stack: Stack, (one, two): (u32, u32)) -> f64 {
    let mut pairs = vec![(0, 40)];
    pairs.extend((1..=one).map(|i| (i, 20 + i)));
    pairs.extend((1..=two).map(|i| (30 + i, 40 + i)));
    let (finished, outcome) = run(racks(stack, &pairs, Span::ns(500)));
    let payload = 100e9 * f64::from(MTU) / f64::from(MTU + 82);
    goodputs(&finished, &outcome)[0] * f64::from(one.max(two) + 1) / payload
}

#[test]
fn flow_over_two_congested_hops_gets_its_share() {
    for others in [(1, 1), (2, 2), (9, 2), (2, 9), (9, 9)] {
        let [tide, sird] = ["tide", "sird"].map(|protocol| victim(stack(protocol), others));
        println!("{others:?}: {tide:.3} of the share, SIRD {sird:.3}");
        assert!((0.93..1.07).contains(&tide), "{others:?}: {tide}");
        // The control: equal queues on both hops mark the flow twice as often.
        if others.0 == others.1 && others.0 > 1 {
            assert!(sird < 0.8, "{others:?}: SIRD {sird}");
        }
    }
}

/// The range of targets changes the length of a round trip by up to two thirds of a packet's share.
/// Between whole numbers of packets, nearest numbers make queues oscillate.
#[test]
fn mean_credit_gives_a_share_without_whole_packets() {
    let least = |rounding: &'static str| {
        let shares = [20, 22, 24, 26].map(|p_us| {
            let mut stack = stack("tide");
            stack.set("p", Value::Span(Span::us(p_us))).unwrap();
            stack.set("rounding", Value::Choice(rounding)).unwrap();
            victim(stack, (9, 9))
        });
        println!("{rounding}: {shares:.3?}");
        shares.into_iter().fold(f64::INFINITY, f64::min)
    };
    let [nearest, mean] = ["nearest", "time-average"].map(least);
    assert!(mean > 0.97 && nearest < 0.95, "{nearest} {mean}");
}

/// Permanent flows over one link between two racks, whose round trip without a queue takes 4 us,
/// with packets of 4,096 bytes, the second `later_ns` after the first.
fn pairs(flows: u32, jitter: f64, later_ns: u64) -> (f64, Vec<f64>) {
    let mut fabric = leaf_spine(2, flows, 1, RATE, RATE, Span::ns(500), 4_096);
    configure(&mut fabric, Stamping::Core);
    let start = |i: u32| Time::ns(later_ns * u64::from(i));
    let pairs = (0..flows).map(|i| unlimited(i, flows + i, start(i))).collect();
    let mut stack = stack("tide");
    stack.set("jitter", Value::Number(jitter)).unwrap();
    let mut setup = setup(fabric, stack, pairs, Time::ms(30));
    setup.warmup = Time::ms(10);
    setup.routing = Routing::Spray;
    let (finished, outcome) = run(setup);
    let used = between(&outcome, 0, 2).wire_bytes as f64 / RATE.bytes_in(Span::ms(20)) as f64;
    (used, goodputs(&finished, &outcome))
}

/// With less than a packet in a round trip, packets of equal intervals would keep the groups in
/// which they started.
#[test]
fn random_waits_fill_a_link_with_single_packets() {
    for flows in [60, 80, 150] {
        let (used, goodputs) = pairs(flows, 0.25, 1_370);
        let jain = jain(&goodputs);
        println!("{flows} flows: {used:.4} of the link, Jain {jain:.4}");
        assert!(used > 0.995 && jain > 0.998, "{flows} flows: {used} of the link, Jain {jain}");
    }
}

/// Two flows whose packets repeat one order keep unequal rates.
#[test]
fn random_waits_reach_a_more_equal_order() {
    let slowest = |jitter| {
        let shares = [100, 370, 1_370, 13_370].map(|later_ns| {
            let (_, goodputs) = pairs(2, jitter, later_ns);
            2.0 * f64::min(goodputs[0], goodputs[1]) / (goodputs[0] + goodputs[1])
        });
        println!("jitter {jitter}: {shares:.3?}");
        shares.into_iter().fold(1.0, f64::min)
    };
    let [without, with] = [0.0, 0.25].map(slowest);
    assert!(with > 0.95 && without < 0.93, "{without} {with}");
}

/// The receiver schedules its own downlink: a queue of two BDPs there, which the budget allows, is
/// no congestion of the network. Stamped, it would be: four flows rest at T(25 Gbit/s).
#[test]
fn queue_of_the_downlink_does_not_count() {
    let queue = |stamping| {
        let mut stack = stack("tide");
        stack.set("budget", Value::Extent(Extent::Bdp(3.0))).unwrap();
        stack.set("credit_pacing", Value::Flag(false)).unwrap();
        let mut setup = racks(stack, &[(21, 20), (22, 20), (23, 20), (24, 20)], Span::ns(500));
        configure(&mut setup.fabric, stamping);
        let bdp = 50e3;
        setup.bdp_bytes = Some(bdp);
        let (_, outcome) = run(setup);
        let to_host = |link: &&LinkRecord| link.to == Node::Host(20);
        outcome.links.iter().find(to_host).unwrap().queue_bytes.mean / bdp
    };
    let (core, all) = (queue(Stamping::Core), queue(Stamping::All));
    println!("{core:.3} BDP queued at the downlink, {all:.3} if it is stamped");
    assert!((2.0..2.7).contains(&core), "{core}");
    assert!((all * 50e3 / 64.6e3 - 1.0).abs() < 0.1, "{all}");
}

/// One of four pairs also sends 30 Gbit/s of unscheduled messages, which overtake the queue. Their
/// short delays must not raise the share of its long flow: it got 4 times that of the others.
#[test]
fn unscheduled_messages_do_not_change_a_pairs_share() {
    let pairs: Vec<_> = (0..4).map(|i| (i, 20 + i)).collect();
    // Under round-robin, senders spend unscheduled credit on scheduled packets, and vice versa.
    for (policy, most) in [("srpt", 1.1), ("round-robin", 1.5)] {
        let mut stack = stack("tide");
        stack.set("sender_policy", Value::Choice(policy)).unwrap();
        let mut setup = racks(stack, &pairs, Span::ns(500));
        let short = (0..4_500).map(|i| flow(0, 20, 10_000, Time::ZERO + Span::ns(2_667).times(i)));
        setup.workload.flows.extend(short);
        let (_, outcome) = run(setup);
        let long = |src| {
            let is_long = |record: &&FlowRecord| record.src == src && record.bytes > 10_000;
            outcome.unfinished.iter().find(is_long).unwrap().goodput_bps().unwrap() / 1e9
        };
        let (mixed, others) = (long(0), (1..4).map(long).sum::<f64>() / 3.0);
        let case = format!("{policy}: {mixed:.1} beside short messages, {others:.1} for others");
        println!("{case}");
        assert!((0.9..most).contains(&(mixed / others)) && others > 13.0, "{case}");
    }
}

/// With room for less than a packet in a round trip, the time of the next credit follows the last
/// scheduled data. Unscheduled packets return the credit that their sender took, but none that was
/// issued: they must not postpone the next credit. Messages of several packets count as outstanding
/// until they have arrived.
#[test]
fn unscheduled_packets_do_not_stop_a_slow_pair() {
    for (bytes, interval, least) in [(1_000, Span::us(5), 0.8), (10_000, Span::us(60), 0.5)] {
        let pairs: Vec<_> = (0..200).map(|i| (i % 20, 20 + (i + i / 20) % 20)).collect();
        let mut stack = stack("tide");
        stack.set("network_floor", Value::Number(0.001)).unwrap();
        let mut setup = racks(stack, &pairs, Span::ns(500));
        let count = Span::ms(12).as_ps() / interval.as_ps();
        let short = (0..count).map(|i| flow(0, 20, bytes, Time::ZERO + interval.times(i)));
        setup.workload.flows.extend(short);
        let (_, outcome) = run(setup);
        let goodput = |record: &FlowRecord| record.goodput_bps().unwrap() / 1e9;
        let long = outcome.unfinished.iter().filter(|record| record.bytes > bytes);
        let (mixed, others): (Vec<&FlowRecord>, Vec<_>) =
            long.partition(|record| (record.src, record.dst) == (0, 20));
        let mean = others.iter().copied().map(goodput).sum::<f64>() / others.len() as f64;
        assert_eq!((mixed.len(), others.len()), (1, 199));
        println!("{bytes} B: {:.3} Gbit/s beside messages, {mean:.3} without", goodput(mixed[0]));
        assert!(goodput(mixed[0]) > least * mean, "{} {mean}", goodput(mixed[0]));
    }
}

/// Ten senders behind a congested link and nine in the receiver's rack share its downlink: credit
/// in the queue between the racks leaves room for the nine.
#[test]
fn queue_between_switches_does_not_use_up_the_budget() {
    let far = (0..10).map(|i| (i, 20));
    let near = (21..30).map(|i| (i, 20));
    let others = (10..19).map(|i| (i, 20 + i));
    let pairs: Vec<_> = far.chain(near).chain(others).collect();
    let (_, outcome) = run(racks(stack("tide"), &pairs, Span::ns(500)));
    let downlink = outcome.links.iter().find(|link| link.to == Node::Host(20)).unwrap();
    let used = downlink.wire_bytes as f64 / RATE.bytes_in(Span::ms(8)) as f64;
    println!("{used:.4} of the downlink");
    assert!(used > 0.97, "{used}");
}

/// The mean queue of a link between switches under telemetry of this resolution, in KB.
fn queue_under(resolution: TelemetryResolution) -> f64 {
    let mut setup = racks(stack("tide"), &[(0, 20), (1, 21)], Span::us(1));
    for switch in &mut setup.fabric.switches {
        switch.telemetry_resolution = resolution;
    }
    between(&run(setup).1, 0, 3).queue_bytes.mean / 1e3
}

#[test]
fn coarse_telemetry_lengthens_queues() {
    let exact = queue_under(TelemetryResolution::EXACT);
    for (quantum, period) in [(Span::ms(1), Span::ZERO), (Span::ZERO, Span::ms(1))] {
        let coarse = queue_under(TelemetryResolution { quantum, period });
        assert!(coarse > 1.5 * exact, "{coarse} KB, {exact} KB under exact telemetry");
    }
}
