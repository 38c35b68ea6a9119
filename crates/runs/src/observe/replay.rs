//! Replays a testbed's run to measures, in the order of time.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::{PathOracle, Span, Time};
use tidegate_results::RealSummary;
use tidegate_scenario::Plan;
use tidegate_sim::{Delivery, FlowRecord, Outcome, Quantity, Sample};

use super::observers::Measures;
use super::{End, Measure, RunOutput, Start};
use crate::Error;
use crate::machine::Stopwatch;

/// Measures that wait for the replay.
pub struct Replay<'a> {
    plan: &'a Plan,
    measures: Measures,
}

/// Recording of a testbed's run.
pub struct LiveRun<'a> {
    /// The outcome.
    pub outcome: Outcome,
    /// Deliveries by time.
    pub deliveries: Vec<Delivery>,
    /// Bytes queued at ports, by sampling time.
    pub queues: BTreeMap<Time, Vec<(u64, u32)>>,
    /// Length of the drain.
    pub drained: Span,
    /// Quality of the emulation.
    pub real: RealSummary,
    /// Running since the start of the run.
    pub watch: &'a Stopwatch,
}

impl<'a> Replay<'a> {
    /// Prepares the measures.
    pub fn new(
        plan: &'a Plan,
        paths: &dyn PathOracle,
        measures: Vec<Box<dyn Measure>>,
    ) -> Result<Replay<'a>, Error> {
        let mut measures = Measures::new(measures);
        measures.begin(&Start { plan, paths })?;
        Ok(Replay { plan, measures })
    }

    /// Times at which samples have to be taken.
    pub fn sample_times(&self) -> BTreeSet<Time> {
        self.measures.sample_times(self.plan)
    }

    /// Replays the recording to the measures. Of the packet-level events, only deliveries are
    /// available.
    pub fn run(mut self, live: LiveRun<'_>) -> Result<RunOutput, Error> {
        let Replay { plan, measures } = &mut self;
        let LiveRun { mut outcome, deliveries, queues, drained, real, watch } = live;
        let mut finished = std::mem::take(&mut outcome.finished).into_iter().peekable();
        let mut deliveries = deliveries.into_iter().peekable();
        let mut running = Running::of(finished.clone().chain(outcome.unfinished.iter().copied()));
        for (at, queues) in queues {
            while let Some(of) = deliveries.next_if(|of| of.at <= at) {
                measures.delivered(of.at, of.flow, of.bytes);
                running.add(&of);
            }
            while let Some(record) = finished.next_if(|of| of.completed.is_some_and(|t| t <= at)) {
                running.end(at, record.id);
                measures.flows(plan, [record])?;
            }
            let mut samples = running.samples(at);
            let queue = |(entity, bytes): (u64, u32)| Sample {
                at,
                entity,
                quantity: Quantity::QueueBytes,
                value: f64::from(bytes),
            };
            samples.extend(queues.into_iter().map(queue));
            measures.sampled(plan, at, &samples)?;
        }
        deliveries.for_each(|of| measures.delivered(of.at, of.flow, of.bytes));
        measures.flows(plan, finished)?;
        measures.flows(plan, outcome.unfinished.iter().copied())?;
        let mut output = RunOutput::default();
        output.seen.digest = format!("{:016x}", outcome.digest);
        output.seen.warmup_us = plan.warmup.as_us_f64();
        output.seen.duration_us = plan.duration.as_us_f64();
        output.real = Some(real.clone());
        let (outcome, real) = (&outcome, Some(real));
        measures.finish(
            &End { plan, outcome, drained, awaited: 0, threads: 1, watch, real },
            &mut output,
        )?;
        Ok(output)
    }
}

/// Bytes that the running flows have delivered.
struct Running {
    /// Flows that have not started, the last first.
    to_come: Vec<(Time, u64)>,
    /// Delivered bytes by id.
    delivered: BTreeMap<u64, u64>,
}

impl Running {
    fn of(records: impl Iterator<Item = FlowRecord>) -> Running {
        let mut to_come: Vec<_> = records.map(|record| (record.start, record.id)).collect();
        to_come.sort_unstable_by(|a, b| b.cmp(a));
        Running { to_come, delivered: BTreeMap::new() }
    }

    fn begin(&mut self, until: Time) {
        while let Some((_, id)) = self.to_come.pop_if(|(start, _)| *start <= until) {
            self.delivered.entry(id).or_insert(0);
        }
    }

    fn add(&mut self, of: &Delivery) {
        self.begin(of.at);
        if let Some(bytes) = self.delivered.get_mut(&of.flow) {
            *bytes += u64::from(of.bytes);
        }
    }

    fn end(&mut self, by: Time, id: u64) {
        self.begin(by);
        self.delivered.remove(&id);
    }

    fn samples(&mut self, at: Time) -> Vec<Sample> {
        self.begin(at);
        let all = self.delivered.iter();
        all.map(|(&entity, &bytes)| Sample {
            at,
            entity,
            quantity: Quantity::DeliveredBytes,
            value: bytes as f64,
        })
        .collect()
    }
}
