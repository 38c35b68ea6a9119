//! What every connection does about time and loss, step by step.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::receiver::Receivers;
use super::recovery::Recovery;
use super::sender::Sender;
use super::{ConnectionParams, MAX_BACKOFF, WindowedParams};
use crate::cc::swift::{Swift, SwiftParams};
use crate::contract::path;
use tidegate_core::params::Params;
use tidegate_core::{
    Application, Body, CongestionControl, Frame, HopTrace, MessageId, PacketMut, Reply, Time, WindowRule,
    body_flag, frame_flag, kind,
};

fn sender() -> Sender<Swift> {
    let cc = Swift::start(&SwiftParams::default(), &path(), Time::ZERO, 0);
    Sender::new(cc, 1, 0, 7, false, path(), WindowRule::Fits)
}

#[test]
fn timeouts_follow_rfc_6298() {
    let params = ConnectionParams { min_rto: Time::us(1), ..Default::default() };
    let mut sender = sender();
    assert_eq!(sender.rto(&params), params.initial_rto);
    // SRTT = R, RTTVAR = R / 2.
    sender.sample_rtt(Time::us(96));
    assert_eq!(sender.rto(&params), Time::us(96 + 4 * 48));
    // RTTVAR = 3/4 · 48 + 1/4 · |96 − 160| = 52, SRTT = 7/8 · 96 + 1/8 · 160 = 104.
    sender.sample_rtt(Time::us(160));
    assert_eq!(sender.rto(&params), Time::us(104 + 4 * 52));
    // RTTVAR = 3/4 · 52 + 1/4 · |104 − 24| = 59, SRTT = 7/8 · 104 + 1/8 · 24 = 94.
    sender.sample_rtt(Time::us(24));
    assert_eq!(sender.rto(&params), Time::us(94 + 4 * 59));
    assert_eq!(sender.rto(&ConnectionParams::default()), Time::us(94 + 4 * 59));
    let params = ConnectionParams { min_rto: Time::us(400), ..Default::default() };
    assert_eq!(sender.rto(&params), Time::us(400));
}

#[test]
fn timeouts_in_a_row_double_up_to_the_largest() {
    let params = ConnectionParams::default();
    let mut sender = sender();
    let mut spare: Vec<Box<Recovery>> = Vec::new();
    let mut expire = |params: &ConnectionParams| {
        sender.on_timeout(Time::ZERO, params, &mut spare);
        sender.rto(params)
    };
    for doubled in [2, 4, 8, 16, 32, 64] {
        assert_eq!(expire(&params), Time::ms(doubled));
    }
    for _ in 0..2 * u64::from(MAX_BACKOFF) {
        assert_eq!(expire(&params), params.max_rto);
    }
    // The smallest and the first hold where they are above the largest.
    assert_eq!(expire(&ConnectionParams { initial_rto: Time::s(1), ..params.clone() }), Time::s(1));
    assert_eq!(expire(&ConnectionParams { min_rto: Time::s(2), ..params }), Time::s(2));
}

#[test]
fn three_later_arrivals_and_no_fewer_tell_of_a_loss() {
    let mut recovery = Recovery::default();
    recovery.begin(10);
    let mut lost = Vec::new();
    for (arrived, expected) in
        [(11, &[][..]), (12, &[]), (13, &[10]), (15, &[10]), (16, &[10]), (17, &[10, 14])]
    {
        recovery.sack(arrived);
        recovery.lose_overtaken(10, &mut |seq| lost.push(seq));
        assert_eq!(lost, expected, "after {arrived}");
    }
}

/// Whom deliveries do not concern.
struct Deaf;

impl Application for Deaf {
    fn delivered(&mut self, _now: Time, _message: MessageId, _bytes: u32) {}
    fn completed(&mut self, _now: Time, _message: MessageId) {}
    fn acked(&mut self, _now: Time, _message: MessageId) {}
}

/// An acknowledgement: what it acknowledges up to, whether it echoes a mark, and the RTT that its sender would read now.
type Answer = (u64, bool, Time);

/// A receiver, and how it answers one packet after another.
struct Answers(Receivers);

impl Answers {
    fn read(now: Time, body: &Body) -> Answer {
        assert_eq!((body.kind, body.connection), (kind::ACK, 5));
        (body.ack, body.flags & body_flag::ECHO != 0, now.since(body.sent_at))
    }

    /// A packet that was sent 6 us before it arrives at `us`.
    fn to(&mut self, us: u64, seq: u64, marked: bool, last: bool) -> Option<Answer> {
        let now = Time::us(us);
        let flags = if marked { frame_flag::CONGESTION_EXPERIENCED } else { 0 };
        let (mut frame, mut hops) = (Frame { flags, ..Frame::default() }, HopTrace::default());
        let mut body = Body {
            flags: if last { body_flag::END_OF_MESSAGE } else { 0 },
            payload_bytes: 1000,
            connection: 5,
            seq,
            sent_at: now.since(Time::us(6)),
            ..Body::default()
        };
        let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
        let reply = self.0.receive(now, packet, 0, &Swift::CARD, &mut Deaf);
        (reply == Reply::Send).then(|| Answers::read(now, &body))
    }

    /// What it sends of itself.
    fn at(&mut self, us: u64) -> Option<Answer> {
        let now = Time::us(us);
        let (mut frame, mut body, mut hops) = (Frame::default(), Body::default(), HopTrace::default());
        self.0.promote(now);
        let receiver = self.0.take_due()?;
        self.0.transmit(now, receiver, PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops });
        Some(Answers::read(now, &body))
    }
}

#[test]
fn an_acknowledgement_stands_for_packets_in_order_with_one_mark() {
    let params = ConnectionParams { ack_every: 3, ack_delay: Time::us(20), ..Default::default() };
    let mut answers = Answers(Receivers::new(&params));
    let rtt = Time::us(6);
    assert_eq!((answers.to(10, 0, false, false), answers.to(11, 1, false, false)), (None, None));
    assert_eq!(answers.to(12, 2, false, false), Some((3, false, rtt)), "the third packet");
    assert_eq!(answers.to(13, 3, false, false), None);
    assert_eq!(answers.to(14, 4, true, false), Some((4, false, rtt)), "what came before the mark");
    assert_eq!(answers.to(15, 5, true, true), Some((6, true, rtt)), "the end of a message");
    assert_eq!(answers.to(16, 7, true, false), Some((6, true, rtt)), "a hole");
    assert_eq!(answers.to(17, 6, true, false), Some((8, true, rtt)), "a hole filled");
    assert_eq!(answers.to(20, 8, true, false), None);
    assert_eq!((answers.at(39), answers.0.next_due()), (None, Time::us(40)));
    assert_eq!(answers.at(45), Some((9, true, rtt)), "after the wait, which is no RTT");
    assert_eq!((answers.at(100), answers.0.next_due()), (None, Time::NEVER));
    // The end of a message under another mark: two acknowledgements, the second at once.
    assert_eq!(answers.to(101, 9, false, false), None);
    assert_eq!(answers.to(102, 10, true, true), Some((10, false, rtt)));
    assert_eq!(answers.at(102), Some((11, true, rtt)));
    // What has been let go leaves no timer that matters.
    assert_eq!((answers.at(200), answers.0.next_due()), (None, Time::NEVER));
}

#[test]
fn an_acknowledgement_may_not_wait_for_a_timeout() {
    let mut params = WindowedParams::<Swift>::default();
    params.connection.ack_delay = params.connection.min_rto;
    assert_eq!(params.conflict(), None);
    params.connection.ack_every = 2;
    assert!(params.conflict().is_some_and(|text| text.contains("timeout")));
}
