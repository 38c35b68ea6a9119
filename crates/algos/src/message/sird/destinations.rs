//! Choice of the next receiver at a sender: one share of the link is distributed round-robin, the
//! rest goes to the shortest message.
//!
//! Each receiver has a deficit that grows by its quantum with every packet; the largest deficit is
//! served once it amounts to a packet.

use crate::kit::heap::Heap;

/// Deficit of one packet.
pub(super) const ONE: i64 = 1 << 24;
/// No destination.
const NONE: u32 = u32::MAX;

/// Destinations that can send, by number.
pub(super) struct DestinationSchedule {
    /// The only destination that can send, without a deficit, and its key; the heaps are then
    /// empty. This is the common case, because a destination is added with every credit and removed
    /// with every packet.
    lone: u32,
    lone_key: u128,
    /// By their first message.
    shortest: Heap<u128>,
    /// The same destinations; the deficit of one is `round` minus its key.
    deficits: Heap<i64>,
    round: i64,
}

impl Default for DestinationSchedule {
    fn default() -> DestinationSchedule {
        let (shortest, deficits) = (Heap::default(), Heap::default());
        DestinationSchedule { lone: NONE, lone_key: 0, shortest, deficits, round: 0 }
    }
}

impl DestinationSchedule {
    /// Adds a destination that can send, with the key of its shortest message. A new one has no
    /// deficit.
    #[inline]
    pub(super) fn set(&mut self, number: u32, key: u128) {
        if self.shortest.len() == 0 && (self.lone == number || self.lone == NONE) {
            (self.lone, self.lone_key) = (number, key);
        } else {
            self.set_among(number, key);
        }
    }

    #[inline(never)]
    fn set_among(&mut self, number: u32, key: u128) {
        let lone = core::mem::replace(&mut self.lone, NONE);
        for (number, key) in [(lone, self.lone_key), (number, key)] {
            if number != NONE {
                self.shortest.set(number, key);
                if !self.deficits.contains(number) {
                    self.deficits.set(number, self.round);
                }
            }
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, number: u32) {
        if self.shortest.len() > 0 {
            self.remove_among(number);
        } else if self.lone == number {
            self.lone = NONE;
        }
    }

    #[inline(never)]
    fn remove_among(&mut self, number: u32) {
        self.shortest.remove(number);
        self.deficits.remove(number);
    }

    #[inline]
    pub(super) fn contain(&self, number: u32) -> bool {
        self.lone == number || self.shortest.contains(number)
    }

    /// Key of the shortest message, if any destination can send.
    pub(super) fn first_key(&self) -> Option<u128> {
        if self.lone != NONE { Some(self.lone_key) } else { Some(self.shortest.first()?.0) }
    }

    /// The destination to serve next, with the fair share in units of [`ONE`].
    #[inline]
    pub(super) fn next(&mut self, fair_share: i64) -> Option<u32> {
        if self.lone != NONE {
            return Some(self.lone);
        }
        let (_, winner) = self.shortest.first()?;
        if self.shortest.len() == 1 { Some(winner) } else { self.choose(fair_share, winner) }
    }

    fn choose(&mut self, fair_share: i64, winner: u32) -> Option<u32> {
        let quantum = fair_share / self.shortest.len() as i64;
        let extra = ONE - fair_share;
        self.add_rounds(1, quantum, winner, extra);
        let (key, _) = self.deficits.first()?;
        if self.round - key < ONE {
            // Adds the required number of rounds at once: until the largest deficit or the winner's
            // suffices.
            let rounds = |key: i64, each: i64| {
                if each > 0 { (ONE - (self.round - key) + each - 1) / each } else { i64::MAX }
            };
            let winners = self.deficits.key(winner)?;
            let rounds = rounds(key, quantum).min(rounds(winners, quantum + extra));
            self.add_rounds(rounds, quantum, winner, extra);
        }
        let (key, chosen) = self.deficits.first()?;
        self.deficits.set(chosen, key + ONE);
        Some(chosen)
    }

    fn add_rounds(&mut self, rounds: i64, quantum: i64, winner: u32, extra: i64) {
        self.round += rounds * quantum;
        if let Some(key) = self.deficits.key(winner) {
            self.deficits.set(winner, key - rounds * extra);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use tidegate_core::{Domain, Rng};

    /// The same by a scan of all destinations, round by round.
    fn expected(all: &mut BTreeMap<u32, (u128, i64)>, fair_share: i64) -> Option<u32> {
        let (_, winner) = all.iter().map(|(&number, &(key, _))| (key, number)).min()?;
        let count = all.len() as i64;
        if count == 1 {
            return Some(winner);
        }
        loop {
            for (&number, (_, deficit)) in all.iter_mut() {
                let extra = if number == winner { ONE - fair_share } else { 0 };
                *deficit += fair_share / count + extra;
            }
            let most = all.iter().map(|(&number, &(_, deficit))| (-deficit, number)).min()?;
            if -most.0 >= ONE {
                all.get_mut(&most.1)?.1 -= ONE;
                return Some(most.1);
            }
        }
    }

    #[test]
    fn order_equals_that_of_a_full_scan() {
        for fair_share in [0, ONE / 4, ONE / 2, ONE] {
            let mut rng = Rng::stream(fair_share as u64, Domain::Transport, 0);
            let (mut schedule, mut all) = (DestinationSchedule::default(), BTreeMap::new());
            for step in 0..20_000 {
                // No change, or one or several at a time.
                let number = rng.below(1 + step / 2_000 % 4) as u32;
                if rng.below(2) == 0 {
                    schedule.remove(number);
                    all.remove(&number);
                } else {
                    let key = rng.below(1_000) as u128;
                    schedule.set(number, key);
                    all.entry(number).or_insert((key, 0)).0 = key;
                }
                assert_eq!(schedule.next(fair_share), expected(&mut all, fair_share));
            }
        }
    }
}
