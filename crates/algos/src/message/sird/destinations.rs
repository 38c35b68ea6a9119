//! Which receiver a sender serves next: a share of the link goes to all in turns, the rest to the
//! shortest message.
//!
//! Each has a deficit that grows by its quantum with every packet; the largest is served once it is
//! worth a packet.

use crate::kit::heap::Heap;

/// One packet's worth of deficit.
pub(super) const ONE: i64 = 1 << 24;
/// No destination.
const NONE: u32 = u32::MAX;

/// Destinations that can send, by number.
pub(super) struct DestinationSchedule {
    /// One that can while no other could, and has no deficit, with its key; then the heaps are
    /// empty. The common case, as a destination comes with every credit and goes with every packet.
    lone: u32,
    lone_key: u128,
    /// By their head message.
    shortest: Heap<u128>,
    /// The same ones; the deficit of one is `round` less its key.
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
    /// A destination can send, and its shortest message has this key. One that could not before has
    /// no deficit.
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

    /// The key of the shortest message, if any destination can send.
    pub(super) fn first_key(&self) -> Option<u128> {
        if self.lone != NONE { Some(self.lone_key) } else { Some(self.shortest.first()?.0) }
    }

    /// The destination whose turn it is, where the fair share is in units of [`ONE`].
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
            // As many rounds at once as it takes: either the largest deficit is enough then, or the
            // winner's.
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

    /// The same by a look at all, round by round.
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
    fn turns_are_those_that_a_look_at_all_destinations_gives() {
        for fair_share in [0, ONE / 4, ONE / 2, ONE] {
            let mut rng = Rng::stream(fair_share as u64, Domain::Transport, 0);
            let (mut schedule, mut all) = (DestinationSchedule::default(), BTreeMap::new());
            for step in 0..20_000 {
                // None, one or several at a time.
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
