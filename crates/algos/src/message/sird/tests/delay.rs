//! Measurement of packet delay as the signal of congestion.

use super::super::header::{Ack, Request};
use super::*;

/// Bucket of a sender, in BDP, after packets of these sizes and delays at a host with the delay
/// signal.
fn bucket_after(packets: &[(u64, Span)], control: &[Header], held: Span) -> f64 {
    let params = SirdParams { network_signal: NetworkSignal::Delay, ..SirdParams::default() };
    let mut host = Sird::new(&params, &context(0));
    let mut receive = |at: Time, header: &Header, payload_bytes: u32, held: Span| {
        let mut body = Body { src: 1, payload_bytes, ..Body::default() };
        header.write(&mut body);
        // As a driver with host software delay does, to every packet.
        body.sent_at += held;
        receive(&mut host, at, &mut Frame::default(), &mut body, &mut Checking::default());
    };
    for number in 0..2_000 {
        let (bytes, took) = packets[number % packets.len()];
        let sent_at = Time::us(100 + number as u64);
        let (generation, message) = (number as u32, FORGED + number as u32);
        let full = Data { generation, message, size: bytes, sent_at, ..Data::default() };
        receive(sent_at + took, &Header::Data(full), bytes as u32, Span::ZERO);
        for header in control {
            receive(sent_at + took, header, 0, held);
        }
    }
    host.inbox.sources[0].bucket.bytes() / settings().bdp as f64
}

const FULL: u64 = MTU as u64;

#[test]
fn only_data_measures_delay() {
    let control = [
        credit(0),
        Header::Ack(Ack::default()),
        Header::Request(Request { generation: u32::MAX, ..Request::default() }),
    ];
    let at_once = [(FULL, Span::us(2))];
    for held in [Span::ZERO, Span::us(3)] {
        assert_eq!(bucket_after(&at_once, &control, held), 1.0, "held for {held}");
    }
    // Counter-check: late data has an effect besides them.
    let late = [(FULL, Span::us(2)), (FULL, Span::us(9))];
    assert!(bucket_after(&late, &control, Span::us(3)) < 0.9);
}

#[test]
fn short_packets_do_not_set_the_minimum_delay() {
    // 7 us apart by their length alone, at some rate; the threshold is 6 us.
    let by_length = [(4, Span::us(1)), (FULL, Span::us(8))];
    assert_eq!(bucket_after(&by_length, &[], Span::ZERO), 1.0);
    // Short packets with a delay that would be too large for full ones have an effect.
    let late = [(FULL, Span::us(8)), (4, Span::us(15))];
    assert!(bucket_after(&late, &[], Span::ZERO) < 0.9);
    // Without full packets the minimum is unknown.
    assert_eq!(bucket_after(&[(4, Span::us(1)), (4, Span::us(9))], &[], Span::ZERO), 1.0);
}
