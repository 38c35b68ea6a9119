//! Tests of Homa endpoints, alone and in a network.

use alloc::vec::Vec;

use tidegate_core::Frame;

use super::header::{Ack, Data, Grant, NeedAck, Resend};
use super::*;
use crate::harness::{
    self, Checking, FORGED, Faults, NO_FAULTS, NoPaths, RATE, Subject, kinds, message,
    receive_header, receive_payload, trials,
};
use crate::kit::words::pair;

mod choice;
mod delivery;
mod incast;
mod levels;
mod patience;

type Net = harness::Net<Homa>;

const MTU: u32 = 1442;
const TIMEOUT: Span = Span::ms(5);

fn context(host: u32) -> HostContext {
    HostContext { mtu: MTU, ..harness::context(host) }
}

fn fitted(params: HomaParams) -> Fitted {
    Fitted { params, curve: None }
}

/// Two active senders, on four of eight levels.
fn two_at_a_time() -> HomaParams {
    HomaParams { overcommitment: 2, scheduled_priorities: 4, ..HomaParams::default() }
}

fn host(params: &HomaParams) -> Homa {
    Homa::new(&fitted(params.clone()), &context(0))
}

impl Subject for Homa {
    fn context(host: u32) -> HostContext {
        context(host)
    }

    fn check_packet(frame: &Frame, header: &Header, payload: u32) {
        let expected = match header {
            Header::Data(data) if data.scheduled => (payload + 82).max(84),
            Header::Data(_) => payload + 96,
            Header::Grant(_) => 86,
            Header::Ack(ack) => 84 + 8 * (ack.messages().count() as u32).saturating_sub(2),
            _ => 84,
        };
        assert_eq!(frame.wire_bytes as u32, expected, "{header:?} with {payload} B");
    }

    fn check_quiet(&self, _hosts: &[Homa], case: &str) {
        assert!(self.inbox.is_quiet(), "{case}: a receiver has state left");
        assert!(self.outbox.is_quiet(), "{case}: a sender has a message left");
        assert!(self.control.is_empty(), "{case}");
    }
}

/// Everything that a host sends now: destination, priority and header.
fn all_sent(host: &mut Homa, now: Time) -> Vec<(u32, u8, Header)> {
    let sent = harness::all_sent(host, now).into_iter();
    sent.map(|(frame, header)| (frame.dst, frame.priority, header)).collect()
}

/// Grants that a host sends now: destination, level, and end in packets.
fn grants(host: &mut Homa, now: Time) -> Vec<(u32, u32, u64)> {
    let grant = |(dst, priority, header): (u32, u8, Header)| match header {
        Header::Grant(grant) => {
            assert_eq!(priority, 0, "control leaves first");
            Some((dst, grant.level, grant.granted.div_ceil(MTU as u64)))
        }
        _ => None,
    };
    all_sent(host, now).into_iter().filter_map(grant).collect()
}

/// Data that a host sends now: destination, priority and packet number.
fn data(host: &mut Homa, now: Time) -> Vec<(u32, u8, u64)> {
    let data = |(dst, priority, header): (u32, u8, Header)| match header {
        Header::Data(data) => Some((dst, priority, data.offset / MTU as u64)),
        _ => None,
    };
    all_sent(host, now).into_iter().filter_map(data).collect()
}

/// Passes a packet from host `src` with this payload to the host, and returns the response, if any.
fn hand(host: &mut Homa, now: Time, src: u32, header: &Header, payload: u32) -> Option<Header> {
    receive_payload(host, now, src, header, payload, &mut Checking::default())
}

/// A packet of the only message of a host, which has `packets` full packets.
fn packet_of(packets: u64, packet: u64) -> Header {
    let size = packets * MTU as u64;
    Header::Data(Data {
        message: FORGED,
        unscheduled: 1,
        size,
        offset: packet * MTU as u64,
        ..Data::default()
    })
}

/// Passes a packet of the message of host `src`, which has `packets` packets.
fn receive(host: &mut Homa, now: Time, src: u32, packets: u64, packet: u64) -> Option<Header> {
    hand(host, now, src, &packet_of(packets, packet), MTU)
}
