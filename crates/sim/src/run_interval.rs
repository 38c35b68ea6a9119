//! Run intervals: windows that partitions run one after another, with a boundary exchange after
//! each.

use tidegate_core::{Span, Time};

use crate::boundary_exchange::{BoundaryExchange, PanicGuard, WindowState};
use crate::communicator::{Communicator, RankFailure};
use crate::feed::Feed;
use crate::naming::Naming;
use crate::partition::{Mailbox, Partition};
use crate::probe::Probe;
use crate::ranks::{Place, RankBoundary};

/// In a drain, the run checks at this interval whether all messages have completed. If so, it ends.
const DRAIN_STEP: u64 = Span::us(1).as_ps();

/// End of a run interval: the first of three conditions.
#[derive(Clone, Copy)]
pub(crate) struct RunInterval {
    pub(crate) until: Time,
    /// Work limit.
    pub(crate) work: u64,
    /// If set, the interval also ends when all messages have completed.
    pub(crate) draining: bool,
    /// Least time that a packet takes from one partition to another.
    pub(crate) lookahead: Span,
}

/// Duties of the first partition of a process: the feed and communication with other ranks.
pub(crate) struct Coordinator<'a> {
    pub(crate) feed: &'a mut Feed,
    pub(crate) communicator: Option<&'a mut dyn Communicator>,
}

/// State that the partitions of a process share during a run interval.
#[derive(Clone, Copy)]
pub(crate) struct SharedRun<'a> {
    pub(crate) exchange: &'a BoundaryExchange,
    pub(crate) boundary: Option<&'a RankBoundary>,
    pub(crate) place: Place,
    pub(crate) interval: RunInterval,
    /// End of the first window.
    pub(crate) first: Time,
}

impl SharedRun<'_> {
    /// Runs a partition window by window. Returns the end of the run interval and the combined
    /// state at that time. Both are the same for all partitions.
    pub(crate) fn run<P: Probe, N: Naming>(
        &self,
        number: usize,
        partition: &mut Partition<P, N>,
        mut lead: Option<Coordinator<'_>>,
    ) -> Result<(Time, WindowState), RankFailure> {
        let SharedRun { exchange, place, interval, .. } = *self;
        let _present = PanicGuard(exchange);
        let own_number = place.first() as usize + number;
        let before = partition.handled;
        let mut from_ranks = Mailbox::default();
        let (mut end, mut phase) = (self.first, 0);
        loop {
            partition.work = u64::MAX;
            partition.run_until(end);
            let mut next = partition.hand_over(|to| exchange.mail(phase, number, to as usize));
            debug_assert!(next > end, "{next} is within the window");
            if let Some(boundary) = self.boundary {
                boundary.pack(number, |to| exchange.mail(phase, number, to));
            }
            let mut known = Time::NEVER;
            if let Some(lead) = &mut lead {
                let first = lead.feed.hand_out(end.after(interval.ahead()), |to, submission| {
                    if place.index_of(to) < place.partitions {
                        exchange.mail(phase, number, to as usize).submissions.push(submission);
                    }
                });
                (next, known) = (next.min(first), lead.feed.known());
            }
            let own = WindowState {
                next: next.min(partition.next_at()),
                work: partition.handled - before,
                open: partition.flows.open(),
                known,
            };
            exchange.publish(phase, number, own);
            exchange.wait();
            let mut state = exchange.collect(phase);
            if let (Some(boundary), Some(Coordinator { communicator: Some(communicator), .. })) =
                (self.boundary, &mut lead)
            {
                boundary.trade(&mut **communicator, state);
            }
            for from in 0..exchange.partitions() {
                partition.take_in(&mut exchange.mail(phase, from, own_number));
            }
            if let Some(boundary) = self.boundary {
                exchange.wait();
                state = boundary.state()?;
                boundary.unpack(number, &mut from_ranks)?;
                partition.take_in(&mut from_ranks);
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
    /// Flows are handed out this long before they start, because the end of the next window is not
    /// yet known.
    pub(crate) fn ahead(&self) -> Span {
        self.lookahead.times(2)
    }

    /// Returns whether a drain is over at `now`.
    pub(crate) fn is_drained(&self, now: Time, open: u64) -> bool {
        self.draining && open == 0 && now.as_ps().is_multiple_of(DRAIN_STEP)
    }

    /// End of the window that follows the one that ended at `end`; `None` if the run interval is
    /// over.
    pub(crate) fn next_end(&self, end: Time, state: &WindowState) -> Option<Time> {
        if end >= self.until || state.work >= self.work || self.is_drained(end, state.open) {
            return None;
        }
        let first = state.next.max(end);
        let mut next = self.until.min(state.known);
        if self.lookahead < Span::FOREVER {
            next = next.min(first.after(self.lookahead - Span::ps(1)));
        }
        if self.draining {
            // No message completes before the next event.
            let looks = if state.open == 0 { end.after(Span::ps(1)) } else { first };
            let step = looks.as_ps().checked_next_multiple_of(DRAIN_STEP);
            next = next.min(step.map_or(Time::NEVER, Time::ps));
        }
        Some(next)
    }
}
