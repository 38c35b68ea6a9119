//! Testbeds: processes over loopback, compared with the simulator.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{Place, answer, files, tidegate};
use serde_json::Value;

const STAR: &str = r#"
name = "star"
duration = "2ms"
drain = "20ms"
[fabric]
kind = "star"
hosts = 4
mtu = "1000B"
host_link = { rate = "10Gbps", delay = "2us" }
[switch]
buffer = "1MB"
[transport]
protocol = "swift"
"#;

/// A folder with a scenario.
fn place(scenario: &str) -> Place {
    let place = Place::usual();
    std::fs::write(place.path("scenario.toml"), scenario).unwrap();
    place
}

fn json(place: &Place, subcommand: &str, args: &[&str]) -> Value {
    place.call(subcommand, &[&["--json", "-q"], args].concat()).json()
}

/// Columns of flows that do not depend on the network.
fn sent(summary: &Value) -> Vec<Value> {
    let flows = summary["flows"].as_array().unwrap().iter();
    let of = |flow: &Value| {
        let keys = ["id", "label", "src", "dst", "size_bytes", "start_us"];
        keys.iter().map(|key| flow[key].clone()).collect()
    };
    flows.map(of).collect()
}

#[test]
fn testbed_delivers_all_messages() {
    let traffic = "[[traffic]]\nkind = 'poisson'\nlabel = 'drawn'\nsizes = '30KB'\nload = 0.2\n\
                   [[flows]]\nsrc = 'h1'\ndst = 'h0'\nsize = '8B'\nstart = '20us'\n";
    for protocol in ["swift", "poseidon", "hpcc", "homa", "sird"] {
        let place = place(&(STAR.replace("swift", protocol) + traffic));
        let out = place.arg("out");
        let real = json(&place, "testbed", &["--out", &out]);
        let simulated = json(&place, "run", &[]);
        assert_eq!(sent(&real), sent(&simulated), "{protocol}");
        assert_eq!(real["protocols"], simulated["protocols"]);
        let of = |summary: &Value, key: &str| summary["fct"]["all"][key].clone();
        assert_eq!(of(&real, "count"), of(&simulated, "count"));
        assert_eq!(of(&real, "unfinished"), 0, "{protocol}");
        for flow in real["flows"].as_array().unwrap() {
            assert_eq!(flow["delivered_bytes"], flow["size_bytes"], "{protocol}");
            // No message is faster than the network, except for the lateness of clocks.
            assert!(flow["slowdown"].as_f64().unwrap() > 0.9, "{protocol}: {flow}");
        }
        let behind = &real["real"];
        assert_eq!((&behind["hosts"], &behind["lost"]), (&4.into(), &0.into()), "{protocol}");
        assert!(behind["datagrams"].as_u64().unwrap() > 1_000, "{protocol}: {behind}");
        let late = |key: &str| behind["hosts_late_us"][key].as_f64().unwrap();
        assert!(0.0 < late("mean") && late("mean") < late("max"), "{protocol}: {behind}");
        assert!(late("p99") <= late("max"), "{protocol}: {behind}");
        assert!(simulated.get("real").is_none());
        assert_eq!(files(&place.path("out")), ["flows.parquet", "manifest.json", "summary.json"]);
        // Measurements of switches are present: every packet went to a host, and most came from
        // one.
        let links = real["links"].as_array().unwrap();
        assert_eq!(links.len(), simulated["links"].as_array().unwrap().len());
        assert!(links.iter().any(|link| link["from"] == "tor0" && link["utilization"] != 0.0));
    }
}

#[test]
fn hosts_find_the_files_of_the_scenario() {
    let traffic = "[[traffic]]\nkind = 'trace'\nfile = 'trace.csv'\n";
    let place = place(&(STAR.to_owned() + traffic));
    std::fs::write(place.path("trace.csv"), "10,h0,h1,30000\n").unwrap();
    assert_eq!(json(&place, "testbed", &[])["fct"]["all"]["count"], 1);
}

/// The shares of flows depend on the protocol, not on the machine.
#[test]
fn testbed_fair_share() {
    let flows = "[[flows]]\nsrc = 'h1'\ndst = 'h0'\n[[flows]]\nsrc = 'h2'\ndst = 'h0'\n";
    let place = place(&(STAR.to_owned() + flows));
    let args = ["--set", "drain=0ms", "--set", "duration=8ms", "--set", "warmup=3ms"];
    let folder = |subcommand: &str| place.arg(&format!("by-{subcommand}"));
    let goodputs = |subcommand: &str| {
        // Two seeds, since equal experiments would be merged.
        let more = ["--out", &folder(subcommand), "--seed", &subcommand.len().to_string()];
        let summary = json(&place, subcommand, &[&args, &more[..]].concat());
        let flows = summary["flows"].as_array().unwrap().iter();
        flows.map(|flow| flow["goodput_gbps"].as_f64().unwrap()).collect::<Vec<f64>>()
    };
    let (real, simulated) = (goodputs("testbed"), goodputs("run"));
    // The link is nearly saturated, and no flow gets more than twice the goodput of the other.
    let sum: f64 = real.iter().sum();
    assert!((7.0..9.4).contains(&sum), "{real:?}, simulated {simulated:?}");
    assert!(real.iter().all(|gbps| *gbps > sum / 3.0), "{real:?}, simulated {simulated:?}");
    // One page shows and distinguishes both.
    let page = place.arg("page.html");
    answer(&["report", &folder("testbed"), &folder("run"), "--out", &page]).ok();
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("swift, live UDP") && page.contains("swift, simulated"));
}

/// They stop at their time or at the end of the run, while other messages finish.
#[test]
fn testbed_unbounded_flows_stop() {
    let flows = "[[flows]]\nsrc = 'h1'\ndst = 'h0'\nstop = '1ms'\n\
                 [[flows]]\nsrc = 'h2'\ndst = 'h3'\n\
                 [[flows]]\nsrc = 'h1'\ndst = 'h0'\nstart = '1.9ms'\nsize = '4MB'\n";
    for protocol in ["swift", "sird", "homa"] {
        let place = place(&(STAR.replace("swift", protocol) + flows));
        let delivered = |subcommand: &str| -> Vec<f64> {
            let summary = json(&place, subcommand, &[]);
            assert_eq!(summary["fct"]["all"]["unfinished"], 0, "{protocol}");
            let flows = summary["flows"].as_array().unwrap().iter();
            flows.map(|flow| flow["delivered_bytes"].as_f64().unwrap()).collect()
        };
        let (real, simulated) = (delivered("testbed"), delivered("run"));
        for (real, simulated) in real.iter().zip(&simulated) {
            // A busy machine sends less, but never more.
            let share = real / simulated;
            assert!((0.3..1.1).contains(&share), "{protocol}: {real}, simulated {simulated}");
        }
    }
}

/// Measurements of switches are reset when warm-up ends, as in simulations.
#[test]
fn testbed_measures_after_warm_up() {
    let place = place(&(STAR.to_owned() + "[[flows]]\nsrc = 'h1'\ndst = 'h0'\nsize = '100KB'\n"));
    for subcommand in ["run", "testbed"] {
        let packets = |warmup: &str| -> u64 {
            let summary = json(&place, subcommand, &["--set", &format!("warmup={warmup}")]);
            let links = summary["links"].as_array().unwrap().iter();
            links.map(|link| link["packets"].as_u64().unwrap()).sum()
        };
        // A hundred packets over two links, with acknowledgements; later, sessions may send pings.
        let (all, late) = (packets("0ms"), packets("1500us"));
        assert!(all > 300 && late < 40, "{subcommand}: {all}, and {late} after warm-up");
    }
}

/// Connections take different paths, though not the same as in simulation.
#[test]
fn testbed_multipath() {
    let fabric = "[fabric]\nkind = 'leaf-spine'\nracks = 2\nhosts_per_rack = 1\nspines = 4\n\
                  mtu = '1000B'\nhost_link = { rate = '10Gbps', delay = '2us' }\n\
                  fabric_link = { rate = '3Gbps', delay = '1us' }\n[switch]";
    let (head, rest) = STAR.split_once("[fabric]").unwrap();
    let (_, tail) = rest.split_once("[switch]").unwrap();
    let flows = "[[flows]]\nsrc = 'h0'\ndst = 'h1'\ncount = 6\n";
    let place = place(&format!("{head}{fabric}{tail}{flows}"));
    let args = ["--set", "drain=0ms", "--set", "duration=3ms", "--set", "warmup=1ms"];
    let used = |subcommand: &str| {
        let summary = json(&place, subcommand, &args);
        let links = summary["links"].as_array().unwrap().iter();
        let up = links.filter(|link| link["from"] == "tor0" && link["to"] != "h0");
        let busy = up.filter(|link| link["packets"].as_u64().unwrap() > 50);
        let mut busy: Vec<String> = busy.map(|link| link["to"].to_string()).collect();
        busy.sort();
        busy
    };
    for subcommand in ["run", "testbed"] {
        let used = used(subcommand);
        assert!(used.len() > 1, "{subcommand}: {used:?}");
    }
}

/// Two senders to one host overflow its queue: packets lose their payload, no message does.
#[test]
fn testbed_trims() {
    let flow = |src| format!("[[flows]]\nsrc = 'h{src}'\ndst = 'h0'\nsize = '300KB'\n");
    let flows: String = (1..=3).map(flow).collect();
    for protocol in ["nscc", "rccc", "nscc-rccc", "eqds", "ndp"] {
        let scenario = STAR.replace("\"swift\"", &format!("\"{protocol}\""));
        let place = place(&(scenario + &flows));
        let args = ["--set", "switch.trimming={data='15KB'}"];
        for subcommand in ["run", "testbed"] {
            let trims = || {
                let summary = json(&place, subcommand, &args);
                let fct = &summary["fct"]["all"];
                let counts = (&fct["count"], &fct["unfinished"]);
                assert_eq!(counts, (&3.into(), &0.into()), "{protocol}");
                let links = summary["links"].as_array().unwrap().iter();
                links.filter_map(|link| link["trims"].as_u64()).sum::<u64>()
            };
            // On a busy machine the senders of a testbed may send one after another.
            let trims = (0..4).map(|_| trims()).find(|&trims| trims > 0).unwrap_or(0);
            assert!(trims > 0, "{subcommand}, {protocol}: {trims} trims");
        }
    }
}

/// The packets of one message take all paths.
#[test]
fn testbed_packets_take_many_paths() {
    let fabric = "[fabric]\nkind = 'leaf-spine'\nracks = 2\nhosts_per_rack = 1\nspines = 4\n\
                  mtu = '1000B'\nhost_link = { rate = '10Gbps', delay = '2us' }\n\
                  fabric_link = { rate = '10Gbps', delay = '1us' }\n[switch]";
    let (head, rest) = STAR.split_once("[fabric]").unwrap();
    let (_, tail) = rest.split_once("[switch]").unwrap();
    let flow =
        "params = { multipath = 'reps' }\n[[flows]]\nsrc = 'h0'\ndst = 'h1'\nsize = '500KB'\n";
    let place = place(&format!("{head}{fabric}{tail}{flow}"));
    let summary = json(&place, "testbed", &[]);
    let links = summary["links"].as_array().unwrap().iter();
    let up = links.filter(|link| link["from"] == "tor0" && link["to"] != "h0");
    let packets: Vec<_> = up.map(|link| link["packets"].as_u64().unwrap()).collect();
    assert!(packets.len() == 4 && packets.iter().all(|&packets| packets > 20), "{packets:?}");
}

#[test]
fn testbed_exchanges_and_collectives() {
    let traffic = "[[traffic]]\nkind = 'closed-loop'\nlabel = 'ask'\nclients = 'h[1-2]'\n\
                   servers = 'h3'\nrequest = '100B'\nreply = '20KB'\nthink = '20us'\n\
                   [[traffic]]\nkind = 'collective'\nlabel = 'ring'\nop = 'ring-all-reduce'\n\
                   hosts = ['h0', 'h1', 'h2', 'h3']\nsize = '200KB'\niterations = 2\n";
    let place = place(&(STAR.to_owned() + traffic));
    let real = json(&place, "testbed", &[]);
    let exchanges = &real["exchanges"]["ask"];
    assert!(exchanges["count"].as_u64().unwrap() > 10, "{exchanges}");
    // Requests shortly before the end get no reply: at most one per client.
    assert!(exchanges["unfinished"].as_u64().unwrap() <= 2, "{exchanges}");
    // Two traversals of the network, and the serialisation of 20 KB.
    assert!(exchanges["p50_us"].as_f64().unwrap() > 16.0 + 8.0, "{exchanges}");
    assert_eq!(real["jobs"][0]["finished"], 2, "{}", real["jobs"]);
}

/// If a host is not scheduled for a while, results are wrong, and a warning says so.
#[test]
fn warning_suspended_host() {
    let place = place(&(STAR.to_owned() + "[[flows]]\nsrc = 'h1'\ndst = 'h0'\n"));
    let scenario = place.arg("scenario.toml");
    let args = ["testbed", &scenario, "--dilation", "4000", "--json", "-q"];
    let child = tidegate(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let hosts = Command::new("pgrep").args(["-P", &child.id().to_string()]).output().unwrap();
    let hosts = String::from_utf8(hosts.stdout).unwrap();
    let host = hosts.lines().next().expect("a host, which is a process");
    let signal = |name: &str| Command::new("kill").args([name, host]).status().unwrap();
    assert!(signal("-STOP").success());
    std::thread::sleep(Duration::from_millis(1_500));
    assert!(signal("-CONT").success());
    let output = child.wait_with_output().unwrap();
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    // The longest-waiting datagram waited for all of that time; 1 us is 4 ms of real time.
    let max = summary["real"]["hosts_late_us"]["max"].as_f64().unwrap();
    assert!((300.0..1_500.0).contains(&max), "{}", summary["real"]);
}

/// The estimate of a figure's live runs is their dilated length: 25 ms of the one live run.
#[test]
fn reproductions_accept_a_dilation() {
    let figure = ["reproduce", "tide/live-sender", "--quick", "--no-cache", "--dry-run", "--json"];
    for dilation in [500, 2_000] {
        let dilation_text = dilation.to_string();
        let call = [&figure[..], &["--dilation", &dilation_text]].concat();
        let seconds = answer(&call).json()["total"]["clock_s"].as_f64().unwrap();
        assert_eq!(seconds, 0.025 * f64::from(dilation));
    }
    let call = [&figure[..], &["--dilation", "0"]].concat();
    answer(&call).refused(2, &["--dilation", "1..=1000000"]);
}

#[test]
fn testbed_refuses_unsupported_scenarios() {
    let flow = "[[flows]]\nsrc = 'h1'\ndst = 'h0'\n";
    let place = place(&(STAR.to_owned() + flow + flow));
    let out = place.arg("out");
    for (args, words) in [
        (&["--set", "faults.loss=0.001"][..], &["faults"][..]),
        (&["--set", "switch.pfc={}"], &["switch.pfc"]),
        (&["--set", "hosts.stack_delay=1us"], &["hosts.stack_delay"]),
        (&["--set", "fabric.mtu=500B"], &["fabric.mtu", "512 B"]),
        (&["--set", "flows[0].protocol=dctcp"], &["several protocols"]),
        (&["--seeds", "2"], &["unexpected", "--seeds"]),
        (&["--dilation", "0"], &["--dilation", "1..=1000000"]),
        (&["--set", "fabric.kind=nothing"], &["fabric.kind"]),
    ] {
        let args = [args, &["--out", &out]].concat();
        place.call("testbed", &args).refused(2, words);
    }
    place.call("testbed", &["--force"]).refused(2, &["--force", "--out"]);
    assert_eq!(files(&place.path("")), ["scenario.toml"]);
}

#[test]
fn interrupted_testbed_leaves_no_files() {
    let place = place(&(STAR.to_owned() + "[[flows]]\nsrc = 'h1'\ndst = 'h0'\n"));
    let out = place.arg("out");
    let scenario = place.arg("scenario.toml");
    let args = ["testbed", &scenario, "--set", "duration=100s", "--out", &out, "-q"];
    let mut child = tidegate(&args).stderr(Stdio::piped()).spawn().unwrap();
    let hosts = || {
        let listed = Command::new("ps").args(["--ppid", &child.id().to_string()]).output();
        String::from_utf8_lossy(&listed.unwrap().stdout).matches("tidegate").count()
    };
    while hosts() < 2 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let listed = Command::new("ps")
        .args(["--no-headers", "-o", "pid", "--ppid", &child.id().to_string()])
        .output();
    let listed = listed.unwrap().stdout;
    let hosts_of_it: Vec<String> =
        String::from_utf8(listed).unwrap().split_whitespace().map(str::to_owned).collect();
    assert!(hosts_of_it.len() >= 2, "{hosts_of_it:?}");
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(files(&place.path("")), ["scenario.toml"]);
    // Its hosts have ended, too.
    assert!(
        hosts_of_it.iter().all(|host| !std::path::Path::new(&format!("/proc/{host}")).exists())
    );
}

#[test]
fn testbed_host_without_testbed() {
    let output = tidegate(&["testbed-host"]).stdin(Stdio::null()).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("must assign the host's role"), "{stdout}");
}

/// The kernel's TCP in network namespaces. It needs root, iproute2 and ethtool.
#[test]
fn testbed_over_tcp() {
    let traffic = "[[flows]]\nsrc = 'h1'\ndst = 'h0'\nsize = '1MB'\nlabel = 'long'\n\
                   [[flows]]\nsrc = 'h2'\ndst = 'h0'\nsize = '8B'\nstart = '20ms'\n\
                   [[flows]]\nsrc = 'h3'\ndst = 'h2'\nstart = '10ms'\nstop = '100ms'\n";
    let slow = STAR.replace("10Gbps", "50Mbps").replace("2us", "1ms");
    let slow =
        slow.replace("drain = \"20ms\"", "drain = \"5s\"").replace("= \"2ms\"", "= \"200ms\"");
    let place = place(&(slow + traffic));
    let tcp = |control: &str| place.call("testbed", &["--tcp", control, "--json", "-q"]);
    let unknown = tcp("tide-none");
    unknown.refused(2, &["the kernel has no congestion control \"tide-none\"; expected one of"]);
    let answer = tcp("reno");
    let missing = ["cannot make a network namespace", "cannot run", "/proc/sys/net"];
    if missing.iter().any(|why| answer.stderr.contains(why)) {
        return eprintln!("SKIPPED: {}", answer.stderr);
    }
    let summary = answer.json();
    let simulated = json(&place, "run", &[]);
    assert_eq!(sent(&summary), sent(&simulated));
    // Warnings of the simulated protocol do not apply to another control.
    let warns = |summary: &Value, text: &str| {
        let warnings = summary["warnings"].as_array().unwrap();
        warnings.iter().any(|warning| warning.as_str().unwrap().contains(text))
    };
    let of_protocol = [&simulated, &summary].map(|summary| warns(summary, "swift: "));
    assert_eq!(of_protocol, [true, false], "{}", simulated["warnings"]);
    // Results have the name of the control, and no target of the protocol.
    assert_eq!(summary["protocols"], serde_json::json!(["reno"]));
    let of_groups = |summary: &Value, key: &str| {
        let groups = summary["groups"].as_array().unwrap();
        groups.iter().map(|group| group[key].to_string()).collect::<BTreeSet<_>>()
    };
    assert_eq!(of_groups(&summary, "protocol"), ["\"reno\"".to_owned()].into());
    assert_eq!(of_groups(&summary, "queue_target_us"), ["null".to_owned()].into());
    let flows = summary["flows"].as_array().unwrap();
    let flow = |host: &str| flows.iter().find(|flow| flow["src"] == host).unwrap();
    assert_eq!(flow("h1")["delivered_bytes"], 1_000_000);
    assert_eq!(flow("h2")["delivered_bytes"], 8);
    // 1 MB takes 160 ms at 50 Mbit/s, the handshake an RTT of 4 ms.
    let fct = flow("h1")["fct_us"].as_f64().unwrap();
    assert!((160e3..2e6).contains(&fct), "{fct}");
    // The flow that is stopped sends for 90 ms, and what its socket holds.
    let stopped = flow("h3")["delivered_bytes"].as_u64().unwrap();
    assert!((30_000..700_000).contains(&stopped), "{stopped}");
    let real = &summary["real"];
    assert_eq!((&real["tcp"], &real["dilation"]), (&"reno".into(), &1.into()));
    assert_eq!(real["tcp_acks"], Value::Null);
    let links = summary["links"].as_array().unwrap();
    let to_receiver = links.iter().find(|link| link["to"] == "h0").unwrap();
    // Segments of at most 1,000 bytes, acknowledgements, and the opening of connections. On a busy
    // machine, some follow the 200 ms in which links are measured.
    let gbps = flow("h1")["goodput_gbps"].as_f64().unwrap();
    let bytes = (gbps * 1e3 / 8.0 * fct.min(200e3)).round();
    let packets = to_receiver["packets"].as_f64().unwrap();
    assert!(bytes > 100e3 && packets >= bytes / 1e3, "{bytes} {to_receiver}");
    // Jumbo frames pass all interfaces; hosts that send nothing are absent.
    let more = ["--set", "fabric.mtu=4096B", "--set", "fabric.hosts=6", "--set", "duration=50ms"];
    let args = [&["--tcp", "reno", "--json", "-q"], &more[..]].concat();
    let jumbo = place.call("testbed", &args).json();
    let flows = jumbo["flows"].as_array().unwrap();
    let long = flows.iter().find(|flow| flow["src"] == "h1").unwrap();
    assert_eq!(long["delivered_bytes"], 1_000_000);
    let fast = [&args[..], &["--set", "fabric.host_link.rate=201Mbps"]].concat();
    assert!(warns(&place.call("testbed", &fast).json(), "two cores carry some 200Mbps a port"));
    let trimming = [&args[..], &["--set", "switch.trimming.data=30KB"]].concat();
    place.call("testbed", &trimming).refused(2, &["switches that trim packets"]);
}
