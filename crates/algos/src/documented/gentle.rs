//! Gentle: halves after a mark, once a round trip, and else grows by a packet. An example.
use tidegate_core::{
    Ack, CongestionControl, Dash, Extent, FabricProperties, FabricRequirements, Limit, Loss,
    Marker, Marking, Path, ProtocolInfo, TelemetryBytes, Time, params,
};

params! {
    /// Parameters of Gentle.
    pub struct GentleParams {
        /// Packets added in a round trip.
        step: f64 = 1.0, in 0.01..=100.0, "our choice";
    }
}

/// A connection under Gentle.
#[derive(Clone, Debug)]
pub struct Gentle {
    cwnd: f64,
    packet: f64,
    cut_end: u64,
}

impl CongestionControl for Gentle {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "gentle",
        title: "Gentle",
        revision: 0,
        citation: "nobody, \"An example\", in this document",
        summary: "Halves after a mark, once a round trip, and else grows by a packet.",
        color: "#117733",
        marker: Marker::Star,
        dash: Dash::Dotted,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = GentleParams;

    fn requirements(_params: &GentleParams, _fabric: &FabricProperties) -> FabricRequirements {
        FabricRequirements {
            ecn: Some(Marking::step(Extent::Bdp(1.0))),
            ..FabricRequirements::NONE
        }
    }

    fn start(_params: &GentleParams, path: &Path, _now: Time, _seed: u64) -> Gentle {
        let packet = path.full_wire_bytes as f64;
        Gentle { cwnd: path.bdp_bytes.max(packet), packet, cut_end: 0 }
    }
    fn on_ack(&mut self, params: &GentleParams, ack: &Ack<'_>) {
        if ack.marked && ack.seq >= self.cut_end {
            self.cwnd = (self.cwnd / 2.0).max(self.packet);
            self.cut_end = ack.next_seq;
        } else if !ack.marked && ack.window_limited {
            self.cwnd += params.step * self.packet * ack.acked_bytes as f64 / self.cwnd;
        }
    }
    fn on_loss(&mut self, _params: &GentleParams, _loss: &Loss) {
        self.cwnd = (self.cwnd / 2.0).max(self.packet);
    }
    fn limit(&self, _params: &GentleParams) -> Limit {
        Limit::window(self.cwnd)
    }
}
