//! Tokens and the data that they allow, by hand-made packets.

use super::super::header::{Ack, Data, Grant, Notification, Request, Token};
use super::*;

fn notification(lane: u32, packets: u64) -> Header {
    let size = full_packets(packets);
    Header::Notification(Notification {
        connection: lane,
        lane,
        message: lane,
        size,
        ..Notification::default()
    })
}

fn tokens(sent: &[(Time, u32, Header, u8)]) -> Vec<(Time, u32, Token)> {
    let token = |&(at, dst, header, _): &(Time, u32, Header, u8)| match header {
        Header::Token(token) => Some((at, dst, token)),
        _ => None,
    };
    sent.iter().filter_map(token).collect()
}

/// A receiver at the start of the data phase of epoch 1, in which each of these sources has its
/// number of channels and a message of its number of packets.
fn matched(params: &DcpimParams, sources: &[(u32, u32, u64)]) -> Bench {
    let mut bench = Bench::with(params);
    for &(src, _, packets) in sources {
        bench.receive(Time::us(1), src, notification(0, packets));
    }
    bench.sent(round(1, 1));
    for &(src, channels, packets) in sources {
        let remaining = packets as u32;
        let grant = Grant { message: 0, epoch: 1, round: 1, channels, prompt: 0, remaining };
        bench.receive(round(1, 1) + Span::us(5), src, Header::Grant(grant));
    }
    bench.sent_until(round(1, 2), round(2, 1) - Span::ps(1));
    bench
}

/// The data packet that uses a token.
fn data(lane: u32, packet: u64, packets: u64, token: u32) -> Header {
    Header::Data(Data {
        connection: lane,
        lane,
        message: lane,
        token,
        size: full_packets(packets),
        offset: full_packets(packet),
        ..Data::default()
    })
}

#[test]
fn token_interval_follows_the_channel_share() {
    let mut bench = matched(&DcpimParams::default(), &[(1, 1, 500), (2, 3, 400)]);
    let sent = tokens(&bench.sent_until(round(2, 1), round(2, 1) + PACKET.times(12)));
    let of = |src| sent.iter().filter(move |token| token.1 == src).collect::<Vec<_>>();
    let (slow, fast) = (of(1), of(2));
    assert_eq!((slow.len(), fast.len()), (4, 10));
    for (gap, all) in [(4, &slow), (0, &fast)] {
        let gap = if gap > 0 { PACKET.times(gap) } else { Span::ps(123_200 * 4 / 3) };
        assert!(all.windows(2).all(|two| two[1].0 - two[0].0 == gap));
    }
    // Labels by the size of the shortest message, each as wide as its channels.
    assert_eq!((fast[0].2.label, slow[0].2.label), (2, 5));
    let packets: Vec<u64> = fast.iter().map(|token| token.2.packet).collect();
    assert_eq!(packets, (0..10).collect::<Vec<_>>());
    let calendar = settings().calendar;
    let end = round(2, 1) + calendar.phase;
    assert!(sent.iter().all(|token| token.2.expires == end + calendar.grace));
    assert_eq!(fast[3].2.remaining, 400);
}

#[test]
fn outstanding_tokens_are_limited_until_a_timeout() {
    let mut bench = matched(&DcpimParams::default(), &[(1, 2, 500)]);
    let sent = tokens(&bench.sent_until(round(2, 1), round(2, 1) + Span::us(20)));
    // Half of 49, plus the one that exceeds it.
    let last = round(2, 1) + PACKET.times(2 * 24);
    let before: Vec<_> = sent.iter().filter(|token| token.0 <= last).collect();
    assert_eq!(before.len(), 25);
    let timeout = PACKET.times(49).scale(1.1);
    assert_eq!(sent[25].0, last + timeout);
    assert_eq!(sent[26].0, last + timeout + PACKET.times(2));
    assert_eq!(sent[27].0, sent[26].0 + timeout);
    // Data for a token opens the window.
    let mut bench = matched(&DcpimParams::default(), &[(1, 2, 500)]);
    bench.sent_until(round(2, 1), last);
    let now = last + Span::us(1);
    bench.receive_with(now, 1, data(0, 3, 500, 3), MTU);
    let sent = tokens(&bench.sent_until(now, now + Span::us(3)));
    assert_eq!(sent.len(), 4, "four are answered");
    assert_eq!(sent[0].0, now);
}

#[test]
fn missing_packets_get_tokens_after_the_last() {
    let mut bench = matched(&DcpimParams::default(), &[(1, 4, 60)]);
    let mut now = round(2, 1);
    let mut seen = Vec::new();
    while seen.len() < 60 {
        for (_, _, token) in tokens(&bench.sent_until(now, now)) {
            seen.push(token.packet);
            if ![5, 41].contains(&token.packet) {
                bench.receive_with(now, 1, data(0, token.packet, 60, token.token), MTU);
            }
        }
        now += PACKET;
    }
    let last = now - PACKET;
    assert_eq!(seen, (0..60).collect::<Vec<_>>());
    let again = tokens(&bench.sent_until(last, last + Span::us(7)));
    let timeout = PACKET.times(49);
    let expected = [(5, last + timeout), (41, last + timeout + PACKET)];
    assert_eq!(again.iter().map(|t| (t.2.packet, t.0)).collect::<Vec<_>>(), expected);
    // And once more.
    let again = tokens(&bench.sent_until(last + Span::us(7), last + timeout.times(2) + PACKET));
    assert_eq!(again[0].2.packet, 5);
}

#[test]
fn sender_orders_by_label_then_missing_packets() {
    let mut bench = Bench::new();
    for (dst, packets) in [(1, 100), (2, 100), (3, 100), (4, 3)] {
        bench.submit(Time::ZERO, dst, full_packets(packets));
    }
    bench.host.control.clear();
    let token = |number, connection, label, remaining, expires| {
        let token = Token {
            connection,
            label,
            remaining,
            packet: 7,
            token: number,
            expires,
            ..Token::default()
        };
        Header::Token(token)
    };
    let now = Time::us(1);
    // Unsent packets of a short message need no token.
    let packet = Token { connection: 3, packet: 2, expires: Time::us(9), ..Token::default() };
    bench.receive(now, 4, Header::Token(packet));
    bench.receive(now, 1, token(5, 0, 3, 10, Time::us(9)));
    bench.receive(now, 2, token(5, 1, 2, 90, Time::us(9)));
    bench.receive(now, 3, token(5, 2, 2, 80, Time::us(9)));
    bench.receive(now, 3, token(6, 2, 2, 80, Time::us(2)));
    let sent = bench.sent_until(Time::us(2) + Span::ps(1), Time::us(2) + Span::ps(1));
    let order: Vec<_> = sent
        .iter()
        .map(|(_, dst, header, priority)| match header {
            Header::Data(data) => (*dst, Some(data.offset / MTU as u64), data.token, *priority),
            _ => (*dst, None, 0, *priority),
        })
        .collect();
    let short = [(4, None, 0, 0), (4, Some(0), 0, 1), (4, Some(1), 1, 1), (4, Some(2), 2, 1)];
    assert_eq!(order[..4], short);
    // The expired token is not used.
    assert_eq!(order[4..], [(3, Some(7), 5, 7), (2, Some(7), 5, 7), (1, Some(7), 5, 7)]);
    assert_eq!(bench.host.outbox.tokens(), 0);
}

#[test]
fn tokens_for_unknown_packets_send_nothing() {
    let mut bench = Bench::new();
    bench.submit(Time::ZERO, 1, full_packets(100));
    bench.sent(Time::ZERO);
    let good = Token { packet: 3, expires: Time::us(9), ..Token::default() };
    let cases = [
        (1, Token { packet: 100, ..good }),
        (1, Token { packet: u64::MAX, ..good }),
        (1, Token { lane: 1, ..good }),
        (1, Token { generation: 1, ..good }),
        (1, Token { connection: 9, ..good }),
        (2, good),
    ];
    for (src, token) in cases {
        bench.receive(Time::us(1), src, Header::Token(token));
        assert!(bench.sent(Time::us(1)).is_empty(), "{token:?}");
    }
    bench.receive(Time::us(1), 1, Header::Token(good));
    assert_eq!(bench.sent(Time::us(1)).len(), 1);
}

#[test]
fn duplicated_tokens_yield_one_packet() {
    for first in [0, 3, 100, u32::MAX - 1] {
        let mut bench = Bench::new();
        bench.submit(Time::ZERO, 1, full_packets(1000));
        bench.sent(Time::ZERO);
        let mut sent = |ahead: u32| {
            let token = first.wrapping_add(ahead);
            let token = Token { token, packet: 3, expires: Time::us(9), ..Token::default() };
            bench.receive(Time::us(1), 1, Header::Token(token));
            bench.sent(Time::us(1)).len()
        };
        // Repeated, overtaken, and repeated after later ones; a new token for a packet that has
        // been sent replaces a lost packet.
        let numbers = [0, 0, 1, 5, 3, 3, 0, 1, 132, 5, 6, 6, 131, 132, 400, 399, 400];
        let sends = [1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0];
        assert_eq!(numbers.map(&mut sent), sends, "from {first} on");
    }
}

#[test]
fn short_messages_are_kept_until_acknowledged() {
    let mut bench = Bench::new();
    bench.submit(Time::ZERO, 1, full_packets(49));
    bench.submit(Time::ZERO, 2, full_packets(50));
    let sent = bench.sent_until(Time::ZERO, Time::ZERO);
    let data = sent.iter().filter(|sent| matches!(sent.2, Header::Data(_))).count();
    // A notification each; the longer one waits for tokens.
    assert_eq!((data, sent.len()), (49, 51));
    assert!(sent.iter().all(|sent| (sent.3 == 1) == matches!(sent.2, Header::Data(_))));
    assert_eq!(bench.host.backlog_bytes(), full_packets(50));
    // Without a response both are announced again, at growing intervals.
    let again = |bench: &mut Bench, from, until| {
        let sent = bench.sent_until(from, until);
        sent.into_iter().map(|sent| (sent.0, sent.1)).collect::<Vec<_>>()
    };
    let (first, second) = (Time::ms(1), Time::ms(3));
    assert_eq!(again(&mut bench, Time::ZERO, Time::ms(2)), [(first, 1), (first, 2)]);
    assert_eq!(again(&mut bench, Time::ms(2), Time::ms(4)), [(second, 1), (second, 2)]);
    // One has arrived and is not announced again.
    bench.app.messages[0].completed = Some(Time::ms(4));
    bench.receive(Time::ms(4), 1, Header::Ack(Ack { connection: 0, ..Ack::default() }));
    assert!(bench.app.messages[0].acked.is_some());
    assert_eq!(again(&mut bench, Time::ms(4), Time::ms(8)), [(Time::ms(7), 2)]);
}

#[test]
fn lost_short_packets_compete_after_the_timeout() {
    let mut bench = Bench::new();
    let now = round(1, 1) + Span::us(1);
    bench.receive(now, 1, notification(0, 10));
    for packet in (0..10).filter(|packet| *packet != 4) {
        bench.receive_with(now + Span::ns(100), 1, data(0, packet, 10, packet as u32), MTU);
    }
    let due = now + PACKET.times(10 + 49);
    assert_eq!(bench.host.deadline(), due);
    let next = settings().calendar.next_stage(due);
    let sent = bench.sent_until(now, next);
    let [(at, 1, Header::Request(Request { channels: 1, remaining: 1, .. }), 0)] = sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!(at, next);
    let (epoch, number) = (1, 1 + (next - round(1, 1)).as_ps() / 6_803_680);
    let grant =
        Grant { message: 0, epoch, round: number as u32, channels: 1, prompt: 1, remaining: 1 };
    bench.receive(next + Span::us(5), 1, Header::Grant(grant));
    let sent = tokens(&bench.sent_until(next, next + Span::us(14)));
    assert_eq!((sent[0].2.packet, sent[0].2.token), (4, 10));
    let done = bench.receive_with(next + Span::us(14), 1, data(0, 4, 10, 10), MTU);
    assert!(matches!(done, Some(Header::Ack(_))));
    assert_eq!(bench.app.messages.len(), 0);
}

#[test]
fn short_messages_suppress_tokens() {
    for hold in [true, false] {
        let params = DcpimParams { hold, ..DcpimParams::default() };
        let mut bench = matched(&params, &[(1, 4, 500)]);
        bench.sent(round(2, 1));
        bench.receive(round(2, 1), 2, notification(0, 10));
        let sent = tokens(&bench.sent_until(round(2, 1), round(2, 1) + PACKET.times(20)));
        let expected = if hold { 11 } else { 20 };
        assert_eq!(sent.len(), expected);
    }
}
