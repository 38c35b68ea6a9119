//! Checks that scenarios offer the configured load, relative to the configured links.

use tidegate_results::Summary;
use tidegate_runs::{RunOptions, load, protocols, run, set};

/// Messages of 200 B to 8 KB; a mean of 2,650 B.
const SIZES: &str = "size_bytes,cdf\n200,0\n1000,0.5\n8000,1\n";

const SCENARIO: &str = r#"
duration = "25ms"
warmup = "1ms"
[fabric]
kind = "leaf-spine"
racks = 4
hosts_per_rack = 4
spines = 2
mtu = "1500B"
host_link = { rate = "25Gbps", delay = "1us" }
fabric_link = { rate = "10Gbps", delay = "1us" }
[transport]
protocol = "PROTOCOL"
[[traffic]]
kind = "poisson"
label = "search"
sizes = "own.csv"
load = 0.3
[[traffic]]
kind = "incast"
label = "burst"
sizes = "2KB"
fan_in = 10
load = 0.05
"#;

fn summary(changes: &[&str]) -> Summary {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("scenario.toml");
    std::fs::write(&path, SCENARIO.replace("PROTOCOL", protocols()[0].name)).unwrap();
    std::fs::write(dir.path().join("own.csv"), SIZES).unwrap();
    let overrides: Vec<_> = changes.iter().map(|change| set(change).unwrap()).collect();
    run(&load(&path, &overrides).unwrap(), &RunOptions::default()).unwrap()
}

/// Gbit/s offered under each label.
fn offered(changes: &[&str]) -> Vec<(String, f64)> {
    let groups = summary(changes).groups.into_iter();
    groups.map(|group| (group.label, group.offered_gbps.unwrap())).collect()
}

#[track_caller]
fn within_a_per_cent(offered: &[(String, f64)], expected: &[(&str, f64)]) {
    assert_eq!(offered.len(), expected.len());
    for ((label, gbps), (name, configured)) in offered.iter().zip(expected) {
        assert_eq!(label, name);
        assert!(
            (gbps / configured - 1.0).abs() < 0.01,
            "{label}: {gbps} Gbit/s offered, {configured} configured"
        );
    }
}

#[test]
fn load_is_relative_to_host_links() {
    // 16 hosts at 25 Gbit/s.
    within_a_per_cent(&offered(&[]), &[("search", 0.3 * 400.0), ("burst", 0.05 * 400.0)]);
}

#[test]
fn load_may_use_rack_uplinks_rates_or_gaps() {
    let incast = ("burst", 0.05 * 400.0);
    // Two uplinks of 10 Gbit/s for each of four racks.
    within_a_per_cent(
        &offered(&["traffic[0].load_base=rack-uplinks", "traffic[0].load=0.9"]),
        &[("search", 0.9 * 80.0), incast],
    );
    let senders = "traffic[0].senders=[\"h[0-3]\"]";
    within_a_per_cent(
        &offered(&["traffic[0].load=0.8", senders]),
        &[("search", 0.8 * 100.0), incast],
    );
}

/// Messages within servers use no link, so those between servers have the load alone. Of fifteen
/// other hosts, three are in the server of a sender.
#[test]
fn load_is_that_of_links_beside_servers() {
    let used = |changes: &[&str]| {
        let wide = ["fabric.fabric_link.rate=400Gbps", "duration=10ms"];
        let summary = summary(&[&wide, changes].concat());
        let links = summary.links.iter().filter(|link| link.from_host);
        let used: Vec<f64> = links.map(|link| link.utilization.unwrap()).collect();
        assert_eq!(used.len(), 16);
        let offered: f64 = summary.groups.iter().map(|group| group.offered_gbps.unwrap()).sum();
        (used.iter().sum::<f64>() / 16.0, offered)
    };
    let server = "hosts.server={ hosts = 4, rate = '1Tbps', delay = '1us' }";
    let (without, on_links) = used(&[]);
    let (with, offered) = used(&[server]);
    assert!((with / without - 1.0).abs() < 0.04, "{with} with servers, {without} without");
    assert!((offered / on_links - 15.0 / 12.0).abs() < 0.05, "{offered} and {on_links} Gbit/s");
    // In turn: half of the senders are in the server of all receivers.
    let rotating = [
        "traffic[0].kind=rotating-incast",
        "traffic[0].receivers=[\"h[0-3]\"]",
        "traffic[0].senders=[\"h[0-7]\"]",
        "traffic[0].load=0.2",
    ];
    let ((without, _), (with, _)) = (used(&rotating), used(&[&rotating[..], &[server]].concat()));
    assert!((with / without - 1.0).abs() < 0.04, "{with} with servers, {without} without");
}
