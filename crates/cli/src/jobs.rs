//! The table of collectives and jobs.

use tidegate_workbench::results::JobSummary;

use crate::format::{bytes, label, micros, number, percent, protocol, tail};
use crate::grid::{drawn, new};

/// Title of the table.
pub(crate) const TITLE: &str = "Collectives (time of an iteration; algbw and busbw in Gbps)";
/// Title of the table if it has jobs.
pub(crate) const WITH_JOBS: &str = "Collectives and jobs (time of an iteration; communication: \
                                    share of the ranks' time without computing; algbw and busbw \
                                    in Gbps)";

/// Whether one of the rows is a job whose operations come from a file.
pub(crate) fn has_jobs(rows: &[(&str, &JobSummary)]) -> bool {
    rows.iter().any(|(_, job)| job.op == "job")
}

/// Formats one row per collective or job, with the compared protocol.
pub(crate) fn job_table(rows: &[(&str, &JobSummary)]) -> String {
    let has_jobs = has_jobs(rows);
    let mut titles = vec![
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
    // Before the bandwidths, which jobs do not have.
    let place = titles.len() - 2;
    if has_jobs {
        titles.insert(place, "communication");
    }
    let mut table = new(&titles, 3);
    for (run, job) in rows {
        let iterations = match job.finished {
            finished if finished == job.iterations => finished.to_string(),
            finished => format!("{finished} of {}", job.iterations),
        };
        let times = &job.iteration_us;
        let mut cells = vec![
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
        ];
        if has_jobs {
            cells.insert(place, percent(job.communication));
        }
        table.add_row(cells);
    }
    drawn(&table)
}
