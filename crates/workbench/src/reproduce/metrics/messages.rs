//! How long messages take.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Metric;
use crate::observe::{self, Observations, Part, quantile};

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

/// The same of exchanges: from the submission of a request to the last byte of its reply.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exchange {
    /// Of requests with this label; of those without one unless set.
    #[serde(default)]
    label: String,
    share: f64,
}

impl Metric for Exchange {
    const NAME: &'static str = "exchange";
    const NEEDS: &'static [Part] = &[Part::Exchanges];

    fn value(&self, seen: &Observations) -> Option<f64> {
        seen.exchanges.get(&self.label)?.quantile(self.share)
    }
}

/// Messages by size, and a share of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sizes {
    /// With this label; without one unless set.
    #[serde(default)]
    label: String,
    #[serde(default)]
    min_bytes: u64,
    /// All are smaller; no bound unless set.
    below_bytes: Option<u64>,
    share: f64,
}

impl Sizes {
    fn of(&self, slowdowns: &BTreeMap<String, Vec<observe::Slowdown>>) -> Option<f64> {
        let below = self.below_bytes.unwrap_or(u64::MAX);
        quantile(slowdowns.get(&self.label)?, self.min_bytes, below, self.share)
    }
}

/// The slowdown that a share of the messages of some sizes did not exceed: completion time over
/// that in an empty network.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Slowdown(Sizes);

impl Metric for Slowdown {
    const NAME: &'static str = "slowdown";
    const NEEDS: &'static [Part] = &[Part::Slowdowns];

    fn value(&self, seen: &Observations) -> Option<f64> {
        self.0.of(&seen.slowdowns)
    }
}

/// The same as SIRD's authors take it: over propagation and payload alone, of messages that end in
/// the time that is measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct BareSlowdown(Sizes);

impl Metric for BareSlowdown {
    const NAME: &'static str = "bare-slowdown";
    const NEEDS: &'static [Part] = &[Part::BareSlowdowns];

    fn value(&self, seen: &Observations) -> Option<f64> {
        self.0.of(&seen.bare_slowdowns)
    }
}
