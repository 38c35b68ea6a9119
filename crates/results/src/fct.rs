//! Completion times in `summary.json`.

use crate::fixed::Fixed;
use crate::survival::ends_before;
use serde::{Deserialize, Serialize};

/// Completion times of messages (flows of a limited size).
///
/// Percentiles include unfinished messages, by the estimate of Kaplan and Meier: see
/// [`Curve`](crate::Curve).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FctSummary {
    /// Messages submitted after warm-up, finished or not.
    pub count: u64,
    /// Number of these that did not finish.
    pub unfinished: u64,
    /// Share of messages, 0 to 1, at which the estimate ends. A percentile beyond it is a lower
    /// bound. Null without messages. Missing in older results, whose percentiles include only
    /// finished messages.
    #[serde(default)]
    pub reach: Option<f64>,
    /// Mean of the finished messages.
    pub mean_us: Option<Fixed>,
    /// Median.
    pub p50_us: Option<Fixed>,
    /// 99th percentile.
    pub p99_us: Option<Fixed>,
    /// 99.9th percentile.
    pub p999_us: Option<Fixed>,
    /// Completion time over the ideal completion time.
    pub slowdown: Slowdown,
    /// Completion times by message size, for sizes that occur.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub by_size: Vec<BySize>,
}

impl FctSummary {
    /// Returns the number of finished messages, over which the mean is taken.
    pub fn finished(&self) -> u64 {
        self.count - self.unfinished
    }

    /// Whether a percentile of completion times is only a lower bound, because the estimate ends
    /// before it. `per_mille` of all messages lie above the percentile: 10 for the 99th.
    pub fn is_lower_bound(&self, per_mille: u64) -> bool {
        ends_before(self.reach.unwrap_or_else(|| self.share_finished()), per_mille)
    }

    /// Whether a percentile of slowdowns is only a lower bound.
    pub fn is_slowdown_lower_bound(&self, per_mille: u64) -> bool {
        ends_before(self.slowdown.reach.unwrap_or_else(|| self.share_finished()), per_mille)
    }

    fn share_finished(&self) -> f64 {
        self.finished() as f64 / self.count.max(1) as f64
    }
}

/// Whether a percentile of so few values is their maximum. `per_mille` of all values lie above the
/// percentile: 10 for the 99th, which is the maximum of up to 99 values.
pub fn is_maximum(count: u64, per_mille: u64) -> bool {
    (1..1000).contains(&(count.saturating_mul(per_mille)))
}

/// Percentiles of the slowdown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slowdown {
    /// Share of messages at which the estimate ends, as for completion times.
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
    /// Smallest size of the group.
    pub min_bytes: u64,
    /// Exclusive upper bound of sizes; null: no bound.
    pub below_bytes: Option<u64>,
    /// Completion times of the group.
    #[serde(flatten)]
    pub fct: FctSummary,
}
