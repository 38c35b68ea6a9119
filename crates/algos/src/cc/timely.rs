//! TIMELY: control by the gradient of the round-trip time.
//!
//! A sender measures round-trip times in its NIC and evaluates their change. While they fall or are
//! short, it adds a small step to its rate; while they grow, it decreases the rate in proportion to
//! the gradient; if they are very long, it decreases the rate more, whatever the gradient. A
//! gradient of zero holds for any queue length, so shares and queues have no unique equilibrium.
//! `variant = "patched"` weighs the gradient against the distance from a reference RTT, which gives
//! a unique fixed point.
//!
//! Radhika Mittal, Vinh The Lam, Nandita Dukkipati, Emily Blem, Hassan Wassel, Monia Ghobadi, Amin
//! Vahdat, Yaogong Wang, David Wetherall, David Zats. "TIMELY: RTT-based Congestion Control for the
//! Datacenter". SIGCOMM 2015.
//!
//! The patch: Yibo Zhu, Monia Ghobadi, Vishal Misra, Jitendra Padhye. "ECN or Delay: Lessons Learnt
//! from Analysis of DCQCN and TIMELY". CoNEXT 2016.
//!
//! # Equations
//!
//! Once a round trip, with the new RTT and `R` the rate (Algorithm 1):
//!
//! * `d = (1 − α) · d + α · (rtt − rtt before)`, gradient `g = d / min_rtt`
//! * `rtt < T_low`: `R += δ`, or `hyper` as below
//! * `rtt > T_high`: `R *= 1 − β · (1 − T_high / rtt)`
//! * otherwise, if `g ≤ 0`: `R += δ`, or a larger step (`hyper`) after five consecutive increases
//! * otherwise: `R *= 1 − β · g`
//!
//! Patched (Algorithm 2 of the analysis), between the thresholds and with its own β:
//!
//! * `R = δ · (1 − w) + R · (1 − β · w · (rtt − T_low) / T_low)`, with `w(g) = 2g + 1/2` clamped to
//!   \[0, 1\]
//! * in equilibrium `g = 0` and `w = 1/2`, so `rtt = T_low · (1 + δ / (β · R))`
//!
//! # Network requirements
//!
//! No support from switches, but a lossless fabric.
//!
//! # Domain
//!
//! Thresholds are times, chosen for a fabric with an RTT of about 20 µs. If the base RTT is above
//! `t_low`, only the gradient decides; if it is a few microseconds, mostly `t_low` does: at 100
//! Gbit/s and 5.08 µs the defaults give a p99 of 75.6 µs, and `t_low` of 10 µs gives 12.4. If the
//! base RTT is above `t_high`, the rate falls to `min_rate` without any queue. Under the patched
//! rule, a base RTT above `t_low` gives a flow on an empty path the rate of its equilibrium, which
//! at twice `t_low` is an eighth of the NIC's. A warning reports either, and a `t_low` of more than
//! five base RTTs.
//!
//! Since a gradient of zero lets the rate grow, whatever the queue, the first rule never converges
//! (theorem 3 of the analysis). Here flows on a short path oscillate together between an empty
//! queue and `t_low`: 2, 4, 8 and 16 of them use 0.89, 0.87, 0.77 and 0.65 of a link of 100 Gbit/s
//! with a base RTT of 4.2 µs. The patched rule converges to its formula with up to 30 flows at 100
//! Gbit/s (1,000 B, `t_low` of 50 µs); with more, RTTs oscillate beyond `t_high`: 36, 40 and 60
//! flows have 6.0, 6.3 and 7.9 MB in the queue, where the formula has 3.4, 3.7 and 5.3.
//!
//! The same holds for a single flow if its receiver's link is slower than its NIC, because steps
//! are shares of the NIC's rate: from 100 to 10 Gbit/s it uses 0.36 (4,096 B) and 0.63 (1,000 B) of
//! the slower link, from 400 to 25 Gbit/s 0.44 (4,096 B). An independent simulation of Algorithm 1
//! gives the same. A warning reports such a path.
//!
//! Without a window and without PFC, a start of many flows at line rate fills any buffer, because
//! updates are a round trip apart and the round trip grows with the queue: 16 such flows have 285
//! MB in the queue after 20 ms. Use `initial_rate` and `max_window` on fabrics without PFC.
//!
//! # Differences from the paper
//!
//! * As in HPCC's simulator (rdma-hw.cc), the rate is updated once a round trip and each packet is
//!   paced, where the paper updates with every segment of 16 to 64 KB and paces segments. Increases
//!   are proportional to the NIC's rate: 10 and 50 Mbit/s are for 10 Gbit/s.
//! * The first round trip only stores its RTT.
//! * Every increase counts towards the five, and all further ones are by `hyper`, also below
//!   `t_low`, as in that simulator. In the paper, `t_low` has no hyper increase, so a short path
//!   starts up to five times faster here.
//! * The authors' published code fragment (timely-code-snippet.cc) has rules that neither HPCC's
//!   simulator nor this file has: a decrease is at most half (here it may reach `min_rate`), the
//!   five are consecutive negative differences of RTTs (here increases), and increments are scaled
//!   by the time since the last one, up to `min_rtt`. For packets that are paced one by one, its
//!   comments recommend a weight of 0.02 and a `t_low` of 0.
//! * The rate grows only if it limited sending in the last round trip.
//! * By default no window bounds the bytes in flight: `max_window` is very large. `max_window =
//!   "1BDP"` is the variant with a window of HPCC's evaluation.
//! * A loss halves the rate; the paper assumes a lossless fabric. Retransmission is that of NICs
//!   (`recovery = "go-back-n"`), and a timeout is only a safety net.
//! * Acknowledgements have the priority of data. In that simulator their priority is higher.
//! * The analysis gives the patch no hyper increase, nor is there one here. Above `t_high` the
//!   patch keeps TIMELY's β: with 0.008, flows that start at line rate never converge (2 of them:
//!   83 MB in the queue after 100 ms).

use alloc::format;
use alloc::string::String;

use crate::law::RoundTrip;
use crate::pace::Pace;
use tidegate_core::{
    Ack, CongestionControl, ConnectionDefaults, Dash, Extent, FabricProperties, FabricRequirements,
    Limit, Loss, Marker, OperatingPoint, Path, ProtocolInfo, Rate, Span, TelemetryBytes, Time,
    choice, params,
};

choice! {
    /// Rule between the two thresholds.
    pub enum Variant {
        /// The sign of the gradient decides.
        Gradient = "gradient",
        /// The gradient weighs an increase against the distance from the lower threshold.
        Patched = "patched",
    }
}

params! {
    /// Parameters of TIMELY.
    pub struct TimelyParams {
        /// Rule between the two thresholds.
        variant: Variant = Variant::Gradient,
            "TIMELY (SIGCOMM'15), algorithm 1; `patched`: CoNEXT'16, algorithm 2";
        /// RTT below which the rate always grows; reference RTT of `patched`.
        t_low: Span = Span::us(50), within Span::ns(100) => Span::ms(100),
            "TIMELY (SIGCOMM'15), section 4.4";
        /// RTT above which the rate always falls.
        t_high: Span = Span::us(500), within Span::ns(100) => Span::ms(1000),
            "TIMELY (SIGCOMM'15), section 4.4";
        /// RTT by which gradients are normalised.
        min_rtt: Span = Span::us(20), within Span::ns(100) => Span::ms(100),
            "alibaba-edu/High-Precision-Congestion-Control, rdma-hw.cc";
        /// Weight of the newest difference.
        alpha: f64 = 0.875, in 0.001..=1.0,
            "alibaba-edu/High-Precision-Congestion-Control, rdma-hw.cc";
        /// Gain of decreases.
        beta: f64 = 0.8, in 0.001..=1.0, "TIMELY (SIGCOMM'15), section 4.4";
        /// Gain of decreases under `patched`.
        patched_beta: f64 = 0.008, in 0.0001..=1.0, if variant == Variant::Patched,
            "CoNEXT'16, section 4.3";
        /// Increase in a round trip, as a share of the NIC's rate.
        additive: f64 = 0.001, in 0.000001..=1.0,
            "TIMELY (SIGCOMM'15), section 4.4: 10 Mbit/s at 10 Gbit/s";
        /// Increase after five consecutive increases, as a share of the NIC's rate.
        hyper: f64 = 0.005, in 0.000001..=1.0, if variant == Variant::Gradient,
            "alibaba-edu/High-Precision-Congestion-Control, run.py: 50 Mbit/s at 10 Gbit/s";
        /// Rate of a new connection, as a share of the NIC's.
        initial_rate: f64 = 1.0, in 0.000001..=1.0,
            "alibaba-edu/High-Precision-Congestion-Control, rdma-hw.cc; TIMELY (SIGCOMM'15), \
             section 4.4, shares the NIC among its flows";
        /// Window at the NIC's rate; proportional to the rate below that.
        max_window: Extent = Extent::Bdp(1000.0), within Extent::Bdp(0.01) => Extent::Bdp(1e6),
            "our choice: practically unlimited; 1BDP is the windowed variant of HPCC's run.py";
        /// Smallest rate.
        min_rate: Rate = Rate::mbps(100), within Rate::bps(1_000) => Rate::gbps(10),
            "alibaba-edu/High-Precision-Congestion-Control, run.py";
    }
    conflict = thresholds_in_order;
}

fn thresholds_in_order(params: &TimelyParams) -> Option<String> {
    let TimelyParams { t_low, t_high, .. } = *params;
    (t_low > t_high).then(|| format!("t_low = {t_low} is above t_high = {t_high}"))
}

/// Consecutive increases after which the step becomes larger.
const HYPER_AFTER: u32 = 5;

/// A connection under TIMELY.
#[derive(Clone, Debug, PartialEq)]
pub struct Timely {
    pace: Pace,
    /// RTT of the previous round trip, in picoseconds.
    rtt: Option<f64>,
    /// Smoothed difference of RTTs, in picoseconds.
    difference: f64,
    /// Consecutive increases.
    increases: u32,
    round: RoundTrip,
}

impl CongestionControl for Timely {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "timely",
        title: "TIMELY",
        revision: 1,
        citation: "Mittal et al., \"TIMELY: RTT-based Congestion Control for the Datacenter\", \
            SIGCOMM 2015",
        summary: "Increases its rate while round-trip times fall, and decreases it while they \
            grow.",
        color: "#882255",
        marker: Marker::Square,
        dash: Dash::Dashed,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = TimelyParams;
    const CONNECTION_DEFAULTS: ConnectionDefaults = ConnectionDefaults::NIC;

    fn operating_point(params: &TimelyParams, path: &Path, rate_bps: f64) -> OperatingPoint {
        OperatingPoint {
            queue_target: queue_target(params, path, rate_bps),
            domain_warnings: [unsuitable_thresholds(params, path), slower_link(params, path)]
                .into_iter()
                .flatten()
                .collect(),
            ..OperatingPoint::DEFAULT
        }
    }

    fn requirements(_params: &TimelyParams, _fabric: &FabricProperties) -> FabricRequirements {
        FabricRequirements { lossless: true, ..FabricRequirements::NONE }
    }

    fn start(params: &TimelyParams, path: &Path, _now: Time, _seed: u64) -> Timely {
        let mut pace = Pace::of_line(params.min_rate, params.max_window, path);
        pace.set(params.initial_rate * pace.line_bps());
        Timely { pace, rtt: None, difference: 0.0, increases: 0, round: RoundTrip::FIRST }
    }

    fn on_ack(&mut self, params: &TimelyParams, ack: &Ack<'_>) {
        if !self.round.is_over(ack) {
            return;
        }
        self.round.begin(ack);
        let rtt = ack.rtt.as_ps() as f64;
        if let Some(before) = self.rtt.replace(rtt) {
            self.difference =
                (1.0 - params.alpha) * self.difference + params.alpha * (rtt - before);
            self.update(params, rtt, ack.window_limited);
        }
    }

    fn on_loss(&mut self, _params: &TimelyParams, loss: &Loss) {
        self.round.lose(loss);
        self.pace.set(self.pace.bps() / 2.0);
        self.increases = 0;
    }

    fn is_congested(&self, params: &TimelyParams, ack: &Ack<'_>) -> bool {
        ack.rtt > params.t_low
    }

    fn limit(&self, _params: &TimelyParams) -> Limit {
        self.pace.limit(Time::NEVER)
    }
}

impl Timely {
    fn update(&mut self, params: &TimelyParams, rtt: f64, limited: bool) {
        let gradient = self.difference / params.min_rtt.as_ps() as f64;
        let (low, high) = (params.t_low.as_ps() as f64, params.t_high.as_ps() as f64);
        let (rate, step) = (self.pace.bps(), params.additive * self.pace.line_bps());
        let new = if rtt < low {
            rate + self.increase(params)
        } else if rtt > high {
            rate * (1.0 - params.beta * (1.0 - high / rtt)) // TIMELY algorithm 1
        } else if params.variant == Variant::Patched {
            // CoNEXT'16 algorithm 2
            let weight = (2.0 * gradient + 0.5).clamp(0.0, 1.0);
            step * (1.0 - weight) + rate * (1.0 - params.patched_beta * weight * (rtt - low) / low)
        } else if gradient <= 0.0 {
            rate + self.increase(params)
        } else {
            rate * (1.0 - params.beta * gradient) // TIMELY algorithm 1
        };
        if new < rate {
            self.increases = 0;
        }
        if new < rate || limited {
            self.pace.set(new);
        }
    }

    /// Size of one increase, in bit/s.
    fn increase(&mut self, params: &TimelyParams) -> f64 {
        let hyper = params.variant == Variant::Gradient && self.increases >= HYPER_AFTER;
        self.increases += 1;
        self.pace.line_bps() * if hyper { params.hyper } else { params.additive }
    }
}

/// Queue in the equilibrium of the patched rule at that rate; the other rule has none.
fn queue_target(params: &TimelyParams, path: &Path, rate_bps: f64) -> Option<Span> {
    let step = params.additive * path.nic_rate.as_bps() as f64;
    let rtt = params.t_low.scale(1.0 + step / (params.patched_beta * rate_bps.max(1.0)));
    (params.variant == Variant::Patched).then(|| rtt.min(params.t_high).beyond(path.base_rtt))
}

/// Largest `t_low` in base RTTs: it is 2.5 times the 20 µs that TIMELY was designed for.
const MOST_BASE_RTTS: u64 = 5;

/// Steps are shares of the NIC's rate, too large for a much slower link.
fn slower_link(params: &TimelyParams, path: &Path) -> Option<String> {
    let (nic, link) = (path.nic_rate, path.bottleneck_rate);
    (params.variant == Variant::Gradient && nic.as_bps() >= 4 * link.as_bps()).then(|| {
        format!(
            "a link of {link} is slower than the NIC of {nic}, to which increases are \
             proportional: a flow oscillates and uses part of that link; set additive and hyper to \
             at most a share of {:.3} of their values, or variant = \"patched\"",
            link.as_bps() as f64 / nic.as_bps() as f64
        )
    })
}

/// Equilibrium of the patched rule on a path without a queue whose RTT is above `t_low`.
fn rate_on_empty_path(params: &TimelyParams, path: &Path) -> Option<f64> {
    let excess = path.base_rtt.as_us_f64() / params.t_low.as_us_f64() - 1.0;
    let step = params.additive * path.nic_rate.as_bps() as f64;
    (excess > 0.0).then(|| step / (params.patched_beta * excess))
}

fn unsuitable_thresholds(params: &TimelyParams, path: &Path) -> Option<String> {
    let TimelyParams { t_low, t_high, min_rate, .. } = *params;
    let base_us = path.base_rtt.as_us_f64();
    let remedy = || format!("set t_low = \"{:.0}us\" (2.5 base RTTs)", 2.5 * base_us);
    if path.base_rtt > t_high {
        return Some(format!(
            "the base RTT of {base_us:.2} us is above t_high = {t_high}: the rate falls to \
             min_rate = {min_rate} on an empty path; {} and t_high = \"{:.0}us\"",
            remedy(),
            25.0 * base_us
        ));
    }
    if params.variant == Variant::Patched
        && let Some(bps) = rate_on_empty_path(params, path)
        && bps < path.bottleneck_rate.as_bps() as f64
    {
        return Some(format!(
            "t_low = {t_low} is so far below the base RTT of {base_us:.2} us that the rate \
             converges to {:.3} Gbit/s on an empty path; {}",
            bps * 1e-9,
            remedy()
        ));
    }
    (t_low > path.base_rtt.times(MOST_BASE_RTTS)).then(|| {
        format!(
            "t_low = {t_low} is more than {MOST_BASE_RTTS} base RTTs of {base_us:.2} us: the rate \
             grows at any queue below t_low, so t_low sets the queue length; {}",
            remedy()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{self, assert_near, path};
    use tidegate_core::LossKind;

    const GBPS: f64 = 1e9;

    fn start(params: &TimelyParams, gbps: f64) -> Timely {
        let mut flow = Timely::start(params, &path(), Time::ZERO, 0);
        flow.pace.set(gbps * GBPS);
        flow
    }

    /// Passes one round trip after another, of these durations in microseconds, and returns the
    /// rate after each in Gbit/s.
    fn rounds(flow: &mut Timely, params: &TimelyParams, rtts_us: &[u64]) -> alloc::vec::Vec<f64> {
        let measure = |&rtt: &u64| {
            let rtt = Span::us(rtt);
            let ack = Ack { rtt, ..contract::ack_of(flow.round.end) };
            flow.on_ack(params, &ack);
            // An acknowledgement of a packet from before the round trip changes nothing.
            flow.on_ack(params, &ack);
            flow.pace.bps() / GBPS
        };
        rtts_us.iter().map(measure).collect()
    }

    #[test]
    fn short_round_trips_add_a_little_and_more_after_five() {
        let params = TimelyParams::default();
        let mut flow = start(&params, 10.0);
        let seen = rounds(&mut flow, &params, &[20, 30, 40, 20, 20, 20, 20, 20]);
        for (rate, expected) in seen.iter().zip([10.0, 10.1, 10.2, 10.3, 10.4, 10.5, 11.0, 11.5]) {
            assert_near(*rate, expected, 1e-9);
        }
    }

    #[test]
    fn between_the_thresholds_the_gradient_decides() {
        let params = TimelyParams::default();
        let mut flow = start(&params, 10.0);
        // A difference of 8 us, smoothed to 7 us of 20; then back by the same amount.
        let seen = rounds(&mut flow, &params, &[100, 108, 100]);
        assert_near(seen[1], 10.0 * (1.0 - 0.8 * 7.0 / 20.0), 1e-9);
        assert_near(seen[2], seen[1] + 0.1, 1e-9);
        assert_near(flow.difference, (0.125 * 7.0 - 7.0) * 1e6, 1.0);
        // A gradient beyond 1/β reduces the rate to its minimum.
        assert_eq!(rounds(&mut flow, &params, &[200]), [0.1]);
    }

    #[test]
    fn between_the_thresholds_any_queue_is_stable() {
        let params = TimelyParams::default();
        let after = |rtts: [u64; 3]| rounds(&mut start(&params, 10.0), &params, &rtts)[2];
        assert_eq!(after([60, 61, 63]), after([460, 461, 463]));
        let params = TimelyParams { variant: Variant::Patched, ..params };
        let after = |rtts: [u64; 3]| rounds(&mut start(&params, 10.0), &params, &rtts)[2];
        assert!(after([60, 61, 63]) > after([460, 461, 463]));
    }

    #[test]
    fn long_round_trips_take_away_whatever_the_gradient() {
        let params = TimelyParams::default();
        let mut flow = start(&params, 10.0);
        let seen = rounds(&mut flow, &params, &[2000, 1000]);
        assert_near(seen[1], 10.0 * (1.0 - 0.8 * 0.5), 1e-9);
        let params = TimelyParams { variant: Variant::Patched, ..params };
        assert_near(rounds(&mut flow, &params, &[1000])[0], 6.0 * (1.0 - 0.8 * 0.5), 1e-9);
    }

    #[test]
    fn patch_weighs_growth_against_the_reference_error() {
        let params = TimelyParams { variant: Variant::Patched, ..Default::default() };
        // In equilibrium: half a step against half of β of an error of 1/4 · (rtt − T_low) / T_low.
        let mut flow = start(&params, 10.0);
        let at_rest = queue_target(&params, &path(), 10.0 * GBPS).unwrap() + path().base_rtt;
        assert_near(at_rest.as_us_f64(), 50.0 * (1.0 + 0.1 / (0.008 * 10.0)), 1e-9);
        let ps = at_rest.as_ps() as f64;
        (flow.rtt, flow.difference) = (Some(ps), 0.0);
        flow.update(&params, ps, true);
        assert_near(flow.pace.bps(), 10.0 * GBPS, 1.0);
        // A gradient of at least a quarter excludes growth, one of at most minus a quarter excludes
        // a decrease.
        for (gradient, expected) in
            [(0.3, 10.0 * (1.0 - 0.008)), (-0.3, 10.1), (0.1, 10.0 * (1.0 - 0.0056) + 0.03)]
        {
            let mut flow = start(&params, 10.0);
            flow.difference = gradient * params.min_rtt.as_ps() as f64;
            flow.update(&params, 100e6, true);
            assert_near(flow.pace.bps() / GBPS, expected, 1e-9);
        }
        // The patched rule has no hyper increase.
        let mut flow = start(&params, 10.0);
        assert_near(rounds(&mut flow, &params, &[20; 21])[20], 12.0, 1e-9);
    }

    #[test]
    fn a_rate_that_limits_nothing_does_not_grow() {
        let params = TimelyParams::default();
        let mut flow = start(&params, 10.0);
        for round in 0..4 {
            let (seq, next_seq) = (20 * round, 20 * round + 20);
            let ack = Ack { seq, next_seq, window_limited: false, ..contract::ack(Time::us(seq)) };
            flow.on_ack(&params, &ack);
        }
        assert_eq!(flow.pace.bps(), 10.0 * GBPS);
    }

    #[test]
    fn retransmission_ends_a_round_trip() {
        let params = TimelyParams::default();
        let mut flow = start(&params, 10.0);
        rounds(&mut flow, &params, &[20]);
        let (now, rtt) = (Time::us(40), Span::us(20));
        flow.on_loss(&params, &Loss { now, kind: LossKind::Recovery, rtt, next_seq: 20 });
        flow.on_ack(&params, &Ack { rtt, seq: 5, next_seq: 20, ..contract::ack(Time::us(70)) });
        assert_near(flow.pace.bps() / GBPS, 5.1, 1e-9);
    }

    #[test]
    fn decrease_resets_the_count_of_increases() {
        let params = TimelyParams::default();
        let mut flow = start(&params, 10.0);
        let seen = rounds(&mut flow, &params, &[20, 20, 20, 20, 20, 20, 20, 600, 20, 20]);
        assert_near(seen[6] - seen[5], 0.5, 1e-9);
        assert!(seen[7] < seen[6]);
        assert_near(seen[8] - seen[7], 0.1, 1e-9);
        assert_near(seen[9] - seen[8], 0.1, 1e-9);
    }

    #[test]
    fn loss_halves_the_rate_and_resets_increases() {
        let params = TimelyParams::default();
        let mut flow = start(&params, 10.0);
        rounds(&mut flow, &params, &[20; 8]);
        for kind in [LossKind::Recovery, LossKind::Timeout] {
            let before = flow.pace.bps();
            let loss = Loss { now: Time::ms(1), kind, rtt: Span::us(20), next_seq: 400 };
            flow.on_loss(&params, &loss);
            assert_eq!((flow.pace.bps(), flow.increases), (before / 2.0, 0));
        }
    }

    #[test]
    fn thresholds_are_ordered_and_near_the_base_rtt() {
        let params = TimelyParams { t_low: Span::us(600), ..Default::default() };
        assert!(thresholds_in_order(&params).is_some_and(|text| text.contains("600us")));
        let warning = |variant, t_low, t_high| {
            let (t_low, t_high) = (Span::us(t_low), Span::us(t_high));
            let params = TimelyParams { variant, t_low, t_high, ..Default::default() };
            unsuitable_thresholds(&params, &path()).unwrap_or_default()
        };
        for variant in [Variant::Gradient, Variant::Patched] {
            let fits = |t_low, t_high| warning(variant, t_low, t_high).is_empty();
            assert!(fits(6, 500) && fits(30, 500) && fits(6, 6));
            assert!(warning(variant, 31, 500).contains("t_low = \"15us\""));
            let text = warning(variant, 4, 5);
            assert!(text.contains("6.00 us is above t_high = 5us: the rate falls to"), "{text}");
            assert!(text.ends_with("(2.5 base RTTs) and t_high = \"150us\""), "{text}");
        }
        assert_eq!(warning(Variant::Gradient, 4, 500), "");
        let text = warning(Variant::Patched, 4, 500);
        assert!(text.contains("the rate converges to 25.000 Gbit/s on an empty path"), "{text}");
    }

    /// The rates that the warnings state, from many round trips without a queue.
    #[test]
    fn rate_on_an_empty_path_is_that_of_the_warnings() {
        let (low, high) = (Span::us(4), Span::us(500));
        for (variant, t_low, t_high, gbps) in [
            (Variant::Gradient, low, high, 100.0),
            (Variant::Patched, low, high, 25.0),
            (Variant::Gradient, low, Span::us(5), 0.1),
            (Variant::Patched, low, Span::us(5), 0.1),
        ] {
            let params = TimelyParams { variant, t_low, t_high, ..Default::default() };
            let rates = rounds(&mut start(&params, 50.0), &params, &[6; 5_000]);
            assert_near(rates[4_999], gbps, 0.01);
        }
    }
}
