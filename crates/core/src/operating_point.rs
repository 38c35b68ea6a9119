//! Operating point of a protocol.

use alloc::string::String;
use alloc::vec::Vec;

use crate::Span;

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
