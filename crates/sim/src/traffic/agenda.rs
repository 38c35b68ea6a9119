//! Scheduled actions of the hosts of a partition.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use tidegate_core::{MessageId, Time};

use crate::traffic::submission::{Next, Submission, Wake};

/// An action of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// A flow starts.
    Submit(Submission),
    /// The flow in this slot stops.
    Stop(u32),
    /// A rank of a job continues. It has waited for this time.
    Wake(Time, Wake),
    /// A message within a server has arrived, whose transmission began at this time.
    Arrive(MessageId, Time),
}

/// Flows that start soon, flows that stop, and ranks of jobs that continue.
#[derive(Default)]
pub(crate) struct Agenda {
    /// In order of time.
    submissions: VecDeque<Submission>,
    /// Dependent messages by (start, ID).
    dependents: BTreeMap<(Time, u64), Submission>,
    wakes: BTreeSet<(Time, Wake)>,
    /// Messages within servers by arrival, with the start of their transmission.
    arrivals: BTreeMap<(Time, MessageId), Time>,
    /// (time, order of submission, slot).
    stops: BinaryHeap<Reverse<(Time, u64, u32)>>,
    order: u64,
}

impl Agenda {
    /// Schedules a flow. Flows must be added in order of their start.
    pub(crate) fn submit(&mut self, submission: Submission) {
        debug_assert!(
            self.submissions.back().is_none_or(|s| s.flow.start <= submission.flow.start)
        );
        self.submissions.push_back(submission);
    }

    /// Schedules a dependent message or a rank of a job, in any order. Returns whether a rank has
    /// ended its job instead.
    pub(crate) fn add(&mut self, next: Next) -> bool {
        match next {
            Next::Submit(submission) => {
                self.dependents.insert((submission.flow.start, submission.id), submission);
            }
            Next::Wake(at, wake) => {
                self.wakes.insert((at, wake));
            }
            Next::Ended => return true,
        }
        false
    }

    /// Schedules the stop of the flow in `slot` at `at`.
    pub(crate) fn stop_at(&mut self, at: Time, slot: u32) {
        self.order += 1;
        self.stops.push(Reverse((at, self.order, slot)));
    }

    /// Schedules the arrival of a message within a server.
    pub(crate) fn arrive_at(&mut self, at: Time, message: MessageId, began: Time) {
        self.arrivals.insert((at, message), began);
    }

    /// Removes all actions except arrivals of messages within servers.
    pub(crate) fn close(&mut self) {
        self.submissions.clear();
        self.dependents.clear();
        self.wakes.clear();
        self.stops.clear();
    }

    /// Time of the next action.
    pub(crate) fn next_at(&self) -> Time {
        let submit = self.submissions.front().map_or(Time::NEVER, |next| next.flow.start);
        let dependent = self.dependents.first_key_value().map_or(Time::NEVER, |(&(at, _), _)| at);
        let arrival = self.arrivals.first_key_value().map_or(Time::NEVER, |(&(at, _), _)| at);
        let wake = self.wakes.first().map_or(Time::NEVER, |&(at, _)| at);
        submit
            .min(dependent)
            .min(wake)
            .min(arrival)
            .min(self.stops.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at))
    }

    /// Takes an action that is due at `now`: stops first, then arrivals, then submissions, then
    /// ranks of jobs, then dependent messages.
    pub(crate) fn take(&mut self, now: Time) -> Option<Action> {
        if let Some(Reverse((at, _, slot))) = self.stops.peek().copied()
            && at <= now
        {
            self.stops.pop();
            return Some(Action::Stop(slot));
        }
        if let Some(arrival) = self.arrivals.first_entry().filter(|next| next.key().0 <= now) {
            let ((_, message), began) = arrival.remove_entry();
            return Some(Action::Arrive(message, began));
        }
        if let Some(next) = self.submissions.pop_front_if(|next| next.flow.start <= now) {
            return Some(Action::Submit(next));
        }
        if let Some(&(at, wake)) = self.wakes.first().filter(|&&(at, _)| at <= now) {
            self.wakes.pop_first();
            return Some(Action::Wake(at, wake));
        }
        let dependent =
            self.dependents.first_entry().filter(|dependent| dependent.key().0 <= now)?;
        Some(Action::Submit(dependent.remove()))
    }
}
