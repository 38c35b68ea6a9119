//! Tests of SIRD endpoints, alone and in a network.

use alloc::vec::Vec;

use tidegate_core::{Body, Frame};

use super::header::{Credit, Data};
use super::*;
use crate::harness::{
    self, Checking, FORGED, Faults, NO_FAULTS, NoPaths, RATE, Subject, kinds, message, receive,
    receive_header, transmit, trials,
};

mod budget;
mod choice;
mod delay;
mod delivery;
mod eligible;
mod patience;
mod sizes;
mod tide;

type Net = harness::Net<Sird>;

const MTU: u32 = 1458;
const POLICIES: [Policy; 4] = [Policy::Srpt, Policy::RoundRobin, Policy::Weighted, Policy::Strict];
const SIGNALS: [NetworkSignal; 3] =
    [NetworkSignal::Ecn, NetworkSignal::Delay, NetworkSignal::PeakHopDelay];

pub(super) fn context(host: u32) -> HostContext {
    HostContext { priorities: 2, ..harness::context(host) }
}

/// At 100 Gbit/s, with a BDP of 100 KB.
pub(super) fn settings() -> Settings {
    Settings::new(&SirdParams::default(), &context(0))
}

impl Subject for Sird {
    fn context(host: u32) -> HostContext {
        context(host)
    }

    fn check_quiet(&self, hosts: &[Sird], case: &str) {
        assert_quiet(self, hosts, case);
    }
}

/// Checks that this one of `hosts` has no message and no credit left.
fn assert_quiet<P>(host: &CreditTransport<P>, hosts: &[CreditTransport<P>], case: &str) {
    assert!(host.inbox.is_quiet(), "{case}: a receiver has outstanding credit");
    assert!(host.outbox.is_quiet(), "{case}: a sender has a message left");
    assert!(host.control.is_empty(), "{case}");
    for source in &host.inbox.sources {
        let sender = &hosts[source.host as usize].outbox;
        let left = sender.in_hand(host.host.host, source.granted_bytes);
        assert_eq!(left, 0, "{case}: host {} has credit left", source.host);
    }
}

/// The next data packet of a host, skipping a request for credit.
fn next_data(host: &mut Sird, now: Time) -> Option<Data> {
    while let Some((_, body)) = transmit(host, now) {
        if let Some(Header::Data(data)) = Header::read(&body) {
            return Some(data);
        }
    }
    None
}

/// Credit for any message.
fn credit(granted: u64) -> Header {
    Header::Credit(Credit { granted, ..Credit::default() })
}
