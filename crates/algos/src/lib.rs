//! Every protocol, as a pure state machine: no clock, no socket, no thread, no global, no I/O, and
//! no allocation per packet.
//!
//! [`catalog!`](catalog) below is the only list. A congestion control is one file in `cc/` and one
//! line there; a transport of another kind is one file in `message/` and one line there.
#![no_std]

extern crate alloc;

#[macro_use]
mod catalog;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod documented;
#[cfg(test)]
mod harness;
mod hops;
mod kit;
pub mod law;
mod multipath;
mod pace;
mod setup;
pub mod windowed;

pub use setup::Setup;

catalog! {
    cc {
        dcqcn::Dcqcn,
        dctcp::Dctcp,
        dctcp_rate::DctcpRate,
        hpcc::Hpcc,
        nscc::Nscc,
        open_loop::OpenLoop,
        poseidon::Poseidon,
        powertcp::PowerTcp,
        reno::Reno,
        retcp::ReTcp,
        smartt::Smartt,
        swift::Swift,
        theta_powertcp::ThetaPowerTcp,
        timely::Timely,
    }
    message {
        dcpim::Dcpim,
        eqds::Eqds,
        expresspass::ExpressPass,
        homa::Homa,
        ndp::Ndp,
        nscc_rccc::NsccRccc,
        rccc::Rccc,
        sird::Sird,
        tide::Tide,
    }
}

impl Protocol {
    /// The default protocol of scenarios: it needs nothing of switches, and its parameters fit any
    /// fabric without changes.
    pub const DEFAULT: Protocol = Protocol::Swift;
}

/// The examples of the file for the registry are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
