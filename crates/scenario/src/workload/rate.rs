//! The default rate of the hosts' links: the smallest standard Ethernet rate that carries the
//! busiest host.

use tidegate_core::{Rate, Span};

use super::trace::{Trace, TracedFlow};

/// Smallest flow whose own rate is a lower bound of the rate of links, in bytes.
const LARGE: u64 = 1_000_000;
/// Number of units of resolution that it lasts at least.
const LONG: u64 = 10;
/// Rates of Ethernet, in Gbit/s.
const STANDARD: [u64; 9] = [1, 10, 25, 40, 50, 100, 200, 400, 800];
/// Shortest interval over which a peak is measured.
const SHORTEST: Span = Span::ms(1);
/// Largest number of intervals.
const INTERVALS: u64 = 100;

/// Rate of the hosts' links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostLink {
    /// The rate.
    pub rate: Rate,
    /// The reason.
    pub reason: LinkReason,
}

/// Reason for a rate of links: the load that they must carry, in bit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkReason {
    /// The user set the rate.
    Set,
    /// The fastest large flow.
    Flow(f64),
    /// The busiest host, over this interval.
    Peak(f64, Span),
    /// Twice the mean of the busiest host.
    Mean(f64),
}

impl LinkReason {
    /// Bits per second that the links must carry; `None` if the user set the rate.
    pub const fn bps(self) -> Option<f64> {
        match self {
            LinkReason::Set => None,
            LinkReason::Flow(bps) | LinkReason::Peak(bps, _) | LinkReason::Mean(bps) => Some(bps),
        }
    }
}

impl HostLink {
    /// The default for a trace. If the durations of flows are known, their bytes are spread over
    /// them, and the peak counts, or the fastest large flow. Otherwise a link has twice the mean
    /// rate.
    pub(super) fn of(trace: &Trace) -> HostLink {
        let is_known = trace.flows.iter().all(|flow| flow.lasted.is_some());
        let intervals = match is_known {
            true => (trace.duration.as_ps() / SHORTEST.as_ps()).clamp(1, INTERVALS),
            false => 1,
        };
        let width = Span::ps(trace.duration.as_ps().div_ceil(intervals).max(1));
        let ends: [fn(&TracedFlow) -> u32; 2] = [|flow| flow.src, |flow| flow.dst];
        let peaks = ends.map(|end| peak(trace, intervals as usize, width, end));
        let peak = peaks[0].max(peaks[1]) * 8.0 / width.as_s_f64();
        let fastest = trace.flows.iter().filter_map(|flow| rate(flow, trace.resolution));
        let fastest = fastest.fold(0.0, f64::max);
        let reason = match is_known {
            false => LinkReason::Mean(2.0 * peak),
            true if fastest > peak => LinkReason::Flow(fastest),
            true => LinkReason::Peak(peak, width),
        };
        let fits = |gbps: &&u64| reason.bps().is_none_or(|bps| **gbps as f64 * 1e9 >= bps);
        let gbps = STANDARD.iter().find(fits).copied().unwrap_or(STANDARD[STANDARD.len() - 1]);
        HostLink { rate: Rate::gbps(gbps), reason }
    }
}

/// Bits per second of a flow, if it is large and its duration is precise.
fn rate(flow: &TracedFlow, resolution: Span) -> Option<f64> {
    let lasted = flow.lasted.filter(|lasted| *lasted >= resolution.times(LONG))?;
    (flow.bytes >= LARGE).then(|| flow.bytes as f64 * 8.0 / lasted.as_s_f64())
}

/// The time that the busiest host needs at this rate for the bytes that it sends or receives.
pub(super) fn needed(trace: &Trace, rate: Rate) -> Span {
    let mut bytes = vec![[0u64; 2]; trace.hosts.len()];
    for flow in &trace.flows {
        bytes[flow.src as usize][0] += flow.bytes;
        bytes[flow.dst as usize][1] += flow.bytes;
    }
    let most = bytes.into_iter().flatten().max().unwrap_or(0);
    Span::from_ps_f64((most as f64 * 8e12 / rate.as_bps() as f64).ceil())
}

/// Most bytes of one host in one interval.
fn peak(trace: &Trace, intervals: usize, width: Span, end: fn(&TracedFlow) -> u32) -> f64 {
    let mut bytes = vec![0.0; trace.hosts.len() * intervals];
    for flow in &trace.flows {
        let row = &mut bytes[end(flow) as usize * intervals..][..intervals];
        let lasted = flow.lasted.unwrap_or(Span::ZERO).as_ps() as f64;
        let place = |ps: f64| ((ps / width.as_ps() as f64) as usize).min(intervals - 1);
        let from = flow.at.as_ps() as f64;
        let (first, last) = (place(from), place(from + lasted));
        let end = trace.duration.as_ps() as f64;
        if first == last && from + lasted <= end {
            row[first] += flow.bytes as f64;
            continue;
        }
        for (i, cell) in row.iter_mut().enumerate().take(last + 1).skip(first) {
            let begin = (i as f64 * width.as_ps() as f64).max(from);
            // A flow may go on after the trace.
            let stop = ((i + 1) as f64 * width.as_ps() as f64).min(from + lasted);
            *cell += flow.bytes as f64 * (stop - begin).max(0.0) / lasted;
        }
    }
    bytes.into_iter().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Time;

    fn trace(flows: Vec<TracedFlow>) -> Trace {
        Trace {
            file: "x".to_owned(),
            is_capture: false,
            hosts: vec!["a".to_owned(), "b".to_owned(), "c".to_owned()],
            flows,
            duration: Span::ms(100),
            resolution: Span::us(1),
            has_completions: true,
            noted: Vec::new(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn links_carry_the_peak_of_the_busiest_host() {
        let flow = |ms, src, mb: u64, lasted| TracedFlow {
            at: Time::ms(ms),
            src,
            dst: 2,
            bytes: mb * 1_000_000,
            lasted,
        };
        // 10 MB in 4 ms from each of two senders: 40 Gbit/s at the receiver.
        let both = |lasted| vec![flow(0, 0, 10, lasted), flow(1, 1, 10, lasted)];
        let link = HostLink::of(&trace(both(Some(Span::ms(4)))));
        let LinkReason::Peak(bps, over) = link.reason else { panic!("{link:?}") };
        assert_eq!((link.rate, over), (Rate::gbps(40), Span::ms(1)));
        assert!((bps / 40e9 - 1.0).abs() < 1e-6, "{link:?}");
        // 10 MB in 1 ms and a half: 53 Gbit/s, more than any millisecond of the others.
        let fast = flow(50, 0, 10, Some(Span::us(1500)));
        let link = HostLink::of(&trace([both(Some(Span::ms(4))), vec![fast]].concat()));
        assert!(link.rate == Rate::gbps(100) && link.reason.bps().unwrap() > 53e9, "{link:?}");
        // Without durations: twice 1.6 Gbit/s.
        let link = HostLink::of(&trace(both(None)));
        assert!(link.rate == Rate::gbps(10) && matches!(link.reason, LinkReason::Mean(_)));
        // Most bytes of a long flow come after the trace.
        let long = trace(vec![flow(0, 0, 1000, Some(Span::s(1)))]);
        assert_eq!(HostLink::of(&long).rate, Rate::gbps(10));
        assert_eq!(needed(&long, Rate::gbps(8)), Span::s(1));
    }
}
