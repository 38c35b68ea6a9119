//! `tidegate run`: output, files and errors.

use std::fs;
use std::process::Stdio;

use crate::common::{Place, answer, files, protocols, steady, tidegate};
use serde_json::Value;

#[test]
fn run_prints_tables() {
    let place = Place::usual();
    let text = place.run(&[]).ok();
    for word in
        ["three hosts", "goodput Gbps", "long", "Busiest switch ports", "packet-hops", "digest"]
    {
        assert!(text.contains(word), "`{word}` is missing in:\n{text}");
    }
    assert_eq!(files(&place.path("")), ["scenario.toml"], "without --out nothing is written");
}

#[test]
fn json_equals_summary_file() {
    let place = Place::usual();
    let out = place.arg("a/b");
    let stdout = place.run(&["--json", "--out", &out]).ok();
    assert_eq!(stdout.as_bytes(), fs::read(place.path("a/b/summary.json")).unwrap());
    assert_eq!(files(&place.path("a/b")), ["flows.parquet", "manifest.json", "summary.json"]);
}

#[test]
fn summary_content() {
    let summary = Place::usual().run(&["--json"]).json();
    assert_eq!(summary["schema"], 1);
    assert_eq!(summary["name"], "three hosts");
    assert_eq!(summary["flows"].as_array().unwrap().len(), 7);
    let fct = &summary["fct"]["all"];
    assert_eq!((&fct["count"], &fct["unfinished"]), (&Value::from(5), &Value::from(0)));
    assert!(fct["slowdown"]["p50"].as_f64().unwrap() >= 1.0);
    assert_eq!(summary["fct"]["long"]["count"], 0);
    assert!(summary["fct"]["long"]["p50_us"].is_null());
    let sum = |key: &str| {
        summary["flows"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|flow| flow[key].as_f64())
            .sum::<f64>()
    };
    assert!(sum("delivered_bytes") >= 100_000.0);
    assert_eq!(summary["links"].as_array().unwrap().len(), 6);
    assert_eq!(summary["switches"][0]["name"], "s0");
}

#[test]
fn manifest_content() {
    let place = Place::usual();
    place.run(&["--out", &place.arg("out"), "--seed", "7"]).ok();
    let text = fs::read_to_string(place.path("out/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(manifest["seed"], 7);
    assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
    for key in ["git_revision", "scenario", "scenario_hash", "semantics", "host", "wall_seconds"] {
        assert!(!manifest[key].is_null(), "{key} is missing");
    }
    let folder = place.arg("");
    assert!(!text.contains(folder.trim_end_matches('/')), "a path of this machine is in {text}");
}

#[test]
fn manifest_runs_again() {
    let racks =
        Place::usual().on("kind = \"leaf-spine\"\nracks = 3\nhosts_per_rack = 1\nspines = 2\n");
    for place in [Place::usual(), racks] {
        let (out, again) = (place.arg("out"), place.arg("again"));
        let seed = i64::MAX.to_string();
        place.run(&["--out", &out, "--set", "switch.buffer=1MB", "--seed", &seed]).ok();
        answer(&["run", &place.arg("out/manifest.json"), "--out", &again]).ok();
        let read = |name: &str| fs::read(place.path(name)).unwrap();
        assert_eq!(read("out/flows.parquet"), read("again/flows.parquet"));
        let json = |name: &str| serde_json::from_slice::<Value>(&read(name)).unwrap();
        assert_eq!(steady(json("out/summary.json")), steady(json("again/summary.json")));
        let manifest = |folder: &str| {
            let manifest = json(&format!("{folder}/manifest.json"));
            (manifest["scenario_hash"].clone(), manifest["scenario"].clone())
        };
        assert_eq!(manifest("out"), manifest("again"));
    }
}

#[test]
fn json_without_a_scenario_is_refused() {
    let place = Place::usual();
    place.run(&["--out", &place.arg("out")]).ok();
    let summary = place.arg("out/summary.json");
    answer(&["run", &summary]).refused(2, &[&summary, "without a scenario", "manifest of a run"]);
}

#[test]
fn run_is_deterministic_over_threads() {
    let place =
        Place::usual().on("kind = \"leaf-spine\"\nracks = 3\nhosts_per_rack = 1\nspines = 2\n");
    let run = |out: &str, how: [&str; 2], threads: u64| {
        let args = ["--json", how[0], how[1], "--out", &place.arg(out)];
        let summary = place.run(&args).json();
        assert_eq!(summary["engine"]["threads"], threads, "{how:?}");
        (steady(summary), fs::read(place.path(out).join("flows.parquet")).unwrap())
    };
    // The fabric is too small for a second thread, so partitions are set explicitly.
    let first = run("a", ["--threads", "1"], 1);
    assert_eq!(first, run("b", ["--threads", "4"], 1));
    assert_eq!(first, run("c", ["--partitions", "2"], 2));
    assert_eq!(first, run("d", ["--partitions", "3"], 3));
    place.run(&["--partitions", "4"]).refused(1, &["--partitions 4", "into 3 at most"]);
}

#[test]
fn set_and_seed() {
    let place = Place::usual();
    let summary = place
        .run(&["--json", "--set", "duration=200us", "--set", "name=\"other\"", "--seed", "9"])
        .json();
    assert_eq!(summary["name"], "other");
    assert_eq!(summary["seed"], 9);
    assert_eq!(summary["sim_seconds"], 200e-6);
}

#[test]
fn summary_omits_many_flows() {
    let place = Place::new(
        "[[flows]]\nsrc = \"h0\"\ndst = \"h2\"\nsize = \"1KB\"\nstart = \"60us\"\ncount = 1001\n",
    );
    let summary = place.run(&["--json"]).json();
    assert_eq!(summary["flows_in"], "flows.parquet");
    assert!(summary.get("flows").is_none());
    assert_eq!(summary["fct"]["all"]["count"], 1001);
    assert!(place.run(&[]).ok().contains("slowdown p50"), "many flows are shown in groups");
}

#[test]
fn run_needs_force_to_overwrite() {
    let place = Place::usual();
    let out = place.arg("out");
    place.run(&["--out", &out]).ok();
    let before = fs::read(place.path("out/summary.json")).unwrap();
    place.run(&["--out", &out, "--seed", "2"]).refused(2, &["--out", "--force"]);
    assert_eq!(before, fs::read(place.path("out/summary.json")).unwrap());
    place.run(&["--out", &out, "--seed", "2", "--force"]).ok();
    assert_ne!(before, fs::read(place.path("out/summary.json")).unwrap());
}

#[test]
fn wrong_scenario_leaves_no_files() {
    let place = Place::new("[[flows]]\nsrc = \"h0\"\ndst = \"h9\"\n");
    place.run(&["--out", &place.arg("out")]).refused(2, &["scenario.toml", "h9"]);
    assert_eq!(files(&place.path("")), ["scenario.toml"]);
    answer(&["run", &place.arg("missing.toml")]).refused(2, &["missing.toml"]);
    fs::write(place.path("scenario.toml"), "name = ").unwrap();
    place.run(&[]).refused(2, &["scenario.toml"]);
}

#[test]
fn wrong_command_line_names_option() {
    let place = Place::usual();
    place.run(&["--set", "duration"]).refused(2, &["--set"]);
    place.run(&["--set", "duration=soon"]).refused(2, &["--set", "duration", "soon"]);
    place.run(&["--set", "durration=1ms"]).refused(2, &["--set", "durration"]);
    place.run(&["--seed", "x"]).refused(2, &["--seed"]);
    place.run(&["--threads", "0"]).refused(2, &["--threads"]);
    place.run(&["--force"]).refused(2, &["--out"]);
    place.run(&["--fast"]).refused(2, &["--fast"]);
    place.run(&["--out", &place.arg("scenario.toml")]).refused(2, &["--out"]);
    answer(&["walk"]).refused(2, &["walk"]);
    answer(&[]).refused(2, &["Usage"]);
}

#[test]
fn closed_pipe() {
    let mut child =
        tidegate(&["schema"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
}

#[cfg(unix)]
#[test]
fn interrupted_run_leaves_no_files() {
    let place = Place::usual();
    let scenario = place.arg("scenario.toml");
    let out = place.arg("out");
    let mut child =
        tidegate(&["run", &scenario, "--set", "duration=1000s", "--out", &out, "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
    // The first file shows that the run has started.
    while files(&place.path("out")).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, b"");
    assert_eq!(files(&place.path("")), ["scenario.toml"]);
}

/// Five hosts at one switch, each of which sends 100 KB messages at random times.
fn poisson(load: &str) -> Place {
    let place = Place::usual();
    let text = fs::read_to_string(place.path("scenario.toml")).unwrap();
    let (protocol, _) = text.split_once("[[flows]]").unwrap();
    let (_, protocol) = protocol.split_once("[transport]").unwrap();
    let text = format!(
        "duration = \"1ms\"\nwarmup = \"100us\"\ndrain = \"5ms\"\n\
         [fabric]\nkind = \"star\"\nhosts = 5\n[transport]{protocol}\n\
         [[traffic]]\nkind = \"poisson\"\nsizes = \"100KB\"\n{load}\n"
    );
    fs::write(place.path("scenario.toml"), text).unwrap();
    place
}

#[test]
fn heading_names_conditions() {
    let place = poisson("load = 0.5");
    let set = ["--set", "switch.routing=spray", "--set", "switch.priorities=1"];
    for text in [
        place.run(&set).ok(),
        place.call("compare", &[&["--protocols", &protocols()[0]], &set[..]].concat()).ok(),
    ] {
        assert!(text.contains("\nrouting spray; 1 priority; switch buffer"), "{text}");
    }
    let usual = place.run(&[]).ok();
    assert!(usual.contains("; 8 priorities; "), "{usual}");
    let odd = place.run(&["--set", "warmup=999us"]).ok();
    assert!(odd.contains(": 1 ms, measured from 0.999 ms\n"), "{odd}");
}

#[test]
fn heading_names_fixed_rates() {
    let list = answer(&["protocols", "--json"]).json();
    let sends = |protocol: &Value| {
        let parameters = protocol["parameters"].as_array().unwrap();
        parameters.iter().any(|parameter| parameter["name"] == "rate")
    };
    let open = list.as_array().unwrap().iter().find(|protocol| sends(protocol)).unwrap();
    let name = open["name"].as_str().unwrap();
    let place = poisson("load = 0.5");
    let set = format!("protocols.{name}.params.rate=7Gbps");
    let text = place.call("compare", &["--protocols", name, "--set", &set]).ok();
    assert!(text.contains(&format!("each {name} connection sends 7 Gbps\n")), "{text}");
    assert!(!place.run(&[]).ok().contains(" connection sends "));
}

#[test]
fn table_shows_deviating_load() {
    let summary = poisson("load = 0.5").run(&["--json"]).json();
    let group = &summary["groups"][0];
    let (drawn, set) =
        (group["offered_gbps"].as_f64().unwrap(), group["asked_gbps"].as_f64().unwrap());
    assert!((set - 250.0).abs() < 1e-6 && drawn != set, "{set} {drawn}");
    // About sixty messages are rarely within 5 % of the configured load; thousands always are.
    let few = poisson("load = 0.5").run(&["--set", "traffic[0].sizes=500KB"]).ok();
    assert!(few.contains(" (configured 250)"), "{few}");
    let many = poisson("load = 0.5").run(&["--set", "traffic[0].sizes=1KB"]).ok();
    assert!(!many.contains("configured"), "{many}");
    // Traffic stops at half of the measured window.
    let half = poisson("load = 0.5").run(&["--json", "--set", "traffic[0].stop=550us"]).json();
    assert!((half["groups"][0]["asked_gbps"].as_f64().unwrap() - 125.0).abs() < 1e-6);
    let listed = Place::usual().run(&["--json"]).json();
    assert!(listed["groups"][0]["asked_gbps"].is_null());
}

#[test]
fn note_on_single_seed() {
    let text = poisson("load = 0.5").run(&[]).ok();
    assert_eq!(text.matches("One seed").count(), 1, "{text}");
    let flows = Place::usual().run(&[]).ok();
    assert!(!flows.contains("One seed"), "tables of few flows have no percentiles: {flows}");
}

#[test]
fn warning_no_measured_messages() {
    let place = poisson("load = 0.5");
    let warned = |set: &[&str]| {
        let answer = place.run(set);
        assert_eq!(answer.code, Some(0), "{}", answer.stderr);
        answer.stderr
    };
    let late = warned(&["--set", "warmup=999999ns"]);
    assert!(late.contains("no completion times: no message was submitted between warm-up at"));
    assert!(late.contains(" messages were submitted before warm-up\n"), "{late}");
    let never = warned(&["--set", "traffic[0].sizes=1GB", "--set", "traffic[0].load=1e-6"]);
    assert!(never.contains("the end at 1ms\n"), "{never}");
    assert_eq!(warned(&[]), "");
    // Unbounded flows have no completion times, so no warning is needed.
    let endless = Place::new("[[flows]]\nsrc = \"h0\"\ndst = \"h2\"\n").run(&[]);
    assert!(!endless.stderr.contains("no completion times"), "{}", endless.stderr);
}

#[test]
fn occupied_folder_before_warnings() {
    let place = poisson("load = 1.5");
    let (out, pcap) = (place.arg("out"), place.arg("x.pcapng"));
    let first = place.run(&["--out", &out, "--pcap", &pcap]);
    assert_eq!(first.stderr.matches("headers included: queues grow").count(), 1);
    for taken in [["--out", &out], ["--pcap", &pcap]] {
        let again = place.run(&taken);
        assert!(again.code == Some(2) && again.stderr.lines().count() == 1, "{}", again.stderr);
        assert!(again.stderr.contains("--force"), "{}", again.stderr);
    }
}

#[test]
fn engine_line_idle_threads() {
    let place = poisson("load = 0.5");
    let last = |args: &[&str]| place.run(args).ok().lines().last().unwrap().to_owned();
    let two = last(&["--threads", "2"]);
    assert!(two.contains(", 1 thread of 2: more would hardly be faster, "), "{two}");
    let one = last(&["--threads", "1"]);
    assert!(!one.contains("thread"), "{one}");
    let captured = place.run(&["--threads", "2", "--pcap", &place.arg("x.pcapng")]).ok();
    assert!(captured.contains("1 thread of 2: a capture needs a single thread, "), "{captured}");
}
