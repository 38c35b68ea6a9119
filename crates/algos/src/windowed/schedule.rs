//! Who sends next: a ring of connections that may send now, and heaps of connections that may
//! later.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use tidegate_core::{CongestionControl, Time};

use super::sender::{NONE, Sender};

/// Connections that may send now, served in turn. Linked through the connections themselves.
pub(super) struct Ready {
    head: u32,
    tail: u32,
}

impl Default for Ready {
    fn default() -> Self {
        Ready { head: NONE, tail: NONE }
    }
}

impl Ready {
    #[inline]
    pub(super) fn push<C: CongestionControl>(
        &mut self,
        connection: u32,
        senders: &mut [Sender<C>],
    ) {
        senders[connection as usize].next_ready = NONE;
        if self.tail == NONE {
            self.head = connection;
        } else {
            senders[self.tail as usize].next_ready = connection;
        }
        self.tail = connection;
    }

    #[inline]
    pub(super) fn pop<C: CongestionControl>(&mut self, senders: &mut [Sender<C>]) -> Option<u32> {
        let head = self.head;
        if head == NONE {
            return None;
        }
        self.head = senders[head as usize].next_ready;
        if self.head == NONE {
            self.tail = NONE;
        }
        Some(head)
    }
}

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
