//! Measured completion times of a workload, beside simulated ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tidegate_results::{FlowSummary, SIZE_BOUNDS, Summary};
use tidegate_scenario::files;
use tidegate_scenario::workload::COMPLETIONS;

use crate::Error;

/// Largest file that is read.
const MOST_BYTES: u64 = 4 << 30;
/// Name of the measured series.
const MEASURED: &str = "measured";

/// Percentiles of the flows of one size class.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Number of flows.
    pub count: u64,
    /// Number of those that did not finish; they count as longer than all others.
    pub unfinished: u64,
    /// Median of the completion time in microseconds; `None` if unfinished flows hide it.
    pub p50_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// Median of the slowdown.
    pub slowdown_p50: Option<f64>,
    /// 99th percentile of the slowdown.
    pub slowdown_p99: Option<f64>,
}

/// A size class: its limits, and the percentiles of each series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompletedClass {
    /// Smallest size.
    pub min_bytes: u64,
    /// Sizes are below; `None` in the last class.
    pub below_bytes: Option<u64>,
    /// Percentiles by series.
    pub series: Vec<Percentiles>,
}

/// Measured and simulated completion times by size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Completions {
    /// Names of the series: `measured`, then one for each folder of results.
    pub series: Vec<String>,
    /// Protocols of the series; none for the measured one.
    pub protocols: Vec<Option<String>>,
    /// Classes with flows.
    pub classes: Vec<CompletedClass>,
    /// Number of measured flows.
    pub measured: u64,
    /// Number of measured flows without an ideal completion time, because no run has a flow with
    /// the same size between the same hosts. They have no slowdown.
    pub without_ideal: u64,
}

/// Completion time in microseconds, if the flow finished, and the ideal one if it is known.
type Times = (Option<f64>, Option<f64>);

/// Compares the completion times that a workload in `folder` has measured with those of runs, by
/// size. A measured slowdown is the measured completion time over the ideal completion time that a
/// run computed for the same size between the same hosts.
///
/// # Errors
/// If the workload has no measured completion times, a folder has no readable results, or no
/// measured flow has a counterpart in the runs.
pub fn compare_completions(folder: &Path, runs: &[PathBuf]) -> Result<Completions, Error> {
    let measured = measured(folder)?;
    let mut ideals: BTreeMap<(u32, u32, u64), f64> = BTreeMap::new();
    let mut all = vec![vec![Vec::<Times>::new(); SIZE_BOUNDS.len() + 1]; runs.len() + 1];
    let (mut series, mut protocols) = (vec![MEASURED.to_owned()], vec![None]);
    for (run, classes) in runs.iter().zip(&mut all[1..]) {
        let summary = summary(run)?;
        let protocol = summary.protocols.join(" + ");
        let is_taken = series.contains(&protocol);
        let name = if is_taken { format!("{protocol}, {}", run.display()) } else { protocol };
        protocols.push(Some(summary.protocols.first().cloned().unwrap_or_default()));
        series.push(name);
        flows(run, |flow| {
            let Some(bytes) = flow.size_bytes.filter(|_| flow.measured) else { return };
            let ideal = flow.ideal_us.map(|us| us.as_f64());
            if let (Some(src), Some(dst), Some(ideal)) = (host(&flow.src), host(&flow.dst), ideal) {
                ideals.insert((src, dst, bytes), ideal);
            }
            classes[class(bytes)].push((flow.fct_us.map(|us| us.as_f64()), ideal));
        })?;
    }
    let (mut without_ideal, count) = (0, measured.len() as u64);
    for (src, dst, bytes, us) in measured {
        let ideal = ideals.get(&(src, dst, bytes)).copied();
        without_ideal += u64::from(ideal.is_none());
        all[0][class(bytes)].push((Some(us), ideal));
    }
    if count > 0 && without_ideal == count {
        let message = format!(
            "none of the {count} measured flows of {} has a counterpart of the same size between \
             the same hosts in the runs: name results of this workload's scenarios",
            folder.display()
        );
        return Err(Error::Usage { option: "workload compare", message });
    }
    let limits = |i: usize| {
        (i.checked_sub(1).map_or(0, |below| SIZE_BOUNDS[below]), SIZE_BOUNDS.get(i).copied())
    };
    let classes = (0..=SIZE_BOUNDS.len()).map(|i| {
        let (min_bytes, below_bytes) = limits(i);
        let series = all.iter_mut().map(|classes| percentiles(&mut classes[i])).collect();
        CompletedClass { min_bytes, below_bytes, series }
    });
    let classes = classes.filter(|of| of.series.iter().any(|series| series.count > 0)).collect();
    Ok(Completions { series, protocols, classes, measured: count, without_ideal })
}

fn class(bytes: u64) -> usize {
    SIZE_BOUNDS.partition_point(|bound| *bound <= bytes)
}

/// The number of a host in the fabric of a workload.
fn host(name: &str) -> Option<u32> {
    name.strip_prefix('h')?.parse().ok()
}

fn percentiles(times: &mut [Times]) -> Percentiles {
    let count = times.len();
    let at = |times: &mut Vec<f64>, share: f64| {
        times.sort_unstable_by(f64::total_cmp);
        let rank = (share * count as f64).ceil() as usize;
        times.get(rank.max(1) - 1).copied()
    };
    let mut fct: Vec<f64> = times.iter().filter_map(|(us, _)| *us).collect();
    let unfinished = (count - fct.len()) as u64;
    let has_all = times.iter().all(|(_, ideal)| ideal.is_some());
    let slow = times.iter().filter_map(|(us, ideal)| Some((*us)? / (*ideal)?));
    let mut slow: Vec<f64> = if has_all { slow.collect() } else { Vec::new() };
    Percentiles {
        count: count as u64,
        unfinished,
        p50_us: at(&mut fct, 0.5),
        p99_us: at(&mut fct, 0.99),
        slowdown_p50: at(&mut slow, 0.5),
        slowdown_p99: at(&mut slow, 0.99),
    }
}

/// The measured flows of a workload: sender, receiver, bytes, completion time in microseconds.
fn measured(folder: &Path) -> Result<Vec<(u32, u32, u64, f64)>, Error> {
    let path = folder.join("completions.csv");
    let wrong = |message: String| Error::Usage { option: "workload compare", message };
    if !path.exists() {
        return Err(wrong(format!(
            "{} has no completions.csv: name a folder that `tidegate workload from` has written \
             from a list of flows with a column of durations, completion times or ends",
            folder.display()
        )));
    }
    let bytes = files::read(&path, MOST_BYTES)
        .map_err(|error| wrong(format!("{}: {error}", path.display())))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut flows = Vec::new();
    for (number, line) in text.lines().enumerate().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let parsed = || match cells[..] {
            [_, src, dst, bytes, us] => {
                let us = us.parse().ok().filter(|us: &f64| us.is_finite() && *us >= 0.0)?;
                Some((host(src)?, host(dst)?, bytes.parse().ok()?, us))
            }
            _ => None,
        };
        flows.push(parsed().ok_or_else(|| {
            let place = format!("{}:{}", path.display(), number + 1);
            wrong(format!("{place}: found {line:?}, expected {COMPLETIONS}"))
        })?);
    }
    Ok(flows)
}

fn summary(folder: &Path) -> Result<Summary, Error> {
    let path = folder.join("summary.json");
    let wrong = |why: String| Error::Usage {
        option: "workload compare",
        message: format!(
            "{}: {why}; name a folder that `tidegate run DIR/replay.toml --out FOLDER` has written",
            path.display()
        ),
    };
    let bytes = files::read(&path, MOST_BYTES).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))
}

/// Calls `each` with the flows of a run.
fn flows(folder: &Path, mut each: impl FnMut(&FlowSummary)) -> Result<(), Error> {
    let path = folder.join("flows.parquet");
    let wrong = |why: String| Error::Usage {
        option: "workload compare",
        message: format!("{}: {why}", path.display()),
    };
    let file = files::open(&path, MOST_BYTES).map_err(|error| wrong(error.to_string()))?;
    files::parquet_rows(file, wrong, |_, row| {
        let flow = FlowSummary::read(row, 0.0)
            .ok_or_else(|| wrong("a row without the columns of a run".to_owned()))?;
        each(&flow);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_flows_count_as_longest() {
        let mut times: Vec<Times> = (1..=98).map(|i| (Some(f64::from(i)), Some(0.5))).collect();
        times.extend([(None, Some(0.5)); 2]);
        let of = percentiles(&mut times);
        assert_eq!((of.count, of.unfinished, of.p50_us, of.p99_us), (100, 2, Some(50.0), None));
        assert_eq!((of.slowdown_p50, of.slowdown_p99), (Some(100.0), None));
        times[0].1 = None;
        assert_eq!(percentiles(&mut times).slowdown_p50, None, "not all ideals are known");
        assert_eq!(percentiles(&mut []), Percentiles::default());
    }
}
