//! Times of the iterations of jobs, summed over ranks.

use tidegate_core::{Span, Time};

use crate::bytes::bytes;

/// The ranks of a job that have ended an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IterationTime {
    /// Index of the job in the run's workload.
    pub job: u32,
    /// Number of the iteration.
    pub iteration: u32,
    /// Number of ranks that have ended it.
    pub ranks: u32,
    /// Earliest time at which one of these ranks ended its previous iteration, or the start of the
    /// job.
    pub begins: Time,
    /// Latest time at which one of them ended this iteration.
    pub ends: Time,
    /// Sum of the times between the two, in picoseconds.
    pub span_ps: u128,
    /// Part of this sum in which a rank computed on at least one of its streams. In the rest, it
    /// only waited for messages.
    pub busy_ps: u128,
}

bytes! {
    IterationTime { job, iteration, ranks, begins, ends, span_ps, busy_ps }
}

/// Times of the iterations of one job in a partition.
pub(crate) struct Iterations {
    /// `None` if the job does not compute, so that its times follow from its messages.
    all: Option<Vec<IterationTime>>,
}

impl Iterations {
    pub(crate) fn new(computes: bool) -> Iterations {
        Iterations { all: computes.then(Vec::new) }
    }

    /// A rank has ended an iteration at `now`, and the previous one at `since`. It computed for
    /// `busy`.
    pub(crate) fn add(&mut self, iteration: u32, since: Time, now: Time, busy: Span) {
        let Some(all) = &mut self.all else { return };
        while all.len() <= iteration as usize {
            let iteration = all.len() as u32;
            all.push(IterationTime { iteration, ..IterationTime::none() });
        }
        all[iteration as usize].join(&IterationTime {
            ranks: 1,
            begins: since,
            ends: now,
            span_ps: u128::from(now.since(since).as_ps()),
            busy_ps: u128::from(busy.as_ps()),
            ..IterationTime::none()
        });
    }

    /// All times, of the job with this number.
    pub(crate) fn of_job(&self, job: u32) -> impl Iterator<Item = IterationTime> {
        self.all.iter().flatten().map(move |time| IterationTime { job, ..*time })
    }
}

impl IterationTime {
    fn none() -> IterationTime {
        let (begins, ends) = (Time::NEVER, Time::ZERO);
        IterationTime { job: 0, iteration: 0, ranks: 0, begins, ends, span_ps: 0, busy_ps: 0 }
    }

    /// Adds other ranks.
    fn join(&mut self, others: &IterationTime) {
        self.ranks += others.ranks;
        self.begins = self.begins.min(others.begins);
        self.ends = self.ends.max(others.ends);
        self.span_ps += others.span_ps;
        self.busy_ps += others.busy_ps;
    }

    /// Joins the times of all partitions, and orders them by job and iteration.
    pub(crate) fn joined(mut all: Vec<IterationTime>) -> Vec<IterationTime> {
        all.sort_unstable_by_key(|time| (time.job, time.iteration));
        all.dedup_by(|next, first| {
            let same = (next.job, next.iteration) == (first.job, first.iteration);
            if same {
                first.join(next);
            }
            same
        });
        all
    }
}
