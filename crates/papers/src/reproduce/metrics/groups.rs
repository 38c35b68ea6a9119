//! Metrics of all flows with a label, over the whole run.

use serde::Deserialize;
use tidegate_results::GroupSummary;

use super::Metric;
use tidegate_runs::observe::{Measurement, Observations};

/// Goodput of the slowest flow after warm-up, in Gbit/s.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Slowest {
    /// Label; by default, flows without a label.
    #[serde(default)]
    label: String,
}

impl Metric for Slowest {
    const NAME: &'static str = "slowest";
    const NEEDS: &'static [Measurement] = &[Measurement::Summary];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let least = |of: &GroupSummary| of.goodput_gbps.min;
        labelled(seen, &self.label)?.filter_map(least).min_by(f64::total_cmp)
    }
}

/// Mean goodput of the flows after warm-up, in Gbit/s, without traces.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MeanGoodput {
    /// Label; by default, flows without a label.
    #[serde(default)]
    label: String,
}

impl Metric for MeanGoodput {
    const NAME: &'static str = "mean-goodput";
    const NEEDS: &'static [Measurement] = &[Measurement::Summary];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let of = labelled(seen, &self.label)?;
        let of: Option<Vec<(f64, f64)>> =
            of.map(|of| Some((of.goodput_gbps.mean?, of.flows as f64))).collect();
        let of = of?;
        let flows: f64 = of.iter().map(|(_, flows)| flows).sum();
        Some(of.iter().map(|(mean, flows)| mean * flows).sum::<f64>() / flows)
    }
}

/// Payload that senders sent again, over the payload that arrived, without warm-up.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resent {
    /// Label; by default, flows without a label.
    #[serde(default)]
    label: String,
}

impl Metric for Resent {
    const NAME: &'static str = "resent";
    const NEEDS: &'static [Measurement] = &[Measurement::Summary];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let sum = |bytes: fn(&GroupSummary) -> u64| {
            Some(labelled(seen, &self.label)?.map(bytes).sum::<u64>() as f64)
        };
        let arrived = sum(|of| of.delivered_bytes)?;
        Some(sum(|of| of.retransmitted_bytes)? / arrived).filter(|share| share.is_finite())
    }
}

/// The groups with that label, one per protocol; `None` if there are none.
fn labelled<'a>(
    seen: &'a Observations,
    label: &str,
) -> Option<impl Iterator<Item = &'a GroupSummary> + use<'a>> {
    let groups = seen.summary.as_ref()?.groups.iter().filter(|of| of.label == label);
    let groups: Vec<&GroupSummary> = groups.collect();
    (!groups.is_empty()).then(|| groups.into_iter())
}
