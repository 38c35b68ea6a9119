//! Injected faults, as data.

use alloc::vec::Vec;

use crate::{Span, Time};

/// Faults of a run. Default: none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Probability that a link loses a packet.
    pub loss: f64,
    /// Probability that a link corrupts a packet. The receiving host's checksum detects this and
    /// the host drops the packet.
    pub corruption: f64,
    /// Probability that a packet is delayed at the end of a link, for a uniform time up to
    /// `reorder_delay`.
    pub reordering: f64,
    /// Longest such delay.
    pub reorder_delay: Span,
    /// Probability that a link delivers a packet twice.
    pub duplication: f64,
    /// Links, hosts and NICs that fail at given times.
    pub outages: Vec<Outage>,
    /// Links between switches that fail at random.
    pub flaps: Option<Flaps>,
}

/// An outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Element that fails.
    pub of: Failing,
    /// Start.
    pub down: Time,
    /// End; [`Time::NEVER`] if permanent.
    pub up: Time,
}

/// Element that an outage concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// A link, by its index in the fabric. Packets queued for it or in flight on it are lost in
    /// both directions. Later packets take other paths, if there are any.
    Link(u32),
    /// A host: its link is down and its transports are stopped. Its state survives the outage.
    Host(u32),
    /// A host's NIC: it pauses all lossless classes of the host's switch, and continues to send
    /// itself (a PFC storm).
    Nic(u32),
}

/// Random outages of links between switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flaps {
    /// Mean time until a link fails; exponential.
    pub mean_up: Span,
    /// Mean duration of an outage; exponential.
    pub mean_down: Span,
}

impl Faults {
    /// Returns whether packets can be impaired while all links and hosts work.
    pub fn touch_packets(&self) -> bool {
        self.loss > 0.0 || self.corruption > 0.0 || self.reordering > 0.0 || self.duplication > 0.0
    }
}
