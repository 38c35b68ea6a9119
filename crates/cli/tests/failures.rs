//! Failures as an axis of `tidegate sweep`, and the table of the worst.

use std::fs;

use serde_json::Value;

use crate::common::{Answer, Place, answer, files};

const TRAFFIC: &str =
    "[[traffic]]\nkind = 'poisson'\nlabel = 'short'\nsizes = '20KB'\nload = 0.5\n";

/// Random messages on a fabric.
fn place(fabric: &str) -> Place {
    let place = Place::usual();
    let text = format!(
        "name = 'fabric'\nduration = '200us'\nwarmup = '20us'\ndrain = '2ms'\n\
         fabric = {{ {fabric} }}\ntransport = {{ protocol = 'swift' }}\n{TRAFFIC}"
    );
    fs::write(place.path("scenario.toml"), text).unwrap();
    place
}

fn leaf_spine() -> Place {
    place(
        "kind = 'leaf-spine', racks = 2, hosts_per_rack = 2, spines = 2, \
         fabric_link = { rate = '50Gbps' }",
    )
}

fn sweep(place: &Place, args: &[&str]) -> Answer {
    place.call("sweep", &[args, &["--cache", &place.arg("cache")]].concat())
}

/// Rows of the table of the worst failures, and the line above it.
fn worst(text: &str) -> (&str, Vec<Vec<&str>>) {
    let (_, table) = text.split_once("\nWorst failures").expect(text);
    let (title, table) = table.split_once('\n').unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    (title, table.lines().map(|line| line.split_whitespace().collect()).collect())
}

#[test]
fn every_failure_is_a_run() {
    let place = leaf_spine();
    let out = place.arg("out");
    let text = sweep(&place, &["--vary", "failure=each-link", "--out", &out]).ok();
    assert!(text.starts_with("fabric: 5 points, 1 seed, 5 runs\n"), "{text}");
    assert!(text.contains("\nVaried: faults.failure\n"), "{text}");
    let json: Value =
        serde_json::from_slice(&fs::read(place.path("out/sweep.json")).unwrap()).unwrap();
    let points = json["points"].as_array().unwrap();
    let values: Vec<&Value> = points.iter().map(|point| &point["values"][0]).collect();
    assert_eq!(values, ["none", "tor0-spine0", "tor0-spine1", "tor1-spine0", "tor1-spine1"]);
    assert!(points.iter().all(|point| point.get("unreachable_pairs").is_none()), "all connected");
    let csv = fs::read_to_string(place.path("out/sweep.csv")).unwrap();
    assert!(
        csv.starts_with("faults.failure,seed,") && csv.contains("\ntor1-spine0,1,short,swift,")
    );

    // The reference is a run without a failure; the others can be run alone.
    let p99 = |summary: &Value| summary["groups"][0]["fct"]["slowdown"]["p99"].clone();
    let of_point = |i: usize| {
        let metrics = points[i]["metrics"].as_array().unwrap();
        metrics.iter().find(|one| one["metric"] == "slowdown_p99").unwrap()["mean"].clone()
    };
    let alone = place.run(&["--json"]).json();
    let none = place.run(&["--json", "--set", "faults.failure=none"]).json();
    assert_eq!(alone["engine"]["digest"], none["engine"]["digest"]);
    assert_eq!(of_point(0), p99(&alone));
    let failed = place.run(&["--json", "--set", "faults.failure=tor0-spine1"]).json();
    assert_eq!(of_point(2), p99(&failed));

    // Worst first, the reference last.
    let (title, rows) = worst(&text);
    assert!(title.contains("slowdown, 99th percentile; factor: over the run without"), "{title}");
    assert_eq!(rows[0][..3], ["label", "failure", "slowdown_p99"]);
    assert_eq!((rows.len(), rows[5][1]), (6, "none"));
    let means: Vec<f64> =
        rows[1..5].iter().map(|row| row[row.len() - 5].parse().unwrap()).collect();
    assert!(means.is_sorted_by(|a, b| a >= b), "{text}");
    assert!(text.contains("1.00"), "factor of the reference: {text}");

    // The page and the cache are those of any sweep.
    answer(&["report", &out, "--out", &place.arg("page.html")]).ok();
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    assert!(page.contains("tor0-spine1"));
    let more = sweep(&place, &["--vary", "failure=each-link,each-switch"]).ok();
    assert!(more.contains("7 runs, 5 of them cached"), "{more}");
}

#[test]
fn failed_link_carries_nothing() {
    let place = leaf_spine();
    let used = |set: &[&str], from: &str, to: &str| {
        let sets = set.iter().flat_map(|one| ["--set", *one]).collect::<Vec<_>>();
        let summary = place.run(&[&["--json"], &sets[..]].concat()).json();
        let links = summary["links"].as_array().unwrap();
        let link = links.iter().find(|link| link["from"] == from && link["to"] == to);
        link.unwrap()["utilization"].as_f64().unwrap()
    };
    let failure = "faults.failure=tor0-spine1";
    for (from, to) in [("tor0", "spine1"), ("spine1", "tor0"), ("spine1", "tor1")] {
        assert!(used(&[], from, to) > 0.0);
        assert_eq!(used(&[failure], from, to), 0.0, "{from} to {to}");
        let late = [failure, "faults.failure_down=100us"];
        assert!(used(&late, from, to) > 0.0, "until then");
        let early = [failure, "faults.failure_down=0us", "faults.failure_up=50us"];
        assert!(used(&early, from, to) > 0.0, "from then on");
    }
    assert!(used(&["faults.failure=spine1"], "tor0", "spine0") > 0.0);
    assert_eq!(used(&["faults.failure=spine1"], "tor1", "spine1"), 0.0);
}

#[test]
fn fat_tree_has_a_run_for_each_failure() {
    let place = place("kind = 'fat-tree', k = 4");
    let runs = |vary: &str| {
        let text = sweep(&place, &["--vary", vary, "--set", "duration=21us", "--dry-run"]).ok();
        text.split(' ').next().unwrap().parse::<usize>().unwrap()
    };
    assert_eq!(runs("failure=each-link"), 1 + 32);
    assert_eq!(runs("failure=each-switch"), 1 + 8 + 4);
}

/// Two links of one rack leave it without a path.
#[test]
fn every_pair_of_links_is_a_run() {
    let text = sweep(&leaf_spine(), &["--vary", "failure=each-pair-of-links"]).ok();
    assert!(text.starts_with("fabric: 7 points, 1 seed, 7 runs\n"), "{text}");
    let (_, rows) = worst(&text);
    let cut = |pair: &str| {
        let row = rows.iter().find(|row| row[1] == pair).expect(&text);
        row.last().is_some_and(|cell| *cell == "8")
    };
    assert!(cut("tor0-spine0+tor0-spine1") && cut("tor0-spine0+tor1-spine1"), "{text}");
    assert!(!cut("tor0-spine0+tor1-spine0"), "{text}");
}

#[test]
fn partition_is_reported() {
    let dumbbell = place("kind = 'dumbbell', pairs = 2");
    let out = dumbbell.arg("out");
    let vary = ["--vary", "failure=each-link,each-host-link", "--out", &out];
    let answer = sweep(&dumbbell, &vary);
    let words = "8 of 12 ordered pairs of hosts have no path";
    assert!(answer.stderr.contains(words), "{}", answer.stderr);
    let text = answer.ok();
    assert!(text.contains("unreachable pairs"), "{text}");
    let (_, rows) = worst(&text);
    assert_eq!((rows[1][1], rows[1].last()), ("tor0-tor1", Some(&"8")), "{text}");
    assert_eq!(rows[2].last(), Some(&"6"), "{text}");
    let json: Value =
        serde_json::from_slice(&fs::read(dumbbell.path("out/sweep.json")).unwrap()).unwrap();
    assert_eq!(json["points"][1]["unreachable_pairs"], 8);
    let unfinished = |i: usize| {
        let metrics = json["points"][i]["metrics"].as_array().unwrap();
        metrics.iter().find(|one| one["metric"] == "unfinished").unwrap()["mean"].as_f64()
    };
    assert_eq!(unfinished(0), Some(0.0));
    assert!(unfinished(1) > Some(0.0));

    let star = place("kind = 'star', hosts = 4");
    let text = sweep(&star, &["--vary", "failure=each-host-link"]).ok();
    assert!(text.starts_with("fabric: 5 points"), "{text}");
    let (_, rows) = worst(&text);
    assert!(rows[1..5].iter().all(|row| row.last() == Some(&"6")), "{text}");
}

/// Too many messages are unfinished, so the percentile of the reference is a lower bound. A ratio
/// to it could be too high or too low.
#[test]
fn worst_failures_have_no_ratio_to_a_bound() {
    let place = leaf_spine();
    let factors = |changes: &[&str]| {
        let sets = changes.iter().flat_map(|change| ["--set", change]).collect::<Vec<_>>();
        let text = sweep(&place, &[&["--vary", "failure=none,spine0"], &sets[..]].concat()).ok();
        let (_, rows) = worst(&text);
        assert_eq!((rows[1][1], rows[2][1], rows.len()), ("spine0", "none", 3), "{text}");
        // A bound has a mark before it.
        let of = |row: &Vec<&str>| row[2..row.len() - 3].join(" ");
        let [failed, reference] = [&rows[1], &rows[2]].map(of);
        (failed, reference, text)
    };
    let (failed, reference, text) = factors(&["drain=0us", "traffic.0.load=0.9"]);
    for cells in [failed, reference] {
        assert!(cells.starts_with("≥ ") && cells.ends_with(" -"), "{cells} in {text}");
    }
    // Only the percentile under the failure is a bound: the ratio is one, too.
    let (failed, reference, text) = factors(&["drain=0us", "traffic.0.load=0.5"]);
    assert!(failed.matches("≥ ").count() == 2 && reference.ends_with(" 1.00"), "{text}");
}

#[test]
fn failures_with_other_axes() {
    let place = leaf_spine();
    let text = "scenario = 'scenario.toml'\nset = ['faults.failure_down=50us']\n\
                [[axis]]\nkey = 'protocol'\nvalues = ['swift', 'dctcp']\n\
                [[axis]]\nkey = 'failure'\nvalues = ['each-switch', 'tor0-spine0+tor1-spine1']\n";
    fs::write(place.path("failures.toml"), text).unwrap();
    let file = place.arg("failures.toml");
    let cache = place.arg("cache");
    let by_file = answer(&["sweep", &file, "--cache", &cache, "--worst", "fct_p50 of short"]).ok();
    let vary = ["--vary", "protocol=swift,dctcp", "--set", "faults.failure_down=50us"];
    let failures = ["--vary", "failure=each-switch,tor0-spine0+tor1-spine1"];
    let args = [&vary[..], &failures, &["--worst", "fct_p50_us of short"]].concat();
    let by_options = sweep(&place, &args).ok();
    assert_eq!(by_options.replace(", 8 of them cached", ""), by_file);
    let unknown = sweep(&place, &[&args[..6], &["--worst", "fct_p50 of long"]].concat()).ok();
    assert!(unknown.contains("\nNo run has fct_p50_us of long,"), "{unknown}");
    let (title, rows) = worst(&by_file);
    assert!(title.starts_with(" by completion time, median;"), "{title}");
    assert_eq!(rows[0][..4], ["protocol", "label", "failure", "fct_p50_us"]);
    let names: Vec<_> = rows[1..].iter().map(|row| (row[0], row[2])).collect();
    assert_eq!((names[3], names[7]), (("swift", "none"), ("dctcp", "none")));
    // Others can repeat it.
    let (out, zip) = (place.arg("out"), place.arg("study.zip"));
    sweep(&place, &[&vary[..], &failures, &["--out", &out]].concat()).ok();
    answer(&["bundle", &out, "--out", &zip]).ok();
    assert!(answer(&["verify", &zip]).ok().contains("sweep.csv: same"));
    assert_eq!(files(&place.path("out")).len(), 4);
}

#[test]
fn wrong_failures() {
    let place = leaf_spine();
    let link = "a link by its ends, a switch";
    for (args, words) in [
        (&["--vary", "failure=tor0-spine7"][..], &["failure=tor0-spine7", link, "each-switch"][..]),
        (&["--vary", "failure=each-lnk"], &["faults.failure", "each-lnk", "\"each-link\""]),
        (&["--vary", "failure=tor0-tor1"], &["faults.failure", "\"tor0-spine0\"", "\"none\""]),
        (&["--vary", "failure=each-link", "--vary", "fabric.spines=2,3"], &["fabric.spines"]),
        (
            &["--vary", "failure=each-link", "--worst", "slowdown"],
            &["--worst", "slowdown_p99, ", "of LABEL"],
        ),
        (&["--vary", "fabric.spines=2,3", "--worst", "drops"], &["--worst", "failure=each-link"]),
        (
            &["--vary", "failure=each-link", "--set", "faults.failure_down=1s"],
            &["faults.failure_down", "before the end of the run"],
        ),
    ] {
        sweep(&place, args).refused(2, words);
    }
}
