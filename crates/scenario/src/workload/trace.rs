//! The flows of a user's own traffic, in order of time, between numbered hosts.

use tidegate_core::{Span, Time};

use super::address::{Address, Addresses};
use super::time::rounded;
use crate::error::Error;

/// Largest number of flows of a trace.
pub(super) const MOST_FLOWS: usize = 20_000_000;
/// Largest number of hosts of a fabric.
const MOST_HOSTS: usize = 100_000;
/// Longest trace: scenarios last at most 1,000 s.
pub(super) const LONGEST: Span = Span::s(900);
/// Largest number of bytes of a trace.
const MOST_BYTES: u128 = 1_000_000_000_000_000_000;

/// A flow of the trace: payload in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedFlow {
    /// Start.
    pub at: Time,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Payload bytes.
    pub bytes: u64,
    /// Time from the start to the end, if it is known.
    pub lasted: Option<Span>,
}

/// Number of things of one kind that were left out of a trace, or noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Name in JSON.
    pub name: &'static str,
    /// Description for people.
    pub text: &'static str,
    /// Number.
    pub count: u64,
}

/// The traffic that a file contains.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Name of the file, without its folder.
    pub file: String,
    /// Whether the file is a packet capture.
    pub is_capture: bool,
    /// Addresses of the hosts, by number.
    pub hosts: Vec<String>,
    /// The flows, in order of time.
    pub flows: Vec<TracedFlow>,
    /// Time that the flows cover: from the first start to a mean gap after the last, or the
    /// requested window.
    pub duration: Span,
    /// Largest power of ten that divides all times, at most a second.
    pub resolution: Span,
    /// Whether the durations of the flows are completion times.
    pub has_completions: bool,
    /// Counts of everything that was left out or noted.
    pub noted: Vec<Noted>,
    /// Warnings about the file.
    pub warnings: Vec<String>,
}

/// A part of a trace: from, and to if it is limited, both since the first flow.
pub type Window = (Span, Option<Span>);

/// A flow as read: the time is relative to the first record of the file, in picoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw {
    pub(super) at: i64,
    pub(super) src: u32,
    pub(super) dst: u32,
    pub(super) bytes: u64,
    /// In picoseconds.
    pub(super) lasted: Option<u64>,
}

/// The content of a file before its hosts are numbered.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) file: String,
    pub(super) is_capture: bool,
    pub(super) addresses: Addresses,
    pub(super) flows: Vec<Raw>,
    pub(super) noted: Vec<Noted>,
    pub(super) warnings: Vec<String>,
}

/// Reasons to leave out a flow.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    empty: u64,
    group: u64,
    own: u64,
}

impl LeftOut {
    /// Whether a flow between these addresses is part of the trace.
    pub(super) fn keeps(&mut self, src: &Address, dst: &Address, bytes: u64) -> bool {
        let (group, own) = (src.is_group() || dst.is_group(), src == dst);
        self.empty += u64::from(bytes == 0);
        self.group += u64::from(bytes > 0 && group);
        self.own += u64::from(bytes > 0 && !group && own);
        bytes > 0 && !group && !own
    }

    pub(super) fn noted(&self) -> [Noted; 3] {
        let noted = |name, text, count| Noted { name, text, count };
        [
            noted("zero_size_flows", "flows without payload", self.empty),
            noted("group_flows", "flows to or from multicast or broadcast addresses", self.group),
            noted("self_flows", "flows from a host to itself", self.own),
        ]
    }
}

impl Gathered {
    fn wrong(&self, found: impl Into<Box<str>>, expected: impl Into<Box<str>>) -> Error {
        Error::whole(&self.file, found, expected)
    }

    /// Orders the flows, selects those that start in `window`, and numbers their hosts.
    ///
    /// # Errors
    /// If there are no such flows, or more hosts or a longer time than a scenario may have.
    pub(super) fn finish(mut self, window: Option<Window>) -> Result<Trace, Error> {
        self.flows.sort_by_key(|flow| (flow.at, flow.src, flow.dst, flow.bytes, flow.lasted));
        let Some(first) = self.flows.first().map(|flow| flow.at) else {
            return Err(self.wrong("no flows with payload", "at least one flow between two hosts"));
        };
        let resolution = resolution(self.flows.iter().map(|flow| flow.at.abs_diff(first)));
        let (origin, duration) = self.select(first, window)?;
        if duration > LONGEST {
            return Err(self.wrong(
                format!("flows over {duration}"),
                format!("flows over at most {LONGEST}: choose a part with --window 0s..60s"),
            ));
        }
        let bytes: u128 = self.flows.iter().map(|flow| u128::from(flow.bytes)).sum();
        if bytes > MOST_BYTES {
            let expected = format!("at most {MOST_BYTES} bytes");
            return Err(self.wrong(format!("flows of {bytes} bytes together"), expected));
        }
        self.numbered(origin, duration, resolution)
    }

    /// Selects the flows that start in the window. Returns their origin and duration.
    fn select(&mut self, first: i64, window: Option<Window>) -> Result<(i64, Span), Error> {
        let all = self.flows.len();
        let end = self.flows.last().map_or(first, |last| last.at);
        let (from, to) = window.unwrap_or((Span::ZERO, None));
        let is_in = |flow: &Raw| {
            let at = Span::ps(flow.at.abs_diff(first));
            at >= from && to.is_none_or(|to| at < to)
        };
        self.flows.retain(is_in);
        let Some(last) = self.flows.last() else {
            return Err(Error::whole(
                "--window",
                "a window without flows",
                format!("a window within the {} of the trace", Span::ps(end.abs_diff(first))),
            ));
        };
        let outside = (all - self.flows.len()) as u64;
        self.noted.push(Noted {
            name: "outside_window_flows",
            text: "flows outside the window",
            count: outside,
        });
        let origin = first.saturating_add_unsigned(from.as_ps());
        let covered = Span::ps(last.at.abs_diff(origin));
        let n = self.flows.len() as f64;
        let gap = covered.scale(if n > 1.0 { 1.0 / (n - 1.0) } else { 0.0 }).max(Span::ns(1));
        // A window that ends after the trace is as long as the trace.
        let duration = match to {
            Some(to) if Span::ps(end.abs_diff(first)) >= to => to.beyond(from),
            _ => rounded(covered.plus(gap)),
        };
        Ok((origin, duration))
    }

    /// Numbers the hosts of the selected flows.
    fn numbered(self, origin: i64, duration: Span, resolution: Span) -> Result<Trace, Error> {
        let mut used = vec![false; self.addresses.len()];
        for flow in &self.flows {
            used[flow.src as usize] = true;
            used[flow.dst as usize] = true;
        }
        let (hosts, numbers) = self.addresses.ordered(&used);
        if hosts.len() > MOST_HOSTS {
            return Err(self.wrong(
                format!("{} hosts", hosts.len()),
                format!("at most {MOST_HOSTS} hosts: choose a part with --window"),
            ));
        }
        let flow = |raw: &Raw| TracedFlow {
            at: Time::ps(raw.at.abs_diff(origin)),
            src: numbers[raw.src as usize],
            dst: numbers[raw.dst as usize],
            bytes: raw.bytes,
            lasted: raw.lasted.map(Span::ps),
        };
        let flows: Vec<TracedFlow> = self.flows.iter().map(flow).collect();
        let has_completions = !self.is_capture && flows.iter().any(|flow| flow.lasted.is_some());
        let Gathered { file, is_capture, noted, warnings, .. } = self;
        Ok(Trace {
            file,
            is_capture,
            hosts,
            flows,
            duration,
            resolution,
            has_completions,
            noted,
            warnings,
        })
    }
}

/// Largest power of ten that divides all times, from a picosecond to a second.
fn resolution(times: impl Iterator<Item = u64>) -> Span {
    let mut unit = 1_000_000_000_000;
    for ps in times {
        while !ps.is_multiple_of(unit) {
            unit /= 10;
        }
    }
    Span::ps(unit)
}
