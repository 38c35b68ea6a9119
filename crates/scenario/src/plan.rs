//! The plan: a validated scenario.

use core::fmt;

use tidegate_algos::Stack;
use tidegate_core::fabric::{Fabric, Routing, StackTime};
use tidegate_core::faults::Faults;
use tidegate_core::workload::Workload;
use tidegate_core::{ConnectionPolicy, Span, Time};

/// A validated scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Name of the run.
    pub name: String,
    /// Seed of all random numbers.
    pub seed: u64,
    /// End of the simulated time and of the measured window.
    pub duration: Time,
    /// Whether the run ends before `duration` when all flows with a size and all finite traffic are
    /// complete.
    pub until_done: bool,
    /// Start of the measured window.
    pub warmup: Time,
    /// Longest time after `duration` in which messages may complete; no new messages are submitted.
    pub drain: Span,
    /// Hosts, switches, links.
    pub fabric: Fabric,
    /// Routing among equal paths.
    pub routing: Routing,
    /// The distinct (protocol, parameters) pairs in use; flows name them by number.
    pub stacks: Vec<Stack>,
    /// Labels of flows; flows name them by number. The first is "" (unlabelled).
    pub labels: Vec<String>,
    /// Weight of the messages of each label, under protocols that share links by weight; empty if
    /// all are equal.
    pub weights: Vec<u8>,
    /// How messages share connections.
    pub connections: ConnectionPolicy,
    /// Bandwidth-delay product in bytes, if the scenario sets it.
    pub bdp_bytes: Option<f64>,
    /// Flows and traffic of the hosts.
    pub workload: Workload,
    /// Injected faults.
    pub faults: Faults,
    /// Processing time of received packets.
    pub stack_time: StackTime,
    /// Recorded results.
    pub output: Output,
    /// Warnings of settings that are allowed but probably unintended, such as a protocol outside
    /// its design range.
    pub warnings: Vec<String>,
    /// The complete scenario in JSON. Loading it gives the same plan.
    pub resolved: serde_json::Value,
}

/// Recorded results.
#[derive(Clone, PartialEq)]
pub struct Output {
    /// Whether to record histograms of the queue at every switch port; `None`: the number of ports
    /// decides.
    pub histograms: Option<bool>,
    /// Interval of the time series, if any.
    pub timeseries: Option<Span>,
    /// Recorded quantities: names of [`QUANTITIES`], in that order.
    pub quantities: Vec<&'static str>,
    /// Recorded directions of links; `None`: all. 2i and 2i + 1 are the directions of link i.
    pub ports: Option<Vec<u32>>,
    /// Messages whose completion times count.
    pub messages: Counted,
}

/// Which messages completion times are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counted {
    /// Those submitted from warm-up on, whether they finish or not.
    #[default]
    Submitted,
    /// Those that complete between warm-up and the end, whenever they were submitted.
    Completed,
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Output { histograms, timeseries, quantities, ports, messages } = self;
        let mut shown = f.debug_struct("Output");
        shown.field("histograms", histograms).field("timeseries", timeseries);
        shown.field("quantities", quantities).field("ports", ports);
        // A later field is named only if it is not the default, so that hashes of plans stay.
        if *messages != Counted::default() {
            shown.field("messages", messages);
        }
        shown.finish()
    }
}

/// Quantities of time series, and whether each is recorded by default.
pub const QUANTITIES: [(&str, bool); 7] = [
    ("delivered_bytes", true),
    ("goodput_gbps", true),
    ("window_bytes", true),
    ("queue_bytes", true),
    ("mean_queue_bytes", false),
    ("sent_gbps", false),
    ("paused_us", true),
];
