//! Scenarios from lists of flows: the files are valid, complete and the same every time, and
//! invalid lists give errors.
#![allow(missing_docs)]

use std::path::Path;

use crate::common::mutated;
use tidegate_core::workload::Pattern;
use tidegate_core::{Domain, Rate, Rng, Span};
use tidegate_scenario::workload::{TimeUnit, Workload, WorkloadOptions, window};
use tidegate_scenario::{Plan, load_file};

/// Flows of 1 to 5 KB between three clients and two servers, with times of completion.
fn list() -> String {
    let mut text = "start_us,src,dst,bytes,fct_us\n".to_owned();
    for i in 0..200u64 {
        let (client, server) = (i % 3, i % 2);
        let bytes = 1000 + 20 * i;
        text += &format!("{}.5,10.0.0.{client},srv{server},{bytes},{}\n", 100 * i, 5 + i % 7);
    }
    text
}

fn read(text: &str, options: &WorkloadOptions) -> Result<Workload, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.csv");
    std::fs::write(&path, text).unwrap();
    let there = folder.path().display().to_string();
    Workload::read(&path, options).map_err(|error| error.to_string().replace(&there, ""))
}

fn plans(workload: &Workload) -> [Plan; 2] {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in workload.files() {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    ["scenario.toml", "replay.toml"].map(|name| {
        let path: &Path = &folder.path().join(name);
        load_file(path, &[]).unwrap_or_else(|error| panic!("{error}"))
    })
}

#[test]
fn files_hold_the_traffic_of_the_list() {
    let workload = read(&list(), &WorkloadOptions::default()).unwrap();
    assert_eq!(workload.trace.hosts, ["10.0.0.0", "10.0.0.1", "10.0.0.2", "srv0", "srv1"]);
    assert_eq!(workload.trace.duration, Span::us(20_000), "199 gaps, and one after the last");
    let files = workload.files();
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["sizes.csv", "trace.csv", "completions.csv", "hosts.csv", "replay.toml", "scenario.toml"]
    );
    assert_eq!(files, read(&list(), &WorkloadOptions::default()).unwrap().files());
    let text = |name: &str| &files.iter().find(|(known, _)| known == name).unwrap().1;
    assert!(text("trace.csv").starts_with("start_us,src,dst,size_bytes\n0,h0,h3,1000\n100,h1,h4,"));
    assert!(text("completions.csv").contains("\n100,h1,h4,1020,6\n"));
    assert!(text("hosts.csv").ends_with("10.0.0.2,h2\nsrv0,h3\nsrv1,h4\n"));

    let [scenario, replay] = plans(&workload);
    let Pattern::Trace(arrivals) = &replay.workload.traffic[0].pattern else { panic!() };
    assert_eq!(arrivals.len(), 200);
    for (arrival, flow) in arrivals.iter().zip(&workload.trace.flows) {
        let of = (arrival.at, arrival.src, arrival.dst, arrival.bytes);
        assert_eq!(of, (flow.at, flow.src, flow.dst, flow.bytes));
    }
    let Pattern::Poisson { senders, receivers, .. } = &scenario.workload.traffic[0].pattern else {
        panic!()
    };
    assert_eq!((&senders[..], &receivers[..]), (&[0, 1, 2][..], &[3, 4][..]));
    let offered = tidegate_scenario::configured_bps(&scenario.workload.traffic[0]).unwrap();
    assert!((offered / workload.profile.mean_bps() - 1.0).abs() < 1e-3, "{offered}");
}

#[test]
fn options_select_the_part_and_the_link() {
    let usual = WorkloadOptions::default();
    let of = |options| read(&list(), &options).unwrap();
    let part = Some((Span::ms(5), Some(Span::ms(15))));
    let part = of(WorkloadOptions { window: part, ..usual });
    assert_eq!((part.trace.flows.len(), part.trace.duration), (100, Span::ms(10)));
    assert_eq!(part.trace.flows[0].at.as_ps(), 0);
    let left_out = part.trace.noted.iter().find(|noted| noted.name == "outside_window_flows");
    assert_eq!(left_out.unwrap().count, 100);
    let link = of(WorkloadOptions { host_link: Some(Rate::gbps(25)), ..usual });
    assert_eq!(plans(&link)[0].fabric.links[0].rate, Rate::gbps(25));
    assert_eq!(window("--window", "1s..").unwrap(), (Span::s(1), None));
    for text in ["1s", "2s..1s", "1..2"] {
        assert!(window("--window", text).is_err(), "{text}");
    }
    let none = WorkloadOptions { window: Some((Span::s(1), None)), ..usual };
    assert!(read(&list(), &none).unwrap_err().contains("--window: found a window without flows"));
    // The busier server receives 300 KB: 2.4 s at 1 Mbit/s.
    let slow = of(WorkloadOptions { host_link: Some(Rate::mbps(1)), ..usual });
    assert!(slow.warnings[0].contains("the busiest host needs"), "{:?}", slow.warnings);
    assert_eq!(slow.trace.duration, Span::ms(2400));
    let huge = "src,dst,bytes,start_s\na,b,1000000000000000,1\n";
    let slow = WorkloadOptions { host_link: Some(Rate::mbps(1)), ..usual };
    assert!(read(huge, &slow).unwrap_err().contains("--host-link: found"));
    let all = format!("{huge}{}", "a,b,1000000000000000,1\n".repeat(1000));
    assert!(read(&all, &usual).unwrap_err().contains("bytes together"));
    let days = list().replace("start_us", "start").replace("fct_us", "fct_s");
    let seconds = WorkloadOptions { time_unit: Some(TimeUnit::S), ..usual };
    assert!(read(&days, &seconds).unwrap_err().contains("--window 0s..60s"));
}

/// The first of two columns with one meaning is read, with a warning.
#[test]
fn columns_that_are_not_read_are_warned_of() {
    let lines = "start_us,src,dst,bytes,size\n0,a,b,1000,1\n9,b,a,2000,1\n";
    let workload = read(lines, &WorkloadOptions::default()).unwrap();
    let warning = "column \"bytes\" is read, and \"size\", which has the same meaning, is not";
    assert!(workload.warnings[0].starts_with(warning), "{:?}", workload.warnings);
    assert_eq!(workload.trace.flows[0].bytes, 1000);
}

#[test]
fn other_files_are_refused() {
    let usual = WorkloadOptions::default();
    let refused = |text: &str| read(text, &usual).err().unwrap();
    assert!(refused("\u{1f}\u{8b}").contains("CSV"));
    assert!(refused("src,dst,bytes,start_s\n").contains("no flows"));
    let missing = Workload::read(Path::new("/nowhere.csv"), &usual).unwrap_err().to_string();
    assert!(missing.contains("/nowhere.csv: found no such file"), "{missing}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.csv.gz");
    std::fs::write(&path, [0x1f, 0x8b, 8, 0]).unwrap();
    assert!(Workload::read(&path, &usual).unwrap_err().to_string().contains("gunzip"));
}

#[test]
fn files_that_are_neither_kind_are_named() {
    let refused = |bytes: &[u8]| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pcap");
        std::fs::write(&path, bytes).unwrap();
        Workload::read(&path, &WorkloadOptions::default()).unwrap_err().to_string()
    };
    // A pcap file of another version, Parquet, and UTF-16.
    for (bytes, first) in [
        (&b"\x34\xcd\xb2\xa1\x02\0\x04\0"[..], "34cdb2a1"),
        (&b"\xa1\xb2\xc3\xd5\0\x02\0\x04"[..], "a1b2c3d5"),
        (&b"PAR1\x15\x04"[..], "50415231"),
        (&b"s\0r\0c\0"[..], "73007200"),
    ] {
        let error = refused(bytes);
        let found = format!("x.pcap: found the first bytes {first}, expected a pcap capture");
        for words in [&*found, "a1b2c3d4 or a1b23c4d", "0a0d0d0a", "CSV, which is text in UTF-8"] {
            assert!(error.contains(words), "{words} is missing in {error}");
        }
    }
    // Text may begin with any character.
    for text in ["src\u{e9},dst", "\u{20ac}\u{20ac}", "\u{feff}src", "", "ab\u{ff}"] {
        let error = refused(text.as_bytes());
        assert!(!error.contains("the first bytes"), "{text}: {error}");
    }
}

#[test]
fn damaged_lists_never_panic() {
    let mut rng = Rng::stream(5, Domain::Traffic, 0);
    let short: String = list().lines().take(12).map(|line| format!("{line}\n")).collect();
    let (mut good, mut bad) = (0, 0);
    for _ in 0..1500 {
        match read(&mutated(&mut rng, &short), &WorkloadOptions::default()) {
            Ok(workload) => {
                plans(&workload);
                good += 1;
            }
            Err(error) => {
                assert!(error.contains("found") && error.contains("expected"), "{error}");
                bad += 1;
            }
        }
    }
    assert!(good > 100 && bad > 100, "{good} valid, {bad} invalid");
}
