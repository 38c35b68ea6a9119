//! Means over seeds, with how far those of all seeds may be, and which is the best of several.

use std::collections::BTreeMap;

use serde::Serialize;

use super::SeededRun;
use crate::estimate::Estimate;
use crate::readings::{Better, Metric, Reading};

/// A metric over several seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Aggregated {
    /// Which flows; empty for those without a label, and for what is of the whole run.
    pub label: String,
    /// Their protocol; of the whole run all of them, joined by ` + `.
    pub protocol: String,
    /// What is measured.
    pub metric: &'static str,
    /// Its unit; empty for counts and ratios.
    pub unit: &'static str,
    /// Of messages of that size and more; of all where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_bytes: Option<u64>,
    /// And less than that; without a bound where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below_bytes: Option<u64>,
    /// Seeds that gave a value.
    pub n: usize,
    /// Mean of their values.
    pub mean: f64,
    /// Half of the 95 % confidence interval by Student's t; null where `n` is one.
    pub half_width: Option<f64>,
    /// The smallest value.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Some of the values would be more, or as much, had all messages finished.
    pub is_lower_bound: bool,
    /// Of several runs, the best: its interval is apart from that of each other.
    pub is_best: bool,
    /// One a seed, in the order of seeds; null where a seed gave none.
    pub values: Vec<Option<f64>>,
    #[serde(skip)]
    better: Better,
}

/// What tells readings of a run apart: metric, sizes, label and protocol.
type Name<'a> = (&'a str, Option<(u64, Option<u64>)>, &'a str, &'a str);

fn name(one: &Reading) -> Name<'_> {
    (one.metric.name, one.sizes, &one.label, &one.protocol)
}

/// What the same run comes to under several seeds: all that any seed gave a value of.
pub(crate) fn aggregated(seeds: &[Vec<Reading>]) -> Vec<Aggregated> {
    // In the order of the first seed; what only later ones have follows what is before it there.
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
            is_best: false,
            values: found.iter().map(|reading| reading.map(|reading| reading.value)).collect(),
            better,
        })
    };
    order.into_iter().filter_map(of).collect()
}

impl Aggregated {
    fn interval(&self) -> Option<(f64, f64)> {
        Estimate { mean: self.mean, half: self.half_width }.interval()
    }

    /// Whether it is better than `other` whatever either is within its interval. An interval of
    /// nothing is one that seeds say nothing of.
    fn beats(&self, other: &Aggregated) -> bool {
        if self.min == self.max || other.min == other.max {
            return false;
        }
        let Some((own, theirs)) = self.interval().zip(other.interval()) else { return false };
        match self.better {
            // What is only a lower bound may be anything above.
            Better::Less => !self.is_lower_bound && own.1 < theirs.0,
            Better::More => own.0 > theirs.1,
            Better::Neither => false,
        }
    }
}

/// Marks what is better than the same of all other runs. Of each run the flows under its protocol
/// are compared: those that have another protocol in all runs are only beside them.
pub(crate) fn mark_best(runs: &mut [SeededRun]) {
    let of_run = |run: &SeededRun| -> BTreeMap<(&'static str, String, Option<u64>), Aggregated> {
        let own = run.metrics.iter().filter(|one| one.protocol == run.protocol);
        own.map(|one| ((one.metric, one.label.clone(), one.min_bytes), one.clone())).collect()
    };
    let all: Vec<_> = runs.iter().map(of_run).collect();
    for (this, run) in runs.iter_mut().enumerate() {
        for one in run.metrics.iter_mut().filter(|one| one.protocol == run.protocol) {
            let same = (one.metric, one.label.clone(), one.min_bytes);
            let mut others = all.iter().enumerate().filter(|(other, _)| *other != this);
            one.is_best = all.len() > 1
                && others.all(|(_, of)| of.get(&same).is_some_and(|other| one.beats(other)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readings::tests::summary;

    fn reading(label: &str, name: &'static str, better: Better, value: f64) -> Reading {
        Reading {
            label: label.to_owned(),
            protocol: "p".to_owned(),
            metric: Metric { name, unit: "", better },
            sizes: None,
            value,
            is_lower_bound: false,
        }
    }

    #[test]
    fn seeds_that_lack_a_label_are_not_counted_in_it() {
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
        // Deviation the root of two over the root of two, times t of one degree of freedom.
        assert!((all[0].half_width.unwrap() - 12.706_204_736).abs() < 1e-12);
        assert_eq!((all[1].half_width, all[0].min, all[0].max), (None, 1.0, 3.0));
    }

    /// Which of runs with these values is marked.
    fn best(better: Better, runs: &[&[f64]], change: impl Fn(usize, &mut Aggregated)) -> Vec<bool> {
        let first = summary(1);
        let run = |(i, values): (usize, &&[f64])| {
            let seed = |value: &f64| vec![reading("a", "m", better, *value)];
            let mut metrics = aggregated(&values.iter().map(seed).collect::<Vec<_>>());
            metrics.iter_mut().for_each(|one| change(i, one));
            let (protocol, digests) = ("p".to_owned(), Vec::new());
            SeededRun { protocol, digests, metrics, first: first.clone() }
        };
        let mut runs: Vec<SeededRun> = runs.iter().enumerate().map(run).collect();
        mark_best(&mut runs);
        runs.iter().map(|run| run.metrics[0].is_best).collect()
    }

    #[test]
    fn the_best_is_marked_only_where_intervals_are_apart_from_every_other_s() {
        let (low, high, wide): (&[f64], &[f64], &[f64]) =
            (&[1.0, 1.1, 1.2], &[2.0, 2.1, 2.2], &[1.0, 2.0, 3.0]);
        let same = |_: usize, _: &mut Aggregated| {};
        assert_eq!(best(Better::Less, &[high, low], same), [false, true]);
        assert_eq!(best(Better::More, &[high, low], same), [true, false]);
        assert_eq!(best(Better::Neither, &[high, low], same), [false, false]);
        assert_eq!(best(Better::Less, &[high, low, wide], same), [false; 3], "one overlaps");
        assert_eq!(best(Better::Less, &[&[2.0, 2.0], &[1.0, 1.0]], same), [false; 2], "fixed");
        assert_eq!(best(Better::Less, &[high, &[1.0, 1.0]], same), [false; 2], "one is fixed");
        assert_eq!(best(Better::Less, &[low], same), [false], "alone");
        assert_eq!(best(Better::Less, &[&[1.0], &[2.0]], same), [false; 2], "without intervals");
        let hidden = |which| move |i: usize, one: &mut Aggregated| one.is_lower_bound = i == which;
        assert_eq!(best(Better::Less, &[high, low], hidden(1)), [false; 2], "may be worse");
        assert_eq!(best(Better::Less, &[high, low], hidden(0)), [false, true]);
        let beside = |i: usize, one: &mut Aggregated| {
            if i == 0 {
                one.protocol = "another".to_owned();
            }
        };
        assert_eq!(best(Better::Less, &[high, low], beside), [false; 2], "not comparable");
    }

    #[test]
    fn only_what_is_the_same_is_compared() {
        let small = Some((0, Some(10_000)));
        let large = Some((10_000, None));
        // Of each run by seed: of two labels, and of two sizes.
        let seed = |values: [f64; 4], noise: f64| -> Vec<Reading> {
            let rows = [("a", None), ("b", None), ("a", small), ("a", large)];
            let row = |((label, sizes), value): ((&str, _), f64)| Reading {
                sizes,
                ..reading(label, "m", Better::Less, value + noise)
            };
            rows.into_iter().zip(values).map(row).collect()
        };
        let run = |values: [f64; 4]| SeededRun {
            protocol: "p".to_owned(),
            digests: Vec::new(),
            metrics: aggregated(&[seed(values, 0.0), seed(values, 0.01), seed(values, 0.02)]),
            first: summary(1),
        };
        let mut runs = [run([1.0, 5.0, 1.0, 7.0]), run([2.0, 4.0, 2.0, 6.0])];
        mark_best(&mut runs);
        let marked =
            |run: &SeededRun| run.metrics.iter().map(|one| one.is_best).collect::<Vec<_>>();
        assert_eq!(marked(&runs[0]), [true, false, true, false]);
        assert_eq!(marked(&runs[1]), [false, true, false, true]);
        let sizes: Vec<_> =
            runs[0].metrics.iter().map(|one| (one.min_bytes, one.below_bytes)).collect();
        let known = [(None, None), (None, None), (Some(0), Some(10_000)), (Some(10_000), None)];
        assert_eq!(sizes, known);
    }

    #[test]
    fn one_seed_that_hides_a_value_makes_a_bound_of_the_mean() {
        let of = |is_lower_bound| {
            vec![Reading { is_lower_bound, ..reading("a", "m", Better::Less, 1.0) }]
        };
        assert!(aggregated(&[of(false), of(true)])[0].is_lower_bound);
        assert!(!aggregated(&[of(false), of(false)])[0].is_lower_bound);
    }
}
