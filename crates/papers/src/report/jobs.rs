//! Collectives: iteration times.

use tidegate_results::{Fixed, JobSummary};

use super::charts::{axis, lines};
use super::configurations::Configuration;
use super::data::Data;
use super::html::{Row, figures, note, section, table};
use super::markup::{NONE, escaped};
use super::read::Run;
use crate::plot::{Line, Plot, Points};
use tidegate_runs::numbers::with_unit;

/// Maximum number of collectives drawn; the others appear only in the table.
const DRAWN_MAX: usize = 12;
/// Minimum number of iterations for a line.
const ITERATIONS_MIN: usize = 2;

/// The section about collectives; empty if there are none.
pub(crate) fn jobs(runs: &[Run], drawn: &[Configuration<'_>], data: &mut Data) -> String {
    if runs.iter().all(|run| run.summary.jobs.is_empty()) {
        return String::new();
    }
    let mut html = table_of(runs);
    let mut plots = plots(drawn);
    let more = plots.len().saturating_sub(DRAWN_MAX);
    plots.truncate(DRAWN_MAX);
    html.push_str(&figures(data, plots.into_iter().map(|plot| (None, plot))));
    if more > 0 {
        html.push_str(&note(&format!("{more} more collectives appear only in the table.")));
    }
    section("Collectives", &html)
}

/// A row for every collective of every run.
fn table_of(runs: &[Run]) -> String {
    let titles = [
        ("run", false),
        ("label", false),
        ("op", false),
        ("ranks", true),
        ("size MB", true),
        ("iterations", true),
        ("completion µs", true),
        ("measured", true),
        ("iteration mean µs", true),
        ("p50 µs", true),
        ("p99 µs", true),
        ("max µs", true),
        ("communication", true),
        ("algbw Gbit/s", true),
        ("busbw Gbit/s", true),
    ];
    let number = |value: Option<f64>| match value {
        Some(_) => with_unit(value, ""),
        None => NONE.to_owned(),
    };
    let fixed = |value: Option<Fixed>| number(value.map(Fixed::as_f64));
    let rows = runs.iter().flat_map(|run| {
        run.summary.jobs.iter().map(|job| {
            let iterations = match job.finished {
                finished if finished == job.iterations => finished.to_string(),
                finished => format!("{finished} of {}", job.iterations),
            };
            let times = &job.iteration_us;
            let cells = vec![
                escaped(&run.title),
                escaped(&job.label),
                escaped(&job.op),
                job.ranks.to_string(),
                number(Some(job.size_bytes as f64 / 1e6)),
                iterations,
                fixed(job.completion_us),
                job.measured.to_string(),
                fixed(times.mean),
                fixed(times.p50),
                fixed(times.p99),
                fixed(times.max),
                number(job.communication),
                number(job.algbw_gbps),
                number(job.busbw_gbps),
            ];
            let (protocol, label) = (Some(job.protocol.clone()), Some(job.label.clone()));
            Row { protocol, label, cells }
        })
    });
    table(&titles, rows)
}

/// Name of a collective and its index in the scenario: equal keys denote the same collective.
type Key<'a> = (usize, &'a str, &'a str);

fn keys<'a>(run: &'a Run) -> impl Iterator<Item = (Key<'a>, &'a JobSummary)> {
    let jobs = run.summary.jobs.iter().enumerate();
    jobs.map(|(place, job)| ((place, job.label.as_str(), job.op.as_str()), job))
}

/// Iteration times: a plot per collective, with a line for every configuration.
fn plots(all: &[Configuration<'_>]) -> Vec<Plot> {
    let mut known: Vec<Key<'_>> = Vec::new();
    for one in all {
        for (key, job) in keys(one.run()) {
            if !known.contains(&key) && job.iterations_us.len() >= ITERATIONS_MIN {
                known.push(key);
            }
        }
    }
    known.sort_unstable();
    let plot = |key: Key<'_>| {
        let (_, label, op) = key;
        let name = if label.is_empty() { op.to_owned() } else { format!("{label} ({op})") };
        Plot {
            title: format!("Time of iterations, {name}"),
            x: axis("iteration", false),
            y: axis("time (µs)", false),
            lines: lines(all, |one| Line {
                points: keys(one.run())
                    .find(|(own, _)| *own == key)
                    .map_or(Points::default(), |(_, job)| points(job)),
                label: Some(label.to_owned()),
                ..Line::default()
            }),
            ..Plot::default()
        }
    };
    known.into_iter().map(plot).collect()
}

/// Finished iterations, numbered from 1.
fn points(job: &JobSummary) -> Points {
    let times = (1..).zip(&job.iterations_us);
    Points(
        times.filter_map(|(number, time)| Some((f64::from(number), (*time)?.as_f64()))).collect(),
    )
}
