//! Collectives, from a scenario to tables and results.

mod common;

use common::{Place, files, steady};

/// Three iterations of a 30 KB all-reduce on three hosts, and an unfinished chain of requests.
fn place() -> Place {
    Place::new(concat!(
        "[[traffic]]\nkind = \"collective\"\nop = \"ring-all-reduce\"\nsize = \"30KB\"\n",
        "label = \"train\"\nstart = \"60us\"\niterations = 3\ncompute = \"10us\"\n",
        "[[traffic]]\nkind = \"collective\"\nop = \"chain\"\nsize = \"1KB\"\nreply = \"9KB\"\n",
        "hosts = [\"h2\", \"h0\"]\niterations = 1000\n",
    ))
}

#[test]
fn jobs_in_summary_and_table() {
    let place = place();
    let summary = place.run(&["--json"]).json();
    let jobs = summary["jobs"].as_array().unwrap();
    let (train, chain) = (&jobs[0], &jobs[1]);
    for (key, value) in [("iterations", 3), ("finished", 3), ("measured", 3), ("ranks", 3)] {
        assert_eq!(train[key], value, "{key}");
    }
    let number = |key: &str| train[key].as_f64().unwrap();
    let mean = train["iteration_us"]["mean"].as_f64().unwrap();
    // 30 KB in bits over the mean time; each rank sends 4/3 of that.
    assert!((number("algbw_gbps") / (240.0 / mean) - 1.0).abs() < 1e-3, "{train}");
    assert!((number("busbw_gbps") / number("algbw_gbps") - 4.0 / 3.0).abs() < 1e-6);
    // Three iterations and two compute times.
    assert!((number("completion_us") / (3.0 * mean + 20.0) - 1.0).abs() < 0.05, "{train}");
    let each: Vec<f64> =
        train["iterations_us"].as_array().unwrap().iter().map(|us| us.as_f64().unwrap()).collect();
    assert!(each.len() == 3 && (each.iter().sum::<f64>() / 3.0 - mean).abs() < 1e-5, "{train}");
    assert_eq!(chain["op"], "chain");
    assert!(chain["completion_us"].is_null() && chain["busbw_gbps"].is_null());
    let finished = chain["finished"].as_u64().unwrap();
    // Some iterations finish before warm-up ends.
    assert!(finished > 20 && chain["measured"].as_u64().unwrap() < finished, "{chain}");
    let each = chain["iterations_us"].as_array().unwrap();
    assert_eq!(each.iter().filter(|us| us.is_number()).count() as u64, finished);
    let warning = format!("chain: {finished} of 1000 iterations were done by the end of the run");
    let warnings = summary["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|one| *one == *warning), "{warnings:?}");

    let table = place.run(&[]).ok();
    for word in ["Collectives", "ring-all-reduce", "busbw", &format!("{finished} of 1000")] {
        assert!(table.contains(word), "`{word}` is missing in:\n{table}");
    }
    let table = place.call("compare", &["--protocols", "swift,sird"]).ok();
    assert_eq!(table.matches("ring-all-reduce").count(), 2, "{table}");
}

#[test]
fn job_keys_are_documented() {
    let results = include_str!("../../../docs/results.md");
    let summary = place().run(&["--json"]).json();
    for (key, value) in summary["jobs"][0].as_object().unwrap() {
        let inner = value.as_object().into_iter().flat_map(|map| map.keys());
        for key in inner.chain([key]) {
            assert!(results.contains(&format!("`{key}`")), "{key}");
        }
    }
}

#[test]
fn partitions_do_not_affect_jobs() {
    let place = place().on("kind = \"leaf-spine\"\nracks = 3\nhosts_per_rack = 1\nspines = 2\n");
    let run = |partitions: &str, threads: u64| {
        let summary = place.run(&["--json", "--partitions", partitions]).json();
        assert_eq!(summary["engine"]["threads"], threads);
        steady(summary)
    };
    let whole = run("1", 1);
    assert_eq!(whole, run("2", 2));
    assert_eq!(whole, run("3", 3));
}

#[test]
fn wrong_collective_leaves_no_files() {
    let place = place();
    let out = place.arg("out");
    let wrong = place.run(&["--out", &out, "--set", "traffic[0].size=2B"]);
    wrong.refused(2, &["traffic[0].size", "at least 3B, a byte a rank"]);
    assert_eq!(files(&place.path("")), ["scenario.toml"]);
}
