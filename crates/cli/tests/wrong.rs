//! Wrong scenarios, files and command lines: each ends with status 2 and one message that names the
//! place, the found value and the allowed ones, and writes nothing. The scenario crate tests the
//! wording of scenario errors.

use std::fs;

use crate::common::{Answer, Place, answer, files};

/// A scenario with all kinds of tables; [`WRONG`] changes one part of it.
const SCENARIO: &str = r#"name = "base"
seed = 1
duration = "300us"
warmup = "50us"
[fabric]
kind = "leaf-spine"
mtu = "1500B"
racks = 2
hosts_per_rack = 2
spines = 1
host_link = { rate = "100Gbps", delay = "1us" }
[switch]
buffer = "1MB"
alpha = 1.0
[[switch.override]]
match = "tor*"
priorities = 4
[transport]
protocol = "poseidon"
params = { m = 0.25 }
connections = "per-pair"
[[flows]]
src = "h0"
dst = "h3"
size = "1MB"
[[traffic]]
kind = "poisson"
sizes = "websearch"
load = 0.1
[[traffic]]
kind = "trace"
file = "trace.csv"
[output]
timeseries = "10us"
"#;

/// (old text, new text, line of the message, words of the message).
const WRONG: &[(&str, &str, u32, &[&str])] = &[
    ("seed = 1", "seed = = 1", 2, &["expected valid TOML"]),
    ("seed = 1", "sed = 1", 2, &["sed", "unknown key", "did you mean \"seed\""]),
    ("seed = 1", "seed = -1", 2, &["seed", "-1", "whole number"]),
    ("duration = \"300us\"", "duration = 300", 3, &["duration", "300", "with a unit"]),
    (
        "duration = \"300us\"",
        "duration = \"300usec\"",
        3,
        &["duration", "300usec", "did you mean \"300us\""],
    ),
    ("warmup = \"50us\"", "warmup = \"1ms\"", 4, &["warmup", "1ms", "before duration"]),
    (
        "kind = \"leaf-spine\"",
        "kind = \"leafspine\"",
        6,
        &["fabric.kind", "leafspine", "did you mean \"leaf-spine\""],
    ),
    ("mtu = \"1500B\"", "mtu = \"1500\"", 7, &["fabric.mtu", "1500", "unit"]),
    ("racks = 2", "racks = 0", 8, &["fabric.racks", "found 0"]),
    ("spines = 1", "spine = 1", 10, &["fabric.spine", "did you mean \"spines\""]),
    (
        "rate = \"100Gbps\"",
        "rate = \"100GBps\"",
        11,
        &["fabric.host_link.rate", "100GBps", "b is a bit, B a byte of 8 bits"],
    ),
    ("delay = \"1us\"", "delay = \"1uz\"", 11, &["fabric.host_link.delay", "1uz"]),
    (
        "buffer = \"1MB\"",
        "buffer = \"unlimted\"",
        13,
        &["switch.buffer", "did you mean \"unlimited\""],
    ),
    ("alpha = 1.0", "alpha = 0.0", 14, &["switch.alpha", "0.001"]),
    (
        "match = \"tor*\"",
        "match = \"tr0\"",
        16,
        &["switch.override[0].match", "tr0", "did you mean \"tor0\""],
    ),
    (
        "priorities = 4",
        "priorities = 9",
        17,
        &["switch.override[0].priorities", "found 9", "1 to 8"],
    ),
    (
        "protocol = \"poseidon\"",
        "protocol = \"posiedon\"",
        19,
        &["transport.protocol", "did you mean \"poseidon\""],
    ),
    ("m = 0.25", "mm = 0.25", 20, &["transport.params.mm", "unknown"]),
    ("m = 0.25", "m = \"0.25\"", 20, &["transport.params.m", "number"]),
    ("\"per-pair\"", "\"per-pear\"", 21, &["transport.connections", "did you mean \"per-pair\""]),
    ("src = \"h0\"", "src = \"h9\"", 23, &["flows[0].src", "h9"]),
    ("dst = \"h3\"", "dst = \"h0\"", 24, &["flows[0].dst", "h0", "other than src"]),
    ("size = \"1MB\"", "size = \"1mb\"", 25, &["flows[0].size", "1mb", "did you mean \"1MB\""]),
    (
        "size = \"1MB\"",
        "size = \"1MB\"\nstop = \"1s\"\nstart = \"2s\"",
        27,
        &["flows[0].start", "2s"],
    ),
    ("sizes = \"websearch\"", "sizes = \"web-serch\"", 28, &["traffic[0].sizes", "did you mean"]),
    (
        "sizes = \"websearch\"",
        "sizes = \"none.csv\"",
        28,
        &["traffic[0].sizes", "none.csv", "readable"],
    ),
    ("load = 0.1", "load = 60", 29, &["traffic[0].load", "found 60"]),
    ("load = 0.1", "load = 0.1\ngap = \"1us\"", 30, &["traffic[0].gap", "load is set too"]),
    ("timeseries = \"10us\"", "timeseries = \"10\"", 34, &["output.timeseries", "10"]),
];

/// (content of the trace, line, words).
const WRONG_TRACES: &[(&str, u32, &[&str])] = &[
    ("", 0, &["no messages"]),
    ("1,h0,h1\n", 1, &["found 3 columns", "start_us,src,dst,size_bytes"]),
    ("start_us,src,dst,size_bytes\n0,h0,h1,10\n-1,h0,h1,10\n", 3, &["start_us", "-1"]),
    ("# a comment\n1,h0,h7,10\n", 2, &["dst", "h7"]),
    ("1,h0,h0,10\n", 1, &["dst", "other than src"]),
    ("1,h0,h1,1.5\n", 1, &["size_bytes", "1.5", "whole number"]),
    ("1,h0,h1,0\n", 1, &["size_bytes", "whole number of bytes from 1"]),
];

/// (content of the distribution, line, words).
const WRONG_SIZES: &[(&str, u32, &[&str])] = &[
    ("", 0, &["no points"]),
    ("10,0.5\n20,0.4\n", 2, &["cdf", "0.4", "at least 0.5"]),
    ("10,0.5\n5,1.0\n", 2, &["size_bytes", "at least 10"]),
    ("10,0.5\n20,0.9\n", 0, &["0.9", "expected a last value of 1"]),
    ("10,nan\n", 1, &["cdf", "nan", "0 to 1"]),
    ("size_bytes,cdf\n10;1.0\n", 2, &["found 1 columns", "size_bytes,cdf"]),
];

fn place() -> Place {
    let place = Place::new("");
    fs::write(place.path("scenario.toml"), SCENARIO).unwrap();
    fs::write(place.path("trace.csv"), "0,h0,h1,100\n").unwrap();
    place
}

/// Asserts status 2, one line on stderr with `place` and `words`, nothing on stdout.
#[track_caller]
fn is_one_message(answer: &Answer, place: &str, words: &[&str]) {
    assert_eq!(answer.code, Some(2), "{}{}", answer.stdout, answer.stderr);
    assert_eq!(answer.stdout, "");
    assert_eq!(answer.stderr.lines().count(), 1, "{}", answer.stderr);
    for word in [&[place, "found ", "expected "], words].concat() {
        assert!(answer.stderr.contains(word), "`{word}` is missing in: {}", answer.stderr);
    }
}

fn at(file: &str, line: u32) -> String {
    if line == 0 { format!("{file}: ") } else { format!("{file}:{line}: ") }
}

#[test]
fn base_scenario_is_valid() {
    let place = place();
    place.run(&["--out", &place.arg("out")]).ok();
    assert_eq!(
        files(&place.path("out")),
        ["flows.parquet", "manifest.json", "summary.json", "timeseries.parquet"]
    );
}

#[test]
fn wrong_scenarios() {
    let place = place();
    for (out, into, line, words) in WRONG {
        assert!(SCENARIO.contains(out), "{out}");
        fs::write(place.path("scenario.toml"), SCENARIO.replacen(out, into, 1)).unwrap();
        let answer = place.run(&["--out", &place.arg("out")]);
        is_one_message(&answer, &at("scenario.toml", *line), words);
        let protocol =
            place.call("compare", &["--protocols", "swift,dctcp", "--out", &place.arg("out")]);
        assert_eq!(protocol.code, Some(2), "compare: {into}: {}", protocol.stderr);
    }
    assert_eq!(files(&place.path("")), ["scenario.toml", "trace.csv"]);
}

#[test]
fn wrong_input_files() {
    let place = place();
    for (content, line, words) in WRONG_TRACES {
        fs::write(place.path("trace.csv"), content).unwrap();
        is_one_message(&place.run(&["--out", &place.arg("out")]), &at("trace.csv", *line), words);
    }
    fs::write(place.path("trace.csv"), "0,h0,h1,100\n").unwrap();
    for (content, line, words) in WRONG_SIZES {
        fs::write(place.path("own.csv"), content).unwrap();
        let set = ["--set", "traffic[0].sizes=own.csv", "--out", &place.arg("out")];
        is_one_message(&place.run(&set), &at("own.csv", *line), words);
    }
    fs::write(place.path("own.csv"), [0xff, 0xfe, b'\n']).unwrap();
    let latin = place.run(&["--set", "traffic[0].sizes=own.csv", "--out", &place.arg("out")]);
    is_one_message(&latin, "own.csv", &["not UTF-8"]);
    assert_eq!(files(&place.path("")), ["own.csv", "scenario.toml", "trace.csv"]);
}

/// (arguments after the scenario, words). Errors of `--set` are worded like those of scenarios.
const WRONG_OPTIONS: &[(&[&str], &[&str])] = &[
    (&["--set", "duration"], &["--set duration", "key=value"]),
    (&["--set", "=1"], &["--set =1", "key=value"]),
    (&["--set", "durration=1ms"], &["--set durration=1ms", "did you mean \"duration\""]),
    (&["--set", "duration=soon"], &["--set duration=soon", "soon"]),
    (&["--set", "seed=1.5"], &["--set seed=1.5", "whole number"]),
    (&["--set", "flows[7].src=h1"], &["--set flows[7].src=h1", "expected position 0"]),
    (&["--set", "flows.src=h1"], &["--set flows.src=h1"]),
    (&["--set", "transport.params.m=9e9"], &["transport.params.m", "9e9"]),
    (&["--set", "transport.protocol=swfit"], &["transport.protocol", "did you mean \"swift\""]),
    (&["--seed", "-1"], &["--seed", "-1", "expected a whole number from 0 to"]),
    (&["--seed", "0x10"], &["--seed", "0x10", "expected a whole number from 0 to"]),
    (
        &["--seed", "18446744073709551615"],
        &["--seed", "expected a whole number from 0 to 9223372036854775807"],
    ),
    (&["--threads", "0"], &["--threads", "expected a whole number from 1 to"]),
    (&["--threads", "two"], &["--threads", "two", "expected a whole number from 1 to"]),
    (&["--thread", "2"], &["--thread", "--threads"]),
    (&["--sed", "2"], &["--sed", "--seed"]),
    (&["--force"], &["--out"]),
    (&["--json=yes"], &["--json", "yes"]),
    (&["another.toml"], &["another.toml"]),
    (&["--out"], &["--out"]),
    (&["--protocols", "swift"], &["--protocols"]),
];

/// (complete command lines, words).
const WRONG_COMMANDS: &[(&[&str], &[&str])] = &[
    (&[], &["Usage"]),
    (&["runn", "x.toml"], &["runn", "run"]),
    (&["run"], &["SCENARIO"]),
    (&["run", "missing.toml"], &["missing.toml: found", "expected a scenario file"]),
    (&["run", "."], &[".: found", "expected a scenario file"]),
    (&["compare", "missing.toml"], &["--protocols"]),
    (&["protocols", "swfit"], &["swfit", "did you mean `swift`"]),
    (&["schema", "x"], &["'x'"]),
    (&["completions", "fsh"], &["fsh", "fish"]),
];

#[test]
fn wrong_command_lines() {
    let place = place();
    let count = |answer: &Answer| {
        answer.stderr.matches("error: ").count() + answer.stderr.matches("tidegate: ").count()
    };
    let mut shown = Vec::new();
    let out = place.arg("out");
    for (args, words) in WRONG_OPTIONS {
        let args = if args.contains(&"--out") || args.contains(&"--force") {
            args.to_vec()
        } else {
            [&["--out", out.as_str()], *args].concat()
        };
        shown.push((place.run(&args), words));
    }
    for (args, words) in WRONG_COMMANDS {
        shown.push((answer(args), words));
    }
    for (answer, words) in shown {
        assert!(answer.stderr.contains("Usage") || count(&answer) == 1, "{}", answer.stderr);
        answer.refused(2, words);
    }
    let protocols = ["", ",", "swift,", "swift,swift", "swfit", "swift,Poseidon"];
    for list in protocols {
        let answer = place.call("compare", &["--protocols", list, "--out", &place.arg("out")]);
        answer.refused(2, &["--protocols"]);
    }
    assert_eq!(files(&place.path("")), ["scenario.toml", "trace.csv"]);
}

/// Each says what is wrong and what to do.
#[test]
fn slips_with_files_are_answered_with_what_to_do() {
    let place = Place::usual();
    let meant = format!("did you mean {:?}", place.arg("scenario.toml"));
    let missing = place.arg("scenaro.toml");
    answer(&["run", &missing])
        .refused(2, &["scenaro.toml", "no such file", "tidegate new", &meant]);
    answer(&["sweep", &missing]).refused(2, &["scenaro.toml", &meant]);
    let far = answer(&["run", &place.arg("quite-another.toml")]);
    assert!(!far.stderr.contains("did you mean"), "{}", far.stderr);
    let scenario = place.arg("scenario.toml");
    let run = format!("tidegate run {scenario} --out FOLDER");
    answer(&["report", &scenario]).refused(2, &["is a file", "folders of results", &run]);
    // The head announces more links than there are, or may be.
    let topology = place.arg("topology.txt");
    let links = "0 3 10Gbps 1us 0\n1 3 10Gbps 1us 0\n2 3 10Gbps 1us 0\n";
    for (count, words) in [
        ("5", ["number of links", "5 links, of which 3 follow", "write 3 here"]),
        ("9999999", ["topology.txt:1", "9999999 links, of which 3 follow", "are missing"]),
    ] {
        fs::write(&topology, format!("4 1 {count}\n3\n{links}")).unwrap();
        let out = place.arg("imported");
        answer(&["import", &topology, "--as", "ns3", "--out", &out]).refused(2, &words);
    }
}

#[test]
fn wrong_outputs() {
    let place = place();
    fs::write(place.path("file"), "mine").unwrap();
    place.run(&["--out", &place.arg("file")]).refused(2, &["--out", "not a folder"]);
    let below = place.run(&["--out", &place.arg("file/below")]);
    assert!(below.code == Some(1) || below.code == Some(2), "{}", below.stderr);
    assert!(below.stderr.contains("--out"), "{}", below.stderr);
    assert_eq!(fs::read(place.path("file")).unwrap(), b"mine");
    assert_eq!(files(&place.path("")), ["file", "scenario.toml", "trace.csv"]);
}
