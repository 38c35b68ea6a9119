//! Plots of messages.

use std::collections::BTreeMap;

use tidegate_algos::Protocol;
use tidegate_results::{BySize, Curve, FctSummary, Fixed, FlowSummary, Summary, is_maximum};

use super::configurations::Configuration;
use super::flows::Message;
use super::read::Run;
use crate::plot::{
    Axis, Distribution, Line, LineFlows, LineSubset, MARKERS, PALETTE, Plot, Points,
};

/// Points of a distribution: at even shares, and at closer shares the fewer values remain above.
const STEPS: usize = 150;
/// Points of a distribution of a size class.
const SUBSET_STEPS: usize = 50;
/// Size classes have own distributions in the page up to this number of them.
const SUBSETS_MAX: usize = 1000;

/// Maximum number of labels with plots of their own; the others appear only in tables.
const LABELS_MAX: usize = 6;

/// Reads one value of a class of messages, and whether its marker is open: it is only a lower
/// bound, or a percentile of so few messages that it is their maximum.
type Quantity<'a> = &'a dyn Fn(&FctSummary) -> (Option<Fixed>, bool);

/// Completion of messages per label: distribution, single messages, and values by size. Labels are
/// never merged, because their shares of messages differ between protocols if requests wait for
/// replies.
pub(crate) fn messages(all: &[Configuration<'_>]) -> Vec<Plot> {
    let labels = labels(all);
    let titled = |title: &str, label: &str| match labels.len() {
        1 => title.to_owned(),
        _ => format!("{title}: {}", named(label)),
    };
    labels.iter().take(LABELS_MAX).flat_map(|label| of_label(all, label, &titled)).collect()
}

/// A label in titles.
pub(crate) fn named(label: &str) -> &str {
    if label.is_empty() { "without a label" } else { label }
}

/// Labels of messages, in the order of their first appearance; the empty label stands for messages
/// without one.
pub(crate) fn labels<'a>(all: &[Configuration<'a>]) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for group in all.iter().flat_map(|one| &one.runs).flat_map(|run| &run.summary.groups) {
        if group.fct.count > 0 && !found.contains(&group.label.as_str()) {
            found.push(&group.label);
        }
    }
    found
}

/// The messages of a label in a summary; an empty label selects those without one.
pub(crate) fn fct<'a>(summary: &'a Summary, label: &str) -> Option<&'a FctSummary> {
    if !label.is_empty() {
        return summary.fct.get(label);
    }
    let mut own = summary.groups.iter().filter(|group| group.fct.count > 0);
    let is_all = own.clone().all(|group| group.label.is_empty());
    match own.clone().filter(|group| group.label.is_empty()).count() {
        _ if is_all => summary.fct.get("all"),
        1 => own.find(|group| group.label.is_empty()).map(|group| &group.fct),
        _ => None,
    }
}

fn of_label(
    all: &[Configuration<'_>],
    label: &str,
    titled: &dyn Fn(&str, &str) -> String,
) -> Vec<Plot> {
    let mut plots = vec![slowdowns(all, label), single(all, label)];
    let (bounds, maxima) = ("lower bounds", "lower bounds, or maxima of fewer than 100 messages");
    let quantities: [(&str, &str, &str, Quantity); 4] = [
        ("Slowdown by size, median", "slowdown, median", bounds, &|fct| {
            (fct.slowdown.p50, fct.is_slowdown_lower_bound(500))
        }),
        ("Slowdown by size, 99th percentile", "slowdown, 99th percentile", maxima, &|fct| {
            (fct.slowdown.p99, fct.is_slowdown_lower_bound(10) || is_maximum(fct.count, 10))
        }),
        ("Completion time by size, median", "completion time, median (µs)", bounds, &|fct| {
            (fct.p50_us, fct.is_lower_bound(500))
        }),
        (
            "Completion time by size, 99th percentile",
            "completion time, 99th percentile (µs)",
            maxima,
            &|fct| (fct.p99_us, fct.is_lower_bound(10) || is_maximum(fct.count, 10)),
        ),
    ];
    plots.extend(quantities.map(|(title, unit, open, of)| {
        let lines = lines(all, |one| by_size(one, label, of));
        let mut note = note(all, Some(label), &lines);
        if lines.iter().any(|line| !line.bounds.is_empty()) {
            note.push_str(&format!("; open markers: {open}"));
        }
        Plot {
            title: title.to_owned(),
            x: axis("message size (bytes, middle of a decade)", true),
            y: axis(unit, true),
            note,
            lines,
            ..Plot::default()
        }
    }));
    for plot in &mut plots {
        plot.title = titled(&plot.title, label);
        if plot.note.is_empty() {
            plot.note = note(all, Some(label), &plot.lines);
        }
        plot.lines.iter_mut().for_each(|line| line.label = Some(label.to_owned()));
    }
    plots
}

/// Numbers of messages with a label and of seeds, and the meaning of the band if a line has one.
pub(crate) fn note(all: &[Configuration<'_>], label: Option<&str>, lines: &[Line]) -> String {
    let of_run = |run: &&Run, label| fct(&run.summary, label).map_or(0, |fct| fct.count);
    let messages = label.map_or_else(String::new, |label| {
        let of = |one: &Configuration<'_>| one.runs.iter().map(|run| of_run(run, label)).sum();
        format!("{}, ", counted(all.iter().map(of), "message"))
    });
    let seeds = counted(all.iter().map(|one| one.runs.len() as u64), "seed");
    let text = format!("n: {messages}{seeds}");
    match lines.iter().all(|line| line.range.is_empty()) {
        true => text,
        false => format!("{text}; band: minimum to maximum over the seeds"),
    }
}

/// The seeds of the runs from which single values are drawn.
pub(crate) fn first_seed(all: &[Configuration<'_>]) -> String {
    format!("seed {}", extent(all.iter().map(|one| one.run().summary.seed)))
}

/// `1 port`, `3 ports`, or `3 to 8 ports` if the counts differ.
pub(crate) fn counted(counts: impl Iterator<Item = u64>, one: &str) -> String {
    let n = extent(counts);
    format!("{n} {one}{}", if n == "1" { "" } else { "s" })
}

/// `3`, or `3 to 8` if the values differ.
fn extent(values: impl Iterator<Item = u64>) -> String {
    let (least, most) = values.fold((u64::MAX, 0), |(least, most), n| (least.min(n), most.max(n)));
    if least == most { most.to_string() } else { format!("{least} to {most}") }
}

/// A line for every configuration in its protocol's colour. A later line of the same protocol is
/// dashed, and has more contrast.
pub(crate) fn lines(
    all: &[Configuration<'_>],
    drawn: impl Fn(&Configuration<'_>) -> Line,
) -> Vec<Line> {
    let line = |(i, one): (usize, &Configuration<'_>)| {
        let earlier = all[..i].iter().filter(|other| other.protocol == one.protocol).count();
        let info = one.protocol.and_then(Protocol::named).map(Protocol::info);
        let color = info.map_or(PALETTE[i % PALETTE.len()], |info| info.color);
        Line {
            name: one.title.to_owned(),
            color: color.to_owned(),
            dash: info.map_or(i / PALETTE.len(), |info| info.dash.index() + earlier),
            marker: Some(
                info.map_or(MARKERS[i % MARKERS.len()], |info| info.marker.name()).to_owned(),
            ),
            protocol: one.protocol.map(str::to_owned),
            ..drawn(one)
        }
    };
    let lines = all.iter().enumerate().map(line);
    lines.filter(|line| !line.points.is_empty()).collect()
}

/// Lines with different markers, as far as there are enough: without dashes, only markers
/// distinguish points in grey. The first line with a marker keeps it.
fn marked_apart(mut lines: Vec<Line>) -> Vec<Line> {
    let of_protocols = Protocol::ALL.iter().map(|protocol| protocol.info().marker.name());
    let mut spare: Vec<&str> = MARKERS.into_iter().chain(of_protocols).collect();
    spare.retain(|name| lines.iter().all(|line| line.marker.as_deref() != Some(name)));
    let mut taken: Vec<String> = Vec::new();
    let mut spare = spare.into_iter();
    for line in &mut lines {
        let Some(marker) = &mut line.marker else { continue };
        if taken.contains(marker) {
            let next = spare.find(|name| taken.iter().all(|marker| marker != name));
            *marker = next.map_or_else(|| marker.clone(), str::to_owned);
        }
        taken.push(marker.clone());
    }
    lines
}

pub(crate) fn axis(label: &str, log: bool) -> Axis {
    Axis { label: label.to_owned(), log, ..Axis::default() }
}

/// The share of values (in order) that exceed each value, at about twice `steps` points.
pub(crate) fn larger(values: &[f64], steps: usize) -> Points {
    let n = values.len();
    let point = |(i, value): (usize, &f64)| (*value, (n - 1 - i) as f64 / n as f64);
    thinned(&values.iter().enumerate().map(point).collect::<Vec<_>>(), steps)
}

/// About twice `steps` points of a distribution (values in order, with the share of all that are
/// larger).
fn thinned(points: &[(f64, f64)], steps: usize) -> Points {
    let n = points.len();
    let mut above: Vec<usize> = (0..n).step_by(n.div_ceil(steps).max(1)).collect();
    let factor = (n as f64).powf(1.0 / steps as f64);
    let mut at = n.saturating_sub(1);
    while at > 0 {
        above.push(at);
        at = ((at as f64 / factor) as usize).min(at - 1);
    }
    above.sort_unstable_by(|a, b| b.cmp(a));
    above.dedup();
    Points(above.iter().map(|at| points[n - 1 - at]).collect())
}

/// Slowdowns with the share of messages that exceed them, by the same estimator as the percentiles
/// of summaries.
fn distribution<'a>(messages: impl Iterator<Item = &'a Message>, steps: usize) -> Points {
    let mut sizes: BTreeMap<usize, [Vec<(u64, u64)>; 2]> = BTreeMap::new();
    for message in messages {
        let of_size = sizes.entry(message.size).or_default();
        of_size[usize::from(message.has_finished)].push((message.slowdown, 1));
    }
    let curves = sizes.into_values().map(|mut of_size| {
        of_size.iter_mut().for_each(|messages| messages.sort_unstable());
        let [open, known] = of_size;
        Curve::of(&known, &open)
    });
    let curve = Curve::together(curves);
    let point = |(slowdown, larger)| (Fixed::millionths(slowdown).as_f64(), larger);
    thinned(&curve.larger().map(point).collect::<Vec<_>>(), steps)
}

/// The distribution of slowdowns over all seeds, and of each size class.
fn slowdowns(all: &[Configuration<'_>], label: &str) -> Plot {
    let classes = tidegate_results::SIZE_BOUNDS.len() + 1;
    let with_subsets = all.len() * classes * labels(all).len() <= SUBSETS_MAX;
    Plot {
        title: "Slowdown of messages".to_owned(),
        x: axis("slowdown (completion time over that in an empty network)", true),
        y: Axis { to: Some(1.0), ..axis("share of messages", false) },
        lines: lines(all, |one| {
            let is_its = |run: &Run, message: &Message| {
                run.flows.labels.get(&message.id).map_or("", String::as_str) == label
            };
            let messages = one.runs.iter().flat_map(|run| {
                run.flows.messages.iter().filter(move |message| is_its(run, message))
            });
            let messages: Vec<&Message> = messages.collect();
            let points = distribution(messages.iter().copied(), STEPS);
            let subsets = if with_subsets { by_class(&messages) } else { Vec::new() };
            Line { points, subsets, ..Line::default() }
        }),
        distribution: Some(Distribution::Cumulative),
        ..Plot::default()
    }
}

/// Distributions of each size class that occurs.
fn by_class(messages: &[&Message]) -> Vec<LineSubset> {
    let mut classes: BTreeMap<usize, Vec<&Message>> = BTreeMap::new();
    messages.iter().for_each(|message| classes.entry(message.size).or_default().push(message));
    let subset = |(size, messages): (usize, Vec<&Message>)| LineSubset {
        size,
        points: distribution(messages.into_iter(), SUBSET_STEPS),
    };
    classes.into_iter().map(subset).collect()
}

/// Single messages of the first seed.
fn single(all: &[Configuration<'_>], label: &str) -> Plot {
    let point = |flow: &FlowSummary| {
        Some((flow.size_bytes.filter(|bytes| *bytes > 0)? as f64, flow.slowdown?.as_f64()))
    };
    let line = |one: &Configuration<'_>| {
        let flows = one.run().flows.shown.iter().filter(|flow| flow.label == label);
        let (points, ids): (Vec<_>, Vec<u64>) =
            flows.filter_map(|flow| Some((point(flow)?, flow.id))).unzip();
        let flows = Some(LineFlows { run: one.first, ids });
        Line { points: points.into(), apart: true, flows, ..Line::default() }
    };
    let lines = marked_apart(lines(all, line));
    let drawn = counted(lines.iter().map(|line| line.points.len() as u64), "message");
    Plot {
        title: "Single messages: the slowest, and a sample".to_owned(),
        x: axis("message size (bytes)", true),
        y: axis("slowdown", true),
        note: format!("n: {drawn}, {}", first_seed(all)),
        lines,
        ..Plot::default()
    }
}

/// The middle of a size class, which is a decade.
fn middle(size: &BySize) -> f64 {
    size.below_bytes.map_or(size.min_bytes as f64 * 2.0, |below| {
        ((size.min_bytes.max(100) as f64) * below as f64).sqrt()
    })
}

/// A value of the messages of each size: mean over the seeds, minimum and maximum. The marker is
/// open if it is open for a seed.
fn by_size(one: &Configuration<'_>, label: &str, of: Quantity<'_>) -> Line {
    let mut sizes: BTreeMap<u64, (f64, Vec<f64>, bool)> = BTreeMap::new();
    for run in &one.runs {
        for size in fct(&run.summary, label).iter().flat_map(|fct| &fct.by_size) {
            let (Some(value), is_bound) = of(&size.fct) else { continue };
            let (x, values, has_bound) = sizes.entry(size.min_bytes).or_default();
            *x = middle(size);
            values.push(value.as_f64());
            *has_bound |= is_bound;
        }
    }
    // A size is omitted unless all seeds have a value: a mean over the others would be biased to
    // the faster seeds.
    sizes.retain(|_, (_, values, _)| values.len() == one.runs.len());
    let mean = |(x, values, _): &(f64, Vec<f64>, bool)| {
        (*x, values.iter().sum::<f64>() / values.len() as f64)
    };
    let range = |(_, values, _): &(f64, Vec<f64>, bool)| {
        let each = || values.iter().copied();
        (each().fold(f64::INFINITY, f64::min), each().fold(0.0, f64::max))
    };
    let several = one.runs.len() > 1;
    let bounds = sizes.values().map(|(_, _, is_bound)| *is_bound);
    Line {
        points: Points(sizes.values().map(mean).collect()),
        range: Points(if several { sizes.values().map(range).collect() } else { Vec::new() }),
        bounds: if bounds.clone().any(|is| is) { bounds.collect() } else { Vec::new() },
        ..Line::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::report::configurations::{configurations, grouped};
    use crate::report::flows::tests::flow;
    use crate::report::read::tests::of_summary;
    use crate::samples::summary;

    #[test]
    fn bounds_and_maxima_by_size_are_marked() {
        let summary_of = |count: u64, unfinished: u64, by_size: &[Value]| {
            let reach = if unfinished > 0 { 0.95 } else { 1.0 };
            json!({
                "count": count, "unfinished": unfinished, "by_size": by_size,
                "slowdown": { "p99": 2.0, "reach": reach },
            })
        };
        let of_size = |count, min_bytes: u64, unfinished| {
            let mut fct = summary_of(count, unfinished, &[]);
            fct["min_bytes"] = min_bytes.into();
            fct["below_bytes"] = (10 * min_bytes).into();
            fct
        };
        let run_of = |count, seed, unfinished| {
            let sizes = [of_size(count, 1_000, 0), of_size(count, 10_000, unfinished)];
            let all = summary_of(2 * count, 0, &sizes);
            let mut summary = summary(seed);
            summary.groups.clear();
            summary.fct = serde_json::from_value(json!({ "all": all })).unwrap();
            of_summary(summary)
        };
        let drawn = |runs: [Run; 2]| {
            let all = configurations(&runs, &grouped(&runs));
            let plots = of_label(&all, "", &|title, _| title.to_owned());
            let is_it = |plot: &&Plot| plot.title == "Slowdown by size, 99th percentile";
            let plot = plots.iter().find(is_it).unwrap();
            (plot.lines[0].bounds.clone(), plot.lines[0].points.len(), plot.note.clone())
        };
        let (bounds, points, note) = drawn([run_of(100, 1, 1), run_of(100, 2, 0)]);
        assert_eq!((bounds, points), (vec![false, true], 2));
        let open = "; open markers: lower bounds, or maxima of fewer than 100 messages";
        assert!(note.ends_with(open), "{note}");
        let (bounds, _, note) = drawn([run_of(100, 1, 0), run_of(100, 2, 0)]);
        assert!(bounds.is_empty() && !note.contains("open"), "{note}");
        // The 99th percentile of 20 messages is their maximum.
        let (bounds, _, note) = drawn([run_of(20, 1, 0), run_of(20, 2, 0)]);
        assert!(bounds == [true, true] && note.ends_with(open), "{note}");
    }

    #[test]
    fn notes_state_what_a_plot_shows() {
        let run = |seed: u64, size_bytes: &[u64]| {
            let mut run = of_summary(summary(seed));
            run.summary.groups.clear();
            let count = 10 * seed;
            let of = |more: Value| {
                let mut fct = json!({
                    "count": count, "unfinished": 0,
                    "slowdown": { "p50": seed, "p99": seed, "reach": 1.0 },
                });
                fct.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                fct
            };
            let size = of(json!({ "min_bytes": 1_000, "below_bytes": 10_000 }));
            let all = of(json!({ "by_size": [size] }));
            run.summary.fct = serde_json::from_value(json!({ "all": all })).unwrap();
            let shown = size_bytes.iter().map(|size| FlowSummary {
                size_bytes: Some(*size),
                label: String::new(),
                ..flow(*size, 2.0)
            });
            run.flows.shown = shown.collect();
            run
        };
        let notes = |runs: &[Run]| {
            let all = configurations(runs, &grouped(runs));
            let plots = of_label(&all, "", &|title, _| title.to_owned());
            let of = |title: &str| {
                let mut plots = plots.iter();
                plots.find(|plot| plot.title.starts_with(title)).unwrap().note.clone()
            };
            ["Slowdown of messages", "Single messages", "Slowdown by size, median"].map(of)
        };
        assert_eq!(
            notes(&[run(1, &[1_000, 2_000]), run(2, &[3_000])]),
            [
                "n: 30 messages, 2 seeds",
                "n: 2 messages, seed 1",
                "n: 30 messages, 2 seeds; band: minimum to maximum over the seeds",
            ]
        );
        assert_eq!(
            notes(&[run(2, &[1_000])]),
            ["n: 20 messages, 1 seed", "n: 1 message, seed 2", "n: 20 messages, 1 seed"]
        );
    }

    #[test]
    fn points_without_lines_differ_in_markers() {
        let markers = |own: &[&str]| -> Vec<String> {
            let line = |name: &&str| Line { marker: Some((*name).to_owned()), ..Line::default() };
            let lines = marked_apart(own.iter().map(line).collect());
            lines.into_iter().filter_map(|line| line.marker).collect()
        };
        assert_eq!(markers(&["diamond", "circle"]), ["diamond", "circle"]);
        let found = markers(&["diamond", "diamond", "pentagon", "diamond"]);
        assert_eq!(found, ["diamond", "triangle-left", "pentagon", "hourglass"]);
        let mut many = markers(&["diamond"; 15]);
        many.sort_unstable();
        many.dedup();
        assert_eq!(many.len(), 15, "{many:?}");
    }

    /// Distribution of messages with these slowdowns, and of `open` messages whose slowdowns exceed
    /// `bound`.
    fn drawn(values: impl Iterator<Item = u64>, open: usize, bound: u64) -> Points {
        let message = |times, has_finished| {
            let slowdown = Fixed::nearest(times as f64).unwrap().as_millionths();
            Message { slowdown, has_finished, size: 0, id: 0 }
        };
        let open = (0..open).map(|_| message(bound, false));
        let all: Vec<_> = values.map(|times| message(times, true)).chain(open).collect();
        distribution(all.iter(), STEPS)
    }

    #[test]
    fn a_distribution_ends_at_the_known_share() {
        let points = drawn(0..2001, 0, 0);
        assert!(points.len() <= 2 * STEPS + 2 && points.last() == Some(&(2000.0, 0.0)));
        assert_eq!(drawn(0..2001, 667, 2000).last(), Some(&(2000.0, 0.25)));
        assert!(drawn(0..0, 1, 0).is_empty());
    }

    #[test]
    fn early_unfinished_messages_count_as_long() {
        let points = drawn([1, 2, 3, 4].into_iter(), 2, 2);
        let expected = [(1.0, 5.0 / 6.0), (2.0, 4.0 / 6.0), (3.0, 2.0 / 6.0), (4.0, 0.0)];
        for (found, expected) in points.iter().zip(expected) {
            assert!(found.0 == expected.0 && (found.1 - expected.1).abs() < 1e-12, "{found:?}");
        }
        assert_eq!(points.len(), 4);
    }

    #[test]
    fn the_tail_keeps_single_values() {
        let four = [(1.0, 0.75), (2.0, 0.5), (3.0, 0.25), (9.0, 0.0)];
        assert_eq!(drawn([1, 2, 3, 9].into_iter(), 0, 0)[..], four);
        let points = drawn(0..100_000, 0, 0);
        assert!(points.len() <= 2 * STEPS + 2, "{}", points.len());
        let last = [(99_997.0, 2e-5), (99_998.0, 1e-5), (99_999.0, 0.0)];
        assert_eq!(points[points.len() - 3..], last);
        assert_eq!(points[0], (0.0, 0.99999), "and the shortest");
    }
}
