//! NSCC+RCCC, both together: a packet leaves only if the window of its sender and the credit of its
//! receiver permit it.
//!
//! RCCC's receivers schedule the links to themselves, and know little about links between switches:
//! with oversubscription they pull more than these carry. NSCC measures the whole path, but each of
//! its senders begins with a window and learns of the others by their queue. Together, credit
//! divides the receiver's link, and the window limits what is on the path.
//!
//! # Design
//!
//! The transport is EQDS's (`eqds/mod.rs`); a message has a window beside its credit
//! (`eqds/window.rs`) under the law of `cc/nscc.rs`.
//!
//! * The window is at the sender, one for each message, and starts with the largest value.
//! * It counts the bytes on the wire of packets that were sent and have neither arrived nor been
//!   lost, whether they left on the first credit, on pulled credit, or again. A packet leaves if it
//!   fits into the window and there is any credit, and uses both.
//! * Acknowledgements, requests for trimmed packets and timeouts feed the law. Pulls do not: they
//!   measure nothing.
//! * A packet that was trimmed at the link to the receiver does not reduce the window, because
//!   credit schedules that link, but it can trigger quick adapt. One that was trimmed between
//!   switches does both.
//! * A sender requests credit for a packet more than its window at most, so that a receiver does
//!   not reserve its link for senders that other links limit.
//! * If the window is full, credit waits at the sender. A timeout of a message that may not send
//!   requests credit (RTS), whichever of both is missing.
//! * Receivers are those of RCCC at a constant rate of pulls (`adapts = false`): the windows react
//!   to congestion between switches.
//! * Switches mark at ports between switches only, because credit schedules the others.
//!
//! Source: ultraethernet/uet-htsim, `uec.cpp`, commit 40ccb05, `-sender_cc -receiver_cc`. The text
//! of Ultra Ethernet Specification 1.0 was not available.
//!
//! # Differences from the source
//!
//! Those of NSCC and of RCCC, but for these: every packet is acknowledged by itself, `min_rto` is
//! the timeout, requests for trimmed packets acknowledge nothing and are feedback on paths only for
//! outstanding ones (as in the source), and the rate of pulls is constant. Further:
//!
//! * Window and credit are those of a message. In the source they are those of a flow, which has
//!   several messages under `-conn_reuse`. Here a message begins with a new window and a window of
//!   credit, whatever those before it have learnt.

use alloc::string::String;

use tidegate_core::params::{Params, Table, Value};
use tidegate_core::{
    Dash, Endpoint, FabricProperties, FabricRequirements, HostContext, Marker, MultipathRule,
    OperatingPoint, PacketSizes, Path, ProtocolInfo, TelemetryBytes,
};

use super::eqds::header::Header;
use super::eqds::{Demand, PullTransport, Rules};
use super::rccc::RcccParams;
use crate::cc::nscc::NsccParams;
use crate::kit::window::shorter_than_bdp;

/// Parameters of NSCC and of RCCC in one table. Those of the same name have one value.
#[derive(Clone, Debug, PartialEq)]
pub struct NsccRcccParams {
    window: NsccParams,
    credit: RcccParams,
}

impl Default for NsccRcccParams {
    /// The window reacts to congestion between switches, so the rate of pulls does not.
    fn default() -> Self {
        let credit = RcccParams { adapts: false, ..RcccParams::default() };
        NsccRcccParams { window: NsccParams::default(), credit }
    }
}

impl Params for NsccRcccParams {
    fn table() -> Table {
        let defaults = NsccRcccParams::default();
        let mut table = NsccParams::table();
        // Only ports between switches mark.
        table.retain(|row| defaults.credit.get(row.name).is_none() && row.name != "core_marks");
        table.extend(RcccParams::table());
        for row in &mut table {
            match row.name {
                "adapts" => {
                    row.default = Value::Flag(defaults.credit.adapts);
                    row.source = "uet-htsim, main_uec.cpp: not beside a window";
                }
                "max_window" => {
                    row.note = "Also the largest congestion window, and the initial one, computed \
                        with the smallest RTT seen.";
                }
                _ => {}
            }
        }
        table
    }

    fn get(&self, name: &str) -> Option<Value> {
        self.credit.get(name).or_else(|| self.window.get(name))
    }

    fn store(&mut self, name: &str, value: Value) -> bool {
        let in_window = self.window.store(name, value);
        self.credit.store(name, value) || in_window
    }

    fn conflict(&self) -> Option<String> {
        self.credit.conflict().or_else(|| self.window.conflict())
    }
}

/// NSCC and RCCC.
#[derive(Debug)]
pub enum Both {}

/// The transport of one host under NSCC and RCCC.
pub type NsccRccc = PullTransport<Both>;

impl Endpoint for NsccRccc {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "nscc-rccc",
        title: "NSCC+RCCC",
        revision: 1,
        citation: "Ultra Ethernet Specification 1.0",
        summary: "Receivers pull data as in RCCC, and a window of NSCC limits each message.",
        color: "#4040d8",
        marker: Marker::TriangleDown,
        dash: Dash::Dotted,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = NsccRcccParams;
    type Header = Header;

    fn new(params: &NsccRcccParams, host: &HostContext) -> NsccRccc {
        let rules = Rules {
            demand: Demand::Announced,
            adaptation: params.credit.adaptation(host),
            law: Some(params.window.clone()),
        };
        PullTransport::with(&params.credit.pulls(), rules, host)
    }

    fn sizes(params: &NsccRcccParams) -> PacketSizes {
        params.credit.pulls().sizes
    }

    fn takes_many_paths(params: &NsccRcccParams) -> bool {
        params.credit.multipath != MultipathRule::Off
    }

    fn requirements(params: &NsccRcccParams, _fabric: &FabricProperties) -> FabricRequirements {
        let RcccParams { kmin, kmax, .. } = params.credit;
        params.credit.pulls().requirements_with_marks(kmin, kmax)
    }

    fn operating_point(_params: &NsccRcccParams, path: &Path, _rate_bps: f64) -> OperatingPoint {
        let domain_warnings = shorter_than_bdp(path).into_iter().collect();
        OperatingPoint { domain_warnings, ..OperatingPoint::DEFAULT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;

    /// Windows react to congestion between switches, so receivers do not.
    #[test]
    fn switches_mark_for_windows_alone() {
        let params = NsccRcccParams::default();
        let requirements = NsccRccc::requirements(&params, &contract::properties());
        assert!(requirements.ecn.is_some_and(|marking| marking.core_only));
        assert_eq!(params.get("adapts"), Some(Value::Flag(false)));
        let ineffective = params.without_effect();
        assert!(ineffective.iter().any(|(name, _)| *name == "least_rate"), "{ineffective:?}");
    }
}
