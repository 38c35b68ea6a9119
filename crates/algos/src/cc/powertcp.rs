//! PowerTCP: window control by power, the product of voltage and current.
//!
//! Every switch reports its queue length, its sent bytes and the time. From two such records the
//! sender computes the rate at which traffic arrives at the link (current) and the bytes that must
//! drain, queue and pipe together (voltage). Their product, power, distinguishes a long queue from
//! a growing one. The window is divided by the power of the worst hop relative to that of a full
//! link without a queue, so it falls before a queue has built up and rises before it has drained.
//!
//! Vamsi Addanki, Oliver Michel, Stefan Schmid. "PowerTCP: Pushing the Performance Limits of
//! Datacenter Networks". NSDI 2022.
//!
//! # Equations
//!
//! From Algorithm 1, for every hop, with `dt` between the two records, link rate `b` and base RTT
//! `τ`:
//!
//! * current `λ = Δqueue / dt + Δsent / dt`, voltage `ν = queue + b · τ`
//! * normalised power `Γ = λ · ν / (b² · τ)`; the largest over the hops applies
//! * smoothed: `Γs = (Γs · (τ − dt) + Γ · dt) / τ`, with `dt` at most `τ`
//! * window (eq. 7): `cwnd = γ · (cwnd_old / Γs + β) + (1 − γ) · cwnd`, pacing at `cwnd / τ`
//! * `cwnd_old` is the window at the start of the round trip
//!
//! In equilibrium (theorem 1) the windows at a link add up to `b · τ + Σβ` and its queue is `Σβ`.
//!
//! # Network requirements
//!
//! A record from every switch: queue, bytes sent, time and rate. This costs 8 bytes per hop and 4
//! bytes per packet in data packets, and the same in acknowledgements.
//!
//! # Domain
//!
//! Flows leave a queue of `Σβ`, and only this queue keeps a link busy while windows oscillate. The
//! law is a fluid model; a real queue changes by whole packets, and power includes each of them. If
//! β is less than a packet, a few flows therefore leave a link idle for up to 6 per cent of the
//! time (100 Gbit/s, 1,000 B, a base RTT of 4.2 µs, 4, 10 and 20 flows: 0.966, 0.977 and 1.000 of
//! the link; an independent simulator, in which pending packets keep their time: 0.970, 0.944 and
//! 1.000), and longer if the share of a flow is below a packet (10 Gbit/s, 4,096 B, 20 flows:
//! 0.89). With β of one packet, utilisation is at least 0.95 from 10 to 400 Gbit/s; with two
//! packets it is at least 0.98 if the BDP is at most 200 packets. A single flow fills its link.
//!
//! If the share of a flow is a window of one or two packets, the queue is longer than Σβ, because a
//! packet starts while less than the window is in flight, so that up to two packets are: 276 KB for
//! a Σβ of 167 (100 Gbit/s, 4,096 B, 40 flows).
//!
//! # Differences from the paper
//!
//! * `current_floor`: the current of a hop is at least half of its rate, as in the authors'
//!   simulator, so that the window at most doubles in a round trip. Without the floor (0), an idle
//!   link raises the window to its cap.
//! * The window is at most `max_window`, as in the authors' simulator, which caps the rate at the
//!   NIC's, and at least `min_rate · τ`. It grows only if it limited sending in the last
//!   round trip.
//! * A packet starts while less than the window is in flight (`window_rule = "below"`), as in the
//!   authors' simulator.
//! * τ is the fabric's largest base RTT, or the BDP over the NIC's rate if the scenario sets the
//!   BDP, so that law and windows use the same base RTT; with `tau = "path"` both use the path's.
//! * Algorithm 1 compares a power that is not normalised with one that is; here both are
//!   normalised.
//! * The first acknowledgement only stores its records, as does one whose path differs. A hop
//!   without progress in time is skipped, and records older than the stored ones (of a packet that
//!   was overtaken) are ignored.
//! * The authors' RDMA stack does not treat the first acknowledgement separately: it compares the
//!   first records with uninitialised memory. `first_sample = "against-zero"` emulates the case
//!   that this memory is zero: counters wrap at 16.8 ms and 134 MB, so a flow starts with the mean
//!   load of a link over some milliseconds at full weight. This reproduces part of the figures'
//!   effects, a stale record more of them, neither all: it is no evidence for the paper's figures.
//! * `β = HostBw · τ / N` with N = 100. The paper gives no N, its simulator a fixed 150 Mbit/s (N =
//!   167 at 25 Gbit/s). The standing queue is Nβ, so N = 10 would mean 2.5 BDP of queue for 25
//!   flows; differences between two flows decay in about 50 round trips.
//! * `reference = "committed-window"` uses the window of a round trip ago in both terms, as the
//!   authors' simulator does.
//! * `circuits` adds what the authors' TCP stack does for links whose rate changes: no smoothing
//!   and no floor at a hop whose rate has just changed, and no averaging (γ = 1) while power is
//!   below one half. A circuit bypasses the packet network's switch, so the records of the two
//!   paths do not correspond; then only the records of the common first ports of both paths, which
//!   are those of the rack, are compared.
//! * `reaction = "round"` computes the window once a round trip, as the paper's study of
//!   reconfigurable networks does; power is still smoothed with every acknowledgement. The
//!   smoothing is essential: smoothed over τ, current and voltage together amount to the queue
//!   (`q + τ q'`, passed through `1 / (1 + τ s)`). Records that are compared with those of a round
//!   trip ago, as in the authors' TCP stack without its reaction to every acknowledgement, are not
//!   smoothed, and windows oscillate permanently with a period of about four round trips. Power
//!   divides the latest window, as in Algorithm 1 and in that stack. If it divided the previous
//!   window, to whose packets it belongs, the windows of flows that are out of phase would
//!   oscillate, too.
//! * The law needs records of the way back, too (section 3.3). As in the authors' simulator, only
//!   data packets collect them, so a congested way back is not seen.
//! * `cwnd_old` is the window at the start of the present round trip, which is up to a round trip
//!   old; in eq. 7 it is that of exactly one round trip ago.
//! * While the window does not limit sending, it only falls: it does not return to the value before
//!   a short peak of power within the same round trip, as in Algorithm 1.
//! * The paper has no PLB. With `plb`, a path is congested if power exceeds the equilibrium of a
//!   flow that is alone on it, `1 + β / (b · τ)`, by 0.05, so a queue of a twentieth of a BDP. A
//!   lone flow keeps its path. So do few flows that share a link, because their queue is short:
//!   with a β of 1 % of a BDP up to six. So PLB has an effect only on many flows.
//! * A loss halves the window, and a timeout sets it to its minimum; the paper does not treat
//!   losses.
//! * After a loss, a round trip ends with the acknowledgement of a packet that left after its
//!   start. By packet numbers, as in Algorithm 1, it would last until the whole old window has been
//!   sent again.
//! * Below one packet the window becomes one packet in flight, sent at `cwnd / τ`, at no less than
//!   `min_rate`, as in the authors' simulator. The paper does not treat such windows. If β exceeds
//!   the share of a flow, each flow has a packet in flight, and the queue is these packets minus a
//!   BDP: 779 KB for a Σβ of 117 (100 Gbit/s, 4,096 B, 200 flows). Jain's index of 20 and 40 flows
//!   is at least 0.94 (10 to 100 Gbit/s, links of 1 µs). If the gap grows with the RTT, it is 0.5
//!   to 0.8 where shares are below a packet.

use alloc::format;
use alloc::string::String;

use crate::hops::{Interval, PreviousHops, Standing};
use crate::law::{Pipe, Reaction, RoundTrip, Tau};
use tidegate_core::{
    Ack, CongestionControl, ConnectionDefaults, Dash, Extent, FabricProperties, FabricRequirements,
    Hop, Limit, Loss, LossKind, Marker, OperatingPoint, Path, ProtocolInfo, Rate, Span, Telemetry,
    TelemetryBytes, Time, choice, params,
};

choice! {
    /// Window that the second term of the update uses.
    pub enum Reference {
        /// The current window: Algorithm 1.
        Live = "live-window",
        /// The window of a round trip ago.
        Committed = "committed-window",
    }
}

choice! {
    /// Records with which the first acknowledgement of a connection is compared.
    pub enum FirstSample {
        /// None: the first records are only stored.
        Stored = "stored",
        /// Zero, with counters that wrap: one possible content of the uninitialised memory that the
        /// authors' code reads, and no evidence for the paper's figures.
        AgainstZero = "against-zero",
    }
}

params! {
    /// Parameters of PowerTCP.
    pub struct PowerTcpParams {
        /// Weight of the new window.
        gamma: f64 = 0.9, in 0.01..=1.0, "PowerTCP (NSDI'22), section 3.3";
        /// Bytes added in a round trip, and the standing queue of each flow.
        beta: Extent = Extent::Bdp(0.01), within Extent::Bdp(0.0) => Extent::Bdp(10.0),
            "our choice: HostBw tau / N with N = 100, the paper leaves N open";
        /// Divisor of power; values below 1 keep links below their rate.
        eta: f64 = 1.0, in 0.5..=1.0, "PowerTCP (NSDI'22), Algorithm 1; its simulator has 0.95";
        /// Smallest current of a hop, as a share of its rate.
        current_floor: f64 = 0.5, in 0.0..=1.0, "inet-tub/ns3-datacenter, rdma-hw.cc; 0 is \
            Algorithm 1";
        /// Base RTT of the law and its windows.
        tau: Tau = Tau::Fabric, "PowerTCP (NSDI'22), section 4.1: the largest of the topology";
        /// Window that the second term of the update uses.
        reference: Reference = Reference::Live,
            "PowerTCP (NSDI'22), Algorithm 1; `committed-window` is inet-tub/ns3-datacenter, \
             rdma-hw.cc";
        /// When the window is recomputed.
        reaction: Reaction = Reaction::Ack, "PowerTCP (NSDI'22), Algorithm 1; `round` is section \
            5, reconfigurable networks";
        /// Whether to react immediately when a link has changed its rate.
        circuits: bool = false, "inet-tub/ns3-datacenter, tcp-advanced.cc, for reconfigurable \
            networks";
        /// Records with which the first acknowledgement of a connection is compared.
        first_sample: FirstSample = FirstSample::Stored, "our choice: Algorithm 1 does not \
            specify it; rdma-hw.cc of inet-tub/ns3-datacenter does not treat it separately and \
            compares with uninitialised memory, of which `against-zero` is one possible content, \
            not a reference";
        /// Window of a new connection.
        initial_window: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.0) => Extent::Bdp(100.0),
            "PowerTCP (NSDI'22), section 3.3: HostBw tau";
        /// Largest window.
        max_window: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.01) => Extent::Bdp(100.0),
            "inet-tub/ns3-datacenter, rdma-hw.cc: the NIC's rate times tau";
        /// Smallest rate; the smallest window is this rate times tau.
        min_rate: Rate = Rate::mbps(100), within Rate::bps(1_000) => Rate::gbps(10),
            "inet-tub/ns3-datacenter, config-burst.txt";
    }
}

/// A connection under PowerTCP.
#[derive(Clone, Debug)]
pub struct PowerTcp {
    /// In wire bytes.
    cwnd: f64,
    /// The window of a round trip ago.
    old_cwnd: f64,
    /// Smoothed normalised power.
    power: f64,
    round: RoundTrip,
    beta: f64,
    min_window: f64,
    max_window: f64,
    /// In picoseconds.
    tau: f64,
    /// Power above which the path is congested.
    congested_power: f64,
    /// Records of the previous acknowledgement.
    previous: PreviousHops,
}

/// Wrap-around of the fields in the authors' records (int-header.h): 24 bits of ns, 20 bits of 128
/// B.
const TIME_WRAP: Span = Span::ns(1 << 24);
const BYTES_WRAP: u64 = 128 << 20;

/// Power above which a path is congested: that of the equilibrium of a lone flow with this β, and
/// of a queue of a twentieth of a BDP. Our choice; PowerTCP has no PLB.
pub(super) fn congested_power(beta: f64, tau: f64, path: &Path) -> f64 {
    const QUEUE: f64 = 0.05;
    let bottleneck_bdp = path.bottleneck_rate.as_bps() as f64 * tau / 8e12;
    1.0 + beta / bottleneck_bdp + QUEUE
}

/// Hop with the largest power in an acknowledgement.
struct Worst {
    power: f64,
    dt: f64,
    /// Whether its rate differs from that of the previous record.
    changed: bool,
}

impl CongestionControl for PowerTcp {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "powertcp",
        title: "PowerTCP",
        revision: 1,
        citation: "Addanki et al., \"PowerTCP: Pushing the Performance Limits of Datacenter \
            Networks\", NSDI 2022",
        summary: "Divides its window by power: arrival rate at the worst link times bytes in its \
            queue and pipe.",
        color: "#009e73",
        marker: Marker::TriangleUp,
        dash: Dash::Solid,
        telemetry_bytes: TelemetryBytes { fixed: 4, per_hop: 8 },
        echo_bytes: TelemetryBytes { fixed: 4, per_hop: 8 },
    };
    type Params = PowerTcpParams;
    const CONNECTION_DEFAULTS: ConnectionDefaults = ConnectionDefaults::PACED_WINDOW;

    fn requirements(_params: &PowerTcpParams, _fabric: &FabricProperties) -> FabricRequirements {
        FabricRequirements { telemetry: Telemetry::HOP_RECORDS, ..FabricRequirements::NONE }
    }

    fn operating_point(params: &PowerTcpParams, path: &Path, _rate_bps: f64) -> OperatingPoint {
        OperatingPoint {
            utilisation_goal: params.eta,
            domain_warnings: domain_warning(params, path).into_iter().collect(),
            ..OperatingPoint::DEFAULT
        }
    }

    fn start(params: &PowerTcpParams, path: &Path, _now: Time, _seed: u64) -> PowerTcp {
        let Pipe { tau, bdp } = Pipe::of(params.tau, path);
        let min_window = params.min_rate.as_bps() as f64 * tau / 8e12;
        let max_window = params.max_window.bytes(bdp).max(min_window);
        let cwnd = params.initial_window.bytes(bdp).clamp(min_window, max_window);
        PowerTcp {
            cwnd,
            old_cwnd: cwnd,
            power: 1.0,
            round: RoundTrip::FIRST,
            beta: params.beta.bytes(bdp),
            min_window,
            max_window,
            tau,
            congested_power: congested_power(params.beta.bytes(bdp), tau, path),
            previous: PreviousHops::default(),
        }
    }

    // PowerTCP algorithm 1, newAck
    fn on_ack(&mut self, params: &PowerTcpParams, ack: &Ack<'_>) {
        let (standing, hops) = self.comparable(params, ack.hops);
        if standing == Standing::Older {
            return;
        }
        let ends_round = self.round.is_over(ack);
        let worst = match standing {
            Standing::Newer => self.worst_hop(params, hops),
            _ => self.first_worst(params, ack.hops),
        };
        if let Some(worst) = worst {
            self.smooth(&worst);
            if ends_round || params.reaction == Reaction::Ack {
                self.update(params, ack.window_limited);
            }
        }
        self.previous.replace(ack.hops);
        if ends_round {
            self.round.begin(ack);
            self.old_cwnd = self.cwnd;
        }
    }

    fn on_loss(&mut self, _params: &PowerTcpParams, loss: &Loss) {
        self.round.lose(loss);
        self.cwnd = match loss.kind {
            LossKind::Recovery => (self.cwnd / 2.0).max(self.min_window),
            LossKind::Timeout => self.min_window,
        };
        self.old_cwnd = self.cwnd;
    }

    fn is_congested(&self, _params: &PowerTcpParams, _ack: &Ack<'_>) -> bool {
        self.power > self.congested_power
    }

    fn limit(&self, _params: &PowerTcpParams) -> Limit {
        Limit {
            window_bytes: self.cwnd,
            pace_bps: self.cwnd * 8e12 / self.tau,
            wake_at: Time::NEVER,
        }
    }
}

impl PowerTcp {
    /// Relation of the records to the previous ones, and the records to compare: all, or with
    /// `circuits` those of the common first ports of both paths, if there are any.
    #[inline]
    fn comparable<'a>(&self, params: &PowerTcpParams, hops: &'a [Hop]) -> (Standing, &'a [Hop]) {
        if params.circuits && !self.previous.is_empty() {
            let front = &hops[..self.previous.shared(hops)];
            if !front.is_empty() {
                return (self.previous.compare_front(front), front);
            }
        }
        (self.previous.compare(hops), hops)
    }

    /// Hop with the largest normalised power (PowerTCP algorithm 1, normPower).
    fn worst_hop(&self, params: &PowerTcpParams, hops: &[Hop]) -> Option<Worst> {
        let mut worst: Option<Worst> = None;
        for Interval { before, now, dt, sent, rate, .. } in self.previous.until(hops) {
            let changed = params.circuits && now.rate != before.rate;
            let growth = now.queue_bytes as f64 - before.queue_bytes as f64;
            let floor = if changed { 0.0 } else { params.current_floor * rate };
            let current = ((growth + sent) / dt).max(floor);
            let power = self.power_of(current, now.queue_bytes as f64, rate);
            if worst.as_ref().is_none_or(|worst| power > worst.power) {
                worst = Some(Worst { power, dt: dt.min(self.tau), changed });
            }
        }
        worst
    }

    /// The same without records to compare. Under `against-zero` a connection starts with the
    /// traffic since time zero, by counters that wrap.
    #[cold]
    fn first_worst(&self, params: &PowerTcpParams, hops: &[Hop]) -> Option<Worst> {
        if !self.previous.is_empty() || params.first_sample == FirstSample::Stored {
            return None;
        }
        let sample = |now: &Hop| {
            let rate = now.rate.as_bps() as f64 / 8e12;
            let dt = (now.at.as_ps() % TIME_WRAP.as_ps()) as f64;
            let arrived = (now.tx_bytes.wrapping_add(now.queue_bytes.into()) % BYTES_WRAP) as f64;
            let current = (arrived / dt).max(params.current_floor * rate);
            let power = self.power_of(current, now.queue_bytes as f64, rate);
            (dt > 0.0).then_some(Worst { power, dt: dt.min(self.tau), changed: false })
        };
        let worst = |a: Worst, b: Worst| if b.power > a.power { b } else { a };
        hops.iter().filter_map(sample).reduce(worst)
    }

    /// Current times voltage, normalised.
    #[inline]
    fn power_of(&self, current: f64, queue: f64, rate: f64) -> f64 {
        let voltage = queue + rate * self.tau;
        current * voltage / (rate * rate * self.tau)
    }

    /// PowerTCP algorithm 1, normPower: smooths power over a base RTT.
    #[inline]
    fn smooth(&mut self, worst: &Worst) {
        self.power = if worst.changed {
            worst.power
        } else {
            (self.power * (self.tau - worst.dt) + worst.power * worst.dt) / self.tau
        };
    }

    /// PowerTCP algorithm 1, updateWindow.
    fn update(&mut self, params: &PowerTcpParams, window_limited: bool) {
        let power = self.power / params.eta;
        let gamma = if params.circuits && power <= 0.5 { 1.0 } else { params.gamma };
        let kept = match params.reference {
            Reference::Live => self.cwnd,
            Reference::Committed => self.old_cwnd,
        };
        // PowerTCP eq. 7. At a power of zero this is infinite; the clamp turns that into the
        // largest window.
        let cwnd = gamma * (self.old_cwnd / power + self.beta) + (1.0 - gamma) * kept;
        let most = if window_limited { self.max_window } else { self.cwnd };
        self.cwnd = cwnd.clamp(self.min_window, most);
    }
}

/// Reason why these parameters do not suit the path, if any.
fn domain_warning(params: &PowerTcpParams, path: &Path) -> Option<String> {
    let flow = PowerTcp::start(params, path, Time::ZERO, 0);
    let packets = flow.beta / path.full_wire_bytes as f64;
    // A queue changes by whole packets; 1 % allows for a beta given as a rounded share of the BDP.
    (packets < 0.99).then(|| {
        format!(
            "beta is {packets:.2} packets: the queue of a few flows is too short to keep a link \
             busy: set beta = \"{}B\" (one packet)",
            path.full_wire_bytes
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{self, PIPE, assert_near, hop, on_hops, path};

    fn start(params: &PowerTcpParams) -> PowerTcp {
        PowerTcp::start(params, &path(), Time::ZERO, 0)
    }

    #[test]
    fn power_is_current_times_voltage_of_the_worst_hop() {
        let params = PowerTcpParams::default();
        let mut flow = start(&params);
        on_hops(&mut flow, &params, 0, &[hop(0, 0, 0), hop(0, 0, 10_000)]);
        assert_eq!(flow.cwnd, PIPE, "the first records are only stored");
        // In 1 µs (12,500 bytes at line rate): one hop at half its rate, and one at its rate whose
        // queue grew by a tenth of that.
        let hops = [hop(1000, 6250, 0), hop(1000, 12_500, 11_250)];
        let worst = flow.worst_hop(&params, &hops).unwrap();
        assert_near(worst.power, 1.1 * (11_250.0 + PIPE) / PIPE, 1e-12);
        assert_near(worst.dt, 1e6, 0.0);
        on_hops(&mut flow, &params, 1, &hops);
        let smoothed = (1.0 * 7.0 + worst.power) / 8.0;
        assert_near(flow.power, smoothed, 1e-12);
        assert_near(flow.cwnd, 0.9 * (PIPE / smoothed + 1000.0) + 0.1 * PIPE, 1e-6);
    }

    #[test]
    fn old_window_is_that_of_a_round_trip_ago() {
        let params = PowerTcpParams { max_window: Extent::Bdp(2.0), ..Default::default() };
        let mut flow = start(&params);
        let old: alloc::vec::Vec<f64> = (0..42)
            .map(|seq| {
                on_hops(&mut flow, &params, seq, &[hop(1000 * seq, 12_000 * seq, 0)]);
                flow.old_cwnd
            })
            .collect();
        assert!(old[..20].iter().all(|&window| window == PIPE));
        assert!(old[20] > PIPE && old[20..40].iter().all(|&window| window == old[20]));
        assert!(old[40] > old[20]);
    }

    #[test]
    fn idle_link_at_most_doubles_or_fully_opens_window() {
        let grown = |current_floor| {
            let params = PowerTcpParams {
                current_floor,
                max_window: Extent::Bdp(9.0),
                gamma: 1.0,
                beta: Extent::Bytes(0.0),
                ..Default::default()
            };
            let mut flow = start(&params);
            flow.power = current_floor;
            on_hops(&mut flow, &params, 0, &[hop(0, 0, 0)]);
            on_hops(&mut flow, &params, 1, &[hop(9000, 0, 0)]);
            flow.cwnd / PIPE
        };
        assert_near(grown(0.5), 2.0, 1e-9);
        assert_near(grown(0.0), 9.0, 1e-9);
    }

    #[test]
    fn records_that_cannot_be_compared_change_nothing() {
        let params = PowerTcpParams::default();
        let mut flow = start(&params);
        on_hops(&mut flow, &params, 0, &[hop(1000, 0, 0)]);
        let other_port = Hop { port: 8, ..hop(2000, 90_000, 9000) };
        for hops in [
            &[][..],
            &[hop(1000, 0, 0)],
            &[hop(500, 9000, 9000)],
            &[other_port],
            &[hop(3000, 0, 0), hop(3000, 0, 0)],
        ] {
            on_hops(&mut flow, &params, 1, hops);
            assert_eq!((flow.cwnd, flow.power), (PIPE, 1.0), "{hops:?}");
        }
    }

    #[test]
    fn the_first_records_can_be_compared_with_zero() {
        let first = |hop: Hop| {
            let params =
                PowerTcpParams { first_sample: FirstSample::AgainstZero, ..Default::default() };
            let mut flow = start(&params);
            on_hops(&mut flow, &params, 0, &[hop]);
            flow.power
        };
        // 90 % of what the link can send in 40 us, at full weight: longer than τ.
        assert_near(first(hop(40_000, 450_000, 0)), 0.9, 1e-12);
        assert_near(first(hop(40_000, 440_000, 10_000)), 0.9 * 1.1, 1e-12);
        // A link that was idle counts as half busy, independent of the counters before the wrap.
        let wrapped = hop((1 << 24) + 40_000, BYTES_WRAP + 450_000, 0);
        assert_near(first(wrapped), 0.9, 1e-12);
        assert_near(first(hop(1 << 23, 450_000, 0)), 0.5, 1e-12);
        assert_eq!(first(hop(0, 450_000, 0)), 1.0, "no time has passed");
        assert_eq!(first(hop(1 << 24, 450_000, 0)), 1.0, "no time has passed modulo the wrap");
    }

    #[test]
    fn a_window_can_be_computed_once_a_round_trip() {
        let params = PowerTcpParams { reaction: Reaction::Round, ..Default::default() };
        let mut flow = start(&params);
        on_hops(&mut flow, &params, 0, &[hop(0, 0, 0)]);
        // A record in the middle of the round trip is smoothed but changes no window: twice the
        // pipe for half of a base RTT.
        on_hops(&mut flow, &params, 10, &[hop(4000, 100_000, 0)]);
        assert_near(flow.power, 1.5, 1e-12);
        assert_eq!(flow.cwnd, PIPE);
        on_hops(&mut flow, &params, 20, &[hop(8000, 200_000, 0)]);
        assert_near(flow.power, 1.75, 1e-12);
        assert_near(flow.cwnd, 0.9 * (PIPE / 1.75 + 1000.0) + 0.1 * PIPE, 1e-6);
    }

    #[test]
    fn limit_in_one_round_does_not_grow_the_next() {
        let params = PowerTcpParams {
            reaction: Reaction::Round,
            initial_window: Extent::Bdp(0.1),
            ..Default::default()
        };
        let mut flow = start(&params);
        let mut round = |i: u64, window_limited| {
            let hops = [hop(8000 * i, 50_000 * i, 0)];
            flow.on_ack(&params, &Ack { hops: &hops, window_limited, ..contract::ack_of(20 * i) });
            flow.cwnd
        };
        let windows = [true, true, false, true].map({
            let mut i = 0;
            move |limited| {
                i += 1;
                round(i - 1, limited)
            }
        });
        assert!(windows[1] > windows[0] && windows[3] > windows[2], "{windows:?}");
        assert_eq!(windows[2], windows[1]);
    }

    #[test]
    fn a_loss_cuts_the_window_and_what_power_divides() {
        let params = PowerTcpParams::default();
        for kind in [LossKind::Recovery, LossKind::Timeout] {
            let mut flow = start(&params);
            on_hops(&mut flow, &params, 0, &[hop(0, 0, 0)]);
            let loss =
                Loss { now: Time::us(9), kind, rtt: tidegate_core::Span::us(9), next_seq: 20 };
            flow.on_loss(&params, &loss);
            // 100 Mbit/s for 8 us.
            let cut = if kind == LossKind::Recovery { PIPE / 2.0 } else { 100.0 };
            assert_near(flow.cwnd, cut, 1e-9);
            // A full link without a queue: only β is added.
            on_hops(&mut flow, &params, 1, &[hop(8000, 100_000, 0)]);
            assert_near(flow.cwnd, cut + 0.9 * 1000.0, 1e-6);
        }
    }

    #[test]
    fn circuits_half_rate_applies_the_new_window_fully() {
        let window = |circuits, sent| {
            let params = PowerTcpParams {
                circuits,
                current_floor: 0.0,
                initial_window: Extent::Bdp(0.1),
                ..Default::default()
            };
            let mut flow = start(&params);
            on_hops(&mut flow, &params, 0, &[hop(0, 0, 0)]);
            on_hops(&mut flow, &params, 1, &[hop(8000, sent, 0)]);
            flow.cwnd / PIPE
        };
        assert_near(window(true, 49_000), 0.1 / 0.49 + 0.01, 1e-9);
        assert_near(window(true, 51_000), 0.9 * (0.1 / 0.51 + 0.01) + 0.01, 1e-9);
        assert_near(window(false, 49_000), 0.9 * (0.1 / 0.49 + 0.01) + 0.01, 1e-9);
    }

    #[test]
    fn a_changed_rate_takes_effect_at_once_with_circuits() {
        let power = |circuits| {
            let params = PowerTcpParams { circuits, ..Default::default() };
            let mut flow = start(&params);
            on_hops(&mut flow, &params, 0, &[Hop { rate: Rate::gbps(25), ..hop(0, 0, 0) }]);
            // 25 Gbit/s arrive at a link that is now a 100 Gbit/s circuit.
            on_hops(&mut flow, &params, 1, &[hop(1000, 3125, 0)]);
            flow.power
        };
        assert_near(power(true), 0.25, 1e-12);
        assert_near(power(false), (7.0 + 0.5) / 8.0, 1e-12);
    }

    #[test]
    fn circuits_compare_the_ports_common_to_both_paths() {
        let power = |circuits| {
            let params = PowerTcpParams { circuits, ..Default::default() };
            let mut flow = start(&params);
            let port = |port, hop| Hop { port, ..hop };
            let rack = Hop { rate: Rate::gbps(25), ..hop(0, 0, 0) };
            on_hops(&mut flow, &params, 0, &[rack, port(8, hop(0, 0, 0)), port(9, hop(0, 0, 0))]);
            // The bytes sent by the port of the other rack are not progress of the packet network's
            // port.
            on_hops(&mut flow, &params, 1, &[hop(1000, 3125, 0), port(9, hop(1000, 90_000, 0))]);
            let onto = flow.power;
            // Older records are ignored.
            on_hops(&mut flow, &params, 2, &[hop(500, 90_000, 0), port(8, hop(2000, 0, 0))]);
            (onto, flow.power)
        };
        let (onto, after) = power(true);
        assert_near(onto, 0.25, 1e-12);
        assert_eq!(after, onto);
        assert_eq!(power(false), (1.0, 1.0));
    }

    #[test]
    fn one_base_rtt_is_in_the_law_and_in_the_windows() {
        for (tau, bdp_bytes, us) in [
            (Tau::Fabric, PIPE, 8.0),
            (Tau::Fabric, 2.0 * PIPE, 16.0),
            (Tau::Path, PIPE, 6.0),
            (Tau::Path, 2.0 * PIPE, 12.0),
        ] {
            let params = PowerTcpParams { tau, ..Default::default() };
            let flow = PowerTcp::start(&params, &Path { bdp_bytes, ..path() }, Time::ZERO, 0);
            assert_near(flow.tau, us * 1e6, 1e-6);
            // 100 Gbit/s are 12,500 bytes in a microsecond: the pace of a full window is the NIC's.
            assert_near(flow.max_window, us * 12_500.0, 1e-6);
            assert_near(flow.limit(&params).pace_bps, 1e11, 1.0);
            assert_near(flow.beta, us * 125.0, 1e-6);
        }
    }

    #[test]
    fn a_beta_below_a_packet_is_outside_the_domain() {
        let warning = |beta| {
            let params = PowerTcpParams { beta: Extent::Bytes(beta), ..Default::default() };
            domain_warning(&params, &path())
        };
        assert!(warning(4100.0).is_some_and(|text| text.contains("4200B")));
        assert_eq!(warning(4200.0), None);
    }

    #[test]
    fn fluid_link_reaches_the_fixed_point_of_theorem_1() {
        // Flows whose windows fill a 100 Gbit/s pipe of one base RTT: queue = Σcwnd − bτ, at line
        // rate while there is a queue.
        for reference in [Reference::Live, Reference::Committed] {
            let params = PowerTcpParams { reference, ..Default::default() };
            let mut flows = alloc::vec![start(&params); 10];
            for (i, flow) in flows.iter_mut().enumerate() {
                flow.cwnd = PIPE * (0.02 + 0.02 * i as f64);
                flow.old_cwnd = flow.cwnd;
            }
            let (mut sent, mut queue) = (0.0, 0.0);
            for round in 0..400 {
                let total: f64 = flows.iter().map(|flow| flow.cwnd).sum();
                sent += total.min(PIPE);
                queue = (total - PIPE).max(0.0);
                for flow in &mut flows {
                    on_hops(
                        flow,
                        &params,
                        20 * round,
                        &[hop(8000 * round, sent as u64, queue as u32)],
                    );
                }
            }
            assert_near(queue / PIPE, 10.0 * 0.01, 0.002);
            for flow in &flows {
                assert_near(flow.cwnd / PIPE, 1.1 / 10.0, 0.002);
            }
        }
    }

    #[test]
    fn path_is_congested_at_power_above_one() {
        let params = PowerTcpParams::default();
        for (queue, congested) in [(0, false), (50_000, true)] {
            let mut flow = start(&params);
            on_hops(&mut flow, &params, 0, &[hop(0, 0, queue)]);
            on_hops(&mut flow, &params, 1, &[hop(8000, 90_000, queue)]);
            assert_eq!(
                flow.is_congested(&params, &contract::ack(Time::us(10))),
                congested,
                "{queue}"
            );
        }
    }
}
