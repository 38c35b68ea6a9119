//! Chooses the partitions and threads of a run while it runs. Its outcome does not depend on them.
//!
//! A run begins in one partition. After [`TRIAL`], its progress gives the time that it still needs
//! and its packet-hops per window. If it is long, several partitions have enough work, and the
//! machine has idle cores, the run is rebuilt in partitions and repeats its beginning, whose output
//! is discarded. Otherwise the decision is repeated each time the working time has doubled, because
//! a run may need longer than that to reach its load. From the change on, the run compares one
//! thread for all partitions with one for each, again and again, because other programs may start.
//! If one thread is faster twice in a row, the run returns to one partition, unless it is too late
//! for that to pay: on one thread, several partitions cost more than one. Then it decides again
//! when the working time has doubled.

use std::time::Duration;

use tidegate_core::Time;
use tidegate_scenario::Plan;
use tidegate_sim::simulation::Simulation;
use tidegate_sim::{Failure, partitions_worth};

use crate::machine::Stopwatch;
use crate::{Error, interrupt, machine};

/// Working time in one partition before the first decision.
const TRIAL: Duration = Duration::from_millis(20);
/// Checks of the idle cores of the machine before a decision, at equal intervals. Kernel threads
/// use cores for moments, so the check with the most idle cores counts.
const IDLE_CHECKS: u32 = 10;
/// A change of partitions must be expected to save this multiple of what it costs.
const MARGIN: f64 = 2.0;
/// Expected speed-up by each thread beyond the first.
const EFFICIENCY: f64 = 0.35;

/// Events of every partition between two checks of the interrupt flag: some milliseconds of work.
const EVENTS_PER_CHECK: u64 = 1 << 15;
/// As above, with several threads, which start again after each check.
const EVENTS_PER_START: u64 = 1 << 17;
/// As above, while it is unknown whether each thread has a core.
const EVENTS_PER_PROBE: u64 = 1 << 12;

/// A run in one partition, until it changes to several. Times are working time.
struct Trial {
    /// Maximum number of threads.
    most: usize,
    /// Duration of building the run.
    built: Duration,
    /// Largest number of idle cores found since the last decision.
    idle: usize,
    /// Time of the next check of the idle cores.
    next_check: Duration,
    /// Time of the next decision.
    decision: Duration,
    /// Time, simulated time and packet-hops at the last decision.
    last: (Duration, Time, u64),
}

/// Progress between two decisions, by simulated second.
#[derive(Debug, PartialEq)]
struct Rates {
    packet_hops: f64,
    /// Seconds of work.
    work: f64,
}

impl Trial {
    /// A run in one partition that has just been built, and decides at this working time.
    fn until(decision: Duration, most: usize, built: Duration) -> Trial {
        let next_check = decision / IDLE_CHECKS;
        let last = (Duration::ZERO, Time::ZERO, 0);
        Trial { most, built, idle: 1, next_check, decision, last }
    }

    /// Checks the idle cores if it is time to.
    fn check_idle(&mut self, worked: Duration) {
        if worked >= self.next_check {
            self.idle = machine::idle_cores().max(self.idle);
            self.next_check = worked + self.decision / IDLE_CHECKS;
        }
    }

    /// Progress since the last decision, and the number of threads that may be used. `None` if
    /// simulated time has not passed, or if only one thread may. Postpones the next decision until
    /// the working time has doubled.
    fn decide(&mut self, worked: Duration, now: Time, packet_hops: u64) -> Option<(Rates, usize)> {
        let last = std::mem::replace(&mut self.last, (worked, now, packet_hops));
        let most = self.most.min(std::mem::replace(&mut self.idle, 1));
        self.decision = worked * 2;
        let seconds = now.since(last.1).as_s_f64();
        let rates = Rates {
            packet_hops: (packet_hops - last.2) as f64 / seconds,
            work: (worked - last.0).as_secs_f64() / seconds,
        };
        (seconds > 0.0 && most > 1).then_some((rates, most))
    }
}

/// A run in several partitions.
struct Several {
    choice: Choice,
    /// Maximum number of threads.
    most: usize,
    /// Duration of building the run in one partition.
    built: Duration,
    /// Rate in one partition, in packet-hops per second.
    alone: f64,
    /// The run repeats its beginning on all threads up to this time. Its rates are not compared,
    /// because the load may rise, and memory is new. In one partition, the beginning took this
    /// working time: with more, the comparison begins.
    replay: (Time, Duration),
}

impl Several {
    fn is_replay(&self, now: Time, worked: Duration) -> bool {
        now < self.replay.0 && worked < self.replay.1
    }

    /// Takes a measurement, at this time of the run and after this working time.
    fn measured(&mut self, now: Time, worked: Duration, packet_hops: u64, took: Duration) {
        if self.is_replay(now, worked) {
            self.choice.warm = true;
        } else {
            self.choice.measured(packet_hops, took);
        }
    }

    /// Seconds that one partition saves of these, which one thread needs for all partitions.
    fn saved_by_one(&self, left: f64) -> f64 {
        left * (1.0 - self.choice.rates()[0] / self.alone)
    }
}

/// Partitions and threads of a run.
pub(super) struct Threads {
    stage: Stage,
    /// Working time since the run was last built.
    worked: Duration,
}

enum Stage {
    Trial(Trial),
    Several(Several),
    /// The run may use only one thread.
    OneThread,
}

impl Threads {
    /// For a run that may use at most this number of threads, and took this time to build in one
    /// partition.
    pub(super) fn up_to(most: usize, built: Duration) -> Threads {
        let trial = Stage::Trial(Trial::until(TRIAL, most, built));
        let stage = if most > 1 { trial } else { Stage::OneThread };
        Threads { stage, worked: Duration::ZERO }
    }

    /// Number of partitions to which the run must change now; `None` if it keeps its own.
    pub(super) fn rebuild(&mut self, engine: &dyn Simulation, plan: &Plan) -> Option<usize> {
        let (now, worked) = (engine.now(), self.worked);
        let left = plan.duration.after(plan.drain).since(now).as_s_f64();
        let (stage, partitions) = match &mut self.stage {
            Stage::Trial(trial) if worked >= trial.decision => {
                let (rates, most) = trial.decide(worked, now, engine.packet_hops())?;
                let (built, left) = (trial.built, left * rates.work);
                let pays = |threads| pays(worked + built, left * share_saved(threads));
                if !pays(most) {
                    return None;
                }
                let partitions = partitions_worth(&plan.fabric, most, rates.packet_hops);
                if !pays(partitions) {
                    return None;
                }
                let alone = rates.packet_hops / rates.work;
                let (choice, replay) = (Choice::after(alone), (now, worked));
                let most = trial.most;
                (Stage::Several(Several { choice, most, built, alone, replay }), partitions)
            }
            Stage::Several(several) if several.choice.prefers_one() => {
                let left = left * worked.as_secs_f64() / now.as_s_f64();
                if !pays(worked + several.built, several.saved_by_one(left)) {
                    return None;
                }
                (Stage::Trial(Trial::until(worked * 2, several.most, several.built)), 1)
            }
            _ => return None,
        };
        *self = Threads { stage, worked: Duration::ZERO };
        Some(partitions)
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
            let events = match &self.stage {
                Stage::Several(Several { choice, .. }) => {
                    engine.set_threads(if choice.uses_several() { partitions } else { 1 });
                    choice.events()
                }
                _ if partitions > 1 => EVENTS_PER_START,
                _ => EVENTS_PER_CHECK,
            };
            let (watch, before) = (Stopwatch::start(), engine.packet_hops());
            let work = events * (partitions * engine.ranks()) as u64;
            let is_done = engine.advance_some(until, work).map_err(failed)?;
            let took = watch.wall();
            self.worked += took;
            match &mut self.stage {
                Stage::Several(several) => {
                    let packet_hops = engine.packet_hops() - before;
                    several.measured(engine.now(), self.worked, packet_hops, took);
                }
                Stage::Trial(trial) => trial.check_idle(self.worked),
                Stage::OneThread => {}
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

/// Returns whether a change of partitions pays that costs this time, to build the run and to repeat
/// it to the present, and saves `saved` seconds.
fn pays(cost: Duration, saved: f64) -> bool {
    saved >= cost.as_secs_f64() * MARGIN
}

/// Expected share of the working time in one partition that this number of threads saves.
fn share_saved(threads: usize) -> f64 {
    1.0 - 1.0 / (1.0 + EFFICIENCY * (threads - 1) as f64)
}

/// The faster number of threads of a run in several partitions, one or one per partition, by the
/// rates of intervals of the run, in packet-hops per second. The other number is tried again after
/// a time that doubles while it is slower.
///
/// After an interval on one thread, the caches of the other cores lack the state of their
/// partitions, and several threads are slower for some milliseconds. So their first interval counts
/// only if it shows that they have no cores.
#[derive(Clone, Copy)]
struct Choice {
    several: bool,
    /// The present interval tries the other number of threads.
    probing: bool,
    /// The last interval used several threads.
    warm: bool,
    /// Packet-hops and working time of the present interval so far.
    interval: (u64, Duration),
    recent: Recent,
    /// Last rate with the other number of threads.
    other: f64,
    /// Working time since the last trial of the other number.
    since: Duration,
    /// Working time between two trials.
    trial_interval: Duration,
    /// Number of trials in a row in which several threads were slower than one.
    slower: u32,
}

/// Least and most time between two trials.
const TRIAL_INTERVALS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// Least time between two trials, in durations of the last one.
const TRIALS_APART: u32 = 10;
/// Several threads that are slower than this share of one thread's rate lack a core.
const WITHOUT_CORES: f64 = 0.5;

impl Choice {
    /// Begins with several threads. One partition had the rate `one`.
    fn after(one: f64) -> Choice {
        Choice {
            several: true,
            probing: false,
            warm: false,
            interval: (0, Duration::ZERO),
            recent: Recent::default(),
            other: one,
            since: Duration::ZERO,
            trial_interval: TRIAL_INTERVALS.0,
            slower: 0,
        }
    }

    /// The next interval uses one thread per partition.
    fn uses_several(&self) -> bool {
        self.several != self.probing
    }

    /// Last rates with one thread and with several.
    fn rates(&self) -> [f64; 2] {
        let (present, other) = (self.recent.median(), self.other);
        if self.several { [other, present] } else { [present, other] }
    }

    /// Events of every partition in the next interval.
    fn events(&self) -> u64 {
        match (self.uses_several(), self.warm, self.probing) {
            (true, false, _) => EVENTS_PER_PROBE,
            (true, true, false) => EVENTS_PER_START,
            _ => EVENTS_PER_CHECK,
        }
    }

    /// One thread has been faster in two comparisons in a row.
    fn prefers_one(&self) -> bool {
        self.slower >= 2
    }

    /// Takes a measurement. An interval lasts until it has enough packet-hops, because a chunk of
    /// the run may have none: on a large fabric it is shorter than a packet, and hosts that begin
    /// at once send at the same moments.
    fn measured(&mut self, packet_hops: u64, took: Duration) {
        self.interval = (self.interval.0 + packet_hops, self.interval.1 + took);
        if self.interval.0 < self.events() / 2 {
            return;
        }
        let (packet_hops, took) = std::mem::take(&mut self.interval);
        let rate = packet_hops as f64 / took.as_secs_f64().max(1e-9);
        let (uses_several, was_warm) = (self.uses_several(), self.warm);
        let one = self.rates()[0];
        let lacks_cores = uses_several && rate < WITHOUT_CORES * one;
        self.warm = uses_several;
        if uses_several && !was_warm && !lacks_cores {
            return;
        }
        if !self.probing {
            self.recent.add(rate);
            self.since += took;
            let [one, several] = self.rates();
            let is_slower = self.several && (lacks_cores || several < one);
            self.probing = is_slower || self.since >= self.trial_interval;
            return;
        }
        self.probing = false;
        self.since = Duration::ZERO;
        let present = self.recent.median();
        if rate > present {
            self.several = !self.several;
            (self.recent, self.other) = (Recent::default(), present);
            self.recent.add(rate);
            self.trial_interval = TRIAL_INTERVALS.0;
            self.slower = !self.several as u32;
        } else {
            self.other = rate;
            self.trial_interval = (self.trial_interval * 2).min(TRIAL_INTERVALS.1);
            self.slower = if self.several { 0 } else { self.slower + 1 };
        }
        // On a large fabric, a trial takes longer than most intervals.
        self.trial_interval = self.trial_interval.max(took * TRIALS_APART);
    }
}

/// The rates of the last three intervals, so that a single slow one, in which the machine did
/// something else, ends nothing.
#[derive(Clone, Copy, Default)]
struct Recent {
    rates: [f64; 3],
    number: usize,
}

impl Recent {
    fn add(&mut self, rate: f64) {
        self.rates.rotate_right(1);
        self.rates[0] = rate;
        self.number = (self.number + 1).min(self.rates.len());
    }

    /// The median, or the larger of two; 0 before the first.
    fn median(&self) -> f64 {
        let mut sorted = self.rates;
        sorted[..self.number].sort_unstable_by(f64::total_cmp);
        sorted[self.number / 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rates are those since the last decision, and decisions become rarer.
    #[test]
    fn decisions_follow_a_load_that_rises() {
        let Stage::Trial(mut trial) = Threads::up_to(3, Duration::ZERO).stage else {
            panic!("three threads are possible");
        };
        let mut decide = |worked, us, packet_hops, idle| {
            trial.idle = idle;
            let decision = trial.decide(worked, Time::us(us), packet_hops);
            assert_eq!(trial.decision, 2 * worked);
            decision.map(|(rates, most)| (rates.packet_hops.round(), rates.work.round(), most))
        };
        assert_eq!(decide(TRIAL, 1, 0, 9), Some((0.0, 20_000.0, 3)));
        assert_eq!(decide(5 * TRIAL, 3, 4_000, 2), Some((2e9, 40_000.0, 2)));
        assert_eq!(decide(10 * TRIAL, 3, 4_000, 2), None, "no simulated time has passed");
        assert_eq!(decide(20 * TRIAL, 4, 4_000, 1), None, "no core is idle");
    }

    #[test]
    fn changes_pay_if_they_save_twice_their_cost() {
        let pays = |left: f64, threads| pays(Duration::from_secs(1), left * share_saved(threads));
        assert!(!pays(7.7, 2) && pays(7.8, 2));
        assert!(!pays(2.3, 16) && pays(2.4, 16));
        assert!(!pays(f64::MAX, 1));
    }

    #[test]
    fn replays_end_at_their_time_or_if_they_are_slow() {
        let several = several();
        assert!(several.is_replay(Time::us(8), TRIAL / 2));
        assert!(!several.is_replay(Time::us(9), TRIAL / 2));
        assert!(!several.is_replay(Time::us(8), TRIAL));
    }

    /// A choice after one partition with the rate of the tests below.
    fn choice() -> Choice {
        Choice::after(1e7)
    }

    /// Several partitions that repeat 9 us, after one partition with that rate.
    fn several() -> Several {
        let (built, replay) = (Duration::ZERO, (Time::us(9), TRIAL));
        Several { choice: choice(), most: 2, built, alone: 1e7, replay }
    }

    /// Threads that repeat the beginning have warm caches, and their rates are not compared.
    #[test]
    fn replays_warm_caches() {
        let mut several = several();
        let took = Duration::from_millis(1);
        several.measured(Time::us(8), TRIAL / 2, EVENTS_PER_START, took);
        assert_eq!((several.choice.events(), several.choice.recent.number), (EVENTS_PER_START, 0));
        several.measured(Time::us(9), TRIAL / 2, EVENTS_PER_START, took);
        assert_eq!(several.choice.recent.number, 1);
    }

    /// One thread has 9 of 10 M packet-hops a second in several partitions.
    #[test]
    fn one_partition_saves_the_measured_difference() {
        let mut several = several();
        worked(&mut several.choice, 200, [9_000, 5_000]);
        assert!(several.choice.prefers_one());
        let saved = several.saved_by_one(50.0);
        assert!((saved - 5.0).abs() < 0.1, "{saved}");
    }

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
        let mut choice = choice();
        let [one, several] = worked(&mut choice, 2_000, [10_000, 15_000]);
        assert!(one < 25 && several > 1_970, "{one} {several}");
        // Other programs start: several threads take 25 times as long.
        let [one, several] = worked(&mut choice, 2_000, [10_000, 400]);
        assert!(one > 1_600 && several < 400, "{one} {several}");
        // They end.
        let [one, several] = worked(&mut choice, 4_000, [10_000, 15_000]);
        assert!(one < 2_100 && several > 1_900, "{one} {several}");
    }

    /// Threads are compared only over packet-hops.
    #[test]
    fn idle_chunks_are_no_measurement() {
        let mut choice = choice();
        for _ in 0..50 {
            choice.measured(0, Duration::from_millis(10));
            choice.measured(60, Duration::from_millis(1));
            let ms = if choice.uses_several() { 100 } else { 300 };
            choice.measured(100_000, Duration::from_millis(ms));
            assert!(choice.several, "{:?}", choice.rates());
        }
    }

    /// A window of a large fabric takes longer than the least time between two trials.
    #[test]
    fn long_trials_are_rare() {
        let mut choice = choice();
        let [one, several] = worked(&mut choice, 20_000, [30, 150]);
        assert!(one < 4_000 && several > 16_000, "{one} {several}");
    }

    #[test]
    fn slow_threads_are_given_up_at_once() {
        let mut choice = choice();
        let [one, several] = worked(&mut choice, 400, [10_000, 9_000]);
        assert!(choice.prefers_one(), "{one} {several}");
        assert!(several < 40, "{several}");
    }

    /// Takes one interval at this rate.
    fn measure(choice: &mut Choice, packet_hops_per_ms: u64) {
        let packet_hops = choice.events();
        choice
            .measured(packet_hops, Duration::from_micros(1_000 * packet_hops / packet_hops_per_ms));
    }

    /// Several threads that are slower in a single interval are kept, because the machine may have
    /// done something else.
    #[test]
    fn single_intervals_decide_nothing() {
        let mut choice = choice();
        worked(&mut choice, 40, [10_000, 15_000]);
        measure(&mut choice, 4_000);
        assert!(choice.probing, "one thread is tried");
        measure(&mut choice, 10_000);
        assert!(choice.several && !choice.probing);
        worked(&mut choice, 10, [10_000, 15_000]);
        measure(&mut choice, 8_000);
        assert!(choice.several && !choice.probing, "{:?}", choice.rates());
    }

    /// After one thread, the first interval of several shows their cold caches.
    #[test]
    fn cold_threads_are_not_compared() {
        let mut choice = choice();
        worked(&mut choice, 100, [10_000, 9_000]);
        assert!(!choice.several);
        while !choice.probing {
            measure(&mut choice, 10_000);
        }
        measure(&mut choice, 8_000);
        assert!(choice.probing, "cold");
        measure(&mut choice, 15_000);
        assert!(choice.several);
    }
}
