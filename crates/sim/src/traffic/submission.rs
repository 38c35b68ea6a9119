//! Flows that start, and requests that a reply answers.

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

/// A reply, and the request that it answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// ID of the reply.
    pub(crate) id: u64,
    /// Time at which the request was submitted.
    pub(crate) at: Time,
    /// Label of the request.
    pub(crate) label: u16,
}

bytes! {
    Asked { id, at, label }
}
