//! Which receiver a sender serves next: a share of the link goes to all in turns, the rest to the
//! shortest message.
//!
//! Each has a deficit that grows by its quantum with every packet; the largest is served once it is
//! worth a packet.

use crate::kit::heap::Heap;

/// One packet's worth of deficit.
pub(super) const ONE: i64 = 1 << 24;

/// Destinations that can send, by number.
#[derive(Default)]
pub(super) struct Turns {
    /// By their head message.
    shortest: Heap<u128>,
    /// The same ones; the deficit of one is `round` less its key. One that has been alone since it
    /// came may be left out: the round has not moved since, so its deficit is zero.
    deficits: Heap<i64>,
    round: i64,
}

impl Turns {
    /// A destination can send, and its shortest message has this key. One that could not before has
    /// no deficit.
    #[inline]
    pub(super) fn set(&mut self, number: u32, key: u128) {
        self.shortest.set(number, key);
        if self.shortest.len() > 1 {
            self.begin_deficit(number);
        }
    }

    /// It is not alone: all have a deficit of their own.
    fn begin_deficit(&mut self, number: u32) {
        if self.deficits.len() == 0 {
            for member in self.shortest.members() {
                self.deficits.set(member, self.round);
            }
        } else if !self.deficits.contains(number) {
            self.deficits.set(number, self.round);
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, number: u32) {
        self.shortest.remove(number);
        self.deficits.remove(number);
    }

    /// The destination whose turn it is, where the fair share is in units of [`ONE`].
    #[inline]
    pub(super) fn next(&mut self, fair_share: i64) -> Option<u32> {
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
