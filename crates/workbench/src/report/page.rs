//! What a page says of runs.

use std::fmt::Write;

use tidegate_results::{FctSummary, Fixed, Summary};

use super::charts;
use super::configurations::Configuration;
use super::data::Data;
use super::differences::{LACKING, differences};
use super::html::{NONE, Row, figures, note, notes, section, table};
use super::jobs::jobs;
use super::markup::escaped;
use super::over_keys;
use super::over_time::{self, PORTS_SHOWN};
use super::plot::Plot;
use super::read::Run;
use crate::conditions;
use crate::reproduce::with_unit;

/// Stands before a percentile that is only a lower bound.
const BOUND: &str = "≥";

/// Of more runs than that, the others are counted where runs are named in a text.
const TITLES_MAX: usize = 12;
/// Warnings that are shown at most.
pub(crate) const WARNINGS_MAX: usize = 40;

/// Everything about runs, of whose configurations the first are drawn by themselves: a section each
/// for what differs, messages, goodput, queues, the fabric, where there are any.
pub(crate) fn runs(
    runs: &[Run],
    all: &[Configuration<'_>],
    drawn: &[Configuration<'_>],
    data: &mut Data,
) -> String {
    let mut html = scenarios(runs);
    html.push_str(&differing(runs));
    html.push_str(&section("Summary", &format!("{}{}", warnings(runs), groups(runs))));
    html.push_str(&how_drawn(all, drawn.len()));
    html.push_str(&jobs(runs, drawn, data));
    let sections = [
        ("Over what differs", over_keys::plots(runs, all)),
        ("Messages", charts::messages(drawn)),
        ("Goodput over time", over_time::goodput(drawn)),
        ("Queues", over_time::queues(drawn)),
        ("Pauses over time", over_time::pauses(drawn)),
    ];
    for (title, plots) in sections {
        html.push_str(&plots_of(title, plots, data));
    }
    if data.runs.iter().any(|run| run.has_fabric()) {
        html.push_str(&section("Fabric", "<figure class=\"fabric\"></figure>\n"));
    }
    html + &section("Busiest switch ports", &links(runs))
}

fn warnings(runs: &[Run]) -> String {
    let mut all = Vec::new();
    for run in runs {
        // The title begins with the protocol.
        let own = run.protocol.as_ref().map(|protocol| format!("{protocol}: "));
        for warning in &run.summary.warnings {
            let text = own.as_ref().and_then(|own| warning.strip_prefix(own.as_str()));
            all.push(format!("{}: {}", run.title, text.unwrap_or(warning)));
        }
    }
    notes(&all, WARNINGS_MAX, "warnings more, in the summaries of the runs.")
}

/// What plots leave out, and what they join.
fn how_drawn(all: &[Configuration<'_>], drawn: usize) -> String {
    let mut said = String::new();
    if all.len() > drawn {
        let titles: Vec<&str> = all[drawn..].iter().map(|one| one.title).collect();
        let _ = writeln!(
            said,
            "<p class=\"quiet\">But for those over what differs, plots show the first {drawn} \
             configurations. In the tables alone are {}.</p>",
            runs_named(&titles)
        );
    }
    if all.iter().any(|one| one.runs.len() > 1) {
        said.push_str(&note(
            "Runs that differ in their seed alone are drawn as one: distributions are over the \
             messages of all seeds, lines by size are means with the least and the greatest of a \
             seed, and what is over time or of single messages is of the first seed.",
        ));
    }
    said
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
    let more = said.len().saturating_sub(TITLES_MAX);
    said.truncate(TITLES_MAX);
    if more > 0 {
        said.push(format!("And {more} more, as the table of what differs tells."));
    }
    let named = runs.iter().map(|run| (run.title.as_str(), &run.summary));
    said.push(escaped(&conditions(&named.collect::<Vec<_>>())));
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
            vec![escaped(key), escaped(value), runs_named(&titles)].into()
        })
    });
    let mut html = table(&[("key", false), ("value", false), ("runs", false)], rows);
    if more > 0 {
        html.push_str(&note(&format!("And {more} keys more, as their manifests say.")));
    }
    section("What differs", &html)
}

/// Titles of runs; of many, how many more there are.
fn runs_named(titles: &[&str]) -> String {
    let mut text = titles[..titles.len().min(TITLES_MAX)].join("; ");
    if titles.len() > TITLES_MAX {
        let _ = write!(text, "; and {} more", titles.len() - TITLES_MAX);
    }
    escaped(&text)
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

/// Plots under a title; nothing where there is nothing to draw.
fn plots_of(title: &str, mut plots: Vec<Plot>, data: &mut Data) -> String {
    plots.retain(|plot| plot.lines.iter().any(|line| line.points.len() > 1));
    if plots.is_empty() {
        return String::new();
    }
    section(title, &figures(data, plots.into_iter().map(|plot| (None, plot))))
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
        ("finished", true),
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
            let cells = vec![
                escaped(&run.title),
                escaped(&group.label),
                group.flows.to_string(),
                fct.unfinished.to_string(),
                number(group.goodput_gbps.mean),
                number(group.goodput_gbps.jain),
                finished(fct),
                percentile(fct.hides(500), fct.p50_us),
                percentile(fct.hides(10), fct.p99_us),
                percentile(fct.hides(1), fct.p999_us),
                percentile(fct.hides_slowdown(500), fct.slowdown.p50),
                percentile(fct.hides_slowdown(10), fct.slowdown.p99),
                percentile(fct.hides_slowdown(1), fct.slowdown.p999),
            ];
            let (protocol, label) = (Some(group.protocol.clone()), Some(group.label.clone()));
            Row { protocol, label, cells }
        })
    });
    let mut html = table(&titles, rows);
    if html.contains(BOUND) {
        html.push_str(&note(&format!(
            "{BOUND}: a lower bound: the longest that finished. Too many of this class did not for \
             the percentile to be known. Distributions end at the share that is, and lines by \
             size leave such percentiles out."
        )));
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

/// A percentile; only a bound where messages that did not finish hide it.
fn percentile(hidden: bool, value: Option<Fixed>) -> String {
    let bound = if value.is_some() && hidden { BOUND } else { "" };
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
            Row { protocol: run.protocol.clone(), label: None, cells: row }
        })
    });
    table(&titles, rows)
}
