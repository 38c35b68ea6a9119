//! Utilisation of a single flow on an idle link: it reaches its protocol's goal at every rate,
//! packet size and path.

use crate::common::*;
use tidegate_algos::{Protocol, Stack};
use tidegate_core::fabric::Fabric;
use tidegate_core::params::Value;
use tidegate_core::{Path, Rate, Span, Time};
use tidegate_sim::{Engine, Setup};

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
    let mut engine = Engine::new(setup, ()).unwrap();
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
