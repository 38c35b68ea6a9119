//! What a sender remembers of single packets. It exists only while something is missing.

use alloc::collections::VecDeque;

use tidegate_core::{Span, Time};

/// Packets on a path that keeps order are lost once so many later ones have arrived.
const OVERTAKEN: u64 = 3;

/// Which unacknowledged packets have arrived, which are lost, which were sent again.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    sacked: Bits,
    lost: Bits,
    lost_count: u64,
    /// No lost packet below.
    lost_from: u64,
    /// One past the highest packet that has arrived.
    high: u64,
    /// Packets below were judged by what overtook them.
    judged: u64,
    /// Retransmissions not known to have arrived, by time.
    resent: VecDeque<(u64, Time)>,
    /// The episode of loss ends when this is acknowledged.
    episode_end: u64,
    /// Holes below `marked` are lost at this time, under spraying.
    pub(super) reorder_at: Time,
    marked: u64,
}

impl Recovery {
    pub(super) fn begin(&mut self, una: u64) {
        self.sacked.begin(una);
        self.lost.begin(una);
        self.resent.clear();
        self.lost_count = 0;
        (self.lost_from, self.high, self.judged, self.episode_end, self.marked) =
            (una, una, una, una, una);
        self.reorder_at = Time::NEVER;
    }

    pub(super) fn is_sacked(&self, seq: u64) -> bool {
        self.sacked.get(seq)
    }

    pub(super) fn is_lost(&self, seq: u64) -> bool {
        self.lost.get(seq)
    }

    pub(super) fn has_lost(&self) -> bool {
        self.lost_count > 0
    }

    /// Packet `seq` has arrived; true where it had been given up for lost.
    pub(super) fn sack(&mut self, seq: u64) -> bool {
        self.sacked.set(seq);
        self.high = self.high.max(seq + 1);
        let was_lost = self.lost.get(seq);
        if was_lost {
            self.lost.clear(seq);
            self.lost_count -= 1;
        }
        was_lost
    }

    /// Everything below `una` has arrived.
    pub(super) fn advance(&mut self, una: u64) {
        self.lost_count -= self.lost.advance(una);
        self.sacked.advance(una);
        self.high = self.high.max(una);
        self.lost_from = self.lost_from.max(una);
        while self.resent.front().is_some_and(|&(seq, _)| seq < una) {
            self.resent.pop_front();
        }
    }

    pub(super) fn is_over(&self, una: u64) -> bool {
        self.high <= una && self.lost_count == 0 && self.episode_end <= una
    }

    /// Takes the first lost packet to send it again at `now`.
    pub(super) fn take_lost(&mut self, now: Time) -> Option<u64> {
        if self.lost_count == 0 {
            return None;
        }
        let seq = self.lost.first_from(self.lost_from)?;
        self.lost_from = seq + 1;
        self.lost.clear(seq);
        self.lost_count -= 1;
        self.resent.push_back((seq, now));
        Some(seq)
    }

    fn lose(&mut self, seq: u64) {
        self.lost.set(seq);
        self.lost_count += 1;
        self.lost_from = self.lost_from.min(seq);
    }

    /// A loss at or above `una` starts a new episode unless one lasts.
    pub(super) fn begins_episode(&mut self, una: u64, next: u64) -> bool {
        let new = una >= self.episode_end;
        if new {
            self.episode_end = next;
        }
        new
    }

    /// Gives up packets that enough later ones have overtaken.
    pub(super) fn lose_overtaken(&mut self, una: u64, lost: &mut impl FnMut(u64)) {
        let end = self.high.saturating_sub(OVERTAKEN);
        for seq in self.judged.max(una)..end {
            if !self.sacked.get(seq) && !self.lost.get(seq) {
                self.lose(seq);
                lost(seq);
            }
        }
        self.judged = self.judged.max(end);
    }

    /// Gives up retransmissions sent before `limit`.
    pub(super) fn lose_resent_before(&mut self, limit: Time, lost: &mut impl FnMut(u64)) {
        while let Some(&(seq, at)) = self.resent.front() {
            let arrived = self.sacked.below(seq) || self.sacked.get(seq) || self.lost.get(seq);
            if !arrived && at >= limit {
                return;
            }
            self.resent.pop_front();
            if !arrived {
                self.lose(seq);
                lost(seq);
            }
        }
    }

    /// Starts the reordering timer where something is missing and it does not run.
    pub(super) fn arm_reorder(&mut self, now: Time, window: Span) {
        if self.reorder_at == Time::NEVER && self.marked < self.high {
            self.marked = self.high;
            self.reorder_at = now + window;
        }
    }

    /// The reordering timer: holes it was started for are lost.
    pub(super) fn lose_marked(
        &mut self,
        una: u64,
        now: Time,
        window: Span,
        lost: &mut impl FnMut(u64),
    ) {
        for seq in self.judged.max(una)..self.marked {
            if !self.sacked.get(seq) && !self.lost.get(seq) {
                self.lose(seq);
                lost(seq);
            }
        }
        self.judged = self.judged.max(self.marked);
        self.reorder_at = Time::NEVER;
        self.arm_reorder(now, window);
    }

    /// A timeout: everything that has not arrived is lost.
    pub(super) fn lose_all(&mut self, una: u64, next: u64) {
        for seq in una..next {
            if !self.sacked.get(seq) && !self.lost.get(seq) {
                self.lose(seq);
            }
        }
        self.resent.clear();
        self.judged = next;
        self.marked = next;
        self.reorder_at = Time::NEVER;
        self.episode_end = next;
    }
}

/// A set of packet numbers at and above a moving base.
#[derive(Debug, Default)]
struct Bits {
    /// Packet number of the first bit, a multiple of 64.
    base: u64,
    /// Nothing below counts.
    from: u64,
    words: VecDeque<u64>,
}

impl Bits {
    fn begin(&mut self, from: u64) {
        self.words.clear();
        self.base = from & !63;
        self.from = from;
    }
    fn below(&self, seq: u64) -> bool {
        seq < self.from
    }
    fn get(&self, seq: u64) -> bool {
        seq >= self.from
            && self
                .words
                .get(((seq - self.base) / 64) as usize)
                .is_some_and(|word| word >> (seq & 63) & 1 == 1)
    }
    fn set(&mut self, seq: u64) {
        let word = ((seq - self.base) / 64) as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (seq & 63);
    }
    fn clear(&mut self, seq: u64) {
        if let Some(word) = self.words.get_mut(((seq - self.base) / 64) as usize) {
            *word &= !(1 << (seq & 63));
        }
    }
    /// Forgets everything below `from`; how many members that were.
    fn advance(&mut self, from: u64) -> u64 {
        let mut gone = 0;
        while self.base + 64 <= from {
            gone += self.words.pop_front().map_or(0, |word| word.count_ones() as u64);
            self.base += 64;
        }
        if let Some(word) = self.words.front_mut() {
            let passed = *word & ((1u64 << (from & 63)) - 1);
            gone += passed.count_ones() as u64;
            *word &= !passed;
        }
        self.from = from;
        gone
    }
    fn first_from(&self, from: u64) -> Option<u64> {
        let from = from.max(self.from);
        let start = ((from - self.base) / 64) as usize;
        for (i, word) in self.words.iter().enumerate().skip(start) {
            let word = if i == start { word & (!0 << (from & 63)) } else { *word };
            if word != 0 {
                return Some(self.base + i as u64 * 64 + word.trailing_zeros() as u64);
            }
        }
        None
    }
}
