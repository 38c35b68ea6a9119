//! SMaRTT: combines delay, marks and trimmed packets into small steps of a window.
//!
//! Every acknowledgement belongs to one of four cases, by its mark and by whether its round trip
//! took longer than the target. Two of them grow the window and two shrink it, by at most a packet
//! for each acknowledgement, and one of each pair does not depend on the delay, so that shares
//! become equal. After trimmed packets the window becomes what the network has delivered in a base
//! RTT (quick adapt). NSCC descends from it.
//!
//! Tommaso Bonato, Abdul Kabbani, Daniele De Sensi, Rong Pan, Yanfang Le, Costin Raiciu, Mark
//! Handley, Timo Schneider, Nils Blach, Ahmad Ghalayini, Daniel Alves, Michael Papamichael, Adrian
//! Caulfield, Torsten Hoefler. "SMaRTT-REPS: Sender-based Marked Rapidly-adapting Trimmed & Timed
//! Transport with Recycled Entropies". arXiv 2404.01630, 2024. The law below is that of the
//! authors' simulator (spcl/HTSIM, `uec.cpp`, algorithm `smartt`), which is the same in the
//! branches main-archive-2025-08-29 (commit 9851dbb) and lgs_stable (9bac3ae); it has not been
//! compared with the text of the paper. The gains are those of the example in its README.md.
//!
//! # Equations
//!
//! `p` is a full packet, `B` the BDP, `T` the base RTT of the fabric, `r` the RTT of the
//! acknowledged packet, `t = target_rtts · T`; `u = p · p/cwnd` and `v = p · cwnd/B`. For each
//! acknowledged packet (`adjust_window`):
//!
//! | mark | RTT | case | window |
//! | --- | --- | --- | --- |
//! | no | `< t` | multiplicative and fair increase | `+= min(p, mi · (t − r)/r · u) + fi · u` |
//! | no | `> t` | fair increase | `+= fi · u` |
//! | yes | `< t` | fair decrease | `−= fd · v` |
//! | yes | `> t` | multiplicative and fair decrease | `−= min(p, md · p · (r − t)/r + fd · v)` |
//!
//! * fast increase (`fast_increase`), in place of the four cases: once packets have been
//!   acknowledged without a mark and within `T` plus the time of five packets for more than the
//!   window at the last other acknowledgement, `cwnd += 1.2 · p` until another one comes
//! * wait to decrease (`exp_avg_ecn`): if it is on, both decreases wait until the smoothed share of
//!   marked acknowledgements, `s += (mark − s)/8`, exceeds 0.3
//! * quick adapt (`quick_adapt`), when an interval of `T` ends: if a packet was trimmed, and the
//!   last quick adapt is more than `3 T` ago, `cwnd` becomes the bytes that were acknowledged in
//!   the interval; a trimmed packet counts its header of 64 bytes
//! * then, for as many acknowledgements and trimmed packets as packets were in flight: marked
//!   acknowledgements change nothing, no packet asks for a quick adapt, and fast increase and
//!   trimmed packets do not change the window
//! * trimmed packet (`processNack`), unless that holds: `cwnd −= p`
//! * always `p ≤ cwnd ≤ max_window`; a connection begins with the largest window
//! * pacing, if it is on: `p` every `p · T / cwnd` (`smartt_pacer.cpp`; README.md has it for links
//!   between data centres only)
//!
//! # Network requirements
//!
//! Trimming at a queue of one BDP, with ten packets of the queue for headers for each packet of
//! data that waits (`compositequeue.cpp`); marks at departure, with a probability that rises from 0
//! to 1 between 0.2 and 0.8 of that queue. Packets take many paths (`multipath = "reps"`), and only
//! trimmed headers and timeouts indicate losses (`recovery = "trimmed"`).
//!
//! # Domain
//!
//! The window is never below a packet. So if more than `C · T / 84 B` senders send to one link of
//! rate `C`, with `T` the base RTT without the time of the payload on that link, trimmed headers
//! alone would fill it: 112 at 10 Gbit/s and 4,096 B (links of 1 µs). Then each port sends ten
//! packets of the queue for headers for each packet of data: 60, 125 and 300 unlimited flows at 10
//! Gbit/s have 8.2 Gbit/s, and 1,000 at 100 Gbit/s and 1,000 B have 52. With strict priority for
//! headers, 125 flows have none.
//!
//! # Differences from the authors' simulator
//!
//! * The queue for headers is twice as large as that for data, as in csg-htsim. In the two commits
//!   above it is 2,000 times as large, so headers are hardly ever dropped; here they are in large
//!   incasts.
//! * A round-trip time begins when the packet leaves the NIC; there, when it joins the NIC's queue.
//!   A first window of a BDP thus has up to twice the base RTT there, and its base RTT here.
//! * There are no timeouts there: the timer is never started. Here, the timeout of a packet asks
//!   for a quick adapt, as in its variant without trimming (`uec_drop.cpp`), and a timeout of the
//!   connection leaves one packet. The timeout of a packet is four deviations above the smoothed
//!   round-trip time, and 100 us at least: our choice.
//! * `reps` holds eight entropies and uses each once; there, every packet takes the entropy of the
//!   last acknowledgement if that was unmarked, otherwise a random one. The first window takes
//!   random entropies; there, all in turn.
//! * The window counts bytes on the wire by default (`window_counts`), there the payload.
//! * An acknowledgement of `n` packets has the effect of `n`. A duplicate changes no window.
//! * A request for a trimmed packet also acknowledges what has arrived since; there, it
//!   acknowledges nothing.
//! * The packet in transmission counts neither for the capacity of a queue nor for marks, which are
//!   decided at the start of a transmission, not at its end. By default switches trim the arriving
//!   packet or the last in the queue; there, the arriving one.
//! * The window and its increases are not rounded to whole bytes. The pace follows every
//!   acknowledgement; there, it changes at most every twentieth of a base RTT.
//! * The variant for links between data centres (`intersmartt`, phantom queues), the one that waits
//!   by delay (`exp_avg_rtt`) and quick adapt on lossless fabrics are missing.

use tidegate_core::{
    Ack, CongestionControl, ConnectionDefaults, Dash, Extent, FabricProperties, FabricRequirements,
    Limit, Loss, LossKind, Marker, Marking, MultipathRule, OperatingPoint, Path, ProtocolInfo,
    Span, TelemetryBytes, Time, Trim, TrimmingRule, math, params,
};

/// Bytes that a trimmed packet delivers.
const HEADER_BYTES: f64 = 64.0;
/// Packets of the queue for headers that a switch serves for each packet of data (spcl/HTSIM,
/// commits 9851dbb and 9bac3ae, `compositequeue.cpp`; branch main, commit 8a33f33, has 100,000).
const HEADER_WEIGHT: u16 = 10;

params! {
    /// Parameters of SMaRTT.
    pub struct SmarttParams {
        /// Target of the round-trip time, in base RTTs of the fabric.
        target_rtts: f64 = 1.51, in 1.0..=100.0, "spcl/HTSIM, uec.cpp: a base RTT and 50 + 1 per \
            cent";
        /// Fair increase: packets added in a round trip without marks.
        fair_increase: f64 = 2.0, in 0.0..=1000.0, "spcl/HTSIM, README.md: x_gain";
        /// Gain of the multiplicative increase: packets added in a round trip for a round-trip time
        /// of half the target.
        multiplicative_increase: f64 = 2.5, in 0.0..=1000.0, "README.md: y_gain";
        /// Gain of the multiplicative decrease: packets removed for each marked packet, if its
        /// round-trip time is far above the target.
        multiplicative_decrease: f64 = 2.0, in 0.0..=1000.0, "README.md: w_gain";
        /// Fair decrease: packets removed for each marked packet, at a window of a BDP.
        fair_decrease: f64 = 0.8, in 0.0..=1000.0, "README.md: z_gain";
        /// Fast increase: packets added for each acknowledged packet while there is no queue.
        fast_increase: f64 = 1.2, in 0.0..=1000.0, "uec.cpp: fast_increase, with \
            use_super_fast_increase";
        /// Queueing delay up to which there is no queue, in packets at the rate of the NIC.
        fast_packets: f64 = 5.0, in 0.0..=1000.0, "uec.cpp: adjust_window";
        /// Whether decreases wait until the smoothed share of marks exceeds `mark_threshold`.
        wait_to_decrease: bool = false, "uec.cpp: use_exp_avg_ecn";
        /// Smoothed share of marks from which on the window decreases, under `wait_to_decrease`.
        mark_threshold: f64 = 0.3, in 0.0..=1.0, if wait_to_decrease == true,
            "uec.cpp: exp_avg_ecn_value";
        /// Weight of an acknowledgement in the smoothed share of marks.
        mark_weight: f64 = 0.125, in 0.0001..=1.0, if wait_to_decrease == true,
            "uec.cpp: exp_avg_alpha";
        /// Packets removed for each trimmed packet.
        trim_decrease: f64 = 1.0, in 0.0..=1000.0, "uec.cpp: decrease_on_nack";
        /// Window after a quick adapt, in bytes per delivered byte.
        quick_adapt_gain: f64 = 1.0, in 0.01..=100.0, "uec.cpp: bonus_drop";
        /// Shortest time between two quick adapts, in base RTTs.
        quick_adapt_rtts: f64 = 3.0, in 0.0..=1000.0, "uec.cpp: quick_adapt";
        /// Whether packets are paced at a window per base RTT.
        paced: bool = false, "uec.cpp: use_pacing";
        /// Largest window, and that of a new connection.
        max_window: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.1) => Extent::Bdp(1000.0),
            "spcl/HTSIM, main_uec.cpp: starting_cwnd";
        /// Queue length below which switches mark nothing.
        kmin: Extent = Extent::Bdp(0.2), within Extent::Bdp(0.0) => Extent::Bdp(100.0),
            "README.md: kmin";
        /// Queue length from which on switches mark everything.
        kmax: Extent = Extent::Bdp(0.8), within Extent::Bdp(0.0) => Extent::Bdp(100.0),
            "README.md: kmax";
        /// Capacity of the queue for data of a port, beyond which packets are trimmed.
        queue: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.01) => Extent::Bdp(100.0),
            "spcl/HTSIM, main_uec.cpp: queuesize";
    }
    ramp = kmin, kmax;
}

/// A connection under SMaRTT. Sizes are bytes as the window counts them, times picoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Smartt {
    cwnd: f64,
    packet: f64,
    bdp: f64,
    /// Base RTT of the fabric.
    base_rtt: f64,
    /// Round-trip time up to which there is no queue.
    unqueued_rtt: f64,
    /// Bytes acknowledged without a queue since the last acknowledgement with one.
    unqueued: f64,
    /// Window at that acknowledgement.
    to_unqueue: f64,
    /// Fast increase is on.
    is_fast: bool,
    /// Smoothed share of marks.
    marks: f64,
    /// Quick adapt: bytes delivered in its current interval, and the interval's end.
    delivered: f64,
    interval_end: Time,
    /// A quick adapt is due at the end of an interval.
    wants_adapt: bool,
    /// Until then there is no other quick adapt.
    adapted_until: Time,
    /// Acknowledgements and trimmed packets since the last quick adapt.
    feedback: u64,
    /// Packets that were in flight then.
    to_ignore: u64,
}

impl CongestionControl for Smartt {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "smartt",
        title: "SMaRTT",
        revision: 0,
        citation: "Bonato et al., \"SMaRTT-REPS: Sender-based Marked Rapidly-adapting Trimmed & \
                   Timed Transport with Recycled Entropies\", arXiv 2404.01630, 2024",
        summary: "Steps by mark and delay for every packet over many paths; adapts to what is \
                  delivered when packets are trimmed.",
        color: "#46627f",
        marker: Marker::X,
        dash: Dash::Dotted,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = SmarttParams;
    const CONNECTION_DEFAULTS: ConnectionDefaults = ConnectionDefaults {
        multipath: MultipathRule::Reps,
        initial_rto: Span::us(100),
        min_rto: Span::us(100),
        ..ConnectionDefaults::SPRAYED
    };

    fn requirements(params: &SmarttParams, _fabric: &FabricProperties) -> FabricRequirements {
        let trimming = TrimmingRule {
            header_weight: Some(HEADER_WEIGHT),
            ..TrimmingRule::new(params.queue, 84)
        };
        FabricRequirements {
            ecn: Some(Marking::ramp(params.kmin, params.kmax)),
            trimming: Some(trimming),
            ..FabricRequirements::trimmed(params.queue, 84)
        }
    }

    /// A window of a BDP holds whole packets only.
    fn operating_point(params: &SmarttParams, path: &Path, _rate_bps: f64) -> OperatingPoint {
        let packet = f64::from(path.full_wire_bytes);
        let packets = math::floor(params.max_window.bytes(path.bdp_bytes) / packet).max(1.0);
        let utilisation_goal = (packets * packet / path.bdp_bytes).min(1.0);
        OperatingPoint { utilisation_goal, ..OperatingPoint::DEFAULT }
    }

    fn start(params: &SmarttParams, path: &Path, _now: Time, _seed: u64) -> Smartt {
        let packet = path.full_wire_bytes as f64;
        let base_rtt = path.fabric_base_rtt.as_ps() as f64;
        let packet_time = packet * 8e12 / path.nic_rate.as_bps() as f64;
        let mut flow = Smartt {
            cwnd: 0.0,
            packet,
            bdp: path.bdp_bytes,
            base_rtt,
            unqueued_rtt: base_rtt + params.fast_packets * packet_time,
            unqueued: 0.0,
            to_unqueue: 0.0,
            is_fast: false,
            marks: 0.0,
            delivered: 0.0,
            interval_end: Time::ZERO,
            wants_adapt: false,
            adapted_until: Time::ZERO,
            feedback: 0,
            to_ignore: 0,
        };
        flow.cwnd = flow.max_window(params);
        flow.to_unqueue = flow.cwnd;
        flow
    }

    fn on_ack(&mut self, params: &SmarttParams, ack: &Ack<'_>) {
        self.feedback += 1;
        self.marks += params.mark_weight * (f64::from(u8::from(ack.marked)) - self.marks);
        let rtt = ack.rtt.as_ps() as f64;
        if rtt <= self.unqueued_rtt && !ack.marked {
            self.unqueued += ack.acked_bytes as f64;
        } else {
            (self.unqueued, self.to_unqueue, self.is_fast) = (0.0, self.cwnd, false);
        }
        if self.feedback >= self.to_ignore {
            self.quick_adapt(params, ack.now, ack.in_flight_bytes);
        }
        if self.feedback >= self.to_ignore || !ack.marked {
            self.cwnd += self.step(params, rtt, ack.marked) * f64::from(ack.acked_packets);
            self.bound(params);
        }
        self.delivered += ack.acked_bytes as f64;
    }

    fn on_trim(&mut self, params: &SmarttParams, trim: &Trim) {
        self.feedback += 1;
        self.delivered += HEADER_BYTES;
        if self.feedback >= self.to_ignore && trim.now > self.adapted_until {
            self.wants_adapt = true;
            self.quick_adapt(params, trim.now, trim.in_flight_bytes);
        }
        if self.feedback > self.to_ignore {
            self.cwnd -= params.trim_decrease * self.packet;
            self.bound(params);
        }
    }

    fn on_packet_timeout(&mut self, _params: &SmarttParams, _bytes: u64) {
        self.wants_adapt |= self.feedback >= self.to_ignore;
    }

    fn on_loss(&mut self, _params: &SmarttParams, loss: &Loss) {
        if loss.kind == LossKind::Timeout {
            self.cwnd = self.packet;
        }
    }

    #[inline]
    fn limit(&self, params: &SmarttParams) -> Limit {
        let window = Limit::window(self.cwnd);
        if params.paced {
            return Limit { pace_bps: self.cwnd * 8e12 / self.base_rtt, ..window };
        }
        window
    }
}

impl Smartt {
    fn max_window(&self, params: &SmarttParams) -> f64 {
        params.max_window.bytes(self.bdp).max(self.packet)
    }

    fn bound(&mut self, params: &SmarttParams) {
        self.cwnd = self.cwnd.clamp(self.packet, self.max_window(params));
    }

    /// Change of the window for an acknowledged packet.
    fn step(&mut self, params: &SmarttParams, rtt: f64, marked: bool) -> f64 {
        if self.is_fast || self.unqueued > self.to_unqueue {
            self.is_fast = true;
            let counts = self.feedback > self.to_ignore;
            return if counts { params.fast_increase * self.packet } else { 0.0 };
        }
        let target = params.target_rtts * self.base_rtt;
        let (above, below) = (rtt > target, rtt < target);
        if !marked {
            let unit = self.packet * self.packet / self.cwnd;
            // A round-trip time of zero counts as a picosecond.
            let gain = params.multiplicative_increase * (target - rtt) / rtt.max(1.0);
            let fast = if below { (gain * unit).min(self.packet) } else { 0.0 };
            return if above || below { fast + params.fair_increase * unit } else { 0.0 };
        }
        let waits = params.wait_to_decrease && self.marks <= params.mark_threshold;
        if waits || !(above || below) {
            return 0.0;
        }
        let fair = params.fair_decrease * self.packet * self.cwnd / self.bdp;
        if below {
            return -fair;
        }
        let excess = params.multiplicative_decrease * (rtt - target) / rtt * self.packet;
        -(excess + fair).min(self.packet)
    }

    /// Ends the interval if it is over, and adapts the window if that is due.
    fn quick_adapt(&mut self, params: &SmarttParams, now: Time, in_flight_bytes: u64) {
        if now < self.interval_end {
            return;
        }
        let is_first = self.interval_end == Time::ZERO;
        let delivered = core::mem::take(&mut self.delivered);
        self.interval_end = now + Span::from_ps_f64(self.base_rtt);
        if !self.wants_adapt || is_first || now <= self.adapted_until {
            return;
        }
        self.adapted_until = now + Span::from_ps_f64(params.quick_adapt_rtts * self.base_rtt);
        self.cwnd = params.quick_adapt_gain * delivered;
        self.bound(params);
        self.to_ignore = in_flight_bytes / self.packet as u64;
        self.feedback = 0;
        self.wants_adapt = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{self, assert_near, path};
    use tidegate_core::Rate;
    use tidegate_core::params::Params;

    // Of `path`: a base RTT of 8 us and a BDP of 100,000 B. The target is 12.08 us; up to 9.68 us
    // there is no queue.
    const PACKET: f64 = 4200.0;
    const HALF: f64 = 50_000.0;

    fn params() -> SmarttParams {
        SmarttParams::default()
    }

    fn start(window: f64) -> Smartt {
        Smartt { cwnd: window, ..Smartt::start(&params(), &path(), Time::ZERO, 1) }
    }

    /// An acknowledgement at 100 us.
    fn ack(rtt_ns: u64, marked: bool) -> Ack<'static> {
        Ack { rtt: Span::ns(rtt_ns), marked, ..contract::ack(Time::us(100)) }
    }

    /// Change of the window by an acknowledgement.
    fn change(flow: &mut Smartt, params: &SmarttParams, ack: &Ack<'_>) -> f64 {
        let before = flow.cwnd;
        flow.on_ack(params, ack);
        flow.cwnd - before
    }

    fn trim(now: Time) -> Trim {
        Trim {
            now,
            rtt: Some(Span::us(8)),
            bytes: 4200,
            in_flight_bytes: 4200 * 3 + 1000,
            at_scheduled_link: false,
        }
    }

    #[test]
    fn starts_with_a_bdp() {
        let fresh = Smartt::start(&params(), &path(), Time::ZERO, 1);
        assert_near(fresh.cwnd, 100_000.0, 1e-9);
        assert_eq!(change(&mut start(100_000.0), &params(), &ack(10_000, false)), 0.0);
    }

    #[test]
    fn below_the_target_increases_multiply() {
        // 2.5 · 2.08/10 of p · p/cwnd = 352.8 B, and 2 of them.
        let grown = change(&mut start(HALF), &params(), &ack(10_000, false));
        assert_near(grown, 2.52 * 352.8, 1e-6);
        // A packet at most, beside the fair increase: 2.5 · 4.08/8 = 1.275.
        let grown = change(&mut start(PACKET), &params(), &ack(8_000, false));
        assert_near(grown, PACKET + 2.0 * PACKET, 1e-6);
    }

    #[test]
    fn above_the_target_increase_is_fair() {
        for rtt_ns in [12_081, 20_000] {
            let grown = change(&mut start(HALF), &params(), &ack(rtt_ns, false));
            assert_near(grown, 2.0 * 352.8, 1e-6);
        }
        assert_eq!(change(&mut start(HALF), &params(), &ack(12_080, false)), 0.0);
    }

    #[test]
    fn marks_below_the_target_decrease_fairly() {
        let removed = change(&mut start(HALF), &params(), &ack(10_000, true));
        assert_near(removed, -0.8 * PACKET * 0.5, 1e-6);
        assert_eq!(change(&mut start(HALF), &params(), &ack(12_080, true)), 0.0);
        assert_eq!(change(&mut start(PACKET), &params(), &ack(10_000, true)), 0.0);
    }

    #[test]
    fn marks_above_the_target_decrease_multiply() {
        // 2 · 3.02/15.1 = 0.4 packets, and the fair decrease.
        let removed = change(&mut start(HALF), &params(), &ack(15_100, true));
        assert_near(removed, -(0.4 + 0.4) * PACKET, 1e-6);
        // A packet at most.
        let removed = change(&mut start(HALF), &params(), &ack(30_000, true));
        assert_near(removed, -PACKET, 1e-6);
    }

    #[test]
    fn acknowledged_packets_count_each() {
        let two = Ack { acked_packets: 2, acked_bytes: 8400, ..ack(10_000, true) };
        assert_near(change(&mut start(HALF), &params(), &two), -2.0 * 0.4 * PACKET, 1e-6);
        let none = Ack { acked_packets: 0, acked_bytes: 0, ..ack(10_000, true) };
        assert_eq!(change(&mut start(HALF), &params(), &none), 0.0);
    }

    #[test]
    fn decreases_wait_for_a_share_of_marks() {
        let params = SmarttParams { wait_to_decrease: true, ..params() };
        let mut flow = start(HALF);
        // 1 − (7/8)^n is 0.234 after two marks and 0.330 after three.
        for _ in 0..2 {
            assert_eq!(change(&mut flow, &params, &ack(10_000, true)), 0.0);
        }
        assert_near(change(&mut flow, &params, &ack(10_000, true)), -0.4 * PACKET, 1e-6);
        assert_near(flow.marks, 1.0 - 0.875_f64.powi(3), 1e-12);
    }

    #[test]
    fn without_a_queue_growth_is_fast_after_a_window() {
        let params = params();
        let mut flow = start(HALF);
        flow.on_ack(&params, &ack(10_000, true));
        let window = flow.cwnd;
        // 48,320 B are eleven packets and a half.
        assert_near(window, 48_320.0, 1e-6);
        for _ in 0..11 {
            assert!(change(&mut flow, &params, &ack(9_680, false)) < 0.5 * PACKET);
        }
        for _ in 0..2 {
            assert_near(change(&mut flow, &params, &ack(9_680, false)), 1.2 * PACKET, 1e-6);
        }
        assert!(change(&mut flow, &params, &ack(9_681, false)) < 0.5 * PACKET);
        assert_eq!((flow.is_fast, flow.unqueued), (false, 0.0));
    }

    #[test]
    fn trimmed_packets_leave_what_was_delivered() {
        let params = params();
        let mut flow = start(HALF);
        // The first interval begins: the packet alone leaves the window.
        flow.on_trim(&params, &trim(Time::us(100)));
        assert_eq!(flow.cwnd, HALF - PACKET);
        for _ in 0..2 {
            flow.on_ack(&params, &Ack { now: Time::us(104), ..ack(12_080, false) });
        }
        flow.on_trim(&params, &trim(Time::us(107)));
        assert_eq!(flow.cwnd, HALF - 2.0 * PACKET);
        // The interval is over. Two packets and two headers have arrived.
        flow.on_trim(&params, &trim(Time::us(108)));
        assert_eq!(flow.cwnd, 2.0 * PACKET + 2.0 * HEADER_BYTES);
        assert_eq!(flow.to_ignore, 3);
    }

    #[test]
    fn quick_adapt_ignores_what_was_in_flight() {
        let params = params();
        let mut flow = start(HALF);
        flow.interval_end = Time::us(99);
        flow.delivered = 30_000.0;
        flow.on_trim(&params, &trim(Time::us(100)));
        assert_eq!(flow.cwnd, 30_000.0 + HEADER_BYTES);
        let window = flow.cwnd;
        // Three were in flight with it: marks and trimmed packets of two change nothing.
        flow.on_ack(&params, &Ack { now: Time::us(101), ..ack(30_000, true) });
        flow.on_trim(&params, &trim(Time::us(200)));
        assert_eq!(flow.cwnd, window);
        // The third may ask for a quick adapt: one packet and one header have arrived.
        flow.on_trim(&params, &trim(Time::us(201)));
        assert_eq!(flow.cwnd, PACKET + 2.0 * HEADER_BYTES);
    }

    #[test]
    fn quick_adapts_are_three_round_trips_apart() {
        let params = params();
        let mut flow = start(HALF);
        flow.interval_end = Time::us(99);
        flow.adapted_until = Time::us(124);
        flow.delivered = 10_000.0;
        for at in [110, 124] {
            let before = flow.cwnd;
            flow.on_trim(&params, &trim(Time::us(at)));
            assert_eq!(flow.cwnd, before - PACKET);
        }
        flow.on_trim(&params, &trim(Time::us(125)));
        assert_eq!(flow.cwnd, 10_000.0 + 3.0 * HEADER_BYTES);
        assert_eq!(flow.adapted_until, Time::us(149));
    }

    #[test]
    fn timeouts_adapt_or_leave_one_packet() {
        let params = params();
        let mut flow = start(HALF);
        flow.interval_end = Time::us(99);
        flow.delivered = 20_000.0;
        flow.on_packet_timeout(&params, 4200);
        assert_eq!(flow.cwnd, HALF);
        flow.on_ack(&params, &ack(12_080, false));
        assert_eq!(flow.cwnd, 20_000.0);
        let loss = |kind| Loss { now: Time::us(109), kind, rtt: Span::us(8), next_seq: 0 };
        flow.on_loss(&params, &loss(LossKind::Recovery));
        assert_eq!(flow.cwnd, 20_000.0);
        flow.on_loss(&params, &loss(LossKind::Timeout));
        assert_eq!(flow.cwnd, PACKET);
    }

    #[test]
    fn pace_is_a_window_per_base_rtt() {
        let flow = start(HALF);
        assert!(flow.limit(&params()).pace_bps.is_infinite());
        let paced = flow.limit(&SmarttParams { paced: true, ..params() });
        assert_near(paced.pace_bps, Rate::gbps(50).as_bps() as f64, 1e-3);
    }

    #[test]
    fn a_lone_flow_has_whole_packets() {
        let goal = |params| Smartt::operating_point(&params, &path(), 1e11).utilisation_goal;
        // 23 of 23.8 packets.
        assert_near(goal(params()), 0.966, 1e-9);
        assert_near(goal(SmarttParams { max_window: Extent::Bdp(1.2), ..params() }), 1.0, 1e-9);
    }

    #[test]
    fn thresholds_in_order() {
        let params = |kmin, kmax| SmarttParams { kmin, kmax, ..SmarttParams::default() };
        assert_eq!(SmarttParams::default().conflict(), None);
        assert!(params(Extent::Bdp(0.5), Extent::Bdp(0.4)).conflict().is_some());
    }
}
