//! Collectives and jobs: times of their iterations, computed from the rows of their messages, or
//! from the times of their ranks.

use serde::{Deserialize, Serialize};
use tidegate_core::{Span, Time};

use crate::fixed::Fixed;
use crate::rows::{FlowRow, IterationRow, Names, gbps, name};
use crate::survival::Lifetimes;

/// A collective or a job of the scenario.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Number of its label.
    pub label: u16,
    /// Number of its stack.
    pub stack: u16,
    /// Operation: the value of the key `op`; `job` if the operations come from a file.
    pub op: &'static str,
    /// Number of ranks.
    pub ranks: u32,
    /// Data of a rank; of a job the data of all messages of an iteration.
    pub size_bytes: u64,
    /// Whether the operations come from a file, so that iterations begin and end with the ranks,
    /// and not with messages.
    pub is_file: bool,
    /// Number of iterations in the scenario.
    pub iterations: u32,
    /// Number of messages of an iteration.
    pub messages: u64,
    /// Bus bandwidth over algorithm bandwidth, if defined.
    pub bus_factor: Option<f64>,
    /// Start time.
    pub start: Time,
}

/// Summary of a collective or a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSummary {
    /// Label in the scenario; may be empty.
    pub label: String,
    /// Operation; `job` if the operations come from a file.
    pub op: String,
    /// Protocol.
    pub protocol: String,
    /// Number of ranks.
    pub ranks: u32,
    /// Data of a rank, as nccl-tests counts it; of a job the data of all messages of an iteration.
    pub size_bytes: u64,
    /// Number of iterations in the scenario.
    pub iterations: u32,
    /// Iterations whose messages have all arrived; of a job those that all ranks have ended.
    pub finished: u32,
    /// Finished iterations that began after warm-up, over which the times below are taken.
    pub measured: u32,
    /// Time from its start to the last byte of its last iteration; null if not all iterations
    /// finished.
    pub completion_us: Option<Fixed>,
    /// Time from the first submission of an iteration to its last byte; of a job from its begin at
    /// the first rank to its end at the last one.
    pub iteration_us: IterationTimes,
    /// Time of each iteration in order, including those before warm-up, if there are at most 1,000;
    /// null for unfinished iterations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iterations_us: Vec<Option<Fixed>>,
    /// Share of the time of the ranks in which they do not compute, and so only wait for messages:
    /// over all ranks and measured iterations. Null if the ranks do not compute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub communication: Option<f64>,
    /// The same of each iteration in order; null for unfinished iterations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iterations_communication: Vec<Option<f64>>,
    /// Data of a rank over the mean time of an iteration; null for jobs.
    pub algbw_gbps: Option<f64>,
    /// Bus bandwidth: `algbw_gbps` times the factor of nccl-tests, which is the least traffic of a
    /// rank's link per byte of data; null for chains and jobs.
    pub busbw_gbps: Option<f64>,
}

/// Statistics of iteration times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IterationTimes {
    /// Mean.
    pub mean: Option<Fixed>,
    /// Median.
    pub p50: Option<Fixed>,
    /// 99th percentile.
    pub p99: Option<Fixed>,
    /// Maximum.
    pub max: Option<Fixed>,
}

/// Largest number of iterations whose times a summary lists.
const LISTED_MAX: usize = 1_000;

/// Accumulated data of a collective or a job.
pub(crate) struct JobTotals {
    job: Job,
    /// Data by iteration.
    steps: Vec<Step>,
    /// Times of the ranks by iteration, if they compute.
    ranks: Vec<IterationRow>,
}

/// Accumulated data of an iteration.
#[derive(Clone, Copy)]
struct Step {
    /// Time of its first submission.
    first: Time,
    /// Latest completion of its messages.
    last: Time,
    arrived: u64,
}

impl JobTotals {
    pub(crate) fn new(job: Job) -> JobTotals {
        JobTotals { job, steps: Vec::new(), ranks: Vec::new() }
    }

    /// Adds the times of the ranks in the next iteration.
    pub(crate) fn add_ranks(&mut self, row: IterationRow) {
        self.ranks.push(row);
    }

    /// Adds a message of an iteration.
    pub(crate) fn add(&mut self, iteration: u32, row: &FlowRow) {
        let at = iteration as usize;
        if self.steps.len() <= at {
            let none = Step { first: Time::NEVER, last: Time::ZERO, arrived: 0 };
            self.steps.resize(at + 1, none);
        }
        let step = &mut self.steps[at];
        step.first = step.first.min(row.start);
        if let Some(completed) = row.completed {
            step.last = step.last.max(completed);
            step.arrived += 1;
        }
    }

    /// Returns the summary. Iterations that began before `warmup` do not count in the times.
    pub(crate) fn summary(&self, names: &Names, warmup: Time) -> JobSummary {
        let job = &self.job;
        let steps = self.steps();
        let finished = || steps.iter().filter(|step| step.is_finished);
        let last = finished().map(|step| step.last).max();
        let is_done = finished().count() == job.iterations as usize;
        let mut times = Lifetimes::default();
        let mut max = None;
        let (mut all_ps, mut busy_ps) = (0, 0);
        let is_measured = |step: &Ended| step.is_finished && step.first >= warmup;
        for (at, step) in steps.iter().enumerate().filter(|(_, step)| is_measured(step)) {
            let time = step.last.since(step.first).as_ps();
            times.add(time);
            max = max.max(Some(time));
            if let Some(ranks) = self.ranks.get(at) {
                (all_ps, busy_ps) = (all_ps + ranks.span_ps, busy_ps + ranks.busy_ps);
            }
        }
        let micros = |ps: Option<u64>| ps.map(Fixed::millionths);
        let time =
            |step: &Ended| step.is_finished.then(|| Fixed::micros(step.last.since(step.first)));
        let listed = steps.iter().filter(|_| steps.len() <= LISTED_MAX);
        let waited = |(step, row): (&Ended, &IterationRow)| {
            share(row.span_ps, row.busy_ps).filter(|_| step.is_finished)
        };
        let [p50, p99] = times.curve().percentiles([0.5, 0.99]).map(micros);
        let mean = times.mean().filter(|_| !job.is_file);
        let algbw = mean.and_then(|mean| gbps(job.size_bytes, Span::ps(mean)));
        JobSummary {
            label: name(&names.labels, usize::from(job.label)).to_owned(),
            op: job.op.to_owned(),
            protocol: name(&names.protocols, usize::from(job.stack)).to_owned(),
            ranks: job.ranks,
            size_bytes: job.size_bytes,
            iterations: job.iterations,
            finished: finished().count() as u32,
            measured: times.known() as u32,
            completion_us: last.filter(|_| is_done).map(|at| Fixed::micros(at.since(job.start))),
            iteration_us: IterationTimes { mean: micros(times.mean()), p50, p99, max: micros(max) },
            iterations_us: listed.clone().map(time).collect(),
            communication: share(all_ps, busy_ps),
            iterations_communication: listed.zip(&self.ranks).map(waited).collect(),
            algbw_gbps: algbw,
            busbw_gbps: algbw.zip(job.bus_factor).map(|(gbps, factor)| gbps * factor),
        }
    }
    /// The iterations.
    fn steps(&self) -> Vec<Ended> {
        let Job { is_file, ranks, messages, .. } = self.job;
        // Live hosts do not record the times of ranks.
        if is_file && !self.ranks.is_empty() {
            let ended = |row: &IterationRow| {
                let IterationRow { begins, ends, .. } = *row;
                Ended { first: begins, last: ends, is_finished: row.ranks == ranks }
            };
            return self.ranks.iter().map(ended).collect();
        }
        let ended = |&Step { first, last, arrived }: &Step| {
            let is_finished = arrived == messages;
            Ended { first, last, is_finished }
        };
        self.steps.iter().map(ended).collect()
    }
}

/// An iteration that has begun.
struct Ended {
    first: Time,
    last: Time,
    is_finished: bool,
}

/// Share of a time in which ranks do not compute.
fn share(all_ps: u128, busy_ps: u128) -> Option<f64> {
    (all_ps > 0).then(|| (all_ps - busy_ps.min(all_ps)) as f64 / all_ps as f64)
}
