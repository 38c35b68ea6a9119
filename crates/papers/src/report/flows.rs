//! Flows of a run: all messages for plots, and those that are shown one by one.

use std::collections::BTreeMap;
use std::path::Path;

use tidegate_results::{Fixed, FlowSummary, SIZE_BOUNDS, Summary};

use super::files::rows;
use tidegate_runs::Error;

/// Number of the slowest messages, and number of other messages, that are shown one by one. The
/// others are spread evenly over the order of completion. Labels have equal shares of both.
const SLOWEST: usize = 60;
const SPREAD: usize = 140;
/// Number of unlimited flows that are shown one by one.
const UNLIMITED: usize = 64;

/// The flows of a run.
#[derive(Default)]
pub(crate) struct Flows {
    /// Messages that count in slowdowns.
    pub(crate) messages: Vec<Message>,
    /// Labels of all flows by id.
    pub(crate) labels: BTreeMap<u64, String>,
    /// Flows that are shown one by one, by id.
    pub(crate) shown: Vec<FlowSummary>,
}

/// A message.
pub(crate) struct Message {
    /// In millionths. If the message did not finish, its slowdown at the end of the run, a lower
    /// bound.
    pub(crate) slowdown: u64,
    pub(crate) has_finished: bool,
    /// Its size class.
    pub(crate) size: usize,
    pub(crate) id: u64,
}

/// The size class of messages of this size.
pub(crate) fn size_class(bytes: u64) -> usize {
    SIZE_BOUNDS.iter().filter(|&&bound| bound <= bytes).count()
}

/// Names of the size classes.
pub(crate) fn size_names() -> Vec<String> {
    let below = SIZE_BOUNDS.iter().map(|&bound| Some(bound)).chain([None]);
    let from = std::iter::once(0).chain(SIZE_BOUNDS);
    from.zip(below).map(|(from, below)| size_range(from, below)).collect()
}

/// Name of a size range: `1 KB to 10 KB`.
pub(crate) fn size_range(from: u64, below: Option<u64>) -> String {
    let named = |bytes: u64| match bytes {
        1_000_000.. => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} KB", bytes / 1_000),
    };
    match (from, below) {
        (0, Some(below)) => format!("below {}", named(below)),
        (from, Some(below)) => format!("{} to {}", named(from), named(below)),
        (from, None) => format!("{} or more", named(from)),
    }
}

impl Flows {
    /// Flows of the run in a folder.
    pub(crate) fn read(folder: &Path, summary: &Summary) -> Result<Flows, Error> {
        let mut flows = Flows::default();
        let mut unlimited = Vec::new();
        let mut shown: BTreeMap<String, Shown> = BTreeMap::new();
        let warmup_us = summary.warmup_seconds * 1e6;
        let over_us = (summary.sim_seconds + summary.drain_seconds) * 1e6;
        rows(&folder.join("flows.parquet"), |row| {
            let Some(flow) = FlowSummary::read(row, warmup_us) else { return };
            let times = flow.slowdown.or_else(|| slowdown_so_far(&flow, over_us));
            if let (true, Some(times), Some(bytes)) = (flow.measured, times, flow.size_bytes) {
                flows.messages.push(Message {
                    slowdown: times.as_millionths(),
                    has_finished: flow.slowdown.is_some(),
                    size: size_class(bytes),
                    id: flow.id,
                });
            }
            flows.labels.insert(flow.id, flow.label.clone());
            if flow.size_bytes.is_none() {
                unlimited.extend((unlimited.len() < UNLIMITED).then_some(flow));
            } else if flow.measured {
                // Only flows that count in the measurements, as everywhere on the page.
                shown.entry(flow.label.clone()).or_default().take(flow);
            }
        })?;
        let labels = shown.len();
        let messages = shown.into_values().flat_map(|of_label| of_label.all(labels));
        flows.shown = unlimited.into_iter().chain(messages).collect();
        flows.shown.sort_by_key(|flow| flow.id);
        Ok(flows)
    }
}

/// The slowdown that an unfinished flow would have if it finished at the end of the run.
fn slowdown_so_far(flow: &FlowSummary, over_us: f64) -> Option<Fixed> {
    let ideal_us = flow.ideal_us.filter(|_| flow.fct_us.is_none())?.as_f64();
    Fixed::nearest((over_us - flow.start_us.as_f64()) / ideal_us)
}

/// Selects messages in one pass.
#[derive(Default)]
struct Shown {
    /// The slowest messages, the slowest first.
    slowest: Vec<FlowSummary>,
    /// Every `2^halved`-th message.
    spread: Vec<FlowSummary>,
    halved: u32,
    seen: u64,
}

impl Shown {
    fn take(&mut self, flow: FlowSummary) {
        if self.seen.is_multiple_of(1 << self.halved) {
            self.spread.push(flow.clone());
            if self.spread.len() > 2 * SPREAD {
                let mut number = 0;
                self.spread.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
                self.halved += 1;
            }
        }
        self.seen += 1;
        let Some(slowdown) = flow.slowdown.map(Fixed::as_f64) else { return };
        let is_slower = |other: &FlowSummary| other.slowdown.map_or(0.0, Fixed::as_f64) >= slowdown;
        let place = self.slowest.partition_point(is_slower);
        if place < SLOWEST {
            self.slowest.insert(place, flow);
            self.slowest.truncate(SLOWEST);
        }
    }

    /// The selected messages of one label out of `labels`.
    fn all(self, labels: usize) -> Vec<FlowSummary> {
        let slowest = self.slowest.into_iter().take(SLOWEST.div_ceil(labels));
        let most = (2 * SPREAD).div_ceil(labels);
        let step = self.spread.len().div_ceil(most).max(1);
        let spread = self.spread.into_iter().step_by(step);
        let all: BTreeMap<u64, FlowSummary> =
            slowest.chain(spread).map(|flow| (flow.id, flow)).collect();
        all.into_values().collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn flow(id: u64, slowdown: f64) -> FlowSummary {
        FlowSummary {
            id,
            label: String::new(),
            src: "h0".to_owned(),
            dst: "h1".to_owned(),
            protocol: String::new(),
            start_us: Fixed::nearest(0.0).unwrap(),
            size_bytes: Some(1000),
            delivered_bytes: 1000,
            goodput_gbps: None,
            fair_share_gbps: None,
            fct_us: Fixed::nearest(slowdown),
            acked_us: None,
            ideal_us: Fixed::nearest(1.0),
            slowdown: Fixed::nearest(slowdown),
            retransmitted_bytes: 0,
            measured: true,
            exchange_us: None,
        }
    }

    #[test]
    fn the_slowest_and_an_even_sample_are_shown() {
        let mut shown = Shown::default();
        // The slowest flows are in the middle.
        (0..10_000).for_each(|id| shown.take(flow(id, 10_000.0 - (id as f64 - 5000.0).abs())));
        let ids: Vec<u64> = shown.all(1).into_iter().map(|flow| flow.id).collect();
        assert!((4971..=5029).all(|id| ids.contains(&id)), "{ids:?}");
        assert!((SPREAD..=2 * SPREAD + SLOWEST).contains(&ids.len()), "{}", ids.len());
        assert!(ids[0] == 0 && ids.iter().filter(|&&id| id < 2500).count() >= SPREAD / 5);
        // With four labels, each has a quarter.
        let mut shown = Shown::default();
        (0..10_000).for_each(|id| shown.take(flow(id, 1.0 + id as f64)));
        let ids: Vec<u64> = shown.all(4).into_iter().map(|flow| flow.id).collect();
        assert!((9985..10_000).all(|id| ids.contains(&id)) && ids[0] == 0, "{ids:?}");
        assert!(ids.len() <= (2 * SPREAD + SLOWEST) / 4 + 1, "{}", ids.len());
    }

    #[test]
    fn classes_are_decades() {
        assert_eq!([0, 999, 1000, 9_999_999, 10_000_000].map(size_class), [0, 0, 1, 4, 5]);
    }

    #[test]
    fn classes_of_sizes_have_names() {
        let names = size_names();
        assert_eq!(names.len(), SIZE_BOUNDS.len() + 1);
        assert_eq!(
            [&names[0], &names[1], &names[5]],
            ["below 1 KB", "1 KB to 10 KB", "10 MB or more"]
        );
    }
}
