//! The other processes that a run is done in.
//!
//! The engine knows of them what this trait says, and of nothing that carries bytes. Each process
//! is a *rank*, numbered from 0, and has as many parts of the fabric as every other.

use std::fmt;

/// A process among those that a run is done in, as it sees the others.
///
/// What one rank sends to another arrives whole and in order. Sending does not wait for the
/// receiver, so that all may send before any receives.
pub trait Communicator: Send {
    /// The number of this rank.
    fn rank(&self) -> usize;
    /// How many there are.
    fn count(&self) -> usize;
    /// Hands `bytes` to the rank `to`, and leaves an empty vector, perhaps with room in it.
    ///
    /// # Errors
    /// Where a rank is lost.
    fn send(&mut self, to: usize, bytes: &mut Vec<u8>) -> Result<(), RankFailure>;
    /// Waits for what the rank `from` sends next, and puts it in the place of `bytes`.
    ///
    /// # Errors
    /// Where a rank is lost.
    fn receive(&mut self, from: usize, bytes: &mut Vec<u8>) -> Result<(), RankFailure>;
}

/// The processes of one run, from their start to their end.
pub trait ProcessGroup: Sync {
    /// The connection to the other processes, for the engine.
    fn communicator(&self) -> Box<dyn Communicator>;
    /// Number of processes on this machine.
    fn on_this_machine(&self) -> usize;
    /// Reports to the other processes that this one fails, and why.
    fn give_up(self: Box<Self>, failure: &RankFailure);
    /// Leaves the group; every process does so at the end of a run.
    fn leave(self: Box<Self>);
}

/// A rank cannot go on, so that none can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankFailure {
    /// Which.
    pub rank: usize,
    /// Why, as far as it is known.
    pub why: String,
}

impl RankFailure {
    /// The rank `rank` has sent what nobody can read.
    pub(crate) fn unread(rank: usize) -> RankFailure {
        RankFailure { rank, why: "what it sent cannot be read".to_owned() }
    }
}

impl fmt::Display for RankFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} of the run: {}", self.rank, self.why)
    }
}

impl std::error::Error for RankFailure {}
