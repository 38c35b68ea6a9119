//! Active senders of a receiver: the few with the fewest bytes left to grant, in that order
//! (controlled overcommitment, section 3.5).

use alloc::vec::Vec;

use crate::kit::heap::Heap;

/// Largest number of active senders.
pub(super) const MOST_ACTIVE: usize = 64;

/// Senders with messages that need grants, by number.
pub(super) struct Schedule {
    /// Senders that get grants, in order.
    active: Vec<(u128, u32)>,
    /// Other senders.
    waiting: Heap<u128>,
    /// Number of senders that get grants.
    room: usize,
}

impl Schedule {
    pub(super) fn new(room: usize) -> Schedule {
        // One more while one sender replaces another.
        let active = Vec::with_capacity(MOST_ACTIVE + 1);
        Schedule { active, waiting: Heap::default(), room: room.clamp(1, MOST_ACTIVE) }
    }

    /// Place of a sender that gets grants.
    #[inline]
    pub(super) fn place(&self, sender: u32) -> Option<usize> {
        self.active.iter().position(|&(_, other)| other == sender)
    }

    /// Number of senders that get grants.
    #[inline]
    pub(super) fn active(&self) -> usize {
        self.active.len()
    }

    pub(super) fn has_waiting(&self) -> bool {
        self.waiting.len() > 0
    }

    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Adds or moves a sender. Returns the sender that becomes active, if any.
    #[inline]
    pub(super) fn set(&mut self, sender: u32, key: u128) -> Option<u32> {
        match self.place(sender) {
            Some(place) if self.active[place].0 == key => return None,
            Some(place) => {
                self.active.remove(place);
                self.activate(key, sender);
            }
            None => self.waiting.set(sender, key),
        }
        self.reschedule()
    }

    /// Removes a sender, if present. Returns the sender that becomes active instead.
    pub(super) fn remove(&mut self, sender: u32) -> Option<u32> {
        match self.place(sender) {
            Some(place) => _ = self.active.remove(place),
            None => self.waiting.remove(sender),
        }
        self.reschedule()
    }

    /// Sets the number of active senders. Returns the sender that becomes active, if any.
    pub(super) fn resize(&mut self, room: usize) -> Option<u32> {
        self.room = room.clamp(1, MOST_ACTIVE);
        while self.active.len() > self.room {
            let Some((key, sender)) = self.active.pop() else { break };
            self.waiting.set(sender, key);
        }
        self.reschedule()
    }

    fn activate(&mut self, key: u128, sender: u32) {
        let place = self.active.partition_point(|&other| other < (key, sender));
        self.active.insert(place, (key, sender));
    }

    /// Activates the first waiting sender if there is room, or in place of the last active one.
    #[inline]
    fn reschedule(&mut self) -> Option<u32> {
        let (key, sender) = self.waiting.first()?;
        if self.active.len() >= self.room {
            let last = *self.active.last()?;
            if last < (key, sender) {
                return None;
            }
            self.active.pop();
            self.waiting.set(last.1, last.0);
        }
        self.waiting.remove(sender);
        self.activate(key, sender);
        Some(sender)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use tidegate_core::{Domain, Rng};

    #[test]
    fn first_senders_get_grants_after_any_change() {
        let mut rng = Rng::stream(1, Domain::Transport, 0);
        for room in [1, 2, 5] {
            let (mut schedule, mut all) = (Schedule::new(room), BTreeMap::<u32, u128>::new());
            let first = |all: &BTreeMap<u32, u128>, room| {
                let mut order: Vec<_> = all.iter().map(|(&sender, &key)| (key, sender)).collect();
                order.sort_unstable();
                order.truncate(room);
                order
            };
            for _ in 0..20_000 {
                let (sender, before) = (rng.below(12) as u32, schedule.active.clone());
                let entered = if rng.below(3) == 0 {
                    all.remove(&sender);
                    schedule.remove(sender)
                } else {
                    let key = rng.below(20) as u128;
                    all.insert(sender, key);
                    schedule.set(sender, key)
                };
                assert_eq!(schedule.active, first(&all, room));
                let was = |sender: &u32| before.iter().any(|(_, other)| other == sender);
                let new = schedule.active.iter().map(|&(_, sender)| sender).find(|s| !was(s));
                assert_eq!(entered, new);
                assert_eq!(schedule.has_waiting(), all.len() > room);
            }
            let entered = schedule.resize(room + 1);
            assert_eq!(schedule.active, first(&all, room + 1));
            assert_eq!(entered.is_some(), all.len() > room);
            assert_eq!(schedule.resize(room), None);
            assert_eq!(schedule.active, first(&all, room));
        }
    }
}
