//! Run intervals: sequences of windows. All partitions run a window, on one or more threads, then
//! they exchange boundary packets.

use tidegate_core::{Span, Time};

use crate::measures::probe::Probe;
use crate::naming::Naming;
use crate::parallel::barrier::PanicGuard;
use crate::parallel::boundary_exchange::{BoundaryExchange, WindowState};
use crate::parallel::communicator::{Communicator, RankFailure};
use crate::parallel::process_partitions::ProcessPartitions;
use crate::parallel::ranks::RankBoundary;
use crate::partition::{Mailbox, Partition};
use crate::traffic::feed::Feed;

/// The run checks at this interval whether the condition that ends a run interval holds.
const STEP: u64 = Span::us(1).as_ps();

/// A run interval. It ends at `until`, when `work` is used up, or when `awaits` holds, whichever is
/// first.
#[derive(Clone, Copy)]
pub(crate) struct RunInterval {
    pub(crate) until: Time,
    /// Work limit.
    pub(crate) work: u64,
    /// Condition that ends the interval early.
    pub(crate) awaits: Awaits,
    /// Least time that a packet takes from one partition to another.
    pub(crate) lookahead: Span,
}

/// Condition that ends a run interval early.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Awaits {
    Nothing,
    /// All messages are complete.
    Quiet,
    /// This number of listed messages is complete, and the time is later than this.
    Listed(u64, Time),
}

/// Duties of the first thread of a process: the feed and communication with other ranks.
pub(crate) struct Coordinator<'a> {
    pub(crate) feed: &'a mut Feed,
    pub(crate) communicator: Option<&'a mut dyn Communicator>,
}

/// State that the partitions of a process share during a run interval.
#[derive(Clone, Copy)]
pub(crate) struct SharedRun<'a> {
    pub(crate) exchange: &'a BoundaryExchange,
    pub(crate) boundary: Option<&'a RankBoundary>,
    pub(crate) process: ProcessPartitions,
    pub(crate) threads: usize,
    pub(crate) interval: RunInterval,
    /// End of the first window.
    pub(crate) first: Time,
}

impl SharedRun<'_> {
    /// Runs the partitions of a thread window by window. `first` is the number of the first of them
    /// in this process. Returns the end of the run interval and the combined state at that time.
    /// Both are the same for all threads.
    pub(crate) fn run<P: Probe, N: Naming>(
        &self,
        thread: usize,
        first: usize,
        partitions: &mut [Partition<P, N>],
        mut lead: Option<Coordinator<'_>>,
    ) -> Result<(Time, WindowState), RankFailure> {
        let SharedRun { exchange, process, interval, threads, .. } = *self;
        let _present = PanicGuard(&exchange.barrier);
        let before: u64 = partitions.iter().map(|partition| partition.handled).sum();
        let mut from_ranks = Mailbox::default();
        let (mut end, mut phase) = (self.first, 0);
        loop {
            let mut own = WindowState::none();
            for (number, partition) in (first..).zip(&mut *partitions) {
                partition.work = u64::MAX;
                partition.run_until(end);
                let next = partition.fill_mailboxes(|to| exchange.mail(phase, number, to as usize));
                debug_assert!(next > end, "{next} is within the window");
                if let Some(boundary) = self.boundary {
                    boundary.pack(number, |to| exchange.mail(phase, number, to));
                }
                own.next = own.next.min(next);
                own = own.with(&WindowState::of(partition, Time::NEVER));
                own.work += partition.handled;
            }
            own.work -= before;
            if let Some(lead) = &mut lead {
                let next = lead.feed.distribute(end.after(interval.ahead()), |to, submission| {
                    if process.index_of(to) < process.partitions {
                        exchange.mail(phase, first, to as usize).submissions.push(submission);
                    }
                });
                (own.next, own.known) = (own.next.min(next), lead.feed.known());
            }
            exchange.publish(phase, thread, own);
            exchange.barrier.wait(threads);
            let mut state = exchange.collect(phase, threads);
            if let (Some(boundary), Some(Coordinator { communicator: Some(communicator), .. })) =
                (self.boundary, &mut lead)
            {
                boundary.exchange(&mut **communicator, state);
            }
            for (to, partition) in (first..).zip(&mut *partitions) {
                let to = process.first() as usize + to;
                for from in 0..exchange.partitions() {
                    partition.receive_mail(&mut exchange.mail(phase, from, to));
                }
            }
            if let Some(boundary) = self.boundary {
                exchange.barrier.wait(threads);
                state = boundary.state()?;
                for (to, partition) in (first..).zip(&mut *partitions) {
                    boundary.unpack(to, &mut from_ranks)?;
                    partition.receive_mail(&mut from_ranks);
                }
            }
            match interval.next_end(end, &state) {
                Some(next) => end = next,
                None => return Ok((end, state)),
            }
            phase ^= 1;
        }
    }
}

impl RunInterval {
    /// Flows are distributed this long before they start, because the end of the next window is not
    /// yet known.
    pub(crate) fn ahead(&self) -> Span {
        self.lookahead.times(2)
    }

    /// Returns whether the awaited condition holds at `now`.
    pub(crate) fn is_reached(&self, now: Time, state: &WindowState) -> bool {
        now.as_ps().is_multiple_of(STEP) && self.may_end(state).is_some_and(|after| now > after)
    }

    /// Returns the time after which the interval ends, if the condition holds.
    fn may_end(&self, state: &WindowState) -> Option<Time> {
        match self.awaits {
            Awaits::Nothing => None,
            Awaits::Quiet => (state.open == 0).then_some(Time::ZERO),
            Awaits::Listed(count, after) => (state.listed_done == count).then_some(after),
        }
    }

    /// End of the window that follows the one that ended at `end`; `None` if the run interval is
    /// over.
    pub(crate) fn next_end(&self, end: Time, state: &WindowState) -> Option<Time> {
        if end >= self.until || state.work >= self.work || self.is_reached(end, state) {
            return None;
        }
        let first = state.next.max(end);
        let mut next = self.until.min(state.known);
        if self.lookahead < Span::FOREVER {
            next = next.min(first.after(self.lookahead - Span::ps(1)));
        }
        if self.awaits != Awaits::Nothing {
            // No message completes before the next event.
            let looks =
                self.may_end(state).map_or(first, |after| end.max(after).after(Span::ps(1)));
            let step = looks.as_ps().checked_next_multiple_of(STEP);
            next = next.min(step.map_or(Time::NEVER, Time::ps));
        }
        Some(next)
    }
}
