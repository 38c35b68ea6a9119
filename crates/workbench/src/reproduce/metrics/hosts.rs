//! What hosts get on average.

use serde::Deserialize;

use super::Metric;
use crate::observe::{Observations, Part};

/// Payload that arrives, in Gbit/s a host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arrived {}

impl Metric for Arrived {
    const NAME: &'static str = "arrived";
    const NEEDS: &'static [Part] = &[Part::Delivered];

    fn value(&self, seen: &Observations) -> Option<f64> {
        Some(seen.delivered?.arrived_gbps)
    }
}

/// Payload of messages that are completed, in Gbit/s a host: goodput as SIRD's authors count it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Completed {}

impl Metric for Completed {
    const NAME: &'static str = "completed";
    const NEEDS: &'static [Part] = &[Part::Delivered];

    fn value(&self, seen: &Observations) -> Option<f64> {
        Some(seen.delivered?.completed_gbps)
    }
}
