//! Requests for missing packets, their timing, and acknowledgements.

use super::*;
use crate::kit::step::MOST_WAITING;

/// A host with a message of 100 packets to host 1.
fn sending() -> Homa {
    let mut host = host(&two_at_a_time());
    host.submit(Time::ZERO, message(0, 1, 100 * MTU as u64), &NoPaths);
    host
}

fn resend(offset_packets: u64, missing: u64, stalled: bool) -> Header {
    let offset = offset_packets * MTU as u64;
    Header::Resend(Resend { stalled, offset, missing, ..Resend::default() })
}

/// Packets that a host requests again, with the host that it requests them from.
fn asks(host: &mut Homa, now: Time) -> Vec<(u32, u64, u64)> {
    let ask = |(dst, _, header): (u32, u8, Header)| match header {
        Header::Resend(resend) => Some((dst, resend.offset / MTU as u64, resend.missing)),
        _ => None,
    };
    all_sent(host, now).into_iter().filter_map(ask).collect()
}

#[test]
fn retransmission_leaves_first_at_the_top_level() {
    let (mut host, sent) = (sending(), Time::us(5));
    assert_eq!(data(&mut host, sent).len(), 70);
    let later = sent + TIMEOUT;
    assert_eq!(receive_header(&mut host, later, 1, &resend(3, 0b101, true)), None);
    assert_eq!(data(&mut host, later), [(1, 0, 3), (1, 0, 5)]);
}

#[test]
fn sender_with_packets_on_the_way_is_busy() {
    let half = Span::ps(TIMEOUT.as_ps() / 2);
    for (after, busy) in [(Span::us(1), true), (half - Span::ps(1), true), (half, false)] {
        let (mut host, sent) = (sending(), Time::us(5));
        data(&mut host, sent);
        let reply = receive_header(&mut host, sent + after, 1, &resend(0, 1, true));
        assert_eq!(matches!(reply, Some(Header::Busy(_))), busy, "{after} later");
        assert_eq!(data(&mut host, sent + after).is_empty(), busy, "{after} later");
    }
    // Waiting for shorter messages is not a loss.
    let mut host = sending();
    let reply = receive_header(&mut host, Time::ms(9), 1, &resend(0, 0b11, true));
    assert!(matches!(reply, Some(Header::Busy(_))), "{reply:?}");
}

#[test]
fn request_for_a_packet_allows_it() {
    let (mut host, sent) = (sending(), Time::us(5));
    data(&mut host, sent);
    // The grants for packets 70 to 72 and packet 69 itself were lost.
    receive_header(&mut host, sent + TIMEOUT, 1, &resend(69, 0b1111, true));
    let packets: Vec<_> = data(&mut host, sent + TIMEOUT).iter().map(|&(.., at)| at).collect();
    assert_eq!(packets, [69, 70, 71, 72]);
    // But not beyond its end, whatever is requested.
    for start in [99, 100, u64::MAX / MTU as u64] {
        receive_header(&mut host, sent + TIMEOUT, 1, &resend(start, u64::MAX, false));
    }
    assert_eq!(data(&mut host, sent + TIMEOUT).len(), 27);
}

#[test]
fn receiver_requests_after_doubling_timeouts() {
    let (mut host, start) = (host(&two_at_a_time()), Time::us(1));
    receive(&mut host, start, 1, 3, 0);
    assert_eq!(grants(&mut host, start + Span::us(1)).len(), 2);
    let mut requested = Vec::new();
    for ms in 0..60 {
        let now = Time::ms(ms) + Span::us(2);
        requested.extend(asks(&mut host, now).iter().map(|&ask| (ms, ask)));
    }
    assert_eq!(requested, [5, 15, 35].map(|ms| (ms, (1, 1, 0b11))));
    let again = Time::ms(60);
    receive(&mut host, again, 1, 3, 2);
    assert_eq!(asks(&mut host, again + TIMEOUT), [(1, 1, 0b1)], "the backoff restarts");
}

#[test]
fn a_busy_sender_is_not_given_up() {
    let (mut host, start) = (host(&two_at_a_time()), Time::us(1));
    receive(&mut host, start, 1, 100, 0);
    let busy = Header::Busy(super::super::header::Busy { lane: 0, generation: 0, message: FORGED });
    let mut times = 0;
    for ms in 1..50 {
        let now = Time::ms(ms) + Span::us(2);
        if !asks(&mut host, now).is_empty() {
            times += 1;
            receive_header(&mut host, now, 1, &busy);
        }
    }
    assert_eq!(times, 49 / 5, "every timeout, no less often");
    assert_eq!(host.inbox.schedule.active(), 1);
}

#[test]
fn sender_without_response_requests_an_ack() {
    let (mut host, sent) = (sending(), Time::us(5));
    assert_eq!(data(&mut host, sent).len(), 70);
    let quiet = |host: &mut Homa, now| {
        let requested = |(.., header): &(u32, u8, Header)| match header {
            Header::NeedAck(requested) => Some((requested.repeated, requested.sent / MTU as u64)),
            _ => None,
        };
        all_sent(host, now).iter().filter_map(requested).collect::<Vec<_>>()
    };
    assert_eq!(quiet(&mut host, (sent + TIMEOUT).before(Span::ps(1))), []);
    assert_eq!(quiet(&mut host, sent + TIMEOUT), [(true, 70)]);
    // Its receiver has no state and requests all of the message.
    let ours = need_ack(&mut host, sent + TIMEOUT.times(4));
    let mut receiver = super::host(&two_at_a_time());
    let now = Time::ms(30);
    assert_eq!(receive_header(&mut receiver, now, 1, &ours), None);
    assert_eq!(asks(&mut receiver, now), [], "packets may be in flight");
    assert_eq!(asks(&mut receiver, now + TIMEOUT), [(1, 0, u64::MAX), (1, 64, 0b111111)]);
}

/// The next request for an acknowledgement.
fn need_ack(host: &mut Homa, now: Time) -> Header {
    let asks = |&(.., header): &(u32, u8, Header)| matches!(header, Header::NeedAck(_));
    all_sent(host, now).into_iter().find(asks).unwrap().2
}

#[test]
fn short_messages_acks_in_data_batch_or_delayed() {
    let mut host = host(&two_at_a_time());
    let short = |lane: u32| {
        let data = Data { lane, message: FORGED, unscheduled: 1, size: 9, ..Data::default() };
        Header::Data(data)
    };
    let start = Time::us(1);
    assert_eq!(hand(&mut host, start, 1, &short(0), 9), None);
    assert_eq!(hand(&mut host, start, 2, &short(0), 9), None);
    // One acknowledgement leaves in a packet to its sender, and to no other host.
    for dst in [3, 1] {
        host.submit(start, message(dst, dst, 5), &NoPaths);
    }
    let acked: Vec<_> = all_sent(&mut host, start)
        .into_iter()
        .map(|(dst, _, header)| match header {
            Header::Data(data) => (dst, data.acknowledges, data.acked),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(acked, [(3, false, 0), (1, true, pair(0, 0))]);
    // The other follows after a delay.
    let acks = |host: &mut Homa, now| {
        let ack = |(dst, _, header)| match header {
            Header::Ack(ack) => Some((dst, ack.messages().collect::<Vec<_>>())),
            _ => None,
        };
        all_sent(host, now).into_iter().filter_map(ack).collect::<Vec<_>>()
    };
    let late = start + ACK_DELAY;
    assert_eq!(acks(&mut host, late.before(Span::ps(1))), []);
    assert_eq!(acks(&mut host, late), [(2, alloc::vec![pair(0, 0)])]);
    // Many at once; and one for a granted message, with some of the others.
    let replies: Vec<_> = (1..=16).filter_map(|l| hand(&mut host, late, 1, &short(l), 9)).collect();
    let first = |ack: &Header| matches!(ack, Header::Ack(ack) if ack.messages().count() == 5);
    assert!(replies.len() == 1 && first(&replies[0]), "{replies:?}");
    receive(&mut host, late, 5, 2, 0);
    let reply = receive(&mut host, late, 5, 2, 1);
    assert_eq!(reply, Some(Header::Ack(Ack::of(FORGED, [0, NONE, NONE, NONE, NONE]))));
    // A duplicate means that the acknowledgement was lost.
    assert_eq!(receive(&mut host, late, 5, 2, 1), reply);
}

const NONE: u64 = u64::MAX;

#[test]
fn sender_with_too_many_requests_is_busy() {
    let (mut host, sent) = (sending(), Time::us(5));
    data(&mut host, sent);
    let later = sent + TIMEOUT;
    let answers = (0..300).map(|_| receive_header(&mut host, later, 1, &resend(3, 1, false)));
    let busy: Vec<_> = answers.map(|answer| matches!(answer, Some(Header::Busy(_)))).collect();
    // 256 requests can wait.
    assert!(busy.iter().enumerate().all(|(at, &busy)| busy == (at >= 256)), "{busy:?}");
    assert_eq!(data(&mut host, later).len(), 256);
}

#[test]
fn thousands_of_holes_are_requested_up_to_a_bound() {
    let mut host = host(&HomaParams::default());
    let size = 60_000 * MTU as u64;
    for lane in 0..4_096 {
        let offset = size - MTU as u64;
        let data = Data { lane, message: FORGED, size, offset, ..Data::default() };
        hand(&mut host, Time::us(1), 1, &Header::Data(data), MTU);
    }
    for ms in 1..1_000 {
        host.on_deadline(Time::ms(ms), &mut Checking::default());
    }
    let waiting = host.control.len();
    assert!((MOST_WAITING..MOST_WAITING + 32).contains(&waiting), "{waiting}");
}
