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

/// What waits for arrivals, as the hosts of a part know it.
pub(crate) struct Turns {
    /// By host: its part.
    part_of: Vec<u32>,
    loops: Option<Loops>,
    jobs: Jobs,
    /// What begins here and arrives in another part: the part, and the message.
    announced: Vec<(u32, Submission)>,
    closed: bool,
}

impl Turns {
    /// Of the part `number`, where there are any in the run.
    pub(crate) fn new(setup: &Arc<Setup>, part_of: &[u32], number: u32) -> Option<Box<Turns>> {
        let loops = Loops::new(setup);
        let jobs = Jobs::new(setup, |host| part_of[host as usize] == number);
        (loops.is_some() || !jobs.is_empty()).then(|| {
            let (part_of, announced) = (part_of.to_vec(), Vec::new());
            Box::new(Turns { part_of, loops, jobs, announced, closed: false })
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

    /// A message begins here that arrives in another part.
    pub(crate) fn announce(&mut self, submission: &Submission) {
        if submission.id >= FIRST_ID {
            let part = self.part_of[submission.flow.dst as usize];
            self.announced.push((part, *submission));
        }
    }

    /// What has begun here since the last time and arrives elsewhere, with the part.
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
