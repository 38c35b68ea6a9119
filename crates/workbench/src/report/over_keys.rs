//! Plots over what differs between the runs: of hundreds of them, all are drawn here.

use std::collections::BTreeMap;

use tidegate_results::{Fixed, Summary};

use super::charts::{axis, lines};
use super::configurations::Configuration;
use super::differences::{differences, follows_protocol};
use super::plot::{Line, Plot, Points};
use super::read::Run;

/// Keys that are swept, at most; and fewer values than that are no sweep.
const KEYS_MAX: usize = 2;
const VALUES_MIN: usize = 3;
/// A plot of more lines cannot be read.
const LINES_MAX: usize = 24;

/// Reads one number of a run.
type Quantity = fn(&Summary) -> Option<f64>;

const QUANTITIES: [(&str, &str, bool, Quantity); 3] = [
    ("Slowdown of all messages, 99th percentile", "slowdown", true, |summary| {
        let all = summary.fct.get("all").filter(|all| !all.hides(10))?;
        all.slowdown.p99.map(Fixed::as_f64)
    }),
    ("Slowdown of all messages, median", "slowdown", true, |summary| {
        let all = summary.fct.get("all").filter(|all| !all.hides(500))?;
        all.slowdown.p50.map(Fixed::as_f64)
    }),
    ("Goodput of all flows", "goodput (Gbit/s)", false, |summary| {
        summary.groups.iter().map(|group| group.goodput_gbps.total).sum()
    }),
];

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

/// Means over the seeds, with the least and the greatest.
fn line(configurations: &[(f64, &Configuration<'_>)], of: Quantity) -> Line {
    let (mut points, mut range) = (Points::default(), Points::default());
    for (x, one) in configurations {
        let values: Option<Vec<f64>> = one.runs.iter().map(|run| of(&run.summary)).collect();
        let Some(values) = values else { continue };
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        points.push((*x, mean));
        let least = values.iter().copied().fold(mean, f64::min);
        range.push((least, values.iter().copied().fold(mean, f64::max)));
    }
    if range.iter().all(|(least, most)| least == most) {
        range = Points::default();
    }
    Line { points, range, ..Line::default() }
}

/// The number that a value begins with, whatever its unit.
fn number(value: &str) -> Option<f64> {
    let end = value.find(|c: char| !(c.is_ascii_digit() || ".-e+".contains(c)));
    value[..end.unwrap_or(value.len())].trim_end_matches('e').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_with_their_units() {
        let numbers = ["0.465", "1500B", "1e-4", "websearch", "–", "2e"].map(number);
        let known = [Some(0.465), Some(1500.0), Some(1e-4), None, None, Some(2.0)];
        assert_eq!(numbers, known);
    }
}
