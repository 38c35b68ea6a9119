//! Weighted histograms with a relative error below 1 %, a few kilobytes each.
//!
//! The histograms of a fabric's ports exceed the nearest caches. So a weight is added to its bucket
//! when the next value comes, and prefetched until then; and weights have 32 bits, with carries
//! in a vector of their own.

use crate::prefetch::prefetch;

/// Buckets per octave: half a bucket's width is 1/128 = 0.8 % of its value.
const SUB_BITS: u32 = 6;
const SUBS: u64 = 1 << SUB_BITS;

/// Counts weights by value. Values below 64 units are exact.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    /// Lower halves of the weights, by bucket.
    weights: Vec<u32>,
    /// Upper halves of the weights, by bucket. Empty until one is not 0.
    carries: Vec<u64>,
    zero: u64,
    /// Bucket and weight of the last value, which `weights` does not include.
    last: (usize, u64),
}

impl Histogram {
    #[inline]
    fn bucket(value: u64) -> usize {
        if value < SUBS {
            return value as usize;
        }
        let octave = 63 - value.leading_zeros() - SUB_BITS;
        ((octave as u64 * SUBS) + (value >> octave)) as usize
    }

    /// Middle of the bucket.
    fn value(bucket: usize) -> f64 {
        let bucket = bucket as u64;
        if bucket < 2 * SUBS {
            return bucket as f64;
        }
        let octave = bucket / SUBS - 1;
        let low = (bucket - octave * SUBS) << octave;
        low as f64 + ((1u64 << octave) as f64 - 1.0) / 2.0
    }

    #[inline]
    pub(crate) fn add(&mut self, value: u64, weight: u64) {
        if value == 0 {
            self.zero += weight;
            return;
        }
        let bucket = Self::bucket(value);
        if self.weights.len() <= bucket {
            self.weights.resize((bucket + 1).next_power_of_two(), 0);
        }
        prefetch(&self.weights, bucket);
        let (bucket, weight) = std::mem::replace(&mut self.last, (bucket, weight));
        let Some(lower) = self.weights.get_mut(bucket) else { return };
        let sum = *lower as u64 + weight;
        *lower = sum as u32;
        if sum >> 32 != 0 {
            self.carry(bucket, sum >> 32);
        }
    }

    #[cold]
    fn carry(&mut self, bucket: usize, carry: u64) {
        self.carries.resize(self.weights.len(), 0);
        self.carries[bucket] += carry;
    }

    /// The weights of the buckets, in order.
    fn weights(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator {
        let upper = |bucket| self.carries.get(bucket).map_or(0, |carry| carry << 32);
        let (last, weight) = self.last;
        let pending = move |bucket| if bucket == last { weight } else { 0 };
        let all = self.weights.iter().enumerate();
        all.map(move |(bucket, &lower)| upper(bucket) + lower as u64 + pending(bucket))
    }

    /// Total weight.
    pub(crate) fn weight(&self) -> u64 {
        self.zero + self.weights().sum::<u64>()
    }

    pub(crate) fn clear(&mut self) {
        *self = Histogram::default();
    }

    /// The value below which a fraction `q` of the weight lies; `None` if the histogram is empty.
    pub(crate) fn quantile(&self, q: f64) -> Option<f64> {
        let total = self.zero as f64 + self.weights().map(|weight| weight as f64).sum::<f64>();
        if total == 0.0 {
            return None;
        }
        let mut left = q * total - self.zero as f64;
        if left <= 0.0 {
            return Some(0.0);
        }
        for (bucket, weight) in self.weights().enumerate() {
            left -= weight as f64;
            if left <= 0.0 && weight > 0 {
                return Some(Self::value(bucket));
            }
        }
        self.weights().rposition(|weight| weight > 0).map(Self::value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_within_one_per_cent() {
        for exponent in 0..40 {
            for step in 0..97u64 {
                let value = (1u64 << exponent) + (step << exponent) / 97;
                let mut histogram = Histogram::default();
                histogram.add(value, 5);
                let read = histogram.quantile(0.5).unwrap();
                assert!(
                    (read - value as f64).abs() <= 0.01 * value as f64,
                    "{value} read as {read}"
                );
            }
        }
    }

    #[test]
    fn weights_beyond_32_bits_are_exact() {
        let mut histogram = Histogram::default();
        let weights = [u32::MAX as u64, 1, (1 << 40) + 3, 7, u32::MAX as u64];
        weights.iter().for_each(|&weight| histogram.add(5, weight));
        let sum = weights.iter().sum::<u64>();
        assert_eq!(histogram.weight(), sum);
        histogram.add(900, 1 << 41);
        histogram.add(5, 1);
        assert_eq!(histogram.weight(), sum + (1 << 41) + 1);
        assert_eq!(histogram.quantile(0.3), Some(5.0));
        assert_eq!(histogram.quantile(0.5).map(|value| (value - 900.0).abs() < 9.0), Some(true));
        histogram.clear();
        assert_eq!((histogram.weight(), histogram.quantile(0.5)), (0, None));
    }

    #[test]
    fn quantiles_respect_weights() {
        let mut histogram = Histogram::default();
        histogram.add(0, 90);
        histogram.add(10, 9);
        histogram.add(50, 1);
        assert_eq!(histogram.quantile(0.5), Some(0.0));
        assert_eq!(histogram.quantile(0.95), Some(10.0));
        assert_eq!(histogram.quantile(0.999), Some(50.0));
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}
