//! RCCC: the receiver's congestion control of Ultra Ethernet, by credit.
//!
//! EQDS's transport (`eqds/mod.rs`) with pulls of four packets. Links to hosts are scheduled; for
//! those between switches, a receiver reduces the rate of its pulls if packets are trimmed in the
//! core or marked (`eqds/congestion.rs`).
//!
//! Ultra Ethernet Specification 1.0, as in ultraethernet/uet-htsim (`uec.cpp`,
//! `oversubscribed_cc.cpp`, commit 40ccb05, `-receiver_cc_only`). The specification's text was not
//! available.
//!
//! # Differences from the source
//!
//! Those of EQDS, and:
//!
//! * The rate is always adapted. The source adapts it only if the topology is oversubscribed, and
//!   then with `least_rate = 0.9 / ratio`; `adapts = false` corresponds to its other topologies.
//! * There is no window of the sender beside the credit; `nscc_rccc.rs` has both.

use tidegate_core::{
    Dash, Endpoint, Extent, FabricProperties, FabricRequirements, HostContext, Marker,
    MultipathRule, OperatingPoint, PacketSizes, Path, ProtocolInfo, Span, TelemetryBytes,
};

use super::eqds::congestion::Adaptation;
use super::eqds::header::Header;
use super::eqds::params::pull_params;
use super::eqds::{Demand, PullTransport, Rules};

pull_params! {
    /// Parameters of RCCC.
    pub struct RcccParams {
        max_window = Extent::Bdp(1.5), "uet-htsim, uec.cpp: initRccc";
        pull_packets = 4, "uet-htsim, uec.cpp: _mtus_per_pull";
        pull_rate = 0.99, "uet-htsim, main_uec.cpp: UecPullPacer";
        min_rto = Span::us(100), "uet-htsim, uec.h: DEFAULT_UEC_RTO_MIN";
        multipath = MultipathRule::Mixed, "uet-htsim, main_uec.cpp: the default of \
            -load_balancing_algo";
        queue = Extent::Bdp(1.0), "uet-htsim, main_uec.cpp: DEFAULT_TRIMMING_QUEUESIZE_FACTOR";
        /// Whether the rate of pulls follows congestion between switches.
        adapts: bool = true, "uet-htsim, main_uec.cpp: only with oversubscription";
        /// Smoothed share of marked packets from which the rate falls.
        target_marks: f64 = 0.3, in 0.0..=1.0, if adapts == true,
            "oversubscribed_cc.cpp: _target_congestion";
        /// Increase of the rate in an interval, as a share of the link; doubled in each interval
        /// without marks.
        increase: f64 = 0.01, in 0.0..=1.0, if adapts == true, "oversubscribed_cc.cpp: _Ai";
        /// Gain of the decrease by marks.
        decrease: f64 = 0.5, in 0.0..=1.0, if adapts == true, "oversubscribed_cc.cpp: _Md";
        /// Weight of the latest share of marked packets.
        gain: f64 = 0.5, in 0.0..=1.0, if adapts == true, "oversubscribed_cc.cpp: _alpha";
        /// Smallest rate, as a share of the link.
        least_rate: f64 = 0.01, in 0.001..=1.0, if adapts == true,
            "oversubscribed_cc.cpp: _min_rate";
        /// Queue length between switches below which nothing is marked.
        kmin: Extent = Extent::Bdp(0.2), within Extent::Bdp(0.0) => Extent::Bdp(100.0),
            "uet-htsim, main_uec.cpp: ecn_low";
        /// Queue length between switches from which on everything is marked.
        kmax: Extent = Extent::Bdp(0.8), within Extent::Bdp(0.0) => Extent::Bdp(100.0),
            "uet-htsim, main_uec.cpp: ecn_high";
    }
    ramp = kmin, kmax;
}

impl RcccParams {
    /// Adaptation of the rate of pulls at a host.
    pub(super) fn adaptation(&self, host: &HostContext) -> Option<Adaptation> {
        self.adapts.then_some(Adaptation {
            base_rtt: host.fabric_base_rtt,
            target: self.target_marks,
            increase: self.increase,
            decrease: self.decrease,
            gain: self.gain,
            least: self.least_rate,
        })
    }
}

/// RCCC.
#[derive(Debug)]
pub enum Adapted {}

/// The RCCC transport of one host.
pub type Rccc = PullTransport<Adapted>;

impl Endpoint for Rccc {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "rccc",
        title: "RCCC",
        revision: 1,
        citation: "Ultra Ethernet Specification 1.0",
        summary: "Receivers pull data as in EQDS, and more slowly if packets are marked or trimmed \
            between switches.",
        color: "#33a02c",
        marker: Marker::Cross,
        dash: Dash::Dotted,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = RcccParams;
    type Header = Header;

    fn new(params: &RcccParams, host: &HostContext) -> Rccc {
        let adaptation = params.adaptation(host);
        let rules = Rules { adaptation, ..Rules::credit(Demand::Announced) };
        PullTransport::with(&params.pulls(), rules, host)
    }

    fn sizes(params: &RcccParams) -> PacketSizes {
        params.pulls().sizes
    }

    fn takes_many_paths(params: &RcccParams) -> bool {
        params.multipath != MultipathRule::Off
    }

    fn requirements(params: &RcccParams, _fabric: &FabricProperties) -> FabricRequirements {
        params.pulls().requirements_with_marks(params.kmin, params.kmax)
    }

    fn operating_point(params: &RcccParams, path: &Path, _rate_bps: f64) -> OperatingPoint {
        params.pulls().operating_point(path)
    }
}
