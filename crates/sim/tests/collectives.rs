//! Collectives: dependencies between messages, and duration in an otherwise idle network.

use std::collections::BTreeMap;

use crate::common::{flow, open_loop, run, setup, stack, star};
use tidegate_algos::Stack;
use tidegate_core::collective::{Collective, MOST_MESSAGES, Op, Stragglers, expert_loads};
use tidegate_core::workload::{Pattern, Sizes, Traffic};
use tidegate_core::{Rate, Span, Time};
use tidegate_sim::{FlowRecord, Setup, Step};

/// Payload of a full packet, in bytes: acknowledgements of 84 B and headers of 80 B take one per
/// cent each.
const MTU: u32 = 9_000;
/// Rate of every link.
const GBPS: u64 = 100;
const DELAY: Span = Span::us(1);

/// One iteration without chunks.
fn once(op: Op, hosts: Vec<u32>, bytes: u64) -> Collective {
    Collective {
        op,
        hosts,
        bytes,
        chunks: 1,
        iterations: 1,
        compute: Span::ZERO,
        stragglers: Stragglers::default(),
    }
}

/// Jobs on a star of `hosts` hosts, whose switch has an unlimited buffer.
fn jobs(hosts: u32, stack: Stack, all: Vec<Collective>) -> Setup {
    let fabric = star(hosts, Rate::gbps(GBPS), DELAY, MTU);
    let mut setup = setup(fabric, stack, Vec::new(), Time::ms(20));
    let block = |of| Traffic {
        pattern: Pattern::Collective(of),
        sizes: Sizes::Fixed(1),
        stack: 0,
        label: 0,
        start: Time::us(10),
        stop: Time::ms(20),
    };
    setup.workload.traffic = all.into_iter().map(block).collect();
    setup
}

/// All rows.
fn rows(setup: Setup) -> Vec<FlowRecord> {
    let (rows, outcome) = run(setup);
    assert!(outcome.unfinished.is_empty(), "{:?}", outcome.unfinished.first());
    rows
}

/// Time from the first message to the last byte of job `number`, in microseconds.
fn took(rows: &[FlowRecord], number: u32) -> f64 {
    let own = || rows.iter().filter(|row| row.step().is_some_and(|step| step.job == number));
    let first = own().map(|row| row.start).min().unwrap();
    own().map(|row| row.completed.unwrap()).max().unwrap().since(first).as_us_f64()
}

/// Duration of a single iteration.
fn lasts(hosts: u32, stack: Stack, of: Collective) -> f64 {
    took(&rows(jobs(hosts, stack, vec![of])), 0)
}

/// Time of the payload on a link, in microseconds.
fn link(bytes: f64) -> f64 {
    bytes * 8e-3 / GBPS as f64
}

/// Time from the departure of the last bit at a host to its arrival at another, in microseconds:
/// two link delays, and the serialisation of the last packet of `bytes` on the second link.
fn latency(bytes: f64) -> f64 {
    2.0 * DELAY.as_us_f64() + link(bytes.min(f64::from(MTU)))
}

/// Asserts that the time is at least a bound and at most `most` times the bound.
fn near(what: &str, ours: f64, bound: f64, most: f64) {
    assert!((1.0..most).contains(&(ours / bound)), "{what}: {ours} us, bound {bound} us");
}

/// Each of n hosts sends only to its neighbour. In a step every link carries one block, S/n, and no
/// host can start the next step before it has the whole block: (S/n)/rate + latency. Reduce-scatter
/// and all-gather are n - 1 such steps, and all-reduce is both of them. SIRD requests credit before
/// each block, which takes a few round trips, and HPCC leaves 5 % of a link.
#[test]
fn rings_take_the_time_of_their_steps() {
    let (n, bytes) = (8, 8_000_000u64);
    let block = bytes as f64 / f64::from(n);
    let step = link(block) + latency(block);
    for (name, steps) in [("ring", 2 * (n - 1)), ("scatter", n - 1), ("gather", n - 1)] {
        let op = match name {
            "ring" => Op::RingAllReduce,
            "scatter" => Op::ReduceScatter,
            _ => Op::AllGather,
        };
        for (stack, most) in [(open_loop(GBPS), 1.03), (stack("sird"), 1.2), (stack("hpcc"), 1.12)]
        {
            let what = format!("{name}, {}", stack.protocol().info().name);
            let ours = lasts(n, stack, once(op.clone(), (0..n).collect(), bytes));
            near(&what, ours, f64::from(steps) * step, most);
        }
    }
}

/// If a block is divided into c chunks, each circulates independently, so latencies pass while
/// other chunks are sent. If a block takes at most a latency, a step takes a chunk and a latency,
/// and the last chunk starts c - 1 chunks later.
#[test]
fn chunks_hide_latency() {
    let (n, bytes, chunks) = (8, 160_000u64, 4);
    let block = bytes as f64 / f64::from(n);
    let chunk = block / f64::from(chunks);
    let steps = f64::from(2 * (n - 1));
    let of = Collective { chunks, ..once(Op::RingAllReduce, (0..n).collect(), bytes) };
    let bound = steps * (link(chunk) + latency(chunk)) + f64::from(chunks - 1) * link(chunk);
    let ours = lasts(n, open_loop(GBPS), of.clone());
    near("chunks", ours, bound, 1.05);
    let whole = lasts(n, open_loop(GBPS), Collective { chunks: 1, ..of });
    near("whole", whole, steps * (link(block) + latency(block)), 1.05);
}

/// Seven ranks form a tree of two levels below the root. Going up, the two children of a rank send
/// S each over the rank's only link: 2S/rate + latency per level. Going down the rank sends S to
/// each of the two. Over two levels, up and down: 8S/rate + 4 latencies. With chunks the levels
/// work in parallel. A rank between two levels receives 2S from below and S from above, and sends
/// as much: 3S/rate, plus the time of a chunk up and down, including the queue of chunks that its
/// leaves have sent at once.
#[test]
fn trees_take_the_time_of_their_levels() {
    let (n, bytes) = (7, 1_000_000u64);
    let s = link(bytes as f64);
    let of = once(Op::TreeAllReduce, (0..n).collect(), bytes);
    for (stack, most) in [(open_loop(GBPS), 1.03), (stack("sird"), 1.06)] {
        let what = stack.protocol().info().name;
        let ours = lasts(n, stack, of.clone());
        near(what, ours, 8.0 * s + 4.0 * latency(bytes as f64), most);
    }
    let chunks = 32;
    let ours = lasts(n, open_loop(GBPS), Collective { chunks, ..of });
    near("in chunks", ours, 3.0 * s, 1.35);
}

/// Every host sends n - 1 blocks over its only link, and receives as many.
#[test]
fn all_to_all_fills_every_link() {
    let (n, bytes) = (8, 8_000_000u64);
    let block = bytes as f64 / f64::from(n);
    let bound = f64::from(n - 1) * link(block) + latency(block);
    for (stack, most) in [(open_loop(GBPS), 1.03), (stack("sird"), 1.1), (stack("swift"), 1.3)] {
        let what = stack.protocol().info().name;
        let ours = lasts(n, stack, once(Op::AllToAll, (0..n).collect(), bytes));
        near(what, ours, bound, most);
    }
}

/// The host with the most popular experts, rank 0, receives n - 1 times their load, and returns the
/// same amount if results are combined. So at least these bytes cross its link, whatever the others
/// do. Ranks with smaller loads return results over the same link before rank 0 has all of its
/// data. This delays it by at most the bytes that return to it.
#[test]
fn busiest_experts_bound_a_layer() {
    let (n, bytes) = (8u32, 8_000_000u64);
    let mut before = 0.0;
    for skew in [0.0, 0.7, 1.5] {
        let loads = expert_loads(bytes, n, skew);
        let busiest = f64::from(n - 1) * link(loads[0] as f64);
        let returned = link((bytes - loads[0]) as f64);
        for (combine, ways, delay) in [(false, 1.0, 0.0), (true, 2.0, returned)] {
            let op = Op::Experts { loads: loads.clone(), combine };
            let bound = ways * (busiest + latency(loads[0] as f64));
            for stack in [open_loop(GBPS), stack("swift")] {
                let what = stack.protocol().info().name;
                let ours = lasts(n, stack, once(op.clone(), (0..n).collect(), bytes));
                let what = format!("{what}, skew {skew}, combined {combine}");
                near(&what, ours, bound, 1.03 * (bound + delay) / bound);
            }
        }
        assert!(busiest > before, "skew {skew}");
        before = busiest;
    }
}

/// A chain of n hosts passes n - 1 requests and then n - 1 replies, one after the other.
#[test]
fn chains_take_the_time_of_their_hops() {
    let (n, bytes, reply) = (5, 20_000u64, 300_000u64);
    let hop = |bytes: u64| link(bytes as f64) + latency(bytes as f64);
    let bound = f64::from(n - 1) * (hop(bytes) + hop(reply));
    let ours = lasts(n, open_loop(GBPS), once(Op::Chain { reply }, (0..n).collect(), bytes));
    near("chain", ours, bound, 1.03);
}

/// Between iterations ranks compute and links are idle, so the times add up. A job elsewhere in the
/// fabric has no effect.
#[test]
fn iterations_and_computing_times_add_up() {
    let of = |hosts: std::ops::Range<u32>| {
        let whole = once(Op::RingAllReduce, hosts.collect(), 400_000);
        Collective { iterations: 5, compute: Span::us(70), ..whole }
    };
    let alone = lasts(4, open_loop(GBPS), Collective { iterations: 1, ..of(0..4) });
    let ours = lasts(4, open_loop(GBPS), of(0..4));
    near("five", ours, 5.0 * alone + 4.0 * 70.0, 1.001);
    let both = rows(jobs(8, open_loop(GBPS), vec![of(0..4), of(4..8)]));
    assert_eq!([took(&both, 0), took(&both, 1)], [ours; 2]);
}

/// With both kinds of protocol, every message starts exactly when the last message that it waits
/// for has arrived, or when its rank has computed.
#[test]
fn messages_start_when_their_dependencies_arrive() {
    let loads = expert_loads(70_000, 7, 1.0);
    let ops = [
        Op::RingAllReduce,
        Op::TreeAllReduce,
        Op::ReduceScatter,
        Op::AllGather,
        Op::AllToAll,
        Op::Experts { loads: loads.clone(), combine: false },
        Op::Experts { loads, combine: true },
        Op::Chain { reply: 3_000 },
    ];
    // The order of ranks differs from that of hosts.
    let hosts: Vec<u32> = (0..7).map(|rank| rank * 3 % 7).collect();
    for op in ops {
        let chunks = if matches!(op, Op::Experts { .. }) { 1 } else { 3 };
        let of = Collective { chunks, iterations: 4, ..once(op, hosts.clone(), 70_000) };
        // Long enough that ranks also receive all messages before they have computed.
        let long = Span::us(200);
        for (name, compute) in
            [("swift", Span::ZERO), ("swift", long), ("sird", Span::us(5)), ("homa", Span::ZERO)]
        {
            let of = Collective { compute, ..of.clone() };
            let rows = rows(jobs(7, stack(name), vec![of.clone()]));
            assert_eq!(rows.len() as u64, 4 * of.messages());
            obeys(&of, 0, &rows, &format!("{} over {name}", of.name()));
        }
    }
}

/// Jobs on the same hosts delay each other but remain separate, although messages of both are in
/// flight between the same hosts at the same time.
#[test]
fn jobs_on_the_same_hosts_stay_separate() {
    let of = |op, bytes| Collective { iterations: 4, ..once(op, vec![0, 1, 2, 3], bytes) };
    let all = vec![of(Op::AllToAll, 60_000), of(Op::RingAllReduce, 90_000)];
    for name in ["swift", "sird"] {
        let rows = rows(jobs(4, stack(name), all.clone()));
        for (job, of) in (0..).zip(&all) {
            let is_own = |row: &&FlowRecord| row.step().unwrap().job == job;
            let own: Vec<FlowRecord> = rows.iter().filter(is_own).cloned().collect();
            assert_eq!(own.len() as u64, 4 * of.messages());
            obeys(of, job, &own, &format!("job {job} over {name}"));
        }
    }
}

/// Computes from the arrivals when each message should have started.
fn obeys(of: &Collective, job: u32, rows: &[FlowRecord], what: &str) {
    /// An iteration, and a rank's chunk and round in it.
    type Node = (u32, u32, u32, u32);
    let place = |row: &FlowRecord| of.position((row.id % MOST_MESSAGES) as u32);
    let iteration = |row: &FlowRecord| row.step().unwrap().iteration;
    let mut lands: BTreeMap<Node, Time> = BTreeMap::new();
    for row in rows {
        let (rank, round) = of.landing(place(row)).unwrap();
        let node = (iteration(row), rank, place(row).chunk, round);
        let at = lands.entry(node).or_insert(Time::ZERO);
        *at = (*at).max(row.completed.unwrap());
    }
    let mut passed: BTreeMap<Node, Time> = BTreeMap::new();
    for rank in 0..of.ranks() {
        let mut begins = Time::us(10);
        for step in 0..of.iterations {
            let mut ended = begins;
            for chunk in 0..of.chunks {
                let mut at = begins;
                for round in 0..of.rounds() {
                    at = at.max(lands.get(&(step, rank, chunk, round)).copied().unwrap_or(at));
                    passed.insert((step, rank, chunk, round), at);
                }
                ended = ended.max(at);
            }
            begins = ended.after(of.compute);
        }
    }
    for row in rows {
        let (step, at) = (iteration(row), place(row));
        assert_eq!(row.start, passed[&(step, at.rank, at.chunk, at.round)], "{what}: {row:?}");
        assert_eq!(
            (row.src, row.step()),
            (of.hosts[at.rank as usize], Some(Step { job, iteration: step }))
        );
        assert!(row.exchange.is_none());
    }
}

/// The ends of its ranks count for nothing: a run until all is done also waits for a flow that
/// lasts longer.
#[test]
fn run_goes_on_after_a_collective() {
    let of = once(Op::RingAllReduce, vec![0, 1, 2, 3], 30_000);
    let messages = of.messages() as usize;
    let mut setup = jobs(6, stack("swift"), vec![of]);
    setup.workload.flows = vec![flow(4, 5, 9_000_000, Time::ZERO)];
    setup.until_done = true;
    let rows = rows(setup);
    assert_eq!(rows.len(), messages + 1);
    let ends = |row: &FlowRecord| row.acked.unwrap();
    let (long, others): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.bytes == 9_000_000);
    assert!(others.iter().all(|row| ends(row) < ends(&long[0])));
}

#[test]
fn nothing_starts_after_the_stop_or_in_a_drain() {
    let of = Collective { iterations: 100, ..once(Op::AllGather, vec![0, 1, 2], 30_000) };
    let mut stopped = jobs(3, stack("swift"), vec![of.clone()]);
    stopped.workload.traffic[0].stop = Time::us(200);
    let stopped = rows(stopped);
    let last = stopped.iter().map(|row| row.start).max().unwrap();
    assert!(last < Time::us(200) && last > Time::us(180), "{last}");
    // A message that is due exactly at the stop.
    let mut sooner = jobs(3, stack("swift"), vec![of.clone()]);
    sooner.workload.traffic[0].stop = last;
    assert!(rows(sooner).iter().all(|row| row.start < last));
    let mut drained = jobs(3, stack("swift"), vec![of]);
    (drained.duration, drained.drain) = (Time::us(200), Span::ms(1));
    let drained = rows(drained);
    assert!(drained.iter().all(|row| row.start <= Time::us(200)));
    assert!(drained.iter().any(|row| row.completed.unwrap() > Time::us(200)));
}
