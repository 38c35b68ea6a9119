//! Communication between the processes of a run.
//!
//! The engine knows the other processes only through this trait; it knows no sockets or files. Each
//! process is a *rank*, numbered from 0. All ranks have the same number of partitions.

use std::fmt;

/// One rank of a run in several processes, with its channels to the others.
///
/// Messages from one rank to another arrive complete and in order. `send` must not wait for the
/// receiver, so that all ranks may send before any receives.
pub trait Communicator: Send {
    /// Number of this rank.
    fn rank(&self) -> usize;
    /// Number of ranks.
    fn count(&self) -> usize;
    /// Sends `bytes` to the rank `to`, and leaves an empty vector, which may keep its capacity.
    ///
    /// # Errors
    /// If a rank is lost.
    fn send(&mut self, to: usize, bytes: &mut Vec<u8>) -> Result<(), RankFailure>;
    /// Waits for the next message from the rank `from`, and replaces `bytes` by it.
    ///
    /// # Errors
    /// If a rank is lost.
    fn receive(&mut self, from: usize, bytes: &mut Vec<u8>) -> Result<(), RankFailure>;
}

/// The processes of one run, from their start to their end.
pub trait ProcessGroup: Sync {
    /// The connection to the other processes, for the engine.
    fn communicator(&self) -> Box<dyn Communicator>;
    /// Number of processes on this machine.
    fn on_this_machine(&self) -> usize;
    /// Reports to the other processes that this one fails, and why.
    fn abort(self: Box<Self>, failure: &RankFailure);
    /// Leaves the group; every process does so at the end of a run.
    fn leave(self: Box<Self>);
}

/// A rank has failed, so the run cannot continue on any rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankFailure {
    /// Number of the failed rank.
    pub rank: usize,
    /// Cause, as far as it is known.
    pub why: String,
}

impl RankFailure {
    /// The rank `rank` has sent malformed bytes.
    pub(crate) fn unread(rank: usize) -> RankFailure {
        RankFailure { rank, why: "it sent malformed data".to_owned() }
    }
}

impl fmt::Display for RankFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} of the run: {}", self.rank, self.why)
    }
}

impl std::error::Error for RankFailure {}
