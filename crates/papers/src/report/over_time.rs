//! Plots of samples over time.

use std::collections::BTreeMap;

use super::charts::{axis, counted, first_seed, larger, lines};
use super::configurations::Configuration;
use super::read::Run;
use super::series::Series;
use crate::plot::{Axis, Distribution, Line, LineFlows, PALETTE, Plot, Points, equal_scales};

/// Number of ports of a scenario whose queues or pauses are drawn over time.
pub(crate) const PORTS_SHOWN: usize = 3;
/// Maximum number of flows drawn one by one; with more flows, the sums per label are drawn.
const FLOWS_MAX: usize = 64;
/// Maximum number of labels drawn per run.
const LABELS_MAX: usize = 10;
/// Points of a distribution, as in `larger`.
const STEPS: usize = 150;

type Port = (String, String);

/// By flow: its label and samples.
type Flows = BTreeMap<u64, (String, Points)>;

/// Goodput of flows over time: a plot for each sampled configuration, on equal scales.
pub(crate) fn goodput(all: &[Configuration<'_>]) -> Vec<Plot> {
    let sampled = all.iter().filter_map(|one| Some((one, one.run().series.as_ref()?)));
    let plot = |(one, series): (&Configuration<'_>, &Series)| Plot {
        title: format!("Goodput, {}", one.title),
        x: time(all),
        y: axis(
            if series.goodput.len() > FLOWS_MAX {
                "goodput of all flows of a label (Gbit/s)"
            } else {
                "goodput of a flow (Gbit/s)"
            },
            false,
        ),
        lines: flow_lines(&series.goodput, one.first, one.protocol),
        ..Plot::default()
    };
    let mut plots: Vec<Plot> = sampled.map(plot).collect();
    equal_scales(&mut plots);
    plots
}

/// Windows of flows over time: a plot for each sampled configuration whose protocol has windows,
/// unless there are too many flows: a sum of windows has no meaning.
pub(crate) fn windows(all: &[Configuration<'_>]) -> Vec<Plot> {
    let plot = |one: &Configuration<'_>| {
        let series = one.run().series.as_ref()?;
        let label = |id: &u64| series.goodput.get(id).map(|(label, _)| label.clone());
        let window =
            |(id, points): (&u64, &Points)| (*id, (label(id).unwrap_or_default(), points.clone()));
        let flows: Flows = series.windows.iter().map(window).collect();
        (1..=FLOWS_MAX).contains(&flows.len()).then(|| Plot {
            title: format!("Window, {}", one.title),
            x: time(all),
            y: axis("window of a flow (KB)", false),
            lines: flow_lines(&flows, one.first, one.protocol),
            ..Plot::default()
        })
    };
    all.iter().filter_map(plot).collect()
}

/// Queues: their distribution, and the longest queues over time, one plot per port.
pub(crate) fn queues(all: &[Configuration<'_>]) -> Vec<Plot> {
    let mut plots = vec![queue_distribution(all)];
    for (scenario, port) in largest(means(all, |series| &series.queues)) {
        plots.push(Plot {
            title: format!("Queue from {} to {}", port.0, port.1),
            x: time(all),
            y: axis("queue (KB)", false),
            lines: of_port(all, &scenario, &port, |series| &series.queues),
            ..Plot::default()
        });
    }
    plots
}

/// Paused time of the ports that were paused longest, one plot per port.
pub(crate) fn pauses(all: &[Configuration<'_>]) -> Vec<Plot> {
    let plot = |(scenario, port): (String, Port)| Plot {
        title: format!("Pauses of {} towards {}", port.0, port.1),
        x: time(all),
        y: axis("paused in an interval (µs)", false),
        lines: of_port(all, &scenario, &port, |series| &series.pauses),
        ..Plot::default()
    };
    largest(means(all, |series| &series.pauses)).into_iter().map(plot).collect()
}

fn of_port(
    all: &[Configuration<'_>],
    scenario: &str,
    port: &Port,
    of: fn(&Series) -> &Sampled,
) -> Vec<Line> {
    lines(all, |one| {
        let series = one.run().series.as_ref().filter(|_| one.run().summary.name == scenario);
        let points = series.and_then(|series| of(series).get(port)).cloned().unwrap_or_default();
        // Without a marker, because most of the values are zero.
        Line { points, ..Line::default() }
    })
}

/// Time axis up to the end of the longest run.
fn time(all: &[Configuration<'_>]) -> Axis {
    let end_ms = all.iter().map(|one| one.run().summary.sim_seconds * 1e3).fold(0.0, f64::max);
    Axis { to: Some(end_ms), ..axis("time (ms)", false) }
}

/// A line per flow in the colour of its label, or in its own colour if there are few flows and no
/// distinguishing labels.
fn flow_lines(flows: &Flows, run: usize, protocol: Option<&str>) -> Vec<Line> {
    // Labels with the number of their flows, in the order of appearance.
    let mut labels: Vec<(&str, usize)> = Vec::new();
    for (label, _) in flows.values() {
        match labels.iter_mut().find(|(known, _)| known == label) {
            Some((_, count)) => *count += 1,
            None => labels.push((label, 1)),
        }
    }
    let line = |i: usize, name: String, label: &str, id: Option<u64>, points: Points| Line {
        name,
        color: PALETTE[i % PALETTE.len()].to_owned(),
        dash: i / PALETTE.len(),
        points,
        protocol: protocol.map(str::to_owned),
        label: Some(label.to_owned()),
        flows: id.map(|id| LineFlows { run, ids: vec![id] }),
        ..Line::default()
    };
    if labels.len() == 1 && (2..=PALETTE.len()).contains(&flows.len()) {
        let own = flows.iter().enumerate().map(|(i, (id, (label, points)))| {
            let name = format!("{label} (flow {id})").trim().to_owned();
            line(i, name, label, Some(*id), points.clone())
        });
        return own.collect();
    }
    let named = |label: &str, count: usize| match (label, count) {
        ("", 1) => "1 flow".to_owned(),
        ("", _) => format!("{count} flows"),
        (_, 1) => label.to_owned(),
        _ => format!("{label} ({count} flows)"),
    };
    let mut lines = Vec::new();
    for (color, (label, count)) in labels.into_iter().enumerate().take(LABELS_MAX) {
        if flows.len() > FLOWS_MAX {
            lines.push(line(color, named(label, count), label, None, sum(flows, label)));
            continue;
        }
        let own = flows.iter().filter(|(_, (other, _))| other == label);
        // The first line represents the label in the legend.
        lines.extend(own.enumerate().map(|(i, (id, (_, points)))| {
            let name = if i == 0 { named(label, count) } else { String::new() };
            line(color, name, label, Some(*id), points.clone())
        }));
    }
    lines
}

/// Total goodput of a label's flows over time; zero while it has no active flow.
fn sum(flows: &Flows, label: &str) -> Points {
    // Key in nanoseconds, so that samples of equal times are added.
    let key = |ms: f64| (ms * 1e6).round() as u64;
    let mut sums: BTreeMap<u64, f64> = BTreeMap::new();
    for (of, points) in flows.values() {
        for (ms, gbps) in points.iter() {
            *sums.entry(key(*ms)).or_default() += if of == label { *gbps } else { 0.0 };
        }
    }
    Points(sums.into_iter().map(|(ns, gbps)| (ns as f64 / 1e6, gbps)).collect())
}

/// The distribution of queues: over samples of the ports that have a queue in any run; without
/// samples, over the ports' longest queues.
fn queue_distribution(all: &[Configuration<'_>]) -> Plot {
    let means = means(all, |series| &series.queues);
    let sampled = all.iter().all(|one| one.run().series.is_some());
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
        true => ("queue (KB), sampled at the ports where any run queues", "sample"),
        false => ("longest queue of a port (KB)", "switch port"),
    };
    let n = counted(all.iter().map(|one| values(one.run()).len() as u64), of);
    Plot {
        title: "Queues at switch ports".to_owned(),
        x: axis(x, false),
        y: Axis { to: Some(1.0), ..axis(&format!("share of {of}s"), false) },
        lines: lines(all, |one| Line {
            points: larger(&values(one.run()), STEPS),
            ..Line::default()
        }),
        note: format!("n: {n}, {}", first_seed(all)),
        distribution: Some(Distribution::Cumulative),
        ..Plot::default()
    }
}

/// Samples after warm-up.
fn measured<'a>(run: &Run, points: &'a Points) -> impl Iterator<Item = f64> + 'a {
    let from_ms = run.summary.warmup_seconds * 1e3;
    points.iter().filter(move |point| point.0 > from_ms).map(|point| point.1)
}

type Sampled = BTreeMap<Port, Points>;

/// Means by scenario and port, added over all runs.
fn means(all: &[Configuration<'_>], of: fn(&Series) -> &Sampled) -> BTreeMap<(String, Port), f64> {
    let mut means = BTreeMap::new();
    for run in all.iter().map(Configuration::run) {
        for (port, points) in run.series.iter().flat_map(of) {
            let (sum, n) =
                measured(run, points).fold((0.0, 0), |(sum, n), value| (sum + value, n + 1));
            *means.entry((run.summary.name.clone(), port.clone())).or_default() +=
                sum / f64::from(n.max(1));
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
    use crate::report::configurations::{configurations, grouped};
    use crate::report::read::tests::of_summary;
    use crate::samples::summary;

    fn flows(labels: &[&str]) -> Flows {
        let flow = |(id, label): (usize, &&str)| {
            (id as u64, ((*label).to_owned(), Points(vec![(0.1, 1.0), (0.2, 2.0)])))
        };
        labels.iter().enumerate().map(flow).collect()
    }

    #[test]
    fn flow_names_are_unique() {
        let lines = |labels: &[&str]| flow_lines(&flows(labels), 0, None);
        let names = |labels: &[&str]| -> Vec<String> {
            lines(labels).into_iter().map(|line| line.name).collect()
        };
        assert_eq!(names(&["b", "b"]), ["b (flow 0)", "b (flow 1)"]);
        assert_eq!(names(&["", "a", "b", "", "b"]), ["2 flows", "", "a", "b (2 flows)", ""]);
        let ids: Vec<u64> = lines(&["", "a", "b", "", "b"])
            .iter()
            .map(|line| line.flows.as_ref().unwrap().ids[0])
            .collect();
        assert_eq!(ids, [0, 3, 1, 2, 4], "each line refers to its flow");
        let many = lines(&["a"; 65]);
        assert_eq!((many.len(), many[0].name.as_str()), (1, "a (65 flows)"));
        assert_eq!(many[0].points[..], [(0.1, 65.0), (0.2, 130.0)]);
    }

    #[test]
    fn queues_state_their_number_and_seed() {
        let runs = [of_summary(summary(3)), of_summary(summary(4))];
        let all = configurations(&runs, &grouped(&runs));
        let ports = runs[0].summary.links.iter().filter(|link| !link.from_host).count();
        let note = queue_distribution(&all).note;
        assert_eq!(
            note,
            format!("n: {ports} switch port{}, seed 3", if ports == 1 { "" } else { "s" })
        );
    }
}
