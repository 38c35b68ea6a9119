//! Draws the figures with the papers' axes.

use std::ops::Range;

use tidegate_algos::Protocol;

use super::metrics::buffers::sorted;
use super::registry::{Chart, ChartKind, Curve, Figure, Paper, PaperPoints, Query, Waiting};
use super::{Picture, marks, phase, tables};
use crate::plot::{Axis, Distribution, Line, MARKERS, PALETTE, Plot, Points, equal_scales};
use tidegate_runs::observe::{
    CircuitTrace, FlowTrace, Observations, QueueTrace, Slowdown, Traced, quantile,
};

/// All plots of a figure.
pub(crate) fn pictures(
    paper: &Paper,
    figure: &Figure,
    runs: &[Vec<&Observations>],
) -> Vec<Picture> {
    let of_chart = |chart: &Chart| {
        let is_drawn = |run: &usize| figure.draws(chart, &figure.runs[*run]);
        let chosen: Vec<usize> = (0..figure.runs.len()).filter(is_drawn).collect();
        plots(chart, figure, &chosen, runs)
    };
    let mut all: Vec<Plot> = figure.charts.iter().flat_map(of_chart).collect();
    if figure.charts.is_empty() {
        all = tables::plots(figure, runs);
    }
    let picture = |(number, mut plot): (usize, Plot)| {
        marks::mark(paper, figure, &mut plot);
        let suffix = if number == 0 { String::new() } else { format!("-{}", number + 1) };
        Picture { name: format!("{}-figure-{}{suffix}", paper.name, figure.name), plot }
    };
    all.into_iter().enumerate().map(picture).collect()
}

fn plots(
    chart: &Chart,
    figure: &Figure,
    chosen: &[usize],
    runs: &[Vec<&Observations>],
) -> Vec<Plot> {
    let bare = |title: String, lines: Vec<Line>| Plot {
        title,
        x: Axis {
            label: chart.x.clone(),
            log: chart.log_x,
            from: chart.from_ms,
            to: chart.to_ms,
            ..Axis::default()
        },
        y: Axis { label: chart.y.clone(), log: chart.log_y, ..Axis::default() },
        lines,
        bands: chosen.first().map_or_else(Vec::new, |&run| days(chart, runs[run].first().copied())),
        ..Plot::default()
    };
    // Points outside the shown range are removed, so that thinning does not spend points on them.
    let shown = |&(x, _): &(f64, f64)| {
        chart.from_ms.is_none_or(|from| from <= x) && chart.to_ms.is_none_or(|to| x <= to)
    };
    let plot = |title: String, mut lines: Vec<Line>| {
        lines.iter_mut().for_each(|line| line.points.retain(shown));
        bare(title, lines)
    };
    let title = || figure.plot_title(&chart.title);
    match chart.kind {
        ChartKind::Cdf | ChartKind::Exchanges | ChartKind::Tail => {
            let line = |(place, &run): (usize, &usize)| {
                let seen = runs[run].first()?;
                let times = match chart.kind {
                    ChartKind::Exchanges => &seen.exchanges,
                    _ => &seen.messages,
                };
                Some(styled(chart, figure, chosen, place, times.get(&chart.label)?.cdf.clone()))
            };
            let lines = chosen.iter().enumerate().filter_map(line).collect();
            let mut plot = plot(title(), lines);
            plot.y.to = Some(1.0);
            let shown = match chart.kind {
                ChartKind::Tail => Distribution::Tail,
                _ => Distribution::Cumulative,
            };
            vec![distribution(plot, shown)]
        }
        ChartKind::BufferCdf => {
            let line = |(place, &run): (usize, &usize)| {
                let points = cumulative(&sorted(&runs[run].first()?.buffers, 1));
                Some(styled(chart, figure, chosen, place, points))
            };
            let lines = chosen.iter().enumerate().filter_map(line).collect();
            vec![distribution(plot(title(), lines), Distribution::Cumulative)]
        }
        ChartKind::DownlinkCdf => {
            let line = |(place, &run): (usize, &usize)| {
                let kept = &runs[run].first()?.downlinks_kb;
                let steps = kept.len().saturating_sub(1).max(1) as f64;
                let shares = kept.iter().enumerate();
                let points = shares.map(|(step, &kb)| (f64::from(kb), step as f64 / steps));
                Some(styled(chart, figure, chosen, place, points.collect()))
            };
            let lines = chosen.iter().enumerate().filter_map(line).collect();
            vec![distribution(plot(title(), lines), Distribution::Cumulative)]
        }
        ChartKind::Sizes => {
            let line = |(place, &run): (usize, &usize)| {
                let ends = if chart.ends.is_empty() { &SIZES } else { &chart.ends[..] };
                let seen = runs[run].first()?;
                let all = if chart.bare { &seen.bare_slowdowns } else { &seen.slowdowns };
                let all = all.get(&chart.label).map_or(&[][..], Vec::as_slice);
                let points = by_size(all, ends, chart.share?);
                Some(styled(chart, figure, chosen, place, points))
            };
            vec![plot(title(), chosen.iter().enumerate().filter_map(line).collect())]
        }
        ChartKind::Sweep => {
            let mut lines: Vec<Line> = chart
                .of
                .iter()
                .flat_map(|query| sweep(chart, query, figure, chosen, runs))
                .collect();
            if let Some(against) = &chart.against {
                let reference = sweep(chart, &against.of, figure, chosen, runs).into_iter();
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
        ChartKind::Points => {
            vec![plot(title(), chart.points.iter().enumerate().map(apart).collect())]
        }
        ChartKind::Phase => vec![phase::phase(chart, figure, chosen, runs, title())],
        ChartKind::Reaction => vec![phase::reaction(chart, figure, chosen, runs, title())],
        ChartKind::Series => {
            let Some(of) = chart.quantity else { return Vec::new() };
            if !chart.has_panels() {
                let line = |(place, &run): (usize, &usize)| {
                    let seen = runs[run].first()?;
                    let points = smooth(
                        series(seen, of, &chart.labels[0], chart.sum),
                        chart.smooth_us / seen.interval_us,
                    );
                    Some(styled(chart, figure, chosen, place, points))
                };
                return vec![plot(title(), chosen.iter().enumerate().filter_map(line).collect())];
            }
            let panel = |&run: &usize| {
                let seen = runs[run].first()?;
                let mut lines = if chart.each { each(seen, of) } else { by_label(seen, of, chart) };
                for line in &mut lines {
                    let points = std::mem::take(&mut line.points.0);
                    line.points = smooth(points, chart.smooth_us / seen.interval_us).into();
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

/// Converts cumulative shares to shares of larger values, as plots store distributions.
fn distribution(mut plot: Plot, shown: Distribution) -> Plot {
    let points = plot.lines.iter_mut().flat_map(|line| line.points.iter_mut());
    points.for_each(|point| point.1 = 1.0 - point.1);
    plot.distribution = Some(shown);
    plot
}

/// Steps of a cumulative distribution.
const STEPS: usize = 200;

/// Values with the shares that do not exceed them; values are in order.
fn cumulative(values: &[f64]) -> Vec<(f64, f64)> {
    let point = |step: usize| {
        let share = step as f64 / STEPS as f64;
        let rank = (share * values.len() as f64).ceil().max(1.0) as usize;
        Some((*values.get(rank - 1)?, share))
    };
    (0..=STEPS).filter_map(point).collect()
}

/// Default sizes that divide messages.
const SIZES: [u64; 8] = [5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000, 10_000_000];

/// Quantile of slowdowns over mean size in KB, for the messages between each two sizes in `ends`
/// and beyond the last.
fn by_size(all: &[Slowdown], ends: &[u64], share: f64) -> Vec<(f64, f64)> {
    let point = |(from, below): (u64, u64)| {
        let slowdown = quantile(all, from, below, share)?;
        let sizes = all.iter().map(|one| one.bytes).filter(|size| (from..below).contains(size));
        let (count, sum) = sizes.fold((0.0, 0.0), |(n, sum), size| (n + 1.0, sum + size as f64));
        Some((sum / count / 1e3, slowdown))
    };
    let from = std::iter::once(0).chain(ends.iter().copied());
    from.zip(ends.iter().copied().chain([u64::MAX])).filter_map(point).collect()
}

/// The protocol that decides a run's style; `None` if all chosen runs have the same one, so that
/// colours and markers distinguish them.
fn distinctive<'a>(figure: &'a Figure, chosen: &[usize], run: usize) -> Option<&'a str> {
    let protocol = |run: usize| figure.runs[run].protocol.as_deref();
    let is_only = chosen.len() > 1 && chosen.iter().all(|&other| protocol(other) == protocol(run));
    protocol(run).filter(|_| !is_only)
}

/// Style of a run's line: its protocol's colour and marker. A further run of the same protocol is
/// dashed, and has more contrast.
fn styled(
    chart: &Chart,
    figure: &Figure,
    chosen: &[usize],
    place: usize,
    points: Vec<(f64, f64)>,
) -> Line {
    let run = &figure.runs[chosen[place]];
    let earlier = chosen[..place]
        .iter()
        .filter(|&&other| figure.runs[other].protocol == run.protocol)
        .count();
    let protocol = distinctive(figure, chosen, chosen[place]);
    let info = protocol.and_then(Protocol::named).map(Protocol::info);
    let marker = MARKERS[place % MARKERS.len()];
    Line {
        name: figure.line_name(chart, chosen[place]),
        color: info.map_or(PALETTE[place % PALETTE.len()], |info| info.color).to_owned(),
        dash: info.map_or(place / PALETTE.len(), |info| info.dash.index() + earlier),
        marker: Some(info.map_or(marker, |info| info.marker.name()).to_owned()),
        points: points.into(),
        protocol: protocol.map(str::to_owned),
        ..Line::default()
    }
}

/// One line per `line` of the runs, through their points in the order of x.
fn sweep(
    chart: &Chart,
    query: &Query,
    figure: &Figure,
    chosen: &[usize],
    runs: &[Vec<&Observations>],
) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let name = |index: usize| figure.line_name(chart, index);
    let mut firsts = chosen.to_vec();
    firsts.sort_by_key(|&index| name(index));
    firsts.dedup_by_key(|index| name(*index));
    let mut chosen = chosen.to_vec();
    let x = |&run: &usize| figure.runs[run].x.unwrap_or(f64::NAN);
    chosen.sort_by(|a, b| x(a).total_cmp(&x(b)));
    for index in chosen {
        let run = &figure.runs[index];
        let name = name(index);
        let of = |query: &Query, seeds: &[&Observations]| {
            query.metric.mean_value(seeds).filter(|_| query.takes(seeds))
        };
        let seeds = &runs[index][..];
        let x = chart.along.as_ref().map_or(run.x, |query| of(query, seeds));
        let Some(point) = x.zip(of(query, seeds)) else { continue };
        let single = seeds.iter().map(|seen| of(query, &[*seen]).unwrap_or(point.1));
        let range = single
            .fold((point.1, point.1), |(least, most), value| (value.min(least), value.max(most)));
        let number = lines.iter().position(|line| line.name == name).unwrap_or_else(|| {
            let protocol = distinctive(figure, &firsts, index);
            let info = protocol.and_then(Protocol::named).map(Protocol::info);
            let color =
                info.map_or(PALETTE[lines.len() % PALETTE.len()], |info| info.color).to_owned();
            let nth = MARKERS[lines.len() % MARKERS.len()];
            let marker = Some(info.map_or(nth, |info| info.marker.name()).to_owned());
            let earlier = lines.iter().filter(|line| line.color == color).count();
            let dash = info.map_or(0, |info| info.dash.index()) + earlier;
            let protocol = protocol.map(str::to_owned);
            lines.push(Line { name, color, dash, marker, protocol, ..Line::default() });
            lines.len() - 1
        });
        lines[number].points.push(point);
        lines[number].range.push(range);
    }
    // With one seed there is no range.
    for line in &mut lines {
        if line.range.iter().all(|(least, most)| least == most) {
            line.range = Points::default();
        }
    }
    lines
}

/// A paper's points as single points.
fn apart((i, stated): (usize, &PaperPoints)) -> Line {
    Line {
        name: stated.name.clone(),
        color: PALETTE[i % PALETTE.len()].to_owned(),
        marker: Some(MARKERS[i % MARKERS.len()].to_owned()),
        points: stated.points.clone().into(),
        apart: true,
        ..Line::default()
    }
}

/// The bins of a flow's lifetime.
fn life(flow: &FlowTrace, seen: &Observations) -> Range<usize> {
    let bin = |us: f64| (us / seen.interval_us + 1e-6) as usize;
    let end = flow.first + flow.goodput_gbps.len();
    bin(flow.start_us)..flow.stop_us.map_or(end, |us| bin(us).min(end))
}

/// Time of a bin's value: its end for samples, its middle for means.
fn time_ms(bin: usize, is_sampled: bool, seen: &Observations) -> f64 {
    let part = if is_sampled { 1.0 } else { 0.5 };
    (bin as f64 + part) * seen.interval_us * 1e-3
}

/// The value of a flow in a bin, with its time.
fn point(flow: &FlowTrace, of: Traced, bin: usize, seen: &Observations) -> Option<(f64, f64)> {
    Some((time_ms(bin, of == Traced::Window, seen), f64::from(flow.at(of, bin)?)))
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

/// A line over time; `of` is the default quantity.
fn series(seen: &Observations, of: Traced, curve: &Curve, sum: bool) -> Vec<(f64, f64)> {
    let (label, of) = match curve {
        Curve::Together => return together(seen),
        Curve::Flows(label, own) => (label, own.unwrap_or(of)),
        Curve::Queue(port, waiting) => {
            let is_meant = |queue: &&QueueTrace| queue.from == port.from && queue.to == port.to;
            let Some(queue) = seen.queues.iter().find(is_meant) else { return Vec::new() };
            // A microsecond at 1 Gbit/s is 0.125 KB.
            let unit = match waiting {
                Waiting::Delay => 1.0,
                Waiting::Kilobytes => queue.rate_gbps / 8.0,
            };
            let delays = queue.delay_us.iter().enumerate();
            let point = |(bin, &us)| (time_ms(bin, true, seen), unit * f64::from(us));
            return delays.map(point).collect();
        }
    };
    let flows: Vec<&FlowTrace> = seen.traces.iter().filter(|flow| flow.label == *label).collect();
    let bins = flows.iter().map(|flow| flow.first + flow.goodput_gbps.len()).max().unwrap_or(0);
    let mean = |bin: usize| {
        let there = flows.iter().filter(|flow| life(flow, seen).contains(&bin));
        let points: Vec<_> = there.filter_map(|flow| point(flow, of, bin, seen)).collect();
        let total: f64 = points.iter().map(|(_, value)| value).sum();
        let by = if sum { 1.0 } else { points.len() as f64 };
        points.first().map(|(at, _)| (*at, total / by))
    };
    (0..bins).filter_map(mean).collect()
}

/// Days of the circuit that a chart shades, start and end in milliseconds.
fn days(chart: &Chart, seen: Option<&Observations>) -> Vec<(f64, f64)> {
    let Some((port, seen)) = chart.days_of.as_ref().zip(seen) else { return Vec::new() };
    let circuit = seen.circuits.iter().find(|of| of.from == port.from && of.to == port.to);
    let day = |of: &CircuitTrace, begin: f64| (begin * 1e-3, (begin + of.day_us) * 1e-3);
    circuit.map_or_else(Vec::new, |of| of.begins_us.iter().map(|&begin| day(of, begin)).collect())
}

/// The total goodput of all flows over time.
fn together(seen: &Observations) -> Vec<(f64, f64)> {
    let bins = seen.traces.iter().map(|flow| flow.first + flow.goodput_gbps.len()).max();
    let sum = |bin| {
        let all = seen.traces.iter().filter_map(|flow| flow.at(Traced::Goodput, bin));
        (time_ms(bin, false, seen), all.map(f64::from).sum())
    };
    (0..bins.unwrap_or(0)).map(sum).collect()
}

fn by_label(seen: &Observations, of: Traced, chart: &Chart) -> Vec<Line> {
    let line = |(i, curve): (usize, &Curve)| Line {
        name: curve.to_string(),
        color: colour_of(curve).unwrap_or(PALETTE[(i + 1) % PALETTE.len()]).to_owned(),
        dash: if matches!(curve, Curve::Flows(_, Some(_))) { i } else { 0 },
        points: series(seen, of, curve, chart.sum).into(),
        ..Line::default()
    };
    chart.labels.iter().enumerate().map(line).collect()
}

/// Flows that a paper names by a colour have this colour.
fn colour_of(curve: &Curve) -> Option<&'static str> {
    let Curve::Flows(label, None) = curve else { return None };
    let named = [("blue", "#0072b2"), ("green", "#009e73"), ("red", "#d55e00")];
    named.iter().find(|(name, _)| name == label).map(|(_, color)| *color)
}

fn each(seen: &Observations, of: Traced) -> Vec<Line> {
    let line = |(i, flow): (usize, &FlowTrace)| Line {
        name: format!("flow {}", i + 1),
        color: PALETTE[i % PALETTE.len()].to_owned(),
        dash: i / PALETTE.len(),
        points: Points(life(flow, seen).filter_map(|bin| point(flow, of, bin, seen)).collect()),
        ..Line::default()
    };
    seen.traces.iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::registry::papers;
    use super::*;

    /// Lines of a chart differ in colour, dashes or marker. The protocol decides unless all have
    /// the same one.
    #[test]
    fn lines_of_a_chart_differ() {
        let mut of_one_protocol = 0;
        for figure in papers(false).unwrap().iter().flat_map(|paper| &paper.figures) {
            for chart in figure.charts.iter().filter(|chart| chart.kind == ChartKind::Cdf) {
                let is_drawn = |run: &usize| figure.draws(chart, &figure.runs[*run]);
                let chosen: Vec<usize> = (0..figure.runs.len()).filter(is_drawn).collect();
                let line = |place| styled(chart, figure, &chosen, place, Vec::new());
                let lines: Vec<Line> = (0..chosen.len()).map(line).collect();
                let looks: BTreeSet<_> =
                    lines.iter().map(|line| (&line.color, line.dash, &line.marker)).collect();
                assert_eq!(looks.len(), lines.len(), "{}", chart.title);
                let colors: BTreeSet<_> = lines.iter().map(|line| &line.color).collect();
                if lines.len() > 1 && lines.iter().all(|line| line.protocol.is_none()) {
                    assert!(colors.len() > 1, "{}", chart.title);
                    of_one_protocol += 1;
                }
            }
        }
        assert!(of_one_protocol > 1, "{of_one_protocol}");
    }

    #[test]
    fn distributions_store_larger_shares() {
        let line = Line { points: vec![(1.0, 0.25), (2.0, 1.0)].into(), ..Line::default() };
        let plot = Plot { lines: vec![line], ..Plot::default() };
        let plot = distribution(plot, Distribution::Tail);
        assert_eq!(plot.lines[0].points[..], [(1.0, 0.75), (2.0, 0.0)]);
        assert_eq!(plot.distribution, Some(Distribution::Tail));
    }
}
