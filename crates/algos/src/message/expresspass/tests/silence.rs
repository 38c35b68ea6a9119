//! Missing credits, requests or stops: repetition of requests and end of credits.

use super::*;

fn begin(host: &mut ExpressPass, at: Time) -> Request {
    let bytes = 1_000 * MTU as u64;
    let message = message(0, 1, bytes);
    host.submit(at, message, &NoPaths);
    let Some(Header::Request(request)) = next(host, at) else { panic!() };
    request
}

fn credit(request: &Request, credit: u32) -> Header {
    let Request { connection, lane, generation, message, .. } = *request;
    let sent_at = Time::ns(credit as u64 + 1);
    Header::Credit(Credit { connection, lane, generation, message, credit, sent_at })
}

#[test]
fn request_repeats_after_eight_usual_intervals() {
    let mut host = host(0, &params());
    let request = begin(&mut host, Time::us(1));
    // A credit every 500 us: five timeouts.
    let mut at = Time::us(51);
    for number in 0..30 {
        receive_header(&mut host, at, 1, &credit(&request, number));
        let sent = all(&mut host, at);
        assert!(matches!(sent[..], [Header::Data(_)]), "{sent:?}");
        let quiet = all(&mut host, at + Span::us(490));
        assert_eq!(quiet, [], "after {number} credits");
        at += Span::us(500);
    }
    let last = at.before(Span::us(500));
    let mut requested = Vec::new();
    while requested.len() < 2 {
        let at = host.deadline();
        let sent = all(&mut host, at);
        requested.extend(sent.iter().map(|_| (at - last).as_ps() / 1_000_000));
    }
    // After 4 ms, and 8 ms later, except for rounding.
    assert!(
        requested[0].abs_diff(4_000) < 5 && requested[1].abs_diff(12_000) < 10,
        "{requested:?}"
    );
}

#[test]
fn credits_after_repetition_give_no_round_trip() {
    let mut host = host(0, &params());
    let request = begin(&mut host, Time::us(1));
    let sent = all(&mut host, Time::us(101));
    assert!(matches!(sent[..], [Header::Request(Request { repeated: true, .. })]), "{sent:?}");
    // After the first one, a nanosecond later: the round-trip time is still the fabric's 8 us.
    for number in 0..1_000 {
        receive_header(&mut host, Time::ns(101_001), 1, &credit(&request, number));
    }
    let sent = all(&mut host, Time::ns(101_001));
    assert_eq!(sent.len(), 1_001);
    assert!(matches!(sent[1_000], Header::Stop(_)));
    assert_eq!(host.deadline(), Time::ns(117_001), "repeated after two round trips");
}

fn request(packets: u32) -> Request {
    let (connection, lane, generation, message, repeated) = (3, 0, 0, FORGED, false);
    let size = packets as u64 * MTU as u64;
    Request { connection, lane, generation, message, repeated, packets, size }
}

#[test]
fn receiver_continues_until_many_credits_are_lost() {
    for (packets, slow) in [(1_000, false), (1, true)] {
        let mut host = host(1, &params());
        receive_header(&mut host, Time::us(1), 2, &Header::Request(request(packets)));
        let mut last = Time::ZERO;
        let mut made = 0;
        while host.deadline() < Time::NEVER && made < 100_000 {
            let at = host.deadline();
            for header in all(&mut host, at) {
                assert!(matches!(header, Header::Credit(_)), "{header:?}");
                (last, made) = (at, made + 1);
            }
            host.on_deadline(at, &mut Checking::default());
        }
        // Fast credits continue for eight timeouts; slow ones, ten microseconds apart, for 256
        // credits.
        assert!(made >= 250, "{made} credits");
        let range = if slow { 2_500..4_100 } else { 780..802 };
        assert!(range.contains(&(last.as_us_f64() as u64)), "{made} credits until {last}");
    }
}

#[test]
fn next_message_of_the_lane_replaces_a_lost_stop() {
    // One message after another, each with the lane of the previous one. Messages have one packet:
    // the stop follows the last packet, and there is only one.
    let run = |first_of: u32| {
        let params = ExpressPassParams { full_start: 0, ..params() };
        let mut net = Net::new(2, &params, Faults { first_of, ..NO_FAULTS }, 1);
        net.submit(0, 1, MTU as u64);
        while net.app.messages[0].acked.is_none() {
            let until = net.now + Span::ns(50);
            net.run(until);
        }
        net.submit(0, 1, MTU as u64);
        net.run(Time::ms(50));
        net.assert_all_delivered("both");
        net.sent("Credit")
    };
    let (usual, lost) = (run(0), run(kinds::<Header>(&["Stop"])));
    // A round trip of 2 us is about 20 credits; eight timeouts would be 3,000.
    assert!(lost < usual + 60, "{lost} credits, {usual} without loss of a stop");
}

#[test]
fn stop_of_an_unsent_message_opens_nothing() {
    let mut host = host(1, &params());
    for lane in 0..100 {
        let Request { connection, generation, message, .. } = request(1);
        let (size, sent) = (Message::UNLIMITED, 0);
        let stop = Stop { connection, lane, generation, message, size, sent };
        assert_eq!(receive_header(&mut host, Time::us(1), 2, &Header::Stop(stop)), None);
    }
    assert!(host.inbox.is_quiet());
}

#[test]
fn rounds_leave_time_to_hosts_that_take_some() {
    let spans = [Span::ZERO, Span::us(10)];
    let rates = spans.map(|most_held| {
        let settings = Settings::new(&params(), &HostContext { most_held, ..context_at(0, RATE) });
        let mut feedback = feedback::Feedback::default();
        feedback.start(&settings, 1_000, Time::ZERO);
        // 8 us from NIC to NIC.
        feedback.on_return(0, Span::us(8));
        feedback.update(&settings, Time::us(10));
        let soon = feedback.gap(&settings);
        feedback.on_return(0, Span::us(8));
        feedback.update(&settings, Time::us(29));
        (soon, feedback.gap(&settings))
    });
    assert!(rates[0].0 < rates[1].0, "a round trip has passed, and none: {rates:?}");
    assert!(rates[1].1 < rates[1].0, "{rates:?}");
}
