//! Properties of a path.

use crate::{Rate, Span};

/// Path properties that a congestion control knows when the connection starts.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Propagation, switch latency, serialisation of one full packet forward and of one minimum
    /// frame back, without contention.
    pub base_rtt: Span,
    /// The largest base RTT of any pair in the fabric.
    pub fabric_base_rtt: Span,
    /// Rate of the sender's NIC.
    pub nic_rate: Rate,
    /// Rate of the slowest link on the path.
    pub bottleneck_rate: Rate,
    /// Bandwidth-delay product in bytes. Default: NIC rate times the fabric's base RTT.
    pub bdp_bytes: f64,
    /// Payload of a full packet.
    pub mtu: u32,
    /// Wire bytes of a full packet, including telemetry; its payload if the window counts payload.
    pub full_wire_bytes: u32,
    /// Number of switches on the path.
    pub hops: u32,
}

impl Path {
    /// Base RTT that the bandwidth-delay product corresponds to, in picoseconds: by default the
    /// fabric's largest.
    pub fn bdp_time_ps(&self) -> f64 {
        (self.bdp_bytes * 8e12 / self.nic_rate.as_bps() as f64).max(1.0)
    }
}
