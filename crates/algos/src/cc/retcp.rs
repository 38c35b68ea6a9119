//! reTCP: Reno that is told of circuits.
//!
//! Where racks are joined by circuits that come and go, the rate of a path changes within a round
//! trip, by a factor that is known. Switches mark what crosses a circuit, or soon will; receivers
//! return the mark. The first mark multiplies the window, the first acknowledgement without divides
//! it again. Before a day of the circuit its queue is enlarged and marks are set already
//! (prebuffering), so that the circuit finds packets when it comes up.
//!
//! Matthew K. Mukerjee, Christopher Canel, Weiyang Wang, Daehyeok Kim, Srinivasan Seshan, Alex C.
//! Snoeren. "Adapting TCP for Reconfigurable Datacenter Networks". NSDI 2020. Code:
//! `mukerjee/etalon`, `reTCP/retcp.c`.
//!
//! # Equations
//!
//! Those of Reno, and after its growth for an acknowledgement:
//!
//! * marks begin: `cwnd *= up`
//! * marks end: `cwnd /= down`
//!
//! # What it needs of the network
//!
//! Switches that tell of circuits; how long before a day, and how much larger queues are from then
//! on, is the fabric's (`fabric.prebuffer`, `fabric.enlarged_voq`). Queues that are limited: like
//! Reno it grows until they overflow.
//!
//! # Differences from the published code
//!
//! * The mark is a bit of its own, which acknowledgements return; the code takes ECE for it, and so
//!   has no ECN. Packets are marked as they leave their rack.
//! * The window is multiplied at the first marked acknowledgement before which it limited sending,
//!   since no window here grows otherwise, and divided only where it was multiplied.

use super::reno::Reno;
use tidegate_core::{
    Ack, CongestionControl, Dash, Extent, FabricProperties, FabricRequirements, Limit, Loss,
    Marker, Path, ProtocolInfo, TelemetryBytes, Time, params,
};

params! {
    /// Parameters of reTCP.
    pub struct ReTcpParams {
        /// The window is multiplied by this when a circuit is told of.
        up: f64 = 2.0, in 1.0..=1000.0, "mukerjee/etalon, reTCP/retcp.c";
        /// The window is divided by this when it is told of no more.
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
    /// Its window is that for a circuit.
    jumped: bool,
}

impl CongestionControl for ReTcp {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "retcp",
        title: "reTCP",
        citation: "Mukerjee et al., \"Adapting TCP for Reconfigurable Datacenter Networks\", NSDI \
            2020",
        summary: "Reno whose window is doubled when a circuit comes up, and halved when it goes.",
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

    fn ack(seq: u64, circuit: bool) -> Ack<'static> {
        Ack { seq, next_seq: seq + 20, circuit, ..contract::ack(Time::us(seq)) }
    }

    /// The window after each acknowledgement over that of Reno.
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
    fn the_window_doubles_with_the_first_mark_and_halves_without() {
        // Nothing acknowledged is new: Reno's window stays as it is.
        let again = |circuit| Ack { acked_bytes: 0, acked_packets: 0, ..ack(1, circuit) };
        let acks = [false, true, true, false, false, true].map(again);
        assert_eq!(over_reno(&acks), [1.0, 2.0, 2.0, 1.0, 1.0, 2.0]);
    }

    #[test]
    fn both_factors_are_their_own() {
        let params = ReTcpParams { up: 4.0, down: 8.0, ..Default::default() };
        let mut flow = ReTcp::start(&params, &contract::path(), Time::ZERO, 0);
        let before = flow.reno.cwnd;
        for (circuit, share) in [(true, 4.0), (true, 4.0), (false, 0.5), (false, 0.5)] {
            flow.on_ack(&params, &Ack { acked_bytes: 0, acked_packets: 0, ..ack(1, circuit) });
            assert_eq!(flow.reno.cwnd / before, share);
        }
    }

    #[test]
    fn a_window_that_does_not_limit_neither_doubles_nor_halves() {
        let idle = |circuit| Ack { window_limited: false, ..ack(1, circuit) };
        let late = Ack { acked_bytes: 0, ..ack(2, true) };
        assert_eq!(over_reno(&[idle(true), idle(false)]), [1.0, 1.0]);
        assert_eq!(over_reno(&[idle(true), late, idle(true), idle(false)]), [1.0, 2.0, 2.0, 1.0]);
    }
}
