//! Options that several subcommands share, and the manual.

use std::fs;
use std::process::{Command, Stdio};

use crate::common::{Place, answer, anywhere, files, on_racks, protocols, steady};
use serde_json::Value;

fn compared(json: &Value) -> Vec<&str> {
    let runs = json["runs"].as_array().unwrap();
    runs.iter().map(|run| run["protocol"].as_str().unwrap()).collect()
}

#[test]
fn all_selects_runnable_protocols() {
    let others = |names: &[String]| -> Vec<String> {
        protocols().into_iter().filter(|name| !names.contains(name)).collect()
    };
    // Racks with circuits have no credit queues and do not trim; other fabrics have no circuits.
    for (place, carried, reasons) in [
        (Place::usual(), anywhere(), &["found a fabric without circuits"][..]),
        (Place::racks(), on_racks(), &["trim", "trim", "trim", "credit", "trim", "trim", "trim"]),
    ] {
        let answer = place.call("compare", &["--protocols", "all", "--json"]);
        let skipped = |line: &str| {
            let (names, why) = line.strip_prefix("warning: skipped ")?.split_once(": ")?;
            Some((names.to_owned(), why.to_owned()))
        };
        let left: Vec<(String, String)> = answer.stderr.lines().filter_map(skipped).collect();
        let mut names: Vec<&str> = left.iter().flat_map(|(names, _)| names.split(", ")).collect();
        let mut refused = others(&carried);
        names.sort_unstable();
        refused.sort_unstable();
        assert!(!refused.is_empty() && names == refused, "{}", answer.stderr);
        assert_eq!(left.len(), reasons.len(), "{}", answer.stderr);
        for ((_, why), reason) in left.iter().zip(reasons) {
            assert!(why.contains(reason), "{why}");
        }
        assert_eq!(compared(&answer.json()), carried);
    }
    let place = Place::usual();
    let known = format!("all,{}", protocols()[0]);
    place
        .call("compare", &["--protocols", &known])
        .refused(2, &["`all` cannot be combined with other names"]);
    let wrong = ["--protocols", "all", "--set", "fabric.mtu=1"];
    place.call("compare", &wrong).refused(2, &["fabric.mtu", "--set"]);
    let seeds = ["--protocols", "all", "--seeds", "2", "--json", "--set", "duration=100us"];
    assert_eq!(compared(&place.call("compare", &seeds).json()), anywhere());
    let vary = ["--vary", "protocol=all", "--no-cache", "--json", "--set", "duration=100us"];
    let swept = place.call("sweep", &vary);
    assert!(swept.stderr.contains("skipped "), "{}", swept.stderr);
    let swept = swept.json();
    let points = swept["points"].as_array().unwrap().iter();
    let names: Vec<&str> = points.map(|point| point["values"][0].as_str().unwrap()).collect();
    assert_eq!(names, anywhere());
}

#[test]
fn blanks_in_lists() {
    let place = Place::usual();
    let names = &anywhere()[..2];
    let [first, last] = [format!("{},", names[0]), format!(",{}", names[1])];
    for words in [
        &["--protocols", &first, &names[1]][..],
        &["--protocols", &names[0], &last],
        &["--protocols", &names[0], ",", &names[1]],
        &[&format!("--protocols={first}"), &names[1]],
    ] {
        let json = place.call("compare", &[words, &["--json"]].concat()).json();
        assert_eq!(compared(&json), names, "{words:?}");
    }
    let vary = ["--vary", "duration=100us,", "120us", "--seeds", "3,", "4", "--no-cache", "--json"];
    let json = place.call("sweep", &vary).json();
    assert_eq!(json["points"].as_array().unwrap().len(), 2);
    assert_eq!(json["seeds"], serde_json::json!([3, 4]));
    place.call("compare", &["--protocols", &first]).refused(2, &["a name is missing"]);
    let apart = [&names[0], names[1].as_str()];
    place.call("compare", &["--protocols", apart[0], apart[1]]).refused(2, &[apart[1]]);
}

/// Two unbounded flows, which do not depend on the seed: this causes a warning.
fn alike() -> Place {
    Place::new("[[flows]]\nsrc = \"h0\"\ndst = \"h2\"\n[[flows]]\nsrc = \"h1\"\ndst = \"h2\"\n")
}

#[test]
fn quiet_prints_only_errors() {
    let place = alike();
    let args = ["--seeds", "2", "--set", "transport.protocol=swift"];
    let printed = place.run(&args);
    assert!(printed.stderr.contains("warning: "), "{}", printed.stderr);
    let quiet = place.run(&[&args[..], &["-q"]].concat());
    assert_eq!((quiet.stderr.as_str(), quiet.code), ("", Some(0)));
    let [printed, quiet] = [printed, quiet].map(|answer| answer.stdout);
    let table = |text: &str| text.split("Switches").next().unwrap().to_owned();
    assert_eq!(table(&printed), table(&quiet));
    let all = place.call("compare", &["--protocols", "all", "--quiet"]);
    assert_eq!((all.stderr.as_str(), all.code), ("", Some(0)));
    place.run(&["-q", "--set", "fabric.mtu=1"]).refused(2, &["fabric.mtu"]);
    place.run(&["-q", "-v"]).refused(2, &["--quiet", "--verbose"]);
    answer(&["tune", "-v"]).refused(2, &["'-v'"]);
    for call in [&["reproduce", "--list", "-q"][..], &["reproduce", "--list", "-v"]] {
        assert_eq!(answer(call).code, Some(0));
    }
}

#[test]
fn verbose_prints_resolved_settings() {
    let place = Place::usual();
    let set = ["--set", "transport.protocol=swift", "--set", "transport.params.beta=0.5"];
    let printed = place.run(&[&set[..], &["-v", "--json"]].concat());
    let plain = place.run(&[&set[..], &["--json"]].concat());
    for line in [
        "three hosts: seed 1, duration 300us, warmup 50us",
        "fabric: 3 hosts, 1 switch, 3 links; ",
        "routing ecmp",
        "swift: beta = 0.5 (default 0.8)",
        "connections: per-message",
        "to send: 7 flows, 2 of them unlimited; with generated messages about 0.100 MB in 0.3 ms",
    ] {
        assert!(printed.stderr.contains(line), "{line}: {}", printed.stderr);
        assert!(!plain.stderr.contains(line), "{}", plain.stderr);
    }
    let [printed, plain] = [printed, plain].map(|answer| steady(answer.json()));
    assert_eq!(printed, plain);
    // With several protocols, shared settings are printed once.
    let several = place.call("compare", &["-v", "--protocols", "swift,dctcp", "--seeds", "2"]);
    assert_eq!(several.stderr.matches("fabric: ").count(), 1, "{}", several.stderr);
    assert!(several.stderr.contains("dctcp: dctcp: all parameters"), "{}", several.stderr);
    let swept = ["-v", "--vary", "duration=100us,120us", "--no-cache"];
    assert!(place.call("sweep", &swept).stderr.contains("duration 100us"));
}

#[test]
fn dry_run_writes_nothing_and_is_close() {
    let place = Place::usual();
    let out = place.arg("out");
    let call = |subcommand, more: &[&str]| {
        let long = ["--set", "duration=20ms", "--set", "drain=0ms"];
        place.call(subcommand, &[&long[..], more].concat())
    };
    let text = call("run", &["--dry-run", "--out", &out]).ok();
    assert!(text.starts_with("1 run: less than a million packet-hops, "), "{text}");
    assert!(text.ends_with("estimated from the traffic and the beginning of 1 run.\n"), "{text}");
    assert_eq!(files(&place.path("")), ["scenario.toml"]);
    let forecast = call("run", &["--dry-run", "--json"]).json();
    assert_eq!(forecast["bound"], "about");
    let expected = forecast["packet_hops"].as_f64().unwrap();
    let ran = call("run", &["--json"]).json()["engine"]["packet_hops"].as_f64().unwrap();
    assert!((0.7..1.4).contains(&(expected / ran)), "{expected} expected, {ran} counted");
    let names = protocols()[..2].join(",");
    let text = call("compare", &["--protocols", &names, "--seeds", "2", "--dry-run"]).ok();
    assert!(text.starts_with("4 runs: less than a million packet-hops, "), "{text}");
}

#[test]
fn dry_run_shows_warnings_and_settings() {
    let place = Place::usual();
    // Of hosts with one link each, all of which send more than that.
    let traffic = "traffic=[{kind='poisson',label='a',sizes='20KB',load=2.0}]";
    let names = protocols()[..2].join(",");
    let vary = ["--vary", "duration=100us,120us", "--no-cache"];
    for (subcommand, more) in [
        ("run", &[][..]),
        ("run", &["--seeds", "2"]),
        ("compare", &["--protocols", &names]),
        ("compare", &["--protocols", &names, "--seeds", "2"]),
        ("sweep", &vary),
    ] {
        let call = |last: &[&str]| {
            let args = [more, &["--set", traffic, "--dry-run"], last].concat();
            place.call(subcommand, &args).stderr
        };
        let (plain, verbose) = (call(&[]), call(&["-v"]));
        let warning = "times the capacity of their links, headers included: queues grow";
        assert_eq!(plain.matches(warning).count(), 1, "{subcommand}: {plain}");
        assert_eq!(verbose.matches(warning).count(), 1, "{subcommand}: {verbose}");
        assert!(!plain.contains("fabric: ") && verbose.contains("fabric: "), "{verbose}");
        assert_eq!(call(&["-q"]), "", "{subcommand}");
    }
}

#[test]
fn stdout_is_no_destination() {
    let place = Place::usual();
    let scenario = place.arg("scenario.toml");
    for args in [
        &["run", &scenario][..],
        &["compare", &scenario, "--protocols", "swift"],
        &["sweep", &scenario, "--vary", "duration=100us,120us"],
        &["reproduce", "poseidon/1"],
        &["report", &scenario],
        &["man"],
    ] {
        let answer = answer(&[args, &["--out", "-"]].concat());
        answer.refused(2, &["--out", "stdout", "name a f"]);
    }
    assert_eq!(files(&place.path("")), ["scenario.toml"]);
}

/// Output and errors of groff for a manual page; `None` without groff.
fn shown(page: &str) -> Option<(String, String)> {
    let args = ["-man", "-Tutf8", "-ww"];
    let pipe = Stdio::piped;
    let mut child = Command::new("groff")
        .args(args)
        .stdin(pipe())
        .stdout(pipe())
        .stderr(pipe())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take().unwrap();
    let page = page.to_owned();
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut stdin, page.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Some((text(output.stdout), text(output.stderr)))
}

#[test]
fn manual_pages() {
    let page = answer(&["man"]).ok();
    assert!(page.contains(".TH tidegate 1") && page.contains(".SH NAME"), "{page:.300}");
    for subcommand in ["RUN", "COMPARE", "SWEEP", "REPRODUCE", "REPORT", "WORKLOAD FROM", "MAN"] {
        assert!(page.contains(&format!(".SH \"TIDEGATE {subcommand}\"")), "{subcommand}");
    }
    let place = Place::usual();
    let out = place.arg("man");
    answer(&["man", "--out", &out]).ok();
    let pages = files(&place.path("man"));
    assert!(pages.contains(&"tidegate.1".to_owned()), "{pages:?}");
    for name in ["tidegate-sweep.1", "tidegate-workload-from.1"] {
        assert!(pages.contains(&name.to_owned()), "{pages:?}");
    }
    let sweep = fs::read_to_string(place.path("man/tidegate-sweep.1")).unwrap();
    for text in [&page, &sweep] {
        let Some((shown, complaints)) = shown(text) else { continue };
        assert_eq!(complaints, "");
        // Headings are printed twice, for bold type.
        assert!(shown.contains("interrupted") && shown.contains("under several seeds"), "{shown}");
    }
}
