//! How long messages take.

use serde::Deserialize;

use super::Metric;
use crate::observe::{Observations, Part, quantile};

/// The completion time in microseconds that a share of the messages did not exceed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Message {
    /// Of messages with this label; of those without one unless set.
    #[serde(default)]
    label: String,
    share: f64,
}

impl Metric for Message {
    const NAME: &'static str = "message";
    const NEEDS: &'static [Part] = &[Part::Messages];

    fn value(&self, seen: &Observations) -> Option<f64> {
        seen.messages.get(&self.label)?.quantile(self.share)
    }
}

/// The slowdown that a share of the messages of some sizes did not exceed: completion time over
/// that in an empty network.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Slowdown {
    /// Of messages with this label; of those without one unless set.
    #[serde(default)]
    label: String,
    #[serde(default)]
    min_bytes: u64,
    /// All are smaller; no bound unless set.
    below_bytes: Option<u64>,
    share: f64,
}

impl Metric for Slowdown {
    const NAME: &'static str = "slowdown";
    const NEEDS: &'static [Part] = &[Part::Slowdowns];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let below = self.below_bytes.unwrap_or(u64::MAX);
        quantile(seen.slowdowns.get(&self.label)?, self.min_bytes, below, self.share)
    }
}
