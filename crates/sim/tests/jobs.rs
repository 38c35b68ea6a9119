//! Jobs: operations that compute, send and wait for each other.

use crate::common::programs::{Step, computes, copied, job};
use crate::common::{open_loop, run, setup, stack, star};
use tidegate_algos::Stack;
use tidegate_core::collective::{Collective, Op, Stragglers};
use tidegate_core::job::Job;
use tidegate_core::workload::{Pattern, Sizes, Traffic};
use tidegate_core::{Rate, Span, Time};
use tidegate_sim::{FlowRecord, IterationTime, Setup};

const GBPS: u64 = 100;
const START: Time = Time::us(10);

/// A setup with these patterns on a star of `hosts` hosts.
fn on_star(hosts: u32, stack: Stack, patterns: Vec<Pattern>) -> Setup {
    let fabric = star(hosts, Rate::gbps(GBPS), Span::us(1), 1_000);
    let mut setup = setup(fabric, stack, Vec::new(), Time::ms(20));
    let block = |pattern| Traffic {
        pattern,
        sizes: Sizes::Fixed(1),
        stack: 0,
        label: 0,
        start: START,
        stop: Time::ms(20),
    };
    setup.workload.traffic = patterns.into_iter().map(block).collect();
    setup
}

/// Rows in order of start and source, and times of iterations.
fn results(setup: Setup) -> (Vec<FlowRecord>, Vec<IterationTime>) {
    let (mut rows, outcome) = run(setup);
    assert!(outcome.unfinished.is_empty(), "{:?}", outcome.unfinished.first());
    rows.sort_by_key(|row| (row.start, row.src, row.id));
    (rows, outcome.iterations)
}

fn run_job(hosts: u32, job: Job) -> (Vec<FlowRecord>, Vec<IterationTime>) {
    results(on_star(hosts, open_loop(GBPS), vec![Pattern::Job(job)]))
}

fn collective(op: Op, hosts: Vec<u32>, compute: Span) -> Collective {
    let (stragglers, bytes) = (Stragglers::default(), 700_000);
    Collective { op, hosts, bytes, chunks: 2, iterations: 3, compute, stragglers }
}

/// Only the IDs of messages differ.
#[test]
fn copy_of_a_collective_takes_the_same_time() {
    for op in [Op::RingAllReduce, Op::AllGather, Op::Chain { reply: 5_000 }] {
        let of = collective(op, vec![5, 0, 2, 3], Span::ZERO);
        let of =
            if matches!(of.op, Op::Chain { .. }) { Collective { chunks: 1, ..of } } else { of };
        for name in ["open-loop", "swift", "sird"] {
            let stack = || if name == "open-loop" { open_loop(GBPS) } else { stack(name) };
            let copy = Pattern::Job(copied(&of, Span::ZERO));
            let (own, none) = results(on_star(6, stack(), vec![Pattern::Collective(of.clone())]));
            let (copied, times) = results(on_star(6, stack(), vec![copy]));
            assert!(none.is_empty() && times.len() == 3);
            let of_rows = |rows: &[FlowRecord]| -> Vec<_> {
                let row =
                    |row: &FlowRecord| (row.start, row.src, row.dst, row.bytes, row.completed);
                let mut rows: Vec<_> = rows.iter().map(row).collect();
                rows.sort_unstable();
                rows
            };
            assert_eq!(of_rows(&own), of_rows(&copied), "{name}");
            let last = own.iter().map(|row| row.completed.unwrap()).max().unwrap();
            assert_eq!((times[0].begins, times[2].ends), (START, last), "{name}");
        }
    }
}

/// Two computations share a stream, and one has a stream of its own. The first message waits for
/// the start of the second computation, the other one for all of them.
#[test]
fn computations_of_a_stream_are_in_order() {
    let early = Step { after_start: vec![1], sends: Some((1, 0, 1_000)), ..Step::default() };
    let late = Step { after: vec![0, 1, 2], sends: Some((1, 1, 1_000)), ..Step::default() };
    let first = vec![computes(10, 0), computes(20, 0), computes(25, 1), early, late];
    let end = Step { after: vec![0, 1], ..computes(5, 0) };
    let second = vec![Step::default(), Step::default(), end];
    let (rows, times) = run_job(2, job(&[first, second], 1));
    let starts: Vec<Time> = rows.iter().map(|row| row.start).collect();
    assert_eq!(starts, [START + Span::us(10), START + Span::us(30)]);
    let arrived = rows[1].completed.unwrap();
    let [time] = times[..] else { panic!("{times:?}") };
    let ends = arrived.after(Span::us(5));
    assert_eq!((time.ranks, time.begins, time.ends), (2, START, ends));
    // Rank 0 always computes. Rank 1 computes for 5 us at the end.
    let all = Span::us(30).as_ps() + ends.since(START).as_ps();
    assert_eq!((time.span_ps, time.busy_ps), (all.into(), Span::us(35).as_ps().into()));
}

/// Each of four hosts passes a message on: nothing else is in the network.
#[test]
fn chain_of_sends_takes_the_sum_of_ideal_times() {
    let sizes = [1_000, 64_000, 1_000_000];
    let sends = |rank: usize| sizes.get(rank).map(|&bytes| (rank + 1, 0, bytes));
    let ranks: Vec<Vec<Step>> =
        (0..4).map(|rank| vec![Step { sends: sends(rank), ..Step::default() }]).collect();
    let (rows, times) = run_job(4, job(&ranks, 1));
    let ideal: u64 = rows.iter().map(|row| row.ideal.as_ps()).sum();
    let took = times[0].ends.since(times[0].begins).as_ps();
    assert_eq!(rows.len(), 3);
    assert!(took >= ideal && took < ideal + ideal / 500, "{took} ps, ideal {ideal} ps");
    assert_eq!(times[0].busy_ps, 0);
}

/// A rank that waits for nothing ends all iterations at once. The other one takes them in order.
#[test]
fn rank_may_be_iterations_ahead() {
    let sender = vec![Step { sends: Some((1, 0, 500)), ..Step::default() }];
    let receiver = vec![Step::default(), Step { after: vec![0], ..computes(50, 0) }];
    let (rows, times) = run_job(2, job(&[sender, receiver], 40));
    assert!(rows.iter().all(|row| row.start == START) && rows.len() == 40);
    assert_eq!(times.len(), 40);
    let first = rows.iter().map(|row| row.completed.unwrap()).min().unwrap();
    for (number, time) in (1..).zip(&times) {
        assert_eq!((time.ranks, time.ends), (2, first + Span::us(50 * number)));
    }
}

/// The straggler computes for 30 us instead of 10 us before the second and third iteration. The
/// blocks of the others must pass it, so all wait; only latencies are shorter after such a wait.
#[test]
fn stragglers_delay_everyone() {
    let of = collective(Op::RingAllReduce, vec![0, 1, 2, 3], Span::us(10));
    let took = |ranks: Vec<u32>| {
        let stragglers = Stragglers { ranks, factor: 3.0 };
        let of = Collective { stragglers, chunks: 1, ..of.clone() };
        let (rows, times) = results(on_star(4, open_loop(GBPS), vec![Pattern::Collective(of)]));
        assert!(times.iter().all(|time| time.ranks == 4));
        let busy = times.iter().map(|time| (time.busy_ps / 1_000_000) as u64).collect::<Vec<_>>();
        (rows.iter().map(|row| row.completed.unwrap()).max().unwrap(), busy)
    };
    let (all_same, busy) = took(Vec::new());
    assert_eq!(busy, [0, 40, 40]);
    let (one_slow, busy) = took(vec![2]);
    assert_eq!(busy, [0, 60, 60]);
    let delay = one_slow.since(all_same).as_us_f64();
    assert!((25.0..41.0).contains(&delay), "{delay} us");
}
