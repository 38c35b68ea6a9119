//! Swift: control of end-to-end delay to a target.
//!
//! A sender measures the RTT of every packet with NIC timestamps and keeps it near a target. Below
//! the target the window grows by one packet a round trip; above it the window shrinks in
//! proportion to the excess, at most once a round trip. The target grows with the number of
//! switches on the path, and for small windows, whose packets bunch by chance. Windows may be below
//! one packet; packets are then paced.
//!
//! Gautam Kumar, Nandita Dukkipati, Keon Jang, Hassan M. G. Wassel, Xian Wu, Behnam Montazeri,
//! Yaogong Wang, Kevin Springborn, Christopher Alfeld, Michael Ryan, David Wetherall, Amin Vahdat.
//! "Swift: Delay is Simple and Effective for Congestion Control in the Datacenter". SIGCOMM 2020.
//!
//! # Equations
//!
//! With `n` packets acknowledged and a window in packets:
//!
//! * target (section 3.5): `target = base + hops · h + clamp(α / √cwnd + β, 0, fs_range)` with
//!   `α = fs_range / (1/√fs_min − 1/√fs_max)` and `β = −α / √fs_max`
//! * below the target (Algorithm 1): `cwnd += ai · n / cwnd`, or `cwnd += ai · n` if `cwnd < 1`
//! * otherwise, at most once a round trip: `cwnd *= max(1 − beta · (delay − target) / delay, 1 −
//!   max_mdf)`
//! * loss (Algorithm 1): `cwnd *= 1 − max_mdf` under the same guard, `min_cwnd` after too many
//!   consecutive timeouts
//!
//! # Network requirements
//!
//! No support from switches. The receiver returns one byte: the number of switches that the packet
//! crossed, derived from its TTL.
//!
//! # Differences from the paper
//!
//! * Only the fabric window is implemented: simulated hosts take no time, so the endpoint window
//!   would never be the smaller one. The paper's public simulators compute it and ignore it.
//! * The window grows only if it limited sending in the last round trip. An acknowledgement counts
//!   for one window at most.
//! * The clock of the once-a-round-trip guard restarts when the window falls, not when it stays
//!   constant (as in one of the public simulators).
//! * The hop count is the path's, known from the start; it costs one byte in every acknowledgement.
//! * The latest RTT sample is used throughout. Base target and flow-scaling range default to those
//!   of Poseidon's evaluation; SIRD's are base_target = 15us, fs_range = 75us.
//! * Windows above one packet are not paced, as in the public simulators and in Poseidon's
//!   evaluation.
//! * A base target that is not above the base RTT never fills a link. If flow scaling does not
//!   raise it above the base RTT either, no window grows. A warning reports this.
//! * A connection that was idle for longer than a fixed time (the retransmission timeout before any
//!   sample) restarts.

use alloc::format;
use alloc::string::String;

use tidegate_core::{
    Ack, CongestionControl, ConnectionDefaults, Dash, Extent, Limit, Loss, LossKind, Marker,
    OperatingPoint, Path, ProtocolInfo, Span, TelemetryBytes, Time, math, params,
};

params! {
    /// Parameters of Swift.
    pub struct SwiftParams {
        /// Target delay of a large window on a path without switches.
        base_target: Span = Span::us(25), within Span::ns(100) => Span::ms(100),
            "Poseidon (NSDI'23), section 5: its Swift";
        /// Increase of the target for every switch on the forward path.
        per_hop: Span = Span::us(1), within Span::ZERO => Span::ms(10), "Poseidon (NSDI'23), \
            section 5: its Swift";
        /// Increase of the target for the smallest windows.
        fs_range: Span = Span::us(100), within Span::ZERO => Span::ms(100),
            "Poseidon (NSDI'23), section 5: its Swift";
        /// Window in packets at and below which the target increases by all of fs_range.
        fs_min: f64 = 0.1, in 0.001..=0.999, if fs_range != Span::ZERO,
            "hopnets/vertigo_simulations, Swift.cc";
        /// Window in packets at and above which flow scaling adds nothing.
        fs_max: f64 = 100.0, in 1.0..=1000000.0, if fs_range != Span::ZERO,
            "hopnets/vertigo_simulations, Swift.cc";
        /// Packets added each round trip below the target.
        ai: f64 = 1.0, in 0.001..=100.0, "hopnets/vertigo_simulations, Swift.cc";
        /// Gain of the decrease.
        beta: f64 = 0.8, in 0.001..=1.0, "hopnets/vertigo_simulations, Swift.cc";
        /// Largest share of the window that one decrease removes, and the share that a loss
        /// removes.
        max_mdf: f64 = 0.5, in 0.001..=0.999, "hopnets/vertigo_simulations, Swift.cc";
        /// Smallest window in packets.
        min_cwnd: f64 = 0.001, in 0.000001..=1.0, "hopnets/vertigo_simulations, Swift.cc";
        /// Largest window in packets: a bound on memory, not on rate.
        max_cwnd: f64 = 1000000.0, in 1.0..=1000000000.0, "our choice: SIRD's script has 666,667";
        /// Window of a new connection, and of one that was idle.
        initial_window: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.0) => Extent::Bdp(100.0),
            "SIRD (NSDI'25), table 2";
        /// Consecutive timeouts after which the window is reset to its minimum.
        retx_reset_threshold: u64 = 12, in 1..=1000, "hopnets/vertigo_simulations, Swift.cc";
    }
}

/// A connection under Swift.
#[derive(Clone, Debug, PartialEq)]
pub struct Swift {
    /// In packets; a window below 1 paces packets.
    cwnd: f64,
    full_wire_bytes: f64,
    /// The target without flow scaling, in picoseconds.
    fixed_target: f64,
    /// Flow scaling: alpha / √cwnd + beta, in picoseconds.
    alpha: f64,
    beta: f64,
    last_decrease: Option<Time>,
    timeouts: u64,
}

impl CongestionControl for Swift {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "swift",
        title: "Swift",
        revision: 1,
        citation: "Kumar et al., \"Swift: Delay is Simple and Effective for Congestion Control in \
            the Datacenter\", SIGCOMM 2020",
        summary: "Keeps the round-trip time near a target: grows by steps, falls in proportion to \
            the excess.",
        color: "#d55e00",
        marker: Marker::Square,
        dash: Dash::Solid,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes { fixed: 1, per_hop: 0 },
    };
    type Params = SwiftParams;
    const CONNECTION_DEFAULTS: ConnectionDefaults =
        ConnectionDefaults { restart_after: Span::ms(1), ..ConnectionDefaults::DEFAULT };

    fn operating_point(params: &SwiftParams, path: &Path, rate_bps: f64) -> OperatingPoint {
        OperatingPoint {
            queue_target: Some(queue_target(params, path, rate_bps)),
            domain_warnings: domain_warning(params, path).into_iter().collect(),
            ..OperatingPoint::DEFAULT
        }
    }

    fn start(params: &SwiftParams, path: &Path, _now: Time, _seed: u64) -> Swift {
        let range = params.fs_range.as_ps() as f64;
        // Swift section 3.5
        let alpha = range / (1.0 / math::sqrt(params.fs_min) - 1.0 / math::sqrt(params.fs_max));
        Swift {
            cwnd: (params.initial_window.bytes(path.bdp_bytes) / path.full_wire_bytes as f64)
                .clamp(params.min_cwnd, params.max_cwnd),
            full_wire_bytes: path.full_wire_bytes as f64,
            fixed_target: params.base_target.as_ps() as f64
                + path.hops as f64 * params.per_hop.as_ps() as f64,
            alpha,
            beta: -alpha / math::sqrt(params.fs_max),
            last_decrease: None,
            timeouts: 0,
        }
    }

    // Swift algorithm 1
    fn on_ack(&mut self, params: &SwiftParams, ack: &Ack<'_>) {
        self.timeouts = 0;
        let before = self.cwnd;
        let delay = ack.rtt.as_ps() as f64;
        let target = self.target(params);
        if delay < target {
            if ack.window_limited {
                let window = self.cwnd.max(1.0);
                self.cwnd += params.ai * (ack.acked_packets as f64 / window).min(1.0);
            }
        } else if self.may_decrease(ack.now, ack.rtt) {
            self.cwnd *= (1.0 - params.beta * (delay - target) / delay).max(1.0 - params.max_mdf);
        }
        self.clamp_window(params, before, ack.now);
    }

    // Swift algorithm 1
    fn on_loss(&mut self, params: &SwiftParams, loss: &Loss) {
        let before = self.cwnd;
        self.timeouts = match loss.kind {
            LossKind::Timeout => self.timeouts + 1,
            LossKind::Recovery => 0,
        };
        if self.timeouts >= params.retx_reset_threshold {
            self.cwnd = params.min_cwnd;
        } else if self.may_decrease(loss.now, loss.rtt) {
            self.cwnd *= 1.0 - params.max_mdf;
        }
        self.clamp_window(params, before, loss.now);
    }

    fn limit(&self, _params: &SwiftParams) -> Limit {
        Limit::window(self.cwnd * self.full_wire_bytes)
    }

    fn is_congested(&self, _params: &SwiftParams, ack: &Ack<'_>) -> bool {
        ack.rtt.as_ps() as f64 > self.fixed_target
    }
}

impl Swift {
    /// The window that sustains `rate_bps` at its own target. Window and target fall together, so a
    /// few iterations find it.
    fn steady(params: &SwiftParams, path: &Path, rate_bps: f64) -> Swift {
        let mut flow = Swift::start(params, path, Time::ZERO, 0);
        for _ in 0..20 {
            let packets = rate_bps * flow.target(params) / (path.full_wire_bytes as f64 * 8e12);
            flow.cwnd = packets.clamp(params.min_cwnd, params.max_cwnd);
        }
        flow
    }

    /// Target in picoseconds (Swift section 3.5).
    fn target(&self, params: &SwiftParams) -> f64 {
        let scaling = self.alpha / math::sqrt(self.cwnd) + self.beta;
        self.fixed_target + scaling.clamp(0.0, params.fs_range.as_ps() as f64)
    }

    /// Whether a round trip has passed since the last decrease.
    fn may_decrease(&self, now: Time, rtt: Span) -> bool {
        self.last_decrease.is_none_or(|last| now.since(last) >= rtt)
    }

    fn clamp_window(&mut self, params: &SwiftParams, before: f64, now: Time) {
        self.cwnd = self.cwnd.clamp(params.min_cwnd, params.max_cwnd);
        if self.cwnd < before {
            self.last_decrease = Some(now);
        }
    }
}

/// Target queueing delay of a flow at `rate_bps`.
fn queue_target(params: &SwiftParams, path: &Path, rate_bps: f64) -> Span {
    let target = Swift::steady(params, path, rate_bps).target(params);
    Span::from_ps_f64(target).beyond(path.base_rtt)
}

/// Reason why these parameters do not suit the path, if any.
fn domain_warning(params: &SwiftParams, path: &Path) -> Option<String> {
    let target = Span::from_ps_f64(Swift::start(params, path, Time::ZERO, 0).fixed_target);
    // No target exceeds the sum of these two (Swift section 3.5).
    let effect = if target.plus(params.fs_range) > path.base_rtt {
        "windows fall until flow scaling compensates, and links stay idle"
    } else {
        "flow scaling does not compensate, and windows fall to their minimum"
    };
    (target <= path.base_rtt).then(|| {
        format!(
            "the target of a large window is {:.2} us, not above the base RTT of {:.2} us: \
             {effect}; set base_target above the base RTT",
            target.as_us_f64(),
            path.base_rtt.as_us_f64()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{self, assert_near};

    fn start(params: &SwiftParams) -> Swift {
        Swift::start(params, &contract::path(), Time::ZERO, 0)
    }

    fn ack(now_us: u64, rtt_us: u64) -> Ack<'static> {
        Ack { rtt: Span::us(rtt_us), ..contract::ack(Time::us(now_us)) }
    }

    #[test]
    fn target_scales_with_hops_and_small_windows() {
        let params = SwiftParams::default();
        let mut flow = start(&params);
        assert_near(flow.alpha * 1e-6, 32.655, 5e-4);
        assert_near(flow.beta * 1e-6, -3.2655, 5e-5);
        // Three switches; a window of 100 packets gets no flow scaling, one of 0.1 all of it.
        let table =
            [(1000.0, 28.0), (100.0, 28.0), (1.0, 28.0 + 29.3895), (0.1, 128.0), (0.001, 128.0)];
        for (cwnd, target_us) in table {
            flow.cwnd = cwnd;
            assert_near(flow.target(&params) * 1e-6, target_us, 1e-3);
        }
    }

    #[test]
    fn warns_of_targets_that_are_not_above_the_base_rtt() {
        let params = SwiftParams::default();
        let warning = |base_rtt| domain_warning(&params, &Path { base_rtt, ..contract::path() });
        // Three switches.
        assert_eq!(warning(Span::ns(27_999)), None);
        for (base_us, expected) in [
            (28, "28.00 us: windows fall until flow scaling"),
            (127, "127.00 us: windows fall until flow scaling"),
            (128, "128.00 us: flow scaling does not compensate"),
        ] {
            let text = warning(Span::us(base_us)).unwrap();
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn growth_by_a_packet_and_decrease_by_the_excess() {
        let params = SwiftParams { fs_range: Span::ZERO, ..Default::default() };
        let mut flow = start(&params);
        let mut cwnd = |set: Option<f64>, ack: &Ack<'_>| {
            flow.cwnd = set.unwrap_or(flow.cwnd);
            flow.on_ack(&params, ack);
            flow.cwnd
        };
        assert_eq!(cwnd(Some(20.0), &ack(10, 27)), 20.05);
        assert_eq!(cwnd(Some(0.5), &ack(11, 27)), 1.5);
        assert_eq!(cwnd(Some(20.0), &Ack { window_limited: false, ..ack(12, 27) }), 20.0);
        assert_eq!(cwnd(Some(2.0), &Ack { acked_packets: 60, ..ack(13, 27) }), 3.0);
        assert_eq!(cwnd(Some(20.0), &Ack { acked_packets: 0, ..ack(14, 27) }), 20.0);
        // Target 28 us, delay 35 us: the excess is a fifth of the delay.
        assert_near(cwnd(None, &ack(100, 35)), 20.0 * (1.0 - 0.8 * 0.2), 1e-12);
        assert_near(cwnd(None, &ack(134, 35)), 16.8, 1e-12);
        assert_near(cwnd(None, &ack(135, 280)), 16.8, 1e-12);
        assert_near(cwnd(None, &ack(380, 280)), 8.4, 1e-12);
    }

    #[test]
    fn losses_cut_by_max_mdf_and_many_timeouts_reset() {
        let params = SwiftParams::default();
        let mut flow = start(&params);
        flow.cwnd = 64.0;
        let lose = |flow: &mut Swift, kind, now| {
            flow.on_loss(
                &params,
                &Loss { now: Time::us(now), kind, rtt: Span::us(30), next_seq: 0 },
            );
            flow.cwnd
        };
        assert_eq!(lose(&mut flow, LossKind::Recovery, 100), 32.0);
        for i in 1..12 {
            assert_eq!(lose(&mut flow, LossKind::Timeout, 100 + i), 32.0);
        }
        let (mut acked, mut recovered) = (flow.clone(), flow.clone());
        assert_eq!(lose(&mut flow, LossKind::Timeout, 112), params.min_cwnd);
        // An acknowledgement or a recovery ends the series.
        acked.on_ack(&params, &Ack { window_limited: false, ..ack(112, 6) });
        assert_eq!(lose(&mut acked, LossKind::Timeout, 113), 32.0);
        assert_eq!(lose(&mut recovered, LossKind::Recovery, 112), 32.0);
        assert_eq!(lose(&mut recovered, LossKind::Timeout, 113), 32.0);
    }

    #[test]
    fn path_is_congested_above_the_unscaled_target() {
        let params = SwiftParams::default();
        let mut flow = start(&params);
        flow.cwnd = 0.1;
        assert!(
            !flow.is_congested(&params, &ack(10, 28)) && flow.is_congested(&params, &ack(10, 29))
        );
    }
}
