//! Watching a run from inside. A probe that is off costs nothing.

use std::any::Any;

use tidegate_core::{Body, Feedback, Frame, HopTrace, Span, Time};

/// A packet leaves a port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Departure<'a> {
    /// When its transmission starts.
    pub at: Time,
    /// Number of the port: 2i leads from a to b of link i, 2i + 1 back.
    pub port: u32,
    /// How long it waited.
    pub waited: Span,
    /// Wire bytes queued behind it.
    pub queue_bytes: u32,
    /// Telemetry of this port included.
    pub frame: &'a Frame,
    /// Its transport header.
    pub body: &'a Body,
    /// Its hop records, this port's included.
    pub hops: &'a HopTrace,
}

/// Hears of every departure and arrival, and of what transports say of their flows: of one port, or
/// one host, in order of time. Of two, one may be ahead by twice as long as a packet is on a link.
pub trait Probe: Send {
    /// False: the engine does not call at all.
    const ON: bool = true;
    /// True: an event for every dequeue instead of lazy commits. Slower; the outcome is the same,
    /// and a test says so.
    const EXPLICIT_DEQUEUES: bool = false;
    /// A packet starts to leave a port.
    fn departed(&mut self, _departure: &Departure<'_>) {}
    /// A packet is refused by a switch, or no path is left for it.
    fn dropped(&mut self, _body: &Body) {}
    /// A packet reached a host.
    fn arrived(&mut self, _now: Time, _host: u32, _frame: &Frame, _body: &Body) {}
    /// `bytes` of payload of the flow with this id reached their receiver, for the first time.
    fn delivered(&mut self, _now: Time, _flow: u64, _bytes: u32) {}
    /// The sender of the flow with this id has heard of a packet.
    fn feedback(&mut self, _now: Time, _flow: u64, _feedback: &Feedback) {}
}

impl Probe for () {
    const ON: bool = false;
}

/// A [probe](Probe) of any type, which can be told afterwards (`Any`).
#[allow(missing_docs, reason = "what Probe says of them")]
pub trait Observer: Any + Send {
    fn departed(&mut self, _departure: &Departure<'_>) {}
    fn dropped(&mut self, _body: &Body) {}
    fn arrived(&mut self, _now: Time, _host: u32, _frame: &Frame, _body: &Body) {}
    fn delivered(&mut self, _now: Time, _flow: u64, _bytes: u32) {}
    fn feedback(&mut self, _now: Time, _flow: u64, _feedback: &Feedback) {}
}

impl Probe for Box<dyn Observer> {
    fn departed(&mut self, departure: &Departure<'_>) {
        (**self).departed(departure);
    }
    fn dropped(&mut self, body: &Body) {
        (**self).dropped(body);
    }
    fn arrived(&mut self, now: Time, host: u32, frame: &Frame, body: &Body) {
        (**self).arrived(now, host, frame, body);
    }
    fn delivered(&mut self, now: Time, flow: u64, bytes: u32) {
        (**self).delivered(now, flow, bytes);
    }
    fn feedback(&mut self, now: Time, flow: u64, feedback: &Feedback) {
        (**self).feedback(now, flow, feedback);
    }
}
