//! Metrics: values computed from observations, for claims and plots.
//!
//! A metric is a type whose fields are its parameters, named as in the registry; other parameters
//! are refused. To add a metric, add such a type and its name in the list below.

pub(super) mod buffers;
mod circuits;
mod delays;
mod groups;
mod hosts;
mod messages;
pub(super) mod phase;
mod ports;
mod ramps;
mod rates;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ops::Range;

use serde::Deserialize;

pub(super) use ports::Port;
use tidegate_runs::observe::{FlowTrace, Measurement, Observations, Traced};

/// A value computed from the observations of a run.
trait Metric {
    /// Name in the registry.
    const NAME: &'static str;
    /// Measurements that it needs.
    const NEEDS: &'static [Measurement];
    /// The value that no run can pass.
    const LIMIT: f64 = 0.0;
    /// The value; `None` if the run has none.
    fn value(&self, seen: &Observations) -> Option<f64>;
    /// The place of the value in charts; `None` if only a sweep or a table can show it.
    fn place(&self) -> Option<Place<'_>> {
        None
    }
}

/// The place of a metric's value in a chart of its run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place<'a> {
    /// The quantile of the distribution that the metric needs: of messages with a label, or of
    /// buffers.
    Quantile { label: &'a str, share: f64 },
    /// The quantile of slowdowns of the messages from one size up to another.
    Sizes { bare: bool, label: &'a str, share: f64, sizes: (u64, Option<u64>) },
    /// The level of flows with a label in periods, each with start and end in milliseconds and the
    /// factor of the value. Without a start or end, the period is that of the line.
    Level { of: Traced, label: &'a str, periods: Vec<(Option<f64>, Option<f64>, f64)> },
    /// The level of the queueing delay at a port.
    Queue { link: &'a Port },
    /// The total rate of ports.
    Ports,
}

macro_rules! metrics {
    ($($module:ident::$name:ident,)*) => {
        /// A metric with its parameters.
        #[derive(Clone, Debug)]
        pub(crate) enum AnyMetric {
            $($name($module::$name),)*
        }

        impl AnyMetric {
            const NAMES: &[&str] = &[$($module::$name::NAME,)*];

            /// The metric of that name with these parameters.
            ///
            /// When there is no such metric, or a parameter is invalid. The message lists the
            /// allowed names.
            pub(crate) fn new(name: &str, parameters: toml::Table) -> Result<AnyMetric, String> {
                $(if name == $module::$name::NAME {
                    let parsed = parameters.try_into().map(AnyMetric::$name);
                    return parsed.map_err(|error| format!("metric {name}: {}", error.message()));
                })*
                let known = AnyMetric::NAMES.join(", ");
                Err(format!("unknown metric `{name}`; expected one of {known}"))
            }

            /// Measurements that it needs.
            pub(crate) fn needs(&self) -> &'static [Measurement] {
                match self { $(AnyMetric::$name(_) => $module::$name::NEEDS,)* }
            }

            /// The place of the value in charts.
            pub(crate) fn place(&self) -> Option<Place<'_>> {
                match self { $(AnyMetric::$name(metric) => metric.place(),)* }
            }

            /// The value that no run can pass.
            pub(crate) fn limit(&self) -> f64 {
                match self { $(AnyMetric::$name(_) => $module::$name::LIMIT,)* }
            }

            /// The value of one run; `None` if the run has none.
            fn value(&self, seen: &Observations) -> Option<f64> {
                match self { $(AnyMetric::$name(metric) => metric.value(seen),)* }
            }
        }
    };
}

metrics! {
    rates::Goodput,
    rates::Carried,
    rates::Worst,
    rates::Jain,
    rates::Deviation,
    rates::Dip,
    rates::PortRates,
    ramps::Convergence,
    ramps::ConvergenceRtts,
    ramps::Settling,
    ramps::Recovery,
    delays::Rtt,
    delays::Peak,
    delays::Target,
    delays::Window,
    delays::RttOfAll,
    delays::RttOfAllP99,
    delays::Utilization,
    delays::QueueDelay,
    delays::QueueDelayP99,
    delays::CoreDelayP99,
    delays::QueueOverTime,
    buffers::PeakQueue,
    buffers::QueueP99,
    buffers::Buffer,
    buffers::CoreBuffer,
    buffers::MeanBuffer,
    buffers::Downlink,
    buffers::AveragedBuffer,
    buffers::AveragedDownlink,
    buffers::MeanQueue,
    circuits::DayUse,
    messages::Message,
    messages::Exchange,
    messages::Slowdown,
    messages::BareSlowdown,
    messages::AckedSlowdown,
    messages::FarSlowdown,
    messages::MeanMessage,
    hosts::Arrived,
    hosts::Completed,
    hosts::Offered,
    hosts::Downlinks,
    groups::Slowest,
    groups::MeanGoodput,
    groups::Resent,
    ports::QueueAt,
    ports::AveragedQueue,
    ports::AveragedCore,
    ports::Pauses,
    ports::PeakAt,
    ports::Emptied,
    ports::PortRate,
    phase::RestQueue,
    phase::RestWindow,
    phase::RestSpread,
    phase::Decay,
    phase::IdleStarts,
    phase::Reaction,
}

impl AnyMetric {
    /// The value of a run with several seeds: the mean over the seeds.
    pub(crate) fn mean_value(&self, seeds: &[&Observations]) -> Option<f64> {
        let values: Option<Vec<f64>> = seeds.iter().map(|seen| self.value(seen)).collect();
        let values = values.filter(|values| !values.is_empty())?;
        Some(values.iter().sum::<f64>() / values.len() as f64)
    }
}

/// A selection of flows and a part of their time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flows {
    /// Label of the flows; by default all flows.
    label: Option<String>,
    /// Start in milliseconds; by default the end of warm-up.
    from_ms: Option<f64>,
    /// End in milliseconds; by default the end of the run.
    to_ms: Option<f64>,
}

impl Flows {
    /// Intervals that lie completely in the selected time.
    fn bins(&self, seen: &Observations) -> Range<usize> {
        bins(seen, self.from_ms, self.to_ms)
    }

    /// The place of a mean over the selected time.
    fn level(&self, of: Traced) -> Option<Place<'_>> {
        let periods = vec![(self.from_ms, self.to_ms, 1.0)];
        Some(Place::Level { of, label: self.label.as_deref()?, periods })
    }
}

fn bins(seen: &Observations, from_ms: Option<f64>, to_ms: Option<f64>) -> Range<usize> {
    let from_us = from_ms.map_or(seen.warmup_us, |ms| ms * 1e3);
    between(seen, from_us, to_ms.map_or(seen.duration_us, |ms| ms * 1e3))
}

fn between(seen: &Observations, from_us: f64, to_us: f64) -> Range<usize> {
    let end = (to_us.min(seen.duration_us) / seen.interval_us + 1e-6) as usize;
    let from = (from_us / seen.interval_us - 1e-6).ceil().max(0.0) as usize;
    from.min(end)..end
}

fn flows<'a>(
    seen: &'a Observations,
    label: &'a Option<String>,
) -> impl Iterator<Item = &'a FlowTrace> {
    seen.traces.iter().filter(move |flow| label.as_ref().is_none_or(|label| *label == flow.label))
}

/// The switches, from the senders of the observed ports: none of these is a host, and a switch
/// that receives packets sends them on.
fn switches<'a>(senders: impl Iterator<Item = &'a String>) -> BTreeSet<&'a str> {
    senders.map(String::as_str).collect()
}

fn average(values: &[f32]) -> Option<f64> {
    (!values.is_empty())
        .then(|| values.iter().map(|&x| f64::from(x)).sum::<f64>() / values.len() as f64)
}

/// Number of intervals in a width in microseconds; one without a width.
fn intervals(seen: &Observations, width_us: Option<f64>) -> usize {
    width_us.map_or(1, |us| (us / seen.interval_us).round().max(1.0) as usize)
}
