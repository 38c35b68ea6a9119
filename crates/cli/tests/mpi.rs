//! `mpirun tidegate run`: any number of processes writes the same files, and failing runs write
//! none. Needs the feature `mpi` and an `mpirun`; with `TIDEGATE_MPI=required`, the test fails
//! without them.

#[cfg(not(feature = "mpi"))]
use crate::common::tidegate;
use crate::common::{Place, files};

#[test]
#[cfg(not(feature = "mpi"))]
fn build_without_mpi_refuses_mpirun() {
    let place = Place::usual();
    let demanded = std::env::var("TIDEGATE_MPI").is_ok_and(|value| value == "required");
    assert!(!demanded, "TIDEGATE_MPI=required, but the feature `mpi` is not on");
    let run = |size| {
        let (scenario, out) = (place.arg("scenario.toml"), place.arg("out"));
        let mut command = tidegate(&["run", &scenario, "--out", &out]);
        command.env("OMPI_COMM_WORLD_SIZE", size).output().unwrap()
    };
    let refused = run("2");
    let message = String::from_utf8(refused.stderr).unwrap();
    assert_eq!((refused.status.code(), files(&place.path("")).len()), (Some(2), 1), "{message}");
    let words = ["OMPI_COMM_WORLD_SIZE", "--features mpi"];
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
    assert!(run("1").status.success());
}

#[cfg(feature = "mpi")]
mod with_mpi {
    use std::fs;
    use std::process::{Command, Output, Stdio};
    use std::thread::sleep;
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::common::{anywhere, protocols, steady};

    /// Racks, cross traffic, samples, faults and a drain.
    const SCENARIO: &str = r#"
duration = "DURATION"
warmup = "100us"
drain = "200us"
output = { timeseries = "50us" }
fabric = { kind = "leaf-spine", racks = 5, hosts_per_rack = 4, spines = 3 }
switch = { buffer = "1MB" }
transport = { protocol = "PROTOCOL" }
faults = { loss = 1e-3, link = [{ a = "tor0", b = "spine0", down = "200us", up = "300us" }] }
flows = [{ src = "h0", dst = "h19", label = "long" }]
[[traffic]]
kind = "poisson"
sizes = "20KB"
load = 0.5
"#;

    fn place(protocol: &str, duration: &str) -> Place {
        let place = Place::usual();
        let text = SCENARIO.replace("PROTOCOL", protocol).replace("DURATION", duration);
        fs::write(place.path("scenario.toml"), text).unwrap();
        place
    }

    /// Whether there is an `mpirun`; prints a note if not.
    fn has_mpirun() -> bool {
        let version = Command::new("mpirun").arg("--version").stderr(Stdio::null()).output();
        let found = version.is_ok_and(|output| output.status.success());
        let demanded = std::env::var("TIDEGATE_MPI").is_ok_and(|value| value == "required");
        assert!(found || !demanded, "TIDEGATE_MPI=required, but there is no mpirun in PATH");
        if !found {
            eprintln!("SKIPPED: there is no mpirun in PATH");
        }
        found
    }

    /// A command that starts several processes.
    fn mpirun(ranks: usize, args: &[&str]) -> Command {
        let mut command = Command::new("mpirun");
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        // Processes that must end have time to remove their files on a busy machine.
        command.args(["--mca", "odls_base_sigkill_timeout", "5"]);
        command.args(["--oversubscribe", "-n", &ranks.to_string()]);
        command.arg(env!("CARGO_BIN_EXE_tidegate")).args(args);
        command
    }

    /// Asserts failure with a single error message.
    fn refused(output: Output, words: &[&str]) {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && output.stdout.is_empty(), "{text}");
        assert!(words.iter().all(|word| text.contains(word)), "{words:?} in: {text}");
        let messages = text.lines().filter(|line| line.starts_with("tidegate: ")).count();
        assert_eq!(messages, 1, "{text}");
    }

    #[test]
    fn processes_do_not_affect_files() {
        if !has_mpirun() {
            return;
        }
        // Each protocol runs in two processes and in one of the other divisions, in turn.
        let mut others = [(1, 1), (2, 2), (4, 1)].into_iter().cycle();
        for protocol in anywhere() {
            let place = place(&protocol, "600us");
            place.run(&["--out", &place.arg("alone"), "--partitions", "1"]).ok();
            let read = |out: &str, file: &str| fs::read(place.path(out).join(file)).unwrap();
            let summary = |out: &str| {
                steady(serde_json::from_slice::<Value>(&read(out, "summary.json")).unwrap())
            };
            for (ranks, partitions) in [(2, 1), others.next().unwrap()] {
                let out = format!("{ranks}-{partitions}");
                let (scenario, arg) = (place.arg("scenario.toml"), place.arg(&out));
                let forced = partitions.to_string();
                let args = ["run", &scenario, "--out", &arg, "--partitions", &forced];
                let done = mpirun(ranks, &args).output().unwrap();
                let text = String::from_utf8(done.stdout).unwrap();
                assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
                assert_eq!(text.matches("Results are in").count(), 1, "{text}");
                assert_eq!(files(&place.path(&out)), files(&place.path("alone")));
                let engine = serde_json::from_slice::<Value>(&read(&out, "summary.json")).unwrap();
                assert_eq!(engine["engine"]["threads"], ranks * partitions, "{protocol}, {out}");
                assert_eq!(summary(&out), summary("alone"), "{protocol}, {out}");
                for file in ["flows.parquet", "timeseries.parquet"] {
                    assert!(read(&out, file) == read("alone", file), "{protocol}, {out}: {file}");
                }
            }
        }
    }

    #[test]
    fn unsupported_commands() {
        if !has_mpirun() {
            return;
        }
        let protocol = &protocols()[0];
        let place = place(protocol, "600us");
        let (scenario, pcap) = (place.arg("scenario.toml"), place.arg("run.pcapng"));
        let run = |ranks, out: &str| {
            mpirun(ranks, &["run", &place.arg("scenario.toml"), "--out", &place.arg(out)])
        };
        let beside = |out: &str, args: &[&str]| {
            let mut two = run(1, out);
            two.args([":", "-n", "1", env!("CARGO_BIN_EXE_tidegate"), "run"]).args(args);
            two
        };
        let calls = [
            (mpirun(2, &["run", &scenario, "--pcap", &pcap]), ["--pcap", "without mpirun"]),
            (
                mpirun(2, &["compare", &scenario, "--protocols", protocol]),
                ["tidegate run", "without mpirun"],
            ),
            (run(6, "six"), ["6 processes", "at most 5"]),
            (beside("seed", &[&scenario, "--seed", "7"]), ["process 1", "scenario"]),
            (beside("none", &["none.toml"]), ["process 1", "none.toml"]),
        ];
        // At once, because mpirun pauses for seconds before it ends processes.
        let started = calls.map(|(mut call, words)| {
            call.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            (call.spawn().unwrap(), words)
        });
        for (child, words) in started {
            refused(child.wait_with_output().unwrap(), &words);
        }
        assert_eq!(files(&place.path("")), ["scenario.toml"]);
    }

    /// Ids of the processes below `parent`, by rank.
    fn ranks(parent: u32) -> Vec<u32> {
        let path = format!("/proc/{parent}/task/{parent}/children");
        let below = fs::read_to_string(path).unwrap_or_default();
        let rank = |id: &u32| {
            let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            let text = String::from_utf8_lossy(&environment).into_owned();
            let rank = text.split('\0').find_map(|it| it.strip_prefix("OMPI_COMM_WORLD_RANK="));
            rank.and_then(|rank| rank.parse::<u32>().ok())
        };
        let mut ids: Vec<u32> = below.split_whitespace().filter_map(|id| id.parse().ok()).collect();
        ids.sort_by_key(rank);
        ids
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn killed_process_ends_all() {
        if !has_mpirun() {
            return;
        }
        let place = place(&protocols()[0], "100s");
        let (scenario, out) = (place.arg("scenario.toml"), place.arg("out"));
        for (signal, of_mpirun) in [("-KILL", false), ("-INT", true)] {
            let mut command = mpirun(3, &["run", &scenario, "--out", &out, "--threads", "1"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            // The run has started once its rows have a file.
            while !fs::read_dir(&out).is_ok_and(|files| files.count() > 1) {
                assert_eq!(
                    child.try_wait().unwrap(),
                    None,
                    "the run ended before it was interrupted"
                );
                sleep(Duration::from_millis(20));
            }
            sleep(Duration::from_millis(500));
            let ids = ranks(child.id());
            assert_eq!(ids.len(), 3);
            let victim = if of_mpirun { child.id() } else { ids[1] };
            let kill = Command::new("kill").args([signal, &victim.to_string()]).status().unwrap();
            assert!(kill.success());
            let output = child.wait_with_output().unwrap();
            assert!(!output.status.success() && output.stdout.is_empty(), "after {signal}");
            // An interrupted mpirun waits neither for its processes nor for their output. On a busy
            // machine they take seconds to end: up to a minute is allowed.
            let mut checks_left = if of_mpirun { 1200 } else { 0 };
            while files(&place.path("")).len() > 1 && checks_left > 0 {
                sleep(Duration::from_millis(50));
                checks_left -= 1;
            }
            assert_eq!(files(&place.path("")), ["scenario.toml"], "after {signal}");
        }
    }
}
