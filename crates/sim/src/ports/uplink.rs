//! The uplink of a host: it decides the times at which transports are polled and packets leave.
//!
//! # Design
//!
//! **The simplest design** has an event at the end of every transmission and at every deadline, and
//! polls the transports at each. It is exact, but every packet of a host costs a second event
//! beside its arrival.
//!
//! **The second design** polled when the link became empty, at the true times of the transmissions
//! that had become due, and at every deadline. A paced transport has a deadline for each packet, so
//! a paced host still had one event per packet. The state of this design was spread over host, port
//! and PFC.
//!
//! **The present design** distinguishes two kinds of deadline. At a *timer* the state of a
//! transport changes; a timer needs an event at its exact time. From a *send time* on, a packet may
//! leave. While the link carries packets, send times have no event. When the last of these packets
//! has arrived, or earlier if other code accesses the uplink, the transports are polled for the
//! send times that have passed, and each packet starts at its own send time. It arrives after the
//! packets that were on the link, so the late poll has no effect on other nodes.
//!
//! # States
//!
//! | state | condition | ends by |
//! | --- | --- | --- |
//! | busy | `port.free_at` is in the future | time |
//! | due | free; replies wait, or the transports may have a packet | a poll |
//! | quiet | free; a poll found no packet, no deadline before `quiet_until` | time, or a change |
//! | paused | a class is paused: `port.free_at` is never (1) | resume of the last class |
//! | down | the link is down: `port.free_at` is never (2) | the link comes back |
//!
//! (1) [`Uplink::free_at`] then has the former value of `port.free_at`. (2) If the outage has also
//! *stopped* the host, its timers wait until the host starts again.
//!
//! # Invariants
//!
//! * Everything that could leave before `polled_until` has left, and `polled_until` never exceeds
//!   the present.
//! * Before the state of a transport changes by anything but a transmission, the uplink is polled
//!   up to the present; afterwards [`changed`](Uplink::changed) is called, unless the transport
//!   replies with `Reply::Echo`, so that no more may be sent than before. So departures precede
//!   changes at equal times.
//! * The uplink's event is at or before the earliest timer. While the link is empty or a class is
//!   paused, it is also at or before the earliest send time that has not passed. It may be earlier:
//!   then a poll finds nothing, and the event is set again. While a class is paused, the port has a
//!   second event at the end of a transmission.
//! * Timers are handled once per instant.
//! * While a class is paused, only queued replies of other classes leave, and control packets of a
//!   priority above all paused classes. They leave when an event is handled (a change, a deadline
//!   or the end of a transmission), without pacing.
//!
//! # Required of transports
//!
//! * A timer that a transmission sets is later than the arrival of the packet. Otherwise a lazy
//!   poll could start the packet after its own timer.
//! * A transport reports no deadline in the past after its timers have been handled or a poll has
//!   found nothing. Otherwise a send time that cannot be served would hide a later timer.

use tidegate_core::Time;

use crate::events::FAR;
use crate::ports::pause_state::PauseState;
use crate::ports::port::Port;

/// The deadlines of the transports that an uplink polls.
pub(crate) trait Deadlines {
    /// The earliest timer or send time.
    fn deadline(&self) -> Time;
    /// The earliest timer.
    fn timer(&self) -> Time;
    /// The earliest of the transports' deadlines that are later than `at`. Each transport reports
    /// one: the earlier of its timer and its send time.
    fn deadline_after(&self, at: Time) -> Time;
}

/// Next step of an uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The first queued reply leaves at this time.
    Reply(Time),
    /// The transports are polled, for a packet that leaves at this time.
    Poll(Time),
    /// Nothing else can leave up to now.
    Done,
}

/// Effect of a pause or resume on an uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A class is paused, and none was before.
    Paused,
    /// No class is paused any more.
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
    /// No transport will send before this time unless `changed` is called first.
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

    /// Returns whether `next_step` has nothing to do up to `now`: the uplink is busy, down or
    /// paused, or nothing is due.
    #[inline(always)]
    pub(crate) fn has_nothing_due(&mut self, now: Time, port: &Port) -> bool {
        if port.free_at > now {
            return true;
        }
        let is_quiet = self.quiet_until > now && !port.has_queue();
        if is_quiet {
            self.polled_until = now;
        }
        is_quiet
    }

    /// The next step up to `now`.
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

    /// Registers that a poll at `start` found no packet. Returns whether there is a next step up to
    /// `now`.
    #[inline(always)]
    pub(crate) fn poll_found_nothing(
        &mut self,
        start: Time,
        now: Time,
        transports: &impl Deadlines,
    ) -> bool {
        let mut next = transports.deadline();
        self.quiet_until = next;
        if next <= start {
            // A timer has not been handled yet. Another transport's deadline may be due now.
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

    /// Returns the time to which the uplink's event must be moved; `None` if the present event is
    /// early enough. If `lazy` is set, send times have no event while packets are on the link,
    /// unless a class is paused.
    #[inline(always)]
    pub(crate) fn set_event(
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

    /// Time of the event if the earliest deadline is not after `now`. There are three cases:
    ///
    /// 1. No class is paused, and the uplink transmits or its link is down. A send time waits until
    ///    the uplink is free, and a timer that is due still has its own event. The event is set for
    ///    the next deadline after `now`.
    /// 2. The timers of `now` have been handled. Nothing more can be done now, so the event is set
    ///    for the same deadline.
    /// 3. Otherwise the deadline may be a send time before a timer that is due, so the event is set
    ///    for `now`.
    #[inline(never)]
    fn overdue(&self, now: Time, port: &Port, transports: &impl Deadlines) -> Time {
        let is_paused = port.free_at == Time::NEVER && self.is_paused();
        let waits = port.free_at > now && !is_paused || self.timers_at == now;
        if waits { transports.deadline_after(now) } else { now }
    }

    /// Registers that the uplink's event has come. Returns `false` if the host has stopped;
    /// otherwise the deadlines that are due must be handled.
    pub(crate) fn take_event(&mut self, now: Time) -> bool {
        self.event_at = Time::NEVER;
        self.timers_at = now;
        !self.stopped
    }

    /// Returns whether an outage has stopped the host.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Records that an outage has stopped the host, or has ended.
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
    pub(crate) fn clear_pauses(&mut self, now: Time, port: &mut Port) -> bool {
        let was_paused = self.is_paused();
        if was_paused {
            (0..8).for_each(|class| _ = self.pause_state.set(now, class, false));
            port.free_at = self.free_at;
        }
        was_paused
    }

    /// The paused classes, if there are any and the port does not transmit at `now`, so that a
    /// packet of another class may leave.
    pub(crate) fn free_while_paused(&self, now: Time) -> Option<u8> {
        (self.is_paused() && self.free_at <= now).then_some(self.pause_state.classes)
    }

    /// Registers that a packet has left while a class is paused.
    pub(crate) fn sent_while_paused(&mut self, port: &mut Port) {
        self.free_at = std::mem::replace(&mut port.free_at, Time::NEVER);
    }

    /// While a class is paused: end of the transmission in progress, at which a packet of another
    /// class may leave.
    pub(crate) fn frees_at(&self, now: Time) -> Time {
        if self.free_at > now { self.free_at } else { Time::NEVER }
    }
}

#[cfg(test)]
mod tests;
