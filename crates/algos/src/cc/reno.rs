//! Reno: halves the window after a loss and adds one packet in a round trip without losses.
//!
//! The congestion control of TCP, which reacts only to losses: the window grows until a queue
//! overflows. It is the baseline of all other protocols, and reTCP modifies it.
//!
//! Van Jacobson. "Congestion Avoidance and Control". SIGCOMM 1988. As specified by Mark Allman,
//! Vern Paxson and Ethan Blanton in RFC 5681.
//!
//! # Equations
//!
//! * below the threshold (slow start, eq. 2): `cwnd += acked`
//! * above it (congestion avoidance, eq. 3): `cwnd += packet · acked / cwnd`: one packet a round
//!   trip
//! * a loss (eq. 4): `threshold = cwnd / 2`, and `cwnd = threshold`; after a timeout the window is
//!   one packet
//!
//! # Network requirements
//!
//! Only losses: if buffers are unlimited, the window ends at `max_window`.
//!
//! # Differences from the paper
//!
//! * The transport detects losses, packet by packet; one episode halves the window once, also if
//!   retransmissions are lost (RFC 5681, section 4.3, halves it again) unless a timeout detects it.
//!   The window does not grow until a packet sent after the loss is acknowledged.
//! * The window is halved, where RFC 5681 halves the bytes in flight: the two differ only for a
//!   sender that does not use its window, and such a window does not grow here.
//! * A new connection has a window of one BDP instead of a few packets, as under DCTCP.
//! * The window persists over idle times. It and the threshold are never below one packet (eq. 4
//!   has two). An acknowledgement of several packets counts for all of them in slow start.

use tidegate_core::{
    Ack, CongestionControl, Dash, Extent, Limit, Loss, LossKind, Marker, Path, ProtocolInfo,
    TelemetryBytes, Time, params,
};

params! {
    /// Parameters of Reno.
    pub struct RenoParams {
        /// Window of a new connection.
        initial_window: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.0) => Extent::Bdp(100.0),
            "our choice: that of DCTCP; RFC 5681, section 3.1, has two to four packets";
        /// Largest window: a bound on memory.
        max_window: Extent = Extent::Bdp(1000.0), within Extent::Bdp(0.1) => Extent::Bdp(1e6),
            "our choice";
    }
}

/// A connection under Reno. Sizes are wire bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Reno {
    pub(super) cwnd: f64,
    /// End of slow start.
    threshold: f64,
    packet: f64,
    max_window: f64,
    /// The window does not grow before this packet is acknowledged.
    loss_end: u64,
    /// No packet has been acknowledged since the last timeout.
    timed_out: bool,
}

impl CongestionControl for Reno {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "reno",
        title: "Reno",
        revision: 1,
        citation: "Jacobson, \"Congestion Avoidance and Control\", SIGCOMM 1988; Allman, Paxson, \
            Blanton, RFC 5681",
        summary: "Halves its window after a loss, and adds a packet in every round trip without \
            losses.",
        color: "#8c564b",
        marker: Marker::Circle,
        dash: Dash::Dashed,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = RenoParams;

    fn start(params: &RenoParams, path: &Path, _now: Time, _seed: u64) -> Reno {
        let [initial, most] = [params.initial_window, params.max_window];
        Reno::with_windows(initial.bytes(path.bdp_bytes), most.bytes(path.bdp_bytes), path)
    }

    fn on_ack(&mut self, _params: &RenoParams, ack: &Ack<'_>) {
        self.grow(ack);
    }

    fn on_loss(&mut self, _params: &RenoParams, loss: &Loss) {
        self.cut(loss);
    }

    fn limit(&self, _params: &RenoParams) -> Limit {
        Limit::window(self.cwnd)
    }
}

impl Reno {
    pub(super) fn with_windows(initial: f64, most: f64, path: &Path) -> Reno {
        let packet = path.full_wire_bytes as f64;
        let max_window = most.max(packet);
        Reno {
            cwnd: initial.clamp(packet, max_window),
            threshold: f64::INFINITY,
            packet,
            max_window,
            loss_end: 0,
            timed_out: false,
        }
    }

    pub(super) fn grow(&mut self, ack: &Ack<'_>) {
        self.timed_out &= ack.acked_packets == 0;
        if ack.window_limited && !self.recovers(ack) {
            self.set(grown(self.cwnd, self.threshold, self.packet, ack));
        }
    }

    /// Returns whether no packet that was sent after the last loss has been acknowledged.
    pub(super) fn recovers(&self, ack: &Ack<'_>) -> bool {
        ack.seq < self.loss_end
    }

    pub(super) fn cut(&mut self, loss: &Loss) {
        // RFC 5681 eq. 4 and section 3.1: the timeout of a retransmission keeps the threshold.
        if !(self.timed_out && loss.kind == LossKind::Timeout) {
            self.threshold = (self.cwnd / 2.0).max(self.packet);
        }
        self.timed_out = loss.kind == LossKind::Timeout;
        self.loss_end = loss.next_seq;
        self.cwnd = match loss.kind {
            LossKind::Recovery => self.threshold,
            LossKind::Timeout => {
                // All packets acknowledged from now on were sent before the timeout.
                self.loss_end = 0;
                self.packet
            }
        };
    }

    pub(super) fn set(&mut self, cwnd: f64) {
        self.cwnd = cwnd.clamp(self.packet, self.max_window);
    }
}

/// The window after an acknowledgement (RFC 5681 eq. 2 and 3). Slow start ends at `threshold`. An
/// acknowledgement counts for one window at most; if earlier ones were lost, it covers more.
#[inline]
pub(super) fn grown(cwnd: f64, threshold: f64, packet: f64, ack: &Ack<'_>) -> f64 {
    let acked = (ack.acked_bytes as f64).min(cwnd);
    if cwnd < threshold { (cwnd + acked).min(threshold) } else { cwnd + packet * acked / cwnd }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{self, assert_near};
    use tidegate_core::Span;

    fn start() -> Reno {
        let path = contract::path();
        Reno::start(&RenoParams::default(), &path, Time::ZERO, 0)
    }

    fn ack(seq: u64) -> Ack<'static> {
        Ack { seq, next_seq: seq + 20, ..contract::ack(Time::us(seq)) }
    }

    fn loss(kind: LossKind, next_seq: u64) -> Loss {
        Loss { now: Time::us(1), kind, rtt: Span::us(8), next_seq }
    }

    #[test]
    fn slow_start_doubles_and_avoidance_adds_a_packet() {
        let params = RenoParams::default();
        let mut flow = start();
        flow.cwnd = 10.0 * flow.packet;
        (0..10).for_each(|seq| flow.on_ack(&params, &ack(seq)));
        assert_near(flow.cwnd, 20.0 * flow.packet, 1e-6);
        flow.threshold = flow.cwnd;
        (10..30).for_each(|seq| flow.on_ack(&params, &ack(seq)));
        // A little less than a packet: the window grows while the packets are acknowledged.
        assert_near(flow.cwnd / flow.packet, 20.977, 1e-3);
    }

    #[test]
    fn loss_halves_the_window_once_per_episode() {
        let params = RenoParams::default();
        let mut flow = start();
        flow.cwnd = 20.0 * flow.packet;
        flow.on_loss(&params, &loss(LossKind::Recovery, 40));
        assert_eq!((flow.cwnd, flow.threshold), (10.0 * flow.packet, 10.0 * flow.packet));
        (20..40).for_each(|seq| flow.on_ack(&params, &ack(seq)));
        assert_eq!(flow.cwnd, 10.0 * flow.packet);
        flow.on_ack(&params, &ack(40));
        assert_near(flow.cwnd, 10.1 * flow.packet, 1e-6);
    }

    #[test]
    fn a_timeout_starts_over_up_to_half_of_the_window() {
        let params = RenoParams::default();
        let mut flow = start();
        flow.cwnd = 20.0 * flow.packet;
        flow.on_loss(&params, &loss(LossKind::Timeout, 40));
        assert_eq!((flow.cwnd, flow.threshold), (flow.packet, 10.0 * flow.packet));
        (20..31).for_each(|seq| flow.on_ack(&params, &ack(seq)));
        assert!(flow.cwnd > 10.0 * flow.packet && flow.cwnd < 10.3 * flow.packet);
    }

    #[test]
    fn timeout_of_a_retransmission_keeps_the_threshold() {
        let params = RenoParams::default();
        let mut flow = start();
        flow.cwnd = 20.0 * flow.packet;
        for _ in 0..3 {
            flow.on_loss(&params, &loss(LossKind::Timeout, 40));
            assert_eq!((flow.cwnd, flow.threshold), (flow.packet, 10.0 * flow.packet));
            // Duplicates acknowledge nothing.
            flow.on_ack(&params, &Ack { acked_packets: 0, acked_bytes: 0, ..ack(20) });
        }
        (20..23).for_each(|seq| flow.on_ack(&params, &ack(seq)));
        flow.on_loss(&params, &loss(LossKind::Timeout, 40));
        assert_eq!(flow.threshold, 2.0 * flow.packet);
        flow.on_loss(&params, &loss(LossKind::Recovery, 40));
        assert_eq!(flow.threshold, flow.packet);
    }

    #[test]
    fn stretch_acks_at_most_double_the_window() {
        let many = Ack { acked_packets: 60, acked_bytes: 60 * 4200, ..ack(0) };
        let packet = 4200.0;
        assert_eq!(grown(2.0 * packet, f64::INFINITY, packet, &many), 4.0 * packet);
        assert_eq!(grown(2.0 * packet, 3.0 * packet, packet, &many), 3.0 * packet);
        assert_eq!(grown(3.0 * packet, 3.0 * packet, packet, &many), 4.0 * packet);
    }
}
