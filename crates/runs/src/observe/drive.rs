//! The main loop of every run: chunks of simulated time, samples, flows, interrupts.

use std::time::Duration;

use tidegate_core::{Span, Time};
use tidegate_scenario::Plan;
use tidegate_sim::simulation::{self, Simulation};

use super::observers::{Measures, SharedMeasures};
use super::threads::Threads;
use super::{End, Measure, RunOutput, Start};
use crate::machine::Stopwatch;
use crate::ranks::Ranks;
use crate::{Error, interrupt};

/// Desired range of the engine's working time between two checks of the interrupt flag.
const CHUNK: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(100));

/// Maximum length of the first chunk, so that a run of hours reports progress early.
const FIRST_CHUNK: Span = Span::ms(1);

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Simulated time so far.
    pub now: Time,
    /// End of the simulated time, without the drain.
    pub duration: Time,
    /// Packet-hops so far.
    pub packet_hops: u64,
    /// Wall-clock time since the start of the run.
    pub wall: Duration,
    /// Bytes of the capture so far.
    pub captured_bytes: u64,
}

impl Progress {
    /// Share of the simulated time, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.duration == Time::ZERO {
            1.0
        } else {
            self.now.as_s_f64() / self.duration.as_s_f64()
        }
    }
    /// Packet-hops over wall seconds.
    pub fn packet_hops_per_second(&self) -> f64 {
        self.packet_hops as f64 / self.wall.as_secs_f64().max(1e-9)
    }
    /// Estimated remaining wall-clock time, if simulated time continues to pass at the same rate;
    /// `None` before any progress.
    pub fn left(&self) -> Option<Duration> {
        let share = self.share();
        let left = self.wall.as_secs_f64() * (1.0 - share) / share;
        (share > 0.0).then(|| Duration::try_from_secs_f64(left).ok()).flatten()
    }
}

/// Control of a run. Nothing here changes its outcome.
pub struct Control<'a> {
    /// Upper limit of threads; a run with packet-level observers uses one.
    pub threads: usize,
    /// Number of partitions, each on its own thread, even if that is slower: for tests.
    pub partitions: Option<usize>,
    /// The processes of the run, and the number of partitions of each. No process has packet-level
    /// observers.
    pub ranks: Option<(&'a Ranks, usize)>,
    /// Returns whether an interrupt was requested.
    pub is_interrupted: interrupt::InterruptCheck<'a>,
    /// Receives the progress after every chunk.
    pub progress: &'a dyn Fn(&Progress),
    /// Returns the length of the next chunk, given the last one and the time that it took. `None`
    /// ends the run there: its messages are reported as they are.
    pub chunk: &'a dyn Fn(Span, Duration) -> Option<Span>,
}

/// Adapts chunks to be long enough for low overhead and short enough for interrupts.
pub fn adapt(chunk: Span, took: Duration) -> Option<Span> {
    Some(if took < CHUNK.0 {
        chunk.times(2)
    } else if took > CHUNK.1 {
        Span::ps((chunk.as_ps() / 2).max(1))
    } else {
        chunk
    })
}

/// Runs a plan under these measures.
///
/// # Errors
/// When the engine refuses the plan, a measure fails, or the run is interrupted.
pub fn drive(
    plan: &Plan,
    measures: Vec<Box<dyn Measure>>,
    control: &Control<'_>,
) -> Result<RunOutput, Error> {
    if (control.is_interrupted)() {
        return Err(Error::Interrupted);
    }
    let watch = Stopwatch::start();
    let observers = SharedMeasures::new(Measures::new(measures));
    let (mut most, before) = (1, watch.wall());
    let engine = if observers.has_subscriptions() {
        let (setup, listener) = (plan.setup.clone(), Box::new(observers.clone()));
        build(control.is_interrupted, || simulation::observed(setup, listener))?
    } else if let Some(among) = control.ranks {
        build_among(plan, among, control.is_interrupted)?
    } else if let Some(partitions) = control.partitions {
        let engine = build_silent(plan, partitions, control.is_interrupted)?;
        let found = engine.partitions();
        if found < partitions {
            return Err(Error::Run(format!(
                "--partitions {partitions}: this fabric can be divided into {found} at most \
                 (partitions consist of racks, separated by links of at least 50 ns)"
            )));
        }
        engine
    } else {
        most = control.threads;
        build_silent(plan, 1, control.is_interrupted)?
    };
    let threads = Threads::up_to(most, watch.wall() - before);
    pass(plan, engine, threads, &observers, control, &watch)
}

/// Builds a run without packet-level observers, in at most `partitions` partitions.
fn build_silent(
    plan: &Plan,
    partitions: usize,
    is_interrupted: interrupt::InterruptCheck<'_>,
) -> Result<Box<dyn Simulation>, Error> {
    let setup = plan.setup.clone();
    build(is_interrupted, move || simulation::unobserved(setup, partitions))
}

/// Builds the run in another number of partitions and advances it to `now`. The caller drops the
/// former engine first, so that memory holds one.
fn rebuild(
    plan: &Plan,
    now: Time,
    partitions: usize,
    threads: &mut Threads,
    is_interrupted: interrupt::InterruptCheck<'_>,
) -> Result<Box<dyn Simulation>, Error> {
    let mut other = build_silent(plan, partitions, is_interrupted)?;
    // The end of the measured window interrupts an advance.
    while other.now() < now {
        threads.advance(&mut *other, now, is_interrupted)?;
    }
    other.take_finished(&mut Vec::new()).map_err(interrupt::lost(is_interrupted))?;
    Ok(other)
}

fn build(
    is_interrupted: interrupt::InterruptCheck<'_>,
    engine: impl FnOnce() -> Result<Box<dyn Simulation>, String> + Send + 'static,
) -> Result<Box<dyn Simulation>, Error> {
    interrupt::run_abandonable(is_interrupted, || engine().map_err(Error::Run))
}

/// Builds the partitions of this process.
pub fn build_among(
    plan: &Plan,
    (ranks, parts): (&Ranks, usize),
    is_interrupted: interrupt::InterruptCheck<'_>,
) -> Result<Box<dyn Simulation>, Error> {
    let (setup, communicator) = (plan.setup.clone(), ranks.communicator());
    build(is_interrupted, move || simulation::among(setup, parts, communicator))
}

/// Runs the engine to the end.
fn pass(
    plan: &Plan,
    mut engine: Box<dyn Simulation>,
    mut threads: Threads,
    measures: &SharedMeasures,
    control: &Control<'_>,
    watch: &Stopwatch,
) -> Result<RunOutput, Error> {
    measures.lock().begin(&Start { plan, paths: engine.paths() })?;
    let lost = interrupt::lost(control.is_interrupted);
    let (mut finished, mut samples) = (Vec::new(), Vec::new());
    let mut chunk = Span::ps((plan.duration.as_ps() / 1000).max(1)).min(FIRST_CHUNK);
    // The plan as it would be for a run that ends by itself, once it is known when.
    let mut ended: Option<Plan> = None;
    let mut most = engine.partitions();
    while !engine.is_over() {
        let before = watch.wall();
        if let Some(partitions) = threads.rebuild(&*engine, plan) {
            let now = engine.now();
            drop(engine);
            engine = rebuild(plan, now, partitions, &mut threads, control.is_interrupted)?;
            most = most.max(engine.partitions());
        }
        let next_sample = measures.lock().next_sample();
        let until = engine.now().after(chunk).min(next_sample);
        let until = if engine.now() < plan.duration { until.min(plan.duration) } else { until };
        threads.advance(&mut *engine, until, control.is_interrupted)?;
        engine.take_finished(&mut finished).map_err(&lost)?;
        measures.lock().flows(plan, finished.drain(..))?;
        if ended.is_none() && engine.end() < plan.duration {
            ended.insert(plan.clone()).duration = engine.end();
            measures.lock().ends_at(engine.end());
        }
        let of = ended.as_ref().unwrap_or(plan);
        // After the last sample, both times can be `Time::NEVER`.
        if engine.now() == measures.lock().next_sample() {
            engine.sample(&mut samples).map_err(&lost)?;
            measures.lock().sampled(of, engine.now(), &samples)?;
            samples.clear();
        }
        let wall = watch.wall();
        (control.progress)(&Progress {
            now: until.min(of.duration),
            duration: of.duration,
            packet_hops: engine.packet_hops(),
            wall,
            captured_bytes: 0,
        });
        if (control.is_interrupted)() {
            return Err(Error::Interrupted);
        }
        let Some(next) = (control.chunk)(chunk, wall - before) else { break };
        chunk = next;
    }
    let threads = most * engine.ranks();
    let plan = ended.as_ref().unwrap_or(plan);
    let (drained, awaited) = (engine.now().since(plan.duration), engine.awaited());
    let mut outcome = engine.finish().map_err(&lost)?;
    outcome.unfinished.sort_by_key(|record| record.id);
    let mut measures = measures.lock();
    measures.flows(plan, std::mem::take(&mut outcome.finished))?;
    measures.flows(plan, outcome.unfinished.iter().copied())?;
    let mut output = RunOutput::default();
    output.seen.digest = format!("{:016x}", outcome.digest);
    output.seen.warmup_us = plan.warmup.as_us_f64();
    output.seen.duration_us = plan.duration.as_us_f64();
    let outcome = &outcome;
    measures.finish(
        &End { plan, outcome, drained, awaited, threads, watch, real: None },
        &mut output,
    )?;
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_sim::{FlowRecord, Sample};

    /// A run that is rebuilt continues as if it had always had that number of partitions.
    #[test]
    fn a_rebuilt_run_continues() {
        let poisson = "duration = '200us'\ndrain = '40us'\n\
            [[traffic]]\nkind = 'poisson'\nsizes = '20KB'\nload = 0.5\n";
        let paused = "duration = '200us'\ndrain = '40us'\n\
            switch = { buffer = '300KB', pfc = { headroom = '20KB' } }\n\
            [[traffic]]\nkind = 'incast'\nfan_in = 5\nsizes = '100KB'\nload = 0.6\n";
        let closed = "duration = '240us'\n\
            [[traffic]]\nkind = 'closed-loop'\nrequest = '3KB'\nreply = '20KB'\nthink = '3us'\n";
        let done = "duration = '240us'\nuntil = 'done'\n\
            flows = [{ src = 'h0', dst = 'h5', size = '1MB', start = '35us' }]\n";
        [poisson, paused, closed, done].into_iter().for_each(continues);
    }

    fn continues(traffic: &str) {
        let text = format!(
            "warmup = '30us'\ntransport = {{ protocol = 'swift' }}\n\
             fabric = {{ kind = 'leaf-spine', racks = 3, hosts_per_rack = 2, spines = 2 }}\n\
             {traffic}"
        );
        let plan = tidegate_scenario::load(&text, "test.toml", &[]).unwrap();
        let outcome = |partitions: [usize; 12]| -> (Vec<FlowRecord>, Vec<Sample>, String) {
            let never = || false;
            let (mut rows, mut samples) = (Vec::new(), Vec::new());
            let mut threads = Threads::up_to(1, Duration::ZERO);
            let mut engine = build_silent(&plan, 1, &never).unwrap();
            for (step, partitions) in (1..).zip(partitions) {
                if engine.is_over() {
                    break;
                }
                if partitions != engine.partitions() {
                    engine =
                        rebuild(&plan, engine.now(), partitions, &mut threads, &never).unwrap();
                    assert_eq!(engine.partitions(), partitions);
                }
                threads.advance(&mut *engine, Time::us(20 * step), &never).unwrap();
                engine.take_finished(&mut rows).unwrap();
                engine.sample(&mut samples).unwrap();
            }
            assert!(engine.is_over());
            let outcome = engine.finish().unwrap();
            rows.extend(outcome.finished);
            rows.extend(outcome.unfinished);
            (rows, samples, format!("{:x} {:?}", outcome.digest, outcome.links))
        };
        let whole = outcome([1; 12]);
        assert!(!whole.0.is_empty() && !whole.1.is_empty(), "{text}");
        assert!(outcome([1, 1, 2, 2, 2, 1, 3, 3, 3, 1, 1, 1]) == whole, "{text}");
        assert!(outcome([3, 3, 3, 3, 3, 3, 3, 3, 1, 1, 1, 2]) == whole, "{text}");
    }
}
