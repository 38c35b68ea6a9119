//! `tidegate import` and `export`: files of other simulators.

use std::fs;

use crate::common::{Place, answer, files};

const TOPOLOGY: &str = "4 1 3\n3\n0 3 100Gbps 1us 0\n1 3 100Gbps 1us 0\n2 3 25Gbps 1us 0\n";
const FLOW: &str = "3\n0 1 3 100 30000 0.0001\n2 1 3 100 20000 0.0001\n1 2 3 100 7 0.0002\n";

fn place() -> Place {
    let place = Place::usual();
    fs::write(place.path("topology.txt"), TOPOLOGY).unwrap();
    fs::write(place.path("flow.txt"), FLOW).unwrap();
    place
}

#[test]
fn import_and_export_round_trip() {
    let place = place();
    let [topology, flow, out, back] =
        ["topology.txt", "flow.txt", "in", "back"].map(|name| place.arg(name));
    let made = answer(&["import", "--as", "ns3", &topology, &flow, "--out", &out]);
    assert!(made.stderr.contains("warning: ") && made.stderr.contains("priority groups"));
    let output = made.ok();
    assert!(output.contains("tidegate run") && output.contains("scenario.toml"), "{output}");
    assert_eq!(files(&place.path("in")), ["flows.csv", "scenario.toml"]);
    let text = fs::read_to_string(place.path("in/scenario.toml")).unwrap();
    let folder = place.arg("");
    assert!(!text.contains(folder.trim_end_matches('/')), "a path of this machine is in {text}");
    let scenario = place.arg("in/scenario.toml");
    let summary = answer(&["run", &scenario, "--json"]).json();
    assert_eq!(summary["fct"]["all"]["count"], 3);
    assert_eq!(summary["fct"]["all"]["unfinished"], 0);

    answer(&["export", "--as", "ns3", &scenario, "--out", &back]).ok();
    for (name, text) in [("topology.txt", TOPOLOGY), ("flow.txt", FLOW)] {
        assert_eq!(fs::read_to_string(place.path("back").join(name)).unwrap(), text);
    }
    answer(&["export", "--as", "ns3", &scenario, "--out", &back]).refused(2, &["--force"]);
    answer(&["export", "--as", "edges", &scenario, "--out", &back, "--seed", "2"]).ok();
}

#[test]
fn export_names_missing_labels() {
    let flow = |label: &str| {
        format!("[[flows]]\nsrc = 'h0'\ndst = 'h1'\nsize = '20KB'\nlabel = '{label}'\n")
    };
    let place = Place::new(&(flow("a") + &flow("b")));
    let [scenario, out] = ["scenario.toml", "out"].map(|name| place.arg(name));
    let made = answer(&["export", "--as", "ns3", &scenario, "--out", &out]);
    assert!(made.stderr.contains("warning: flows are written without their labels\n"));
    made.ok();
}

#[test]
fn export_generated_flows() {
    let place = Place::new("[[traffic]]\nkind = 'poisson'\nsizes = '20KB'\nload = 0.3\n");
    let [scenario, out] = ["scenario.toml", "cm"].map(|name| place.arg(name));
    let sent = answer(&["run", &scenario, "--json"]).json();
    answer(&["export", "--as", "htsim", &scenario, "--out", &out]).ok();
    let text = fs::read_to_string(place.path("cm/flows.cm")).unwrap();
    let mut exported: Vec<(String, u64)> = Vec::new();
    for line in text.lines().skip(2) {
        let words: Vec<&str> = line.split(' ').collect();
        exported.push((words[0].to_owned(), words[4].parse().unwrap()));
    }
    let flows = sent["flows"].as_array().unwrap().iter().map(|flow| {
        let host = |key: &str| flow[key].as_str().unwrap().trim_start_matches('h').to_owned();
        let start = (flow["start_us"].as_f64().unwrap() * 1e6).round() as u64;
        (format!("{}->{}", host("src"), host("dst")), start)
    });
    let mut flows: Vec<_> = flows.collect();
    flows.sort();
    exported.sort();
    assert!(flows.len() > 10, "{}", flows.len());
    assert_eq!(exported, flows);
    // They run on any fabric with the same number of hosts.
    let [cm, other] = ["cm/flows.cm", "other"].map(|name| place.arg(name));
    let import = ["import", "--as", "htsim", &cm, "--fabric", "star", "--out", &other];
    answer(&import).ok();
    let again = answer(&["run", &place.arg("other/scenario.toml"), "--json"]).json();
    assert_eq!(again["fct"]["all"]["unfinished"], 0);
}

#[test]
fn import_and_export_errors() {
    let place = place();
    let [topology, flow, out] = ["topology.txt", "flow.txt", "in"].map(|name| place.arg(name));
    let import = |more: &[&str]| answer(&[&["import", "--out", &out][..], more].concat());
    import(&["--as", "ns4", &topology]).refused(2, &["--as", "ns3", "htsim", "edges"]);
    import(&["--as", "ns3", &flow]).refused(2, &["flow.txt:2", "found", "expected"]);
    import(&["--as", "ns3", &topology, &place.arg("gone")]).refused(2, &["gone", "no such file"]);
    import(&["--as", "ns3", &flow, "--fabric", "fat-tre"]).refused(2, &["did you mean"]);
    import(&["--as", "ns3", &topology, &flow, "--fabric", "star"]).refused(2, &["one flow file"]);
    fs::write(place.path("flow.txt"), FLOW.replace("0 1 3", "0 3 3")).unwrap();
    import(&["--as", "ns3", &topology, &flow]).refused(2, &["flow.txt:2: dst", "a switch"]);
    assert!(!place.path("in").exists());
    let scenario = place.arg("scenario.toml");
    answer(&["export", "--as", "ns3", &scenario, "--out", &out, "--seeds", "3"])
        .refused(2, &["unexpected", "--seeds"]);
    answer(&["export", "--as", "ns3", &scenario, "--out", &out]).refused(2, &["unlimited"]);
    assert!(!place.path("in").exists());
}
