//! DCTCP: reaction to the extent of congestion, not to its presence.
//!
//! Switches mark every packet that finds more than K bytes in the queue, and receivers return every
//! mark. The sender estimates the marked share of its bytes and cuts its window by half of that
//! share once a round trip: slightly if queues just reach the threshold, by half if they stay above
//! it. The window grows as in TCP.
//!
//! Mohammad Alizadeh, Albert Greenberg, David A. Maltz, Jitendra Padhye, Parveen Patel, Balaji
//! Prabhakar, Sudipta Sengupta, Murari Sridharan. "Data Center TCP (DCTCP)". SIGCOMM 2010. See also
//! RFC 8257.
//!
//! # Equations
//!
//! * every window of data (eq. 1): `alpha = (1 − g) · alpha + g · F`, where `F` is the marked share
//!   of the acknowledged bytes
//! * mark, at most once a window of data (eq. 2): `cwnd *= 1 − alpha / 2`
//! * otherwise `cwnd += acked` in slow start, up to the threshold, later `cwnd += packet · acked /
//!   cwnd`: one packet a round trip
//! * a loss halves the window, a timeout restarts from one packet; further marks in the same window
//!   of data do not cut it, but count for `alpha`
//!
//! # Network requirements
//!
//! Marks on the instantaneous queue, without randomness: a step at K, which is also the standing
//! queue of long flows. The requested K is 1.25 BDP, as in SIRD's evaluation; `switch.ecn`
//! overrides it.
//!
//! # Differences from the paper
//!
//! * An acknowledgement for every packet returns its mark exactly, so no state machine for delayed
//!   acknowledgements is needed. If `ack_every` is above one, a change of marks is acknowledged at
//!   once, as in RFC 8257, section 3.2.
//! * A new connection has a window of one BDP instead of a few packets, as the protocols that it is
//!   compared with.
//! * `alpha` starts at 1, as in Linux: the first mark halves the window, before any estimate
//!   exists.
//! * In the round trip after a cut the window does not grow, as in Linux. In slow start after a
//!   timeout it grows with marks, too, until the packets that were sent before are acknowledged.
//! * A window of data ends, for `alpha` and for cuts, with the acknowledgement of any packet that
//!   was sent after it began. RFC 8257, section 3.3, waits until all earlier packets are
//!   acknowledged (SND.UNA), which is later if packets are lost or reordered.
//! * The acknowledgement that ends a window of data counts in the next one (RFC 8257, section 3.3,
//!   counts it in the one that it ends).
//! * The threshold of slow start is at least one packet, as the window, where RFC 5681 has two. An
//!   acknowledgement of several packets counts for all of them in slow start.
//! * A loss halves the window, where RFC 5681 halves the bytes in flight, as under
//!   [`reno`](super::reno).
//! * The loss of a retransmission does not begin another reduction (RFC 5681, section 4.3, has one)
//!   unless a timeout detects it.
//! * The window grows only if it limited sending in the last round trip. It persists over idle
//!   times.
//! * The window is never below one packet.

use super::reno::grown;
use tidegate_core::{
    Ack, CongestionControl, Dash, Extent, FabricProperties, FabricRequirements, Limit, Loss,
    LossKind, Marker, Marking, Path, ProtocolInfo, TelemetryBytes, Time, params,
};

params! {
    /// Parameters of DCTCP.
    pub struct DctcpParams {
        /// Weight of the last round trip in the estimate of the marked share.
        g: f64 = 0.0625, in 0.0001..=1.0, "DCTCP (SIGCOMM'10), section 4.1: 1/16; SIRD's script \
            has 0.08";
        /// Estimate of a new connection.
        initial_alpha: f64 = 1.0, in 0.0..=1.0,
            "Linux, net/ipv4/tcp_dctcp.c: dctcp_alpha_on_init; ns-2, tcl/lib/ns-default.tcl: \
             ecnhat_alpha_ is 0";
        /// K: queue length from which switches mark every arriving packet.
        threshold: Extent = Extent::Bdp(1.25), within Extent::Bdp(0.0) => Extent::Bdp(100.0),
            "SIRD (NSDI'25), table 2: its DCTCP";
        /// Window of a new connection.
        initial_window: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.0) => Extent::Bdp(100.0),
            "SIRD (NSDI'25), table 2";
        /// Largest window: a bound on memory.
        max_window: Extent = Extent::Bdp(1000.0), within Extent::Bdp(0.1) => Extent::Bdp(1e6),
            "our choice";
    }
}

/// A connection under DCTCP. Sizes are wire bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Dctcp {
    cwnd: f64,
    /// End of slow start.
    threshold: f64,
    /// Estimate of the marked share.
    alpha: f64,
    packet: f64,
    max_window: f64,
    /// Acknowledged bytes of the current window of data, and those with a mark.
    acked: u64,
    marked: u64,
    /// The window of data ends with an acknowledgement of this packet or a later one.
    round_end: u64,
    /// Until this packet is acknowledged, marks do not cut again and only slow start grows the
    /// window.
    cut_end: u64,
    /// Window before the marks of the current window of data cut it.
    uncut: f64,
    /// No packet has been acknowledged since the last timeout.
    timed_out: bool,
}

impl CongestionControl for Dctcp {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "dctcp",
        title: "DCTCP",
        revision: 1,
        citation: "Alizadeh et al., \"Data Center TCP (DCTCP)\", SIGCOMM 2010",
        summary: "Cuts its window in proportion to the share of packets that switches mark.",
        color: "#cc79a7",
        marker: Marker::Diamond,
        dash: Dash::Solid,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = DctcpParams;

    fn requirements(params: &DctcpParams, _fabric: &FabricProperties) -> FabricRequirements {
        FabricRequirements {
            ecn: Some(Marking::step(params.threshold)),
            ..FabricRequirements::NONE
        }
    }

    fn start(params: &DctcpParams, path: &Path, _now: Time, _seed: u64) -> Dctcp {
        let packet = path.full_wire_bytes as f64;
        let max_window = params.max_window.bytes(path.bdp_bytes).max(packet);
        Dctcp {
            cwnd: params.initial_window.bytes(path.bdp_bytes).clamp(packet, max_window),
            threshold: f64::INFINITY,
            alpha: params.initial_alpha,
            packet,
            max_window,
            acked: 0,
            marked: 0,
            round_end: 0,
            cut_end: 0,
            uncut: 0.0,
            timed_out: false,
        }
    }

    fn on_ack(&mut self, params: &DctcpParams, ack: &Ack<'_>) {
        if ack.seq >= self.round_end {
            self.end_round(params);
            self.round_end = ack.next_seq;
        }
        self.timed_out &= ack.acked_packets == 0;
        self.acked += ack.acked_bytes;
        if ack.marked {
            self.marked += ack.acked_bytes;
        }
        let may_cut = ack.seq >= self.cut_end;
        if may_cut {
            self.uncut = self.cwnd;
        }
        if ack.marked && may_cut {
            self.cwnd *= 1.0 - self.alpha / 2.0; // DCTCP eq. 2
            self.clamp_window();
            self.threshold = self.cwnd;
            self.cut_end = ack.next_seq;
        } else if ack.window_limited && (may_cut || self.cwnd < self.threshold) {
            self.cwnd = grown(self.cwnd, self.threshold, self.packet, ack);
            self.clamp_window();
        }
    }

    fn on_loss(&mut self, _params: &DctcpParams, loss: &Loss) {
        // Half of the window before marks cut it in this window of data; further marks do not cut
        // (RFC 8257, section 3.5). Consecutive timeouts keep the threshold of the first (RFC 5681,
        // section 3.1).
        if !(self.timed_out && loss.kind == LossKind::Timeout) {
            self.threshold = (self.uncut.max(self.cwnd) / 2.0).max(self.packet);
        }
        self.timed_out = loss.kind == LossKind::Timeout;
        self.cut_end = loss.next_seq;
        self.cwnd = match loss.kind {
            LossKind::Recovery => self.threshold,
            LossKind::Timeout => self.packet,
        };
        self.uncut = self.cwnd;
    }

    fn limit(&self, _params: &DctcpParams) -> Limit {
        Limit::window(self.cwnd)
    }
}

impl Dctcp {
    /// Ends a window of data: updates the estimate of the marked share.
    fn end_round(&mut self, params: &DctcpParams) {
        if self.acked > 0 {
            let share = self.marked as f64 / self.acked as f64;
            self.alpha = (1.0 - params.g) * self.alpha + params.g * share; // DCTCP eq. 1
        }
        (self.acked, self.marked) = (0, 0);
    }

    fn clamp_window(&mut self) {
        self.cwnd = self.cwnd.clamp(self.packet, self.max_window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{self, assert_near};
    use tidegate_core::Span;

    /// A flow in congestion avoidance with a window of `packets` and nothing acknowledged.
    fn start(params: &DctcpParams, packets: f64) -> Dctcp {
        let mut flow = Dctcp::start(params, &contract::path(), Time::ZERO, 0);
        flow.cwnd = packets * flow.packet;
        flow.threshold = 0.0;
        flow
    }

    /// Acknowledges a window of `packets` from number `from`, the first `marked` of them with a
    /// mark.
    fn round(flow: &mut Dctcp, params: &DctcpParams, from: u64, packets: u64, marked: u64) {
        for i in 0..packets {
            let seq = from + i;
            let ack = Ack {
                seq,
                next_seq: seq + packets,
                marked: i < marked,
                ..contract::ack(Time::us(seq))
            };
            flow.on_ack(params, &ack);
        }
    }

    #[test]
    fn estimate_is_an_average_over_windows_of_data() {
        let params = DctcpParams { initial_alpha: 0.0, ..Default::default() };
        let mut flow = start(&params, 10.0);
        // The first acknowledgement of the next round closes a round.
        round(&mut flow, &params, 0, 10, 0);
        assert_eq!(flow.alpha, 0.0);
        round(&mut flow, &params, 10, 10, 5);
        round(&mut flow, &params, 20, 1, 0);
        assert_near(flow.alpha, 0.5 / 16.0, 1e-12);
    }

    #[test]
    fn a_marked_window_cuts_once_by_half_of_alpha() {
        let params = DctcpParams { initial_alpha: 0.5, g: 0.0001, ..Default::default() };
        let mut flow = start(&params, 100.0);
        round(&mut flow, &params, 0, 100, 100);
        assert_near(flow.cwnd / flow.packet, 75.0, 0.01);
        round(&mut flow, &params, 100, 100, 100);
        assert_near(flow.cwnd / flow.packet, 56.25, 0.01);
    }

    #[test]
    fn growth_one_packet_a_round_or_slow_start() {
        let params = DctcpParams::default();
        let mut flow = start(&params, 20.0);
        round(&mut flow, &params, 0, 20, 0);
        assert_near(flow.cwnd / flow.packet, 21.0, 0.03);
        flow.threshold = f64::INFINITY;
        round(&mut flow, &params, 20, 21, 0);
        assert_near(flow.cwnd / flow.packet, 42.0, 0.03);
    }

    #[test]
    fn losses_halve_and_timeouts_start_over() {
        let params = DctcpParams::default();
        let mut flow = start(&params, 40.0);
        let loss = |kind| Loss { now: Time::us(9), kind, rtt: Span::us(6), next_seq: 0 };
        flow.on_loss(&params, &loss(LossKind::Recovery));
        assert_eq!(flow.cwnd, 20.0 * flow.packet);
        flow.on_loss(&params, &loss(LossKind::Timeout));
        assert_eq!((flow.cwnd, flow.threshold), (flow.packet, 10.0 * flow.packet));
    }

    #[test]
    fn a_timeout_after_a_loss_halves_what_the_loss_left() {
        let params = DctcpParams::default();
        let mut flow = start(&params, 40.0);
        flow.on_ack(
            &params,
            &Ack { next_seq: 40, window_limited: false, ..contract::ack(Time::us(1)) },
        );
        let loss = |kind| Loss { now: Time::us(9), kind, rtt: Span::us(6), next_seq: 40 };
        flow.on_loss(&params, &loss(LossKind::Recovery));
        assert_eq!((flow.cwnd, flow.threshold), (20.0 * flow.packet, 20.0 * flow.packet));
        flow.on_loss(&params, &loss(LossKind::Timeout));
        assert_eq!((flow.cwnd, flow.threshold), (flow.packet, 10.0 * flow.packet));
    }

    /// The window that remains of 40 packets after a mark and a loss in one window of data.
    fn marked_and_lost(alpha: f64, mark_first: bool) -> f64 {
        let params = DctcpParams { initial_alpha: alpha, g: 0.0001, ..Default::default() };
        let mut flow = start(&params, 40.0);
        let mark = |flow: &mut Dctcp, seq| {
            flow.on_ack(
                &params,
                &Ack { seq, next_seq: 40, marked: true, ..contract::ack(Time::us(seq)) },
            );
        };
        let lose = |flow: &mut Dctcp| {
            let kind = LossKind::Recovery;
            flow.on_loss(&params, &Loss { now: Time::us(9), kind, rtt: Span::us(6), next_seq: 40 });
        };
        if mark_first {
            mark(&mut flow, 5);
            lose(&mut flow);
        } else {
            lose(&mut flow);
            mark(&mut flow, 5);
        }
        (6..40).for_each(|seq| mark(&mut flow, seq));
        flow.cwnd / flow.packet
    }

    #[test]
    fn marks_and_loss_in_one_window_cut_like_the_loss() {
        for alpha in [0.0, 0.3, 1.0] {
            for mark_first in [false, true] {
                assert_near(marked_and_lost(alpha, mark_first), 20.0, 1e-9);
            }
        }
    }

    #[test]
    fn marks_are_counted_through_a_loss() {
        let params = DctcpParams { initial_alpha: 0.0, ..Default::default() };
        let mut flow = start(&params, 10.0);
        let ack = |flow: &mut Dctcp, seq, marked| {
            flow.on_ack(
                &params,
                &Ack { seq, next_seq: seq + 10, marked, ..contract::ack(Time::us(seq)) },
            );
        };
        (0..10).for_each(|seq| ack(&mut flow, seq, false));
        (10..13).for_each(|seq| ack(&mut flow, seq, true));
        let kind = LossKind::Recovery;
        flow.on_loss(&params, &Loss { now: Time::us(9), kind, rtt: Span::us(6), next_seq: 23 });
        (13..15).for_each(|seq| ack(&mut flow, seq, true));
        (15..21).for_each(|seq| ack(&mut flow, seq, false));
        assert_near(flow.alpha, 0.5 / 16.0, 1e-12);
        // The next window of data is cut by its own marks.
        (21..23).for_each(|seq| ack(&mut flow, seq, false));
        let before = flow.cwnd;
        ack(&mut flow, 23, true);
        assert_near(flow.cwnd, before * (1.0 - flow.alpha / 2.0), 1e-9);
    }

    #[test]
    fn slow_start_follows_a_timeout_at_once() {
        let params = DctcpParams::default();
        let mut flow = start(&params, 16.0);
        let kind = LossKind::Timeout;
        flow.on_loss(&params, &Loss { now: Time::us(9), kind, rtt: Span::us(6), next_seq: 16 });
        for seq in 0..7 {
            flow.on_ack(&params, &Ack { seq, next_seq: 16, ..contract::ack(Time::us(10 + seq)) });
        }
        assert_eq!(flow.cwnd, 8.0 * flow.packet);
    }

    #[test]
    fn consecutive_timeouts_keep_the_first_threshold() {
        let params = DctcpParams::default();
        let kind = LossKind::Timeout;
        let loss = Loss { now: Time::us(9), kind, rtt: Span::us(6), next_seq: 16 };
        // Before any acknowledgement, and after one.
        for acked in [0, 1] {
            let mut flow = start(&params, 16.0);
            flow.threshold = f64::INFINITY;
            let packet = flow.packet;
            let ack = |flow: &mut Dctcp, seq| {
                let ack = Ack { seq, next_seq: 16, ..contract::ack(Time::us(10 + seq)) };
                flow.on_ack(&params, &ack);
            };
            (0..acked).for_each(|seq| ack(&mut flow, seq));
            let half = flow.cwnd / 2.0;
            for _ in 0..3 {
                flow.on_loss(&params, &loss);
                assert_eq!((flow.cwnd, flow.threshold), (packet, half));
            }
            // After an acknowledgement, a timeout sets another threshold.
            (acked..acked + 3).for_each(|seq| ack(&mut flow, seq));
            flow.on_loss(&params, &loss);
            assert_eq!((flow.cwnd, flow.threshold), (packet, 2.0 * packet));
        }
    }

    #[test]
    fn steady_marking_converges_to_theory() {
        // A window above W packets marks a whole round; alpha then tends to about √(2/W) (the
        // paper, section 3.3).
        let params = DctcpParams::default();
        let (mut flow, mut seq, limit) = (start(&params, 50.0), 0, 100.0);
        let (mut sum, mut rounds) = (0.0, 0.0);
        for i in 0..4000 {
            let packets = (flow.cwnd / flow.packet) as u64;
            let marked = if flow.cwnd > limit * flow.packet { packets } else { 0 };
            round(&mut flow, &params, seq, packets, marked);
            seq += packets;
            if i > 1000 {
                (sum, rounds) = (sum + flow.alpha, rounds + 1.0);
            }
        }
        assert_near(sum / rounds, tidegate_core::math::sqrt(2.0 / limit), 0.03);
    }
}
