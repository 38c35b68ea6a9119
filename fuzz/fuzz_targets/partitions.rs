//! Runs a small scenario of arbitrary content in one partition and in two or three, on one thread
//! and on one per partition: all results are equal.
#![no_main]
use tidegate_core::{Span, Time};
use tidegate_scenario::{Plan, load};
use tidegate_sim::simulation::unobserved;

#[path = "../../crates/runs/src/any_scenario.rs"]
mod any_scenario;

const JOB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/jobs/ring.goal");

/// Everything that a run measures, without what depends on the division of its work. The threads
/// are one, or one per partition. Also returns the number of partitions, which racks limit.
fn results(plan: &Plan, partitions: usize, is_threaded: bool) -> Option<(String, usize)> {
    let mut engine = unobserved(plan.setup.clone(), partitions).ok()?;
    let found = engine.partitions();
    if !is_threaded {
        engine.set_threads(1);
    }
    let (mut rows, mut samples, mut at) = (Vec::new(), Vec::new(), Time::ZERO);
    while !engine.is_over() {
        at = at.after(Span::us(20));
        while !engine.advance_some(at, u64::MAX).ok()? {}
        engine.take_finished(&mut rows).unwrap();
        engine.sample(&mut samples).unwrap();
    }
    let outcome = engine.finish().unwrap();
    rows.extend(outcome.finished);
    rows.extend(outcome.unfinished);
    let rest = (outcome.links, outcome.switches, outcome.faults, outcome.packet_hops);
    Some((format!("{:x}\n{rows:?}\n{samples:?}\n{rest:?}", outcome.digest), found))
}

libfuzzer_sys::fuzz_target!(|script: &[u8]| {
    let text = any_scenario::any_scenario(script, JOB);
    let Ok(plan) = load(&text, "any.toml", &[]) else { return };
    let whole = results(&plan, 1, true).map(|(results, _)| results);
    for partitions in [2, 3] {
        for is_threaded in [false, true] {
            let divided = results(&plan, partitions, is_threaded);
            assert!(divided.as_ref().is_none_or(|(_, found)| *found > 1), "{text}");
            assert!(
                divided.map(|(results, _)| results) == whole,
                "{partitions} partitions, threads: {is_threaded}\n{text}"
            );
        }
    }
});
