//! A sender's record of single packets. It exists only while a packet is missing.

use alloc::collections::VecDeque;

use tidegate_core::{Span, Time};

use crate::kit::bits::Bits;

/// On a path that keeps order, a packet is lost when a packet with a number this much higher has
/// arrived: `kPacketThreshold` (RFC 9002, section 6.1.1).
const OVERTAKEN: u64 = 3;

/// Unacknowledged packets: arrived, lost and retransmitted ones.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    sacked: Bits,
    lost: Bits,
    lost_count: u64,
    /// Below this there is no lost packet.
    lost_from: u64,
    /// Highest packet that has arrived, plus one.
    high: u64,
    /// Below this, packets were judged by the packets that overtook them.
    judged: u64,
    /// Retransmissions that have not been acknowledged, by time.
    resent: VecDeque<(u64, Time)>,
    /// The loss episode ends when this packet is acknowledged.
    episode_end: u64,
    /// Time at which an episode of trimmed packets ends in any case.
    episode_over: Time,
    /// Time at which holes below `marked` count as lost, on paths without order.
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
        self.episode_over = Time::ZERO;
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

    /// Registers that packet `seq` has arrived. Returns whether it had counted as lost.
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

    /// Takes the first lost packet for retransmission at `now`.
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

    /// Marks a packet as lost. Returns whether it was neither lost before nor has arrived.
    pub(super) fn lose_one(&mut self, seq: u64) -> bool {
        let is_new = !self.sacked.get(seq) && !self.lost.get(seq);
        if is_new {
            self.lose(seq);
        }
        is_new
    }

    /// Whether a loss at or above `una` starts a new episode.
    pub(super) fn begins_episode(&mut self, una: u64, next: u64) -> bool {
        let new = una >= self.episode_end;
        if new {
            self.episode_end = next;
        }
        new
    }

    /// The same for trimmed packets. An episode ends after `length`, too: its first packet may be
    /// trimmed again and again.
    pub(super) fn begins_trimmed_episode(
        &mut self,
        una: u64,
        next: u64,
        now: Time,
        length: Span,
    ) -> bool {
        if now >= self.episode_over {
            self.episode_end = una;
        }
        let new = self.begins_episode(una, next);
        if new {
            self.episode_over = now.after(length);
        }
        new
    }

    /// Marks packets as lost that a packet [`OVERTAKEN`] numbers higher has overtaken.
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

    /// Marks retransmissions as lost that were sent before `limit`.
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

    /// Starts the reordering timer if a packet is missing and the timer is not running.
    pub(super) fn arm_reorder(&mut self, now: Time, window: Span) {
        if self.reorder_at == Time::NEVER && self.marked < self.high {
            self.marked = self.high;
            self.reorder_at = now + window;
        }
    }

    /// Handles the reordering timer: the holes it was started for are lost.
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

    /// Handles a timeout: everything that has not arrived is lost.
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
