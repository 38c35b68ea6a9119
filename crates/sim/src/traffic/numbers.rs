//! A hash table of message numbers, with open addressing and linear probing. It is at most half
//! full.
//!
//! Each number is in its home bucket or in the next free one. Homes of consecutive numbers are far
//! apart; if they were adjacent, [`remove`](Numbers::remove) would visit all messages of a burst.

/// The slot in an empty bucket.
const NONE: u32 = u32::MAX;

/// Slots of the live messages of a host, by number.
#[derive(Default)]
pub(super) struct Numbers {
    live: usize,
    /// (number, slot); the length is a power of two.
    buckets: Vec<(u32, u32)>,
}

/// 2^32 over the golden ratio: its multiples stay far apart, however many there are.
const APART: u32 = 0x9e37_79b9;

impl Numbers {
    /// Adds a number with its slot.
    pub(super) fn add(&mut self, number: u32, slot: u32) {
        self.live += 1;
        if self.buckets.len() < 2 * self.live {
            let larger = vec![(0, NONE); (2 * self.buckets.len()).max(4)];
            let buckets = std::mem::replace(&mut self.buckets, larger);
            for (number, slot) in buckets.into_iter().filter(|&(_, slot)| slot != NONE) {
                self.put(number, slot);
            }
        }
        self.put(number, slot);
    }

    /// Home bucket of a number. The table must not be empty.
    #[inline]
    fn home(&self, number: u32) -> usize {
        // The high bits, as many as the index has.
        let bits = self.buckets.len().trailing_zeros();
        (number.wrapping_mul(APART) >> (u32::BITS - bits)) as usize
    }

    fn put(&mut self, number: u32, slot: u32) {
        let mask = self.buckets.len() - 1;
        let mut at = self.home(number);
        while self.buckets[at].1 != NONE {
            at = (at + 1) & mask;
        }
        self.buckets[at] = (number, slot);
    }

    /// The slot of the message with this number.
    #[inline]
    pub(super) fn find(&self, number: u32) -> Option<u32> {
        self.bucket(number).map(|at| self.buckets[at].1)
    }

    /// The bucket that holds a number.
    #[inline]
    fn bucket(&self, number: u32) -> Option<usize> {
        let mask = self.buckets.len().checked_sub(1)?;
        let mut at = self.home(number);
        loop {
            match self.buckets[at] {
                (_, NONE) => return None,
                (same, _) if same == number => return Some(at),
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Removes a number, and moves up the entries that it had displaced.
    pub(super) fn remove(&mut self, number: u32) {
        let Some(mut hole) = self.bucket(number) else { return };
        let mask = self.buckets.len() - 1;
        self.live -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let (number, slot) = self.buckets[at];
            if slot == NONE {
                break;
            }
            let from_home = at.wrapping_sub(self.home(number)) & mask;
            if from_home >= at.wrapping_sub(hole) & mask {
                self.buckets[hole] = self.buckets[at];
                hole = at;
            }
        }
        self.buckets[hole].1 = NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tidegate_core::{Domain, Rng};

    #[test]
    fn numbers_are_found_while_they_live() {
        let mut rng = Rng::stream(1, Domain::Faults, 0);
        let (mut numbers, mut model) = (Numbers::default(), BTreeMap::new());
        let mut next = u32::MAX - 5_000;
        for step in 0..20_000u32 {
            if model.len() < 3 || rng.below(100) < 50 && model.len() < 300 {
                numbers.add(next, step);
                assert!(model.insert(next, step).is_none());
                next = next.wrapping_add(1);
            } else {
                // Young numbers are removed more often than old ones, so some live long.
                let nth =
                    model.len() - 1 - rng.below(model.len() as u64).min(rng.below(300)) as usize;
                let number = *model.keys().nth(nth).unwrap();
                numbers.remove(number);
                model.remove(&number);
                assert_eq!(numbers.find(number), None);
            }
            assert!(model.iter().all(|(&number, &slot)| numbers.find(number) == Some(slot)));
        }
        assert!(numbers.buckets.len() <= 1024);
    }

    #[test]
    fn burst_is_removed_in_linear_time() {
        // Oldest first, in a step or two each. It takes minutes if each removal visits all entries.
        let (mut numbers, most) = (Numbers::default(), 1_000_000);
        (0..most).for_each(|number| numbers.add(number, number));
        for number in 0..most {
            assert_eq!(numbers.find(number), Some(number));
            numbers.remove(number);
        }
        assert_eq!(numbers.live, 0);
    }

    #[test]
    fn old_number_does_not_grow_the_table() {
        let mut numbers = Numbers::default();
        numbers.add(0, 7);
        for number in 1..3_000_000 {
            numbers.add(number, 8);
            numbers.remove(number);
        }
        assert_eq!((numbers.find(0), numbers.buckets.len()), (Some(7), 4));
    }
}
