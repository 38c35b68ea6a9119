//! Dependent messages: those that start when other messages have arrived, in closed loops and jobs.
//!
//! Only the sending host knows when such a message starts, so no feed can hand it out in advance.
//! All its other properties follow from its ID, so results do not depend on the partitioning. The
//! sender's partition starts a message. If the receiver is in another partition, that partition
//! learns of the message at the end of the window, before its first packet lands.

use std::sync::Arc;

use tidegate_core::{Role, Time};

use crate::ids::{self, FIRST_DEPENDENT};
use crate::measures::iterations::IterationTime;
use crate::setup::Setup;
use crate::traffic::jobs::Jobs;
use crate::traffic::loops::Loops;
use crate::traffic::submission::{AnsweredRequest, Next, Submission, Wake};

/// Dependent messages of the hosts of one partition.
pub(crate) struct Dependents {
    /// Partition of each host.
    partition_of: Vec<u32>,
    loops: Option<Loops>,
    jobs: Jobs,
    /// Messages that start here and arrive in another partition, with that partition.
    announced: Vec<(u32, Submission)>,
    closed: bool,
}

impl Dependents {
    /// For the partition `number`; `None` if the run has no dependent messages.
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

    /// Messages that wait for no other, of the hosts for which `is_here` returns true.
    pub(crate) fn first(&mut self, is_here: impl Fn(u32) -> bool, mut out: impl FnMut(Next)) {
        let loops = self.loops.iter().flat_map(|loops| loops.first(&is_here));
        loops.for_each(|submission| out(Next::Submit(submission)));
        self.jobs.first(out);
    }

    /// Registers a message that is about to arrive here.
    pub(crate) fn expect(&mut self, submission: &Submission) {
        if let Some(loops) = &mut self.loops {
            loops.expect(submission);
        }
    }

    /// Records a message that starts here, if another partition must learn of it.
    pub(crate) fn announce(&mut self, submission: &Submission) {
        if submission.id >= FIRST_DEPENDENT {
            let partition = self.partition_of[submission.flow.dst as usize];
            self.announced.push((partition, *submission));
        }
    }

    /// Removes the messages recorded since the last call, each with the partition that receives it.
    pub(crate) fn take_announced(&mut self) -> impl Iterator<Item = (u32, Submission)> {
        self.announced.drain(..)
    }

    /// Starts the messages that follow the arrival of a message at `now`. Replies are also added to
    /// `answered`.
    pub(crate) fn arrived(
        &mut self,
        id: u64,
        now: Time,
        answered: &mut Vec<AnsweredRequest>,
        mut out: impl FnMut(Next),
    ) {
        if self.closed {
            return;
        }
        if ids::step(id).is_some() {
            self.jobs.arrived(id, now, out);
        } else if let Some(loops) = &mut self.loops
            && let Some(next) = loops.arrived(id, now, answered)
        {
            out(Next::Submit(next));
        }
    }

    /// Continues a rank of a job, which has waited for `now`.
    pub(crate) fn woken(&mut self, wake: Wake, now: Time, out: impl FnMut(Next)) {
        if !self.closed {
            self.jobs.woken(wake, now, out);
        }
    }

    /// Times of the iterations of jobs that ranks of this partition have ended.
    pub(crate) fn times(&self) -> Vec<IterationTime> {
        self.jobs.times()
    }

    /// Role of the message with this ID for its sender and receiver.
    pub(crate) fn role(&self, id: u64) -> Role {
        self.loops.as_ref().map_or(Role::Alone, |loops| loops.role(id))
    }

    /// Ends submissions: later arrivals start nothing.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }
}
