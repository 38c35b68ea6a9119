//! Tables of runs under several seeds: means and confidence intervals.

use std::collections::BTreeSet;

use tidegate_workbench::results::Summary;
use tidegate_workbench::{
    Aggregate, Aggregated, Better, Difference, Estimate, METRICS, SeededRun, limits,
};

use crate::format::{self, ANY, MAXIMUM, NONE, label, offered, protocol};
use crate::grid::{drawn, new, prose};
use crate::jobs;
use crate::table::{heading, size_range, titled};

/// Prefix of values that paired tests find significant.
const STAR: &str = "*";
const BY_SIZE: &str = "Slowdown by message size: 99th percentile";
/// Title of the table of closed loops.
pub(crate) const EXCHANGES: &str = "Requests of closed loops, to the end of the reply";

/// Formats the tables; `seeds` describes the seeds: `1 to 5`.
pub(crate) fn tables(aggregate: &Aggregate, seeds: &str) -> String {
    let runs = &aggregate.runs;
    let firsts: Vec<(&str, &Summary)> =
        runs.iter().map(|run| (run.protocol.as_str(), &run.first)).collect();
    let Some((_, first)) = firsts.first() else { return String::new() };
    let count = aggregate.seeds.len();
    let counted = if count == 1 { "1 seed" } else { &format!("{count} seeds") };
    let mut text = heading(first, &format!("{counted} ({seeds})"), &firsts);
    let views = [View::Means, View::Differences(aggregate.baseline.as_deref())];
    let titled = |title: &str| titled(title, first);
    let rows = all_tables(&[], usize::MAX, views, |of, view| groups(runs, count, of, view), titled);
    text.push_str(&rows);
    let explained = legend(&text, count, aggregate.baseline.as_deref());
    text.push_str(&explained);
    prose(&text)
}

/// The quantity that a table shows for each metric.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum View<'a> {
    /// The means over the seeds.
    Means,
    /// The differences from this protocol.
    Differences(Option<&'a str>),
}

impl View<'_> {
    /// The title of a table.
    fn titled(self, what: &str, seeds: usize) -> String {
        match self {
            View::Differences(Some(baseline)) => {
                format!("{what}: difference from {baseline} by seed, n = {seeds}")
            }
            _ => what.to_owned(),
        }
    }

    /// Whether the view shows a metric. Differences are shown only if the metric has a better
    /// direction.
    fn shows(self, metric: &str) -> bool {
        let is_directed = |(name, _, better, _): &(&str, &str, Better, &str)| {
            *name == metric && *better != Better::Neither
        };
        self == View::Means || METRICS.iter().any(is_directed)
    }
}

/// Formats all tables, each followed by its differences. `rows` returns the rows of a table, of
/// which at most `most` are shown.
pub(crate) fn all_tables<'a>(
    heads: &[String],
    most: usize,
    views: [View<'_>; 2],
    rows: impl Fn(Of, View<'_>) -> Vec<GroupRow<'a>>,
    titled: impl Fn(&str) -> String,
) -> String {
    let all: [(&str, Of, Table); 6] = [
        ("Goodput per flow", Of::Flows, flow_table),
        ("Messages", Of::Messages, message_table),
        (BY_SIZE, Of::Messages, size_table),
        (jobs::TITLE, Of::Jobs, job_table),
        (EXCHANGES, Of::Exchanges, exchange_table),
        ("Switches", Of::Switches, switch_table),
    ];
    let mut text = String::new();
    for ((title, of, table), view) in all.iter().flat_map(|one| views.map(|view| (one, view))) {
        let rows = rows(*of, view);
        let Some(seeds) = rows.first().map(|row| row.seeds) else { continue };
        text.push_str(&titled(&view.titled(title, seeds)));
        text.push_str(&table(heads, &rows[..rows.len().min(most)], view));
        if rows.len() > most {
            text.push_str(&format!("… and {} more rows: see --out\n", rows.len() - most));
        }
    }
    text
}

/// Explains the signs that occur in `text`.
pub(crate) fn legend(text: &str, seeds: usize, baseline: Option<&str>) -> String {
    let mut legend = String::new();
    if seeds > 1 {
        legend.push_str(&format!(
            "±: half of the 95 % confidence interval over the seeds, by Student's t; [a, b]: the \
             interval, if it is cut at the limits of the quantity; seeds: the number of seeds, out \
             of {seeds}, that have a value.\n"
        ));
    }
    if let Some(baseline) = baseline {
        legend.push_str(&match seeds {
            1 => format!("n = 1: differences from {baseline} have no interval and no star.\n"),
            _ => format!(
                "{STAR}: significant (5 %) by paired t-tests over the seeds, Holm-corrected \
                 within each table. In a table of means, the best protocol differs from every \
                 other; in a table of differences, the protocol differs from {baseline}.\n"
            ),
        });
    }
    legend.push_str(&format::signs(
        text,
        "with some seed, unfinished messages hide the percentile, or the mean covers finished \
         messages only",
    ));
    if legend.is_empty() { legend } else { format!("\n{legend}") }
}

/// The groups of all runs, ordered by the first appearance of their label.
fn groups<'a>(runs: &'a [SeededRun], seeds: usize, of: Of, view: View<'_>) -> Vec<GroupRow<'a>> {
    let mut all: Vec<GroupRow<'_>> = Vec::new();
    for run in runs {
        all.extend(GroupRow::all((of, view), &run.metrics, &[], Some(&run.protocol), seeds));
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

/// A function that formats rows; the first argument is the titles of the leading columns.
type Table = fn(&[String], &[GroupRow<'_>], View<'_>) -> String;

/// The subject of a row.
#[derive(Clone, Copy)]
pub(crate) enum Of {
    /// Unbounded flows.
    Flows,
    Messages,
    Jobs,
    Exchanges,
    /// The whole run.
    Switches,
}

impl Of {
    /// A metric that every row of this kind has and no other row has.
    const fn mark(self) -> &'static str {
        match self {
            Of::Flows | Of::Messages => "retransmitted_bytes",
            Of::Jobs => "job_iterations",
            Of::Exchanges => "exchanges",
            Of::Switches => "packet_hops",
        }
    }
}

/// A row of a table: one label and protocol over all seeds.
pub(crate) struct GroupRow<'a> {
    /// The first columns: leading names, then label and protocol, or only the protocol.
    names: Vec<String>,
    metrics: &'a [Aggregated],
    label: &'a str,
    protocol: &'a str,
    seeds: usize,
    /// The number of seeds that have this row.
    n: usize,
}

impl<'a> GroupRow<'a> {
    /// The groups for which a view has values, with `names` before label and protocol. If a group's
    /// own protocol differs from the protocol of the run (`under`), both are shown.
    pub(crate) fn all(
        (of, view): (Of, View<'_>),
        metrics: &'a [Aggregated],
        names: &[String],
        under: Option<&str>,
        seeds: usize,
    ) -> Vec<GroupRow<'a>> {
        let groups = metrics.iter().filter(|one| one.metric == of.mark());
        let row = |one: &'a Aggregated| {
            let own = one.protocol.as_str();
            let its = match of {
                Of::Switches => vec![under.unwrap_or(own).to_owned()],
                _ => vec![label(&one.label), protocol(under.unwrap_or(own), own)],
            };
            let names = names.iter().cloned().chain(its).collect();
            GroupRow { names, metrics, label: &one.label, protocol: own, seeds, n: one.n }
        };
        let is_its = |row: &GroupRow<'_>| match of {
            Of::Flows => row.find("messages").is_none(),
            Of::Messages => row.find("messages").is_some(),
            Of::Jobs | Of::Exchanges | Of::Switches => true,
        };
        let is_shown = |row: &GroupRow<'_>| view == View::Means || row.has_differences();
        groups.map(row).filter(|row| is_its(row) && is_shown(row)).collect()
    }

    /// Whether any metric of the row has a difference.
    fn has_differences(&self) -> bool {
        let is_its =
            |one: &&Aggregated| (&*one.label, &*one.protocol) == (self.label, self.protocol);
        self.metrics.iter().filter(is_its).any(|one| one.difference.is_some())
    }

    /// The metric over messages of all sizes.
    fn find(&self, metric: &str) -> Option<&'a Aggregated> {
        self.of_size(metric, None)
    }

    /// The metric over the size class that begins at `min_bytes`.
    fn of_size(&self, metric: &str, min_bytes: Option<u64>) -> Option<&'a Aggregated> {
        self.metrics.iter().find(|one| {
            (one.metric, one.min_bytes) == (metric, min_bytes)
                && (one.label.as_str(), one.protocol.as_str()) == (self.label, self.protocol)
        })
    }

    fn cell(&self, metric: &str, view: View<'_>) -> String {
        if (metric, view) == ("unfinished", View::Means) {
            return format!("{} of {}", self.sum("unfinished"), self.sum("messages"));
        }
        let cell = cell(self.find(metric), self.seeds, view);
        match (metric, view, self.find("configured_gbps")) {
            ("offered_gbps", View::Means, Some(configured)) => {
                offered(cell, self.find(metric).map(|one| one.mean), Some(configured.mean))
            }
            _ => cell,
        }
    }

    /// The sum of a metric over all seeds.
    fn sum(&self, metric: &str) -> f64 {
        self.find(metric).map_or(0.0, |one| one.values.iter().flatten().sum())
    }
}

/// Formats the given columns (title and metric) that occur in any row. Tables of means also have a
/// column with the number of seeds.
fn metric_table(
    heads: &[String],
    groups: &[GroupRow<'_>],
    view: View<'_>,
    columns: &[(&str, &str)],
) -> String {
    let is_known = |metric| groups.iter().any(|group| group.find(metric).is_some());
    let columns: Vec<_> =
        columns.iter().filter(|(_, metric)| view.shows(metric) && is_known(metric)).collect();
    let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    let cells = |group: &GroupRow<'_>| -> Vec<String> {
        columns.iter().map(|(_, metric)| group.cell(metric, view)).collect()
    };
    with_names(heads, groups, view, &titles, cells)
}

/// Formats a table of groups with their names in the first columns.
fn with_names(
    heads: &[String],
    groups: &[GroupRow<'_>],
    view: View<'_>,
    titles: &[&str],
    cells: impl Fn(&GroupRow<'_>) -> Vec<String>,
) -> String {
    let names = groups.first().map_or(0, |group| group.names.len());
    let own = ["label", "protocol"];
    let own = &own[own.len() - (names - heads.len()).min(own.len())..];
    // A varied protocol is in a leading column already.
    let is_protocol = |i| groups.iter().all(|group| group.names.last() == Some(&group.names[i]));
    let own = &own[..own.len() - usize::from((0..heads.len()).any(is_protocol))];
    let names = heads.len() + own.len();
    let seeds = (view == View::Means).then_some("seeds");
    let all = heads.iter().map(String::as_str).chain(own.iter().copied()).chain(seeds);
    let mut table = new(&all.chain(titles.iter().copied()).collect::<Vec<_>>(), names);
    for group in groups {
        let seeds = seeds.map(|_| group.n.to_string());
        table.add_row(group.names[..names].iter().cloned().chain(seeds).chain(cells(group)));
    }
    drawn(&table)
}

/// Unbounded flows; `heads` are the titles of the leading columns.
fn flow_table(heads: &[String], groups: &[GroupRow<'_>], view: View<'_>) -> String {
    let columns = [
        ("goodput Gbps", "goodput_mean_gbps"),
        ("goodput|min", "goodput_min_gbps"),
        ("Jain", "goodput_jain"),
        ("fair share", "fair_share_gbps"),
        ("hop delay", "hop_delay_us"),
    ];
    metric_table(heads, groups, view, &columns)
}

/// Collectives and jobs; `heads` are the titles of the leading columns.
fn job_table(heads: &[String], groups: &[GroupRow<'_>], view: View<'_>) -> String {
    let columns = [
        ("iterations", "job_iterations"),
        ("completion", "job_completion_us"),
        ("iteration|mean", "job_iteration_mean_us"),
        ("iteration|p99", "job_iteration_p99_us"),
        ("communication", "job_communication"),
        ("algbw", "job_algbw_gbps"),
        ("busbw", "job_busbw_gbps"),
    ];
    metric_table(heads, groups, view, &columns)
}

/// Closed loops; `heads` are the titles of the leading columns.
fn exchange_table(heads: &[String], groups: &[GroupRow<'_>], view: View<'_>) -> String {
    let columns = [
        ("requests", "exchanges"),
        ("time|mean", "exchange_mean_us"),
        ("time|p50", "exchange_p50_us"),
        ("time|p99", "exchange_p99_us"),
    ];
    metric_table(heads, groups, view, &columns)
}

/// Messages; `heads` are the titles of the leading columns.
fn message_table(heads: &[String], groups: &[GroupRow<'_>], view: View<'_>) -> String {
    let columns = [
        ("unfinished", "unfinished"),
        ("offered Gbps", "offered_gbps"),
        ("goodput Gbps", "goodput_total_gbps"),
        ("FCT p50", "fct_p50_us"),
        ("FCT|p99", "fct_p99_us"),
        ("slowdown p50", "slowdown_p50"),
        ("slowdown|p99", "slowdown_p99"),
    ];
    metric_table(heads, groups, view, &columns)
}

/// One column per decade of sizes for which any group has messages.
fn size_table(heads: &[String], groups: &[GroupRow<'_>], view: View<'_>) -> String {
    let metric = "size_slowdown_p99";
    let mut columns = BTreeSet::new();
    for one in groups.iter().flat_map(|group| group.metrics).filter(|one| one.metric == metric) {
        columns.extend(one.min_bytes.map(|min| (min, one.below_bytes)));
    }
    let sizes: Vec<String> = columns.iter().map(|(min, below)| size_range(*min, *below)).collect();
    let sizes: Vec<&str> = sizes.iter().map(String::as_str).collect();
    with_names(heads, groups, view, &sizes, |group| {
        let cell = |min: u64| cell(group.of_size(metric, Some(min)), group.seeds, view);
        columns.iter().map(|(min, _)| cell(*min)).collect()
    })
}

/// Metrics of the whole run, which has no label.
fn switch_table(heads: &[String], groups: &[GroupRow<'_>], view: View<'_>) -> String {
    let columns = [
        ("busiest port", "utilization_max"),
        ("longest wait", "queue_delay_mean_us"),
        ("ToR buffer", "tor_buffer_mean_bytes"),
        ("ToR buffer|max", "tor_buffer_max_bytes"),
        ("core buffer", "core_buffer_mean_bytes"),
        ("core buffer|max", "core_buffer_max_bytes"),
        ("drops", "drops"),
        ("marks", "ecn_marks"),
        ("pauses", "pauses"),
        ("links paused", "paused_links"),
        ("paused, mean", "paused_share_mean"),
        ("paused|longest", "paused_share_max"),
    ];
    metric_table(heads, groups, view, &columns)
}

/// Formats a value: `* 19.8 ± 0.12`, or `* +7.9 ± 0.2` as a difference from the baseline. If some
/// seeds have no value, the number of seeds follows.
pub(crate) fn cell(of: Option<&Aggregated>, seeds: usize, view: View<'_>) -> String {
    let Some(one) = of else { return NONE.to_owned() };
    let unit = format::unit(one.metric, one.unit, one.mean);
    let some = |n: usize| match n {
        n if n == seeds => String::new(),
        1 => " (1 seed)".to_owned(),
        n => format!(" ({n} seeds)"),
    };
    let star = |is: bool| if is { format!("{STAR} ") } else { String::new() };
    if view == View::Means {
        let estimate = Estimate { mean: one.mean, half: one.half_width };
        let value = format::estimate(estimate, limits(one.metric), unit, "");
        let value = match (one.is_lower_bound, one.is_maximum) {
            (false, true) => format!("{MAXIMUM} {value}"),
            (is_lower_bound, _) => format::bound(is_lower_bound, value),
        };
        return format!("{}{value}{}", star(one.is_best), some(one.n));
    }
    let Some(Difference { n, mean, half_width, is_significant, .. }) = one.difference else {
        return NONE.to_owned();
    };
    let sign = if mean > 0.0 { "+" } else { "" };
    let value = format::estimate(Estimate { mean, half: half_width }, ANY, unit, sign);
    format!("{}{value}{}", star(is_significant), some(n))
}
