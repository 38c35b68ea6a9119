//! Which packets of a message have arrived: a bitmap that slides with the first missing one.

use alloc::collections::VecDeque;

/// Packets that have arrived.
#[derive(Default)]
pub(super) struct Window {
    /// Bit i of word j: packet `first + 64 · j + i`.
    words: VecDeque<u64>,
    /// A multiple of 64.
    first: u64,
    /// The first missing packet.
    base: u64,
    /// One above the highest packet that has arrived.
    high: u64,
}

impl Window {
    pub(super) fn clear(&mut self) {
        self.words.clear();
        (self.first, self.base, self.high) = (0, 0, 0);
    }

    /// The first missing packet.
    #[inline]
    pub(super) fn base(&self) -> u64 {
        self.base
    }
    /// One above the highest packet that has arrived.
    #[inline]
    pub(super) fn high(&self) -> u64 {
        self.high
    }

    fn word(&self, index: u64) -> u64 {
        usize::try_from(index).ok().and_then(|index| self.words.get(index)).copied().unwrap_or(0)
    }

    /// Marks a packet; false if it was marked before. The caller bounds how far it is above the
    /// first missing one.
    #[inline]
    pub(super) fn insert(&mut self, packet: u64) -> bool {
        if packet < self.base {
            return false;
        }
        let (index, bit) = (((packet - self.first) / 64) as usize, 1 << (packet % 64));
        while self.words.len() <= index {
            self.words.push_back(0);
        }
        if self.words[index] & bit != 0 {
            return false;
        }
        self.words[index] |= bit;
        self.high = self.high.max(packet + 1);
        if packet == self.base {
            self.slide();
        }
        true
    }

    fn slide(&mut self) {
        while let Some(&word) = self.words.front() {
            let run = (!(word >> (self.base % 64))).trailing_zeros() as u64;
            self.base = (self.base + run).min(self.first + 64);
            if self.base < self.first + 64 {
                return;
            }
            self.words.pop_front();
            self.first += 64;
        }
    }

    /// The first missing packet at or above `packet`.
    pub(super) fn next_missing(&self, packet: u64) -> u64 {
        let mut packet = packet.max(self.base);
        while packet < self.high {
            let missing = self.missing(packet);
            if missing != 0 {
                return packet + missing.trailing_zeros() as u64;
            }
            packet += 64;
        }
        packet
    }

    /// Bit i says that packet `packet + i` is missing; `packet` is not below the base.
    pub(super) fn missing(&self, packet: u64) -> u64 {
        let (index, shift) = ((packet - self.first) / 64, packet % 64);
        let low = self.word(index) >> shift;
        let high = if shift == 0 { 0 } else { self.word(index + 1) << (64 - shift) };
        !(low | high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use tidegate_core::{Domain, Rng};

    #[test]
    fn window_agrees_with_a_set() {
        let mut rng = Rng::stream(1, Domain::Transport, 0);
        for reach in [1, 3, 64, 300] {
            let mut window = Window::default();
            let mut arrived = BTreeSet::new();
            for _ in 0..5_000 {
                let packet = window.base() + rng.below(reach + 2) - rng.below(2).min(window.base());
                assert_eq!(window.insert(packet), arrived.insert(packet));
                let base = (0..).find(|packet| !arrived.contains(packet)).unwrap();
                assert_eq!((window.base(), window.high()), (base, arrived.last().unwrap() + 1));
                let from = base + rng.below(reach);
                let missing =
                    (0..64).map(|i| (!arrived.contains(&(from + i)) as u64) << i).sum::<u64>();
                assert_eq!(window.missing(from), missing);
                assert_eq!(
                    window.next_missing(from),
                    (from..).find(|packet| !arrived.contains(packet)).unwrap()
                );
                if arrived.len() > 1_000 {
                    break;
                }
            }
            assert!(window.words.len() as u64 <= reach / 64 + 2);
        }
    }
}
