//! Windows of time in which parts run beside each other, one after another.

use tidegate_core::{Span, Time};

use crate::exchange::{Exchange, Heard, Present};
use crate::feed::Feed;
use crate::naming::Naming;
use crate::part::{Mail, Part};
use crate::peers::{Lost, Peers};
use crate::probe::Probe;
use crate::ranks::{Border, Place};

/// Whether all messages have finished is looked at so often in a drain, which ends then.
const DRAIN_STEP: u64 = Span::us(1).as_ps();

/// How far parts may run.
#[derive(Clone, Copy)]
pub(crate) struct Stretch {
    pub(crate) until: Time,
    /// Or until so much is done.
    pub(crate) work: u64,
    /// Or until all messages have finished.
    pub(crate) draining: bool,
    /// Least time that a packet takes from part to part.
    pub(crate) lookahead: Span,
}

/// What the first part of a process does for all of them.
pub(crate) struct Lead<'a> {
    pub(crate) feed: &'a mut Feed,
    pub(crate) peers: Option<&'a mut dyn Peers>,
}

/// What the parts of a process share while they run beside each other.
#[derive(Clone, Copy)]
pub(crate) struct Beside<'a> {
    pub(crate) exchange: &'a Exchange,
    pub(crate) border: Option<&'a Border>,
    pub(crate) place: Place,
    pub(crate) stretch: Stretch,
    /// Where the first window ends.
    pub(crate) first: Time,
}

impl Beside<'_> {
    /// Runs a part window by window: where the stretch ended, and what was heard then, which is the
    /// same for all.
    pub(crate) fn run<P: Probe, N: Naming>(
        &self,
        number: usize,
        part: &mut Part<P, N>,
        mut lead: Option<Lead<'_>>,
    ) -> Result<(Time, Heard), Lost> {
        let Beside { exchange, place, stretch, .. } = *self;
        let _present = Present(exchange);
        let own_number = place.first() as usize + number;
        let before = part.handled;
        let mut abroad = Mail::default();
        let (mut end, mut turn) = (self.first, 0);
        loop {
            part.work = u64::MAX;
            part.run_until(end);
            let mut next = part.hand_over(|to| exchange.mail(turn, number, to as usize));
            debug_assert!(next > end, "{next} is within the window");
            if let Some(border) = self.border {
                border.pack(number, |to| exchange.mail(turn, number, to));
            }
            let mut known = Time::NEVER;
            if let Some(lead) = &mut lead {
                let first = lead.feed.hand_out(end.after(stretch.ahead()), |to, submission| {
                    if place.here(to) < place.parts {
                        exchange.mail(turn, number, to as usize).submissions.push(submission);
                    }
                });
                (next, known) = (next.min(first), lead.feed.known());
            }
            let own = Heard {
                next: next.min(part.next_at()),
                work: part.handled - before,
                open: part.flows.open(),
                known,
            };
            exchange.tell(turn, number, own);
            exchange.meet();
            let mut heard = exchange.hear(turn);
            if let (Some(border), Some(Lead { peers: Some(peers), .. })) = (self.border, &mut lead)
            {
                border.trade(&mut **peers, heard);
            }
            for from in 0..exchange.parts() {
                part.take_in(&mut exchange.mail(turn, from, own_number));
            }
            if let Some(border) = self.border {
                exchange.meet();
                heard = border.heard()?;
                border.unpack(number, &mut abroad)?;
                part.take_in(&mut abroad);
            }
            match stretch.next_end(end, &heard) {
                Some(next) => end = next,
                None => return Ok((end, heard)),
            }
            turn ^= 1;
        }
    }
}

impl Stretch {
    /// Flows are handed out so long before they begin: where the next window ends is not known yet.
    pub(crate) fn ahead(&self) -> Span {
        self.lookahead.times(2)
    }

    /// Whether a drain is over at `now`.
    pub(crate) fn is_drained(&self, now: Time, open: u64) -> bool {
        self.draining && open == 0 && now.as_ps().is_multiple_of(DRAIN_STEP)
    }

    /// Where the window after the one that ended at `end` ends; `None`: the stretch is over.
    pub(crate) fn next_end(&self, end: Time, heard: &Heard) -> Option<Time> {
        if end >= self.until || heard.work >= self.work || self.is_drained(end, heard.open) {
            return None;
        }
        let first = heard.next.max(end);
        let mut next = self.until.min(heard.known);
        if self.lookahead < Span::FOREVER {
            next = next.min(first.after(self.lookahead - Span::ps(1)));
        }
        if self.draining {
            // Nothing finishes before something happens.
            let looks = if heard.open == 0 { end.after(Span::ps(1)) } else { first };
            let step = looks.as_ps().checked_next_multiple_of(DRAIN_STEP);
            next = next.min(step.map_or(Time::NEVER, Time::ps));
        }
        Some(next)
    }
}
