//! Chooses the partitions and threads of a run while it runs. Its outcome does not depend on them.
//!
//! A run begins in one partition. After [`TRIAL`], its progress gives the time that it still needs
//! and its packet-hops per window. If it is long, several partitions have enough work, and the
//! machine has idle cores, the run is rebuilt in partitions and repeats its beginning, whose output
//! is discarded. From then on it compares one thread for all partitions with one for each, again
//! and again, because other programs may start. If one thread is faster from the beginning, the run
//! returns to one partition, unless it is too late for that to pay: on one thread, several
//! partitions cost more than one.

use std::time::Duration;

use tidegate_core::Time;
use tidegate_scenario::Plan;
use tidegate_sim::simulation::Simulation;
use tidegate_sim::{Failure, partitions_worth};

use crate::machine::Stopwatch;
use crate::{Error, interrupt, machine};

/// Working time in one partition before the decision.
const TRIAL: Duration = Duration::from_millis(20);
/// Working time between two looks at the cores of the machine. Kernel threads use them for moments,
/// so the look with the most idle cores counts.
const LOOK: Duration = Duration::from_millis(2);
/// A change of partitions must be expected to save this multiple of what it costs, if it saves a
/// quarter of the remaining time.
const MARGIN: f64 = 2.0;
const SAVED: f64 = 0.25;

/// Events of every partition between two checks of the interrupt flag: some milliseconds of work.
const EVENTS_PER_CHECK: u64 = 1 << 15;
/// As above, while it is unknown whether each thread has a core.
const EVENTS_PER_PROBE: u64 = 1 << 12;

/// Partitions and threads of a run.
pub(super) struct Threads {
    stage: Stage,
    /// Working time since the run was last built.
    worked: Duration,
}

enum Stage {
    /// In one partition. At most `most` threads may be used; to build the run took `built`. Looks
    /// at the machine found `idle` cores at most, and the next look is due at `look`.
    Trial { most: usize, built: Duration, idle: usize, look: Duration },
    /// In several partitions. To build the run in one took this time.
    Several(Choice, Duration),
    /// Nothing changes any more.
    Settled,
}

impl Threads {
    /// For a run that may use at most this number of threads, and took this time to build in one
    /// partition.
    pub(super) fn up_to(most: usize, built: Duration) -> Threads {
        let trial = Stage::Trial { most, built, idle: 1, look: LOOK };
        let stage = if most > 1 { trial } else { Stage::Settled };
        Threads { stage, worked: Duration::ZERO }
    }

    /// Number of partitions to which the run must change now; `None` if it keeps its own.
    pub(super) fn rebuild(&mut self, engine: &dyn Simulation, plan: &Plan) -> Option<usize> {
        match self.stage {
            Stage::Trial { most, built, idle, .. } if self.worked >= TRIAL => {
                self.stage = Stage::Settled;
                if !self.pays(engine, plan, built) {
                    return None;
                }
                let most = most.min(idle);
                let per_second = engine.packet_hops() as f64 / engine.now().as_s_f64();
                let partitions = partitions_worth(&plan.fabric, most, per_second);
                if partitions == 1 {
                    return None;
                }
                self.stage = Stage::Several(Choice::default(), built);
                Some(partitions)
            }
            Stage::Several(choice, built)
                if choice.is_settled_for_one() && self.pays(engine, plan, built) =>
            {
                self.stage = Stage::Settled;
                Some(1)
            }
            _ => None,
        }
        .inspect(|_| self.worked = Duration::ZERO)
    }

    /// Returns whether another number of partitions is worth what the change costs: to build the
    /// run and to repeat it to the present.
    fn pays(&self, engine: &dyn Simulation, plan: &Plan, built: Duration) -> bool {
        let (now, end) = (engine.now().as_s_f64(), plan.duration.after(plan.drain));
        let left = self.worked.as_secs_f64() * (end.as_s_f64() / now - 1.0);
        left * SAVED >= (self.worked + built).as_secs_f64() * MARGIN
    }

    /// Runs the engine to `until`.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if an interrupt was requested; an error if another process is lost,
    /// or if the run cannot continue.
    pub(super) fn advance(
        &mut self,
        engine: &mut dyn Simulation,
        until: Time,
        is_interrupted: interrupt::InterruptCheck<'_>,
    ) -> Result<(), Error> {
        let failed = |failure| match failure {
            Failure::RankFailure(why) => interrupt::lost(is_interrupted)(why),
            Failure::Deadlock(deadlock) => Error::Run(deadlock.to_string()),
        };
        loop {
            let partitions = engine.partitions();
            let mut events = EVENTS_PER_CHECK;
            if let Stage::Several(choice, _) = self.stage {
                engine.set_threads(if choice.uses_several() { partitions } else { 1 });
                events = choice.events();
            }
            let (watch, before) = (Stopwatch::start(), engine.packet_hops());
            let work = events * (partitions * engine.ranks()) as u64;
            let is_done = engine.advance_some(until, work).map_err(failed)?;
            let took = watch.wall();
            self.worked += took;
            match &mut self.stage {
                Stage::Several(choice, _) => choice.measured(engine.packet_hops() - before, took),
                Stage::Trial { idle, look, .. } if self.worked >= *look => {
                    *idle = machine::idle_cores().max(*idle);
                    *look = self.worked + LOOK;
                }
                _ => {}
            }
            if is_done {
                return Ok(());
            }
            if is_interrupted() {
                return Err(Error::Interrupted);
            }
        }
    }
}

/// The faster number of threads of a run in several partitions, one or one per partition, by the
/// rates of intervals of the run. The other number is tried again after a time that doubles while
/// it is slower.
#[derive(Clone, Copy)]
struct Choice {
    several: bool,
    /// The present interval tries the other number of threads.
    probing: bool,
    /// Last rates with one thread and with several, in packet-hops per second.
    rates: [Option<f64>; 2],
    /// Working time since the last trial of the other number.
    since: Duration,
    /// Working time between two trials.
    patience: Duration,
    /// Number of trials in a row in which several threads were slower than one.
    slower: u32,
}

/// Least and most time between two trials.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

impl Default for Choice {
    /// Begins with several threads, and tries one soon.
    fn default() -> Choice {
        Choice {
            several: true,
            probing: false,
            rates: [None; 2],
            since: PATIENCE.0,
            patience: PATIENCE.0,
            slower: 0,
        }
    }
}

impl Choice {
    /// The next interval uses one thread per partition.
    fn uses_several(&self) -> bool {
        self.several != self.probing
    }

    /// Events of every partition in the next interval.
    fn events(&self) -> u64 {
        let is_known = !self.uses_several() || self.rates[1].is_some() && !self.probing;
        if is_known { EVENTS_PER_CHECK } else { EVENTS_PER_PROBE }
    }

    /// One thread has been faster since the first trial.
    fn is_settled_for_one(&self) -> bool {
        self.slower >= 2
    }

    /// Takes the measurement of an interval.
    fn measured(&mut self, packet_hops: u64, took: Duration) {
        let used = self.uses_several() as usize;
        let rate = packet_hops as f64 / took.as_secs_f64().max(1e-9);
        self.rates[used] = Some(rate);
        let other = self.rates[1 - used];
        if !self.probing {
            self.since += took;
            // Several threads that are slower than one was have probably lost a core.
            let is_slower = used == 1 && other.is_some_and(|one| rate < one);
            self.probing = is_slower || self.since >= self.patience;
            return;
        }
        self.probing = false;
        self.since = Duration::ZERO;
        if other.is_some_and(|other| rate > other) {
            self.several = !self.several;
            self.patience = PATIENCE.0;
            self.slower = !self.several as u32;
        } else {
            self.patience = (self.patience * 2).min(PATIENCE.1);
            self.slower = if self.several { 0 } else { self.slower + 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Working time of each number of threads, in ms, until `total` ms have passed; an interval has
    /// 30,000 packet-hops, at these rates per ms with one thread and with several.
    fn worked(choice: &mut Choice, total: u64, rates: [u64; 2]) -> [u64; 2] {
        let mut worked = [0; 2];
        while worked[0] + worked[1] < 1_000 * total {
            let used = choice.uses_several() as usize;
            let packet_hops = 30_000 * choice.events() / EVENTS_PER_CHECK;
            let us = 1_000 * packet_hops / rates[used];
            choice.measured(packet_hops, Duration::from_micros(us));
            worked[used] += us;
        }
        worked.map(|us| us / 1_000)
    }

    #[test]
    fn faster_threads_are_used_nearly_always() {
        let mut choice = Choice::default();
        let [one, several] = worked(&mut choice, 2_000, [10_000, 15_000]);
        assert!(one < 25 && several > 1_970, "{one} {several}");
        // Other programs start: several threads take 25 times as long.
        let [one, several] = worked(&mut choice, 2_000, [10_000, 400]);
        assert!(one > 1_700 && several < 250, "{one} {several}");
        // They end.
        let [one, several] = worked(&mut choice, 4_000, [10_000, 15_000]);
        assert!(one < 2_100 && several > 1_900, "{one} {several}");
    }

    #[test]
    fn slow_threads_are_given_up_at_once() {
        let mut choice = Choice::default();
        let [one, several] = worked(&mut choice, 400, [10_000, 9_000]);
        assert!(choice.is_settled_for_one(), "{one} {several}");
        assert!(several < 10, "{several}");
    }
}
