//! Messages that begin because others have arrived: those of closed loops and of jobs.
//!
//! When such a message begins is known at its host and nowhere else, so no feed can hand it out
//! ahead. Everything but the time follows from its name, so what a run leaves does not hang on
//! where hosts are cut apart. The part of the sender begins a message; that of the receiver, where
//! it is another, hears of it at the end of the window, before its first packet lands.

use std::sync::Arc;

use tidegate_core::{Role, Time};

use crate::flows::Submission;
use crate::jobs::{self, Jobs};
use crate::loops::{Asked, FIRST_ID, Loops};
use crate::setup::Setup;

/// What waits for arrivals, as the hosts of a partition know it.
pub(crate) struct Dependents {
    /// By host: its partition.
    partition_of: Vec<u32>,
    loops: Option<Loops>,
    jobs: Jobs,
    /// What begins here and arrives in another partition: the partition, and the message.
    announced: Vec<(u32, Submission)>,
    closed: bool,
}

impl Dependents {
    /// Of the partition `number`, where there are any in the run.
    pub(crate) fn new(
        setup: &Arc<Setup>,
        partition_of: &[u32],
        number: u32,
    ) -> Option<Box<Dependents>> {
        let loops = Loops::new(setup);
        let jobs = Jobs::new(setup, |host| partition_of[host as usize] == number);
        (loops.is_some() || !jobs.is_empty()).then(|| {
            let (partition_of, announced) = (partition_of.to_vec(), Vec::new());
            Box::new(Dependents { partition_of, loops, jobs, announced, closed: false })
        })
    }

    /// The messages that wait for none, of the hosts for which `is_here`.
    pub(crate) fn first(&mut self, is_here: impl Fn(u32) -> bool) -> Vec<Submission> {
        let mut first = self.loops.as_ref().map_or(Vec::new(), |loops| loops.first(is_here));
        self.jobs.first(|submission| first.push(submission));
        first
    }

    /// A message is about to arrive here.
    pub(crate) fn expect(&mut self, submission: &Submission) {
        if let Some(loops) = &mut self.loops {
            loops.expect(submission);
        }
    }

    /// A message begins here that arrives in another partition.
    pub(crate) fn announce(&mut self, submission: &Submission) {
        if submission.id >= FIRST_ID {
            let partition = self.partition_of[submission.flow.dst as usize];
            self.announced.push((partition, *submission));
        }
    }

    /// What has begun here since the last time and arrives elsewhere, with the partition.
    pub(crate) fn take_announced(&mut self) -> impl Iterator<Item = (u32, Submission)> {
        self.announced.drain(..)
    }

    /// What the arrival of a message at `now` leads to; replies are added to `asked`, too.
    pub(crate) fn arrived(
        &mut self,
        id: u64,
        now: Time,
        asked: &mut Vec<Asked>,
        mut begin: impl FnMut(Submission),
    ) {
        if self.closed {
            return;
        }
        if jobs::step(id).is_some() {
            self.jobs.arrived(id, now, begin);
        } else if let Some(loops) = &mut self.loops
            && let Some(next) = loops.arrived(id, now, asked)
        {
            begin(next);
        }
    }

    /// What the message with this id is to those who send and receive it.
    pub(crate) fn role(&self, id: u64) -> Role {
        self.loops.as_ref().map_or(Role::Alone, |loops| loops.role(id))
    }

    /// Nothing more is submitted.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }
}
