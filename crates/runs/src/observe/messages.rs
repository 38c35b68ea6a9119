//! Completion times of finished messages and exchanges, by label. Unlike the summary's percentiles,
//! which include the elapsed time of unfinished messages, these correspond to papers' figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_core::Span;
use tidegate_scenario::Plan;
use tidegate_sim::{Exchange, FlowRecord};

use super::{End, Measure, RunOutput};
use crate::{Error, convert};

/// Cumulative shares for which completion times are stored.
const QUANTILES: [f64; 9] = [0.5, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 1.0];
/// Steps of the cumulative distribution below its tail.
const STEPS: usize = 100;

/// Messages of a label, submitted after warm-up; or exchanges, by the label of their requests.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Messages {
    /// Number of messages.
    pub count: u64,
    /// Number of messages that have not finished.
    pub unfinished: u64,
    /// (completion time in microseconds, share of finished messages that took no longer).
    pub cdf: Vec<(f64, f64)>,
    /// Mean completion time of finished messages, in microseconds.
    #[serde(default)]
    pub mean_us: Option<f64>,
}

impl Messages {
    fn of(mut times: Vec<Span>, unfinished: u64) -> Messages {
        times.sort_unstable();
        let mut shares: Vec<f64> =
            (1..STEPS).map(|i| i as f64 / STEPS as f64).chain(QUANTILES).collect();
        shares.sort_by(f64::total_cmp);
        shares.dedup();
        let at = |share: f64| {
            // Nearest rank.
            let rank = (share * times.len() as f64).ceil().max(1.0) as usize;
            Some((times.get(rank - 1)?.as_us_f64(), share))
        };
        let cdf = shares.into_iter().filter_map(at).collect();
        let sum_us: f64 = times.iter().map(|time| time.as_us_f64()).sum();
        let mean_us = (!times.is_empty()).then(|| sum_us / times.len() as f64);
        Messages { count: times.len() as u64 + unfinished, unfinished, cdf, mean_us }
    }

    /// Completion time that a share of the finished messages did not exceed.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        self.cdf.iter().find(|(_, cumulative)| *cumulative >= share - 1e-9).map(|(us, _)| *us)
    }
}

/// Records the completion times of messages.
#[derive(Default)]
pub(super) struct Completions {
    /// By label: completion times, and number of unfinished messages.
    by_label: BTreeMap<u16, (Vec<Span>, u64)>,
}

impl Measure for Completions {
    fn flow(&mut self, plan: &Plan, record: &FlowRecord) -> Result<(), Error> {
        if convert::is_measured(plan, record) {
            let (times, open) = self.by_label.entry(record.label).or_default();
            match record.completed {
                Some(at) => times.push(at.since(record.start)),
                None => *open += 1,
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>, end: &End<'_>, output: &mut RunOutput) -> Result<(), Error> {
        let of = |(label, (times, open))| (named(end, label), Messages::of(times, open));
        output.seen.messages = self.by_label.into_iter().map(of).collect();
        Ok(())
    }
}

/// Records the times of exchanges in closed loops, from the submission of a request to the last
/// byte of its reply.
#[derive(Default)]
pub(super) struct Exchanges {
    /// By label of requests: number of requests, and times of those with a reply.
    by_label: BTreeMap<u16, (u64, Vec<Span>)>,
}

impl Measure for Exchanges {
    fn flow(&mut self, plan: &Plan, record: &FlowRecord) -> Result<(), Error> {
        let exchange = record.exchange.filter(|exchange| exchange.requested >= plan.warmup);
        if let Some(Exchange { requested, label, is_reply }) = exchange {
            let (requests, times) = self.by_label.entry(label).or_default();
            *requests += u64::from(!is_reply);
            times.extend(record.completed.filter(|_| is_reply).map(|at| at.since(requested)));
        }
        Ok(())
    }

    fn finish(self: Box<Self>, end: &End<'_>, output: &mut RunOutput) -> Result<(), Error> {
        let of = |(label, (requests, times)): (u16, (u64, Vec<Span>))| {
            let open = requests.saturating_sub(times.len() as u64);
            (named(end, label), Messages::of(times, open))
        };
        output.seen.exchanges = self.by_label.into_iter().map(of).collect();
        Ok(())
    }
}

fn named(end: &End<'_>, label: u16) -> String {
    end.plan.labels.get(usize::from(label)).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_nearest_rank() {
        let messages = Messages::of((1..=1000).rev().map(Span::us).collect(), 5);
        assert_eq!((messages.count, messages.unfinished), (1005, 5));
        let at = [0.5, 0.99, 0.999, 1.0].map(|share| messages.quantile(share).unwrap());
        assert_eq!(at, [500.0, 990.0, 999.0, 1000.0]);
        assert_eq!(messages.mean_us, Some(500.5));
        assert_eq!(Messages::of(Vec::new(), 1).quantile(0.5), None);
    }
}
