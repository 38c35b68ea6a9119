//! Windows of time in which parts run beside each other, one after another.

use tidegate_core::{Span, Time};

use crate::boundary_exchange::{BoundaryExchange, PanicGuard, WindowState};
use crate::communicator::{Communicator, RankFailure};
use crate::feed::Feed;
use crate::naming::Naming;
use crate::partition::{Mailbox, Partition};
use crate::probe::Probe;
use crate::ranks::{Place, RankBoundary};

/// Whether what a stretch waits for has come is looked at so often.
const STEP: u64 = Span::us(1).as_ps();

/// How far parts may run.
#[derive(Clone, Copy)]
pub(crate) struct RunInterval {
    pub(crate) until: Time,
    /// Or until so much is done.
    pub(crate) work: u64,
    /// Or until this has come.
    pub(crate) awaits: Awaits,
    /// Least time that a packet takes from part to part.
    pub(crate) lookahead: Span,
}

/// What ends a stretch before its time.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Awaits {
    Nothing,
    /// The end of all messages.
    Quiet,
    /// The end of so many listed messages, and a later time than this.
    Listed(u64, Time),
}

/// What the first part of a process does for all of them.
pub(crate) struct Coordinator<'a> {
    pub(crate) feed: &'a mut Feed,
    pub(crate) communicator: Option<&'a mut dyn Communicator>,
}

/// What the partitions of a process share while they run beside each other.
#[derive(Clone, Copy)]
pub(crate) struct SharedRun<'a> {
    pub(crate) exchange: &'a BoundaryExchange,
    pub(crate) boundary: Option<&'a RankBoundary>,
    pub(crate) place: Place,
    pub(crate) interval: RunInterval,
    /// Where the first window ends.
    pub(crate) first: Time,
}

impl SharedRun<'_> {
    /// Runs a partition window by window: where the stretch ended, and what was heard then, which
    /// is the same for all.
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
        let mut abroad = Mailbox::default();
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
                    if place.here(to) < place.partitions {
                        exchange.mail(phase, number, to as usize).submissions.push(submission);
                    }
                });
                (next, known) = (next.min(first), lead.feed.known());
            }
            let own = WindowState {
                next: next.min(partition.next_at()),
                work: partition.handled - before,
                open: partition.flows.open(),
                listed_done: partition.flows.listed_done(),
                known,
            };
            exchange.publish(phase, number, own);
            exchange.meet();
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
                exchange.meet();
                state = boundary.state()?;
                boundary.unpack(number, &mut abroad)?;
                partition.take_in(&mut abroad);
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
    /// Flows are handed out so long before they begin: where the next window ends is not known yet.
    pub(crate) fn ahead(&self) -> Span {
        self.lookahead.times(2)
    }

    /// Whether what it waits for has come by `now`.
    pub(crate) fn has_come(&self, now: Time, state: &WindowState) -> bool {
        now.as_ps().is_multiple_of(STEP) && self.may_end(state).is_some_and(|after| now > after)
    }

    /// After when it ends, if what it waits for has come.
    fn may_end(&self, state: &WindowState) -> Option<Time> {
        match self.awaits {
            Awaits::Nothing => None,
            Awaits::Quiet => (state.open == 0).then_some(Time::ZERO),
            Awaits::Listed(count, after) => (state.listed_done == count).then_some(after),
        }
    }

    /// Where the window after the one that ended at `end` ends; `None`: the stretch is over.
    pub(crate) fn next_end(&self, end: Time, state: &WindowState) -> Option<Time> {
        if end >= self.until || state.work >= self.work || self.has_come(end, state) {
            return None;
        }
        let first = state.next.max(end);
        let mut next = self.until.min(state.known);
        if self.lookahead < Span::FOREVER {
            next = next.min(first.after(self.lookahead - Span::ps(1)));
        }
        if self.awaits != Awaits::Nothing {
            // Nothing finishes before something happens.
            let looks =
                self.may_end(state).map_or(first, |after| end.max(after).after(Span::ps(1)));
            let step = looks.as_ps().checked_next_multiple_of(STEP);
            next = next.min(step.map_or(Time::NEVER, Time::ps));
        }
        Some(next)
    }
}
