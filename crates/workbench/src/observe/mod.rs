//! What a run is seen to do: one loop that runs it, and measures that listen to it.
//!
//! A [`Measure`] is a part that is added to a run. It hears of packets, samples and flows as far as
//! it asks to, and leaves what it made of them: in [`Observations`], which are plain data, or in a
//! file. `run` adds those of its files and of the summary; `reproduce` adds, by [`Measurement`],
//! what its metrics and plots ask for. A measure changes no outcome.

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
pub(crate) use replay::{Acted, Audience};
pub(crate) use rows::RowsFile;
pub(crate) use series::SamplesFile;
pub(crate) use slowdowns::{Slowdown, quantile, sorted};
pub(crate) use summary::Summarised;
pub(crate) use tables::Shelf;
pub(crate) use traces::{FlowTrace, Traced};

/// Version of what is made of a run; part of every key under which that is kept.
pub(crate) const VERSION: u32 = 3;

/// What is known of a run afterwards. What no measure was there for is empty.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Observations {
    /// Of the simulated outcome.
    pub(crate) digest: String,
    /// Microseconds from the start that do not count.
    pub(crate) warmup_us: f64,
    /// Simulated.
    pub(crate) duration_us: f64,
    /// Between two points of traces, of flows and of queues; zero where there are none.
    pub(crate) interval_us: f64,
    /// All that `summary.json` says.
    pub(crate) summary: Option<Summary>,
    /// Flows over time, by id.
    pub(crate) traces: Vec<FlowTrace>,
    /// Completion times by label.
    pub(crate) messages: BTreeMap<String, Messages>,
    /// Times from request to reply in closed loops, by the label of requests.
    pub(crate) exchanges: BTreeMap<String, Messages>,
    /// Round-trip times of all packets after warm-up, in microseconds; of protocols that measure
    /// none, nothing.
    pub(crate) rtt_us: Spread,
    /// Switch ports that sent anything, from warm-up to the end.
    pub(crate) links: Vec<LinkSummary>,
    /// Switch ports that queued anything, over time.
    pub(crate) queues: Vec<QueueTrace>,
    /// Of messages, by label.
    pub(crate) slowdowns: BTreeMap<String, Vec<Slowdown>>,
    /// The same by another rule, that of SIRD's authors.
    pub(crate) bare_slowdowns: BTreeMap<String, Vec<Slowdown>>,
    /// The same by the rule of PowerTCP's simulator.
    #[serde(default)]
    pub(crate) acked_slowdowns: BTreeMap<String, Vec<Slowdown>>,
    /// Of all hosts together.
    pub(crate) delivered: Option<Delivered>,
    /// Circuits that sent anything, in their days.
    pub(crate) circuits: Vec<CircuitTrace>,
    /// What was followed in the place of packets; nothing of that is kept.
    #[serde(skip)]
    pub(crate) model: Option<Followed>,
    /// What the switches of racks held over time, by switch.
    pub(crate) buffers: Vec<BufferTrace>,
    /// What waited for a host in KB, over all of them and time: its least, what a thousandth of the
    /// samples does not exceed, and so on to its most.
    pub(crate) downlinks_kb: Vec<f32>,
    /// The same of means over each interval, in the place of what is queued at its end.
    #[serde(default)]
    pub(crate) mean_buffers: Vec<BufferTrace>,
    /// Likewise, and the mean of all behind the most.
    #[serde(default)]
    pub(crate) mean_downlinks_kb: Vec<f32>,
    /// Switch ports that sent anything, over time.
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

/// What a run leaves.
#[derive(Default)]
pub(crate) struct Left {
    pub(crate) seen: Observations,
    /// Complete but for their names.
    pub(crate) files: Vec<Partial>,
    /// Files that are in memory alone.
    pub(crate) tables: Vec<(&'static str, Vec<u8>)>,
    /// Where packets were real: what is behind the numbers.
    pub(crate) real: Option<RealSummary>,
    /// Why some of the files are missing.
    pub(crate) failure: Option<Error>,
}

/// A run that is about to begin.
pub(crate) struct Start<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) paths: &'a dyn PathOracle,
}

/// A run that is over.
pub(crate) struct End<'a> {
    pub(crate) plan: &'a Plan,
    /// Its unfinished flows stand by id.
    pub(crate) outcome: &'a Outcome,
    /// How long it went on after its duration.
    pub(crate) drained: Span,
    /// Messages that it waited for and that had not finished.
    pub(crate) awaited: u64,
    /// On so many threads.
    pub(crate) threads: usize,
    /// Running since it was asked for.
    pub(crate) watch: &'a Stopwatch,
    /// Where packets were real: what is behind the numbers.
    pub(crate) real: Option<RealSummary>,
}

/// Events inside the engine that a measure hears of. Where none hears of any, the engine tells
/// none, which is faster.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hears {
    /// Payload that reached its receiver for the first time.
    pub(crate) delivered: bool,
    /// What senders learn of packets.
    pub(crate) feedback: bool,
    /// Packets that leave a port.
    pub(crate) departed: bool,
}

/// A part of what is observed of a run. It hears what it asks for in [`hears`](Self::hears) and
/// [`samples_every`](Self::samples_every); of flows every measure hears.
pub(crate) trait Measure: Send {
    /// Events that it hears of.
    fn hears(&self) -> Hears {
        Hears::default()
    }
    /// How often it is given samples; they are also taken at the end of what is measured.
    fn samples_every(&self) -> Option<Span> {
        None
    }
    /// The network is built. Files are opened here, so that a run that is refused leaves none.
    fn begin(&mut self, _start: &Start<'_>) -> Result<(), Error> {
        Ok(())
    }
    /// `bytes` of payload of this flow reached their receiver.
    fn delivered(&mut self, _now: Time, _flow: u64, _bytes: u32) {}
    /// The sender of this flow has heard of a packet.
    fn feedback(&mut self, _now: Time, _flow: u64, _feedback: &Feedback) {}
    /// A packet starts to leave a port.
    fn departed(&mut self, _departure: &Departure<'_>) {}
    /// Flows and ports as they are at `at`. Flows that ended before are known by then.
    fn sampled(&mut self, _plan: &Plan, _at: Time, _samples: &[Sample]) -> Result<(), Error> {
        Ok(())
    }
    /// A flow is done: by completion, then id. Those that are not when the run ends follow by id.
    fn flow(&mut self, _plan: &Plan, _record: &FlowRecord) -> Result<(), Error> {
        Ok(())
    }
    /// The run is over.
    fn finish(self: Box<Self>, end: &End<'_>, left: &mut Left) -> Result<(), Error>;
}

/// What `reproduce` can ask to be observed, a measure each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Measurement {
    /// [`Observations::traces`], but for windows.
    Traces,
    /// Windows in them.
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

/// The measures of `parts` for a run of `plan`; those over time look every `interval`.
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

/// Five significant digits: all that a plot or a claim can use.
fn round(x: f64) -> f32 {
    format!("{x:.4e}").parse().unwrap_or(0.0)
}
