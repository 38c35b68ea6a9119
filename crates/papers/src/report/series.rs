//! Samples of a run over time.

use std::collections::BTreeMap;
use std::path::Path;

use tidegate_results::{EntryOf, SeriesEntry};

use super::files::rows;
use super::flows::Flows;
use crate::plot::Points;
use tidegate_runs::Error;

/// Samples in order of time.
#[derive(Default)]
pub(crate) struct Series {
    /// By flow: its label, and (ms, goodput in Gbit/s).
    pub(crate) goodput: BTreeMap<u64, (String, Points)>,
    /// By flow that is shown one by one: (ms, window in KB).
    pub(crate) windows: BTreeMap<u64, Points>,
    /// By port: (ms, KB queued).
    pub(crate) queues: BTreeMap<(String, String), Points>,
    /// By port that was ever paused: (ms, microseconds of the interval paused).
    pub(crate) pauses: BTreeMap<(String, String), Points>,
}

impl Series {
    /// Samples of the run in a folder with these flows; `None` if the run was not sampled.
    pub(crate) fn read(folder: &Path, flows: &Flows) -> Result<Option<Series>, Error> {
        let mut series = Series::default();
        let is_shown = |id: &u64| flows.shown.binary_search_by_key(id, |flow| flow.id).is_ok();
        let found = rows(&folder.join("timeseries.parquet"), |row| {
            let Some(SeriesEntry { time_us, quantity, of, value: Some(value) }) =
                SeriesEntry::read(row)
            else {
                return;
            };
            let at = time_us * 1e-3;
            match (quantity.as_str(), of) {
                ("goodput_gbps", EntryOf::Flow(id)) => {
                    let label = || flows.labels.get(&id).cloned().unwrap_or_default();
                    let flow =
                        series.goodput.entry(id).or_insert_with(|| (label(), Points::default()));
                    flow.1.push((at, value));
                }
                ("window_bytes", EntryOf::Flow(id)) if is_shown(&id) => {
                    series.windows.entry(id).or_default().push((at, value * 1e-3));
                }
                ("queue_bytes", EntryOf::Link(from, to)) => {
                    series.queues.entry((from, to)).or_default().push((at, value * 1e-3));
                }
                ("paused_us", EntryOf::Link(from, to)) => {
                    series.pauses.entry((from, to)).or_default().push((at, value));
                }
                _ => {}
            }
        })?;
        Ok(found.then_some(series))
    }
}
