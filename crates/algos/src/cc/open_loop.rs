//! Open loop: no congestion control at all.
//!
//! Packets leave at a configured rate, evenly or as a Poisson process, independent of any feedback.
//! The resulting queues follow textbook results (M/D/1, overload, steady background load), so the
//! open loop serves as a reference for the simulator and as load for other protocols. It is not a
//! protocol to compare with: it has neither fairness nor stability.
//!
//! For the queueing results see L. Kleinrock, "Queueing Systems, Volume 1", Wiley 1975, section 5.
//!
//! # Equations
//!
//! * constant: the gap after a packet of `b` wire bytes is `8 b / rate`
//! * Poisson: that gap times an exponential variable of mean 1, drawn for every packet, so that
//!   departures of equal packets are a Poisson process
//!
//! The rate counts wire bytes. Above the NIC's rate the NIC is always busy.
//!
//! # Network requirements
//!
//! None. Acknowledgements are ignored.
//!
//! # Differences from the textbook
//!
//! * The NIC sends one packet at a time, so departures are at least one packet time apart; the
//!   schedule does not slip because of this. If the network is at least as fast as the NIC, the
//!   queue of an M/D/1 system is in front of the NIC.
//! * The first packet leaves immediately.
//! * The transport retransmits lost packets at the same pace.

use tidegate_core::{
    Ack, CongestionControl, Dash, Domain, Limit, Marker, OperatingPoint, Path, ProtocolInfo, Rate,
    Rng, TelemetryBytes, Time, choice, params,
};

choice! {
    /// Spacing of packets.
    pub enum Arrivals {
        /// Constant gaps.
        Constant = "constant",
        /// Exponential gaps.
        Poisson = "poisson",
    }
}

params! {
    /// Parameters of the open loop.
    pub struct OpenLoopParams {
        /// Mean rate of each connection, in bits on the wire.
        rate: Rate = Rate::gbps(10), within Rate::mbps(1) => Rate::gbps(10_000), "our choice";
        /// Spacing of packets.
        arrivals: Arrivals = Arrivals::Constant, "our choice";
    }
}

/// A connection without congestion control.
#[derive(Clone, Debug)]
pub struct OpenLoop {
    /// Pace of the next packet, in bit/s.
    pace_bps: f64,
    rng: Rng,
}

/// Smallest exponential gap, as a multiple of the mean: keeps the pace finite.
const SMALLEST_GAP: f64 = 1e-9;

impl CongestionControl for OpenLoop {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "open-loop",
        title: "Open loop",
        revision: 0,
        citation: "L. Kleinrock, \"Queueing Systems, Volume 1: Theory\", Wiley 1975",
        summary: "Sends at a fixed mean rate, evenly or as a Poisson process, and ignores the \
            network.",
        color: "#808080",
        marker: Marker::Cross,
        dash: Dash::Solid,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = OpenLoopParams;

    fn operating_point(params: &OpenLoopParams, path: &Path, _rate_bps: f64) -> OperatingPoint {
        let share = params.rate.as_bps() as f64 / path.nic_rate.as_bps() as f64;
        OperatingPoint { utilisation_goal: share.min(1.0), ..OperatingPoint::DEFAULT }
    }

    fn start(params: &OpenLoopParams, _path: &Path, _now: Time, seed: u64) -> OpenLoop {
        let mut new = OpenLoop {
            pace_bps: params.rate.as_bps() as f64,
            rng: Rng::stream(seed, Domain::Transport, 0),
        };
        new.draw(params);
        new
    }

    fn on_ack(&mut self, _params: &OpenLoopParams, _ack: &Ack<'_>) {}

    fn on_sent(&mut self, params: &OpenLoopParams, _now: Time, _wire_bytes: u32) -> bool {
        self.draw(params);
        true
    }

    fn limit(&self, _params: &OpenLoopParams) -> Limit {
        Limit { window_bytes: f64::INFINITY, pace_bps: self.pace_bps, wake_at: Time::NEVER }
    }
}

impl OpenLoop {
    /// Draws the pace for the next gap: mean gap times an exponential variable.
    fn draw(&mut self, params: &OpenLoopParams) {
        if params.arrivals == Arrivals::Poisson {
            self.pace_bps = params.rate.as_bps() as f64 / self.rng.exponential().max(SMALLEST_GAP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;

    /// Gaps in picoseconds after `count` packets of 4,200 bytes.
    fn gaps(arrivals: Arrivals, seed: u64, count: usize) -> alloc::vec::Vec<f64> {
        let params = OpenLoopParams { arrivals, ..Default::default() };
        let mut flow = OpenLoop::start(&params, &contract::path(), Time::ZERO, seed);
        (0..count)
            .map(|_| {
                let gap = 4200.0 * 8e12 / flow.limit(&params).pace_bps;
                flow.on_sent(&params, Time::ZERO, 4200);
                gap
            })
            .collect()
    }

    #[test]
    fn constant_gaps_equal_the_packet_time_at_the_rate() {
        assert!(gaps(Arrivals::Constant, 1, 10).iter().all(|&gap| gap == 3_360_000.0));
    }

    #[test]
    fn poisson_gaps_have_that_mean_and_their_own_stream() {
        let count = 100_000;
        let gaps_1 = gaps(Arrivals::Poisson, 1, count);
        let mean = gaps_1.iter().sum::<f64>() / count as f64;
        let variance =
            gaps_1.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / count as f64;
        assert!((mean / 3_360_000.0 - 1.0).abs() < 0.01, "{mean}");
        assert!((variance / (mean * mean) - 1.0).abs() < 0.03, "{variance}");
        assert_ne!(gaps_1, gaps(Arrivals::Poisson, 2, count));
    }
}
