//! Traces of flows over time: delivered bytes, feedback to senders, and windows.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use tidegate_core::{Feedback, Path, Span, Time};
use tidegate_scenario::Plan;
use tidegate_sim::{FlowRecord, Quantity, Sample};

use super::{End, Measure, RunOutput, Start, Subscriptions, round};
use crate::Error;

/// One flow, interval by interval. The first interval is that of its start. The last is that of its
/// completion, of later feedback to its sender, or of the end. A vector is empty if it has no value
/// for any interval.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FlowTrace {
    /// The flow.
    pub id: u64,
    /// Its label.
    pub label: String,
    /// Its start.
    pub start_us: f64,
    /// Completion or stop of the flow, if any.
    pub stop_us: Option<f64>,
    /// Index of the first interval, counted from time zero.
    pub first: usize,
    /// Payload that arrived.
    pub goodput_gbps: Vec<f32>,
    /// Mean round-trip time of the packets acknowledged.
    pub rtt_us: Vec<Option<f32>>,
    /// Mean of the packets' largest queueing delay at a hop, if the protocol uses telemetry for it.
    pub peak_us: Vec<Option<f32>>,
    /// Queueing delay that the protocol aims at for this goodput on the wire, if it has such a
    /// target; only for flows that the scenario lists.
    pub target_us: Vec<Option<f32>>,
    /// Window at the end of the interval.
    pub window_kb: Vec<Option<f32>>,
}

/// A traced quantity of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traced {
    /// [`FlowTrace::goodput_gbps`].
    Goodput,
    /// [`FlowTrace::rtt_us`].
    Rtt,
    /// [`FlowTrace::peak_us`].
    Peak,
    /// [`FlowTrace::target_us`].
    Target,
    /// [`FlowTrace::window_kb`].
    Window,
}

impl Traced {
    /// Name in the registry.
    pub fn name(self) -> &'static str {
        match self {
            Traced::Goodput => "goodput",
            Traced::Rtt => "rtt",
            Traced::Peak => "peak",
            Traced::Target => "target",
            Traced::Window => "window",
        }
    }
}

impl FlowTrace {
    /// Value in the interval `bin`, counted from time zero; `None` if it is unknown or the flow
    /// does not exist.
    pub fn at(&self, of: Traced, bin: usize) -> Option<f32> {
        let bin = bin.checked_sub(self.first)?;
        let values = match of {
            Traced::Goodput => return self.goodput_gbps.get(bin).copied(),
            Traced::Rtt => &self.rtt_us,
            Traced::Peak => &self.peak_us,
            Traced::Target => &self.target_us,
            Traced::Window => &self.window_kb,
        };
        values.get(bin).copied().flatten()
    }

    /// Goodputs in these intervals; zero where the flow does not exist.
    pub fn goodputs(&self, bins: Range<usize>) -> Vec<f32> {
        bins.map(|bin| self.at(Traced::Goodput, bin).unwrap_or(0.0)).collect()
    }
}

/// One interval of one flow.
#[derive(Clone, Copy, Default)]
struct Cell {
    bytes: u64,
    feedbacks: u32,
    rtt_us: f64,
    peak_us: f64,
    window_bytes: Option<f64>,
}

/// Recording of a running flow.
#[derive(Clone, Default)]
struct Life {
    /// Interval of the first cell.
    first: usize,
    cells: Vec<Cell>,
}

impl Life {
    fn cell(&mut self, bin: usize) -> &mut Cell {
        if self.cells.is_empty() {
            self.first = bin;
        } else if bin < self.first {
            // A packet that arrives exactly at the end of an interval belongs to the next interval,
            // but is reported before the sample at that time, which belongs to this interval.
            self.cells.splice(..0, vec![Cell::default(); self.first - bin]);
            self.first = bin;
        }
        let index = bin - self.first;
        if self.cells.len() <= index {
            self.cells.resize(index + 1, Cell::default());
        }
        &mut self.cells[index]
    }
}

/// Traces every flow. Memory grows with the lifetimes of flows divided by the interval.
pub(super) struct Traces {
    interval: Span,
    windows: bool,
    end: Time,
    /// Running flows by id.
    lives: BTreeMap<u64, Life>,
    /// Paths of the pairs of hosts that the scenario lists.
    paths: BTreeMap<(u32, u32), Path>,
    /// Stop times by flow, if the scenario lists all flows.
    stops: Vec<Time>,
    done: Vec<FlowTrace>,
}

impl Traces {
    pub(super) fn every(interval: Span, windows: bool) -> Traces {
        Traces {
            interval,
            windows,
            end: Time::ZERO,
            lives: BTreeMap::new(),
            paths: BTreeMap::new(),
            stops: Vec::new(),
            done: Vec::new(),
        }
    }

    /// The interval of a time; the last one includes its end.
    fn bin(&self, at: Time) -> usize {
        let last = (self.end.as_ps().div_ceil(self.interval.as_ps())).max(1) - 1;
        (at.as_ps() / self.interval.as_ps()).min(last) as usize
    }

    /// Length of an interval: the last is the rest of the run.
    fn span_us(&self, bin: usize) -> f64 {
        let rest = self.end.since(Time::ZERO.after(self.interval.times(bin as u64)));
        rest.min(self.interval).as_us_f64()
    }

    fn cell(&mut self, bin: usize, flow: u64) -> &mut Cell {
        self.lives.entry(flow).or_default().cell(bin)
    }

    fn trace(&self, plan: &Plan, record: &FlowRecord, mut life: Life) -> FlowTrace {
        // Ensures that the first and last intervals exist. A sample at the time of the flow's start
        // belongs to the interval before and is removed.
        let first = self.bin(record.start);
        life.cell(first);
        life.cell(self.bin(record.completed.unwrap_or(self.end)));
        life.cells.drain(..first - life.first);
        let stack = &plan.stacks[usize::from(record.stack)];
        let path = self.paths.get(&(record.src, record.dst)).map(|path| {
            let (full_wire_bytes, _) = stack.full_packet(path.mtu, path.hops);
            Path { full_wire_bytes, ..*path }
        });
        let cells = || life.cells.iter().enumerate().map(|(i, cell)| (first + i, cell));
        let mean = |sum: f64, cell: &Cell| {
            (cell.feedbacks > 0).then(|| round(sum / f64::from(cell.feedbacks)))
        };
        let target = |(bin, cell): (usize, &Cell)| {
            let path = path.as_ref().filter(|_| cell.bytes > 0)?;
            let bps = cell.bytes as f64 * 8e6 / self.span_us(bin) * f64::from(path.full_wire_bytes)
                / f64::from(path.mtu);
            Some(round(stack.operating_point(path, bps).queue_target?.as_us_f64()))
        };
        let goodput =
            |(bin, cell): (usize, &Cell)| round(cell.bytes as f64 * 8e-3 / self.span_us(bin));
        let stop = self.stops.get(record.id as usize).filter(|stop| **stop < Time::NEVER);
        FlowTrace {
            id: record.id,
            label: plan.labels.get(usize::from(record.label)).cloned().unwrap_or_default(),
            start_us: record.start.as_us_f64(),
            stop_us: record.completed.or(stop.copied()).map(Time::as_us_f64),
            first,
            goodput_gbps: cells().map(goodput).collect(),
            rtt_us: known(cells().map(|(_, cell)| mean(cell.rtt_us, cell))),
            peak_us: known(cells().map(|(_, cell)| mean(cell.peak_us, cell))),
            target_us: known(cells().map(target)),
            window_kb: known(
                cells().map(|(_, cell)| cell.window_bytes.map(|bytes| round(bytes / 1e3))),
            ),
        }
    }
}

/// An empty vector if no value is known.
fn known(values: impl Iterator<Item = Option<f32>>) -> Vec<Option<f32>> {
    let values: Vec<_> = values.collect();
    if values.iter().any(Option::is_some) { values } else { Vec::new() }
}

impl Measure for Traces {
    fn subscriptions(&self) -> Subscriptions {
        Subscriptions { delivered: true, feedback: true, departed: false }
    }

    fn samples_every(&self) -> Option<Span> {
        self.windows.then_some(self.interval)
    }

    fn begin(&mut self, start: &Start<'_>) -> Result<(), Error> {
        let workload = &start.plan.workload;
        self.end = start.plan.duration;
        for flow in &workload.flows {
            let path = || start.paths.path(flow.src, flow.dst);
            self.paths.entry((flow.src, flow.dst)).or_insert_with(path);
        }
        if workload.traffic.is_empty() {
            // Flows are numbered in the order of submission.
            let mut flows: Vec<_> = workload.flows.iter().collect();
            flows.sort_by_key(|flow| flow.start);
            self.stops = flows.into_iter().map(|flow| flow.stop).collect();
        }
        Ok(())
    }

    fn delivered(&mut self, now: Time, flow: u64, bytes: u32) {
        if now <= self.end {
            self.cell(self.bin(now), flow).bytes += u64::from(bytes);
        }
    }

    fn feedback(&mut self, now: Time, flow: u64, feedback: &Feedback) {
        if let Some(rtt) = feedback.rtt
            && now <= self.end
        {
            let cell = self.cell(self.bin(now), flow);
            cell.feedbacks += 1;
            cell.rtt_us += rtt.as_us_f64();
            cell.peak_us += feedback.peak_hop_delay.as_us_f64();
        }
    }

    fn sampled(&mut self, _plan: &Plan, at: Time, samples: &[Sample]) -> Result<(), Error> {
        let bin = self.bin(Time::ps(at.as_ps() - 1));
        for sample in samples.iter().filter(|sample| sample.quantity == Quantity::WindowBytes) {
            self.cell(bin, sample.entity).window_bytes = Some(sample.value);
        }
        Ok(())
    }

    fn flow(&mut self, plan: &Plan, record: &FlowRecord) -> Result<(), Error> {
        let life = self.lives.remove(&record.id);
        self.done.push(self.trace(plan, record, life.unwrap_or_default()));
        Ok(())
    }

    fn finish(mut self: Box<Self>, _end: &End<'_>, output: &mut RunOutput) -> Result<(), Error> {
        self.done.sort_by_key(|trace| trace.id);
        output.seen.traces = self.done;
        output.seen.interval_us = self.interval.as_us_f64();
        Ok(())
    }
}
