//! Numbers from observations: what claims measure and sweeps draw.
//!
//! A metric is a type: its fields are its parameters, as the registry writes them, and no others
//! are taken. One more is such a type, and its name in the list below.

pub(super) mod buffers;
mod circuits;
mod delays;
mod hosts;
mod messages;
mod phase;
mod ports;
mod ramps;
mod rates;
#[cfg(test)]
mod tests;

use std::ops::Range;

use serde::Deserialize;

use crate::observe::{FlowTrace, Measurement, Observations};

/// A number that a run is asked for.
trait Metric {
    /// As the registry calls it.
    const NAME: &'static str;
    /// What has to be observed for it.
    const NEEDS: &'static [Measurement];
    /// The answer; nothing where the run has none.
    fn value(&self, seen: &Observations) -> Option<f64>;
}

macro_rules! metrics {
    ($($module:ident::$name:ident,)*) => {
        /// A metric with its parameters.
        #[derive(Clone, Debug)]
        pub(crate) enum Question {
            $($name($module::$name),)*
        }

        impl Question {
            const NAMES: &[&str] = &[$($module::$name::NAME,)*];

            /// The metric of that name with these parameters.
            ///
            /// # Errors
            /// When there is no such metric, or a parameter is wrong; the message says what there
            /// is.
            pub(crate) fn new(name: &str, parameters: toml::Table) -> Result<Question, String> {
                $(if name == $module::$name::NAME {
                    let parsed = parameters.try_into().map(Question::$name);
                    return parsed.map_err(|error| format!("metric {name}: {}", error.message()));
                })*
                let known = Question::NAMES.join(", ");
                Err(format!("there is no metric `{name}`; there are {known}"))
            }

            /// What has to be observed for it.
            pub(crate) fn needs(&self) -> &'static [Measurement] {
                match self { $(Question::$name(_) => $module::$name::NEEDS,)* }
            }

            /// The answer of one run; nothing where it has none.
            fn value(&self, seen: &Observations) -> Option<f64> {
                match self { $(Question::$name(metric) => metric.value(seen),)* }
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
    delays::Rtt,
    delays::Peak,
    delays::Target,
    delays::Window,
    delays::RttOfAll,
    delays::RttOfAllP99,
    delays::Utilization,
    delays::QueueDelay,
    delays::QueueDelayP99,
    delays::QueueOverTime,
    buffers::PeakQueue,
    buffers::QueueP99,
    buffers::Buffer,
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
    messages::MeanMessage,
    hosts::Arrived,
    hosts::Completed,
    hosts::Offered,
    hosts::Downlinks,
    ports::QueueAt,
    ports::AveragedQueue,
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

impl Question {
    /// The answer of a run that was made with several seeds: the mean of theirs.
    pub(crate) fn answer(&self, seeds: &[&Observations]) -> Option<f64> {
        let values: Option<Vec<f64>> = seeds.iter().map(|seen| self.value(seen)).collect();
        let values = values.filter(|values| !values.is_empty())?;
        Some(values.iter().sum::<f64>() / values.len() as f64)
    }
}

/// Flows, and a part of their time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flows {
    /// With this label; all unless set.
    label: Option<String>,
    /// From here on, in milliseconds; warm-up unless set.
    from_ms: Option<f64>,
    /// Up to here; the end unless set.
    to_ms: Option<f64>,
}

impl Flows {
    /// Intervals that lie wholly in the time asked about.
    fn bins(&self, seen: &Observations) -> Range<usize> {
        bins(seen, self.from_ms, self.to_ms)
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

fn average(values: &[f32]) -> Option<f64> {
    (!values.is_empty())
        .then(|| values.iter().map(|&x| f64::from(x)).sum::<f64>() / values.len() as f64)
}

/// How many intervals make a width in microseconds; one where none is asked for.
fn intervals(seen: &Observations, width_us: Option<f64>) -> usize {
    width_us.map_or(1, |us| (us / seen.interval_us).round().max(1.0) as usize)
}
