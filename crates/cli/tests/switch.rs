//! `tidegate switch` between two hosts with plain sockets: forwarding, reports, and errors.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::{answer, tidegate};
use serde_json::Value;
use tempfile::TempDir;

/// Two hosts with the file of a switch between them.
struct Hosts {
    folder: TempDir,
    hosts: [UdpSocket; 2],
    /// First port of the switch, below the kernel's range of ephemeral ports.
    listen: u16,
}

impl Hosts {
    /// `number` is unique per test, since tests run concurrently.
    fn new(number: u16) -> Hosts {
        let host = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let listen = 20_000 + (std::process::id() % 600) as u16 * 20 + 4 * number;
        let hosts = Hosts { folder: tempfile::tempdir().unwrap(), hosts: [host(), host()], listen };
        let [a, b] = [0, 1].map(|host: usize| hosts.hosts[host].local_addr().unwrap());
        let text = format!(
            "listen = '127.0.0.1:{listen}'\nswitch = {{ buffer = '50KB' }}\n[[port]]\nname = 'a'\n\
             rate = '10Mbps'\nhosts = '{a}'\n[[port]]\nname = 'b'\nrate = '10Mbps'\nhosts = '{b}'\n"
        );
        std::fs::write(hosts.file(), text).unwrap();
        hosts
    }

    fn file(&self) -> String {
        self.folder.path().join("pair.toml").to_str().unwrap().to_owned()
    }

    /// Starts the switch and returns its first line, which names the addresses.
    fn start(&self, args: &[&str]) -> (Child, String) {
        let file = self.file();
        let args = [&["switch", &file], args].concat();
        let mut child =
            tidegate(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::with_capacity(1, child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        (child, line)
    }
}

fn interrupt(child: &Child) {
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
}

fn stdout(mut child: Child) -> String {
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    text
}

#[test]
fn switch_forwards_until_interrupt() {
    let hosts = Hosts::new(0);
    let (mut child, line) = hosts.start(&["--json"]);
    let [a, b] = &hosts.hosts;
    let to = format!("127.0.0.1:{}", hosts.listen + 1);
    let expected =
        format!("{} sends to {to} for {}", a.local_addr().unwrap(), b.local_addr().unwrap());
    assert_eq!(line.trim_end(), expected);
    (0..40u8).for_each(|i| assert_eq!(a.send_to(&[i; 434], &to).unwrap(), 434));
    b.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut bytes = [0; 1_000];
    for i in 0..40u8 {
        let (length, from) = b.recv_from(&mut bytes).unwrap();
        assert_eq!((length, bytes[0]), (434, i));
        // The source is the socket of A, so that replies pass through the switch, too.
        assert_eq!(from.port(), hosts.listen);
    }
    // One line per second follows.
    let mut second = String::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    while !second.contains("datagrams/s") {
        second.clear();
        assert!(lines.read_line(&mut second).unwrap() > 0);
    }
    interrupt(&child);
    let report: Value = serde_json::from_str(&stdout(child)).unwrap();
    assert_eq!(report["name"], "pair");
    let [to_a, to_b] = &report["links"].as_array().unwrap()[..] else { panic!("{report}") };
    assert_eq!((&to_b["from"], &to_b["to"]), (&"pair".into(), &"b".into()));
    assert_eq!((&to_b["packets"], &to_a["packets"]), (&40.into(), &0.into()));
    assert_eq!(report["datagrams"]["sent"], 40);
    assert_eq!(to_b["drops"], 0);
    // 40 datagrams of 500 bytes at 10 Mbit/s: the last waits for 39.
    let waited = to_b["queue_delay_us"]["max"].as_f64().unwrap();
    assert!(waited > 100.0 && waited <= 39.0 * 400.0, "{waited} us");
    // No thread wakes up within 0.1 us.
    assert!(report["late_us"]["max"].as_f64().unwrap() > 0.1, "{report}");
}

#[test]
fn switch_duration() {
    let hosts = Hosts::new(1);
    let answer = answer(&["switch", &hosts.file(), "--duration", "200ms", "-q"]);
    assert_eq!(answer.stderr, "");
    let text = answer.ok();
    assert!(text.starts_with("pair: 0.2"), "{text}");
    assert!(text.contains("0 datagrams in, 0 out"), "{text}");
}

#[test]
fn switch_with_a_fabric() {
    let hosts = Hosts::new(3);
    let [a, b] = [0, 1].map(|host: usize| hosts.hosts[host].local_addr().unwrap());
    let text = format!(
        "listen = '127.0.0.1:{}'\nhosts = ['{a}', '{b}']\n[fabric]\nkind = 'dumbbell'\npairs = 1\n\
         host_link = {{ rate = '10Mbps', delay = '0us' }}\n\
         bottleneck = {{ rate = '5Mbps', delay = '0us' }}\n",
        hosts.listen
    );
    std::fs::write(hosts.file(), text).unwrap();
    let report = answer(&["switch", &hosts.file(), "--duration", "50ms", "-q", "--json"]).json();
    let links = report["links"].as_array().unwrap().iter();
    let ends = |link: &Value| format!("{}-{}", link["from"], link["to"]).replace('"', "");
    let ends: Vec<String> = links.map(ends).collect();
    assert_eq!(ends, ["tor0-h0", "tor1-h1", "tor0-tor1", "tor1-tor0"]);
    let settings = &report["switches"][1]["settings"];
    assert_eq!(settings["buffer_size_bytes"], 1_000_000);
}

/// A sender that is ten times as fast as the port: its packets lose their payload, no message does.
#[test]
fn switch_trims() {
    let mut hosts = Hosts::new(4);
    let [a, b] = [0, 1].map(|host: usize| hosts.hosts[host].local_addr().unwrap().to_string());
    let keys = "ecn = { kmin = '10KB', kmax = '25KB' }, trimming = { data = '30KB' }";
    let text = std::fs::read_to_string(hosts.file()).unwrap();
    std::fs::write(
        hosts.file(),
        text.replace("buffer = '50KB'", &format!("buffer = '200KB', {keys}")),
    )
    .unwrap();
    let (child, _) = hosts.start(&["--json"]);
    // The endpoints take the addresses of both sockets.
    hosts.hosts = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
    let to = format!("127.0.0.1:{}", hosts.listen + 1);
    let common = ["--protocol", "nscc", "--switches", "ecn,trimming", "--priorities", "8"];
    let common = [&common[..], &["--rate", "100Mbps", "--datagram", "1472B"]].concat();
    let serve = [&["serve", "--listen", &b, "--duration", "60s"], &common[..]].concat();
    let mut server = tidegate(&serve).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let send =
        [&["send", &to, "--from", &a, "--count", "20", "--size", "100KB", "--json"], &common[..]];
    let sent = answer(&send.concat()).json();
    server.kill().unwrap();
    server.wait().unwrap();
    interrupt(&child);
    let report: Value = serde_json::from_str(&stdout(child)).unwrap();
    let [to_a, to_b] = &report["links"].as_array().unwrap()[..] else { panic!("{report}") };
    // The number depends on the speed of the machine.
    assert!(to_b["trims"].as_u64().unwrap() > 0, "{to_b}");
    assert_eq!(to_a["trims"], 0);
    assert_eq!((&sent["fct"]["count"], &sent["network"]["forged"]), (&20.into(), &0.into()));
}

#[test]
fn switch_errors() {
    let hosts = Hosts::new(2);
    let file = hosts.file();
    answer(&["switch", &file, "--set", "port.0.rate=10"])
        .refused(2, &["--set port.0.rate=10", "port[0].rate", "a rate"]);
    answer(&["switch", &file, "--duration", "soon"]).refused(2, &["--duration", "a duration"]);
    answer(&["switch", "nowhere.toml"]).refused(2, &["nowhere.toml", "docs/switch.md"]);
    // Another process uses one of the addresses.
    let taken = UdpSocket::bind(("127.0.0.1", hosts.listen + 1)).unwrap();
    let at = taken.local_addr().unwrap().to_string();
    answer(&["switch", &file]).refused(1, &["switch pair: cannot listen on", &at]);
}
