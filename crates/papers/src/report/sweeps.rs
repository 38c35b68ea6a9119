//! Sections about means over seeds.

use std::fmt::Write;

use super::choice::{Choice, POINTS_MAX};
use super::data::Data;
use super::html::{Row, alone, note, section, table, warnings};
use super::markup::{NONE, escaped};
use super::means::{Entry, Means, Paired, text};
use super::page::{MAXIMUM, MAXIMUM_NOTE, WARNINGS_MAX};
use tidegate_runs::estimate::Estimate;
use tidegate_runs::numbers::digits;
use tidegate_runs::readings::limits;

/// Maximum number of means of all sweeps in a page.
const CELLS_MAX: usize = 100_000;
/// Maximum number of failures listed.
const FAILURES_MAX: usize = 20;

/// Sections about means: the number of runs, and an element in which the script draws and lists all
/// means.
pub(crate) fn sections(all: &[Means], data: &mut Data) -> String {
    let share = CELLS_MAX / all.len().max(1);
    let one = |means: &Means| {
        let points = means.points.len();
        let mut html = format!("<p>{}</p>\n", escaped(&overview(means)));
        if points > POINTS_MAX {
            html.push_str(&note(&format!("The page contains the first {POINTS_MAX} of them.")));
        }
        html.push_str(&warnings(
            means.failed.iter().map(|text| alone(text)),
            FAILURES_MAX,
            "more runs failed.",
        ));
        let warned = means.warnings.iter().map(|text| alone(text));
        html.push_str(&warnings(warned, WARNINGS_MAX, "more warnings, in sweep.json."));
        if means.has_runs {
            html.push_str(&over_seeds(means));
        }
        let (choice, left_out) = Choice::of(means, share);
        if left_out > 0 {
            let metrics = if left_out == 1 { "metric is" } else { "metrics are" };
            let text = format!("{left_out} {metrics} omitted here; sweep.parquet contains all.");
            html.push_str(&note(&text));
        }
        let number = data.sweeps.len();
        data.sweeps.push(choice);
        html.push_str(&format!("<div class=\"sweep\" data-sweep=\"{number}\"></div>\n"));
        let kind = if means.has_runs { "Over seeds" } else { "Sweep" };
        section(&format!("{kind}: {}", means.name), &html)
    };
    all.iter().map(one).collect()
}

/// `84 points under 4 seeds each: …`
fn overview(means: &Means) -> String {
    let counted = |count: usize, one: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {one}s"),
    };
    let points = counted(means.points.len(), if means.has_runs { "run" } else { "point" });
    let seeds = counted(means.seeds.len(), "seed");
    if means.seeds.len() == 1 {
        return format!(
            "{points} under {seeds}, n = 1: there are no intervals and no significance tests."
        );
    }
    let each = if means.points.len() == 1 { "" } else { " each" };
    let from = means.baseline.as_ref().map_or_else(String::new, |baseline| {
        format!(
            " Differences are from {baseline}, seed by seed (n = {} unless a cell shows another), \
             with their paired 95 % intervals; bold ones are significant (5 %) by paired t-tests, \
             Holm-corrected within the table.",
            means.seeds.len()
        )
    });
    format!(
        "{points} under {seeds}{each}. Plots show means over the seeds; bands and bars are \
         their 95 % confidence intervals by Student's t, cut at the metric's limits.{from}"
    )
}

/// A row for the flows of each label under each protocol: the most important means, and below them
/// the differences from the baseline.
fn over_seeds(means: &Means) -> String {
    let mut html = rows_over_seeds(means, shown_mean);
    if html.contains("<b>") {
        html.push_str(&note(
            "Bold: the best, if paired t-tests find its difference from every other significant.",
        ));
    }
    if html.contains('≥') {
        html.push_str(&note(
            "≥: a lower bound. Under some seed, too many messages are unfinished for the \
             percentile to be known, or a mean covers only the finished messages.",
        ));
    }
    if html.contains(&format!("{MAXIMUM} ")) {
        html.push_str(&note(MAXIMUM_NOTE));
    }
    if let Some(baseline) = &means.baseline {
        let _ = writeln!(html, "<h3>Difference from {} by seed</h3>", escaped(baseline));
        html.push_str(&rows_over_seeds(means, |one| shown_difference(one, means.seeds.len())));
    }
    html
}

/// A table with these columns; rows without any value are omitted.
fn rows_over_seeds(means: &Means, shown: impl Fn(&Entry) -> String) -> String {
    let columns = [
        ("goodput per flow Gbit/s", "goodput_mean_gbps"),
        ("Jain", "goodput_jain"),
        ("unfinished", "unfinished"),
        ("FCT p50 µs", "fct_p50_us"),
        ("p99 µs", "fct_p99_us"),
        ("slowdown p50", "slowdown_p50"),
        ("p99", "slowdown_p99"),
        ("p99.9", "slowdown_p999"),
    ];
    let mut titles = vec![("protocol", false), ("label", false), ("seeds", true)];
    titles.extend(columns.map(|(title, _)| (title, true)));
    let rows = means.points.iter().flat_map(|point| {
        // Every group of flows has exactly this metric, and nothing else has it.
        let groups = point.metrics.iter().filter(|one| one.metric == "retransmitted_bytes");
        groups.map(|group| {
            let cell = |(_, metric): (&str, &str)| {
                let its = |one: &&Entry| {
                    (one.metric.as_str(), one.min_bytes) == (metric, None)
                        && (&one.label, &one.protocol) == (&group.label, &group.protocol)
                };
                point.metrics.iter().find(its).map_or(NONE.to_owned(), &shown)
            };
            let under = point.values.first().map(text).unwrap_or_default();
            let protocol = match &group.protocol {
                own if *own == under || under.contains(" + ") => escaped(own),
                own => escaped(&format!("{own}, beside {under}")),
            };
            let mut cells = vec![protocol, escaped(&group.label), group.n.to_string()];
            cells.extend(columns.map(cell));
            let (protocol, label) = (Some(group.protocol.clone()), Some(group.label.clone()));
            Row { protocol, label, cells }
        })
    });
    table(&titles, rows.filter(|row| row.cells[3..].iter().any(|cell| cell != NONE)))
}

/// `≥ 56 ± 1.2`
fn shown_mean(one: &Entry) -> String {
    let sign = match (one.is_lower_bound, one.is_maximum) {
        (true, _) => "≥ ".to_owned(),
        (false, true) => format!("{MAXIMUM} "),
        (false, false) => String::new(),
    };
    let shown = format!("{sign}{}", one.estimate().within(limits(&one.metric)));
    if one.is_best { format!("<b>{shown}</b>") } else { shown }
}

/// `+107 ± 16`
fn shown_difference(one: &Entry, seeds: usize) -> String {
    let Some(Paired { n, mean, half_width, is_significant, .. }) = one.difference else {
        return NONE.to_owned();
    };
    // A value that is zero in all digits shown has no sign.
    let mean = if ["0", "-0"].contains(&&*digits(mean)) { 0.0 } else { mean };
    let sign = if mean > 0.0 { "+" } else { "" };
    let some = if n < seeds { format!(" (n = {n})") } else { String::new() };
    let shown = format!("{sign}{}{some}", Estimate { mean, half: half_width });
    if is_significant { format!("<b>{shown}</b>") } else { shown }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::report::means::PROTOCOL;
    use crate::report::means::tests::{entry, means};

    #[test]
    fn warnings_of_a_sweep_are_listed_and_counted() {
        let warnings = (1..=42).map(|i| format!("load 0.{i} <much>")).collect();
        let one = Means { warnings, ..means(&["load"], &[]) };
        let html = sections(&[one], &mut Data::default());
        for expected in
            ["load 0.1 &lt;much&gt;", "load 0.40 ", "And 2 more warnings, in sweep.json."]
        {
            assert!(html.contains(expected), "{expected} is not in {html}");
        }
        assert!(!html.contains("load 0.41"));
    }

    #[test]
    fn tables_show_means_intervals_and_the_best() {
        let mut best = entry("a", "swift", "slowdown_p99", 56.0);
        (best["is_best"], best["is_maximum"], best["half_width"]) =
            (json!(true), json!(true), json!(60));
        let mut bound = entry("a", "dctcp", "slowdown_p99", 70.0);
        bound["is_lower_bound"] = json!(true);
        let of = |protocol, one| {
            (json!([protocol]), vec![entry("a", protocol, "retransmitted_bytes", 0.0), one])
        };
        bound["difference"] = json!({ "n": 1, "mean": 14.0, "half_width": 0.5, "p": 1e-4,
            "p_holm": 2e-4, "is_significant": true, "values": [14.0, null] });
        let points = [of("swift", best), of("dctcp", bound)];
        let baseline = Some("swift".to_owned());
        let of = Means { has_runs: true, baseline, ..means(&[PROTOCOL], &points) };
        let html = over_seeds(&of);
        let (_, differences) = html.split_once("Difference from swift by seed").unwrap();
        assert!(differences.contains("<b>+14 ± 0.5 (n = 1)</b>"), "{differences}");
        assert!(!differences.contains(">swift<"), "{differences}");
        let value = serde_json::to_value(Choice::of(&of, 100).0).unwrap();
        assert_eq!(value["baseline"], "swift");
        let cells = value["metrics"].as_array().unwrap().iter().flat_map(|metric| {
            metric["cells"].as_array().unwrap().iter().map(|cell| cell[7].clone())
        });
        let known: Vec<Value> = cells.filter(|away| !away.is_null()).collect();
        assert_eq!(known, [json!([14.0, 0.5, 1, 2e-4, true])]);
        assert!(html.contains("<b>max 56 [1, 116]</b>") && html.contains("≥ 70 ± 1.5"), "{html}");
        assert!(html.contains("Bold: the best") && html.contains("≥: a lower bound"), "{html}");
    }
}
