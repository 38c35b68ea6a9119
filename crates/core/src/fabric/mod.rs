//! A fabric as data: hosts, switches, full-duplex links, and the functions of each switch. No
//! behaviour.

pub mod circuits;
mod trimming;

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::fabric::circuits::Circuits;
use crate::math::round;
use crate::{MIN_WIRE_BYTES, Rate, Span, Time};

pub use trimming::{TrimVictim, Trimming};

/// A host or a switch, by its index in [`Fabric::hosts`] or [`Fabric::switches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// Index of a host.
    Host(u32),
    /// Index of a switch.
    Switch(u32),
}

/// A full-duplex link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// One end.
    pub a: Node,
    /// The other end.
    pub b: Node,
    /// Rate of each direction, unless [`Fabric::port_rates`] sets another one.
    pub rate: Rate,
    /// Propagation delay, one way.
    pub delay: Span,
}

/// Time at which a switch decides on a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkAt {
    /// When the packet enters the queue, by the bytes queued before it.
    Enqueue,
    /// When the packet leaves the queue, by the bytes queued behind it.
    Dequeue,
}

/// Random early marking on the instantaneous queue: never below `min_bytes`, always at `max_bytes`
/// and above, with a probability that rises to `max_probability` in between. Equal thresholds make
/// it a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ecn {
    /// Queue below which nothing is marked.
    pub min_bytes: f64,
    /// Queue from which on everything is marked.
    pub max_bytes: f64,
    /// Probability just below `max_bytes`.
    pub max_probability: f64,
    /// Time of the decision.
    pub at: MarkAt,
    /// Ports that lead to hosts do not mark.
    pub core_only: bool,
    /// Rate that the thresholds refer to; at other rates they scale in proportion. `None`: they are
    /// the same at all ports.
    pub per: Option<Rate>,
}

impl Ecn {
    /// The configuration for a port of this rate, with scaled thresholds.
    pub fn at_rate(self, rate: Rate) -> Ecn {
        let Some(per) = self.per else { return self };
        let share = rate.as_bps() as f64 / per.as_bps() as f64;
        Ecn {
            min_bytes: round(self.min_bytes * share),
            max_bytes: round(self.max_bytes * share),
            per: Some(rate),
            ..self
        }
    }
}

/// Processing time of host software for each received packet, from NIC to transport. Packets keep
/// their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackTime {
    /// Constant part.
    pub delay: Span,
    /// Maximum of the uniform random part.
    pub jitter: Span,
}

impl StackTime {
    /// Longest time that a packet is held.
    pub fn most(self) -> Span {
        self.delay + self.jitter
    }
}

/// Buffer of a switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Buffer {
    /// No limit.
    Unlimited,
    /// `bytes` in total. A port may hold `alpha` times the free bytes (Dynamic Thresholds).
    /// Infinite `alpha`: no threshold.
    Shared {
        /// Buffer size in bytes.
        bytes: u64,
        /// Multiple of the free bytes that one port may hold.
        alpha: f64,
    },
}

/// A queue of a port for credits ([`frame_flag::CREDIT`](crate::frame_flag::CREDIT)), separate from
/// data and served before it. A token bucket limits it to a share of the link. Source: ExpressPass,
/// section 3.1, and its authors' simulator, `xpass-drop-tail.cc`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CreditQueue {
    /// Long-term share of the link's rate for credits; above 0, below 1.
    pub share: f64,
    /// Capacity in bytes; at least one credit. Credits that do not fit are dropped.
    pub bytes: u32,
    /// Bytes that may leave at once after the queue has been idle; at least one credit.
    pub burst_bytes: u32,
}

impl CreditQueue {
    /// Rate limit of credits on a link.
    pub fn rate(&self, link: Rate) -> Rate {
        Rate::bps((link.as_bps() as f64 * self.share) as u64)
    }
}

impl core::fmt::Display for CreditQueue {
    /// For example `credit queues of 672B for 5.179% of a link with bursts of 168B`.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let CreditQueue { share, bytes, burst_bytes } = self;
        let percent = share * 100.0;
        write!(f, "credit queues of {bytes}B for {percent:.3}% of a link")?;
        write!(f, " with bursts of {burst_bytes}B")
    }
}

/// Priority flow control (PFC): a switch pauses classes of its neighbours, by ingress port.
///
/// The buffer has three parts: a reserve of every ingress port and class (`reserved_bytes`),
/// headroom, and a shared pool. A packet is counted in the reserve, or in the pool if its ingress
/// then uses at most `alpha` times the free bytes of the pool. Otherwise it is counted in the
/// headroom, which is for packets that are in flight when the sender is paused. Source: the HPCC
/// authors' simulator, `switch-mmu.cc`.
#[derive(Clone, Copy, PartialEq)]
pub struct Pausing {
    /// Priorities that can be paused, one bit each. Packets of other priorities use the pool.
    pub classes: u8,
    /// Multiple of the free pool that an ingress port and class may use before its sender is
    /// paused.
    pub alpha: f64,
    /// Bytes that an ingress port and class may always hold.
    pub reserved_bytes: u32,
    /// Headroom of each ingress port and class, for packets that arrive after a pause was sent.
    pub headroom: Headroom,
    /// Whether the headroom is memory on top of the shared buffer; otherwise it is part of it.
    pub headroom_on_top: bool,
    /// The sender resumes when its ingress is this many bytes below the threshold.
    pub resume_offset_bytes: u32,
}

impl fmt::Debug for Pausing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pausing { classes, alpha, reserved_bytes, headroom, .. } = self;
        let mut shown = f.debug_struct("Pausing");
        shown.field("classes", classes).field("alpha", alpha);
        shown.field("reserved_bytes", reserved_bytes).field("headroom", headroom);
        // A later field is named only if it is not the default, so that hashes of plans stay.
        if self.headroom_on_top {
            shown.field("headroom_on_top", &true);
        }
        shown.field("resume_offset_bytes", &self.resume_offset_bytes).finish()
    }
}

/// Headroom of an ingress port and class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headroom {
    /// Constant number of bytes at every port.
    Bytes(u32),
    /// The maximum that can arrive after a pause, for packets of at most `packet_bytes`: the packet
    /// that exceeded the threshold, the bytes that the link carries in a round trip, the wait of
    /// the pause frame for a packet in transmission (and for pause frames of other classes), and
    /// the packet that the sender has started to transmit.
    RoundTrip {
        /// Wire bytes of the largest packet, including headers and gap.
        packet_bytes: u32,
    },
    /// Bytes that the link carries in three times its propagation delay (the HPCC authors'
    /// simulator).
    ThreeDelays,
}

/// Rate of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRate {
    /// Index of a port: 2i leads from a to b of link i, 2i + 1 from b to a.
    pub port: u32,
    /// Its rate.
    pub rate: Rate,
}

/// A rate change of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateChange {
    /// Index of a port: 2i leads from a to b of link i, 2i + 1 from b to a.
    pub port: u32,
    /// Time of the change. Transmissions in progress are not affected.
    pub at: Time,
    /// New rate, above zero.
    pub rate: Rate,
}

/// Ports of a switch that stamp telemetry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stamping {
    /// No port.
    Off,
    /// Ports that lead to switches.
    Core,
    /// All ports.
    All,
}

impl Stamping {
    /// Whether a port stamps telemetry. `leads_to_host`: it leads to a host or its NIC.
    pub const fn covers(self, leads_to_host: bool) -> bool {
        match self {
            Stamping::Off => false,
            Stamping::Core => !leads_to_host,
            Stamping::All => true,
        }
    }
}

/// As a setting: hashes of plans contain this text.
impl core::fmt::Debug for Stamping {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Stamping::Off => "false",
            Stamping::Core => "core",
            Stamping::All => "true",
        })
    }
}

/// How finely and how often a port of a switch reads the values that it stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TelemetryResolution {
    /// Unit of delays and times, which are rounded down. The unit of bytes is what the link sends
    /// in that time. Zero: exact.
    pub quantum: Span,
    /// The values are renewed once in each period, by the first packet that requests telemetry.
    /// Zero: by every packet.
    pub period: Span,
}

impl TelemetryResolution {
    /// Every packet carries exact values of its own.
    pub const EXACT: TelemetryResolution =
        TelemetryResolution { quantum: Span::ZERO, period: Span::ZERO };
}

/// A switch.
#[derive(Clone, PartialEq)]
pub struct Switch {
    /// Name, unique among hosts and switches.
    pub name: String,
    /// Time from full arrival to the egress queue.
    pub latency: Span,
    /// Ports that stamp the telemetry that packets request.
    pub telemetry: Stamping,
    /// Resolution of that telemetry.
    pub telemetry_resolution: TelemetryResolution,
    /// Buffer shared by its ports.
    pub buffer: Buffer,
    /// ECN marking at its ports.
    pub ecn: Option<Ecn>,
    /// Number of priorities, 1 to 8.
    pub priorities: u8,
    /// PFC configuration; `None` without PFC.
    pub pausing: Option<Pausing>,
    /// Credit queue of each port; `None` if credits share the queues of other packets.
    pub credit_queue: Option<CreditQueue>,
    /// Packet trimming at each port; `None`: packets that do not fit are dropped.
    pub trimming: Option<Trimming>,
}

impl Switch {
    /// Whether it returns trimmed packets for which it has no room to their senders.
    pub fn returns_to_sender(&self) -> bool {
        self.trimming.is_some_and(|trimming| trimming.return_to_sender)
    }
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Switch");
        shown.field("name", &self.name).field("latency", &self.latency);
        shown.field("telemetry", &self.telemetry).field("buffer", &self.buffer);
        shown.field("ecn", &self.ecn).field("priorities", &self.priorities);
        // A former field, so that hashes of plans stay.
        shown.field("discipline", &None::<()>);
        shown.field("pausing", &self.pausing).field("credit_queue", &self.credit_queue);
        // A later field is named only if it is not the default, so that hashes of plans stay.
        if let Some(trimming) = self.trimming {
            shown.field("trimming", &trimming);
        }
        if self.telemetry_resolution != TelemetryResolution::EXACT {
            shown.field("telemetry_resolution", &self.telemetry_resolution);
        }
        shown.finish()
    }
}

/// Policy by which a packet chooses among equal paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// By hash of its connection.
    Ecmp,
    /// At random for each packet.
    Spray,
    /// By hash of its connection, such that both directions take the same links in fabrics of
    /// regular tiers.
    SymmetricEcmp,
}

impl Routing {
    /// All policies.
    pub const ALL: [Routing; 3] = [Routing::Ecmp, Routing::Spray, Routing::SymmetricEcmp];

    /// Name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Routing::Ecmp => "ecmp",
            Routing::Spray => "spray",
            Routing::SymmetricEcmp => "symmetric-ecmp",
        }
    }
}

/// Switches that hash alike when they select among equal paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashSeeds {
    /// None: every switch has a seed of its own.
    #[default]
    PerSwitch,
    /// Switches at the same distance from hosts have the same seed.
    PerTier,
    /// All switches have the same seed. Switches with the same number of ways make the same choice.
    Same,
}

impl HashSeeds {
    /// All rules.
    pub const ALL: [HashSeeds; 3] = [HashSeeds::PerSwitch, HashSeeds::PerTier, HashSeeds::Same];

    /// Name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            HashSeeds::PerSwitch => "per-switch",
            HashSeeds::PerTier => "per-tier",
            HashSeeds::Same => "same",
        }
    }
}

/// Hosts, switches and links.
#[derive(Clone, Default, PartialEq)]
pub struct Fabric {
    /// Names of the hosts. Each has exactly one link.
    pub hosts: Vec<String>,
    /// The switches.
    pub switches: Vec<Switch>,
    /// The links.
    pub links: Vec<Link>,
    /// Directions of links between switches whose rate differs from that of the link, by port in
    /// ascending order.
    pub port_rates: Vec<PortRate>,
    /// Rate changes, in order of time. Base RTTs, ideal times and everything else that is derived
    /// from rates before a run refer to the rates before the first change.
    pub rate_changes: Vec<RateChange>,
    /// Scheduled circuits, if the fabric has any.
    pub circuits: Option<Circuits>,
    /// Payload of a full packet.
    pub mtu: u32,
    /// Switches that hash alike.
    pub hash_seeds: HashSeeds,
    /// If hosts have several ports: index of the first of the switches that are their NICs. Host
    /// h is connected only to its NIC, which is switch `first_nic + h` and has a link to a switch
    /// in every plane. A NIC sends a packet over the link that its entropy selects, and neither
    /// drops, marks, trims nor stamps.
    pub first_nic: Option<u32>,
    /// Servers of several hosts, if there are any.
    pub servers: Option<Servers>,
}

impl fmt::Debug for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Fabric");
        shown.field("hosts", &self.hosts).field("switches", &self.switches);
        shown.field("links", &self.links).field("rate_changes", &self.rate_changes);
        shown.field("circuits", &self.circuits).field("mtu", &self.mtu);
        // A later field is named only if it is not the default, so that hashes of plans stay.
        if !self.port_rates.is_empty() {
            shown.field("port_rates", &self.port_rates);
        }
        if self.hash_seeds != HashSeeds::default() {
            shown.field("hash_seeds", &self.hash_seeds);
        }
        if let Some(first_nic) = self.first_nic {
            shown.field("first_nic", &first_nic);
        }
        if let Some(servers) = self.servers {
            shown.field("servers", &servers);
        }
        shown.finish()
    }
}

/// Servers of several hosts: consecutive hosts, joined by links inside of the server (such as
/// NVLink), which carry their messages to each other without packets or protocol. A host sends one
/// message at a time, in order of submission; it receives any number at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Servers {
    /// Hosts of a server.
    pub hosts: u32,
    /// Rate at which a host sends to others of its server.
    pub rate: Rate,
    /// Time from the last byte sent to its arrival.
    pub delay: Span,
}

impl Servers {
    /// Whether two hosts belong to the same server.
    pub fn joins(&self, a: u32, b: u32) -> bool {
        a / self.hosts == b / self.hosts
    }
}

/// The ends of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortEnds {
    /// Node that the port belongs to.
    pub from: Node,
    /// Node that it leads to.
    pub to: Node,
}

impl Fabric {
    /// The host at a node: itself, or the one whose NIC the node is.
    pub fn host_at(&self, node: Node) -> Option<u32> {
        match node {
            Node::Host(host) => Some(host),
            Node::Switch(switch) => switch.checked_sub(self.first_nic?),
        }
    }

    /// Whether a node is the NIC of a host with several ports.
    pub fn is_nic(&self, node: Node) -> bool {
        matches!(node, Node::Switch(_)) && self.host_at(node).is_some()
    }

    /// Whether a link joins two switches that are no NICs.
    pub fn joins_switches(&self, link: &Link) -> bool {
        self.host_at(link.a).is_none() && self.host_at(link.b).is_none()
    }

    /// Host and switch that a link joins, if it is a link between a host, or its NIC, and a switch
    /// that is no NIC.
    pub fn access(&self, link: &Link) -> Option<(u32, u32)> {
        match (self.host_at(link.a), self.host_at(link.b), link.a, link.b) {
            (Some(host), None, _, Node::Switch(switch))
            | (None, Some(host), Node::Switch(switch), _) => Some((host, switch)),
            _ => None,
        }
    }

    /// The switches that are no NICs.
    pub fn network_switches(&self) -> &[Switch] {
        &self.switches[..self.first_nic.map_or(self.switches.len(), |first| first as usize)]
    }

    /// The switches that are no NICs.
    pub fn network_switches_mut(&mut self) -> &mut [Switch] {
        let number = self.network_switches().len();
        &mut self.switches[..number]
    }

    /// Ports of each host into the network.
    pub fn ports_per_host(&self) -> u32 {
        let Some(first_nic) = self.first_nic else { return 1 };
        let of_first = |link: &&Link| {
            let ends = [link.a, link.b];
            ends.contains(&Node::Switch(first_nic)) && !ends.contains(&Node::Host(0))
        };
        self.links.iter().filter(of_first).count() as u32
    }

    /// The ends of a port: port 2i leads from a to b of link i, port 2i + 1 from b to a.
    pub fn port_ends(&self, port: u32) -> PortEnds {
        let link = &self.links[port as usize / 2];
        let (from, to) = if port.is_multiple_of(2) { (link.a, link.b) } else { (link.b, link.a) };
        PortEnds { from, to }
    }

    /// Bytes of headroom per class that the switch behind `port` keeps for packets that arrive by
    /// it; 0 if that node does not use PFC or is a host.
    pub fn headroom(&self, port: u32) -> u64 {
        let PortEnds { from, to: Node::Switch(to) } = self.port_ends(port) else { return 0 };
        let switch = &self.switches[to as usize];
        let Some(pausing) = switch.pausing else { return 0 };
        let link = &self.links[port as usize / 2];
        let rate = self.fastest(port);
        let carried = |span: Span| {
            let bits = rate.as_bps() as u128 * span.as_ps() as u128;
            bits.div_ceil(8 * 1_000_000_000_000) as u64
        };
        match pausing.headroom {
            Headroom::Bytes(bytes) => bytes as u64,
            Headroom::ThreeDelays => carried(link.delay.times(3)),
            Headroom::RoundTrip { packet_bytes } => {
                let behind = match from {
                    Node::Switch(from) => self.switches[from as usize].latency,
                    Node::Host(_) => Span::ZERO,
                };
                let pauses = (pausing.classes.count_ones() * MIN_WIRE_BYTES) as u64;
                let round_trip = link.delay.times(2).plus(switch.latency).plus(behind);
                carried(round_trip) + pauses + 3 * packet_bytes as u64
            }
        }
    }

    /// By switch: bytes of its buffer that are set aside as reserves of all ports that lead to it,
    /// and as headroom if that is part of the buffer. The rest is shared.
    pub fn kept_bytes(&self) -> Vec<u64> {
        let mut kept = vec![0; self.switches.len()];
        for port in 0..2 * self.links.len() as u32 {
            let Node::Switch(to) = self.port_ends(port).to else { continue };
            let Some(pausing) = self.switches[to as usize].pausing else { continue };
            let headroom = if pausing.headroom_on_top { 0 } else { self.headroom(port) };
            let each = headroom + pausing.reserved_bytes as u64;
            kept[to as usize] += each * pausing.classes.count_ones() as u64;
        }
        kept
    }

    /// Links that are not circuits.
    pub fn packet_links(&self) -> &[Link] {
        let all = self.links.len();
        let number = self.circuits.as_ref().map_or(all, |circuits| circuits.first_link as usize);
        &self.links[..number.min(all)]
    }

    /// Number of priorities that every switch has.
    pub fn priorities(&self) -> u8 {
        self.switches.iter().map(|switch| switch.priorities).min().unwrap_or(1)
    }

    /// The rate of a port at the start of a run.
    pub fn rate(&self, port: u32) -> Rate {
        match self.port_rates.binary_search_by_key(&port, |own| own.port) {
            Ok(at) => self.port_rates[at].rate,
            Err(_) => self.links[port as usize / 2].rate,
        }
    }

    /// The highest rate of a port at any time.
    pub fn fastest(&self, port: u32) -> Rate {
        self.rates_over_time(port).fold(self.rate(port), Rate::max)
    }

    /// The lowest rate of a port at any time.
    pub fn slowest(&self, port: u32) -> Rate {
        self.rates_over_time(port).fold(self.rate(port), Rate::min)
    }

    /// Rates to which a port changes.
    fn rates_over_time(&self, port: u32) -> impl Iterator<Item = Rate> + '_ {
        let changes = self.rate_changes.iter().filter(move |change| change.port == port);
        changes.map(|change| change.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host and two switches in a row, 100 Gbit/s and 1 us per link.
    fn row(headroom: Headroom) -> Fabric {
        let pausing = Pausing {
            classes: 0b11,
            alpha: 1.0,
            reserved_bytes: 7,
            headroom,
            headroom_on_top: false,
            resume_offset_bytes: 0,
        };
        let switch = |latency| Switch {
            name: String::new(),
            latency,
            telemetry: Stamping::Off,
            telemetry_resolution: TelemetryResolution::EXACT,
            buffer: Buffer::Unlimited,
            ecn: None,
            priorities: 8,
            pausing: Some(pausing),
            credit_queue: None,
            trimming: None,
        };
        let link = |a, b| Link { a, b, rate: Rate::gbps(100), delay: Span::us(1) };
        Fabric {
            hosts: vec![String::new()],
            switches: vec![switch(Span::ZERO), switch(Span::ns(400))],
            links: vec![
                link(Node::Host(0), Node::Switch(0)),
                link(Node::Switch(0), Node::Switch(1)),
            ],
            mtu: 1000,
            ..Fabric::default()
        }
    }

    #[test]
    fn headroom_covers_bytes_in_flight_at_a_pause() {
        let of = |headroom| {
            let fabric = row(headroom);
            [0, 1, 2, 3].map(|port| fabric.headroom(port))
        };
        // 2 us at 12.5 GB/s, three packets and a pause frame per class; and 400 ns of switch
        // latency.
        let [near, far] = [25_000 + 3 * 1080 + 2 * 84, 30_000 + 3 * 1080 + 2 * 84];
        assert_eq!(of(Headroom::RoundTrip { packet_bytes: 1080 }), [near, 0, far, far]);
        assert_eq!(of(Headroom::ThreeDelays), [37_500, 0, 37_500, 37_500]);
        assert_eq!(of(Headroom::Bytes(9)), [9, 0, 9, 9]);
        assert_eq!(row(Headroom::Bytes(9)).kept_bytes(), [2 * 2 * (9 + 7), 2 * (9 + 7)]);
    }
}
