//! Paired differences: one metric of two runs, seed by seed.
//!
//! Under one seed all protocols get the same messages at the same times. Much of the variation over
//! seeds is therefore common to them and cancels in the difference for one seed. The mean of these
//! differences has a 95 % interval by Student's t. The paired t-test gives the probability `p` of a
//! mean at least that far from zero if the protocols did not differ. A table holds many such tests,
//! so Holm's method corrects each `p` over all tests of its table (Holm 1979, A simple sequentially
//! rejective multiple test procedure).

use std::collections::BTreeMap;

use crate::aggregated::{Aggregated, Difference};
use crate::catalog::nearest;
use crate::error::Error;
use crate::estimate::{Estimate, p_value};
use crate::readings::{Better, table_of};

/// A corrected `p` below this is significant.
const SIGNIFICANT: f64 = 0.05;
/// Differences whose variation is below this share of the values vary only by rounding.
const ROUNDING: f64 = 1e-12;

/// Metrics of one protocol, to be compared with other protocols under the same messages.
pub(crate) struct Candidate<'a> {
    pub(crate) protocol: &'a str,
    pub(crate) metrics: &'a mut Vec<Aggregated>,
}

/// Selects the baseline from `names`: the requested one, or the first.
///
/// # Errors
/// When the requested baseline is not in `names`.
pub fn baseline(wanted: Option<&str>, names: &[String]) -> Result<Option<String>, Error> {
    let Some(wanted) = wanted else {
        return Ok(names.first().filter(|_| names.len() > 1).cloned());
    };
    if names.iter().any(|name| name == wanted) {
        return Ok(Some(wanted.to_owned()));
    }
    let known = names.iter().map(String::as_str);
    let hint = nearest(wanted, known.clone());
    let known = known.collect::<Vec<_>>().join(", ");
    let message = format!("`{wanted}` is not among the protocols compared{hint}; they are {known}");
    Err(Error::Usage { option: "--baseline", message })
}

/// Stores in each metric its difference from the baseline's, and whether it is the best. Each of
/// `sets` is compared within itself; the tests of all sets are corrected together.
pub(crate) fn compare(sets: &mut [Vec<Candidate<'_>>], baseline: Option<&str>) {
    let (mut differences, mut contests) = (Family::default(), Family::default());
    for (number, set) in sets.iter_mut().enumerate() {
        let cells: Vec<_> = set.iter().map(Candidate::cells).collect();
        let base = set.iter().position(|one| Some(one.protocol) == baseline);
        for (run, own) in cells.iter().enumerate() {
            for (cell, &at) in own {
                let place = (number, run, at);
                let base = base.filter(|base| set[*base].protocol != set[run].protocol);
                let base = base.and_then(|base| Some(&set[base].metrics[*cells[base].get(cell)?]));
                let difference = base.and_then(|base| set[run].metrics[at].minus(base));
                let p = difference.as_ref().and_then(|difference| difference.p);
                differences.add(cell.metric, place, p);
                set[run].metrics[at].difference = difference;
                let rivals = cells.iter().enumerate().filter(|(other, _)| *other != run);
                let rivals = rivals.map(|(other, of)| Some(&set[other].metrics[*of.get(cell)?]));
                let rivals: Option<Vec<_>> = rivals.collect();
                if let Some(tests) = rivals.and_then(|rivals| set[run].metrics[at].leads(&rivals)) {
                    tests.into_iter().for_each(|p| contests.add(cell.metric, place, Some(p)));
                    set[run].metrics[at].is_best = true;
                }
            }
        }
    }
    for ((set, run, at), p) in differences.corrected() {
        if let Some(difference) = &mut sets[set][run].metrics[at].difference {
            difference.p_holm = Some(p);
            difference.is_significant &= p < SIGNIFICANT;
        }
    }
    for ((set, run, at), p) in contests.corrected() {
        sets[set][run].metrics[at].is_best &= p < SIGNIFICANT;
    }
}

/// Identity of a metric within a run. Metrics of two runs are compared if their identities are
/// equal.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    metric: &'static str,
    label: String,
    min_bytes: Option<u64>,
    /// Protocols of the flows; empty for the compared protocol.
    protocols: Vec<String>,
}

impl Candidate<'_> {
    /// Index of each of its metrics.
    fn cells(&self) -> BTreeMap<Cell, usize> {
        let own = |name: &str| if name == self.protocol { "" } else { name }.to_owned();
        let cell = |(at, one): (usize, &Aggregated)| {
            let (label, protocols) = (one.label.clone(), one.protocol.split(" + ").map(own));
            let (metric, min_bytes, protocols) = (one.metric, one.min_bytes, protocols.collect());
            (Cell { metric, label, min_bytes, protocols }, at)
        };
        self.metrics.iter().enumerate().map(cell).collect()
    }
}

impl Aggregated {
    /// Difference from the baseline; `None` if no seed has both values. It is also `None` if both
    /// are lower bounds, because these do not limit their difference.
    fn minus(&self, base: &Aggregated) -> Option<Difference> {
        if self.is_lower_bound && base.is_lower_bound {
            return None;
        }
        let mut found = paired(&self.values, &base.values)?;
        let better = if found.mean * self.better.sign() > 0.0 { self } else { base };
        found.p = found.p.filter(|_| self.better != Better::Neither);
        found.is_significant = found.p.is_some() && better.is_exact_enough();
        Some(found)
    }

    /// The `p` of the test against each rival, if the mean differences from all of them are
    /// improvements.
    fn leads(&self, rivals: &[&Aggregated]) -> Option<Vec<f64>> {
        let test = |rival: &&Aggregated| {
            let found = paired(&self.values, &rival.values)?;
            found.p.filter(|_| found.mean * self.better.sign() > 0.0)
        };
        let is_possible = !rivals.is_empty() && self.is_exact_enough();
        if is_possible { rivals.iter().map(test).collect() } else { None }
    }

    /// Whether its true value can only be as good as the shown value or better. A lower bound may
    /// hide any larger value.
    fn is_exact_enough(&self) -> bool {
        self.better != Better::Less || !self.is_lower_bound
    }
}

impl Better {
    /// Factor by which a difference is multiplied so that more is better.
    fn sign(self) -> f64 {
        match self {
            Better::More => 1.0,
            Better::Less => -1.0,
            Better::Neither => 0.0,
        }
    }
}

/// The paired difference of values, one per seed; `None` if no seed has both.
fn paired(of: &[Option<f64>], base: &[Option<f64>]) -> Option<Difference> {
    let pairs = || of.iter().zip(base).map(|(one, other)| one.zip(*other));
    let values: Vec<Option<f64>> =
        pairs().map(|pair| pair.map(|(one, other)| one - other)).collect();
    let differences: Vec<f64> = values.iter().flatten().copied().collect();
    let (n, estimate) = (differences.len(), Estimate::of(&differences)?);
    let sizes = pairs().flatten().map(|(one, other)| one.abs().max(other.abs()));
    let largest = sizes.fold(0.0, f64::max);
    let far = differences.iter().map(|one| (one - estimate.mean).abs()).fold(0.0, f64::max);
    let varies = far > ROUNDING * largest;
    let half_width = estimate.half.map(|half| if varies { half } else { 0.0 });
    let p = half_width.filter(|_| varies).map(|half| p_value(estimate.mean / half, n - 1));
    Some(Difference {
        n,
        mean: estimate.mean,
        half_width,
        p,
        p_holm: None,
        is_significant: false,
        values,
    })
}

/// Location of a metric: set, run, and index in the run.
type At = (usize, usize, usize);

/// The tests of each table.
#[derive(Default)]
struct Family(BTreeMap<&'static str, Vec<(At, f64)>>);

impl Family {
    fn add(&mut self, metric: &'static str, at: At, p: Option<f64>) {
        let tests = self.0.entry(table_of(metric)).or_default();
        tests.extend(p.map(|p| (at, p)));
    }

    /// Every test with its `p` corrected over its table.
    fn corrected(self) -> impl Iterator<Item = (At, f64)> {
        self.0.into_values().flat_map(|tests| {
            let corrected = holm(&tests.iter().map(|(_, p)| *p).collect::<Vec<_>>());
            tests.into_iter().map(|(at, _)| at).zip(corrected)
        })
    }
}

/// Holm's correction: of `m` tests, the smallest `p` is multiplied by `m`, the next by `m - 1`, and
/// so on. No result is below the one before it, or above one.
fn holm(all: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|a, b| all[*a].total_cmp(&all[*b]));
    let (mut corrected, mut least) = (vec![0.0; all.len()], 0.0_f64);
    for (before, i) in order.into_iter().enumerate() {
        least = least.max(all[i] * (all.len() - before) as f64).min(1.0);
        corrected[i] = least;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregated::aggregated;
    use crate::readings::{Metric, Reading};

    /// A metric with these values, one per seed.
    fn one(metric: &'static str, better: Better, values: &[Option<f64>]) -> Aggregated {
        let reading = |value: &Option<f64>| {
            let metric = Metric { name: metric, unit: "", better };
            let (label, protocol) = ("a".to_owned(), "x".to_owned());
            let sizes = None;
            let (is_lower_bound, is_maximum) = (false, false);
            let of = |value| Reading {
                label,
                protocol,
                metric,
                sizes,
                value,
                is_lower_bound,
                is_maximum,
            };
            value.map(of).into_iter().collect()
        };
        aggregated(&values.iter().map(reading).collect::<Vec<_>>()).remove(0)
    }

    fn goodput(values: &[f64]) -> Aggregated {
        let values: Vec<_> = values.iter().map(|value| Some(*value)).collect();
        one("goodput_mean_gbps", Better::More, &values)
    }

    /// The metric under each of these protocols, compared with the first.
    fn compared(
        of: &[(&str, Aggregated)],
        change: impl Fn(usize, &mut Aggregated),
    ) -> Vec<Aggregated> {
        let mut runs: Vec<(&str, Vec<Aggregated>)> =
            of.iter().map(|(name, one)| (*name, vec![one.clone()])).collect();
        for (i, (name, metrics)) in runs.iter_mut().enumerate() {
            metrics[0].protocol = (*name).to_owned();
            change(i, &mut metrics[0]);
        }
        let set = runs.iter_mut().map(|(protocol, metrics)| Candidate { protocol, metrics });
        compare(&mut [set.collect()], Some(of[0].0));
        runs.into_iter().map(|(_, mut metrics)| metrics.remove(0)).collect()
    }

    fn same(_: usize, _: &mut Aggregated) {}

    #[test]
    fn differences_follow_student_s_paired_test() {
        // Differences 1, 2, 3: mean 2, deviation 1, standard error 1 / √3, t = 2 √3 of two
        // degrees of freedom, of which p = 1 - t / √(t² + 2).
        let of = |values: [f64; 3]| values.map(Some);
        let found = paired(&of([11.0, 22.0, 33.0]), &of([10.0, 20.0, 30.0])).unwrap();
        assert_eq!((found.n, found.mean), (3, 2.0));
        assert!((found.half_width.unwrap() - 4.302_652_730 / 3f64.sqrt()).abs() < 1e-9);
        let p = 1.0 - 12f64.sqrt() / 14f64.sqrt();
        assert!((found.p.unwrap() - p).abs() < 1e-9, "{found:?}");
        // Differences 1 and 3: t = 2 of one degree of freedom, p = 1 - 2 atan(2) / π.
        let found = paired(&of([2.0, 4.0, 0.0])[..2], &of([1.0, 1.0, 0.0])[..2]).unwrap();
        let p = 1.0 - 2.0 * 2f64.atan() / std::f64::consts::PI;
        assert!((found.p.unwrap() - p).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn only_seeds_that_both_have_are_paired() {
        let all = [Some(1.0), None, Some(5.0), Some(7.0)];
        let base = [Some(0.0), Some(9.0), None, Some(3.0)];
        let found = paired(&all, &base).unwrap();
        assert_eq!((found.n, found.mean), (2, 2.5));
        assert_eq!(found.values, [Some(1.0), None, None, Some(4.0)]);
        let found = paired(&all[..2], &base[..2]).unwrap();
        assert_eq!((found.n, found.mean, found.half_width, found.p), (1, 1.0, None, None));
        assert_eq!(paired(&all[1..2], &base[1..2]), None);
    }

    #[test]
    fn differences_that_do_not_vary_are_not_tested() {
        let of = |values: [f64; 3]| values.map(Some);
        // Rounding in the last bits of decimal fractions is not a deviation.
        let found = paired(&of([0.3, 1.3, 2.3]), &of([0.1, 1.1, 2.1])).unwrap();
        assert_eq!((found.half_width, found.p), (Some(0.0), None));
        assert!((found.mean - 0.2).abs() < 1e-12);
        let found = paired(&of([0.0; 3]), &of([0.0; 3])).unwrap();
        assert_eq!((found.mean, found.half_width, found.p), (0.0, Some(0.0), None));
    }

    #[test]
    fn holm_scales_by_rank_and_keeps_the_order() {
        let close = |found: Vec<f64>, known: &[f64]| {
            assert_eq!(found.len(), known.len());
            assert!(found.iter().zip(known).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
        };
        close(holm(&[0.01, 0.04, 0.03, 0.005]), &[0.03, 0.06, 0.06, 0.02]);
        close(holm(&[0.02, 0.02, 0.02]), &[0.06, 0.06, 0.06]);
        close(holm(&[0.9, 0.6]), &[1.0, 1.0]);
        close(holm(&[0.04]), &[0.04]);
        close(holm(&[]), &[]);
    }

    #[test]
    fn variation_common_to_seeds_cancels() {
        // The seeds are far apart, and the second protocol is about ten higher under each.
        let (a, b) = (goodput(&[100.0, 200.0, 300.0]), goodput(&[110.0, 210.1, 309.9]));
        assert!(a.mean + a.half_width.unwrap() > b.mean - b.half_width.unwrap(), "they overlap");
        let found = compared(&[("x", a), ("y", b)], same);
        assert_eq!(found[0].difference, None);
        let difference = found[1].difference.as_ref().unwrap();
        assert!(difference.is_significant && found[1].is_best && !found[0].is_best);
        assert!((difference.mean - 10.0).abs() < 1e-9);
        assert_eq!(difference.p, difference.p_holm, "it is the only test");
    }

    #[test]
    fn more_tests_of_a_table_take_more_evidence() {
        // One test alone has p = 0.03.
        let base = || goodput(&[1.0, 2.0]);
        let near = || goodput(&[2.0, 3.1]);
        let two = compared(&[("x", base()), ("y", near())], same);
        let first = two[1].difference.clone().unwrap();
        assert!(first.p.unwrap() > 0.025 && first.p.unwrap() < SIGNIFICANT);
        assert!(first.is_significant && two[1].is_best);
        let three = compared(&[("x", base()), ("y", near()), ("z", near())], same);
        let second = three[1].difference.clone().unwrap();
        assert_eq!((second.p, second.p_holm), (first.p, first.p.map(|p| 2.0 * p)));
        assert!(!second.is_significant);
        assert!(three.iter().all(|one| !one.is_best), "two are as good");
    }

    #[test]
    fn the_best_beats_every_other() {
        let best = |better, runs: &[&[f64]], change: &dyn Fn(usize, &mut Aggregated)| {
            let names = ["x", "y", "z"];
            let of = |(name, values): (&&'static str, &&[f64])| {
                let values: Vec<_> = values.iter().map(|value| Some(*value)).collect();
                (*name, one("goodput_mean_gbps", better, &values))
            };
            let all: Vec<_> = names.iter().zip(runs).map(of).collect();
            let found = compared(&all, change);
            found.iter().map(|one| one.is_best).collect::<Vec<_>>()
        };
        let (low, high): (&[f64], &[f64]) = (&[1.0, 1.1, 1.2], &[2.0, 2.2, 2.1]);
        let wide: &[f64] = &[1.0, 2.0, 3.0];
        assert_eq!(best(Better::Less, &[high, low], &same), [false, true]);
        assert_eq!(best(Better::More, &[high, low], &same), [true, false]);
        assert_eq!(best(Better::Neither, &[high, low], &same), [false, false]);
        assert_eq!(best(Better::Less, &[high, low, wide], &same), [false; 3], "one is as good");
        assert_eq!(best(Better::Less, &[&[2.0, 2.0], &[1.0, 1.0]], &same), [false; 2], "fixed");
        assert_eq!(best(Better::Less, &[low], &same), [false], "alone");
        assert_eq!(best(Better::Less, &[&[1.0], &[2.0]], &same), [false; 2], "one seed");
        let hidden = |which| move |i: usize, one: &mut Aggregated| one.is_lower_bound = i == which;
        assert_eq!(best(Better::Less, &[high, low], &hidden(1)), [false; 2], "may be worse");
        assert_eq!(best(Better::Less, &[high, low], &hidden(0)), [false, true]);
        let beside = |i: usize, one: &mut Aggregated| {
            if i == 0 {
                one.protocol = "another".to_owned();
            }
        };
        assert_eq!(best(Better::Less, &[high, low], &beside), [false; 2], "not comparable");
        let beside_all = |_: usize, one: &mut Aggregated| one.protocol = "another".to_owned();
        assert_eq!(best(Better::Less, &[high, low], &beside_all), [false, true], "bystanders");
    }

    #[test]
    fn a_lower_bound_is_not_significantly_better() {
        let of = |values: [f64; 3]| one("fct_p99_us", Better::Less, &values.map(Some));
        let runs = [("x", of([20.0, 20.2, 20.1])), ("y", of([10.0, 10.0, 10.2]))];
        let difference = |bounds: [bool; 2]| {
            let hide = move |i: usize, one: &mut Aggregated| one.is_lower_bound = bounds[i];
            compared(&runs, hide)[1].difference.clone()
        };
        let significant = |bounds| difference(bounds).unwrap().is_significant;
        assert!(significant([false; 2]) && significant([true, false]));
        assert!(!significant([false, true]));
        assert!(difference([true; 2]).is_none());
    }

    #[test]
    fn an_unknown_baseline_suggests_the_nearest() {
        let names = ["swift", "sird"].map(str::to_owned);
        assert_eq!(baseline(None, &names).unwrap().as_deref(), Some("swift"));
        assert_eq!(baseline(Some("sird"), &names).unwrap().as_deref(), Some("sird"));
        assert_eq!(baseline(None, &names[..1]).unwrap(), None);
        let message = baseline(Some("swfit"), &names).unwrap_err().to_string();
        for expected in ["--baseline: `swfit`", "did you mean `swift`?", "they are swift, sird"] {
            assert!(message.contains(expected), "{message}");
        }
    }
}
