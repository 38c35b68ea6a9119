//! The uplink of a host: when its transports are polled, and when packets leave.
//!
//! # Design
//!
//! **The simplest design** has an event at the end of every transmission and at every deadline, and
//! polls the transports at each. It is exact, but every packet of a host costs a second event
//! beside its landing.
//!
//! **The second design** polled when the link runs empty, at the true times of the transmissions
//! that had become due, and at every deadline. A paced transport has a deadline for each packet, so
//! a paced host still had an event a packet. Its state was spread over host, port and PFC.
//!
//! **The present design** distinguishes two deadlines. At a *timer* the state of a transport
//! changes; it needs an event at its exact time. A *request to send* only says that a packet may
//! leave from then on. While the link carries packets, requests to send have no event: they are
//! served when the link runs empty, or when the uplink is touched before, at their true times. A
//! packet that starts then lands behind those on the link, so no other node can notice.
//!
//! # States
//!
//! | state | condition | leaves it by |
//! | --- | --- | --- |
//! | busy | `port.free_at` is in the future | time |
//! | due | free; replies wait, or the transports may have a packet | a poll |
//! | quiet | free; polled in vain, nothing is due before `quiet_until` | time, or a change |
//! | paused | a class is paused: `free_at` replaces `port.free_at` | resume of the last class |
//! | down | the link is down: `port.free_at` is never | the link comes back |
//!
//! A host that has *stopped* is down, and its timers wait until it starts again.
//!
//! # Invariants
//!
//! * Everything that could leave before `polled_until` has left, and `polled_until` never exceeds
//!   the present.
//! * A transport whose state has changed by anything but a transmission is reported by
//!   [`changed`](Uplink::changed), after a poll up to the present: departures precede changes at
//!   equal times.
//! * The uplink's event is not later than the earliest timer, nor than the earliest deadline of any
//!   kind while the link is empty or a class is paused. It may be earlier: then nothing happens.
//! * Timers are handled once per instant.
//! * A timer that a transmission sets lies after the landing of the packet. Otherwise the
//!   transmission could be polled after its own timer.
//! * A transport reports no deadline in the past after its timers have been handled or it has been
//!   polled in vain. Otherwise a request to send that cannot be served would hide a later timer.
//! * While a class is paused, packets above it leave at the time of an event: what allows them to
//!   leave is a change, a timer or the end of a transmission, never a pace.

use tidegate_core::Time;

use crate::events::FAR;
use crate::ports::pause_state::PauseState;
use crate::ports::port::Port;

/// The deadlines of the transports that an uplink polls.
pub(crate) trait Deadlines {
    /// The earliest timer or request to send.
    fn deadline(&self) -> Time;
    /// The earliest timer.
    fn timer(&self) -> Time;
    /// The earliest deadline that is later than `at`, of those that
    /// [`deadline`](Self::deadline) chooses from.
    fn deadline_after(&self, at: Time) -> Time;
}

/// Next step of an uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The first queued reply leaves at this time.
    Reply(Time),
    /// The transports are polled, for a packet that leaves at this time.
    Poll(Time),
    /// Nothing else can leave by now.
    Done,
}

/// Effect of a pause or resume on an uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The first class is paused.
    Paused,
    /// The last class is resumed.
    Resumed,
    /// The uplink is paused as before, or not at all.
    None,
}

/// State of a host's uplink, beside that of its [port](Port).
pub(crate) struct Uplink {
    /// Index of its port.
    port: u32,
    /// An outage has stopped the host, and with it its transports.
    stopped: bool,
    /// Everything that could leave before this time has left.
    polled_until: Time,
    /// No transport will send before this time unless something happens first.
    quiet_until: Time,
    /// Time of its entry in the event list.
    event_at: Time,
    /// Time at which its timers were last handled.
    timers_at: Time,
    pause_state: PauseState,
    /// While a class is paused: end of the transmission in progress.
    free_at: Time,
}

impl Uplink {
    /// For the port with this index.
    pub(crate) fn new(port: u32) -> Uplink {
        Uplink {
            port,
            stopped: false,
            polled_until: Time::ZERO,
            quiet_until: Time::ZERO,
            event_at: Time::NEVER,
            timers_at: Time::NEVER,
            pause_state: PauseState::default(),
            free_at: Time::ZERO,
        }
    }

    /// Index of its port.
    #[inline(always)]
    pub(crate) fn port(&self) -> u32 {
        self.port
    }

    /// Returns whether nothing can leave by `now`, so that no step is needed.
    #[inline(always)]
    pub(crate) fn rests(&mut self, now: Time, port: &Port) -> bool {
        if port.free_at > now {
            return true;
        }
        let is_quiet = self.quiet_until > now && !port.has_queue();
        if is_quiet {
            self.polled_until = now;
        }
        is_quiet
    }

    /// The next step by `now`.
    #[inline(always)]
    pub(crate) fn next_step(&mut self, now: Time, port: &Port) -> Step {
        let free = port.free_at.max(self.polled_until);
        if free > now {
            return Step::Done;
        }
        let replies = port.has_queue();
        if self.quiet_until > free && !replies {
            self.polled_until = self.quiet_until.min(now);
            return if self.quiet_until > now { Step::Done } else { Step::Poll(self.quiet_until) };
        }
        self.polled_until = free;
        if replies { Step::Reply(free) } else { Step::Poll(free) }
    }

    /// The transports had nothing to send at `start`. Returns whether there is a next step.
    #[inline(always)]
    pub(crate) fn polled_in_vain(
        &mut self,
        start: Time,
        now: Time,
        transports: &impl Deadlines,
    ) -> bool {
        let mut next = transports.deadline();
        self.quiet_until = next;
        if next <= start {
            // A timer has not been handled yet. The deadline that it hides may be due now.
            next = transports.deadline_after(start).min(now);
        }
        let ends = next > now || next <= start;
        self.polled_until = if ends { now } else { next };
        !ends
    }

    /// A transport may have more to send.
    #[inline(always)]
    pub(crate) fn changed(&mut self) {
        self.quiet_until = Time::ZERO;
    }

    /// Returns the time to which the uplink's event must be moved; `None` if it is early enough.
    /// With `lazy` polls, requests to send have no event while packets are on the link.
    #[inline(always)]
    pub(crate) fn arm(
        &mut self,
        now: Time,
        port: &Port,
        transports: &impl Deadlines,
        lazy: bool,
    ) -> Option<Time> {
        let waits = lazy && !port.link_is_empty() && port.free_at < Time::NEVER;
        let next = if waits { transports.timer() } else { transports.deadline() };
        let at = if next > now { next } else { self.overdue(now, port, transports) };
        if at >= self.event_at {
            return None;
        }
        self.event_at = at.min(now.after(FAR));
        Some(self.event_at)
    }

    /// Time of the event if the earliest deadline has passed. If the uplink is busy, the deadline
    /// was a request to send, which is polled again when the uplink is free; the deadline of
    /// another transport may come earlier. If the uplink has been polled in vain, or may be paused
    /// for long, the deadline is a timer that a request to send has hidden.
    #[inline(never)]
    fn overdue(&self, now: Time, port: &Port, transports: &impl Deadlines) -> Time {
        let is_paused = port.free_at == Time::NEVER && self.is_paused();
        let waits = port.free_at > now && !is_paused || self.timers_at == now;
        if waits { transports.deadline_after(now) } else { now }
    }

    /// The uplink's event has come. Returns `false` if the host has stopped; otherwise the timers
    /// that are due must be handled.
    pub(crate) fn take_event(&mut self, now: Time) -> bool {
        self.event_at = Time::NEVER;
        self.timers_at = now;
        !self.stopped
    }

    /// Returns whether an outage has stopped the host.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// The host stops or starts again.
    pub(crate) fn set_stopped(&mut self, stopped: bool) {
        self.stopped = stopped;
    }

    /// Its pauses so far.
    pub(crate) fn pause_state(&self) -> &PauseState {
        &self.pause_state
    }

    /// Returns whether any class is paused.
    #[inline(always)]
    pub(crate) fn is_paused(&self) -> bool {
        self.pause_state.classes != 0
    }

    /// Pauses or resumes a class.
    pub(crate) fn pause(&mut self, now: Time, class: u8, on: bool, port: &mut Port) -> Effect {
        let before = self.pause_state.classes;
        self.pause_state.set(now, class, on);
        match (before, self.pause_state.classes) {
            (0, 1..) => {
                self.free_at = std::mem::replace(&mut port.free_at, Time::NEVER);
                Effect::Paused
            }
            (1.., 0) => {
                port.free_at = self.free_at.max(now);
                Effect::Resumed
            }
            _ => Effect::None,
        }
    }

    /// Ends all pauses because the link has failed or come back. Returns whether there was any.
    pub(crate) fn forget_pauses(&mut self, now: Time, port: &mut Port) -> bool {
        let was_paused = self.is_paused();
        if was_paused {
            (0..8).for_each(|class| _ = self.pause_state.set(now, class, false));
            port.free_at = self.free_at;
        }
        was_paused
    }

    /// Classes that are paused, if a packet of another class may leave at `now`.
    pub(crate) fn free_though_paused(&self, now: Time) -> Option<u8> {
        (self.is_paused() && self.free_at <= now).then_some(self.pause_state.classes)
    }

    /// A packet has left though a class is paused.
    pub(crate) fn sent_though_paused(&mut self, port: &mut Port) {
        self.free_at = std::mem::replace(&mut port.free_at, Time::NEVER);
    }

    /// While a class is paused: end of the transmission in progress. A packet of another class may
    /// leave then.
    pub(crate) fn frees_at(&self, now: Time) -> Time {
        if self.free_at > now { self.free_at } else { Time::NEVER }
    }
}

#[cfg(test)]
mod tests;
