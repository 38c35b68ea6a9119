//! Metrics of the time that a flow needs to reach a rate.

use serde::Deserialize;

use super::{Metric, average, between, bins, flows, intervals};
use tidegate_runs::observe::{FlowTrace, Measurement, Observations, Traced};

/// The first flow with a label, and a rate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ramp {
    label: Option<String>,
    /// The goodput to reach.
    gbps: f64,
    /// Width of the window over which goodput is averaged. The window slides by one interval.
    /// Default: the trace's interval.
    bin_us: Option<f64>,
}

impl Ramp {
    fn flow<'a>(&'a self, seen: &'a Observations) -> Option<&'a FlowTrace> {
        flows(seen, &self.label).next()
    }

    /// Goodputs of the flow since its start, and the number of intervals in each.
    fn sliding(&self, seen: &Observations) -> Option<(Vec<f64>, usize)> {
        let width = intervals(seen, self.bin_us);
        let means = self.flow(seen)?.goodput_gbps.windows(width).filter_map(average);
        Some((means.collect(), width))
    }

    /// Time in microseconds until the goodput over the last window is sufficient.
    fn reached_us(&self, seen: &Observations) -> Option<f64> {
        let (means, width) = self.sliding(seen)?;
        let reached = means.iter().position(|&gbps| gbps >= self.gbps)?;
        Some((reached + width) as f64 * seen.interval_us)
    }
}

/// Time in microseconds from a flow's start until its goodput over the last window reaches the
/// rate; no value if it never does.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Convergence(Ramp);

impl Metric for Convergence {
    const NAME: &'static str = "convergence";
    const NEEDS: &'static [Measurement] = &[Measurement::Traces];

    fn value(&self, seen: &Observations) -> Option<f64> {
        self.0.reached_us(seen)
    }
}

/// Convergence time in round trips of the flow.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct ConvergenceRtts(Ramp);

impl Metric for ConvergenceRtts {
    const NAME: &'static str = "convergence-rtts";
    const NEEDS: &'static [Measurement] = &[Measurement::Traces];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let us = self.0.reached_us(seen)?;
        let flow = self.0.flow(seen)?;
        let bins = between(seen, flow.start_us, flow.start_us + us);
        let rtts: Vec<f32> = bins.filter_map(|bin| flow.at(Traced::Rtt, bin)).collect();
        Some(us / average(&rtts)?)
    }
}

/// Share of the time after a flow's start, or after an event, for which it has to stay at the rate
/// at the end, to count as steady.
const STEADY: f64 = 0.1;

/// Time in microseconds from a flow's start until its goodput over every later window is within a
/// tenth of the rate; no value if it is not for the last part of the run.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Settling(Ramp);

impl Metric for Settling {
    const NAME: &'static str = "settling";
    const NEEDS: &'static [Measurement] = &[Measurement::Traces];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let (means, width) = self.0.sliding(seen)?;
        settling_us(seen, &means, width, self.0.gbps)
    }
}

/// Time in microseconds after an event until the goodput of every flow over every later window is
/// within a tenth of the rate; no value if one is not for the last part of the run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recovery {
    label: Option<String>,
    gbps: f64,
    /// Time of the event.
    from_ms: f64,
    bin_us: Option<f64>,
}

impl Metric for Recovery {
    const NAME: &'static str = "recovery";
    const NEEDS: &'static [Measurement] = &[Measurement::Traces];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let bins = bins(seen, Some(self.from_ms), None);
        let width = intervals(seen, self.bin_us);
        let one = |flow: &FlowTrace| {
            let goodputs = flow.goodputs(bins.clone());
            let means: Vec<f64> = goodputs.windows(width).filter_map(average).collect();
            settling_us(seen, &means, width, self.gbps)
        };
        let each: Option<Vec<f64>> = flows(seen, &self.label).map(one).collect();
        each?.into_iter().reduce(f64::max)
    }
}

/// Time in microseconds until all later goodputs over sliding windows of `width` intervals are
/// within a tenth of a rate; `None` if they are not for the last part.
fn settling_us(seen: &Observations, means: &[f64], width: usize, gbps: f64) -> Option<f64> {
    let is_off = |mean: &f64| (mean - gbps).abs() > 0.1 * gbps;
    let windows = means.iter().rposition(is_off).map_or(0, |last| last + 1);
    let stayed = means.len() - windows;
    (stayed as f64 > STEADY * means.len() as f64)
        .then(|| (windows + width) as f64 * seen.interval_us)
}
