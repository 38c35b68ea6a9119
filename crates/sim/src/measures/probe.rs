//! Probes: observation of a run. A disabled probe costs nothing.

use std::any::Any;

use tidegate_core::{Body, Feedback, Frame, HopTrace, Span, Time};

/// A packet starts to leave a port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Departure<'a> {
    /// Start of its transmission.
    pub at: Time,
    /// Index of the port: link i has ports 2i (a to b) and 2i + 1 (b to a).
    pub port: u32,
    /// Time that it waited in the queue.
    pub waited: Span,
    /// Wire bytes that stay queued.
    pub queue_bytes: u32,
    /// Its frame, with this port's telemetry.
    pub frame: &'a Frame,
    /// Its transport header.
    pub body: &'a Body,
    /// Its hop records, including this port's.
    pub hops: &'a HopTrace,
}

/// Receives every packet event of a run and the feedback of transports. The events of one port or
/// one host arrive in order of time. Events of different nodes can be out of order by up to twice
/// the time that a packet spends on a link.
pub trait Probe: Send {
    /// If `false`, the engine never calls the probe.
    const ON: bool = true;
    /// If `true`, every dequeue is an event, instead of lazy commits. This is slower, and a test
    /// checks that the outcome is the same.
    const EXPLICIT_DEQUEUES: bool = false;
    /// A packet starts to leave a port.
    fn departed(&mut self, _departure: &Departure<'_>) {}
    /// A packet is dropped by a switch, or no path is left for it.
    fn dropped(&mut self, _body: &Body) {}
    /// A packet has reached a host.
    fn arrived(&mut self, _now: Time, _host: u32, _frame: &Frame, _body: &Body) {}
    /// `bytes` of payload of the flow with this ID have reached their receiver for the first time.
    fn delivered(&mut self, _now: Time, _flow: u64, _bytes: u32) {}
    /// The sender of the flow with this ID has received feedback on a packet.
    fn feedback(&mut self, _now: Time, _flow: u64, _feedback: &Feedback) {}
}

impl Probe for () {
    const ON: bool = false;
}

/// A [probe](Probe) of any type. After the run, `Any` gives access to its concrete type.
#[allow(missing_docs, reason = "documented at Probe")]
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
