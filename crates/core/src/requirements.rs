//! Requirements that a protocol has on the fabric, and the properties from which it derives them.

use alloc::format;
use alloc::string::String;

use crate::fabric::{CreditQueue, Ecn, Fabric, Link, MarkAt, Node, Routing, TrimVictim, Trimming};
use crate::math::round;
use crate::routes::Reach;
use crate::{Extent, HEADER_BYTES, Path, Rate, Span};

/// Properties that are the same for every flow of a fabric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FabricProperties {
    /// Bandwidth-delay product in bytes. Default: that of the fastest host link and the largest
    /// base RTT.
    pub bdp_bytes: f64,
    /// The largest base RTT of any pair of hosts.
    pub base_rtt: Span,
    /// Rate of the fastest host link.
    pub host_rate: Rate,
    /// Rate of the slowest link.
    pub slowest: Rate,
    /// Rate of the fastest link.
    pub fastest: Rate,
    /// Payload of a full packet.
    pub mtu: u32,
    /// Most switches on the path of any pair of hosts.
    pub hops: u32,
    /// Ports of each host into the network, which share its rate.
    pub ports: u32,
}

impl FabricProperties {
    /// Properties of a fabric whose paths are known. `bdp_bytes` overrides the default.
    pub fn of(fabric: &Fabric, reach: Reach, bdp_bytes: Option<f64>) -> FabricProperties {
        let rates = || (0..2 * fabric.links.len() as u32).map(|port| fabric.rate(port));
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
            ports: fabric.ports_per_host(),
        }
    }

    /// Bandwidth-delay product of one port of a host: relative sizes of switches refer to it.
    pub fn port_bdp_bytes(&self) -> f64 {
        self.bdp_bytes / f64::from(self.ports.max(1))
    }

    /// The longest path, over the slowest link. Its full packet does not include telemetry.
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

/// Requirements that a protocol has on the fabric. Scenarios satisfy them by default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FabricRequirements {
    /// ECN marking; `None` if not needed.
    pub ecn: Option<Marking>,
    /// Telemetry that switches write into packets.
    pub telemetry: Telemetry,
    /// Number of strict priorities above that of data ([`HostContext::data_priority`]) that it uses
    /// if the fabric has them.
    ///
    /// [`HostContext::data_priority`]: crate::HostContext::data_priority
    pub classes: u8,
    /// The protocol needs at least one of these priorities.
    pub needs_class: bool,
    /// Policy by which packets choose among equal paths.
    pub routing: Routing,
    /// No packet may be dropped for lack of buffer: switches use PFC.
    pub lossless: bool,
    /// Credits have a queue of their own; `None` if they need none.
    pub credit_queue: Option<CreditQueue>,
    /// Wire bytes of its longest credit; 0 if it sends none. A credit queue must have at least this
    /// capacity.
    pub largest_credit: u32,
    /// Switches trim packets; `None` if not needed.
    pub trimming: Option<TrimmingRule>,
    /// Switches announce scheduled circuits.
    pub circuits: bool,
    /// Hosts act at the same times: their clocks must be synchronised, and they must know the same
    /// round trips.
    pub same_clock: bool,
}

impl FabricRequirements {
    /// No requirements: FIFO queues and ECMP suffice.
    pub const NONE: FabricRequirements = FabricRequirements {
        ecn: None,
        telemetry: Telemetry::NONE,
        classes: 0,
        needs_class: false,
        routing: Routing::Ecmp,
        lossless: false,
        credit_queue: None,
        largest_credit: 0,
        trimming: None,
        circuits: false,
        same_clock: false,
    };

    /// Trimming at a queue for data of `queue`, with priorities for trimmed packets and control.
    pub const fn trimmed(queue: Extent, trimmed_bytes: u16) -> FabricRequirements {
        FabricRequirements {
            trimming: Some(TrimmingRule::new(queue, trimmed_bytes)),
            classes: 2,
            needs_class: true,
            ..FabricRequirements::NONE
        }
    }

    /// The needs of the protocol, in display order.
    pub fn needs(&self) -> impl Iterator<Item = Need> {
        let core_only = self.ecn.map(|marking| marking.core_only);
        let needs = [
            (Need::Ecn, core_only == Some(false)),
            (Need::CoreEcn, core_only == Some(true)),
            (Need::PeakHopDelay, self.telemetry.has_peak() && !self.telemetry.core_only),
            (Need::CorePeakHopDelay, self.telemetry.has_peak() && self.telemetry.core_only),
            (Need::HopRecords, self.telemetry.hop_records),
            (Need::Lossless, self.lossless),
            (Need::CreditQueues, self.credit_queue.is_some()),
            (Need::Trimming, self.trimming.is_some()),
            (Need::Circuits, self.circuits),
            (Need::Priorities, self.needs_class),
            (Need::Spraying, self.routing == Routing::Spray),
            (Need::SymmetricPaths, self.routing == Routing::SymmetricEcmp),
            (Need::SameClock, self.same_clock),
        ];
        needs.into_iter().filter_map(|(need, is_needed)| is_needed.then_some(need))
    }
}

/// A function of the fabric that a protocol can need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Switches mark packets by queue length.
    Ecn,
    /// Switches mark packets by queue length, but only at ports that lead to other switches.
    CoreEcn,
    /// Switches keep the largest queueing delay in the packet.
    PeakHopDelay,
    /// Switches keep the largest queueing delay in the packet, but only at ports that lead to other
    /// switches.
    CorePeakHopDelay,
    /// Every switch appends a record to the packet.
    HopRecords,
    /// Switches pause their neighbours instead of dropping packets.
    Lossless,
    /// Switches have a separate, rate-limited queue for credits.
    CreditQueues,
    /// Switches drop the payload of a packet for which they have no room, and keep its headers.
    Trimming,
    /// Switches announce circuits.
    Circuits,
    /// Switches have at least two strict priorities.
    Priorities,
    /// Every packet takes a path of its own.
    Spraying,
    /// Both directions of a connection take the same links.
    SymmetricPaths,
    /// The clocks of all hosts are synchronised.
    SameClock,
}

impl Need {
    /// All needs.
    pub const ALL: [Need; 13] = [
        Need::Ecn,
        Need::CoreEcn,
        Need::PeakHopDelay,
        Need::CorePeakHopDelay,
        Need::HopRecords,
        Need::Lossless,
        Need::CreditQueues,
        Need::Trimming,
        Need::Circuits,
        Need::Priorities,
        Need::Spraying,
        Need::SymmetricPaths,
        Need::SameClock,
    ];

    /// Name for display.
    pub const fn name(self) -> &'static str {
        match self {
            Need::Ecn => "ECN",
            Need::CoreEcn => "ECN between switches",
            Need::PeakHopDelay => "peak hop delay",
            Need::CorePeakHopDelay => "peak hop delay between switches",
            Need::HopRecords => "per-hop records",
            Need::Lossless => "pauses (PFC)",
            Need::CreditQueues => "credit queues",
            Need::Trimming => "packet trimming",
            Need::Circuits => "circuit announcements",
            Need::Priorities => "priorities",
            Need::Spraying => "spraying",
            Need::SymmetricPaths => "symmetric paths",
            Need::SameClock => "synchronised clocks",
        }
    }
}

/// ECN marking with thresholds that may be relative to the BDP; see [`Ecn`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marking {
    /// Queue below which nothing is marked.
    pub kmin: Extent,
    /// Queue from which on everything is marked.
    pub kmax: Extent,
    /// Probability just below `kmax`.
    pub pmax: f64,
    /// Time of the decision.
    pub at: MarkAt,
    /// Ports that lead to hosts do not mark.
    pub core_only: bool,
    /// Rate that the thresholds refer to; at other rates they scale in proportion. `None`: they are
    /// the same at all ports.
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

    /// Marks with a probability that rises from 0 at `kmin` to 1 at `kmax`, at dequeue, at every
    /// port.
    pub const fn ramp(kmin: Extent, kmax: Extent) -> Marking {
        Marking { kmin, at: MarkAt::Dequeue, ..Marking::step(kmax) }
    }

    /// Checks a ramp from `kmin`, the value of the parameter `from`, to `kmax`. Returns the error,
    /// if there is one.
    pub fn conflict(from: &str, kmin: Extent, kmax: Extent) -> Option<String> {
        let reversed = match (kmin, kmax) {
            (Extent::Bytes(min), Extent::Bytes(max)) | (Extent::Bdp(min), Extent::Bdp(max)) => {
                min > max
            }
            _ => {
                return Some(format!(
                    "{from} = {kmin} and kmax = {kmax} have different units: give both in bytes \
                     or both in BDP"
                ));
            }
        };
        reversed
            .then(|| format!("{from} = {kmin} is above kmax = {kmax}: {from} must be at most kmax"))
    }

    /// The same in whole bytes.
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
    /// For example `marking between switches from 30KB on`.
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

/// Packet trimming with a capacity that may be relative to the BDP; see [`Trimming`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrimmingRule {
    /// Capacity of the queue for data of a port.
    pub data: Extent,
    /// Bytes on the wire of a packet without its payload.
    pub trimmed_bytes: u16,
    /// Trimmed packets that do not fit are returned to their sender.
    pub return_to_sender: bool,
    /// Capacity of the queue for headers of a port, as a multiple of that for data.
    pub header_queues: u32,
    /// Packets of the queue for headers for each packet of data; `None`: strict priority.
    pub header_weight: Option<u16>,
}

impl TrimmingRule {
    /// Multiple in `compositequeue.cpp` of Broadcom/csg-htsim and ultraethernet/uet-htsim.
    pub const HEADER_QUEUES: u32 = 2;

    /// Trimming whose packets are never returned, and precede data strictly.
    pub const fn new(data: Extent, trimmed_bytes: u16) -> TrimmingRule {
        TrimmingRule {
            data,
            trimmed_bytes,
            return_to_sender: false,
            header_queues: TrimmingRule::HEADER_QUEUES,
            header_weight: None,
        }
    }

    /// The same in whole bytes.
    pub fn resolved(&self, bdp_bytes: f64) -> Trimming {
        let data_bytes = round(self.data.bytes(bdp_bytes)) as u32;
        Trimming {
            data_bytes,
            header_queue_bytes: data_bytes.saturating_mul(self.header_queues),
            trimmed_bytes: self.trimmed_bytes,
            victim: TrimVictim::Random,
            per: None,
            return_to_sender: self.return_to_sender,
            header_weight: self.header_weight,
        }
    }
}

impl core::fmt::Display for TrimmingRule {
    /// For example `trimming to 64B from 1 BDP on`.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "trimming to {}B from {} on", self.trimmed_bytes, self.data)?;
        if self.header_queues != TrimmingRule::HEADER_QUEUES {
            write!(f, " with {} times this queue for headers", self.header_queues)?;
        }
        if let Some(weight) = self.header_weight {
            write!(f, " with {weight} header packets per data packet")?;
        }
        if self.return_to_sender { write!(f, " with return to sender") } else { Ok(()) }
    }
}

/// Telemetry that switches write into packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telemetry {
    /// Largest queueing delay of any hop, in data packets.
    pub peak_on_data: bool,
    /// The same in acknowledgements.
    pub peak_on_acks: bool,
    /// Record of every switch, in data packets.
    pub hop_records: bool,
    /// Ports that lead to hosts need not stamp.
    pub core_only: bool,
}

impl Telemetry {
    /// No telemetry.
    pub const NONE: Telemetry = Telemetry {
        peak_on_data: false,
        peak_on_acks: false,
        hop_records: false,
        core_only: false,
    };
    /// Largest queueing delay, in data packets.
    pub const PEAK: Telemetry = Telemetry { peak_on_data: true, ..Telemetry::NONE };
    /// Record of every switch, in data packets.
    pub const HOP_RECORDS: Telemetry = Telemetry { hop_records: true, ..Telemetry::NONE };

    /// Whether packets carry the largest queueing delay of a hop.
    pub const fn has_peak(self) -> bool {
        self.peak_on_data || self.peak_on_acks
    }
}
