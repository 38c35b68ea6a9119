//! Statistics of queues.

use serde::{Deserialize, Serialize};

use crate::fixed::Fixed;

/// Statistics of a queue length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueBytes {
    /// Mean.
    pub mean: Option<f64>,
    /// 99th percentile, if recorded.
    pub p99: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
}

/// Statistics of a queueing delay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueDelay {
    /// Mean.
    pub mean: Option<Fixed>,
    /// 99th percentile, if recorded.
    pub p99: Option<Fixed>,
    /// Maximum.
    pub max: Option<Fixed>,
}
