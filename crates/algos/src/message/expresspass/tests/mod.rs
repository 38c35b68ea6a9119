//! Tests of ExpressPass endpoints, alone and in a network.

use alloc::vec::Vec;

use tidegate_core::{Frame, Rate};

use super::header::{Credit, Data, Done, Nack, Request, Stop};
use super::*;
use crate::harness::{
    self, Checking, FORGED, Faults, NoPaths, RATE, Subject, all_sent, kinds, message,
    receive_header, receive_payload, transmit, trials,
};

mod credits;
mod delivery;
mod silence;

type Net = harness::Net<ExpressPass>;

const MTU: u32 = 1458;

fn context_at(host: u32, nic_rate: Rate) -> HostContext {
    HostContext { nic_rate, spraying: false, ..harness::context(host) }
}

/// Credits of 84 bytes only.
pub(super) fn params() -> ExpressPassParams {
    ExpressPassParams { largest_credit: 84, ..ExpressPassParams::default() }
}

pub(super) fn settings_of(params: &ExpressPassParams) -> Settings {
    settings_at(params, RATE)
}

pub(super) fn settings_at(params: &ExpressPassParams, rate: Rate) -> Settings {
    Settings::new(params, &context_at(0, rate))
}

fn host(number: u32, params: &ExpressPassParams) -> ExpressPass {
    ExpressPass::new(params, &context_at(number, RATE))
}

/// Packets keep their order, without faults.
const NO_FAULTS: Faults = Faults { jitter: Span::ZERO, ..harness::NO_FAULTS };

impl Subject for ExpressPass {
    const IN_ORDER: bool = true;

    fn context(host: u32) -> HostContext {
        context_at(host, RATE)
    }

    fn check_packet(frame: &Frame, header: &Header, payload: u32) {
        let is_credit = matches!(header, Header::Credit(_));
        let expected = match payload {
            0 if is_credit => 84..=92,
            payload => (payload + 80).max(84)..=(payload + 80).max(84),
        };
        assert!(expected.contains(&(frame.wire_bytes as u32)), "{header:?} with {payload} B");
        assert_eq!(frame.flags & frame_flag::CREDIT != 0, is_credit);
    }

    fn check_quiet(&self, _hosts: &[ExpressPass], case: &str) {
        assert!(self.inbox.is_quiet(), "{case}: a receiver has a message left");
        assert!(self.outbox.is_quiet(), "{case}: a sender has a message left");
        assert!(self.leaving.is_empty(), "{case}");
    }
}

/// The next packet of a host, if it may send one at `now`.
fn next(host: &mut ExpressPass, now: Time) -> Option<Header> {
    transmit(host, now).map(|(_, body)| Header::read(&body).unwrap())
}

/// Everything that it sends at `now`.
fn all(host: &mut ExpressPass, now: Time) -> Vec<Header> {
    all_sent(host, now).into_iter().map(|(_, header)| header).collect()
}
