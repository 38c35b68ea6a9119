//! Jobs from files, from a scenario to tables and results.

use std::path::Path;

use crate::common::{Place, answer, steady};
use serde_json::Value;

/// The scenario of the documentation.
fn example() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/jobs/ring.toml");
    folder.display().to_string()
}

fn times(job: &Value) -> Vec<f64> {
    job["iterations_us"].as_array().unwrap().iter().map(|us| us.as_f64().unwrap()).collect()
}

/// The schedule is that of the collective. Its iterations include 50 us of computing.
#[test]
fn goal_ring_takes_the_time_of_the_collective() {
    let set = ["transport.protocol=open-loop", "transport.params.rate=100Gbps", "until=done"];
    let set: Vec<&str> = set.iter().flat_map(|change| ["--set", change]).collect();
    let summary = answer(&[&["run", &example(), "--json"], &set[..]].concat()).json();
    let [job, collective] = [0, 1].map(|number| &summary["jobs"][number]);
    assert_eq!((&job["op"], &job["finished"]), (&"job".into(), &3.into()));
    let with_compute: Vec<f64> = times(collective).iter().map(|us| us + 50.0).collect();
    for (ours, theirs) in times(job).iter().zip(&with_compute) {
        assert!((ours - theirs).abs() < 1e-5, "{job} {collective}");
    }
    let completion = |job: &Value| job["completion_us"].as_f64().unwrap();
    assert!((completion(job) - completion(collective) - 50.0).abs() < 1e-5, "{summary}");
    // All ranks compute for 50 us of each iteration, and wait for messages in the rest.
    let share = 1.0 - 150.0 / completion(job);
    assert!((job["communication"].as_f64().unwrap() / share - 1.0).abs() < 1e-6, "{job}");
    assert_eq!(job["iterations_communication"].as_array().unwrap().len(), 3);
    assert!(job["algbw_gbps"].is_null() && job["busbw_gbps"].is_null());
    assert_eq!(job["size_bytes"], 4 * 6 * 250_000);
}

#[test]
fn jobs_are_in_tables_and_documents() {
    let table = answer(&["run", &example()]).ok();
    for word in ["Collectives and jobs", "communication", "trace", "job", "6.00 MB"] {
        assert!(table.contains(word), "`{word}` is missing in:\n{table}");
    }
    let results = include_str!("../../../docs/results.md");
    let summary = answer(&["run", &example(), "--json"]).json();
    for (key, _) in summary["jobs"][0].as_object().unwrap() {
        assert!(results.contains(&format!("`{key}`")), "{key}");
    }
}

/// Ranks are in three racks, and one of them computes after its last message.
#[test]
fn partitions_do_not_affect_jobs_from_files() {
    let place = Place::new(concat!(
        "[[traffic]]\nkind = \"job\"\nfile = \"x.goal\"\niterations = 4\n",
        "[[traffic]]\nkind = \"poisson\"\nsizes = \"3KB\"\nload = 0.2\n",
    ))
    .on("kind = \"leaf-spine\"\nracks = 3\nhosts_per_rack = 1\nspines = 2\n");
    let goal = "num_ranks 3\n\
                rank 0 {\na: calc 3000\nb: send 20000b to 1\nb requires a\n\
                c: send 9000b to 2\nc irequires a\n}\n\
                rank 1 {\na: recv 20000b from 0\nb: calc 7000\nb requires a\n\
                c: send 5000b to 2 tag 1\nc requires b\n}\n\
                rank 2 {\na: recv 9000b from 0\nb: recv 5000b from 1 tag 1\nc: calc 9000\n\
                c requires a\nc requires b\n}\n";
    std::fs::write(place.path("x.goal"), goal).unwrap();
    let set = ["--json", "--set", "until=done", "--set", "duration=1s", "--set", "warmup=0us"];
    let run = |partitions: &str| {
        let summary = place.run(&[&set[..], &["--partitions", partitions]].concat()).json();
        assert_eq!(summary["engine"]["threads"].to_string(), partitions);
        steady(summary)
    };
    let whole = run("1");
    let job = &whole["jobs"][0];
    assert_eq!((&job["finished"], &job["ranks"]), (&4.into(), &3.into()), "{job}");
    // The run ends a microsecond at most after the last computation.
    let end = whole["sim_seconds"].as_f64().unwrap() * 1e6;
    let completion = job["completion_us"].as_f64().unwrap();
    assert!(completion <= end && end <= completion + 2.0, "{completion} and {end}");
    assert_eq!(whole, run("2"));
    assert_eq!(whole, run("3"));
}

#[test]
fn unfinished_job_is_reported() {
    let run = answer(&["run", &example(), "--set", "duration=100us"]);
    let line = run.stderr.lines().find(|line| line.contains("trace (job): 0 of 3 iterations"));
    assert!(line.is_some_and(|line| line.contains("increase `duration`")), "{}", run.stderr);
}
