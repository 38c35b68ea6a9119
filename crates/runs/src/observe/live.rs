//! `live.json`: the state of a run while it goes on, for a page that follows it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use tidegate_core::{Span, Time};
use tidegate_results::{LIVE, Partial};
use tidegate_scenario::Plan;
use tidegate_sim::{FlowRecord, Quantity, Sample};

use super::{End, Measure, RunOutput};
use crate::Error;
use crate::machine::Pace;

/// Number of points of a run.
const POINTS: u64 = 200;
/// Least time between two versions of the file.
const PAUSE: Duration = Duration::from_secs(1);

/// Content of the file.
#[derive(Debug, Default, Serialize)]
struct Live {
    name: String,
    /// Simulated time so far, of the whole.
    share: f64,
    time_ms: Vec<f64>,
    /// Payload that arrived in each interval, in Gbit/s.
    goodput_gbps: Vec<f64>,
    /// Payload of the flows of each label that completed in the interval, in Gbit/s.
    completed_gbps: BTreeMap<String, Vec<f64>>,
    /// The longest queue of a switch port.
    queue_kb: Vec<f64>,
}

/// Writes the file at most once a second, and removes it at the end. A failure to write it is
/// ignored: the results do not depend on it.
pub struct LiveFile {
    path: PathBuf,
    pace: Pace,
    interval: Span,
    at: Time,
    live: Live,
    /// Bytes of completed flows since the last point, by label.
    completed: BTreeMap<String, u64>,
    /// All bytes of flows that ended, and of all flows at the last point.
    ended: u64,
    before: u64,
}

impl LiveFile {
    /// The file of a run in the folder of its results.
    pub fn new(folder: &Path, plan: &Plan) -> LiveFile {
        let labels = plan.labels.iter().map(|label| (label.clone(), Vec::new()));
        let completed_gbps = labels.collect();
        LiveFile {
            path: folder.join(LIVE),
            pace: Pace::every(PAUSE),
            interval: Span::ps((plan.duration.as_ps() / POINTS).max(1)),
            at: Time::ZERO,
            live: Live { name: plan.name.clone(), completed_gbps, ..Live::default() },
            completed: BTreeMap::new(),
            ended: 0,
            before: 0,
        }
    }

    fn write(&self) -> io::Result<()> {
        let mut file = Partial::new(self.path.clone())?;
        file.write_all(&serde_json::to_vec(&self.live)?)?;
        file.publish_unsynced()
    }
}

impl Measure for LiveFile {
    fn samples_every(&self) -> Option<Span> {
        Some(self.interval)
    }

    fn sampled(&mut self, plan: &Plan, at: Time, samples: &[Sample]) -> Result<(), Error> {
        let span_ps = at.since(self.at).as_ps() as f64;
        self.at = at;
        let of = |quantity| samples.iter().filter(move |sample| sample.quantity == quantity);
        let running: f64 = of(Quantity::DeliveredBytes).map(|sample| sample.value).sum();
        let queue = of(Quantity::QueueBytes).map(|sample| sample.value).fold(0.0, f64::max);
        let total = self.ended + running as u64;
        let arrived = total.saturating_sub(std::mem::replace(&mut self.before, total));
        self.live.share = at.as_s_f64() / plan.duration.as_s_f64();
        self.live.time_ms.push(at.as_us_f64() / 1e3);
        self.live.queue_kb.push(queue / 1e3);
        // 8 bits over a picosecond are 8000 Gbit/s.
        let gbps = |bytes: u64| bytes as f64 * 8e3 / span_ps;
        self.live.goodput_gbps.push(gbps(arrived));
        for (label, points) in &mut self.live.completed_gbps {
            points.push(gbps(self.completed.remove(label).unwrap_or(0)));
        }
        if self.pace.is_due() {
            let _ = self.write();
        }
        Ok(())
    }

    fn flow(&mut self, plan: &Plan, record: &FlowRecord) -> Result<(), Error> {
        self.ended += record.delivered_bytes;
        if record.completed.is_some() {
            let label = plan.labels[record.label as usize].clone();
            *self.completed.entry(label).or_default() += record.delivered_bytes;
        }
        Ok(())
    }

    fn finish(self: Box<Self>, _end: &End<'_>, _output: &mut RunOutput) -> Result<(), Error> {
        Ok(())
    }
}

impl Drop for LiveFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
