//! Why a run cannot go on.

use std::fmt;

use crate::deadlock::Deadlock;
use crate::peers::Lost;

/// Why a run cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Another process is lost.
    Lost(Lost),
    /// Ports wait for each other in a circle.
    Deadlock(Deadlock),
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Failure {
        Failure::Lost(lost)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Lost(lost) => lost.fmt(f),
            Failure::Deadlock(deadlock) => deadlock.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}
