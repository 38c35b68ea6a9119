//! Metrics of goodput and fairness.

use std::ops::Range;

use serde::Deserialize;
use tidegate_results::LinkSummary;

use super::ports::Port;
use super::{Flows, Metric, Place, average, between, bins, flows, intervals};
use tidegate_runs::observe::{Measurement, Observations, Traced};

/// Goodput of a flow in Gbit/s, mean over the selected flows.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Goodput(Flows);

impl Metric for Goodput {
    const NAME: &'static str = "goodput";
    const NEEDS: &'static [Measurement] = &[Measurement::Traces];

    fn value(&self, seen: &Observations) -> Option<f64> {
        mean(&goodputs(seen, &self.0.label, self.0.bins(seen))?)
    }

    fn place(&self) -> Option<Place<'_>> {
        self.0.level(Traced::Goodput)
    }
}

/// Goodput of all flows together, in per cent of a rate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Carried {
    label: Option<String>,
    from_ms: Option<f64>,
    to_ms: Option<f64>,
    of_gbps: f64,
}

impl Metric for Carried {
    const NAME: &'static str = "carried";
    const NEEDS: &'static [Measurement] = &[Measurement::Traces];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let bins = bins(seen, self.from_ms, self.to_ms);
        let goodputs = goodputs(seen, &self.label, bins).filter(|all| !all.is_empty())?;
        Some(100.0 * goodputs.iter().sum::<f64>() / self.of_gbps)
    }
}

/// The goodput furthest from the expected one over several periods, as a share of the expected one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Worst {
    label: Option<String>,
    /// Start, end and expected Gbit/s of each period.
    phases: Vec<(f64, f64, f64)>,
}

impl Metric for Worst {
    const NAME: &'static str = "worst";
    const NEEDS: &'static [Measurement] = &[Measurement::Traces];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let mut worst: Option<f64> = None;
        for &(from_ms, to_ms, expected) in &self.phases {
            let bins = between(seen, from_ms * 1e3, to_ms * 1e3);
            let share = mean(&goodputs(seen, &self.label, bins)?)? / expected;
            if worst.is_none_or(|worst| (share - 1.0).abs() > (worst - 1.0).abs()) {
                worst = Some(share);
            }
        }
        worst
    }

    fn place(&self) -> Option<Place<'_>> {
        let phases = self.phases.iter();
        let periods = phases.map(|&(from, to, share)| (Some(from), Some(to), share)).collect();
        Some(Place::Level { of: Traced::Goodput, label: self.label.as_deref()?, periods })
    }
}

/// A selection of flows, a part of their time, and a resolution.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Binned {
    label: Option<String>,
    from_ms: Option<f64>,
    to_ms: Option<f64>,
    /// Width of the averages that are compared; by default the trace's interval.
    bin_us: Option<f64>,
}

impl Binned {
    /// Averages of each flow over bins.
    fn averages<'a>(&'a self, seen: &'a Observations) -> impl Iterator<Item = Vec<f64>> + 'a {
        let bins = bins(seen, self.from_ms, self.to_ms);
        let width = intervals(seen, self.bin_us);
        let averages = move |values: Vec<f32>| {
            values.chunks_exact(width).filter_map(average).collect::<Vec<f64>>()
        };
        flows(seen, &self.label).map(move |flow| averages(flow.goodputs(bins.clone())))
    }
}

/// Jain's index of goodputs over bins of the configured width, mean over time.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Jain(Binned);

impl Metric for Jain {
    const NAME: &'static str = "jain";
    const NEEDS: &'static [Measurement] = &[Measurement::Traces];
    const LIMIT: f64 = 1.0;

    fn value(&self, seen: &Observations) -> Option<f64> {
        let each: Vec<Vec<f64>> = self.0.averages(seen).collect();
        let index = |time: usize| {
            let rates = each.iter().map(|flow| flow[time]);
            let (sum, squares) =
                rates.fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
            (squares > 0.0).then(|| sum * sum / (each.len() as f64 * squares))
        };
        mean(&(0..each.first()?.len()).map(index).collect::<Option<Vec<f64>>>()?)
    }
}

/// Standard deviation over time of a flow's goodput in Gbit/s, mean over the selected flows.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Deviation(Binned);

impl Metric for Deviation {
    const NAME: &'static str = "deviation";
    const NEEDS: &'static [Measurement] = &[Measurement::Traces];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let each = self.0.averages(seen).map(|values| {
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            (n > 1.0).then(|| (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt())
        });
        mean(&each.collect::<Option<Vec<f64>>>()?)
    }
}

/// Lowest total goodput of all flows in a bin of the configured width, in Gbit/s.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Dip(Binned);

impl Metric for Dip {
    const NAME: &'static str = "dip";
    const NEEDS: &'static [Measurement] = &[Measurement::Traces];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let each: Vec<Vec<f64>> = self.0.averages(seen).collect();
        let sum = |time: usize| each.iter().map(|flow| flow[time]).sum::<f64>();
        (0..each.first()?.len()).map(sum).min_by(f64::total_cmp)
    }
}

/// Total rate of switch ports in Gbit/s on the wire, with headers and gaps, after warm-up.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PortRates {
    links: Vec<Port>,
}

impl Metric for PortRates {
    const NAME: &'static str = "port-rates";
    const NEEDS: &'static [Measurement] = &[Measurement::Links];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let rate = |port: &Port| {
            let is_meant = |link: &&LinkSummary| port.ends() == (&link.from, &link.to);
            let link = seen.links.iter().find(is_meant)?;
            Some(link.utilization? * link.rate_gbps)
        };
        self.links.iter().map(rate).sum()
    }

    fn place(&self) -> Option<Place<'_>> {
        Some(Place::Ports)
    }
}

/// Means of the flows over these intervals, in Gbit/s.
fn goodputs(seen: &Observations, label: &Option<String>, bins: Range<usize>) -> Option<Vec<f64>> {
    flows(seen, label).map(|flow| average(&flow.goodputs(bins.clone()))).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
