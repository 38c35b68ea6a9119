//! Completion times as `summary.json` has them.

use crate::fixed::Fixed;
use crate::survival::ends_before;
use serde::{Deserialize, Serialize};

/// Completion times of messages (flows of a limited size).
///
/// Percentiles are of all of them, by the estimate of Kaplan and Meier: see
/// [`Curve`](crate::Curve).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FctSummary {
    /// Messages submitted after warm-up, finished or not.
    pub count: u64,
    /// Those of them that did not finish.
    pub unfinished: u64,
    /// Share of the messages up to which percentiles are known, 0 to 1: where the estimate ends. A
    /// percentile beyond is the longest completion time, below which it is not. Null of no
    /// messages; older results, whose percentiles are of those that finished, do not say.
    #[serde(default)]
    pub reach: Option<f64>,
    /// Mean of those that finished.
    pub mean_us: Option<Fixed>,
    /// Median.
    pub p50_us: Option<Fixed>,
    /// 99th percentile.
    pub p99_us: Option<Fixed>,
    /// 99.9th percentile.
    pub p999_us: Option<Fixed>,
    /// Completion time over that in an empty network.
    pub slowdown: Slowdown,
    /// The same by message size, where messages of that size exist.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub by_size: Vec<BySize>,
}

impl FctSummary {
    /// Messages that finished: so many are behind the mean.
    pub fn finished(&self) -> u64 {
        self.count - self.unfinished
    }

    /// Whether the percentile of completion times above which `per_mille` of all messages lie (10
    /// of a 99th) is hidden: the estimate ends before it, so that the one given is only a lower
    /// bound.
    pub fn hides(&self, per_mille: u64) -> bool {
        ends_before(self.reach.unwrap_or_else(|| self.share_finished()), per_mille)
    }

    /// The same of slowdowns.
    pub fn hides_slowdown(&self, per_mille: u64) -> bool {
        ends_before(self.slowdown.reach.unwrap_or_else(|| self.share_finished()), per_mille)
    }

    fn share_finished(&self) -> f64 {
        self.finished() as f64 / self.count.max(1) as f64
    }
}

/// Percentiles of the slowdown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slowdown {
    /// As that of completion times.
    #[serde(default)]
    pub reach: Option<f64>,
    /// Median.
    pub p50: Option<Fixed>,
    /// 99th percentile.
    pub p99: Option<Fixed>,
    /// 99.9th percentile.
    pub p999: Option<Fixed>,
}

/// Completion times of messages of `min_bytes` and more, but less than `below_bytes`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BySize {
    /// Smallest size.
    pub min_bytes: u64,
    /// All are smaller than this; null: no bound.
    pub below_bytes: Option<u64>,
    /// What they took.
    #[serde(flatten)]
    pub fct: FctSummary,
}
