//! Collectives, from a scenario to tables and results.

use crate::common::{Place, answer, files, steady};

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
    let printed = format!("chain: {finished} of 1000 iterations finished by the end of the run");
    let warnings = summary["warnings"].as_array().unwrap();
    let printed = printed + ": increase `duration`, which is 300us";
    assert!(warnings.iter().any(|warning| *warning == *printed), "{warnings:?}");

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

/// The ring of [`place`], a flow with a size, and endless background traffic, until the first two
/// are complete.
fn until_done() -> Place {
    Place::new(concat!(
        "[[traffic]]\nkind = \"collective\"\nop = \"ring-all-reduce\"\nsize = \"30KB\"\n",
        "label = \"train\"\niterations = 3\ncompute = \"10us\"\n",
        "[[traffic]]\nkind = \"poisson\"\nsizes = \"3KB\"\nload = 0.1\n",
        "[[flows]]\nsrc = \"h0\"\ndst = \"h1\"\nsize = \"10KB\"\nstart = \"150us\"\n",
    ))
    .on("kind = \"leaf-spine\"\nracks = 3\nhosts_per_rack = 1\nspines = 2\n")
}

/// A microsecond is how often it is looked.
#[test]
fn run_until_done_ends_with_the_last_message() {
    let place = until_done();
    let set = ["--set", "until=done", "--set", "duration=1s", "--set", "output.timeseries=7us"];
    let run = |out: &str, more: &[&str]| {
        let out = place.arg(out);
        let args = [&set[..], &["--json", "--out", &out], more].concat();
        let summary = place.run(&args).json();
        if let ["--partitions", partitions] = more {
            assert_eq!(summary["engine"]["threads"].to_string(), *partitions);
        }
        let bytes = |file| std::fs::read(place.path(&format!("{out}/{file}"))).unwrap();
        (steady(summary), bytes("flows.parquet"), bytes("timeseries.parquet"))
    };
    let whole = run("one", &[]);
    let summary = &whole.0;
    let warnings = summary["warnings"].to_string();
    assert!(!warnings.contains("iterations") && !warnings.contains("until"), "{warnings}");
    assert_eq!(summary["jobs"][0]["finished"], 3);
    let end = summary["sim_seconds"].as_f64().unwrap() * 1e6;
    let flows = summary["flows"].as_array().unwrap();
    let ends = |flow: &serde_json::Value| {
        let took = flow["fct_us"].as_f64()?;
        Some(flow["start_us"].as_f64()? + took)
    };
    let awaited = flows
        .iter()
        .filter(|flow| flow["label"] == "train" || flow["size_bytes"].as_u64() == Some(10_000));
    let last = awaited.map(|flow| ends(flow).unwrap()).fold(0.0, f64::max);
    // The sender knows a round trip after that.
    assert!(last < end && end < last + 20.0, "{last} and {end}");
    assert!(flows.iter().filter_map(ends).all(|at| at <= end));
    assert!(flows.iter().all(|flow| flow["start_us"].as_f64().unwrap() <= end));
    assert!(end > 150.0 && end < 400.0, "{end}");
    for partitions in ["2", "3"] {
        assert_eq!(whole, run(partitions, &["--partitions", partitions]), "{partitions}");
    }
    // A drain follows, in which the background finishes and nothing more is measured.
    let drained = place.run(&[&set[..], &["--json", "--set", "drain=1ms"]].concat()).json();
    assert_eq!(drained["sim_seconds"], summary["sim_seconds"]);
    assert_eq!(drained["fct"]["all"]["unfinished"], 0);
    assert_eq!(drained["links"], summary["links"]);
}

#[test]
fn unfinished_run_names_the_key_to_increase() {
    let place = until_done();
    let out = place.arg("out");
    let short = ["duration=30us", "warmup=0us", "flows.0.start=20us", "flows.0.size=1MB"];
    let set: Vec<&str> = short.iter().flat_map(|change| ["--set", change]).collect();
    let set = [&["--set", "until=done"], &set[..]].concat();
    let run = place.run(&[&set[..], &["--out", &out]].concat());
    for words in ["train (ring-all-reduce): ", "until = \"done\": "] {
        let line = run.stderr.lines().find(|line| line.contains(words));
        let line = line.unwrap_or_else(|| panic!("{}", run.stderr));
        assert!(line.contains("increase `duration`, which is 30us"), "{line}");
    }
    // One warning for each cause: none that all messages of the collective are unfinished.
    let none =
        place.run(&[&set[..], &["--set", "duration=3us", "--set", "flows.0.start=0us"]].concat());
    let none = none.stderr;
    assert!(none.contains("train (ring-all-reduce): 0 of 3 iterations"), "{none}");
    assert!(!none.contains("train: "), "{none}");
    // Without the flow, the warning about the collective names the only cause.
    let early = ["--set", "flows.0.start=0us", "--set", "flows.0.size=100B"];
    let alone = place.run(&[&set[..], &early].concat()).stderr;
    assert!(alone.contains("train (ring-all-reduce): ") && !alone.contains("until = "), "{alone}");
    let page = place.arg("page.html");
    answer(&["report", &out, "--out", &page]).ok();
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("of 3 iterations finished by the end of the run"));
    // Warm-up is over before that, whatever is done.
    let late = ["--set", "until=done", "--set", "warmup=400us", "--set", "duration=1ms"];
    let late = place.run(&[&late[..], &["--json"]].concat()).json();
    assert_eq!(late["sim_seconds"], 401e-6);
}

#[test]
fn nothing_is_waited_for_where_nothing_ends() {
    let place = Place::new("[[traffic]]\nkind = \"poisson\"\nsizes = \"3KB\"\nload = 0.1\n");
    let wrong = place.run(&["--set", "until=done"]);
    wrong.refused(2, &["until", "without finite traffic", "a collective"]);
    place.run(&["--set", "until=duration"]).ok();
}

#[test]
fn wrong_collective_leaves_no_files() {
    let place = place();
    let out = place.arg("out");
    let wrong = place.run(&["--out", &out, "--set", "traffic[0].size=2B"]);
    wrong.refused(2, &["traffic[0].size", "at least 3B, one byte per rank"]);
    assert_eq!(files(&place.path("")), ["scenario.toml"]);
}
