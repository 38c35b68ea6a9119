//! A validated scenario: nothing in it can be wrong any more.

use core::fmt;

use tidegate_algos::Stack;
use tidegate_core::fabric::{Fabric, Routing, StackTime};
use tidegate_core::faults::Faults;
use tidegate_core::workload::Workload;
use tidegate_core::{ConnectionPolicy, Span, Time};

/// A validated scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What the file calls itself.
    pub name: String,
    /// All randomness comes from here.
    pub seed: u64,
    /// Until when is simulated and measured.
    pub duration: Time,
    /// Or until all flows with a size and all traffic that ends by itself have finished, if that is
    /// before.
    pub until_done: bool,
    /// Measurements leave out what happens before this.
    pub warmup: Time,
    /// So much longer than `duration` messages may take to finish, with no new ones.
    pub drain: Span,
    /// Hosts, switches, links.
    pub fabric: Fabric,
    /// How packets choose among equal paths.
    pub routing: Routing,
    /// The distinct (protocol, parameters) pairs in use; flows name them by number.
    pub stacks: Vec<Stack>,
    /// Labels of flows; flows name them by number. The first is "" (unlabelled).
    pub labels: Vec<String>,
    /// What messages of each label count where protocols tell tenants apart; empty: all the same.
    pub weights: Vec<u8>,
    /// How messages share connections.
    pub connections: ConnectionPolicy,
    /// Bandwidth-delay product in bytes where the scenario sets it.
    pub bdp_bytes: Option<f64>,
    /// What the hosts want to send.
    pub workload: Workload,
    /// What goes wrong.
    pub faults: Faults,
    /// How long hosts take with what they receive.
    pub stack_time: StackTime,
    /// What is recorded.
    pub output: Output,
    /// Things that are allowed but probably not meant (a protocol outside its domain, say).
    pub warnings: Vec<String>,
    /// The scenario as a file with nothing left out, in JSON: loading it again gives the same plan.
    pub resolved: serde_json::Value,
}

/// What is recorded.
#[derive(Clone, PartialEq)]
pub struct Output {
    /// Histograms of queues at every switch port: `None` decides by the number of ports.
    pub histograms: Option<bool>,
    /// Interval of the time series, if any.
    pub timeseries: Option<Span>,
    /// What they are of: names of [`QUANTITIES`], in that order.
    pub quantities: Vec<&'static str>,
    /// Directions of links that they are of, where not all of them: 2i and 2i + 1 are those of link
    /// i.
    pub ports: Option<Vec<u32>>,
    /// Whose completion times count.
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
        // What came later is named where it is not the default: hashes of plans stay as they were.
        if *messages != Counted::default() {
            shown.field("messages", messages);
        }
        shown.finish()
    }
}

/// What time series are of; what they are of unless the scenario says so.
pub const QUANTITIES: [(&str, bool); 7] = [
    ("delivered_bytes", true),
    ("goodput_gbps", true),
    ("window_bytes", true),
    ("queue_bytes", true),
    ("mean_queue_bytes", false),
    ("sent_gbps", false),
    ("paused_us", true),
];
