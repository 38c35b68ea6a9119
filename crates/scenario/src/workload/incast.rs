//! Incasts in a trace: many sources that start towards one destination within a short window.

use std::collections::BTreeMap;

use tidegate_core::{Span, Time};

use super::trace::TracedFlow;

/// Longest time between the first and the last start of a burst, unless set.
pub(super) const WINDOW: Span = Span::us(100);
/// Smallest number of sources of a burst, unless set.
pub(super) const SOURCES: u32 = 8;
/// Number of standard deviations by which a burst exceeds the mean number of flows in a window.
const DEVIATIONS: f64 = 6.0;
/// Coefficient of variation of the times between bursts from which they count as random.
const IRREGULAR: f64 = 0.5;

/// The rule by which incasts are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncastRule {
    /// Longest time between the first and the last start of a burst.
    pub window: Span,
    /// Smallest number of sources.
    pub sources: u32,
}

impl Default for IncastRule {
    fn default() -> IncastRule {
        IncastRule { window: WINDOW, sources: SOURCES }
    }
}

/// The incasts of a trace, as one pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundIncast {
    /// Number of bursts.
    pub bursts: usize,
    /// Mean number of sources of a burst.
    pub fan_in: u32,
    /// Smallest and largest number of sources.
    pub fan_in_range: (u32, u32),
    /// Flows that belong to bursts.
    pub flows: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The destination, if all bursts have the same.
    pub dst: Option<u32>,
    /// Number of destinations.
    pub destinations: usize,
    /// Start of the first burst.
    pub first: Time,
    /// Mean time between bursts, if there are several.
    pub interval: Option<Span>,
    /// Whether the times between bursts vary as random ones do.
    pub is_random: bool,
    /// Mean time between the first and the last start of a burst.
    pub spread: Span,
}

/// A burst: numbers of its flows, and of its sources.
struct Burst {
    at: Time,
    dst: u32,
    flows: Vec<u32>,
    sources: u32,
}

/// Finds the incasts among flows that are in order of time. Also returns which flows belong to
/// them.
pub(super) fn find(
    flows: &[TracedFlow],
    hosts: usize,
    duration: Span,
    rule: IncastRule,
) -> (Option<FoundIncast>, Vec<bool>) {
    let mut by_destination: Vec<Vec<u32>> = vec![Vec::new(); hosts];
    for (number, flow) in flows.iter().enumerate() {
        by_destination[flow.dst as usize].push(number as u32);
    }
    let mut bursts = Vec::new();
    for (dst, numbers) in by_destination.iter().enumerate() {
        let mean = numbers.len() as f64 * rule.window.as_s_f64() / duration.as_s_f64();
        let least = (mean + DEVIATIONS * mean.sqrt()).max(f64::from(rule.sources)).ceil() as u32;
        of_destination(flows, numbers, (dst as u32, rule.window, least), &mut bursts);
    }
    let mut is_member = vec![false; flows.len()];
    for number in bursts.iter().flat_map(|burst| &burst.flows) {
        is_member[*number as usize] = true;
    }
    bursts.sort_by_key(|burst| (burst.at, burst.dst));
    (summary(flows, &bursts, duration), is_member)
}

/// Adds the bursts towards one destination. A window slides over the flows; once it holds enough
/// sources, all flows of the window that begins with its first flow form a burst.
fn of_destination(
    flows: &[TracedFlow],
    numbers: &[u32],
    (dst, window, least): (u32, Span, u32),
    bursts: &mut Vec<Burst>,
) {
    let flow = |i: usize| &flows[numbers[i] as usize];
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    let (mut first, mut end) = (0, 0);
    while first < numbers.len() {
        while end < numbers.len() && flow(end).at.since(flow(first).at) <= window {
            *counts.entry(flow(end).src).or_default() += 1;
            end += 1;
        }
        let sources = counts.len() as u32;
        if sources >= least {
            let members = numbers[first..end].to_vec();
            bursts.push(Burst { at: flow(first).at, dst, flows: members, sources });
            counts.clear();
            first = end;
            continue;
        }
        let source = flow(first).src;
        if let Some(count) = counts.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&source);
            }
        }
        first += 1;
    }
}

fn summary(flows: &[TracedFlow], bursts: &[Burst], duration: Span) -> Option<FoundIncast> {
    let (first, n) = (bursts.first()?, bursts.len());
    let members = || bursts.iter().flat_map(|burst| &burst.flows).map(|i| &flows[*i as usize]);
    let sources = || bursts.iter().map(|burst| burst.sources);
    let sum: u64 = sources().map(u64::from).sum();
    let mut destinations: Vec<u32> = bursts.iter().map(|burst| burst.dst).collect();
    destinations.sort_unstable();
    destinations.dedup();
    let spread = |burst: &Burst| {
        burst.flows.last().map_or(0, |last| flows[*last as usize].at.since(burst.at).as_ps())
    };
    let spreads: u64 = bursts.iter().map(spread).sum();
    let gaps: Vec<f64> =
        bursts.windows(2).map(|pair| pair[1].at.since(pair[0].at).as_s_f64()).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len().max(1) as f64;
    let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
    let deviation = (square / gaps.len().max(1) as f64).sqrt();
    Some(FoundIncast {
        bursts: n,
        fan_in: ((sum as f64 / n as f64).round() as u32).max(1),
        fan_in_range: (sources().min().unwrap_or(0), sources().max().unwrap_or(0)),
        flows: members().count(),
        bytes: members().map(|flow| flow.bytes).sum(),
        dst: if let [only] = destinations[..] { Some(only) } else { None },
        destinations: destinations.len(),
        first: first.at,
        interval: (n > 1).then(|| Span::ps(duration.as_ps() / n as u64)),
        is_random: n > 2 && deviation >= IRREGULAR * mean,
        spread: Span::ps(spreads / n as u64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(at: Span, src: u32, dst: u32) -> TracedFlow {
        TracedFlow { at: Time::ZERO + at, src, dst, bytes: 1000, lasted: None }
    }

    fn found(mut flows: Vec<TracedFlow>) -> (Option<FoundIncast>, usize) {
        flows.sort_by_key(|flow| flow.at);
        let rule = IncastRule::default();
        let (found, members) = find(&flows, 40, Span::ms(10), rule);
        (found, members.iter().filter(|member| **member).count())
    }

    #[test]
    fn bursts_of_many_sources_are_found() {
        let burst =
            |ms: u64| (1..21).map(move |src| flow(Span::us(1000 * ms + u64::from(src)), src, 0));
        // Single flows between others, and one that is too late for the burst.
        let others = (0..9).map(|ms| flow(Span::us(1000 * ms + 500), 3, 0));
        let (incast, members) = found((1..9).flat_map(burst).chain(others).collect());
        let incast = incast.unwrap();
        assert_eq!((incast.bursts, incast.fan_in, incast.flows, members), (8, 20, 160, 160));
        assert_eq!((incast.dst, incast.is_random), (Some(0), false));
        assert_eq!(incast.interval, Some(Span::us(1250)));
        assert_eq!((incast.first, incast.spread), (Time::us(1001), Span::us(19)));
    }

    #[test]
    fn few_sources_or_a_high_rate_are_no_incast() {
        // Seven sources; and one source with many flows.
        let few = (1..8).map(|src| flow(Span::us(u64::from(src)), src, 0));
        let one = (0..50).map(|i| flow(Span::us(i), 9, 1));
        assert_eq!(found(few.chain(one).collect()).0, None);
        // Ten flows in each window are usual at this rate.
        let dense = (0..1000).map(|i| flow(Span::us(10 * i), (1 + i % 30) as u32, 0));
        assert_eq!(found(dense.collect()).0, None);
    }
}
