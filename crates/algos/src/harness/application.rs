//! The application of all hosts.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use tidegate_core::{Application, Message, MessageId, Time};

/// Numbers of messages from here on are made up: nobody submitted them.
pub(crate) const FORGED: u32 = 1 << 31;

/// What the application has heard of a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Heard {
    pub(crate) src: u32,
    pub(crate) dst: u32,
    pub(crate) size: u64,
    pub(crate) delivered: u64,
    pub(crate) completed: Option<Time>,
    pub(crate) acked: Option<Time>,
    /// Its receiver had all of it once, and has forgotten that.
    had: bool,
    /// Its sender has forgotten it.
    given_up: bool,
    /// Both have, and nobody may tell anything of it.
    pub(super) over: bool,
    /// Which bytes: the beginnings and ends of pieces that do not touch.
    pieces: BTreeMap<u64, u64>,
}

impl Heard {
    /// Bytes have arrived, for the first time.
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

    /// All that was sent of it has arrived, as far as anybody can tell.
    fn is_whole(&self) -> bool {
        let one_piece = self.pieces.len() <= 1 && self.pieces.keys().all(|&start| start == 0);
        one_piece && (self.size == Message::UNLIMITED || self.delivered == self.size)
    }
}

/// Checks every call at once: each byte of a message is delivered once, to its own place, then the
/// message is completed once, then acknowledged once.
#[derive(Default)]
pub(crate) struct Checking {
    /// By the application's number.
    pub(crate) messages: Vec<Heard>,
    /// Of no message alive.
    pub(super) free: Vec<u32>,
    /// Payload has to come in order.
    pub(super) in_order: bool,
    /// Every message has a number of its own.
    pub(super) all_new: bool,
}

impl Checking {
    /// A message begins, under the number of an acknowledged one, if there is one.
    pub(crate) fn submit(&mut self, src: u32, dst: u32, size: u64) -> u32 {
        let heard = Heard { src, dst, size, ..Heard::default() };
        match self.free.pop().filter(|_| !self.all_new) {
            Some(id) => {
                self.messages[id as usize] = heard;
                id
            }
            None => {
                self.messages.push(heard);
                self.messages.len() as u32 - 1
            }
        }
    }

    /// What was heard of a message, unless somebody made it up.
    fn heard(&mut self, message: MessageId) -> Option<&mut Heard> {
        if message.id >= FORGED {
            return None;
        }
        let heard = &mut self.messages[message.id as usize];
        assert_eq!(heard.src, message.src, "whose message {} is", message.id);
        assert!(!heard.over, "forgotten by both: {heard:?}");
        Some(heard)
    }

    /// Host `by` has forgotten `peer`: its messages to it are over, and those from it may come
    /// once more.
    pub(crate) fn forget(&mut self, by: u32, peer: u32) {
        for heard in &mut self.messages {
            if (heard.src, heard.dst) == (by, peer) {
                heard.given_up |= heard.acked.is_none();
            } else if (heard.src, heard.dst) == (peer, by) {
                heard.had |= heard.completed.take().is_some();
                heard.delivered = 0;
                heard.pieces.clear();
            }
        }
    }

    /// The two have forgotten each other, and nothing is under way between them.
    pub(crate) fn part(&mut self, hosts: [u32; 2]) {
        let between = |heard: &&mut Heard| hosts.contains(&heard.src) && hosts.contains(&heard.dst);
        self.messages.iter_mut().filter(between).for_each(|heard| heard.over = true);
    }
}

impl Application for Checking {
    fn delivered(&mut self, _now: Time, message: MessageId, offset: u64, bytes: u32) {
        let in_order = self.in_order;
        if let Some(heard) = self.heard(message) {
            assert!(!in_order || heard.delivered == offset, "not in order, {offset}: {heard:?}");
            heard.deliver(offset, bytes as u64);
        }
    }

    fn completed(&mut self, now: Time, message: MessageId) {
        if let Some(heard) = self.heard(message) {
            assert!(heard.completed.is_none(), "completed twice: {heard:?}");
            assert!(heard.is_whole(), "too early: {heard:?}");
            heard.completed = Some(now);
        }
    }

    fn acked(&mut self, now: Time, message: MessageId) {
        let heard = self.heard(message).expect("nobody submitted it");
        let has_arrived = heard.completed.is_some() || heard.had;
        let rightly = has_arrived && heard.acked.is_none() && !heard.given_up;
        assert!(rightly, "acknowledged wrongly: {heard:?}");
        heard.acked = Some(now);
        self.free.push(message.id);
    }
}

mod tests {
    use super::*;

    const FIRST: MessageId = MessageId { src: 3, id: 0 };

    /// Who has heard of these pieces, each an offset and a length, of a message of 1,000 B.
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
    fn no_byte_may_come_twice() {
        after(&[(0, 100), (200, 100), (299, 1)]);
    }

    #[test]
    #[should_panic(expected = "delivered twice")]
    fn nor_from_in_front_of_what_has_come() {
        after(&[(200, 100), (0, 201)]);
    }

    #[test]
    #[should_panic(expected = "too early")]
    fn what_has_holes_is_not_complete() {
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
    fn who_has_forgotten_a_message_may_hear_of_it_once_more() {
        let mut app = after(&[(0, 1_000)]);
        app.completed(Time::us(1), FIRST);
        app.forget(1, 3);
        app.delivered(Time::us(2), FIRST, 0, 400);
        app.acked(Time::us(3), FIRST);
    }

    #[test]
    #[should_panic(expected = "acknowledged wrongly")]
    fn but_who_has_forgotten_that_it_sent_it_hears_nothing() {
        let mut app = after(&[(0, 1_000)]);
        app.completed(Time::us(1), FIRST);
        app.forget(3, 1);
        app.acked(Time::us(2), FIRST);
    }

    #[test]
    #[should_panic(expected = "forgotten by both")]
    fn nothing_is_told_of_what_both_have_forgotten() {
        let mut app = after(&[(0, 600)]);
        app.forget(3, 1);
        app.delivered(Time::us(1), FIRST, 600, 100);
        app.part([1, 3]);
        app.delivered(Time::us(2), FIRST, 700, 100);
    }

    #[test]
    #[should_panic(expected = "whose message")]
    fn a_message_is_its_senders() {
        after(&[]).delivered(Time::ZERO, MessageId { src: 4, ..FIRST }, 0, 1_000);
    }
}
