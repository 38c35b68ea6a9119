//! The table of collectives.

use tidegate_workbench::results::JobSummary;

use crate::format::{bytes, label, micros, number, protocol, tail};
use crate::grid::{drawn, new};

/// Title of the table.
pub(crate) const TITLE: &str = "Collectives (time of an iteration; algbw and busbw in Gbps)";

/// Formats one row per collective, with the compared protocol.
pub(crate) fn job_table(rows: &[(&str, &JobSummary)]) -> String {
    let titles = &[
        "label",
        "op",
        "protocol",
        "ranks",
        "size",
        "iterations",
        "completion",
        "measured",
        "iteration|mean",
        "iteration|p50",
        "iteration|p99",
        "iteration|max",
        "algbw",
        "busbw",
    ];
    let mut table = new(titles, 3);
    for (run, job) in rows {
        let iterations = match job.finished {
            finished if finished == job.iterations => finished.to_string(),
            finished => format!("{finished} of {}", job.iterations),
        };
        let times = &job.iteration_us;
        table.add_row([
            label(&job.label),
            job.op.clone(),
            protocol(run, &job.protocol),
            job.ranks.to_string(),
            bytes(Some(job.size_bytes as f64)),
            iterations,
            micros(job.completion_us),
            job.measured.to_string(),
            micros(times.mean),
            micros(times.p50),
            tail((u64::from(job.measured), 10), false, micros(times.p99)),
            micros(times.max),
            number(job.algbw_gbps),
            number(job.busbw_gbps),
        ]);
    }
    drawn(&table)
}
