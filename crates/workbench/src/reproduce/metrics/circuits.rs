//! What circuits send.

use serde::Deserialize;

use super::Metric;
use crate::observe::{CircuitTrace, Measurement, Observations};
use crate::reproduce::registry::Port;

/// Share of its days, or of a part of each, in which a circuit was sending, in per cent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DayUse {
    link: Port,
    /// From so much of a day on, in whole microseconds; from its begin unless set.
    from_us: Option<u32>,
    /// Up to so much of it; its end unless set.
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
