//! A fabric as data: hosts, switches, full-duplex links, and what each switch does. No behaviour.

use alloc::string::String;
use alloc::vec::Vec;

use crate::math::round;
use crate::{Rate, Span, Time};

/// A host or a switch, by its place in [`Fabric::hosts`] or [`Fabric::switches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// Number of a host.
    Host(u32),
    /// Number of a switch.
    Switch(u32),
}

/// A full-duplex link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// One end.
    pub a: Node,
    /// The other end.
    pub b: Node,
    /// Rate of each direction.
    pub rate: Rate,
    /// Propagation, one way.
    pub delay: Span,
}

/// When a switch decides to mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkAt {
    /// As the packet enters the queue, by what is queued before it.
    Enqueue,
    /// As the packet leaves the queue, by what is queued behind it.
    Dequeue,
}

/// Random early marking on the instantaneous queue: never below `min_bytes`, always at `max_bytes`
/// and above, with a probability that rises to `max_probability` in between. Equal thresholds make
/// it a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ecn {
    /// Below this nothing is marked.
    pub min_bytes: f64,
    /// From this on everything is marked.
    pub max_bytes: f64,
    /// Probability just below `max_bytes`.
    pub max_probability: f64,
    /// When it is decided.
    pub at: MarkAt,
    /// Ports that lead to hosts do not mark.
    pub core_only: bool,
    /// The thresholds are for ports of this rate, and in proportion at others; `None`: they are the
    /// same at all ports.
    pub per: Option<Rate>,
}

impl Ecn {
    /// With the thresholds of a port of that rate.
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

/// How long software takes with each packet that a host receives, from NIC to transport; packets
/// keep their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackTime {
    /// Every packet.
    pub delay: Span,
    /// Up to so much more; uniform.
    pub jitter: Span,
}

impl StackTime {
    /// The longest that a packet is held.
    pub fn most(self) -> Span {
        self.delay + self.jitter
    }
}

/// How much a switch can hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Buffer {
    /// Everything.
    Unlimited,
    /// `bytes` in all. A port may hold `alpha` times what is free (Dynamic Thresholds); infinite:
    /// no threshold.
    Shared {
        /// Size of the pool in bytes.
        bytes: u64,
        /// Share of the free pool that one port may hold.
        alpha: f64,
    },
}

/// How the queues of a port take turns where that is not by strict priority alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Discipline {
    /// Which queue a packet joins.
    pub queues: Queues,
    /// Which of those that may send goes next.
    pub turns: Turns,
    /// Queues that may not take all of the link.
    pub limits: Vec<QueueLimit>,
}

/// Which queue of a port a packet joins.
#[derive(Clone, Debug, PartialEq)]
pub enum Queues {
    /// That of its priority.
    ByPriority,
    /// By host that it goes to: the number of its queue, from 0 (virtual output queues).
    ByDestination(Vec<u16>),
}

/// Whose turn it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Turns {
    /// The lowest number's.
    Strict,
    /// By deficit round robin: so many bytes a turn, by queue.
    Weighted(Vec<u32>),
}

/// Credits beside data, say: a queue that is shaped and short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueLimit {
    /// Number of the queue.
    pub queue: u16,
    /// Most that it sends in the long run, in bit/s on the wire.
    pub rate: Rate,
    /// Bytes that it may send at once after it has been idle; at least a packet of it.
    pub burst_bytes: u32,
    /// Bytes that it holds; what does not fit is dropped.
    pub most_bytes: u32,
}

/// Priority flow control: a switch lets nobody send it more of a priority for a while, by ingress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pausing {
    /// Above so many bytes queued of what came in by a port in a priority, its sender pauses.
    pub pause_bytes: u32,
    /// At so few it goes on.
    pub resume_bytes: u32,
}

/// A port has another rate from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateChange {
    /// Port 2i leads from a to b of link i, port 2i + 1 back; one of a switch.
    pub port: u32,
    /// From when; transmissions that have begun go on as they were.
    pub at: Time,
    /// Zero: no transmission begins.
    pub rate: Rate,
}

/// A switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    /// Unique among hosts and switches.
    pub name: String,
    /// From full arrival to the egress queue.
    pub latency: Span,
    /// Stamps what packets ask for.
    pub telemetry: bool,
    /// Shared by its ports.
    pub buffer: Buffer,
    /// Marking at its ports.
    pub ecn: Option<Ecn>,
    /// Priorities, 1 to 8.
    pub priorities: u8,
    /// How queues take turns; `None`: by strict priority.
    pub discipline: Option<Discipline>,
    /// Whether it pauses those that send to it.
    pub pausing: Option<Pausing>,
}

/// How a packet chooses among equal paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// By its connection.
    Ecmp,
    /// At random, each packet for itself.
    Spray,
    /// By its connection, and both directions take the same links, in fabrics of regular tiers.
    SymmetricEcmp,
}

impl Routing {
    /// All of them.
    pub const ALL: [Routing; 3] = [Routing::Ecmp, Routing::Spray, Routing::SymmetricEcmp];

    /// As scenarios name it.
    pub const fn name(self) -> &'static str {
        match self {
            Routing::Ecmp => "ecmp",
            Routing::Spray => "spray",
            Routing::SymmetricEcmp => "symmetric-ecmp",
        }
    }
}

/// Hosts, switches and links.
#[derive(Clone, Debug, PartialEq)]
pub struct Fabric {
    /// Names of the hosts. Each has exactly one link.
    pub hosts: Vec<String>,
    /// The switches.
    pub switches: Vec<Switch>,
    /// The links.
    pub links: Vec<Link>,
    /// Rates that change, in order of time.
    pub rate_changes: Vec<RateChange>,
    /// Payload of a full packet.
    pub mtu: u32,
}

/// The ends of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortEnds {
    /// Where the port is.
    pub from: Node,
    /// Where it leads.
    pub to: Node,
}

impl Fabric {
    /// The ends of a port: port 2i is from a to b of link i, port 2i + 1 back.
    pub fn port_ends(&self, port: u32) -> PortEnds {
        let link = &self.links[port as usize / 2];
        let (from, to) = if port.is_multiple_of(2) { (link.a, link.b) } else { (link.b, link.a) };
        PortEnds { from, to }
    }

    /// The highest rate that a port ever has.
    pub fn fastest(&self, port: u32) -> Rate {
        let changes = self.rate_changes.iter().filter(|change| change.port == port);
        let rate = self.links[port as usize / 2].rate;
        changes.map(|change| change.rate).fold(rate, Rate::max)
    }
}
