//! Measures of traffic: of a trace, and in the same way of the synthetic traffic.

use std::collections::BTreeMap;

use tidegate_core::Span;

use super::distribution::{by_chance, largest_difference};
use super::trace::TracedFlow;

/// Number of intervals in which the load is measured.
const INTERVALS: usize = 100;

/// Measures of traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Time that the flows cover.
    pub duration: Span,
    /// Bytes of all flows.
    pub bytes: u64,
    /// Sizes of the flows, in order.
    pub sizes: Vec<u64>,
    /// Times between consecutive starts, in microseconds, in order of length.
    pub gaps_us: Vec<f64>,
    /// Times between consecutive starts of one sender, in microseconds, in order of length.
    pub sender_gaps_us: Vec<f64>,
    /// Offered bits per second in each of 100 equal intervals; a flow counts at its start.
    pub loads_bps: Vec<f64>,
    /// Bytes of each pair of sender and receiver with traffic, the busiest first.
    pub pair_bytes: Vec<u64>,
    /// For each flow, in order: the number of sources that started towards its destination within
    /// the window of the incast rule before it, its own included.
    pub fan_ins: Vec<u32>,
    /// Sent bytes of each host.
    pub sent_bytes: Vec<u64>,
    /// Received bytes of each host.
    pub received_bytes: Vec<u64>,
}

impl Profile {
    /// Measures flows that are in order of time.
    pub fn of(flows: &[TracedFlow], hosts: usize, duration: Span, window: Span) -> Profile {
        let mut sizes: Vec<u64> = flows.iter().map(|flow| flow.bytes).collect();
        sizes.sort_unstable();
        let mut last = vec![None; hosts];
        let mut sender_gaps_us = Vec::new();
        let mut loads = vec![0.0; INTERVALS];
        let mut pairs: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        let (mut sent_bytes, mut received_bytes) = (vec![0; hosts], vec![0; hosts]);
        let width = (duration.as_ps() as f64 / INTERVALS as f64).max(1.0);
        for flow in flows {
            let before = last[flow.src as usize].replace(flow.at);
            sender_gaps_us.extend(before.map(|before| flow.at.since(before).as_us_f64()));
            let interval = (flow.at.as_ps() as f64 / width) as usize;
            loads[interval.min(INTERVALS - 1)] += flow.bytes as f64 * 8e12 / width;
            *pairs.entry((flow.src, flow.dst)).or_default() += flow.bytes;
            sent_bytes[flow.src as usize] += flow.bytes;
            received_bytes[flow.dst as usize] += flow.bytes;
        }
        let gap = |pair: &[TracedFlow]| pair[1].at.since(pair[0].at).as_us_f64();
        let mut gaps_us: Vec<f64> = flows.windows(2).map(gap).collect();
        gaps_us.sort_unstable_by(f64::total_cmp);
        sender_gaps_us.sort_unstable_by(f64::total_cmp);
        let mut pair_bytes: Vec<u64> = pairs.into_values().collect();
        pair_bytes.sort_unstable_by(|a, b| b.cmp(a));
        Profile {
            duration,
            bytes: sizes.iter().sum(),
            sizes,
            gaps_us,
            sender_gaps_us,
            loads_bps: loads,
            pair_bytes,
            fan_ins: fan_ins(flows, hosts, window),
            sent_bytes,
            received_bytes,
        }
    }

    /// Offered bits per second.
    pub fn mean_bps(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.duration.as_s_f64()
    }

    /// Offered bits per second in the busiest interval.
    pub fn peak_bps(&self) -> f64 {
        self.loads_bps.iter().copied().fold(0.0, f64::max)
    }

    /// Share of the bytes that each number of busiest pairs carries: 1, 2, ….
    pub fn pair_shares(&self) -> Vec<f64> {
        let all = self.bytes.max(1) as f64;
        let sum = |sum: &mut f64, bytes: &u64| {
            *sum += *bytes as f64 / all;
            Some(*sum)
        };
        self.pair_bytes.iter().scan(0.0, sum).collect()
    }

    /// Bits per second that the busiest host sends or receives.
    pub fn busiest_bps(&self) -> f64 {
        let most = self.sent_bytes.iter().chain(&self.received_bytes).max();
        most.map_or(0.0, |bytes| *bytes as f64 * 8.0 / self.duration.as_s_f64())
    }

    /// Mean of the bits per second that a host sends, over all hosts.
    pub fn mean_host_bps(&self) -> f64 {
        self.mean_bps() / self.sent_bytes.len().max(1) as f64
    }
}

/// The fan-in at each flow, in order of size.
fn fan_ins(flows: &[TracedFlow], hosts: usize, window: Span) -> Vec<u32> {
    let mut of: Vec<Vec<&TracedFlow>> = vec![Vec::new(); hosts];
    flows.iter().for_each(|flow| of[flow.dst as usize].push(flow));
    let mut found = Vec::with_capacity(flows.len());
    for flows in of {
        let (mut first, mut counts) = (0, BTreeMap::new());
        for flow in &flows {
            *counts.entry(flow.src).or_insert(0u32) += 1;
            while flow.at.since(flows[first].at) > window {
                let source = flows[first].src;
                let left = counts.get_mut(&source).map_or(0, |count| {
                    *count -= 1;
                    *count
                });
                if left == 0 {
                    counts.remove(&source);
                }
                first += 1;
            }
            found.push(counts.len() as u32);
        }
    }
    found.sort_unstable();
    found
}

/// How a difference is expressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistanceKind {
    /// Largest difference between two distributions, from 0 to 1 (Kolmogorov-Smirnov).
    Distribution,
    /// Largest difference between the shares of bytes of the k busiest pairs, over all k.
    Shares,
    /// Synthetic over measured value.
    Ratio,
}

impl DistanceKind {
    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            DistanceKind::Distribution => "kolmogorov-smirnov",
            DistanceKind::Shares => "cumulative-shares",
            DistanceKind::Ratio => "ratio",
        }
    }
}

/// Difference between measured and synthetic traffic in one quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// Name in JSON.
    pub name: &'static str,
    /// Description for people.
    pub text: &'static str,
    /// Meaning of the value.
    pub kind: DistanceKind,
    /// The difference; `None` if it is undefined.
    pub value: Option<f64>,
    /// The value that two samples of the same distribution exceed with a probability of 5 %.
    pub by_chance: Option<f64>,
}

/// Differences between measured and synthetic traffic.
pub fn distances(measured: &Profile, synthetic: &Profile) -> Vec<Distance> {
    let floats = |values: &[u64]| values.iter().map(|value| *value as f64).collect::<Vec<_>>();
    let counts = |of: &Profile| of.fan_ins.iter().map(|n| f64::from(*n)).collect::<Vec<_>>();
    let distribution = |name, text, a: &[f64], b: &[f64]| Distance {
        name,
        text,
        kind: DistanceKind::Distribution,
        value: largest_difference(a, b),
        by_chance: by_chance(a.len(), b.len()),
    };
    let ratio = |name, text, of: fn(&Profile) -> f64| {
        let (measured, synthetic) = (of(measured), of(synthetic));
        let value = (measured > 0.0).then(|| synthetic / measured);
        Distance { name, text, kind: DistanceKind::Ratio, value, by_chance: None }
    };
    let (a, b) = (measured, synthetic);
    let [shares, others] = [a, b].map(Profile::pair_shares);
    let share = |of: &[f64], i: usize| of.get(i).copied().unwrap_or(1.0);
    let pairs = (0..shares.len().max(others.len()))
        .map(|i| (share(&shares, i) - share(&others, i)).abs())
        .fold(0.0, f64::max);
    vec![
        distribution("sizes", "flow sizes", &floats(&a.sizes), &floats(&b.sizes)),
        distribution("gaps", "times between starts", &a.gaps_us, &b.gaps_us),
        distribution(
            "sender_gaps",
            "times between starts of a sender",
            &a.sender_gaps_us,
            &b.sender_gaps_us,
        ),
        ratio("mean_load", "mean load", Profile::mean_bps),
        ratio("peak_load", "peak load, over a hundredth of the time", Profile::peak_bps),
        ratio("busiest_host", "load of the busiest host", Profile::busiest_bps),
        Distance {
            name: "pairs",
            text: "bytes per host pair",
            kind: DistanceKind::Shares,
            value: (a.bytes > 0 && b.bytes > 0).then_some(pairs),
            by_chance: None,
        },
        distribution("fan_in", "fan-in", &counts(a), &counts(b)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Time;

    fn flow(us: u64, src: u32, dst: u32, bytes: u64) -> TracedFlow {
        TracedFlow { at: Time::us(us), src, dst, bytes, lasted: None }
    }

    #[test]
    fn traffic_is_measured() {
        let flows = [flow(0, 0, 1, 10), flow(10, 2, 1, 20), flow(40, 0, 1, 30), flow(500, 0, 2, 5)];
        let of = Profile::of(&flows, 3, Span::us(1000), Span::us(100));
        assert_eq!((of.bytes, &of.sizes[..]), (65, &[5, 10, 20, 30][..]));
        assert_eq!(of.gaps_us, [10.0, 30.0, 460.0]);
        assert_eq!(of.sender_gaps_us, [40.0, 460.0]);
        assert_eq!(
            (of.pair_bytes.clone(), of.fan_ins.clone()),
            (vec![40, 20, 5], vec![1, 1, 2, 2])
        );
        assert_eq!(
            (of.sent_bytes.clone(), of.received_bytes.clone()),
            (vec![45, 0, 20], vec![0, 60, 5])
        );
        assert!((of.mean_bps() - 520_000.0).abs() < 1e-6 && of.loads_bps.len() == 100);
        assert!((of.loads_bps[0] - 8e6).abs() < 1e-6, "{}", of.loads_bps[0]);
        assert!((of.busiest_bps() - 480_000.0).abs() < 1e-6);
    }

    #[test]
    fn a_trace_has_no_distance_from_itself() {
        let flows: Vec<_> = (0..100).map(|i| flow(i * 7, (i % 5) as u32, 5, 100 + i)).collect();
        let of = Profile::of(&flows, 6, Span::us(700), Span::us(20));
        for distance in distances(&of, &of) {
            let same = if distance.kind == DistanceKind::Ratio { 1.0 } else { 0.0 };
            assert_eq!(distance.value, Some(same), "{distance:?}");
        }
    }
}
