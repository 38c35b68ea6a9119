//! A set of packet numbers at and above a moving base: arrived packets of a message (SIRD and the
//! documented example, through [`Window`](super::window)), state of packets in flight (windowed
//! recovery).

use alloc::collections::VecDeque;

/// Packet numbers, one bit each.
#[derive(Debug, Default)]
pub(crate) struct Bits {
    /// Packet number of the first bit, a multiple of 64.
    first: u64,
    /// Numbers below are ignored.
    base: u64,
    words: VecDeque<u64>,
}

impl Bits {
    /// The empty set at and above `base`.
    pub(crate) fn begin(&mut self, base: u64) {
        self.words.clear();
        (self.first, self.base) = (base & !63, base);
    }

    #[inline]
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// The word that holds a packet at or above the base.
    #[inline]
    fn index(&self, packet: u64) -> usize {
        ((packet - self.first) / 64) as usize
    }

    fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(0)
    }

    pub(crate) fn get(&self, packet: u64) -> bool {
        packet >= self.base && self.word(self.index(packet)) >> (packet % 64) & 1 == 1
    }

    /// Adds a packet at or above the base. Returns false if it was present. The caller bounds its
    /// distance from the base.
    #[inline]
    pub(crate) fn set(&mut self, packet: u64) -> bool {
        let (index, bit) = (self.index(packet), 1 << (packet % 64));
        if self.words.len() <= index {
            self.grow(index);
        }
        let word = &mut self.words[index];
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, index: usize) {
        self.words.resize(index + 1, 0);
    }

    /// Removes a packet at or above the base.
    pub(crate) fn clear(&mut self, packet: u64) {
        let index = self.index(packet);
        if let Some(word) = self.words.get_mut(index) {
            *word &= !(1 << (packet % 64));
        }
    }

    /// Moves the base up and removes everything below. Returns the number of removed members.
    pub(crate) fn advance(&mut self, base: u64) -> u64 {
        let mut gone = 0;
        while self.first + 64 <= base {
            gone += self.words.pop_front().map_or(0, |word| word.count_ones() as u64);
            self.first += 64;
        }
        if let Some(word) = self.words.front_mut() {
            let passed = *word & ((1u64 << (base % 64)) - 1);
            gone += passed.count_ones() as u64;
            *word &= !passed;
        }
        self.base = base;
        gone
    }

    /// Moves the base up to the first packet that is not a member.
    #[inline]
    pub(crate) fn slide(&mut self) {
        while let Some(&word) = self.words.front() {
            let run = (!(word >> (self.base % 64))).trailing_zeros() as u64;
            self.base += run;
            if self.base < self.first + 64 {
                return;
            }
            self.words.pop_front();
            self.first += 64;
        }
    }

    /// The first member at or above `packet`.
    pub(crate) fn first_from(&self, packet: u64) -> Option<u64> {
        let from = packet.max(self.base);
        let start = self.index(from);
        for (i, word) in self.words.iter().enumerate().skip(start) {
            let word = if i == start { word & (!0 << (from % 64)) } else { *word };
            if word != 0 {
                return Some(self.first + i as u64 * 64 + word.trailing_zeros() as u64);
            }
        }
        None
    }

    /// Bit i: packet `packet + i` is not a member; `packet` is not below the base.
    pub(crate) fn missing(&self, packet: u64) -> u64 {
        let (index, shift) = (self.index(packet), packet % 64);
        let low = self.word(index) >> shift;
        let high = if shift == 0 { 0 } else { self.word(index + 1) << (64 - shift) };
        !(low | high)
    }

    #[cfg(test)]
    pub(crate) fn words(&self) -> usize {
        self.words.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use tidegate_core::{Domain, Rng};

    #[test]
    fn bits_agree_with_a_set() {
        let mut rng = Rng::stream(1, Domain::Transport, 0);
        for reach in [1, 3, 64, 300] {
            let (mut bits, mut expected) = (Bits::default(), BTreeSet::new());
            let mut base = rng.below(1_000);
            bits.begin(base);
            for _ in 0..5_000 {
                let packet = base + rng.below(reach);
                match rng.below(4) {
                    0 => {
                        bits.clear(packet);
                        expected.remove(&packet);
                    }
                    1 if rng.below(4) == 0 => {
                        base = packet;
                        let above = expected.split_off(&base);
                        assert_eq!(bits.advance(base), expected.len() as u64);
                        expected = above;
                    }
                    _ => assert_eq!(bits.set(packet), expected.insert(packet)),
                }
                assert_eq!(bits.base(), base);
                let probe = base + rng.below(reach + 70);
                assert_eq!(bits.get(probe), expected.contains(&probe));
                assert!(base == 0 || !bits.get(base - 1), "below the base");
                assert_eq!(bits.first_from(probe), expected.range(probe..).next().copied());
                let missing = (0..64).map(|i| (!expected.contains(&(probe + i)) as u64) << i);
                assert_eq!(bits.missing(probe), missing.sum::<u64>());
            }
            assert!(bits.words() as u64 <= reach / 64 + 2);
        }
    }
}
