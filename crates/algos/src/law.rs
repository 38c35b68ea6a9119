//! What laws of windows have in common: the pipe that they are computed with, which is a base RTT
//! and the bytes that the NIC sends in it, and when they react.

use tidegate_core::{Path, choice};

choice! {
    /// Which base RTT a law and its windows are computed with.
    pub enum Tau {
        /// The largest of the fabric.
        Fabric = "fabric",
        /// The connection's own.
        Path = "path",
    }
}

choice! {
    /// When a window is computed anew.
    pub enum Reaction {
        /// Once a round trip.
        Round = "round",
        /// With every acknowledgement, from the window of the last round trip.
        Ack = "ack",
    }
}

/// One base RTT for a law and for its windows, whatever BDP the scenario sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pipe {
    /// In picoseconds, above zero.
    pub(crate) tau: f64,
    /// In wire bytes.
    pub(crate) bdp: f64,
}

impl Pipe {
    pub(crate) fn of(tau: Tau, path: &Path) -> Pipe {
        let share = match tau {
            Tau::Fabric => 1.0,
            Tau::Path => path.base_rtt.as_ps() as f64 / path.fabric_base_rtt.as_ps().max(1) as f64,
        };
        Pipe { tau: share * path.bdp_time_ps(), bdp: share * path.bdp_bytes }
    }
}
