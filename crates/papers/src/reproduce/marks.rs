//! The paper's printed values, and those of another simulator, in plots: marks where a plot shows
//! what a claim judges. Titles of axes and of recorded matrices follow from the registry, too.
//!
//! Marks follow from the registry and from the lines of a plot, so that plots of earlier runs can
//! be marked, too. A claim about a ratio has no mark: no axis shows its value.

use super::metrics::Place;
use super::registry::{Chart, ChartKind, Claim, Curve, Figure, Paper, Query, Waiting};
use super::tables;
use crate::plot::{Line, PaperMark, Plot};

/// Sets the marks of a figure's plot, and the titles of its axes or matrix, in place of those that
/// it has.
pub(crate) fn mark(paper: &Paper, figure: &Figure, plot: &mut Plot) {
    tables::label(figure, plot);
    plot.dash_simulated();
    if let Some((chart, _)) = chart_of(figure, plot) {
        plot.x.label.clone_from(&chart.x);
        plot.y.label.clone_from(&chart.y);
    }
    let marks = figure.claims.iter().flat_map(|claim| of_claim(figure, claim, plot));
    plot.paper_marks =
        marks.map(|mark| PaperMark { source: paper.source.clone(), ..mark }).collect();
}

/// A value, from one x to another, relative to the claim's.
type Span = (f64, Option<f64>, f64);

/// The marks of a claim: the paper prints its value, and a line shows ours.
fn of_claim(figure: &Figure, claim: &Claim, plot: &Plot) -> Vec<PaperMark> {
    let printed = claim.paper.filter(|_| !claim.derived && !claim.own);
    let found = printed.zip(claim.of_one_run()).and_then(|(value, query)| {
        let Some(chart) = chart_of(figure, plot) else {
            let (line, x, to) = tables::place(figure, query, plot)?;
            return Some((line, vec![(x, to, value)]));
        };
        in_chart(figure, chart, query, value, plot)
    });
    let Some((line, spans)) = found else { return Vec::new() };
    let mark = |(x, to, y)| PaperMark {
        name: claim.name.clone(),
        x,
        y,
        to,
        color: line.color.clone(),
        source: String::new(),
        is_simulated: claim.control.is_none(),
    };
    spans.into_iter().map(mark).collect()
}

/// The chart that a plot draws, and the run if each run has a plot of its own.
fn chart_of<'a>(figure: &'a Figure, plot: &Plot) -> Option<(&'a Chart, Option<usize>)> {
    figure.charts.iter().find_map(|chart| {
        let rest = plot.title.strip_prefix(&figure.plot_title(&chart.title))?;
        if !chart.has_panels() {
            return rest.is_empty().then_some((chart, None));
        }
        let drawn = || (0..figure.runs.len()).filter(|&run| figure.draws(chart, &figure.runs[run]));
        let name = rest.strip_prefix(", ");
        let mut meant =
            drawn().filter(|&run| name.is_none_or(|name| figure.runs[run].name == name));
        Some((chart, Some(meant.next()?)))
    })
}

/// The line that shows the value of a query, and where a value has its place on it.
fn in_chart<'a>(
    figure: &Figure,
    (chart, panel): (&Chart, Option<usize>),
    query: &Query,
    value: f64,
    plot: &'a Plot,
) -> Option<(&'a Line, Vec<Span>)> {
    let mut runs = figure.runs_of(query);
    let (run, None) = (runs.next()?, runs.next()) else { return None };
    let named = |name: &str| plot.lines.iter().find(|line| line.name == name);
    let own = || named(&figure.line_name(chart, run));
    let against = chart.against.as_ref().filter(|against| query.is_like(&against.of));
    let is_drawn = figure.draws(chart, &figure.runs[run]);
    let place = query.metric.place();
    match (chart.kind, &place) {
        (ChartKind::Sweep, _) if chart.along.is_none() && is_drawn => {
            let is_its = chart.of.as_ref().is_some_and(|of| query.is_like(of));
            let line = if is_its { own()? } else { named(&against?.name)? };
            Some((line, vec![(figure.runs[run].x?, None, value)]))
        }
        (kind, Some(Place::Quantile { label, share })) if kind != ChartKind::Sweep => {
            let is_drawn = query.metric.needs() == chart.needs();
            // Distributions store the share of larger values.
            let spans = vec![(value, None, 1.0 - share)];
            (is_drawn && chart.label == *label).then(own)?.map(|line| (line, spans))
        }
        (ChartKind::Sizes, Some(Place::Sizes { bare, label, share, sizes: (from, below) })) => {
            let is_drawn =
                chart.bare == *bare && chart.label == *label && chart.share == Some(*share);
            let line = is_drawn.then(own)??;
            // The smallest messages of a class have no bound on a logarithmic axis.
            let (first, last) = (line.points.first()?.0, line.points.last()?.0);
            let to = below.map_or(last, |below| below as f64 / 1e3);
            // A class that ends before the first point has its mark at its end.
            if to <= first {
                return Some((line, vec![(to, None, value)]));
            }
            let from = if *from == 0 { first.min(to) } else { *from as f64 / 1e3 };
            Some((line, vec![(from, Some(to).filter(|to| from < *to), value)]))
        }
        // Over the wire, all flows together have the rates of their receivers' ports.
        (ChartKind::Series, Some(Place::Ports))
            if matches!(chart.labels[..], [Curve::Together]) && panel.is_none() =>
        {
            let line = own()?;
            Some((line, vec![(line.points.last()?.0, None, value)]))
        }
        (ChartKind::Series, Some(place)) if !chart.each && !chart.sum => {
            let is_its = |curve: &&Curve| match (curve, place) {
                (Curve::Flows(label, of), Place::Level { of: level, label: of_flows, .. }) => {
                    label == of_flows && of.or(chart.quantity) == Some(*level)
                }
                (Curve::Queue(port, Waiting::Delay), Place::Queue { link }) => port == *link,
                _ => false,
            };
            let curve = chart.labels.iter().find(is_its)?;
            let line = match panel {
                None => own()?,
                Some(panel) => named(&curve.to_string()).filter(|_| panel == run)?,
            };
            let all = [(None, None, 1.0)];
            let periods = if let Place::Level { periods, .. } = place { periods } else { &all[..] };
            let span = |&(from, to, by): &_| within(line, from, to, by * value);
            Some((line, periods.iter().filter_map(span).collect()))
        }
        _ => None,
    }
}

/// The part of a span that a line covers.
fn within(line: &Line, from: Option<f64>, to: Option<f64>, y: f64) -> Option<Span> {
    let (first, last) = (line.points.first()?.0, line.points.last()?.0);
    let (from, to) = (from.unwrap_or(first).max(first), to.unwrap_or(last).min(last));
    (from <= to).then_some((from, Some(to).filter(|to| from < *to), y))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Points};

    fn figure(charts: &str, claim: &str) -> Figure {
        let text = format!(
            "title = 'x'\ntrace_us = 1.0\n[[run]]\nname = 'a'\nx = 4.0\nline = 'a'\n\
             [[run]]\nname = 'b'\nx = 8.0\nline = 'b'\n{charts}\n[[claim]]\nname = 'C1'\n\
             text = 'x'\nunit = ''\ntolerance = 'x'\nreproduced = [0.0, 9.0]\n{claim}\n\
             [claim.control]\nof = 'y'\n"
        );
        Figure::read("figure-1", &text, false).unwrap().resolved(&[]).unwrap()
    }

    /// The marks of a plot with lines of the runs from 1 to 20, as (x, end, y, colour).
    fn marks(figure: &Figure, title: &str, lines: &[&str]) -> Vec<(f64, Option<f64>, f64, String)> {
        let line = |name: &&str| Line {
            name: (*name).to_owned(),
            color: format!("#{name}"),
            points: Points(vec![(1.0, 0.0), (20.0, 0.0)]),
            ..Line::default()
        };
        let mut plot = Plot {
            title: format!("Figure 1: {title}"),
            y: Axis { label: title.to_owned(), ..Axis::default() },
            lines: lines.iter().map(line).collect(),
            ..Plot::default()
        };
        let text = "title = 'x'\nabout = ''\nsource = 'source'";
        mark(&toml::from_str(text).unwrap(), figure, &mut plot);
        assert!(plot.paper_marks.iter().all(|mark| mark.source == "source"));
        plot.paper_marks.into_iter().map(|mark| (mark.x, mark.to, mark.y, mark.color)).collect()
    }

    #[test]
    fn axes_have_the_titles_of_the_chart() {
        let chart = "[[chart]]\ntitle = 'T'\nx = 'senders'\ny = 'goodput'\nkind = 'cdf'";
        let figure = figure(chart, "measure = { metric = 'message', run = 'b', share = 0.75 }");
        let mut plot = Plot { title: "Figure 1: T".to_owned(), ..Plot::default() };
        let text = "title = 'x'\nabout = ''";
        mark(&toml::from_str(text).unwrap(), &figure, &mut plot);
        assert_eq!([plot.x.label, plot.y.label], ["senders", "goodput"]);
    }

    #[test]
    fn printed_values_are_marked_where_plots_show_claims() {
        let chart = |kind: &str| format!("[[chart]]\ntitle = 'T'\nx = ''\ny = ''\n{kind}");
        let series = chart("kind = 'series'\nquantity = 'goodput'\nlabels = ['v']");
        let goodput = "measure = { metric = 'goodput', run = 'b', label = 'v', to_ms = 7.0 }";
        let level = |claim: &str| marks(&figure(&series, claim), "T", &["a", "b"]);
        let b = || "#b".to_owned();
        assert_eq!(level(&format!("paper = 3.0\n{goodput}")), [(1.0, Some(7.0), 3.0, b())]);
        // Values that the paper does not print have no mark; neither have ratios and other flows.
        assert!(level(goodput).is_empty());
        assert!(level(&format!("paper = 3.0\nderived = true\n{goodput}")).is_empty());
        let over = "over = { metric = 'goodput', run = 'a', label = 'v' }\nform = 'ratio'";
        assert!(level(&format!("paper = 3.0\n{goodput}\n{over}")).is_empty());
        assert!(level(&format!("paper = 3.0\n{}", goodput.replace("'v'", "'w'"))).is_empty());
        // Each phase has a level: the paper's share of what is expected.
        let phases = "paper = 0.5\nmeasure = { metric = 'worst', run = 'b', label = 'v', \
                      phases = [[2.0, 3.0, 8.0], [4.0, 5.0, 6.0]] }";
        assert_eq!(level(phases), [(2.0, Some(3.0), 4.0, b()), (4.0, Some(5.0), 3.0, b())]);
        // The rates of ports belong to all flows together.
        let rates = "paper = 3.0\nmeasure = { metric = 'port-rates', run = 'b', \
                     links = ['tor0>h0', 'tor0>h1'] }";
        assert!(level(rates).is_empty());
        let together = figure(&series.replace("'v'", "'*'"), rates);
        assert_eq!(marks(&together, "T", &["a", "b"]), [(20.0, None, 3.0, b())]);
        // With several lines, each run has a plot of its own.
        let panels = chart("kind = 'series'\nquantity = 'goodput'\nlabels = ['v', 'u']");
        let panels = figure(&panels, &format!("paper = 3.0\n{goodput}"));
        assert!(marks(&panels, "T, a", &["v", "u"]).is_empty());
        assert_eq!(marks(&panels, "T, b", &["v", "u"]), [(1.0, Some(7.0), 3.0, "#v".to_owned())]);

        let cdf = chart("kind = 'cdf'");
        let message = "paper = 3.0\nmeasure = { metric = 'message', run = 'b', share = 0.75 }";
        assert_eq!(marks(&figure(&cdf, message), "T", &["a", "b"]), [(3.0, None, 0.25, b())]);
        let sizes = chart("kind = 'sizes'\nshare = 0.5");
        let slowdown = "paper = 3.0\nmeasure = { metric = 'slowdown', run = 'b', share = 0.5, \
                        below_bytes = 10000 }";
        assert_eq!(marks(&figure(&sizes, slowdown), "T", &["b"]), [(1.0, Some(10.0), 3.0, b())]);
        let small = slowdown.replace("10000", "900");
        assert_eq!(marks(&figure(&sizes, &small), "T", &["b"]), [(0.9, None, 3.0, b())]);
        let sweep = chart("kind = 'sweep'\nof = { metric = 'message', share = 0.75 }");
        assert_eq!(marks(&figure(&sweep, message), "T", &["b"]), [(8.0, None, 3.0, b())]);
        assert!(marks(&figure(&sweep, message), "T", &["a"]).is_empty(), "b is not drawn");
        let against = "against = { name = 'least', of = { metric = 'message', share = 0.0 } }";
        let sweep = chart(&format!("{against}\nkind = 'sweep'\nof = {{ metric = 'rtt-of-all' }}"));
        let least = message.replace("0.75", "0.0");
        let b = "#least".to_owned();
        assert_eq!(marks(&figure(&sweep, &least), "T", &["b", "least"]), [(8.0, None, 3.0, b)]);
        assert!(marks(&figure(&sweep, message), "T", &["b", "least"]).is_empty(), "another share");
    }

    #[test]
    fn a_printed_value_has_a_mark_in_the_plot_of_facts() {
        let fact = |metric: &str| {
            format!(
                "[[fact]]\ntext = 'the {metric}'\nunit = ''\n\
                 measure = {{ metric = '{metric}', runs = ['*'] }}\n"
            )
        };
        let facts = fact("mean-buffer") + &fact("completed");
        let claim = "paper = 3.0\nmeasure = { metric = 'completed', run = 'b' }";
        let found = marks(&figure(&facts, claim), "the", &["a", "b"]);
        assert_eq!(found, [(1.25, None, 3.0, "#b".to_owned())]);
    }

    #[test]
    fn a_printed_value_has_a_mark_in_the_plot_of_a_table() {
        let table = "[[table]]\ntitle = 'T'\nunit = ''\nrows = ['a', 'b']\ncolumns = ['']\n\
                     cells = { metric = 'mean-buffer', runs = ['{row}'] }";
        let claim = "paper = 3.0\nmeasure = { metric = 'mean-buffer', run = 'b' }";
        let found = marks(&figure(table, claim), "T", &[""]);
        assert_eq!(found, [(1.0, None, 3.0, "#".to_owned())]);
        let picked = |text: &str| text.replace("'mean-buffer',", "'mean-buffer', pick = 'most',");
        let of_all = picked(claim).replace("'b'", "'*'");
        let found = marks(&figure(&picked(table), &of_all), "T", &[""]);
        assert_eq!(found, [(0.0, Some(1.0), 3.0, "#".to_owned())]);
    }
}
