//! The inputs of a run.

use alloc::vec::Vec;

use tidegate_core::fabric::{Fabric, Routing, StackTime};
use tidegate_core::faults::Faults;
use tidegate_core::workload::Workload;
use tidegate_core::{ConnectionPolicy, HEADER_BYTES, MIN_WIRE_BYTES, PacketSizes, Span, Time};

use crate::Stack;

/// Everything that decides the outcome of a run. Plans of scenarios contain it, and the engine runs
/// it.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Hosts, switches, links.
    pub fabric: Fabric,
    /// Policy by which packets choose among equal paths.
    pub routing: Routing,
    /// Distinct pairs of a protocol and its parameters. Flows refer to them by index.
    pub stacks: Vec<Stack>,
    /// Policy by which messages share connections.
    pub connections: ConnectionPolicy,
    /// Bandwidth-delay product in bytes. `None`: rate of the host times the fabric's largest base
    /// RTT.
    pub bdp_bytes: Option<f64>,
    /// Messages that the hosts send.
    pub workload: Workload,
    /// Seed of all random streams.
    pub seed: u64,
    /// End of the measured window. Nothing is submitted after it.
    pub duration: Time,
    /// Whether the measured window ends when all flows with a size and all finite traffic are
    /// complete and warm-up is over.
    pub until_done: bool,
    /// Start of the measured window.
    pub warmup: Time,
    /// Additional time in which messages may complete. Unlimited flows stop at `duration` unless
    /// this is zero.
    pub drain: Span,
    /// Weights of messages by label, for protocols that distinguish tenants. 1 for labels beyond
    /// the end.
    pub weights: Vec<u8>,
    /// Injected faults.
    pub faults: Faults,
    /// Time from the failure or the repair of a link until switches route accordingly.
    pub convergence: Span,
    /// Processing time of received packets in host software.
    pub stack_time: StackTime,
    /// Set to keep histograms of queues at every switch port.
    pub histograms: bool,
}

impl Setup {
    /// A run on `fabric` without messages and faults, with ECMP, one connection for each message,
    /// and no end.
    pub fn new(fabric: Fabric, seed: u64) -> Setup {
        Setup {
            fabric,
            routing: Routing::Ecmp,
            stacks: Vec::new(),
            connections: ConnectionPolicy::PerMessage,
            bdp_bytes: None,
            workload: Workload::default(),
            seed,
            duration: Time::NEVER,
            until_done: false,
            warmup: Time::ZERO,
            drain: Span::ZERO,
            weights: Vec::new(),
            faults: Faults::default(),
            convergence: Span::ZERO,
            stack_time: StackTime::default(),
            histograms: false,
        }
    }

    /// Number of messages that must complete before the run ends by itself; `None` if it does not.
    pub fn awaited(&self) -> Option<u64> {
        let hosts = self.fabric.hosts.len() as u32;
        self.until_done.then(|| self.workload.messages(hosts))
    }

    /// Whether the packets of a message of this protocol take several paths.
    pub fn takes_many_paths(&self, stack: u16) -> bool {
        self.routing == Routing::Spray || self.stacks[stack as usize].takes_many_paths()
    }

    /// Sizes of a protocol's packets.
    pub fn sizes(&self, stack: u16) -> PacketSizes {
        self.stacks[stack as usize].sizes()
    }

    /// The largest sizes of all protocols' packets: base RTTs refer to them.
    pub fn largest_sizes(&self) -> PacketSizes {
        PacketSizes::largest(self.stacks.iter().map(Stack::sizes))
    }

    /// Smallest packet of all protocols on the wire.
    pub fn least_bytes(&self) -> u32 {
        let least = self.stacks.iter().map(|stack| stack.sizes().least_bytes).min();
        least.unwrap_or(MIN_WIRE_BYTES)
    }

    /// Fewest header bytes of a data packet of all protocols.
    pub fn least_header_bytes(&self) -> u32 {
        let least = self.stacks.iter().map(|stack| stack.sizes().header_bytes).min();
        least.unwrap_or(HEADER_BYTES)
    }
}
