//! What a receiver says has arrived, and what it keeps.

use super::super::header::Header;
use super::*;
use crate::cc::swift::Swift;
use tidegate_core::{CongestionControl, Domain, Rng, wire::Carried};

struct Deaf;

impl Application for Deaf {
    fn delivered(&mut self, _now: Time, _message: MessageId, _offset: u64, _bytes: u32) {}
    fn completed(&mut self, _now: Time, _message: MessageId) {}
    fn acked(&mut self, _now: Time, _message: MessageId) {}
}

#[test]
fn the_bitmap_says_which_of_the_next_64_packets_have_arrived() {
    let mut rng = Rng::stream(1, Domain::Transport, 0);
    let (mut reorder, mut next, mut arrived) = (Reorder::default(), 0, Vec::new());
    for _ in 0..20_000 {
        // The missing packet itself comes seldom, and others wait far beyond the bitmap.
        let ahead = if rng.below(30) == 0 { 0 } else { 1 + rng.below(200) as usize };
        if arrived.len() <= next + 300 {
            arrived.resize(next + 300, false);
        }
        let is_new = !core::mem::replace(&mut arrived[next + ahead], true);
        assert_eq!(reorder.insert(ahead, Early { present: true, ..Early::default() }), is_new);
        let handed = reorder.hand_on(Time::ZERO, 0, &mut Deaf) as usize;
        assert!(arrived[next..next + handed].iter().all(|&arrived| arrived));
        next += handed;
        assert!(!arrived[next]);
        let expected = (0..64).filter(|i| arrived.get(next + 1 + i) == Some(&true));
        assert_eq!(reorder.mask, expected.map(|i| 1 << i).sum::<u64>(), "above {next}");
    }
    assert!(next > 1_000, "{next}");
}

#[test]
fn connections_are_as_many_as_a_source_opens_and_forgery_costs_little() {
    let mut receivers = Receivers::new(&ConnectionParams::default());
    assert_eq!(receivers.find(3, u32::MAX), None);
    assert_eq!(receivers.find(3, MAX_LANES_AHEAD), None);
    assert!(receivers.sources.get(3).unwrap().lanes.is_empty());
    // One open lane lets one more be known.
    assert_eq!(receivers.find(3, MAX_LANES_AHEAD - 1), Some(0));
    assert_eq!(receivers.find(3, MAX_LANES_AHEAD), Some(1));
    assert_eq!(receivers.find(3, MAX_LANES_AHEAD + 2), None);
    // Every lane is known at last, and keeps its receiver.
    let all: Vec<_> =
        (0..3 * MAX_LANES_AHEAD).map(|lane| receivers.find(3, lane).unwrap()).collect();
    assert!(
        (0..3 * MAX_LANES_AHEAD).all(|lane| receivers.find(3, lane) == Some(all[lane as usize]))
    );
    assert_eq!(receivers.receivers.len(), all.len());
    // Most of them at a time; a source that is forgotten may have as many anew.
    (0..2 * MOST_LANES).for_each(|lane| _ = receivers.find(3, lane));
    assert_eq!(receivers.receivers.len(), MOST_LANES as usize);
    receivers.forget(3);
    (0..2 * MOST_LANES).for_each(|lane| _ = receivers.find(4, lane));
    assert_eq!(receivers.receivers.len(), MOST_LANES as usize);
}

/// Hands over a packet of host 3; whether it is answered.
fn arrives(receivers: &mut Receivers, lane: u32, seq: u64) -> bool {
    let data = Data {
        end_of_message: false,
        retransmission: false,
        connection: 0,
        lane,
        message: 0,
        seq,
        offset: 0,
        sent_at: Time::ZERO,
    };
    let mut body = Body { src: 3, payload_bytes: 1, ..Body::default() };
    Header::Data(data).write(&mut body);
    let (mut frame, mut hops) = (Frame::default(), HopTrace::default());
    let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
    receivers.receive(Time::ZERO, packet, 0, &Swift::INFO, &mut Deaf) != Reply::None
}

#[test]
fn packets_far_ahead_on_many_connections_take_bounded_memory() {
    let mut receivers = Receivers::new(&ConnectionParams::default());
    for lane in 0..200 {
        arrives(&mut receivers, lane, MAX_AHEAD);
    }
    assert!(receivers.early < MOST_EARLY && receivers.early > MOST_EARLY / 2);
    // What is missing is taken all the same, and its place is free again.
    let full = receivers.early;
    assert!(!arrives(&mut receivers, 199, MAX_AHEAD) && arrives(&mut receivers, 0, 0));
    assert_eq!(receivers.early, full - 1);
    assert!(arrives(&mut receivers, 199, 1), "near ones still find room");
    receivers.forget(3);
    assert!(receivers.is_quiet() && arrives(&mut receivers, 199, MAX_AHEAD));
}
