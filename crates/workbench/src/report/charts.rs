//! Plots of runs.

use std::collections::BTreeMap;

use tidegate_algos::Protocol;
use tidegate_results::{BySize, FctSummary, Fixed};

use super::plot::{Axis, Line, PALETTE, Plot, equal_scales};
use super::read::{Run, Series};

/// Runs of one plot at most.
pub(crate) const RUNS_MAX: usize = 10;
/// Ports of a scenario whose queues, or pauses, are drawn over time.
pub(crate) const PORTS_SHOWN: usize = 3;
/// Flows that are drawn one by one; of more, the sums of their labels.
const FLOWS_MAX: usize = 64;
/// Points of a distribution.
const STEPS: usize = 500;

type Points = Vec<(f64, f64)>;
type Port = (String, String);

/// Reads one number of a class of messages.
type Quantity<'a> = &'a dyn Fn(&FctSummary) -> Option<Fixed>;

/// How long messages take: the distribution, and by their size.
pub(crate) fn messages(runs: &[Run]) -> Vec<Plot> {
    let slowdowns = |run: &Run| {
        let unfinished = run.summary.fct.get("all").map_or(0, |all| all.unfinished);
        cdf(&run.slowdowns, unfinished as usize)
    };
    let mut plots = vec![Plot {
        title: "Slowdown of messages".to_owned(),
        x: axis("slowdown (completion time over that in an empty network)", true),
        y: share("share of messages"),
        lines: lines(runs, slowdowns),
        ..Plot::default()
    }];
    let known =
        |fct: &FctSummary, per_mille, value: Option<Fixed>| value.filter(|_| !fct.hides(per_mille));
    let quantities: [(&str, &str, Quantity); 4] = [
        ("Slowdown by size, median", "slowdown", &|fct| known(fct, 500, fct.slowdown.p50)),
        ("Slowdown by size, 99th percentile", "slowdown", &|fct| known(fct, 10, fct.slowdown.p99)),
        ("Completion time by size, median", "completion time (µs)", &|fct| {
            known(fct, 500, fct.p50_us)
        }),
        ("Completion time by size, 99th percentile", "completion time (µs)", &|fct| {
            known(fct, 10, fct.p99_us)
        }),
    ];
    plots.extend(quantities.map(|(title, unit, of)| Plot {
        title: title.to_owned(),
        x: axis("message size (bytes, middle of a decade)", true),
        y: axis(unit, true),
        lines: lines(runs, |run| by_size(run, of)),
        ..Plot::default()
    }));
    plots
}

/// Goodput of flows over time: a plot for each run that was sampled, on equal scales.
pub(crate) fn goodput(runs: &[Run]) -> Vec<Plot> {
    let sampled = runs.iter().filter_map(|run| Some((run, run.series.as_ref()?)));
    let plot = |(run, series): (&Run, &Series)| Plot {
        title: format!("Goodput, {}", run.title),
        x: time(runs),
        y: axis(
            if series.goodput.len() > FLOWS_MAX {
                "goodput of a label's flows together (Gbit/s)"
            } else {
                "goodput of a flow (Gbit/s)"
            },
            false,
        ),
        lines: flow_lines(series),
        ..Plot::default()
    };
    let mut plots: Vec<Plot> = sampled.map(plot).collect();
    equal_scales(&mut plots);
    plots
}

/// Queues: their distribution, and the longest over time, a plot a port.
pub(crate) fn queues(runs: &[Run]) -> Vec<Plot> {
    let mut plots = queue_distributions(runs).to_vec();
    for port in largest(means(runs, |series| &series.queues)) {
        let points = |run: &Run| {
            let series = run.series.as_ref().filter(|_| run.summary.name == port.0);
            series.and_then(|series| series.queues.get(&port.1)).cloned().unwrap_or_default()
        };
        plots.push(Plot {
            title: format!("Queue from {} to {}", port.1.0, port.1.1),
            x: time(runs),
            y: axis("queue (KB)", false),
            lines: lines(runs, points),
            ..Plot::default()
        });
    }
    plots
}

/// How much of the time ports stood still: those that did longest, a plot a port.
pub(crate) fn pauses(runs: &[Run]) -> Vec<Plot> {
    let plot = |(scenario, port): (String, Port)| {
        let points = |run: &Run| {
            let series = run.series.as_ref().filter(|_| run.summary.name == scenario);
            series.and_then(|series| series.pauses.get(&port)).cloned().unwrap_or_default()
        };
        Plot {
            title: format!("Pauses of {} towards {}", port.0, port.1),
            x: time(runs),
            y: axis("paused in an interval (µs)", false),
            lines: lines(runs, points),
            ..Plot::default()
        }
    };
    largest(means(runs, |series| &series.pauses)).into_iter().map(plot).collect()
}

/// A line for every run in its protocol's colour, with dashes where an earlier run has that one.
fn lines(runs: &[Run], points: impl Fn(&Run) -> Points) -> Vec<Line> {
    let line = |(i, run): (usize, &Run)| {
        let earlier = runs[..i].iter().filter(|other| other.protocol == run.protocol).count();
        let card = run.protocol.as_deref().and_then(Protocol::named).map(Protocol::card);
        let color = card.map_or(PALETTE[i % PALETTE.len()], |card| card.color);
        Line {
            name: run.title.clone(),
            color: color.to_owned(),
            dash: earlier,
            marker: Some(card.map_or("circle", |card| card.marker.name())),
            points: points(run),
            ..Line::default()
        }
    };
    let lines = runs.iter().enumerate().take(RUNS_MAX).map(line);
    lines.filter(|line| !line.points.is_empty()).collect()
}

fn axis(label: &str, log: bool) -> Axis {
    Axis { label: label.to_owned(), log, ..Axis::default() }
}

/// Time, to the end of the longest run.
fn time(runs: &[Run]) -> Axis {
    let end_ms = runs.iter().map(|run| run.summary.sim_seconds * 1e3).fold(0.0, f64::max);
    Axis { to: Some(end_ms), ..axis("time (ms)", false) }
}

fn share(label: &str) -> Axis {
    Axis { to: Some(1.0), ..axis(label, false) }
}

/// The distribution of values that are in order, and of `more` that are unknown and larger.
fn cdf(values: &[f64], more: usize) -> Points {
    let n = values.len();
    let all = (n + more) as f64;
    let step = n.div_ceil(STEPS).max(1);
    let at = (0..n).filter(|i| i % step == 0 || i + 1 == n);
    at.map(|i| (values[i], (i + 1) as f64 / all)).collect()
}

/// What share of values, which are in order, is larger: closer together the fewer those are.
fn ccdf(values: &[f64]) -> Points {
    let n = values.len();
    let factor = (n as f64).powf(1.0 / STEPS as f64);
    let mut points = Points::new();
    let mut above = n.saturating_sub(1);
    while above > 0 {
        points.push((values[n - 1 - above], above as f64 / n as f64));
        above = ((above as f64 / factor) as usize).min(above - 1);
    }
    points
}

fn by_size(run: &Run, of: &dyn Fn(&FctSummary) -> Option<Fixed>) -> Points {
    let Some(all) = run.summary.fct.get("all") else { return Vec::new() };
    let point = |size: &BySize| {
        // The middle of a class, which is a decade.
        let middle = size.below_bytes.map_or(size.min_bytes as f64 * 2.0, |below| {
            ((size.min_bytes.max(100) as f64) * below as f64).sqrt()
        });
        Some((middle, of(&size.fct)?.as_f64()))
    };
    all.by_size.iter().filter_map(point).collect()
}

/// A line a flow in the colour of its label, or in its own if there are few and no labels to tell
/// apart.
fn flow_lines(series: &Series) -> Vec<Line> {
    let flows = &series.goodput;
    // With the number of their flows, as they come.
    let mut labels: Vec<(&str, usize)> = Vec::new();
    for (label, _) in flows.values() {
        match labels.iter_mut().find(|(known, _)| known == label) {
            Some((_, count)) => *count += 1,
            None => labels.push((label, 1)),
        }
    }
    let line = |i: usize, name: String, points: Points| Line {
        name,
        color: PALETTE[i % PALETTE.len()].to_owned(),
        dash: i / PALETTE.len(),
        points,
        ..Line::default()
    };
    if labels.len() == 1 && (2..=PALETTE.len()).contains(&flows.len()) {
        let own = flows.iter().enumerate().map(|(i, (id, (label, points)))| {
            line(i, format!("{label} (flow {id})").trim().to_owned(), points.clone())
        });
        return own.collect();
    }
    let named = |label: &str, count: usize| match (label, count) {
        ("", 1) => "1 flow".to_owned(),
        ("", _) => format!("{count} flows"),
        (_, 1) => label.to_owned(),
        _ => format!("{label} ({count} flows)"),
    };
    let colors = label_colors(&labels.iter().map(|(label, _)| *label).collect::<Vec<_>>());
    let mut lines = Vec::new();
    for ((label, count), color) in labels.into_iter().zip(colors).take(RUNS_MAX) {
        if flows.len() > FLOWS_MAX {
            lines.push(line(color, named(label, count), sum(series, label)));
            continue;
        }
        let own = flows.values().filter(|(other, _)| other == label);
        // Its first names them all in the legend.
        lines.extend(own.enumerate().map(|(i, (_, points))| {
            line(color, if i == 0 { named(label, count) } else { String::new() }, points.clone())
        }));
    }
    lines
}

/// Which of the palette each label has: one that it names, or the next that none names.
fn label_colors(labels: &[&str]) -> Vec<usize> {
    let named = |label: &str| ["blue", "red", "green"].iter().position(|name| *name == label);
    let taken: Vec<usize> = labels.iter().filter_map(|label| named(label)).collect();
    let mut free = (0..).filter(|color| !taken.contains(color));
    labels.iter().map(|label| named(label).unwrap_or_else(|| free.next().unwrap_or(0))).collect()
}

/// What the flows of a label deliver together, with zero where none is there.
fn sum(series: &Series, label: &str) -> Points {
    // To the nanosecond, for samples of one time are added.
    let key = |ms: f64| (ms * 1e6).round() as u64;
    let mut sums: BTreeMap<u64, f64> = BTreeMap::new();
    for (of, points) in series.goodput.values() {
        for (ms, gbps) in points {
            *sums.entry(key(*ms)).or_default() += if of == label { *gbps } else { 0.0 };
        }
    }
    sums.into_iter().map(|(ns, gbps)| (ns as f64 / 1e6, gbps)).collect()
}

/// The distribution of queues and its tail: over samples of the ports that ever queue; of runs
/// without samples, over the ports.
fn queue_distributions(runs: &[Run]) -> [Plot; 2] {
    let means = means(runs, |series| &series.queues);
    let sampled = runs.iter().all(|run| run.series.is_some());
    let values = |run: &Run| {
        let mut values: Vec<f64> = match run.series.as_ref().filter(|_| sampled) {
            Some(series) => {
                let queues = |port: &Port| {
                    means.get(&(run.summary.name.clone(), port.clone())).is_some_and(|m| *m > 0.0)
                };
                let ports = series.queues.iter().filter(|(port, _)| queues(port));
                ports.flat_map(|(_, points)| measured(run, points)).collect()
            }
            None => {
                let ports = run.summary.links.iter().filter(|link| !link.from_host);
                ports.filter_map(|link| Some(link.queue_bytes.max? / 1e3)).collect()
            }
        };
        values.sort_by(f64::total_cmp);
        values
    };
    let (x, of) = match sampled {
        true => ("queue (KB), sampled at the ports where any run queues", "samples"),
        false => ("longest queue of a port (KB)", "switch ports"),
    };
    let below = Plot {
        title: "Queues at switch ports".to_owned(),
        x: axis(x, false),
        y: share(&format!("share of {of}")),
        lines: lines(runs, |run| cdf(&values(run), 0)),
        ..Plot::default()
    };
    let above = Plot {
        title: "Queues at switch ports, the tail".to_owned(),
        x: axis(x, false),
        y: Axis { to: Some(1.0), ..axis(&format!("share of {of} that are longer"), true) },
        lines: lines(runs, |run| ccdf(&values(run))),
        ..Plot::default()
    };
    [below, above]
}

/// Samples after warm-up.
fn measured<'a>(run: &Run, points: &'a [(f64, f64)]) -> impl Iterator<Item = f64> + 'a {
    let from_ms = run.summary.warmup_seconds * 1e3;
    points.iter().filter(move |point| point.0 > from_ms).map(|point| point.1)
}

type Sampled = BTreeMap<Port, Points>;

/// By scenario and port: the means of all runs, added.
fn means(runs: &[Run], of: fn(&Series) -> &Sampled) -> BTreeMap<(String, Port), f64> {
    let mut means = BTreeMap::new();
    for run in runs {
        for (port, points) in run.series.iter().flat_map(of) {
            let (sum, n) =
                measured(run, points).fold((0.0, 0), |(sum, n), value| (sum + value, n + 1));
            *means.entry((run.summary.name.clone(), port.clone())).or_default() +=
                sum / n.max(1) as f64;
        }
    }
    means
}

/// The ports of each scenario with the largest means.
fn largest(means: BTreeMap<(String, Port), f64>) -> Vec<(String, Port)> {
    let mut ports: Vec<_> = means.into_iter().filter(|(_, mean)| *mean > 0.0).collect();
    ports.sort_by(|a, b| a.0.0.cmp(&b.0.0).then(b.1.total_cmp(&a.1)));
    let mut shown: Vec<(String, Port)> = Vec::new();
    for (port, _) in ports {
        if shown.iter().filter(|other| other.0 == port.0).count() < PORTS_SHOWN {
            shown.push(port);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(labels: &[&str]) -> Series {
        let flow = |(id, label): (usize, &&str)| {
            (id as u64, ((*label).to_owned(), vec![(0.1, 1.0), (0.2, 2.0)]))
        };
        Series { goodput: labels.iter().enumerate().map(flow).collect(), ..Series::default() }
    }

    #[test]
    fn flows_are_named_by_label_and_told_apart() {
        let names = |labels: &[&str]| -> Vec<String> {
            flow_lines(&series(labels)).into_iter().map(|line| line.name).collect()
        };
        assert_eq!(names(&["b", "b"]), ["b (flow 0)", "b (flow 1)"]);
        assert_eq!(names(&["", "a", "b", "", "b"]), ["2 flows", "", "a", "b (2 flows)", ""]);
        let many = flow_lines(&series(&["a"; 65]));
        assert_eq!((many.len(), many[0].name.as_str()), (1, "a (65 flows)"));
        assert_eq!(many[0].points, [(0.1, 65.0), (0.2, 130.0)]);
    }

    #[test]
    fn labels_that_name_a_colour_have_it() {
        assert_eq!(label_colors(&["blue", "green", "victim", "x"]), [0, 2, 1, 3]);
        assert_eq!(label_colors(&["a", "b"]), [0, 1]);
    }

    #[test]
    fn a_distribution_ends_at_the_share_that_is_known() {
        let values: Vec<f64> = (0..2001).map(f64::from).collect();
        let points = cdf(&values, 0);
        assert!(points.len() <= STEPS + 1 && points.last() == Some(&(2000.0, 1.0)));
        assert_eq!(cdf(&values, 667).last(), Some(&(2000.0, 0.75)));
        assert!(cdf(&[], 1).is_empty());
    }

    #[test]
    fn a_tail_ends_at_the_last_value_but_one() {
        assert_eq!(ccdf(&[1.0, 2.0, 3.0, 9.0]), [(1.0, 0.75), (2.0, 0.5), (3.0, 0.25)]);
        let values: Vec<f64> = (0..100_000).map(f64::from).collect();
        let points = ccdf(&values);
        assert!(points.len() <= STEPS + 1, "{}", points.len());
        // The longest are there one by one.
        assert_eq!(points[points.len() - 2..], [(99_997.0, 2e-5), (99_998.0, 1e-5)]);
        assert!(ccdf(&[]).is_empty() && ccdf(&[1.0]).is_empty());
    }
}
