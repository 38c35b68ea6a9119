//! Metrics of circuits.

use serde::Deserialize;

use super::Metric;
use super::ports::Port;
use tidegate_runs::observe::{CircuitTrace, Measurement, Observations};

/// Share of its days (or of a part of each) in which a circuit transmits, in per cent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DayUse {
    link: Port,
    /// Start of the part, in whole microseconds after the start of the day; by default the start of
    /// the day.
    from_us: Option<u32>,
    /// End of the part; by default the end of the day.
    to_us: Option<u32>,
}

impl Metric for DayUse {
    const NAME: &'static str = "day-use";
    const NEEDS: &'static [Measurement] = &[Measurement::Circuits];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let is_meant = |of: &&CircuitTrace| of.from == self.link.from && of.to == self.link.to;
        let used = &seen.circuits.iter().find(is_meant)?.used;
        let to = self.to_us.map_or(used.len(), |us| us as usize);
        let part = used.get(self.from_us.unwrap_or(0) as usize..to)?;
        (!part.is_empty()).then(|| 100.0 * part.iter().sum::<f64>() / part.len() as f64)
    }
}
