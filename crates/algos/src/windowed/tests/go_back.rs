//! Go-back-N: packets that receivers drop and request, and retransmissions of senders.

use alloc::vec::Vec;

use super::super::header::{Ack, Data, Header};
use super::{OnePath, Windowed, WindowedParams, host_under, receive};
use crate::cc::swift::Swift;
use crate::harness::{message, transmit};
use tidegate_core::{
    Body, ConnectionPolicy, Frame, RecoveryRule, Reply, Span, Time, Transport, wire::Carried,
};

fn host(number: u32) -> Windowed<Swift> {
    let mut params = WindowedParams::default();
    params.connection.recovery = RecoveryRule::GoBackN;
    host_under(&params, number, ConnectionPolicy::PerPair, Span::ZERO)
}

/// The receiver's response to packet `seq` at `us`: its cumulative number, and whether the packet
/// was refused.
fn answer(host: &mut Windowed<Swift>, us: u64, seq: u64) -> Option<(u64, bool)> {
    let mut body = Body { payload_bytes: 1000, ..Body::default() };
    Header::Data(Data { seq, connection: 5, ..Data::default() }).write(&mut body);
    let reply = receive(host, Time::us(us), &mut Frame::default(), &mut body);
    let Some(Header::Ack(ack)) = Header::read(&body).filter(|_| reply != Reply::None) else {
        return None;
    };
    assert_eq!((ack.seq, ack.connection, ack.sack), (seq, 5, 0));
    Some((ack.cumulative, ack.refused))
}

#[test]
fn receiver_drops_early_packets_and_requests_missing() {
    let mut receiver = host(1);
    assert_eq!(answer(&mut receiver, 1, 0), Some((1, false)));
    assert_eq!(answer(&mut receiver, 2, 2), Some((1, true)), "immediately");
    assert_eq!(answer(&mut receiver, 3, 3), None, "once is enough");
    assert_eq!(answer(&mut receiver, 501, 4), None, "for 500 us");
    assert_eq!(answer(&mut receiver, 502, 5), Some((1, true)));
    assert_eq!(answer(&mut receiver, 503, 1), Some((2, false)), "later packets were not kept");
    assert_eq!(answer(&mut receiver, 504, 3), Some((2, true)), "another packet is missing");
    assert_eq!(answer(&mut receiver, 505, 0), Some((2, false)), "a duplicate is acknowledged");
}

#[test]
fn receiver_repeats_requests_at_the_interval() {
    let mut receiver = host(1);
    assert_eq!(answer(&mut receiver, 1, 0), Some((1, false)));
    for us in [2, 502, 1_002] {
        assert_eq!(answer(&mut receiver, us, 2), Some((1, true)), "{us}");
        assert_eq!(answer(&mut receiver, us + 1, 3), None, "{us}");
        assert_eq!(answer(&mut receiver, us + 499, 4), None, "{us}");
    }
}

/// A sender with ten packets in flight: the packets it sends next at `us` after each of these
/// responses, given by cumulative number and whether they refuse packet 9.
fn sends_after(answers: &[(u64, bool)]) -> Vec<(u64, bool)> {
    let mut sender = host(0);
    sender.submit(Time::ZERO, message(0, 1, 100 * 4096), &OnePath);
    let data = |body: &Body| match Header::read(body) {
        Some(Header::Data(data)) => data,
        other => panic!("{other:?}"),
    };
    let sent: Vec<Data> =
        (0..10).map(|_| data(&transmit(&mut sender, Time::ZERO).unwrap().1)).collect();
    let Data { connection, lane, message, .. } = sent[0];
    let mut next = Vec::new();
    for (i, &(cumulative, refused)) in answers.iter().enumerate() {
        let now = Time::us(10 + i as u64);
        let seq = if refused { 9 } else { cumulative - 1 };
        let ack = Ack { connection, lane, message, seq, cumulative, refused, ..Ack::default() };
        let mut body = Body { src: 1, ..Body::default() };
        Header::Ack(ack).write(&mut body);
        receive(&mut sender, now, &mut Frame::default(), &mut body);
        let Data { seq, retransmission, offset, .. } = data(&transmit(&mut sender, now).unwrap().1);
        assert_eq!(offset, seq * 4096);
        next.push((seq, retransmission));
    }
    next
}

#[test]
fn sender_retransmits_from_the_missing_packet() {
    let next = sends_after(&[(2, false), (4, true), (5, false), (6, false)]);
    assert_eq!(next, [(10, false), (4, true), (5, true), (6, true)]);
    // Packets acknowledged meanwhile are not retransmitted; after another request the sender starts
    // again.
    let next = sends_after(&[(4, true), (9, false), (9, true)]);
    assert_eq!(next, [(4, true), (9, true), (9, true)]);
    // The first packet.
    assert_eq!(sends_after(&[(0, true)]), [(0, true)]);
}

#[test]
fn old_refusal_changes_nothing() {
    let next = sends_after(&[(6, false), (4, true), (7, false)]);
    assert_eq!(next, [(10, false), (11, false), (12, false)]);
}
