//! Metrics of the trajectories of window and queue at a bottleneck, of models and of packets.

use serde::Deserialize;

use super::Metric;
use super::ports::Port;
use tidegate_fluid::{Signal, Windows};
use tidegate_runs::observe::{Measurement, Observations, Trajectory};

/// The trajectories of a run, and the time from which they are at rest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Resting {
    /// The port of the queue; models have a single queue.
    link: Option<Port>,
    /// Start of the rest in microseconds; it lasts to the end.
    rest_us: f64,
}

impl Resting {
    fn trajectories(&self, seen: &Observations) -> Vec<Trajectory> {
        seen.trajectories(self.link.as_ref().map(Port::ends))
    }

    /// Rest point of each trajectory: mean queue and window in KB.
    fn rests(&self, seen: &Observations) -> Option<Vec<(f64, f64)>> {
        let rests = self.trajectories(seen).into_iter().map(|one| self.rest(&one));
        rests.collect::<Option<Vec<_>>>().filter(|rests| !rests.is_empty())
    }

    fn rest(&self, one: &Trajectory) -> Option<(f64, f64)> {
        let skipped = ((self.rest_us - one.first_us) / one.every_us).max(0.0) as usize;
        let points = one.points.get(skipped..).filter(|points| !points.is_empty())?;
        let sum = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        Some((sum.0 / points.len() as f64, sum.1 / points.len() as f64))
    }
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count() as f64
}

/// The queue at rest in KB, mean over starts.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct RestQueue(Resting);

impl Metric for RestQueue {
    const NAME: &'static str = "rest-queue";
    const NEEDS: &'static [Measurement] = &[Measurement::Windows, Measurement::Queues];

    fn value(&self, seen: &Observations) -> Option<f64> {
        Some(mean(self.0.rests(seen)?.iter().map(|rest| rest.0)))
    }
}

/// The total window at rest in KB, mean over starts.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct RestWindow(Resting);

impl Metric for RestWindow {
    const NAME: &'static str = "rest-window";
    const NEEDS: &'static [Measurement] = &[Measurement::Windows, Measurement::Queues];

    fn value(&self, seen: &Observations) -> Option<f64> {
        Some(mean(self.0.rests(seen)?.iter().map(|rest| rest.1)))
    }
}

/// Range of the queues at rest over the starts of a run, in KB.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct RestSpread(Resting);

impl Metric for RestSpread {
    const NAME: &'static str = "rest-spread";
    const NEEDS: &'static [Measurement] = &[Measurement::Windows, Measurement::Queues];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let rests = self.0.rests(seen)?;
        let queues = rests.iter().map(|rest| rest.0);
        Some(queues.clone().fold(0.0, f64::max) - queues.fold(f64::INFINITY, f64::min))
    }
}

/// Microseconds until the window has covered a part of its distance to rest, mean over starts.
/// Starts at rest are omitted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decay {
    link: Option<Port>,
    rest_us: f64,
    part: f64,
}

impl Metric for Decay {
    const NAME: &'static str = "decay";
    const NEEDS: &'static [Measurement] = &[Measurement::Windows, Measurement::Queues];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let resting = Resting { link: self.link.clone(), rest_us: self.rest_us };
        let mut times = Vec::new();
        for one in resting.trajectories(seen) {
            let (_, rest) = resting.rest(&one)?;
            let way = (one.points.first()?.1 - rest).abs();
            if way < 0.01 * rest {
                continue;
            }
            let left: Vec<f64> =
                one.points.iter().map(|point| (point.1 - rest).abs() / way).collect();
            let i = left.iter().position(|left| *left <= 1.0 - self.part)?;
            // Linear interpolation between two points.
            let behind = match i.checked_sub(1) {
                Some(before) => (1.0 - self.part - left[i]) / (left[before] - left[i]),
                None => 0.0,
            };
            times.push(one.first_us + (i as f64 - behind) * one.every_us);
        }
        (!times.is_empty()).then(|| mean(times.into_iter()))
    }
}

/// Percentage of starts from which the link falls idle (the window falls below a BDP without a
/// queue), among those from which it could stay busy.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IdleStarts {}

impl Metric for IdleStarts {
    const NAME: &'static str = "idle-starts";
    const NEEDS: &'static [Measurement] = &[];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let followed = seen.model.as_ref()?;
        let bdp_kb = followed.model.link.bdp_kb();
        let could = |one: &&Trajectory| one.points.first().is_some_and(|start| start.1 >= bdp_kb);
        let is_idle = |&(queue, window): &(f64, f64)| queue <= 0.0 && window < 0.999 * bdp_kb;
        let starts: Vec<_> = followed.trajectories.iter().filter(could).collect();
        let idle = starts.iter().filter(|one| one.points.iter().any(is_idle)).count();
        (!starts.is_empty()).then(|| 100.0 * idle as f64 / starts.len() as f64)
    }
}

/// The factor by which a model divides its window.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reaction {
    /// Queue in BDPs.
    queue_bdp: f64,
    /// Growth of the queue, as a share of the link's rate.
    growth: f64,
}

impl Metric for Reaction {
    const NAME: &'static str = "reaction";
    const NEEDS: &'static [Measurement] = &[];

    fn value(&self, seen: &Observations) -> Option<f64> {
        Some(divided_by(&seen.model.as_ref()?.model, self.queue_bdp, self.growth))
    }
}

/// The divisor of a model's window while the link is fully used: with a queue of `queue_bdp` BDPs
/// that grows by a share of the link's rate.
pub(crate) fn divided_by(model: &Windows, queue_bdp: f64, growth: f64) -> f64 {
    let (link, rate) = (model.link, model.link.rate());
    let signal = Signal { queue_kb: queue_bdp * link.bdp_kb(), growth: growth * rate, sent: rate };
    model.law.division(link, signal)
}
