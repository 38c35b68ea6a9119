//! Runs through the facade: their progress, and options that must not change the outcome.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use tidegate_results::Summary;
use tidegate_runs::{
    Error, Progress, ProtocolEntry, RunOptions, Source, compare, load, protocols, run, set,
};
use tidegate_scenario::Plan;

const MULTI_HOP: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/poseidon/multi-hop.toml");

/// Four senders to one receiver, two with unlimited flows and two with messages, under the first
/// protocol of the catalog.
fn plan(changes: &[&str]) -> Plan {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("incast.toml");
    let text = r#"
seed = 3
duration = "2ms"
warmup = "200us"
[fabric]
kind = "graph"
hosts = ["h0", "h1", "h2", "h3", "h4"]
switches = ["s0"]
links = [
  { a = "h0", b = "s0", rate = "100Gbps", delay = "1us" },
  { a = "h1", b = "s0", rate = "100Gbps", delay = "1us" },
  { a = "h2", b = "s0", rate = "100Gbps", delay = "1us" },
  { a = "h3", b = "s0", rate = "100Gbps", delay = "1us" },
  { a = "s0", b = "h4", rate = "100Gbps", delay = "1us" },
]
[transport]
protocol = "PROTOCOL"
[[flows]]
src = "h0"
dst = "h4"
[[flows]]
src = "h1"
dst = "h4"
start = "100us"
[[flows]]
src = "h2"
dst = "h4"
size = "300KB"
start = "250us"
count = 3
[[flows]]
src = "h3"
dst = "h4"
size = "30KB"
start = "400us"
count = 10
"#;
    std::fs::write(&path, text.replace("PROTOCOL", protocols()[0].name)).unwrap();
    let overrides: Vec<_> = changes.iter().map(|change| set(change).unwrap()).collect();
    load(&path, &overrides).unwrap()
}

/// Protocols that run on any fabric; the others need circuits.
fn anywhere() -> impl Iterator<Item = ProtocolEntry> {
    protocols().into_iter().filter(|info| !info.needs.contains(&"circuit announcements"))
}

#[test]
fn tables_in_memory_are_the_files_of_a_folder() {
    let plan = plan(&["output.timeseries=50us"]);
    let dir = tempfile::tempdir().unwrap();
    let given = Mutex::new(Vec::new());
    let take = |number: usize, tables: Vec<(&'static str, Vec<u8>)>| {
        given.lock().unwrap().extend(tables.into_iter().map(|table| (number, table)));
    };
    let options = RunOptions { tables: Some(&take), ..RunOptions::default() };
    run(&plan, &RunOptions { out: Some(dir.path()), ..options }).unwrap();
    assert!(given.lock().unwrap().is_empty(), "they must be in the folder");
    run(&plan, &options).unwrap();
    let given = given.into_inner().unwrap();
    let names: Vec<_> = given.iter().map(|(number, (name, _))| (*number, *name)).collect();
    assert_eq!(names, [(0, "flows.parquet"), (0, "timeseries.parquet")]);
    for (_, (name, bytes)) in given {
        assert!(bytes == std::fs::read(dir.path().join(name)).unwrap(), "{name}");
    }
}

#[test]
fn messages_name_a_line_of_user_text_only() {
    let text = "seed = 3\nduration = '1ms'\nfabric = 7\n".to_owned();
    let message = |source| load(source, &[]).unwrap_err().to_string();
    assert!(message(Source::Text(text.clone())).starts_with("scenario:3: fabric: found 7"));
    assert!(message(Source::Made(text)).starts_with("scenario: fabric: found 7"));
}

#[test]
fn recording_does_not_change_the_outcome() {
    for protocol in anywhere() {
        let digest = |recorded: &str| {
            let protocol = format!("transport.protocol={}", protocol.name);
            let changes =
                [&protocol, "transport.params={}", "duration=2ms", "warmup=1ms", recorded];
            let overrides: Vec<_> = changes.iter().map(|change| set(change).unwrap()).collect();
            run(&load(Path::new(MULTI_HOP), &overrides).unwrap(), &RunOptions::default())
                .unwrap()
                .engine
                .digest
        };
        let plain = digest("output.timeseries=off");
        assert_eq!(plain, digest("output.timeseries=10us"), "{}", protocol.name);
        assert_eq!(plain, digest("output.histograms=false"), "{}", protocol.name);
    }
}

#[test]
fn the_seed_determines_the_run() {
    let summary = |changes: &[&str]| run(&plan(changes), &RunOptions::default()).unwrap();
    let (a, b) = (summary(&[]), summary(&[]));
    assert_eq!(a.engine.digest, b.engine.digest);
    assert_eq!((a.flows, a.fct, a.links), (b.flows, b.fct, b.links));
}

#[test]
fn rows_are_sorted_with_unfinished_flows_last() {
    let dir = tempfile::tempdir().unwrap();
    let options = RunOptions { out: Some(dir.path()), ..RunOptions::default() };
    let summary = run(&plan(&["flows[3].count=2000", "flows[3].size=1KB"]), &options).unwrap();
    assert!(summary.flows.is_none());
    let bytes = bytes::Bytes::from(std::fs::read(dir.path().join("flows.parquet")).unwrap());
    let reader = SerializedFileReader::new(bytes).unwrap();
    let keys: Vec<_> =
        reader.get_row_iter(None).unwrap().map(|row| sort_key(&row.unwrap())).collect();
    assert_eq!(keys.len(), 2005);
    assert!(keys.windows(2).all(|two| two[0] < two[1]));
    assert_eq!(keys[2003].0, u64::MAX, "the two unlimited flows come last");
}

/// Completion in picoseconds (the maximum if unfinished), and id.
fn sort_key(row: &Row) -> (u64, i64) {
    let cell = |name| row.get_column_iter().find(|(column, _)| *column == name).unwrap().1;
    let picoseconds = |field: &Field| match field {
        Field::Double(us) => Some((us * 1e6).round() as u64),
        _ => None,
    };
    let fct = picoseconds(cell("fct_us"));
    let completed = fct.map_or(u64::MAX, |fct| picoseconds(cell("start_us")).unwrap() + fct);
    let Field::Long(id) = cell("id") else { panic!("ids are whole numbers") };
    (completed, *id)
}

#[test]
fn progress_rises_to_the_end() {
    let seen: Mutex<Vec<(usize, Progress)>> = Mutex::new(Vec::new());
    let report =
        |number: usize, progress: &Progress| seen.lock().unwrap().push((number, *progress));
    let plan = plan(&[]);
    run(&plan, &RunOptions { progress: Some(&report), ..RunOptions::default() }).unwrap();
    let seen = seen.into_inner().unwrap();
    assert!(
        seen.windows(2)
            .all(|two| two[0].1.now < two[1].1.now && two[0].1.packet_hops <= two[1].1.packet_hops)
    );
    let (number, last) = seen.last().unwrap();
    assert_eq!((*number, last.now, last.share()), (0, plan.duration, 1.0));
    assert_eq!(last.left(), Some(std::time::Duration::ZERO));
}

#[test]
fn an_interrupt_ends_the_run_and_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let flag = AtomicBool::new(false);
    let report = |_: usize, _: &Progress| flag.store(true, Ordering::Relaxed);
    let options = RunOptions {
        out: Some(&out),
        progress: Some(&report),
        interrupted: Some(&flag),
        ..RunOptions::default()
    };
    let error = run(&plan(&["duration=10s"]), &options).unwrap_err();
    assert!(matches!(error, Error::Interrupted), "{error}");
    assert_eq!(error.exit_code(), 130);
    assert!(!out.exists());
}

#[test]
fn an_interrupted_comparison_leaves_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("a/b");
    let flag = AtomicBool::new(true);
    let options = RunOptions { out: Some(&out), interrupted: Some(&flag), ..RunOptions::default() };
    let names: Vec<_> = anywhere().map(|protocol| protocol.name.to_owned()).collect();
    let changes = [set("transport.params={}").unwrap()];
    let error = compare(Path::new(MULTI_HOP), &changes, &names, &options).unwrap_err();
    assert!(matches!(error, Error::Interrupted), "{error}");
    assert!(!dir.path().join("a").exists());
}

/// Warnings of a run with these changes, and its summary.
fn ended(changes: &[&str]) -> (Vec<String>, Summary) {
    let summary = run(&plan(changes), &RunOptions::default()).unwrap();
    let warnings = summary.warnings.iter().filter(|warning| warning.contains("unfinished"));
    (warnings.cloned().collect(), summary)
}

#[test]
fn a_drain_only_lets_messages_finish() {
    let late = ["flows[3].start=1999us", "flows[3].count=40"];
    let (_, cut) = ended(&late);
    let (warnings, drained) = ended(&[&late[..], &["drain=10ms"]].concat());
    assert!(cut.fct["all"].unfinished > 10 && cut.drain_seconds == 0.0, "{:?}", cut.fct["all"]);
    assert_eq!((drained.fct["all"].unfinished, warnings), (0, Vec::new()));
    assert_eq!(drained.fct["all"].count, cut.fct["all"].count);
    assert!(
        drained.drain_seconds > 10e-6 && drained.drain_seconds < 5e-3,
        "{}",
        drained.drain_seconds
    );
    assert_eq!((drained.sim_seconds, &drained.links), (cut.sim_seconds, &cut.links));
    assert_eq!(drained.switches, cut.switches);
    let goodputs = |summary: &Summary| {
        summary.flows.iter().flatten().map(|flow| flow.goodput_gbps).collect::<Vec<_>>()
    };
    assert_eq!(goodputs(&drained), goodputs(&cut));
    assert_eq!(drained.groups[0].goodput_gbps, cut.groups[0].goodput_gbps);
}

#[test]
fn stuck_messages_cause_a_warning() {
    let down = ["faults.link=[{ a = 'h3', b = 's0', down = '300us', up = '1999us' }]"];
    let (warnings, summary) = ended(&down);
    assert_eq!(summary.fct["all"].unfinished, 10);
    assert_eq!(warnings.len(), 1, "{:?}", summary.warnings);
    assert!(
        warnings[0].starts_with(
            "10 messages are unfinished, but nothing was submitted in the last 1.6 ms"
        )
    );
    // Messages that had no time to finish cause no warning.
    let (warnings, summary) = ended(&["flows[3].start=1990us", "flows[3].count=40"]);
    assert!(warnings.is_empty() && summary.fct["all"].unfinished > 10, "{warnings:?}");
}

/// More time does not help messages between hosts that a failure separates.
#[test]
fn messages_without_a_path_have_their_own_warning() {
    let own = "10 messages are unfinished because failed links or hosts leave no path";
    let waits = "until = \"done\": 10 messages of collectives, jobs, chains and listed flows were \
                 unfinished at the end: failed links or hosts leave no path";
    for (fault, until, expected) in [
        ("faults.link=[{ a = 'h3', b = 's0', down = '300us' }]", "duration", &[own][..]),
        ("faults.link=[{ a = 'h3', b = 's0', down = '300us', up = '3ms' }]", "duration", &[own]),
        ("faults.host=[{ host = 'h3', down = '300us' }]", "done", &[waits, own]),
    ] {
        let (_, summary) = ended(&[fault, &format!("until={until}"), "drain=1ms"]);
        assert_eq!(summary.fct["all"].unfinished, 10, "{fault}");
        let advice = |warning: &&String| warning.contains("increase");
        assert_eq!(summary.warnings.iter().find(advice), None, "{fault}");
        for words in expected {
            let is_it = |warning: &String| warning.starts_with(words);
            assert!(summary.warnings.iter().any(is_it), "{words}: {:?}", summary.warnings);
        }
    }
    let gather = "traffic=[{ kind = 'collective', op = 'all-gather', size = '1MB' }]";
    let (_, summary) = ended(&["faults.link=[{ a = 'h3', b = 's0', down = '0us' }]", gather]);
    let cut = "all-gather: 0 of 1 iterations finished by the end of the run: failed links";
    let is_it = |warning: &String| warning.starts_with(cut);
    assert!(summary.warnings.iter().any(is_it), "{:?}", summary.warnings);
}

#[test]
fn impossible_values_of_a_summary_are_found() {
    let good = run(&plan(&[]), &RunOptions::default()).unwrap();
    assert_eq!(good.impossible(), Vec::<String>::new());
    let found = |change: fn(&mut Summary)| {
        let mut bad = good.clone();
        change(&mut bad);
        bad.impossible().len()
    };
    assert!(found(|s| s.flows.as_mut().unwrap()[0].goodput_gbps = Some(100.1)) > 0);
    assert!(found(|s| s.groups[0].goodput_gbps.total = Some(500.1)) > 0);
    assert!(found(|s| s.groups[0].goodput_gbps.max = Some(100.1)) > 0);
    assert!(found(|s| s.links[0].utilization = Some(1.001)) > 0);
    assert!(found(|s| s.links[0].queue_bytes.mean = Some(1e12)) > 0);
    assert!(found(|s| s.switches[0].buffer_bytes.p99 = Some(1e12)) > 0);
}

/// A flow was faster than its link is at the end.
#[test]
fn rates_of_links_may_fall_during_a_run() {
    let degraded = "faults.degraded=[{ links = 's0-h4', share = 0.05, from = '1900us' }]";
    let (_, summary) = ended(&[degraded]);
    let link = summary.links.iter().find(|link| link.to == "h4").unwrap();
    let fastest = summary.groups[0].goodput_gbps.max.unwrap();
    assert!(link.rate_gbps == 5.0 && fastest > 20.0, "{fastest} over {}", link.rate_gbps);
}

/// The ports of a NIC belong to its host, and repeat its rate: they are no further capacity.
#[test]
fn ports_of_nics_are_no_switch_ports() {
    let protocol = protocols()[0].name;
    let text = format!(
        "duration = '50us'\nfabric = {{ kind = 'star', hosts = 3, planes = 2 }}\ntransport = {{ \
         protocol = '{protocol}' }}\nflows = [{{ src = 'h0', dst = 'h1' }}]"
    );
    let plan = tidegate_scenario::load(&text, "planes.toml", &[]).unwrap();
    let summary = run(&plan, &RunOptions::default()).unwrap();
    for link in &summary.links {
        assert_eq!(link.from_host, link.from.starts_with('h'), "{} to {}", link.from, link.to);
    }
    let from_nic = summary.links.iter().filter(|link| link.from == "h0.nic");
    let mut to: Vec<&str> = from_nic.map(|link| &*link.to).collect();
    to.sort_unstable();
    assert_eq!(to, ["h0", "plane0.tor0", "plane1.tor0"]);
    assert_eq!(summary.impossible(), Vec::<String>::new());
    // Three hosts with two ports of 100 Gbit/s.
    let with_total = |gbps: f64| {
        let mut summary = summary.clone();
        summary.groups[0].goodput_gbps.total = Some(gbps);
        summary.impossible().len()
    };
    assert_eq!([with_total(599.0), with_total(601.0)], [0, 1]);
}
