//! Means over seeds, with confidence intervals.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::estimate::Estimate;
use crate::readings::{Better, Metric, Reading};

/// A metric over several seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Aggregated {
    /// Label of the flows; empty for flows without a label, and for values of the whole run.
    pub label: String,
    /// Their protocol; for the whole run all protocols, joined by ` + `.
    pub protocol: String,
    /// Name of the metric.
    pub metric: &'static str,
    /// Its unit; empty for counts and ratios.
    pub unit: &'static str,
    /// Lower bound of message sizes; absent for all sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_bytes: Option<u64>,
    /// Upper bound of message sizes, exclusive; absent if unbounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below_bytes: Option<u64>,
    /// Number of seeds with a value.
    pub n: usize,
    /// Mean of their values.
    pub mean: f64,
    /// Half of the 95 % confidence interval by Student's t; null where `n` is one.
    pub half_width: Option<f64>,
    /// The smallest value.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Some of the values would be greater, or equal, if all messages had finished.
    pub is_lower_bound: bool,
    /// Some of the values are percentiles of so few values that they are maxima.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_maximum: bool,
    /// The best of several runs: paired tests find its difference from each other run significant.
    pub is_best: bool,
    /// Difference from the baseline; absent for the baseline itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
    /// One value per seed, in the order of seeds; null if a seed has none.
    pub values: Vec<Option<f64>>,
    #[serde(skip)]
    pub(crate) better: Better,
}

/// Difference of a metric from the baseline: the mean over the seeds that both have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Number of seeds for which both have a value.
    pub n: usize,
    /// Mean of the differences: this metric minus the baseline.
    pub mean: f64,
    /// Half of the 95 % confidence interval by Student's t; null where `n` is one.
    pub half_width: Option<f64>,
    /// `p` of the two-sided paired t-test; null if there is no test: for one seed, for differences
    /// that do not vary, and for metrics for which neither more nor less is better.
    pub p: Option<f64>,
    /// `p` after Holm's correction over all tests of the table.
    pub p_holm: Option<f64>,
    /// `p_holm` is below 0.05, and the better value is not just a lower bound.
    pub is_significant: bool,
    /// One value per seed, in the order of seeds; null if either has no value.
    pub values: Vec<Option<f64>>,
}

/// Identity of a reading within a run: metric, sizes, label and protocol.
type Name<'a> = (&'a str, Option<(u64, Option<u64>)>, &'a str, &'a str);

fn name(one: &Reading) -> Name<'_> {
    (one.metric.name, one.sizes, &one.label, &one.protocol)
}

/// Metrics of one run under several seeds: all for which any seed has a value.
pub(crate) fn aggregated(seeds: &[Vec<Reading>]) -> Vec<Aggregated> {
    // In the order of the first seed. A reading that only later seeds have follows its predecessor
    // there.
    let mut order: Vec<Name<'_>> = Vec::new();
    let mut found: BTreeMap<Name<'_>, Vec<Option<&Reading>>> = BTreeMap::new();
    for (seed, readings) in seeds.iter().enumerate() {
        let mut before = None;
        for reading in readings {
            let name = name(reading);
            let of_seeds = found.entry(name).or_insert_with(|| {
                let place = before.and_then(|name| order.iter().position(|other| *other == name));
                let at = if seed == 0 { order.len() } else { place.map_or(0, |place| place + 1) };
                order.insert(at, name);
                vec![None; seeds.len()]
            });
            of_seeds[seed] = Some(reading);
            before = Some(name);
        }
    }
    let of = |name: Name<'_>| {
        let found = &found[&name];
        let one = found.iter().copied().flatten().next()?;
        let known: Vec<f64> = found.iter().flatten().map(|reading| reading.value).collect();
        let Estimate { mean, half } = Estimate::of(&known)?;
        let Metric { name, unit, better } = one.metric;
        Some(Aggregated {
            label: one.label.clone(),
            protocol: one.protocol.clone(),
            metric: name,
            unit,
            min_bytes: one.sizes.map(|sizes| sizes.0),
            below_bytes: one.sizes.and_then(|sizes| sizes.1),
            n: known.len(),
            mean,
            half_width: half,
            min: known.iter().copied().fold(f64::INFINITY, f64::min),
            max: known.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            is_lower_bound: found.iter().flatten().any(|reading| reading.is_lower_bound),
            is_maximum: found.iter().flatten().any(|reading| reading.is_maximum),
            is_best: false,
            difference: None,
            values: found.iter().map(|reading| reading.map(|reading| reading.value)).collect(),
            better,
        })
    };
    order.into_iter().filter_map(of).collect()
}

impl Aggregated {
    /// Whether it aggregates readings of this identity.
    pub fn is_of(&self, reading: &Reading) -> bool {
        let sizes = self.min_bytes.map(|min| (min, self.below_bytes));
        (self.metric, sizes, self.label.as_str(), self.protocol.as_str()) == name(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(label: &str, name: &'static str, better: Better, value: f64) -> Reading {
        Reading {
            label: label.to_owned(),
            protocol: "p".to_owned(),
            metric: Metric { name, unit: "", better },
            sizes: None,
            value,
            is_lower_bound: false,
            is_maximum: false,
        }
    }

    #[test]
    fn seeds_without_a_label_are_not_counted() {
        let reading = |label: &str, value| reading(label, "m", Better::Less, value);
        let seeds = [
            vec![reading("a", 1.0), reading("c", 7.0)],
            vec![reading("a", 3.0), reading("b", 5.0), reading("c", 9.0)],
            vec![],
        ];
        let all = aggregated(&seeds);
        let shown: Vec<_> = all.iter().map(|one| (one.label.as_str(), one.n, one.mean)).collect();
        assert_eq!(shown, [("a", 2, 2.0), ("b", 1, 5.0), ("c", 2, 8.0)]);
        assert_eq!(all[0].values, [Some(1.0), Some(3.0), None]);
        // Deviation √2, divided by √2, times t of one degree of freedom.
        assert!((all[0].half_width.unwrap() - 12.706_204_736).abs() < 1e-12);
        assert_eq!((all[1].half_width, all[0].min, all[0].max), (None, 1.0, 3.0));
    }

    #[test]
    fn one_lower_bound_makes_the_mean_a_bound() {
        let of = |is_lower_bound| {
            vec![Reading { is_lower_bound, ..reading("a", "m", Better::Less, 1.0) }]
        };
        assert!(aggregated(&[of(false), of(true)])[0].is_lower_bound);
        assert!(!aggregated(&[of(false), of(false)])[0].is_lower_bound);
    }
}
