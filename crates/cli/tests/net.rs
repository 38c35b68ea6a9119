//! `serve` and `send` over loopback, in separate processes.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tidegate_workbench::net::SWITCHES;

use crate::common::answer;

/// A server process with its address.
struct Server(Child, String);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn tidegate(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(args);
    command
}

fn serve(args: &[&str]) -> Server {
    let mut command = tidegate(&["serve", "--listen", "127.0.0.1:0", "--duration", "60s"]);
    let mut child =
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    let address = line.strip_prefix("listening on ").and_then(|rest| rest.split(',').next());
    let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
    // Keep reading, so that a full pipe does not block the server.
    std::thread::spawn(move || stderr.lines().count());
    Server(child, address)
}

fn send(server: &Server, args: &[&str]) -> Output {
    tidegate(&["send", &server.1]).args(args).output().unwrap()
}

fn error_of(output: &Output, status: i32) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{stderr}");
    stderr
}

#[test]
fn send_under_all_kinds_of_protocols() {
    let all: [(&str, &[&str]); 5] = [
        ("swift", &[]),
        ("dctcp", &["--switches", "ecn"]),
        ("sird", &["--switches", "core-ecn"]),
        ("tide", &["--switches", "core-peak"]),
        ("homa", &["--priorities", "8"]),
    ];
    for (protocol, more) in all {
        let more: Vec<_> =
            ["--protocol", protocol, "--rate", "200Mbps"].iter().chain(more).copied().collect();
        let mut server = serve(&[&more[..], &["--once", "--json"]].concat());
        let args = ["--count", "60", "--size", "30KB", "--reply", "2KB", "--json", "-q"];
        let output = send(&server, &[&more[..], &args].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{protocol}: {stderr}");
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        for times in [&summary["fct"], &summary["exchanges"]] {
            assert_eq!((&times["count"], &times["unfinished"]), (&60.into(), &0.into()));
            let [p50, p99] = ["p50_us", "p99_us"].map(|key| times[key].as_f64().unwrap());
            assert!(50.0 < p50 && p50 <= p99 && p99 < 5e6, "{protocol}: {times}");
        }
        assert_eq!(summary["settings"]["rate_gbps"], 0.2);
        // 1.8 MB at 200 Mbit/s take 72 ms at least.
        let goodput = summary["goodput_gbps"].as_f64().unwrap();
        assert!(goodput > 0.0 && goodput < 0.2, "{protocol}: {goodput}");
        assert_eq!(summary["network"]["forged"], 0);

        let status = server.0.wait().unwrap();
        assert!(status.success());
        let received: Value = serde_json::from_reader(server.0.stdout.take().unwrap()).unwrap();
        let bytes =
            received["received_gbps"].as_f64().unwrap() * received["seconds"].as_f64().unwrap();
        assert!((bytes / 8e-9 / (60.0 * 30_012.0) - 1.0).abs() < 0.01, "{received}");
    }
}

#[test]
fn send_reports_each_second() {
    let server = serve(&["--rate", "200Mbps"]);
    let args = ["--rate", "200Mbps", "--size", "30KB", "--reply", "2KB", "--warmup", "100ms"];
    let output = send(&server, &[&args[..], &["--duration", "2300ms", "--json"]].concat());
    let printed = error_of(&output, 0);
    let lines: Vec<_> = printed.lines().filter(|line| line.contains("bps, ")).collect();
    assert_eq!(lines.len(), 2, "{printed}");
    for (line, start) in lines.iter().zip(["1 s: ", "2 s: "]) {
        assert!(line.starts_with(start) && line.contains(" back, "), "{line}");
        assert!([" p50 ", " p99 ", " p99.9 "].iter().all(|part| line.contains(part)), "{line}");
    }
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let intervals = summary["intervals"].as_array().unwrap();
    assert_eq!(intervals.len(), 3, "{intervals:?}");
    let sum = |key: &str| {
        let of = |interval: &Value| {
            interval[key].as_f64().unwrap() * interval["seconds"].as_f64().unwrap()
        };
        intervals.iter().map(of).sum::<f64>() / summary["seconds"].as_f64().unwrap()
    };
    for key in ["goodput_gbps", "received_gbps"] {
        let of_all = summary[key].as_f64().unwrap();
        assert!(of_all > 0.0 && (sum(key) / of_all - 1.0).abs() < 0.01, "{key}: {summary}");
    }
    let done: u64 = intervals.iter().map(|interval| interval["done"].as_u64().unwrap()).sum();
    assert_eq!(summary["exchanges"]["count"], done);
    for [p50, p99, p999] in intervals
        .iter()
        .map(|interval| ["p50_us", "p99_us", "p999_us"].map(|key| interval[key].as_f64().unwrap()))
    {
        assert!(50.0 < p50 && p50 <= p99 && p99 <= p999, "{p50} {p99} {p999}");
    }
}

/// Small messages at the rate of a fast link exceed the capacity of the sender. Due messages wait
/// without using memory, and their waiting time counts.
#[test]
fn overloaded_open_loop_ends() {
    let args = ["--rate", "10Gbps"];
    let server = serve(&args);
    let open = ["--load", "1", "--size", "16B", "--json", "-q"];
    let output = send(&server, &[&args[..], &open, &["--duration", "1s"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    // 78 million messages are due.
    let fct = &summary["fct"];
    let [count, p50] = ["count", "p50_us"].map(|key| fct[key].as_f64().unwrap());
    assert!(count < 2e7 && p50 > 1e5, "{fct}");
}

#[test]
fn unknown_destinations_are_refused() {
    let send = |to| answer(&["send", to, "--rate", "1Gbps"]);
    // No name ends so (RFC 6761).
    send("nohost.invalid:5999").refused(2, &["\"nohost.invalid:5999\"", "does not resolve"]);
    for to in ["127.0.0.1", "127.0.0.1:70000", "127.0.0.1:0"] {
        send(to).refused(2, &["expected an address and a port"]);
    }
}

#[test]
fn mismatched_peers_are_refused() {
    let server = serve(&[]);
    let refused = |args: &[&str]| error_of(&send(&server, args), 1);
    let other = refused(&["--protocol", "reno"]);
    assert!(other.contains("runs another protocol than reno: set --protocol"), "{other}");
    let params = refused(&["--param", "per_hop=2us"]);
    assert!(params.contains("runs swift with other parameters: set --param"), "{params}");
    // Explicit defaults are accepted; other timeouts are other parameters.
    let usual = ["--param", "min_rto=10ms", "--param", "initial_rto=10ms", "--count", "1"];
    assert!(send(&server, &usual).status.success());
    let timeout = refused(&["--param", "min_rto=9ms"]);
    assert!(timeout.contains("runs swift with other parameters"), "{timeout}");
    let payload = refused(&["--datagram", "1000B"]);
    assert!(payload.contains("bytes of payload: set --datagram"), "{payload}");
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    fs::write(&key, "sixteen bytes at least").unwrap();
    let refusal = refused(&["--key", key.to_str().unwrap()]);
    assert!(
        refusal.contains("does not answer: check that it runs and has the same key"),
        "{refusal}"
    );
}

#[test]
fn warning_outside_design_range() {
    // The first target is shorter than any RTT, the second longer than any RTT on loopback.
    let (tight, wide) = ("base_target=100ns", "base_target=100ms");
    for (target, warns) in [(tight, true), (wide, false)] {
        let params = ["--param", target, "--param", "per_hop=0us", "--param", "fs_range=200us"];
        let mut server = serve(&[&params[..], &["--once", "--json"]].concat());
        let args = ["--count", "1", "--size", "100B", "--json"];
        let output = send(&server, &[&params[..], &args].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let warning =
            "warning: swift: the target of a large window is 0.10 us, not above the base RTT";
        assert_eq!(stderr.contains(warning), warns, "{stderr}");
        let sent: Value = serde_json::from_slice(&output.stdout).unwrap();
        server.0.wait().unwrap();
        let served: Value = serde_json::from_reader(server.0.stdout.take().unwrap()).unwrap();
        for summary in [sent, served] {
            let warnings = summary["warnings"].as_array().unwrap();
            assert_eq!(warnings.len(), usize::from(warns), "{summary}");
        }
    }
}

#[test]
fn wrong_options() {
    let server = serve(&[]);
    let wrong = |args: &[&str]| error_of(&send(&server, args), 2);
    for (args, expected) in [
        (&["--protocol", "hpcc"][..], "hpcc needs per-hop records of the network"),
        (&["--protocol", "smartt"], "add --switches ecn,trimming --priorities 3"),
        (
            &["--protocol", "smartt", "--switches", "ecn,trimming", "--priorities", "2"],
            "add --priorities 3",
        ),
        (&["--protocol", "swft"], "did you mean \"swift\"?"),
        (&["--rate", "fast"], "tidegate: --rate: found fast, expected a rate such as"),
        (&["--param", "nothing"], "expected name=value"),
        (&["--param", "header_bytes=40"], "tidegate: --param: found header_bytes = 40 and"),
        (&["--datagram", "70000B"], "tidegate: --datagram: found 70000, expected 576 to 65507"),
        (&["--rate", "10Tbps"], "tidegate: --rate: found 10Tbps, expected 1Mbps to 1600Gbps"),
        (&["--reply", "5x"], "tidegate: --reply: found 5x, expected a size such as \"4096B\""),
        (&["--hops", "9"], "tidegate: --hops: found 9, expected 1 to 8"),
        (&["--priorities", "9"], "tidegate: --priorities: found 9, expected 1 to 8"),
        (&["--protocol", "dcpim"], "tidegate: --base-rtt: found none, expected the same on all"),
        (&["--switches", "magic"], "expected some of ecn, core-ecn"),
        (&["--size", "huge"], "tidegate: --size: found huge, expected a size such as"),
        (&["--key", "/nowhere/key"], "make one with `head -c 32 /dev/urandom > /nowhere/key`"),
        (&["--size", "100MB"], "--size: found messages of up to 100000000 bytes"),
        (&["--streams", "0"], "--streams"),
        (&["--count", "0"], "--count"),
        (&["--from", "[::1]:0"], "--from: found [::1]:0"),
        (&["--from", "192.0.2.1:0"], "--from: 192.0.2.1:0: "),
        (
            &["--busy-poll", "soon"],
            "tidegate: --busy-poll: found soon, expected a duration such as",
        ),
        (&["--load", "11"], "tidegate: --load: found 11, expected a number from"),
        (&["--duration", "5"], "expected a duration with a unit, such as"),
        (&["--param", "min_rto=soon"], "tidegate: --param: min_rto: found soon, expected"),
    ] {
        let message = wrong(args);
        assert!(message.contains(expected) && message.lines().count() <= 3, "{args:?}: {message}");
    }
    let taken = tidegate(&["serve", "--listen", &server.1]).output().unwrap();
    let message = error_of(&taken, 2);
    assert!(message.contains(&format!("--listen: {}", server.1)), "{message}");
    assert!(message.contains("choose another port"), "{message}");
    let taken = wrong(&["--from", &server.1]);
    assert!(taken.contains(&format!("--from: {}", server.1)), "{taken}");
    let nowhere = tidegate(&["send", "127.0.0.1:0"]).output().unwrap();
    let message = error_of(&nowhere, 2);
    assert!(message.contains("ADDRESS: found \"127.0.0.1:0\""), "{message}");
}

#[test]
fn help_lists_all_functions_of_switches() {
    let help = tidegate(&["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let words: Vec<&str> = help.split_whitespace().collect();
    let line = words.join(" ");
    let (_, list) = line.split_once("the protocol may use: ").unwrap();
    let names = SWITCHES.map(|(name, _)| name).join(", ");
    assert!(list.starts_with(&format!("{names} ")), "{names}: {list}");
}

/// Runs without privileges; root drops them.
#[test]
fn privileged_port_is_refused() {
    let first = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let mut served = tidegate(&["serve", "--listen", "127.0.0.1:80", "--duration", "1s"]);
    let nobody = served.uid(65_534).gid(65_534).output();
    match (first.map(|first| first.trim().parse::<u16>()), nobody) {
        (Ok(Ok(81..)), Ok(output)) => {
            let message = error_of(&output, 2);
            assert!(message.contains("--listen: 127.0.0.1:80: Permission denied"), "{message}");
        }
        (first, output) => println!("SKIPPED: {first:?}, {output:?}"),
    }
}

/// The peer answers, but with another version, or by reflecting datagrams.
#[test]
fn peers_of_other_versions() {
    for (version, expected) in [
        (2, "uses version 2 of sessions, not 1"),
        // A reflected datagram is not an answer.
        (1, "does not answer: check that it runs"),
    ] {
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = other.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let mut room = [0; 2_048];
            while let Ok((bytes, from)) = other.recv_from(&mut room) {
                room[0] = version;
                let _ = other.send_to(&room[..bytes], from);
            }
        });
        let message = error_of(&tidegate(&["send", &to]).output().unwrap(), 1);
        assert!(message.contains(expected) && message.lines().count() == 1, "{message}");
    }
}

/// Whether at least as many threads are ready to run as the machine has processors.
fn is_busy() -> bool {
    let Ok(stat) = fs::read_to_string("/proc/stat") else { return false };
    let running = stat.lines().find_map(|line| line.strip_prefix("procs_running "));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    // One of them is this thread.
    running.and_then(|count| count.parse::<usize>().ok()).is_some_and(|count| count > processors)
}

/// Either the link is saturated, or a warning reports that it is not.
#[test]
fn target_goodput_and_warning() {
    let server = serve(&["--rate", "100Mbps"]);
    let run = |rate: &str| {
        let output = send(&server, &["--rate", rate, "--duration", "1s", "--json"]);
        let printed = error_of(&output, 0);
        (printed, serde_json::from_slice::<Value>(&output.stdout).unwrap())
    };
    let share = |summary: &Value| {
        let [goodput, target] = ["goodput_gbps", "target_gbps"].map(|key| summary[key].as_f64());
        assert!((0.097..0.1).contains(&target.unwrap()), "{summary}");
        goodput.unwrap() / target.unwrap()
    };
    // Other programs may use the processor during a run.
    let mut was_idle = false;
    let is_full = (0..15).any(|_| {
        was_idle |= !is_busy();
        let (printed, summary) = run("100Mbps");
        // The default datagram length is that of the server.
        assert_eq!(summary["settings"]["datagram_bytes"], 8_972);
        let share = share(&summary);
        assert!(share < 1.01, "{summary}");
        assert_eq!(printed.contains(" of the target "), share < 0.95, "{printed}");
        share >= 0.95
    });
    assert!(is_full || !was_idle, "the defaults do not fill a link of 100 Mbit/s");
    if !is_full {
        println!("SKIPPED: other programs used all processors before each attempt");
    }
    // No machine reaches this rate.
    let (printed, summary) = run("1600Gbps");
    assert!(
        printed.contains("warning: goodput was ") && printed.contains(" of the target "),
        "{printed}"
    );
    assert!(summary["target_gbps"].as_f64().unwrap() > 1_500.0);
}

#[test]
fn send_adopts_datagram_of_server() {
    let server = serve(&["--rate", "100Mbps", "--datagram", "1200B"]);
    let output = send(&server, &["--rate", "100Mbps", "--count", "1", "--json"]);
    assert_eq!(error_of(&output, 0), "");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["settings"]["datagram_bytes"], 1_200);
}

#[test]
fn summary_after_peer_failure() {
    let mut server = serve(&["--rate", "100Mbps"]);
    let to = server.1.clone();
    let sender = std::thread::spawn(move || {
        tidegate(&["send", &to, "--rate", "100Mbps", "--duration", "60s", "--json", "-q"]).output()
    });
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    server.0.kill().unwrap();
    let output = sender.join().unwrap().unwrap();
    let message = error_of(&output, 1);
    assert!(message.contains("does not answer"), "{message}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(summary["failure"].as_str().unwrap().contains("does not answer"), "{summary}");
    let [goodput, seconds] = ["goodput_gbps", "seconds"].map(|key| summary[key].as_f64().unwrap());
    assert!(goodput > 0.0 && seconds < 4.0, "{summary}");
}
