//! One run, watched: what the figures and claims are made from.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tidegate_core::workload::Sizes;
use tidegate_core::{Feedback, Message, Path, Time};
use tidegate_scenario::Plan;
use tidegate_sim::{Engine, FlowRecord, Outcome, Probe, Quantity, Sample};

use super::registry::Recording;
use crate::run::setup;
use crate::{Error, convert, interrupt};

/// Version of what is kept; part of every cache key.
pub(crate) const VERSION: u32 = 3;

/// Cumulative shares at which completion times are kept.
const QUANTILES: [f64; 9] = [0.5, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 1.0];
/// Steps of the cumulative distribution below its tail.
const STEPS: usize = 100;
/// Steps in which finished flows are taken from the engine.
const CHUNKS: u64 = 1000;

/// What is known of a run afterwards.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Observation {
    /// Of the simulated outcome.
    pub(crate) digest: String,
    /// Seconds from the start that do not count.
    pub(crate) warmup_us: f64,
    /// Simulated.
    pub(crate) duration_us: f64,
    /// Of the traces.
    pub(crate) interval_us: f64,
    /// Flows without end, where they were traced.
    pub(crate) flows: Vec<FlowTrace>,
    /// Completion times by label.
    pub(crate) messages: BTreeMap<String, Messages>,
    /// Round-trip times of all packets after warm-up, in microseconds; of protocols that measure
    /// none, nothing.
    pub(crate) rtt_us: Spread,
    /// Switch ports that sent anything.
    pub(crate) links: Vec<Link>,
    /// Switch ports that queued anything, where that was asked for.
    pub(crate) queues: Vec<QueueTrace>,
}

/// What a port's queue would take to drain, at the end of each interval.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct QueueTrace {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) delay_us: Vec<f32>,
}

/// One flow, interval by interval from time zero.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FlowTrace {
    pub(crate) label: String,
    pub(crate) start_us: f64,
    /// When it stopped, if it did.
    pub(crate) stop_us: Option<f64>,
    /// Payload that arrived.
    pub(crate) goodput_gbps: Vec<f32>,
    /// Mean round-trip time of the packets acknowledged.
    pub(crate) rtt_us: Vec<Option<f32>>,
    /// Mean of the largest queueing delay of a hop that they met, where the protocol has it
    /// stamped.
    pub(crate) peak_us: Vec<Option<f32>>,
    /// What the protocol aims at, at that goodput on the wire, where it aims at a queueing delay.
    pub(crate) target_us: Vec<Option<f32>>,
    /// At the interval's end.
    pub(crate) window_kb: Vec<Option<f32>>,
}

/// Messages of a label, submitted after warm-up.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Messages {
    pub(crate) count: u64,
    pub(crate) unfinished: u64,
    /// (completion time in microseconds, share of messages that took no longer).
    pub(crate) cdf: Vec<(f64, f64)>,
}

/// Mean, percentile, maximum.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    pub(crate) p99: Option<f64>,
    pub(crate) max: f64,
}

/// A switch port, from warm-up to the end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Link {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) utilization: f64,
    pub(crate) delay_us: Spread,
    pub(crate) drops: u64,
}

impl Messages {
    fn of(mut times: Vec<Time>, unfinished: u64) -> Messages {
        times.sort_unstable();
        let mut shares: Vec<f64> =
            (1..STEPS).map(|i| i as f64 / STEPS as f64).chain(QUANTILES).collect();
        shares.sort_by(f64::total_cmp);
        shares.dedup();
        let at = |share: f64| {
            // Nearest rank.
            let rank = (share * times.len() as f64).ceil().max(1.0) as usize;
            Some((times.get(rank - 1)?.as_us_f64(), share))
        };
        let cdf = shares.into_iter().filter_map(at).collect();
        Messages { count: times.len() as u64 + unfinished, unfinished, cdf }
    }

    /// The completion time that a share of the messages did not exceed.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        self.cdf.iter().find(|(_, cumulative)| *cumulative >= share - 1e-9).map(|(us, _)| *us)
    }
}

/// One interval of one flow.
#[derive(Clone, Copy, Default)]
struct Cell {
    bytes: u64,
    heard: u32,
    rtt_us: f64,
    peak_us: f64,
}

/// Watches what transports deliver and hear.
#[derive(Clone)]
struct Watch {
    interval: Time,
    bins: usize,
    warmup: Time,
    end: Time,
    /// By flow, then interval.
    cells: Vec<Vec<Cell>>,
    traces: bool,
    rtts: Vec<u32>,
}

/// Round-trip times are counted in classes of so many nanoseconds…
const RTT_CLASS_NS: u64 = 100;
/// … up to this number; longer ones are in the last.
const RTT_CLASSES: usize = 100_000;

impl Probe for Watch {
    fn delivered(&mut self, now: Time, flow: u64, bytes: u32) {
        if let Some(cell) = self.cell(now, flow) {
            cell.bytes += u64::from(bytes);
        }
    }

    fn feedback(&mut self, now: Time, flow: u64, feedback: &Feedback) {
        let Some(rtt) = feedback.rtt else { return };
        if (self.warmup..=self.end).contains(&now) {
            let class = (rtt.as_ps() / (RTT_CLASS_NS * 1_000)) as usize;
            self.rtts[class.min(RTT_CLASSES - 1)] += 1;
        }
        if let Some(cell) = self.cell(now, flow) {
            cell.heard += 1;
            cell.rtt_us += rtt.as_us_f64();
            cell.peak_us += feedback.peak_hop_delay.as_us_f64();
        }
    }
}

impl Watch {
    /// Where a flow is traced: its interval.
    fn cell(&mut self, now: Time, flow: u64) -> Option<&mut Cell> {
        if !self.traces || now > self.end {
            return None;
        }
        let flow = flow as usize;
        if self.cells.len() <= flow {
            self.cells.resize_with(flow + 1, || vec![Cell::default(); self.bins]);
        }
        let bin = ((now.as_ps() / self.interval.as_ps()) as usize).min(self.bins - 1);
        Some(&mut self.cells[flow][bin])
    }

    fn new(plan: &Plan, recording: Recording) -> Watch {
        let explicit = plan.workload.flows.iter().all(|flow| flow.bytes == Message::UNLIMITED);
        let generated = plan
            .workload
            .traffic
            .iter()
            .all(|block| block.sizes == Sizes::Fixed(Message::UNLIMITED));
        let traces = recording.trace.is_some() && explicit && generated;
        let interval = recording.trace.unwrap_or(plan.duration);
        let bins = plan.duration.as_ps().div_ceil(interval.as_ps().max(1)).max(1) as usize;
        Watch {
            interval,
            bins,
            warmup: plan.warmup,
            end: plan.duration,
            cells: Vec::new(),
            traces,
            rtts: vec![0; RTT_CLASSES],
        }
    }
}

/// What the classes of round-trip times say.
fn rtts(classes: &[u32]) -> Spread {
    let count: u64 = classes.iter().map(|&n| u64::from(n)).sum();
    if count == 0 {
        return Spread::default();
    }
    let middle = |class: usize| (class as f64 + 0.5) * RTT_CLASS_NS as f64 * 1e-3;
    let sum: f64 = classes.iter().enumerate().map(|(class, &n)| middle(class) * f64::from(n)).sum();
    let mut seen = 0;
    let below = |&n: &u32| {
        seen += u64::from(n);
        seen * 100 >= count * 99
    };
    let p99 = classes.iter().position(below).map(middle);
    let max = classes.iter().rposition(|&n| n > 0).map_or(0.0, middle);
    Spread { mean: sum / count as f64, p99, max }
}

/// Runs a plan. `is_interrupted` is asked now and then.
pub(crate) fn observe(
    plan: &Plan,
    recording: Recording,
    is_interrupted: interrupt::Asks<'_>,
) -> Result<Observation, Error> {
    let watch = Watch::new(plan, recording);
    let interval = watch.interval;
    let setup = setup(plan);
    let mut engine =
        interrupt::patiently(is_interrupted, || Engine::new(setup, watch).map_err(Error::Run))?;
    let chunk = Time::ps((plan.duration.as_ps() / CHUNKS).max(1));
    let samples_wanted = recording.windows || recording.queues;
    let step = if samples_wanted { interval } else { chunk };
    let (mut rows, mut samples) = (Vec::new(), Vec::new());
    while !engine.is_over() {
        if is_interrupted() {
            return Err(Error::Interrupted);
        }
        let measured = engine.now() < plan.duration;
        let until = engine.now().after(step);
        let until = if measured { until.min(plan.duration) } else { until };
        interrupt::advance(&mut engine, until, is_interrupted)?;
        engine.take_finished(&mut rows);
        if samples_wanted && measured {
            let mut all = Vec::new();
            engine.sample(&mut all);
            all.retain(|sample: &Sample| match sample.quantity {
                Quantity::WindowBytes => recording.windows,
                Quantity::QueueBytes => recording.queues,
                Quantity::DeliveredBytes => false,
            });
            samples.push(all);
        }
    }
    let watch = engine.probe().clone();
    let pairs: BTreeSet<(u32, u32)> =
        plan.workload.flows.iter().map(|flow| (flow.src, flow.dst)).collect();
    let paths = pairs.into_iter().map(|pair| (pair, engine.paths().path(pair.0, pair.1))).collect();
    let (finished, outcome) = engine.finish();
    rows.extend(finished);
    let windows = of_entities(&samples, Quantity::WindowBytes);
    let queues = of_entities(&samples, Quantity::QueueBytes);
    let flows = traces(plan, &watch, &outcome.unfinished, &windows, &paths);
    Ok(Observation {
        digest: format!("{:016x}", outcome.digest),
        warmup_us: plan.warmup.as_us_f64(),
        duration_us: plan.duration.as_us_f64(),
        interval_us: interval.as_us_f64(),
        rtt_us: rtts(&watch.rtts),
        flows,
        messages: messages(plan, &rows, &outcome.unfinished),
        links: links(plan, &outcome),
        queues: queue_traces(plan, &outcome, &queues),
    })
}

/// One quantity by entity, a value for each time it was sampled.
fn of_entities(samples: &[Vec<Sample>], quantity: Quantity) -> BTreeMap<u64, Vec<Option<f64>>> {
    let mut all: BTreeMap<u64, Vec<Option<f64>>> = BTreeMap::new();
    for (time, row) in samples.iter().enumerate() {
        for sample in row.iter().filter(|sample| sample.quantity == quantity) {
            let values = all.entry(sample.entity).or_insert_with(|| vec![None; samples.len()]);
            values[time] = Some(sample.value);
        }
    }
    all
}

fn queue_traces(
    plan: &Plan,
    outcome: &Outcome,
    queues: &BTreeMap<u64, Vec<Option<f64>>>,
) -> Vec<QueueTrace> {
    let used = queues.iter().filter(|(_, bytes)| bytes.iter().flatten().any(|bytes| *bytes > 0.0));
    let trace = |(port, bytes): (&u64, &Vec<Option<f64>>)| {
        let record = outcome.links.get(*port as usize)?;
        let us = |bytes: &Option<f64>| round(bytes.unwrap_or(0.0) * 8e6 / record.rate_bps as f64);
        let link = convert::link(plan, record);
        Some(QueueTrace { from: link.from, to: link.to, delay_us: bytes.iter().map(us).collect() })
    };
    used.filter_map(trace).collect()
}

fn traces(
    plan: &Plan,
    watch: &Watch,
    flows: &[FlowRecord],
    windows: &BTreeMap<u64, Vec<Option<f64>>>,
    paths: &BTreeMap<(u32, u32), Path>,
) -> Vec<FlowTrace> {
    let us = watch.interval.as_us_f64();
    // The stop of a flow is known where it was said; generated flows have none.
    let mut stops: Vec<(Time, Time)> =
        plan.workload.flows.iter().map(|flow| (flow.start, flow.stop)).collect();
    stops.sort_by_key(|(start, _)| *start);
    let trace = |flow: &FlowRecord| {
        let id = flow.id as usize;
        let none = vec![Cell::default(); watch.bins];
        let cells = watch.cells.get(id).unwrap_or(&none);
        let stop = stops
            .get(id)
            .filter(|_| plan.workload.traffic.is_empty())
            .map_or(Time::NEVER, |(_, stop)| *stop);
        let mean =
            |sum: f64, cell: &Cell| (cell.heard > 0).then(|| round(sum / f64::from(cell.heard)));
        let stack = &plan.stacks[usize::from(flow.stack)];
        let path = paths.get(&(flow.src, flow.dst)).map(|path| {
            let telemetry = stack.protocol().card().telemetry(path.hops);
            Path { full_wire_bytes: path.full_wire_bytes + telemetry, ..*path }
        });
        let target = |cell: &Cell| {
            let path = path.as_ref().filter(|_| cell.bytes > 0)?;
            let bps = cell.bytes as f64 * 8e6 / us * f64::from(path.full_wire_bytes)
                / f64::from(path.mtu);
            Some(round(stack.profile(path, bps).queue_target?.as_us_f64()))
        };
        let kb = |bytes: &Option<f64>| bytes.map(|bytes| round(bytes / 1e3));
        FlowTrace {
            label: plan.labels.get(usize::from(flow.label)).cloned().unwrap_or_default(),
            start_us: flow.start.as_us_f64(),
            stop_us: (stop < Time::NEVER).then(|| stop.as_us_f64()),
            goodput_gbps: cells.iter().map(|cell| round(cell.bytes as f64 * 8e-3 / us)).collect(),
            rtt_us: cells.iter().map(|cell| mean(cell.rtt_us, cell)).collect(),
            peak_us: cells.iter().map(|cell| mean(cell.peak_us, cell)).collect(),
            target_us: cells.iter().map(target).collect(),
            window_kb: windows.get(&flow.id).into_iter().flatten().map(kb).collect(),
        }
    };
    if watch.traces { flows.iter().map(trace).collect() } else { Vec::new() }
}

/// Five significant digits: all that a plot or a claim can use.
fn round(x: f64) -> f32 {
    format!("{x:.4e}").parse().unwrap_or(0.0)
}

fn messages(
    plan: &Plan,
    finished: &[FlowRecord],
    unfinished: &[FlowRecord],
) -> BTreeMap<String, Messages> {
    let mut by_label: BTreeMap<String, (Vec<Time>, u64)> = BTreeMap::new();
    for record in finished.iter().chain(unfinished) {
        if record.bytes == Message::UNLIMITED || record.start < plan.warmup {
            continue;
        }
        let label = plan.labels.get(usize::from(record.label)).cloned().unwrap_or_default();
        let (times, open) = by_label.entry(label).or_default();
        match record.completed {
            Some(at) => times.push(at.since(record.start)),
            None => *open += 1,
        }
    }
    by_label.into_iter().map(|(label, (times, open))| (label, Messages::of(times, open))).collect()
}

fn links(plan: &Plan, outcome: &Outcome) -> Vec<Link> {
    let summaries = outcome.links.iter().map(|record| convert::link(plan, record));
    let sent = summaries.filter(|link| !link.from_host && link.utilization.unwrap_or(0.0) > 0.0);
    let link = sent.map(|link| {
        let delay = &link.queue_delay_us;
        let us = |fixed: Option<tidegate_results::Fixed>| fixed.map(|fixed| fixed.as_f64());
        Link {
            utilization: link.utilization.unwrap_or(0.0),
            delay_us: Spread {
                mean: us(delay.mean).unwrap_or(0.0),
                p99: us(delay.p99),
                max: us(delay.max).unwrap_or(0.0),
            },
            drops: link.drops,
            from: link.from,
            to: link.to,
        }
    });
    link.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_nearest_rank() {
        let messages = Messages::of((1..=1000).rev().map(Time::us).collect(), 5);
        assert_eq!((messages.count, messages.unfinished), (1005, 5));
        let at = [0.5, 0.99, 0.999, 1.0].map(|share| messages.quantile(share).unwrap());
        assert_eq!(at, [500.0, 990.0, 999.0, 1000.0]);
        assert_eq!(Messages::of(Vec::new(), 1).quantile(0.5), None);
    }
}
