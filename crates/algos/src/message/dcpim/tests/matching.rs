//! Rounds: requests, grants, acceptances and rejections, by hand-made packets.

use super::super::header::{Accept, Grant, Notification, Reject, Request};
use super::*;

/// Host `src` announces a message, in a lane of its own.
fn notify(bench: &mut Bench, now: Time, src: u32, lane: u32, packets: u64) {
    let size = full_packets(packets);
    let notification =
        Notification { connection: lane, lane, message: lane, size, ..Notification::default() };
    assert_eq!(bench.receive(now, src, Header::Notification(notification)), None);
}

fn requests(sent: &[(u32, Header)]) -> Vec<(u32, Request)> {
    let request = |&(dst, header): &(u32, Header)| match header {
        Header::Request(request) => Some((dst, request)),
        _ => None,
    };
    let mut all: Vec<_> = sent.iter().filter_map(request).collect();
    all.sort_by_key(|(dst, _)| *dst);
    all
}

fn accepts(sent: &[(u32, Header)]) -> Vec<(u32, Accept)> {
    let accept = |&(dst, header): &(u32, Header)| match header {
        Header::Accept(accept) => Some((dst, accept)),
        _ => None,
    };
    sent.iter().filter_map(accept).collect()
}

fn grants(sent: &[(u32, Header)]) -> Vec<(u32, Grant)> {
    let grant = |&(dst, header): &(u32, Header)| match header {
        Header::Grant(grant) => Some((dst, grant)),
        _ => None,
    };
    sent.iter().filter_map(grant).collect()
}

fn grant(epoch: u64, round: u32, channels: u32, prompt: u32, remaining: u32) -> Header {
    Header::Grant(Grant { message: 0, epoch, round, channels, prompt, remaining })
}

fn request(epoch: u64, round: u32, channels: u32, remaining: u32) -> Header {
    Header::Request(Request { message: 0, epoch, round, channels, prompt: channels, remaining })
}

/// A sender with a long message to each of these hosts.
fn sender(params: &DcpimParams, dsts: impl Iterator<Item = u32>) -> Bench {
    let mut bench = Bench::with(params);
    dsts.for_each(|dst| {
        bench.submit(Time::ZERO, dst, full_packets(1_000));
    });
    bench.sent(Time::ZERO);
    bench
}

#[test]
fn a_host_with_nothing_to_do_has_no_events() {
    let mut bench = Bench::new();
    assert_eq!(bench.host.deadline(), Time::NEVER);
    let now = round(3, 2) + Span::us(1);
    notify(&mut bench, now, 1, 0, 100);
    assert_eq!(bench.host.deadline(), round(3, 3), "it joins at the next round");
    assert!(bench.sent(round(3, 3) - Span::ps(1)).is_empty());
    assert_eq!(requests(&bench.sent(round(3, 3))).len(), 1);
}

#[test]
fn requests_cover_the_shortest_message() {
    // A channel carries 55 packets of 123.2 ns in a phase of 27.2 us.
    assert_eq!(settings().calendar.quota, 55);
    for (packets, channels) in [(50, 1), (55, 1), (56, 2), (165, 3), (166, 4), (10_000, 4)] {
        let mut bench = Bench::new();
        notify(&mut bench, Time::us(1), 1, 0, 20_000);
        notify(&mut bench, Time::us(1), 1, 1, packets);
        notify(&mut bench, Time::us(1), 2, 0, 100);
        let sent = requests(&bench.sent(round(0, 2)));
        let to = |lane: u32, channels, remaining| Request {
            message: FORGED | lane,
            epoch: 0,
            round: 2,
            channels,
            prompt: channels,
            remaining,
        };
        assert_eq!(sent, [(1, to(1, channels, packets as u32)), (2, to(0, 2, 100))], "{packets}");
    }
}

#[test]
fn grants_to_the_shortest_first_then_at_random() {
    let mut firsts = [0; 4];
    for seed in 0..400 {
        for number in [1, 2] {
            let mut bench = sender(&DcpimParams::default(), 1..4);
            bench.host.draws = Rng::stream(seed, Domain::Transport, 0);
            let now = round(1, number) + Span::us(1);
            for (src, remaining) in [(1, 300), (2, 100), (3, 200)] {
                bench.receive(now, src, request(1, number as u32, 3, remaining));
            }
            let half = settings().calendar.half(round(1, number));
            assert!(bench.sent(half - Span::ps(1)).is_empty());
            let sent = grants(&bench.sent(half));
            let given: Vec<_> = sent.iter().map(|(dst, grant)| (*dst, grant.channels)).collect();
            if number == 1 {
                // Three for the shortest, the remaining one for the next; the last gets none.
                assert_eq!(given[..2], [(2, 3), (3, 1)]);
                assert!(given[2..].iter().all(|&(_, channels)| channels == 0), "{given:?}");
            } else {
                firsts[given[0].0 as usize] += 1;
            }
        }
    }
    // A third of 400 each; four standard deviations are 38.
    assert!(firsts[1..].iter().all(|&n: &i32| (n - 133).abs() < 38), "{firsts:?}");
}

#[test]
fn late_or_duplicate_requests_are_dropped() {
    let calendar = settings().calendar;
    let (begin, half) = (round(1, 2), calendar.half(round(1, 2)));
    let cases = [
        ("in time", begin + Span::us(1), request(1, 2, 1, 9), 1),
        ("the round before", begin + Span::us(1), request(1, 1, 1, 9), 0),
        ("the round after", begin + Span::us(1), request(1, 3, 1, 9), 0),
        ("the epoch before", begin + Span::us(1), request(0, 2, 1, 9), 0),
        ("too late in its round", half + Span::ps(1), request(1, 2, 1, 9), 0),
    ];
    for (case, at, header, expected) in cases {
        let mut bench = sender(&DcpimParams::default(), 1..2);
        bench.receive(at, 1, header);
        bench.receive(at, 1, header);
        let sent = bench.sent_until(at, round(1, 4));
        let granted = sent.iter().filter(|sent| matches!(sent.2, Header::Grant(_))).count();
        assert_eq!(granted, expected, "{case}");
    }
    // From a host to which it sends nothing.
    let mut bench = sender(&DcpimParams::default(), 1..2);
    bench.receive(begin + Span::us(1), 2, request(1, 2, 1, 9));
    assert!(grants(&bench.sent(half)).is_empty());
}

#[test]
fn sender_without_channels_responds_at_intervals() {
    let mut bench = sender(&DcpimParams::default(), 1..3);
    let mut responses = 0;
    for epoch in 40..80 {
        let now = round(epoch, 1) + Span::us(1);
        bench.receive(now, 1, request(epoch, 1, 4, 100));
        bench.receive(now, 2, request(epoch, 1, 4, 200));
        let sent = grants(&bench.sent(settings().calendar.half(round(epoch, 1))));
        assert_eq!((sent[0].0, sent[0].1.channels), (1, 4));
        responses +=
            sent[1..].iter().filter(|(dst, grant)| (*dst, grant.channels) == (2, 0)).count();
    }
    // 40 epochs are 1.09 ms: twice in half a timeout.
    assert!((2..=3).contains(&responses), "{responses}");
}

#[test]
fn grants_are_accepted_by_size_up_to_all_channels() {
    let mut bench = Bench::new();
    for src in 1..4 {
        notify(&mut bench, Time::us(1), src, 0, 500);
    }
    bench.sent(round(1, 1));
    let now = round(1, 1) + Span::us(5);
    for (src, remaining) in [(1, 300), (2, 100), (3, 200)] {
        bench.receive(now, src, grant(1, 1, 3, 3, remaining));
        // A duplicate does not count.
        bench.receive(now, src, grant(1, 1, 3, 3, remaining));
    }
    let sent = bench.sent(round(1, 2));
    let accept =
        |channels| Accept { message: FORGED, epoch: 1, round: 1, channels, prompt: channels };
    assert_eq!(accepts(&sent), [(2, accept(3)), (3, accept(1))]);
    // All its channels are taken: it sends no more requests.
    assert!(requests(&sent).is_empty());
    // Late, of the previous round; and of a round without a request.
    bench.receive(round(1, 2) + Span::us(1), 1, grant(1, 1, 3, 3, 50));
    assert!(accepts(&bench.sent(round(1, 3))).is_empty());
}

#[test]
fn prompt_channels_send_before_their_phase() {
    for prompt in [0, 1] {
        let mut bench = Bench::new();
        notify(&mut bench, Time::us(1), 1, 0, 5_000);
        bench.sent(round(1, 1));
        bench.receive(round(1, 1) + Span::us(5), 1, grant(1, 1, 2, prompt, 5_000));
        let sent = bench.sent_until(round(1, 2), round(2, 1) + PACKET.times(2));
        let tokens: Vec<_> = sent
            .iter()
            .filter_map(|&(at, _, header, _)| match header {
                Header::Token(token) => Some((at, token.label)),
                _ => None,
            })
            .collect();
        let (early, late): (Vec<_>, Vec<_>) =
            tokens.into_iter().partition(|&(at, _)| at < round(2, 1));
        assert_eq!(early.is_empty(), prompt == 0);
        if prompt == 1 {
            // One channel of four: every fourth packet, behind those of matched channels.
            assert_eq!(early[0], (round(1, 2), 6));
            assert_eq!(early[1].0 - early[0].0, PACKET.times(4));
        }
        // Two channels of four.
        assert_eq!(late[0], (round(2, 1), 2));
        assert_eq!(late[1].0 - late[0].0, PACKET.times(2));
    }
}

#[test]
fn channels_in_use_are_not_prompt() {
    // Three channels of epoch 1 are taken; in its data phase one is idle.
    let mut bench = Bench::new();
    notify(&mut bench, Time::us(1), 1, 0, 5_000);
    bench.sent(round(1, 1));
    bench.receive(round(1, 1) + Span::us(5), 1, grant(1, 1, 3, 3, 5_000));
    bench.sent_until(round(1, 2), round(2, 1) - Span::ps(1));
    notify(&mut bench, round(2, 1) - Span::ps(1), 2, 0, 5_000);
    let sent = requests(&bench.sent(round(2, 1)));
    let [(1, first), (2, second)] = sent[..] else { panic!("{sent:?}") };
    assert_eq!((first.channels, first.prompt), (4, 1));
    assert_eq!((second.channels, second.prompt), (4, 1));
}

#[test]
fn matched_channels_are_not_requested_again() {
    // 100 packets fill two channels; with one taken, one is missing, with two none.
    for (taken, missing) in [(1, Some(1)), (2, None)] {
        let mut bench = Bench::new();
        notify(&mut bench, Time::us(1), 1, 0, 100);
        bench.sent(round(1, 1));
        bench.receive(round(1, 1) + Span::us(5), 1, grant(1, 1, taken, 0, 100));
        let sent = requests(&bench.sent(round(1, 2)));
        assert_eq!(sent.first().map(|(_, request)| request.channels), missing);
    }
}

#[test]
fn sender_rejects_channels_that_are_taken() {
    // Both rounds grant all channels, because the first acceptance is late.
    let mut bench = sender(&DcpimParams::default(), 1..3);
    for (number, src) in [(1, 1), (2, 2)] {
        bench.receive(round(1, number) + Span::us(1), src, request(1, number as u32, 3, 100));
        bench.sent(settings().calendar.half(round(1, number)));
    }
    let accept =
        |round| Header::Accept(Accept { message: 0, epoch: 1, round, channels: 3, prompt: 3 });
    let now = round(1, 3) + Span::us(1);
    for _ in 0..2 {
        // A duplicate does not count.
        bench.receive(now, 1, accept(1));
        bench.receive(now, 2, accept(2));
    }
    let expected = Reject { message: FORGED, epoch: 1, round: 2, channels: 2, prompt: 2 };
    assert_eq!(bench.sent(now), [(2, Header::Reject(expected))]);
}

#[test]
fn rejected_channels_are_free_again() {
    let mut bench = Bench::new();
    notify(&mut bench, Time::us(1), 1, 0, 5_000);
    bench.sent(round(1, 1));
    bench.receive(round(1, 1) + Span::us(5), 1, grant(1, 1, 4, 4, 5_000));
    bench.sent(round(1, 2));
    let reject = Header::Reject(Reject { message: 0, epoch: 1, round: 1, channels: 2, prompt: 2 });
    bench.receive(round(1, 2) + Span::us(5), 1, reject);
    bench.receive(round(1, 2) + Span::us(5), 1, reject);
    let sent = bench.sent_until(round(1, 2) + Span::us(5), round(1, 3));
    let sent: Vec<_> = sent.into_iter().map(|(_, dst, header, _)| (dst, header)).collect();
    assert_eq!(requests(&sent)[0].1.channels, 2);
    // Also a rejection of the phase that is sending.
    bench.sent_until(round(1, 3), round(2, 1));
    let reject = Header::Reject(Reject { message: 0, epoch: 1, round: 2, channels: 1, prompt: 0 });
    bench.receive(round(2, 1) + Span::us(1), 1, reject);
    assert_eq!(bench.host.inbox.sources[0].sending.channels, 1);
}

#[test]
fn a_sender_books_by_epoch() {
    // Acceptances of the last round arrive when the next epoch has started.
    let mut bench = sender(&DcpimParams::default(), 1..3);
    bench.receive(round(1, 4) + Span::us(1), 1, request(1, 4, 3, 100));
    bench.sent(settings().calendar.half(round(1, 4)));
    let last = Accept { message: 0, epoch: 1, round: 4, channels: 3, prompt: 0 };
    bench.receive(round(2, 1) + Span::us(1), 1, Header::Accept(last));
    bench.receive(round(2, 1) + Span::us(1), 2, request(2, 1, 4, 100));
    let sent = grants(&bench.sent(settings().calendar.half(round(2, 1))));
    // All channels are free in epoch 2, but three of them send during its matching.
    assert_eq!((sent[0].1.channels, sent[0].1.prompt), (4, 1));
}

/// Bookings of two epochs are kept. An acceptance of an older epoch books nothing, and does not
/// change the bookings of the epoch with which it shares an entry.
#[test]
fn an_acceptance_of_an_old_epoch_books_nothing() {
    // It arrives in the next epoch, in which its channels send, or in a later one.
    for (epoch, prompt) in [(2, 1), (3, 4), (4, 4)] {
        let mut bench = sender(&DcpimParams::default(), 1..3);
        bench.receive(round(1, 4) + Span::us(1), 1, request(1, 4, 3, 100));
        bench.sent(settings().calendar.half(round(1, 4)));
        let now = round(epoch, 1) + Span::us(1);
        bench.receive(now, 2, request(epoch, 1, 4, 100));
        let accept = Accept { message: 0, epoch: 1, round: 4, channels: 3, prompt: 0 };
        bench.receive(now, 1, Header::Accept(accept));
        let sent = grants(&bench.sent(settings().calendar.half(round(epoch, 1))));
        assert_eq!((sent[0].1.channels, sent[0].1.prompt), (4, prompt), "epoch {epoch}");
    }
    // Three channels are booked in epoch 3 when the acceptance arrives: one is left.
    let mut bench = sender(&DcpimParams::default(), 1..3);
    bench.receive(round(1, 4) + Span::us(1), 1, request(1, 4, 3, 100));
    bench.sent(settings().calendar.half(round(1, 4)));
    bench.receive(round(3, 1) + Span::us(1), 2, request(3, 1, 3, 100));
    bench.sent(settings().calendar.half(round(3, 1)));
    let now = round(3, 2) + Span::us(1);
    for (src, epoch, round) in [(2, 3, 1), (1, 1, 4)] {
        let accept = Accept { message: 0, epoch, round, channels: 3, prompt: 3 };
        bench.receive(now, src, Header::Accept(accept));
    }
    bench.receive(now, 2, request(3, 2, 4, 100));
    let sent = grants(&bench.sent(settings().calendar.half(round(3, 2))));
    assert_eq!((sent[0].1.channels, sent[0].1.prompt), (1, 1));
}

#[test]
fn forgotten_receivers_channels_go_to_others() {
    for (forgets, channels) in [(false, 0), (true, 4)] {
        let mut bench = sender(&DcpimParams::default(), 1..3);
        let now = round(1, 1) + Span::us(1);
        bench.receive(now, 1, request(1, 1, 3, 100));
        bench.sent(settings().calendar.half(round(1, 1)));
        let accept = Accept { message: 0, epoch: 1, round: 1, channels: 3, prompt: 3 };
        let now = round(1, 2) + Span::us(1);
        bench.receive(now, 1, Header::Accept(accept));
        bench.receive(now, 1, request(1, 2, 1, 100));
        if forgets {
            bench.host.forget(now, 1);
        }
        bench.receive(now, 2, request(1, 2, 4, 200));
        let sent = grants(&bench.sent(settings().calendar.half(round(1, 2))));
        let to_second = sent.iter().find(|(dst, _)| *dst == 2).map(|(_, grant)| grant.channels);
        assert_eq!(to_second.unwrap_or(0), channels);
        assert_eq!(sent.iter().any(|(dst, _)| *dst == 1), !forgets);
    }
}

#[test]
fn forgotten_senders_channels_are_requested_elsewhere() {
    for forgets in [false, true] {
        let mut bench = Bench::new();
        (1..3).for_each(|src| notify(&mut bench, Time::us(1), src, 0, 5_000));
        bench.sent(round(1, 1));
        bench.receive(round(1, 1) + Span::us(5), 1, grant(1, 1, 4, 4, 5_000));
        bench.sent(round(1, 2));
        let now = round(1, 2) + Span::us(5);
        // Possibly of the current round.
        bench.receive(now, 1, grant(1, 2, 4, 4, 5_000));
        if forgets {
            bench.host.forget(now, 1);
        }
        let sent = bench.sent_until(now, round(1, 3));
        let sent: Vec<_> = sent.into_iter().map(|(_, dst, header, _)| (dst, header)).collect();
        let requested: Vec<_> = requests(&sent);
        let requested: Vec<_> =
            requested.iter().map(|(dst, r)| (*dst, r.channels, r.prompt)).collect();
        assert_eq!(requested, if forgets { &[(2, 4, 4)][..] } else { &[] });
        assert_eq!(sent.iter().any(|(dst, _)| *dst == 1), !forgets, "{sent:?}");
    }
}

#[test]
fn forgotten_silent_sender_gets_requests_on_return() {
    let mut bench = Bench::new();
    notify(&mut bench, Time::us(1), 1, 0, 5_000);
    bench.sent_until(Time::us(1), Time::ms(20));
    let now = Time::ms(20) + Span::us(1);
    assert!(bench.host.inbox.pauses.next() > now + settings().calendar.phase);
    bench.host.forget(now, 1);
    assert_eq!(bench.host.deadline(), Time::NEVER);
    notify(&mut bench, now, 1, 0, 5_000);
    let next = bench.host.deadline();
    assert!(next < now + settings().calendar.phase);
    assert_eq!(requests(&bench.sent(next)).len(), 1);
}

#[test]
fn forgotten_sender_can_match_again_in_one_epoch() {
    let mut bench = Bench::new();
    notify(&mut bench, Time::us(1), 1, 0, 5_000);
    bench.sent(round(1, 1));
    bench.receive(round(1, 1) + Span::us(5), 1, grant(1, 1, 2, 0, 5_000));
    bench.sent(round(1, 2));
    let now = round(1, 2) + Span::us(1);
    bench.host.forget(now, 1);
    notify(&mut bench, now, 1, 0, 5_000);
    bench.sent(round(1, 3));
    bench.receive(round(1, 3) + Span::us(5), 1, grant(1, 3, 4, 0, 5_000));
    bench.sent_until(round(1, 4), round(2, 1) - Span::ps(1));
    let sent = bench.sent_until(round(2, 1), round(2, 1) + PACKET.times(9));
    let tokens = sent.iter().filter(|sent| matches!(sent.2, Header::Token(_))).count();
    assert_eq!(tokens, 10, "all its channels");
}
