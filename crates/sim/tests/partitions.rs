//! A run gives the same bytes in any number of partitions.

use crate::common::busy::{Record, Recorder, busy};
use crate::common::cuts::{self, Cuts, racks};
use crate::common::left::Left;
use crate::common::observers::{ObserverAccess, TestProbe};
use crate::common::{Trace, flow, leaf_spine, stack, unobserved};
use tidegate_core::{Rate, Span, Time, frame_flag};
use tidegate_sim::{Engine, Setup};

/// More partitions than racks are limited to the number of racks.
const NUMBERS: [usize; 6] = [1, 2, 3, 5, 7, 8];

/// Runs with `partitions` partitions, limited by the number of racks, and returns the results.
fn left(setup: Setup, partitions: usize) -> Left {
    let probes = (0..partitions).map(|_| TestProbe::of(Recorder::default())).collect();
    let (duration, expected) = (setup.duration, partitions.min(racks(&setup)));
    let engine = Engine::in_partitions(setup, probes).unwrap();
    assert_eq!(engine.partitions(), expected);
    Left::of(engine, duration, partitions as u64)
}

/// Asserts that numbers of partitions give the same results: two and, in turn, one of the larger
/// numbers. Few setups run in all of them.
fn same(cuts: Cuts) {
    let (two, larger) = NUMBERS[1..].split_first().unwrap();
    let few = cuts.len() < larger.len();
    for (case, (what, setup)) in cuts.into_iter().enumerate() {
        assert!(racks(&setup) > 2, "{what}: {} racks", racks(&setup));
        let whole = left(setup.clone(), 1);
        let packets: usize = whole.packets.iter().map(Vec::len).sum();
        assert!(packets > 2_000 && !whole.rows.is_empty(), "{what}: {packets} packets");
        let one_of_larger = &larger[case % larger.len()..][..1];
        for partitions in [two].into_iter().chain(if few { larger } else { one_of_larger }) {
            let cut = left(setup.clone(), *partitions);
            whole.assert_is(&cut, &format!("{what}, {partitions} partitions"));
        }
    }
}

#[test]
fn of_every_protocol() {
    same(cuts::every_protocol());
}

#[test]
fn of_every_protocol_sprayed_and_marked_at_random() {
    same(cuts::every_protocol_sprayed_and_marked_at_random());
}

#[test]
fn of_every_protocol_with_small_packets() {
    same(cuts::every_protocol_with_small_packets());
}

#[test]
fn of_two_protocols_beside_each_other_with_a_drain() {
    same(cuts::two_protocols_beside_each_other_with_a_drain());
}

#[test]
fn of_small_shared_buffers() {
    same(cuts::small_shared_buffers());
}

#[test]
fn of_coarse_telemetry() {
    same(cuts::coarse_telemetry());
}

#[test]
fn of_queues_for_credits() {
    same(cuts::queues_for_credits());
}

#[test]
fn of_trimmed_packets() {
    same(cuts::trimming());
}

#[test]
fn of_returned_packets() {
    same(cuts::returning());
}

#[test]
fn of_faults() {
    same(cuts::faults());
}

#[test]
fn of_hosts_that_take_time() {
    same(cuts::hosts_that_take_time());
}

#[test]
fn of_three_tiers_with_latency() {
    same(cuts::three_tiers_with_latency());
}

#[test]
fn of_lossless_fabrics() {
    same(cuts::lossless_fabrics());
    for (what, setup) in cuts::lossless_fabrics() {
        let whole = left(setup, 1);
        let is_pause = |record: &&Record| record.frame.3 & frame_flag::PAUSE != 0;
        let pauses = whole.packets.iter().flatten().filter(is_pause).count();
        assert!(pauses > 50, "{what}: {pauses}");
    }
}

#[test]
fn of_closed_loops() {
    same(cuts::closed_loops());
}

#[test]
fn of_collectives() {
    same(cuts::collectives());
}

#[test]
fn of_rare_messages() {
    same(cuts::rare_messages());
}

/// Work that runs out at the very end of an interval does not end the next one.
#[test]
fn of_little_work_at_a_time() {
    let outcome = |partitions: usize, work: u64| {
        let mut setup = busy(stack("swift"), 10);
        setup.warmup = Time::us(150);
        setup.drain = Span::us(50);
        let duration = setup.duration;
        let mut engine = unobserved(setup, partitions).unwrap();
        assert_eq!(engine.partitions(), partitions);
        while !engine.advance_some(duration, work).unwrap() {}
        assert_eq!(engine.now(), duration);
        while !engine.is_over() {
            engine.advance_some(Time::NEVER, work).unwrap();
        }
        let outcome = engine.finish().unwrap();
        (outcome.finished, outcome.digest, outcome.packet_hops)
    };
    let whole = outcome(1, u64::MAX);
    assert!(whole == outcome(3, 1) && whole == outcome(2, 40) && whole == outcome(1, 1));
}

/// Flows that start at the end of a run interval belong to it, however small the steps.
#[test]
fn of_much_at_the_end_of_an_interval() {
    let until = Time::us(200);
    let running = |partitions: usize, work: u64| {
        let mut setup = busy(stack("swift"), 11);
        setup.workload.flows.extend((0..8).map(|src| flow(src, src + 4, 9_000, until)));
        let mut engine = unobserved(setup, partitions).unwrap();
        assert_eq!(engine.partitions(), partitions);
        while !engine.advance_some(until, work).unwrap() {}
        let mut samples = Vec::new();
        engine.sample(&mut samples).unwrap();
        samples
    };
    let whole = running(1, u64::MAX);
    assert!(whole == running(1, 1) && whole == running(1, 100) && whole == running(2, 1));
}

/// A longer run, compared by traces, without a probe that keeps everything.
#[test]
fn of_a_longer_run_under_load() {
    let digests = |partitions: usize| {
        let mut setup = busy(stack("sird"), 9);
        setup.fabric = leaf_spine(8, 4, 4, Rate::gbps(100), Rate::gbps(100), Span::us(1), 1000);
        setup.duration = Time::ms(2);
        for block in &mut setup.workload.traffic {
            block.stop = Time::ms(2);
        }
        let probes = (0..partitions).map(|_| TestProbe::of(Trace::default())).collect();
        let mut engine = Engine::in_partitions(setup, probes).unwrap();
        engine.advance(Time::NEVER);
        assert_eq!(engine.partitions(), partitions);
        let trace = Trace::merged(engine.probes().map(TestProbe::inner));
        (trace, engine.finish().unwrap().digest)
    };
    let whole = digests(1);
    for partitions in &NUMBERS[1..] {
        assert_eq!(digests(*partitions), whole, "{partitions} parts");
    }
}

/// The number of threads changes between run intervals.
#[test]
fn of_any_number_of_threads() {
    let outcome = |partitions: usize, threads: &[usize]| {
        let mut setup = busy(stack("poseidon"), 12);
        setup.drain = Span::us(50);
        let mut engine = unobserved(setup, partitions).unwrap();
        assert_eq!(engine.partitions(), partitions);
        for &threads in threads.iter().cycle() {
            engine.set_threads(threads);
            engine.advance_some(Time::NEVER, 3_000).unwrap();
            if engine.is_over() {
                break;
            }
        }
        let outcome = engine.finish().unwrap();
        (outcome.finished, outcome.unfinished, outcome.digest, outcome.packet_hops)
    };
    let whole = outcome(1, &[1]);
    for threads in [&[1][..], &[2], &[3, 1, 2], &[1, 9, 0, 2]] {
        assert!(outcome(3, threads) == whole, "{threads:?}");
    }
}
