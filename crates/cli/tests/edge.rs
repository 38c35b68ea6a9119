//! Runs under adverse conditions: concurrent runs, kills, signals, a full disk, and special files.
#![cfg(unix)]
#![allow(clippy::disallowed_types, reason = "the test measures how soon a process ends")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Answer, Place, answer, files, protocols, tidegate};

/// Starts a practically endless run and waits for its first file.
fn endless(place: &Place, args: &[&str]) -> Child {
    let scenario = place.arg("scenario.toml");
    let out = place.arg("out");
    let args =
        [&["run", &scenario, "--set", "duration=1000s", "--out", &out, "--json"], args].concat();
    let mut child = tidegate(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let is_at_work = || files(&place.path("out")).iter().any(|name| name.contains("flows.parquet"));
    while !is_at_work() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended by itself");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn signal(child: &Child, name: &str) {
    let kill = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
}

fn ended(child: Child) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

/// Only one run at a time may write to a folder.
#[test]
fn second_run_into_busy_folder() {
    let place = Place::usual();
    let first = endless(&place, &[]);
    let before = files(&place.path("out"));
    let out = place.arg("out");
    for force in [&[][..], &["--force"]] {
        let run = |subcommand, args: &[&str]| {
            let args = [args, &["--out", &out], force].concat();
            place.call(subcommand, &args).refused(2, &["--out", &out, "another run"]);
        };
        run("run", &[]);
        run("compare", &["--protocols", &protocols()[0]]);
    }
    answer(&["reproduce", "--quick", "--out", &out]).refused(2, &["--out", "another run"]);
    assert_eq!(before, files(&place.path("out")), "refused runs change no files");
    signal(&first, "INT");
    assert_eq!(ended(first).0, Some(130));
    assert_eq!(files(&place.path("")), ["scenario.toml"]);
}

#[test]
fn concurrent_runs_into_one_folder() {
    let place = Place::usual();
    let (scenario, out) = (place.arg("scenario.toml"), place.arg("out"));
    let start = |seed: &str| {
        let args =
            ["run", &scenario, "--seed", seed, "--set", "duration=40ms", "--out", &out, "--json"];
        tidegate(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [start("1"), start("2")].map(|child| child.wait_with_output().unwrap());
    let codes = both.each_ref().map(|output| output.status.code());
    assert!(codes == [Some(0), Some(2)] || codes == [Some(2), Some(0)], "{codes:?}");
    let good = both.iter().find(|output| output.status.success()).unwrap();
    assert_eq!(good.stdout, fs::read(place.path("out/summary.json")).unwrap());
    assert_eq!(files(&place.path("out")), ["flows.parquet", "manifest.json", "summary.json"]);
}

#[test]
fn files_of_killed_run_are_removed() {
    let place = Place::usual();
    let run = endless(&place, &[]);
    signal(&run, "KILL");
    assert_eq!(ended(run).0, None);
    let left = files(&place.path("out"));
    assert!(left.len() >= 2 && left.iter().all(|name| name.starts_with('.')), "{left:?}");
    place.run(&["--out", &place.arg("out")]).ok();
    assert_eq!(files(&place.path("out")), ["flows.parquet", "manifest.json", "summary.json"]);
}

/// Whether this process ignores SIGHUP, the first signal of the mask; false if it is unknown.
fn ignores_hang_up() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0) & 1 != 0
}

#[test]
fn signals_end_a_run() {
    // Under nohup, the signal is ignored, and so it is in child processes.
    let hup = if ignores_hang_up() { None } else { Some("HUP") };
    for name in ["INT", "TERM"].into_iter().chain(hup) {
        let place = Place::usual();
        let run = endless(&place, &[]);
        let sent = Instant::now();
        signal(&run, name);
        let (code, stderr) = ended(run);
        assert_eq!(code, Some(130), "{name}: {stderr}");
        assert!(sent.elapsed() < Duration::from_secs(1), "{name}: {:?}", sent.elapsed());
        assert_eq!(files(&place.path("")), ["scenario.toml"], "{name}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn nohup_run_survives_hangup() {
    let place = Place::usual();
    let (scenario, out) = (place.arg("scenario.toml"), place.arg("out"));
    let script = format!(
        "trap '' HUP; exec {} run {scenario} --set duration=1000s --out {out}",
        env!("CARGO_BIN_EXE_tidegate")
    );
    let mut run = Command::new("sh").args(["-c", &script]).stderr(Stdio::piped()).spawn().unwrap();
    while files(&place.path("out")).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&run, "HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert!(run.try_wait().unwrap().is_none(), "it ended with its terminal");
    signal(&run, "TERM");
    assert_eq!(ended(run).0, Some(130));
}

/// One simulated step takes seconds, and all messages start at the same time.
#[test]
fn interrupt_during_expensive_steps() {
    let place = Place::new("");
    let text = "duration = '1s'\nfabric = { kind = 'star', hosts = 1000 }\ntransport = { protocol \
        = 'dctcp' }\n\
                traffic = [{ kind = 'all-to-all', sizes = '1MB' }]\n";
    fs::write(place.path("scenario.toml"), text).unwrap();
    let scenario = place.arg("scenario.toml");
    for wait in [300, 1500, 3000] {
        let run = tidegate(&["run", &scenario, "--out", &place.arg("out")])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        let sent = Instant::now();
        signal(&run, "TERM");
        let (_, stderr) = ended(run);
        assert!(sent.elapsed() < Duration::from_secs(1), "after {wait} ms: {:?}", sent.elapsed());
        assert_eq!(files(&place.path("")), ["scenario.toml"], "{stderr}");
    }
}

/// A file size limit emulates a full disk: the write fails at the same place.
#[test]
fn full_disk_leaves_no_final_files() {
    let place = Place::usual();
    let (scenario, out) = (place.arg("scenario.toml"), place.arg("out"));
    let subcommands = [
        format!("run {scenario}"),
        format!("compare {scenario} --protocols swift,dctcp"),
        format!("run {scenario} --seeds 2"),
        format!("sweep {scenario} --vary flows.2.size=20KB,30KB --no-cache"),
    ];
    // With the default action of the signal that such a limit sends, and with the signal ignored.
    for (subcommand, ignored) in
        subcommands.iter().flat_map(|it| [(it, ""), (it, "trap '' XFSZ; ")])
    {
        let script = format!(
            "{ignored}ulimit -f 1; exec {} {subcommand} --out {out}",
            env!("CARGO_BIN_EXE_tidegate")
        );
        let Output { status, stdout, stderr } =
            Command::new("sh").args(["-c", &script]).output().unwrap();
        let stderr = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(1), "{script}: {status} {stderr}");
        // The tables are printed although the files cannot be written.
        let stdout = String::from_utf8_lossy(&stdout);
        assert!(stdout.contains("slowdown") && !stdout.contains("Results are in"), "{stdout}");
        assert!(stderr.contains("--out"), "{stderr}");
        // The message of the system, without a prefix of a library.
        assert!(stderr.contains("File too large") && !stderr.contains("External"), "{stderr}");
        assert_eq!(files(&place.path("")), ["scenario.toml"], "{script}");
    }
}

#[test]
fn special_files_are_refused() {
    let place = Place::usual();
    fs::create_dir(place.path("folder")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", place.path("zero")).unwrap();
    let made = Command::new("mkfifo").arg(place.path("pipe")).status().unwrap();
    assert!(made.success());
    for (name, why) in [("folder", "a folder"), ("zero", "a device"), ("pipe", "a pipe")] {
        let refused = |answer: Answer| {
            assert_eq!(answer.stderr.lines().count(), 1, "{}", answer.stderr);
            answer.refused(2, &[name, why]);
        };
        refused(answer(&["run", &place.arg(name)]));
        refused(answer(&["compare", &place.arg(name), "--protocols", "swift"]));
        for (kind, key) in [("poisson", "sizes"), ("trace", "file")] {
            // A trace can be either, a distribution is always CSV.
            let endings = if kind == "trace" { &["csv", "parquet"][..] } else { &["csv"] };
            for file in endings.iter().map(|ending| format!("{name}.{ending}")) {
                let _ = fs::remove_file(place.path(&file));
                std::os::unix::fs::symlink(place.path(name), place.path(&file)).unwrap();
                let load = if kind == "poisson" { "load = 0.1" } else { "" };
                let text = format!("[[traffic]]\nkind = \"{kind}\"\n{key} = \"{file}\"\n{load}\n");
                let own = Place::new(&text.replace(&file, &place.arg(&file)));
                refused(own.run(&[]));
            }
        }
        for file in ["summary.json", "reproduction.json"] {
            let results = place.path(&format!("results-{name}-{file}"));
            fs::create_dir(&results).unwrap();
            std::os::unix::fs::symlink(place.path(name), results.join(file)).unwrap();
            let answer = answer(&["report", results.to_str().unwrap()]);
            answer.refused(2, &[file, why]);
        }
    }
}

/// Changes many bytes of a file, one at a time.
#[test]
fn damaged_parquet_is_refused() {
    let place = Place::usual();
    let run = |args: &[&str]| place.run(args);
    run(&["--out", &place.arg("out")]).ok();
    let flows = place.path("out/flows.parquet");
    let whole = fs::read(&flows).unwrap();
    let trace = Place::new("[[traffic]]\nkind = \"trace\"\nfile = \"trace.parquet\"\n");
    let mut refused = 0;
    // The library trusts the footer most.
    let places = (whole.len().saturating_sub(400)..whole.len())
        .step_by(7)
        .chain((0..whole.len()).step_by(97));
    for at in places {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        fs::write(&flows, &damaged).unwrap();
        fs::write(trace.path("trace.parquet"), &damaged).unwrap();
        let answers =
            [(trace.run(&[]), "trace.parquet"), (report(&place.path("out")), "flows.parquet")];
        for (answer, file) in answers {
            assert!(matches!(answer.code, Some(0 | 2)), "byte {at}, {file}: {}", answer.stderr);
            if answer.code == Some(2) {
                refused += 1;
                assert_eq!(answer.stderr.lines().count(), 1, "byte {at}: {}", answer.stderr);
                assert!(answer.stderr.contains(file), "byte {at}: {}", answer.stderr);
            }
        }
    }
    assert!(refused > 50, "{refused}");
    for length in [0, 3, 4, 8, 12, whole.len() / 2, whole.len() - 1] {
        fs::write(&flows, &whole[..length]).unwrap();
        report(&place.path("out")).refused(2, &["flows.parquet"]);
    }
}

fn report(folder: &Path) -> Answer {
    answer(&["report", folder.to_str().unwrap()])
}

#[test]
fn force_replaces_only_results() {
    let place = Place::usual();
    let out = place.arg("out");
    place.call("compare", &["--protocols", "swift,dctcp", "--out", &out]).ok();
    fs::write(place.path("out/notes.txt"), "mine").unwrap();
    fs::write(place.path("out/dctcp/notes.txt"), "mine").unwrap();
    fs::create_dir(place.path("out/mine")).unwrap();
    place.call("compare", &["--protocols", "swift,hpcc", "--out", &out, "--force"]).ok();
    assert_eq!(
        files(&place.path("out")),
        ["comparison.json", "dctcp", "hpcc", "mine", "notes.txt", "swift"]
    );
    assert_eq!(files(&place.path("out/dctcp")), ["notes.txt"]);
    fs::remove_file(place.path("out/dctcp/notes.txt")).unwrap();
    // A run replaces the comparison.
    place.run(&["--out", &out, "--force"]).ok();
    let left = files(&place.path("out"));
    assert_eq!(
        left,
        ["dctcp", "flows.parquet", "manifest.json", "mine", "notes.txt", "summary.json"]
    );
}

#[test]
fn report_ignores_stray_runs() {
    let place = Place::usual();
    let out = place.arg("out");
    place.call("compare", &["--protocols", "swift,dctcp", "--out", &out]).ok();
    // An unrelated run in a subfolder.
    place.run(&["--set", "name=stray", "--out", &place.arg("out/stray")]).ok();
    report(&place.path("out")).ok();
    let page = fs::read_to_string(place.path("out/report.html")).unwrap();
    assert!(page.contains("dctcp") && !page.contains("stray"));
}

/// Whether a text has no control characters that affect a terminal.
fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c == '\n' || !(c.is_control() || matches!(c, '\u{202a}'..='\u{202e}')))
}

#[test]
fn control_characters_in_names() {
    let evil = "\\u001b]0;owned\\u0007\\u009b31m\\u202e";
    let flow = |label: &str, rest: &str| {
        format!("[[flows]]\nsrc = \"h0\"\ndst = \"h2\"\nlabel = \"{label}\"\n{rest}\n")
    };
    let place = Place::new(&flow(evil, ""));
    let scenario = fs::read_to_string(place.path("scenario.toml")).unwrap();
    let named = scenario.replace("name = \"three hosts\"", &format!("name = \"{evil}\""));
    fs::write(place.path("scenario.toml"), &named).unwrap();
    let out = place.arg("a\u{1b}[2Jb");
    for answer in [
        place.run(&["--out", &out]),
        place.call("compare", &["--protocols", "swift,dctcp"]),
        answer(&["report", &out]),
    ] {
        assert_eq!(answer.code, Some(0), "{}", answer.stderr);
        assert!(is_plain(&answer.stdout) && is_plain(&answer.stderr), "{:?}", answer.stdout);
    }
    let text = place.run(&[]).ok();
    assert!(text.contains("\\u{1b}]0;owned\\u{7}\\u{9b}31m\\u{202e}"), "{text}");
    // Errors quote the found text.
    fs::write(place.path("scenario.toml"), named.replace("100Gbps", "\u{9b}31m")).unwrap();
    let wrong = place.run(&[]);
    assert!(wrong.code == Some(2) && is_plain(&wrong.stderr), "{:?}", wrong.stderr);
    assert!(is_plain(&answer(&["run", "\u{1b}[2J.toml"]).stderr));
}

#[test]
fn report_isolates_text_direction() {
    let label = "\u{5e9}\u{5dc}\u{5d5}\u{5dd}";
    let place = Place::new(&format!(
        "[[flows]]\nsrc = \"h0\"\ndst = \"h2\"\nsize = \"2KB\"\ncount = 3\nstart = \"60us\"\nlabel \
         = \"{label}\u{202e}\"\n"
    ));
    place.run(&["--out", &place.arg("out")]).ok();
    report(&place.path("out")).ok();
    let page = fs::read_to_string(place.path("out/report.html")).unwrap();
    assert!(
        page.contains(&format!("\u{2068}{label}\u{fffd}\u{2069}")) && !page.contains('\u{202e}')
    );
}

#[test]
fn byte_order_mark_is_skipped() {
    let place = Place::new(
        "[[traffic]]\nkind = \"trace\"\nfile = \"trace.csv\"\n[[traffic]]\nkind = \
         \"poisson\"\nsizes = \"own.csv\"\nload = 0.1\n",
    );
    let mark =
        |name: &str, text: &str| fs::write(place.path(name), format!("\u{feff}{text}")).unwrap();
    mark("trace.csv", "start_us,src,dst,size_bytes\n0,h0,h1,100\n");
    mark("own.csv", "size_bytes,cdf\n1000,1\n");
    let scenario = fs::read_to_string(place.path("scenario.toml")).unwrap();
    mark("scenario.toml", &scenario);
    place.run(&[]).ok();
    // Lines and columns are counted as in editors.
    mark("scenario.toml", "seeed = 1");
    place.run(&[]).refused(2, &["scenario.toml:1: seeed"]);
}

#[test]
fn warning_arrivals_after_the_end() {
    let place = Place::new("[[traffic]]\nkind = \"trace\"\nfile = \"trace.csv\"\n");
    fs::write(
        place.path("trace.csv"),
        "0,h0,h1,100\n299,h0,h1,100\n300,h0,h1,100\n1000,h0,h1,100\n",
    )
    .unwrap();
    let warning = "2 of 4 messages start after the end of the run";
    let answer = place.run(&["--json"]);
    assert_eq!(answer.stderr.matches(warning).count(), 1, "{}", answer.stderr);
    assert!(answer.json()["warnings"][0].as_str().unwrap().contains(warning));
    let answer = place.call("compare", &["--protocols", "swift,dctcp,hpcc"]);
    assert_eq!(
        answer.stderr.matches(warning).count(),
        1,
        "common warnings are printed once: {}",
        answer.stderr
    );
    fs::write(place.path("trace.csv"), "60,h0,h1,100\n").unwrap();
    assert_eq!(place.run(&[]).stderr, "");
}

#[test]
fn warning_many_unfinished_messages() {
    // Messages of h1 are not sent, because it fails.
    let flows = |stuck: u32, late: u32| {
        let flow = |src: &str, start: &str, count| match count {
            0 => String::new(),
            _ => format!(
                "[[flows]]\nsrc = \"{src}\"\ndst = \"h2\"\nsize = \"100B\"\nstart = \
                 \"{start}\"\ncount = {count}\nlabel = \"some\"\n"
            ),
        };
        flow("h0", "60us", 100 - stuck - late)
            + &flow("h1", "60us", stuck)
            + &flow("h0", "299.9us", late)
            + "[[faults.host]]\nhost = \"h1\"\ndown = \"10us\"\n"
    };
    let answer = Place::new(&flows(3, 0)).run(&[]);
    assert!(answer.stderr.contains("some: 3 of 100 messages"), "{}", answer.stderr);
    assert!(!Place::new(&flows(2, 0)).run(&[]).stderr.contains("some: 2"));
    // The median is known, the 99th percentile is not.
    for counted in ["97 of 100 ", " / ≥ ", "(97 of 100)"] {
        assert!(answer.stdout.contains(counted), "no `{counted}` in {}", answer.stdout);
    }
    assert_eq!(
        answer.stdout.matches("≥").count(),
        4,
        "three percentiles and a note: {}",
        answer.stdout
    );
    // With one unfinished message, the slowest finished one is the 99th percentile.
    assert!(!Place::new(&flows(1, 0)).run(&[]).ok().contains('≥'));
    // With half of them unfinished, the median is unknown, too.
    let half = Place::new(&flows(51, 0)).run(&[]).ok();
    assert_eq!(half.matches("≥").count(), 7, "{half}");
    // Messages that were cut off immediately are censored early: all percentiles are known.
    let late = Place::new(&flows(0, 50)).run(&[]);
    assert!(late.stdout.contains("50 of 100 ") && !late.stdout.contains('≥'), "{}", late.stdout);
    assert!(late.stderr.contains("some: 50 of 100 messages"), "{}", late.stderr);
    // If most messages were cut off, no percentile is known: three of each kind, and a note.
    let most = Place::new(&flows(0, 51)).run(&[]).ok();
    assert_eq!(most.matches("≥").count(), 7, "{most}");
}

#[test]
fn drops_and_ports_in_tables() {
    let flow = |src: &str, dst: &str, size| {
        format!(
            "[[flows]]\nsrc = \"{src}\"\ndst = \"{dst}\"\nsize = \"{size}\"\nstart = \"60us\"\n"
        )
    };
    let place = Place::new(&(flow("h0", "h2", "200KB") + &flow("h1", "h2", "200KB")));
    let args = ["--set", "switch.buffer=10KB", "--set", "transport.protocol=dctcp"];
    let json = place.run(&[&args[..], &["--json"]].concat()).json();
    let drops = json["switches"][0]["drops"].as_u64().unwrap();
    assert!(drops > 0);
    let text = place.run(&args).ok();
    let total = format!("\n{drops} drops at switches since warm-up; ");
    for word in [
        &total,
        "of payload retransmitted since the start",
        "Switch ports that drop most",
        "1 with hosts",
    ] {
        assert!(text.contains(word), "no `{word}` in {text}");
    }
    let calm = Place::new(&flow("h0", "h2", "20KB")).run(&[]).ok();
    assert!(calm.contains("\n0 drops at switches") && !calm.contains("drop most"), "{calm}");
}

#[test]
fn warning_names_protocol_once() {
    let place = Place::usual();
    let slow = ["fabric.links[0].rate=1Gbps", "fabric.links[2].rate=1Gbps"];
    let set: Vec<&str> = slow.iter().flat_map(|change| ["--set", change]).collect();
    let answer = place.call("compare", &[&["--protocols", "poseidon,swift"], &set[..]].concat());
    let warnings: Vec<&str> =
        answer.stderr.lines().filter(|line| line.contains("warning")).collect();
    let about: Vec<&&str> = warnings.iter().filter(|line| line.contains("poseidon")).collect();
    assert!(!about.is_empty(), "{warnings:?}");
    assert!(about.iter().all(|line| line.matches("poseidon").count() == 1), "{about:?}");
}

#[test]
fn compare_set_applies_to_all_protocols() {
    let place = Place::usual();
    let compare = |set: &str, protocols: &str| {
        place.call("compare", &["--set", set, "--protocols", protocols, "--json"])
    };
    let set = "transport.params.base_target=1us";
    compare(set, "swift,dctcp")
        .refused(2, &["--set transport.params.base_target=1us", "unknown parameter of dctcp"]);
    let digest =
        |answer: Answer| answer.json()["runs"][0]["summary"]["engine"]["digest"].to_string();
    let plain = digest(place.call("compare", &["--protocols", "swift", "--json"]));
    assert_ne!(
        digest(compare(set, "swift")),
        plain,
        "it applies to a protocol that the file does not name"
    );
    let advised = compare(set, "swift,dctcp").stderr;
    let last = advised.lines().last().unwrap();
    assert!(last.ends_with("of one protocol, use protocols.swift.params.base_target"), "{advised}");
    compare("protocols.swift.params.base_target=1us", "swift,dctcp").ok();
    compare("transport.protocol=swift", "dctcp").refused(2, &["--protocols", "transport.protocol"]);
}

#[test]
fn table_titles_name_connections() {
    let place = Place::usual();
    for (set, mode) in [("", "per-message"), ("per-pair", "per-pair"), ("40", "40 per pair")] {
        let change = format!("transport.connections={set}");
        let args: &[&str] = if set.is_empty() { &[] } else { &["--set", &change] };
        for text in [
            place.run(args).ok(),
            place.run(&[args, &["--set", "flows[2].count=40"]].concat()).ok(),
            place.call("compare", &[args, &["--protocols", "swift,dctcp"]].concat()).ok(),
        ] {
            // A title follows an empty line; so do the lines about runs in a comparison.
            let below: Vec<&str> =
                text.split("\n\n").skip(1).filter_map(|part| part.lines().next()).collect();
            let (titles, rest): (Vec<&str>, Vec<&str>) =
                below.iter().partition(|line| line.ends_with(&format!(", connections: {mode}")));
            assert!(titles.len() >= 2 && rest.len() <= 3, "{text}");
            let about_runs = ["One seed", "drops at switches", "packet-hops"];
            let is_known = |line: &&str| about_runs.iter().any(|words| line.contains(words));
            assert!(rest.iter().all(is_known), "{text}");
            assert!(!text.contains('*'), "one seed has no significant results: {text}");
        }
    }
    let text = place.call("compare", &["--protocols", "swift,dctcp"]).ok();
    let lines: Vec<&str> = text.lines().collect();
    let heads: Vec<&&str> = lines.iter().filter(|line| line.contains("p99")).collect();
    assert!(heads.len() >= 3, "{text}");
    for head in heads {
        let counts = [" finished ", "samples", "packets"];
        assert!(
            counts.iter().any(|count| head.contains(count)),
            "no count beside the percentiles of {head}"
        );
    }
    assert!(lines.iter().any(|line| line.contains("(messages)")) && text.contains("(5)"), "{text}");
}

#[test]
fn heading_names_conditions() {
    let place = Place::usual();
    let plain = place.run(&["--set", "transport.protocol=swift"]).ok();
    assert!(
        plain.contains(
            "\nrouting ecmp; 8 priorities; switch buffer unlimited; no marks; no drain\n"
        ),
        "{plain}"
    );
    let set = ["--set", "switch.buffer=4MB", "--set", "drain=1ms", "--set", "transport.bdp=100KB"];
    let text = place.call("compare", &[&["--protocols", "swift,dctcp"], &set[..]].concat()).ok();
    // Marks from 1.25 BDP on, as documented for `ecn`.
    let lines = "\nrouting ecmp; 8 priorities; switch buffer 4 MB; \
                 no marks (swift), marks from 125 KB (dctcp);\ndrain up to 1 ms\n";
    assert!(text.contains(lines), "{text}");
    let ecn = "switch.ecn={ kmin = '100KB', kmax = '400KB', pmax = 0.2, ports = 'core', at = \
               'dequeue' }";
    let ramp = "marks between switches from 100 KB to 400 KB by up to 0.2 at dequeue; no drain";
    let text = place.run(&["--set", "transport.protocol=swift", "--set", ecn]).ok();
    assert!(text.contains(ramp), "{text}");
    // The resolution of telemetry, with the report's summary and the warning about it.
    let coarse = ["switch.telemetry_quantum=9us", "switch.telemetry_period=250ns"];
    let set: Vec<&str> = coarse.iter().flat_map(|change| ["--set", change]).collect();
    let out = place.arg("coarse");
    let run =
        place.run(&[&["--set", "transport.protocol=poseidon", "--out", &out], &set[..]].concat());
    assert!(run.stderr.contains("the telemetry quantum of 9 us exceeds"), "{}", run.stderr);
    let resolution = "telemetry quantum 9 us and telemetry period 0.25 us";
    let text = run.ok().replace('\n', " ");
    assert!(text.contains(&format!("no marks; {resolution}; no drain")), "{text}");
    let page = place.arg("coarse.html");
    answer(&["report", &out, "--out", &page]).ok();
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains(&resolution.replace("us", "µs")), "the page lacks the resolution");
}

#[test]
fn heading_names_circuits() {
    let place = Place::usual();
    let text = "duration = '1ms'\n[fabric]\nkind = 'reconfigurable'\nracks = 3\nvoq = '50KB'\n\
                enlarged_voq = '150KB'\nprebuffer = '15us'\n[transport]\nprotocol = 'reno'\n\
                [[flows]]\nsrc = 'h0'\ndst = 'h5'\n";
    fs::write(place.path("scenario.toml"), text).unwrap();
    let expected = "circuits with days of 225 us, nights of 20 us, weeks of 490 us;\n\
                voq 50 KB, enlarged 150 KB, prebuffer 15 us;";
    let text = place.run(&[]).ok();
    assert!(text.contains(expected), "{text}");
}

#[test]
fn report_lists_differences() {
    let place = Place::usual();
    let out = |name: &str, args: &[&str]| {
        place.run(&[args, &["--out", &place.arg(name)]].concat()).ok();
        place.arg(name)
    };
    let rate = ["--set", "fabric.links[2].rate=40Gbps"];
    let swift = out("a", &["--set", "transport.protocol=swift"]);
    let dctcp = out("b", &[&["--set", "transport.protocol=dctcp"], &rate[..]].concat());
    let again = out("c", &[&["--set", "transport.protocol=swift"], &rate[..]].concat());
    let page = place.arg("page.html");
    answer(&["report", &swift, &dctcp, &again, "--out", &page]).ok();
    let html = fs::read_to_string(&page).unwrap();
    for words in [
        "<h2>Scenario differences</h2>",
        "<td>fabric.links[2].rate</td><td>40Gbps</td>",
        "swift, fabric.links[2].rate 100Gbps",
        "swift, fabric.links[2].rate 40Gbps",
        "dctcp, fabric.links[2].rate 40Gbps",
    ] {
        assert!(html.contains(words), "no {words}");
    }
    // Runs that differ only in the protocol are named by it.
    let out = place.arg("out");
    place.call("compare", &["--protocols", "swift,poseidon", "--out", &out]).ok();
    answer(&["report", &out, "--out", &page]).ok();
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("<td>swift</td>") && !html.contains("Scenario differences"), "{html}");
}

#[test]
fn report_names_runs_by_folder() {
    let place = Place::usual();
    let mut args = vec!["report".to_owned()];
    let mut run = |name: String, more: &str| {
        let text = fs::read_to_string(place.path("scenario.toml")).unwrap();
        fs::write(place.path("more.toml"), text + more).unwrap();
        // With other seeds they would be seeds of one configuration.
        let out = place.arg(&name);
        answer(&["run", &place.arg("more.toml"), "--out", &out]).ok();
        args.push(out);
    };
    run("plain".into(), "");
    run("faulty".into(), "[faults]\nloss = 0.001\n");
    for number in 0..17 {
        run(format!("plain-{number}"), "");
    }
    let page = place.arg("page.html");
    args.extend(["--out".to_owned(), page.clone()]);
    answer(&args.iter().map(String::as_str).collect::<Vec<_>>()).ok();
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains(", faulty</td>") && html.contains(", plain-3</td>"));
    assert!(html.contains("<td>faults.loss</td><td>0.001</td>") && !html.contains("<td>–</td>"));
    let notes = html
        .matches("show the first 16 configurations. The others appear only in the tables: ")
        .count();
    assert_eq!(notes, 1);
    // Folders are in the order of the command line.
    for named in [", plain-14; ", ", plain-15; ", ", plain-16.</p>"] {
        assert!(html.contains(named), "no {named}");
    }
}

#[test]
fn report_and_results_destinations() {
    let place = Place::usual();
    let out = place.arg("out");
    place.run(&["--out", &out]).ok();
    let page = place.arg("page.html");
    for _ in 0..2 {
        answer(&["report", &out, "--out", &page]).ok();
    }
    let scenario = place.arg("scenario.toml");
    let before = fs::read(&scenario).unwrap();
    answer(&["report", &out, "--out", &scenario])
        .refused(2, &["--out", "not a report of tidegate"]);
    assert_eq!(before, fs::read(&scenario).unwrap());
    let below = place.arg("scenario.toml/x");
    answer(&["report", &out, "--out", &out]).refused(2, &["--out"]);
    answer(&["report", &out, "--out", &below]).refused(2, &["--out", &below]);
    answer(&["report", &out, "--out", &place.arg("none/x.html")]).refused(2, &["--out"]);
    for wrong in [&scenario, &below] {
        place.run(&["--out", wrong]).refused(2, &["--out", wrong]);
        place
            .call("compare", &["--protocols", "swift", "--out", wrong])
            .refused(2, &["--out", wrong]);
        answer(&["reproduce", "--quick", "--out", wrong]).refused(2, &["--out", wrong]);
    }
}
