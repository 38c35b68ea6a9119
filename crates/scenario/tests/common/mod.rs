//! Scenarios that several tests start from.
#![allow(dead_code, missing_docs, unreachable_pub)]

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

/// A few racks with all sorts of traffic.
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

/// `text` with one place changed, which must be there.
pub fn patched(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from:?} is not in the scenario");
    text.replacen(from, to, 1)
}

/// Where the files of tests lie.
pub fn beside(name: &str) -> String {
    format!("{}/tests/files/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// JSON as TOML: the resolved scenario as a file.
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

/// The whole of a resolved scenario as a file.
pub fn document(json: &serde_json::Value) -> String {
    let entries = json.as_object().unwrap().iter();
    entries.map(|(key, value)| format!("{key} = {}\n", toml(value))).collect()
}
