//! Queues of switch ports over time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_core::{Span, Time};
use tidegate_scenario::Plan;
use tidegate_sim::{Quantity, Sample};

use super::{End, Measure, RunOutput, round};
use crate::{Error, convert};

/// Time to drain a port's queue, at the end of each interval.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct QueueTrace {
    /// The node that sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// Rate of the port.
    pub rate_gbps: f64,
    /// Time to drain the queue, by interval.
    pub delay_us: Vec<f32>,
}

/// Samples queues.
pub(super) struct Queues {
    interval: Span,
    /// Bytes by port, one value per sample.
    bytes: BTreeMap<u64, Vec<f64>>,
}

impl Queues {
    pub(super) fn every(interval: Span) -> Queues {
        Queues { interval, bytes: BTreeMap::new() }
    }
}

impl Measure for Queues {
    fn samples_every(&self) -> Option<Span> {
        Some(self.interval)
    }

    fn sampled(&mut self, _plan: &Plan, _at: Time, samples: &[Sample]) -> Result<(), Error> {
        for sample in samples.iter().filter(|sample| sample.quantity == Quantity::QueueBytes) {
            self.bytes.entry(sample.entity).or_default().push(sample.value);
        }
        Ok(())
    }

    fn finish(self: Box<Self>, end: &End<'_>, output: &mut RunOutput) -> Result<(), Error> {
        let trace = |(port, bytes): (u64, Vec<f64>)| {
            let record = end.outcome.links.get(port as usize)?;
            let us = |bytes: f64| round(bytes * 8e6 / record.rate_bps as f64);
            let link = convert::link(end.plan, record);
            let delay_us = bytes.into_iter().map(us).collect();
            let (from, to, rate_gbps) = (link.from, link.to, link.rate_gbps);
            Some(QueueTrace { from, to, rate_gbps, delay_us })
        };
        let used = self.bytes.into_iter().filter(|(_, bytes)| bytes.iter().any(|&b| b > 0.0));
        output.seen.queues = used.filter_map(trace).collect();
        output.seen.interval_us = self.interval.as_us_f64();
        Ok(())
    }
}
