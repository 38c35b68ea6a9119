//! Distributions of measured values: their points, and the distance between two of them.

/// A group holds at most this share of all values, and of their sum, unless it is a single value.
const SHARE: usize = 500;
/// Up to this number of distinct values, each is a point.
const MOST_EXACT: usize = 1000;
/// Ratio of the 90th to the 10th percentile of sizes up to which an incast has one size.
const ALIKE: f64 = 1.1;

/// Points (value, cumulative share) of a distribution that is sampled in steps. Many distinct
/// values are grouped, so that each group holds a small share of the values and of their sum, and
/// its point is its mean. The mean of the distribution stays the same. `sorted` is in order.
pub(super) fn steps(sorted: &[u64]) -> Vec<(f64, f64)> {
    let runs: Vec<&[u64]> = sorted.chunk_by(|a, b| a == b).collect();
    let n = sorted.len();
    let sum: u128 = sorted.iter().map(|value| u128::from(*value)).sum();
    let is_exact = runs.len() <= MOST_EXACT;
    let (mut points, mut count, mut bytes, mut below) = (Vec::new(), 0, 0, 0);
    for run in runs {
        count += run.len();
        bytes += u128::from(run[0]) * run.len() as u128;
        if is_exact || count * SHARE >= n || bytes * SHARE as u128 >= sum {
            below += count;
            points.push((bytes as f64 / count as f64, below as f64 / n as f64));
            (count, bytes) = (0, 0);
        }
    }
    if count > 0 {
        points.push((bytes as f64 / count as f64, 1.0));
    }
    points
}

/// Whether the sizes of incasts are so similar that one size stands for all.
pub(super) fn is_alike(sorted: &[u64]) -> bool {
    let at = |share: f64| super::percentile(sorted, share).unwrap_or(0) as f64;
    at(0.9) <= ALIKE * at(0.1)
}

/// Largest difference between two empirical distributions (Kolmogorov-Smirnov). Both are in order;
/// `None` if one is empty.
pub fn largest_difference(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let (mut i, mut j, mut most) = (0, 0, 0.0f64);
    while i < a.len() && j < b.len() {
        let value = a[i].min(b[j]);
        while i < a.len() && a[i] <= value {
            i += 1;
        }
        while j < b.len() && b[j] <= value {
            j += 1;
        }
        most = most.max((i as f64 / a.len() as f64 - j as f64 / b.len() as f64).abs());
    }
    Some(most)
}

/// The difference that two samples of the same distribution exceed with a probability of 5 %.
pub(super) fn by_chance(n: usize, m: usize) -> Option<f64> {
    let (n, m) = (n as f64, m as f64);
    (n > 0.0 && m > 0.0).then(|| (1.358 * ((n + m) / (n * m)).sqrt()).min(1.0))
}

/// The value below which a share of the values lies; `None` without values.
pub fn percentile(sorted: &[u64], share: f64) -> Option<u64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).or(sorted.last()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_keep_the_mean() {
        assert_eq!(steps(&[5, 5, 7, 9]), [(5.0, 0.5), (7.0, 0.75), (9.0, 1.0)]);
        // A heavy tail with many distinct sizes.
        let mut sizes: Vec<u64> = (1..20_000u64).map(|i| 1000 + 40_000_000 / i).collect();
        sizes.sort_unstable();
        let points = steps(&sizes);
        assert!((100..2100).contains(&points.len()), "{}", points.len());
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
        let mut below = 0.0;
        let mean: f64 = points
            .iter()
            .map(|(size, cdf)| size * (cdf - std::mem::replace(&mut below, *cdf)))
            .sum();
        let exact = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
        assert!((mean / exact - 1.0).abs() < 1e-9, "{mean} {exact}");
        assert_eq!(points.last(), Some(&(*sizes.last().unwrap() as f64, 1.0)));
    }

    #[test]
    fn differences_of_distributions() {
        let difference = |a: &[f64], b: &[f64]| largest_difference(a, b);
        assert_eq!(difference(&[1.0, 2.0], &[1.0, 2.0]), Some(0.0));
        assert_eq!(difference(&[1.0, 2.0], &[3.0]), Some(1.0));
        assert_eq!(difference(&[1.0, 2.0, 3.0, 4.0], &[2.0, 2.0, 2.0, 9.0]), Some(0.25));
        assert_eq!(difference(&[], &[1.0]), None);
        assert_eq!(percentile(&[1, 2, 3, 4], 0.5), Some(2));
        assert_eq!(percentile(&[1, 2, 3, 4], 1.0), Some(4));
        assert_eq!(percentile(&[], 0.5), None);
    }
}
