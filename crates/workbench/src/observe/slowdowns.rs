//! How much longer messages took than in an empty network, by label and size.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_scenario::Plan;
use tidegate_sim::FlowRecord;

use super::{End, Left, Measure, round};
use crate::{Error, convert};

/// A message that was submitted after warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Slowdown {
    /// Payload.
    pub(crate) bytes: u64,
    /// Completion time over that in an empty network; none where it did not finish.
    pub(crate) times: Option<f32>,
}

/// The slowdown that a share of the messages of `min_bytes` and more, but less than `below_bytes`,
/// did not exceed; none where there are none, or where that one did not finish.
pub(crate) fn quantile(
    slowdowns: &[Slowdown],
    min_bytes: u64,
    below_bytes: u64,
    share: f64,
) -> Option<f64> {
    let is_meant = |one: &&Slowdown| (min_bytes..below_bytes).contains(&one.bytes);
    let times = |one: &Slowdown| one.times.map_or(f64::INFINITY, f64::from);
    let mut times: Vec<f64> = slowdowns.iter().filter(is_meant).map(times).collect();
    times.sort_by(f64::total_cmp);
    // Nearest rank.
    let rank = (share * times.len() as f64 - 1e-9).ceil().max(1.0) as usize;
    times.get(rank - 1).copied().filter(|times| times.is_finite())
}

/// Keeps the slowdowns of messages.
#[derive(Default)]
pub(super) struct Slowdowns {
    by_label: BTreeMap<u16, Vec<Slowdown>>,
}

impl Measure for Slowdowns {
    fn flow(&mut self, plan: &Plan, record: &FlowRecord) -> Result<(), Error> {
        if convert::is_measured(plan, record) {
            let times = |took: f64| round(took / record.ideal.as_us_f64());
            let took = record.completed.map(|at| at.since(record.start).as_us_f64());
            let slowdown = Slowdown { bytes: record.bytes, times: took.map(times) };
            self.by_label.entry(record.label).or_default().push(slowdown);
        }
        Ok(())
    }

    fn finish(self: Box<Self>, end: &End<'_>, left: &mut Left) -> Result<(), Error> {
        let of = |(label, slowdowns)| {
            let label = end.plan.labels.get(usize::from(label)).cloned().unwrap_or_default();
            (label, slowdowns)
        };
        left.seen.slowdowns = self.by_label.into_iter().map(of).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_message_is_slower_than_all_others() {
        let of = |bytes, times| Slowdown { bytes, times };
        let all = [of(10, Some(3.0)), of(20, None), of(10, Some(1.0)), of(99, Some(2.0))];
        let at = |min, below, share| quantile(&all, min, below, share);
        assert_eq!([at(0, 99, 0.3), at(0, 99, 0.6)], [Some(1.0), Some(3.0)]);
        assert_eq!(
            [at(0, 99, 0.9), at(0, 20, 0.9), at(99, 100, 0.1)],
            [None, Some(3.0), Some(2.0)]
        );
        assert_eq!(at(100, 200, 0.5), None);
    }
}
