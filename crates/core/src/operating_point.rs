//! What a protocol says of itself.

use alloc::string::String;

use crate::{PendingRule, RecoveryRule, Span, WindowRule};

/// What a protocol aims at, and where it is at home: asked for a flow at a rate on a path, never
/// while packets move.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatingPoint {
    /// The share of a link's rate that it means to take where nothing else wants any.
    pub utilisation_goal: f64,
    /// The queueing delay that it aims at where the flow has that rate: at the fullest hop or of
    /// the whole path, as its signal is. `None`: it aims at none.
    pub queue_target: Option<Span>,
    /// Why its parameters are outside the range it was designed for on this path, if they are.
    pub domain_warning: Option<String>,
}

impl OperatingPoint {
    /// Takes all of a link, aims at no queue, and is at home everywhere.
    pub const DEFAULT: OperatingPoint =
        OperatingPoint { utilisation_goal: 1.0, queue_target: None, domain_warning: None };
}

/// What a control's connections do: defaults of parameters that every connection has, which a
/// scenario may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionDefaults {
    /// Idle for longer than this, with nothing in flight, a connection starts anew.
    pub restart_after: Span,
    /// When a packet may start under the window.
    pub window_rule: WindowRule,
    /// What becomes of packets behind a missing one.
    pub recovery: RecoveryRule,
    /// Retransmission timeout before the first round-trip sample.
    pub initial_rto: Span,
    /// Smallest retransmission timeout.
    pub min_rto: Span,
    /// What a new pace changes for the pending packet.
    pub pending_packet: PendingRule,
}

impl ConnectionDefaults {
    /// Never starts anew; a packet starts where it fits; what is missing is sent again.
    pub const DEFAULT: ConnectionDefaults = ConnectionDefaults {
        restart_after: Span::s(1000),
        window_rule: WindowRule::Fits,
        recovery: RecoveryRule::Selective,
        initial_rto: Span::ms(1),
        min_rto: Span::us(200),
        pending_packet: PendingRule::Keep,
    };
    /// Those of an RDMA NIC on a fabric that loses nothing, as in the simulators that descend from
    /// HPCC's: a packet starts while anything of the window is left, and all from a missing one on
    /// is sent again. These have no timeout; here one is the safety net, longer than any queue that
    /// pauses leave. A new rate leaves the pending packet as it is.
    pub const NIC: ConnectionDefaults = ConnectionDefaults {
        window_rule: WindowRule::Below,
        recovery: RecoveryRule::GoBackN,
        initial_rto: Span::ms(20),
        min_rto: Span::ms(20),
        ..ConnectionDefaults::DEFAULT
    };
    /// Those of HPCC and of what descends from it (PowerTCP): a window that paces itself, packets
    /// that start while anything of the window is left, and a new rate that moves the pending
    /// packet: `ChangeRate` in rdma-hw.cc of alibaba-edu/High-Precision-Congestion-Control, which
    /// these controls call and DCQCN, TIMELY and DCTCP do not.
    pub const PACED_WINDOW: ConnectionDefaults = ConnectionDefaults {
        window_rule: WindowRule::Below,
        pending_packet: PendingRule::Shift,
        ..ConnectionDefaults::DEFAULT
    };
}
