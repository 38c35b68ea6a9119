//! HTML.

use std::fmt::Write;

use tidegate_algos::Protocol;
use tidegate_results::Fixed;

use super::plot::{Axis, Line, PALETTE, Plot, escaped};
use super::read::Run;
use crate::reproduce::{ClaimResult, measured, paper_value, with_unit};

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8884;--quiet:#666;--good:#2e7d32;--half:#9a6700;--bad:#b3261e}\
@media(prefers-color-scheme:dark){:root{--quiet:#aaa;--good:#7bc67e;--half:#e2b93b;--bad:#f2857c}}\
body{font:15px/1.5 system-ui,sans-serif;max-width:1120px;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.2rem;border-bottom:1px solid var(--line);padding-bottom:.3rem}\
table{border-collapse:collapse;width:100%;font-size:13.5px;margin:.8rem 0}\
th,td{padding:.3rem .55rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}\
th{font-weight:600;white-space:nowrap}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\
.wide{overflow-x:auto}.plots{display:flex;flex-wrap:wrap;gap:1rem}.plots figure{margin:0;flex:1 1 480px}\
svg{max-width:100%;height:auto}.quiet{color:var(--quiet)}\
.reproduced{color:var(--good)}.direction{color:var(--half)}.deviates{color:var(--bad)}\
.claims td.n{white-space:normal}.claims td:nth-child(3){min-width:13rem}.claims td:nth-child(7){min-width:18rem}";

/// Lines of one plot at most.
const LINES_MAX: usize = 10;
/// Queues that are drawn.
const QUEUES_SHOWN: usize = 3;

/// The page around `body`.
pub(crate) fn whole(title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{title}</title>\
         <style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n{body}\
         <p class=\"quiet\">tidegate {} ({})</p></body></html>\n",
        env!("CARGO_PKG_VERSION"),
        env!("TIDEGATE_GIT_REVISION")
    )
}

fn table(titles: &[(&str, bool)], rows: impl Iterator<Item = Vec<String>>) -> String {
    let class = |number: bool| if number { " class=\"n\"" } else { "" };
    let mut html = String::from("<div class=\"wide\"><table><thead><tr>");
    for (title, number) in titles {
        let _ = write!(html, "<th{}>{title}</th>", class(*number));
    }
    html.push_str("</tr></thead><tbody>\n");
    for row in rows {
        html.push_str("<tr>");
        for (cell, (_, number)) in row.iter().zip(titles) {
            let _ = write!(html, "<td{}>{cell}</td>", class(*number));
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody></table></div>\n"
}

fn figures<'a>(svgs: impl Iterator<Item = &'a str>) -> String {
    let all: String = svgs.map(|svg| format!("<figure>{svg}</figure>")).collect();
    format!("<div class=\"plots\">{all}</div>\n")
}

// ---- runs

/// Everything about runs: tables, then plots.
pub(crate) fn runs(runs: &[Run]) -> String {
    let mut html = String::from("<h2>Summary</h2>\n");
    for run in runs {
        for warning in &run.summary.warnings {
            let _ = writeln!(html, "<p class=\"quiet\">{}: {}</p>", escaped(&run.title), escaped(warning));
        }
    }
    html.push_str(&groups(runs));
    html.push_str("<h2>Busiest switch ports</h2>\n");
    html.push_str(&links(runs));
    let plots: Vec<String> = [slowdown_cdf(runs), by_size(runs)]
        .into_iter()
        .flatten()
        .chain(over_time(runs))
        .filter(|plot| plot.lines.iter().any(|line| line.points.len() > 1))
        .map(|plot| plot.svg())
        .collect();
    if !plots.is_empty() {
        html.push_str("<h2>Plots</h2>\n");
        html.push_str(&figures(plots.iter().map(String::as_str)));
    }
    html
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| with_unit(Some(value), ""))
}

fn fixed(value: Option<Fixed>) -> String {
    number(value.map(Fixed::as_f64))
}

fn groups(runs: &[Run]) -> String {
    let titles = [
        ("run", false),
        ("label", false),
        ("flows", true),
        ("unfinished", true),
        ("goodput a flow Gbit/s", true),
        ("Jain", true),
        ("FCT p50 µs", true),
        ("p99 µs", true),
        ("p99.9 µs", true),
        ("slowdown p50", true),
        ("p99", true),
        ("p99.9", true),
    ];
    let rows = runs.iter().flat_map(|run| {
        run.summary.groups.iter().map(|group| {
            let fct = &group.fct;
            vec![
                escaped(&run.title),
                escaped(&group.label),
                group.flows.to_string(),
                fct.unfinished.to_string(),
                number(group.goodput_gbps.mean),
                number(group.goodput_gbps.jain),
                fixed(fct.p50_us),
                fixed(fct.p99_us),
                fixed(fct.p999_us),
                fixed(fct.slowdown.p50),
                fixed(fct.slowdown.p99),
                fixed(fct.slowdown.p999),
            ]
        })
    });
    table(&titles, rows)
}

fn links(runs: &[Run]) -> String {
    let titles = [
        ("run", false),
        ("from", false),
        ("to", false),
        ("Gbit/s", true),
        ("used %", true),
        ("queueing mean µs", true),
        ("p99 µs", true),
        ("max µs", true),
        ("queue max KB", true),
        ("drops", true),
        ("marks", true),
    ];
    let rows = runs.iter().flat_map(|run| {
        let mut links: Vec<_> = run.summary.links.iter().filter(|link| !link.from_host).collect();
        links.sort_by(|a, b| b.utilization.unwrap_or(0.0).total_cmp(&a.utilization.unwrap_or(0.0)));
        links.truncate(QUEUES_SHOWN);
        links.into_iter().map(|link| {
            vec![
                escaped(&run.title),
                escaped(&link.from),
                escaped(&link.to),
                number(Some(link.rate_gbps)),
                number(link.utilization.map(|share| share * 100.0)),
                fixed(link.queue_delay_us.mean),
                fixed(link.queue_delay_us.p99),
                fixed(link.queue_delay_us.max),
                number(link.queue_bytes.max.map(|bytes| bytes / 1e3)),
                link.drops.to_string(),
                link.ecn_marks.to_string(),
            ]
        })
    });
    table(&titles, rows)
}

/// A run's line: in its protocol's colour, or in another with dashes where an earlier run has that one.
fn line(runs: &[Run], i: usize, points: Vec<(f64, f64)>) -> Line {
    let run = &runs[i];
    let earlier = runs[..i].iter().filter(|other| other.protocol == run.protocol).count();
    let card = run.protocol.as_deref().and_then(Protocol::named).map(Protocol::card);
    let color = card.filter(|_| earlier == 0).map_or(PALETTE[i % PALETTE.len()], |card| card.color);
    Line { name: run.title.clone(), color: color.to_owned(), dash: earlier, marker: None, points }
}

fn axis(label: &str, log: bool) -> Axis {
    Axis { label: label.to_owned(), log, ..Axis::default() }
}

fn slowdown_cdf(runs: &[Run]) -> Option<Plot> {
    let points = |run: &Run| {
        let n = run.slowdowns.len();
        let step = n.div_ceil(500).max(1);
        let at = (0..n).filter(|i| i % step == 0 || i + 1 == n);
        at.map(|i| (run.slowdowns[i], (i + 1) as f64 / n as f64)).collect()
    };
    let lines = runs.iter().enumerate().take(LINES_MAX).map(|(i, run)| line(runs, i, points(run)));
    let mut y = axis("share of messages", false);
    y.to = Some(1.0);
    Some(Plot {
        title: "Slowdown of messages".to_owned(),
        x: axis("slowdown (completion time over that in an empty network)", true),
        y,
        lines: lines.filter(|line| !line.points.is_empty()).collect(),
    })
}

fn by_size(runs: &[Run]) -> Option<Plot> {
    let mut lines = Vec::new();
    for (i, run) in runs.iter().enumerate().take(LINES_MAX / 2) {
        let sizes = &run.summary.fct.get("all")?.by_size;
        for (dash, name) in [(0, "p50"), (1, "p99")] {
            let point = |size: &tidegate_results::BySize| {
                let slowdown = &size.fct.slowdown;
                let value = if dash == 0 { slowdown.p50 } else { slowdown.p99 };
                // The middle of a class, which is a decade.
                let middle = size.below_bytes.map_or(size.min_bytes as f64 * 2.0, |below| {
                    ((size.min_bytes.max(100) as f64) * below as f64).sqrt()
                });
                Some((middle, value?.as_f64()))
            };
            let mut line = line(runs, i, sizes.iter().filter_map(point).collect());
            line.name = format!("{} {name}", line.name);
            line.dash = dash;
            line.marker = Some("circle");
            lines.push(line);
        }
    }
    Some(Plot {
        title: "Slowdown by message size".to_owned(),
        x: axis("message size (bytes, middle of a decade)", true),
        y: axis("slowdown", true),
        lines,
    })
}

/// Goodput of each label and the busiest queues, a plot for each run that was sampled.
fn over_time(runs: &[Run]) -> Vec<Plot> {
    let mut plots = Vec::new();
    for run in runs {
        let Some(series) = &run.series else { continue };
        let draw = |i: usize, name: String, points: &[(f64, f64)]| Line {
            name,
            color: PALETTE[i % PALETTE.len()].to_owned(),
            dash: i / PALETTE.len(),
            marker: None,
            points: points.to_vec(),
        };
        let named = |label: &String| if label.is_empty() { "flows".to_owned() } else { label.clone() };
        let labels = series.goodput.iter().take(LINES_MAX).map(|(label, points)| (named(label), points));
        plots.push(Plot {
            title: format!("Goodput, {}", run.title),
            x: axis("time (ms)", false),
            y: axis("goodput of all flows of a label (Gbit/s)", false),
            lines: labels.enumerate().map(|(i, (name, points))| draw(i, name, points)).collect(),
        });
        let mean =
            |points: &[(f64, f64)]| points.iter().map(|p| p.1).sum::<f64>() / points.len().max(1) as f64;
        let mut queues: Vec<_> = series.queues.iter().collect();
        queues.sort_by(|a, b| mean(b.1).total_cmp(&mean(a.1)));
        let queues = queues
            .into_iter()
            .take(QUEUES_SHOWN)
            .map(|((from, to), points)| (format!("{from} to {to}"), points));
        plots.push(Plot {
            title: format!("Longest queues, {}", run.title),
            x: axis("time (ms)", false),
            y: axis("queue (KB)", false),
            lines: queues.enumerate().map(|(i, (name, points))| draw(i, name, points)).collect(),
        });
    }
    plots
}

// ---- reproductions

/// A reproduction: the claims, then every figure with its own.
pub(crate) fn reproduction(claims: &[ClaimResult], pictures: &[(String, String)]) -> String {
    let mut html = String::from("<h2>Claims</h2>\n");
    html.push_str(&claim_table(claims.iter()));
    let mut figures_seen: Vec<(&str, &str)> = Vec::new();
    for claim in claims {
        figures_seen.push((&claim.paper, &claim.figure));
    }
    for (name, _) in pictures {
        figures_seen.extend(
            name.split_once("-figure-")
                .map(|(paper, rest)| (paper, rest.split_once('-').map_or(rest, |(figure, _)| figure))),
        );
    }
    let order = |(paper, figure): &(&str, &str)| {
        let digits: String = figure.chars().take_while(char::is_ascii_digit).collect();
        ((*paper).to_owned(), digits.parse::<u64>().unwrap_or(u64::MAX), (*figure).to_owned())
    };
    figures_seen.sort_by_key(order);
    figures_seen.dedup();
    for (paper, figure) in figures_seen {
        let prefix = format!("{paper}-figure-{figure}");
        let own = pictures.iter().filter(|(name, _)| {
            name.strip_prefix(&prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        });
        let _ = writeln!(html, "<h2>{}: figure {}</h2>", escaped(paper), escaped(figure));
        html.push_str(&figures(own.map(|(_, svg)| svg.as_str())));
        let of_figure: Vec<_> =
            claims.iter().filter(|claim| claim.paper == paper && claim.figure == figure).collect();
        if !of_figure.is_empty() {
            html.push_str(&claim_table(of_figure.into_iter()));
        }
    }
    html
}

fn claim_table<'a>(claims: impl Iterator<Item = &'a ClaimResult>) -> String {
    let titles = [
        ("claim", false),
        ("figure", false),
        ("what", false),
        ("paper", true),
        ("measured", true),
        ("verdict", false),
        ("why", false),
    ];
    let rows = claims.map(|claim| {
        let verdict = claim.verdict.name();
        vec![
            escaped(&claim.claim),
            escaped(&claim.figure),
            escaped(&claim.text),
            escaped(&paper_value(claim)),
            escaped(&measured(claim)),
            format!("<b class=\"{verdict}\">{verdict}</b>"),
            escaped(&claim.why),
        ]
    });
    format!("<div class=\"claims\">{}</div>", table(&titles, rows))
}
