//! θ-PowerTCP: PowerTCP without support from switches.
//!
//! Power is the rate at which traffic arrives at a link, times the bytes in its queue and pipe. At
//! a busy link, round-trip times contain both: their derivative is the growth of the queue, their
//! value its length. Once a round trip a sender divides its window by the RTT relative to the base
//! RTT, times one plus its derivative. RTTs do not show spare capacity of a link: there the window
//! grows only by small additive steps.
//!
//! Vamsi Addanki, Oliver Michel, Stefan Schmid. "PowerTCP: Pushing the Performance Limits of
//! Datacenter Networks". NSDI 2022, section 3.5 and appendix B.
//!
//! # Equations
//!
//! From Algorithm 2, with round-trip time `θ`, base RTT `τ` and `dt` between the arrivals of two
//! acknowledgements:
//!
//! * derivative `θ' = Δθ / dt`
//! * normalised power (eq. 8) `Γ = (θ' + 1) · θ / τ`
//! * smoothed: `Γs = (Γs · (τ − dt) + Γ · dt) / τ`, with `dt` at most `τ`
//! * window, once a round trip: `cwnd = γ · (cwnd / Γs + β) + (1 − γ) · cwnd`, pacing at `cwnd / τ`
//!
//! In equilibrium `Γs = θ / τ`, so that, as under PowerTCP (theorem 1), windows at a link add up to
//! `b · τ + Σβ` and its queue is `Σβ`.
//!
//! # Network requirements
//!
//! None.
//!
//! # Domain
//!
//! τ stands for the RTT of an empty path. If the path is shorter than the fabric's longest and `tau
//! = "fabric"`, as in the paper, the equilibrium contains a queue equal to the difference. `tau =
//! "path"` avoids it. A flow that is alone after others have ended grows by β a round trip.
//!
//! The law treats all delay beyond τ as queueing, and tolerates only `β` (with `tolerance`, also
//! that share of a BDP). Two effects need such a tolerance, and a warning reports a value below one
//! packet for each link of the path:
//!
//! * A queue that keeps a link busy changes by whole packets. With β of 0.07 packets two flows use
//!   0.65 of a link (10 Gbit/s, 1,000 B, a base RTT of 5.9 µs), with 0.14 it is 0.86 to 1.00, with
//!   a quarter at least 0.90, with 0.38 and more at least 0.98 (2 to 10 flows, 10 to 400 Gbit/s).
//! * If a receiver also sends, its acknowledgements wait behind its data packets. Two lone flows
//!   over one switch, one in each direction, get 0.39 to 0.74 of the free capacity with half a
//!   packet if the BDP is below 300 packets, 0.54 to 1.00 with one packet and 0.78 to 1.00 with one
//!   and a half; with two packets 0.90 to 1.00, and at least 0.85 if a BDP is less than ten
//!   packets. Two packets amount to a β of 1 % if a packet's time is half a per cent of τ.
//! * Over several switches, an acknowledgement can wait for a data packet at each link of the same
//!   rate. At 100 Gbit/s and 1,000 B, the two flows get 1.00, 0.67, 0.50 and 0.34 with two packets
//!   over 1, 2, 3 and 5 switches, and 1.00 with one packet for each link. With 4,096 B, even that
//!   gives only 0.73 to 0.97 over two and more switches. If acknowledgements take other links than
//!   data, as ECMP over several paths permits, two packets suffice.
//!
//! RTTs are measured between NICs. If `transport.bdp` covers the delay of host software, τ contains
//! it, and the law adds the part of τ that RTTs exclude to each of them.
//!
//! If the share of a flow is a window of one or two packets, the queue is longer than Σβ, because a
//! packet starts while less than the window is in flight: 80 KB for a Σβ of 44 (40 flows, 10
//! Gbit/s, 1,000 B).
//!
//! Many flows that start together can queue beyond the retransmission timeout: 1,000 at 100 Gbit/s
//! and 4,096 B resend 18 MB beside 227 MB in 20 ms, although nothing is lost, and nothing with
//! `min_rto = "20ms"`.
//!
//! # Differences from the paper
//!
//! * Algorithm 2 uses the window of a round trip ago. With one update a round trip that is the
//!   current window.
//! * The first acknowledgement only stores its RTT. Two acknowledgements at the same time have no
//!   derivative: the second changes only the stored RTT.
//! * `gradient_floor`: θ' + 1 is at least one half, as in the authors' simulator, so that one
//!   sample does not take power to zero (or below) when a queue drains fast. Without the floor (0),
//!   flows that start together with a BDP each may never converge: 8 oscillate with 4.0 BDP in the
//!   queue and 16 with 8.9 (100 Gbit/s, 1,000 B, a base RTT of 4.2 µs), because each update uses
//!   the power of one moment, which in bursts of the flow's own packets is not the mean.
//! * The window is at most `max_window` and at least `min_rate · τ`. It grows only if it limited
//!   sending in the last round trip.
//! * A packet starts while less than the window is in flight (`window_rule = "below"`), as in the
//!   authors' simulator.
//! * `β = HostBw · τ / N` with N = 100, as for PowerTCP.
//! * With `plb`, a path is congested as under PowerTCP.
//! * A loss halves the window, and a timeout sets it to its minimum; the paper does not treat
//!   losses.
//! * Below one packet the window becomes one packet in flight, sent at `cwnd / τ`, at no less than
//!   `min_rate`, as in the authors' simulator. 40 flows use 0.81 and 0.91 of 10 and 25 Gbit/s
//!   (4,096 B, links of 1 µs) and all of them with 1,000 B. If the gap grew with the RTT, they
//!   would use 0.73 and 0.76, and 0.79 and 0.87.
//!
//! The authors' simulator differs from the paper; the preset `as-published-code` follows it.
//! `minimum_rtt` lets τ fall to the smallest RTT that the flow has measured; `tolerance` ignores 5
//! % of standing delay; γ is 0.7; and `reaction = "ack"` recomputes the window with every
//! acknowledgement from that of the last round trip. The simulator also compares its first sample
//! with an RTT of zero at time zero, which at the times of its runs amounts to a sample of the RTT
//! without derivative; this is omitted here.

use alloc::format;
use alloc::string::String;

use super::powertcp::congested_power;
use crate::law::{Pipe, Reaction, RoundTrip, Tau};
use tidegate_core::{
    Ack, CongestionControl, ConnectionDefaults, Dash, Extent, Limit, Loss, LossKind, Marker,
    OperatingPoint, Path, ProtocolInfo, Rate, Span, TelemetryBytes, Time, params,
};

params! {
    /// Parameters of θ-PowerTCP.
    pub struct ThetaPowerTcpParams {
        /// Weight of the new window.
        gamma: f64 = 0.9, in 0.01..=1.0, "PowerTCP (NSDI'22), section 4.1; its simulator has 0.7";
        /// Bytes added in a round trip, and the standing queue of each flow.
        beta: Extent = Extent::Bdp(0.01), within Extent::Bdp(0.0) => Extent::Bdp(10.0),
            "our choice: HostBw tau / N with N = 100, the paper leaves N open";
        /// Smallest derivative of the RTT, plus one.
        gradient_floor: f64 = 0.5, in 0.0..=1.0, "inet-tub/ns3-datacenter, rdma-hw.cc; 0 is \
            Algorithm 2";
        /// RTT that counts as that of an empty path, in base RTTs.
        tolerance: f64 = 1.0, in 1.0..=2.0, "PowerTCP (NSDI'22), Algorithm 2; \
            inet-tub/ns3-datacenter, rdma-hw.cc, has 1.05";
        /// Base RTT of the law and its windows.
        tau: Tau = Tau::Fabric, "PowerTCP (NSDI'22), section 4.1: the largest of the topology";
        /// Whether the smallest measured RTT replaces the base RTT once it is below that.
        minimum_rtt: bool = false, "PowerTCP (NSDI'22), Algorithm 2; inet-tub/ns3-datacenter, \
            rdma-hw.cc, does";
        /// When the window is recomputed.
        reaction: Reaction = Reaction::Round, "PowerTCP (NSDI'22), Algorithm 2; `ack` is \
            inet-tub/ns3-datacenter, rdma-hw.cc";
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

/// A connection under θ-PowerTCP. Sizes are wire bytes.
#[derive(Clone, Debug)]
pub struct ThetaPowerTcp {
    cwnd: f64,
    /// Window at the end of the last round trip.
    reference: f64,
    /// Smoothed normalised power.
    power: f64,
    /// Arrival and RTT of the last acknowledgement; none before the first.
    previous: Option<(Time, Span)>,
    round: RoundTrip,
    beta: f64,
    min_window: f64,
    max_window: f64,
    /// τ of the windows, in picoseconds.
    pipe_tau: f64,
    /// τ of the law: at most that of the windows.
    tau: f64,
    /// Part of τ that RTTs exclude.
    excluded: f64,
    /// Power above which the path is congested.
    congested_power: f64,
}

impl CongestionControl for ThetaPowerTcp {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "theta-powertcp",
        title: "θ-PowerTCP",
        revision: 1,
        citation: "Addanki et al., \"PowerTCP: Pushing the Performance Limits of Datacenter \
            Networks\", NSDI 2022, appendix B",
        summary: "PowerTCP's law with round-trip times and their derivative in place of \
            switch telemetry.",
        color: "#44aa99",
        marker: Marker::TriangleUp,
        dash: Dash::Dashed,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = ThetaPowerTcpParams;
    const CONNECTION_DEFAULTS: ConnectionDefaults = ConnectionDefaults::PACED_WINDOW;

    fn operating_point(
        params: &ThetaPowerTcpParams,
        path: &Path,
        _rate_bps: f64,
    ) -> OperatingPoint {
        OperatingPoint {
            domain_warnings: [small_beta(params, path), long_tau(params, path)]
                .into_iter()
                .flatten()
                .collect(),
            ..OperatingPoint::DEFAULT
        }
    }

    fn start(params: &ThetaPowerTcpParams, path: &Path, _now: Time, _seed: u64) -> ThetaPowerTcp {
        let Pipe { tau, bdp } = Pipe::of(params.tau, path);
        let min_window = params.min_rate.as_bps() as f64 * tau / 8e12;
        let max_window = params.max_window.bytes(bdp).max(min_window);
        let cwnd = params.initial_window.bytes(bdp).clamp(min_window, max_window);
        // τ of `minimum_rtt` is an RTT.
        let measured = if params.minimum_rtt { tau } else { base_rtt(params, path).as_ps() as f64 };
        ThetaPowerTcp {
            cwnd,
            reference: cwnd,
            power: 1.0,
            previous: None,
            round: RoundTrip::FIRST,
            beta: params.beta.bytes(bdp),
            min_window,
            max_window,
            pipe_tau: tau,
            tau,
            excluded: (tau - measured).max(0.0),
            congested_power: congested_power(params.beta.bytes(bdp), tau, path),
        }
    }

    // PowerTCP algorithm 2, newAck
    fn on_ack(&mut self, params: &ThetaPowerTcpParams, ack: &Ack<'_>) {
        if params.minimum_rtt {
            self.tau = self.tau.min(ack.rtt.as_ps().max(1) as f64);
        }
        let ends_round = self.round.is_over(ack);
        let is_first = self.previous.is_none();
        self.measure(params, ack);
        if !is_first && (ends_round || params.reaction == Reaction::Ack) {
            self.update(params, ack.window_limited);
        }
        if ends_round {
            self.round.begin(ack);
            self.reference = self.cwnd;
        }
    }

    fn on_loss(&mut self, _params: &ThetaPowerTcpParams, loss: &Loss) {
        self.round.lose(loss);
        self.cwnd = match loss.kind {
            LossKind::Recovery => (self.cwnd / 2.0).max(self.min_window),
            LossKind::Timeout => self.min_window,
        };
        self.reference = self.cwnd;
    }

    fn is_congested(&self, _params: &ThetaPowerTcpParams, _ack: &Ack<'_>) -> bool {
        self.power > self.congested_power
    }

    fn limit(&self, _params: &ThetaPowerTcpParams) -> Limit {
        Limit {
            window_bytes: self.cwnd * (self.tau / self.pipe_tau),
            pace_bps: self.cwnd * 8e12 / self.pipe_tau,
            wake_at: Time::NEVER,
        }
    }
}

impl ThetaPowerTcp {
    /// PowerTCP algorithm 2, normPower.
    fn measure(&mut self, params: &ThetaPowerTcpParams, ack: &Ack<'_>) {
        let Some((before, rtt_before)) = self.previous.replace((ack.now, ack.rtt)) else { return };
        let dt = ack.now.since(before).as_ps() as f64;
        if dt == 0.0 {
            return;
        }
        let rtt = ack.rtt.as_ps() as f64;
        let gradient = (rtt - rtt_before.as_ps() as f64) / dt;
        let power = (gradient + 1.0).max(params.gradient_floor) * (rtt + self.excluded)
            / (params.tolerance * self.tau);
        let weight = dt.min(self.tau) / self.tau;
        self.power = self.power * (1.0 - weight) + power * weight;
    }

    /// PowerTCP algorithm 2, updateWindow.
    fn update(&mut self, params: &ThetaPowerTcpParams, limited: bool) {
        // At a power of zero this is infinite; the clamp turns that into the largest window.
        let cwnd = params.gamma * (self.reference / self.power + self.beta)
            + (1.0 - params.gamma) * self.reference;
        let most = if limited { self.max_window } else { self.cwnd };
        self.cwnd = cwnd.clamp(self.min_window, most);
    }
}

/// Base RTT between NICs.
fn base_rtt(params: &ThetaPowerTcpParams, path: &Path) -> Span {
    match params.tau {
        Tau::Fabric => path.fabric_base_rtt,
        Tau::Path => path.base_rtt,
    }
}

/// The tolerated delay must cover the queue that keeps a link busy and the packets that an
/// acknowledgement waits behind: its predecessor at each link of the path, at most.
fn small_beta(params: &ThetaPowerTcpParams, path: &Path) -> Option<String> {
    let Pipe { bdp, .. } = Pipe::of(params.tau, path);
    let packet = path.full_wire_bytes as f64;
    let links = path.hops.max(1) + 1;
    let beta = params.beta.bytes(bdp) / packet;
    let spared = beta + (params.tolerance - 1.0) * bdp / packet;
    // 1 % allows for a beta given as a rounded share of the BDP.
    (spared < 0.99 * links as f64 || beta < FILLS).then(|| {
        let idle = if beta < FILLS { "a few flows leave a link idle, and " } else { "" };
        format!(
            "beta is {beta:.2} packets: {idle}a flow whose receiver also sends gets part of \
             the free rate, because its acknowledgements wait behind data: set beta = \"{}B\" (a \
             packet for each of {links} links)",
            links * path.full_wire_bytes
        )
    })
}

/// Packets of β per flow that leave a queue long enough to keep a link busy.
const FILLS: f64 = 0.4;

fn long_tau(params: &ThetaPowerTcpParams, path: &Path) -> Option<String> {
    let longer = base_rtt(params, path).beyond(path.base_rtt);
    // A tenth of a base RTT is less than the Σβ of a few flows.
    (!params.minimum_rtt && longer > path.base_rtt.scale(0.1)).then(|| {
        format!(
            "tau is {:.2} us longer than the base RTT of {:.2} us, so the equilibrium contains a \
             queue of that length; tau = \"path\" avoids it",
            longer.as_us_f64(),
            path.base_rtt.as_us_f64()
        )
    })
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::contract::{self, PIPE, assert_near, path};

    fn start(params: &ThetaPowerTcpParams) -> ThetaPowerTcp {
        ThetaPowerTcp::start(params, &path(), Time::ZERO, 0)
    }

    /// An acknowledgement that arrives at `us` after a round trip of `rtt_us`, 20 packets before
    /// the next new one.
    fn ack_at(
        flow: &mut ThetaPowerTcp,
        params: &ThetaPowerTcpParams,
        seq: u64,
        us: f64,
        rtt_us: f64,
    ) {
        let now = Time::ZERO + Span::from_us_f64(us);
        let rtt = Span::from_us_f64(rtt_us);
        flow.on_ack(params, &Ack { seq, next_seq: seq + 20, rtt, ..contract::ack(now) });
    }

    #[test]
    fn power_is_the_rtt_times_one_plus_its_derivative() {
        let params = ThetaPowerTcpParams::default();
        let mut flow = start(&params);
        ack_at(&mut flow, &params, 0, 10.0, 9.0);
        assert_eq!((flow.power, flow.cwnd), (1.0, PIPE), "the first sample is only stored");
        // In 2 us the RTT grew by 1 us, at a base RTT of 8 us: 1.5 times 10/8, with a weight of a
        // quarter.
        ack_at(&mut flow, &params, 1, 12.0, 10.0);
        assert_near(flow.power, 0.75 + 0.25 * 1.5 * 10.0 / 8.0, 1e-12);
        assert_eq!(flow.cwnd, PIPE, "the round trip is not over");
        // The RTT is constant for longer than a base RTT: power is that of the queue alone.
        ack_at(&mut flow, &params, 20, 30.0, 10.0);
        assert_near(flow.power, 1.25, 1e-12);
        assert_near(flow.cwnd, 0.9 * (PIPE / 1.25 + 1000.0) + 0.1 * PIPE, 1e-6);
        assert_eq!((flow.reference, flow.round.end), (flow.cwnd, 40));
    }

    #[test]
    fn simultaneous_acks_have_no_derivative() {
        let params = ThetaPowerTcpParams::default();
        let mut flow = start(&params);
        ack_at(&mut flow, &params, 0, 10.0, 8.0);
        ack_at(&mut flow, &params, 1, 10.0, 12.0);
        assert_eq!(flow.power, 1.0);
        // The next one is compared with the second.
        ack_at(&mut flow, &params, 2, 12.0, 12.0);
        assert_near(flow.power, 0.75 + 0.25 * 12.0 / 8.0, 1e-12);
    }

    #[test]
    fn a_queue_that_drains_fast_has_no_negative_power() {
        for (gradient_floor, expected) in [(0.0, 0.0), (0.5, 0.5)] {
            let params = ThetaPowerTcpParams { gradient_floor, ..Default::default() };
            let mut flow = start(&params);
            ack_at(&mut flow, &params, 0, 10.0, 40.0);
            ack_at(&mut flow, &params, 1, 18.0, 8.0);
            assert_near(flow.power, expected, 1e-12);
        }
    }

    #[test]
    fn windows_grow_by_beta_only_if_they_limit() {
        let params = ThetaPowerTcpParams { initial_window: Extent::Bdp(0.5), ..Default::default() };
        let mut flow = start(&params);
        for round in 0..10 {
            ack_at(&mut flow, &params, 20 * round, 10.0 + 8.0 * round as f64, 8.0);
        }
        assert_near(flow.cwnd, PIPE / 2.0 + 9.0 * 0.9 * 1000.0, 1e-6);
        let (seq, next_seq, rtt) = (200, 220, Span::us(8));
        let now = Time::us(90);
        let ack = Ack { rtt, seq, next_seq, window_limited: false, ..contract::ack(now) };
        flow.on_ack(&params, &ack);
        assert_near(flow.cwnd, PIPE / 2.0 + 9.0 * 900.0, 1e-6);
    }

    #[test]
    fn an_idle_time_counts_as_one_base_rtt() {
        let params = ThetaPowerTcpParams::default();
        let mut flow = start(&params);
        ack_at(&mut flow, &params, 0, 10.0, 16.0);
        ack_at(&mut flow, &params, 1, 14.0, 16.0);
        assert_near(flow.power, 1.5, 1e-12);
        ack_at(&mut flow, &params, 2, 10_000.0, 8.0);
        assert_near(flow.power, 1.0 - 8.0 / 9986.0, 1e-12);
    }

    #[test]
    fn published_code_reacts_to_acks_from_one_reference() {
        let params = ThetaPowerTcpParams {
            reaction: Reaction::Ack,
            minimum_rtt: true,
            tolerance: 1.05,
            gamma: 0.7,
            ..Default::default()
        };
        let mut flow = start(&params);
        ack_at(&mut flow, &params, 0, 10.0, 6.0);
        assert_near(flow.tau, 6e6, 0.0);
        assert_near(flow.limit(&params).window_bytes, PIPE * 6.0 / 8.0, 1e-6);
        assert_near(flow.limit(&params).pace_bps, 1e11, 1.0);
        for (i, us) in [16.0, 22.0].into_iter().enumerate() {
            ack_at(&mut flow, &params, 1 + i as u64, us, 12.6);
        }
        // The RTT doubles permanently: the reference stays the same for every division.
        assert_near(flow.power, 2.0, 1e-12);
        assert_near(flow.cwnd, 0.7 * (PIPE / 2.0 + 1000.0) + 0.3 * PIPE, 1e-6);
        assert_eq!(flow.reference, PIPE);
    }

    #[test]
    fn a_loss_cuts_the_window_and_its_reference() {
        let params = ThetaPowerTcpParams::default();
        // 100 Mbit/s for 8 us.
        for (kind, cut) in [(LossKind::Recovery, PIPE / 2.0), (LossKind::Timeout, 100.0)] {
            let mut flow = start(&params);
            flow.on_loss(&params, &Loss { now: Time::us(9), kind, rtt: Span::us(9), next_seq: 0 });
            assert_near(flow.cwnd, cut, 1e-9);
            assert_eq!(flow.reference, flow.cwnd);
        }
    }

    #[test]
    fn tau_longer_than_the_path_warns() {
        let warning = |tau, minimum_rtt| {
            let params = ThetaPowerTcpParams { tau, minimum_rtt, ..Default::default() };
            long_tau(&params, &path())
        };
        assert!(warning(Tau::Fabric, false).is_some_and(|text| text.contains("2.00 us longer")));
        assert_eq!((warning(Tau::Path, false), warning(Tau::Fabric, true)), (None, None));
    }

    #[test]
    fn host_time_in_the_bdp_counts_as_part_of_rtts() {
        let path = Path { bdp_bytes: 3.0 * PIPE, ..path() };
        for (tau, base_us) in [(Tau::Fabric, 8.0), (Tau::Path, 6.0)] {
            // Without a queue, and with one of a base RTT.
            for (rtt_us, power) in [(base_us, 1.0), (2.0 * base_us, 4.0 / 3.0)] {
                let params = ThetaPowerTcpParams { tau, ..Default::default() };
                let mut flow = ThetaPowerTcp::start(&params, &path, Time::ZERO, 0);
                assert_near(flow.limit(&params).window_bytes, base_us / 8.0 * 3.0 * PIPE, 1e-6);
                ack_at(&mut flow, &params, 0, 10.0, rtt_us);
                ack_at(&mut flow, &params, 1, 100.0, rtt_us);
                assert_near(flow.power, power, 1e-12);
                assert_eq!(long_tau(&params, &path).is_some(), tau == Tau::Fabric);
            }
        }
        // A τ that falls to the smallest RTT excludes nothing.
        let params = ThetaPowerTcpParams { minimum_rtt: true, ..Default::default() };
        assert_eq!(ThetaPowerTcp::start(&params, &path, Time::ZERO, 0).excluded, 0.0);
    }

    #[test]
    fn each_link_of_a_path_needs_a_packet_of_beta() {
        let warning = |hops, packets: f64| {
            let beta = Extent::Bytes(packets * 4200.0);
            let params = ThetaPowerTcpParams { beta, ..Default::default() };
            small_beta(&params, &Path { hops, ..path() })
        };
        for (hops, bytes) in [(0, "8400B"), (1, "8400B"), (2, "12600B"), (5, "25200B")] {
            let links = hops.max(1) as f64 + 1.0;
            assert!(warning(hops, links - 0.1).is_some_and(|text| text.contains(bytes)), "{hops}");
            assert_eq!(warning(hops, links), None, "{hops}");
        }
    }

    #[test]
    fn beta_below_a_packet_a_link_warns_of_its_effect() {
        let warning = |packets: f64, tolerance| {
            let beta = Extent::Bytes(packets * 4200.0);
            let params = ThetaPowerTcpParams { beta, tolerance, ..Default::default() };
            small_beta(&params, &Path { hops: 1, ..path() }).unwrap_or_default()
        };
        for (packets, idle, slow) in
            [(0.0, true, true), (0.39, true, true), (0.41, false, true), (1.97, false, true)]
        {
            let text = warning(packets, 1.0);
            assert_eq!((text.contains("idle"), text.contains("8400B")), (idle, slow), "{text}");
        }
        assert_eq!(warning(1.99, 1.0), "");
        // 5 % of 100 KB are another 1.19 packets.
        assert!(warning(0.7, 1.05).contains("beta is 0.70 packets"));
        assert_eq!(warning(0.8, 1.05), "");
    }

    /// Windows beyond a 100 Gbit/s pipe of one base RTT queue: the RTT is Σcwnd / b. Returns the
    /// sum of the windows of ten flows after each of `rounds` round trips, and the windows.
    fn fluid(params: &ThetaPowerTcpParams, first: f64, rounds: u64) -> (Vec<f64>, Vec<f64>) {
        let mut flows = alloc::vec![start(params); 10];
        for (i, flow) in flows.iter_mut().enumerate() {
            flow.cwnd = PIPE * first * (1.0 + i as f64);
            flow.reference = flow.cwnd;
            flow.round.end = 20;
        }
        let total =
            |flows: &[ThetaPowerTcp]| flows.iter().map(|flow| flow.cwnd).sum::<f64>() / PIPE;
        let (mut now, mut sums) = (10.0, Vec::new());
        for round in 0..rounds {
            let rtt = 8.0 * f64::max(total(&flows), 1.0);
            // Two at one RTT, so that the previous RTT does not count; the second just after the
            // end of the round trip.
            for (seq, wait) in [(20 * round, rtt - 8.0), (20 * round + 20, 8.00001)] {
                now += wait;
                flows.iter_mut().for_each(|flow| ack_at(flow, params, seq, now, rtt));
            }
            sums.push(total(&flows));
        }
        (sums, flows.iter().map(|flow| flow.cwnd / PIPE).collect())
    }

    #[test]
    fn fluid_link_reaches_the_fixed_point_of_theorem_1() {
        let (sums, windows) = fluid(&ThetaPowerTcpParams::default(), 0.02, 1000);
        assert_near(sums[999], 1.1, 0.002);
        windows.iter().for_each(|&window| assert_near(window, 1.1 / 10.0, 0.002));
    }

    #[test]
    fn error_decays_by_gamma_a_round_trip() {
        // Theorem 2: an error decays with a time constant of one update over γ.
        let params = ThetaPowerTcpParams { gamma: 0.2, ..Default::default() };
        let (sums, _) = fluid(&params, 0.05, 20);
        for pair in sums[1..].windows(2) {
            assert_near((pair[1] - 1.1) / (pair[0] - 1.1), 1.0 - params.gamma, 1e-3);
        }
    }
}
