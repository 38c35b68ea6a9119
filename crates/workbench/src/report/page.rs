//! HTML.

use std::fmt::Write;

use tidegate_results::{FctSummary, Fixed, Summary};

use super::charts::{self, PORTS_SHOWN, RUNS_MAX};
use super::differences::{LACKING, differences};
use super::markup::{marked_up, marked_up_line};
use super::plot::{Plot, escaped};
use super::read::Run;
use crate::conditions;
use crate::reproduce::{ClaimResult, PaperText, Picture, measured, paper_value, with_unit};

const STYLE: &str = "\
:root{color-scheme:light \
dark;--line:#8884;--quiet:#666;--good:#2e7d32;--half:#9a6700;--bad:#b3261e}\
@media screen and \
(prefers-color-scheme:dark){:root{--quiet:#aaa;--good:#7bc67e;--half:#e2b93b;--bad:#f2857c}}\
body{font:15px/1.5 \
system-ui,sans-serif;background:Canvas;color:CanvasText;max-width:1120px;margin:2rem \
auto;padding:0 1rem}\
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.2rem;border-bottom:1px solid \
var(--line);padding-bottom:.3rem}\
table{border-collapse:collapse;width:100%;font-size:13.5px;margin:.8rem 0}\
th,td{padding:.3rem .55rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}\
th{font-weight:600;vertical-align:bottom}\
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}td.n{white-space:nowrap}\
.wide{overflow-x:auto}\
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(480px,100%),1fr));gap:1rem}\
figure{margin:0}svg{display:block;max-width:100%;height:auto}.quiet{color:var(--quiet)}\
.reproduced{color:var(--good)}.conditional,.direction{color:var(--half)}.deviates{color:var(--bad)}\
figure \
a{display:block;text-align:right;font-size:11px}figure,tr{break-inside:avoid}h2{break-after:avoid}\
@media screen{.claims td:nth-child(3){min-width:13rem}.claims td:nth-child(7){min-width:18rem}}\
@page{margin:14mm}\
@media \
print{:root{color-scheme:light}body{max-width:none;margin:0;padding:0;font-size:10pt}figure \
a{display:none}\
.claims td:nth-child(3){width:26%}.claims td:nth-child(7){width:44%}\
table{font-size:7.5pt}th,td{padding:.15rem .3rem}th,th.n{white-space:normal}.wide{overflow:visible}\
.plots{display:block}.plots svg{width:130mm;margin:0 auto 4mm}}";

/// What the last line of a page begins with.
pub(crate) const SIGNATURE: &str = "<p class=\"quiet\">tidegate ";

/// The page around `body`.
pub(crate) fn whole(title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>{title}</title>\
         <style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n{body}\
         {SIGNATURE}{} ({})</p></body></html>\n",
        env!("CARGO_PKG_VERSION"),
        env!("TIDEGATE_GIT_REVISION")
    )
}

/// What stands in a cell without a value.
const NONE: &str = "–";
/// Stands before a percentile that is only a lower bound.
const BOUND: &str = "≥";

/// A table, without the columns in which no row has anything.
fn table(titles: &[(&str, bool)], rows: impl Iterator<Item = Vec<String>>) -> String {
    let rows: Vec<Vec<String>> = rows.collect();
    let used = |column: &usize| rows.is_empty() || rows.iter().any(|row| row[*column] != NONE);
    let columns: Vec<usize> = (0..titles.len()).filter(used).collect();
    let class = |number: bool| if number { " class=\"n\"" } else { "" };
    let mut html = String::from("<div class=\"wide\"><table><thead><tr>");
    for (title, number) in columns.iter().map(|column| titles[*column]) {
        let _ = write!(html, "<th{}>{title}</th>", class(number));
    }
    html.push_str("</tr></thead><tbody>\n");
    for row in &rows {
        html.push_str("<tr>");
        for column in &columns {
            let _ = write!(html, "<td{}>{}</td>", class(titles[*column].1), row[*column]);
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody></table></div>\n"
}

/// Pictures (name, SVG), each with a link that saves it.
fn figures<'a>(pictures: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let figure = |(name, svg): (&str, &str)| {
        format!(
            "<figure>{svg}<a class=\"quiet\" download=\"{}.svg\" \
             href=\"data:image/svg+xml,{}\">SVG</a></figure>",
            escaped(name),
            in_url(svg)
        )
    };
    format!("<div class=\"plots\">{}</div>\n", pictures.map(figure).collect::<String>())
}

/// What would end a URL or the attribute it stands in, in its place the codes.
fn in_url(text: &str) -> String {
    let codes = [
        ("%", "%25"),
        ("#", "%23"),
        ("\"", "%22"),
        ("<", "%3C"),
        (">", "%3E"),
        ("&", "%26"),
        ("\n", ""),
    ];
    codes.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

// ---- runs

/// Everything about runs: a section each for messages, goodput and queues where there are any.
pub(crate) fn runs(runs: &[Run]) -> String {
    let mut html = scenarios(runs);
    html.push_str(&differing(runs));
    html.push_str("<h2>Summary</h2>\n");
    for run in runs {
        // The title begins with the protocol.
        let own = run.protocol.as_ref().map(|protocol| format!("{protocol}: "));
        for warning in &run.summary.warnings {
            let text = own.as_ref().and_then(|own| warning.strip_prefix(own.as_str()));
            let _ = writeln!(
                html,
                "<p class=\"quiet\">{}: {}</p>",
                escaped(&run.title),
                escaped(text.unwrap_or(warning))
            );
        }
    }
    html.push_str(&groups(runs));
    let drawn = &runs[..runs.len().min(RUNS_MAX)];
    let left_out = left_out(&runs[drawn.len()..]);
    html.push_str(&section("Messages", &left_out, charts::messages(runs)));
    html.push_str(&section("Goodput over time", &left_out, charts::goodput(drawn)));
    html.push_str(&section("Queues", &left_out, charts::queues(runs)));
    html.push_str(&section("Pauses over time", &left_out, charts::pauses(runs)));
    html.push_str("<h2>Busiest switch ports</h2>\n");
    html + &links(runs)
}

/// Which runs the plots of a section leave out, if any.
fn left_out(runs: &[Run]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let titles: Vec<&str> = runs.iter().map(|run| run.title.as_str()).collect();
    format!(
        "<p class=\"quiet\">Plots show the first {RUNS_MAX} runs, and leave out {}.</p>\n",
        escaped(&titles.join("; "))
    )
}

/// What was simulated.
fn scenarios(runs: &[Run]) -> String {
    let mut said: Vec<String> = Vec::new();
    for run in runs {
        let summary = &run.summary;
        let text = format!(
            "{}, seed {}: {}, measured from {}{}",
            escaped(&summary.name),
            summary.seed,
            with_unit(Some(summary.sim_seconds * 1e3), "ms"),
            with_unit(Some(summary.warmup_seconds * 1e3), "ms"),
            connections(summary)
        );
        if !said.contains(&text) {
            said.push(text);
        }
    }
    let named: Vec<_> = runs.iter().map(|run| (run.title.as_str(), &run.summary)).collect();
    said.push(escaped(&conditions(&named)));
    said.iter().map(|text| format!("<p>{text}</p>\n")).collect()
}

/// What differs between the scenarios of the runs, where anything does.
fn differing(runs: &[Run]) -> String {
    let (found, more) = differences(runs);
    if found.is_empty() {
        return String::new();
    }
    let rows = found.iter().flat_map(|(key, values)| {
        // Who lacks a key is all but those who have it.
        values.iter().filter(|(value, _)| value != LACKING).map(|(value, having)| {
            let titles: Vec<&str> = having.iter().map(|i| runs[*i].title.as_str()).collect();
            vec![escaped(key), escaped(value), escaped(&titles.join("; "))]
        })
    });
    let mut html = String::from("<h2>What differs</h2>\n");
    html.push_str(&table(&[("key", false), ("value", false), ("runs", false)], rows));
    if more > 0 {
        let _ =
            writeln!(html, "<p class=\"quiet\">And {more} keys more, as their manifests say.</p>");
    }
    html
}

/// How messages share connections; results of older versions do not say.
fn connections(summary: &Summary) -> String {
    match summary.connections.as_str() {
        "" => String::new(),
        pool if pool.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!(", connections: {pool} per pair")
        }
        mode => format!(", connections: {}", escaped(mode)),
    }
}

/// Plots under a title and a note; nothing where there is nothing to draw.
fn section(title: &str, note: &str, mut plots: Vec<Plot>) -> String {
    plots.retain(|plot| plot.lines.iter().any(|line| line.points.len() > 1));
    if plots.is_empty() {
        return String::new();
    }
    let pictures: Vec<(String, String)> =
        plots.iter().map(|plot| (plot.title.clone(), plot.svg())).collect();
    let pictures = pictures.iter().map(|(title, svg)| (title.as_str(), svg.as_str()));
    format!("<h2>{title}</h2>\n{note}{}", figures(pictures))
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| with_unit(Some(value), ""))
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
        ("n", true),
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
                finished(fct),
                percentile(fct, 500, fct.p50_us),
                percentile(fct, 10, fct.p99_us),
                percentile(fct, 1, fct.p999_us),
                percentile(fct, 500, fct.slowdown.p50),
                percentile(fct, 10, fct.slowdown.p99),
                percentile(fct, 1, fct.slowdown.p999),
            ]
        })
    });
    let mut html = table(&titles, rows);
    if html.contains(BOUND) {
        let _ = writeln!(
            html,
            "<p class=\"quiet\">{BOUND}: a lower bound. More messages of this class did not finish \
             than the \
             percentile leaves above it; it is that of those that did, and longer the longer the \
             others take. \
             Distributions end at the share that finished, and lines by size leave such \
             percentiles out.</p>"
        );
    }
    html
}

/// How many finished: `32 of 44`, or `44` if all did.
fn finished(fct: &FctSummary) -> String {
    match (fct.count, fct.unfinished) {
        (0, _) => NONE.to_owned(),
        (count, 0) => count.to_string(),
        (count, _) => format!("{} of {count}", fct.finished()),
    }
}

/// A percentile above which `per_mille` lie; only a bound where messages that did not finish hide
/// it.
fn percentile(fct: &FctSummary, per_mille: u64, value: Option<Fixed>) -> String {
    let bound = if value.is_some() && fct.hides(per_mille) { BOUND } else { "" };
    format!("{bound} {}", fixed(value)).trim_start().to_owned()
}

fn links(runs: &[Run]) -> String {
    let paused = |run: &Run| run.summary.links.iter().any(|link| link.pfc_pauses > 0);
    let pauses = runs.iter().any(paused);
    let mut titles = vec![
        ("run", false),
        ("from", false),
        ("to", false),
        ("Gbit/s", true),
        ("used %", true),
        ("packets", true),
        ("queueing mean µs", true),
        ("p99 µs", true),
        ("max µs", true),
        ("queue max KB", true),
        ("drops", true),
        ("marks", true),
    ];
    if pauses {
        titles.extend([("pauses", true), ("paused µs", true)]);
    }
    let dropped = |run: &Run| run.summary.links.iter().any(|link| link.credit_drops.is_some());
    let credits = runs.iter().any(dropped);
    if credits {
        titles.push(("credits dropped", true));
    }
    let rows = runs.iter().flat_map(|run| {
        let mut links: Vec<_> = run.summary.links.iter().filter(|link| !link.from_host).collect();
        links.sort_by(|a, b| b.utilization.unwrap_or(0.0).total_cmp(&a.utilization.unwrap_or(0.0)));
        links.truncate(PORTS_SHOWN);
        links.into_iter().map(|link| {
            let mut row = vec![
                escaped(&run.title),
                escaped(&link.from),
                escaped(&link.to),
                number(Some(link.rate_gbps)),
                number(link.utilization.map(|share| share * 100.0)),
                link.packets.to_string(),
                fixed(link.queue_delay_us.mean),
                fixed(link.queue_delay_us.p99),
                fixed(link.queue_delay_us.max),
                number(link.queue_bytes.max.map(|bytes| bytes / 1e3)),
                link.drops.to_string(),
                link.ecn_marks.to_string(),
            ];
            if pauses {
                row.extend([link.pfc_pauses.to_string(), fixed(link.paused_us)]);
            }
            if credits {
                row.push(link.credit_drops.map_or(String::new(), |drops| drops.to_string()));
            }
            row
        })
    });
    table(&titles, rows)
}

// ---- reproductions

/// A reproduction: the claims, then every figure with its own where there are several.
pub(crate) fn reproduction(
    claims: &[ClaimResult],
    papers: &[PaperText],
    pictures: &[Picture],
) -> String {
    let mut html = String::from("<h2>Claims</h2>\n");
    html.push_str(&claim_table(claims.iter()));
    let single = papers.iter().map(|paper| paper.figures.len()).sum::<usize>() == 1;
    for paper in papers {
        let _ = writeln!(html, "<h2>{}</h2>", escaped(&paper.title));
        html.push_str(&marked_up(&paper.opening()));
        for figure in &paper.figures {
            let _ = writeln!(
                html,
                "<h2>Figure {}: {}</h2>",
                escaped(&figure.figure),
                escaped(&figure.title)
            );
            html.extend(figure.said.iter().map(|said| marked_up(said)));
            let named = |name: &String| pictures.iter().find(|picture| picture.name == *name);
            let own = figure.pictures.iter().filter_map(named);
            html.push_str(&figures(
                own.map(|picture| (picture.name.as_str(), picture.svg.as_str())),
            ));
            let is_its =
                |claim: &&ClaimResult| claim.paper == paper.paper && claim.figure == figure.figure;
            if !single && claims.iter().any(|claim| is_its(&claim)) {
                html.push_str(&claim_table(claims.iter().filter(is_its)));
            }
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
            marked_up_line(&claim.text),
            escaped(&paper_value(claim)),
            escaped(&measured(claim)),
            format!("<b class=\"{verdict}\">{verdict}</b>"),
            marked_up_line(&claim.why),
        ]
    });
    format!("<div class=\"claims\">{}</div>", table(&titles, rows))
}
