//! Packets that switches trim and return to their senders.

use alloc::vec::Vec;

use super::super::header::{Ack, Data, Header};
use super::{OnePath, Windowed, WindowedParams, host_under, receive};
use crate::cc::nscc::Nscc;
use crate::harness::{message, transmit};
use tidegate_core::{
    Body, ConnectionPolicy, Frame, RecoveryRule, Reply, Span, Time, Transport, wire::Carried,
};

fn host(recovery: RecoveryRule) -> Windowed<Nscc> {
    let mut params = WindowedParams::default();
    params.connection.recovery = recovery;
    let mut host = host_under(&params, 0, ConnectionPolicy::PerPair, Span::ZERO);
    host.submit(Time::ZERO, message(0, 1, 1_000 * 4096), &OnePath);
    host
}

fn sent(host: &mut Windowed<Nscc>, us: u64) -> Vec<(Frame, Body)> {
    core::iter::from_fn(|| transmit(host, Time::us(us))).collect()
}

fn numbers(packets: &[(Frame, Body)]) -> Vec<(u64, bool)> {
    let number = |(_, body): &(Frame, Body)| match Header::read(body) {
        Some(Header::Data(Data { seq, retransmission, .. })) => (seq, retransmission),
        other => panic!("{other:?}"),
    };
    packets.iter().map(number).collect()
}

fn send_back(host: &mut Windowed<Nscc>, us: u64, packet: &(Frame, Body)) {
    let (mut frame, mut body) = *packet;
    (frame.dst, frame.priority, body.payload_bytes) = (body.src, 0, 0);
    assert_eq!(receive(host, Time::us(us), &mut frame, &mut body), Reply::None);
}

#[test]
fn returned_packet_leaves_again() {
    let mut host = host(RecoveryRule::Trimmed);
    let first = sent(&mut host, 1);
    assert!(first.len() > 10, "{}", first.len());
    for packet in [6, 4, 4] {
        send_back(&mut host, 9, &first[packet]);
    }
    // A returned packet counts as a trimmed one: the window shrinks, until others arrive.
    assert_eq!(numbers(&sent(&mut host, 9)), []);
    let Some(Header::Data(data)) = Header::read(&first[0].1) else { panic!("data") };
    let Data { connection, lane, message, .. } = data;
    let ack = Ack { connection, lane, message, seq: 0, cumulative: 3, ..Ack::default() };
    let mut body = Body { src: 1, ..Body::default() };
    Header::Ack(ack).write(&mut body);
    receive(&mut host, Time::us(10), &mut Frame::default(), &mut body);
    let again = numbers(&sent(&mut host, 10));
    assert!(again.starts_with(&[(4, true), (6, true)]), "{again:?}");
    assert!(again[2..].iter().all(|&(_, resent)| !resent), "{again:?}");
}

#[test]
fn returned_packet_is_ignored_without_trimming() {
    let mut host = host(RecoveryRule::Selective);
    let first = sent(&mut host, 1);
    send_back(&mut host, 9, &first[4]);
    // Of another connection, and of one that does not exist.
    let mut other = first[4];
    let Some(Header::Data(data)) = Header::read(&other.1) else { panic!("data") };
    for header in [Data { lane: 9, ..data }, Data { connection: 9, ..data }] {
        Header::Data(header).write(&mut other.1);
        send_back(&mut host, 9, &other);
    }
    assert_eq!(sent(&mut host, 9).len(), 0);
}
