//! Acknowledged packets and the state of a receiver.

use super::super::header::Header;
use super::*;
use crate::cc::swift::Swift;
use tidegate_core::{CongestionControl, Domain, Rng, wire::Carried};

struct NullApplication;

impl Application for NullApplication {
    fn delivered(&mut self, _now: Time, _message: MessageId, _offset: u64, _bytes: u32) {}
    fn completed(&mut self, _now: Time, _message: MessageId) {}
    fn acked(&mut self, _now: Time, _message: MessageId) {}
}

#[test]
fn bitmap_shows_the_next_64_packets() {
    let mut rng = Rng::stream(1, Domain::Transport, 0);
    let (mut reorder, mut next, mut arrived) = (Reorder::default(), 0, Vec::new());
    for _ in 0..20_000 {
        // The missing packet itself arrives rarely, and others wait far beyond the bitmap.
        let ahead = if rng.below(30) == 0 { 0 } else { 1 + rng.below(200) as usize };
        if arrived.len() <= next + 300 {
            arrived.resize(next + 300, false);
        }
        let is_new = !core::mem::replace(&mut arrived[next + ahead], true);
        assert_eq!(reorder.insert(ahead, Early { present: true, ..Early::default() }), is_new);
        let delivered = reorder.deliver(Time::ZERO, 0, &mut NullApplication) as usize;
        assert!(arrived[next..next + delivered].iter().all(|&arrived| arrived));
        next += delivered;
        assert!(!arrived[next]);
        let expected = (0..64).filter(|i| arrived.get(next + 1 + i) == Some(&true));
        assert_eq!(reorder.mask, expected.map(|i| 1 << i).sum::<u64>(), "above {next}");
    }
    assert!(next > 1_000, "{next}");
}

#[test]
fn connections_are_limited_and_forgery_is_cheap() {
    let mut receivers = Receivers::new(&ConnectionParams::default(), None);
    assert_eq!(receivers.find(3, u32::MAX), None);
    assert_eq!(receivers.find(3, MAX_LANES_AHEAD), None);
    assert!(receivers.sources.get(3).unwrap().lanes.is_empty());
    // Each open lane extends the range of allowed lanes by one.
    assert_eq!(receivers.find(3, MAX_LANES_AHEAD - 1), Some(0));
    assert_eq!(receivers.find(3, MAX_LANES_AHEAD), Some(1));
    assert_eq!(receivers.find(3, MAX_LANES_AHEAD + 2), None);
    // Finally every lane is known and keeps its receiver.
    let all: Vec<_> =
        (0..3 * MAX_LANES_AHEAD).map(|lane| receivers.find(3, lane).unwrap()).collect();
    assert!(
        (0..3 * MAX_LANES_AHEAD).all(|lane| receivers.find(3, lane) == Some(all[lane as usize]))
    );
    assert_eq!(receivers.receivers.len(), all.len());
    // The largest number at a time; a forgotten source may open the same number again.
    (0..2 * MOST_LANES).for_each(|lane| _ = receivers.find(3, lane));
    assert_eq!(receivers.receivers.len(), MOST_LANES as usize);
    receivers.forget(3);
    (0..2 * MOST_LANES).for_each(|lane| _ = receivers.find(4, lane));
    assert_eq!(receivers.receivers.len(), MOST_LANES as usize);
}

/// Passes a packet of host 3. Returns whether it is acknowledged.
fn arrives(receivers: &mut Receivers, lane: u32, seq: u64) -> bool {
    let data = Data {
        end_of_message: false,
        retransmission: false,
        probe: false,
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
    receivers.receive(Time::ZERO, packet, 0, &Swift::INFO, &mut NullApplication) != Reply::None
}

/// The receiver repeats the acknowledgement of a packet that has arrived, if packets may be
/// trimmed.
#[test]
fn probe_is_acknowledged() {
    for recovery in [RecoveryRule::Trimmed, RecoveryRule::Selective] {
        let params = ConnectionParams { recovery, ..ConnectionParams::default() };
        let mut receivers = Receivers::new(&params, Some(0));
        assert!(arrives(&mut receivers, 0, 0) && arrives(&mut receivers, 0, 1));
        let mut body = Body { src: 3, ..Body::default() };
        let Some(Header::Data(data)) = Header::read(&body) else { panic!("data") };
        let data = Data { probe: true, seq: 1, ..data };
        Header::Data(data).write(&mut body);
        let (mut frame, mut hops) = (Frame::default(), HopTrace::default());
        let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
        let reply = receivers.trimmed(&data, packet, 0, &Swift::INFO);
        let is_trimmed = recovery == RecoveryRule::Trimmed;
        assert_eq!(reply != Reply::None, is_trimmed);
        if is_trimmed {
            let Some(Header::Ack(ack)) = Header::read(&body) else { panic!("{body:?}") };
            assert!(ack.probe && !ack.refused && (ack.seq, ack.cumulative) == (1, 2));
        }
    }
}

#[test]
fn early_packets_take_bounded_memory() {
    let mut receivers = Receivers::new(&ConnectionParams::default(), None);
    for lane in 0..200 {
        arrives(&mut receivers, lane, MAX_AHEAD);
    }
    assert!(receivers.early < MOST_EARLY && receivers.early > MOST_EARLY / 2);
    // The missing packet is still accepted, and then frees its entry.
    let full = receivers.early;
    assert!(!arrives(&mut receivers, 199, MAX_AHEAD) && arrives(&mut receivers, 0, 0));
    assert_eq!(receivers.early, full - 1);
    assert!(arrives(&mut receivers, 199, 1), "packets nearby still fit");
    receivers.forget(3);
    assert!(receivers.is_quiet() && arrives(&mut receivers, 199, MAX_AHEAD));
}
