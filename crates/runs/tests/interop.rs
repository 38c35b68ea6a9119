//! Runs of imported files from other simulators, compared with calculated results.

use std::fs;

use tidegate_runs::{RunOptions, import, load, run};
use tidegate_scenario::Override;
use tidegate_scenario::interop::Format;

#[test]
fn an_imported_lone_flow_has_the_ideal_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let links = "4 2 3\n2 3\n0 2 100Gbps 1us 0\n2 3 400Gbps 500ns 0\n3 1 100Gbps 0.002ms 0\n";
    fs::write(path("topology.txt"), links).unwrap();
    fs::write(path("flow.txt"), "2\n0 1 3 100 1000 2\n1 0 3 100 50000 2.0001\n").unwrap();
    let files = [path("topology.txt"), path("flow.txt")];
    let made = import(Format::Ns3, &files, None, &path("out"), false).unwrap();
    let swift = Override::set("transport.protocol=swift").unwrap();
    let plan = load(made.files.last().unwrap(), &[swift]).unwrap();
    let summary = run(&plan, &RunOptions::default()).unwrap();
    let flows = summary.flows.as_ref().unwrap();
    let near = |measured: f64, expected: f64| (measured - expected).abs() < 1.5e-6;
    // A packet is 1,080 B on the wire: 86.4 ns at 100 Gbit/s, 21.6 ns at 400 Gbit/s.
    let packet = 0.0864 + 1.0 + 0.0216 + 0.5 + 0.0864 + 2.0;
    // The acknowledgement has 85 B, because Swift's receiver returns a byte with the number of
    // switches.
    let reply = 0.0068 + 2.0 + 0.0017 + 0.5 + 0.0068 + 1.0;
    let taken = |flow: usize| flows[flow].fct_us.unwrap().as_f64();
    assert!(near(taken(0), packet), "{}", taken(0));
    let round_trip = flows[0].acked_us.unwrap().as_f64();
    assert!(near(round_trip, packet + reply), "{round_trip}, the base RTT");
    // 49 more packets, back to back on the slowest link.
    assert!(near(taken(1), packet + 49.0 * 0.0864), "{}", taken(1));
    assert_eq!(summary.fct["all"].count, 2, "all flows are measured");
}
