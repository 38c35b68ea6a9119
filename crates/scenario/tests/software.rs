//! Files of live switches: valid files, and errors in invalid ones.
#![allow(missing_docs)]

use std::net::SocketAddrV4;

use tidegate_core::fabric::{Buffer, CreditQueue, Node, Routing, TrimVictim, Trimming};
use tidegate_core::{Rate, Span};
use tidegate_scenario::{Override, Places, SoftwareSwitch, software_switch};

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

const HOST_1: Node = Node::Host(1);
const SWITCH: Node = Node::Switch(0);

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

/// Addresses of the hosts, and the address that they send to.
fn addresses(switch: &SoftwareSwitch) -> (&[Vec<SocketAddrV4>], SocketAddrV4) {
    match &switch.places {
        Places::Addresses { hosts, listen } => (hosts, *listen),
        Places::Interfaces(names) => panic!("{names:?}"),
    }
}

#[test]
fn ports_and_switch_settings_are_read() {
    let read = load(FILE).unwrap();
    assert_eq!((read.name.as_str(), read.seed, read.duration), ("rack", 1, None));
    let switch = &read.fabric.switches[0];
    assert_eq!(switch.buffer, Buffer::Shared { bytes: 200_000, alpha: 2.0 });
    let ecn = switch.ecn.unwrap();
    assert_eq!((ecn.min_bytes, ecn.max_bytes, ecn.max_probability), (30e3, 90e3, 0.5));
    let queue = CreditQueue { share: 0.05, bytes: 672, burst_bytes: 168 };
    assert_eq!((switch.credit_queue, switch.priorities), (Some(queue), 4));
    let b = &read.fabric.links[1];
    assert_eq!((b.a, b.b, b.rate, b.delay), (HOST_1, SWITCH, Rate::mbps(50), Span::us(20)));
    assert_eq!(read.fabric.hosts, ["a", "b"]);
    let (hosts, listen) = addresses(&read);
    assert_eq!(hosts[1], ["127.0.0.1:9002", "127.0.0.1:9003"].map(|at| at.parse().unwrap()));
    // Defaults.
    let (_, ports) = FILE.split_once("[[port]]").unwrap();
    let least = load(&format!("[[port]]{ports}")).unwrap();
    let switch = &least.fabric.switches[0];
    assert_eq!(switch.buffer, Buffer::Shared { bytes: 1_000_000, alpha: 1.0 });
    assert_eq!((switch.ecn, switch.credit_queue), (None, None));
    assert_eq!(addresses(&least).1, listen);
    let short = changed(FILE, &[Override::option("--duration", "duration", "2s")]).unwrap();
    assert_eq!(short.duration, Some(Span::s(2)));
}

/// The file with trimming instead of credit queues.
fn trimming(keys: &str) -> Result<Option<Trimming>, String> {
    let table = format!("trimming = {{ {keys} }}");
    let read = load(&FILE.replace("credit_queue = { share = 0.05 }", &table))?;
    Ok(read.fabric.switches[0].trimming)
}

#[test]
fn trimming_of_live_switches_is_read() {
    let expected = Trimming {
        data_bytes: 30_000,
        header_queue_bytes: 60_000,
        trimmed_bytes: 192,
        victim: TrimVictim::Random,
        per: None,
        return_to_sender: false,
        header_weight: None,
    };
    assert_eq!(trimming("data = '30KB'"), Ok(Some(expected)));
    let other = Trimming { header_queue_bytes: 9_000, trimmed_bytes: 256, ..expected };
    let keys = "data = '30KB', headers = '9KB', trimmed = '256B'";
    assert_eq!(trimming(keys), Ok(Some(other)));
    assert_eq!(load(FILE).unwrap().fabric.switches[0].trimming, None);
}

#[test]
fn invalid_trimming_is_refused() {
    for (keys, words) in [
        ("", "data: found nothing, expected a size of at least 1538B, a full Ethernet frame"),
        ("data = '1BDP'", "found '1BDP', expected a size in bytes: a live switch does not know"),
        ("data = '1KB'", "data: found '1KB', expected a size of at least 1538B"),
        (
            "data = '30KB', trimmed = '84B'",
            "trimmed: found '84B', expected at least 160B, the headers of a live packet",
        ),
        (
            "data = '30KB', return_to_sender = true",
            "return_to_sender: found true, expected false: live switches do not return packets",
        ),
        ("data = '30KB', headers = '100B'", "headers: found '100B', expected at least 192B"),
    ] {
        let message = trimming(keys).unwrap_err();
        let place = "rack.toml:7: switch.trimming.";
        assert!(message.starts_with(place) && message.contains(words), "{message}");
    }
    let both = FILE
        .replace("[[port]]\nname = \"a\"", "trimming = { data = '9KB' }\n[[port]]\nname = \"a\"");
    let message = load(&both).unwrap_err();
    assert!(message.contains("together with credit queues (switch.credit_queue)"), "{message}");
}

#[test]
fn wrong_files_are_refused_with_their_place() {
    // Replaced text, replacement, line, and words of the message.
    for (out, into, line, words) in [
        ("listen", "listn", 1, "did you mean \"listen\""),
        ("127.0.0.1:20000", "localhost", 1, "found \"localhost\", expected an IPv4 address"),
        ("127.0.0.1:20000", "127.0.0.1:65534", 1, "a port of at most 65533, because 3 hosts"),
        ("127.0.0.1:20000", "127.0.0.1:9000", 1, "includes the host 127.0.0.1:9001"),
        (
            "\"200KB\"",
            "\"unlimited\"\nsharing = 'complete'",
            4,
            "no sharing with an unlimited \
                                                                 buffer",
        ),
        (
            "\"200KB\"\nalpha = 2",
            "\"unlimited\"",
            3,
            "buffer: found an unlimited buffer at switch rack, expected a size",
        ),
        ("alpha = 2", "alfa = 2", 4, "did you mean \"alpha\""),
        ("alpha = 2", "pfc = {}", 4, "switch.pfc: found PFC at switch rack, expected \"off\""),
        ("alpha = 2", "routing = 'ecpm'", 4, "did you mean \"ecmp\""),
        (
            "\"30KB\"",
            "\"1BDP\"",
            5,
            "switch.ecn: found thresholds in BDP at switch rack, expected thresholds",
        ),
        ("\"30KB\"", "\"95KB\"", 5, "kmin 95000B above kmax 90000B"),
        ("priorities = 4", "priorities = 9", 6, "a whole number from 1 to 8"),
        ("share = 0.05", "", 7, "switch.credit_queue.share: found nothing, expected the share"),
        ("\"100Mbps\"", "100", 10, "port[0].rate: found 100, expected a rate in quotes"),
        ("rate = \"100Mbps\"", "", 8, "port[0].rate: found nothing"),
        ("127.0.0.1:9001", "127.0.0.1:0", 11, "port[0].hosts: found \"127.0.0.1:0\""),
        (
            "127.0.0.1:9001",
            "0.0.0.0:9001",
            11,
            "found \"0.0.0.0:9001\", expected the address of \
                                                one host",
        ),
        ("127.0.0.1:9001", "224.0.0.1:9001", 11, "found \"224.0.0.1:9001\", expected an IPv4"),
        ("127.0.0.1:9001", "255.255.255.255:1", 11, "expected an IPv4 address of one host"),
        ("127.0.0.1:20000", "224.0.0.1:20000", 1, "listen: found \"224.0.0.1:20000\""),
        (
            "\"127.0.0.1:9001\"",
            "9001",
            11,
            "hosts: found 9001, expected an IPv4 address with a UDP",
        ),
        ("\"b\"", "\"a\"", 13, "port[1].name: found \"a\", expected a unique name"),
        ("9003", "9001", 16, "found 127.0.0.1:9001 a second time"),
    ] {
        let text = FILE.replacen(out, into, 1);
        assert_ne!(text, FILE, "{out}");
        let error = load(&text).unwrap_err();
        let is_there = error.starts_with(&format!("rack.toml:{line}: "));
        assert!(is_there && error.contains(words), "{into}: {error}");
    }
    let (one, _) = FILE.split_once("[[port]]\nname = \"b\"").unwrap();
    let error = load(one).unwrap_err();
    assert!(
        error.contains("port: found a list of 1, expected 2 to 250 [[port]] tables"),
        "{error}"
    );
    let many: Vec<String> = (0..251).map(|i| format!("'10.0.0.1:{}'", 100 + i)).collect();
    let error =
        load(&FILE.replacen("\"127.0.0.1:9001\"", &format!("{many:?}").replace('"', ""), 1));
    assert!(error.unwrap_err().contains(
        "found host number 251, expected at most 250 hosts in \
                                         total"
    ));
}

/// Two racks of one host each.
const RACKS: &str = r#"hosts = ["127.0.0.1:9001", "127.0.0.1:9002"]
[fabric]
kind = "leaf-spine"
racks = 2
hosts_per_rack = 1
spines = 2
host_link = { rate = "50Mbps", delay = "0us" }
fabric_link = { rate = "100Mbps", delay = "10us" }
[switch]
routing = "spray"
[[switch.override]]
match = "spine*"
buffer = "90KB"
"#;

#[test]
fn fabrics_are_read() {
    let read = load(RACKS).unwrap();
    assert_eq!((read.fabric.switches.len(), read.fabric.links.len()), (4, 6));
    let (hosts, _) = addresses(&read);
    assert_eq!((read.routing, hosts.len()), (Routing::Spray, 2));
    assert_eq!(hosts[1], ["127.0.0.1:9002".parse().unwrap()]);
    let bytes = |switch: usize| match read.fabric.switches[switch].buffer {
        Buffer::Shared { bytes, .. } => bytes,
        Buffer::Unlimited => u64::MAX,
    };
    assert_eq!([0, 1, 2, 3].map(bytes), [1_000_000, 1_000_000, 90_000, 90_000]);
    for (out, into, line, words) in [
        (", \"127.0.0.1:9002\"", "", 1, "hosts: found 1 addresses, expected 2, one per host"),
        ("racks = 2", "racks = 300", 3, "found 300 hosts, expected at most 250 hosts"),
        ("\"leaf-spine\"", "\"reconfigurable\"", 3, ""),
        ("racks = 2", "preset = \"x\"\nracks = 2", 4, "no preset"),
        (
            "[switch]",
            "[[port]]\nname = 'a'\nrate = '1Mbps'\nhosts = '127.0.0.1:1'\n[switch]",
            9,
            "either [[port]] tables or a [fabric]",
        ),
    ] {
        let error = load(&RACKS.replacen(out, into, 1)).unwrap_err();
        let is_there = words.is_empty() || error.starts_with(&format!("rack.toml:{line}: "));
        assert!(is_there && error.contains(words), "{into}: {error}");
    }
    let both = FILE.replacen("[switch]", "hosts = \"127.0.0.1:1\"\n[switch]", 1);
    assert!(load(&both).unwrap_err().contains("no hosts without [fabric]"));
}

/// Two ports with interfaces.
const BEHIND: &str = r#"seed = 1
[[port]]
name = "a"
rate = "100Mbps"
interface = "veth-a"
[[port]]
name = "b"
rate = "100Mbps"
interface = "veth-b"
"#;

#[test]
fn hosts_may_be_behind_interfaces() {
    let names = Places::Interfaces(vec!["veth-a".to_owned(), "veth-b".to_owned()]);
    assert_eq!(load(BEHIND).unwrap().places, names);
    let hosts = "hosts = [\"127.0.0.1:9001\", \"127.0.0.1:9002\"]";
    let racks = RACKS.replacen(hosts, "interfaces = [\"veth-a\", \"veth-b\"]", 1);
    assert_eq!(load(&racks).unwrap().places, names);
    let address = "interface = \"veth-b\"\nhosts = \"127.0.0.1:1\"";
    for (text, out, into, line, words) in [
        (BEHIND, "seed = 1", "listen = \"127.0.0.1:1\"", 1, "no listen with interfaces"),
        (BEHIND, "seed = 1", "interfaces = [\"veth-a\"]", 1, "no interfaces without [fabric]"),
        (
            BEHIND,
            "interface = \"veth-a\"",
            "",
            2,
            "port[0].interface: found nothing, expected a \
                                                   network",
        ),
        (BEHIND, "interface = \"veth-a\"", "hosts = \"127.0.0.1:1\"", 5, "port[0].hosts: found"),
        (
            BEHIND,
            "interface = \"veth-b\"",
            address,
            10,
            "expected either hosts or interfaces for all ports: port[0]",
        ),
        (
            BEHIND,
            "\"veth-b\"",
            "\"veth-a\"",
            9,
            "port[1].interface: found \"veth-a\" a second \
                                                 time",
        ),
        (BEHIND, "\"veth-b\"", "7", 9, "port[1].interface: found 7"),
        (
            BEHIND,
            "interface = \"veth-b\"",
            "intrface = \"veth-b\"",
            9,
            "did you mean \"interface\"",
        ),
        (&racks, "\"veth-b\"]", "\"veth-b\", \"veth-c\"]", 1, "found 3 interfaces, expected 2"),
        (&racks, "\"veth-b\"]", "\"veth-a\"]", 1, "interfaces: found \"veth-a\" a second time"),
        (&racks, "[fabric]", "hosts = \"127.0.0.1:1\"\n[fabric]", 2, "either hosts or interfaces"),
    ] {
        let error = load(&text.replacen(out, into, 1)).unwrap_err();
        let is_there = error.starts_with(&format!("rack.toml:{line}: "));
        assert!(is_there && error.contains(words), "{into}: {error}");
    }
    let neither = FILE.replacen("hosts = \"127.0.0.1:9001\"\n", "", 1);
    let error = load(&neither).unwrap_err();
    assert!(error.contains("port[0].hosts: found nothing, expected addresses of hosts, or"));
}
