//! What a run is made from.

use tidegate_algos::Stack;
use tidegate_core::fabric::{Fabric, Routing, StackTime};
use tidegate_core::faults::Faults;
use tidegate_core::workload::Workload;
use tidegate_core::{ConnectionPolicy, Span, Time};

use crate::outcome::Window;

/// What a run is made from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Hosts, switches, links.
    pub fabric: Fabric,
    /// How packets choose among equal paths.
    pub routing: Routing,
    /// Protocols and their parameters; flows name them by number.
    pub stacks: Vec<Stack>,
    /// How messages share connections.
    pub connections: ConnectionPolicy,
    /// Bandwidth-delay product in bytes; `None`: rate of the host times the fabric's largest base
    /// RTT.
    pub bdp_bytes: Option<f64>,
    /// What the hosts want to send.
    pub workload: Workload,
    /// All randomness comes from here.
    pub seed: u64,
    /// Goodput, queues and utilisation are measured until then, and nothing is submitted after it.
    pub duration: Time,
    /// That end comes before, as soon as all flows with a size and all traffic that ends by itself
    /// have finished, and warm-up is over.
    pub until_done: bool,
    /// Goodput, queues and utilisation are measured from here on.
    pub warmup: Time,
    /// So much longer messages may take to finish. Unlimited flows stop at `duration` unless this
    /// is zero.
    pub drain: Span,
    /// Weights of messages by their label where protocols tell tenants apart; 1 beyond the end.
    pub weights: Vec<u8>,
    /// What goes wrong.
    pub faults: Faults,
    /// How long hosts take with what they receive.
    pub stack_time: StackTime,
    /// Keep histograms of queues at every switch port.
    pub histograms: bool,
}

impl Setup {
    /// Messages that have to finish before the run ends by itself, if it may.
    pub(crate) fn awaited(&self) -> Option<u64> {
        let hosts = self.fabric.hosts.len() as u32;
        self.until_done.then(|| self.workload.messages(hosts))
    }

    /// When goodput, queues and utilisation are measured.
    pub(crate) fn measured(&self) -> Window {
        Window { from: self.warmup, until: self.duration }
    }
}
