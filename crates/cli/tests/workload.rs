//! `tidegate workload`: scenarios from a list of flows or a capture.

use std::fs;
use std::path::PathBuf;

use crate::common::{Place, answer, files};

fn storage() -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    path.join("../../scenarios/workload/storage.csv").to_str().unwrap().to_owned()
}

/// A short list of flows.
const LIST: &str = "src,dst,bytes,start_us,fct_us\na,b,1000,0,9\nb,a,90000,50,60\na,b,5,80,4\n";

#[test]
fn a_list_becomes_scenarios_that_run() {
    let place = Place::usual();
    let [list, out] = ["list.csv", "out"].map(|name| place.arg(name));
    fs::write(&list, LIST).unwrap();
    let made = answer(&["workload", "from", &list, "--out", &out]);
    assert!(made.stderr.contains("warning: 3 flows are too few"), "{}", made.stderr);
    let text = made.ok();
    for words in ["3 flows of 2 hosts", "Host links: 10Gbps", "No incast", "tidegate run", "KS"] {
        assert!(text.contains(words), "{words} is missing in {text}");
    }
    let names = [
        "completions.csv",
        "hosts.csv",
        "replay.toml",
        "report.html",
        "scenario.toml",
        "sizes.csv",
        "trace.csv",
        "workload.json",
    ];
    assert_eq!(files(&place.path("out")), names);
    for (name, count) in [("replay.toml", Some(3)), ("scenario.toml", None)] {
        let path = place.path("out").join(name);
        let summary = answer(&["run", path.to_str().unwrap(), "--json"]).json();
        assert_eq!(summary["fct"]["all"]["unfinished"], 0, "{name}");
        assert!(count.is_none_or(|count| summary["fct"]["all"]["count"] == count), "{name}");
    }
    answer(&["workload", "from", &list, "--out", &out]).refused(2, &["--force"]);
    let before = fs::read(place.path("out/report.html")).unwrap();
    let json = answer(&["workload", "from", &list, "--out", &out, "--force", "--json"]).json();
    assert_eq!((json["measured"]["flows"].as_u64(), json["hosts"].as_u64()), (Some(3), Some(2)));
    assert_eq!(fs::read(place.path("out/report.html")).unwrap(), before, "the same bytes");
    let written = fs::read_to_string(place.path("out/workload.json")).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&written).unwrap(), json);
}

#[test]
fn the_example_has_incasts_and_completions() {
    let place = Place::usual();
    let [out, results, page] = ["out", "replay", "times.html"].map(|name| place.arg(name));
    let text = answer(&["workload", "from", &storage(), "--out", &out]).ok();
    assert!(text.contains("Incast: ") && text.contains("fan-in 10"), "{text}");
    let page_text = fs::read_to_string(place.path("out/report.html")).unwrap();
    for words in ["Distances", "Flow sizes", "Fan-in", "Offered load over time"] {
        assert!(page_text.contains(words), "{words}");
    }
    let replay = format!("{out}/replay.toml");
    answer(&["run", &replay, "--out", &results]).ok();
    let compare = ["workload", "compare", &out, &results];
    let text = answer(&[&compare[..], &["--out", &page]].concat()).ok();
    assert!(text.contains("measured") && text.contains("completion p50"), "{text}");
    assert!(fs::read_to_string(&page).unwrap().contains("Slowdown by size, median"));
    let json = answer(&[&compare[..], &["--json"]].concat()).json();
    assert_eq!(json["series"][0], "measured");
}

#[test]
fn a_capture_becomes_scenarios() {
    let place = Place::new("[[flows]]\nsrc = 'h0'\ndst = 'h2'\nsize = '50KB'\ncount = 3\n");
    let pcap = place.arg("run.pcapng");
    place.run(&["--pcap", &pcap]).ok();
    let json = answer(&["workload", "from", &pcap, "--json", "-q"]).json();
    assert_eq!(
        (json["kind"].as_str(), json["measured"]["bytes"].as_u64()),
        (Some("capture"), Some(150_000))
    );
    let cut = fs::read(&pcap).unwrap();
    fs::write(&pcap, &cut[..cut.len() - 7]).unwrap();
    let json = answer(&["workload", "from", &pcap, "--json", "-q"]).json();
    assert_eq!(json["noted"]["cut_packets"], 1);
}

#[test]
fn wrong_input_is_refused() {
    let place = Place::usual();
    let [list, out] = ["list.csv", "out"].map(|name| place.arg(name));
    let refused = |text: &str, more: &[&str], words: &[&str]| {
        fs::write(&list, text).unwrap();
        answer(&[&["workload", "from", &list, "--out", &out], more].concat()).refused(2, words);
        assert!(!place.path("out").exists(), "{words:?}");
    };
    refused(&LIST.replace("a,b,5", "10.0.0.999,b,5"), &[], &["list.csv:4: src", "10.0.0.999"]);
    refused(&LIST.replace("bytes", "byts"), &[], &["did you mean \"bytes\""]);
    refused(&LIST.replace("start_us", "start"), &[], &["list.csv:2: start", "--time-unit"]);
    refused(&LIST.replace("90000", "1e5"), &[], &["bytes: found \"1e5\"", "a whole number"]);
    refused(LIST, &["--window", "5s..1s"], &["--window", "0s..60s"]);
    refused(LIST, &["--host-link", "fast"], &["--host-link", "fast"]);
    refused(LIST, &["--idle-gap", "7"], &["--idle-gap"]);
    refused(LIST, &["--incast-sources", "1"], &["--incast-sources", "2 to 100000"]);
    let gone = place.arg("gone.pcap");
    answer(&["workload", "from", &gone]).refused(2, &["gone.pcap", "no such file"]);
    let none = place.arg("");
    answer(&["workload", "compare", &none, &none]).refused(2, &["completions.csv"]);
}
