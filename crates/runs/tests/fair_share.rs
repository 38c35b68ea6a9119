//! Fair shares of whole scenarios.

use std::path::Path;

use tidegate_runs::fair_share::FairShares;
use tidegate_runs::{ProtocolEntry, load, protocols, set};
use tidegate_scenario::Plan;

fn plan(changes: &[&str]) -> Plan {
    let path =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/poseidon/multi-hop.toml"));
    let overrides: Vec<_> = changes.iter().map(|change| set(change).unwrap()).collect();
    load(path, &overrides).unwrap()
}

/// Protocols that run on any fabric; the others need circuits.
fn anywhere() -> impl Iterator<Item = ProtocolEntry> {
    protocols().into_iter().filter(|info| !info.needs.contains(&"circuit announcements"))
}

#[test]
fn two_hops_share_as_in_the_paper() {
    for protocol in anywhere() {
        let name = format!("transport.protocol={}", protocol.name);
        let plan = plan(&[&name, "transport.params={}"]);
        let shares = FairShares::of(&plan);
        let telemetry = protocol.telemetry_bytes;
        let of_wire = |hops: u32| {
            let headers = 80 + u32::from(telemetry.fixed) + u32::from(telemetry.per_hop) * hops;
            4096.0 / f64::from(4096 + headers)
        };
        // The victim and the flows of the second hop have a tenth of it each. The two flows of
        // the first hop share the rest of that.
        let (victim, first, second) = (20.0 * of_wire(3), 90.0 * of_wire(3), 20.0 * of_wire(1));
        for flow in &plan.workload.flows {
            let expected = match plan.labels[usize::from(flow.label)].as_str() {
                "victim" => victim,
                "first hop" => first,
                _ => second,
            };
            let share = shares.get(flow.src, flow.dst, flow.stack).unwrap();
            assert!(
                (share - expected).abs() < 1e-6,
                "{}: {share} against {expected}",
                protocol.name
            );
        }
    }
}

#[test]
fn shares_contain_declared_headers() {
    let plan = plan(&["transport.params.header_bytes=500"]);
    let shares = FairShares::of(&plan);
    let telemetry = plan.stacks[0].protocol().info().telemetry(3);
    let expected = 20.0 * 4096.0 / f64::from(4096 + 500 + telemetry);
    let victim = &plan.workload.flows[0];
    let share = shares.get(victim.src, victim.dst, victim.stack).unwrap();
    assert!((share - expected).abs() < 1e-6, "{share} against {expected}");
}

#[test]
fn shares_are_undefined_for_temporary_flows() {
    for change in ["flows[0].size=1MB", "flows[0].start=15ms", "flows[0].stop=15ms"] {
        let plan = plan(&[change]);
        let shares = FairShares::of(&plan);
        let known = plan
            .workload
            .flows
            .iter()
            .filter(|flow| shares.get(flow.src, flow.dst, flow.stack).is_some());
        assert_eq!(known.count(), 0, "{change}");
    }
}

#[test]
fn shares_follow_degraded_directions() {
    let degraded = |link: &str, more: &str| {
        let key = format!("faults.degraded=[{{ links = \"{link}\", share = 0.5{more} }}]");
        FairShares::of(&plan(&[&key, "transport.protocol=swift", "transport.params={}"]))
    };
    // Hosts 1 and 3: a flow of the first hop. It has 100 Gbit/s, of which the victim takes 20.
    let of_wire = 4096.0 / 4176.0;
    let of_first_hop = |shares: FairShares| shares.get(1, 3, 0);
    let there = of_first_hop(degraded("tor0-spine", ", direction = \"forward\"")).unwrap();
    let back = of_first_hop(degraded("spine-tor0", ", direction = \"forward\"")).unwrap();
    assert!((there - 40.0 * of_wire).abs() < 1e-6, "{there}");
    assert!((back - 90.0 * of_wire).abs() < 1e-6, "{back}");
    let later = degraded("tor0-spine", ", from = \"11ms\"");
    assert_eq!(of_first_hop(later), None);
}
