//! HPCC: keeps the bytes in flight on the busiest link just below the link's capacity.
//!
//! Every switch reports its sent bytes, the time and its queue length. From two such records the
//! sender computes the utilisation of each link: its sending rate plus what its queue adds over one
//! base RTT. It divides its window by the utilisation of the busiest link relative to a goal below
//! one. Small additive increases make flows equal; after some consecutive rounds of additive
//! increase the division may also grow the window, to use bandwidth that has become free.
//!
//! Yuliang Li, Rui Miao, Hongqiang Harry Liu, Yan Zhuang, Fei Feng, Lingbo Tang, Zheng Cao, Ming
//! Zhang, Frank Kelly, Mohammad Alizadeh, Minlan Yu. "HPCC: High Precision Congestion Control".
//! SIGCOMM 2019.
//!
//! # Equations
//!
//! From Algorithm 1, with base RTT `T` and, for every hop, link rate `B` and `dt` between the two
//! records:
//!
//! * utilisation `u = min(queue, queue before) / (B · T) + Δsent / (dt · B)`; the hop with the
//!   largest counts
//! * smoothed: `U = U · (1 − dt/T) + u · dt/T`, with that hop's `dt`, at most `T`
//! * with `U ≥ η`, or after `max_stage` rounds of additive increase: `W = Wc / (U/η) + W_AI`
//! * otherwise `W = Wc + W_AI`
//! * `W` applies immediately; once a round trip the reference `Wc` becomes `W` and the stage is
//!   counted
//! * pacing at `W / T`
//!
//! # Network requirements
//!
//! A record from every switch: queue, bytes sent, time and rate. This costs 8 bytes per hop and 2
//! bytes per packet in data packets, and the same in acknowledgements.
//!
//! # Domain
//!
//! Only `W_AI` makes windows equal, and with a small BDP each window is a few packets; the increase
//! of a round trip must be visible at that granularity. By default it is not visible if the BDP is
//! less than 40 packets: `W_AI` is then less than a fiftieth of a packet, and 4 flows keep their
//! initial shares (100 Gbit/s, 4,096 B, a base RTT of 4.7 µs: 73.6, 6.7, 6.7 and 6.7 Gbit/s; an
//! independent simulator: 76.8, 4.0, 4.1 and 4.3). With a twentieth of a packet Jain's index of 2,
//! 4 and 10 flows is at least 0.97 from 10 to 400 Gbit/s; with `additive = 0.005BDP` it is 1.000 in
//! the case above. The paper chooses `W_AI` for many flows; a larger value gives many flows longer
//! queues.
//!
//! Many flows on a small BDP stay below the goal of 0.95: 10 and 40 of them use 0.847 and 0.833 of
//! 10 Gbit/s (1,000 B, links of 1 µs), 100 use 0.905 of 100 Gbit/s (4,096 B). `min_rate` bounds
//! their number: 100 flows of 100 Mbit/s fill 10 Gbit/s, with a packet of each in the queue. If
//! many flows start together with large windows, all fall to `min_rate` first: of 200 flows at 100
//! Gbit/s (4,096 B) the slowest gets that rate over the first 6 ms (Jain's index 0.871), and 0.33
//! of its 0.43 Gbit/s from 10 to 20 ms (0.987).
//!
//! # Differences from the paper
//!
//! * A hop whose clock made no progress between two records is skipped; the public simulator
//!   divides by zero there.
//! * Records of another path replace the stored ones and change nothing else. The paper detects a
//!   path change by a path ID; here the ports in the records identify the path. Records older than
//!   the stored ones are ignored.
//! * The window grows only if it limited sending in the last round trip. A finer test would
//!   suppress growth at some acknowledgements but decreases at none, and `additive` is too small
//!   to compensate.
//! * After a loss, a round trip ends with the acknowledgement of a packet that left after its
//!   start. By packet numbers, as in Algorithm 1, it would last until the whole old window has been
//!   sent again, after a timeout at `min_rate`.
//! * `T` is the fabric's largest base RTT, or the BDP over the NIC's rate if the scenario sets the
//!   BDP; the paper rounds it up manually.
//! * A packet starts while less than the window is in flight (`window_rule = "below"`), as in the
//!   public simulator: a window of one BDP includes neither telemetry bytes nor packet granularity,
//!   and would not fill a link.
//! * `additive` is the paper's `W_init (1 − η) / N` with N = 100 flows. The public simulator adds
//!   10 Mbit/s for each 25 Gbit/s of NIC, which is N = 125. Its run script sets `max_stage` to 0:
//!   multiplicative in every round. The preset `as-published-code` sets the same, and `powertcp`
//!   sets the parameters of PowerTCP's evaluation of HPCC.
//! * `windows = "hop"` gives each hop of the path its own window, and the smallest applies. The
//!   public simulator has this option; Algorithm 1 has one window per flow. After a path change the
//!   hop windows restart from the applied window.
//! * `reaction = "round"` evaluates records once a round trip, an option of the public simulator.
//! * Records carry exact numbers; the paper's fields count units of 128 B sent and 80 B queued.
//! * The paper assumes a lossless fabric. Here a loss halves the window, and a timeout sets it to
//!   its minimum.
//! * Below one packet the window becomes one packet in flight, sent at `W / T`, at no less than
//!   `min_rate`, as in the public simulator (rdma-hw.cc). Without `pacing` it becomes one packet
//!   every `RTT · packet / W`, so that a long RTT slows a flow down twice.
//! * While the window does not limit sending, it only falls: it does not return to the value before
//!   a short peak of `U` within the same round trip, as in Algorithm 1.
//! * The window persists over idle times; the paper does not specify this.
//! * PLB specifies marks and delays as signals of a congested path; under HPCC a path is congested
//!   if `U > 1`, that is, if a busy link has a queue. HPCC keeps a busy link at `η`, however many
//!   flows share it, so `U > η` would hold for a lone flow, too. So PLB (`plb`) rarely changes
//!   paths under HPCC, also if flows share one.

use alloc::format;
use alloc::string::String;

use alloc::boxed::Box;

use crate::hops::{Interval, PreviousHops, Standing};
use crate::law::{Pipe, Reaction, RoundTrip, Tau};
use tidegate_core::{
    Ack, CongestionControl, ConnectionDefaults, Dash, Extent, FabricProperties, FabricRequirements,
    Hop, Limit, Loss, LossKind, MAX_HOPS, Marker, OperatingPoint, Path, ProtocolInfo, Rate,
    Telemetry, TelemetryBytes, Time, choice, params,
};

choice! {
    /// Scope of a window.
    pub enum Windows {
        /// The flow: the busiest link decides.
        Flow = "flow",
        /// Each hop of the path: the smallest window applies.
        Hop = "hop",
    }
}

params! {
    /// Parameters of HPCC.
    pub struct HpccParams {
        /// Target utilisation.
        eta: f64 = 0.95, in 0.5..=1.0, "HPCC (SIGCOMM'19), section 3.3";
        /// Rounds of additive increase before the division may grow the window; 0: it always may.
        max_stage: u64 = 5, in 0..=1000, "HPCC (SIGCOMM'19), section 3.3";
        /// Bytes added in a round trip.
        additive: Extent = Extent::Bdp(0.0005), within Extent::Bdp(0.0) => Extent::Bdp(10.0),
            "HPCC (SIGCOMM'19), section 3.3: W_init (1 - eta) / N; N = 100 is our choice";
        /// When the window is recomputed.
        reaction: Reaction = Reaction::Ack, "HPCC (SIGCOMM'19), section 3.2; `round` is FAST_REACT \
            0 of alibaba-edu/High-Precision-Congestion-Control";
        /// Scope of a window.
        windows: Windows = Windows::Flow, "HPCC (SIGCOMM'19), algorithm 1; `hop` is MULTI_RATE 1 \
            of alibaba-edu/High-Precision-Congestion-Control";
        /// Base RTT to use as T.
        tau: Tau = Tau::Fabric, "alibaba-edu/High-Precision-Congestion-Control, run.py: GLOBAL_T \
            1; `path` is GLOBAL_T 0";
        /// Window of a new connection.
        initial_window: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.0) => Extent::Bdp(100.0),
            "HPCC (SIGCOMM'19), section 3.2: the NIC's rate times T";
        /// Largest window.
        max_window: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.01) => Extent::Bdp(100.0),
            "alibaba-edu/High-Precision-Congestion-Control, rdma-hw.cc: the NIC's rate times T";
        /// Smallest rate; the smallest window is this rate times T.
        min_rate: Rate = Rate::mbps(100), within Rate::bps(1_000) => Rate::gbps(10),
            "alibaba-edu/High-Precision-Congestion-Control, rdma-hw.cc";
        /// Whether packets are also paced at the window over T.
        pacing: bool = true, "HPCC (SIGCOMM'19), section 3.2; Poseidon (NSDI'23), section 5, \
            compares it without";
    }
}

/// A connection under HPCC.
#[derive(Clone, Debug)]
pub struct Hpcc {
    /// W, in wire bytes.
    window: f64,
    /// State of the busiest link.
    link: Link,
    /// State of each hop, if each has a window.
    by_hop: Option<Box<[Link; MAX_HOPS]>>,
    round: RoundTrip,
    additive: f64,
    min_window: f64,
    max_window: f64,
    /// T, in picoseconds.
    base_rtt: f64,
    /// Records of the previous acknowledgement.
    previous: PreviousHops,
}

impl CongestionControl for Hpcc {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "hpcc",
        title: "HPCC",
        revision: 1,
        citation: "Li et al., \"HPCC: High Precision Congestion Control\", SIGCOMM 2019",
        summary: "Divides its window by the utilisation of the busiest link, from records that \
            every switch adds.",
        color: "#e69f00",
        marker: Marker::TriangleDown,
        dash: Dash::Solid,
        telemetry_bytes: TelemetryBytes { fixed: 2, per_hop: 8 },
        echo_bytes: TelemetryBytes { fixed: 2, per_hop: 8 },
    };
    type Params = HpccParams;
    const CONNECTION_DEFAULTS: ConnectionDefaults = ConnectionDefaults::PACED_WINDOW;

    fn requirements(_params: &HpccParams, _fabric: &FabricProperties) -> FabricRequirements {
        FabricRequirements { telemetry: Telemetry::HOP_RECORDS, ..FabricRequirements::NONE }
    }

    fn operating_point(params: &HpccParams, path: &Path, _rate_bps: f64) -> OperatingPoint {
        OperatingPoint {
            utilisation_goal: params.eta,
            domain_warnings: small_increase(params, path).into_iter().collect(),
            ..OperatingPoint::DEFAULT
        }
    }

    fn start(params: &HpccParams, path: &Path, _now: Time, _seed: u64) -> Hpcc {
        let Pipe { tau, bdp } = Pipe::of(params.tau, path);
        let min_window = params.min_rate.as_bps() as f64 * tau / 8e12;
        let max_window = params.max_window.bytes(bdp).max(min_window);
        let window = params.initial_window.bytes(bdp).clamp(min_window, max_window);
        let link = Link { reference: window, utilisation: 1.0, stage: 0 };
        Hpcc {
            window,
            link,
            by_hop: (params.windows == Windows::Hop).then(|| Box::new([link; MAX_HOPS])),
            round: RoundTrip::FIRST,
            additive: params.additive.bytes(bdp),
            min_window,
            max_window,
            base_rtt: tau,
            previous: PreviousHops::default(),
        }
    }

    // HPCC algorithm 1, NewAck
    fn on_ack(&mut self, params: &HpccParams, ack: &Ack<'_>) {
        let standing = self.previous.compare(ack.hops);
        if standing == Standing::Older {
            return;
        }
        let ends_round = self.round.is_over(ack);
        if params.reaction == Reaction::Round && !ends_round {
            return;
        }
        let comparable = standing == Standing::Newer;
        match self.by_hop.take() {
            None => {
                if comparable && self.measure(ack.hops) {
                    self.update(params, ends_round, ack.window_limited);
                }
            }
            Some(mut links) => {
                if comparable {
                    self.update_by_hop(params, ack, &mut links, ends_round);
                } else {
                    // Measurements of another path do not apply to this one.
                    links.fill(Link { reference: self.window, utilisation: 1.0, stage: 0 });
                }
                self.by_hop = Some(links);
            }
        }
        if ends_round {
            self.round.begin(ack);
        }
        self.previous.replace(ack.hops);
    }

    fn on_loss(&mut self, _params: &HpccParams, loss: &Loss) {
        self.round.lose(loss);
        self.window = match loss.kind {
            LossKind::Recovery => (self.window / 2.0).max(self.min_window),
            LossKind::Timeout => self.min_window,
        };
        self.reset_references();
    }

    fn limit(&self, params: &HpccParams) -> Limit {
        let pace_bps =
            if params.pacing { self.window * 8e12 / self.base_rtt } else { f64::INFINITY };
        Limit { pace_bps, ..Limit::window(self.window) }
    }

    fn is_congested(&self, _params: &HpccParams, _ack: &Ack<'_>) -> bool {
        match &self.by_hop {
            None => self.link.utilisation > 1.0,
            Some(links) => links.iter().any(|link| link.utilisation > 1.0),
        }
    }
}

/// State from which a window is computed.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// Wc: the window at the end of the last round.
    reference: f64,
    /// U, smoothed.
    utilisation: f64,
    /// Consecutive rounds of additive increase.
    stage: u64,
}

impl Link {
    /// Adds a sample to U; `share` is the duration of the sample in base RTTs, at most 1.
    #[inline]
    fn take(&mut self, utilisation: f64, share: f64) {
        self.utilisation = self.utilisation * (1.0 - share) + utilisation * share;
    }

    /// HPCC algorithm 1, ComputeWind, without the reference. Returns the window and whether it was
    /// divided.
    #[inline]
    fn window(&self, params: &HpccParams, additive: f64) -> (f64, bool) {
        let excess = self.utilisation / params.eta;
        let divides = excess >= 1.0 || self.stage >= params.max_stage;
        // At a utilisation of zero this is infinite; the clamp turns that into the largest window.
        let window = if divides { self.reference / excess } else { self.reference } + additive;
        (window, divides)
    }

    /// Ends a round with this window.
    #[inline]
    fn end_round(&mut self, window: f64, divides: bool) {
        self.reference = window;
        self.stage = if divides { 0 } else { self.stage + 1 };
    }
}

impl Hpcc {
    /// Resets the references to the window, and the stages to zero.
    fn reset_references(&mut self) {
        let reference = self.window;
        let links = self.by_hop.iter_mut().flat_map(|links| links.iter_mut());
        links
            .chain([&mut self.link])
            .for_each(|link| *link = Link { reference, stage: 0, ..*link });
    }

    /// Utilisation of a link since the previous record, and the duration of the interval in base
    /// RTTs.
    #[inline]
    fn sample(&self, interval: &Interval<'_>) -> (f64, f64) {
        let Interval { before, now, dt, sent, rate, .. } = *interval;
        let queue = now.queue_bytes.min(before.queue_bytes) as f64;
        let utilisation = queue / (rate * self.base_rtt) + sent / (dt * rate);
        (utilisation, dt.min(self.base_rtt) / self.base_rtt)
    }

    /// Adds the busiest link to U (HPCC algorithm 1, MeasureInflight). Returns false if there is
    /// nothing to compare.
    fn measure(&mut self, hops: &[Hop]) -> bool {
        let mut busiest: Option<(f64, f64)> = None;
        for interval in self.previous.until(hops) {
            let (utilisation, share) = self.sample(&interval);
            if busiest.is_none_or(|(most, _)| utilisation > most) {
                busiest = Some((utilisation, share));
            }
        }
        if let Some((utilisation, share)) = busiest {
            self.link.take(utilisation, share);
        }
        busiest.is_some()
    }

    /// HPCC algorithm 1, ComputeWind.
    fn update(&mut self, params: &HpccParams, ends_round: bool, limited: bool) {
        let (window, divides) = self.link.window(params, self.additive);
        self.clamp_window(window, limited);
        if ends_round {
            self.link.end_round(self.window, divides);
        }
    }

    /// The same with one window per hop, the smallest of which applies. A hop without a new record
    /// keeps its window of the last round.
    fn update_by_hop(
        &mut self,
        params: &HpccParams,
        ack: &Ack<'_>,
        links: &mut [Link; MAX_HOPS],
        ends_round: bool,
    ) {
        let (mut smallest, mut reported) = (f64::INFINITY, 0u32);
        for interval in self.previous.until(ack.hops) {
            let link = &mut links[interval.place];
            let (utilisation, share) = self.sample(&interval);
            link.take(utilisation, share);
            let (window, divides) = link.window(params, self.additive);
            let window = window.clamp(self.min_window, self.max_window);
            if ends_round {
                link.end_round(window, divides);
            }
            smallest = smallest.min(window);
            reported |= 1 << interval.place;
        }
        if reported == 0 {
            return;
        }
        for (place, link) in links.iter().enumerate().take(ack.hops.len()) {
            if reported & 1 << place == 0 {
                smallest = smallest.min(link.reference);
            }
        }
        self.clamp_window(smallest, ack.window_limited);
    }

    /// Sets the window, limited to the allowed range.
    #[inline]
    fn clamp_window(&mut self, window: f64, limited: bool) {
        let most = if limited { self.max_window } else { self.window };
        self.window = window.clamp(self.min_window, most);
    }
}

fn small_increase(params: &HpccParams, path: &Path) -> Option<String> {
    let additive = params.additive.bytes(path.bdp_bytes);
    let packet = path.full_wire_bytes as f64;
    (additive < packet / 50.0).then(|| {
        format!(
            "additive is {:.4} packets a round trip at a BDP of {:.1} packets, too little for a \
             few flows to become equal: set additive = \"{:.0}B\" (a twentieth of a packet)",
            additive / packet,
            path.bdp_bytes / packet,
            packet / 20.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{self, PIPE, assert_near, hop, on_hops, path};
    use tidegate_core::Span;

    fn start(params: &HpccParams) -> Hpcc {
        Hpcc::start(params, &path(), Time::ZERO, 0)
    }

    #[test]
    fn the_base_rtt_follows_a_bdp_that_the_scenario_sets() {
        let params = HpccParams::default();
        let flow = Hpcc::start(
            &params,
            &tidegate_core::Path { bdp_bytes: 2.0 * PIPE, ..path() },
            Time::ZERO,
            0,
        );
        assert_near(flow.base_rtt, 16e6, 1e-6);
        assert_near(flow.limit(&params).pace_bps, 1e11, 1.0);
    }

    #[test]
    fn small_increase_warns_with_sufficient_advice() {
        let warning = |additive, packets| {
            let params = HpccParams { additive, ..Default::default() };
            let bdp_bytes = packets * path().full_wire_bytes as f64;
            small_increase(&params, &tidegate_core::Path { bdp_bytes, ..path() })
        };
        let default = HpccParams::default().additive;
        assert_eq!(path().full_wire_bytes, 4200);
        assert!(warning(default, 39.9).is_some_and(|text| text.contains("\"210B\"")));
        assert_eq!(warning(default, 40.1), None);
        assert_eq!(warning(Extent::Bytes(210.0), 2.0), None);
    }

    #[test]
    fn utilisation_is_that_of_the_busiest_link() {
        let params = HpccParams::default();
        let mut flow = start(&params);
        on_hops(&mut flow, &params, 0, &[hop(0, 0, 0), hop(0, 0, 30_000)]);
        assert_eq!(
            (flow.window, flow.link.utilisation),
            (PIPE, 1.0),
            "the first records are only stored"
        );
        // In 2 µs (25,000 bytes at line rate): one link at half its rate, and one at its rate whose
        // queue was at least a fifth of the pipe.
        on_hops(&mut flow, &params, 1, &[hop(2000, 12_500, 0), hop(2000, 25_000, 20_000)]);
        assert_near(flow.link.utilisation, 1.0 * 0.75 + 1.2 * 0.25, 1e-12);
        assert_near(flow.window, PIPE / (1.05 / 0.95) + 50.0, 1e-6);
    }

    #[test]
    fn a_single_long_queue_is_noise() {
        let params = HpccParams::default();
        let mut flow = start(&params);
        on_hops(&mut flow, &params, 0, &[hop(0, 0, 0)]);
        on_hops(&mut flow, &params, 1, &[hop(8000, 50_000, 90_000)]);
        assert_near(flow.link.utilisation, 0.5, 1e-12);
    }

    #[test]
    fn the_reference_moves_once_a_round_trip() {
        let params = HpccParams::default();
        let mut flow = start(&params);
        // Twice the rate for 8 µs at a time; packets 0 to 19 belong to the first round.
        let mut sent = 0;
        let mut next = |i: u64| {
            sent += 200_000;
            [hop(8000 * i, sent, 0)]
        };
        on_hops(&mut flow, &params, 0, &next(0));
        for seq in 1..20 {
            on_hops(&mut flow, &params, seq, &next(seq));
            assert_near(flow.window, PIPE * 0.95 / 2.0 + 50.0, 1e-6);
            assert_eq!(flow.link.reference, PIPE);
        }
        on_hops(&mut flow, &params, 20, &next(20));
        assert_eq!(flow.link.reference, flow.window);
        on_hops(&mut flow, &params, 21, &next(21));
        assert_near(flow.window, (PIPE * 0.475 + 50.0) * 0.475 + 50.0, 1e-6);
    }

    #[test]
    fn grows_by_steps_then_by_division() {
        let params = HpccParams::default();
        let mut flow = start(&params);
        flow.link.reference = 10_000.0;
        flow.link.utilisation = 0.475;
        on_hops(&mut flow, &params, 0, &[hop(0, 0, 0)]);
        let mut round = |i: u64| {
            on_hops(&mut flow, &params, 20 * i, &[hop(8000 * i, 47_500 * i, 0)]);
            (flow.window, flow.link.stage)
        };
        for i in 1..=5 {
            assert_eq!(round(i), (10_000.0 + 50.0 * i as f64, i));
        }
        assert_eq!(round(6), (10_250.0 * 2.0 + 50.0, 0));
        assert_eq!(round(7), (20_600.0, 1));
    }

    #[test]
    fn records_that_cannot_be_compared_change_nothing() {
        let params = HpccParams::default();
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
            assert_eq!((flow.window, flow.link.utilisation), (PIPE, 1.0), "{hops:?}");
        }
    }

    #[test]
    fn a_new_path_starts_from_its_first_records() {
        let params = HpccParams::default();
        let mut flow = start(&params);
        on_hops(&mut flow, &params, 0, &[hop(1000, 0, 0)]);
        let moved = |at, tx| Hop { port: 8, ..hop(at, tx, 0) };
        on_hops(&mut flow, &params, 1, &[moved(900, 5_000_000)]);
        assert_eq!(flow.link.utilisation, 1.0);
        on_hops(&mut flow, &params, 2, &[moved(8900, 5_050_000)]);
        assert_near(flow.link.utilisation, 0.5, 1e-12);
    }

    #[test]
    fn paces_its_window_over_the_base_rtt() {
        let params = HpccParams::default();
        let mut flow = start(&params);
        flow.window = 25_000.0;
        assert_eq!(flow.limit(&params).pace_bps, 25e9);
        let lose = |flow: &mut Hpcc, kind| {
            flow.on_loss(&params, &Loss { now: Time::us(9), kind, rtt: Span::us(9), next_seq: 0 });
            flow.window
        };
        assert_eq!(lose(&mut flow, LossKind::Recovery), 12_500.0);
        assert_eq!(lose(&mut flow, LossKind::Timeout), 100.0);
    }

    #[test]
    fn stages_are_counted_anew_after_a_loss() {
        for windows in [Windows::Flow, Windows::Hop] {
            let params = HpccParams { windows, ..Default::default() };
            let mut flow = start(&params);
            flow.link.stage = 4;
            flow.by_hop.iter_mut().flat_map(|links| links.iter_mut()).for_each(|l| l.stage = 4);
            let kind = LossKind::Recovery;
            flow.on_loss(&params, &Loss { now: Time::us(9), kind, rtt: Span::us(9), next_seq: 0 });
            let links = flow.by_hop.iter().flat_map(|links| links.iter()).chain([&flow.link]);
            for link in links {
                assert_eq!((link.reference, link.stage), (PIPE / 2.0, 0));
            }
        }
    }

    #[test]
    fn flows_on_a_fluid_link_fill_it_to_eta() {
        let params = HpccParams::default();
        let mut flows = alloc::vec![start(&params); 4];
        for (i, flow) in flows.iter_mut().enumerate() {
            flow.window = PIPE * (0.1 + 0.1 * i as f64);
            flow.link.reference = flow.window;
        }
        let (mut sent, mut total) = (0.0, 0.0);
        for round in 0..6000 {
            total = flows.iter().map(|flow| flow.window).sum();
            sent += f64::min(total, PIPE);
            let queue = f64::max(total - PIPE, 0.0) as u32;
            for flow in &mut flows {
                on_hops(flow, &params, 20 * round, &[hop(8000 * round, sent as u64, queue)]);
            }
        }
        // Between the goal and the goal plus the increases of all flows.
        assert_near(total / PIPE, 0.955, 0.01);
        for flow in &flows {
            assert_near(flow.window / total, 0.25, 0.01);
        }
    }

    #[test]
    fn each_hop_can_have_a_window_and_the_smallest_holds() {
        let params = HpccParams { windows: Windows::Hop, max_stage: 1000, ..Default::default() };
        let mut flow = start(&params);
        on_hops(&mut flow, &params, 0, &[hop(0, 0, 0), hop(0, 0, 0)]);
        // One link at twice its rate and one at 1.2 times its rate, for a base RTT each.
        let busy = [hop(8000, 200_000, 0), hop(8000, 120_000, 0)];
        on_hops(&mut flow, &params, 20, &busy);
        assert_near(flow.window, PIPE * 0.475 + 50.0, 1e-6);
        let links = flow.by_hop.clone().unwrap();
        assert_near(links[0].reference, PIPE * 0.475 + 50.0, 1e-6);
        assert_near(links[1].reference, PIPE * 0.95 / 1.2 + 50.0, 1e-6);
        // Only the second hop has a new record: the window of the first still applies.
        on_hops(&mut flow, &params, 40, &[busy[0], hop(16_000, 170_000, 0)]);
        assert_near(flow.window, PIPE * 0.475 + 50.0, 1e-6);
        let links = flow.by_hop.clone().unwrap();
        assert_near(links[1].reference, PIPE * 0.95 / 1.2 + 100.0, 1e-6);
        // Measurements do not apply to another path.
        on_hops(&mut flow, &params, 60, &[hop(20_000, 0, 0)]);
        let links = flow.by_hop.clone().unwrap();
        assert!(links.iter().all(|link| link.reference == flow.window));
    }

    #[test]
    fn reaction_once_a_round_trip() {
        let params = HpccParams { reaction: Reaction::Round, ..Default::default() };
        let mut flow = start(&params);
        on_hops(&mut flow, &params, 0, &[hop(0, 0, 0)]);
        // Records in the middle of the round trip are ignored.
        on_hops(&mut flow, &params, 10, &[hop(4000, 400_000, 90_000)]);
        assert_eq!((flow.window, flow.link.utilisation), (PIPE, 1.0));
        on_hops(&mut flow, &params, 20, &[hop(8000, 190_000, 0)]);
        assert_near(flow.window, PIPE / 2.0 + 50.0, 1e-6);
    }

    #[test]
    fn the_base_rtt_can_be_that_of_the_path() {
        let params = HpccParams { tau: Tau::Path, ..Default::default() };
        let flow = start(&params);
        assert_near(flow.base_rtt, 6e6, 1e-6);
        assert_near(flow.max_window, PIPE * 0.75, 1e-6);
    }

    #[test]
    fn a_path_is_congested_beyond_its_rate() {
        let params = HpccParams::default();
        let mut flow = start(&params);
        // 8 µs at line rate are 100,000 bytes. At the goal, a lone flow is on both sides of it.
        for (sent, queue, congested) in
            [(90_000, 0, false), (99_000, 0, false), (99_000, 2_000, true), (90_000, 40_000, true)]
        {
            on_hops(&mut flow, &params, 0, &[hop(0, 0, queue)]);
            on_hops(&mut flow, &params, 1, &[hop(8000, sent, queue)]);
            assert_eq!(
                flow.is_congested(&params, &contract::ack(Time::us(10))),
                congested,
                "{queue}"
            );
            flow = start(&params);
        }
    }
}
