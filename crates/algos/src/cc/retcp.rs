//! reTCP: Reno with notification of circuits.
//!
//! If circuits connect racks temporarily, the rate of a path changes within a round trip by a known
//! factor. While a circuit leads from the sender's rack to the receiver's, or soon will, the switch
//! marks acknowledgements from there. The first mark multiplies the window, and the first
//! acknowledgement without a mark divides it again. Before a day of the circuit the switch enlarges
//! its queue and already marks (prebuffering), so that packets are waiting when the circuit comes
//! up.
//!
//! Matthew K. Mukerjee, Christopher Canel, Weiyang Wang, Daehyeok Kim, Srinivasan Seshan, Alex C.
//! Snoeren. "Adapting TCP for Reconfigurable Datacenter Networks". NSDI 2020. Code:
//! `mukerjee/etalon`, `reTCP/retcp.c`, and of the switch, `mukerjee/click-etalon`, `ecemark.cc`.
//!
//! # Equations
//!
//! Those of Reno, and after its growth for an acknowledgement of new data, except in the recovery
//! from a loss (`cong_avoid` of Linux, `net/ipv4/tcp_input.c`):
//!
//! * marks have begun: `cwnd *= up`
//! * marks have ended: `cwnd /= down`
//!
//! A loss between the two halves the window, and the end of the marks divides it nevertheless, as
//! in the code.
//!
//! # Network requirements
//!
//! Switches that mark packets for circuits in the opposite direction (`ecemark.cc`): packets that
//! arrive at a rack, while its circuit to the rack of their source is up or soon will be. The
//! fabric sets how long before a day marking starts (`fabric.prebuffer`) and the queue limit from
//! then on (`fabric.enlarged_voq`). Queues must be limited: like Reno, reTCP grows until they
//! overflow.
//!
//! # Domain
//!
//! Four flows over three racks (`scenarios/demo/circuits.toml`, 40 ms) deliver 31.6 Gbit/s together
//! with days of 60 us, and 26.9 under Reno. With days of 180 us, they deliver 38.8 and 31.2; with
//! queues of 50 packets from 150 us ahead as well, 40.5 and 34.3; over four racks, 29.6 and 28.6.
//!
//! # Differences from the published code
//!
//! * The mark is a separate bit; the code uses ECE for it, and so cannot use ECN.
//! * Marks end with the day. The switch of the code (`run_schedule.cc`) renews them when a day or a
//!   night comes as near as `prebuffer`: days of 180 us with nights of 20 us and 150 us ahead have
//!   marks for 50 us more. The effect of these marks on the paper's figures was not measured.
//! * Marks begin `prebuffer` ahead of a day, together with longer queues. In the code the two are
//!   independent, and marks begin 600 us ahead (12 ms in its dilated time) unless a program sets
//!   another time, also where queues do not grow.
//! * The window is multiplied at the first marked acknowledgement for which it limited sending in
//!   the last round trip, since windows here grow only then, and divided only if it was multiplied.

use super::reno::Reno;
use tidegate_core::{
    Ack, CongestionControl, Dash, Extent, FabricProperties, FabricRequirements, Limit, Loss,
    Marker, Path, ProtocolInfo, TelemetryBytes, Time, params,
};

params! {
    /// Parameters of reTCP.
    pub struct ReTcpParams {
        /// Factor of the window when circuit marks begin.
        up: f64 = 2.0, in 1.0..=1000.0, "mukerjee/etalon, reTCP/retcp.c";
        /// Divisor of the window when circuit marks end.
        down: f64 = 2.0, in 1.0..=1000.0, "mukerjee/etalon, reTCP/retcp.c";
        /// Window of a new connection.
        initial_window: Extent = Extent::Bdp(1.0), within Extent::Bdp(0.0) => Extent::Bdp(100.0),
            "our choice: that of Reno";
        /// Largest window: a bound on memory.
        max_window: Extent = Extent::Bdp(1000.0), within Extent::Bdp(0.1) => Extent::Bdp(1e6),
            "our choice";
    }
}

/// A connection under reTCP.
#[derive(Clone, Debug, PartialEq)]
pub struct ReTcp {
    reno: Reno,
    /// Whether the window is the one for a circuit.
    jumped: bool,
}

impl CongestionControl for ReTcp {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "retcp",
        title: "reTCP",
        revision: 2,
        citation: "Mukerjee et al., \"Adapting TCP for Reconfigurable Datacenter Networks\", NSDI \
            2020",
        summary: "Reno that doubles its window when a circuit comes up and halves it when it goes \
            down.",
        color: "#17becf",
        marker: Marker::Star,
        dash: Dash::Dashed,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = ReTcpParams;

    fn requirements(_params: &ReTcpParams, _fabric: &FabricProperties) -> FabricRequirements {
        FabricRequirements { circuits: true, ..FabricRequirements::NONE }
    }

    fn start(params: &ReTcpParams, path: &Path, _now: Time, _seed: u64) -> ReTcp {
        let [initial, most] = [params.initial_window, params.max_window];
        let [initial, most] = [initial, most].map(|window| window.bytes(path.bdp_bytes));
        ReTcp { reno: Reno::with_windows(initial, most, path), jumped: false }
    }

    // retcp.c, retcp_cong_avoid
    fn on_ack(&mut self, params: &ReTcpParams, ack: &Ack<'_>) {
        self.reno.grow(ack);
        if ack.acked_packets == 0 || self.reno.recovers(ack) {
            return; // Linux does not call cong_avoid.
        }
        if ack.circuit && !self.jumped && ack.window_limited {
            self.jumped = true;
            self.reno.set(self.reno.cwnd * params.up);
        } else if !ack.circuit && self.jumped {
            self.jumped = false;
            self.reno.set(self.reno.cwnd / params.down);
        }
    }

    fn on_loss(&mut self, _params: &ReTcpParams, loss: &Loss) {
        self.reno.cut(loss);
    }

    fn limit(&self, _params: &ReTcpParams) -> Limit {
        Limit::window(self.reno.cwnd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::reno::RenoParams;
    use crate::contract;
    use tidegate_core::{LossKind, Span};

    fn ack(seq: u64, circuit: bool) -> Ack<'static> {
        Ack { seq, next_seq: seq + 20, circuit, ..contract::ack(Time::us(seq)) }
    }

    /// The window after each acknowledgement, relative to Reno's.
    fn over_reno(acks: &[Ack<'static>]) -> alloc::vec::Vec<f64> {
        let (params, path) = (ReTcpParams::default(), contract::path());
        let mut reno = Reno::start(&RenoParams::default(), &path, Time::ZERO, 0);
        let mut flow = ReTcp::start(&params, &path, Time::ZERO, 0);
        let both = acks.iter().map(|ack| {
            reno.grow(ack);
            flow.on_ack(&params, ack);
            flow.reno.cwnd / reno.cwnd
        });
        both.collect()
    }

    #[test]
    fn window_doubles_at_first_mark_and_halves_without() {
        // No acknowledgement has bytes: Reno's window stays constant.
        let again = |circuit| Ack { acked_bytes: 0, ..ack(1, circuit) };
        let acks = [false, true, true, false, false, true].map(again);
        assert_eq!(over_reno(&acks), [1.0, 2.0, 2.0, 1.0, 1.0, 2.0]);
    }

    #[test]
    fn both_factors_are_independent() {
        let params = ReTcpParams { up: 4.0, down: 8.0, ..Default::default() };
        let mut flow = ReTcp::start(&params, &contract::path(), Time::ZERO, 0);
        let before = flow.reno.cwnd;
        for (circuit, share) in [(true, 4.0), (true, 4.0), (false, 0.5), (false, 0.5)] {
            flow.on_ack(&params, &Ack { acked_bytes: 0, ..ack(1, circuit) });
            assert_eq!(flow.reno.cwnd / before, share);
        }
    }

    /// The windows after acknowledgements of packets that were sent before (0) or after (9) a loss,
    /// relative to half of the window before the loss.
    fn after_loss(jumped: bool, acks: &[(u64, bool)]) -> alloc::vec::Vec<f64> {
        let params = ReTcpParams::default();
        let mut flow = ReTcp::start(&params, &contract::path(), Time::ZERO, 0);
        flow.jumped = jumped;
        let before = flow.reno.cwnd;
        let kind = LossKind::Recovery;
        let loss = Loss { now: Time::us(1), kind, rtt: Span::us(8), next_seq: 9 };
        flow.on_loss(&params, &loss);
        let windows = acks.iter().map(|&(seq, circuit)| {
            flow.on_ack(&params, &Ack { acked_bytes: 0, ..ack(seq, circuit) });
            2.0 * flow.reno.cwnd / before
        });
        windows.collect()
    }

    #[test]
    fn marks_wait_for_the_end_of_a_recovery() {
        let (old, new) = (0, 9);
        let begins = [(old, true), (new, true), (new, true)];
        assert_eq!(after_loss(false, &begins), [1.0, 2.0, 2.0]);
        let ends = [(old, false), (new, false), (new, false)];
        assert_eq!(after_loss(true, &ends), [1.0, 0.5, 0.5]);
        // A night within the recovery remains unnoticed.
        let passes = [(old, false), (old, true), (new, true)];
        assert_eq!(after_loss(true, &passes), [1.0; 3]);
    }

    #[test]
    fn duplicates_do_not_change_the_window() {
        let duplicate = |circuit| Ack { acked_bytes: 0, acked_packets: 0, ..ack(1, circuit) };
        let late = Ack { acked_bytes: 0, ..ack(1, true) };
        assert_eq!(over_reno(&[duplicate(true), late, duplicate(false)]), [1.0, 2.0, 2.0]);
    }

    #[test]
    fn window_that_does_not_limit_stays_constant() {
        let idle = |circuit| Ack { window_limited: false, ..ack(1, circuit) };
        let late = Ack { acked_bytes: 0, ..ack(2, true) };
        assert_eq!(over_reno(&[idle(true), idle(false)]), [1.0, 1.0]);
        assert_eq!(over_reno(&[idle(true), late, idle(true), idle(false)]), [1.0, 2.0, 2.0, 1.0]);
    }
}
