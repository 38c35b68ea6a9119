//! Rules of connections, and the defaults that a congestion control has for them.

use crate::{Span, choice};

choice! {
    /// Condition for a packet to start under a window.
    pub enum WindowRule {
        /// A full packet must still fit. RFC 5681, section 2, defines the window as the data that
        /// may be in flight.
        Fits = "fits",
        /// Any part of the window must be left, so up to one packet more is in flight. This is the
        /// rule of the simulators that descend from HPCC's.
        Below = "below",
    }
}

choice! {
    /// Treatment of packets that arrive behind a missing one.
    pub enum RecoveryRule {
        /// They are kept, and only the missing packets are retransmitted.
        Selective = "selective",
        /// They are dropped, and everything from the missing packet on is retransmitted, as by NICs
        /// without memory for them.
        GoBackN = "go-back-n",
        /// They are kept. A packet is lost if a switch trimmed it or its own timeout expires; the
        /// order of arrivals says nothing, because packets take many paths.
        Trimmed = "trimmed",
    }
}

choice! {
    /// Choice of the path of a packet, by an entropy that switches hash.
    pub enum MultipathRule {
        /// All packets of a connection take one path.
        Off = "off",
        /// All paths in turn.
        Oblivious = "oblivious",
        /// A random path for each flowlet.
        Flowlet = "flowlet",
        /// All paths in turn, without those that were congested.
        Bitmap = "bitmap",
        /// Recycled entropies.
        Reps = "reps",
        /// Recycled entropies, or else as `bitmap`.
        Mixed = "mixed",
        /// The path states of Multipath Reliable Connection.
        Mrc = "mrc",
    }
}

choice! {
    /// Effect of a new pace on the packet whose departure time is already set.
    pub enum PendingRule {
        /// None: it leaves at the time that the old pace set.
        Keep = "keep",
        /// Its departure time moves by the difference between the gaps of the preceding packet at
        /// the new and at the old pace, even if that time has passed.
        Shift = "shift",
    }
}

/// Defaults of the connection parameters of a congestion control, which a scenario can override.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionDefaults {
    /// A connection that has been idle for longer than this, with nothing in flight, restarts.
    pub restart_after: Span,
    /// Condition for a packet to start under the window.
    pub window_rule: WindowRule,
    /// Treatment of packets behind a missing one.
    pub recovery: RecoveryRule,
    /// Retransmission timeout before the first round-trip sample.
    pub initial_rto: Span,
    /// Smallest retransmission timeout.
    pub min_rto: Span,
    /// Effect of a new pace on the pending packet.
    pub pending_packet: PendingRule,
    /// Choice of the path of a packet.
    pub multipath: MultipathRule,
}

impl ConnectionDefaults {
    /// Never restarts; packets start if they fit; only missing packets are retransmitted.
    pub const DEFAULT: ConnectionDefaults = ConnectionDefaults {
        restart_after: Span::s(1000),
        window_rule: WindowRule::Fits,
        recovery: RecoveryRule::Selective,
        initial_rto: Span::ms(1),
        min_rto: Span::us(200),
        pending_packet: PendingRule::Keep,
        multipath: MultipathRule::Off,
    };
    /// Defaults of controls whose packets take many paths in a network that trims: recycled
    /// entropies, or else those that were not congested (uet-htsim's default).
    pub const SPRAYED: ConnectionDefaults = ConnectionDefaults {
        recovery: RecoveryRule::Trimmed,
        multipath: MultipathRule::Mixed,
        ..ConnectionDefaults::DEFAULT
    };
    /// Defaults of an RDMA NIC on a lossless fabric, as in the simulators that descend from HPCC's:
    /// a packet starts while any part of the window is left, and everything from a missing packet
    /// on is retransmitted. Those simulators have no timeout. Here it is a safety net, longer than
    /// any queue that pauses can cause. A new rate does not move the pending packet.
    pub const NIC: ConnectionDefaults = ConnectionDefaults {
        window_rule: WindowRule::Below,
        recovery: RecoveryRule::GoBackN,
        initial_rto: Span::ms(20),
        min_rto: Span::ms(20),
        ..ConnectionDefaults::DEFAULT
    };
    /// Defaults of HPCC and its descendants (PowerTCP): a window that paces itself, packets that
    /// start while any part of the window is left, and a new rate that moves the pending packet
    /// (`ChangeRate` in rdma-hw.cc of alibaba-edu/High-Precision-Congestion-Control, which these
    /// controls call and DCQCN, TIMELY and DCTCP do not).
    pub const PACED_WINDOW: ConnectionDefaults = ConnectionDefaults {
        window_rule: WindowRule::Below,
        pending_packet: PendingRule::Shift,
        ..ConnectionDefaults::DEFAULT
    };
}
