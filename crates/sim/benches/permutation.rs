//! Benchmarks of the engine: a permutation of 10 MB flows, or web search at 60 % load, on 16 racks
//! of 8 hosts under 8 spines, with links of 100 Gbit/s and 1 µs.
//!
//! Arguments: protocols (default: the usual ones), `--large` for 1,152 hosts, `--web-search`,
//! `--once`. Prints packet-hops per CPU second, the median of five runs.
#![allow(missing_docs, reason = "a benchmark")]
#[path = "../tests/common/mod.rs"]
mod common;

use common::{leaf_spine, requirements_of, run, setup, stack};
use tidegate_core::fabric::{Ecn, MarkAt};
use tidegate_core::workload::{Distribution, Pattern, Sampling, Sizes, Traffic};
use tidegate_core::{FabricRequirements, Rate, Span, Time};
use tidegate_sim::Setup;

const DEFAULT: [&str; 6] = ["swift", "poseidon", "powertcp", "dctcp", "hpcc", "sird"];

/// CPU seconds used by this process so far, from the kernel's accounting.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(f64::NAN) * 1e-9
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let named: Vec<&str> =
        arguments.iter().filter(|a| !a.starts_with("--")).map(String::as_str).collect();
    for name in if named.is_empty() { &DEFAULT[..] } else { &named } {
        let mut rates = Vec::new();
        let mut hops = 0;
        for _ in 0..if has("--once") { 1 } else { 5 } {
            let setup = yardstick(name, has("--large"), has("--web-search"));
            let before = cpu_seconds();
            hops = run(setup).1.packet_hops;
            rates.push(hops as f64 / (cpu_seconds() - before) / 1e6);
        }
        rates.sort_by(f64::total_cmp);
        let (hosts, rate) = (if has("--large") { 1152 } else { 128 }, rates[rates.len() / 2]);
        println!("{name:10} {hosts} hosts {hops} packet-hops {rate:6.2} M packet-hops/CPU-s");
    }
}

fn yardstick(name: &str, large: bool, web_search: bool) -> Setup {
    let (racks, hosts, spines) = if large { (48, 24, 24) } else { (16, 8, 8) };
    let fabric =
        leaf_spine(racks, hosts, spines, Rate::gbps(100), Rate::gbps(100), Span::us(1), 1436);
    let stack = stack(name);
    let mut setup = setup(fabric, stack, Vec::new(), Time::ms(5));
    let FabricRequirements { ecn, routing, credit_queue, .. } = requirements_of(&setup);
    let core_only = ecn.is_some_and(|marking| marking.core_only);
    for switch in &mut setup.fabric.switches {
        // 1.25 BDP
        let (min_bytes, max_bytes) = (139e3, 139e3);
        switch.ecn = Some(Ecn {
            min_bytes,
            max_bytes,
            max_probability: 1.0,
            at: MarkAt::Enqueue,
            core_only,
            per: None,
        });
        switch.credit_queue = credit_queue;
    }
    setup.routing = routing;
    let (pattern, sizes) = if web_search {
        poisson(racks * hosts)
    } else {
        (Pattern::Permutation, Sizes::Fixed(10_000_000))
    };
    setup.workload.traffic.push(Traffic {
        pattern,
        sizes,
        stack: 0,
        label: 0,
        start: Time::ZERO,
        stop: Time::NEVER,
    });
    setup
}

/// Web search at 60 % load of the host links.
fn poisson(hosts: u32) -> (Pattern, Sizes) {
    let points: Vec<(f64, f64)> = include_str!("../../scenario/workloads/hpcc-websearch.csv")
        .lines()
        .filter_map(|line| line.split_once(','))
        .filter_map(|(size, cdf)| Some((size.parse().ok()?, cdf.parse().ok()?)))
        .collect();
    let mean_bytes = 1_711_250.0;
    let everyone: Vec<u32> = (0..hosts).collect();
    let pattern = Pattern::Poisson {
        mean_gap_ps: mean_bytes * 8.0 / (0.6 * 100e9) * 1e12,
        senders: everyone.clone(),
        receivers: everyone,
    };
    (pattern, Sizes::Drawn(Distribution { points, sampling: Sampling::Linear, mean_bytes }))
}
