//! Congestion window of a message beside its credit, under the law of NSCC (`cc/nscc.rs`).

use tidegate_core::{Ack as Report, CongestionControl, Path, Span, Time, Trim};

use super::header::Ack;
use crate::cc::nscc::{Nscc, NsccParams};

/// Packets that an acknowledgement reports as arrived for the first time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    pub(super) packets: u32,
    pub(super) bytes: u64,
}

/// The window of a message. Bytes are those on the wire.
#[derive(Debug)]
pub(super) struct Window {
    control: Nscc,
    /// Sent bytes that have neither arrived nor been lost.
    in_flight: u64,
    limit: f64,
    /// A full packet.
    full: u64,
}

impl Window {
    pub(super) fn new(law: &NsccParams, path: &Path, now: Time) -> Window {
        // The law draws no random numbers.
        let control = Nscc::start(law, path, now, 0);
        let limit = control.limit(law).window_bytes;
        Window { control, in_flight: 0, limit, full: path.full_wire_bytes as u64 }
    }

    /// Bytes that may be in flight.
    pub(super) fn limit(&self) -> f64 {
        self.limit
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Whether a packet of this size may leave.
    #[inline]
    pub(super) fn fits(&self, bytes: u64) -> bool {
        (self.in_flight + bytes) as f64 <= self.limit
    }

    /// A packet has left.
    pub(super) fn add(&mut self, bytes: u64) {
        self.in_flight += bytes;
    }

    /// A packet has arrived or was lost.
    pub(super) fn remove(&mut self, bytes: u64) {
        self.in_flight -= bytes;
    }

    /// Processes an acknowledgement whose packets have left the window; `next` is the next new
    /// packet.
    pub(super) fn on_ack(
        &mut self,
        law: &NsccParams,
        now: Time,
        ack: &Ack,
        progress: Progress,
        next: u64,
    ) {
        let before = self.in_flight + progress.bytes + self.full;
        let report = Report {
            now,
            rtt: now.since(ack.sent_at),
            acked_packets: progress.packets,
            acked_bytes: progress.bytes,
            in_flight_bytes: self.in_flight,
            seq: ack.packet,
            next_seq: next,
            marked: ack.marked,
            circuit: false,
            window_limited: before as f64 > self.limit,
            peak_hop_delay: Span::ZERO,
            reverse_peak_hop_delay: Span::ZERO,
            hops: &[],
        };
        self.control.on_ack(law, &report);
        self.limit = self.control.limit(law).window_bytes;
    }

    /// Processes a trimmed packet, which has left the window; `sent_at` is its departure if its
    /// headers arrived. Credit schedules the link to the receiver, the last hop.
    pub(super) fn on_trim(
        &mut self,
        law: &NsccParams,
        now: Time,
        (sent_at, last_hop): (Option<Time>, bool),
        bytes: u64,
    ) {
        let in_flight_bytes = self.in_flight + bytes;
        let rtt = sent_at.map(|sent_at| now.since(sent_at));
        let trim = Trim { now, rtt, bytes, in_flight_bytes, at_scheduled_link: last_hop };
        self.control.on_trim(law, &trim);
        self.limit = self.control.limit(law).window_bytes;
    }

    /// Processes the timeout of a packet, which has left the window.
    pub(super) fn on_timeout(&mut self, law: &NsccParams, bytes: u64) {
        self.control.on_packet_timeout(law, bytes);
        self.limit = self.control.limit(law).window_bytes;
    }
}
