//! Plots over what differs between the runs: of hundreds of them, all are drawn here.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_results::{FctSummary, Fixed, GroupSummary, Summary};

use super::charts::{axis, lines};
use super::configurations::Configuration;
use super::differences::{differences, follows_protocol};
use super::plot::{Line, LinePart, Plot, Points};
use super::read::Run;

/// Keys that are swept, at most; and fewer values than that are no sweep.
const KEYS_MAX: usize = 2;
const VALUES_MIN: usize = 3;
/// A plot of more lines cannot be read.
const LINES_MAX: usize = 24;

/// Reads one number of a run: of the flows of a label, or of all.
type Quantity = fn(&Summary, Option<&str>) -> Option<f64>;

const QUANTITIES: [(&str, &str, bool, Quantity); 3] = [
    ("Slowdown of all messages, 99th percentile", "slowdown", true, |summary, label| {
        let fct = messages(summary, label).filter(|fct| !fct.hides_slowdown(10))?;
        fct.slowdown.p99.map(Fixed::as_f64)
    }),
    ("Slowdown of all messages, median", "slowdown", true, |summary, label| {
        let fct = messages(summary, label).filter(|fct| !fct.hides_slowdown(500))?;
        fct.slowdown.p50.map(Fixed::as_f64)
    }),
    ("Goodput of all flows", "goodput (Gbit/s)", false, |summary, label| {
        let is_its = |group: &&GroupSummary| label.is_none_or(|label| group.label == label);
        summary.groups.iter().filter(is_its).map(|group| group.goodput_gbps.total).sum()
    }),
];

fn messages<'a>(summary: &'a Summary, label: Option<&str>) -> Option<&'a FctSummary> {
    summary.fct.get(label.unwrap_or("all"))
}

/// The most important quantities over the keys that differ and have numbers: a line for all
/// configurations that differ in nothing else.
pub(crate) fn plots(runs: &[Run], all: &[Configuration<'_>]) -> Vec<Plot> {
    let mut plots = Vec::new();
    let (found, _) = differences(runs);
    let keys = found.iter().filter(|(key, _)| !follows_protocol(key));
    let swept = keys.filter_map(|(key, values)| {
        let numbers: Option<Vec<f64>> = values.iter().map(|(value, _)| number(value)).collect();
        numbers.filter(|numbers| numbers.len() >= VALUES_MIN).map(|_| (key, values))
    });
    for (key, values) in swept.take(KEYS_MAX) {
        let place = |one: &Configuration<'_>| {
            let (value, _) = values.iter().find(|(_, having)| having.contains(&one.first))?;
            // As titles have it.
            let name = one.title.replace(&format!(", {key} {value}"), "");
            Some((name, number(value)?))
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
        plots.extend(QUANTITIES.map(|(title, unit, log, of)| Plot {
            title: format!("{title}, by {key}"),
            x: axis(key, false),
            y: axis(unit, log),
            lines: lines(&firsts, |one| line(&groups[one.title], of)),
            ..Plot::default()
        }));
    }
    plots
}

/// Means over the seeds, with the least and the greatest; and the means of each label.
fn line(configurations: &[(f64, &Configuration<'_>)], of: Quantity) -> Line {
    let along = |label: Option<&str>| {
        let (mut points, mut range) = (Points::default(), Points::default());
        for (x, one) in configurations {
            let values: Option<Vec<f64>> =
                one.runs.iter().map(|run| of(&run.summary, label)).collect();
            let Some(values) = values else { continue };
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            points.push((*x, mean));
            let least = values.iter().copied().fold(mean, f64::min);
            range.push((least, values.iter().copied().fold(mean, f64::max)));
        }
        (points, range)
    };
    let groups = configurations.iter().flat_map(|(_, one)| &one.run().summary.groups);
    let labels: BTreeSet<&str> =
        groups.map(|group| group.label.as_str()).filter(|label| !label.is_empty()).collect();
    let part = |label: &str| LinePart {
        label: Some(label.to_owned()),
        size: None,
        points: along(Some(label)).0,
    };
    let (points, mut range) = along(None);
    if range.iter().all(|(least, most)| least == most) {
        range = Points::default();
    }
    Line { points, range, parts: labels.into_iter().map(part).collect(), ..Line::default() }
}

/// The number that a value begins with, whatever its unit.
fn number(value: &str) -> Option<f64> {
    let end = value.find(|c: char| !(c.is_ascii_digit() || ".-e+".contains(c)));
    value[..end.unwrap_or(value.len())].trim_end_matches('e').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readings::tests::summary;
    use crate::report::read::tests::of_summary;

    #[test]
    fn a_label_has_a_line_of_its_own() {
        let runs = [of_summary(summary(1)), of_summary(summary(2))];
        let one = |run| Configuration { title: "a", protocol: None, first: 0, runs: vec![run] };
        let both = [one(&runs[0]), one(&runs[1])];
        let line = line(&[(0.3, &both[0]), (0.6, &both[1])], QUANTITIES[2].3);
        let labels: Vec<_> = line.parts.iter().map(|part| part.label.as_deref()).collect();
        assert_eq!(labels, [Some("long"), Some("short")]);
        for (i, point) in line.points.iter().enumerate() {
            let sum: f64 = line.parts.iter().map(|part| part.points[i].1).sum();
            assert!((sum / point.1 - 1.0).abs() < 1e-9, "{sum} of {point:?}");
        }
    }

    #[test]
    fn values_are_read_with_their_units() {
        let numbers = ["0.465", "1500B", "1e-4", "websearch", "–", "2e"].map(number);
        let known = [Some(0.465), Some(1500.0), Some(1e-4), None, None, Some(2.0)];
        assert_eq!(numbers, known);
    }
}
