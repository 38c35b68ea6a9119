//! How long messages take.

use serde::Deserialize;

use super::Metric;
use crate::observe::{Observations, Part};

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
