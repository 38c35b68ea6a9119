//! What the hosts of a part are told to do, and when.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use tidegate_core::Time;

use crate::flows::Submission;

/// Something the hosts do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// A flow begins.
    Submit(Submission),
    /// The flow in this slot stops.
    Stop(u32),
}

/// Flows that begin soon, and stops.
#[derive(Default)]
pub(crate) struct Agenda {
    /// In order of time.
    submissions: VecDeque<Submission>,
    /// (time, order of submission, slot).
    stops: BinaryHeap<Reverse<(Time, u64, u32)>>,
    order: u64,
}

impl Agenda {
    /// A flow begins, none of those told before later.
    pub(crate) fn submit(&mut self, submission: Submission) {
        debug_assert!(
            self.submissions.back().is_none_or(|s| s.flow.start <= submission.flow.start)
        );
        self.submissions.push_back(submission);
    }

    /// Lets the flow in `slot` stop at `at`.
    pub(crate) fn stop_at(&mut self, at: Time, slot: u32) {
        self.order += 1;
        self.stops.push(Reverse((at, self.order, slot)));
    }

    /// Nothing more is due.
    pub(crate) fn close(&mut self) {
        self.submissions.clear();
        self.stops.clear();
    }

    /// When the next action is due.
    pub(crate) fn next_at(&self) -> Time {
        let submit = self.submissions.front().map_or(Time::NEVER, |next| next.flow.start);
        submit.min(self.stops.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at))
    }

    /// Takes an action that is due at `now`; stops before submissions.
    pub(crate) fn take(&mut self, now: Time) -> Option<Action> {
        if let Some(Reverse((at, _, slot))) = self.stops.peek().copied()
            && at <= now
        {
            self.stops.pop();
            return Some(Action::Stop(slot));
        }
        let next = self.submissions.pop_front_if(|next| next.flow.start <= now)?;
        Some(Action::Submit(next))
    }
}
