//! Metrics of round trips, hop delays, windows and queues.

use serde::Deserialize;
use tidegate_results::LinkSummary;

use super::ports::Port;
use super::{Flows, Metric, Place, average, bins, flows, switches};
use tidegate_runs::observe::{Measurement, Observations, QueueTrace, Traced};

/// Mean over time and flows of a quantity that some intervals lack.
fn mean(of: Traced, of_flows: &Flows, seen: &Observations) -> Option<f64> {
    let bins = of_flows.bins(seen);
    let known = flows(seen, &of_flows.label)
        .flat_map(|flow| bins.clone().filter_map(move |bin| flow.at(of, bin)));
    average(&known.collect::<Vec<f32>>())
}

macro_rules! means {
    ($($(#[$doc:meta])* $name:ident, $text:literal, $needs:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize)]
        #[serde(transparent)]
        pub(crate) struct $name(Flows);

        impl Metric for $name {
            const NAME: &'static str = $text;
            const NEEDS: &'static [Measurement] = &[Measurement::$needs];

            fn value(&self, seen: &Observations) -> Option<f64> {
                mean(Traced::$name, &self.0, seen)
            }

            fn place(&self) -> Option<Place<'_>> {
                self.0.level(Traced::$name)
            }
        }
    )*};
}

means! {
    /// Mean round-trip time of some flows in microseconds.
    Rtt, "rtt", Traces;
    /// Mean of the largest hop delay of packets, in microseconds.
    Peak, "peak", Traces;
    /// The queueing delay that the protocol aims at, in microseconds.
    Target, "target", Traces;
    /// Mean window in KB.
    Window, "window", Windows;
}

/// Mean round-trip time of all packets in microseconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RttOfAll {}

impl Metric for RttOfAll {
    const NAME: &'static str = "rtt-of-all";
    const NEEDS: &'static [Measurement] = &[Measurement::RoundTrips];

    fn value(&self, seen: &Observations) -> Option<f64> {
        (seen.rtt_us.mean > 0.0).then_some(seen.rtt_us.mean)
    }
}

/// 99th percentile of the round-trip time of all packets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RttOfAllP99 {}

impl Metric for RttOfAllP99 {
    const NAME: &'static str = "rtt-of-all-p99";
    const NEEDS: &'static [Measurement] = &[Measurement::RoundTrips];

    fn value(&self, seen: &Observations) -> Option<f64> {
        seen.rtt_us.p99
    }
}

/// A switch port.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct At {
    link: Port,
}

impl At {
    pub(super) fn find<'a>(&self, seen: &'a Observations) -> Option<&'a LinkSummary> {
        seen.links.iter().find(|link| link.from == self.link.from && link.to == self.link.to)
    }
}

/// Utilisation of a port, in per cent.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Utilization(At);

impl Metric for Utilization {
    const NAME: &'static str = "utilization";
    const NEEDS: &'static [Measurement] = &[Measurement::Links];

    fn value(&self, seen: &Observations) -> Option<f64> {
        Some(100.0 * self.0.find(seen)?.utilization?)
    }
}

/// Mean queueing delay at a port in microseconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct QueueDelay(At);

impl Metric for QueueDelay {
    const NAME: &'static str = "queue-delay";
    const NEEDS: &'static [Measurement] = &[Measurement::Links];

    fn value(&self, seen: &Observations) -> Option<f64> {
        self.0.find(seen)?.queue_delay_us.mean.map(|us| us.as_f64())
    }

    fn place(&self) -> Option<Place<'_>> {
        Some(Place::Queue { link: &self.0.link })
    }
}

/// 99th percentile of the queueing delay at a port.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct QueueDelayP99(At);

impl Metric for QueueDelayP99 {
    const NAME: &'static str = "queue-delay-p99";
    const NEEDS: &'static [Measurement] = &[Measurement::Links];

    fn value(&self, seen: &Observations) -> Option<f64> {
        self.0.find(seen)?.queue_delay_us.p99.map(|us| us.as_f64())
    }
}

/// The longest 99th percentile of the queueing delay at a port between switches.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CoreDelayP99 {}

impl Metric for CoreDelayP99 {
    const NAME: &'static str = "core-delay-p99";
    const NEEDS: &'static [Measurement] = &[Measurement::Links];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let switches = switches(seen.links.iter().map(|link| &link.from));
        let core = seen.links.iter().filter(|link| switches.contains(link.to.as_str()));
        core.filter_map(|link| link.queue_delay_us.p99.map(|us| us.as_f64())).reduce(f64::max)
    }
}

/// Mean time to drain a port's queue, in microseconds, over a part of the time. A port that never
/// had a queue gives zero.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueueOverTime {
    link: Port,
    from_ms: Option<f64>,
    to_ms: Option<f64>,
}

impl Metric for QueueOverTime {
    const NAME: &'static str = "queue-over-time";
    const NEEDS: &'static [Measurement] = &[Measurement::Queues];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let bins = bins(seen, self.from_ms, self.to_ms);
        let is_meant =
            |queue: &&QueueTrace| queue.from == self.link.from && queue.to == self.link.to;
        let Some(queue) = seen.queues.iter().find(is_meant) else { return Some(0.0) };
        average(queue.delay_us.get(bins)?)
    }
}
