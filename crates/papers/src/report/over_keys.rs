//! Plots over the keys that differ between runs. These plots include all runs, even hundreds.

use std::collections::BTreeMap;

use tidegate_results::{Fixed, Summary};
use tidegate_scenario::magnitude;

use super::charts::{axis, fct, lines, named, note};
use super::configurations::Configuration;
use super::differences::{differences, follows_protocol};
use super::read::Run;
use crate::plot::{Line, Plot, Points, with_unit};
use tidegate_runs::readings::key_words;

/// Maximum number of swept keys, and minimum number of values of a sweep.
const KEYS_MAX: usize = 2;
const VALUES_MIN: usize = 3;
/// Maximum number of labels with plots of their own.
const LABELS_MAX: usize = 4;
/// Maximum number of lines: a plot with more is unreadable.
const LINES_MAX: usize = 24;

/// Reads one value of a run, for the flows of a label.
type Quantity = fn(&Summary, &str) -> Option<f64>;

const QUANTITIES: [(&str, &str, bool, Quantity); 3] = [
    ("Slowdown, 99th percentile", "slowdown, 99th percentile", true, |summary, label| {
        let fct = fct(summary, label).filter(|fct| !fct.is_slowdown_lower_bound(10))?;
        fct.slowdown.p99.map(Fixed::as_f64)
    }),
    ("Slowdown, median", "slowdown, median", true, |summary, label| {
        let fct = fct(summary, label).filter(|fct| !fct.is_slowdown_lower_bound(500))?;
        fct.slowdown.p50.map(Fixed::as_f64)
    }),
    ("Goodput", "goodput (Gbit/s)", false, |summary, label| {
        let its = || summary.groups.iter().filter(|group| group.label == label);
        its().next()?;
        its().map(|group| group.goodput_gbps.total).sum()
    }),
];

/// The most important values over each numeric key that differs. One line joins the configurations
/// that differ in nothing else.
pub(crate) fn plots(runs: &[Run], all: &[Configuration<'_>]) -> Vec<Plot> {
    let mut plots = Vec::new();
    let (found, _) = differences(runs);
    let keys = found.iter().filter(|(key, _)| !follows_protocol(key));
    let swept = keys.filter_map(|(key, values)| {
        let numbers = values.iter().map(|(value, _)| magnitude(value)).collect::<Option<Vec<_>>>();
        let numbers = numbers.filter(|numbers| numbers.len() >= VALUES_MIN)?;
        let unit = numbers[0].1;
        numbers.iter().all(|number| number.1 == unit).then_some((key, values, unit))
    });
    let mut labels: Vec<&str> = Vec::new();
    for group in all.iter().flat_map(|one| &one.runs).flat_map(|run| &run.summary.groups) {
        if !labels.contains(&group.label.as_str()) {
            labels.push(&group.label);
        }
    }
    labels.truncate(LABELS_MAX);
    for (key, values, unit) in swept.take(KEYS_MAX) {
        let place = |one: &Configuration<'_>| {
            let (value, _) = values.iter().find(|(_, having)| having.contains(&one.first))?;
            // In the format of titles.
            let name = one.title.replace(&format!(", {key} {value}"), "");
            Some((name, magnitude(value)?.0))
        };
        let mut groups: BTreeMap<String, Vec<(f64, &Configuration<'_>)>> = BTreeMap::new();
        for one in all {
            if let Some((name, x)) = place(one) {
                groups.entry(name).or_default().push((x, one));
            }
        }
        groups.retain(|_, points| points.len() > 1);
        if groups.is_empty() || groups.len() > LINES_MAX {
            continue;
        }
        groups.values_mut().for_each(|points| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
        let firsts: Vec<Configuration<'_>> = groups
            .iter()
            .map(|(name, points)| Configuration {
                title: name,
                protocol: points[0].1.protocol,
                first: points[0].1.first,
                runs: points[0].1.runs.clone(),
            })
            .collect();
        let across = with_unit(key_words(key), unit);
        for label in &labels {
            let own = if labels.len() > 1 { format!(": {}", named(label)) } else { String::new() };
            plots.extend(QUANTITIES.map(|(title, unit, log, of)| {
                let lines = lines(&firsts, |one| line(&groups[one.title], label, of));
                Plot {
                    title: format!("{title}, by {}{own}", key_words(key)),
                    x: axis(&across, false),
                    y: axis(unit, log),
                    note: note(all, Some(label), &lines),
                    lines,
                    ..Plot::default()
                }
            }));
        }
    }
    plots
}

/// Means over the seeds, with minimum and maximum.
fn line(configurations: &[(f64, &Configuration<'_>)], label: &str, of: Quantity) -> Line {
    let (mut points, mut range) = (Points::default(), Points::default());
    for (x, one) in configurations {
        let values: Option<Vec<f64>> = one.runs.iter().map(|run| of(&run.summary, label)).collect();
        let Some(values) = values else { continue };
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        points.push((*x, mean));
        let least = values.iter().copied().fold(mean, f64::min);
        range.push((least, values.iter().copied().fold(mean, f64::max)));
    }
    if range.iter().all(|(least, most)| least == most) {
        range = Points::default();
    }
    Line { points, range, label: Some(label.to_owned()), ..Line::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::read::tests::of_summary;
    use crate::samples::summary;

    #[test]
    fn each_label_has_its_own_line() {
        let runs = [of_summary(summary(1)), of_summary(summary(2))];
        let one = |run| Configuration { title: "a", protocol: None, first: 0, runs: vec![run] };
        let both = [one(&runs[0]), one(&runs[1])];
        for label in ["long", "short"] {
            let line = line(&[(0.3, &both[0]), (0.6, &both[1])], label, QUANTITIES[2].3);
            let total = |run: &Run| {
                let mut groups = run.summary.groups.iter();
                groups.find(|group| group.label == label).unwrap().goodput_gbps.total.unwrap()
            };
            assert_eq!(line.points[..], [(0.3, total(&runs[0])), (0.6, total(&runs[1]))]);
            assert_eq!(line.label.as_deref(), Some(label));
        }
    }
}
