//! Properties of a figure's runs that follow from its plans.

use serde::{Deserialize, Serialize};

/// Properties of the plans of a figure's runs, as chosen and with the first seed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planned {
    /// Hashes of the plans and their sampling intervals; for models, their whole source.
    pub(super) hashes: Vec<String>,
    /// Lengths of the runs, in the order of their first run.
    pub(super) lengths: Vec<RunLength>,
}

/// Simulated length of runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunLength {
    /// Simulated time in microseconds, warm-up included; at most, if the run ends by itself.
    pub duration_us: f64,
    /// Warm-up in microseconds, which is not measured.
    pub warmup_us: f64,
    /// Names of the runs.
    pub runs: Vec<String>,
}
