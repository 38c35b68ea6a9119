//! Tests of the first steps of a user: percentiles of few or unfinished messages, wrong folders and
//! values, the width of the terminal.

use std::fs;
use std::os::unix::fs::symlink;

use crate::common::{Place, answer};

/// Messages of a label from h0 to h2: number, start, size.
fn messages(count: u32, start: &str, size: &str) -> String {
    format!(
        "[[flows]]\nsrc = \"h0\"\ndst = \"h2\"\nsize = \"{size}\"\nstart = \"{start}\"\n\
         count = {count}\nlabel = \"some\"\n"
    )
}

#[test]
fn percentile_of_few_messages_is_a_maximum() {
    let note = "the 99th percentile of fewer than 100 values, or the 99.9th of fewer";
    let text = |count| Place::new(&messages(count, "60us", "100B")).run(&[]).ok();
    let (few, enough) = (text(99), text(100));
    assert!(few.contains("99 ") && few.contains(" max ") && few.contains(note), "{few}");
    let row = |text: &str| text.lines().find(|line| line.starts_with("some")).unwrap().to_owned();
    assert!(row(&few).contains("max ") && !row(&enough).contains("max "), "{enough}");
}

#[test]
fn class_that_is_mostly_unfinished_has_bounds() {
    // Of three large messages, one finishes: its time represents all of them.
    let flows = messages(1, "60us", "1MB") + &messages(2, "290us", "1MB");
    let text = Place::new(&flows).run(&["--json"]).json();
    let fct = &text["fct"]["some"];
    assert_eq!((fct["count"].as_u64(), fct["unfinished"].as_u64()), (Some(3), Some(2)));
    assert_eq!((&fct["reach"], &fct["slowdown"]["reach"]), (&0.0.into(), &0.0.into()));
    let args = ["--seeds", "2", "--json"];
    let all = Place::new(&flows).run(&args).json();
    let metrics = all["runs"][0]["metrics"].as_array().unwrap();
    let bound = |name: &str| {
        metrics.iter().find(|one| one["metric"] == name).unwrap()["is_lower_bound"].clone()
    };
    assert_eq!([bound("fct_p50_us"), bound("slowdown_p99")], [true, true]);
}

#[test]
fn configured_load_is_beside_a_different_one() {
    let traffic = "[[traffic]]\nkind = \"poisson\"\nlabel = \"some\"\nsizes = \"websearch\"\n\
                   load = 0.4\n";
    let place = Place::new(traffic);
    let vary = ["--vary", "fabric.mtu=1500B,4096B", "--no-cache"];
    let text = place.call("sweep", &vary).ok();
    assert!(text.contains("(configured "), "{text}");
    let json = place.call("sweep", &[&vary[..], &["--json"]].concat()).json();
    assert!(json.to_string().contains("\"configured_gbps\""), "{json}");
}

#[test]
fn unsuitable_protocol_names_the_other_command() {
    let place = Place::usual();
    let set = ["--protocols", "swift,hpcc,dctcp", "--set", "switch.telemetry=false"];
    let command =
        format!("tidegate compare {} --protocols swift,dctcp", place.arg("scenario.toml"));
    place.call("compare", &set).refused(2, &["under hpcc: ", &command]);
    let alone = ["--protocols", "hpcc", "--set", "switch.telemetry=false"];
    let answer = place.call("compare", &alone);
    assert!(!answer.stderr.contains("others"), "{}", answer.stderr);
}

#[test]
fn dry_runs_list_the_figures() {
    // A paper with short runs: the estimate simulates the beginning of some of them.
    let call = ["reproduce", "ndp", "--dry-run", "--quick", "--no-cache"];
    let text = answer(&call).ok();
    assert!(text.starts_with("figure") && text.contains("\nndp/16 "), "{text}");
    let estimate = [" runs; ", " on ", " of an idle machine, estimated from the beginning of "];
    assert!(estimate.iter().all(|words| text.contains(words)), "{text}");
    let json = answer(&[&call[..], &["--json"]].concat()).json();
    assert_eq!(json["total"]["kept"], 0);
    assert!(json["figures"][1]["runs"].as_u64().unwrap() > 0, "{json}");
}

#[test]
fn wrong_folders_and_labels_have_advice() {
    let place = Place::usual();
    answer(&["report", "/dev/null"]).refused(2, &["/dev/null is not a folder", "--out"]);
    symlink(place.path("gone"), place.path("link")).unwrap();
    let out = place.arg("link");
    place.run(&["--out", &out]).refused(2, &["--out", "symbolic link", "create that folder"]);
    let long = "x".repeat(201);
    let place = Place::new(&messages(1, "60us", "1KB").replace("some", &long));
    place.run(&[]).refused(2, &["label", "at most 200 characters, not 201"]);
    assert_eq!(Place::new(&messages(1, "60us", "1KB")).run(&[]).code, Some(0));
}

#[test]
fn report_names_missing_files() {
    let place = Place::usual();
    let out = place.arg("out");
    place.run(&["--out", &out, "--seeds", "2"]).ok();
    fs::remove_file(place.path("out/seed-1/manifest.json")).unwrap();
    fs::remove_dir_all(place.path("out/seed-2")).unwrap();
    let answer = answer(&["report", &out]);
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    let page = fs::read_to_string(place.path("out/report.html")).unwrap();
    for missing in ["seed-1/manifest.json is missing", "seed-2 is missing"] {
        assert!(answer.stderr.contains(missing), "{missing}: {}", answer.stderr);
        assert!(page.contains(missing), "{missing}");
    }
}

#[test]
fn negative_durations_have_a_reason() {
    let place = Place::usual();
    place.run(&["--set", "duration=-1s"]).refused(2, &["found -1s", "(no negative value)"]);
    #[cfg(target_os = "linux")]
    for args in [["--duration", "-1s"], ["--warmup", "-1s"]] {
        answer(&[&["send", "127.0.0.1:1"], &args[..]].concat())
            .refused(2, &[args[0], "not negative"]);
    }
}

/// A new pseudo-terminal has no height, and `stty cols` sets the width only.
#[cfg(target_os = "linux")]
#[test]
fn output_fits_the_width_of_the_terminal() {
    let place = Place::usual();
    let program = env!("CARGO_BIN_EXE_tidegate");
    let run = format!("run {}", place.arg("scenario.toml"));
    for call in [&*run, "--help", "protocols", "new"] {
        let command = format!("stty cols 80; {program} {call}");
        let mut script = std::process::Command::new("script");
        script.args(["-qc", &command, "/dev/null"]).env_remove("COLUMNS");
        let shown = String::from_utf8(script.output().unwrap().stdout).unwrap();
        let longest = shown.lines().filter(|line| !line.contains('['));
        let longest = longest.map(|line| line.trim_end().chars().count()).max().unwrap();
        assert!((40..=80).contains(&longest), "{call}: {longest} columns in\n{shown}");
    }
}
