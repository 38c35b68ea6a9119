//! NSCC: Ultra Ethernet's network-signalled congestion control at the sender.
//!
//! Every acknowledgement gives two signals, the queueing delay and the ECN mark, and their four
//! combinations decide what the window does. Marks alone only change the path: with packets over
//! many paths, one of them may be congested while the network is not. A packet that was trimmed
//! proves that a queue was full; after a burst of them the window becomes what the network has
//! delivered in a round trip (quick adapt).
//!
//! Ultra Ethernet Consortium. "Ultra Ethernet Specification v1.0", 2025. The law below is that of
//! the consortium's simulator (ultraethernet/uet-htsim, commit 40ccb05, `uec.cpp`); it has not been
//! compared with the text of the specification. It descends from SMaRTT-REPS (arXiv 2404.01630).
//!
//! # Equations
//!
//! `delay = rtt − base RTT`, where the base RTT is the smallest RTT seen, at first that of the
//! fabric; `target = target_rtts · RTT of the fabric`; `a = BDP / (100 Gbit/s · 12 us)`;
//! `e = (target − delay) / 12 us`; `mss` is a full payload, `n` the acknowledged bytes.
//!
//! | mark | delay | window |
//! | --- | --- | --- |
//! | no | ≥ target | fair increase: `inc += fair_increase · mss · a · n` |
//! | no | < target | proportional increase: `inc += proportional · mss · a · e · n` |
//! | yes | < target | unchanged: only the path changes |
//! | yes | ≥ target | multiplicative decrease, once a base RTT |
//!
//! * fast increase, in place of the proportional one: if `delay < 1 us` for a window of data,
//!   `cwnd += fast_increase · a · n` until that ends
//! * multiplicative decrease: with the smoothed delay `d > target`,
//!   `cwnd *= max(1 − gamma · (d − target) / d, max_decrease)`
//! * the increase is applied once more than 8 packets have been acknowledged or an RTT of the
//!   fabric has passed: `cwnd += inc / cwnd`, and in the latter case `cwnd += additive · mss · a`
//! * smoothed delay: `d += (sample − d) / 80`; the sample is the delay, but a quarter of the base
//!   RTT if the delay is above the target without a mark, and the RTT of the fabric for a trimmed
//!   packet
//! * trimmed packet: `cwnd −= packet`, unless quick adapt applies or the receiver's credit
//!   schedules the link at which it was trimmed; timeout of a packet: the same without exception
//! * quick adapt, once every base RTT plus target: if in that time a packet was trimmed or the
//!   delay exceeds four targets, and less than `max_window / 2^gate` was delivered, `cwnd` becomes
//!   the bytes delivered in that time, and marked acknowledgements of the bytes that were then in
//!   flight change nothing
//! * always `packet ≤ cwnd ≤ max_window · BDP`, the BDP at the smallest RTT
//!
//! # Network requirements
//!
//! Trimming at a queue of one BDP, with strict priority for trimmed packets and acknowledgements
//! (uet-htsim sends 100,000 of them for each packet of data that waits); marks at departure, with a
//! probability that rises from 0 to 1 between 0.2 and 0.8 BDP. Packets take many paths
//! (`multipath`), and only trimmed headers and timeouts indicate losses (`recovery = "trimmed"`).
//!
//! # Domain
//!
//! The window is never below a packet, and headers of trimmed packets precede data. So if more than
//! `C · T / 84 B` senders send to one link of rate `C`, with `T` the base RTT without the time of
//! the payload on that link, headers fill it, and it delivers nothing: more than 112 at 10 Gbit/s
//! and 4,096 B (links of 1 µs), more than 610 at 100 Gbit/s and 1,000 B. Goodput falls before: 60
//! and 105 unlimited flows at 10 Gbit/s have 6.3 and 3.2 Gbit/s, 125 have none; 500 at 100 Gbit/s
//! have 27 Gbit/s. A warning reports unlimited flows beyond this number, but not messages.
//!
//! # Differences from the published simulator
//!
//! The numbers above are its defaults.
//!
//! * Every packet is acknowledged by default; there, 16 KiB share an acknowledgement unless a mark
//!   or the sender asks for one (`-sack_threshold`). With `ack_every = 4` and packets of 4 KiB, a
//!   change of marks and `ack_delay` end the wait instead.
//! * The timeout of a packet is four deviations above the smoothed round-trip time, and 100 us at
//!   least; there, it is 15 us plus the time of six full queues.
//! * A round-trip time is that of the acknowledged transmission, also if the packet was sent more
//!   than once; there, ambiguous samples are replaced by the smoothed delay.
//! * A request for a trimmed packet also acknowledges what has arrived since; there, it
//!   acknowledges nothing. A request for a packet that is not outstanding is still feedback on its
//!   path.
//! * The packet in transmission counts neither for the capacity of a queue nor for marks, which are
//!   decided at the start of a transmission, not at its end. Marks read the whole queue of a port,
//!   with headers and acknowledgements; there, only the queue for data.
//! * A packet in the queue is trimmed only if the arriving one is not larger. Headers trimmed at
//!   the last hop wait behind other headers and acknowledgements.
//! * The window is not rounded to whole bytes.
//! * There is no penalty for a slow receiver (`rcv_cwnd_pen`) and no loss detection without
//!   trimming (`-sleek`). Credit of the receiver beside the window: `message/nscc_rccc.rs`.

use crate::law::headers_fill_link;
use tidegate_core::{
    Ack, CongestionControl, ConnectionDefaults, Dash, Extent, FabricProperties, FabricRequirements,
    Limit, Loss, LossKind, Marker, Marking, OperatingPoint, Path, ProtocolInfo, Span,
    TelemetryBytes, Time, Trim, math, params,
};

/// The network to which the published constants refer.
const REFERENCE_RTT: Span = Span::us(12);
const REFERENCE_BPS: f64 = 100e9;

params! {
    /// Parameters of NSCC.
    pub struct NsccParams {
        /// Target queueing delay, in base RTTs of the fabric.
        target_rtts: f64 = 0.75, in 0.01..=100.0, "ultraethernet/uet-htsim, uec.cpp: \
            initNsccParams; 1.0 without trimming";
        /// Increase of a round trip above the target without a mark, in `mss · a`.
        fair_increase: f64 = 5.0, in 0.0..=1000.0, "uec.cpp: _fi";
        /// Increase of a round trip without delay, in `mss · a · target / 12 us`.
        proportional: f64 = 4.0, in 0.0..=1000.0, "uec.cpp: _alpha";
        /// Increase in each RTT of the fabric, in `mss · a`.
        additive: f64 = 0.15, in 0.0..=1000.0, "uec.cpp: _eta";
        /// Growth per acknowledged byte while there is no queue, in `a`.
        fast_increase: f64 = 0.25, in 0.0..=1000.0, "uec.cpp: _fi_scale";
        /// Delay below which there is no queue.
        fast_below: Span = Span::us(1), within Span::ZERO => Span::s(1), "uec.cpp: fast_increase";
        /// Gain of the multiplicative decrease.
        gamma: f64 = 0.8, in 0.0..=1.0, "uec.cpp: _gamma";
        /// Smallest factor of a multiplicative decrease.
        max_decrease: f64 = 0.5, in 0.01..=1.0, "uec.cpp: multiplicative_decrease";
        /// Weight of a sample in the smoothed delay.
        delay_weight: f64 = 0.0125, in 0.0001..=1.0, "uec.cpp: _delay_alpha";
        /// The increase is applied when more full packets than this have been acknowledged.
        adjust_packets: f64 = 8.0, in 1.0..=1000.0, "uec.cpp: _adjust_bytes_threshold";
        /// Quick adapt applies if less than the largest window divided by two to this power was
        /// delivered; 62: never.
        quick_adapt_gate: u64 = 3, in 0..=62, "uec.cpp: _qa_gate";
        /// Delay that triggers quick adapt, in targets.
        quick_adapt_targets: f64 = 4.0, in 0.0..=1000.0, if quick_adapt_gate != 62u64,
            "uec.cpp: _qa_threshold";
        /// Largest window, and that of a new connection, at the smallest RTT seen.
        max_window: Extent = Extent::Bdp(1.5), within Extent::Bdp(0.1) => Extent::Bdp(1000.0),
            "uec.cpp: initNscc";
        /// Queue length below which switches mark nothing.
        kmin: Extent = Extent::Bdp(0.2), within Extent::Bdp(0.0) => Extent::Bdp(100.0),
            "uet-htsim, main_uec.cpp: ecn_low";
        /// Queue length from which on switches mark everything.
        kmax: Extent = Extent::Bdp(0.8), within Extent::Bdp(0.0) => Extent::Bdp(100.0),
            "uet-htsim, main_uec.cpp: ecn_high";
        /// Whether only ports between switches mark, so that a mark indicates a congested path and
        /// never the receiver's link.
        core_marks: bool = false, later = true, "`true` in MRC (arXiv 2605.04333)";
        /// Capacity of the queue for data of a port, beyond which packets are trimmed.
        queue: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.01) => Extent::Bdp(100.0),
            "uet-htsim, main_uec.cpp: DEFAULT_TRIMMING_QUEUESIZE_FACTOR";
    }
    ramp = kmin, kmax;
}

/// A connection under NSCC. Sizes are bytes as the window counts them, times picoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Nscc {
    cwnd: f64,
    packet: f64,
    /// Rate of the NIC.
    bytes_per_ps: f64,
    base_rtt: f64,
    /// RTT of the fabric.
    fabric_rtt: f64,
    /// Full payload.
    mss: f64,
    /// Smoothed delay.
    delay: f64,
    /// Σ increase · acknowledged bytes since the last adjustment.
    increase: f64,
    /// Bytes acknowledged since then.
    acked: f64,
    adjusted_at: Time,
    /// Bytes acknowledged without a queue.
    unqueued: f64,
    /// Fast increase is on.
    is_fast: bool,
    decreased_at: Time,
    /// Quick adapt: bytes delivered in its current interval, and the interval's end.
    delivered: f64,
    interval_end: Time,
    /// A packet was trimmed.
    was_trimmed: bool,
    /// Bytes that were in flight at the last quick adapt and have not been acknowledged since;
    /// until then, marked acknowledgements change nothing.
    to_ignore: f64,
}

impl CongestionControl for Nscc {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "nscc",
        title: "NSCC",
        revision: 0,
        citation: "Ultra Ethernet Consortium, \"Ultra Ethernet Specification v1.0\", 2025",
        summary: "Combines delay and marks over many paths; adapts to what is delivered when \
                  packets are trimmed.",
        color: "#8c6d1f",
        marker: Marker::Cross,
        dash: Dash::Dashed,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = NsccParams;
    const CONNECTION_DEFAULTS: ConnectionDefaults = ConnectionDefaults {
        initial_rto: Span::us(100),
        min_rto: Span::us(100),
        ..ConnectionDefaults::SPRAYED
    };

    fn operating_point(_params: &NsccParams, path: &Path, rate_bps: f64) -> OperatingPoint {
        OperatingPoint {
            domain_warnings: headers_fill_link(path, rate_bps).into_iter().collect(),
            ..OperatingPoint::DEFAULT
        }
    }

    fn requirements(params: &NsccParams, _fabric: &FabricProperties) -> FabricRequirements {
        FabricRequirements {
            ecn: Some(Marking {
                core_only: params.core_marks,
                ..Marking::ramp(params.kmin, params.kmax)
            }),
            ..FabricRequirements::trimmed(params.queue, 84)
        }
    }

    fn start(params: &NsccParams, path: &Path, _now: Time, _seed: u64) -> Nscc {
        let fabric_rtt = path.fabric_base_rtt.as_ps() as f64;
        let bytes_per_ps = path.nic_rate.as_bps() as f64 / 8e12;
        let mut flow = Nscc {
            cwnd: 0.0,
            packet: path.full_wire_bytes as f64,
            bytes_per_ps,
            base_rtt: fabric_rtt,
            fabric_rtt,
            mss: path.mtu as f64,
            delay: 0.0,
            increase: 0.0,
            acked: 0.0,
            adjusted_at: Time::ZERO,
            unqueued: 0.0,
            is_fast: false,
            decreased_at: Time::ZERO,
            delivered: 0.0,
            interval_end: Time::ZERO,
            was_trimmed: false,
            to_ignore: 0.0,
        };
        flow.cwnd = flow.max_window(params);
        flow
    }

    fn on_ack(&mut self, params: &NsccParams, ack: &Ack<'_>) {
        let (now, marked) = (ack.now, ack.marked);
        let bytes = ack.acked_bytes as f64;
        self.delivered += bytes;
        self.acked += bytes;
        self.to_ignore -= bytes;
        let delay = self.sample(ack.rtt);
        let target = self.target(params);
        let held_up = delay > target && !marked;
        let smoothed = if held_up { self.base_rtt * 0.25 } else { delay };
        self.delay += params.delay_weight * (smoothed - self.delay);
        let trigger = self.was_trimmed || delay > params.quick_adapt_targets * target;
        if self.quick_adapt(params, now, marked, trigger, ack.in_flight_bytes) {
            return;
        }
        match (marked, delay >= target) {
            (false, true) => self.increase += params.fair_increase * self.unit() * bytes,
            (false, false) => self.grow(params, bytes, delay),
            (true, true) => self.decrease(params, now),
            (true, false) => {}
        }
        self.bound(params);
        let is_due = now.since(self.adjusted_at).as_ps() as f64 >= self.fabric_rtt;
        if is_due || self.acked > params.adjust_packets * self.packet {
            self.cwnd += self.increase / self.cwnd;
            if is_due {
                self.cwnd += params.additive * self.unit();
                self.adjusted_at = now;
            }
            (self.increase, self.acked) = (0.0, 0.0);
            self.bound(params);
        }
    }

    fn on_trim(&mut self, params: &NsccParams, trim: &Trim) {
        let bytes = trim.bytes as f64;
        self.to_ignore -= bytes;
        if let Some(rtt) = trim.rtt {
            self.sample(rtt);
        }
        self.delay += params.delay_weight * (self.fabric_rtt - self.delay);
        self.was_trimmed = true;
        let adapted = self.quick_adapt(params, trim.now, true, true, trim.in_flight_bytes);
        if !adapted && !trim.at_scheduled_link {
            self.cwnd -= bytes;
            self.bound(params);
        }
    }

    fn on_packet_timeout(&mut self, params: &NsccParams, bytes: u64) {
        self.cwnd -= bytes as f64;
        self.bound(params);
    }

    fn on_loss(&mut self, _params: &NsccParams, loss: &Loss) {
        if loss.kind == LossKind::Timeout {
            self.cwnd = self.packet;
        }
    }

    #[inline]
    fn limit(&self, _params: &NsccParams) -> Limit {
        Limit::window(self.cwnd)
    }
}

impl Nscc {
    fn target(&self, params: &NsccParams) -> f64 {
        params.target_rtts * self.fabric_rtt
    }

    /// `a`.
    fn scale(&self) -> f64 {
        let reference = REFERENCE_BPS / 8e12 * REFERENCE_RTT.as_ps() as f64;
        self.bytes_per_ps * self.fabric_rtt / reference
    }

    /// `mss · a`.
    fn unit(&self) -> f64 {
        self.mss * self.scale()
    }

    /// Largest window: it shrinks with the smallest RTT seen.
    fn max_window(&self, params: &NsccParams) -> f64 {
        params.max_window.bytes(self.bytes_per_ps * self.base_rtt).max(self.packet)
    }

    /// Queueing delay of a round trip.
    fn sample(&mut self, rtt: Span) -> f64 {
        let rtt = rtt.as_ps() as f64;
        self.base_rtt = self.base_rtt.min(rtt);
        rtt - self.base_rtt
    }

    /// Ends the interval if it is over. Returns whether the acknowledgement or the trimmed packet
    /// has no other effect.
    fn quick_adapt(
        &mut self,
        params: &NsccParams,
        now: Time,
        congested: bool,
        trigger: bool,
        in_flight_bytes: u64,
    ) -> bool {
        let mut done = false;
        if congested && self.to_ignore > 0.0 {
            done = true;
        } else if now > self.interval_end {
            // In whole bytes, so that no delivered byte is enough at the largest gate.
            let gate = (1_u64 << params.quick_adapt_gate) as f64;
            let limit = math::floor(self.max_window(params) / gate);
            if self.interval_end != Time::ZERO && trigger && self.delivered < limit {
                self.cwnd = self.delivered.max(self.packet);
                self.to_ignore = in_flight_bytes as f64;
                self.was_trimmed = false;
                done = true;
            }
            self.delivered = 0.0;
            self.interval_end = now + Span::from_ps_f64(self.base_rtt + self.target(params));
        }
        if done {
            (self.increase, self.acked) = (0.0, 0.0);
        }
        done
    }

    /// Fast or proportional increase.
    fn grow(&mut self, params: &NsccParams, bytes: f64, delay: f64) {
        if delay < params.fast_below.as_ps() as f64 {
            self.unqueued += bytes;
            if self.is_fast || self.unqueued > self.cwnd {
                self.cwnd += params.fast_increase * self.scale() * bytes;
                self.is_fast = true;
                return;
            }
        } else {
            self.unqueued = 0.0;
        }
        self.is_fast = false;
        let share = (self.target(params) - delay) / REFERENCE_RTT.as_ps() as f64;
        self.increase += params.proportional * self.unit() * share * bytes;
    }

    /// Multiplicative decrease.
    fn decrease(&mut self, params: &NsccParams, now: Time) {
        self.is_fast = false;
        self.unqueued = 0.0;
        let target = self.target(params);
        if self.delay > target && now.since(self.decreased_at).as_ps() as f64 > self.base_rtt {
            let factor = 1.0 - params.gamma * (self.delay - target) / self.delay;
            self.cwnd *= factor.max(params.max_decrease);
            self.decreased_at = now;
        }
    }

    fn bound(&mut self, params: &NsccParams) {
        self.cwnd = self.cwnd.clamp(self.packet, self.max_window(params));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{self, assert_near, path};
    use tidegate_core::params::Params;

    /// RTT of the path's fabric and its target, in picoseconds, and `a`.
    const RTT: Span = Span::us(8);
    const TARGET: Span = Span::us(6);
    const SCALE: f64 = 8.0 / 12.0;
    const UNIT: f64 = 4096.0 * SCALE;

    fn start(window: f64) -> Nscc {
        let mut flow = Nscc::start(&NsccParams::default(), &path(), Time::ZERO, 1);
        flow.cwnd = window;
        // No adjustment is due.
        flow.adjusted_at = Time::us(100);
        flow
    }

    fn ack(delay: Span, marked: bool, acked_bytes: u64) -> Ack<'static> {
        let now = Time::us(100);
        Ack { rtt: RTT + delay, marked, acked_bytes, ..contract::ack(now) }
    }

    /// Window after a round trip of `window` bytes in packets, each with this delay and mark.
    fn round(flow: &mut Nscc, delay: Span, marked: bool) -> f64 {
        let params = NsccParams::default();
        let packets = (flow.cwnd / 4200.0).round() as u64;
        for _ in 0..packets {
            flow.on_ack(&params, &ack(delay, marked, 4200));
        }
        flow.cwnd
    }

    #[test]
    fn starts_with_the_largest_window() {
        assert_near(start(0.0).max_window(&NsccParams::default()), 150_000.0, 1e-9);
        let fresh = Nscc::start(&NsccParams::default(), &path(), Time::ZERO, 1);
        assert_near(fresh.cwnd, 150_000.0, 1e-9);
    }

    #[test]
    fn unmarked_delays_increase_by_a_constant() {
        let mut flow = start(84_000.0);
        // Two adjustments of nine packets each; the rest waits.
        let grown = round(&mut flow, Span::us(7), false) - 84_000.0;
        let expected = 5.0 * UNIT * 18.0 / 20.0;
        assert_near(grown, expected, 0.05 * expected);
        assert_near(flow.increase, 5.0 * UNIT * 2.0 * 4200.0, 1e-9);
    }

    #[test]
    fn delay_below_the_target_increases_in_proportion() {
        for delay in [2, 4, 5] {
            let mut flow = start(84_000.0);
            let grown = round(&mut flow, Span::us(delay), false) - 84_000.0;
            let expected = 4.0 * UNIT * (6.0 - delay as f64) / 12.0 * 18.0 / 20.0;
            assert_near(grown, expected, 0.05 * expected);
        }
    }

    #[test]
    fn without_a_queue_growth_is_fast_after_a_window() {
        let mut flow = start(42_000.0);
        let params = NsccParams::default();
        let mut grown = || {
            let before = flow.cwnd;
            flow.on_ack(&params, &ack(Span::ns(900), false, 4200));
            flow.cwnd - before
        };
        assert_eq!((0..8).map(|_| grown()).sum::<f64>(), 0.0);
        (0..4).for_each(|_| _ = grown());
        for _ in 0..5 {
            assert_near(grown(), 0.25 * SCALE * 4200.0, 1e-9);
        }
        assert!(flow.is_fast);
        flow.on_ack(&params, &ack(Span::us(2), false, 4200));
        assert!(!flow.is_fast && flow.unqueued == 0.0);
    }

    #[test]
    fn marks_below_the_target_change_nothing() {
        let mut flow = start(84_000.0);
        assert_eq!(round(&mut flow, Span::us(5), true), 84_000.0);
        assert_eq!(flow.increase, 0.0);
    }

    #[test]
    fn marks_above_the_target_decrease_once_a_round_trip() {
        let mut flow = start(84_000.0);
        let params = NsccParams::default();
        // The smoothed delay is below the target at first.
        flow.on_ack(&params, &ack(Span::us(12), true, 4200));
        assert_eq!(flow.cwnd, 84_000.0);
        flow.delay = 9e6;
        for _ in 0..3 {
            flow.on_ack(&params, &ack(Span::us(9), true, 4200));
        }
        assert_near(flow.cwnd, 84_000.0 * (1.0 - 0.8 * 3.0 / 9.0), 1e-6);
        // At most by half.
        flow.delay = 1e9;
        let later = Time::us(109);
        flow.adjusted_at = later;
        flow.on_ack(&params, &Ack { now: later, ..ack(Span::us(9), true, 4200) });
        assert_near(flow.cwnd, 84_000.0 * (1.0 - 0.8 * 3.0 / 9.0) * 0.5, 1e-6);
    }

    #[test]
    fn every_round_trip_adds_a_little() {
        let mut flow = start(84_000.0);
        let params = NsccParams::default();
        let late = Ack { now: Time::us(108), ..ack(TARGET, true, 4200) };
        flow.on_ack(&params, &late);
        assert_near(flow.cwnd, 84_000.0 + 0.15 * UNIT, 1e-9);
        flow.on_ack(&params, &late);
        assert_near(flow.cwnd, 84_000.0 + 0.15 * UNIT, 1e-9);
    }

    fn trim(now: Time) -> Trim {
        Trim { now, rtt: Some(RTT), bytes: 4200, in_flight_bytes: 60_000, at_scheduled_link: false }
    }

    #[test]
    fn trimmed_packets_leave_what_was_delivered() {
        let mut flow = start(84_000.0);
        let params = NsccParams::default();
        // The first interval begins: the packet alone leaves the window.
        flow.on_trim(&params, &trim(Time::us(100)));
        assert_eq!(flow.cwnd, 84_000.0 - 4200.0);
        flow.on_ack(&params, &ack(Span::us(5), true, 4200));
        flow.on_ack(&params, &ack(Span::us(5), true, 4200));
        // After a base RTT and a target.
        flow.on_trim(&params, &trim(Time::us(115)));
        assert_eq!(flow.cwnd, 2.0 * 4200.0);
        // The 60 KB in flight do not count again.
        for _ in 0..14 {
            flow.on_trim(&params, &trim(Time::us(116)));
            assert_eq!(flow.cwnd, 2.0 * 4200.0);
        }
        flow.on_trim(&params, &trim(Time::us(116)));
        assert_eq!(flow.cwnd, 4200.0);
    }

    #[test]
    fn quick_adapt_spares_flows_that_deliver() {
        let mut flow = start(84_000.0);
        let params = NsccParams::default();
        flow.on_trim(&params, &trim(Time::us(100)));
        // An eighth of the largest window is 18,750 bytes.
        (0..5).for_each(|_| flow.on_ack(&params, &ack(Span::us(5), true, 4200)));
        flow.on_trim(&params, &trim(Time::us(115)));
        assert_eq!(flow.cwnd, 84_000.0 - 2.0 * 4200.0);
        // Delay alone triggers it, too.
        let late = Ack { now: Time::us(130), ..ack(Span::us(25), true, 4200) };
        flow.was_trimmed = false;
        flow.on_ack(&params, &late);
        assert_eq!(flow.cwnd, 4200.0);
    }

    #[test]
    fn base_rtt_is_the_smallest_and_bounds_the_window() {
        let mut flow = start(150_000.0);
        let params = NsccParams::default();
        flow.on_ack(&params, &Ack { rtt: Span::us(4), ..ack(Span::ZERO, true, 4200) });
        assert_eq!(flow.cwnd, 75_000.0);
        assert_eq!(flow.sample(Span::us(5)), 1e6);
    }

    #[test]
    fn timeouts_leave_one_packet() {
        let mut flow = start(84_000.0);
        let params = NsccParams::default();
        let loss = |kind| Loss { now: Time::us(9), kind, rtt: RTT, next_seq: 0 };
        flow.on_loss(&params, &loss(LossKind::Recovery));
        assert_eq!(flow.cwnd, 84_000.0);
        flow.on_loss(&params, &loss(LossKind::Timeout));
        assert_eq!(flow.cwnd, 4200.0);
    }

    #[test]
    fn thresholds_in_order() {
        let params = |kmin, kmax| NsccParams { kmin, kmax, ..NsccParams::default() };
        assert_eq!(NsccParams::default().conflict(), None);
        assert!(params(Extent::Bdp(0.5), Extent::Bdp(0.4)).conflict().is_some());
    }
}
