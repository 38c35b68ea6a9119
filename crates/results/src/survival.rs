//! Distributions of values, some of which have only a known lower bound.
//!
//! The completion time of a message that is unfinished at the end of a run has a known lower bound:
//! it is *censored* on the right. If such messages are left out, the estimate is biased towards
//! fast messages. If they count as the slowest, a message that was submitted just before the end
//! counts as slow. The estimate of E. L. Kaplan and P. Meier (Nonparametric estimation from
//! incomplete observations, J. Am. Stat. Assoc. 53, 1958) avoids both: up to its bound, a censored
//! value counts among those that last at least as long; beyond, its weight is distributed over the
//! values that remain. Without censored values, the estimate is the empirical distribution. It
//! requires that the censoring time is independent of the completion time. If this holds only
//! within groups, each group has its own estimate, and [`Curve::together`] combines them.

use crate::sketch::Sketch;

/// Tolerance of shares: smaller differences are rounding errors.
const ROUNDING: f64 = 1e-12;

/// Number of values for which a known value counts on average, from which the estimate is unknown:
/// most of the values there are censored.
const MOST_WEIGHT: f64 = 2.0;

/// The estimated distribution of some values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Known values in order.
    steps: Vec<Step>,
    /// Number of values, known and censored.
    count: u64,
}

/// A known value.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    value: u64,
    /// How often it occurs.
    times: u64,
    /// Estimated number of values that do not exceed it; without censored values, its rank.
    rank: f64,
}

impl Curve {
    /// Estimates the distribution of known values and of lower bounds of censored values (`open`),
    /// both in order with their counts. A value censored at a known value counts as larger.
    pub fn of(known: &[(u64, u64)], open: &[(u64, u64)]) -> Curve {
        let sum = |all: &[(u64, u64)]| all.iter().map(|(_, count)| count).sum::<u64>();
        let count = sum(known) + sum(open);
        let (mut left, mut rank, mut weight) = (count, 0.0, 1.0);
        let mut open = open.iter().peekable();
        let mut steps = Vec::with_capacity(known.len());
        for &(value, times) in known {
            while let Some((_, gone)) = open.next_if(|(bound, _)| *bound < value) {
                // The weight of censored values is distributed over the remaining ones.
                weight *= left as f64 / (left - gone) as f64;
                left -= gone;
            }
            rank += weight * times as f64;
            left -= times;
            // The total count, corrected for rounding.
            let rank = if left == 0 { count as f64 } else { rank };
            steps.push(Step { value, times, rank });
        }
        Curve { steps, count }
    }

    /// Combines the distributions of groups into that of all values.
    pub fn together(curves: impl IntoIterator<Item = Curve>) -> Curve {
        let (mut all, mut count) = (Vec::new(), 0);
        for curve in curves {
            let mut before = 0.0;
            for step in curve.steps {
                all.push(Step { rank: step.rank - before, ..step });
                before = step.rank;
            }
            count += curve.count;
        }
        all.sort_unstable_by_key(|step| step.value);
        let mut rank = 0.0;
        let mut steps: Vec<Step> = Vec::with_capacity(all.len());
        for Step { value, times, rank: more } in all {
            rank += more;
            match steps.last_mut().filter(|last| last.value == value) {
                Some(last) => (last.times, last.rank) = (last.times + times, rank),
                None => steps.push(Step { value, times, rank }),
            }
        }
        Curve { steps, count }
    }

    /// Returns the values up to the end of the estimate in order, each with the share of values
    /// that are larger, from 1 to 0.
    pub fn larger(&self) -> impl DoubleEndedIterator<Item = (u64, f64)> {
        let count = self.count as f64;
        let larger = move |step: &Step| (step.value, (count - step.rank).max(0.0) / count);
        self.steps[..self.known()].iter().map(larger)
    }

    /// Number of steps up to the end of the estimate: the first at which the known values that are
    /// at least as large count for more than [`MOST_WEIGHT`] values each.
    fn known(&self) -> usize {
        let end = self.steps.last().map_or(0.0, |step| step.rank);
        let mut left: u64 = self.steps.iter().map(|step| step.times).sum();
        let mut before = 0.0;
        let is_known = |step: &Step| {
            let weight = (end - before) / left as f64;
            (before, left) = (step.rank, left - step.times);
            weight <= MOST_WEIGHT + ROUNDING
        };
        self.steps.iter().copied().take_while(is_known).count()
    }

    /// Returns the share at which the estimate ends: 1 if no value is censored at or above the
    /// largest known value, and not too many below; `None` without values.
    pub fn reach(&self) -> Option<f64> {
        let rank = self.known().checked_sub(1).map_or(0.0, |last| self.steps[last].rank);
        (self.count > 0).then(|| rank / self.count as f64)
    }

    /// Returns, for each share in `0..=1`, the smallest known value that at least this share of
    /// values does not exceed; without censored values, the nearest-rank percentile. Beyond
    /// [`Curve::reach`], it is a lower bound, at most the largest known value. `None` if no value
    /// is known.
    pub fn percentiles<const N: usize>(&self, shares: [f64; N]) -> [Option<u64>; N] {
        shares.map(|share| {
            let rank = (share - ROUNDING) * self.count as f64;
            let at = self.steps.partition_point(|step| step.rank < rank);
            self.steps.get(at).or(self.steps.last()).map(|step| step.value)
        })
    }
}

/// Whether a curve that ends at `reach` ends before the percentile above which `per_mille` of the
/// values lie.
pub(crate) fn ends_before(reach: f64, per_mille: u64) -> bool {
    reach < 1.0 - per_mille as f64 / 1000.0 - ROUNDING
}

/// Values, some of them censored, in bounded memory: see [`Sketch`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Lifetimes {
    known: Sketch,
    open: Sketch,
}

impl Lifetimes {
    /// Adds a value.
    pub(crate) fn add(&mut self, value: u64) {
        self.known.add(value);
    }

    /// Adds a censored value with this lower bound.
    pub(crate) fn add_open(&mut self, bound: u64) {
        self.open.add(bound);
    }

    /// Adds everything that `other` holds.
    pub(crate) fn merge(&mut self, other: &Lifetimes) {
        self.known.merge(&other.known);
        self.open.merge(&other.open);
    }

    /// Returns the number of known values.
    pub(crate) fn known(&self) -> u64 {
        self.known.count()
    }

    /// Returns the number of censored values.
    pub(crate) fn open(&self) -> u64 {
        self.open.count()
    }

    /// Returns the mean of the known values, rounded to a whole number; `None` if there are none.
    pub(crate) fn mean(&self) -> Option<u64> {
        self.known.mean()
    }

    pub(crate) fn curve(&self) -> Curve {
        Curve::of(&self.known.classes(), &self.open.classes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn once(values: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
        values.into_iter().map(|value| (value, 1)).collect()
    }

    #[test]
    fn percentiles_without_censoring_are_nearest_rank() {
        assert_eq!(Curve::of(&[], &[]).percentiles([0.5]), [None]);
        assert_eq!(Curve::of(&[], &[]).reach(), None);
        let curve = Curve::of(&once(1..=1000), &[]);
        assert_eq!(
            curve.percentiles([0.0, 0.5, 0.99, 0.999, 1.0]),
            [1, 500, 990, 999, 1000].map(Some)
        );
        assert_eq!(curve.reach(), Some(1.0));
        assert_eq!(Curve::of(&[(7, 1)], &[]).percentiles([0.5, 0.999]), [Some(7); 2]);
        for n in [3, 7, 100, 101, 65_536] {
            let curve = Curve::of(&once(1..=n), &[]);
            for per_mille in [1, 10, 500, 900, 990, 999, 1000] {
                let rank = (n * per_mille).div_ceil(1000);
                assert_eq!(curve.percentiles([per_mille as f64 / 1000.0]), [Some(rank)], "{n}");
            }
        }
    }

    /// Freireich's 21 patients under 6-mercaptopurine (Blood 21, 1963), the example of textbooks:
    /// weeks to relapse, and censored times.
    #[test]
    fn estimate_matches_the_textbook() {
        let known = [(6, 3), (7, 1), (10, 1), (13, 1), (16, 1), (22, 1), (23, 1)];
        let open = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35];
        let curve = Curve::of(&known, &once(open));
        let survival = [0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448];
        assert_eq!(curve.larger().count(), known.len());
        let expected = known.iter().zip(survival);
        for ((value, larger), ((week, _), survival)) in curve.larger().zip(expected) {
            assert_eq!(value, *week);
            assert!((larger - survival).abs() < 6e-4, "{week}: {larger}");
        }
        assert_eq!(curve.percentiles([0.1, 0.25, 0.5]), [6, 13, 23].map(Some));
        // The estimate ends at 0.552: percentiles beyond are at least the largest known value.
        assert_eq!(curve.percentiles([0.56, 0.99]), [Some(23); 2]);
        assert!((curve.reach().unwrap() - 0.552).abs() < 5e-4);
        assert!(ends_before(curve.reach().unwrap(), 440));
        assert!(!ends_before(curve.reach().unwrap(), 450));
    }

    /// One of three long messages has finished: it counts for all three.
    #[test]
    fn estimate_ends_where_most_values_are_censored() {
        let few = Curve::of(&[(9, 1)], &once([2, 3]));
        assert_eq!((few.percentiles([0.5, 0.99]), few.reach()), ([Some(9); 2], Some(0.0)));
        assert_eq!(few.larger().count(), 0);
        // Half of them suffice.
        let half = Curve::of(&once([8, 9]), &once([2, 3]));
        assert_eq!((half.reach(), half.larger().count()), (Some(1.0), 2));
        // Short values are known, and the three long ones are not.
        let short = || Curve::of(&[(1, 7)], &[]);
        let both = Curve::together([short(), Curve::of(&[(9, 1)], &once([2, 3]))]);
        assert_eq!((both.reach(), both.larger().last()), (Some(0.7), Some((1, 0.3))));
        // Censored values above all known ones end the estimate, but do not affect it below.
        let above = Curve::together([short(), Curve::of(&[(9, 1)], &once([10, 11]))]);
        assert_eq!(above.reach(), Some(0.8));
    }

    #[test]
    fn together_combines_groups() {
        let thirds = |of: u64| Curve::of(&once((1..=300).filter(|n| n % 3 == of)), &[]);
        assert_eq!(Curve::together([0, 1, 2].map(thirds)), Curve::of(&once(1..=300), &[]));
        assert_eq!(Curve::together([]), Curve::default());
        // One of three values is censored above all values of its group.
        let cut = Curve::of(&[(5, 2)], &[(6, 1)]);
        let all = Curve::together([cut, Curve::of(&[(5, 1), (100, 2)], &[])]);
        let larger: Vec<_> = all.larger().collect();
        assert_eq!(larger, [(5, 0.5), (100, 1.0 / 6.0)]);
        assert!((all.reach().unwrap() - 5.0 / 6.0).abs() < 1e-12);
    }

    /// One group of short lifetimes without censoring, and one of long lifetimes with censoring.
    /// Censoring in the second group does not affect the first.
    #[test]
    fn together_avoids_bias_between_groups() {
        let (mut groups, mut pooled) =
            ([(); 2].map(|()| Lifetimes::default()), Lifetimes::default());
        for (i, life) in (1..=1000).cycle().take(100_000).enumerate() {
            let watched = 1 + (i as u64 / 1000) * 14;
            let is_long = i % 10 == 0;
            let life = if is_long { 50 * life } else { life };
            // No short lifetime is censored.
            let watched = if is_long { 50 * watched } else { u64::MAX };
            for lives in [&mut groups[usize::from(is_long)], &mut pooled] {
                if life <= watched { lives.add(life) } else { lives.add_open(watched) }
            }
        }
        let together = Curve::together(groups.each_ref().map(Lifetimes::curve));
        // Nine in ten are at most 1,000; half of the others are above 25,000.
        let [p45, p95] = together.percentiles([0.45, 0.95]).map(|value| value.unwrap() as f64);
        assert!((p45 / 500.0 - 1.0).abs() < 0.04 && (p95 / 25_000.0 - 1.0).abs() < 0.03);
    }

    /// Lifetimes of 1 to 1,000, censored at 1 to 1,400: mostly short lifetimes are known.
    #[test]
    fn censored_values_do_not_bias_percentiles() {
        let mut lives = Lifetimes::default();
        let mut short = Vec::new();
        for (i, life) in (1..=1000).cycle().take(100_000).enumerate() {
            // All pairs of lifetime and censoring time, the latter in steps of 14.
            let watched = 1 + (i as u64 / 1000) * 14;
            if life <= watched {
                lives.add(life);
                short.push(life);
            } else {
                lives.add_open(watched);
            }
        }
        short.sort_unstable();
        assert!(short[short.len() / 2] < 400, "the median of the known values alone is biased");
        let shares = [0.1, 0.5, 0.9];
        for (share, found) in shares.into_iter().zip(lives.curve().percentiles(shares)) {
            let off = found.unwrap() as f64 - share * 1000.0;
            assert!(off.abs() < 8.0, "{share}: {found:?}");
        }
    }
}
