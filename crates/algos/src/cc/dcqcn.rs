//! DCQCN: ECN-based congestion control of RDMA NICs.
//!
//! Switches mark packets at random, with a probability that grows with the queue. A receiver that
//! gets a marked packet notifies its sender, at a limited rate. The sender cuts its rate by half of
//! α, its estimate of congestion. It then recovers without feedback: a timer and a byte counter
//! move the rate halfway back to the rate before the cut, a few times, and from then on raise that
//! target in small steps.
//!
//! Yibo Zhu, Haggai Eran, Daniel Firestone, Chuanxiong Guo, Marina Lipshteyn, Yehonatan Liron,
//! Jitendra Padhye, Shachar Raindel, Mohamad Haj Yahia, Ming Zhang. "Congestion Control for
//! Large-Scale RDMA Deployments". SIGCOMM 2015.
//!
//! # Equations
//!
//! With rate `R`, target `T` and `α`, which starts at 1:
//!
//! * notification (eq. 1): `T = R`, `R *= 1 − α / 2`, `α = (1 − g) · α + g`; counters, increase
//!   counts and both timers restart
//! * no notification for `alpha_interval` (eq. 2): `α = (1 − g) · α`, repeated every interval
//! * increase, every `timer` and every `byte_counter` bytes, with a count each: `R = (R + T) / 2`
//!   (eq. 3). Before that, once either count has reached `F` (eq. 4), `T += R_AI`, or `T += R_HAI`
//!   once both counts exceed `F`
//!
//! # Network requirements
//!
//! ECN marking at random between two queue lengths, in proportion to the port's rate, and a
//! lossless fabric.
//!
//! # Domain
//!
//! The fluid model of "ECN or Delay" (Zhu et al., CoNEXT 2016) has one fixed point: the marking
//! probability at which cuts and increases balance, and the queue length with that probability. The
//! probability grows with the cube root of the square of the number of flows. Beyond `pmax` the
//! queue is at `kmax`, and shares differ from the model. The queue in simulation exceeds the
//! model's by 12 to 29 % (2 to 8 flows at 40 and 100 Gbit/s, over 400 ms with two seeds; over 60
//! ms, with some hundred marks, by 9 to 36 %), because the model receives the next mark without
//! delay.
//!
//! Without PFC and without a window, nothing bounds the queue while marks wait behind it. The
//! vendor's version moves halfway back to the NIC's rate in one step: 16 flows that start together
//! at 100 Gbit/s never converge (230 MB in the queue after 60 ms), 8 flows do.
//!
//! Without PFC, the queue can exceed the retransmission timeout, which HPCC's simulator lacks: 40
//! flows at 10 Gbit/s (4,096 B, unlimited buffers) queue up to 585 MB, and resend 330 MB beside
//! 362 MB in 400 ms although nothing is lost. With `min_rto = "1s"` they resend nothing.
//!
//! # Differences from the paper
//!
//! * There are no notification packets. Every acknowledgement carries the mark of its packet, and
//!   the sender, not the receiver, applies the limit of one notification every 50 µs. The same
//!   notifications take effect, except for the delay of the return path.
//! * Acknowledgements have the priority of data; in the paper notifications have the highest
//!   priority.
//! * The count before an increase decides its kind: five times halfway, then steps, as in the
//!   paper's text and the vendor's version.
//! * `R_HAI` is added once per increase, as in HPCC's simulator; the paper gives no value for it.
//! * The paper's numbers are for 40 Gbit/s. Here thresholds and steps are proportional to rates.
//! * Timers run from the first notification on while the rate is below the NIC's rate, also when
//!   the flow is idle. They are evaluated when a packet leaves or an acknowledgement arrives. They
//!   have an event of their own only if packets are further apart than `timer`; until then the old
//!   pace holds, for at most one gap.
//! * By default no window bounds the bytes in flight: `max_window` is very large. `max_window =
//!   "1BDP"` is the variant with a window of HPCC's evaluation.
//! * A loss halves the rate; the paper assumes a lossless fabric. Retransmission is that of NICs
//!   (`recovery = "go-back-n"`), and a timeout is only a safety net.
//!
//! The simulators of HPCC and PowerTCP (rdma-hw.cc) contain a vendor's version; the presets
//! `mellanox` and `powertcp` set their parameters. `reaction = "ticks"` evaluates notifications
//! every `decrease_interval` and every `alpha_interval`, counted from the first one, treats each
//! marked packet as a notification, and keeps the target if the rate has not increased since the
//! last cut. There is no byte counter, and one halfway step.

use crate::pace::Pace;
use tidegate_core::{
    Ack, CongestionControl, ConnectionDefaults, Dash, Extent, FabricProperties, FabricRequirements,
    Limit, Loss, Marker, Marking, Path, ProtocolInfo, Rate, Span, TelemetryBytes, Time, choice,
    math, params,
};

choice! {
    /// Time at which a notification takes effect.
    pub enum Reaction {
        /// Immediately.
        Notification = "notification",
        /// At the next of periodic ticks.
        Ticks = "ticks",
    }
}

/// Port rate at which the marking thresholds apply unscaled.
const MARKED_AT: Rate = Rate::gbps(25);

params! {
    /// Parameters of DCQCN.
    pub struct DcqcnParams {
        /// Time at which a notification takes effect.
        reaction: Reaction = Reaction::Notification, "DCQCN (SIGCOMM'15), section 3.1; `ticks`: \
            alibaba-edu/High-Precision-Congestion-Control, rdma-hw.cc";
        /// Minimum time between two notifications.
        cnp_interval: Span = Span::us(50), within Span::ZERO => Span::ms(100),
            "DCQCN (SIGCOMM'15), section 3.1";
        /// Gain of the estimate α.
        g: f64 = 0.00390625, in 0.000001..=1.0, "DCQCN (SIGCOMM'15), figure 14: 1/256";
        /// Interval without a notification after which α falls.
        alpha_interval: Span = Span::us(55), within Span::ns(100) => Span::ms(100),
            "DCQCN (SIGCOMM'15), section 3.1";
        /// Interval at which notifications are evaluated, under `ticks`.
        decrease_interval: Span = Span::us(4), within Span::ns(100) => Span::ms(100),
            if reaction == Reaction::Ticks,
            "alibaba-edu/High-Precision-Congestion-Control, run.py";
        /// Set the target to the current rate at every cut, even if no increase came since the last
        /// cut.
        clamp_target: bool = true, "DCQCN (SIGCOMM'15), eq. 1";
        /// Time between two increases by the timer.
        timer: Span = Span::us(55), within Span::ns(100) => Span::ms(100),
            "DCQCN (SIGCOMM'15), figure 14";
        /// Wire bytes between two increases by the byte counter; 0B disables the counter.
        byte_counter: Extent = Extent::Bytes(1e7), within Extent::Bdp(0.0) => Extent::Bdp(1e6),
            "DCQCN (SIGCOMM'15), figure 14: 10 MB";
        /// F: number of increases halfway to the target before the target rises.
        fast_recovery: u64 = 5, in 0..=1000, "DCQCN (SIGCOMM'15), section 3.1";
        /// R_AI: increase of the target, as a share of the NIC's rate.
        additive: f64 = 0.001, in 0.000001..=1.0,
            "DCQCN (SIGCOMM'15), section 3.1: 40 Mbit/s at 40 Gbit/s";
        /// R_HAI: increase of the target once both increase counts exceed F, as a share of the
        /// NIC's rate.
        hyper: f64 = 0.002, in 0.000001..=1.0,
            "alibaba-edu/High-Precision-Congestion-Control, run.py: 50 Mbit/s at 25 Gbit/s";
        /// Queue length at which marking starts, at a port of 25 Gbit/s; proportional to the rate
        /// at other ports.
        kmin: Extent = Extent::Bytes(3_125.0), within Extent::Bdp(0.0) => Extent::Bdp(100.0),
            "DCQCN (SIGCOMM'15), figure 14: 5 KB at 40 Gbit/s";
        /// Queue length from which every packet is marked; scaled like kmin.
        kmax: Extent = Extent::Bytes(125_000.0), within Extent::Bdp(0.0) => Extent::Bdp(100.0),
            "DCQCN (SIGCOMM'15), figure 14: 200 KB at 40 Gbit/s";
        /// Marking probability just below kmax.
        pmax: f64 = 0.01, in 0.0..=1.0, "DCQCN (SIGCOMM'15), figure 14";
        /// Window at the NIC's rate; proportional to the rate below that.
        max_window: Extent = Extent::Bdp(1000.0), within Extent::Bdp(0.01) => Extent::Bdp(1e6),
            "our choice: practically unlimited; 1BDP is the windowed variant of HPCC's run.py";
        /// Smallest rate.
        min_rate: Rate = Rate::mbps(100), within Rate::bps(1_000) => Rate::gbps(10),
            "alibaba-edu/High-Precision-Congestion-Control, run.py";
    }
    ramp = kmin, kmax;
}

/// A connection under DCQCN.
#[derive(Clone, Debug, PartialEq)]
pub struct Dcqcn {
    pace: Pace,
    /// Rate that increases approach, in bit/s.
    target_bps: f64,
    alpha: f64,
    /// Time up to which α has been updated.
    alpha_at: Time,
    /// A notification has arrived since `alpha_at`, under `ticks`.
    is_notified: bool,
    /// Arrival of the first notification: origin of the ticks.
    first: Time,
    /// Marks before this time cause no notification.
    notifies_from: Time,
    /// Tick at which a notification takes effect.
    decrease_at: Time,
    /// Next increase by the timer; never while the rate is the NIC's.
    increase_at: Time,
    /// Wire bytes between two increases by the byte counter (0: none), and bytes left until the
    /// next.
    byte_counter: u64,
    bytes_left: u64,
    /// Increases since the last cut, by the timer and by the byte counter.
    by_time: u32,
    by_bytes: u32,
}

impl CongestionControl for Dcqcn {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "dcqcn",
        title: "DCQCN",
        revision: 0,
        citation: "Zhu et al., \"Congestion Control for Large-Scale RDMA Deployments\", SIGCOMM \
            2015",
        summary: "Cuts its rate by an estimate of congestion when notified of marks, and \
            recovers by a timer and a byte counter.",
        color: "#aa4499",
        marker: Marker::X,
        dash: Dash::Solid,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = DcqcnParams;
    const CONNECTION_DEFAULTS: ConnectionDefaults = ConnectionDefaults::NIC;

    fn requirements(params: &DcqcnParams, _fabric: &FabricProperties) -> FabricRequirements {
        let DcqcnParams { kmin, kmax, pmax, .. } = *params;
        let ecn = Marking { pmax, per: Some(MARKED_AT), ..Marking::ramp(kmin, kmax) };
        FabricRequirements { ecn: Some(ecn), lossless: true, ..FabricRequirements::NONE }
    }

    fn start(params: &DcqcnParams, path: &Path, _now: Time, _seed: u64) -> Dcqcn {
        let pace = Pace::of_line(params.min_rate, params.max_window, path);
        let byte_counter = params.byte_counter.bytes(path.bdp_bytes) as u64;
        Dcqcn {
            pace,
            target_bps: pace.bps(),
            alpha: 1.0,
            alpha_at: Time::NEVER,
            is_notified: false,
            first: Time::NEVER,
            notifies_from: Time::ZERO,
            decrease_at: Time::NEVER,
            increase_at: Time::NEVER,
            byte_counter,
            bytes_left: byte_counter,
            by_time: 0,
            by_bytes: 0,
        }
    }

    fn on_ack(&mut self, params: &DcqcnParams, ack: &Ack<'_>) {
        self.catch_up(params, ack.now);
        if ack.marked && ack.now >= self.notifies_from {
            self.notifies_from = ack.now.after(params.cnp_interval);
            self.notify(params, ack.now);
        }
    }

    fn on_loss(&mut self, params: &DcqcnParams, loss: &Loss) {
        self.catch_up(params, loss.now);
        self.target_bps = self.pace.bps();
        self.cut(params, loss.now, 0.5);
    }

    fn on_timer(&mut self, params: &DcqcnParams, now: Time) {
        self.catch_up(params, now);
        if self.decrease_at <= now {
            self.decrease_at = Time::NEVER;
            self.decrease(params, now);
        }
    }

    fn on_sent(&mut self, params: &DcqcnParams, now: Time, wire_bytes: u32) -> bool {
        self.catch_up(params, now);
        if self.byte_counter == 0 || self.increase_at == Time::NEVER {
            return true;
        }
        match self.bytes_left.checked_sub(u64::from(wire_bytes)) {
            Some(left) if left > 0 => self.bytes_left = left,
            _ => {
                self.bytes_left = self.byte_counter;
                self.increase(params);
                self.by_bytes = self.by_bytes.saturating_add(1);
            }
        }
        true
    }

    fn on_resume(&mut self, params: &DcqcnParams, now: Time) {
        self.catch_up(params, now);
    }

    fn limit(&self, params: &DcqcnParams) -> Limit {
        // Departures evaluate due increases; only if packets are further apart than the timer is an
        // event needed.
        let seldom = self.pace.gap_ps() > params.timer.as_ps() as f64;
        let increase_at = if seldom { self.increase_at } else { Time::NEVER };
        self.pace.limit(self.decrease_at.min(increase_at))
    }
}

impl Dcqcn {
    /// Handles a notification.
    fn notify(&mut self, params: &DcqcnParams, now: Time) {
        let is_first = self.first == Time::NEVER;
        if is_first {
            (self.first, self.alpha_at) = (now, now);
        }
        match params.reaction {
            Reaction::Notification => {
                // DCQCN eq. 1
                self.decrease(params, now);
                self.alpha = (1.0 - params.g) * self.alpha + params.g;
                self.alpha_at = now;
            }
            Reaction::Ticks => {
                self.age(params, now);
                self.is_notified = !is_first;
                if self.decrease_at == Time::NEVER {
                    let tick = params.decrease_interval;
                    let passed = now.since(self.first).as_ps() / tick.as_ps();
                    self.decrease_at = self.first.after(tick.times(passed + 1));
                }
            }
        }
    }

    /// Updates α to `now` in whole intervals; notifications since the last update count in the
    /// first of them.
    fn age(&mut self, params: &DcqcnParams, now: Time) {
        let interval = params.alpha_interval;
        let passed = now.since(self.alpha_at).as_ps() / interval.as_ps();
        if passed == 0 {
            return;
        }
        self.alpha_at = self.alpha_at.after(interval.times(passed));
        let kept = 1.0 - params.g;
        let increment = if core::mem::take(&mut self.is_notified) { params.g } else { 0.0 };
        self.alpha = self.alpha * kept + increment; // DCQCN eq. 1 and 2
        if passed > 1 {
            self.alpha *= math::pow(kept, (passed - 1) as f64);
        }
    }

    fn decrease(&mut self, params: &DcqcnParams, now: Time) {
        self.age(params, now);
        if params.clamp_target || self.by_time.max(self.by_bytes) > 0 {
            self.target_bps = self.pace.bps();
        }
        self.cut(params, now, 1.0 - self.alpha / 2.0);
    }

    /// Cuts the rate and starts recovery.
    fn cut(&mut self, params: &DcqcnParams, now: Time, factor: f64) {
        self.pace.set(self.pace.bps() * factor);
        (self.by_time, self.by_bytes) = (0, 0);
        self.bytes_left = self.byte_counter;
        self.increase_at = now.after(params.timer);
    }

    /// Applies the due increases by the timer.
    #[inline]
    fn catch_up(&mut self, params: &DcqcnParams, now: Time) {
        while self.increase_at <= now {
            self.increase_at = self.increase_at.after(params.timer);
            self.increase(params);
            self.by_time = self.by_time.saturating_add(1);
        }
    }

    /// DCQCN eq. 3 and 4. At the NIC's rate the timer and the byte counter pause until the next
    /// cut.
    fn increase(&mut self, params: &DcqcnParams) {
        let by_bytes = if self.byte_counter == 0 { self.by_time } else { self.by_bytes };
        let (least, most) = (self.by_time.min(by_bytes), self.by_time.max(by_bytes));
        if u64::from(most) >= params.fast_recovery {
            let hyper = u64::from(least) > params.fast_recovery;
            let step = if hyper { params.hyper } else { params.additive };
            let line = self.pace.line_bps();
            self.target_bps = (self.target_bps + step * line).min(line);
        }
        self.pace.set((self.pace.bps() + self.target_bps) / 2.0);
        if self.pace.bps() >= self.pace.line_bps() * FULL {
            self.pace.set(self.pace.line_bps());
            self.increase_at = Time::NEVER;
        }
    }
}

/// Share of the NIC's rate that counts as the full rate: halving the distance never reaches it.
const FULL: f64 = 1.0 - 1e-6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{self, assert_near, path};
    use tidegate_core::LossKind;
    use tidegate_core::params::Params;

    const LINE: f64 = 1e11;

    fn start(params: &DcqcnParams) -> Dcqcn {
        Dcqcn::start(params, &path(), Time::ZERO, 0)
    }

    /// Passes an acknowledgement at `us` and returns the new rate as a share of the NIC's rate.
    fn ack_at(flow: &mut Dcqcn, params: &DcqcnParams, us: u64, marked: bool) -> f64 {
        flow.on_ack(params, &Ack { marked, ..contract::ack(Time::us(us)) });
        flow.pace.bps() / LINE
    }

    fn vendor() -> DcqcnParams {
        DcqcnParams {
            reaction: Reaction::Ticks,
            cnp_interval: Span::ZERO,
            alpha_interval: Span::us(1),
            clamp_target: false,
            timer: Span::us(300),
            byte_counter: Extent::Bytes(0.0),
            fast_recovery: 1,
            ..Default::default()
        }
    }

    #[test]
    fn notifications_cut_by_half_of_alpha_at_intervals() {
        let params = DcqcnParams { g: 0.25, ..Default::default() };
        let mut flow = start(&params);
        assert_eq!(ack_at(&mut flow, &params, 10, false), 1.0);
        assert_eq!(ack_at(&mut flow, &params, 20, true), 0.5);
        assert_eq!((flow.target_bps, flow.alpha), (LINE, 1.0));
        assert_eq!(ack_at(&mut flow, &params, 69, true), 0.5, "49 us are too soon");
        assert_eq!(ack_at(&mut flow, &params, 70, true), 0.25);
        assert_eq!((flow.target_bps, flow.alpha), (LINE / 2.0, 1.0));
    }

    #[test]
    fn alpha_falls_in_intervals_without_notification() {
        let params = DcqcnParams { g: 0.25, ..Default::default() };
        let mut flow = start(&params);
        ack_at(&mut flow, &params, 0, true);
        for (us, expected) in [(54, 1.0), (55, 0.75), (109, 0.75), (110, 0.5625)] {
            let mut flow = flow.clone();
            flow.age(&params, Time::us(us));
            assert_near(flow.alpha, expected, 1e-12);
        }
        // The timer starts again with a notification: at 100 us, not at 110 us.
        let rate = flow.pace.bps();
        flow.decrease(&params, Time::us(100));
        assert_near(flow.pace.bps(), rate * (1.0 - 0.375), 1.0);
        let mut flow = start(&params);
        ack_at(&mut flow, &params, 0, true);
        ack_at(&mut flow, &params, 100, true);
        assert_near(flow.alpha, 0.75 * 0.75 + 0.25, 1e-12);
        flow.age(&params, Time::us(154));
        assert_near(flow.alpha, 0.8125, 1e-12);
    }

    /// A flow that two notifications have cut to a quarter by 50 us, with its target at a half.
    fn cut_twice(params: &DcqcnParams) -> Dcqcn {
        let mut flow = start(params);
        ack_at(&mut flow, params, 0, true);
        assert_near(ack_at(&mut flow, params, 50, true), 0.25, 1e-9);
        flow
    }

    #[test]
    fn timer_halves_the_distance_then_raises_the_target() {
        let params = DcqcnParams { additive: 0.01, ..Default::default() };
        let mut flow = cut_twice(&params);
        let mut rate = 0.25;
        for event in 0..8 {
            let due = 50 + 55 * (event + 1);
            assert_near(ack_at(&mut flow, &params, due - 1, false), rate, 1e-9);
            let target = 0.5 + f64::max(event as f64 - 4.0, 0.0) * 0.01;
            rate = (rate + target) / 2.0;
            assert_near(ack_at(&mut flow, &params, due, false), rate, 1e-9);
        }
        // The timer alone never leads to hyper increases; increases that were not evaluated are
        // made up for.
        let mut late = cut_twice(&params);
        assert_near(ack_at(&mut late, &params, 50 + 55 * 8, false), rate, 1e-12);
    }

    #[test]
    fn byte_counter_and_timer_together_hyper_increase() {
        let params = DcqcnParams {
            byte_counter: Extent::Bytes(1e4),
            fast_recovery: 2,
            additive: 0.01,
            hyper: 0.1,
            timer: Span::us(100),
            ..Default::default()
        };
        let mut flow = cut_twice(&params);
        flow.increase_at = Time::us(1000);
        let mut steps = alloc::vec::Vec::new();
        for _ in 0..5 {
            let before = flow.target_bps;
            flow.on_sent(&params, Time::us(60), 4_200);
            flow.on_sent(&params, Time::us(60), 4_200);
            assert_eq!(flow.target_bps, before, "8,400 bytes are too few");
            flow.on_sent(&params, Time::us(60), 4_200);
            steps.push((flow.target_bps - before) / LINE);
        }
        assert_eq!(flow.by_bytes, 5);
        for (step, expected) in steps.iter().zip([0.0, 0.0, 0.01, 0.01, 0.01]) {
            assert_near(*step, expected, 1e-9);
        }
        for (event, expected) in [0.01, 0.01, 0.01, 0.1].into_iter().enumerate() {
            let before = flow.target_bps;
            ack_at(&mut flow, &params, 1000 + 100 * event as u64, false);
            assert_near((flow.target_bps - before) / LINE, expected, 1e-9);
        }
    }

    #[test]
    fn cut_restarts_the_byte_counter() {
        let params = DcqcnParams {
            byte_counter: Extent::Bytes(1e4),
            timer: Span::us(500),
            ..Default::default()
        };
        let mut flow = cut_twice(&params);
        let send = |flow: &mut Dcqcn| {
            flow.on_sent(&params, Time::us(60), 4_200);
            flow.by_bytes
        };
        assert_eq!([send(&mut flow), send(&mut flow)], [0, 0]);
        ack_at(&mut flow, &params, 100, true);
        // The 8,400 bytes from before the cut do not count.
        assert_eq!([send(&mut flow), send(&mut flow), send(&mut flow)], [0, 0, 1]);
    }

    #[test]
    fn target_is_capped_at_the_nic_rate() {
        let params = DcqcnParams { fast_recovery: 0, additive: 0.4, ..Default::default() };
        let mut flow = start(&params);
        assert_eq!(ack_at(&mut flow, &params, 0, true), 0.5);
        assert_eq!(ack_at(&mut flow, &params, 55, false), 0.75);
        assert_eq!(flow.target_bps, LINE);
    }

    #[test]
    fn no_increase_is_due_at_the_nic_rate() {
        let params = DcqcnParams::default();
        let mut flow = start(&params);
        ack_at(&mut flow, &params, 0, true);
        assert_eq!(ack_at(&mut flow, &params, 1_000_000, false), 1.0);
        assert_eq!(flow.increase_at, Time::NEVER);
        assert_eq!(flow.limit(&params).wake_at, Time::NEVER);
        // A message that starts after the same time finds the same rate without an acknowledgement.
        let mut idle = start(&params);
        ack_at(&mut idle, &params, 0, true);
        idle.on_resume(&params, Time::us(1_000_000));
        assert_eq!(idle.pace.bps(), LINE);
    }

    #[test]
    fn increases_have_events_if_packets_are_rare() {
        let params = DcqcnParams { min_rate: Rate::mbps(1), ..Default::default() };
        let mut flow = start(&params);
        let mut us = 0;
        while flow.pace.bps() > 1e6 {
            ack_at(&mut flow, &params, us, true);
            us += 50;
        }
        let due = Time::us(us - 50).after(params.timer);
        assert_eq!((flow.increase_at, flow.limit(&params).wake_at), (due, due));
        // 4,200 bytes in less than 55 us.
        flow.pace.set(0.7e9);
        assert_eq!(flow.limit(&params).wake_at, Time::NEVER);
        flow.pace.set(0.6e9);
        assert_eq!(flow.limit(&params).wake_at, due);
        let before = flow.target_bps;
        flow.on_timer(&params, due);
        assert_eq!(flow.pace.bps(), (0.6e9 + before) / 2.0);
    }

    #[test]
    fn ticks_combine_notifications_and_keep_the_target() {
        let params = DcqcnParams { g: 0.25, ..vendor() };
        let mut flow = start(&params);
        assert_eq!(ack_at(&mut flow, &params, 10, true), 1.0);
        assert_eq!(flow.limit(&params).wake_at, Time::us(14));
        // A second notification raises α at the tick of 13 us; none did at 11 and 12 us.
        ack_at(&mut flow, &params, 12, true);
        flow.on_timer(&params, Time::us(14));
        let alpha = (1.0 * 0.75 * 0.75 * 0.75 + 0.25) * 0.75;
        assert_near(flow.alpha, alpha, 1e-12);
        assert_near(flow.pace.bps(), LINE * (1.0 - alpha / 2.0), 1.0);
        assert_eq!((flow.target_bps, flow.decrease_at), (LINE, Time::NEVER));
        // Notified at 21 us: the next tick is at 22 us, and the target stays.
        ack_at(&mut flow, &params, 21, true);
        assert_eq!(flow.limit(&params).wake_at, Time::us(22));
        flow.on_timer(&params, Time::us(22));
        assert_eq!((flow.target_bps, flow.increase_at), (LINE, Time::us(322)));
        // After an increase the target moves.
        let gained = ack_at(&mut flow, &params, 322, true);
        flow.on_timer(&params, Time::us(326));
        assert_near(flow.target_bps, gained * LINE, 1.0);
    }

    #[test]
    fn vendor_increases_halfway_additive_hyper() {
        let params = DcqcnParams { additive: 0.01, hyper: 0.1, ..vendor() };
        let mut flow = start(&params);
        flow.pace.set(LINE / 4.0);
        flow.target_bps = LINE / 2.0;
        flow.increase_at = Time::us(300);
        let mut targets = alloc::vec::Vec::new();
        for event in 1..=4 {
            ack_at(&mut flow, &params, 300 * event, false);
            targets.push(flow.target_bps / LINE);
        }
        for (target, expected) in targets.iter().zip([0.5, 0.51, 0.61, 0.71]) {
            assert_near(*target, expected, 1e-9);
        }
    }

    #[test]
    fn a_loss_halves_the_rate_and_recovers_as_a_cut_does() {
        let params = DcqcnParams::default();
        for kind in [LossKind::Recovery, LossKind::Timeout] {
            let mut flow = start(&params);
            let loss = Loss { now: Time::us(9), kind, rtt: Span::us(6), next_seq: 0 };
            flow.on_loss(&params, &loss);
            assert_eq!((flow.pace.bps(), flow.target_bps), (LINE / 2.0, LINE));
            assert_eq!(ack_at(&mut flow, &params, 64, false), 0.75);
        }
    }

    #[test]
    fn thresholds_are_of_one_kind_and_in_order() {
        let conflict = |kmin, kmax| DcqcnParams { kmin, kmax, ..Default::default() }.conflict();
        let (small, large) = (Extent::Bytes(10.0), Extent::Bytes(20.0));
        assert_eq!((conflict(small, large), conflict(small, small)), (None, None));
        assert!(conflict(large, small).is_some_and(|text| text.contains("above")));
        assert!(conflict(small, Extent::Bdp(1.0)).is_some_and(|text| text.contains("both")));
        assert!(conflict(Extent::Bdp(0.2), Extent::Bdp(0.1)).is_some());
    }
}
