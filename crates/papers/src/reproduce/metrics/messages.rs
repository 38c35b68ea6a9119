//! Metrics of completion times and slowdowns.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Metric, Place};
use tidegate_runs::observe::{self, Measurement, Observations, quantile, sorted};

/// Quantile of the completion times of messages, in microseconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Message {
    /// Label; by default, messages without a label.
    #[serde(default)]
    label: String,
    share: f64,
}

impl Metric for Message {
    const NAME: &'static str = "message";
    const NEEDS: &'static [Measurement] = &[Measurement::Messages];

    fn value(&self, seen: &Observations) -> Option<f64> {
        seen.messages.get(&self.label)?.quantile(self.share)
    }

    fn place(&self) -> Option<Place<'_>> {
        Some(Place::Quantile { label: &self.label, share: self.share })
    }
}

/// Mean completion time in microseconds of the finished messages with some labels.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MeanMessage {
    /// Labels; by default, messages without a label.
    #[serde(default = "none")]
    labels: Vec<String>,
}

fn none() -> Vec<String> {
    vec![String::new()]
}

impl Metric for MeanMessage {
    const NAME: &'static str = "mean-message";
    const NEEDS: &'static [Measurement] = &[Measurement::Messages];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let all = self.labels.iter().map(|label| seen.messages.get(label));
        let all = all.collect::<Option<Vec<_>>>()?;
        let finished = |of: &&observe::Messages| (of.count - of.unfinished) as f64;
        let count: f64 = all.iter().map(finished).sum();
        let sum = all.iter().map(|of| Some(of.mean_us? * finished(of))).sum::<Option<f64>>()?;
        Some(sum / count)
    }
}

/// Completion times of exchanges: from the submission of a request to the last byte of its reply.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exchange {
    /// Label of the requests; by default, requests without a label.
    #[serde(default)]
    label: String,
    share: f64,
}

impl Metric for Exchange {
    const NAME: &'static str = "exchange";
    const NEEDS: &'static [Measurement] = &[Measurement::Exchanges];

    fn value(&self, seen: &Observations) -> Option<f64> {
        seen.exchanges.get(&self.label)?.quantile(self.share)
    }

    fn place(&self) -> Option<Place<'_>> {
        Some(Place::Quantile { label: &self.label, share: self.share })
    }
}

/// Messages by size, and a quantile of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sizes {
    /// Label; by default, messages without a label.
    #[serde(default)]
    label: String,
    #[serde(default)]
    min_bytes: u64,
    /// Upper bound of sizes, exclusive; by default unbounded.
    below_bytes: Option<u64>,
    /// Share of the quantile; by default the mean is taken.
    share: Option<f64>,
    /// Interpolates linearly between the two nearest ranks, instead of taking the nearest rank.
    #[serde(default)]
    interpolated: bool,
}

impl Sizes {
    fn of(&self, slowdowns: &BTreeMap<String, Vec<observe::Slowdown>>) -> Option<f64> {
        let (slowdowns, min) = (slowdowns.get(&self.label)?, self.min_bytes);
        let below = self.below_bytes.unwrap_or(u64::MAX);
        let Some(share) = self.share else {
            let all = sorted(slowdowns, min, below);
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            return Some(mean).filter(|mean| mean.is_finite());
        };
        if !self.interpolated {
            return quantile(slowdowns, min, below, share);
        }
        let all = sorted(slowdowns, min, below);
        let place = share * all.len().checked_sub(1)? as f64;
        let [low, high] = [place.floor(), place.ceil()].map(|rank| all[rank as usize]);
        Some(low + (place - place.floor()) * (high - low)).filter(|times| times.is_finite())
    }

    fn place(&self, bare: bool) -> Option<Place<'_>> {
        let sizes = (self.min_bytes, self.below_bytes);
        Some(Place::Sizes { bare, label: &self.label, share: self.share?, sizes })
    }
}

/// Quantile of slowdowns of messages of some sizes: completion time over the ideal one.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Slowdown(Sizes);

impl Metric for Slowdown {
    const NAME: &'static str = "slowdown";
    const NEEDS: &'static [Measurement] = &[Measurement::Slowdowns];
    const LIMIT: f64 = 1.0;

    fn value(&self, seen: &Observations) -> Option<f64> {
        self.0.of(&seen.slowdowns)
    }

    fn place(&self) -> Option<Place<'_>> {
        self.0.place(false)
    }
}

/// Slowdown by the rule of SIRD's authors: over propagation and payload only, of messages that end
/// in the measured window.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct BareSlowdown(Sizes);

impl Metric for BareSlowdown {
    const NAME: &'static str = "bare-slowdown";
    const NEEDS: &'static [Measurement] = &[Measurement::BareSlowdowns];
    const LIMIT: f64 = 1.0;

    fn value(&self, seen: &Observations) -> Option<f64> {
        self.0.of(&seen.bare_slowdowns)
    }

    fn place(&self) -> Option<Place<'_>> {
        self.0.place(true)
    }
}

/// The same as `acked-slowdown`, of messages over the paths with the longest propagation.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct FarSlowdown(Sizes);

impl Metric for FarSlowdown {
    const NAME: &'static str = "far-slowdown";
    const NEEDS: &'static [Measurement] = &[Measurement::FarSlowdowns];

    fn value(&self, seen: &Observations) -> Option<f64> {
        self.0.of(&seen.far_slowdowns)
    }
}

/// Slowdown by the rule of PowerTCP's simulator: until the sender has the last acknowledgement,
/// over a base RTT plus the message with its headers; of all messages.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct AckedSlowdown(Sizes);

impl Metric for AckedSlowdown {
    const NAME: &'static str = "acked-slowdown";
    const NEEDS: &'static [Measurement] = &[Measurement::AckedSlowdowns];

    fn value(&self, seen: &Observations) -> Option<f64> {
        self.0.of(&seen.acked_slowdowns)
    }
}
