//! Rows of a run: flows with the names, exchanges and iterations that they refer to.

use tidegate_core::{Span, Time};

use crate::fixed::Fixed;

/// Names that rows refer to by number.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Names of hosts.
    pub hosts: Vec<String>,
    /// Names of switches.
    pub switches: Vec<String>,
    /// Labels; the first is empty (unlabelled).
    pub labels: Vec<String>,
    /// Names of protocols, by stack; stacks may share a protocol.
    pub protocols: Vec<String>,
}

/// One flow, finished or not.
#[derive(Clone, Copy, Debug)]
pub struct FlowRow {
    /// Number in order of submission.
    pub id: u64,
    /// Number of its label.
    pub label: u16,
    /// Number of its stack.
    pub stack: u16,
    /// Number of the sending host.
    pub src: u32,
    /// Number of the receiving host.
    pub dst: u32,
    /// Time of submission.
    pub start: Time,
    /// Payload; `None`: unlimited.
    pub size_bytes: Option<u64>,
    /// Payload delivered since time 0.
    pub delivered_bytes: u64,
    /// Payload delivered within the measured window.
    pub window_bytes: u64,
    /// Part of its lifetime within the measured window; `None` if it is too short for a meaningful
    /// rate.
    pub lifetime: Option<Span>,
    /// Time at which the last byte reached the receiving application.
    pub completed: Option<Time>,
    /// Time at which the sender knew that the message was complete.
    pub acked: Option<Time>,
    /// Retransmitted payload.
    pub retransmitted_bytes: u64,
    /// Completion time of the same transfer in an empty network; zero if undefined.
    pub ideal: Span,
    /// Max-min fair rate, if known.
    pub fair_share_gbps: Option<f64>,
    /// Whether the flow counts in completion times: it has a limited size and was submitted after
    /// warm-up.
    pub measured: bool,
    /// Exchange of a request or a reply of a closed loop.
    pub exchange: Option<ExchangeRow>,
    /// Iteration of a message of a collective.
    pub step: Option<StepRow>,
}

/// The exchange of a request and its reply.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeRow {
    /// Time of submission of the request.
    pub requested: Time,
    /// Number of the request's label.
    pub label: u16,
    /// Whether this row is the reply.
    pub is_reply: bool,
}

impl FlowRow {
    /// Returns the time from submission to the last byte at the receiver.
    pub fn fct(&self) -> Option<Span> {
        self.completed.map(|at| at.since(self.start))
    }
    /// Returns the time from submission until the sender knows of the completion.
    pub fn acked_after(&self) -> Option<Span> {
        self.acked.map(|at| at.since(self.start))
    }
    /// Returns, for a reply, the time from the submission of its request to its last byte at the
    /// client.
    pub fn exchange(&self) -> Option<Span> {
        let exchange = self.exchange.filter(|exchange| exchange.is_reply)?;
        self.completed.map(|at| at.since(exchange.requested))
    }
    /// Returns the completion time over the ideal one, to six decimals.
    pub fn slowdown(&self) -> Option<Fixed> {
        self.slowdown_of(self.fct()?)
    }
    /// Returns the slowdown for a completion time of `took`.
    pub(crate) fn slowdown_of(&self, took: Span) -> Option<Fixed> {
        let (ideal, took) = (u128::from(self.ideal.as_ps()), u128::from(took.as_ps()));
        (ideal > 0).then(|| Fixed::millionths(((took * 1_000_000 + ideal / 2) / ideal) as u64))
    }
    /// Returns the payload delivered within the measured window, over the part of its lifetime
    /// within it.
    pub fn goodput_gbps(&self) -> Option<f64> {
        gbps(self.window_bytes, self.lifetime?)
    }
}

/// Reference to an iteration of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRow {
    /// Number of the collective.
    pub job: u32,
    /// Number of the iteration.
    pub iteration: u32,
}

/// Times of the ranks of a job or collective in an iteration, as far as they have ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IterationRow {
    /// Number of the job or collective.
    pub job: u32,
    /// Number of ranks that have ended the iteration.
    pub ranks: u32,
    /// Earliest time at which one of them ended its previous iteration, or the start of the job.
    pub begins: Time,
    /// Latest time at which one of them ended this iteration.
    pub ends: Time,
    /// Sum of the times between the two, in picoseconds.
    pub span_ps: u128,
    /// Part of this sum in which a rank computed.
    pub busy_ps: u128,
}

/// Returns the name at `index`, or `?` if there is none.
pub(crate) fn name(names: &[String], index: usize) -> &str {
    names.get(index).map_or("?", String::as_str)
}

/// Returns `bytes` over `span`; `None` if the span is zero.
pub(crate) fn gbps(bytes: u64, span: Span) -> Option<f64> {
    // 8 bits over a picosecond are 8000 Gbit/s.
    (span > Span::ZERO).then(|| bytes as f64 * 8e3 / span.as_ps() as f64)
}
