//! DCTCP of NICs: the congestion estimate of DCTCP, applied to a rate.
//!
//! Simulators of RDMA networks have a DCTCP whose state is a rate. The rate starts at the NIC's and
//! is paced. Once a round trip, marks cut it by half of the estimated marked share; a round trip
//! without marks adds about one packet. A window proportional to the rate bounds the bytes in
//! flight. The estimate is that of [`dctcp`](super::dctcp).
//!
//! Mohammad Alizadeh, Albert Greenberg, David A. Maltz, Jitendra Padhye, Parveen Patel, Balaji
//! Prabhakar, Sudipta Sengupta, Murari Sridharan. "Data Center TCP (DCTCP)". SIGCOMM 2010. As in
//! alibaba-edu/High-Precision-Congestion-Control, rdma-hw.cc, with which HPCC (SIGCOMM 2019) and
//! PowerTCP (NSDI 2022) compare.
//!
//! # Equations
//!
//! With `F` the share of marked packets in a round trip and `R` the rate:
//!
//! * once a round trip (eq. 1): `α = (1 − g) · α + g · F`
//! * mark, and no cut in the last round trip (eq. 2): `R *= 1 − α / 2`
//! * end of a round trip without a cut: `R += additive · packet / T` with base RTT `T`
//!
//! # Network requirements
//!
//! ECN marking above a queue length, as a step or a ramp (RED), in proportion to the port's rate,
//! and a lossless fabric.
//!
//! # Differences from its source
//!
//! * The share refers to the packets that are acknowledged in the round trip. The source divides by
//!   the packets in flight at its start; the two are equal without losses.
//! * The rate grows only if it limited sending in the last round trip.
//! * `R_AI` is a packet per base RTT, whatever the packet size and RTT; the source's 615 Mbit/s is
//!   that for 1,000 B and 13 µs.
//! * A loss halves the rate; the source assumes a lossless fabric. Retransmission is that of NICs
//!   (`recovery = "go-back-n"`), and a timeout is only a safety net.

use alloc::string::String;

use tidegate_core::fabric::MarkAt;
use tidegate_core::{
    Ack, CongestionControl, ConnectionDefaults, Dash, Extent, FabricProperties, FabricRequirements,
    Limit, Loss, Marker, Marking, Path, ProtocolInfo, Rate, TelemetryBytes, Time, params,
};

use crate::law::{Pipe, RoundTrip, Tau};
use crate::pace::Pace;

/// Port rate at which the marking threshold applies unscaled.
const MARKED_AT: Rate = Rate::gbps(10);

params! {
    /// Parameters of DCTCP of NICs.
    pub struct DctcpRateParams {
        /// Weight of the last round trip in the estimate of the marked share.
        g: f64 = 0.0625, in 0.0001..=1.0, "DCTCP (SIGCOMM'10), section 4.1: 1/16";
        /// Estimate of a new connection.
        initial_alpha: f64 = 1.0, in 0.0..=1.0,
            "alibaba-edu/High-Precision-Congestion-Control, rdma-queue-pair.cc";
        /// Packets added in a base RTT.
        additive: f64 = 1.0, in 0.001..=1000.0,
            "DCTCP (SIGCOMM'10), section 3.1: one; 615 Mbit/s is one in \
             alibaba-edu/High-Precision-Congestion-Control, run.py";
        /// Queue length at which marking starts, at a port of 10 Gbit/s; proportional to the rate
        /// at other ports.
        threshold: Extent = Extent::Bytes(30_000.0), within Extent::Bdp(0.0) => Extent::Bdp(100.0),
            "alibaba-edu/High-Precision-Congestion-Control, run.py";
        /// Queue length from which every packet is marked, at a port of 10 Gbit/s; 0 B: equal to
        /// `threshold`, a step.
        kmax: Extent = Extent::Bytes(0.0), within Extent::Bdp(0.0) => Extent::Bdp(100.0),
            "alibaba-edu/High-Precision-Congestion-Control, run.py: a step";
        /// Marking probability just below `kmax`.
        pmax: f64 = 1.0, in 0.0..=1.0, if kmax != [Extent::Bytes(0.0), Extent::Bdp(0.0)],
            "alibaba-edu/High-Precision-Congestion-Control, run.py";
        /// Window at the NIC's rate; proportional to the rate below that.
        max_window: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.01) => Extent::Bdp(1e6),
            "alibaba-edu/High-Precision-Congestion-Control, run.py";
        /// Smallest rate.
        min_rate: Rate = Rate::mbps(100), within Rate::bps(1_000) => Rate::gbps(10),
            "alibaba-edu/High-Precision-Congestion-Control, run.py";
    }
    conflict = thresholds_in_order;
}

impl DctcpRateParams {
    /// Queue length from which every packet is marked.
    fn all_marked(&self) -> Extent {
        match self.kmax {
            Extent::Bytes(0.0) | Extent::Bdp(0.0) => self.threshold,
            kmax => kmax,
        }
    }
}

fn thresholds_in_order(params: &DctcpRateParams) -> Option<String> {
    Marking::conflict("threshold", params.threshold, params.all_marked())
}

/// A connection under DCTCP of NICs.
#[derive(Clone, Debug, PartialEq)]
pub struct DctcpRate {
    pace: Pace,
    /// Estimate of the marked share.
    alpha: f64,
    /// Increase of a round trip without a cut, in bit/s.
    step_bps: f64,
    /// Packets acknowledged in this round trip, and those of them with a mark.
    acked: u32,
    marked: u32,
    round: RoundTrip,
    /// The round trip since the last cut: no second cut and no growth in it.
    cut: RoundTrip,
}

impl CongestionControl for DctcpRate {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "dctcp-rate",
        title: "DCTCP (NIC)",
        revision: 1,
        citation: "Alizadeh et al., \"Data Center TCP (DCTCP)\", SIGCOMM 2010, as in HPCC's \
            simulator",
        summary: "Cuts its rate, not a window, in proportion to the share of packets that switches \
            marked.",
        color: "#ddcc77",
        marker: Marker::Diamond,
        dash: Dash::Dashed,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = DctcpRateParams;
    const CONNECTION_DEFAULTS: ConnectionDefaults = ConnectionDefaults::NIC;

    fn requirements(params: &DctcpRateParams, _fabric: &FabricProperties) -> FabricRequirements {
        let ecn = Marking {
            kmax: params.all_marked(),
            pmax: params.pmax,
            at: MarkAt::Dequeue,
            per: Some(MARKED_AT),
            ..Marking::step(params.threshold)
        };
        FabricRequirements { ecn: Some(ecn), lossless: true, ..FabricRequirements::NONE }
    }

    fn start(params: &DctcpRateParams, path: &Path, _now: Time, _seed: u64) -> DctcpRate {
        let Pipe { tau, .. } = Pipe::of(Tau::Fabric, path);
        DctcpRate {
            pace: Pace::of_line(params.min_rate, params.max_window, path),
            alpha: params.initial_alpha,
            step_bps: params.additive * path.full_wire_bytes as f64 * 8e12 / tau,
            acked: 0,
            marked: 0,
            round: RoundTrip::FIRST,
            cut: RoundTrip::FIRST,
        }
    }

    fn on_ack(&mut self, params: &DctcpRateParams, ack: &Ack<'_>) {
        let ends_round = self.round.is_over(ack);
        if ends_round && self.acked > 0 {
            let share = self.marked as f64 / self.acked as f64;
            self.alpha = (1.0 - params.g) * self.alpha + params.g * share; // DCTCP eq. 1
            (self.acked, self.marked) = (0, 0);
        }
        self.acked = self.acked.saturating_add(ack.acked_packets);
        self.marked = self.marked.saturating_add(if ack.marked { ack.acked_packets } else { 0 });
        let may_cut = self.cut.is_over(ack);
        if ack.marked && may_cut {
            self.pace.set(self.pace.bps() * (1.0 - self.alpha / 2.0)); // DCTCP eq. 2
            self.cut.begin(ack);
        } else if ends_round && may_cut && ack.window_limited {
            self.pace.set(self.pace.bps() + self.step_bps);
        }
        if ends_round {
            self.round.begin(ack);
        }
    }

    fn on_loss(&mut self, _params: &DctcpRateParams, loss: &Loss) {
        self.pace.set(self.pace.bps() / 2.0);
        self.round.lose(loss);
        self.cut = RoundTrip::after(loss);
    }

    fn limit(&self, _params: &DctcpRateParams) -> Limit {
        self.pace.limit(Time::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{self, assert_near, path};
    use tidegate_core::{LossKind, Span};

    const GBPS: f64 = 1e9;
    /// 4,200 bytes in 8 us.
    const STEP: f64 = 4.2;

    fn start(params: &DctcpRateParams, gbps: f64) -> DctcpRate {
        let mut flow = DctcpRate::start(params, &path(), Time::ZERO, 0);
        flow.pace.set(gbps * GBPS);
        flow
    }

    /// Acknowledges the packets of a round trip from `from` on, the first `marked` of them with a
    /// mark. Returns the new rate in Gbit/s.
    fn round(flow: &mut DctcpRate, params: &DctcpRateParams, from: u64, marked: u64) -> f64 {
        for seq in from..from + 10 {
            let marked = seq < from + marked;
            let (now, rtt) = (Time::us(10 + seq), Span::us(10));
            let next_seq = seq + 10;
            flow.on_ack(params, &Ack { rtt, marked, seq, next_seq, ..contract::ack(now) });
        }
        flow.pace.bps() / GBPS
    }

    #[test]
    fn a_round_trip_without_marks_adds_a_packet() {
        let params = DctcpRateParams::default();
        let mut flow = start(&params, 10.0);
        for i in 0..4 {
            assert_near(round(&mut flow, &params, 10 * i, 0), 10.0 + STEP * (i + 1) as f64, 1e-9);
        }
        assert_near(flow.alpha, (15.0f64 / 16.0) * (15.0 / 16.0) * (15.0 / 16.0), 1e-12);
    }

    #[test]
    fn marks_cut_once_a_round_by_half_of_the_estimate() {
        let params = DctcpRateParams { initial_alpha: 0.5, g: 0.25, ..Default::default() };
        let mut flow = start(&params, 40.0);
        assert_near(round(&mut flow, &params, 0, 10), 40.0 * 0.75, 1e-9);
        // The estimate after a fully marked round trip, then after one with half of the packets
        // marked.
        assert_near(round(&mut flow, &params, 10, 5), 30.0 * (1.0 - 0.625 / 2.0), 1e-9);
        let cut = flow.pace.bps() / GBPS;
        round(&mut flow, &params, 20, 0);
        assert_near(flow.alpha, 0.625 * 0.75 + 0.125, 1e-12);
        // The rate does not grow in the round trip of the cut, but in the next one.
        assert_near(flow.pace.bps() / GBPS, cut + STEP, 1e-9);
    }

    #[test]
    fn a_rate_that_limits_nothing_does_not_grow() {
        let params = DctcpRateParams::default();
        let mut flow = start(&params, 10.0);
        for seq in 0..40 {
            let ack = Ack { window_limited: false, ..contract::ack(Time::us(seq)) };
            flow.on_ack(&params, &ack);
        }
        assert_eq!(flow.pace.bps(), 10.0 * GBPS);
    }

    #[test]
    fn loss_halves_the_rate_and_older_marks_do_not_cut() {
        let params = DctcpRateParams::default();
        for kind in [LossKind::Recovery, LossKind::Timeout] {
            let mut flow = start(&params, 10.0);
            let loss = Loss { now: Time::us(10), kind, rtt: Span::us(6), next_seq: 10 };
            flow.on_loss(&params, &loss);
            assert_near(round(&mut flow, &params, 0, 10), 5.0, 1e-9);
            assert_near(round(&mut flow, &params, 10, 1), 2.5, 1e-9);
        }
    }

    #[test]
    fn the_threshold_is_for_a_port_of_10_gbit() {
        let marking = DctcpRate::requirements(&DctcpRateParams::default(), &contract::properties());
        let ecn = marking.ecn.unwrap().resolved(1e5).at_rate(Rate::gbps(100));
        assert_eq!((ecn.min_bytes, ecn.max_bytes), (3e5, 3e5));
    }
}
