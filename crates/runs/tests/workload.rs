//! Workloads from the traffic of runs: the analysis recovers their load, sizes and incasts.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tidegate_core::workload::Pattern;
use tidegate_core::{Rate, Time};
use tidegate_runs::{
    Capture, MeasuredWorkload, RunOptions, compare_completions, load, protocols, run, set,
    workload_destination, workload_from,
};
use tidegate_scenario::workload::WorkloadOptions;

fn scenario(dir: &Path, duration: &str, traffic: &str) -> PathBuf {
    let path = dir.join("scenario.toml");
    let text = format!(
        "duration = '{duration}'\ndrain = '1s'\nfabric = {{ kind = 'star', hosts = 16, host_link = \
         {{ rate = '25Gbps', delay = '1us' }} }}\ntransport = {{ protocol = '{}' }}\n{traffic}",
        protocols()[0].name
    );
    std::fs::write(&path, text).unwrap();
    path
}

const BOTH: &str = "[[traffic]]\nkind = 'poisson'\nsizes = 'dcpim-imc10'\nload = 0.3\n\
    [[traffic]]\nkind = 'incast'\nsizes = '64KB'\nfan_in = 12\ninterval = '2ms'\nstart = '1ms'\n\
    poisson = true\njitter = '20us'\n";

/// A list of the flows that a scenario offers.
fn list(dir: &Path, scenario: &Path) -> PathBuf {
    let plan = load(scenario, &[]).unwrap();
    let flows = tidegate_sim::flows(&plan.workload, 16, plan.seed, plan.duration);
    let mut text =
        "sourceIPv4Address,destinationIPv4Address,octets,flowStartNanoseconds\n".to_owned();
    for flow in flows {
        let ns = 1_700_000_000_000_000_000 + flow.start.as_ps() / 1000;
        let _ = writeln!(text, "10.0.0.{},10.0.0.{},{},{ns}", flow.src, flow.dst, flow.bytes);
    }
    let path = dir.join("own.csv");
    std::fs::write(&path, text).unwrap();
    path
}

fn distance(of: &MeasuredWorkload, name: &str) -> f64 {
    of.distances.iter().find(|distance| distance.name == name).unwrap().value.unwrap()
}

fn options() -> WorkloadOptions {
    WorkloadOptions { host_link: Some(Rate::gbps(25)), ..WorkloadOptions::default() }
}

#[test]
fn load_sizes_and_incasts_are_recovered() {
    let dir = TempDir::new().unwrap();
    let path = list(dir.path(), &scenario(dir.path(), "100ms", BOTH));
    let found = workload_from(&path, &options()).unwrap();
    let incast = found.workload.incast.as_ref().unwrap();
    // 50 bursts on average; background flows may join one, and two bursts may coincide.
    assert!((35..66).contains(&incast.bursts), "{incast:?}");
    assert!(incast.fan_in == 12 && incast.is_random && incast.dst.is_none(), "{incast:?}");
    // Poisson load of 0.3 on 16 links of 25 Gbit/s, and the incasts.
    let background = found.workload.profile.bytes - incast.bytes;
    let load = background as f64 * 8.0 / 0.1 / (16.0 * 25e9);
    assert!((load / 0.3 - 1.0).abs() < 0.1, "{load}");
    // Heavy tails make the bytes of two draws differ more than their sizes.
    assert!((distance(&found, "mean_load") - 1.0).abs() < 0.1);
    for (name, most) in [("sizes", 0.02), ("gaps", 0.03), ("sender_gaps", 0.03), ("fan_in", 0.05)] {
        assert!(distance(&found, name) < most, "{name}: {}", distance(&found, name));
    }
    let again = workload_from(&path, &options()).unwrap();
    assert_eq!(found.json(), again.json());
    let (poisson, _) = BOTH.rsplit_once("[[").unwrap();
    let no_incast = list(dir.path(), &scenario(dir.path(), "100ms", poisson));
    assert_eq!(workload_from(&no_incast, &options()).unwrap().workload.incast, None);
}

#[test]
fn a_replay_is_the_trace_and_scales() {
    let dir = TempDir::new().unwrap();
    let path = list(dir.path(), &scenario(dir.path(), "2ms", BOTH));
    let out = dir.path().join("out");
    let found = workload_from(&path, &options()).unwrap();
    found.write(workload_destination(&out, false).unwrap(), "page".to_owned()).unwrap();
    assert!(workload_destination(&out, false).is_err());
    let flows = |scale: &[&str]| {
        let changes: Vec<_> = scale.iter().map(|text| set(text).unwrap()).collect();
        let plan = load(out.join("replay.toml"), &changes).unwrap();
        match &plan.workload.traffic[0].pattern {
            Pattern::Trace(arrivals) => arrivals.clone(),
            other => panic!("{other:?}"),
        }
    };
    let (once, twice) = (flows(&[]), flows(&["traffic.0.scale=2"]));
    assert_eq!(once.len(), found.workload.trace.flows.len());
    assert!(
        once.iter()
            .zip(&found.workload.trace.flows)
            .all(|(a, b)| { (a.at, a.src, a.dst, a.bytes) == (b.at, b.src, b.dst, b.bytes) })
    );
    // The same bytes in half the time.
    let last =
        |flows: &[tidegate_core::workload::Arrival]| flows.last().unwrap().at.since(Time::ZERO);
    let ratio = last(&once).as_s_f64() / last(&twice).as_s_f64();
    assert!((ratio - 2.0).abs() < 1e-6, "{ratio}");
    assert!(once.iter().map(|of| of.bytes).eq(twice.iter().map(|of| of.bytes)));
}

#[test]
fn captures_of_runs_are_read_back() {
    let dir = TempDir::new().unwrap();
    let traffic = "[[traffic]]\nkind = 'poisson'\nsizes = 'dcpim-imc10'\nload = 0.2\n";
    let path = scenario(dir.path(), "1ms", traffic);
    let mut read = 0;
    for protocol in protocols() {
        let change = set(&format!("transport.protocol={}", protocol.name)).unwrap();
        // Some protocols need another fabric.
        let Ok(plan) = load(&path, &[change]) else { continue };
        let file = dir.path().join(format!("{}.pcapng", protocol.name));
        let capture = Some(Capture { file: &file, of: &[] });
        run(&plan, &RunOptions { capture, ..RunOptions::default() }).unwrap();
        let found = workload_from(&file, &options()).unwrap();
        // Each byte once, although both links of each path are captured and packets are
        // acknowledged.
        let flows = tidegate_sim::flows(&plan.workload, 16, plan.seed, plan.duration);
        let mut sizes: Vec<u64> = flows.map(|flow| flow.bytes).collect();
        sizes.sort_unstable();
        assert!(found.workload.trace.is_capture && sizes.len() > 20, "{}", sizes.len());
        assert_eq!(found.workload.profile.sizes, sizes, "{}", protocol.name);
        let noted = &found.workload.trace.noted;
        let twice = noted.iter().find(|noted| noted.name == "repeated_on_interface_packets");
        assert!(twice.unwrap().count > 0);
        read += 1;
    }
    assert!(read > 10, "{read} protocols");
}

#[test]
fn measured_completions_are_compared_with_runs() {
    let dir = TempDir::new().unwrap();
    let mut text = "src,dst,bytes,start_us,duration_us\n".to_owned();
    for i in 0..300 {
        let _ = writeln!(text, "a{},b{},{},{},{}", i % 4, i % 3, 1000 + i, 40 * i, 100 + i);
    }
    let path = dir.path().join("own.csv");
    std::fs::write(&path, text).unwrap();
    let out = dir.path().join("out");
    let found = workload_from(&path, &options()).unwrap();
    found.write(workload_destination(&out, false).unwrap(), String::new()).unwrap();
    let results = out.join("replay");
    let plan = load(out.join("replay.toml"), &[]).unwrap();
    run(&plan, &RunOptions { out: Some(&results), ..RunOptions::default() }).unwrap();
    let compared = compare_completions(&out, std::slice::from_ref(&results)).unwrap();
    assert_eq!((compared.series.len(), compared.without_ideal), (2, 0));
    let [class] = &compared.classes[..] else { panic!("{:?}", compared.classes) };
    let [measured, simulated] = &class.series[..] else { panic!() };
    assert_eq!((measured.count, simulated.count, simulated.unfinished), (300, 300, 0));
    assert_eq!((measured.p50_us, measured.p99_us), (Some(249.0), Some(396.0)));
    // In an almost empty network, the simulated slowdown is near 1.
    assert!(simulated.slowdown_p50.unwrap() < 1.5, "{simulated:?}");
    let slowdown = measured.slowdown_p50.unwrap() / simulated.slowdown_p50.unwrap();
    let completion = measured.p50_us.unwrap() / simulated.p50_us.unwrap();
    assert!((slowdown / completion - 1.0).abs() < 0.2, "{slowdown} {completion}");
    assert_eq!(compared.measured, 300);
    let other = dir.path().join("other");
    let star = "duration = '1ms'\nfabric = { kind = 'star', hosts = 4 }\n\
                transport = { protocol = 'swift' }\n\
                [[flows]]\nsrc = 'h1'\ndst = 'h0'\nsize = '7KB'\n";
    let file = dir.path().join("other.toml");
    std::fs::write(&file, star).unwrap();
    let plan = load(&file, &[]).unwrap();
    run(&plan, &RunOptions { out: Some(&other), ..RunOptions::default() }).unwrap();
    let error = compare_completions(&out, &[other]).unwrap_err().to_string();
    assert!(error.contains("none of the 300 measured flows"), "{error}");
    let error = compare_completions(dir.path(), &[results]).unwrap_err().to_string();
    assert!(error.contains("completions.csv"), "{error}");
}
