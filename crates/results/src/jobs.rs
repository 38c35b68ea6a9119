//! Collectives: how long their iterations take, from the messages that they are made of.

use serde::{Deserialize, Serialize};
use tidegate_core::{Span, Time};

use crate::fixed::Fixed;
use crate::groups::gbps;
use crate::recorder::{FlowRow, Names, name};
use crate::survival::Lifetimes;

/// A collective of the scenario.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Number of its label.
    pub label: u16,
    /// Number of its stack.
    pub stack: u16,
    /// What is done, as scenarios say it.
    pub op: &'static str,
    /// How many ranks take part.
    pub ranks: u32,
    /// Data of a rank.
    pub size_bytes: u64,
    /// How often it is to be done.
    pub iterations: u32,
    /// Messages of an iteration.
    pub messages: u64,
    /// Bus bandwidth over algorithm bandwidth, where that is defined.
    pub bus_factor: Option<f64>,
    /// When it begins.
    pub start: Time,
}

/// An iteration of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRow {
    /// Number of the collective.
    pub job: u32,
    /// Number of the iteration.
    pub iteration: u32,
}

/// A collective in numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSummary {
    /// As the scenario labels it; may be empty.
    pub label: String,
    /// What is done.
    pub op: String,
    /// Its protocol.
    pub protocol: String,
    /// How many ranks take part.
    pub ranks: u32,
    /// Data of a rank, as nccl-tests count it.
    pub size_bytes: u64,
    /// How often it is to be done.
    pub iterations: u32,
    /// Iterations of which every message arrived.
    pub finished: u32,
    /// Those of them that began after warm-up: so many are behind the times below.
    pub measured: u32,
    /// From its start to the last byte of its last iteration; null where that did not finish.
    pub completion_us: Option<Fixed>,
    /// From the first message of an iteration to its last byte.
    pub iteration_us: IterationTimes,
    /// The same of each iteration in turn, those before warm-up too, where they are not more than
    /// 1,000; null of those that did not finish.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iterations_us: Vec<Option<Fixed>>,
    /// Data of a rank over the mean time of an iteration.
    pub algbw_gbps: Option<f64>,
    /// That times the share of it that the links of the ranks carry at least, as nccl-tests have
    /// it; null of chains, too.
    pub busbw_gbps: Option<f64>,
}

/// How long iterations take.
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

/// Of more iterations than that, a summary does not list the times.
const LISTED_MAX: usize = 1_000;

/// What is kept of a collective.
pub(crate) struct Tally {
    job: Job,
    /// By iteration.
    steps: Vec<Step>,
}

/// What is kept of an iteration.
#[derive(Clone, Copy)]
struct Step {
    /// When its first message was submitted.
    first: Time,
    /// When the last that has arrived did.
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

    /// Iterations that began before `warmup` have no part in the times.
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
