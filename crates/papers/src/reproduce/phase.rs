//! Phase plots of window over queue, and the reaction of models.

use tidegate_algos::Protocol;
use tidegate_fluid::{Feedback, Model, Past, Windows};

use super::metrics::Port;
use super::metrics::phase::divided_by;
use super::registry::{Chart, Figure};
use crate::plot::{AREA, Axis, Line, PALETTE, Plot};
use tidegate_runs::observe::{Observations, Trajectory};

/// Colour of lines that belong to no run.
const QUIET: &str = "#999999";
/// Number of arrows along each axis.
const ARROWS: (usize, usize) = (16, 11);
/// Length of an arrow and of its barbs, in plot coordinates.
const ARROW: f64 = 14.0;
const BARB: f64 = 4.0;

/// The total window over the queue. Starts are circles, ends are triangles.
pub(super) fn phase(
    chart: &Chart,
    figure: &Figure,
    chosen: &[usize],
    runs: &[Vec<&Observations>],
    title: String,
) -> Plot {
    let port = chart.port.as_ref().map(Port::ends);
    let seen = |run: usize| runs[run].first().copied();
    let all: Vec<(usize, Vec<Trajectory>)> =
        chosen.iter().filter_map(|&run| Some((run, seen(run)?.trajectories(port)))).collect();
    let points = || all.iter().flat_map(|(_, each)| each).flat_map(|one| &one.points);
    let most = |of: fn(&(f64, f64)) -> f64| 1.05 * points().map(of).fold(0.0, f64::max);
    let ends = (most(|point| point.0), most(|point| point.1));
    let model = chosen.iter().find_map(|&run| Some(seen(run)?.model.as_ref()?.model));
    let mut lines = Vec::new();
    if let Some(model) = model {
        let autonomous = model.feedback == Feedback::Instant;
        lines.extend(autonomous.then(|| arrows(&model, ends)).into_iter().flatten());
        let bdp_kb = model.link.bdp_kb();
        lines.push(quiet("BDP", 2, vec![(0.0, bdp_kb), (ends.0, bdp_kb)]));
    }
    for (place, (run, trajectories)) in all.iter().enumerate() {
        let run = &figure.runs[*run];
        let info = run.protocol.as_ref().and_then(|name| Protocol::named(name)).map(Protocol::info);
        // Models use the palette; packets use their protocol's colour and dashes.
        let color = info.map_or(PALETTE[place % PALETTE.len()], |info| info.color);
        for (i, trajectory) in trajectories.iter().enumerate() {
            let line = |name: &str, marker: Option<&str>, points: Vec<(f64, f64)>| Line {
                name: name.to_owned(),
                color: color.to_owned(),
                dash: if info.is_some() { 1 + place % 3 } else { 0 },
                marker: marker.map(str::to_owned),
                points: points.into(),
                protocol: run.protocol.clone(),
                ..Line::default()
            };
            let (Some(first), Some(last)) = (trajectory.points.first(), trajectory.points.last())
            else {
                continue;
            };
            let name = if i == 0 { run.name.as_str() } else { "" };
            lines.push(line(name, None, trajectory.points.clone()));
            lines.push(line("", Some("circle"), vec![*first]));
            lines.push(line("", Some("triangle-up"), vec![*last]));
        }
    }
    let axis = |label: &String, to| Axis { label: label.clone(), to: Some(to), ..Axis::default() };
    let (x, y) = (axis(&chart.x, ends.0), axis(&chart.y, ends.1));
    Plot { title, x, y, lines, ..Plot::default() }
}

fn quiet(name: &str, dash: usize, points: Vec<(f64, f64)>) -> Line {
    let (name, color) = (name.to_owned(), QUIET.to_owned());
    Line { name, color, dash, points: points.into(), ..Line::default() }
}

/// The direction field of the model, on axes from zero to `ends`.
fn arrows(model: &Windows, ends: (f64, f64)) -> Vec<Line> {
    let scale = (AREA.0 / ends.0, AREA.1 / ends.1);
    let arrow = |(i, j): (usize, usize)| {
        let middle = |i: usize, count: usize| (i as f64 + 0.5) / count as f64;
        let at = (ends.0 * middle(i, ARROWS.0), ends.1 * middle(j, ARROWS.1));
        let now = [at.0, at.1];
        let change = model.derivative(&now, &Past { sent: now, measured: now, round: now });
        let (dx, dy) = (change[0] * scale.0, change[1] * scale.1);
        let length = dx.hypot(dy);
        // Unit vector along the arrow, in plot coordinates.
        let (dx, dy) = (dx / length, dy / length);
        let to = |along: f64, left: f64| {
            let (x, y) = (along * dx - left * dy, along * dy + left * dx);
            (at.0 + x / scale.0, at.1 + y / scale.1)
        };
        let tip = to(ARROW / 2.0, 0.0);
        let [left, right] = [BARB, -BARB].map(|side| to(ARROW / 2.0 - BARB, side / 2.0));
        (length > 0.0).then(|| quiet("", 0, vec![to(-ARROW / 2.0, 0.0), tip, left, tip, right]))
    };
    let (across, up) = ARROWS;
    (0..across * up).filter_map(|i| arrow((i % across, i / across))).collect()
}

/// The divisor of each model at the states of the chart.
pub(super) fn reaction(
    chart: &Chart,
    figure: &Figure,
    chosen: &[usize],
    runs: &[Vec<&Observations>],
    title: String,
) -> Plot {
    let line = |(place, &run): (usize, &usize)| {
        let model = runs[run].first()?.model.as_ref()?.model;
        let points = chart.states.iter();
        let points = points.map(|&(x, queue, growth)| (x, divided_by(&model, queue, growth)));
        Some(Line {
            name: figure.runs[run].name.clone(),
            color: PALETTE[place % PALETTE.len()].to_owned(),
            dash: place,
            marker: Some(["circle", "square", "triangle-up", "diamond"][place % 4].to_owned()),
            points: points.collect::<Vec<_>>().into(),
            ..Line::default()
        })
    };
    let lines = chosen.iter().enumerate().filter_map(line).collect();
    let axis = |label: &String| Axis { label: label.clone(), ..Axis::default() };
    Plot { title, x: axis(&chart.x), y: axis(&chart.y), lines, ..Plot::default() }
}

#[cfg(test)]
mod tests {
    use super::super::registry::{ChartKind, papers};
    use super::*;

    #[test]
    fn models_are_drawn_with_arrows_and_ends() {
        let mut drawn = Vec::new();
        for figure in papers(false).unwrap().iter().flat_map(|paper| &paper.figures) {
            for chart in figure.charts.iter().filter(|chart| chart.kind == ChartKind::Phase) {
                let is_model = |run: &usize| figure.runs[*run].model.is_some();
                let is_drawn = |run: &usize| figure.draws(chart, &figure.runs[*run]);
                let all = 0..figure.runs.len();
                let chosen: Vec<usize> = all.clone().filter(is_drawn).filter(is_model).collect();
                let follow = |run: usize| figure.runs[run].model.as_ref()?.follow().ok();
                let seen: Vec<Option<Observations>> = all.map(follow).collect();
                let runs: Vec<Vec<&Observations>> =
                    seen.iter().map(|seen| seen.iter().collect()).collect();
                let plot = phase(chart, figure, &chosen, &runs, chart.title.clone());
                let starts: usize =
                    chosen.iter().map(|&run| runs[run][0].trajectories(None).len()).sum();
                let is = |line: &&Line, name| line.marker.as_deref() == Some(name);
                let marked = |name| plot.lines.iter().filter(|line| is(line, name)).count();
                assert_eq!([marked("circle"), marked("triangle-up")], [starts, starts]);
                assert_eq!(plot.lines.iter().filter(|line| line.name == "BDP").count(), 1);
                let arrows = plot.lines.iter().filter(|line| line.points.len() == 5);
                let scale =
                    plot.x.to.zip(plot.y.to).map(|(x, y)| (AREA.0 / x, AREA.1 / y)).unwrap();
                for arrow in arrows.clone() {
                    let [(tail_x, tail_y), (x, y), ..] = arrow.points[..] else { panic!("five") };
                    let length = ((x - tail_x) * scale.0).hypot((y - tail_y) * scale.1);
                    assert!((length - ARROW).abs() < 1e-6, "{length}");
                }
                drawn.push(arrows.count());
            }
        }
        let all = ARROWS.0 * ARROWS.1;
        assert!(drawn.iter().any(|count| *count > all / 2) && drawn.contains(&0), "{drawn:?}");
    }
}
