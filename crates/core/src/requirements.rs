//! What a protocol wants of the fabric, and the facts from which it says so.

use alloc::format;
use alloc::string::String;

use crate::fabric::{CreditQueue, Ecn, Fabric, Link, MarkAt, Node, Routing};
use crate::math::round;
use crate::routes::Reach;
use crate::{Extent, HEADER_BYTES, Path, Rate, Span};

/// What is the same for every flow of a fabric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FabricProperties {
    /// Bandwidth-delay product in bytes: that of the fastest host link and the largest base RTT
    /// unless the scenario sets it.
    pub bdp_bytes: f64,
    /// The largest base RTT of any pair of hosts.
    pub base_rtt: Span,
    /// Fastest host link.
    pub host_rate: Rate,
    /// Slowest link.
    pub slowest: Rate,
    /// Fastest link.
    pub fastest: Rate,
    /// Payload of a full packet.
    pub mtu: u32,
    /// Most switches on the path of any pair of hosts.
    pub hops: u32,
}

impl FabricProperties {
    /// Those of a fabric whose paths are known; `bdp_bytes` where the scenario sets it.
    pub fn of(fabric: &Fabric, reach: Reach, bdp_bytes: Option<f64>) -> FabricProperties {
        let rates = || fabric.links.iter().map(|link| link.rate);
        let leads_to_host =
            |link: &&Link| [link.a, link.b].iter().any(|node| matches!(node, Node::Host(_)));
        let host_rates = fabric.links.iter().filter(leads_to_host).map(|link| link.rate);
        let host_rate = host_rates.max().unwrap_or_default();
        FabricProperties {
            bdp_bytes: bdp_bytes.unwrap_or_else(|| host_rate.bytes_in(reach.base_rtt) as f64),
            base_rtt: reach.base_rtt,
            host_rate,
            slowest: rates().min().unwrap_or_default(),
            fastest: rates().max().unwrap_or_default(),
            mtu: fabric.mtu,
            hops: reach.most_switches,
        }
    }

    /// The longest path, over the slowest link; telemetry is not part of its full packet.
    pub fn path(&self) -> Path {
        Path {
            base_rtt: self.base_rtt,
            fabric_base_rtt: self.base_rtt,
            nic_rate: self.host_rate,
            bottleneck_rate: self.slowest,
            bdp_bytes: self.bdp_bytes,
            mtu: self.mtu,
            full_wire_bytes: self.mtu + HEADER_BYTES,
            hops: self.hops,
        }
    }
}

/// What a protocol wants of the fabric. Scenarios give it that unless they say otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FabricRequirements {
    /// How switches mark; `None`: they need not.
    pub ecn: Option<Marking>,
    /// What switches write into packets.
    pub telemetry: Telemetry,
    /// Strict priorities above that of data ([`HostContext::data_priority`]) that it uses where
    /// there are so many.
    ///
    /// [`HostContext::data_priority`]: crate::HostContext::data_priority
    pub classes: u8,
    /// It cannot do without one of them at least.
    pub needs_class: bool,
    /// How packets choose among equal paths.
    pub routing: Routing,
    /// No packet is dropped for want of buffer: switches pause who sends to them (PFC).
    pub lossless: bool,
    /// Credits wait in a queue of their own; `None`: they are packets like others.
    pub credit_queue: Option<CreditQueue>,
    /// The longest of its credits on the wire, in bytes; 0: it sends none. No queue for credits may
    /// be shorter.
    pub largest_credit: u32,
    /// Switches tell of links that come and go by schedule.
    pub circuits: bool,
    /// Hosts do things at the same time: their clocks agree, and so do the round trips that they
    /// were told.
    pub same_clock: bool,
}

impl FabricRequirements {
    /// Nothing: a FIFO and ECMP will do.
    pub const NONE: FabricRequirements = FabricRequirements {
        ecn: None,
        telemetry: Telemetry::NONE,
        classes: 0,
        needs_class: false,
        routing: Routing::Ecmp,
        lossless: false,
        credit_queue: None,
        largest_credit: 0,
        circuits: false,
        same_clock: false,
    };

    /// What the fabric must have for this, in display order.
    pub fn needs(&self) -> impl Iterator<Item = Need> {
        let core_only = self.ecn.map(|marking| marking.core_only);
        let wanted = [
            (Need::Ecn, core_only == Some(false)),
            (Need::CoreEcn, core_only == Some(true)),
            (Need::PeakHopDelay, self.telemetry.peak_on_data || self.telemetry.peak_on_acks),
            (Need::HopRecords, self.telemetry.hop_records),
            (Need::Lossless, self.lossless),
            (Need::CreditQueues, self.credit_queue.is_some()),
            (Need::Circuits, self.circuits),
            (Need::Priorities, self.needs_class),
            (Need::Spraying, self.routing == Routing::Spray),
            (Need::SymmetricPaths, self.routing == Routing::SymmetricEcmp),
            (Need::SameClock, self.same_clock),
        ];
        wanted.into_iter().filter_map(|(need, wanted)| wanted.then_some(need))
    }
}

/// One thing that a protocol can need of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Switches mark packets by queue length.
    Ecn,
    /// The same, at ports that lead to other switches only.
    CoreEcn,
    /// Switches keep the largest queueing delay in the packet.
    PeakHopDelay,
    /// Switches append a record of their own.
    HopRecords,
    /// Switches pause who sends to them rather than drop.
    Lossless,
    /// Switches queue credits apart, and limit their rate.
    CreditQueues,
    /// Switches tell of circuits.
    Circuits,
    /// Switches have two strict priorities at least.
    Priorities,
    /// Every packet takes a path of its own.
    Spraying,
    /// Both directions of a connection take the same links.
    SymmetricPaths,
    /// The clocks of all hosts agree.
    SameClock,
}

impl Need {
    /// All there are.
    pub const ALL: [Need; 11] = [
        Need::Ecn,
        Need::CoreEcn,
        Need::PeakHopDelay,
        Need::HopRecords,
        Need::Lossless,
        Need::CreditQueues,
        Need::Circuits,
        Need::Priorities,
        Need::Spraying,
        Need::SymmetricPaths,
        Need::SameClock,
    ];

    /// As people read it.
    pub const fn name(self) -> &'static str {
        match self {
            Need::Ecn => "ECN",
            Need::CoreEcn => "ECN between switches",
            Need::PeakHopDelay => "peak hop delay",
            Need::HopRecords => "per-hop records",
            Need::Lossless => "pauses (PFC)",
            Need::CreditQueues => "credit queues",
            Need::Circuits => "circuit announcements",
            Need::Priorities => "priorities",
            Need::Spraying => "spraying",
            Need::SymmetricPaths => "symmetric paths",
            Need::SameClock => "clocks that agree",
        }
    }
}

/// Random early marking whose thresholds may be relative: see [`Ecn`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marking {
    /// Below this queue nothing is marked.
    pub kmin: Extent,
    /// From this queue on everything is marked.
    pub kmax: Extent,
    /// Probability just below `kmax`.
    pub pmax: f64,
    /// When it is decided.
    pub at: MarkAt,
    /// Ports that lead to hosts do not mark.
    pub core_only: bool,
    /// The thresholds are for ports of this rate, and in proportion at others; `None`: they are the
    /// same at all ports.
    pub per: Option<Rate>,
}

impl Marking {
    /// Marks everything from a queue of `threshold` on, at enqueue, at every port.
    pub const fn step(threshold: Extent) -> Marking {
        Marking {
            kmin: threshold,
            kmax: threshold,
            pmax: 1.0,
            at: MarkAt::Enqueue,
            core_only: false,
            per: None,
        }
    }

    /// Why a ramp from `kmin`, a parameter of the name `from`, to `kmax` is wrong, if it is.
    pub fn conflict(from: &str, kmin: Extent, kmax: Extent) -> Option<String> {
        let reversed = match (kmin, kmax) {
            (Extent::Bytes(min), Extent::Bytes(max)) | (Extent::Bdp(min), Extent::Bdp(max)) => {
                min > max
            }
            _ => {
                return Some(format!(
                    "{from} = {kmin} and kmax = {kmax} are not both bytes or BDP"
                ));
            }
        };
        reversed.then(|| format!("{from} = {kmin} is above kmax = {kmax}"))
    }

    /// In whole bytes.
    pub fn resolved(&self, bdp_bytes: f64) -> Ecn {
        Ecn {
            min_bytes: round(self.kmin.bytes(bdp_bytes)),
            max_bytes: round(self.kmax.bytes(bdp_bytes)),
            max_probability: self.pmax,
            at: self.at,
            core_only: self.core_only,
            per: self.per,
        }
    }
}

impl core::fmt::Display for Marking {
    /// As `marking between switches from 30KB on`.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Marking { kmin, kmax, pmax, at, core_only, per } = self;
        write!(f, "marking{} from {kmin}", if *core_only { " between switches" } else { "" })?;
        if kmin == kmax {
            write!(f, " on")?;
        } else {
            write!(f, " to {kmax} by up to {pmax}")?;
        }
        if let Some(rate) = per {
            write!(f, " per {rate}")?;
        }
        if *at == MarkAt::Dequeue { write!(f, " at dequeue") } else { Ok(()) }
    }
}

/// What switches write into packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telemetry {
    /// The largest queueing delay of a hop, into data.
    pub peak_on_data: bool,
    /// The same, into acknowledgements.
    pub peak_on_acks: bool,
    /// A record of every switch, into data.
    pub hop_records: bool,
}

impl Telemetry {
    /// Nothing.
    pub const NONE: Telemetry =
        Telemetry { peak_on_data: false, peak_on_acks: false, hop_records: false };
    /// The largest queueing delay, into data.
    pub const PEAK: Telemetry = Telemetry { peak_on_data: true, ..Telemetry::NONE };
    /// A record of every switch, into data.
    pub const HOP_RECORDS: Telemetry = Telemetry { hop_records: true, ..Telemetry::NONE };
}
