//! A 128-host permutation, 16 racks of 8 under 8 spines at 100 Gbit/s: the engine's yardstick.
//!
//! Arguments: protocols (default: all), `--large` for 1,152 hosts. Prints packet-hops a CPU second, the median of five.
#![allow(missing_docs, reason = "a benchmark")]
#[path = "../tests/common/mod.rs"]
mod common;

use common::{leaf_spine, run, setup, stack};
use tidegate_core::fabric::{Ecn, MarkAt, Routing};
use tidegate_core::workload::{Pattern, Sizes, Traffic};
use tidegate_core::{Need, Rate, Time};

/// CPU seconds of this process so far, from the kernel's accounting.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(f64::NAN) * 1e-9
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let large = arguments.iter().any(|a| a == "--large");
    let once = arguments.iter().any(|a| a == "--once");
    let named: Vec<&str> = arguments.iter().filter(|a| !a.starts_with("--")).map(String::as_str).collect();
    let all = ["swift", "poseidon", "powertcp", "dctcp", "sird"];
    let (racks, hosts, spines) = if large { (48, 24, 24) } else { (16, 8, 8) };
    for name in if named.is_empty() { &all[..] } else { &named } {
        let mut rates = Vec::new();
        let mut hops = 0;
        for _ in 0..if once { 1 } else { 5 } {
            let mut fabric =
                leaf_spine(racks, hosts, spines, Rate::gbps(100), Rate::gbps(100), Time::us(1), 1436);
            for switch in &mut fabric.switches {
                let at = 1.25 * 111_000.0;
                switch.ecn = Some(Ecn {
                    min_bytes: at,
                    max_bytes: at,
                    max_probability: 1.0,
                    at: MarkAt::Enqueue,
                    core_only: stack(name).protocol().card().needs.has(Need::CoreEcn),
                });
            }
            let mut setup = setup(fabric, stack(name), Vec::new(), Time::ms(5));
            if setup.stacks[0].protocol().card().needs.has(Need::Spraying) {
                setup.routing = Routing::Spray;
            }
            setup.workload.traffic.push(Traffic {
                pattern: Pattern::Permutation,
                sizes: Sizes::Fixed(10_000_000),
                stack: 0,
                label: 0,
                start: Time::ZERO,
                stop: Time::NEVER,
            });
            let before = cpu_seconds();
            let (_, outcome) = run(setup, ());
            rates.push(outcome.packet_hops as f64 / (cpu_seconds() - before) / 1e6);
            hops = outcome.packet_hops;
        }
        rates.sort_by(f64::total_cmp);
        let hosts = racks * hosts;
        println!(
            "{name:10} {hosts} hosts {hops} packet-hops {:6.2} M packet-hops/CPU-s",
            rates[rates.len() / 2]
        );
    }
}
