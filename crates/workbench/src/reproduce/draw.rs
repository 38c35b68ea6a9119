//! Figures in the paper's own axes.

use tidegate_algos::Protocol;

use super::Picture;
use super::metrics::{Ask, answer};
use super::observe::{FlowTrace, Observation};
use super::registry::{Chart, ChartKind, Figure, Paper, Run};
use crate::report::plot::{Axis, Line, PALETTE, Plot, equal_scales};

/// Every plot of a figure.
pub(crate) fn pictures(paper: &Paper, figure: &Figure, runs: &[Vec<&Observation>]) -> Vec<Picture> {
    let mut pictures = Vec::new();
    for chart in &figure.charts {
        let chosen: Vec<usize> = match chart.runs.is_empty() {
            true => (0..figure.runs.len()).filter(|&run| figure.runs[run].drawn).collect(),
            false => chart.runs.iter().filter_map(|name| figure.run(name)).collect(),
        };
        for plot in plots(chart, figure, &chosen, runs) {
            let number = pictures.len();
            let suffix = if number == 0 { String::new() } else { format!("-{}", number + 1) };
            pictures.push(Picture {
                name: format!("{}-figure-{}{suffix}", paper.name, figure.name),
                svg: plot.svg(),
            });
        }
    }
    pictures
}

fn plots(
    chart: &Chart,
    figure: &Figure,
    chosen: &[usize],
    runs: &[Vec<&Observation>],
) -> Vec<Plot> {
    let plot = |title: String, lines: Vec<Line>| Plot {
        title,
        x: Axis { label: chart.x.clone(), log: chart.log_x, from: chart.from_ms, to: chart.to_ms },
        y: Axis { label: chart.y.clone(), log: chart.log_y, ..Axis::default() },
        lines,
    };
    let title = || format!("{} {}: {}", "Figure", figure.name, chart.title);
    match chart.kind {
        ChartKind::Cdf | ChartKind::Tail => {
            let line = |(place, &run): (usize, &usize)| {
                let label = chart.labels.first().map_or("", String::as_str);
                let mut points = runs[run].first()?.messages.get(label)?.cdf.clone();
                if chart.kind == ChartKind::Tail {
                    points.iter_mut().for_each(|point| point.1 = 1.0 - point.1);
                    points.retain(|point| point.1 > 1e-9);
                }
                Some(styled(figure, chosen, place, points))
            };
            let lines = chosen.iter().enumerate().filter_map(line).collect();
            let mut plot = plot(title(), lines);
            plot.y.to = Some(1.0);
            vec![plot]
        }
        ChartKind::Sweep => {
            let mut lines: Vec<Line> =
                chart.of.iter().flat_map(|ask| sweep(ask, figure, chosen, runs)).collect();
            if let Some(against) = &chart.against {
                let reference = sweep(&against.of, figure, chosen, runs).into_iter();
                lines.extend(reference.map(|line| Line {
                    name: against.name.clone(),
                    color: PALETTE[1].to_owned(),
                    dash: 1,
                    marker: None,
                    ..line
                }));
            }
            vec![plot(title(), lines)]
        }
        ChartKind::Series => {
            let Some(of) = chart.of.as_ref().map(|ask| ask.metric.as_str()) else {
                return Vec::new();
            };
            if chart.labels.len() == 1 && !chart.each {
                let line = |(place, &run): (usize, &usize)| {
                    let seen = runs[run].first()?;
                    let points = smooth(
                        series(seen, of, &chart.labels[0]),
                        chart.smooth_us / seen.interval_us,
                    );
                    Some(styled(figure, chosen, place, points))
                };
                return vec![plot(title(), chosen.iter().enumerate().filter_map(line).collect())];
            }
            let panel = |&run: &usize| {
                let seen = runs[run].first()?;
                let mut lines =
                    if chart.each { each(seen, of) } else { by_label(seen, of, &chart.labels) };
                for line in &mut lines {
                    line.points = smooth(
                        std::mem::take(&mut line.points),
                        chart.smooth_us / seen.interval_us,
                    );
                }
                let title = if chosen.len() > 1 {
                    format!("{}, {}", title(), figure.runs[run].name)
                } else {
                    title()
                };
                Some(plot(title, lines))
            };
            let mut panels: Vec<Plot> = chosen.iter().filter_map(panel).collect();
            equal_scales(&mut panels);
            panels
        }
    }
}

/// A run's line: in its protocol's colour and with its marker; if it is not the protocol's first
/// among them, in another colour with dashes.
fn styled(figure: &Figure, chosen: &[usize], place: usize, points: Vec<(f64, f64)>) -> Line {
    let run = &figure.runs[chosen[place]];
    let earlier = chosen[..place]
        .iter()
        .filter(|&&other| figure.runs[other].protocol == run.protocol)
        .count();
    let card = card(run).filter(|_| earlier == 0);
    let color = card.map_or(PALETTE[(place + 2) % PALETTE.len()], |card| card.color);
    let marker = card.map(|card| card.marker.name());
    Line { name: run.name.clone(), color: color.to_owned(), dash: earlier, marker, points }
}

fn card(run: &Run) -> Option<&'static tidegate_core::Card> {
    Some(Protocol::named(run.protocol.as_ref()?)?.card())
}

fn sweep(ask: &Ask, figure: &Figure, chosen: &[usize], runs: &[Vec<&Observation>]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for &index in chosen {
        let run = &figure.runs[index];
        let name =
            run.line.clone().or_else(|| Some(card(run)?.title.to_owned())).unwrap_or_default();
        let Some(point) = run.x.zip(answer(ask, &runs[index])) else { continue };
        let number = lines.iter().position(|line| line.name == name).unwrap_or_else(|| {
            let color = card(run)
                .map_or(PALETTE[lines.len() % PALETTE.len()], |card| card.color)
                .to_owned();
            let marker = Some(card(run).map_or("circle", |card| card.marker.name()));
            lines.push(Line { name, color, dash: 0, marker, points: Vec::new() });
            lines.len() - 1
        });
        lines[number].points.push(point);
    }
    lines.iter_mut().for_each(|line| line.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    lines
}

fn quantity(flow: &FlowTrace, of: &str, bin: usize) -> Option<f64> {
    let at = |values: &Vec<Option<f32>>| values.get(bin).copied().flatten().map(f64::from);
    match of {
        "goodput" => flow.goodput_gbps.get(bin).map(|&x| f64::from(x)),
        "rtt" => at(&flow.rtt_us),
        "peak" => at(&flow.peak_us),
        "target" => at(&flow.target_us),
        "window" => at(&flow.window_kb),
        _ => None,
    }
}

/// The bins in which a flow is there.
fn life(flow: &FlowTrace, seen: &Observation) -> std::ops::Range<usize> {
    let bin = |us: f64| (us / seen.interval_us + 1e-6) as usize;
    bin(flow.start_us)
        ..flow.stop_us.map_or(flow.goodput_gbps.len(), |us| bin(us).min(flow.goodput_gbps.len()))
}

/// When a quantity of an interval holds: at its end if it is sampled there, in its middle if it is
/// a mean over it.
fn time_ms(bin: usize, of: &str, seen: &Observation) -> f64 {
    let part = if matches!(of, "window" | "queue") { 1.0 } else { 0.5 };
    (bin as f64 + part) * seen.interval_us * 1e-3
}

/// Averages over `width` neighbours.
fn smooth(points: Vec<(f64, f64)>, width: f64) -> Vec<(f64, f64)> {
    let width = (width.round() as usize).clamp(1, points.len().max(1));
    let mean = |window: &[(f64, f64)]| {
        let sum = window.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (sum.0 / width as f64, sum.1 / width as f64)
    };
    points.windows(width).map(mean).collect()
}

/// The mean of a label's flows over time. A label may carry a quantity of its own, `victim:target`,
/// or be a port, `from>to`, whose queueing delay is meant.
fn series(seen: &Observation, of: &str, label: &str) -> Vec<(f64, f64)> {
    if let Some((from, to)) = label.split_once('>') {
        let queue = seen.queues.iter().find(|queue| queue.from == from && queue.to == to);
        let delays = queue.map_or(&[][..], |queue| &queue.delay_us).iter().enumerate();
        return delays.map(|(bin, &us)| (time_ms(bin, "queue", seen), f64::from(us))).collect();
    }
    let (label, of) = label.split_once(':').unwrap_or((label, of));
    let bins = seen.flows.iter().map(|flow| flow.goodput_gbps.len()).max().unwrap_or(0);
    let flows: Vec<&FlowTrace> = seen.flows.iter().filter(|flow| flow.label == label).collect();
    let point = |bin: usize| {
        let there = flows.iter().filter(|flow| life(flow, seen).contains(&bin));
        let values: Vec<f64> = there.filter_map(|flow| quantity(flow, of, bin)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (!values.is_empty()).then(|| (time_ms(bin, of, seen), mean))
    };
    (0..bins).filter_map(point).collect()
}

fn by_label(seen: &Observation, of: &str, labels: &[String]) -> Vec<Line> {
    let line = |(i, label): (usize, &String)| Line {
        name: label.replace(':', " ").replace('>', " to "),
        color: colour_of(label).unwrap_or(PALETTE[(i + 1) % PALETTE.len()]).to_owned(),
        dash: usize::from(label.contains(':')) * i,
        marker: None,
        points: series(seen, of, label),
    };
    labels.iter().enumerate().map(line).collect()
}

/// Flows that a paper names by a colour have it.
fn colour_of(label: &str) -> Option<&'static str> {
    let named = [("blue", PALETTE[0]), ("green", PALETTE[2]), ("red", PALETTE[1])];
    named.iter().find(|(name, _)| *name == label).map(|(_, color)| *color)
}

fn each(seen: &Observation, of: &str) -> Vec<Line> {
    let line = |(i, flow): (usize, &FlowTrace)| {
        let point = |bin: usize| Some((time_ms(bin, of, seen), quantity(flow, of, bin)?));
        Line {
            name: format!("flow {}", i + 1),
            color: PALETTE[i % PALETTE.len()].to_owned(),
            dash: i / PALETTE.len(),
            marker: None,
            points: life(flow, seen).filter_map(point).collect(),
        }
    };
    seen.flows.iter().enumerate().map(line).collect()
}
