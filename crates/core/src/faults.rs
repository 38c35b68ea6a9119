//! What goes wrong in the network, as data.

use alloc::vec::Vec;

use crate::{Span, Time};

/// What goes wrong. The default: nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Probability that a link loses a packet.
    pub loss: f64,
    /// Probability that a link damages a packet. The receiving host's checksum finds it and drops
    /// it.
    pub corruption: f64,
    /// Probability that a packet is held back at the end of a link, for a uniform time up to
    /// `reorder_delay`.
    pub reordering: f64,
    /// Longest time that a packet is held back.
    pub reorder_delay: Span,
    /// Probability that a link delivers a packet twice.
    pub duplication: f64,
    /// Links, hosts and NICs that fail at given times.
    pub outages: Vec<Outage>,
    /// Links between switches that fail at random.
    pub flaps: Option<Flaps>,
}

/// Something fails for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Which.
    pub of: Failing,
    /// From when.
    pub down: Time,
    /// Until when; [`Time::NEVER`]: for good.
    pub up: Time,
}

/// What an outage is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// A link, by its number in the fabric. What is queued for it and under way on it is lost, both
    /// ways; packets take other paths while there are any.
    Link(u32),
    /// A host: its link is down and its transports stand still. It comes back with its state.
    Host(u32),
    /// A host's NIC: it pauses the host's switch in every class that the switch pauses, and sends
    /// on itself (a storm of pauses).
    Nic(u32),
}

/// Random outages of links between switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flaps {
    /// Mean time that a link works; exponential.
    pub mean_up: Span,
    /// Mean time that it is gone; exponential.
    pub mean_down: Span,
}

impl Faults {
    /// Whether packets can suffer by themselves, links and hosts working.
    pub fn touch_packets(&self) -> bool {
        self.loss > 0.0 || self.corruption > 0.0 || self.reordering > 0.0 || self.duplication > 0.0
    }
}
