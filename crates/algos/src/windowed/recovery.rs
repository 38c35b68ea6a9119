//! What a sender remembers of single packets. It exists only while something is missing.

use alloc::collections::VecDeque;

use tidegate_core::{Span, Time};

use crate::kit::bits::Bits;

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
            let arrived = seq < self.sacked.base() || self.sacked.get(seq) || self.lost.get(seq);
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
