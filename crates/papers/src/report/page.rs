//! The sections of a page about runs.

use std::fmt::Write;

use tidegate_results::{FctSummary, Fixed, GroupSummary, QueueBytes, Summary, is_maximum};

use super::charts;
use super::configurations::{Configuration, comparable};
use super::data::Data;
use super::differences::{LACKING, differences};
use super::html::{self, Row, alone, figures, note, section, table};
use super::jobs::jobs;
use super::markup::{NONE, escaped};
use super::over_keys;
use super::over_time::{self, PORTS_SHOWN};
use super::read::Run;
use crate::conditions;
use crate::plot::Plot;
use crate::units::readable;
use tidegate_runs::numbers::{differing_load, with_unit};
use tidegate_runs::warnings::{Merged, merged};

/// Prefix of a percentile that is only a lower bound.
const BOUND: &str = "≥";
/// Prefix of a percentile of so few values that it is their maximum, and its explanation.
pub(super) const MAXIMUM: &str = "max";
pub(super) const MAXIMUM_NOTE: &str = "max: the 99th percentile of fewer than 100 messages, or the \
    99.9th of fewer than 1,000, is their maximum.";

/// Maximum number of runs listed in a text; the others are counted.
const TITLES_MAX: usize = 12;
/// Maximum number of warnings shown.
pub(crate) const WARNINGS_MAX: usize = 40;

/// Makes the plots of configurations that belong in one plot.
type Plots = fn(&[Configuration<'_>]) -> Vec<Plot>;

/// Sections about runs: results first, then the scenarios, their differences and the fabric, as far
/// as there are data. The first `drawn` configurations are drawn one by one. `warned` holds the
/// warnings of comparisons.
pub(crate) fn runs(
    runs: &[Run],
    (all, drawn): (&[Configuration<'_>], &[Configuration<'_>]),
    warned: &[String],
    data: &mut Data,
) -> String {
    let mut html = summary(runs, all, warned);
    html.push_str(&how_drawn(all, drawn.len()));
    html.push_str(&jobs(runs, drawn, data));
    html.push_str(&plots_of("Values over keys", over_keys::plots(runs, all), data));
    let sections: [(&str, Plots); 5] = [
        ("Messages", charts::messages),
        ("Goodput over time", over_time::goodput),
        ("Windows over time", over_time::windows),
        ("Queues", over_time::queues),
        ("Pauses over time", over_time::pauses),
    ];
    let groups = comparable(drawn);
    for (title, of) in sections {
        let plots = groups.iter().flat_map(|(name, group)| {
            let mut plots = of(group);
            let suffix = format!(", {name}");
            let unnamed = |plot: &&mut Plot| groups.len() > 1 && !plot.title.ends_with(&suffix);
            plots.iter_mut().filter(unnamed).for_each(|plot| plot.title.push_str(&suffix));
            plots
        });
        html.push_str(&plots_of(title, plots.collect(), data));
    }
    if runs.iter().any(|run| !run.summary.switches.is_empty()) {
        html.push_str(&section("Switch buffers", &buffers(runs)));
    }
    html.push_str(&section("Busiest switch ports", &links(runs)));
    if runs.iter().any(|run| run.summary.pauses.is_some()) {
        html.push_str(&section("Pauses", &pauses(runs)));
    }
    html.push_str(&section("Scenario", &scenarios(runs, all)));
    html.push_str(&differing(runs, all));
    if data.runs.iter().any(|run| run.has_fabric()) {
        html.push_str(&section("Fabric", "<figure class=\"fabric\"></figure>\n"));
    }
    html
}

/// The table of the runs, and warnings.
fn summary(runs: &[Run], all: &[Configuration<'_>], warned: &[String]) -> String {
    section("Summary", &format!("{}{}", groups(runs), warnings(warned, all)))
}

/// The warnings of comparisons, and those of the runs. Similar ones are merged.
fn warnings(of_comparisons: &[String], all: &[Configuration<'_>]) -> String {
    let plain = |one: &Configuration<'_>, text: &String| {
        // The title already begins with the protocol.
        let own = one.protocol.map(|protocol| format!("{protocol}: "));
        let rest = own.as_ref().and_then(|own| text.strip_prefix(own.as_str()));
        let rest = rest.unwrap_or(text);
        one.protocol.map_or_else(
            || rest.to_owned(),
            |protocol| rest.replace(&format!(" of {protocol} "), " "),
        )
    };
    let place = |one: &Configuration<'_>, run: &Run| match (all.len(), one.runs.len()) {
        (_, 1) => one.title.to_owned(),
        (1, _) => format!("seed {}", run.summary.seed),
        _ => format!("{}, seed {}", one.title, run.summary.seed),
    };
    let of_runs = all.iter().flat_map(|one| {
        let of = |run: &&Run| {
            let texts = run.summary.warnings.iter().map(|text| plain(one, text)).collect();
            (place(one, run), texts)
        };
        one.runs.iter().map(of).collect::<Vec<_>>()
    });
    // Equal warnings of all seeds of a configuration are those of the configuration.
    let of_seeds = |Merged { text, each }: Merged| {
        let mut found: Vec<(String, String)> = Vec::new();
        for one in all {
            let places: Vec<String> = one.runs.iter().map(|run| place(one, run)).collect();
            let own = each.iter().filter(|(place, _)| places.contains(place));
            let own: Vec<(String, String)> = own.cloned().collect();
            let is_same = own.iter().all(|(_, other)| *other == own[0].1);
            if is_same && own.len() == places.len() {
                found.push((one.title.to_owned(), own[0].1.clone()));
            } else {
                found.extend(own);
            }
        }
        match &found[..] {
            [] => Merged { text, each },
            [(place, text)] => Merged { text: format!("{place}: {text}"), each: Vec::new() },
            [(place, text), more @ ..] => {
                let text = format!("{place}, and {} similar: {text}", more.len());
                Merged { text, each: found }
            }
        }
    };
    let of_runs = merged(&of_runs.collect::<Vec<_>>()).into_iter().map(of_seeds);
    let merged: Vec<Merged> =
        of_comparisons.iter().map(|text| alone(text)).chain(of_runs).collect();
    let more = "more warnings, in the summaries of the runs.";
    html::warnings(merged.into_iter(), WARNINGS_MAX, more)
}

/// Note about configurations that plots omit or merge.
fn how_drawn(all: &[Configuration<'_>], drawn: usize) -> String {
    let mut html = String::new();
    if all.len() > drawn {
        let titles: Vec<&str> = all[drawn..].iter().map(|one| one.title).collect();
        let _ = writeln!(
            html,
            "<p class=\"quiet\">Except for plots over keys, plots show the first {drawn} \
             configurations. The others appear only in the tables: {}.</p>",
            runs_named(&titles)
        );
    }
    if comparable(&all[..drawn]).len() > 1 {
        html.push_str(&note(
            "Runs whose fabrics or traffic differ in more than numbers have plots of their own, \
             with the names of their scenarios.",
        ));
    }
    if all.iter().any(|one| one.runs.len() > 1) {
        html.push_str(&note(
            "Runs that differ only in their seed are drawn as one: distributions cover the \
             messages of all seeds, lines by size are means with the minimum and maximum of a \
             seed, and plots over time or of single messages show the first seed.",
        ));
    }
    html
}

/// The simulated scenarios. Runs that differ only in their seed are grouped.
fn scenarios(runs: &[Run], all: &[Configuration<'_>]) -> String {
    let mut lines: Vec<(&str, String, Vec<u64>)> = Vec::new();
    for summary in runs.iter().map(|run| &run.summary) {
        let text = format!(
            "{}, measured from {}{}",
            with_unit(Some(summary.sim_seconds * 1e3), "ms"),
            with_unit(Some(summary.warmup_seconds * 1e3), "ms"),
            connections(summary)
        );
        let is_same = |(name, other, _): &&mut (&str, String, Vec<u64>)| {
            (*name, other.as_str()) == (summary.name.as_str(), text.as_str())
        };
        match lines.iter_mut().find(is_same) {
            Some((.., seeds)) if seeds.contains(&summary.seed) => {}
            Some((.., seeds)) => seeds.push(summary.seed),
            None => lines.push((&summary.name, text, vec![summary.seed])),
        }
    }
    let more = lines.len().saturating_sub(TITLES_MAX);
    let line = |(name, text, seeds): &(&str, String, Vec<u64>)| {
        format!("{}, {}: {text}", escaped(name), seeds_named(seeds))
    };
    let mut lines: Vec<String> = lines.iter().take(TITLES_MAX).map(line).collect();
    if more > 0 {
        lines.push(format!("And {more} more: see the table of scenario differences."));
    }
    let named = all.iter().map(|one| (one.title, &one.run().summary));
    lines.push(escaped(&readable(&conditions(&named.collect::<Vec<_>>()))));
    lines.iter().map(|text| format!("<p>{text}</p>\n")).collect()
}

/// `seed 3`, `seeds 1 to 5`, `seeds 1, 7`.
fn seeds_named(seeds: &[u64]) -> String {
    match seeds {
        [only] => format!("seed {only}"),
        [first, .., last] if seeds.len() > 2 && seeds.is_sorted_by(|a, b| a + 1 == *b) => {
            format!("seeds {first} to {last}")
        }
        _ => format!("seeds {}", seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Differences between the scenarios of the runs; empty if only the seeds of a configuration
/// differ.
fn differing(runs: &[Run], all: &[Configuration<'_>]) -> String {
    let (mut found, more) = differences(runs);
    if all.iter().any(|one| one.runs.len() > 1) {
        found.retain(|(key, _)| key != "seed");
    }
    if found.is_empty() {
        return String::new();
    }
    let rows = found.iter().flat_map(|(key, values)| {
        // All runs that are not listed lack the key.
        values.iter().filter(|(value, _)| value != LACKING).map(|(value, having)| {
            let having = all.iter().filter(|one| having.contains(&one.first));
            let titles: Vec<&str> = having.map(|one| one.title).collect();
            vec![escaped(key), escaped(value), runs_named(&titles)].into()
        })
    });
    let table = table(&[("key", false), ("value", false), ("runs", false)], rows);
    let mut html = format!("<div class=\"stacked\">{table}</div>\n");
    if more > 0 {
        html.push_str(&note(&format!("And {more} more keys: see the manifests.")));
    }
    section("Scenario differences", &html)
}

/// Titles of runs, and the number of others if there are many.
fn runs_named(titles: &[&str]) -> String {
    let mut text = titles[..titles.len().min(TITLES_MAX)].join("; ");
    if titles.len() > TITLES_MAX {
        let _ = write!(text, "; and {} more", titles.len() - TITLES_MAX);
    }
    escaped(&text)
}

/// How messages share connections; results of older versions do not contain it.
fn connections(summary: &Summary) -> String {
    match summary.connections.as_str() {
        "" => String::new(),
        pool if pool.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!(", connections: {pool} per pair")
        }
        mode => format!(", connections: {}", escaped(mode)),
    }
}

/// Plots under a title; empty if there is nothing to draw.
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

/// Two tables of the labels of each run: their traffic, and the completion of their messages.
fn groups(runs: &[Run]) -> String {
    type Cells = fn(&GroupSummary) -> Vec<String>;
    let of_groups = |titles: &[(&'static str, bool)], cells: Cells| {
        let titles = [&[("run", false), ("label", false)], titles].concat();
        let row = |(run, group): (&Run, &GroupSummary)| Row {
            protocol: Some(group.protocol.clone()),
            label: Some(group.label.clone()),
            cells: [vec![escaped(&run.title), escaped(&group.label)], cells(group)].concat(),
        };
        let all =
            runs.iter().flat_map(|run| run.summary.groups.iter().map(move |group| (run, group)));
        table(&titles, all.map(row))
    };
    let traffic = [
        ("flows since 0", true),
        ("offered Gbit/s", true),
        ("configured", true),
        ("goodput Gbit/s", true),
        ("goodput per flow", true),
        ("Jain", true),
        ("retransmitted KB since 0", true),
    ];
    let mut html = of_groups(&traffic, |group| {
        let resent = group.retransmitted_bytes as f64 / 1e3;
        vec![
            group.flows.to_string(),
            number(group.offered_gbps),
            number(differing_load(group.offered_gbps, group.asked_gbps)),
            number(group.goodput_gbps.total),
            number(group.goodput_gbps.mean),
            number(group.goodput_gbps.jain),
            number(Some(resent).filter(|sent| *sent > 0.0)),
        ]
    });
    if html.contains(">configured<") {
        html.push_str(&note("configured: shown if the drawn load differs from it by 5 %."));
    }
    let completion = [
        ("messages unfinished", true),
        ("finished", true),
        ("FCT p50 µs", true),
        ("p99 µs", true),
        ("p99.9 µs", true),
        ("slowdown p50", true),
        ("p99", true),
        ("p99.9", true),
    ];
    html.push_str(&of_groups(&completion, |group| {
        let fct = &group.fct;
        vec![
            fct.unfinished.to_string(),
            finished(fct),
            percentile(fct.is_lower_bound(500), fct.p50_us),
            tail(fct, 10, fct.is_lower_bound(10), fct.p99_us),
            tail(fct, 1, fct.is_lower_bound(1), fct.p999_us),
            percentile(fct.is_slowdown_lower_bound(500), fct.slowdown.p50),
            tail(fct, 10, fct.is_slowdown_lower_bound(10), fct.slowdown.p99),
            tail(fct, 1, fct.is_slowdown_lower_bound(1), fct.slowdown.p999),
        ]
    }));
    if html.contains(BOUND) {
        html.push_str(&note(&format!(
            "{BOUND} marks a lower bound: too many messages of the class are unfinished for the \
             percentile to be known. Distributions end at the known share, and lines by size omit \
             such percentiles."
        )));
    }
    if html.contains(&format!("{MAXIMUM} ")) {
        html.push_str(&note(MAXIMUM_NOTE));
    }
    html
}

/// Buffers of switches with hosts and of those without, in each run.
fn buffers(runs: &[Run]) -> String {
    let titles = [
        ("run", false),
        ("switches", false),
        ("samples", true),
        ("mean KB", true),
        ("p99 KB", true),
        ("max KB", true),
        ("drops", true),
    ];
    let row = |run: &Run, with_hosts: bool| {
        let all = run.summary.switches.iter();
        let some: Vec<_> = all.filter(|switch| (switch.hosts > 0) == with_hosts).collect();
        let samples = some.first()?.samples;
        let kb = |of: fn(&QueueBytes) -> Option<f64>| {
            let known = some.iter().filter_map(|switch| of(&switch.buffer_bytes));
            known.map(|bytes| bytes / 1e3).collect::<Vec<f64>>()
        };
        let largest = |of| kb(of).into_iter().reduce(f64::max);
        let means = kb(|of| of.mean);
        let mean = (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64);
        let p99 = largest(|of| of.p99);
        let bound = if p99.is_some() && is_maximum(samples, 10) { MAXIMUM } else { "" };
        let cells = vec![
            escaped(&run.title),
            format!("{} {}", some.len(), if with_hosts { "with hosts" } else { "without hosts" }),
            // Older results do not have it.
            if samples > 0 { samples.to_string() } else { NONE.to_owned() },
            number(mean),
            format!("{bound} {}", number(p99)).trim_start().to_owned(),
            number(largest(|of| of.max)),
            some.iter().map(|switch| switch.drops).sum::<u64>().to_string(),
        ];
        Some(Row { protocol: run.protocol.clone(), label: None, cells })
    };
    let rows = |with_hosts| runs.iter().filter_map(move |run| row(run, with_hosts));
    let mut html = table(&titles, rows(true).chain(rows(false)));
    let mut text =
        "The mean is that over the switches, percentile and maximum those of the switch \
        with the largest."
            .to_owned();
    if html.contains(&format!(">{MAXIMUM} ")) {
        text.push_str(" max: the 99th percentile of fewer than 100 samples is their maximum.");
    }
    html.push_str(&note(&text));
    html
}

/// Number of finished messages: `32 of 44`, or `44` if all finished.
fn finished(fct: &FctSummary) -> String {
    match (fct.count, fct.unfinished) {
        (0, _) => NONE.to_owned(),
        (count, 0) => count.to_string(),
        (count, _) => format!("{} of {count}", fct.finished()),
    }
}

/// A percentile; a lower bound if unfinished messages hide it.
fn percentile(hidden: bool, value: Option<Fixed>) -> String {
    let bound = if value.is_some() && hidden { BOUND } else { "" };
    format!("{bound} {}", fixed(value)).trim_start().to_owned()
}

/// A percentile with `per_mille` of the messages above it.
fn tail(fct: &FctSummary, per_mille: u64, hidden: bool, value: Option<Fixed>) -> String {
    match percentile(hidden, value) {
        shown if !hidden && value.is_some() && is_maximum(fct.count, per_mille) => {
            format!("{MAXIMUM} {shown}")
        }
        shown => shown,
    }
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

/// Pauses of links in each run, and the ports that were paused longest.
fn pauses(runs: &[Run]) -> String {
    let percent = |share: Option<f64>| number(share.map(|share| share * 100.0));
    let row = |run: &Run, cells: Vec<String>| Row {
        protocol: run.protocol.clone(),
        label: None,
        cells: [vec![escaped(&run.title)], cells].concat(),
    };
    let totals = runs.iter().filter_map(|run| {
        let pauses = run.summary.pauses.as_ref()?;
        let cells = vec![
            pauses.pauses.to_string(),
            pauses.paused_links.to_string(),
            pauses.links.to_string(),
            percent(pauses.share_mean),
            percent(pauses.share_max),
        ];
        Some(row(run, cells))
    });
    let ports = runs.iter().flat_map(|run| {
        let summary = &run.summary;
        let measured_us = (summary.sim_seconds - summary.warmup_seconds) * 1e6;
        let mut links: Vec<_> = summary.links.iter().filter(|link| link.pfc_pauses > 0).collect();
        links.sort_by_key(|link| std::cmp::Reverse((link.paused_us, link.pfc_pauses)));
        links.truncate(PORTS_SHOWN);
        links.into_iter().map(move |link| {
            let paused = link.paused_us.map(Fixed::as_f64);
            let cells = vec![
                escaped(&link.from),
                escaped(&link.to),
                percent(link.utilization),
                link.pfc_pauses.to_string(),
                number(paused),
                percent(paused.map(|us| us / measured_us)),
            ];
            row(run, cells)
        })
    });
    let totals_of = [
        ("run", false),
        ("pauses", true),
        ("links paused", true),
        ("of links", true),
        ("paused %, mean of links", true),
        ("of the longest", true),
    ];
    let ports_of = [
        ("run", false),
        ("from", false),
        ("to", false),
        ("used %", true),
        ("pauses", true),
        ("paused µs", true),
        ("paused %", true),
    ];
    let ports = table(&ports_of, ports);
    format!("{}<h3>Most paused ports</h3>\n{ports}", table(&totals_of, totals))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::configurations::{configurations, grouped};
    use crate::report::read::tests::of_summary;
    use crate::samples::summary;

    #[test]
    fn seeds_are_abbreviated() {
        let names = [&[3][..], &[1, 2, 3, 4], &[1, 2], &[1, 2, 7]].map(seeds_named);
        assert_eq!(names, ["seed 3", "seeds 1 to 4", "seeds 1, 2", "seeds 1, 2, 7"]);
    }

    #[test]
    fn runs_of_several_seeds_are_grouped() {
        let runs: Vec<Run> = (1..=3).map(|seed| of_summary(summary(seed))).collect();
        let all = configurations(&runs, &grouped(&runs));
        let head = scenarios(&runs, &all);
        assert!(head.contains("test, seeds 1 to 3: 0.2 ms"), "{head}");
        assert_eq!(head.matches("<p>").count(), 2, "{head}");
        assert_eq!(differing(&runs, &all), "");
        assert_eq!(warnings(&[], &all), "");
        let warned = |mut run: Run| {
            run.summary.warnings = vec![format!("swift: {} of 9 did not", run.summary.seed)];
            run
        };
        let runs: Vec<Run> = runs.into_iter().map(warned).collect();
        let html = warnings(&[], &configurations(&runs, &grouped(&runs)));
        let whole = "<summary>seed 1, and 2 similar: swift: 1 of 9 did not</summary>";
        assert!(html.contains(whole), "{html}");
        for seed in 1..=3 {
            let own = format!("<li>seed {seed}: swift: {seed} of 9 did not</li>");
            assert!(html.contains(&own), "{html}");
        }
        let whole = super::summary(&runs, &configurations(&runs, &grouped(&runs)), &[]);
        assert!(whole.find("<table") < whole.find("1 of 9 did not"), "{whole}");
        assert_eq!(html.matches("<details").count(), 1, "{html}");
    }

    #[test]
    fn warnings_list_the_numbers_of_each_protocol() {
        let run = |protocol: &str, seed: u64, late: u64| {
            let mut run = of_summary(summary(seed));
            run.kind = protocol.to_owned();
            run.title = protocol.to_owned();
            run.protocol = Some(protocol.to_owned());
            run.summary.warnings = vec![format!("{protocol}: {late} of 38 did not finish")];
            run
        };
        let of = |runs: &[Run]| warnings(&[], &configurations(runs, &grouped(runs)));
        let html = of(&[run("dctcp", 1, 4), run("hpcc", 1, 5), run("sird", 1, 3)]);
        assert!(html.starts_with("<div class=\"warnings\">"), "{html}");
        assert!(html.contains("<summary>dctcp, and 2 similar: 4 of 38 did not"), "{html}");
        for (protocol, late) in [("dctcp", 4), ("hpcc", 5), ("sird", 3)] {
            let own = format!("<li>{protocol}: {late} of 38 did not finish</li>");
            assert!(html.contains(&own), "{html}");
        }
        let two = [run("dctcp", 1, 4), run("dctcp", 2, 6), run("hpcc", 1, 5), run("hpcc", 2, 5)];
        let html = of(&two);
        for own in ["dctcp, seed 1: 4 of", "dctcp, seed 2: 6 of", "hpcc: 5 of"] {
            assert!(html.contains(&format!("<li>{own} 38 did not")), "{html}");
        }
    }
}
