//! Connections that may send later, by time.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use tidegate_core::Time;

/// (time, connection) pairs, earliest first. Entries can be stale: their reader checks.
#[derive(Default)]
pub(super) struct Due {
    heap: BinaryHeap<Reverse<(Time, u32)>>,
}

impl Due {
    /// Time of the earliest entry.
    #[inline]
    pub(super) fn next(&self) -> Time {
        self.heap.peek().map_or(Time::NEVER, |Reverse((at, _))| *at)
    }

    #[inline]
    pub(super) fn push(&mut self, at: Time, connection: u32) {
        self.heap.push(Reverse((at, connection)));
    }

    /// Makes sure that an entry no later than `at` exists; `armed_at` is the earliest that does.
    #[inline]
    pub(super) fn arm(&mut self, at: Time, connection: u32, armed_at: &mut Time) {
        if at < *armed_at {
            *armed_at = at;
            self.push(at, connection);
        }
    }

    #[inline]
    pub(super) fn pop_due_entry(&mut self, now: Time) -> Option<(Time, u32)> {
        if self.next() > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }

    #[inline]
    pub(super) fn pop_due(&mut self, now: Time) -> Option<u32> {
        self.pop_due_entry(now).map(|(_, connection)| connection)
    }
}
