//! Buffer occupancy of switches over time.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tidegate_core::fabric::Node;
use tidegate_core::{Span, Time};
use tidegate_scenario::Plan;
use tidegate_sim::{Quantity, Sample};

use super::{End, Measure, RunOutput, Start, round};
use crate::Error;

/// Sampling interval, as for the percentiles of a summary.
pub const EVERY: Span = Span::us(10);

/// Bytes queued at all ports of a switch, every [`EVERY`] after warm-up.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BufferTrace {
    /// The switch.
    pub switch: String,
    /// Queued bytes in KB, by interval.
    pub held_kb: Vec<f32>,
}

/// Samples buffers.
#[derive(Default)]
pub(super) struct Buffers {
    /// For each link direction: index of the sending switch among the sampled ones, if it is one.
    sampled: Vec<Option<usize>>,
    traces: Vec<BufferTrace>,
    means: Option<Means>,
    /// Samples the switches without hosts, in place of the ToR switches.
    of_core: bool,
}

impl Buffers {
    /// Buffers as means over each interval.
    pub(super) fn of_means() -> Buffers {
        Buffers { means: Some(Means::default()), ..Buffers::default() }
    }

    /// Buffers of the switches without hosts.
    pub(super) fn of_core() -> Buffers {
        Buffers { of_core: true, ..Buffers::default() }
    }
}

/// Converts integrals of queues over time to means over the intervals between samples.
#[derive(Default)]
pub(super) struct Means {
    at: Time,
    /// Integrals at the last sample, in byte picoseconds, by port.
    before: BTreeMap<u64, f64>,
}

impl Means {
    /// Mean queues of ports in bytes since the last sample; empty for the first sample.
    pub(super) fn take(&mut self, at: Time, samples: &[Sample]) -> Vec<(u64, f64)> {
        let span = at.since(self.at).as_ps() as f64;
        self.at = at;
        let integrals = samples.iter().filter(|of| of.quantity == Quantity::QueueBytePs);
        let mean = |sample: &Sample| {
            let before = self.before.insert(sample.entity, sample.value)?;
            Some((sample.entity, (sample.value - before) / span))
        };
        integrals.filter_map(mean).collect()
    }
}

/// Queues of ports in bytes: at the sample, or as means since the last sample.
pub(super) fn queued(means: &mut Option<Means>, at: Time, samples: &[Sample]) -> Vec<(u64, f64)> {
    if let Some(means) = means {
        return means.take(at, samples);
    }
    let queues = samples.iter().filter(|sample| sample.quantity == Quantity::QueueBytes);
    queues.map(|sample| (sample.entity, sample.value)).collect()
}

impl Measure for Buffers {
    fn samples_every(&self) -> Option<Span> {
        Some(EVERY)
    }

    fn begin(&mut self, start: &Start<'_>) -> Result<(), Error> {
        let fabric = &start.plan.fabric;
        let access = fabric.links.iter().filter_map(|link| fabric.access(link));
        let racks: BTreeSet<u32> = access.map(|(_, rack)| rack).collect();
        let all = 0..fabric.switches.len() as u32;
        let sampled = all.filter(|switch| racks.contains(switch) != self.of_core);
        let mut numbers: BTreeMap<u32, usize> = BTreeMap::new();
        for (number, switch) in sampled.enumerate() {
            numbers.insert(switch, number);
            let switch = fabric.switches[switch as usize].name.clone();
            self.traces.push(BufferTrace { switch, held_kb: Vec::new() });
        }
        let number = |end: Node| match end {
            Node::Switch(switch) => numbers.get(&switch).copied(),
            Node::Host(_) => None,
        };
        let ends = fabric.links.iter().flat_map(|link| [link.a, link.b]);
        self.sampled = ends.map(number).collect();
        Ok(())
    }

    fn sampled(&mut self, plan: &Plan, at: Time, samples: &[Sample]) -> Result<(), Error> {
        if at < plan.warmup || at > plan.duration {
            return Ok(());
        }
        let queued = queued(&mut self.means, at, samples);
        // The first sample ends no interval.
        if self.means.is_some() && queued.is_empty() {
            return Ok(());
        }
        let mut held = vec![0.0; self.traces.len()];
        for (port, bytes) in queued {
            if let Some(&Some(number)) = self.sampled.get(port as usize) {
                held[number] += bytes;
            }
        }
        for (trace, bytes) in self.traces.iter_mut().zip(held) {
            trace.held_kb.push(round(bytes / 1e3));
        }
        Ok(())
    }

    fn finish(self: Box<Self>, _end: &End<'_>, output: &mut RunOutput) -> Result<(), Error> {
        match self.means {
            None if self.of_core => output.seen.core_buffers = self.traces,
            None => output.seen.buffers = self.traces,
            Some(_) => output.seen.mean_buffers = self.traces,
        }
        Ok(())
    }
}
