//! How much waits in switches.

use serde::Deserialize;

use super::Metric;
use super::delays::At;
use crate::observe::{Observations, Part};

/// The longest queue of a port in KB, from warm-up on.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct PeakQueue(At);

impl Metric for PeakQueue {
    const NAME: &'static str = "peak-queue";
    const NEEDS: &'static [Part] = &[Part::Links];

    fn value(&self, seen: &Observations) -> Option<f64> {
        Some(self.0.find(seen)?.queue_bytes.max? / 1e3)
    }
}

/// The 99th percentile over time of a port's queue in KB, from warm-up on.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct QueueP99(At);

impl Metric for QueueP99 {
    const NAME: &'static str = "queue-p99";
    const NEEDS: &'static [Part] = &[Part::Links];

    fn value(&self, seen: &Observations) -> Option<f64> {
        Some(self.0.find(seen)?.queue_bytes.p99? / 1e3)
    }
}

/// The 99th percentile over time of what a switch holds, in KB: the mean over those with hosts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BufferP99 {}

impl Metric for BufferP99 {
    const NAME: &'static str = "buffer-p99";
    const NEEDS: &'static [Part] = &[Part::Switches];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let racks = seen.switches.iter().filter(|switch| switch.hosts > 0);
        let held: Vec<f64> = racks.map(|rack| rack.buffer_bytes.p99).collect::<Option<_>>()?;
        (!held.is_empty()).then(|| held.iter().sum::<f64>() / held.len() as f64 / 1e3)
    }
}
