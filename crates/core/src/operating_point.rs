//! Operating point and connection defaults of a protocol.

use alloc::string::String;
use alloc::vec::Vec;

use crate::{MultipathRule, PendingRule, RecoveryRule, Span, WindowRule};

/// Utilisation and queue that a protocol aims at for a flow at a rate on a path. Computed before a
/// run, never while packets move.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatingPoint {
    /// Share of a link's rate that it aims at in the absence of other flows.
    pub utilisation_goal: f64,
    /// Queueing delay that it aims at if the flow has this rate: at the fullest hop or over the
    /// whole path, depending on its signal. `None` if it has no target.
    pub queue_target: Option<Span>,
    /// Queueing delay with which it compares that in telemetry if the flow has this rate. `None` if
    /// it compares no such delay.
    pub telemetry_target: Option<Span>,
    /// Reasons why its parameters are outside their design range on this path.
    pub domain_warnings: Vec<String>,
}

impl OperatingPoint {
    /// Full utilisation, no target, no warning.
    pub const DEFAULT: OperatingPoint = OperatingPoint {
        utilisation_goal: 1.0,
        queue_target: None,
        telemetry_target: None,
        domain_warnings: Vec::new(),
    };

    /// All warnings as one text; `None` if there are none.
    pub fn domain_warning(&self) -> Option<String> {
        (!self.domain_warnings.is_empty()).then(|| self.domain_warnings.join("; "))
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
