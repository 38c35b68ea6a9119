//! Failures that end a run.

use std::fmt;

use crate::parallel::communicator::RankFailure;
use crate::ports::deadlock::Deadlock;

/// A failure that ends a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Another process is lost.
    RankFailure(RankFailure),
    /// Ports pause each other in a cycle.
    Deadlock(Deadlock),
}

impl From<RankFailure> for Failure {
    fn from(lost: RankFailure) -> Failure {
        Failure::RankFailure(lost)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::RankFailure(lost) => lost.fmt(f),
            Failure::Deadlock(deadlock) => deadlock.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}
