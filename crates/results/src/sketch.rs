//! Many values in bounded memory.

use hdrhistogram::Histogram;
use hdrhistogram::iterators::IterationValue;

/// Largest number of values that are stored exactly.
const EXACT_MAX: usize = 1 << 16;
/// Two significant figures: a bucket is at most 1 % wide.
const SIGNIFICANT_FIGURES: u8 = 2;
/// Largest value; larger ones count as this one. In picoseconds: 53 days.
const VALUE_MAX: u64 = 1 << 62;

/// A multiset of whole numbers, with its mean and its values in order.
///
/// It is exact while it is small (at most 512 KiB). Above, it is a histogram (57 KiB) with an error
/// below 1 %.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sketch {
    count: u64,
    sum: u128,
    exact: Vec<u64>,
    histogram: Option<Box<Histogram<u64>>>,
}

impl Sketch {
    /// Adds a value.
    pub(crate) fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum += u128::from(value);
        match &mut self.histogram {
            Some(histogram) => histogram.saturating_record(value),
            None if self.exact.len() < EXACT_MAX => self.exact.push(value),
            None => self.spill().saturating_record(value),
        }
    }

    /// Adds everything that `other` holds.
    pub(crate) fn merge(&mut self, other: &Sketch) {
        self.count += other.count;
        self.sum += other.sum;
        let fits = self.exact.len() + other.exact.len() <= EXACT_MAX;
        if self.histogram.is_none() && other.histogram.is_none() && fits {
            self.exact.extend_from_slice(&other.exact);
            return;
        }
        let histogram = self.spill();
        other.exact.iter().for_each(|&value| histogram.saturating_record(value));
        if let Some(more) = &other.histogram {
            histogram.add(&**more).expect("histograms of one shape add up");
        }
    }

    /// Returns the number of values.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the exact mean, rounded to a whole number; `None` without values.
    pub(crate) fn mean(&self) -> Option<u64> {
        let n = u128::from(self.count);
        (n > 0).then(|| ((self.sum + n / 2) / n) as u64)
    }

    /// Returns the values in order with their counts. For a histogram, the value is the middle of a
    /// bucket, which halves the error of its end.
    pub(crate) fn classes(&self) -> Vec<(u64, u64)> {
        if let Some(histogram) = &self.histogram {
            let class = |bucket: IterationValue<u64>| {
                let value = histogram.median_equivalent(bucket.value_iterated_to());
                (value, bucket.count_at_value())
            };
            return histogram.iter_recorded().map(class).collect();
        }
        let mut sorted = self.exact.clone();
        sorted.sort_unstable();
        sorted.into_iter().map(|value| (value, 1)).collect()
    }

    /// Moves the exact values to the histogram, and creates it if needed.
    fn spill(&mut self) -> &mut Histogram<u64> {
        let exact = std::mem::take(&mut self.exact);
        let histogram = self.histogram.get_or_insert_with(|| {
            let empty = Histogram::new_with_bounds(1, VALUE_MAX, SIGNIFICANT_FIGURES);
            Box::new(empty.expect("bounds and precision are constants that the library accepts"))
        });
        exact.into_iter().for_each(|value| histogram.saturating_record(value));
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_in_order() {
        let mut sketch = Sketch::default();
        assert_eq!((sketch.classes(), sketch.mean()), (vec![], None));
        (1..=1000).rev().for_each(|value| sketch.add(value));
        assert_eq!(sketch.classes(), (1..=1000).map(|value| (value, 1)).collect::<Vec<_>>());
        assert_eq!(sketch.mean(), Some(501));
    }

    #[test]
    fn histogram_error_is_below_half_a_per_cent() {
        let mut sketch = Sketch::default();
        let n = 4 * EXACT_MAX as u64;
        (0..n).for_each(|i| sketch.add(1_000 + i * 1_000));
        assert!(sketch.exact.is_empty());
        assert_eq!(sketch.mean(), Some(1_000 + (n - 1) * 500));
        let mut before = 0;
        for (value, count) in sketch.classes() {
            // Values of a bucket are consecutive ranks.
            for rank in [before + 1, before + count] {
                let (exact, ours) = (rank as f64 * 1_000.0, value as f64);
                assert!((ours / exact - 1.0).abs() < 0.0051, "{ours} against {exact}");
            }
            before += count;
        }
        assert_eq!(before, n);
    }

    #[test]
    fn merging_equals_adding() {
        for n in [100, EXACT_MAX as u64 - 10, EXACT_MAX as u64 * 2] {
            let (mut whole, mut left, mut right) =
                (Sketch::default(), Sketch::default(), Sketch::default());
            for value in 0..n {
                whole.add(value * 977);
                if value % 3 == 0 { left.add(value * 977) } else { right.add(value * 977) }
            }
            left.merge(&right);
            assert_eq!(left.count(), n);
            assert_eq!(left.mean(), whole.mean());
            assert_eq!(left.classes(), whole.classes(), "{n} values");
        }
    }
}
