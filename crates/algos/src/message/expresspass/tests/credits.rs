//! Rules of requests, credits and stops, by hand-made packets.

use super::*;
use crate::kit::step::MOST_WAITING;

/// A full packet and its credit of 84 bytes at 100 Gbit/s, in picoseconds.
const PACKET_PS: f64 = 129_760.0;
const NAME: Name = Name { connection: 3, lane: 0, generation: 0, message: FORGED };

fn request(packets: u32, size: u64) -> Header {
    let Name { connection, lane, generation, message } = NAME;
    let repeated = false;
    Header::Request(Request { repeated, connection, lane, generation, message, packets, size })
}

fn stop(size: u64, sent: u64) -> Header {
    let Name { connection, lane, generation, message } = NAME;
    Header::Stop(Stop { connection, lane, generation, message, size, sent })
}

fn data(credit: u32, packet: u64, size: u64, sent_at: Time) -> (Header, u32) {
    let Name { connection, lane, generation, message } = NAME;
    let offset = packet * MTU as u64;
    let header = Data {
        end_of_message: false,
        retransmission: false,
        connection,
        lane,
        generation,
        message,
        credit,
        size,
        offset,
        sent_at,
    };
    (Header::Data(header), (size - offset).min(MTU as u64) as u32)
}

fn receive_data(
    host: &mut ExpressPass,
    now: Time,
    (header, payload): (Header, u32),
) -> Option<Header> {
    receive_payload(host, now, 2, &header, payload, &mut Checking::default())
}

/// A message from host 0 to host 1 after its request: the host, and the identity for credits.
fn sender(packets: u64) -> (ExpressPass, Checking, Handle, Request) {
    let mut host = host(0, &params());
    let bytes = packets * MTU as u64;
    let mut app = Checking::default();
    let id = app.submit(0, 1, bytes);
    let handle = host.submit(Time::us(1), message(id, 1, bytes), &NoPaths);
    let Some(Header::Request(request)) = next(&mut host, Time::us(1)) else { panic!() };
    assert_eq!((request.packets as u64, request.size, request.repeated), (packets, bytes, false));
    assert_eq!(next(&mut host, Time::us(1)), None, "nothing leaves without a credit");
    (host, app, handle, request)
}

fn credit(request: &Request, credit: u32) -> Header {
    let Request { connection, lane, generation, message, .. } = *request;
    let sent_at = Time::ns(credit as u64 + 1);
    Header::Credit(Credit { connection, lane, generation, message, credit, sent_at })
}

/// The minimum and the maximum.
fn ends(numbers: &[f64]) -> (f64, f64) {
    numbers.iter().fold((f64::MAX, 0.0), |(least, most), &n| (least.min(n), most.max(n)))
}

#[test]
fn each_credit_allows_one_packet_and_returns() {
    let (mut host, _, _, request) = sender(10);
    for number in [0, 1, 5] {
        let at = Time::us(3) + Span::ns(number as u64);
        assert_eq!(receive_header(&mut host, at, 1, &credit(&request, number)), None);
        let sent = all(&mut host, at);
        let [Header::Data(data)] = sent[..] else { panic!("{sent:?}") };
        assert_eq!((data.credit, data.sent_at), (number, Time::ns(number as u64 + 1)));
    }
    // For an unknown message: the response is a stop.
    let stray = Request { connection: 9, ..request };
    let answer = receive_header(&mut host, Time::us(4), 1, &credit(&stray, 9));
    assert!(matches!(answer, Some(Header::Stop(Stop { connection: 9, .. }))), "{answer:?}");
    assert_eq!(
        receive_header(&mut host, Time::us(4), 121, &credit(&stray, 9)),
        None,
        "there is no host 121"
    );
    assert_eq!(all(&mut host, Time::us(4)), []);
}

#[test]
fn last_packet_stops_credits_and_wastes_later_ones() {
    let (mut host, _, _, request) = sender(2);
    for number in 0..2 {
        receive_header(&mut host, Time::us(3), 1, &credit(&request, number));
    }
    let sent = all(&mut host, Time::us(3));
    let [Header::Data(_), Header::Data(last), Header::Stop(stop)] = sent[..] else {
        panic!("{sent:?}")
    };
    assert!(last.end_of_message);
    assert_eq!((stop.sent, stop.size), (2 * MTU as u64, 2 * MTU as u64));
    receive_header(&mut host, Time::us(4), 1, &credit(&request, 2));
    assert_eq!(all(&mut host, Time::us(4)), []);
    // Repeated after two round trips of 2 us, at growing intervals.
    for at in [7, 15] {
        assert_eq!(host.deadline(), Time::us(at));
        let sent = all(&mut host, Time::us(at));
        assert!(matches!(sent[..], [Header::Stop(_)]), "{sent:?}");
    }
}

#[test]
fn credits_stop_early_if_enough_are_in_flight() {
    let (mut host, _, _, request) = sender(10);
    // A round trip of 2 us; then 4 credits in 2 us with 6 packets left: more packets than credits.
    let mut sent = Vec::new();
    for (number, at) in
        [3_000, 3_500, 4_000, 4_500, 5_000, 5_500, 6_000, 6_500, 7_000].into_iter().enumerate()
    {
        let at = Time::ns(at);
        receive_header(&mut host, at, 1, &credit(&request, number as u32));
        sent.extend(all(&mut host, at).into_iter().filter(|h| !matches!(h, Header::Data(_))));
        // At 5 us, 5 credits have arrived and 5 packets are left.
        let stops = usize::from(at >= Time::us(5));
        assert_eq!(sent.len(), stops, "{at}: {sent:?}");
    }
    let Header::Stop(stop) = sent[0] else { panic!("{sent:?}") };
    assert_eq!(stop.sent, 5 * MTU as u64);
    // One packet is left when no more credits arrive: they are requested again.
    let at = host.deadline();
    assert_eq!(at, Time::us(9));
    let again = all(&mut host, at);
    let [Header::Request(again)] = again[..] else { panic!("{again:?}") };
    assert_eq!((again.packets, again.connection), (1, request.connection));
}

#[test]
fn early_stop_is_repeated_with_the_last_packet() {
    let (mut host, _, _, request) = sender(2);
    receive_header(&mut host, Time::us(3), 1, &credit(&request, 0));
    assert_eq!(all(&mut host, Time::us(3)).len(), 1, "one packet, and one is left");
    // A NACK goes back by one packet, so that two are left when two credits have arrived within a
    // round trip.
    let Request { connection, lane, generation, message, .. } = request;
    let back = Header::Nack(Nack { connection, lane, generation, message, offset: 0 });
    receive_header(&mut host, Time::us(4), 1, &back);
    receive_header(&mut host, Time::us(6), 1, &credit(&request, 1));
    let sent = all(&mut host, Time::us(6));
    let [Header::Data(_), Header::Stop(early)] = sent[..] else { panic!("{sent:?}") };
    assert_eq!(early.sent, MTU as u64);
    receive_header(&mut host, Time::us(7), 1, &credit(&request, 2));
    let sent = all(&mut host, Time::us(7));
    let [Header::Data(last), Header::Stop(end)] = sent[..] else { panic!("{sent:?}") };
    assert_eq!((last.offset, end.sent), (MTU as u64, 2 * MTU as u64));
}

#[test]
fn requests_repeat_with_backoff_until_credits_arrive() {
    let (mut host, _, _, request) = sender(4);
    // After a timeout, then after eight, twice and four times that.
    for at in [101, 1_701, 4_901] {
        assert_eq!(host.deadline(), Time::us(at));
        let sent = all(&mut host, Time::us(at));
        assert!(matches!(sent[..], [Header::Request(Request { repeated: true, .. })]), "{sent:?}");
    }
    receive_header(&mut host, Time::us(4_910), 1, &credit(&request, 0));
    // If credits stop arriving, they are requested eight timeouts later.
    assert_eq!(host.deadline(), Time::us(5_710));
}

#[test]
fn nack_goes_back_and_reopens_a_stopped_message() {
    let (mut host, mut app, _, request) = sender(4);
    for number in 0..4 {
        receive_header(&mut host, Time::us(3), 1, &credit(&request, number));
    }
    assert_eq!(all(&mut host, Time::us(3)).len(), 5, "data and the end");
    let Request { connection, lane, generation, message, .. } = request;
    let nack = |offset| Header::Nack(Nack { connection, lane, generation, message, offset });
    // Beyond the sent packets there is nothing to retransmit.
    receive_header(&mut host, Time::us(4), 1, &nack(9 * MTU as u64));
    assert_eq!(all(&mut host, Time::us(4)), []);
    receive_header(&mut host, Time::us(4), 1, &nack(MTU as u64));
    let sent = all(&mut host, Time::us(4));
    assert!(matches!(sent[..], [Header::Request(Request { packets: 3, .. })]), "{sent:?}");
    receive_header(&mut host, Time::us(6), 1, &credit(&request, 7));
    let sent = all(&mut host, Time::us(6));
    let [Header::Data(data)] = sent[..] else { panic!("{sent:?}") };
    assert_eq!((data.offset, data.retransmission, data.credit), (MTU as u64, true, 7));
    // Everything has arrived: the rest is dropped when no more credits arrive.
    let done = Header::Done(Done { connection, lane, generation, message });
    app.messages[0].completed = Some(Time::us(6));
    receive_payload(&mut host, Time::us(7), 1, &done, 0, &mut app);
    assert!(app.messages[0].acked.is_some());
    while host.deadline() < Time::NEVER {
        let at = host.deadline();
        host.on_deadline(at, &mut app);
    }
    assert!(host.outbox.is_quiet());
}

#[test]
fn senders_round_trip_is_that_of_the_last_request() {
    let (mut host, _, _, request) = sender(2);
    for number in 0..2 {
        receive_header(&mut host, Time::us(3), 1, &credit(&request, number));
    }
    all(&mut host, Time::us(3));
    let Request { connection, lane, generation, message, .. } = request;
    let offset = MTU as u64;
    let nack = Header::Nack(Nack { connection, lane, generation, message, offset });
    receive_header(&mut host, Time::us(4), 1, &nack);
    all(&mut host, Time::us(4));
    // 5 us for the second request, 2 us for the first: the stop is repeated after two round trips.
    receive_header(&mut host, Time::us(9), 1, &credit(&request, 2));
    assert!(matches!(all(&mut host, Time::us(9))[..], [Header::Data(_), Header::Stop(_)]));
    assert_eq!(host.deadline(), Time::us(19));
}

#[test]
fn credits_start_with_request_and_end_with_stop() {
    let mut host = host(1, &params());
    let size = 100 * MTU as u64;
    assert_eq!(receive_header(&mut host, Time::us(1), 2, &request(100, size)), None);
    let Some(Header::Credit(first)) = next(&mut host, Time::us(1)) else { panic!() };
    assert_eq!((first.credit, first.sent_at), (0, Time::us(1)));
    // Half of the full rate: two packet times of 129.76 ns apart, within a tenth.
    let mut last = Time::us(1);
    let mut gaps = Vec::new();
    for number in 1..50 {
        let at = host.deadline();
        let Some(Header::Credit(credit)) = next(&mut host, at) else { panic!() };
        assert_eq!(credit.credit, number);
        gaps.push((at - last).as_ps() as f64 / (2.0 * PACKET_PS));
        last = at;
    }
    // Drawn from the whole range: the minimum and maximum of 49 are near its ends.
    let (least, most) = ends(&gaps);
    assert!((0.899..0.92).contains(&least) && (1.08..1.101).contains(&most), "{least} to {most}");
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    assert!((mean - 1.0).abs() < 0.03, "{mean}");
    // A duplicate request changes nothing.
    let before = host.deadline();
    receive_header(&mut host, last, 2, &request(100, size));
    assert_eq!(host.deadline(), before);
    // Data returns the twelfth credit: eleven are lost.
    receive_data(&mut host, last + Span::ns(10), data(11, 0, size, Time::us(3)));
    let feedback = host.inbox.feedback(2).unwrap().clone();
    let mut expected = feedback::Feedback::default();
    expected.start(&settings_of(&params()), 100, Time::us(1));
    expected.on_return(11, last + Span::ns(10) - Time::us(3));
    assert_eq!(alloc::format!("{feedback:?}"), alloc::format!("{expected:?}"));
    // Credits that were never issued, or older ones, are ignored.
    for number in [11, 3, 50, u32::MAX] {
        receive_data(&mut host, last + Span::ns(20), data(number, 0, size, Time::us(3)));
    }
    let after = host.inbox.feedback(2).unwrap();
    assert_eq!(alloc::format!("{after:?}"), alloc::format!("{expected:?}"));
    assert_eq!(receive_header(&mut host, last + Span::ns(30), 2, &stop(size, MTU as u64)), None);
    assert!(host.deadline() > last + Span::us(700), "no more credits");
}

/// Interval of the next two credits in packet times; they are `host`'s only deadlines.
fn packets_apart(host: &mut ExpressPass) -> f64 {
    let times = [(); 2].map(|()| {
        let at = host.deadline();
        assert!(matches!(all(host, at)[..], [Header::Credit(_)]));
        at
    });
    (times[1] - times[0]).as_ps() as f64 / PACKET_PS
}

#[test]
fn credits_for_lost_packets_start_slower() {
    let mut host = host(1, &ExpressPassParams { jitter: 0.0, ..params() });
    let size = 100 * MTU as u64;
    receive_header(&mut host, Time::us(1), 2, &request(100, size));
    all(&mut host, Time::us(1));
    assert!((packets_apart(&mut host) - 2.0).abs() < 1e-3, "half of the full rate");
    // All was sent, and nothing has arrived: the request for retransmission counts as a message of
    // its own.
    for (us, left) in [(10, 3), (40, 20), (70, 40), (100, 80)] {
        while host.deadline() < Time::us(us) {
            let at = host.deadline();
            all(&mut host, at);
        }
        receive_header(&mut host, Time::us(us), 2, &stop(size, size));
        all(&mut host, Time::us(us));
        receive_header(&mut host, Time::us(us + 1), 2, &request(left, size));
        all(&mut host, Time::us(us + 1));
        let (apart, expected) = (packets_apart(&mut host), 2.0 * 40.0 / f64::from(left.min(40)));
        assert!((apart / expected - 1.0).abs() < 1e-3, "{left} packets: {apart} for {expected}");
    }
}

#[test]
fn rate_changes_after_measured_round_trips() {
    for round in [Span::us(3), Span::us(6)] {
        let mut host = host(1, &ExpressPassParams { jitter: 0.0, ..params() });
        let size = 1_000 * MTU as u64;
        receive_header(&mut host, Time::us(1), 2, &request(1_000, size));
        all(&mut host, Time::us(1));
        // Each credit returns in data after a round trip; none is lost, so the rate rises.
        let (mut made, mut changed_at) = (Vec::from([Time::us(1)]), Vec::from([Time::us(1)]));
        let (mut back, mut last_gap) = (0, None);
        while changed_at.len() < 5 {
            let at = host.deadline();
            while made[back] + round <= at {
                let (number, sent_at) = (back as u32, made[back]);
                receive_data(
                    &mut host,
                    sent_at + round,
                    data(number, number as u64, size, sent_at),
                );
                back += 1;
            }
            all(&mut host, at);
            let gap = (at - *made.last().unwrap()).as_ps();
            if last_gap.is_some_and(|last: u64| last.abs_diff(gap) > last / 100) {
                // The gap before this credit was set when the previous one left.
                changed_at.push(*made.last().unwrap());
            }
            last_gap = Some(gap);
            made.push(at);
        }
        for pair in changed_at.windows(2) {
            let between = pair[1] - pair[0];
            assert!(between >= round && between < round + Span::ns(300), "{changed_at:?}");
        }
    }
}

#[test]
fn early_packet_is_dropped_and_requested_once() {
    let mut host = host(1, &params());
    let size = 10 * MTU as u64;
    receive_header(&mut host, Time::us(1), 2, &request(10, size));
    (0..5).for_each(|_| {
        let at = host.deadline();
        all(&mut host, at);
    });
    let now = Time::us(4);
    assert_eq!(receive_data(&mut host, now, data(0, 0, size, Time::us(1))), None);
    let response = receive_data(&mut host, now, data(2, 2, size, Time::us(1)));
    let Some(Header::Nack(nack)) = response else { panic!("{response:?}") };
    assert_eq!((nack.offset, nack.connection), (MTU as u64, NAME.connection));
    assert_eq!(receive_data(&mut host, now, data(3, 3, size, Time::us(1))), None, "once");
    // And again a timeout later, if nothing has arrived.
    receive_header(&mut host, now, 2, &stop(size, 4 * MTU as u64));
    assert_eq!(host.timer(), Time::us(104));
    let sent = all(&mut host, Time::us(104));
    assert!(sent.iter().any(|header| matches!(header, Header::Nack(_))), "{sent:?}");
}

#[test]
fn stop_reports_missing_packets_and_the_size() {
    let mut host = host(1, &params());
    // Of 2 packets the second is lost, and the message was stopped there.
    receive_header(&mut host, Time::us(1), 2, &request(u32::MAX, Message::UNLIMITED));
    (0..3).for_each(|_| {
        let at = host.deadline();
        all(&mut host, at);
    });
    receive_data(&mut host, Time::us(3), data(0, 0, Message::UNLIMITED, Time::us(1)));
    let size = 2 * MTU as u64;
    let answer = receive_header(&mut host, Time::us(4), 2, &stop(size, size));
    assert!(matches!(answer, Some(Header::Nack(_))), "{answer:?}");
    let answer = receive_data(&mut host, Time::us(6), data(1, 1, size, Time::us(2)));
    assert!(matches!(answer, Some(Header::Done(_))), "{answer:?}");
    // Later packets get the same response.
    for header in [stop(size, size), request(1, size), data(2, 1, size, Time::us(2)).0] {
        let answer = receive_header(&mut host, Time::us(7), 2, &header);
        assert!(matches!(answer, Some(Header::Done(_))), "{answer:?}");
    }
    let left: Vec<Header> = (8..20).flat_map(|us| all(&mut host, Time::us(us))).collect();
    assert!(left.len() <= 8, "left from before the stop: {left:?}");
    assert!(host.inbox.is_quiet());
}

#[test]
fn credits_of_all_messages_share_the_link_queue() {
    let mut host = host(1, &params());
    for lane in 0..7 {
        let size = 1_000 * MTU as u64;
        let repeated = false;
        let (connection, generation, message) = (lane, 0, FORGED + lane);
        let request =
            Request { repeated, connection, lane, generation, message, packets: 1_000, size };
        receive_header(&mut host, Time::us(1), 2, &Header::Request(request));
    }
    // Seven at half the rate: the link's share leaves, and the others are dropped here.
    let (mut left, mut by_lane) = (0, [0u32; 7]);
    let (mut now, end) = (Time::us(1), Time::us(101));
    while now < end {
        if let Some(Header::Credit(credit)) = next(&mut host, now) {
            left += 1;
            by_lane[credit.lane as usize] = credit.credit + 1;
        }
        now = host.deadline();
    }
    let share = RATE.bytes_in(Span::us(100)) / 1622;
    assert!((share..=share + 3).contains(&left), "{left} credits, room for {share} packets");
    let made: u32 = by_lane.iter().sum();
    assert!((3.2..=3.6).contains(&(made as f64 / left as f64)), "{made} made, {left} left");
}

#[test]
fn credit_sizes_span_the_configured_range() {
    let params = ExpressPassParams::default();
    let mut host = host(1, &params);
    receive_header(&mut host, Time::us(1), 2, &request(u32::MAX, Message::UNLIMITED));
    let mut sizes = Vec::new();
    while sizes.len() < 4_000 {
        let at = host.deadline();
        // A packet from the sender arrives.
        receive_header(&mut host, at, 2, &request(u32::MAX, Message::UNLIMITED));
        sizes.extend(transmit(&mut host, at).map(|(frame, _)| f64::from(frame.wire_bytes)));
    }
    let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
    assert_eq!(ends(&sizes), (84.0, 92.0));
    assert!((mean - 88.0).abs() < 0.2, "{mean}");
}

#[test]
fn late_driver_gets_no_flood_of_credits() {
    let mut host = host(1, &params());
    receive_header(&mut host, Time::us(1), 2, &request(u32::MAX, Message::UNLIMITED));
    let _ = all(&mut host, Time::us(1));
    // A second later: 4 million credits would have left.
    let sent = all(&mut host, Time::s(1));
    assert!(sent.len() <= 2, "{}", sent.len());
}

#[test]
fn simultaneous_credits_are_used_up_to_a_bound() {
    let (mut host, mut app, _, request) = sender(1 << 20);
    for number in 0..200_000 {
        receive_payload(&mut host, Time::us(3), 1, &credit(&request, number), 0, &mut app);
    }
    assert_eq!(host.leaving.len(), MOST_WAITING);
    // There is room again.
    assert!(next(&mut host, Time::us(4)).is_some());
    receive_payload(&mut host, Time::us(4), 1, &credit(&request, 200_000), 0, &mut app);
    assert_eq!(host.leaving.len(), MOST_WAITING);
}
