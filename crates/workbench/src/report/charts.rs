//! Plots of messages.

use std::collections::BTreeMap;

use tidegate_algos::Protocol;
use tidegate_results::{BySize, Curve, FctSummary, Fixed, FlowSummary};

use super::configurations::Configuration;
use super::flows::Message;
use super::plot::{Axis, Distribution, Line, LineFlows, LinePart, MARKERS, PALETTE, Plot, Points};
use super::read::Run;

/// Points of a distribution, at even shares and at shares that are closer together the fewer are
/// above.
const STEPS: usize = 150;
/// The same of some of the messages only.
const PART_STEPS: usize = 50;
/// Distributions of some of the messages only are in the page for so many of them.
const PARTS_MAX: usize = 1000;

/// Reads one number of a class of messages.
type Quantity<'a> = &'a dyn Fn(&FctSummary) -> Option<Fixed>;

/// How long messages take: the distribution, some of them one by one, and by their size.
pub(crate) fn messages(all: &[Configuration<'_>]) -> Vec<Plot> {
    let mut plots = vec![slowdowns(all), single(all)];
    let known = |value: Option<Fixed>, hidden: bool| value.filter(|_| !hidden);
    let quantities: [(&str, &str, Quantity); 4] = [
        ("Slowdown by size, median", "slowdown", &|fct| {
            known(fct.slowdown.p50, fct.hides_slowdown(500))
        }),
        ("Slowdown by size, 99th percentile", "slowdown", &|fct| {
            known(fct.slowdown.p99, fct.hides_slowdown(10))
        }),
        ("Completion time by size, median", "completion time (µs)", &|fct| {
            known(fct.p50_us, fct.hides(500))
        }),
        ("Completion time by size, 99th percentile", "completion time (µs)", &|fct| {
            known(fct.p99_us, fct.hides(10))
        }),
    ];
    plots.extend(quantities.map(|(title, unit, of)| Plot {
        title: title.to_owned(),
        x: axis("message size (bytes, middle of a decade)", true),
        y: axis(unit, true),
        lines: lines(all, |one| by_size(one, of)),
        ..Plot::default()
    }));
    plots
}

/// A line for every configuration in its protocol's colour, with dashes and lighter where an
/// earlier one has that.
pub(crate) fn lines(
    all: &[Configuration<'_>],
    drawn: impl Fn(&Configuration<'_>) -> Line,
) -> Vec<Line> {
    let line = |(i, one): (usize, &Configuration<'_>)| {
        let earlier = all[..i].iter().filter(|other| other.protocol == one.protocol).count();
        let card = one.protocol.and_then(Protocol::named).map(Protocol::card);
        let color = card.map_or(PALETTE[i % PALETTE.len()], |card| card.color);
        Line {
            name: one.title.to_owned(),
            color: color.to_owned(),
            dash: if card.is_some() { earlier } else { i / PALETTE.len() },
            marker: Some(
                card.map_or(MARKERS[i % MARKERS.len()], |card| card.marker.name()).to_owned(),
            ),
            protocol: one.protocol.map(str::to_owned),
            ..drawn(one)
        }
    };
    let lines = all.iter().enumerate().map(line);
    lines.filter(|line| !line.points.is_empty()).collect()
}

pub(crate) fn axis(label: &str, log: bool) -> Axis {
    Axis { label: label.to_owned(), log, ..Axis::default() }
}

/// The share of values, which are in order, that are larger than each: at about twice so many of
/// them.
pub(crate) fn larger(values: &[f64], steps: usize) -> Points {
    let n = values.len();
    let point = |(i, value): (usize, &f64)| (*value, (n - 1 - i) as f64 / n as f64);
    thinned(&values.iter().enumerate().map(point).collect::<Vec<_>>(), steps)
}

/// Of a distribution (values in order, with the share of all that are larger) about twice so many
/// points.
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

/// Slowdowns with the share of messages in which they are larger, by the estimate that the
/// percentiles of summaries are of.
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

/// The distribution of slowdowns over all seeds, and of parts of the messages.
fn slowdowns(all: &[Configuration<'_>]) -> Plot {
    let classes = tidegate_results::SIZE_BOUNDS.len() + 1;
    let labels = |run: &Run| run.summary.fct.keys().filter(|label| *label != "all").count();
    let parts: usize = all.iter().map(|one| (labels(one.run()) + 1) * (classes + 1)).sum();
    let with_parts = parts <= PARTS_MAX;
    Plot {
        title: "Slowdown of messages".to_owned(),
        x: axis("slowdown (completion time over that in an empty network)", true),
        y: Axis { to: Some(1.0), ..axis("share of messages", false) },
        lines: lines(all, |one| {
            let messages = one.runs.iter().flat_map(|run| &run.flows.messages);
            let points = distribution(messages, STEPS);
            let parts = if with_parts { slowdown_parts(one) } else { Vec::new() };
            Line { points, parts, ..Line::default() }
        }),
        distribution: Some(Distribution::Cumulative),
        ..Plot::default()
    }
}

/// The same of each label and each class of sizes that there is, and of both together.
fn slowdown_parts(one: &Configuration<'_>) -> Vec<LinePart> {
    let mut groups: BTreeMap<(Option<&str>, Option<usize>), Vec<&Message>> = BTreeMap::new();
    for run in &one.runs {
        for message in &run.flows.messages {
            let label = run.flows.labels.get(&message.id).map(String::as_str);
            for key in [(label, None), (None, Some(message.size)), (label, Some(message.size))] {
                groups.entry(key).or_default().push(message);
            }
        }
    }
    let part = |((label, size), messages): ((Option<&str>, Option<usize>), Vec<&Message>)| {
        let points = distribution(messages.into_iter(), PART_STEPS);
        LinePart { label: label.map(str::to_owned), size, points }
    };
    groups.into_iter().map(part).collect()
}

/// Some messages one by one, of the first seed.
fn single(all: &[Configuration<'_>]) -> Plot {
    let point = |flow: &FlowSummary| {
        Some((flow.size_bytes.filter(|bytes| *bytes > 0)? as f64, flow.slowdown?.as_f64()))
    };
    let line = |one: &Configuration<'_>| {
        let flows = one.run().flows.shown.iter();
        let (points, ids): (Vec<_>, Vec<u64>) =
            flows.filter_map(|flow| Some((point(flow)?, flow.id))).unzip();
        let flows = Some(LineFlows { run: one.first, ids });
        Line { points: points.into(), apart: true, flows, ..Line::default() }
    };
    Plot {
        title: "Single messages: the slowest, and a sample".to_owned(),
        x: axis("message size (bytes)", true),
        y: axis("slowdown", true),
        lines: lines(all, line),
        ..Plot::default()
    }
}

/// The middle of a class of sizes, which is a decade.
fn middle(size: &BySize) -> f64 {
    size.below_bytes.map_or(size.min_bytes as f64 * 2.0, |below| {
        ((size.min_bytes.max(100) as f64) * below as f64).sqrt()
    })
}

/// A quantity of the messages of each size: its mean over the seeds, least and greatest, and the
/// same of each label.
fn by_size(one: &Configuration<'_>, of: Quantity<'_>) -> Line {
    let of_label = |label: &str| {
        let mut sizes: BTreeMap<u64, Vec<(f64, f64)>> = BTreeMap::new();
        for run in &one.runs {
            for size in run.summary.fct.get(label).iter().flat_map(|fct| &fct.by_size) {
                let value = of(&size.fct).map(Fixed::as_f64);
                let values = sizes.entry(size.min_bytes).or_default();
                values.extend(value.map(|value| (middle(size), value)));
            }
        }
        // A mean over the seeds that have a value would be of the quicker ones.
        sizes.retain(|_, values| values.len() == one.runs.len());
        sizes
    };
    let mean = |values: &Vec<(f64, f64)>| {
        let sum: f64 = values.iter().map(|point| point.1).sum();
        (values[0].0, sum / values.len() as f64)
    };
    let range = |values: &Vec<(f64, f64)>| {
        let each = || values.iter().map(|point| point.1);
        (each().fold(f64::INFINITY, f64::min), each().fold(0.0, f64::max))
    };
    let all = of_label("all");
    let labels = one.run().summary.fct.keys().filter(|label| *label != "all");
    let part = |label: &String| LinePart {
        label: Some(label.clone()),
        size: None,
        points: Points(of_label(label).values().map(mean).collect()),
    };
    let several = one.runs.len() > 1;
    Line {
        points: Points(all.values().map(mean).collect()),
        range: Points(if several { all.values().map(range).collect() } else { Vec::new() }),
        parts: labels.map(part).collect(),
        ..Line::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages with these slowdowns, and `open` of which it is known that theirs are larger than
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
    fn a_distribution_ends_at_the_share_that_is_known() {
        let points = drawn(0..2001, 0, 0);
        assert!(points.len() <= 2 * STEPS + 2 && points.last() == Some(&(2000.0, 0.0)));
        assert_eq!(drawn(0..2001, 667, 2000).last(), Some(&(2000.0, 0.25)));
        assert!(drawn(0..0, 1, 0).is_empty());
    }

    #[test]
    fn what_was_cut_off_early_is_as_long_as_the_others() {
        let points = drawn([1, 2, 3, 4].into_iter(), 2, 2);
        let expected = [(1.0, 5.0 / 6.0), (2.0, 4.0 / 6.0), (3.0, 2.0 / 6.0), (4.0, 0.0)];
        for (found, expected) in points.iter().zip(expected) {
            assert!(found.0 == expected.0 && (found.1 - expected.1).abs() < 1e-12, "{found:?}");
        }
        assert_eq!(points.len(), 4);
    }

    #[test]
    fn the_longest_of_a_tail_are_there_one_by_one() {
        let four = [(1.0, 0.75), (2.0, 0.5), (3.0, 0.25), (9.0, 0.0)];
        assert_eq!(drawn([1, 2, 3, 9].into_iter(), 0, 0)[..], four);
        let points = drawn(0..100_000, 0, 0);
        assert!(points.len() <= 2 * STEPS + 2, "{}", points.len());
        let last = [(99_997.0, 2e-5), (99_998.0, 1e-5), (99_999.0, 0.0)];
        assert_eq!(points[points.len() - 3..], last);
        assert_eq!(points[0], (0.0, 0.99999), "and the shortest");
    }
}
