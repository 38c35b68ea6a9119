//! Requests for missing packets and their timing.

use super::super::header::{Request, Resend};
use super::*;
use crate::harness::receive_payload;
use crate::kit::step::MOST_WAITING;

/// A host with a long message to host 1.
fn sending() -> Sird {
    let mut host = Sird::new(&SirdParams::default(), &context(0));
    host.submit(Time::ZERO, message(0, 1, 10_000_000), &NoPaths);
    host
}

/// Host 1 reports the first packets of that message as stalled.
const STALLED: Header = Header::Resend(Resend {
    stalled: true,
    connection: 0,
    lane: 0,
    generation: 0,
    message: 0,
    offset: 0,
    missing: 0b11111,
});

#[test]
fn packets_sent_recently_are_not_retransmitted() {
    let timeout = settings().timeout;
    let half = Span::ps(timeout.as_ps() / 2);
    for (later, is_on_its_way) in [(Span::us(1), true), (half - Span::ps(1), true), (half, false)] {
        let (mut host, sent) = (sending(), Time::us(5));
        receive_header(&mut host, sent, 1, &credit(5 * 1538));
        (0..5).for_each(|packet| {
            assert_eq!(next_data(&mut host, sent).unwrap().offset, packet * MTU as u64)
        });
        assert_eq!(next_data(&mut host, sent), None);
        let reply = receive_header(&mut host, sent + later, 1, &STALLED);
        let is_busy = matches!(reply, Some(Header::Busy(_)));
        assert_eq!((is_busy, reply.is_some()), (is_on_its_way, is_on_its_way), "after {later}");
        let again =
            next_data(&mut host, sent + later).map(|data| (data.offset, data.retransmission));
        // Only the last of them: its arrival shows whether the others are lost, too.
        let last = (4 * MTU as u64, true);
        assert_eq!(again, (!is_on_its_way).then_some(last), "{later} after it left");
        assert_eq!(next_data(&mut host, sent + later), None);
    }
}

#[test]
fn stalled_request_lends_credit_for_one_packet() {
    let mut host = sending();
    receive_header(&mut host, Time::ZERO, 1, &credit(100));
    assert_eq!(next_data(&mut host, Time::ZERO), None);
    let later = Time::ms(2);
    assert!(matches!(receive_header(&mut host, later, 1, &STALLED), Some(Header::Busy(_))));
    assert!(next_data(&mut host, later).is_some());
    // The next packet needs all of its own credit again.
    for (sum, goes) in [(1538 + 1537, false), (2 * 1538, true), (2 * 1538 + 1537, false)] {
        receive_header(&mut host, later, 1, &credit(sum));
        assert_eq!(next_data(&mut host, later).is_some(), goes, "with {sum} B of credit in all");
    }
}

/// A receiver that has one message of host 1.
struct RequestBench {
    settings: Settings,
    inbox: Inbox,
    source: u32,
    control: VecDeque<Control<Header>>,
    request: Request,
}

impl RequestBench {
    fn new() -> RequestBench {
        let (settings, mut inbox) = (settings(), Inbox::new(Pacer::new(RATE, true)));
        let source = inbox.source(&settings, 1, true).unwrap();
        let request = Request { message: FORGED, size: 100 * MTU as u64, ..Request::default() };
        let mut bench = RequestBench { settings, inbox, source, control: VecDeque::new(), request };
        bench.request(Time::ZERO, &request);
        bench
    }

    /// Maps of the packets that it requests in response to a request.
    fn request(&mut self, now: Time, request: &Request) -> Vec<u64> {
        self.control.clear();
        let RequestBench { settings, inbox, control, .. } = self;
        let step = &mut Step { settings, now, control };
        inbox.on_request(step, self.source, request, &mut Checking::default());
        let missing = |control: &Control<Header>| match control.header {
            Header::Resend(resend) => Some(resend.missing),
            _ => None,
        };
        self.control.iter().filter_map(missing).collect()
    }

    /// The sender reports this number of sent packets.
    fn repeat_request(&mut self, now: Time, packets: u64) -> Vec<u64> {
        let sent = packets * MTU as u64;
        self.request(now, &Request { repeated: true, sent, ..self.request })
    }

    /// A packet that was sent before arrives.
    fn receive(&mut self, now: Time, packet: u64) {
        let Request { message, size, .. } = self.request;
        let offset = packet * MTU as u64;
        let data = Data { retransmission: true, message, size, offset, ..Data::default() };
        let RequestBench { settings, inbox, control, .. } = self;
        let step = &Step { settings, now, control };
        inbox.on_data(step, self.source, &data, MTU, &mut Checking::default());
    }
}

#[test]
fn repeated_request_is_answered_once_per_timeout() {
    let mut bench = RequestBench::new();
    let (first, timeout) = (Time::ms(2), bench.settings.timeout);
    for (at, expected) in [
        (first, 1),
        (first + Span::us(1), 0),
        (first + timeout - Span::ps(1), 0),
        (first + timeout, 1),
    ] {
        assert_eq!(bench.repeat_request(at, 10).len(), expected, "at {at}");
    }
}

#[test]
fn pacer_counts_retransmissions_not_their_requests() {
    let mut bench = RequestBench::new();
    assert_eq!(bench.repeat_request(Time::ms(2), 10), [(1 << 10) - 1], "none has arrived");
    let opens_at = |bench: &RequestBench| bench.inbox.pacer.opens_at();
    assert!(opens_at(&bench) < Time::ms(1), "nothing has been retransmitted yet");
    (0..10).for_each(|packet| bench.receive(Time::ms(3), packet));
    let paid = opens_at(&bench) - Time::ms(3);
    assert_eq!(paid, RATE.serialise(1538).times(10) - RATE.serialise(562));
}

#[test]
fn thousands_of_holes_are_requested_up_to_a_bound() {
    let (mut host, mut app) = (Sird::new(&SirdParams::default(), &context(0)), Checking::default());
    let size = 60_000 * MTU as u64;
    for lane in 0..4_096 {
        let offset = size - MTU as u64;
        let data = Data { lane, message: FORGED, size, offset, ..Data::default() };
        receive_payload(&mut host, Time::us(1), 1, &Header::Data(data), MTU, &mut app);
    }
    for ms in 1..1_000 {
        host.on_deadline(Time::ms(ms), &mut app);
    }
    let waiting = host.control.len();
    assert!((MOST_WAITING..MOST_WAITING + 32).contains(&waiting), "{waiting}");
}
