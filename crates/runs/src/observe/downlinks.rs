//! Total queues of all ports towards each host.

use tidegate_core::Time;
use tidegate_scenario::Plan;
use tidegate_sim::Sample;

use super::buffers::{Means, queued};
use super::{EVERY, End, Measure, RunOutput, Start, round};
use crate::Error;

/// Quantiles of a distribution that are kept.
const STEPS: usize = 1000;

/// Samples the queues of downlinks every [`EVERY`] after warm-up.
#[derive(Default)]
pub(super) struct Downlinks {
    /// For each link direction: whether a switch sends to a host on it.
    counts: Vec<bool>,
    bytes: Vec<f32>,
    means: Option<Means>,
}

impl Downlinks {
    /// Downlinks as means over each interval.
    pub(super) fn of_means() -> Downlinks {
        Downlinks { means: Some(Means::default()), ..Downlinks::default() }
    }
}

impl Measure for Downlinks {
    fn samples_every(&self) -> Option<tidegate_core::Span> {
        Some(EVERY)
    }

    fn begin(&mut self, start: &Start<'_>) -> Result<(), Error> {
        let fabric = &start.plan.fabric;
        let is_end = |node| fabric.host_at(node).is_some();
        let down = |from, to| !is_end(from) && is_end(to);
        let links = fabric.links.iter();
        self.counts = links.flat_map(|link| [down(link.a, link.b), down(link.b, link.a)]).collect();
        Ok(())
    }

    fn sampled(&mut self, plan: &Plan, at: Time, samples: &[Sample]) -> Result<(), Error> {
        if at >= plan.warmup && at <= plan.duration {
            let queued = queued(&mut self.means, at, samples).into_iter();
            let down = queued.filter(|&(port, _)| self.counts.get(port as usize) == Some(&true));
            self.bytes.extend(down.map(|(_, bytes)| bytes as f32));
        }
        Ok(())
    }

    /// Stores the quantiles of the samples in steps of a thousandth.
    fn finish(mut self: Box<Self>, _end: &End<'_>, output: &mut RunOutput) -> Result<(), Error> {
        self.bytes.sort_by(f32::total_cmp);
        let at = |step: usize| {
            // Nearest rank.
            let rank = (step * self.bytes.len()).div_ceil(STEPS).max(1);
            self.bytes.get(rank - 1).map(|&bytes| round(f64::from(bytes) / 1e3))
        };
        let steps = (0..=STEPS).filter_map(at).collect();
        if self.means.is_none() {
            output.seen.downlinks_kb = steps;
        } else {
            let sum: f64 = self.bytes.iter().map(|&bytes| f64::from(bytes)).sum();
            output.seen.mean_downlinks_kb = steps;
            output.seen.mean_downlinks_kb.push(round(sum / self.bytes.len() as f64 / 1e3));
        }
        Ok(())
    }
}
