//! Runs under several seeds as tables for people: means, and how far those of all seeds may be.

use std::collections::BTreeSet;

use tidegate_workbench::results::Summary;
use tidegate_workbench::{Aggregate, Aggregated, Estimate, SeededRun};

use crate::format::{self, BOUND, NONE, digits};
use crate::jobs;
use crate::table::{drawn, heading, label, new, protocol, size_range, titled};

/// Stands before what is best beyond doubt.
const BEST: &str = "*";
const BY_SIZE: &str = "Slowdown by message size: 99th percentile";
/// What stands above the table of these.
pub(crate) const EXCHANGES: &str = "Requests of closed loops, to the end of the reply";

/// The tables; `seeds` names them: `1 to 5`.
pub(crate) fn tables(aggregate: &Aggregate, seeds: &str) -> String {
    let runs = &aggregate.runs;
    let firsts: Vec<(&str, &Summary)> =
        runs.iter().map(|run| (run.protocol.as_str(), &run.first)).collect();
    let Some((_, first)) = firsts.first() else { return String::new() };
    let count = aggregate.seeds.len();
    let mut text = heading(first, &format!("{count} seeds ({seeds})"), &firsts);
    let (messages, flows): (Vec<GroupRow<'_>>, Vec<GroupRow<'_>>) =
        groups(runs, count, Of::Flows).into_iter().partition(GroupRow::has_messages);
    if !flows.is_empty() {
        text.push_str(&titled("Goodput a flow", first));
        text.push_str(&flow_table(&[], &flows));
    }
    if !messages.is_empty() {
        text.push_str(&titled("Messages", first));
        text.push_str(&message_table(&[], &messages));
        text.push_str(&titled(BY_SIZE, first));
        text.push_str(&size_table(&messages));
    }
    for (title, of, table) in
        [(jobs::TITLE, Of::Jobs, job_table as Table), (EXCHANGES, Of::Exchanges, exchange_table)]
    {
        let rows = groups(runs, count, of);
        if !rows.is_empty() {
            text.push_str(&titled(title, first));
            text.push_str(&table(&[], &rows));
        }
    }
    text.push_str(&titled("Switches", first));
    text.push_str(&switch_table(runs, count));
    let explained = legend(&text, count);
    text.push_str(&explained);
    text
}

/// What the signs in `text` mean, where it is about several seeds.
pub(crate) fn legend(text: &str, seeds: usize) -> String {
    let mut said = String::new();
    if seeds > 1 {
        said.push_str(&format!(
            "±: half of the 95 % confidence interval over the seeds, by Student's t; seeds: how \
             many of the {seeds} have a value.\n"
        ));
    }
    if text.contains(&format!(" {BEST} ")) {
        said.push_str(&format!("{BEST}: the best; its interval is apart from each other's.\n"));
    }
    if text.contains(BOUND) {
        said.push_str(&format!(
            "{BOUND}: a lower bound: under some seed too many messages did not finish for the \
             percentile to be known, or a mean is of those that did.\n"
        ));
    }
    if said.is_empty() { said } else { format!("\n{said}") }
}

/// The groups of all runs, label by label in the order of their first appearance.
fn groups(runs: &[SeededRun], seeds: usize, of: Of) -> Vec<GroupRow<'_>> {
    let mut all: Vec<GroupRow<'_>> = Vec::new();
    for run in runs {
        all.extend(GroupRow::all(of, &run.metrics, &[], Some(&run.protocol), seeds));
    }
    let mut labels: Vec<&str> = Vec::new();
    for group in &all {
        if !labels.contains(&group.label) {
            labels.push(group.label);
        }
    }
    all.sort_by_key(|group| labels.iter().position(|label| *label == group.label));
    all
}

/// Draws rows below these titles.
pub(crate) type Table = fn(&[String], &[GroupRow<'_>]) -> String;

/// What has a row.
#[derive(Clone, Copy)]
pub(crate) enum Of {
    Flows,
    Jobs,
    Exchanges,
}

impl Of {
    /// A metric that all of these have, and nothing else has.
    const fn mark(self) -> &'static str {
        match self {
            Of::Flows => "retransmitted_bytes",
            Of::Jobs => "job_iterations",
            Of::Exchanges => "exchanges",
        }
    }
}

/// What has a label and a protocol, over all seeds: a row of a table.
pub(crate) struct GroupRow<'a> {
    /// What stands in the first columns.
    names: Vec<String>,
    metrics: &'a [Aggregated],
    label: &'a str,
    protocol: &'a str,
    seeds: usize,
    /// Of so many seeds there is such a row.
    n: usize,
}

impl<'a> GroupRow<'a> {
    /// The groups of these metrics, with `names` in front of label and protocol. The protocol under
    /// which they ran is told beside their own where that is another.
    pub(crate) fn all(
        of: Of,
        metrics: &'a [Aggregated],
        names: &[String],
        under: Option<&str>,
        seeds: usize,
    ) -> Vec<GroupRow<'a>> {
        let groups = metrics.iter().filter(|one| one.metric == of.mark());
        let row = |one: &'a Aggregated| {
            let own = one.protocol.as_str();
            let its = [label(&one.label), protocol(under.unwrap_or(own), own)];
            let names = names.iter().cloned().chain(its).collect();
            GroupRow { names, metrics, label: &one.label, protocol: own, seeds, n: one.n }
        };
        groups.map(row).collect()
    }

    /// Whether they are messages; else flows without end.
    pub(crate) fn has_messages(&self) -> bool {
        self.find("messages").is_some()
    }

    /// A metric of messages of all sizes.
    fn find(&self, metric: &str) -> Option<&'a Aggregated> {
        self.of_size(metric, None)
    }

    /// Of messages of at least that size, up to the next.
    fn of_size(&self, metric: &str, min_bytes: Option<u64>) -> Option<&'a Aggregated> {
        self.metrics.iter().find(|one| {
            (one.metric, one.min_bytes) == (metric, min_bytes)
                && (one.label.as_str(), one.protocol.as_str()) == (self.label, self.protocol)
        })
    }

    fn cell(&self, metric: &str) -> String {
        cell(self.find(metric), self.seeds)
    }
}

/// The titles in front, and then label, protocol and these.
fn titles<'a>(heads: &'a [String], rest: &[&'a str]) -> Vec<&'a str> {
    let heads = heads.iter().map(String::as_str).chain(["label", "protocol"]);
    heads.chain(rest.iter().copied()).collect()
}

/// Rows with these columns, a title and a metric each, behind how many seeds gave a value.
fn metric_table(
    heads: &[String],
    groups: &[GroupRow<'_>],
    columns: &[(&'static str, &str)],
) -> String {
    let rest: Vec<&str> = [("seeds", "")].iter().chain(columns).map(|(title, _)| *title).collect();
    let mut table = new(&titles(heads, &rest), heads.len() + 2);
    for group in groups {
        let cells = columns.iter().map(|(_, metric)| group.cell(metric));
        let names = group.names.iter().cloned();
        table.add_row(names.chain([group.n.to_string()]).chain(cells));
    }
    drawn(&table)
}

/// Flows without end; `heads` are the titles of the names in front.
pub(crate) fn flow_table(heads: &[String], groups: &[GroupRow<'_>]) -> String {
    let columns = [
        ("goodput Gbps", "goodput_mean_gbps"),
        ("min", "goodput_min_gbps"),
        ("Jain", "goodput_jain"),
        ("fair share", "fair_share_gbps"),
        ("hop delay", "hop_delay_us"),
    ];
    metric_table(heads, groups, &columns)
}

/// Collectives; `heads` are the titles of the names in front.
pub(crate) fn job_table(heads: &[String], groups: &[GroupRow<'_>]) -> String {
    let columns = [
        ("iterations", "job_iterations"),
        ("completion", "job_completion_us"),
        ("mean", "job_iteration_mean_us"),
        ("p99", "job_iteration_p99_us"),
        ("algbw", "job_algbw_gbps"),
        ("busbw", "job_busbw_gbps"),
    ];
    metric_table(heads, groups, &columns)
}

/// Closed loops; `heads` are the titles of the names in front.
pub(crate) fn exchange_table(heads: &[String], groups: &[GroupRow<'_>]) -> String {
    let columns = [
        ("requests", "exchanges"),
        ("mean", "exchange_mean_us"),
        ("p50", "exchange_p50_us"),
        ("p99", "exchange_p99_us"),
    ];
    metric_table(heads, groups, &columns)
}

/// Messages; `heads` are the titles of the names in front.
pub(crate) fn message_table(heads: &[String], groups: &[GroupRow<'_>]) -> String {
    let rest = [
        "seeds",
        "unfinished",
        "offered Gbps",
        "goodput Gbps",
        "FCT p50",
        "p99",
        "slowdown p50",
        "p99",
    ];
    let mut table = new(&titles(heads, &rest), heads.len() + 2);
    for group in groups {
        let sum = |metric| -> f64 {
            group.find(metric).map_or(0.0, |one| one.values.iter().flatten().sum())
        };
        let unfinished = format!("{} of {}", sum("unfinished"), sum("messages"));
        let metrics = [
            "offered_gbps",
            "goodput_total_gbps",
            "fct_p50_us",
            "fct_p99_us",
            "slowdown_p50",
            "slowdown_p99",
        ];
        let cells = metrics.map(|metric| group.cell(metric));
        let head = [group.n.to_string(), unfinished];
        table.add_row(group.names.iter().cloned().chain(head).chain(cells));
    }
    drawn(&table)
}

/// A column a decade of sizes, where any group has messages of it.
fn size_table(groups: &[GroupRow<'_>]) -> String {
    let metric = "size_slowdown_p99";
    let mut columns = BTreeSet::new();
    for one in groups.iter().flat_map(|group| group.metrics).filter(|one| one.metric == metric) {
        columns.extend(one.min_bytes.map(|min| (min, one.below_bytes)));
    }
    let sizes: Vec<String> = columns.iter().map(|(min, below)| size_range(*min, *below)).collect();
    let sizes: Vec<&str> = sizes.iter().map(String::as_str).collect();
    let mut table = new(&titles(&[], &sizes), 2);
    for group in groups {
        let cells =
            columns.iter().map(|(min, _)| cell(group.of_size(metric, Some(*min)), group.seeds));
        table.add_row(group.names.iter().cloned().chain(cells));
    }
    drawn(&table)
}

fn switch_table(runs: &[SeededRun], seeds: usize) -> String {
    let metrics = [
        ("busiest port", "utilization_max"),
        ("longest wait", "queue_delay_mean_us"),
        ("ToR buffer", "tor_buffer_mean_bytes"),
        ("max", "tor_buffer_max_bytes"),
        ("core buffer", "core_buffer_mean_bytes"),
        ("max", "core_buffer_max_bytes"),
        ("drops", "drops"),
        ("marks", "ecn_marks"),
    ];
    let is_known = |(_, metric): &(&str, &str)| {
        runs.iter().any(|run| run.metrics.iter().any(|one| one.metric == *metric))
    };
    let some: Vec<(&str, &str)> = metrics.into_iter().filter(is_known).collect();
    let titles: Vec<&str> =
        ["protocol", "seeds"].into_iter().chain(some.iter().map(|(title, _)| *title)).collect();
    let mut table = new(&titles, 1);
    for run in runs {
        let find = |metric| run.metrics.iter().find(|one| one.metric == metric);
        let cells = some.iter().map(|(_, metric)| cell(find(*metric), seeds));
        let head = [run.protocol.clone(), run.digests.len().to_string()];
        table.add_row(head.into_iter().chain(cells));
    }
    drawn(&table)
}

/// `* 19.8 ± 0.12`; with how many seeds gave a value where that were not all.
fn cell(of: Option<&Aggregated>, seeds: usize) -> String {
    let Some(one) = of else { return NONE.to_owned() };
    let (scale, unit) = match one.unit {
        "us" => format::time_unit(one.mean),
        "B" => format::size_unit(one.mean),
        _ => (1.0, ""),
    };
    let half = Estimate { mean: one.mean, half: one.half_width }.shown_half();
    let half = half.map_or_else(String::new, |half| format!(" ± {}", digits(half * scale)));
    let value = format!("{}{half} {unit}", digits(one.mean * scale));
    let value = format::bound(one.is_lower_bound, value.trim_end().to_owned());
    let best = if one.is_best { format!("{BEST} ") } else { String::new() };
    let some = if one.n < seeds { format!(" ({} seeds)", one.n) } else { String::new() };
    format!("{best}{value}{some}")
}
