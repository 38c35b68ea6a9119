//! Lists of seeds.

use std::fmt;
use std::str::FromStr;

use crate::read::keys::MOST_SEED;

/// Seeds in the order of the request, without duplicates, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedList(Vec<u64>);

/// Largest number of seeds; more are probably a mistake.
const MOST_SEEDS: u64 = 10_000;
const EXPECTED: &str = "expected a number of seeds (5: seeds 1 to 5), a range with both ends \
                        (1..5), or a list (1,4,7)";

impl SeedList {
    /// Seeds 1 to `count`.
    ///
    /// # Errors
    /// If there are none, or more than ten thousand.
    pub fn first(count: u64) -> Result<SeedList, String> {
        if (1..=MOST_SEEDS).contains(&count) {
            return Ok(SeedList((1..=count).collect()));
        }
        Err(format!("expected 1 to {MOST_SEEDS} seeds, found {count}"))
    }

    /// These seeds.
    ///
    /// # Errors
    /// If there are none or more than ten thousand, a seed occurs twice, or a seed is too large.
    pub fn of(seeds: Vec<u64>) -> Result<SeedList, String> {
        SeedList::first(seeds.len() as u64)?;
        if let Some(seed) = seeds.iter().find(|seed| **seed > MOST_SEED) {
            return Err(format!("expected seeds from 0 to {MOST_SEED}, found {seed}"));
        }
        let mut sorted = seeds.clone();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("expected each seed once, found {} twice", pair[0])),
            None => Ok(SeedList(seeds)),
        }
    }

    /// The seeds.
    pub fn seeds(&self) -> &[u64] {
        &self.0
    }
}

impl FromStr for SeedList {
    type Err = String;

    /// Parses a number of seeds, a range, or a list of seeds and ranges.
    fn from_str(text: &str) -> Result<SeedList, String> {
        let wrong = || EXPECTED.to_owned();
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
        if !text.contains([',', '.']) {
            return SeedList::first(number(text)?);
        }
        let mut seeds = Vec::new();
        for part in text.split(',') {
            let Some((first, last)) = part.split_once("..") else {
                seeds.push(number(part)?);
                continue;
            };
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(format!(
                    "expected a range whose first end is not above the last, found {}",
                    part.trim()
                ));
            }
            SeedList::first((last - first).saturating_add(1))?;
            seeds.extend(first..=last);
        }
        SeedList::of(seeds)
    }
}

impl fmt::Display for SeedList {
    /// `1 to 5`, or `1, 4, 7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [first, .., last] if self.0.windows(2).all(|pair| pair[0] + 1 == pair[1]) => {
                write!(f, "{first} to {last}")
            }
            all => f.write_str(&all.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_number_a_range_or_a_list() {
        for (text, seeds, shown) in [
            ("3", vec![1, 2, 3], "1 to 3"),
            ("4..4", vec![4], "4"),
            ("2..4", vec![2, 3, 4], "2 to 4"),
            ("1,4,7", vec![1, 4, 7], "1, 4, 7"),
            ("7, 1", vec![7, 1], "7, 1"),
            ("0..1,9,3..4", vec![0, 1, 9, 3, 4], "0, 1, 9, 3, 4"),
        ] {
            let list: SeedList = text.parse().unwrap();
            assert_eq!((list.seeds(), list.to_string().as_str()), (&seeds[..], shown), "{text}");
        }
    }

    #[test]
    fn invalid_lists_are_refused() {
        for (text, expected) in [
            ("", "a range with both ends (1..5)"),
            ("x", "a list (1,4,7)"),
            ("-1", "a list (1,4,7)"),
            ("1.5", "a list (1,4,7)"),
            ("1..", "a list (1,4,7)"),
            ("1,,2", "a list (1,4,7)"),
            ("5..1", "is not above the last, found 5..1"),
            ("0", "expected 1 to 10000 seeds, found 0"),
            ("10001", "expected 1 to 10000 seeds, found 10001"),
            ("0..18446744073709551615", "expected 1 to 10000 seeds"),
            ("1..3,2", "each seed once, found 2 twice"),
            ("9223372036854775808,1", "from 0 to 9223372036854775807"),
        ] {
            let error = text.parse::<SeedList>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
