//! Slowdowns of messages, by label and size.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_core::routes::Routes;
use tidegate_core::{Rate, Span, Time};
use tidegate_scenario::Plan;
use tidegate_sim::FlowRecord;

use super::{End, Measure, RunOutput, Start, round};
use crate::{Error, convert};

/// Slowdown of a message. Files store it as a pair, because there are many.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(u64, Option<f32>)", into = "(u64, Option<f32>)")]
pub struct Slowdown {
    /// Payload.
    pub bytes: u64,
    /// Completion time over the ideal one; `None` if the message did not finish.
    pub times: Option<f32>,
}

impl From<(u64, Option<f32>)> for Slowdown {
    fn from((bytes, times): (u64, Option<f32>)) -> Slowdown {
        Slowdown { bytes, times }
    }
}

impl From<Slowdown> for (u64, Option<f32>) {
    fn from(Slowdown { bytes, times }: Slowdown) -> Self {
        (bytes, times)
    }
}

/// Sorted slowdowns of messages of at least `min_bytes` and less than `below_bytes`. Unfinished
/// messages are infinite.
pub fn sorted(slowdowns: &[Slowdown], min_bytes: u64, below_bytes: u64) -> Vec<f64> {
    let is_meant = |one: &&Slowdown| (min_bytes..below_bytes).contains(&one.bytes);
    let times = |one: &Slowdown| one.times.map_or(f64::INFINITY, f64::from);
    let mut times: Vec<f64> = slowdowns.iter().filter(is_meant).map(times).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// The slowdown that a share of the messages of at least `min_bytes` and less than `below_bytes`
/// did not exceed; `None` if there are no messages, or if this message did not finish. Unfinished
/// messages count as the slowest, unlike in the summary, which includes their elapsed times.
pub fn quantile(
    slowdowns: &[Slowdown],
    min_bytes: u64,
    below_bytes: u64,
    share: f64,
) -> Option<f64> {
    let times = sorted(slowdowns, min_bytes, below_bytes);
    // Nearest rank.
    let rank = (share * times.len() as f64 - 1e-9).ceil().max(1.0) as usize;
    times.get(rank - 1).copied().filter(|times| times.is_finite())
}

/// Slowdowns by label.
#[derive(Default)]
struct ByLabel(BTreeMap<u16, Vec<Slowdown>>);

impl ByLabel {
    fn put(&mut self, record: &FlowRecord, done: Option<Time>, least: Span) {
        let times = |took: f64| round(took / least.as_us_f64());
        let took = done.map(|at| at.since(record.start).as_us_f64());
        let slowdown = Slowdown { bytes: record.bytes, times: took.map(times) };
        self.0.entry(record.label).or_default().push(slowdown);
    }

    fn named(self, plan: &Plan) -> BTreeMap<String, Vec<Slowdown>> {
        let of = |(label, slowdowns)| {
            let label = plan.labels.get(usize::from(label)).cloned().unwrap_or_default();
            (label, slowdowns)
        };
        self.0.into_iter().map(of).collect()
    }
}

/// Records the slowdowns of messages that were submitted after warm-up, relative to the same
/// transfer in an empty network.
#[derive(Default)]
pub(super) struct Slowdowns(ByLabel);

impl Measure for Slowdowns {
    fn flow(&mut self, plan: &Plan, record: &FlowRecord) -> Result<(), Error> {
        if convert::is_measured(plan, record) {
            self.0.put(record, record.completed, record.ideal);
        }
        Ok(())
    }

    fn finish(self: Box<Self>, end: &End<'_>, output: &mut RunOutput) -> Result<(), Error> {
        output.seen.slowdowns = self.0.named(end.plan);
        Ok(())
    }
}

/// Records slowdowns by the rule of SIRD's authors: of messages that end in the measured window,
/// whenever they started, relative to propagation and payload at the slowest link, without headers
/// and without store-and-forward.
#[derive(Default)]
pub(super) struct BareSlowdowns {
    slowdowns: ByLabel,
    paths: Paths,
}

/// Ideal paths, by pair of hosts.
#[derive(Default)]
struct Paths {
    routes: Option<Routes>,
    known: BTreeMap<(u32, u32), EmptyPath>,
}

/// Properties of an empty path.
#[derive(Clone, Copy)]
struct EmptyPath {
    /// Propagation in one direction.
    propagation: Span,
    slowest: Rate,
    /// Serialisation of a full packet's payload, summed over the links.
    serialisation: Span,
}

impl Paths {
    fn begin(&mut self, start: &Start<'_>) -> Result<(), Error> {
        // The simulator has already refused fabrics without routes.
        let sizes = start.plan.setup.largest_sizes();
        let routes = Routes::of_sizes(&start.plan.setup.fabric, sizes);
        self.routes = Some(routes.map_err(Error::Run)?);
        Ok(())
    }

    fn of(&mut self, record: &FlowRecord, mtu: u32) -> Option<EmptyPath> {
        let routes = self.routes.as_ref()?;
        Some(*self.known.entry((record.src, record.dst)).or_insert_with(|| {
            let ports = routes.path(record.src, record.dst);
            let edges = || ports.iter().map(|&port| routes.edge(port));
            EmptyPath {
                propagation: edges().fold(Span::ZERO, |sum, edge| sum + edge.delay),
                slowest: edges().map(|edge| edge.rate).min().unwrap_or_default(),
                serialisation: edges()
                    .fold(Span::ZERO, |sum, edge| sum + edge.rate.serialise(u64::from(mtu))),
            }
        }))
    }
}

impl Measure for BareSlowdowns {
    fn begin(&mut self, start: &Start<'_>) -> Result<(), Error> {
        self.paths.begin(start)
    }

    fn flow(&mut self, plan: &Plan, record: &FlowRecord) -> Result<(), Error> {
        let counts = |at: Time| plan.warmup <= at && at < plan.duration;
        if record.completed.is_some_and(counts)
            && let Some(path) = self.paths.of(record, plan.fabric.mtu)
        {
            let least = path.propagation + path.slowest.serialise(record.bytes);
            self.slowdowns.put(record, record.completed, least);
        }
        Ok(())
    }

    fn finish(self: Box<Self>, end: &End<'_>, output: &mut RunOutput) -> Result<(), Error> {
        output.seen.bare_slowdowns = self.slowdowns.named(end.plan);
        Ok(())
    }
}

/// Headers that PowerTCP's simulator includes in the ideal time of a packet.
const HEADER_BYTES: u64 = 48;

/// Records slowdowns by the rule of PowerTCP's simulator: of all messages, whenever they started,
/// from their start until the sender has the last acknowledgement. The ideal time is a base RTT
/// (propagation in both directions, and a full payload on each link) plus the message with its
/// headers at the slowest link.
#[derive(Default)]
pub(super) struct AckedSlowdowns {
    slowdowns: ByLabel,
    paths: Paths,
}

impl Measure for AckedSlowdowns {
    fn begin(&mut self, start: &Start<'_>) -> Result<(), Error> {
        self.paths.begin(start)
    }

    fn flow(&mut self, plan: &Plan, record: &FlowRecord) -> Result<(), Error> {
        if let Some((_, least)) = acked_ideal(&mut self.paths, record, plan.fabric.mtu) {
            self.slowdowns.put(record, record.acked, least);
        }
        Ok(())
    }

    fn finish(self: Box<Self>, end: &End<'_>, output: &mut RunOutput) -> Result<(), Error> {
        output.seen.acked_slowdowns = self.slowdowns.named(end.plan);
        Ok(())
    }
}

/// Propagation in one direction, and the ideal time by the rule of PowerTCP's simulator; `None` for
/// an unlimited flow, which has no ideal time.
fn acked_ideal(paths: &mut Paths, record: &FlowRecord, mtu: u32) -> Option<(Span, Span)> {
    let EmptyPath { propagation, slowest, serialisation } =
        paths.of(record, mtu).filter(|_| record.bytes != u64::MAX)?;
    let packets = record.bytes.div_ceil(u64::from(mtu));
    let whole = slowest.serialise(record.bytes + HEADER_BYTES * packets);
    Some((propagation, propagation + propagation + serialisation + whole))
}

/// Records the same slowdowns of the messages over the paths with the longest propagation of all
/// messages.
#[derive(Default)]
pub(super) struct FarSlowdowns {
    longest: Span,
    slowdowns: ByLabel,
    paths: Paths,
}

impl Measure for FarSlowdowns {
    fn begin(&mut self, start: &Start<'_>) -> Result<(), Error> {
        self.paths.begin(start)
    }

    fn flow(&mut self, plan: &Plan, record: &FlowRecord) -> Result<(), Error> {
        if let Some((propagation, least)) = acked_ideal(&mut self.paths, record, plan.fabric.mtu) {
            if propagation > self.longest {
                (self.longest, self.slowdowns) = (propagation, ByLabel::default());
            }
            if propagation == self.longest {
                self.slowdowns.put(record, record.acked, least);
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>, end: &End<'_>, output: &mut RunOutput) -> Result<(), Error> {
        output.seen.far_slowdowns = self.slowdowns.named(end.plan);
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
