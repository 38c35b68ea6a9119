//! `--seeds`: scenarios under several seeds.

use std::fs;

use crate::common::{Place, circle, files, protocols, steady};
use serde_json::Value;

/// Random messages and a flow between two racks.
fn place() -> Place {
    let place = Place::usual();
    let text = "duration = '200us'\nwarmup = '20us'\ndrain = '1ms'\n\
        fabric = { kind = 'leaf-spine', racks = 2, hosts_per_rack = 2, spines = 1 }\n\
        transport = { protocol = 'swift' }\n\
        flows = [{ src = 'h0', dst = 'h3', label = 'long' }]\n\
        [[traffic]]\nkind = 'poisson'\nlabel = 'short'\nsizes = '20KB'\nload = 0.3\n";
    fs::write(place.path("scenario.toml"), text).unwrap();
    place
}

fn json(place: &Place, name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(place.path(name)).unwrap()).unwrap()
}

/// The entry of a metric of messages of all sizes.
fn metric<'a>(run: &'a Value, label: &str, name: &str) -> &'a Value {
    let its =
        |one: &&Value| one["label"] == label && one["metric"] == name && one["min_bytes"].is_null();
    run["metrics"].as_array().unwrap().iter().find(its).unwrap_or_else(|| panic!("{label} {name}"))
}

#[test]
fn means_match_single_runs() {
    let place = place();
    let aggregate = place.run(&["--seeds", "1..3", "--json", "--out", &place.arg("out")]).json();
    assert_eq!(aggregate["seeds"], serde_json::json!([1, 2, 3]));
    assert_eq!(aggregate, json(&place, "out/aggregate.json"));
    assert_eq!(files(&place.path("out")), ["aggregate.json", "seed-1", "seed-2", "seed-3"]);
    let mut values = Vec::new();
    for seed in ["1", "2", "3"] {
        let folder = format!("out/seed-{seed}");
        assert_eq!(files(&place.path(&folder)), ["flows.parquet", "manifest.json", "summary.json"]);
        let alone = place.run(&["--seed", seed, "--json"]).json();
        let groups = alone["groups"].as_array().unwrap();
        let short = groups.iter().find(|group| group["label"] == "short").unwrap();
        values.push(short["fct"]["mean_us"].as_f64().unwrap());
        let summary = json(&place, &format!("{folder}/summary.json"));
        assert_eq!(steady(summary), steady(alone), "seed {seed}");
    }
    let of_all = metric(&aggregate["runs"][0], "short", "fct_mean_us");
    assert_eq!(of_all["n"], 3);
    assert_eq!(of_all["values"], serde_json::json!(values));
    let mean = values.iter().sum::<f64>() / 3.0;
    let deviation = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 2.0).sqrt();
    let near = |key: &str, value: f64| {
        let found = of_all[key].as_f64().unwrap();
        assert!((found - value).abs() < 1e-9 * value, "{key}: {found}, not {value}");
    };
    near("mean", mean);
    near("half_width", 4.302_652_730 * deviation / 3f64.sqrt());
    assert!(deviation > 0.0, "each seed draws other messages");
}

#[test]
fn aggregate_is_deterministic_over_threads() {
    let place = place();
    let aggregate = |threads: &str, partitions: u64| {
        let forced = partitions.to_string();
        let seeds = ["--protocols", "swift,dctcp", "--seeds", "1..3", "--json"];
        let out = place.arg(&format!("{threads}-{forced}"));
        let rest = ["--threads", threads, "--partitions", &forced, "--out", &out];
        let text = place.call("compare", &[&seeds[..], &rest].concat()).ok();
        for (seed, protocol) in [(1, "swift"), (2, "dctcp"), (3, "swift")] {
            let name = format!("{threads}-{forced}/seed-{seed}/{protocol}/summary.json");
            assert_eq!(json(&place, &name)["engine"]["threads"], partitions, "{name}");
        }
        text
    };
    let one = aggregate("1", 1);
    assert!(one.contains("\"aggregate\"") || one.contains("\"metrics\""));
    assert_eq!(one, aggregate("3", 1));
    assert_eq!(one, aggregate("1", 2));
    assert_eq!(one, aggregate("3", 2));
}

#[test]
fn compare_paired_differences() {
    let place = place();
    let out = place.arg("out");
    let args = ["--protocols", "swift,dctcp", "--seeds", "4,6", "--out", &out];
    let text = place.call("compare", &args).ok();
    assert!(text.contains("2 seeds (4, 6)") && text.contains(" ± "), "{text}");
    assert!(text.contains("unfinished") && text.contains("0 of "), "{text}");
    assert_eq!(files(&place.path("out")), ["aggregate.json", "seed-4", "seed-6"]);
    assert_eq!(files(&place.path("out/seed-4")), ["comparison.json", "dctcp", "swift"]);
    let aggregate = json(&place, "out/aggregate.json");
    let runs = aggregate["runs"].as_array().unwrap();
    assert_eq!([&runs[0]["protocol"], &runs[1]["protocol"]], ["swift", "dctcp"]);
    // Differences are computed by seed, from the first protocol.
    assert_eq!(aggregate["baseline"], "swift");
    assert!(text.contains("Messages: difference from swift by seed, n = 2"), "{text}");
    let [base, own] = [0, 1].map(|i| metric(&runs[i], "short", "fct_mean_us"));
    let difference = &own["difference"];
    let of = |i: usize| own["values"][i].as_f64().unwrap() - base["values"][i].as_f64().unwrap();
    assert_eq!(difference["values"], serde_json::json!([of(0), of(1)]));
    assert_eq!((&difference["n"], &base["difference"]), (&2.into(), &Value::Null));
    // For two seeds, t = mean / (half the distance), and p = 1 - 2 atan(t) / π.
    let t = ((of(0) + of(1)) / (of(0) - of(1))).abs();
    let p = 1.0 - 2.0 * t.atan() / std::f64::consts::PI;
    assert!((difference["p"].as_f64().unwrap() - p).abs() < 2e-9, "{difference}, not {p}");
    assert!(difference["p_holm"].as_f64() > difference["p"].as_f64(), "many tests: {difference}");
    // Both have the same offered load with each seed.
    let offered = metric(&runs[1], "short", "offered_gbps");
    assert_eq!(offered["difference"]["values"], serde_json::json!([0.0, 0.0]));
    assert_eq!(offered["difference"]["p"], Value::Null);

    let other = [&args[..4], &["--baseline", "dctcp"]].concat();
    let text = place.call("compare", &other).ok();
    assert!(text.contains("difference from dctcp by seed") && !text.contains("from swift"));
    let refused = |args: &[&str], words: &[&str]| {
        let protocols = ["--protocols", "swift,dctcp", "--out", "none"];
        place.call("compare", &[&protocols, args].concat()).refused(2, words);
        assert!(!place.path("none").exists());
    };
    let near = ["--baseline", "dctpc"];
    let words = ["--baseline: `dctpc`", "did you mean `dctcp`?", "they are swift, dctcp"];
    refused(&[&near[..], &["--seeds", "2"]].concat(), &words);
    refused(&["--baseline", "sird", "--seeds", "2"], &["--baseline: `sird`"]);
    refused(&["--baseline", "dctcp"], &["--baseline", "several seeds", "--seeds 5"]);

    // Results of fewer seeds replace those of more, and a run replaces a comparison.
    let fewer = ["--protocols", "swift,dctcp", "--seeds", "4..5", "--out", &out];
    place.call("compare", &fewer).refused(2, &["--out", "--force"]);
    place.call("compare", &[&fewer[..], &["--force"]].concat()).ok();
    assert_eq!(files(&place.path("out")), ["aggregate.json", "seed-4", "seed-5"]);
    place.run(&["--out", &out, "--force"]).ok();
    assert_eq!(files(&place.path("out")), ["flows.parquet", "manifest.json", "summary.json"]);
}

#[test]
fn single_seed_in_a_list() {
    let place = place();
    let alone = steady(place.run(&["--seed", "7", "--json"]).json());
    assert_eq!(steady(place.run(&["--seeds", "7..7", "--json"]).json()), alone);
    assert_ne!(steady(place.run(&["--seed", "1", "--json"]).json()), alone);
    assert_eq!(place.run(&["--seeds", "2", "--json"]).json()["seeds"], serde_json::json!([1, 2]));
}

#[test]
fn wrong_seed_lists() {
    let place = place();
    let out = place.arg("out");
    for (args, words) in [
        (&["--seeds", "1.."][..], &["--seeds", "1..", "a range with both ends (1..5)"][..]),
        (&["--seeds", "-1"], &["--seeds", "-1", "a list (1,4,7)"]),
        (&["--seeds", "5..1"], &["--seeds", "is not above the last"]),
        (&["--seeds", "1,1"], &["--seeds", "each seed once, found 1 twice"]),
        (&["--seeds", "0"], &["--seeds", "1 to 10000 seeds"]),
        (&["--seeds", "1..3", "--seed", "1"], &["--seeds", "--seed"]),
        (&["--seeds", "1..3", "--pcap", "x"], &["--seeds", "--pcap"]),
        (&["--seeds", "1..3", "--set", "seed=4"], &["--seeds", "--set seed=4"]),
        (&["--seeds", "7..7", "--set", "seed=4"], &["--seeds", "--set seed=4"]),
        (&["--seed", "2", "--set", "seed=4"], &["--seed: cannot be combined", "--set seed=4"]),
        (&["--seeds", "1..3", "--set", "fabric.spine=2"], &["--set", "spine"]),
    ] {
        place.run(&[args, &["--out", &out]].concat()).refused(2, words);
    }
    let known = &protocols()[0];
    let twice = format!("{known},{known}");
    place
        .call("compare", &["--protocols", &twice, "--seeds", "1..2", "--out", &out])
        .refused(2, &["--protocols", "twice"]);
    assert_eq!(files(&place.path("")), ["scenario.toml"]);
}

#[test]
fn occupied_seed_folder() {
    let place = place();
    place.run(&["--seed", "2", "--out", &place.arg("out/seed-2")]).ok();
    place.run(&["--seeds", "1..2", "--out", &place.arg("out")]).refused(2, &["--out", "--force"]);
    assert_eq!(files(&place.path("out")), ["seed-2"]);
}

/// One of two protocols sends so little that the ring of switches does not deadlock.
#[test]
fn results_beside_a_failed_run() {
    let place = Place::usual();
    let rest = "[transport]\nprotocol = 'swift'\n[protocols.open-loop]\n\
                params = { rate = '1Gbps' }\n";
    fs::write(place.path("scenario.toml"), circle() + rest).unwrap();
    let out = place.arg("out");
    let compare = |seeds: &str, duration: &str| {
        let set = format!("duration={duration}");
        let args = ["--protocols", "open-loop,swift", "--seeds", seeds, "--set", &set];
        place.call("compare", &[&args[..], &["--out", &out, "--force"]].concat())
    };
    compare("1..3", "20us").ok();
    assert_eq!(files(&place.path("out")), ["aggregate.json", "seed-1", "seed-2", "seed-3"]);
    compare("1..2", "1ms").refused(1, &["deadlock detected at"]);
    assert_eq!(files(&place.path("out")), ["seed-1", "seed-2"]);
    assert_eq!(files(&place.path("out/seed-2")), ["open-loop"]);
}

#[test]
fn warning_seeds_without_effect() {
    // Two unbounded flows on one path each, without random marking.
    let place = Place::new(
        "[[flows]]\nsrc = \"h0\"\ndst = \"h2\"\n[[flows]]\nsrc = \"h1\"\ndst = \"h2\"\n",
    );
    let answer = place.run(&["--seeds", "1..2", "--set", "transport.protocol=swift"]);
    assert!(answer.stderr.contains("every seed gives the same values"), "{}", answer.stderr);
    assert!(!answer.ok().contains('*'));
}
