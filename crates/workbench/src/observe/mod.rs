//! Observes runs: a loop that runs the engine, and measures that observe it.
//!
//! A [`Measure`] is a component that is added to a run. It subscribes to packets, samples and
//! flows, and stores its results in [`Observations`], which are plain data, or in a file. `run`
//! adds the measures of its files and of the summary. `reproduce` adds, by [`Measurement`], those
//! that its metrics and plots need. A measure does not change the outcome.

mod buffers;
mod circuits;
mod delivered;
mod downlinks;
mod drive;
mod followed;
mod lasting;
mod links;
mod messages;
mod observers;
mod ports;
mod queues;
#[cfg(target_os = "linux")]
mod replay;
mod round_trips;
mod rows;
mod series;
mod slowdowns;
mod summary;
mod tables;
#[cfg(test)]
pub(crate) mod tests;
mod traces;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_core::{Feedback, PathOracle, Span, Time};
use tidegate_results::{LinkSummary, Partial, RealSummary, Summary};
use tidegate_scenario::Plan;
use tidegate_sim::{Departure, FlowRecord, Outcome, Sample};

use crate::Error;
use crate::machine::Stopwatch;

pub(crate) use buffers::{BufferTrace, EVERY};
pub(crate) use circuits::CircuitTrace;
pub(crate) use delivered::Delivered;
pub use drive::Progress;
pub(crate) use drive::{Control, adapt, build_among, drive, setup};
pub(crate) use followed::{Followed, Trajectory};
pub(crate) use lasting::Lasting;
pub(crate) use messages::Messages;
pub(crate) use ports::PortTrace;
pub(crate) use queues::QueueTrace;
#[cfg(target_os = "linux")]
pub(crate) use replay::{LiveRun, Replay};
pub(crate) use rows::RowsFile;
pub(crate) use series::SamplesFile;
pub(crate) use slowdowns::{Slowdown, quantile, sorted};
pub(crate) use summary::Summarised;
pub(crate) use tables::Shelf;
pub(crate) use traces::{FlowTrace, Traced};

/// Version of the observations; part of every cache key.
pub(crate) const VERSION: u32 = 3;

/// Results of a run. A value is empty if no measure recorded it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Observations {
    /// Digest of the simulated outcome.
    pub(crate) digest: String,
    /// Warm-up in microseconds, which is not measured.
    pub(crate) warmup_us: f64,
    /// Simulated microseconds.
    pub(crate) duration_us: f64,
    /// Interval between two points of traces and queues; zero if there are none.
    pub(crate) interval_us: f64,
    /// The content of `summary.json`.
    pub(crate) summary: Option<Summary>,
    /// Flows over time, by id.
    pub(crate) traces: Vec<FlowTrace>,
    /// Completion times by label.
    pub(crate) messages: BTreeMap<String, Messages>,
    /// Times from request to reply in closed loops, by label of the requests.
    pub(crate) exchanges: BTreeMap<String, Messages>,
    /// Round-trip times of all packets after warm-up, in microseconds; empty for protocols that do
    /// not measure them.
    pub(crate) rtt_us: Spread,
    /// Switch ports that sent packets, from warm-up to the end.
    pub(crate) links: Vec<LinkSummary>,
    /// Queues of switch ports over time, for ports that ever had a queue.
    pub(crate) queues: Vec<QueueTrace>,
    /// Slowdowns of messages, by label.
    pub(crate) slowdowns: BTreeMap<String, Vec<Slowdown>>,
    /// Slowdowns by the rule of SIRD's authors.
    pub(crate) bare_slowdowns: BTreeMap<String, Vec<Slowdown>>,
    /// Slowdowns by the rule of PowerTCP's simulator.
    #[serde(default)]
    pub(crate) acked_slowdowns: BTreeMap<String, Vec<Slowdown>>,
    /// Traffic of all hosts together.
    pub(crate) delivered: Option<Delivered>,
    /// Circuits that sent packets, in their days.
    pub(crate) circuits: Vec<CircuitTrace>,
    /// Trajectories of a model that was solved in place of packets; never cached.
    #[serde(skip)]
    pub(crate) model: Option<Followed>,
    /// Buffer occupancy of ToR switches over time, by switch.
    pub(crate) buffers: Vec<BufferTrace>,
    /// Quantiles of the queues towards a host in KB, over all hosts and times: minimum, steps of a
    /// thousandth, maximum.
    pub(crate) downlinks_kb: Vec<f32>,
    /// Buffer occupancy as means over each interval.
    #[serde(default)]
    pub(crate) mean_buffers: Vec<BufferTrace>,
    /// Quantiles of means over each interval, followed by the mean of all values.
    #[serde(default)]
    pub(crate) mean_downlinks_kb: Vec<f32>,
    /// Switch ports that sent packets, over time.
    #[serde(default)]
    pub(crate) ports: Vec<PortTrace>,
}

/// Mean, percentile, maximum.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    pub(crate) p99: Option<f64>,
    pub(crate) max: f64,
}

/// Output of a run.
#[derive(Default)]
pub(crate) struct RunOutput {
    pub(crate) seen: Observations,
    /// Files that are complete but do not have their final names.
    pub(crate) files: Vec<Partial>,
    /// Tables that are kept in memory.
    pub(crate) tables: Vec<(&'static str, Vec<u8>)>,
    /// Quality of the emulation, in live UDP mode.
    pub(crate) real: Option<RealSummary>,
    /// Why some of the files are missing.
    pub(crate) failure: Option<Error>,
}

/// A run that is about to start.
pub(crate) struct Start<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) paths: &'a dyn PathOracle,
}

/// A run that has ended.
pub(crate) struct End<'a> {
    pub(crate) plan: &'a Plan,
    /// The outcome; unfinished flows are sorted by id.
    pub(crate) outcome: &'a Outcome,
    /// Length of the drain.
    pub(crate) drained: Span,
    /// Messages that the run waited for and that are incomplete.
    pub(crate) awaited: u64,
    /// Number of threads.
    pub(crate) threads: usize,
    /// Running since the start of the run.
    pub(crate) watch: &'a Stopwatch,
    /// Quality of the emulation, in live UDP mode.
    pub(crate) real: Option<RealSummary>,
}

/// Packet-level events to which a measure subscribes. If no measure subscribes to any, the engine
/// reports none, which is faster.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Subscriptions {
    /// First delivery of payload at its receiver.
    pub(crate) delivered: bool,
    /// Feedback to senders about packets.
    pub(crate) feedback: bool,
    /// Departures of packets from ports.
    pub(crate) departed: bool,
}

/// A component that observes a run. It receives the events and samples that it subscribes to in
/// [`subscriptions`](Self::subscriptions) and [`samples_every`](Self::samples_every). Every measure
/// receives flows.
pub(crate) trait Measure: Send {
    /// Packet-level events to subscribe to.
    fn subscriptions(&self) -> Subscriptions {
        Subscriptions::default()
    }
    /// Sampling interval. The end of the measured window is sampled, too.
    fn samples_every(&self) -> Option<Span> {
        None
    }
    /// Called when the network is built. Files are opened here, so that a refused run leaves none.
    fn begin(&mut self, _start: &Start<'_>) -> Result<(), Error> {
        Ok(())
    }
    /// Called when `bytes` of payload of this flow reached the receiver.
    fn delivered(&mut self, _now: Time, _flow: u64, _bytes: u32) {}
    /// Called when the sender of this flow received feedback about a packet.
    fn feedback(&mut self, _now: Time, _flow: u64, _feedback: &Feedback) {}
    /// Called when a packet starts to leave a port.
    fn departed(&mut self, _departure: &Departure<'_>) {}
    /// Called with the state of flows and ports at `at`. Flows that ended earlier have been
    /// reported.
    fn sampled(&mut self, _plan: &Plan, _at: Time, _samples: &[Sample]) -> Result<(), Error> {
        Ok(())
    }
    /// Called for each flow that ends, by completion, then id. Unfinished flows follow at the end,
    /// by id.
    fn flow(&mut self, _plan: &Plan, _record: &FlowRecord) -> Result<(), Error> {
        Ok(())
    }
    /// Called at the end of the run.
    fn finish(self: Box<Self>, end: &End<'_>, output: &mut RunOutput) -> Result<(), Error>;
}

/// Measurements that `reproduce` can request, one measure each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Measurement {
    /// [`Observations::traces`], without windows.
    Traces,
    /// Windows in the traces.
    Windows,
    /// [`Observations::messages`].
    Messages,
    /// [`Observations::exchanges`].
    Exchanges,
    /// [`Observations::rtt_us`].
    RoundTrips,
    /// [`Observations::links`].
    Links,
    /// [`Observations::queues`].
    Queues,
    /// [`Observations::slowdowns`].
    Slowdowns,
    /// [`Observations::bare_slowdowns`].
    BareSlowdowns,
    /// [`Observations::acked_slowdowns`].
    AckedSlowdowns,
    /// [`Observations::delivered`].
    Delivered,
    /// [`Observations::circuits`].
    Circuits,
    /// [`Observations::buffers`].
    Buffers,
    /// [`Observations::downlinks_kb`].
    Downlinks,
    /// [`Observations::mean_buffers`].
    MeanBuffers,
    /// [`Observations::mean_downlinks_kb`].
    MeanDownlinks,
    /// [`Observations::ports`].
    Ports,
    /// [`Observations::summary`].
    Summary,
}

/// The measures of `parts` for a run of `plan`; those over time have samples every `interval`.
pub(crate) fn measures(
    plan: &Plan,
    parts: impl IntoIterator<Item = Measurement>,
    interval: Span,
) -> Vec<Box<dyn Measure>> {
    let parts: Vec<Measurement> = parts.into_iter().collect();
    let windows = parts.contains(&Measurement::Windows);
    let traces = windows || parts.contains(&Measurement::Traces);
    let mut measures: Vec<Box<dyn Measure>> = Vec::new();
    if traces {
        measures.push(Box::new(traces::Traces::every(interval, windows)));
    }
    for part in parts {
        match part {
            Measurement::Traces | Measurement::Windows => {}
            Measurement::Messages => measures.push(Box::<messages::Completions>::default()),
            Measurement::Exchanges => measures.push(Box::<messages::Exchanges>::default()),
            Measurement::RoundTrips => measures.push(Box::new(round_trips::RoundTrips::default())),
            Measurement::Links => measures.push(Box::new(links::Links)),
            Measurement::Queues => measures.push(Box::new(queues::Queues::every(interval))),
            Measurement::Slowdowns => measures.push(Box::<slowdowns::Slowdowns>::default()),
            Measurement::BareSlowdowns => measures.push(Box::<slowdowns::BareSlowdowns>::default()),
            Measurement::AckedSlowdowns => {
                measures.push(Box::<slowdowns::AckedSlowdowns>::default());
            }
            Measurement::Delivered => measures.push(Box::<delivered::Adder>::default()),
            Measurement::Circuits => measures.push(Box::<circuits::Circuits>::default()),
            Measurement::Buffers => measures.push(Box::<buffers::Buffers>::default()),
            Measurement::Downlinks => measures.push(Box::<downlinks::Downlinks>::default()),
            Measurement::MeanBuffers => measures.push(Box::new(buffers::Buffers::of_means())),
            Measurement::MeanDownlinks => measures.push(Box::new(downlinks::Downlinks::of_means())),
            Measurement::Ports => measures.push(Box::new(ports::Ports::every(interval))),
            Measurement::Summary => measures.push(Box::new(Summarised::new(plan))),
        }
    }
    measures
}

/// Rounds to five significant digits: enough for plots and claims.
fn round(x: f64) -> f32 {
    format!("{x:.4e}").parse().unwrap_or(0.0)
}
