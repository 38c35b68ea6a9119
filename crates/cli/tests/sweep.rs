//! `tidegate sweep`: points, files, the cache, and errors.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::common::{Answer, Place, answer, circle, files, protocols_without, tidegate};
use serde_json::{Value, json};

/// Random messages between two racks.
const SCENARIO: &str = "name = 'two racks'\nduration = '200us'\nwarmup = '20us'\ndrain = '1ms'\n\
    fabric = { kind = 'leaf-spine', racks = 2, hosts_per_rack = 2, spines = 1 }\n\
    transport = { protocol = 'swift' }\n\
    [[traffic]]\nkind = 'poisson'\nlabel = 'short'\nsizes = '20KB'\nload = 0.3\n";

fn place() -> Place {
    let place = Place::usual();
    fs::write(place.path("scenario.toml"), SCENARIO).unwrap();
    place
}

/// Two loads, two protocols, two seeds.
const EIGHT: [&str; 6] =
    ["--vary", "traffic.short.load=0.2..0.4:0.2", "--vary", "protocol=swift,dctcp", "--seeds", "2"];

fn sweep(place: &Place, args: &[&str]) -> Answer {
    let cache = place.arg("cache");
    place.call("sweep", &[args, &["--cache", &cache]].concat())
}

fn read(place: &Place, name: &str) -> String {
    fs::read_to_string(place.path(name)).unwrap()
}

#[test]
fn sweep_points_and_seeds() {
    let place = place();
    let out = place.arg("out");
    let text = sweep(&place, &[&EIGHT[..], &["--out", &out]].concat()).ok();
    assert!(text.starts_with("two racks: 4 points, 2 seeds, 8 runs\n"), "{text}");
    // Short titles, and protocols once.
    assert!(text.contains("\nVaried: traffic.short.load, transport.protocol\n"), "{text}");
    assert!(text.contains("\nload  protocol  label  seeds"), "{text}");
    assert!(text.contains(" ± ") && text.contains("95 % confidence interval"), "{text}");
    assert_eq!(
        files(&place.path("out")),
        ["manifest.json", "sweep.csv", "sweep.json", "sweep.parquet"]
    );
    let json: Value = serde_json::from_str(&read(&place, "out/sweep.json")).unwrap();
    assert_eq!(json["keys"], json!(["traffic.short.load", "transport.protocol"]));
    let values: Vec<&Value> =
        json["points"].as_array().unwrap().iter().map(|point| &point["values"]).collect();
    let expected = [json!([0.2, "swift"]), json!([0.2, "dctcp"]), json!([0.4, "swift"])];
    assert_eq!(values[..3], expected.iter().collect::<Vec<_>>());

    // A row equals the result of an individual run.
    let csv = read(&place, "out/sweep.csv");
    let head = "traffic.short.load,transport.protocol,seed,label,protocol,min_bytes,below_bytes,\
                metric,value,unit,is_lower_bound,difference,difference_n,difference_mean,\
                difference_half_width,difference_p_holm,is_significant,is_maximum";
    assert_eq!(csv.lines().next(), Some(head));
    let set = ["--set", "traffic.short.load=0.4", "--seed", "2", "--protocols", "dctcp", "--json"];
    let alone = place.call("compare", &set).json();
    let fct = &alone["runs"][0]["summary"]["groups"][0]["fct"];
    let p99 = fct["slowdown"]["p99"].as_f64().unwrap();
    let row = format!("0.4,dctcp,2,short,dctcp,,,slowdown_p99,{p99},,false,");
    let found = csv.lines().find_map(|line| line.strip_prefix(&row));
    let found = found.unwrap_or_else(|| panic!("{row} is missing in\n{csv}"));
    let of_point = &json["points"][3]["metrics"];
    let its = |one: &&Value| one["metric"] == "slowdown_p99" && one["label"] == "short";
    let of_point = of_point.as_array().unwrap().iter().find(its).unwrap();
    assert_eq!(of_point["values"][1], fct["slowdown"]["p99"]);
    assert_eq!(of_point["n"], 2);

    // The differences are from the same load under the first protocol.
    assert_eq!(json["baseline"], "swift");
    let base = json["points"][2]["metrics"].as_array().unwrap().iter().find(its).unwrap();
    assert!(base.get("difference").is_none(), "{base}");
    let difference = &of_point["difference"];
    let of_seed = p99 - base["values"][1].as_f64().unwrap();
    assert_eq!(difference["values"][1], of_seed);
    let [mean, half, p] =
        ["mean", "half_width", "p_holm"].map(|key| difference[key].as_f64().unwrap());
    let is = difference["is_significant"].as_bool().unwrap();
    assert_eq!(found, format!("{of_seed},2,{mean},{half},{p},{is},false"));
    assert!(text.contains("Messages: difference from swift by seed, n = 2"), "{text}");
}

#[test]
fn sweep_baseline() {
    let place = place();
    let of = |args: &[&str]| sweep(&place, &[&EIGHT[..], args].concat());
    let json = of(&["--baseline", "dctcp", "--json"]).json();
    assert_eq!(json["baseline"], "dctcp");
    for point in json["points"].as_array().unwrap() {
        let is_base = point["values"][1] == "dctcp";
        let metrics = point["metrics"].as_array().unwrap();
        assert_eq!(metrics.iter().all(|one| one.get("difference").is_none()), is_base);
    }
    let words = ["--baseline: `dctpc`", "did you mean `dctcp`?", "they are swift, dctcp"];
    of(&["--baseline", "dctpc"]).refused(2, &words);
    let one = ["--vary", "fabric.spines=1,2", "--baseline", "swift"];
    sweep(&place, &one).refused(2, &["--baseline", "needs several protocols", "--vary protocol="]);
    // A single seed has differences and no star.
    let text = sweep(&place, &EIGHT[..4]).ok();
    assert!(text.contains("difference from swift by seed, n = 1"), "{text}");
    assert!(text.contains("n = 1: differences from swift have no interval and no star"), "{text}");
    assert!(!text.contains('*'), "{text}");
    // If the protocol does not vary, there is no baseline.
    let text = sweep(&place, &["--vary", "fabric.spines=1,2", "--seeds", "2"]).ok();
    assert!(!text.contains("difference"), "{text}");
}

#[test]
fn sweep_is_deterministic() {
    let place = place();
    let all = |name: &str, more: &[&str]| {
        let out = place.arg(name);
        place.call("sweep", &[&EIGHT[..], more, &["--out", &out]].concat()).ok();
        ["sweep.csv", "sweep.json", "sweep.parquet"]
            .map(|file| fs::read(place.path(name).join(file)).unwrap())
    };
    let cache = place.arg("cache");
    let one = all("one", &["--no-cache", "--threads", "1"]);
    let three = ["--threads", "3", "--partitions", "2", "--cache", &cache];
    assert!(one == all("three", &three), "three threads, two partitions a run");
    assert_eq!(files(&place.path("cache")).len(), 8);
    assert!(one == all("kept", &["--cache", &cache]), "kept");
}

/// Sends a signal to a sweep that has cached some, but not all, of its runs.
fn stopped(place: &Place, args: &[&str], runs: usize, signal: &str) -> Output {
    let cache = place.arg("cache");
    let scenario = place.arg("scenario.toml");
    let args = [&["sweep", scenario.as_str()], args, &["--cache", &cache]].concat();
    let mut child: Child =
        tidegate(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while kept(place) == 0 {
        assert!(child.try_wait().unwrap().is_none(), "the sweep ended by itself");
        std::thread::sleep(Duration::from_millis(2));
    }
    let name = format!("-{signal}");
    assert!(
        Command::new("kill").args([&name, &child.id().to_string()]).status().unwrap().success()
    );
    let output = child.wait_with_output().unwrap();
    assert!(kept(place) < runs, "all {runs} runs were done before the signal came");
    output
}

/// Number of cached runs.
fn kept(place: &Place) -> usize {
    files(&place.path("cache")).iter().filter(|name| !name.starts_with('.')).count()
}

#[test]
fn sweep_resumes_after_interrupt() {
    // Runs are long enough that the signal arrives between the first and the last.
    let place = place();
    let long = ["--set", "duration=8ms", "--vary", "traffic.short.load=0.2..0.4:0.1"];
    let twelve = [&long[..], &["--seeds", "4", "--threads", "1"]].concat();
    let out = place.arg("out");
    let with_out = [&twelve[..], &["--out", &out]].concat();
    assert_eq!(stopped(&place, &with_out, 12, "INT").status.code(), Some(130));
    assert!(!place.path("out").exists());
    let after = kept(&place);
    fs::remove_dir_all(place.path("cache")).unwrap();

    let killed = stopped(&place, &with_out, 12, "KILL");
    assert_eq!(killed.status.code(), None);
    assert!(after >= 1 && kept(&place) >= 1);
    let before = kept(&place);
    let text = sweep(&place, &with_out).ok();
    assert!(text.contains(&format!("12 runs, {before} of them cached")), "{text}");
    let whole = place.arg("whole");
    place.call("sweep", &[&twelve[..], &["--no-cache", "--out", &whole]].concat()).ok();
    for file in ["sweep.csv", "sweep.json", "sweep.parquet"] {
        let [out, whole] =
            ["out", "whole"].map(|folder| fs::read(place.path(folder).join(file)).unwrap());
        assert!(out == whole, "{file} differs from that of an uninterrupted sweep");
    }
    // Another sweep reuses the runs of shared points.
    let more = ["--vary", "traffic.short.load=0.3,0.35", "--seeds", "4", "--set", "duration=8ms"];
    assert!(sweep(&place, &more).ok().contains("8 runs, 4 of them cached"));
}

#[test]
fn sweep_file_equals_options() {
    let place = place();
    let text = "scenario = 'scenario.toml'\nseeds = 2\n[[axis]]\nkey = 'traffic.short.load'\n\
                from = 0.2\nto = 0.4\nstep = 0.2\n[[axis]]\nkey = 'protocol'\n\
                values = ['swift', 'dctcp']\n";
    fs::write(place.path("loads.toml"), text).unwrap();
    let by_file =
        answer(&["sweep", &place.arg("loads.toml"), "--json", "--cache", &place.arg("cache")]);
    assert_eq!(by_file.ok(), sweep(&place, &[&EIGHT[..], &["--json"]].concat()).ok());
}

#[test]
fn sweep_zip_and_random() {
    let place = place();
    let vary = ["--vary", "traffic.short.load=0.2,0.3", "--vary", "fabric.spines=1,2", "--json"];
    let points = |more: &[&str]| {
        let json = sweep(&place, &[&vary[..], more].concat()).json();
        let points = json["points"].as_array().unwrap().iter();
        points.map(|point| point["values"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(points(&["--zip"]), ["[0.2,1]", "[0.3,2]"]);
    let drawn = points(&["--random", "3"]);
    assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), 3);
    assert_eq!(points(&["--random", "3", "--search-seed", "1"]), drawn);
}

#[test]
fn dry_run_estimate() {
    let place = place();
    let long = [&EIGHT[..], &["--set", "duration=20ms", "--set", "drain=0ms"]].concat();
    let text = sweep(&place, &[&long[..], &["--dry-run"]].concat()).ok();
    assert!(text.starts_with("8 runs, 0 of them cached. The others"), "{text}");
    assert!(text.contains("estimated from the traffic and the beginning of 6 runs"), "{text}");
    let forecast = sweep(&place, &[&long[..], &["--dry-run", "--json"]].concat()).json();
    assert_eq!(kept(&place), 0);
    let json = sweep(&place, &[&long[..], &["--json"]].concat()).json();
    let mut hops = 0.0;
    for point in json["points"].as_array().unwrap() {
        let all = point["metrics"].as_array().unwrap();
        let of_run = all.iter().find(|one| one["metric"] == "packet_hops").unwrap();
        hops += of_run["values"].as_array().unwrap().iter().filter_map(Value::as_f64).sum::<f64>();
    }
    let expected = forecast["packet_hops"].as_f64().unwrap();
    assert!((0.7..1.4).contains(&(expected / hops)), "{expected} estimated, {hops} measured");
    let done = sweep(&place, &[&long[..], &["--dry-run"]].concat()).ok();
    assert!(done.contains("8 of them cached: nothing remains to run"), "{done}");
}

#[test]
fn sweep_with_failing_run() {
    let place = Place::usual();
    let protocol = &protocols_without("pauses (PFC)")[0];
    let text = format!("{}\n[transport]\nprotocol = '{protocol}'\n", circle());
    fs::write(place.path("scenario.toml"), text).unwrap();
    let out = place.arg("out");
    let answer = sweep(&place, &["--vary", "duration=20us,20ms", "--out", &out]);
    assert_eq!(answer.code, Some(1), "{}", answer.stderr);
    let words = ["duration=20ms, seed ", "deadlock detected at", "1 of 2 runs failed"];
    for word in words {
        assert!(answer.stderr.contains(word), "{word}: {}", answer.stderr);
    }
    assert!(answer.stdout.contains("2 points, 1 seed, 2 runs"), "{}", answer.stdout);
    let json: Value = serde_json::from_str(&read(&place, "out/sweep.json")).unwrap();
    assert_eq!(json["failed"][0]["values"], json!(["20ms"]));
    let metrics = |i: usize| json["points"][i]["metrics"].as_array().unwrap().len();
    assert!(metrics(0) > 0 && metrics(1) == 0);
    assert_eq!(kept(&place), 1);
    let alone = sweep(&place, &["--vary", "duration=20ms", "--out", &place.arg("none")]);
    alone.refused(1, &["deadlock detected at"]);
    assert!(!place.path("none").exists());
}

#[test]
fn wrong_sweeps() {
    let place = place();
    let out = place.arg("out");
    let vary = "--vary";
    for (args, words) in [
        (&["--vary", "traffic.short.load"][..], &["--vary traffic.short.load", "key=values"][..]),
        (&[vary, "a=1,1"], &["a=1 twice", "each value once"]),
        (&[vary, "traffic.short.load=0.1..0.2:0.3"], &["this one reaches 0.1 and 0.4"]),
        (&[vary, "traffic.short.load=0.1,x"], &["--vary traffic.short.load=x", "traffic[0].load"]),
        (&[vary, "traffic.long.load=0.1"], &["--vary traffic.long.load=0.1", "\"short\""]),
        (&[vary, "fabric.spine=1,2"], &["--vary fabric.spine=1", "did you mean \"spines\""]),
        (&[vary, "protocol=swift,dctpc"], &["protocol=dctpc", "did you mean \"dctcp\""]),
        (&[vary, "seed=1,2"], &["--vary", "the key seed", "--seeds"]),
        (
            &[vary, "fabric.spines=1", vary, "fabric.spines=2"],
            &["--vary", "only one change of a key"],
        ),
        (&[vary, "fabric.spines=1,2", vary, "fabric.racks=2", "--zip"], &["2 of fabric.spines"]),
        (&[vary, "fabric.spines=1,2", "--random", "3"], &["3 points", "at most 2"]),
        (&[vary, "fabric.spines=1,2", "--random", "x"], &["--random", "x"]),
        (&[vary, "fabric.spines=1,2", "--seeds", "2", "--set", "seed=4"], &["--seeds", "seed=4"]),
        (&[vary, "fabric.spines=1,2", "--seeds", "0"], &["--seeds", "1 to 10000 seeds"]),
        (&[vary, "fabric.spines=1", "--set", "x=1"], &["--set x=1", "unknown key"]),
        (&["--zip"], &["--vary"]),
        (&[], &["scenario.toml:1: scenario: found nothing", "use --vary"]),
        (&[vary, "fabric.spines=1", "--no-cache"], &["--cache", "--no-cache"]),
    ] {
        sweep(&place, &[args, &["--out", &out]].concat()).refused(2, words);
    }
    let missing = ["sweep", "none.toml"];
    answer(&missing).refused(2, &["none.toml", "cannot be read", "a sweep"]);
    fs::write(place.path("s.toml"), "scenario = 'none.toml'\n[[axis]]\nkey = 'x'\nvalues = [1]\n")
        .unwrap();
    answer(&["sweep", &place.arg("s.toml")]).refused(2, &["none.toml", "a scenario file"]);
    fs::write(
        place.path("s.toml"),
        "scenario = 'scenario.toml'\n[[axis]]\nkey = 'x'\nvalues = [1]\n",
    )
    .unwrap();
    answer(&["sweep", &place.arg("s.toml")])
        .refused(2, &["s.toml:4: axis[0].values[0], x=1: x: found the unknown key \"x\""]);
    assert_eq!(files(&place.path("")), ["s.toml", "scenario.toml"]);
}

#[test]
fn sweep_needs_force_to_overwrite() {
    let place = place();
    let args = ["--vary", "fabric.spines=1,2", "--out", &place.arg("out")];
    sweep(&place, &args).ok();
    sweep(&place, &args).refused(2, &["--out", "--force"]);
    place.run(&["--out", &place.arg("out")]).refused(2, &["--out", "--force"]);
    sweep(&place, &[&args[..], &["--force"]].concat()).ok();
    place.run(&["--out", &place.arg("out"), "--force"]).ok();
    assert_eq!(files(&place.path("out")), ["flows.parquet", "manifest.json", "summary.json"]);
}

#[test]
fn manifests_of_runs_vary_those_of_sweeps_do_not_run() {
    let place = place();
    let args = ["--vary", "fabric.spines=1,2", "--out", &place.arg("sweep")];
    sweep(&place, &args).ok();
    answer(&["run", &place.arg("sweep/manifest.json")])
        .refused(2, &["sweep/manifest.json", "a sweep of 2 points", "`tidegate sweep`"]);
    place.run(&["--out", &place.arg("run")]).ok();
    let manifest = place.arg("run/manifest.json");
    let csv = |folder: &str| fs::read_to_string(place.path(folder).join("sweep.csv")).unwrap();
    answer(&["sweep", &manifest, "--vary", "fabric.spines=1,2", "--out", &place.arg("again")]).ok();
    assert_eq!(csv("sweep"), csv("again"));
}

#[test]
fn unwritable_cache() {
    let place = place();
    fs::write(place.path("file"), "").unwrap();
    for folder in [place.arg("file"), format!("{}/below", place.arg("file"))] {
        let args =
            ["sweep", &place.arg("scenario.toml"), "--vary", "fabric.spines=1", "--cache", &folder];
        answer(&args).refused(2, &["--cache", &folder, "cannot store runs in this folder"]);
    }
}

#[test]
fn sweep_warnings_are_merged() {
    let place = place();
    // Both points offer more than the links carry.
    let args = ["--vary", "traffic.short.load=3,4", "--seeds", "2", "--set", "duration=100us"];
    let printed = sweep(&place, &args);
    let lines =
        printed.stderr.lines().filter(|line| line.contains("headers included: queues grow"));
    assert_eq!(lines.count(), 1, "{}", printed.stderr);
    assert!(printed.stderr.contains("and 3 similar: "), "{}", printed.stderr);
}

/// Uplinks slower than hosts: two of them together are faster than one.
#[test]
fn ideal_times_of_paths_are_warned_of() {
    let place = place();
    let slow = ["fabric.spines=2", "fabric.fabric_link={ rate = '40Gbps', delay = '1us' }"];
    let slow = slow.map(|change| ["--set", change]).concat();
    let text = "slowdowns have different denominators: the ideal completion time of one path for";
    let has = |printed: Answer, names: &str| {
        let expected = format!("{text} {names}");
        let is_shown = printed.stderr.contains(&format!("warning: {expected}"));
        let is_in = |warning: &Value| warning.as_str().unwrap().starts_with(&expected);
        assert_eq!(printed.json()["warnings"].as_array().unwrap().iter().any(is_in), is_shown);
        is_shown
    };
    let swept = |routings: &str| {
        let vary = format!("switch.routing={routings}");
        sweep(&place, &[&["--vary", &vary, "--json"][..], &slow].concat())
    };
    assert!(has(swept("ecmp,spray"), "swift (ecmp), and"));
    assert!(!has(swept("ecmp,symmetric-ecmp"), ""));
    let args = ["--protocols", "swift,sird", "--json"];
    for seeds in ["1", "2"] {
        let compared = place.call("compare", &[&args[..], &["--seeds", seeds], &slow].concat());
        assert!(has(compared, "swift, and"), "{seeds}");
    }
    assert!(!has(place.call("compare", &args), ""));
}

#[test]
fn whole_numbers_stay_whole() {
    let place = place();
    let json = sweep(&place, &["--vary", "transport.connections=1500,2000", "--json"]).json();
    assert_eq!(json["points"][1]["values"], json!([2000]));
}

#[test]
fn keys_of_one_value_are_equal() {
    let place = place();
    for args in [
        &["--vary", "traffic.short.load=0.1,0.2", "--vary", "traffic.0.load=0.3"][..],
        &["--vary", "protocol=swift,dctcp", "--set", "transport.protocol=sird"],
        &["--vary", "traffic.short.load=0.1,0.2", "--set", "traffic[0].load=0.3"],
    ] {
        sweep(&place, args).refused(2, &["changes too", "only one change of a key"]);
    }
    sweep(&place, &["--vary", "traffic.short.load=0.5,50%"]).refused(2, &["each value once"]);
}

#[test]
fn seed_of_all_points() {
    let place = place();
    let vary = ["--vary", "traffic.short.load=0.2,0.3"];
    let swept = |more: &[&str]| sweep(&place, &[&vary[..], more].concat());
    let one = swept(&["--seed", "7", "--json"]).json();
    assert_eq!(one["seeds"], json!([7]));
    assert_eq!(one, swept(&["--set", "seed=7", "--json"]).json());
    swept(&["--seed", "7", "--set", "seed=7"]).refused(2, &["--seed", "--set seed=7"]);
    swept(&["--seed", "7", "--seeds", "2"]).refused(2, &["--seed", "--seeds"]);
}

/// A stand-in for an interpreter whose package prints these versions.
fn package(place: &Place, versions: &Value) -> String {
    use std::os::unix::fs::PermissionsExt;
    // A file that another process still has open for writing cannot be executed.
    let name = format!("python{}", fs::read_dir(place.path("")).unwrap().count());
    let path = place.path(&name);
    fs::write(&path, format!("#!/bin/sh\necho '{versions}'\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    place.arg(&name)
}

#[test]
fn tune_compares_the_package_with_the_program() {
    use tidegate_workbench::SEMANTICS;
    let place = place();
    let scenario = place.arg("scenario.toml");
    let version = env!("CARGO_PKG_VERSION");
    let tune = |versions: Value, more: &[&str]| {
        let words = ["tune", &scenario, "--protocols", "swift", "--objective", "min drops"];
        let python = package(&place, &versions);
        let output =
            tidegate(&[&words[..], more].concat()).env("TIDEGATE_PYTHON", python).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, message) = tune(json!([version, tidegate_cli::REVISION, SEMANTICS]), &[]);
    assert_eq!((code, &*message), (Some(0), ""));
    let (code, message) = tune(json!(["9.9.9", "another", SEMANTICS]), &[]);
    assert_eq!(code, Some(0), "{message}");
    let expected = "has version 9.9.9, revision another, and";
    assert!(message.starts_with("warning: tune: ") && message.contains(expected), "{message}");
    assert_eq!(tune(json!(["9.9.9", "another", SEMANTICS]), &["-q"]).1, "");
    // A development build has no revision to compare.
    let (code, message) = tune(json!([version, "another", SEMANTICS]), &[]);
    assert_eq!(code, Some(0), "{message}");
    assert_eq!(message.is_empty(), tidegate_cli::REVISION == "unknown", "{message}");
    let (code, message) = tune(Value::Null, &[]);
    assert!(code == Some(1) && message.contains("is older than this program"), "{message}");
    let (code, message) = tune(json!([version, tidegate_cli::REVISION, SEMANTICS - 1]), &[]);
    assert_eq!(code, Some(1), "{message}");
    let expected = format!("has semantics {}, and this program has {SEMANTICS}", SEMANTICS - 1);
    assert!(message.contains(&expected) && message.contains("pip install"), "{message}");
}

#[test]
fn tune_names_what_is_missing() {
    let place = place();
    let scenario = place.arg("scenario.toml");
    let words = ["tune", &scenario, "--protocols", "swift", "--objective", "min drops"];
    let found = tidegate(&words).env("TIDEGATE_PYTHON", "/nowhere/python").output().unwrap();
    let message = String::from_utf8(found.stderr).unwrap();
    assert_eq!(found.status.code(), Some(1), "{message}");
    assert!(message.contains("/nowhere/python cannot search"), "{message}");
    assert!(message.contains("pip install '.[tune]'"), "{message}");
}
