//! The application of all hosts.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use tidegate_core::{Application, Message, MessageId, Time};

/// First number of forged messages, which no host submitted.
pub(crate) const FORGED: u32 = 1 << 31;

/// The application's record of a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MessageRecord {
    pub(crate) src: u32,
    pub(crate) dst: u32,
    pub(crate) size: u64,
    pub(crate) delivered: u64,
    pub(crate) completed: Option<Time>,
    pub(crate) acked: Option<Time>,
    /// The receiver had received all of it and has forgotten it.
    had: bool,
    /// The sender has forgotten it.
    given_up: bool,
    /// Both have forgotten it, and no further event may refer to it.
    pub(super) over: bool,
    /// Delivered bytes: starts and ends of disjoint pieces.
    pieces: BTreeMap<u64, u64>,
}

impl MessageRecord {
    /// Registers bytes that arrive for the first time.
    fn deliver(&mut self, offset: u64, bytes: u64) {
        let end = offset + bytes;
        assert!(self.completed.is_none() && bytes > 0 && end <= self.size, "{offset}: {self:?}");
        let before = self.pieces.range(..=offset).next_back().map(|(&start, &end)| (start, end));
        let after = self.pieces.range(offset..).next().map(|(&start, &end)| (start, end));
        let overlaps = before.is_some_and(|(_, end)| end > offset)
            || after.is_some_and(|(start, _)| start < end);
        assert!(!overlaps, "delivered twice: {bytes} B at {offset}: {self:?}");
        let start = before.filter(|&(_, end)| end == offset).map_or(offset, |(start, _)| start);
        let end = match after.filter(|&(start, _)| start == end) {
            Some((next, last)) => {
                self.pieces.remove(&next);
                last
            }
            None => end,
        };
        self.pieces.insert(start, end);
        self.delivered += bytes;
    }

    /// Whether everything that was sent of it has arrived, as far as is known.
    fn is_whole(&self) -> bool {
        let one_piece = self.pieces.len() <= 1 && self.pieces.keys().all(|&start| start == 0);
        one_piece && (self.size == Message::UNLIMITED || self.delivered == self.size)
    }
}

/// Checks every call immediately: each byte of a message is delivered once, to its own offset; then
/// the message is completed once; then it is acknowledged once.
#[derive(Default)]
pub(crate) struct Checking {
    /// By the application's number.
    pub(crate) messages: Vec<MessageRecord>,
    /// Numbers without a message.
    pub(super) free: Vec<u32>,
    /// Payload must be delivered in order.
    pub(super) in_order: bool,
    /// Every message gets a new number.
    pub(super) all_new: bool,
}

impl Checking {
    /// Submits a message, under the number of an acknowledged one, if there is one.
    pub(crate) fn submit(&mut self, src: u32, dst: u32, size: u64) -> u32 {
        let record = MessageRecord { src, dst, size, ..MessageRecord::default() };
        match self.free.pop().filter(|_| !self.all_new) {
            Some(id) => {
                self.messages[id as usize] = record;
                id
            }
            None => {
                self.messages.push(record);
                self.messages.len() as u32 - 1
            }
        }
    }

    /// Record of a message, unless it is forged.
    fn record(&mut self, message: MessageId) -> Option<&mut MessageRecord> {
        if message.id >= FORGED {
            return None;
        }
        let record = &mut self.messages[message.id as usize];
        assert_eq!(record.src, message.src, "wrong sender of message {}", message.id);
        assert!(!record.over, "forgotten by both ends: {record:?}");
        Some(record)
    }

    /// Host `by` has forgotten `peer`: its messages to it are over, and those from it may arrive
    /// once more.
    pub(crate) fn forget(&mut self, by: u32, peer: u32) {
        for record in &mut self.messages {
            if (record.src, record.dst) == (by, peer) {
                record.given_up |= record.acked.is_none();
            } else if (record.src, record.dst) == (peer, by) {
                record.had |= record.completed.take().is_some();
                record.delivered = 0;
                record.pieces.clear();
            }
        }
    }

    /// The two hosts have forgotten each other, and nothing is in flight between them.
    pub(crate) fn end_session(&mut self, hosts: [u32; 2]) {
        let between = |record: &&mut MessageRecord| {
            hosts.contains(&record.src) && hosts.contains(&record.dst)
        };
        self.messages.iter_mut().filter(between).for_each(|record| record.over = true);
    }
}

impl Application for Checking {
    fn delivered(&mut self, _now: Time, message: MessageId, offset: u64, bytes: u32) {
        let in_order = self.in_order;
        if let Some(record) = self.record(message) {
            assert!(!in_order || record.delivered == offset, "not in order, {offset}: {record:?}");
            record.deliver(offset, bytes as u64);
        }
    }

    fn completed(&mut self, now: Time, message: MessageId) {
        if let Some(record) = self.record(message) {
            assert!(record.completed.is_none(), "completed twice: {record:?}");
            assert!(record.is_whole(), "too early: {record:?}");
            record.completed = Some(now);
        }
    }

    fn acked(&mut self, now: Time, message: MessageId) {
        let record = self.record(message).expect("no host submitted it");
        let has_arrived = record.completed.is_some() || record.had;
        let rightly = has_arrived && record.acked.is_none() && !record.given_up;
        assert!(rightly, "invalid acknowledgement: {record:?}");
        record.acked = Some(now);
        self.free.push(message.id);
    }
}

mod tests {
    use super::*;

    const FIRST: MessageId = MessageId { src: 3, id: 0 };

    /// Checks after delivery of these pieces, each an offset and a length, of a message of 1,000 B.
    fn after(pieces: &[(u64, u32)]) -> Checking {
        let mut app = Checking::default();
        assert_eq!(app.submit(3, 1, 1_000), FIRST.id);
        for &(offset, bytes) in pieces {
            app.delivered(Time::ZERO, FIRST, offset, bytes);
        }
        app
    }

    #[test]
    fn pieces_may_come_in_any_order() {
        for pieces in [[(0, 400), (400, 500), (900, 100)], [(900, 100), (0, 400), (400, 500)]] {
            let mut app = after(&pieces);
            app.completed(Time::us(1), FIRST);
            app.acked(Time::us(2), FIRST);
            assert_eq!(app.submit(2, 1, 9), FIRST.id, "its number is free");
        }
    }

    #[test]
    #[should_panic(expected = "delivered twice")]
    fn duplicate_byte_is_rejected() {
        after(&[(0, 100), (200, 100), (299, 1)]);
    }

    #[test]
    #[should_panic(expected = "delivered twice")]
    fn overlap_from_the_front_is_rejected() {
        after(&[(200, 100), (0, 201)]);
    }

    #[test]
    #[should_panic(expected = "too early")]
    fn message_with_holes_is_incomplete() {
        let mut app = Checking::default();
        app.submit(3, 1, Message::UNLIMITED);
        for offset in [0, 600] {
            app.delivered(Time::ZERO, FIRST, offset, 500);
        }
        app.completed(Time::ZERO, FIRST);
    }

    #[test]
    #[should_panic(expected = "not in order")]
    fn payload_may_have_to_come_in_order() {
        let mut app = after(&[(0, 500)]);
        app.in_order = true;
        app.delivered(Time::ZERO, FIRST, 600, 100);
    }

    #[test]
    fn forgetful_receiver_may_deliver_once_more() {
        let mut app = after(&[(0, 1_000)]);
        app.completed(Time::us(1), FIRST);
        app.forget(1, 3);
        app.delivered(Time::us(2), FIRST, 0, 400);
        app.acked(Time::us(3), FIRST);
    }

    #[test]
    #[should_panic(expected = "invalid acknowledgement")]
    fn forgetful_sender_gets_no_acknowledgement() {
        let mut app = after(&[(0, 1_000)]);
        app.completed(Time::us(1), FIRST);
        app.forget(3, 1);
        app.acked(Time::us(2), FIRST);
    }

    #[test]
    #[should_panic(expected = "forgotten by both ends")]
    fn messages_forgotten_by_both_end() {
        let mut app = after(&[(0, 600)]);
        app.forget(3, 1);
        app.delivered(Time::us(1), FIRST, 600, 100);
        app.end_session([1, 3]);
        app.delivered(Time::us(2), FIRST, 700, 100);
    }

    #[test]
    #[should_panic(expected = "wrong sender")]
    fn message_belongs_to_its_sender() {
        after(&[]).delivered(Time::ZERO, MessageId { src: 4, ..FIRST }, 0, 1_000);
    }
}
