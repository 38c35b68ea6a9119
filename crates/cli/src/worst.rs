//! The worst failures of a sweep, by a metric.

use std::cmp::{Ordering, Reverse};

use tidegate_workbench::{
    Aggregated, Better, Estimate, FAILURE, METRICS, Sweep, SweepPoint, words,
};

use crate::aggregate::{View, cell};
use crate::format::{NONE, bound, estimate, heads, label, shown, text};
use crate::grid::{drawn, new};

/// Maximum number of failures shown for each label and point of the other keys.
const ROWS: usize = 10;
/// The point without a failure.
const REFERENCE: &str = "none";
/// The default metric: the first of these that the sweep has.
const DEFAULTS: [&str; 3] = ["slowdown_p99", "job_completion_us", "goodput_mean_gbps"];

/// The metric that orders failures, and the label of its flows.
#[derive(Clone, Debug)]
pub(crate) struct Worst {
    metric: &'static str,
    label: Option<String>,
}

/// Metrics that can order failures.
fn metrics() -> impl Iterator<Item = &'static str> {
    let is_directed = |better: Better| better != Better::Neither;
    let all = METRICS
        .iter()
        .filter(move |(name, _, better, _)| is_directed(*better) && !name.starts_with("size_"));
    all.map(|(name, ..)| *name)
}

/// Parses `METRIC` or `METRIC of LABEL`. The metric may lack its unit.
pub(crate) fn worst(text: &str) -> Result<Worst, String> {
    let (name, label) = match text.split_once(" of ") {
        Some((name, label)) => (name.trim(), Some(label.trim().to_owned())),
        None => (text.trim(), None),
    };
    let is_it = |metric: &&str| {
        let units = ["_gbps", "_us", "_bytes"].iter();
        *metric == name || units.into_iter().any(|unit| metric.strip_suffix(unit) == Some(name))
    };
    match metrics().find(is_it) {
        Some(metric) => Ok(Worst { metric, label }),
        None => Err(format!(
            "expected a metric, with ` of LABEL` for one label: {}",
            metrics().collect::<Vec<_>>().join(", ")
        )),
    }
}

/// A failure, and what it does to some flows.
struct Row<'a> {
    failure: String,
    point: &'a SweepPoint,
    /// `None` if no message finished.
    metric: Option<&'a Aggregated>,
}

/// Values of the keys other than the failure, and label and protocol of flows.
type Group = (Vec<String>, String, String);

/// The table of the worst failures; `None` if the sweep has no failures.
pub(crate) fn table(sweep: &Sweep, worst: Option<&Worst>) -> Option<String> {
    let key = sweep.keys.iter().position(|key| key == FAILURE)?;
    let has = |metric: &&&str| {
        let of = |point: &SweepPoint| point.metrics.iter().any(|one| one.metric == **metric);
        sweep.points.iter().any(of)
    };
    let metric =
        worst.map_or_else(|| DEFAULTS.iter().find(has).copied(), |one| Some(one.metric))?;
    let is_less =
        METRICS.iter().any(|(name, _, better, _)| *name == metric && *better == Better::Less);
    let is_shown = |one: &&Aggregated| {
        let label = worst.and_then(|worst| worst.label.as_ref());
        one.metric == metric && label.is_none_or(|label| *label == one.label)
    };
    let mut groups: Vec<(Group, Vec<Row<'_>>)> = Vec::new();
    let others = |point: &SweepPoint| {
        let mut values: Vec<String> = point.values.iter().map(text).collect();
        let failure = values.remove(key);
        (values, failure)
    };
    for one in sweep.points.iter().map(|point| (point, others(point).0)) {
        for metric in one.0.metrics.iter().filter(is_shown) {
            let group = (one.1.clone(), metric.label.clone(), metric.protocol.clone());
            if groups.iter().all(|(known, _)| *known != group) {
                groups.push((group, Vec::new()));
            }
        }
    }
    for ((values, label, protocol), rows) in &mut groups {
        for point in &sweep.points {
            let (own, failure) = others(point);
            if own == *values {
                let is_its = |one: &&Aggregated| {
                    (one.metric, &one.label, &one.protocol) == (metric, &*label, &*protocol)
                };
                rows.push(Row { failure, point, metric: point.metrics.iter().find(is_its) });
            }
        }
        rows.sort_by(|a, b| order(a, b, is_less));
    }
    if groups.is_empty() {
        let of = worst.and_then(|worst| worst.label.as_ref());
        let of = of.map_or_else(String::new, |label| format!(" of {}", shown(label)));
        return Some(format!("\nNo run has {metric}{of}, so its worst failures are unknown.\n"));
    }
    Some(titled(sweep, metric, key, &groups))
}

/// The worse of two failures comes first, the reference last. Percentiles are lower bounds if hosts
/// are unreachable, so the number of such pairs decides first.
fn order(a: &Row<'_>, b: &Row<'_>, is_less: bool) -> Ordering {
    let class = |row: &Row<'_>| {
        let apart = Reverse(row.point.unreachable_pairs);
        (row.failure == REFERENCE, apart, row.metric.is_some())
    };
    let values = a.metric.zip(b.metric).map_or(Ordering::Equal, |(a, b)| {
        if is_less { b.mean.total_cmp(&a.mean) } else { a.mean.total_cmp(&b.mean) }
    });
    class(a).cmp(&class(b)).then(values)
}

fn titled(sweep: &Sweep, metric: &str, key: usize, groups: &[(Group, Vec<Row<'_>>)]) -> String {
    let mut names = heads(&sweep.keys);
    let failure = names.remove(key);
    let has_labels = groups.iter().any(|((_, label, _), _)| !label.is_empty());
    let is_new = |protocol: &String| groups.iter().any(|((_, _, other), _)| other != protocol);
    let has_protocols = groups.first().is_some_and(|((_, _, protocol), _)| is_new(protocol))
        && !names.iter().any(|name| name == "protocol");
    let is_apart = |row: &Row<'_>| row.point.unreachable_pairs > 0;
    let are_apart = groups.iter().any(|(_, rows)| rows.iter().any(is_apart));
    names.extend(has_labels.then(|| "label".to_owned()));
    names.extend(has_protocols.then(|| "protocol".to_owned()));
    names.push(failure);
    let count = names.len();
    names.extend([metric.to_owned(), "factor".to_owned(), "unfinished".to_owned()]);
    names.extend(are_apart.then(|| "unreachable pairs".to_owned()));
    let mut table = new(&names.iter().map(String::as_str).collect::<Vec<_>>(), count);
    let mut most = 0;
    for ((values, own, protocol), rows) in groups {
        let reference = rows.iter().find(|row| row.failure == REFERENCE);
        let reference = reference.and_then(|row| row.metric);
        let failures = rows.iter().filter(|row| row.failure != REFERENCE);
        most = most.max(failures.clone().count());
        let last = rows.iter().filter(|row| row.failure == REFERENCE);
        for row in failures.take(ROWS).chain(last) {
            let mut cells = values.clone();
            cells.extend(has_labels.then(|| label(own)));
            cells.extend(has_protocols.then(|| protocol.clone()));
            cells.push(row.failure.clone());
            cells.push(cell(row.metric, sweep.seeds.len(), View::Means));
            cells.push(factor(row.metric, reference));
            cells.push(unfinished(row.point, own, protocol));
            cells.extend(are_apart.then(|| row.point.unreachable_pairs.to_string()));
            table.add_row(cells);
        }
    }
    let shown_rows = if most > ROWS { format!(", {ROWS} of {most}") } else { String::new() };
    format!(
        "\nWorst failures by {}{shown_rows}; factor: over the run without a failure, by seed\n{}",
        shown(&words(metric)),
        drawn(&table)
    )
}

/// A value over that of the reference under the same seed: the mean over the seeds. A ratio of two
/// lower bounds has no bound.
fn factor(value: Option<&Aggregated>, reference: Option<&Aggregated>) -> String {
    let Some((value, reference)) = value.zip(reference) else { return NONE.to_owned() };
    if reference.is_lower_bound {
        return NONE.to_owned();
    }
    let pairs = value.values.iter().zip(&reference.values).filter_map(|(a, b)| (*a).zip(*b));
    let ratios: Vec<f64> = pairs.filter(|(_, of)| *of > 0.0).map(|(one, of)| one / of).collect();
    let shown = |ratio| estimate(ratio, (0.0, None), (1.0, ""), "");
    let ratio = Estimate::of(&ratios).map_or_else(|| NONE.to_owned(), shown);
    bound(value.is_lower_bound, ratio)
}

/// `3 of 120`: of the messages of these flows, or of all flows if the metric is of the whole run.
fn unfinished(point: &SweepPoint, label: &str, protocol: &str) -> String {
    let is_its = |one: &&Aggregated| one.label == label && one.protocol == protocol;
    let counts = |name: &str, of_all: bool| {
        let all = point.metrics.iter().filter(|one| one.metric == name);
        let all = all.filter(|one| of_all || is_its(one));
        all.flat_map(|one| one.values.iter().flatten()).sum::<f64>()
    };
    let of_all = counts("messages", false) == 0.0;
    match counts("messages", of_all) {
        0.0 => NONE.to_owned(),
        messages => format!("{} of {messages}", counts("unfinished", of_all)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_the_names_of_sweeps() {
        let named = |text: &str| worst(text).map(|worst| (worst.metric, worst.label));
        assert_eq!(named("slowdown_p99"), Ok(("slowdown_p99", None)));
        assert_eq!(named("fct_p99 of rpc"), Ok(("fct_p99_us", Some("rpc".to_owned()))));
        for wrong in ["slowdown", "messages", "size_slowdown_p99", ""] {
            let error = named(wrong).unwrap_err();
            assert!(error.contains("slowdown_p999") && !error.contains("ecn_marks"), "{error}");
        }
    }
}
