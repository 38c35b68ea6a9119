//! Connections that may send now, round-robin or by size, and later, by time.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use tidegate_core::{CongestionControl, ConnectionPolicy, Time};

use super::messages::Messages;
use super::sender::Sender;
use crate::kit::heap::{Pile, Positions};
use crate::kit::ring::{Linked, Ring};

/// Connections that may send now.
pub(super) enum Ready {
    /// In the order in which they became ready.
    RoundRobin(Ring),
    /// The one with the fewest bytes left is first.
    Shortest(Pile<u64>, Positions),
}

impl Ready {
    pub(super) fn new(policy: ConnectionPolicy) -> Ready {
        match policy {
            ConnectionPolicy::ShortestFirst => {
                Ready::Shortest(Pile::default(), Positions::default())
            }
            _ => Ready::RoundRobin(Ring::default()),
        }
    }

    #[inline]
    pub(super) fn push<C: CongestionControl>(
        &mut self,
        connection: u32,
        senders: &mut [Sender<C>],
        messages: &Messages,
        mtu: u32,
    ) {
        match self {
            Ready::RoundRobin(ring) => ring.push(connection, senders),
            Ready::Shortest(pile, positions) => {
                let Sender { queue, next, .. } = &senders[connection as usize];
                let left = messages.left(queue, *next, mtu);
                pile.set(positions, connection, left);
            }
        }
    }

    /// Removes the connections to one host.
    pub(super) fn forget<C>(&mut self, dst: u32, senders: &mut [Sender<C>])
    where
        C: CongestionControl,
    {
        match self {
            Ready::RoundRobin(ring) => ring.retain(senders, |sender| sender.dst != dst),
            Ready::Shortest(pile, positions) => {
                let all = (0..).zip(senders).filter(|(_, sender)| sender.dst == dst);
                all.for_each(|(connection, _)| pile.remove(positions, connection));
            }
        }
    }

    /// Removes and returns the next connection.
    #[inline]
    pub(super) fn pop(&mut self, senders: &mut [impl Linked]) -> Option<u32> {
        match self {
            Ready::RoundRobin(ring) => ring.pop(senders),
            Ready::Shortest(pile, positions) => {
                let (_, connection) = pile.first()?;
                pile.remove(positions, connection);
                Some(connection)
            }
        }
    }
}

/// (time, connection) pairs, earliest first. Entries can be stale: the reader checks them.
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

    /// Ensures that an entry no later than `at` exists; `armed_at` is the earliest existing one.
    #[inline]
    pub(super) fn arm(&mut self, at: Time, connection: u32, armed_at: &mut Time) {
        if at < *armed_at {
            *armed_at = at;
            self.push(at, connection);
        }
    }

    /// Removes the entries of the connections for which `stays` is false.
    pub(super) fn retain(&mut self, stays: impl Fn(u32) -> bool) {
        self.heap.retain(|&Reverse((_, connection))| stays(connection));
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
