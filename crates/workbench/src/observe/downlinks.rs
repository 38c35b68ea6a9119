//! What waits for hosts, at all of their switches' ports together.

use tidegate_core::Time;
use tidegate_core::fabric::Node;
use tidegate_scenario::Plan;
use tidegate_sim::{Quantity, Sample};

use super::{EVERY, End, Left, Measure, Start, round};
use crate::Error;

/// Parts of a distribution that are kept.
const STEPS: usize = 1000;

/// Samples queues of downlinks every [`EVERY`] after warm-up.
#[derive(Default)]
pub(super) struct Downlinks {
    /// By direction of a link: whether a switch sends to a host there.
    counts: Vec<bool>,
    bytes: Vec<f32>,
}

impl Measure for Downlinks {
    fn samples_every(&self) -> Option<tidegate_core::Span> {
        Some(EVERY)
    }

    fn begin(&mut self, start: &Start<'_>) -> Result<(), Error> {
        let down = |from, to| matches!((from, to), (Node::Switch(_), Node::Host(_)));
        let links = start.plan.fabric.links.iter();
        self.counts = links.flat_map(|link| [down(link.a, link.b), down(link.b, link.a)]).collect();
        Ok(())
    }

    fn sampled(&mut self, plan: &Plan, at: Time, samples: &[Sample]) -> Result<(), Error> {
        if at >= plan.warmup && at <= plan.duration {
            let counts = |sample: &&Sample| {
                sample.quantity == Quantity::QueueBytes
                    && self.counts.get(sample.entity as usize) == Some(&true)
            };
            self.bytes.extend(samples.iter().filter(counts).map(|sample| sample.value as f32));
        }
        Ok(())
    }

    /// Leaves what parts of the samples, each a thousandth more, do not exceed.
    fn finish(mut self: Box<Self>, _end: &End<'_>, left: &mut Left) -> Result<(), Error> {
        self.bytes.sort_by(f32::total_cmp);
        let at = |step: usize| {
            // Nearest rank.
            let rank = (step * self.bytes.len()).div_ceil(STEPS).max(1);
            self.bytes.get(rank - 1).map(|&bytes| round(f64::from(bytes) / 1e3))
        };
        left.seen.downlinks_kb = (0..=STEPS).filter_map(at).collect();
        Ok(())
    }
}
