//! Formats results as tables. All of it is in `summary.json`, too.

use std::collections::BTreeSet;

use tidegate_workbench::results::{
    BySize, FlowSummary, GroupSummary, JobSummary, LinkSummary, Summary, SwitchSummary,
};
use tidegate_workbench::{Comparison, conditions};

use crate::engine::{Threads, engine_line};
use crate::format::{
    NONE, bound, bytes, finished, label, micros, number, offered, percent, protocol, rate, ratio,
    shown, signs, tail,
};
use crate::grid::{Grid, drawn, new, prose, width};
use crate::jobs;

/// Up to this number, flows are shown individually; more flows are grouped by label.
const FLOWS_SHOWN: usize = 30;
/// Number of switch ports shown for a single run.
const LINKS_SHOWN: usize = 5;
/// Width of the heading if stdout is not a terminal.
const WIDTH: usize = 100;
const BY_SIZE: &str = "Slowdown by message size: median / 99th percentile (messages)";
const BUFFERS: &str = "Switch buffers (p99 by samples)";
/// Number of switch ports shown for several runs.
const LINKS_COMPARED: usize = 3;

/// One run.
pub(crate) fn run(summary: &Summary, threads: Threads) -> String {
    let mut text = heading(summary, &one_seed(summary), &[("", summary)]);
    let title = |text: &str| titled(text, summary);
    let rows: Vec<_> = summary.jobs.iter().map(|job| (job.protocol.as_str(), job)).collect();
    text.push_str(&collectives(&rows, summary));
    match &summary.flows {
        Some(flows) if flows.len() <= FLOWS_SHOWN => {
            text.push_str(&title("Flows"));
            text.push_str(&flow_table(flows));
        }
        _ => {
            let rows: Vec<Row<'_>> =
                summary.groups.iter().map(|group| (group.protocol.as_str(), group)).collect();
            text.push_str(&title("Messages"));
            text.push_str(&message_table(&rows));
            text.push_str(&title(BY_SIZE));
            text.push_str(&size_table(&rows));
            if rows.iter().any(|(_, group)| group.fct.count > 0) {
                text.push_str("One seed: percentiles may differ with another seed.\n");
            }
        }
    }
    text.push_str(&title(BUFFERS));
    text.push_str(&buffer_table(&[(&summary.protocols.join(" + "), summary)]));
    text.push_str(&title("Busiest switch ports"));
    text.push_str(&link_table(&busiest(summary, LINKS_SHOWN)));
    let dropping = dropping(summary);
    if !dropping.is_empty() {
        text.push_str(&title("Switch ports that drop most"));
        text.push_str(&link_table(&dropping));
    }
    text.push_str(&pauses(&[(&summary.protocols.join(" + "), summary)], LINKS_SHOWN));
    explain_signs(&mut text);
    text.push_str(&format!("\n{}\n", losses(summary)));
    text.push_str(&engine_line(&summary.engine, threads));
    prose(&text)
}

/// The same scenario under several protocols.
pub(crate) fn comparison(comparison: &Comparison) -> String {
    let Some(first) = comparison.runs.first() else { return String::new() };
    let runs: Vec<_> =
        comparison.runs.iter().map(|run| (run.protocol.as_str(), &run.summary)).collect();
    let mut text = heading(&first.summary, &one_seed(&first.summary), &runs);
    let title = |text: &str| titled(text, &first.summary);
    // Each job under all protocols.
    let of = |at| runs.iter().filter_map(move |(run, summary)| Some((*run, summary.jobs.get(at)?)));
    let rows: Vec<_> = (0..first.summary.jobs.len()).flat_map(of).collect();
    text.push_str(&collectives(&rows, &first.summary));
    let rows = each(comparison);
    let (messages, flows): (Vec<Row<'_>>, Vec<Row<'_>>) =
        rows.into_iter().partition(|(_, group)| group.fct.count > 0);
    if !flows.is_empty() {
        text.push_str(&title("Goodput per flow"));
        text.push_str(&goodput_table(&flows));
    }
    if !messages.is_empty() {
        text.push_str(&title("Messages"));
        text.push_str(&message_table(&messages));
        text.push_str(&title(BY_SIZE));
        text.push_str(&size_table(&messages));
    }
    text.push_str(&title(BUFFERS));
    text.push_str(&buffer_table(&runs));
    text.push_str(&title("Busiest switch ports"));
    text.push_str(&drawn(&compared_links(comparison)));
    text.push_str(&pauses(&runs, LINKS_COMPARED));
    explain_signs(&mut text);
    text.push_str("\nOne seed (n = 1): no interval and no star; --seeds 5 adds both.\n\n");
    for run in &comparison.runs {
        text.push_str(&format!("{}: {}\n", run.protocol, losses(&run.summary)));
    }
    text.push('\n');
    for run in &comparison.runs {
        text.push_str(&format!(
            "{}: {}",
            run.protocol,
            engine_line(&run.summary.engine, Threads::Unknown)
        ));
    }
    prose(&text)
}

/// The title of a table. It names how messages share connections, which affects the numbers most.
pub(crate) fn titled(text: &str, summary: &Summary) -> String {
    match summary.connections.as_str() {
        "" => format!("\n{text}\n"),
        pool if pool.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("\n{text}, connections: {pool} per pair\n")
        }
        mode => format!("\n{text}, connections: {mode}\n"),
    }
}

/// The table of collectives and jobs, each with the run's protocol; empty if there are none.
fn collectives(rows: &[(&str, &JobSummary)], summary: &Summary) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let title = if jobs::has_jobs(rows) { jobs::WITH_JOBS } else { jobs::TITLE };
    titled(title, summary) + &jobs::job_table(rows)
}

/// The protocol of a run, and one of its groups.
type Row<'a> = (&'a str, &'a GroupSummary);

fn goodput_table(rows: &[Row<'_>]) -> String {
    let titles = &[
        "label",
        "protocol",
        "flows",
        "goodput Gbps",
        "fair share",
        "share",
        "goodput|min",
        "goodput|max",
        "Jain",
        "hop delay",
        "target",
    ];
    let mut table = new(titles, 2);
    for (run, group) in rows {
        let goodput = &group.goodput_gbps;
        let share = group.fair_share_gbps.filter(|share| *share > 0.0);
        let of_it = goodput.mean.zip(share).map(|(goodput, share)| goodput / share);
        table.add_row([
            label(&group.label),
            protocol(run, &group.protocol),
            group.flows.to_string(),
            rate(goodput.mean),
            rate(share),
            percent(of_it),
            rate(goodput.min),
            rate(goodput.max),
            number(goodput.jain),
            micros(group.hop_delay_us),
            micros(group.queue_target_us),
        ]);
    }
    drawn(&table)
}

fn message_table(rows: &[Row<'_>]) -> String {
    let titles = &[
        "label",
        "protocol",
        "messages",
        "unfinished",
        "offered Gbps",
        "goodput Gbps",
        "finished",
        "FCT p50",
        "FCT|p99",
        "slowdown p50",
        "slowdown|p99",
    ];
    let mut table = new(titles, 2);
    for (run, group) in rows {
        let fct = &group.fct;
        table.add_row([
            label(&group.label),
            protocol(run, &group.protocol),
            fct.count.to_string(),
            fct.unfinished.to_string(),
            offered(rate(group.offered_gbps), group.offered_gbps, group.asked_gbps),
            rate(group.goodput_gbps.total),
            finished(fct),
            bound(fct.is_lower_bound(500), micros(fct.p50_us)),
            tail((fct.count, 10), fct.is_lower_bound(10), micros(fct.p99_us)),
            bound(fct.is_slowdown_lower_bound(500), ratio(fct.slowdown.p50)),
            tail((fct.count, 10), fct.is_slowdown_lower_bound(10), ratio(fct.slowdown.p99)),
        ]);
    }
    drawn(&table)
}

/// One column per decade of sizes for which any row has messages.
fn size_table(rows: &[Row<'_>]) -> String {
    let sizes = |group: &GroupSummary| {
        group.fct.by_size.iter().map(|row| (row.min_bytes, row.below_bytes)).collect::<Vec<_>>()
    };
    let columns: BTreeSet<_> = rows.iter().flat_map(|(_, group)| sizes(group)).collect();
    let titles = columns.iter().map(|(min, below)| size_range(*min, *below));
    let titles: Vec<String> =
        ["label", "protocol"].map(str::to_owned).into_iter().chain(titles).collect();
    let mut table = new(&titles.iter().map(String::as_str).collect::<Vec<_>>(), 2);
    for (run, group) in rows {
        let cell = |min: u64| {
            let row = group.fct.by_size.iter().find(|row| row.min_bytes == min);
            row.map_or_else(
                || NONE.to_owned(),
                |BySize { fct, .. }| {
                    let p50 = bound(fct.is_slowdown_lower_bound(500), ratio(fct.slowdown.p50));
                    let p99 = ratio(fct.slowdown.p99);
                    let p99 = tail((fct.count, 10), fct.is_slowdown_lower_bound(10), p99);
                    format!("{p50} / {p99} ({})", finished(fct))
                },
            )
        };
        let names = [label(&group.label), protocol(run, &group.protocol)];
        table.add_row(names.into_iter().chain(columns.iter().map(|(min, _)| cell(*min))));
    }
    drawn(&table)
}

/// `1-10 KB`, `100 KB-1 MB`, `< 1 KB`, `>= 10 MB`.
pub(crate) fn size_range(min: u64, below: Option<u64>) -> String {
    let whole = |size: u64| match size {
        size if size >= 1_000_000 => (size / 1_000_000, "MB"),
        size if size >= 1_000 => (size / 1_000, "KB"),
        size => (size, "B"),
    };
    let (least, unit) = whole(min);
    match below.map(whole) {
        None => format!(">= {least} {unit}"),
        Some((most, unit)) if min == 0 => format!("< {most} {unit}"),
        Some((most, same)) if same == unit => format!("{least}-{most} {unit}"),
        Some((most, other)) => format!("{least} {unit}-{most} {other}"),
    }
}

/// Explains the signs of percentiles, if they occur.
fn explain_signs(text: &mut String) {
    let signs = signs(text, "too many messages of this class did not finish");
    text.push_str(&signs);
}

/// The pauses, drops and retransmissions of a run.
fn losses(summary: &Summary) -> String {
    let drops: u64 = summary.switches.iter().map(|switch| switch.drops).sum();
    let resent: u64 = summary.groups.iter().map(|group| group.retransmitted_bytes).sum();
    let pauses: u64 = summary.links.iter().map(|link| link.pfc_pauses).sum();
    let paused = if pauses > 0 { format!("{pauses} pauses and ") } else { String::new() };
    let credits: u64 = summary.links.iter().filter_map(|link| link.credit_drops).sum();
    let credits = if credits > 0 { format!(" and {credits} of credits") } else { String::new() };
    format!(
        "{paused}{drops} drops{credits} at switches since warm-up; {} of payload retransmitted \
         since the start",
        bytes(Some(resent as f64))
    )
}

/// Buffers of switches with hosts and of those without, under each protocol.
fn buffer_table(runs: &[(&str, &Summary)]) -> String {
    let mut table =
        new(&["switches", "protocol", "samples", "mean", "buffer|p99", "buffer|max", "drops"], 2);
    for tors in [true, false] {
        for (protocol, summary) in runs {
            let all = &summary.switches;
            let some: Vec<_> = all.iter().filter(|switch| (switch.hosts > 0) == tors).collect();
            if some.is_empty() {
                continue;
            }
            let worst = |value: fn(&SwitchSummary) -> Option<f64>| {
                some.iter().filter_map(|switch| value(switch)).reduce(f64::max)
            };
            let mean = some.iter().filter_map(|switch| switch.buffer_bytes.mean).sum::<f64>()
                / some.len() as f64;
            table.add_row([
                format!("{} {}", some.len(), if tors { "with hosts" } else { "without hosts" }),
                (*protocol).to_owned(),
                // All switches have the same number of samples.
                some[0].samples.to_string(),
                bytes(Some(mean)),
                tail((some[0].samples, 10), false, bytes(worst(|switch| switch.buffer_bytes.p99))),
                bytes(worst(|switch| switch.buffer_bytes.max)),
                some.iter().map(|switch| switch.drops).sum::<u64>().to_string(),
            ]);
        }
    }
    drawn(&table)
}

fn one_seed(summary: &Summary) -> String {
    format!("seed {}", summary.seed)
}

/// The heading: the scenario, its seeds, and the conditions of `runs`.
pub(crate) fn heading(summary: &Summary, seeds: &str, runs: &[(&str, &Summary)]) -> String {
    // Rounded to the picosecond, the resolution of scenarios.
    let ms = |s: f64| format!("{} ms", (s * 1e12).round() / 1e9);
    let (end, warmup) = (ms(summary.sim_seconds), ms(summary.warmup_seconds));
    let conditions = broken(&conditions(runs));
    let name = shown(&summary.name);
    format!("{name}, {seeds}: {end}, measured from {warmup}\n{conditions}\n")
}

/// Breaks text after semicolons into lines no wider than the terminal, or than [`WIDTH`] without
/// one. A longer part is also broken after parenthesised names.
fn broken(text: &str) -> String {
    let most = width().unwrap_or(WIDTH);
    let is_long = |part: &str| part.trim_end().chars().count() > most;
    let pieces = text.split_inclusive("; ").flat_map(|part| {
        let end = if is_long(part) { "), " } else { "; " };
        part.split_inclusive(end)
    });
    let mut lines: Vec<String> = Vec::new();
    for piece in pieces {
        match lines.last_mut() {
            Some(line) if !is_long(&format!("{line}{piece}")) => line.push_str(piece),
            _ => lines.push(piece.to_owned()),
        }
    }
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

fn flow_table(flows: &[FlowSummary]) -> String {
    let titles = &[
        "flow",
        "label",
        "from",
        "to",
        "protocol",
        "size",
        "goodput Gbps",
        "fair share",
        "FCT",
        "slowdown",
        "resent",
    ];
    let mut table = new(titles, 5);
    for flow in flows {
        table.add_row([
            flow.id.to_string(),
            label(&flow.label),
            shown(&flow.src),
            shown(&flow.dst),
            flow.protocol.clone(),
            flow.size_bytes.map_or_else(|| "inf".to_owned(), |size| bytes(Some(size as f64))),
            rate(flow.goodput_gbps),
            rate(flow.fair_share_gbps),
            micros(flow.fct_us),
            ratio(flow.slowdown),
            bytes(Some(flow.retransmitted_bytes as f64)),
        ]);
    }
    drawn(&table)
}

pub(crate) fn link_table(links: &[&LinkSummary]) -> String {
    let pauses = links.iter().any(|link| link.pfc_pauses > 0);
    let mut titles = vec![
        "from",
        "to",
        "Gbps",
        "used",
        "packets",
        "delay mean",
        "delay|p99",
        "delay|max",
        "queue mean",
        "queue|max",
        "drops",
        "marks",
    ];
    if pauses {
        titles.extend(["pauses", "paused"]);
    }
    let credits = links.iter().any(|link| link.credit_drops.is_some());
    if credits {
        titles.push("credits dropped");
    }
    let trims = links.iter().any(|link| link.trims.is_some());
    if trims {
        titles.push("trimmed");
    }
    let returns = links.iter().any(|link| link.returned.is_some());
    if returns {
        titles.push("returned");
    }
    let mut table = new(&titles, 2);
    for link in links {
        let mut row = vec![
            shown(&link.from),
            shown(&link.to),
            rate(Some(link.rate_gbps)),
            percent(link.utilization),
            link.packets.to_string(),
            micros(link.queue_delay_us.mean),
            tail((link.packets, 10), false, micros(link.queue_delay_us.p99)),
            micros(link.queue_delay_us.max),
            bytes(link.queue_bytes.mean),
            bytes(link.queue_bytes.max),
            link.drops.to_string(),
            link.ecn_marks.to_string(),
        ];
        if pauses {
            row.extend([link.pfc_pauses.to_string(), micros(link.paused_us)]);
        }
        if credits {
            row.push(link.credit_drops.map_or(NONE.to_owned(), |drops| drops.to_string()));
        }
        if trims {
            row.push(link.trims.map_or(NONE.to_owned(), |trims| trims.to_string()));
        }
        if returns {
            row.push(link.returned.map_or(NONE.to_owned(), |returned| returned.to_string()));
        }
        table.add_row(row);
    }
    drawn(&table)
}

/// The links that are among the busiest under any protocol, with one row per protocol.
fn compared_links(comparison: &Comparison) -> Grid {
    let mut ports: Vec<(&str, &str)> = Vec::new();
    for run in &comparison.runs {
        for link in busiest(&run.summary, LINKS_COMPARED) {
            if !ports.contains(&(&link.from, &link.to)) {
                ports.push((&link.from, &link.to));
            }
        }
    }
    ports.truncate(LINKS_COMPARED);
    let titles = &[
        "from",
        "to",
        "protocol",
        "used",
        "packets",
        "delay mean",
        "delay|p99",
        "delay|max",
        "queue max",
        "drops",
        "marks",
    ];
    let mut table = new(titles, 3);
    for (from, to) in ports {
        for run in &comparison.runs {
            let is_same = |link: &&LinkSummary| link.from == from && link.to == to;
            let Some(link) = run.summary.links.iter().find(is_same) else { continue };
            table.add_row([
                shown(from),
                shown(to),
                run.protocol.clone(),
                percent(link.utilization),
                link.packets.to_string(),
                micros(link.queue_delay_us.mean),
                tail((link.packets, 10), false, micros(link.queue_delay_us.p99)),
                micros(link.queue_delay_us.max),
                bytes(link.queue_bytes.max),
                link.drops.to_string(),
                link.ecn_marks.to_string(),
            ]);
        }
    }
    table
}

/// The groups of all runs, ordered by the first appearance of their label.
fn each(comparison: &Comparison) -> Vec<Row<'_>> {
    let runs = comparison.runs.iter();
    let all: Vec<Row<'_>> = runs
        .flat_map(|run| run.summary.groups.iter().map(|row| (run.protocol.as_str(), row)))
        .collect();
    let mut labels: Vec<&str> = Vec::new();
    for (_, row) in &all {
        if !labels.contains(&row.label.as_str()) {
            labels.push(&row.label);
        }
    }
    labels
        .iter()
        .flat_map(|label| all.iter().filter(move |(_, row)| row.label == *label).copied())
        .collect()
}

/// The busiest switch ports, busiest first. Ties are broken by the longer mean queueing delay.
fn busiest(summary: &Summary, count: usize) -> Vec<&LinkSummary> {
    let mut links: Vec<_> = summary.links.iter().filter(|link| !link.from_host).collect();
    // Rounded, so that a gap before the last packet does not affect the order.
    let per_mille = |link: &LinkSummary| (link.utilization.unwrap_or(0.0) * 1000.0).round() as u64;
    links.sort_by_key(|link| std::cmp::Reverse((per_mille(link), link.queue_delay_us.mean)));
    links.truncate(count);
    links
}

/// The switch ports with the most drops, in descending order; empty without drops.
fn dropping(summary: &Summary) -> Vec<&LinkSummary> {
    let mut links: Vec<_> =
        summary.links.iter().filter(|link| !link.from_host && link.drops > 0).collect();
    links.sort_by_key(|link| std::cmp::Reverse(link.drops));
    links.truncate(LINKS_SHOWN);
    links
}

/// The pauses of links under each protocol, and the `most` longest-paused ports of each; empty if
/// no switch pauses.
fn pauses(runs: &[(&str, &Summary)], most: usize) -> String {
    let Some((_, first)) = runs.iter().find(|(_, summary)| summary.pauses.is_some()) else {
        return String::new();
    };
    let mut totals =
        new(&["protocol", "pauses", "links paused", "paused, mean", "paused|longest"], 1);
    let titles = ["from", "to", "protocol", "Gbps", "used", "pauses", "paused", "of the time"];
    let mut ports = new(&titles, 3);
    let mut any = false;
    for (protocol, summary) in runs {
        let Some(pauses) = &summary.pauses else { continue };
        totals.add_row([
            (*protocol).to_owned(),
            pauses.pauses.to_string(),
            format!("{} of {}", pauses.paused_links, pauses.links),
            percent(pauses.share_mean),
            percent(pauses.share_max),
        ]);
        let measured_us = (summary.sim_seconds - summary.warmup_seconds) * 1e6;
        let mut links: Vec<_> = summary.links.iter().filter(|link| link.pfc_pauses > 0).collect();
        links.sort_by_key(|link| std::cmp::Reverse((link.paused_us, link.pfc_pauses)));
        for link in links.into_iter().take(most) {
            any = true;
            ports.add_row([
                shown(&link.from),
                shown(&link.to),
                (*protocol).to_owned(),
                rate(Some(link.rate_gbps)),
                percent(link.utilization),
                link.pfc_pauses.to_string(),
                micros(link.paused_us),
                percent(link.paused_us.map(|paused| paused.as_f64() / measured_us)),
            ]);
        }
    }
    let mut text = titled("Pauses (PFC) of links, and the share of the time", first);
    text.push_str(&drawn(&totals));
    if any {
        text.push_str(&titled("Most paused ports", first));
        text.push_str(&drawn(&ports));
    }
    text
}
