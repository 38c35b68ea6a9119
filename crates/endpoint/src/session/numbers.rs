//! Replay protection by packet numbers.

/// Replay window: a packet is accepted if it was overtaken by fewer packets, less at most 63.
const WINDOW: u64 = 8_192;
const WORDS: u64 = WINDOW / 64;

/// The seen packet numbers: one bit for each in the window. Older numbers count as seen.
pub(super) struct Seen {
    newest: Option<u64>,
    /// Bits by number, modulo the window.
    bits: Box<[u64; WORDS as usize]>,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen { newest: None, bits: Box::new([0; WORDS as usize]) }
    }
}

fn place(word: u64) -> usize {
    (word % WORDS) as usize
}

impl Seen {
    /// Whether a number was seen or is too old.
    pub(super) fn before(&self, number: u64) -> bool {
        let Some(newest) = self.newest.filter(|&newest| number <= newest) else { return false };
        let word = number / 64;
        newest / 64 - word >= WORDS || self.bits[place(word)] >> (number % 64) & 1 == 1
    }

    /// Records a number that was not seen [before](Self::before). Returns whether it is the
    /// highest.
    pub(super) fn note(&mut self, number: u64) -> bool {
        let word = number / 64;
        let is_newest = self.newest.is_none_or(|newest| number > newest);
        if is_newest {
            // Words that are reused hold numbers that are too old now.
            let unused = self.newest.map_or(0, |newest| newest / 64 + 1);
            for stale in unused.max((word + 1).saturating_sub(WORDS))..=word {
                self.bits[place(stale)] = 0;
            }
            self.newest = Some(number);
        }
        self.bits[place(word)] |= 1 << (number % 64);
        is_newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn before_and_note() {
        let mut seen = Seen::default();
        assert!(!seen.before(0) && seen.note(0) && seen.before(0));
        assert!(!seen.before(5) && seen.note(5));
        assert!(!seen.before(3) && !seen.note(3) && seen.before(3) && !seen.before(4));
        assert!(seen.note(5 + WINDOW));
        assert!(seen.before(4), "too old");
        assert!(!seen.before(64 * 3) && seen.before(5 + WINDOW));
        assert!(seen.note(u64::MAX) && seen.before(u64::MAX) && seen.before(5 + WINDOW));
    }

    proptest! {
        /// Compares with a set that forgets nothing.
        #[test]
        fn seen_matches_a_set(
            steps in proptest::collection::vec((0..20_000u64, 0..200u64), 1..400)
        ) {
            let (mut seen, mut all) = (Seen::default(), BTreeSet::new());
            let mut base = 0;
            for (ahead, back) in steps {
                base += ahead / 10;
                let number = (base + ahead % 10).saturating_sub(back);
                let highest = all.last().copied();
                let behind = highest.map_or(0, |highest: u64| highest.saturating_sub(number));
                let fresh = !seen.before(number);
                if all.contains(&number) {
                    prop_assert!(!fresh);
                } else if behind <= WINDOW - 64 {
                    prop_assert!(fresh, "{number} below {highest:?}");
                }
                if fresh {
                    prop_assert_eq!(seen.note(number), highest.is_none_or(|h| number > h));
                    all.insert(number);
                }
            }
        }
    }
}
