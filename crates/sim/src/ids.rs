//! Message IDs of a run. IDs of dependent messages are above those of all others, and contain their
//! origin.

use tidegate_core::collective::{MOST_ITERATIONS, MOST_JOBS, MOST_MESSAGES};

/// First ID of dependent messages. Those of closed loops come first.
pub(crate) const FIRST_DEPENDENT: u64 = 1 << 40;
/// Message IDs of jobs have this bit. Below it they contain job, iteration and message.
pub(crate) const FIRST_JOB: u64 = MOST_JOBS << JOB_BIT;
pub(crate) const JOB_BIT: u32 = ITERATION_BIT + MOST_ITERATIONS.ilog2();
pub(crate) const ITERATION_BIT: u32 = MOST_MESSAGES.ilog2();

/// An iteration of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index of the collective in the run's workload.
    pub job: u32,
    /// Number of its iteration.
    pub iteration: u32,
}

/// The iteration that the message with this ID belongs to.
pub(crate) fn step(id: u64) -> Option<Step> {
    let bits = id.checked_sub(FIRST_JOB)?;
    let iteration = (bits >> ITERATION_BIT) % MOST_ITERATIONS;
    Some(Step { job: (bits >> JOB_BIT) as u32, iteration: iteration as u32 })
}
