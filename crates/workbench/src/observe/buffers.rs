//! What the switches of racks hold over time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_core::fabric::Node;
use tidegate_core::{Span, Time};
use tidegate_scenario::Plan;
use tidegate_sim::{Quantity, Sample};

use super::{End, Left, Measure, Start, round};
use crate::Error;

/// They are looked at so often, as for the percentiles of a summary.
pub(crate) const EVERY: Span = Span::us(10);

/// What a switch with hosts had queued at all of its ports, every [`EVERY`] after warm-up.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct BufferTrace {
    pub(crate) switch: String,
    pub(crate) held_kb: Vec<f32>,
}

/// Samples buffers.
#[derive(Default)]
pub(super) struct Buffers {
    /// By direction of a link: the number among those with hosts of the switch that sends.
    racks: Vec<Option<usize>>,
    traces: Vec<BufferTrace>,
}

impl Measure for Buffers {
    fn samples_every(&self) -> Option<Span> {
        Some(EVERY)
    }

    fn begin(&mut self, start: &Start<'_>) -> Result<(), Error> {
        let fabric = &start.plan.fabric;
        let mut numbers: BTreeMap<u32, usize> = BTreeMap::new();
        for link in &fabric.links {
            if let (Node::Host(_), Node::Switch(rack)) | (Node::Switch(rack), Node::Host(_)) =
                (link.a, link.b)
            {
                numbers.entry(rack).or_insert(0);
            }
        }
        for (number, (&rack, place)) in numbers.iter_mut().enumerate() {
            *place = number;
            let switch = fabric.switches[rack as usize].name.clone();
            self.traces.push(BufferTrace { switch, held_kb: Vec::new() });
        }
        let rack = |end: Node| match end {
            Node::Switch(switch) => numbers.get(&switch).copied(),
            Node::Host(_) => None,
        };
        self.racks = fabric.links.iter().flat_map(|link| [rack(link.a), rack(link.b)]).collect();
        Ok(())
    }

    fn sampled(&mut self, plan: &Plan, at: Time, samples: &[Sample]) -> Result<(), Error> {
        if at < plan.warmup || at > plan.duration {
            return Ok(());
        }
        let mut held = vec![0.0; self.traces.len()];
        for sample in samples.iter().filter(|sample| sample.quantity == Quantity::QueueBytes) {
            if let Some(&Some(rack)) = self.racks.get(sample.entity as usize) {
                held[rack] += sample.value;
            }
        }
        for (trace, bytes) in self.traces.iter_mut().zip(held) {
            trace.held_kb.push(round(bytes / 1e3));
        }
        Ok(())
    }

    fn finish(self: Box<Self>, _end: &End<'_>, left: &mut Left) -> Result<(), Error> {
        left.seen.buffers = self.traces;
        Ok(())
    }
}
