//! PowerTCP: voltage times current.
//!
//! Every switch says how long its queue is, how much it has sent and when. From two such records
//! the sender computes the rate at which traffic arrives at the link (current) and the bytes that
//! must drain, queue and pipe together (voltage); their product, power, tells a queue that is high
//! from one that is growing. The window is divided by the power of the worst hop, relative to that
//! of a full link without a queue, so it reacts before a queue has built up and lets go before it
//! has drained.
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
//! * normalised power `Γ = λ · ν / (b² · τ)`; the largest over the hops counts
//! * smoothed: `Γs = (Γs · (τ − dt) + Γ · dt) / τ`, with `dt` at most `τ`
//! * window (eq. 7): `cwnd = γ · (cwnd_old / Γs + β) + (1 − γ) · cwnd`, pacing at `cwnd / τ`
//! * `cwnd_old` is the window of a round trip ago
//!
//! In equilibrium (theorem 1) the windows at a link add up to `b · τ + Σβ` and its queue is `Σβ`.
//!
//! # What it needs of the network
//!
//! A record of every switch: queue, bytes sent, time and rate. 8 bytes a hop and 4 for all in data
//! packets, the same in acknowledgements.
//!
//! # Domain
//!
//! The queue that flows leave is `Σβ`, and it is all that keeps a link busy while windows swing.
//! The law is a fluid's; a real queue moves by whole packets, and power reads each of them. So
//! where β is less than a packet a few flows leave a link idle for 2 to 9 per cent of the time (100
//! Gbit/s, 1,000 B, a base RTT of 4.2 µs, 4, 10 and 20 flows: 0.954, 0.963 and 1.000 of the link; a
//! simulator written apart from this one: 0.970, 0.944 and 1.000), and more where the share of a
//! flow is below a packet (10 Gbit/s, 4,096 B, 20 flows: 0.82). With β of a packet at least 0.95 is
//! used everywhere, from 10 to 400 Gbit/s, and 0.98 and more with two where the BDP is not above
//! 200 packets. A lone flow fills its link.
//!
//! # Differences from the paper
//!
//! * `current_floor`: the current of a hop counts as at least half its rate, as in the authors'
//!   simulator, so that the window at most doubles in a round trip. Without it (0) an idle link
//!   sends the window to its cap.
//! * The window is at most `max_window`, as in the authors' simulator, which caps the rate at the
//!   NIC's; at least `min_rate · τ`. It grows only if it limited sending since the last
//!   acknowledgement.
//! * A packet starts while less than the window is in flight (`window_rule = "below"`), as in the
//!   authors' simulator.
//! * τ is the fabric's largest base RTT, or the BDP over the NIC's rate where the scenario sets the
//!   BDP, so that one base RTT is in the law and in the windows; with `tau = "path"` both shrink to
//!   the path's.
//! * Algorithm 1 compares a power that is not normalised with one that is; here both are.
//! * The first acknowledgement only stores its records; so does one whose path differs. A hop
//!   without progress in time is skipped, and records older than the stored ones (a packet that was
//!   overtaken) are ignored.
//! * The authors' RDMA stack has no such case: it compares the first records with memory that
//!   nothing has initialised. `first_sample = "against-zero"` is what it does where that memory
//!   happens to be zero: counters wrap at 16.8 ms and 134 MB, so a flow begins with the mean load
//!   of a link over some milliseconds at full weight. It reproduces part of the figures' effects, a
//!   stale record more of them, neither all: it is no evidence for the paper's figures.
//! * `β = HostBw · τ / N` with N = 100. The paper gives no N, its simulator a fixed 150 Mbit/s (N =
//!   167 at 25 Gbit/s). The standing queue is Nβ, so N = 10 would mean 2.5 BDP of queue for 25
//!   flows; differences between two flows fade in about 50 round trips.
//! * `reference = "committed-window"` uses the window of a round trip ago in both terms, as the
//!   authors' simulator does.
//! * `circuits` is what their TCP stack adds for links that change their rate: no smoothing and no
//!   floor at a hop whose rate has just changed, and no averaging (γ = 1) while power is below one
//!   half. A circuit leaves out the packet network's switch, so that records of one path have no
//!   counterpart on the other; then those of the ports that both begin with are compared, which are
//!   those of the rack.
//! * `reaction = "round"` computes the window once a round trip, as the paper's study of
//!   reconfigurable networks does; power is smoothed with every acknowledgement all the same. That
//!   is more than a detail: smoothed over τ, what current and voltage say together is the queue
//!   (`q + τ q'`, passed through `1 / (1 + τ s)`). Records compared with those of a round trip ago,
//!   which is how the authors' TCP stack leaves it without its reaction to every acknowledgement,
//!   are not smoothed, and windows swing without end with a period of some four round trips. Power
//!   divides the latest window, as Algorithm 1 remembers it and that stack does; divided into the
//!   one before, whose packets it is of, the windows of flows that are out of step swing too.
//! * A loss halves the window and a timeout sets it to its smallest; the paper does not speak of
//!   losses.
//! * Below one packet the window becomes one packet every `RTT · packet / cwnd`, where the authors'
//!   simulator keeps one packet in flight and paces it.

use alloc::format;
use alloc::string::String;

use crate::hops::{Interval, PreviousHops, Standing};
use crate::law::{Pipe, Reaction, Tau};
use tidegate_core::{
    Ack, CongestionControl, ConnectionDefaults, Dash, Extent, FabricProperties, FabricRequirements,
    Hop, Limit, Loss, LossKind, Marker, OperatingPoint, Path, ProtocolInfo, Rate, Span, Telemetry,
    TelemetryBytes, Time, choice, params,
};

choice! {
    /// Which window the second term of the update keeps.
    pub enum Reference {
        /// The window now: Algorithm 1.
        Live = "live-window",
        /// The window of a round trip ago.
        Committed = "committed-window",
    }
}

choice! {
    /// What the first acknowledgement of a connection is compared with.
    pub enum FirstSample {
        /// Nothing: it is only stored.
        Stored = "stored",
        /// Records of zero, by counters that wrap: one content of the uninitialised memory that the
        /// authors' code reads, and no evidence for the paper's figures.
        AgainstZero = "against-zero",
    }
}

params! {
    /// Parameters of PowerTCP.
    pub struct PowerTcpParams {
        /// Weight of the new window.
        gamma: f64 = 0.9, in 0.01..=1.0, "PowerTCP (NSDI'22), section 3.3";
        /// Bytes added in a round trip, and the queue that each flow leaves standing.
        beta: Extent = Extent::Bdp(0.01), within Extent::Bdp(0.0) => Extent::Bdp(10.0),
            "our choice: HostBw tau / N with N = 100, the paper leaves N open";
        /// Power is divided by this: below 1 links are kept below their rate.
        eta: f64 = 1.0, in 0.5..=1.0, "PowerTCP (NSDI'22), Algorithm 1; its simulator has 0.95";
        /// Smallest current of a hop, in rates of the hop.
        current_floor: f64 = 0.5, in 0.0..=1.0, "inet-tub/ns3-datacenter, rdma-hw.cc; 0 is \
            Algorithm 1";
        /// Which base RTT the law and its windows are computed with.
        tau: Tau = Tau::Fabric, "PowerTCP (NSDI'22), section 4.1: the largest of the topology";
        /// Which window the second term of the update keeps.
        reference: Reference = Reference::Live,
            "PowerTCP (NSDI'22), Algorithm 1; `committed-window` is inet-tub/ns3-datacenter, \
             rdma-hw.cc";
        /// When the window is computed anew.
        reaction: Reaction = Reaction::Ack, "PowerTCP (NSDI'22), Algorithm 1; `round` is section \
            5, reconfigurable networks";
        /// React at once where a link has changed its rate.
        circuits: bool = false, "inet-tub/ns3-datacenter, tcp-advanced.cc, for reconfigurable \
            networks";
        /// What the first acknowledgement of a connection is compared with.
        first_sample: FirstSample = FirstSample::Stored, "our choice: Algorithm 1 does not say; \
            rdma-hw.cc of inet-tub/ns3-datacenter has no such case and compares with uninitialised \
            memory, of which `against-zero` is one possible content, not a reference";
        /// Window of a new connection.
        initial_window: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.0) => Extent::Bdp(100.0),
            "PowerTCP (NSDI'22), section 3.3: HostBw tau";
        /// Largest window.
        max_window: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.01) => Extent::Bdp(100.0),
            "inet-tub/ns3-datacenter, rdma-hw.cc: the NIC's rate times tau";
        /// Smallest rate: the smallest window is this times tau.
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
    /// An acknowledgement of this packet, or a later one, ends the round trip.
    round_end: u64,
    /// The window limited sending in this round trip.
    limited: bool,
    beta: f64,
    min_window: f64,
    max_window: f64,
    /// In picoseconds.
    tau: f64,
    /// The records of the acknowledgement before.
    previous: PreviousHops,
}

/// Where the fields of the authors' records wrap (int-header.h): 24 bits of ns, 20 bits of 128 B.
const TIME_WRAP: Span = Span::ns(1 << 24);
const BYTES_WRAP: u64 = 128 << 20;

/// The most powerful hop of an acknowledgement.
struct Worst {
    power: f64,
    dt: f64,
    /// Its rate differs from that of the record before.
    changed: bool,
}

impl CongestionControl for PowerTcp {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "powertcp",
        title: "PowerTCP",
        citation: "Addanki et al., \"PowerTCP: Pushing the Performance Limits of Datacenter \
            Networks\", NSDI 2022",
        summary: "Divides its window by power: arrival rate at the worst link, times bytes in its \
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
            domain_warning: domain_warning(params, path),
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
            round_end: 0,
            limited: false,
            beta: params.beta.bytes(bdp),
            min_window,
            max_window,
            tau,
            previous: PreviousHops::default(),
        }
    }

    // PowerTCP algorithm 1, newAck
    fn on_ack(&mut self, params: &PowerTcpParams, ack: &Ack<'_>) {
        let (standing, hops) = self.comparable(params, ack.hops);
        if standing == Standing::Older {
            return;
        }
        let ends_round = ack.seq >= self.round_end;
        let worst = match standing {
            Standing::Newer => self.worst_hop(params, hops),
            _ => self.first_worst(params, ack.hops),
        };
        self.limited |= ack.window_limited;
        if let Some(worst) = worst {
            self.smooth(&worst);
            match params.reaction {
                Reaction::Ack => self.update(params, ack.window_limited),
                Reaction::Round if ends_round => self.update(params, self.limited),
                Reaction::Round => {}
            }
        }
        self.previous.replace(ack.hops);
        if ends_round {
            self.limited = false;
            self.round_end = ack.next_seq;
            self.old_cwnd = self.cwnd;
        }
    }

    fn on_loss(&mut self, _params: &PowerTcpParams, loss: &Loss) {
        self.cwnd = match loss.kind {
            LossKind::Recovery => (self.cwnd / 2.0).max(self.min_window),
            LossKind::Timeout => self.min_window,
        };
        self.old_cwnd = self.cwnd;
    }

    fn is_congested(&self, _params: &PowerTcpParams, _ack: &Ack<'_>) -> bool {
        self.power > 1.0
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
    /// How the records stand to those of before, and which are compared: all, or with `circuits`
    /// those of the ports that both paths begin with, where there are any.
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

    /// The hop of the largest normalised power (PowerTCP algorithm 1, normPower).
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

    /// The same where there is nothing to compare with. Under `against-zero` a connection begins
    /// with what has arrived since time zero, by counters that wrap.
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

    /// PowerTCP algorithm 1, normPower: smoothed over a base RTT.
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
        // PowerTCP eq. 7. A power of zero makes this infinite, which the clamp turns into the
        // largest window.
        let cwnd = gamma * (self.old_cwnd / power + self.beta) + (1.0 - gamma) * kept;
        let most = if window_limited { self.max_window } else { self.cwnd };
        self.cwnd = cwnd.clamp(self.min_window, most);
    }
}

/// Why these parameters do not suit the path, if they do not.
fn domain_warning(params: &PowerTcpParams, path: &Path) -> Option<String> {
    let flow = PowerTcp::start(params, path, Time::ZERO, 0);
    let packets = flow.beta / path.full_wire_bytes as f64;
    // The grain of a queue is a packet; 1 % allows for a beta given as a rounded share of the
    // BDP.
    (packets < 0.99).then(|| {
        format!(
            "beta is {packets:.2} packets: a few flows leave too short a queue to keep a link \
             busy; beta = \"{}B\" is one packet",
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
        assert_eq!(flow.cwnd, PIPE, "the first records only tell where to start");
        // In 1 µs (12,500 bytes at line rate): a hop at half its rate, and one at its rate whose
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
    fn an_idle_link_doubles_the_window_at_most_or_opens_it_fully() {
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
        // A link that was idle counts as half busy, whatever the counters were before they wrapped.
        let wrapped = hop((1 << 24) + 40_000, BYTES_WRAP + 450_000, 0);
        assert_near(first(wrapped), 0.9, 1e-12);
        assert_near(first(hop(1 << 23, 450_000, 0)), 0.5, 1e-12);
        assert_eq!(first(hop(0, 450_000, 0)), 1.0, "no time has passed");
        assert_eq!(first(hop(1 << 24, 450_000, 0)), 1.0, "nor here");
    }

    #[test]
    fn a_window_can_be_computed_once_a_round_trip() {
        let params = PowerTcpParams { reaction: Reaction::Round, ..Default::default() };
        let mut flow = start(&params);
        on_hops(&mut flow, &params, 0, &[hop(0, 0, 0)]);
        // What the middle of the round trip tells is smoothed, and changes no window: twice the
        // pipe for half of a base RTT.
        on_hops(&mut flow, &params, 10, &[hop(4000, 100_000, 0)]);
        assert_near(flow.power, 1.5, 1e-12);
        assert_eq!(flow.cwnd, PIPE);
        on_hops(&mut flow, &params, 20, &[hop(8000, 200_000, 0)]);
        assert_near(flow.power, 1.75, 1e-12);
        assert_near(flow.cwnd, 0.9 * (PIPE / 1.75 + 1000.0) + 0.1 * PIPE, 1e-6);
        // It grows where it limited sending at any time of the round trip.
        let grown = |limited: [bool; 2]| {
            let mut flow = flow.clone();
            let before = flow.cwnd;
            for ((seq, at), window_limited) in [(30, 12_000), (40, 20_000)].into_iter().zip(limited)
            {
                let hops = [hop(at, 200_000, 0)];
                let ack = contract::ack(Time::us(10));
                let ack = Ack { seq, next_seq: seq + 20, hops: &hops, window_limited, ..ack };
                flow.on_ack(&params, &ack);
            }
            flow.cwnd > before
        };
        assert_eq!(
            [grown([true, false]), grown([false, true]), grown([false; 2])],
            [true, true, false]
        );
    }

    #[test]
    fn what_limited_one_round_trip_grows_nothing_in_the_next() {
        let params = PowerTcpParams {
            reaction: Reaction::Round,
            initial_window: Extent::Bdp(0.1),
            ..Default::default()
        };
        let mut flow = start(&params);
        let mut round = |i: u64, window_limited| {
            let hops = [hop(8000 * i, 50_000 * i, 0)];
            let ack = contract::ack(Time::us(10));
            let (seq, next_seq) = (20 * i, 20 * i + 20);
            flow.on_ack(&params, &Ack { seq, next_seq, hops: &hops, window_limited, ..ack });
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
            // A full link without a queue: nothing but β comes on top.
            on_hops(&mut flow, &params, 1, &[hop(8000, 100_000, 0)]);
            assert_near(flow.cwnd, cut + 0.9 * 1000.0, 1e-6);
        }
    }

    #[test]
    fn with_circuits_a_link_at_half_its_rate_gets_all_of_the_new_window() {
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
            // 25 Gbit/s arrive at what is now a 100 Gbit/s circuit.
            on_hops(&mut flow, &params, 1, &[hop(1000, 3125, 0)]);
            flow.power
        };
        assert_near(power(true), 0.25, 1e-12);
        assert_near(power(false), (7.0 + 0.5) / 8.0, 1e-12);
    }

    #[test]
    fn with_circuits_the_ports_that_both_paths_begin_with_are_compared() {
        let power = |circuits| {
            let params = PowerTcpParams { circuits, ..Default::default() };
            let mut flow = start(&params);
            let port = |port, hop| Hop { port, ..hop };
            let rack = Hop { rate: Rate::gbps(25), ..hop(0, 0, 0) };
            on_hops(&mut flow, &params, 0, &[rack, port(8, hop(0, 0, 0)), port(9, hop(0, 0, 0))]);
            // What the port of the other rack has sent is no progress of the packet network's.
            on_hops(&mut flow, &params, 1, &[hop(1000, 3125, 0), port(9, hop(1000, 90_000, 0))]);
            let onto = flow.power;
            // Records that are older still are ignored.
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
    fn flows_on_a_fluid_link_reach_the_fixed_point_of_theorem_1() {
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
    fn a_path_is_congested_where_power_is_above_that_of_a_full_link_without_queue() {
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
