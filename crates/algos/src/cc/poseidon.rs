//! Poseidon: fairness by a target delay that depends on the flow's own rate.
//!
//! A switch writes its queueing delay into a packet if that is larger than the value already there,
//! so the sender learns the delay of the most congested hop and nothing about the others. The
//! sender compares this delay with a target that falls with its own sending rate: on a congested
//! link, fast flows are above their target and slow down, while slow flows are still below theirs.
//! The step size depends on the distance from the target, so flows move fast far from their share
//! and slowly near it.
//!
//! Weitao Wang, Masoud Moshref, Yuliang Li, Gautam Kumar, T. S. Eugene Ng, Neal Cardwell, Nandita
//! Dukkipati. "Poseidon: Efficient, Robust, and Practical Datacenter CC via Deployable INT". NSDI
//! 2023.
//!
//! # Equations
//!
//! With `rate = cwnd · full packet / RTT`, clamped to \[min_rate, max_rate\], and `A = ln(max_rate
//! / min_rate)`:
//!
//! * target (eq. 3): `T(rate) = p · ln(max_rate / rate) / A + k`
//! * update (eq. 4): `U = exp((T − delay) · A · m / p)`, clamped here to \[min_md, max_mi\]
//! * contraction (eq. 5): if `r` is the rate with `T(r) = delay`, then `U = (r / rate)^m`
//! * every acknowledgement (Algorithm 1): at or below the target `cwnd += (U − 1) · acked`; above
//!   it, at most once a round trip, `cwnd *= U`
//! * loss (Algorithm 2): `cwnd *= min_md` under the same guard, and `min_cwnd` after too many
//!   timeouts in a row
//!
//! # Network requirements
//!
//! Two bytes in a data packet, which each switch raises to its own queueing delay, and two bytes in
//! the acknowledgement to return them. If some switches do not stamp packets, `brownfield` treats
//! the total delay of all other hops as one more hop beside the worst stamping one; it needs stamps
//! on the reverse path, too.
//!
//! # Domain
//!
//! Delay equals `T(fair share)` and shares are max-min while one packet time stays below `0.1 p/A`
//! and the base RTT below `0.75 p/(A m)` (3 p/A by default, where p/A is 4.34 µs): a packet time is
//! the granularity of the signal, and long control loops overshoot. Outside this range, multiply
//! `p` and `k` by the same `s`, the larger ratio of a value to its bound; this keeps the shape of
//! the target and costs `s` times the delay. A smaller `m` allows longer base RTTs without it. The
//! rule is conservative: at 10 Gbit/s with 4,096 B packets `s` is 7.7, and p = 160 µs, k = 8 µs (a
//! factor of 4) already bring a flow over two congested hops within a tenth of its share.
//! `max_rate` is one value for a fabric, at least its fastest NIC.
//!
//! A window far below one packet recovers slowly: it grows with each acknowledgement, and with the
//! default `min_cwnd` of 0.001 packets the next acknowledgement can be 1,000 RTTs away. If the fair
//! share of a flow is a window of less than half a packet, some flows starve: of 200 flows at 10
//! Gbit/s (4,096 B, preset `10g`, a fair share of 49 Mbit/s) the slowest gets 0.7 Mbit/s from 100
//! to 200 ms. With `min_cwnd = 0.18`, it gets 33. A warning reports such a share if all flows are
//! unlimited flows of the scenario.
//!
//! A buffer below the queue of the targets loses packets all the time, because windows grow by up
//! to `max_mi` in the round trip after a loss: 8 flows behind 200 KB (100 Gbit/s, 4,096 B, links of
//! 5 µs) deliver 368 MB in 30 ms and send 439 MB again, and Jain's index is 0.92.
//!
//! # Differences from the paper
//!
//! * The window grows only if it limited sending in the last round trip. A flow limited by its NIC
//!   or its application observes no delay; otherwise it would grow to the cap and send a burst
//!   later. An acknowledgement counts for one window at most: if earlier ones were lost, it covers
//!   more.
//! * `U` is clamped to \[min_md, max_mi\]. Algorithm 1 lists both bounds but never applies the
//!   second, and applies the first to losses only.
//! * Below one packet `cwnd += (U − 1) · acked` is implemented literally: additive in this range,
//!   not multiplicative. `small_window_increase` selects the other reading.
//! * The rate counts bytes on the wire (moves T by 0.08 µs at 4,096 B), and uses the latest RTT
//!   sample.
//! * An acknowledgement ends a series of timeouts, as in Swift.
//! * The paper's text states that a larger `m` is slower; its equations make it faster. The
//!   equations are implemented. The paper prints `T(a) − T(ca) = ln(c) / p`; eq. 3 gives `p · ln(c)
//!   / A`.
//! * In `brownfield` the base RTT is subtracted from the delay of the other hops; otherwise an idle
//!   path would count as congested.
//! * Targets that scale with the window (figure 23) use the rate that the window would give at the
//!   base RTT, so that they have the same bounds as those that scale with the rate.
//! * Power targets are scaled to equal eq. 3 at both ends, `T(max_rate) = k` and `T(min_rate) = p +
//!   k`, so that `q` changes only the shape. For `q → 0` they become eq. 3.
//! * A connection that was idle for longer than a fixed time restarts, as under Swift, on whose
//!   code Poseidon is based; the paper does not specify this.

use alloc::format;
use alloc::string::String;

use tidegate_core::{
    Ack, CongestionControl, ConnectionDefaults, Dash, Extent, FabricProperties, FabricRequirements,
    Limit, Loss, LossKind, Marker, OperatingPoint, Path, ProtocolInfo, Rate, Span, Telemetry,
    TelemetryBytes, Time, choice, math, params,
};

choice! {
    /// Delay that is compared with the target.
    pub enum Signal {
        /// The largest queueing delay of any hop on the forward path.
        PeakHopDelay = "peak-hop-delay",
        /// RTT minus base RTT: all queues on both directions of the path.
        Rtt = "rtt",
    }
}
choice! {
    /// Quantity that determines the target.
    pub enum Target {
        /// Logarithm of the rate: eq. 3.
        LnRate = "ln-rate",
        /// Power of the rate: appendix C.
        PowerRate = "power-rate",
        /// As `ln-rate`, with the rate that the window would give at the base RTT.
        LnCwnd = "ln-cwnd",
        /// As `power-rate`, with the rate that the window would give at the base RTT.
        PowerCwnd = "power-cwnd",
        /// No quantity: a constant.
        Constant = "constant",
    }
}
choice! {
    /// Function from the distance to the target to the change of the window.
    pub enum Update {
        /// By the exponential of the difference: eq. 4.
        Exponential = "exponential",
        /// By the ratio of target and delay: eq. 13.
        Ratio = "ratio",
        /// Additive increase, multiplicative decrease, as in Swift.
        Aimd = "aimd",
    }
}
choice! {
    /// Growth rule of a window below one packet.
    pub enum SmallWindowIncrease {
        /// By `(U − 1) · acked` packets.
        Additive = "additive",
        /// By the factor `1 + (U − 1) · acked`.
        Multiplicative = "multiplicative",
    }
}
choice! {
    /// Resolution of the delay in the header.
    pub enum Quantum {
        /// Picoseconds.
        Exact = "exact",
        /// 16 bits in units of 256 ns, rounded down.
        Ns256 = "256ns",
    }
}

/// Largest values of `p` and `k`.
const MAX_P: Span = Span::ms(100);
const MAX_K: Span = Span::ms(10);

params! {
    /// Parameters of Poseidon.
    pub struct PoseidonParams {
        /// Range of the target: the slowest flow's target minus the fastest flow's.
        p: Span = Span::us(40), within Span::ns(100) => MAX_P, "Poseidon (NSDI'23), \
            section 5.6.2";
        /// Target of the fastest flow.
        k: Span = Span::us(2), within Span::ns(1) => MAX_K, if target != Target::Constant,
            "Poseidon (NSDI'23), section 5.6.2";
        /// Exponent of the update: with 1, one round trip reaches the rate whose target equals the
        /// delay. Fair below 2.
        m: f64 = 0.25, in 0.001..=2.0, if update == Update::Exponential,
            "Poseidon (NSDI'23), section 5.6.2";
        /// Rate whose target is p + k. Slower flows have the same target.
        min_rate: Rate = Rate::mbps(20), within Rate::mbps(1) => Rate::gbps(1),
            "Poseidon (NSDI'23), caption of figure 7(b)";
        /// Rate whose target is k: one value for a fabric, at least its fastest NIC.
        max_rate: Rate = Rate::gbps(200), within Rate::gbps(2) => Rate::gbps(10_000),
            "Poseidon (NSDI'23), caption of figure 7(b)";
        /// Smallest window in packets.
        min_cwnd: f64 = 0.001, in 0.000001..=1.0, "not in the paper; hopnets/vertigo_simulations \
            (Swift)";
        /// Largest window in packets: a bound on memory, not on rate. 1 ms at 400 Gbit/s is 12,000
        /// packets.
        max_cwnd: f64 = 1000000.0, in 1.0..=1000000000.0,
            "our choice: the paper has none; a cap near 2 BDP starves a flow with queues on its \
             reverse path";
        /// Smallest factor of one decrease, and the factor of a loss.
        min_md: f64 = 0.5, in 0.01..=0.99, "our choice: Swift's max_mdf; the paper gives no value";
        /// Largest factor of one round trip's increase.
        max_mi: f64 = 2.5, in 1.01..=100.0, if update != Update::Aimd,
            "Clark5/Poseidon, rdma-hw.cc; \
            the paper gives no value";
        /// Consecutive timeouts after which the window is reset to its minimum.
        retx_reset_threshold: u64 = 12, in 1..=1000, "not in the paper; \
            hopnets/vertigo_simulations (Swift)";
        /// Window of a new connection, and of one that was idle.
        initial_window: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.0) => Extent::Bdp(100.0),
            "our choice: the paper gives no value";
        /// Growth rule of a window below one packet.
        small_window_increase: SmallWindowIncrease = SmallWindowIncrease::Additive,
            if update != Update::Aimd, "Poseidon (NSDI'23), Algorithm 1 to the letter";
        /// Resolution of the delay in the header.
        quantum: Quantum = Quantum::Exact, if signal == Signal::PeakHopDelay, "our choice: \
            listing 1 counts 256 ns, the simulations do not specify it";
        /// Delay that is compared with the target.
        signal: Signal = Signal::PeakHopDelay,
            "Poseidon (NSDI'23), section 3.1; `rtt` is an ablation of section 5.6.1";
        /// Quantity that determines the target.
        target: Target = Target::LnRate, "Poseidon (NSDI'23), eq. 3; others are of section 5.6.1 \
            and appendix C";
        /// Exponent of the power targets.
        q: f64 = -0.5, in -2.0..=-0.01, if target == [Target::PowerRate, Target::PowerCwnd],
            "Poseidon (NSDI'23), appendix C: Swift's shape";
        /// Target delay under `constant`.
        constant_target: Span = Span::us(12), within Span::ns(1) => Span::ms(100),
            if target == Target::Constant, "our choice: T(20 Gbit/s)";
        /// Function from the distance to the target to the change of the window.
        update: Update = Update::Exponential,
            "Poseidon (NSDI'23), eq. 4; `ratio` is eq. 13, `aimd` is an ablation of section 5.6.1";
        /// Constant that the ratio update adds to target and delay.
        c: Span = Span::ZERO, within Span::ZERO => Span::ms(10), if update == Update::Ratio,
            "Poseidon (NSDI'23), eq. 13 (its m); our choice of 0";
        /// Packets that the AIMD update adds each round trip.
        aimd_increase: f64 = 1.0, in 0.001..=100.0, if update == Update::Aimd,
            "our choice: Swift's additive increase";
        /// Gain of the AIMD update's decrease.
        aimd_decrease: f64 = 0.8, in 0.001..=1.0, if update == Update::Aimd,
            "our choice: Swift's beta";
        /// Also react to the total delay of all other hops, for fabrics where some switches do not
        /// stamp.
        brownfield: bool = false, if signal == Signal::PeakHopDelay,
            "Poseidon (NSDI'23), section 4.1";
    }
}

/// A connection under Poseidon.
#[derive(Clone, Debug, PartialEq)]
pub struct Poseidon {
    /// In packets; a window below 1 paces packets.
    cwnd: f64,
    /// Bits of a full packet, times the picoseconds of a second.
    packet_bit_ps: f64,
    full_wire_bytes: f64,
    /// T = offset + slope · f(rate), in picoseconds, where f is `ln`, a power or zero.
    offset: f64,
    slope: f64,
    /// A · m / p, per picosecond.
    gain: f64,
    base_rtt: Span,
    last_decrease: Option<Time>,
    timeouts: u64,
}

impl CongestionControl for Poseidon {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "poseidon",
        title: "Poseidon",
        revision: 1,
        citation: "Wang et al., \"Poseidon: Efficient, Robust, and Practical Datacenter CC via \
            Deployable INT\", NSDI 2023",
        summary: "Steers the largest per-hop queueing delay to a target that falls with the flow's \
            own rate.",
        color: "#0072b2",
        marker: Marker::Circle,
        dash: Dash::Solid,
        telemetry_bytes: TelemetryBytes { fixed: 2, per_hop: 0 },
        echo_bytes: TelemetryBytes { fixed: 2, per_hop: 0 },
    };
    type Params = PoseidonParams;
    const CONNECTION_DEFAULTS: ConnectionDefaults =
        ConnectionDefaults { restart_after: Span::ms(1), ..ConnectionDefaults::DEFAULT };

    fn requirements(params: &PoseidonParams, _fabric: &FabricProperties) -> FabricRequirements {
        let telemetry = Telemetry { peak_on_acks: params.brownfield, ..Telemetry::PEAK };
        FabricRequirements { telemetry, ..FabricRequirements::NONE }
    }

    fn operating_point(params: &PoseidonParams, path: &Path, rate_bps: f64) -> OperatingPoint {
        let target = queue_target(params, path, rate_bps);
        OperatingPoint {
            queue_target: Some(target),
            telemetry_target: (params.signal == Signal::PeakHopDelay).then_some(target),
            domain_warnings: [
                domain_warning(params, path),
                fast_nic(params, path),
                small_share(params, path, rate_bps),
            ]
            .into_iter()
            .flatten()
            .collect(),
            ..OperatingPoint::DEFAULT
        }
    }

    fn start(params: &PoseidonParams, path: &Path, _now: Time, _seed: u64) -> Poseidon {
        let full_wire_bytes = path.full_wire_bytes as f64;
        let (offset, slope) = curve(params);
        Poseidon {
            cwnd: (params.initial_window.bytes(path.bdp_bytes) / full_wire_bytes)
                .clamp(params.min_cwnd, params.max_cwnd),
            packet_bit_ps: full_wire_bytes * 8e12,
            full_wire_bytes,
            offset,
            slope,
            gain: params.m / p_over_a(params),
            base_rtt: path.base_rtt,
            last_decrease: None,
            timeouts: 0,
        }
    }

    // Poseidon algorithm 1, ReceiveACK
    fn on_ack(&mut self, params: &PoseidonParams, ack: &Ack<'_>) {
        self.timeouts = 0;
        let before = self.cwnd;
        let delay = self.delay(params, ack);
        let target = self.target(params, ack.rtt);
        if delay <= target {
            if ack.window_limited {
                // No acknowledgement covers more than the window of a round trip, unless
                // earlier ones were lost.
                let acked = (ack.acked_packets as f64).min(self.cwnd.max(1.0));
                self.increase(params, target, delay, acked);
            }
        } else if self.may_decrease(ack.now, ack.rtt) {
            self.cwnd *= match params.update {
                Update::Aimd => {
                    (1.0 - params.aimd_decrease * (delay - target) / delay).max(params.min_md)
                }
                _ => self.ratio(params, target, delay),
            };
        }
        self.clamp_window(params, before, ack.now);
    }

    // Poseidon algorithm 2
    fn on_loss(&mut self, params: &PoseidonParams, loss: &Loss) {
        let before = self.cwnd;
        self.timeouts = match loss.kind {
            LossKind::Timeout => self.timeouts + 1,
            LossKind::Recovery => 0,
        };
        if self.timeouts >= params.retx_reset_threshold {
            self.cwnd = params.min_cwnd;
        } else if self.may_decrease(loss.now, loss.rtt) {
            self.cwnd *= params.min_md;
        }
        self.clamp_window(params, before, loss.now);
    }

    fn limit(&self, _params: &PoseidonParams) -> Limit {
        Limit::window(self.cwnd * self.full_wire_bytes)
    }

    fn is_congested(&self, params: &PoseidonParams, ack: &Ack<'_>) -> bool {
        self.delay(params, ack) > self.target(params, ack.rtt)
    }
}

impl Poseidon {
    /// Delay to compare with the target, in picoseconds.
    fn delay(&self, params: &PoseidonParams, ack: &Ack<'_>) -> f64 {
        if params.signal == Signal::Rtt {
            return ack.rtt.beyond(self.base_rtt).as_ps() as f64;
        }
        let peak = quantised(params, ack.peak_hop_delay);
        if !params.brownfield {
            return peak.as_ps() as f64;
        }
        let reverse = quantised(params, ack.reverse_peak_hop_delay);
        let others = ack.rtt.beyond(self.base_rtt).beyond(peak).beyond(reverse);
        peak.max(others).as_ps() as f64
    }

    /// Target in picoseconds (Poseidon eq. 3 and its variants).
    fn target(&self, params: &PoseidonParams, rtt: Span) -> f64 {
        let over = match params.target {
            Target::LnRate | Target::PowerRate => rtt,
            Target::LnCwnd | Target::PowerCwnd => self.base_rtt,
            Target::Constant => return self.offset,
        };
        // At an RTT of zero this is infinite; the clamp turns that into max_rate.
        let rate = (self.cwnd * self.packet_bit_ps / over.as_ps() as f64)
            .clamp(params.min_rate.as_bps() as f64, params.max_rate.as_bps() as f64);
        self.offset
            + self.slope
                * match params.target {
                    Target::LnRate | Target::LnCwnd => math::ln(rate),
                    _ => math::pow(rate, params.q),
                }
    }

    /// U, clamped.
    fn ratio(&self, params: &PoseidonParams, target: f64, delay: f64) -> f64 {
        let ratio = match params.update {
            Update::Ratio => {
                // Poseidon eq. 13
                let c = params.c.as_ps() as f64;
                (target + c) / (delay + c)
            }
            // Poseidon eq. 4
            _ => math::exp((target - delay) * self.gain),
        };
        ratio.clamp(params.min_md, params.max_mi)
    }

    fn increase(&mut self, params: &PoseidonParams, target: f64, delay: f64, acked: f64) {
        if params.update == Update::Aimd {
            self.cwnd += params.aimd_increase * acked / self.cwnd.max(1.0);
            return;
        }
        let step = (self.ratio(params, target, delay) - 1.0) * acked;
        if self.cwnd < 1.0 && params.small_window_increase == SmallWindowIncrease::Multiplicative {
            self.cwnd *= 1.0 + step;
        } else {
            self.cwnd += step; // Poseidon algorithm 1, line 5
        }
    }

    /// Whether more than a round trip has passed since the last decrease.
    fn may_decrease(&self, now: Time, rtt: Span) -> bool {
        self.last_decrease.is_none_or(|last| now.since(last) > rtt)
    }

    fn clamp_window(&mut self, params: &PoseidonParams, before: f64, now: Time) {
        self.cwnd = self.cwnd.clamp(params.min_cwnd, params.max_cwnd);
        if self.cwnd < before {
            self.last_decrease = Some(now);
        }
    }
}

/// p / A in picoseconds: increase of the target if the rate falls by a factor of e.
fn p_over_a(params: &PoseidonParams) -> f64 {
    params.p.as_ps() as f64
        / math::ln(params.max_rate.as_bps() as f64 / params.min_rate.as_bps() as f64)
}

/// Offset and slope of the target over `ln(rate)` or `rate^q`.
fn curve(params: &PoseidonParams) -> (f64, f64) {
    let (p, k) = (params.p.as_ps() as f64, params.k.as_ps() as f64);
    let (min, max) = (params.min_rate.as_bps() as f64, params.max_rate.as_bps() as f64);
    match params.target {
        Target::LnRate | Target::LnCwnd => {
            let slope = -p_over_a(params);
            (k - slope * math::ln(max), slope)
        }
        Target::PowerRate | Target::PowerCwnd => {
            let (at_min, at_max) = (math::pow(min, params.q), math::pow(max, params.q));
            let slope = p / (at_min - at_max);
            (k - slope * at_max, slope)
        }
        Target::Constant => (params.constant_target.as_ps() as f64, 0.0),
    }
}

/// A hop's delay as the header carries it (Poseidon listing 1).
fn quantised(params: &PoseidonParams, delay: Span) -> Span {
    match params.quantum {
        Quantum::Exact => delay,
        Quantum::Ns256 => Span::ns(((delay.as_ps() / 1_000) >> 8).min(u16::MAX as u64) << 8),
    }
}

/// Target queueing delay of a flow at `rate_bps`.
fn queue_target(params: &PoseidonParams, path: &Path, rate_bps: f64) -> Span {
    let mut flow = Poseidon::start(params, path, Time::ZERO, 0);
    flow.cwnd = rate_bps * path.base_rtt.as_ps() as f64 / flow.packet_bit_ps;
    Span::from_ps_f64(flow.target(params, path.base_rtt))
}

/// Fair window below which a floor is necessary, in packets, and that floor in fair windows.
const SMALL_WINDOW: f64 = 0.5;
const FLOOR: f64 = 0.4;

/// A window far below the share recovers after many RTTs only.
fn small_share(params: &PoseidonParams, path: &Path, rate_bps: f64) -> Option<String> {
    let rtt = path.base_rtt.plus(queue_target(params, path, rate_bps));
    let window = rate_bps * rtt.as_ps() as f64 / (path.full_wire_bytes as f64 * 8e12);
    // 1 % allows for a rounded floor.
    (window < SMALL_WINDOW && params.min_cwnd < 0.99 * FLOOR * window).then(|| {
        format!(
            "the fair share of a flow is a window of {window:.3} packets, far above min_cwnd = {}: \
             some flows starve, because a window at min_cwnd grows only after many round trips; \
             set min_cwnd = {:.4}",
            params.min_cwnd,
            FLOOR * window
        )
    })
}

/// Reason why these parameters do not suit the path, if any.
fn domain_warning(params: &PoseidonParams, path: &Path) -> Option<String> {
    let grain = p_over_a(params) * 1e-6;
    let packet = path.bottleneck_rate.serialise(path.full_wire_bytes as u64).as_us_f64();
    let base_rtt = path.base_rtt.as_us_f64();
    // A window changes by RTT * A * m / p of the distance to the target in a round trip: three
    // quarters at most.
    let longest = 0.75 * grain / params.m;
    let mut reasons = String::new();
    if packet > 0.1 * grain {
        reasons += &format!(
            "a full packet takes {packet:.3} us on the slowest link, above 0.1 p/A = {:.3} us; ",
            0.1 * grain
        );
    }
    if base_rtt > longest {
        reasons +=
            &format!("the base RTT of {base_rtt:.2} us is above 0.75 p/(A m) = {longest:.2} us; ");
    }
    if !reasons.is_empty() {
        let scale = (packet / (0.1 * grain)).max(base_rtt / longest);
        // Rounded up, so that the values pass this check.
        let scaled = |span: Span| Span::us(1 + (span.as_us_f64() * scale) as u64);
        let (p, k) = (scaled(params.p), scaled(params.k));
        reasons += "delay and shares deviate from the theory; ";
        reasons += &match p <= MAX_P && k <= MAX_K {
            true => format!("set p = \"{p}\" and k = \"{k}\""),
            false => format!(
                "no values suit this path: p and k would be {p} and {k}, above the largest, \
                 {MAX_P} and {MAX_K}"
            ),
        };
    }
    (!reasons.is_empty()).then_some(reasons)
}

fn fast_nic(params: &PoseidonParams, path: &Path) -> Option<String> {
    let (nic, max) = (path.nic_rate, params.max_rate);
    (nic > max).then(|| {
        format!(
            "the NIC's {nic} is above max_rate = {max}, where all targets are equal: set max_rate \
             to at least the NIC's rate"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{self, assert_near};

    fn start(params: &PoseidonParams) -> Poseidon {
        Poseidon::start(params, &contract::path(), Time::ZERO, 0)
    }

    /// An acknowledgement at `now` microseconds after an RTT of `rtt` microseconds, with a hop
    /// delay of `delay` microseconds.
    fn ack(now: f64, rtt: f64, delay: f64) -> Ack<'static> {
        let (at, peak_hop_delay) = (Time::ZERO + Span::from_us_f64(now), Span::from_us_f64(delay));
        Ack { rtt: Span::from_us_f64(rtt), peak_hop_delay, ..contract::ack(at) }
    }

    /// Target in microseconds at `gbps`, after an RTT of `rtt` microseconds.
    fn target_us(params: &PoseidonParams, gbps: f64, rtt: f64) -> f64 {
        let mut flow = start(params);
        flow.cwnd = gbps * 1e9 * rtt * 1e-6 / (8.0 * flow.full_wire_bytes);
        flow.target(params, Span::from_us_f64(rtt)) * 1e-6
    }

    #[test]
    fn queue_target_is_the_target_of_the_rate() {
        let path = contract::path();
        for (gbps, us) in [(200.0, 2.0), (100.0, 5.0103), (20.0, 12.0), (0.02, 42.0)] {
            let target = queue_target(&PoseidonParams::default(), &path, gbps * 1e9);
            assert!((target.as_us_f64() - us).abs() < 1e-3, "{gbps} Gbit/s: {target}");
        }
    }

    #[test]
    fn target_follows_equation_3() {
        let params = PoseidonParams::default();
        let table = [
            (200.0, 2.0),
            (100.0, 5.010),
            (50.0, 8.021),
            (20.0, 12.0),
            (10.0, 15.010),
            (2.0, 22.0),
            (1.0, 25.010),
            (0.5, 28.021),
            (0.1, 35.010),
            (0.02, 42.0),
        ];
        for (gbps, expected) in table {
            assert_near(target_us(&params, gbps, 6.0), expected, 0.0006);
            assert_near(target_us(&params, gbps, 60.0), expected, 0.0006);
        }
        assert_near(target_us(&params, 0.001, 6.0), 42.0, 1e-6);
        assert_near(target_us(&params, 400.0, 6.0), 2.0, 1e-6);
        assert_near(target_us(&params, 20.0, 6.0) - target_us(&params, 40.0, 6.0), 3.0103, 1e-4);
    }

    #[test]
    fn update_follows_equation_4() {
        let params = PoseidonParams { min_md: 0.01, max_mi: 100.0, ..Default::default() };
        let flow = start(&params);
        let table = [
            (-40.0, 0.1),
            (-10.0, 0.5623),
            (-5.0, 0.7499),
            (-1.0, 0.9441),
            (1.0, 1.0593),
            (5.0, 1.3335),
            (10.0, 1.7783),
            (40.0, 10.0),
        ];
        for (distance_us, expected) in table {
            assert_near(flow.ratio(&params, 50e6 + distance_us * 1e6, 50e6), expected, 5e-5);
        }
        let flow = start(&PoseidonParams::default());
        assert_eq!(flow.ratio(&PoseidonParams::default(), 90e6, 0.0), 2.5);
        assert_eq!(flow.ratio(&PoseidonParams::default(), 2e6, 90e6), 0.5);
    }

    #[test]
    fn update_moves_to_the_rate_with_that_target() {
        // Equation 5.
        for m in [0.25, 0.5, 1.0] {
            let params = PoseidonParams { m, min_md: 0.01, max_mi: 100.0, ..Default::default() };
            let (rate, share) = (80.0, 25.0);
            let (target, delay) = (target_us(&params, rate, 6.0), target_us(&params, share, 6.0));
            let ratio = start(&params).ratio(&params, target * 1e6, delay * 1e6);
            assert_near(ratio, math::pow(share / rate, m), 1e-9);
        }
    }

    #[test]
    fn window_of_acks_multiplies_by_the_ratio() {
        let params = PoseidonParams { target: Target::Constant, ..Default::default() };
        let mut flow = start(&params);
        flow.cwnd = 10.0;
        for i in 0..10 {
            flow.on_ack(&params, &ack(6.0 + 0.1 * i as f64, 6.0, 2.0));
        }
        let ratio = flow.ratio(&params, 12e6, 2e6);
        assert_near(flow.cwnd, 10.0 * ratio, 1e-9);
        flow.on_ack(&params, &Ack { window_limited: false, ..ack(8.0, 6.0, 0.0) });
        assert_near(flow.cwnd, 10.0 * ratio, 1e-9);
        // One acknowledgement counts for one window at most.
        flow.cwnd = 2.0;
        flow.on_ack(&params, &Ack { acked_packets: 60, ..ack(9.0, 6.0, 2.0) });
        assert_near(flow.cwnd, 2.0 * ratio, 1e-9);
    }

    #[test]
    fn window_below_one_packet_grows_by_step_or_factor() {
        let step = |small_window_increase| {
            let params = PoseidonParams { small_window_increase, ..Default::default() };
            let mut flow = start(&params);
            flow.cwnd = 0.1;
            let ratio = flow.ratio(&params, flow.target(&params, Span::us(6)), 0.0);
            flow.on_ack(&params, &ack(6.0, 6.0, 0.0));
            (flow.cwnd, ratio)
        };
        let (cwnd, ratio) = step(SmallWindowIncrease::Additive);
        assert_near(cwnd, 0.1 + (ratio - 1.0), 1e-12);
        let (cwnd, ratio) = step(SmallWindowIncrease::Multiplicative);
        assert_near(cwnd, 0.1 * ratio, 1e-12);
    }

    #[test]
    fn falls_at_most_once_a_round_trip() {
        let params = PoseidonParams::default();
        let mut flow = start(&params);
        let mut cwnd = |now, rtt, delay| {
            flow.on_ack(&params, &ack(now, rtt, delay));
            flow.cwnd
        };
        let first = cwnd(100.0, 20.0, 60.0);
        assert_near(first, 0.5 * 100_000.0 / 4200.0, 1e-9);
        assert_eq!(cwnd(101.0, 20.0, 60.0), first);
        assert_eq!(cwnd(120.0, 20.0, 60.0), first, "exactly one RTT is not more than one RTT");
        assert_eq!(cwnd(120.1, 20.0, 60.0), first / 2.0);
        assert!(cwnd(121.0, 20.0, 0.0) > first / 2.0, "growth has no guard");
        assert!(cwnd(130.0, 9.0, 60.0) < first / 2.0, "the latest RTT counts");
    }

    #[test]
    fn losses_cut_by_min_md_and_many_timeouts_reset() {
        let params = PoseidonParams::default();
        let mut flow = start(&params);
        flow.cwnd = 4096.0;
        let lose = |flow: &mut Poseidon, kind, now| {
            flow.on_loss(
                &params,
                &Loss { now: Time::us(now), kind, rtt: Span::us(10), next_seq: 0 },
            );
            flow.cwnd
        };
        assert_eq!(lose(&mut flow, LossKind::Recovery, 100), 2048.0);
        assert_eq!(lose(&mut flow, LossKind::Recovery, 105), 2048.0);
        for i in 1..12 {
            assert_eq!(
                lose(&mut flow, LossKind::Timeout, 105 + i),
                if i < 6 { 2048.0 } else { 1024.0 }
            );
        }
        let (mut acked, mut recovered) = (flow.clone(), flow.clone());
        assert_eq!(lose(&mut flow, LossKind::Timeout, 117), params.min_cwnd);
        // An acknowledgement or a recovery ends the series.
        acked.on_ack(&params, &Ack { window_limited: false, ..ack(116.5, 10.0, 0.0) });
        assert_eq!(lose(&mut acked, LossKind::Timeout, 117), 1024.0);
        assert_eq!(lose(&mut recovered, LossKind::Recovery, 117), 1024.0);
        assert_eq!(lose(&mut recovered, LossKind::Timeout, 118), 1024.0);
    }

    #[test]
    fn header_counts_256_ns_rounded_down() {
        let params = PoseidonParams { quantum: Quantum::Ns256, ..Default::default() };
        let table = [
            (0, 0),
            (255_999, 0),
            (256_000, 256),
            (2_000_000, 1792),
            (20_000_000_000, 65_535 * 256),
        ];
        for (ps, ns) in table {
            assert_eq!(quantised(&params, Span::ps(ps)), Span::ns(ns));
        }
    }

    #[test]
    fn other_targets_equal_equation_3_at_both_ends() {
        let with = |target, q| PoseidonParams { target, q, ..Default::default() };
        for q in [-2.0, -0.5, -0.01] {
            let params = with(Target::PowerRate, q);
            assert_near(target_us(&params, 0.02, 6.0), 42.0, 1e-6);
            assert_near(target_us(&params, 200.0, 6.0), 2.0, 1e-6);
        }
        let nearly_ln = target_us(&with(Target::PowerRate, -0.01), 2.0, 6.0);
        assert_near(nearly_ln, 22.0, 0.5);
        // Scaled by the window, a longer RTT has the effect of a higher rate.
        let by_cwnd = with(Target::LnCwnd, -0.5);
        assert_near(target_us(&by_cwnd, 20.0, 6.0), 12.0, 1e-3);
        assert_near(target_us(&by_cwnd, 20.0, 12.0), target_us(&by_cwnd, 40.0, 6.0), 1e-6);
        assert_near(target_us(&with(Target::Constant, -0.5), 3.0, 6.0), 12.0, 1e-9);
    }

    #[test]
    fn other_updates_and_signals() {
        let params = PoseidonParams { update: Update::Ratio, c: Span::us(1), ..Default::default() };
        assert_near(start(&params).ratio(&params, 9e6, 11.5e6), 10.0 / 12.5, 1e-12);

        let params =
            PoseidonParams { update: Update::Aimd, target: Target::Constant, ..Default::default() };
        let mut flow = start(&params);
        flow.cwnd = 20.0;
        flow.on_ack(&params, &ack(6.0, 6.0, 11.0));
        assert_near(flow.cwnd, 20.05, 1e-12);
        flow.on_ack(&params, &ack(7.0, 6.0, 16.0));
        assert_near(flow.cwnd, 20.05 * (1.0 - 0.8 * 4.0 / 16.0), 1e-12);

        let sample = Ack { reverse_peak_hop_delay: Span::us(2), ..ack(50.0, 20.0, 5.0) };
        let delay = |params: PoseidonParams| start(&params).delay(&params, &sample) * 1e-6;
        assert_near(delay(PoseidonParams::default()), 5.0, 1e-9);
        assert_near(
            delay(PoseidonParams { signal: Signal::Rtt, ..Default::default() }),
            14.0,
            1e-9,
        );
        // 20 minus a base RTT of 6, minus 5 and 2 at the worst stamping hops.
        assert_near(delay(PoseidonParams { brownfield: true, ..Default::default() }), 7.0, 1e-9);
    }

    #[test]
    fn warns_outside_its_domain_and_its_advice_is_inside() {
        let warning = |params: &PoseidonParams, gbps, base_rtt| {
            let rate = Rate::gbps(gbps);
            let path = Path {
                base_rtt,
                bottleneck_rate: rate,
                nic_rate: rate,
                full_wire_bytes: 4178,
                ..contract::path()
            };
            domain_warning(params, &path)
        };
        let params = PoseidonParams::default();
        for (gbps, base_rtt) in [(200, Span::us(10)), (100, Span::us(6))] {
            assert_eq!(warning(&params, gbps, base_rtt), None);
        }
        let slow = warning(&params, 10, Span::us(6)).unwrap();
        assert!(
            slow.contains("3.342 us on the slowest link")
                && slow.contains(r#"set p = "308us" and k = "16us""#),
            "{slow}"
        );
        let long = warning(&params, 100, Span::us(24)).unwrap();
        assert!(
            long.contains("24.00 us is above 0.75 p/(A m) = 13.03 us")
                && long.contains(r#""74us""#),
            "{long}"
        );
        // A smaller step per round trip suits a longer path.
        let small = PoseidonParams { m: 0.1, ..params };
        assert_eq!(warning(&small, 100, Span::us(24)), None);
        assert!(
            warning(&small, 100, Span::us(40)).unwrap().contains("above 0.75 p/(A m) = 32.57 us")
        );
        let fast = Path { nic_rate: Rate::gbps(400), ..contract::path() };
        let fast = fast_nic(&params, &fast).unwrap();
        assert!(fast.contains("400Gbps is above max_rate = 200Gbps"), "{fast}");
        let paths = |gbps| [3, 6, 70, 500].map(|us| (gbps, us));
        for (gbps, us) in [1, 10, 40, 100].into_iter().flat_map(paths) {
            let Some(text) = warning(&params, gbps, Span::us(us)) else { continue };
            let mut spans = text.split('"').skip(1).step_by(2).map(|text| {
                let (number, unit) = text.split_at(text.find(char::is_alphabetic).unwrap());
                let us = if unit == "ms" { 1e3 } else { 1.0 };
                Span::from_us_f64(us * number.parse::<f64>().unwrap())
            });
            let [p, k] = [(); 2].map(|()| spans.next().unwrap());
            let scaled = PoseidonParams { p, k, ..params };
            assert_eq!(warning(&scaled, gbps, Span::us(us)), None, "{gbps} {us}");
        }
        let far = warning(&params, 100, Span::ms(40)).unwrap();
        assert!(far.contains("no values suit this path"), "{far}");
    }

    #[test]
    fn shares_far_above_the_smallest_window_warn() {
        let preset = PoseidonParams { p: Span::us(160), k: Span::us(8), ..Default::default() };
        let path = Path { base_rtt: Span::us(11), full_wire_bytes: 4178, ..contract::path() };
        let warning = |params: &PoseidonParams, mbps: f64| small_share(params, &path, mbps * 1e6);
        // T(49 Mbit/s) = 8 + 160 ln(200,000 / 49) / ln(10,000) = 152 us.
        let text = warning(&preset, 49.0).unwrap();
        assert!(text.contains("0.240 packets") && text.contains("min_cwnd = 0.09"), "{text}");
        assert_eq!(warning(&preset, 200.0), None);
        assert_eq!(warning(&PoseidonParams { min_cwnd: 0.0958, ..preset }, 49.0), None);
    }

    #[test]
    fn a_path_is_congested_above_the_target() {
        let params = PoseidonParams::default();
        let flow = start(&params);
        let seen = |us: f64| {
            let peak_hop_delay = Span::from_us_f64(us);
            flow.is_congested(&params, &Ack { peak_hop_delay, ..contract::ack(Time::us(10)) })
        };
        let target = flow.target(&params, contract::ack(Time::us(10)).rtt) * 1e-6;
        assert!(!seen(target - 0.1) && seen(target + 0.1));
    }
}
