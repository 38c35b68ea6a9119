//! Files of switches in software: what they say, and what is said of wrong ones.
#![allow(missing_docs)]

use tidegate_core::fabric::{Buffer, CreditQueue};
use tidegate_core::{Rate, Span};
use tidegate_scenario::{Override, SoftwareSwitch, software_switch};

const FILE: &str = r#"listen = "127.0.0.1:20000"
[switch]
buffer = "200KB"
alpha = 2
ecn = { kmin = "30KB", kmax = "90KB", pmax = 0.5 }
priorities = 4
credit_queue = { share = 0.05 }
[[port]]
name = "a"
rate = "100Mbps"
hosts = "127.0.0.1:9001"
[[port]]
name = "b"
rate = "50Mbps"
delay = "20us"
hosts = ["127.0.0.1:9002", "127.0.0.1:9003"]
"#;

fn load(text: &str) -> Result<SoftwareSwitch, String> {
    changed(text, &[])
}

fn changed(text: &str, changes: &[Override]) -> Result<SoftwareSwitch, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rack.toml");
    std::fs::write(&path, text).unwrap();
    software_switch(&path, changes).map_err(|error| {
        let folder = format!("{}/", folder.path().display());
        error.to_string().replace(&folder, "")
    })
}

#[test]
fn a_file_says_ports_and_what_scenarios_say_of_a_switch() {
    let read = load(FILE).unwrap();
    assert_eq!((read.name.as_str(), read.seed, read.duration), ("rack", 1, None));
    assert_eq!(read.switch.buffer, Buffer::Shared { bytes: 200_000, alpha: 2.0 });
    let ecn = read.switch.ecn.unwrap();
    assert_eq!((ecn.min_bytes, ecn.max_bytes, ecn.max_probability), (30e3, 90e3, 0.5));
    let queue = CreditQueue { share: 0.05, bytes: 672, burst_bytes: 168 };
    assert_eq!((read.switch.credit_queue, read.switch.priorities), (Some(queue), 4));
    let b = &read.ports[1];
    assert_eq!((b.name.as_str(), b.rate, b.delay), ("b", Rate::mbps(50), Span::us(20)));
    assert_eq!(b.hosts, ["127.0.0.1:9002", "127.0.0.1:9003"].map(|host| host.parse().unwrap()));
    // All that need not be said.
    let (_, ports) = FILE.split_once("[[port]]").unwrap();
    let least = load(&format!("[[port]]{ports}")).unwrap();
    assert_eq!(least.switch.buffer, Buffer::Shared { bytes: 1_000_000, alpha: 1.0 });
    assert_eq!((least.switch.ecn, least.switch.credit_queue), (None, None));
    assert_eq!(least.listen, read.listen);
    let short = changed(FILE, &[Override::option("--duration", "duration", "2s")]).unwrap();
    assert_eq!(short.duration, Some(Span::s(2)));
}

#[test]
fn wrong_files_are_refused_with_their_place() {
    // What is replaced, what by, the line, words of the message.
    for (out, into, line, words) in [
        ("listen", "listn", 1, "did you mean \"listen\""),
        ("127.0.0.1:20000", "localhost", 1, "found \"localhost\", expected an IPv4 address"),
        ("127.0.0.1:20000", "127.0.0.1:65530", 1, "a port of at most 65527, for 3 hosts"),
        ("127.0.0.1:20000", "127.0.0.1:8995", 1, "a host at 127.0.0.1:9001"),
        ("\"200KB\"", "\"unlimited\"\nsharing = 'complete'", 4, "while the buffer is unlimited"),
        (
            "\"200KB\"\nalpha = 2",
            "\"unlimited\"",
            3,
            "buffer: found \"unlimited\", expected a size",
        ),
        ("alpha = 2", "alfa = 2", 4, "did you mean \"alpha\""),
        ("alpha = 2", "pfc = {}", 4, "switch.pfc: found a table, expected \"off\""),
        ("alpha = 2", "latency = '1us'", 4, "switch.latency: found '1us', expected 0us"),
        ("alpha = 2", "routing = 'ecmp'", 4, "the unknown key \"routing\""),
        ("\"30KB\"", "\"1BDP\"", 5, "switch.ecn.kmin: found \"1BDP\", expected a size in bytes"),
        ("\"30KB\"", "\"95KB\"", 5, "kmin 95000B above kmax 90000B"),
        ("pmax = 0.5", "ports = 'core'", 5, "expected \"all\": every port leads to hosts"),
        ("priorities = 4", "priorities = 9", 6, "a whole number from 1 to 8"),
        ("share = 0.05", "", 7, "switch.credit_queue.share: found nothing, expected of a link"),
        ("\"100Mbps\"", "100", 10, "port[0].rate: found 100, expected a rate in quotes"),
        ("rate = \"100Mbps\"", "", 8, "port[0].rate: found nothing"),
        ("127.0.0.1:9001", "127.0.0.1:0", 11, "port[0].hosts: found \"127.0.0.1:0\""),
        ("\"b\"", "\"a\"", 13, "port[1].name: found \"a\", expected a name that no port"),
        ("9003", "9001", 16, "found 127.0.0.1:9001 again"),
    ] {
        let text = FILE.replacen(out, into, 1);
        assert_ne!(text, FILE, "{out}");
        let error = load(&text).unwrap_err();
        let is_there = error.starts_with(&format!("rack.toml:{line}: "));
        assert!(is_there && error.contains(words), "{into}: {error}");
    }
    let (one, _) = FILE.split_once("[[port]]\nname = \"b\"").unwrap();
    let error = load(one).unwrap_err();
    assert!(error.contains("port: found a list of 1, expected at least two ports"), "{error}");
    let many: Vec<String> = (0..31).map(|i| format!("'10.0.0.1:{}'", 100 + i)).collect();
    let error =
        load(&FILE.replacen("\"127.0.0.1:9001\"", &format!("{many:?}").replace('"', ""), 1));
    assert!(error.unwrap_err().contains("found host 31, expected 30 hosts in all"));
}
