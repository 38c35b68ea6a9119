//! Utilisation of a single flow on an idle link: it reaches its protocol's goal at every rate,
//! packet size and path.

use crate::common::*;
use tidegate_algos::{Protocol, Stack};
use tidegate_core::fabric::{Fabric, Node, StackTime};
use tidegate_core::faults::{Failing, Faults, Outage};
use tidegate_core::params::Value;
use tidegate_core::{Extent, Path, Rate, Span, Time};
use tidegate_sim::Setup;

/// Results of a single flow.
struct Seen {
    /// Share of the measured window in which the receiver's link was busy.
    utilisation: f64,
    path: Path,
}

/// A flow over two links and a switch, measured over a hundred round trips after a hundred others.
fn alone(stack: Stack, rate: Rate, mtu: u32, delay: Span) -> Seen {
    let fabric: Fabric = star(2, rate, delay, mtu);
    let pipe = rate.bytes_in(delay.times(4)) as f64 + 3.0 * f64::from(mtu);
    let warmup = Time::ZERO + delay.times(400) + rate.serialise(u64::from(mtu)).times(200);
    let end = warmup + (warmup - Time::ZERO);
    let flows = vec![unlimited(0, 1, Time::ZERO)];
    let setup = Setup { warmup, ..setup(fabric, stack, flows, end) };
    let setup = equipped(setup, 1.25 * pipe);
    let mut engine = unobserved(setup, 1).unwrap();
    let path = engine.paths().path(0, 1);
    engine.advance(end);
    // Link 1 belongs to the receiver; its second direction leads there.
    Seen { utilisation: engine.finish().unwrap().links[3].utilisation, path }
}

/// Tolerance: one packet among the hundreds that are measured.
const TOLERANCE: f64 = 0.01;

#[test]
fn lone_flow_reaches_its_utilisation_goal() {
    for &protocol in Protocol::ALL {
        for gbps in [10, 25, 100, 400] {
            for (mtu, delay) in [(1000, 1), (1000, 10), (4096, 1), (4096, 10)] {
                let (rate, delay) = (Rate::gbps(gbps), Span::us(delay));
                let mut stack = protocol.stack();
                let mut seen = alone(stack.clone(), rate, mtu, delay);
                let case = format!("{} at {rate}, {mtu} B, links of {delay}", protocol.info().name);
                if protocol.info().name == "swift" && delay == Span::us(10) {
                    // Its target is a constant for a fabric. Below the base RTT it starves the
                    // flow, and the protocol warns of this.
                    assert!(seen.utilisation < 0.5, "{case}: {}", seen.utilisation);
                    let warning =
                        |stack: &Stack| stack.operating_point(&seen.path, 1e9).domain_warning();
                    assert!(warning(&stack).is_some(), "{case}");
                    stack.set("base_target", Value::Span(Span::us(65))).unwrap();
                    assert_eq!(warning(&stack), None, "{case}");
                    seen = alone(stack.clone(), rate, mtu, delay);
                }
                let goal = stack.operating_point(&seen.path, 1e9).utilisation_goal;
                // Credit of at most a BDP is a whole number of packets.
                let grain = f64::from(seen.path.full_wire_bytes) / seen.path.bdp_bytes;
                let credited = protocol.family() == "receiver-driven";
                let short = if credited { grain } else { 0.0 };
                println!("{case}: {:.4} of {goal:.4}", seen.utilisation);
                assert!(
                    seen.utilisation >= goal - short - TOLERANCE,
                    "{case}: {}",
                    seen.utilisation
                );
                assert!(seen.utilisation <= goal + TOLERANCE, "{case}: {}", seen.utilisation);
            }
        }
    }
}

#[test]
fn window_rule_limits_short_paths() {
    // A window of one BDP that is not a whole number of packets.
    let utilisation = |rule| {
        let mut stack = stack("powertcp");
        stack.set("window_rule", Value::Choice(rule)).unwrap();
        alone(stack, Rate::gbps(10), 1000, Span::us(1)).utilisation
    };
    assert!(utilisation("fits") < 0.9, "{}", utilisation("fits"));
    assert!(utilisation("below") > 0.99, "{}", utilisation("below"));
}

/// Starts at a window of two packets and is measured between two times, in base RTTs.
/// Acknowledgements return at the rate of the NIC.
fn growing(stack: &Stack, rtts: [u64; 2]) -> f64 {
    let (rate, delay) = (Rate::gbps(100), Span::us(10));
    let mut stack = stack.clone();
    stack.set("initial_window", Value::Extent(Extent::Bytes(2.0 * 4176.0))).unwrap();
    let [warmup, end] = rtts.map(|n| Time::ZERO + delay.times(4 * n));
    let flows = vec![unlimited(0, 1, Time::ZERO)];
    let fabric = star(2, rate, delay, 4096);
    let setup = Setup { warmup, ..setup(fabric, stack, flows, end) };
    let mut engine = unobserved(equipped(setup, 625_000.0), 1).unwrap();
    engine.advance(end);
    engine.finish().unwrap().links[3].utilisation
}

/// Slow start doubles the window in a round trip (RFC 5681, section 3.1); Poseidon and PowerTCP
/// multiply it, too. From two packets to the 121 of a BDP, that takes six round trips; two packets
/// more in each would take sixty.
#[test]
fn lone_flow_grows_by_a_factor_per_round_trip() {
    for name in ["dctcp", "reno", "retcp", "poseidon", "powertcp"] {
        let of = stack(name);
        assert!(growing(&of, [0, 4]) < 0.3, "{name} starts with {}", growing(&of, [0, 4]));
        assert!(growing(&of, [10, 20]) > 0.9, "{name} has {}", growing(&of, [10, 20]));
    }
}

/// RTTs exclude the time in which hosts hold packets and in which a receiver waits for more of them
/// to acknowledge. A window that blocked the sender then still counts as the limit.
#[test]
fn held_packets_keep_no_window_small() {
    for name in ["dctcp", "reno", "poseidon", "swift", "powertcp", "theta-powertcp", "hpcc"] {
        for (stack_us, ack_every) in [(0, 4), (2, 1), (5, 1), (5, 4)] {
            let (rate, delay) = (Rate::gbps(100), Span::us(1));
            let mut stack = stack(name);
            stack.set("initial_window", Value::Extent(Extent::Bytes(4_000.0))).unwrap();
            stack.set("ack_every", Value::Integer(ack_every)).unwrap();
            let flows = vec![unlimited(0, 1, Time::ZERO)];
            let mut setup = setup(star(2, rate, delay, 1000), stack, flows, Time::ms(8));
            setup.warmup = Time::ms(6);
            setup.stack_time = StackTime { delay: Span::us(stack_us), ..StackTime::default() };
            setup.bdp_bytes = Some(rate.bytes_in(Span::us(10 + 2 * stack_us)) as f64);
            let mut engine = unobserved(equipped(setup, 1e6), 1).unwrap();
            engine.advance(Time::ms(8));
            let utilisation = engine.finish().unwrap().links[3].utilisation;
            println!("{name}, {stack_us} us, {ack_every}: {utilisation:.3}");
            assert!(utilisation > 0.6, "{name}, {stack_us} us, {ack_every}: {utilisation}");
        }
    }
}

/// A timeout leaves a window of lost packets. Round trips do not last until the reduced rate has
/// sent all of them again.
#[test]
fn flow_recovers_after_an_outage() {
    for name in ["hpcc", "powertcp", "poseidon", "dctcp", "reno"] {
        let (rate, delay) = (Rate::gbps(100), Span::us(10));
        let flows = vec![unlimited(0, 1, Time::ZERO)];
        let mut setup = setup(star(2, rate, delay, 4096), stack(name), flows, Time::ms(6));
        let (of, down, up) = (Failing::Link(1), Time::us(500), Time::us(2_500));
        setup.faults = Faults { outages: vec![Outage { of, down, up }], ..Faults::default() };
        // After the doubled timeouts, the first retransmission leaves at 3.5 ms.
        setup.warmup = Time::ms(5);
        let mut engine = unobserved(setup, 1).unwrap();
        engine.advance(Time::ms(6));
        let utilisation = engine.finish().unwrap().links[3].utilisation;
        assert!(utilisation > 0.9, "{name}: {utilisation}");
    }
}

/// Shares below a packet: one packet of each flow is in flight, sent at the window over the base
/// RTT.
#[test]
fn flows_with_windows_below_a_packet_are_equal() {
    for name in ["powertcp", "theta-powertcp"] {
        for (flows, mtu) in [(20, 4096), (40, 4096), (160, 1000)] {
            let fabric = star(flows + 1, Rate::gbps(25), Span::us(1), mtu);
            let all = (0..flows).map(|host| unlimited(host, flows, Time::ZERO)).collect();
            let mut setup = setup(fabric, stack(name), all, Time::ms(15));
            setup.warmup = Time::ms(5);
            let (finished, outcome) = run(setup);
            let rates = goodputs(&finished, &outcome);
            assert!(jain(&rates) > 0.98, "{name}, {flows} of {mtu} B: {}", jain(&rates));
            let sum = rates.iter().sum::<f64>() / 25e9;
            assert!(sum > 0.8, "{name}, {flows} of {mtu} B: {sum} of the link");
        }
    }
}

/// A path is congested by more than the queue of a lone flow, also if its links are slower than the
/// NIC.
#[test]
fn lone_flows_with_plb_keep_their_path() {
    for name in ["hpcc", "powertcp", "theta-powertcp", "poseidon", "swift"] {
        for (rule, rate) in [("htsim", 100), ("rounds", 100), ("htsim", 40), ("rounds", 40)] {
            let (nic, uplink) = (Rate::gbps(100), Rate::gbps(rate));
            let fabric = leaf_spine(2, 1, 4, nic, uplink, Span::us(1), 1_000);
            let mut stack = stack(name);
            stack.set("plb", Value::Choice(rule)).unwrap();
            let flows = vec![unlimited(0, 1, Time::ZERO)];
            let mut setup = setup(fabric, stack, flows, Time::ms(3));
            // A start at the NIC's rate congests a slower path.
            setup.warmup = if rate < 100 { Time::ms(1) } else { Time::ZERO };
            let (_, outcome) = run(setup);
            let uplinks = outcome.links.iter().filter(|link| link.from == Node::Switch(0));
            let used = uplinks.filter(|link| link.to != Node::Host(0) && link.packets > 0);
            assert_eq!(used.count(), 1, "{name}, {rule}, {rate} Gbit/s");
        }
    }
}
