//! `tidegate run --pcap` and `tidegate dissector`: output files and errors.

use std::collections::BTreeSet;
use std::fs;

use crate::common::{Place, answer, files, protocols, steady, tidegate};

#[test]
fn capture_file() {
    let place =
        Place::usual().on("kind = \"leaf-spine\"\nracks = 3\nhosts_per_rack = 1\nspines = 2\n");
    let plain = place.run(&["--json", "--partitions", "2"]).json();
    let (out, file) = (place.arg("out"), place.arg("out/run.pcapng"));
    // A capture is taken on one thread, whatever is requested.
    let args = ["--json", "--out", &out, "--pcap", &file, "--partitions", "2"];
    let captured = place.run(&args).json();
    assert_eq!(
        (&plain["engine"]["threads"], &captured["engine"]["threads"]),
        (&2.into(), &1.into())
    );
    assert_eq!(steady(captured), steady(plain));
    let here = files(&place.path("out"));
    assert_eq!(here, ["flows.parquet", "manifest.json", "run.pcapng", "summary.json"]);
    let first = fs::read(&file).unwrap();
    assert!(first.len() > 10_000 && first.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]));

    place.run(&["--pcap", &file]).refused(2, &["--pcap", "run.pcapng", "--force"]);
    assert_eq!(fs::read(&file).unwrap(), first);
    let args = ["--pcap", &file, "--force", "--threads", "1", "--pcap-of", "h?"];
    let text = place.run(&args).ok();
    let count = |text: &str| {
        let line = text.split("\nThe capture of ").nth(1).expect(text);
        let (count, of) = line.split_once(' ').unwrap();
        assert_eq!(of.trim_end(), format!("packets is in {file}"));
        count.parse::<usize>().unwrap()
    };
    assert!(count(&text) * 116 < first.len() && count(&text) > 100, "{text}");
    let forecast = place.run(&["--pcap", &file, "--force", "--dry-run"]).ok();
    assert!(forecast.contains(" The capture takes about "), "{forecast}");
    assert!(fs::read(&file).unwrap() == first, "the default is the links of hosts");
    place.run(&["--pcap", &file, "--force", "--pcap-of", "tor2->h2"]).ok();
    assert!(fs::read(&file).unwrap().len() < first.len() / 2);
    assert_eq!(files(&place.path("out")), here);
}

/// Before it begins, and once it is large.
#[test]
fn a_large_capture_is_warned_of() {
    let place = Place::usual();
    let (scenario, file) = (place.arg("scenario.toml"), place.arg("large.pcapng"));
    let args = ["run", &scenario, "--set", "duration=1000s", "--pcap", &file];
    let mut child = tidegate(&args).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    let lines: Vec<String> =
        std::io::BufRead::lines(stderr).take(2).collect::<Result<_, _>>().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let [before, passed] = &lines[..] else { panic!("{lines:?}") };
    assert!(before.contains("the expected capture size is "), "{before}");
    assert!(passed.contains(&format!("{file} has 10")) && passed.contains(" MB now"), "{passed}");
    for line in &lines {
        assert!(line.contains("--pcap-of h0"), "{line}");
        // Two links of 100 Gbit/s that are full both ways make gigabytes each second.
        let size = line.split("size is ").nth(1).unwrap();
        assert!(size.contains(" GB,") || size.contains(" TB,"), "{line}");
    }
}

#[test]
fn capture_errors() {
    let place = Place::usual();
    let (before, file) = (files(&place.path("")), place.arg("run.pcapng"));
    place.run(&["--pcap-of", "h0"]).refused(2, &["--pcap"]);
    place.run(&["--pcap"]).refused(2, &["--pcap"]);
    place.run(&["--pcap", &place.arg("none/run.pcapng")]).refused(2, &["--pcap", "none"]);
    place.run(&["--pcap", &place.arg("")]).refused(2, &["--pcap", "folder"]);
    let unknown = place.run(&["--pcap", &file, "--pcap-of", "h7"]);
    unknown.refused(2, &["--pcap-of", "`h7`", "h0->s0"]);
    let open = place.run(&["--pcap", &file, "--pcap-of", "h[0-"]);
    open.refused(2, &["--pcap-of", "`h[0-`", "contains a [ without a range"]);
    let known = protocols().join(",");
    let compared = place.call("compare", &["--protocols", &known, "--pcap", &file]);
    compared.refused(2, &["--pcap"]);
    assert_eq!(files(&place.path("")), before);
}

#[test]
fn capture_packet_sizes() {
    let place = Place::usual();
    let file = place.arg("run.pcapng");
    place.run(&["--set", "transport.protocol=swift", "--pcap", &file]).ok();
    let bytes = fs::read(&file).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut sizes) = (0, BTreeSet::new());
    while at < bytes.len() {
        // An enhanced packet block.
        if word(at) == 6 {
            sizes.insert(word(at + 4));
        }
        at += word(at + 4) as usize;
    }
    assert_eq!(sizes, BTreeSet::from([116, 132]));
    let document = include_str!("../../../docs/captures.md");
    assert!(document.contains("116 bytes of the file") && document.contains("acknowledgement 132"));
}

#[test]
fn dissector_has_all_unencrypted_headers() {
    let script = answer(&["dissector"]).ok();
    let document = include_str!("../../../docs/headers.md");
    let (mut count, mut sealed) = (0, 0);
    for format in document.split("\n## ").skip(1) {
        let name = format.lines().next().unwrap().replace(' ', "_");
        let is_there = script.contains(&format!("{{ name = \"{name}\", version"));
        if format.contains(" Encrypted: ") {
            assert!(!is_there, "{name} is encrypted");
            sealed += 1;
            continue;
        }
        assert!(is_there, "{name}");
        let rows = format.lines().filter(|line| line.starts_with("| "));
        for field in rows.filter_map(|line| line.split('`').nth(1)) {
            assert!(script.contains(&format!("name = \"{field}\"")), "{field}");
            count += 1;
        }
    }
    assert!(count > 80 && sealed == 2, "{count} fields, {sealed} encrypted formats");
}
