//! Tide: SIRD whose shared links are regulated by Poseidon's law.
//!
//! SIRD's receivers schedule their own downlink, and each shares the links between switches by a
//! credit limit for every sender, which ECN marks reduce by DCTCP's rule. That rule divides a link
//! by luck: a flow over two congested links is marked on both and receives less than its max-min
//! share. Poseidon divides links by a target delay that falls with the flow's own rate and that is
//! compared with the delay of the worst hop alone. Tide uses that law for the credit limit. The
//! receiver's own downlink is scheduled already, so its queue does not count as a hop.
//!
//! Protocol of this project; no publication describes it. SIRD: `sird/mod.rs`. Poseidon:
//! `cc/poseidon.rs`.
//!
//! # Equations
//!
//! With the credit limit `b` of a sender, the round trip `θ` from a credit to its data, the largest
//! queueing delay `D` of a hop between switches that a scheduled data packet of `s` bytes has
//! recorded, the rate `x = b / θ`, clamped to \[min_rate, max_rate\], and `A = ln(max_rate /
//! min_rate)`:
//!
//! * target (Poseidon, equation 3): `T(x) = p · ln(max_rate / x) / A + k`
//! * every scheduled data packet: `b ← b + min(s, b) · ln U` with `ln U = (T(x) − D) · A · m / p`
//!   (equation 4), where `U` is clamped to \[min_md, max_mi\], and `b` to \[network_floor, BDP +
//!   2 (p + k) · NIC rate\]: what an empty path and the longest queues of two hops hold
//! * budget: `D / θ` of a sender's outstanding credit is on links between switches, and does not
//!   count against the receiver's `B`
//!
//! While the limit is what limits the sender, about `b` bytes arrive in a round trip, so this is
//! the fluid model `b' = b · ln U / θ` (`tidegate_fluid::Targets`, clocked). Increases and
//! decreases have the same weight: a sprayed flow reacts to the mean over its paths, not to the
//! worst of them.
//!
//! The outstanding credit is `b` on average, although it is a whole number of packets. If data
//! returns evenly, it returns credit once in `s · θ / b`. With room for a part `f` of a packet, the
//! next credit leaves `(1 − f) · s · θ / b` after scheduled data has returned credit, so this
//! packet is outstanding for the part `f` of that time. With room for less than a packet in a round
//! trip, the pair sends one in each `s · θ / b`.
//!
//! The wait also has a random part, uniform in ± `jitter · min(f, 1 − f) · s · θ / b`. Without it,
//! the order of several pairs' packets can repeat, and each pair reads the delay of one place in
//! this order. Below a packet in a round trip, where no other return of the pair paces it, `jitter`
//! is 1: with less, packets of such pairs form groups, between which the link is idle. Each pair of
//! hosts has random numbers of its own, which depend on the seed of the run.
//!
//! The receiver measures `θ` with one credit at a time: until only the bytes of later credits are
//! outstanding. A retransmission, the end of a message of unknown size, and a sender that does not
//! respond end the measurement without a result. `θ` includes the queue of the receiver's own
//! downlink, which `D` does not: with `τ + D` instead, a flow that waits there, too, appears faster
//! than it is and gets less than its share.
//!
//! Unscheduled packets overtake others, so their delays are not those of a queue, and do not count.
//!
//! # Equilibrium and stability
//!
//! Pairs of hosts that only links between switches limit, and whose worst hop is the same link,
//! have `T(x) = D`, hence the same rate. A pair over several such links obeys the hop with the
//! largest delay, where its rate is lowest: these rates are max-min fair, and `D` is `T(fair
//! share)`. Queues vary by packets, and the largest of several varying delays is longer than each,
//! so a flow over several equal hops gets slightly less.
//!
//! The receiver reads `D` without an echo: one credit and one data packet close the loop, with a
//! delay of `θ`. Each packet that arrives returns its credit, so the queue is what all limits
//! exceed the BDP by, and follows them at once. With `y`, the sum of the limits above its rest over
//! the link's rate, and `g = A · m / p`, the law is near the equilibrium
//!
//! `y' = −(m / θ) · (y − y(t − θ)) − g · y(t − θ)`
//!
//! which is stable for `g · θ < m + √(ω² + m²)` with `tan ω = −ω / m`
//! (`tidegate_fluid::Targets::longest_stable_us`): by default for a `θ`, which includes `D`, of up
//! to 26 µs. A run warns from the limit for a small `m` on, `g · θ = π/2`, which is 23.7 µs. For
//! longer round trips, increase `p`. The ratio of two rates converges by `exp(−m)` in the logarithm
//! per round trip.
//!
//! Old feedback: credit that is outstanding cannot be revoked. A lower limit takes effect when data
//! has returned the credit above it, which takes one round trip.
//!
//! # Variants
//!
//! * `signal = "power"`: `(D + τ)(1 + D') − τ` replaces `D`, smoothed over the base RTT `τ`:
//!   PowerTCP's normalised power, as a delay. This is the delay in one round trip if its growth
//!   continues.
//! * `update = "round-trip"`: Poseidon's algorithm 1. Increases add `(U − 1) · min(s, b)`, and
//!   decreases multiply by `U` at most once a round trip.
//! * `rounding = "nearest"`: the outstanding credit is the nearest number of packets, and at least
//!   one. Unless the equilibrium is a whole number of packets, pairs alternate between two numbers,
//!   queues oscillate, and a flow over two hops gets down to 0.71 of its share.
//!
//! # Network requirements
//!
//! Two bytes in a data packet, which switches raise to their own queueing delay at ports that lead
//! to switches; per-packet spraying; two priorities if available. If another protocol in the fabric
//! needs this telemetry at all ports, the receiver's downlink counts as a hop as well.
//!
//! # Limits
//!
//! * `network_floor` is a part of the receiver's BDP. So `n` senders keep at least `n` times this
//!   part on a link, and `D` does not fall below the time that these bytes need.
//! * Rates below `min_rate` have equal targets and need not converge.
//! * SIRD's loop still limits the credit of senders' own links; the mean outstanding credit equals
//!   that limit, too. Receivers serve the shortest message first.
//! * The mean is exact if data returns evenly. Packets of few pairs can still be in an order in
//!   which one reads the longer delay (docs/tide.md, limits).
//! * The measured round trip includes the return of unscheduled packets' credit. A sender may spend
//!   either credit on either packet, so that the receiver cannot separate them.
//! * `max_rate` is one value for a fabric, at least its fastest NIC.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use tidegate_core::{
    Dash, Endpoint, Extent, FabricProperties, FabricRequirements, HostContext, Marker,
    OperatingPoint, PacketSizes, Path, ProtocolInfo, Rate, Span, Telemetry, TelemetryBytes,
    fabric::Routing, math,
};

use super::sird::header::Header;
pub use super::sird::target::{Rounding, Signal, Update};
use super::sird::target::{Target, TargetLaw};
use super::sird::{
    CreditTransport, NetworkSignal, Policy, Priorities, SirdParams, credit_params,
    warnings_of_credit, without_weights,
};

/// Bytes of telemetry in a data packet.
const TELEMETRY: u16 = 2;

credit_params! {
    /// Parameters of Tide.
    pub struct TideParams {
        /// Range of the target: the slowest flow's target minus the fastest flow's.
        p: Span = Span::ns(12_500), within Span::ns(100) => Span::ms(100), "our choice";
        /// Target of the fastest flow.
        k: Span = Span::us(1), within Span::ns(1) => Span::ms(10), "our choice";
        /// Speed of the update: a round trip covers `1 − exp(−m)` of the logarithmic distance to
        /// the rate whose target equals the delay.
        m: f64 = 0.1, in 0.001..=2.0, "our choice";
        /// Rate whose target is p + k. Slower flows have the same target.
        min_rate: Rate = Rate::mbps(100), within Rate::mbps(1) => Rate::gbps(1),
            "our choice";
        /// Rate whose target is k: one value for a fabric, at least its fastest NIC.
        max_rate: Rate = Rate::gbps(400), within Rate::gbps(2) => Rate::gbps(10_000),
            "our choice";
        /// Smallest `U` (module text): the logarithm bounds the decrease by a packet.
        min_md: f64 = 0.5, in 0.01..=0.99, "our choice: Poseidon's";
        /// Largest `U`: the logarithm bounds the increase by a packet.
        max_mi: f64 = 2.5, in 1.01..=100.0, "our choice: Poseidon's";
        /// Delay that is compared with the target.
        signal: Signal = Signal::PeakHopDelay, "our choice";
        /// When a credit limit changes.
        update: Update = Update::EveryPacket, "our choice";
        /// How credit follows a limit that is no whole number of packets.
        rounding: Rounding = Rounding::TimeAverage, "our choice";
        /// Random part of the wait for the next credit of a pair with a packet or more in a round
        /// trip, relative to its largest value.
        jitter: f64 = 0.25, in 0.0..=1.0, if rounding == Rounding::TimeAverage, "our choice";
    }
}

/// Tide.
#[derive(Debug)]
pub enum TargetDelay {}

/// The Tide transport of one host.
pub type Tide = CreditTransport<TargetDelay>;

impl Endpoint for Tide {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "tide",
        title: "Tide",
        revision: 5,
        citation: "this project; no publication describes it",
        summary: "SIRD whose shared links are regulated by Poseidon's target delay.",
        color: "#e7298a",
        marker: Marker::Circle,
        dash: Dash::Dotted,
        telemetry_bytes: TelemetryBytes { fixed: TELEMETRY, per_hop: 0 },
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = TideParams;
    type Header = Header;

    fn new(params: &TideParams, host: &HostContext) -> Tide {
        let law = TargetLaw::new(&params.target(), host.bdp_bytes, host.nic_rate);
        CreditTransport::with(&params.credit(), Some(law), host)
    }

    fn sizes(params: &TideParams) -> PacketSizes {
        PacketSizes::new(params.header_bytes, params.control_bytes)
    }

    fn ignores_weights(params: &TideParams) -> Option<&'static str> {
        without_weights([params.receiver_policy, params.sender_policy])
    }

    fn requirements(params: &TideParams, _fabric: &FabricProperties) -> FabricRequirements {
        FabricRequirements {
            telemetry: Telemetry { core_only: true, ..Telemetry::PEAK },
            classes: (params.priorities != Priorities::None).into(),
            routing: Routing::Spray,
            ..FabricRequirements::NONE
        }
    }

    fn operating_point(params: &TideParams, path: &Path, rate_bps: f64) -> OperatingPoint {
        let law = TargetLaw::new(&params.target(), path.bdp_bytes, path.nic_rate);
        OperatingPoint {
            telemetry_target: Some(Span::from_ps_f64(law.target_at(rate_bps))),
            domain_warnings: domain_warnings(params, path, rate_bps),
            ..OperatingPoint::DEFAULT
        }
    }
}

/// Reasons why these parameters do not suit the path, with remedies. Those about p are one text,
/// because one value has to satisfy both.
fn domain_warnings(params: &TideParams, path: &Path, rate_bps: f64) -> Vec<String> {
    let slope = params.slope_us();
    let (mut of_p, mut factor, mut is_unstable) = (Vec::new(), 1.0_f64, false);
    let packet = path.bottleneck_rate.serialise(path.full_wire_bytes as u64).as_us_f64();
    let longest = 0.1 * slope;
    if packet > longest {
        factor = packet / longest;
        of_p.push(format!(
            "a full packet takes {packet:.3} us on the slowest link, above 0.1 p/A = {longest:.3} \
             us"
        ));
    }
    let law = TargetLaw::new(&params.target(), path.bdp_bytes, path.nic_rate);
    let base_rtt = path.base_rtt.as_us_f64();
    let (p, target) = (params.p.as_us_f64(), law.target_at(rate_bps) * 1e-6);
    // The bound of the module text for a small m, as a multiple of p.
    let stable = core::f64::consts::FRAC_PI_2 * slope / (params.m * p);
    if base_rtt + target > stable * p {
        // The target grows with p, too.
        let k = params.k.as_us_f64();
        let left = stable - (target - k) / p;
        is_unstable = left <= 0.0;
        if !is_unstable {
            factor = factor.max((base_rtt + k) / (left * p));
        }
        of_p.push(format!(
            "base RTT and target delay are {:.1} us, above {:.1} us, up to which shares of links \
             between switches are stable",
            base_rtt + target,
            stable * p
        ));
    }
    if factor > 1.0 {
        // Rounded up, so that the product has no warning.
        of_p.push(format!("multiply p by {:.1}", -math::floor(-factor * 10.0) / 10.0));
    }
    if is_unstable {
        of_p.push(String::from("reduce m"));
    }
    let mut reasons = warnings_of_credit(params.budget, path);
    if !of_p.is_empty() {
        reasons.push(of_p.join("; "));
    }
    if path.nic_rate > params.max_rate {
        let (nic, max) = (path.nic_rate, params.max_rate);
        reasons.push(format!(
            "the NIC's {nic} is above max_rate = {max}, where all targets are equal: set max_rate \
             to at least the NIC's rate"
        ));
    }
    reasons
}

impl TideParams {
    /// p / A in microseconds: increase of the target if the rate falls by a factor of e.
    fn slope_us(&self) -> f64 {
        let range = self.max_rate.as_bps() as f64 / self.min_rate.as_bps() as f64;
        self.p.as_us_f64() / math::ln(range)
    }

    /// Parameters of the control loop of shared links.
    pub(crate) fn target(&self) -> Target {
        Target {
            p: self.p,
            k: self.k,
            m: self.m,
            min_rate: self.min_rate,
            max_rate: self.max_rate,
            min_md: self.min_md,
            max_mi: self.max_mi,
            signal: self.signal,
            update: self.update,
            rounding: self.rounding,
            jitter: self.jitter,
        }
    }

    /// Parameters of everything else.
    fn credit(&self) -> SirdParams {
        SirdParams {
            budget: self.budget,
            unscheduled_threshold: self.unscheduled_threshold,
            sender_threshold: self.sender_threshold,
            gain: self.gain,
            sender_floor: self.sender_floor,
            network_floor: self.network_floor,
            fair_share: self.fair_share,
            receiver_policy: self.receiver_policy,
            sender_policy: self.sender_policy,
            credit_pacing: self.credit_pacing,
            credit_rate: self.credit_rate,
            priorities: self.priorities,
            network_signal: NetworkSignal::PeakHopDelay,
            resend_timeout: self.resend_timeout,
            // Telemetry is part of the packet.
            header_bytes: self.header_bytes + TELEMETRY as u64,
            control_bytes: self.control_bytes,
            ..SirdParams::default()
        }
    }
}
