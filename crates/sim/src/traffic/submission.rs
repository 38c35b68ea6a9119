//! Flows that start, times at which ranks of jobs continue, and requests that a reply answers.

use tidegate_core::Time;
use tidegate_core::workload::Flow;

use crate::bytes::bytes;

/// A flow that starts soon, with its ID in the run and its number at its host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submission {
    pub(crate) flow: Flow,
    /// Order of submission in the run.
    pub(crate) id: u64,
    /// Number that its packets carry: messages that its host has submitted before.
    pub(crate) number: u32,
    /// Is one of a known number, which a run may wait for.
    pub(crate) listed: bool,
}

/// A consequence of an arrival, or of the passage of time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    /// A dependent message starts.
    Submit(Submission),
    /// A rank of a job continues at this time.
    Wake(Time, Wake),
    /// A rank has ended the last iteration of its job.
    Ended,
}

/// An event of a rank of a job, other than an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wake {
    /// The computation before an iteration ends.
    Begin { job: u32, rank: u32 },
    /// A computation starts, because its stream is free.
    Started { job: u32, rank: u32, operation: u32 },
    /// A computation ends.
    Computed { job: u32, rank: u32, operation: u32 },
}

/// A reply, and the request that it answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnsweredRequest {
    /// ID of the reply.
    pub(crate) id: u64,
    /// Time at which the request was submitted.
    pub(crate) at: Time,
    /// Label of the request.
    pub(crate) label: u16,
}

bytes! {
    AnsweredRequest { id, at, label }
}
