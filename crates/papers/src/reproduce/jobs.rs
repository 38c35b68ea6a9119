//! The runs of a reproduction: which are needed, what they cost, and their results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use serde::Serialize;
use tidegate_core::{Span, Time};
use tidegate_live::Medium;
#[cfg(target_os = "linux")]
use tidegate_live::testbed::{self, Carrier};
use tidegate_runs::cache::{Cache, Recording};
use tidegate_runs::in_parallel;
use tidegate_runs::observe::{Control, Measure, Observations, RunOutput, adapt, drive};
use tidegate_runs::{Error, forecast_packets, forecast_seconds, machine};
use tidegate_scenario::Plan;

use super::ReproduceOptions;
use super::registry::{Choice, Figure, Model, Paper, PlanSource, Run, SEEDS};

/// Progress of a reproduction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step<'a> {
    /// Finished runs.
    pub done: usize,
    /// All runs.
    pub all: usize,
    /// Approximate share of the work that is done. Cached runs do not count as work.
    pub share: f64,
    /// The run that finished last.
    pub name: &'a str,
}

/// Receives every finished run, on the thread that ran it.
pub type StepListener<'a> = &'a (dyn Fn(&Step<'_>) + Sync);

/// Cost of a reproduction, before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// All runs.
    pub runs: usize,
    /// Runs that are in the cache.
    pub kept: usize,
    /// CPU seconds of the other simulated runs together, with this build on this machine.
    pub cpu_s: f64,
    /// Wall-clock seconds of the live runs, one after the other, with dilation.
    pub clock_s: f64,
    /// Threads that make the other runs.
    pub threads: usize,
    /// Number of runs whose beginning was made for the forecast.
    pub trials: usize,
}

impl Forecast {
    /// Expected wall-clock time of all runs on an idle machine.
    pub fn seconds(&self) -> f64 {
        self.cpu_s / self.threads as f64 + self.clock_s
    }
}

/// A run to be made.
pub(super) struct Job {
    work: Work,
    medium: Medium,
    recording: Recording,
    name: String,
    /// Approximate cost: CPU seconds, zero until [`calibrate`] has estimated them; wall-clock
    /// seconds for live runs.
    seconds: f64,
}

impl Job {
    /// Whether the run is live.
    fn is_real(&self) -> bool {
        self.medium != Medium::Simulated
    }
}

/// The work of a run.
pub(super) enum Work {
    /// Simulation of packets, with the plan's hash.
    Packets(Box<Plan>, String),
    /// Solution of a model.
    Model(Model),
}

/// Runs to be made. A plan with equal sampling intervals is run once for all uses.
#[derive(Default)]
pub(super) struct Jobs<'a> {
    /// Time dilation of live UDP runs; `None`: chosen for each plan.
    dilation: Option<u32>,
    pub(super) jobs: Vec<Job>,
    /// Keys: hash of the plan, interval, and carrier of packets; for a model, its source.
    known: BTreeMap<(String, Option<Span>, Medium), usize>,
    /// Jobs by the source of their plan, so that a plan which many figures or alternatives request
    /// is made and hashed once.
    requested: BTreeMap<(PlanSource<'a>, Option<Span>, Medium), usize>,
    /// Plans with their hashes, made before they are requested.
    planned: BTreeMap<PlanSource<'a>, (Plan, String)>,
}

/// A figure as chosen, or under an alternative.
pub(super) type Request<'a> = (&'a Paper, &'a Figure, Option<Choice>);

impl<'a> Jobs<'a> {
    pub(super) fn dilated(dilation: Option<u32>) -> Jobs<'a> {
        Jobs { dilation, ..Jobs::default() }
    }

    /// Makes and hashes the plans of these requests, several at a time. A plan that fails is left
    /// to its request.
    ///
    /// # Errors
    /// [`Error::Interrupted`]
    pub(super) fn plan(
        &mut self,
        requests: &[Request<'a>],
        options: &ReproduceOptions<'_>,
    ) -> Result<(), Error> {
        let mut sources = BTreeSet::new();
        for &(paper, figure, choice) in requests {
            let packets = figure.runs.iter().filter(|run| run.model.is_none());
            sources.extend(packets.flat_map(|run| {
                let seeds = 1..=seeds(options.quick, choice);
                seeds.map(move |seed| source((paper, figure), run, seed, choice))
            }));
        }
        let sources: Vec<PlanSource<'_>> = sources.into_iter().collect();
        let plans = in_parallel(sources.len(), threads(options), |i, _| {
            if options.is_interrupted() {
                return Err(Error::Interrupted);
            }
            hashed(sources[i].plan()?)
        });
        let made = sources.into_iter().zip(plans);
        self.planned.extend(made.filter_map(|(source, plan)| Some((source, plan.ok()?))));
        if options.is_interrupted() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Indices of a figure's runs, each with all its seeds.
    pub(super) fn request(
        &mut self,
        (paper, figure, choice): Request<'a>,
        quick: bool,
    ) -> Result<Vec<Vec<usize>>, Error> {
        let mut seeds = |run| {
            let seeds = 1..=seeds(quick, choice);
            seeds.map(|seed| self.request_run((paper, figure), run, seed, choice)).collect()
        };
        figure.runs.iter().map(&mut seeds).collect()
    }

    /// Index of a run with one seed.
    fn request_run(
        &mut self,
        (paper, figure): (&'a Paper, &'a Figure),
        run: &'a Run,
        seed: u64,
        choice: Option<Choice>,
    ) -> Result<usize, Error> {
        let (medium, recording) = (run.medium(), figure.recording(run));
        let name = || format!("{}/{} {}", paper.name, figure.name, run.name);
        if let Some(model) = &run.model {
            let key = (model.source.clone(), None, Medium::Simulated);
            let work = || Ok((Work::Model(model.clone()), 0.0));
            return self.put(key, recording, name, work);
        }
        let source = source((paper, figure), run, seed, choice);
        let request = (source, recording.interval, medium);
        if let Some(&number) = self.requested.get(&request) {
            self.jobs[number].recording.parts.extend(recording.parts);
            return Ok(number);
        }
        let (source, interval, medium) = request;
        let (plan, hash) = match self.planned.remove(&source) {
            Some(planned) => planned,
            None => hashed(source.plan()?)?,
        };
        let dilation = self.dilation;
        let work = || {
            let seconds = clock_s(&plan, &medium, dilation)?;
            Ok((Work::Packets(Box::new(plan), hash.clone()), seconds))
        };
        let key = (hash.clone(), interval, medium.clone());
        let number = self.put(key, recording, name, work)?;
        self.requested.insert((source, interval, medium), number);
        Ok(number)
    }

    /// Index of the job of this key, which is added if it is new.
    fn put(
        &mut self,
        key: (String, Option<Span>, Medium),
        recording: Recording,
        name: impl FnOnce() -> String,
        work: impl FnOnce() -> Result<(Work, f64), Error>,
    ) -> Result<usize, Error> {
        if let Some(&number) = self.known.get(&key) {
            self.jobs[number].recording.parts.extend(recording.parts);
            return Ok(number);
        }
        let (number, medium) = (self.jobs.len(), key.2.clone());
        let (work, seconds) = work()?;
        self.jobs.push(Job { work, medium, recording, name: name(), seconds });
        self.known.insert(key, number);
        Ok(number)
    }
}

/// Number of seeds of a run.
fn seeds(quick: bool, choice: Option<Choice>) -> u64 {
    if quick || choice.is_some() { 1 } else { SEEDS }
}

/// The source of a run's plan. Runs that no claim uses are made as chosen.
fn source<'a>(
    (paper, figure): (&'a Paper, &'a Figure),
    run: &'a Run,
    seed: u64,
    choice: Option<Choice>,
) -> PlanSource<'a> {
    figure.source(paper, run, seed, choice.filter(|_| figure.is_claimed(run)))
}

fn hashed(plan: Plan) -> Result<(Plan, String), Error> {
    let hash = tidegate_scenario::content_hash(&plan);
    Ok((plan, hash))
}

fn threads(options: &ReproduceOptions<'_>) -> usize {
    options.threads.or_else(machine::cores).unwrap_or(1).max(1)
}

/// Whether each job is in the cache.
pub(super) fn kept(jobs: &[Job], options: &ReproduceOptions<'_>) -> Vec<bool> {
    let cache = Cache::new(options.cache);
    let is_kept = |job: &Job| match &job.work {
        Work::Packets(_, hash) => cache.has(hash, &job.recording),
        Work::Model(_) => false,
    };
    jobs.iter().map(is_kept).collect()
}

/// Maximum number of runs whose beginning is made for a forecast.
const TRIALS: usize = 6;
/// Minimum number of runs to make per trial, so that trials take a small part of the time.
const RUNS_PER_TRIAL: usize = 4;

/// Estimates the costs of simulated runs to be made: their data packets by their traffic, times the
/// mean processor time per packet by the beginning of some of them. Returns the number of trials.
pub(super) fn calibrate(jobs: &mut [Job], options: &ReproduceOptions<'_>) -> Result<usize, Error> {
    let left = kept(jobs, options).into_iter().zip(&*jobs).enumerate();
    let left = left.filter_map(|(i, (is_kept, job))| match &job.work {
        Work::Packets(plan, _) if !is_kept && !job.is_real() => Some((i, plan)),
        _ => None,
    });
    let left: Vec<(usize, &Box<Plan>)> = left.collect();
    let packets = in_parallel(left.len(), threads(options), |n, _| {
        forecast_packets(left[n].1, options.interrupted)
    });
    let left: Vec<usize> = left.iter().map(|&(i, _)| i).collect();
    let left = left.into_iter().zip(packets).map(|(i, packets)| Ok((i, packets?)));
    let left: Vec<(usize, f64)> = left.collect::<Result<_, Error>>()?;
    let costs: Vec<f64> = left.iter().map(|&(_, packets)| packets).collect();
    let tried = spread(&costs, TRIALS.min(left.len().div_ceil(RUNS_PER_TRIAL)));
    let factor = |n: usize, _| {
        let (chosen, weight) = tried[n];
        let (i, packets) = left[chosen];
        let Job { work: Work::Packets(plan, _), recording, .. } = &jobs[i] else { return Ok(0.0) };
        let seconds = forecast_seconds(plan, recording, options.interrupted)?;
        Ok(seconds / packets * weight)
    };
    let factors = in_parallel(tried.len(), threads(options), factor).into_iter();
    let sum = factors.sum::<Result<f64, Error>>()?;
    let weights: f64 = tried.iter().map(|(_, weight)| weight).sum();
    for (i, packets) in left {
        jobs[i].seconds = packets * sum / weights.max(1.0);
    }
    Ok(tried.len())
}

/// Up to `count` of these runs, at equal distances in the sum of their costs, each with the number
/// of these places in it: then the mean of true over assumed costs holds for the sum.
fn spread(costs: &[f64], count: usize) -> Vec<(usize, f64)> {
    let all: f64 = costs.iter().sum();
    let (mut chosen, mut sum, mut before) = (Vec::new(), 0.0, 0.0);
    for (i, cost) in costs.iter().enumerate() {
        sum += cost;
        let places = (sum / all * count as f64 + 0.5).floor();
        if places > before {
            chosen.push((i, places - before));
            before = places;
        }
    }
    chosen
}

/// The cost of jobs after this number of trials.
pub(super) fn forecast(jobs: &[Job], trials: usize, options: &ReproduceOptions<'_>) -> Forecast {
    let kept = kept(jobs, options);
    let left: Vec<&Job> = jobs.iter().zip(kept).filter(|(_, is)| !is).map(|(job, _)| job).collect();
    let seconds = |real: bool| {
        let those = left.iter().filter(|job| job.is_real() == real);
        those.map(|job| job.seconds).fold(0.0, |sum, seconds| sum + seconds)
    };
    Forecast {
        runs: jobs.len(),
        kept: jobs.len() - left.len(),
        cpu_s: seconds(false),
        clock_s: seconds(true),
        threads: threads(options),
        trials,
    }
}

/// Checks that the kernel has, or can load, the congestion controls of all runs to be made, before
/// the first run.
#[cfg(target_os = "linux")]
fn check_controls(jobs: &[Job], options: &ReproduceOptions<'_>) -> Result<(), Error> {
    let left = jobs.iter().zip(kept(jobs, options)).filter(|(_, is_kept)| !is_kept);
    let names = left.filter_map(|(job, _)| match &job.medium {
        Medium::Tcp(name) => Some(name.as_str()),
        _ => None,
    });
    let names: BTreeSet<_> = names.collect();
    names.into_iter().try_for_each(|name| testbed::check_control(name, options.controls))
}

#[cfg(not(target_os = "linux"))]
fn check_controls(_: &[Job], _: &ReproduceOptions<'_>) -> Result<(), Error> {
    Ok(())
}

pub(super) fn make(
    jobs: &[Job],
    forecast: &Forecast,
    options: &ReproduceOptions<'_>,
) -> Result<Vec<Observations>, Error> {
    let cache = Cache::new(options.cache);
    check_controls(jobs, options)?;
    // Number of finished runs, and cost of those that were not cached.
    let state = Mutex::new((0, 0.0));
    let is_interrupted = || options.is_interrupted();
    let one = |i: usize, threads: usize| {
        let Job { work, medium, recording, name, seconds } = &jobs[i];
        // Simulated runs share the threads.
        let threads_each = if jobs[i].is_real() { 1.0 } else { forecast.threads as f64 };
        let mut spent = 0.0;
        let seen = match work {
            Work::Model(model) => {
                model.follow().map_err(|why| Error::Run(format!("{name}: {why}")))?
            }
            Work::Packets(plan, hash) => match cache.get(hash, recording) {
                Some(seen) => seen,
                None => {
                    spent = *seconds / threads_each;
                    cache.make((plan, hash), recording, |measures| {
                        if jobs[i].is_real() {
                            return run_live((name, plan), medium, measures, options);
                        }
                        let control = Control {
                            partitions: None,
                            threads,
                            ranks: None,
                            is_interrupted: &is_interrupted,
                            progress: &|_| {},
                            chunk: &adapt,
                        };
                        drive(plan, measures, &control)
                    })?
                }
            },
        };
        if let Some(listener) = options.progress {
            let mut state = state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            state.0 += 1;
            state.1 += spent;
            let (done, all) = (state.0, jobs.len());
            let of_runs = done as f64 / all as f64;
            let expected = forecast.seconds();
            let share = if expected > 0.0 { state.1 / expected } else { of_runs };
            listener(&Step { done, all, share: share.min(1.0), name });
        }
        Ok(seen)
    };
    // Live runs depend on clocks: nothing else runs at the same time.
    let is_real = |i: &usize| jobs[*i].is_real();
    let (real, simulated): (Vec<usize>, Vec<usize>) = (0..jobs.len()).partition(is_real);
    let first = in_parallel(simulated.len(), threads(options), |n, all| one(simulated[n], all));
    let then = in_parallel(real.len(), 1, |n, all| one(real[n], all));
    let mut seen: Vec<_> =
        simulated.into_iter().zip(first).chain(real.into_iter().zip(then)).collect();
    seen.sort_by_key(|(i, _)| *i);
    seen.into_iter().map(|(_, seen)| seen).collect()
}

/// Wall-clock time of a live run; zero for others.
#[cfg(target_os = "linux")]
fn clock_s(plan: &Plan, medium: &Medium, chosen: Option<u32>) -> Result<f64, Error> {
    match medium {
        Medium::Simulated => Ok(0.0),
        Medium::Tcp(_) => Ok(testbed::tcp_time(plan).as_secs_f64()),
        Medium::Udp => {
            Ok(f64::from(dilation(plan, chosen)?) * plan.duration.since(Time::ZERO).as_s_f64())
        }
    }
}

/// The chosen time dilation, or the usual one of the plan, which is also checked.
#[cfg(target_os = "linux")]
fn dilation(plan: &Plan, chosen: Option<u32>) -> Result<u32, Error> {
    testbed::usual_dilation(plan).map(|usual| chosen.unwrap_or(usual))
}

#[cfg(not(target_os = "linux"))]
fn clock_s(_: &Plan, _: &Medium, _: Option<u32>) -> Result<f64, Error> {
    Ok(0.0)
}

/// Makes a live run.
#[cfg(target_os = "linux")]
fn run_live(
    (name, plan): (&str, &Plan),
    medium: &Medium,
    measures: Vec<Box<dyn Measure>>,
    options: &ReproduceOptions<'_>,
) -> Result<RunOutput, Error> {
    let is_interrupted = || options.is_interrupted();
    let carrier = if let Medium::Tcp(congestion) = medium {
        Carrier::Tcp { congestion, loader: options.controls }
    } else {
        let Some(program) = options.host else {
            let message = "live UDP runs need the binary `tidegate` under this name: it starts one \
                           process per host";
            return Err(Error::Run(message.to_owned()));
        };
        Carrier::Udp { program, dilation: dilation(plan, options.dilation)? }
    };
    let control = testbed::Control { carrier, is_interrupted: &is_interrupted, progress: &|_| {} };
    let output = testbed::emulate(plan, measures, &control)?;
    // Measurements on an overloaded machine are invalid. Cached runs need not be repeated.
    match output.real.as_ref().and_then(tidegate_results::RealSummary::warning) {
        Some(warning) => Err(Error::Run(format!("{name}: {warning}"))),
        None => Ok(output),
    }
}

#[cfg(not(target_os = "linux"))]
fn run_live(
    (name, _): (&str, &Plan),
    _: &Medium,
    _: Vec<Box<dyn Measure>>,
    _: &ReproduceOptions<'_>,
) -> Result<RunOutput, Error> {
    Err(Error::Run(format!("{name}: live runs require Linux")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_made_once_before_requests() {
        let papers = crate::reproduce::shared_papers();
        let paper = papers.iter().find(|paper| paper.name == "authors").unwrap();
        let figure = paper.figures.iter().find(|figure| figure.name == "powertcp-alone").unwrap();
        let mut jobs = Jobs::default();
        let request = (paper, figure, None);
        jobs.plan(&[request, request], &ReproduceOptions::default()).unwrap();
        assert_eq!(jobs.planned.len(), figure.runs.len() * SEEDS as usize);
        let numbers = jobs.request(request, false).unwrap();
        assert!(jobs.planned.is_empty(), "every plan is used");
        assert_eq!(jobs.request(request, false).unwrap(), numbers);
        assert!(jobs.planned.is_empty() && jobs.jobs.len() == numbers.concat().len());
    }

    #[test]
    fn trials_are_spread_over_costs() {
        assert_eq!(spread(&[1.0; 6], 3), [(0, 1.0), (2, 1.0), (4, 1.0)]);
        // Most of the cost is in one run.
        assert_eq!(spread(&[1.0, 8.0, 2.0, 1.0], 3), [(1, 2.0), (2, 1.0)]);
        assert_eq!(spread(&[1.0, 1.0], 0), []);
        assert_eq!(spread(&[], 0), []);
        assert_eq!(spread(&[0.0; 3], 1), [], "models");
    }
}
