#[path = "../tests/common/mod.rs"]
mod common;
use common::*;
use tidegate_core::workload::*;
use tidegate_core::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let big = args.get(2).is_some_and(|x| x == "big");
    let (racks, hosts, spines) = if big { (48, 24, 24) } else { (16, 8, 8) };
    let fabric = leaf_spine(racks, hosts, spines, Rate::gbps(100), Rate::gbps(100), Time::us(1), 1436);
    let mut s = setup(fabric, stack(&args[1]), vec![], Time::ms(5));
    s.workload.traffic.push(Traffic { pattern: Pattern::Permutation, sizes: Sizes::Fixed(10_000_000), stack: 0, label: 0, start: Time::ZERO, stop: Time::NEVER });
    s.histograms = args.get(3).is_some();
    let t = std::time::Instant::now();
    let (f, o) = run(s, ());
    let dt = t.elapsed().as_secs_f64();
    println!("{} finished {} unfinished {} hops {} events {} -> {:.2} M/s digest {:x}", args[1], f.len(), o.unfinished.len(), o.packet_hops, o.events, o.packet_hops as f64 / dt / 1e6, o.digest);
    println!("max q {} ; drops {}", o.links.iter().map(|l| l.queue_bytes.max as u64).max().unwrap(), o.links.iter().map(|l| l.drops).sum::<u64>());
    println!("retx {}", f.iter().chain(&o.unfinished).map(|r| r.retransmitted_bytes).sum::<u64>());
}
