//! Checks that scenarios offer the configured load, relative to the configured links.

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

/// Gbit/s offered under each label.
fn offered(changes: &[&str]) -> Vec<(String, f64)> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("scenario.toml");
    std::fs::write(&path, SCENARIO.replace("PROTOCOL", protocols()[0].name)).unwrap();
    std::fs::write(dir.path().join("own.csv"), SIZES).unwrap();
    let overrides: Vec<_> = changes.iter().map(|change| set(change).unwrap()).collect();
    let summary = run(&load(&path, &overrides).unwrap(), &RunOptions::default()).unwrap();
    summary.groups.iter().map(|group| (group.label.clone(), group.offered_gbps.unwrap())).collect()
}

#[track_caller]
fn within_a_per_cent(offered: &[(String, f64)], expected: &[(&str, f64)]) {
    assert_eq!(offered.len(), expected.len());
    for ((label, gbps), (name, asked)) in offered.iter().zip(expected) {
        assert_eq!(label, name);
        assert!((gbps / asked - 1.0).abs() < 0.01, "{label}: {gbps} Gbit/s offered, {asked} asked");
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
