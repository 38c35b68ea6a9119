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
mod fallible;
mod followed;
mod links;
mod live;
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
mod tests;
mod threads;
mod traces;
mod unfinished;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_core::{Feedback, PathOracle, Span, Time};
use tidegate_results::{LinkSummary, Partial, RealSummary, Summary};
use tidegate_scenario::Plan;
use tidegate_sim::{Departure, FlowRecord, Outcome, Sample};

use crate::Error;
use crate::machine::Stopwatch;

pub use buffers::{BufferTrace, EVERY};
pub use circuits::CircuitTrace;
pub use delivered::Delivered;
pub use drive::Progress;
pub use drive::{Control, adapt, build_among, drive};
pub use fallible::FallibleMeasure;
pub use followed::{Followed, Trajectory};
pub use live::LiveFile;
pub use messages::Messages;
pub use ports::PortTrace;
pub use queues::QueueTrace;
#[cfg(target_os = "linux")]
pub use replay::{LiveRun, Replay};
pub use rows::RowsFile;
pub use series::SamplesFile;
pub use slowdowns::{Slowdown, quantile, sorted};
pub use summary::Summarised;
pub use tables::TableDestination;
pub use traces::{FlowTrace, Traced};

/// Version of the observations; part of every cache key.
pub const VERSION: u32 = 3;

/// Results of a run. A value is empty if no measure recorded it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Observations {
    /// Digest of the simulated outcome.
    pub digest: String,
    /// Warm-up in microseconds, which is not measured.
    pub warmup_us: f64,
    /// Simulated microseconds.
    pub duration_us: f64,
    /// Interval between two points of traces and queues; zero if there are none.
    pub interval_us: f64,
    /// The content of `summary.json`.
    pub summary: Option<Summary>,
    /// Flows over time, by id.
    pub traces: Vec<FlowTrace>,
    /// Completion times by label.
    pub messages: BTreeMap<String, Messages>,
    /// Times from request to reply in closed loops, by label of the requests.
    pub exchanges: BTreeMap<String, Messages>,
    /// Round-trip times of all packets after warm-up, in microseconds; empty for protocols that do
    /// not measure them.
    pub rtt_us: Spread,
    /// Switch ports that sent packets, from warm-up to the end.
    pub links: Vec<LinkSummary>,
    /// Queues of switch ports over time, for ports that ever had a queue.
    pub queues: Vec<QueueTrace>,
    /// Slowdowns of messages, by label.
    pub slowdowns: BTreeMap<String, Vec<Slowdown>>,
    /// Slowdowns by the rule of SIRD's authors.
    pub bare_slowdowns: BTreeMap<String, Vec<Slowdown>>,
    /// Slowdowns by the rule of PowerTCP's simulator.
    #[serde(default)]
    pub acked_slowdowns: BTreeMap<String, Vec<Slowdown>>,
    /// Traffic of all hosts together.
    pub delivered: Option<Delivered>,
    /// Circuits that sent packets, in their days.
    pub circuits: Vec<CircuitTrace>,
    /// Trajectories of a model that was solved in place of packets; never cached.
    #[serde(skip)]
    pub model: Option<Followed>,
    /// Buffer occupancy of ToR switches over time, by switch.
    pub buffers: Vec<BufferTrace>,
    /// Quantiles of the queues towards a host in KB, over all hosts and times: minimum, steps of a
    /// thousandth, maximum.
    pub downlinks_kb: Vec<f32>,
    /// Buffer occupancy as means over each interval.
    #[serde(default)]
    pub mean_buffers: Vec<BufferTrace>,
    /// Quantiles of means over each interval, followed by the mean of all values.
    #[serde(default)]
    pub mean_downlinks_kb: Vec<f32>,
    /// Switch ports that sent packets, over time.
    #[serde(default)]
    pub ports: Vec<PortTrace>,
    /// Buffer occupancy of switches without hosts over time, by switch.
    #[serde(default)]
    pub core_buffers: Vec<BufferTrace>,
    /// Slowdowns by the rule of PowerTCP's simulator, of messages over the longest paths.
    #[serde(default)]
    pub far_slowdowns: BTreeMap<String, Vec<Slowdown>>,
}

/// Mean, percentile, maximum.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// 99th percentile; none if there are no values.
    pub p99: Option<f64>,
    /// Maximum.
    pub max: f64,
}

/// Output of a run.
#[derive(Default)]
pub struct RunOutput {
    /// Data that the measures recorded.
    pub seen: Observations,
    /// Files that are complete but do not have their final names.
    pub files: Vec<Partial>,
    /// Tables that are kept in memory.
    pub tables: Vec<(&'static str, Vec<u8>)>,
    /// Quality of the emulation, in live UDP mode.
    pub real: Option<RealSummary>,
    /// Why some of the files are missing.
    pub failure: Option<Error>,
}

/// A run that is about to start.
pub struct Start<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Paths between hosts.
    pub paths: &'a dyn PathOracle,
}

/// A run that has ended.
pub struct End<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The outcome; unfinished flows are sorted by id.
    pub outcome: &'a Outcome,
    /// Length of the drain.
    pub drained: Span,
    /// Messages that the run waited for and that are incomplete.
    pub awaited: u64,
    /// Number of threads.
    pub threads: usize,
    /// Running since the start of the run.
    pub watch: &'a Stopwatch,
    /// Quality of the emulation, in live UDP mode.
    pub real: Option<RealSummary>,
}

/// Packet-level events to which a measure subscribes. If no measure subscribes to any, the engine
/// reports none, which is faster.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subscriptions {
    /// First delivery of payload at its receiver.
    pub delivered: bool,
    /// Feedback to senders about packets.
    pub feedback: bool,
    /// Departures of packets from ports.
    pub departed: bool,
}

/// A component that observes a run. It receives the events and samples that it subscribes to in
/// [`subscriptions`](Self::subscriptions) and [`samples_every`](Self::samples_every). Every measure
/// receives flows.
pub trait Measure: Send {
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
pub enum Measurement {
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
    /// [`Observations::core_buffers`].
    CoreBuffers,
    /// [`Observations::far_slowdowns`].
    FarSlowdowns,
    /// [`Observations::summary`].
    Summary,
}

/// The measures of `parts` for a run of `plan`; those over time have samples every `interval`.
pub fn measures(
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
            Measurement::FarSlowdowns => measures.push(Box::<slowdowns::FarSlowdowns>::default()),
            Measurement::CoreBuffers => measures.push(Box::new(buffers::Buffers::of_core())),
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
