//! Queues and throughput of switch ports over time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_core::{Span, Time};
use tidegate_scenario::Plan;
use tidegate_sim::{Quantity, Sample};

use super::buffers::Means;
use super::{End, Measure, RunOutput, round};
use crate::{Error, convert};

/// A port, interval by interval from time 0.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PortTrace {
    /// The node that sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// Wire bytes queued at the end of each interval, without the packet in service.
    pub queue_kb: Vec<f32>,
    /// Mean of these bytes over the interval.
    pub mean_queue_kb: Vec<f32>,
    /// Rate at which it sent in the interval. A packet counts when its transmission starts.
    pub sent_gbps: Vec<f32>,
}

/// Samples ports.
pub(super) struct Ports {
    interval: Span,
    means: Means,
    at: Time,
    sent: BTreeMap<u64, f64>,
    traces: BTreeMap<u64, PortTrace>,
}

impl Ports {
    pub(super) fn every(interval: Span) -> Ports {
        let (sent, traces) = (BTreeMap::new(), BTreeMap::new());
        Ports { interval, means: Means::default(), at: Time::ZERO, sent, traces }
    }
}

impl Measure for Ports {
    fn samples_every(&self) -> Option<Span> {
        Some(self.interval)
    }

    fn sampled(&mut self, _plan: &Plan, at: Time, samples: &[Sample]) -> Result<(), Error> {
        let span_ps = at.since(self.at).as_ps() as f64;
        self.at = at;
        for (port, bytes) in self.means.take(at, samples) {
            self.traces.entry(port).or_default().mean_queue_kb.push(round(bytes / 1e3));
        }
        for sample in samples {
            let trace = self.traces.entry(sample.entity);
            match sample.quantity {
                Quantity::QueueBytes => {
                    trace.or_default().queue_kb.push(round(sample.value / 1e3));
                }
                // The sums are zero before the first sample.
                Quantity::QueueBytePs => {
                    let trace = trace.or_default();
                    if trace.mean_queue_kb.is_empty() {
                        trace.mean_queue_kb.push(round(sample.value / span_ps / 1e3));
                    }
                }
                Quantity::SentBytes => {
                    let before = self.sent.insert(sample.entity, sample.value).unwrap_or(0.0);
                    let gbps = (sample.value - before) * 8e3 / span_ps;
                    trace.or_default().sent_gbps.push(round(gbps));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>, end: &End<'_>, output: &mut RunOutput) -> Result<(), Error> {
        let named = |(port, trace): (u64, PortTrace)| {
            let link = convert::link(end.plan, end.outcome.links.get(port as usize)?);
            let (from, to) = (link.from, link.to);
            Some(PortTrace { from, to, ..trace })
        };
        let used = self.traces.into_iter();
        let used = used.filter(|(_, trace)| trace.sent_gbps.iter().any(|&gbps| gbps > 0.0));
        output.seen.ports = used.filter_map(named).collect();
        output.seen.interval_us = self.interval.as_us_f64();
        Ok(())
    }
}
