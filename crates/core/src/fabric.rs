//! A fabric as data: hosts, switches, full-duplex links, and what each switch does. No behaviour.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::circuits::Circuits;
use crate::math::round;
use crate::{MIN_WIRE_BYTES, Rate, Span, Time};

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
    pub service: ServiceOrder,
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
pub enum ServiceOrder {
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

/// A queue of a port for credits ([`frame_flag::CREDIT`](crate::frame_flag::CREDIT)), apart from
/// data and before it, of which a token bucket lets a share of the link through. Source:
/// ExpressPass, section 3.1, and its authors' simulator, `xpass-drop-tail.cc`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CreditQueue {
    /// Share of the link's rate that credits may take in the long run; above 0, below 1.
    pub share: f64,
    /// Bytes of credits that may wait; what does not fit is dropped. At least a credit.
    pub bytes: u32,
    /// Bytes that may leave at once after the queue has been idle; at least a credit.
    pub burst_bytes: u32,
}

impl CreditQueue {
    /// What credits may take of a link.
    pub fn rate(&self, link: Rate) -> Rate {
        Rate::bps((link.as_bps() as f64 * self.share) as u64)
    }
}

impl core::fmt::Display for CreditQueue {
    /// As `credit queues of 672B for 5.179% of a link with bursts of 168B`.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let CreditQueue { share, bytes, burst_bytes } = self;
        let percent = share * 100.0;
        write!(f, "credit queues of {bytes}B for {percent:.3}% of a link")?;
        write!(f, " with bursts of {burst_bytes}B")
    }
}

/// Priority flow control: a switch lets nobody send it more of a priority for a while, by ingress.
///
/// Its buffer has three parts: what every ingress port and class has for itself (`reserved_bytes`),
/// headroom, and a pool that all share. A packet goes to the first, or to the pool while what its
/// ingress has there is at most `alpha` times what is free; else to the headroom, which is for what
/// is under way when the sender is told to pause. Source: the HPCC authors' simulator,
/// `switch-mmu.cc`.
#[derive(Clone, Copy, PartialEq)]
pub struct Pausing {
    /// Priorities that can be paused, a bit each; packets of others take from the pool.
    pub classes: u8,
    /// Share of the free pool that an ingress port and class may hold before its sender pauses.
    pub alpha: f64,
    /// Bytes that an ingress port and class may hold whatever others do.
    pub reserved_bytes: u32,
    /// Kept for what still comes in by a port once its sender is told to pause, for each class.
    pub headroom: Headroom,
    /// The headroom is memory beside the shared buffer, which the pool has to itself but for the
    /// reserve; else it is part of that buffer.
    pub headroom_on_top: bool,
    /// The sender goes on when its ingress is so many bytes below the threshold.
    pub resume_offset_bytes: u32,
}

impl fmt::Debug for Pausing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pausing { classes, alpha, reserved_bytes, headroom, .. } = self;
        let mut shown = f.debug_struct("Pausing");
        shown.field("classes", classes).field("alpha", alpha);
        shown.field("reserved_bytes", reserved_bytes).field("headroom", headroom);
        // What came later is named where it is not the default: hashes of plans stay as they were.
        if self.headroom_on_top {
            shown.field("headroom_on_top", &true);
        }
        shown.field("resume_offset_bytes", &self.resume_offset_bytes).finish()
    }
}

/// How much headroom an ingress port and class has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headroom {
    /// So many bytes at every port.
    Bytes(u32),
    /// What can come in where the largest packet on the wire is so long: the packet that was one
    /// too many, what the link carries in a round trip, and three waits, each for a packet that has
    /// begun to leave: of the pause for one on its way back (and for pauses of other classes), and
    /// of the sender for the one that it is at.
    RoundTrip {
        /// Bytes of the largest packet, headers and gap included.
        packet_bytes: u32,
    },
    /// What the link carries in three times its propagation (the HPCC authors' simulator).
    ThreeDelays,
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
    /// Where credits wait at its ports; `None`: where other packets do.
    pub credit_queue: Option<CreditQueue>,
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
    /// Links that come and go by schedule, if there are any.
    pub circuits: Option<Circuits>,
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

    /// Bytes of headroom that the switch behind `port` keeps for what comes in by it, for each
    /// class; 0 where that does not pause, or is a host.
    pub fn headroom(&self, port: u32) -> u64 {
        let PortEnds { from, to: Node::Switch(to) } = self.port_ends(port) else { return 0 };
        let switch = &self.switches[to as usize];
        let Some(pausing) = switch.pausing else { return 0 };
        let link = &self.links[port as usize / 2];
        let carried = |span: Span| {
            let bits = link.rate.as_bps() as u128 * span.as_ps() as u128;
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

    /// By switch: bytes of its buffer that are kept, the reserve of all that leads to it, and the
    /// headroom where that is part of the buffer. What is left is shared.
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

    /// Links that are no circuits.
    pub fn packet_links(&self) -> &[Link] {
        let all = self.links.len();
        let number = self.circuits.as_ref().map_or(all, |circuits| circuits.first_link as usize);
        &self.links[..number.min(all)]
    }

    /// The highest rate that a port ever has.
    pub fn fastest(&self, port: u32) -> Rate {
        let changes = self.rate_changes.iter().filter(|change| change.port == port);
        let rate = self.links[port as usize / 2].rate;
        changes.map(|change| change.rate).fold(rate, Rate::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host and two switches in a row, 100 Gbit/s and 1 us each.
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
            telemetry: false,
            buffer: Buffer::Unlimited,
            ecn: None,
            priorities: 8,
            discipline: None,
            pausing: Some(pausing),
            credit_queue: None,
        };
        let link = |a, b| Link { a, b, rate: Rate::gbps(100), delay: Span::us(1) };
        Fabric {
            hosts: vec![String::new()],
            switches: vec![switch(Span::ZERO), switch(Span::ns(400))],
            links: vec![
                link(Node::Host(0), Node::Switch(0)),
                link(Node::Switch(0), Node::Switch(1)),
            ],
            rate_changes: Vec::new(),
            circuits: None,
            mtu: 1000,
        }
    }

    #[test]
    fn headroom_is_what_is_under_way_when_a_pause_is_sent() {
        let of = |headroom| {
            let fabric = row(headroom);
            [0, 1, 2, 3].map(|port| fabric.headroom(port))
        };
        // 2 us at 12.5 GB/s, three packets and a pause for each class; and 400 ns of a switch.
        let [near, far] = [25_000 + 3 * 1080 + 2 * 84, 30_000 + 3 * 1080 + 2 * 84];
        assert_eq!(of(Headroom::RoundTrip { packet_bytes: 1080 }), [near, 0, far, far]);
        assert_eq!(of(Headroom::ThreeDelays), [37_500, 0, 37_500, 37_500]);
        assert_eq!(of(Headroom::Bytes(9)), [9, 0, 9, 9]);
        assert_eq!(row(Headroom::Bytes(9)).kept_bytes(), [2 * 2 * (9 + 7), 2 * (9 + 7)]);
    }
}
