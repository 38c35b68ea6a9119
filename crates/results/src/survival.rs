//! How values are distributed of which some are only known to be larger than something.
//!
//! A message that is unfinished at the end of a run has taken longer than it has by then: it is
//! *censored* on the right. Who leaves such messages out prefers the quick ones, and who counts
//! them as the slowest of all takes one that was submitted a moment ago for slow. The estimate of
//! E. L. Kaplan and P. Meier (Nonparametric estimation from incomplete observations, J. Am. Stat.
//! Assoc. 53, 1958) does neither: what is censored at a time counts among those that lasted at
//! least so long, and from there on is spread over them. Nothing being censored, it is the plain
//! share of values. It asks that when a message is censored says nothing of how long it takes.
//! Where that holds within each of several groups and not beyond them, each has an estimate of its
//! own, and [together](Curve::together) they are those of all.

use crate::sketch::Sketch;

/// Shares that are apart by less than this are the same: what is above a rank by rounding alone is
/// that rank.
const ROUNDING: f64 = 1e-12;

/// The estimated distribution of some values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Known values in order, each with how many of all do not exceed it: without censored ones its
    /// rank.
    steps: Vec<(u64, f64)>,
    /// How many there are, known and censored.
    count: u64,
}

impl Curve {
    /// Of values, and of those that others are known to exceed (`open`), both in order and each
    /// with how many there are of it. What is censored at a value is taken for larger than it.
    pub fn of(known: &[(u64, u64)], open: &[(u64, u64)]) -> Curve {
        let sum = |all: &[(u64, u64)]| all.iter().map(|(_, count)| count).sum::<u64>();
        let count = sum(known) + sum(open);
        let (mut left, mut rank, mut weight) = (count, 0.0, 1.0);
        let mut open = open.iter().peekable();
        let mut steps = Vec::with_capacity(known.len());
        for &(value, times) in known {
            while let Some((_, gone)) = open.next_if(|(bound, _)| *bound < value) {
                // What is censored is spread over those that are left.
                weight *= left as f64 / (left - gone) as f64;
                left -= gone;
            }
            rank += weight * times as f64;
            left -= times;
            // All of them, but for rounding.
            steps.push((value, if left == 0 { count as f64 } else { rank }));
        }
        Curve { steps, count }
    }

    /// The distribution of all that these are of.
    pub fn together(curves: impl IntoIterator<Item = Curve>) -> Curve {
        let (mut all, mut count) = (Vec::new(), 0);
        for curve in curves {
            let mut before = 0.0;
            for (value, rank) in curve.steps {
                all.push((value, rank - before));
                before = rank;
            }
            count += curve.count;
        }
        all.sort_unstable_by_key(|(value, _)| *value);
        let mut rank = 0.0;
        let mut steps: Vec<(u64, f64)> = Vec::with_capacity(all.len());
        for (value, more) in all {
            rank += more;
            match steps.last_mut().filter(|(last, _)| *last == value) {
                Some((_, last)) => *last = rank,
                None => steps.push((value, rank)),
            }
        }
        Curve { steps, count }
    }

    /// Known values in order, each with the share of all that are larger: 1 to 0.
    pub fn larger(&self) -> impl DoubleEndedIterator<Item = (u64, f64)> {
        let count = self.count as f64;
        self.steps.iter().map(move |&(value, rank)| (value, (count - rank).max(0.0) / count))
    }

    /// The share at which it ends: 1 where nothing is censored after the largest known value;
    /// `None` of nothing.
    pub fn reach(&self) -> Option<f64> {
        let rank = self.steps.last().map_or(0.0, |(_, rank)| *rank);
        (self.count > 0).then(|| rank / self.count as f64)
    }

    /// The smallest value that at least this share of all does not exceed, for each share in
    /// `0..=1`: of the nearest rank where nothing is censored. Where it ends before that share, the
    /// largest known value, which is below; `None` where none is known.
    pub fn percentiles<const N: usize>(&self, shares: [f64; N]) -> [Option<u64>; N] {
        shares.map(|share| {
            let rank = (share - ROUNDING) * self.count as f64;
            let at = self.steps.partition_point(|(_, ranks)| *ranks < rank);
            self.steps.get(at).or(self.steps.last()).map(|(value, _)| *value)
        })
    }
}

/// Whether a curve that ends at `reach` does so before the percentile above which `per_mille` lie.
pub(crate) fn ends_before(reach: f64, per_mille: u64) -> bool {
    reach < 1.0 - per_mille as f64 / 1000.0 - ROUNDING
}

/// Values of which some are censored, in bounded memory: see [`Sketch`].
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

    /// Adds one that is larger than this.
    pub(crate) fn add_open(&mut self, bound: u64) {
        self.open.add(bound);
    }

    /// Adds everything that `other` holds.
    pub(crate) fn merge(&mut self, other: &Lifetimes) {
        self.known.merge(&other.known);
        self.open.merge(&other.open);
    }

    /// How many are known.
    pub(crate) fn known(&self) -> u64 {
        self.known.count()
    }

    /// How many are censored.
    pub(crate) fn open(&self) -> u64 {
        self.open.count()
    }

    /// The mean of those that are known, rounded to a whole number; `None` of none.
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
    fn without_censored_values_percentiles_are_nearest_rank() {
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
    /// weeks to relapse, and those of whom no more is known.
    #[test]
    fn the_estimate_is_that_of_the_textbook() {
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
        // It ends at 0.552: what is beyond is no less than the largest that is known.
        assert_eq!(curve.percentiles([0.56, 0.99]), [Some(23); 2]);
        assert!((curve.reach().unwrap() - 0.552).abs() < 5e-4);
        assert!(ends_before(curve.reach().unwrap(), 440));
        assert!(!ends_before(curve.reach().unwrap(), 450));
    }

    #[test]
    fn curves_together_are_of_all_values() {
        let thirds = |of: u64| Curve::of(&once((1..=300).filter(|n| n % 3 == of)), &[]);
        assert_eq!(Curve::together([0, 1, 2].map(thirds)), Curve::of(&once(1..=300), &[]));
        assert_eq!(Curve::together([]), Curve::default());
        // One of three is known to be larger than all of its group, whatever others are.
        let cut = Curve::of(&[(5, 2)], &[(6, 1)]);
        let all = Curve::together([cut, Curve::of(&[(5, 1), (100, 2)], &[])]);
        let larger: Vec<_> = all.larger().collect();
        assert_eq!(larger, [(5, 0.5), (100, 1.0 / 6.0)]);
        assert!((all.reach().unwrap() - 5.0 / 6.0).abs() < 1e-12);
    }

    /// Short lives of one group, watched for long, and long ones of another, watched for as long
    /// beside theirs: what was cut in the other tells nothing of the first.
    #[test]
    fn groups_are_not_mistaken_for_each_other() {
        let (mut groups, mut pooled) =
            ([(); 2].map(|()| Lifetimes::default()), Lifetimes::default());
        for (i, life) in (1..=1000).cycle().take(100_000).enumerate() {
            let watched = 1 + (i as u64 / 1000) * 14;
            let is_long = i % 10 == 0;
            let life = if is_long { 50 * life } else { life };
            // All of the short ones are seen to end.
            let watched = if is_long { 50 * watched } else { u64::MAX };
            for lives in [&mut groups[usize::from(is_long)], &mut pooled] {
                if life <= watched { lives.add(life) } else { lives.add_open(watched) }
            }
        }
        let together = Curve::together(groups.each_ref().map(Lifetimes::curve));
        // Nine in ten are at most 1,000; of the others a half is above 25,000.
        let [p45, p95] = together.percentiles([0.45, 0.95]).map(|value| value.unwrap() as f64);
        assert!((p45 / 500.0 - 1.0).abs() < 0.04 && (p95 / 25_000.0 - 1.0).abs() < 0.03);
    }

    /// Lives of 1 to 1,000, watched for 1 to 1,400: those that are seen to end are the short ones.
    #[test]
    fn values_that_are_cut_off_are_not_taken_for_short_ones() {
        let mut lives = Lifetimes::default();
        let mut short = Vec::new();
        for (i, life) in (1..=1000).cycle().take(100_000).enumerate() {
            // Every length of life with every length of watch, but for a step.
            let watched = 1 + (i as u64 / 1000) * 14;
            if life <= watched {
                lives.add(life);
                short.push(life);
            } else {
                lives.add_open(watched);
            }
        }
        short.sort_unstable();
        assert!(short[short.len() / 2] < 400, "the median of those alone is far off");
        let shares = [0.1, 0.5, 0.9];
        for (share, found) in shares.into_iter().zip(lives.curve().percentiles(shares)) {
            let off = found.unwrap() as f64 - share * 1000.0;
            assert!(off.abs() < 8.0, "{share}: {found:?}");
        }
    }
}
