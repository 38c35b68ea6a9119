//! Common parts of window laws: the pipe that they use, which is a base RTT and the bytes that the
//! NIC sends in it, and their reaction times.

use tidegate_core::{Ack, Path, Time, choice};

choice! {
    /// Base RTT of a law and its windows.
    pub enum Tau {
        /// The largest of the fabric.
        Fabric = "fabric",
        /// The connection's own.
        Path = "path",
    }
}

choice! {
    /// When a window is recomputed.
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

/// A round trip: it ends when a packet is acknowledged that left after its start. It uses times
/// instead of packet numbers, because retransmissions have their old numbers, and a round trip that
/// waited for a higher number would last until all of them are through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RoundTrip {
    pub(crate) began: Time,
}

impl RoundTrip {
    /// The first round trip: any acknowledgement ends it.
    pub(crate) const FIRST: RoundTrip = RoundTrip { began: Time::ZERO };

    /// Whether `ack` is of a packet that left after the start.
    #[inline]
    pub(crate) fn is_over(self, ack: &Ack<'_>) -> bool {
        ack.now.before(ack.rtt) >= self.began
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;
    use tidegate_core::Span;

    #[test]
    fn round_trip_ends_by_departure_time() {
        let round = RoundTrip { began: Time::us(10) };
        let over = |now, seq| {
            round.is_over(&Ack { rtt: Span::us(6), seq, ..contract::ack(Time::us(now)) })
        };
        for seq in [0, 1000] {
            assert_eq!((over(15, seq), over(16, seq)), (false, true), "{seq}");
        }
        assert!(RoundTrip::FIRST.is_over(&contract::ack(Time::us(6))));
    }
}
