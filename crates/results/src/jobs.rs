//! Collectives: times of their iterations, computed from the rows of their messages.

use serde::{Deserialize, Serialize};
use tidegate_core::{Span, Time};

use crate::fixed::Fixed;
use crate::rows::{FlowRow, Names, gbps, name};
use crate::survival::Lifetimes;

/// A collective of the scenario.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Number of its label.
    pub label: u16,
    /// Number of its stack.
    pub stack: u16,
    /// Operation: the value of the key `op`.
    pub op: &'static str,
    /// Number of ranks.
    pub ranks: u32,
    /// Data of a rank.
    pub size_bytes: u64,
    /// Number of iterations in the scenario.
    pub iterations: u32,
    /// Number of messages of an iteration.
    pub messages: u64,
    /// Bus bandwidth over algorithm bandwidth, if defined.
    pub bus_factor: Option<f64>,
    /// Start time.
    pub start: Time,
}

/// Summary of a collective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSummary {
    /// Label in the scenario; may be empty.
    pub label: String,
    /// Operation.
    pub op: String,
    /// Protocol.
    pub protocol: String,
    /// Number of ranks.
    pub ranks: u32,
    /// Data of a rank, as nccl-tests counts it.
    pub size_bytes: u64,
    /// Number of iterations in the scenario.
    pub iterations: u32,
    /// Iterations whose messages have all arrived.
    pub finished: u32,
    /// Finished iterations that began after warm-up, over which the times below are taken.
    pub measured: u32,
    /// Time from its start to the last byte of its last iteration; null if not all iterations
    /// finished.
    pub completion_us: Option<Fixed>,
    /// Time from the first submission of an iteration to its last byte.
    pub iteration_us: IterationTimes,
    /// Time of each iteration in order, including those before warm-up, if there are at most 1,000;
    /// null for unfinished iterations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iterations_us: Vec<Option<Fixed>>,
    /// Data of a rank over the mean time of an iteration.
    pub algbw_gbps: Option<f64>,
    /// Bus bandwidth: `algbw_gbps` times the factor of nccl-tests, which is the least traffic of a
    /// rank's link per byte of data; null for chains.
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

/// Accumulated data of a collective.
pub(crate) struct Tally {
    job: Job,
    /// Data by iteration.
    steps: Vec<Step>,
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

impl Tally {
    pub(crate) fn new(job: Job) -> Tally {
        Tally { job, steps: Vec::new() }
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
        let finished = || self.steps.iter().filter(|step| step.arrived == job.messages);
        let last = finished().map(|step| step.last).max();
        let is_done = finished().count() == job.iterations as usize;
        let mut times = Lifetimes::default();
        let mut max = None;
        for step in finished().filter(|step| step.first >= warmup) {
            let time = step.last.since(step.first).as_ps();
            times.add(time);
            max = max.max(Some(time));
        }
        let micros = |ps: Option<u64>| ps.map(Fixed::millionths);
        let time = |step: &Step| {
            (step.arrived == job.messages).then(|| Fixed::micros(step.last.since(step.first)))
        };
        let listed = self.steps.iter().filter(|_| self.steps.len() <= LISTED_MAX);
        let [p50, p99] = times.curve().percentiles([0.5, 0.99]).map(micros);
        let algbw = times.mean().and_then(|mean| gbps(job.size_bytes, Span::ps(mean)));
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
            iterations_us: listed.map(time).collect(),
            algbw_gbps: algbw,
            busbw_gbps: algbw.zip(job.bus_factor).map(|(gbps, factor)| gbps * factor),
        }
    }
}
