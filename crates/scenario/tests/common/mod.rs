//! Scenarios that several tests share.
#![allow(dead_code, missing_docs, unreachable_pub)]

use tidegate_core::Rng;

/// Three hosts on two switches.
pub const GRAPH: &str = r#"name = "multi-hop"
seed = 1
duration = "20ms"
warmup = "5ms"

[fabric]
kind = "graph"
mtu = "4096B"
hosts = ["h0", "h1", "h2"]
switches = ["s0", "s1"]
links = [
  { a = "h0", b = "s0", rate = "100Gbps", delay = "1us" },
  { a = "h1", b = "s0", rate = "100Gbps", delay = "1us" },
  { a = "s0", b = "s1", rate = "100Gbps", delay = "1us" },
  { a = "s1", b = "h2", rate = "100Gbps", delay = "1us" },
]

[switch]
buffer = "unlimited"
latency = "0ns"
telemetry = true
routing = "ecmp"
priorities = 8
[[switch.override]]
match = "s1"
telemetry = false

[transport]
protocol = "poseidon"
preset = "paper"
params = { m = 0.25 }
connections = "per-pair"

[[flows]]
src = "h0"
dst = "h2"
size = "inf"
start = "0us"
stop = "20ms"
count = 1
label = "victim"
protocol = "poseidon"

[[traffic]]
kind = "poisson"
sizes = "websearch"
load = 0.6
"#;

/// Racks with all kinds of traffic.
pub const RACKS: &str = r#"duration = "10ms"

[fabric]
kind = "leaf-spine"
racks = 2
hosts_per_rack = 4
spines = 2

[switch]
buffer = "4MB"
alpha = 0.5
ecn = { kmin = "30KB", kmax = "90KB", pmax = 0.2, at = "dequeue" }

[transport]
protocol = "swift"
bdp = "100KB"

[[flows]]
src = "h0"
dst = "h7"
count = 3
jitter = "10us"
params = { beta = 0.5 }

[[traffic]]
kind = "incast"
sizes = "20KB"
fan_in = 5
interval = "1ms"

[[traffic]]
kind = "rotating-incast"
sizes = "128KB"
rate = "0.5Gbps"
senders = "h[0-3]"

[[traffic]]
kind = "permutation"
start = "1ms"

[[traffic]]
kind = "all-to-all"
sizes = "10KB"
stop = "5ms"

[[traffic]]
kind = "trace"
file = "trace.csv"
label = "replayed"
"#;

/// Replaces one part of `text`, which must exist.
pub fn patched(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from:?} is not in the scenario");
    text.replacen(from, to, 1)
}

/// Returns the path of a test file.
pub fn beside(name: &str) -> String {
    format!("{}/tests/files/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Converts JSON to TOML.
pub fn toml(json: &serde_json::Value) -> String {
    use serde_json::Value;
    match json {
        // A JSON string is a basic string of TOML.
        Value::Array(items) => {
            format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", "))
        }
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{key:?} = {}", toml(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Converts a resolved scenario to a file.
pub fn document(json: &serde_json::Value) -> String {
    let entries = json.as_object().unwrap().iter();
    entries.map(|(key, value)| format!("{key} = {}\n", toml(value))).collect()
}

/// Fragments that mutations insert.
const SCRAPS: &[&str] = &[
    "\"",
    "'",
    "=",
    "[",
    "]",
    "{",
    "}",
    "[[",
    "]]",
    ",",
    ".",
    "\n",
    " ",
    "#",
    "-",
    "+",
    "0",
    "1",
    "9",
    "e",
    "E",
    "inf",
    "nan",
    "true",
    "1e400",
    "18446744073709551615",
    "-1",
    "99999999999999999999999",
    "0x7f",
    "1979-05-27",
    "\"\"",
    "\"0B\"",
    "\"1us\"",
    "\"1Gbps\"",
    "\"1e-30s\"",
    "\"999999s\"",
    "\"inf\"",
    "\"*\"",
    "\"[0-9]\"",
    "\"h0\"",
    "µ",
    "\u{3bc}s",
    "🙂",
    "\u{0}",
    "\u{feff}",
    "\\",
    "\\u0000",
    "kind",
    "preset = \"poseidon-clos\"\n",
    "kind = \"fat-tree\"\n",
    "kind = \"clos\"\n",
    "k = 8\n",
    "params = {}",
    "null",
    "\r\n",
    "\t",
];

/// Returns a random item.
pub fn pick<'a>(rng: &mut Rng, items: &[&'a str]) -> &'a str {
    items[rng.below(items.len() as u64) as usize]
}

/// Returns a random position between two characters.
fn place(rng: &mut Rng, text: &str) -> usize {
    let at = rng.below(text.len() as u64 + 1) as usize;
    (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap()
}

/// Returns the text with a few mutations.
pub fn mutated(rng: &mut Rng, text: &str) -> String {
    let mut text = text.to_string();
    for _ in 0..=rng.below(4) {
        let (a, b) = (place(rng, &text), place(rng, &text));
        let (a, b) = (a.min(b), a.max(b).min(a.min(b) + 40));
        let b = (b..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap();
        match rng.below(6) {
            0 => text.insert_str(a, pick(rng, SCRAPS)),
            1 => text.replace_range(a..b, ""),
            2 => text.replace_range(a..b, pick(rng, SCRAPS)),
            3 => text.insert_str(b, &text.clone()[a..b]),
            // Copies the value of another key.
            4 => {
                let values: Vec<&str> = text
                    .split(['=', ',', '\n'])
                    .map(str::trim)
                    .filter(|value| !value.is_empty())
                    .collect();
                if !values.is_empty() {
                    let (from, to) =
                        (pick(rng, &values).to_string(), pick(rng, &values).to_string());
                    text = text.replacen(&from, &to, 1);
                }
            }
            // Removes a line.
            _ => {
                let lines: Vec<&str> = text.lines().collect();
                if !lines.is_empty() {
                    let gone = rng.below(lines.len() as u64) as usize;
                    text = lines
                        .iter()
                        .enumerate()
                        .filter(|(i, _)| *i != gone)
                        .flat_map(|(_, line)| [*line, "\n"])
                        .collect();
                }
            }
        }
    }
    text
}
