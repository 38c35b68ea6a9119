//! The clock of a partition: the present, and the pending events.
//!
//! Event sources are, in this order: every port (landing of the head of its link), every host (its
//! earliest deadline), the generator, the sampler, the faults, and one wake-up per port if any port
//! has a scheduler.

use tidegate_core::Time;

use crate::events::{EventList, FAR};
use crate::naming::Naming;

/// The present of a partition, and its events.
pub(super) struct Clock<N> {
    now: Time,
    /// Start of the current node batch. Every event before it has been handled, at every node.
    batch_start: Time,
    events: EventList<N>,
    /// Number of ports, and of hosts.
    ports: u32,
    hosts: u32,
}

/// An event source that is not a link.
pub(super) enum Source {
    Host(u32),
    Generator,
    Sampler,
    Faults,
    /// A port that was not allowed to send may be allowed then.
    Wake(u32),
}

impl<N: Naming> Clock<N> {
    /// A clock at time 0, with no event pending.
    pub(super) fn new(events: EventList<N>, ports: u32, hosts: u32) -> Clock<N> {
        Clock { now: Time::ZERO, batch_start: Time::ZERO, events, ports, hosts }
    }

    /// The present.
    #[inline(always)]
    pub(super) fn now(&self) -> Time {
        self.now
    }

    /// Sets the present to `now`.
    #[inline(always)]
    pub(super) fn advance(&mut self, now: Time) {
        debug_assert!(now >= self.batch_start, "time runs backwards");
        self.now = now;
    }

    /// Sets the present to the start of the batch, which all nodes have reached. Returns the time
    /// to which the caller must [advance](Self::advance) it again.
    #[inline(always)]
    pub(super) fn step_back(&mut self) -> Time {
        std::mem::replace(&mut self.now, self.batch_start)
    }

    /// Time of the earliest event.
    pub(super) fn next(&self) -> Time {
        self.events.next()
    }

    /// The earliest event if it is not after `until`. It begins a batch.
    #[inline(always)]
    pub(super) fn open_batch(&mut self, until: Time) -> Option<(Time, u32)> {
        let event = self.events.open(until)?;
        self.batch_start = event.0;
        Some(event)
    }

    /// The next event of the batch.
    #[inline(always)]
    pub(super) fn next_of_batch(&self) -> Option<(Time, u32)> {
        self.events.next_of_open()
    }

    /// Ends the batch.
    #[inline(always)]
    pub(super) fn close_batch(&mut self) {
        self.events.close();
    }

    /// An event source that is not a link.
    pub(super) fn other(&self, source: u32) -> Source {
        match source - self.ports {
            host if host < self.hosts => Source::Host(host),
            other => match other - self.hosts {
                0 => Source::Generator,
                1 => Source::Sampler,
                2 => Source::Faults,
                wake => Source::Wake(wake - 3),
            },
        }
    }

    /// The number of an event source.
    #[inline(always)]
    fn number(&self, source: Source) -> u32 {
        let first = self.ports + self.hosts;
        match source {
            Source::Host(host) => self.ports + host,
            Source::Generator => first,
            Source::Sampler => first + 1,
            Source::Faults => first + 2,
            Source::Wake(port) => first + 3 + port,
        }
    }

    /// Sets the event of a host to `at`, which is at most [`FAR`] after the present.
    #[inline(always)]
    pub(super) fn set_host(&mut self, host: u32, at: Time) {
        self.events.set(self.ports + host, at);
    }

    /// Sets when the head of a port's link lands.
    #[inline(always)]
    pub(super) fn set_link(&mut self, port: u32, at: Time) {
        self.events.set(port, at);
    }

    /// The link of a port has become empty.
    #[inline(always)]
    pub(super) fn clear_link(&mut self, port: u32) {
        self.events.clear(port);
    }

    /// The latest time up to `at` for which an event may be set.
    pub(super) fn reach(&self, at: Time) -> Time {
        at.min(self.now.after(FAR))
    }

    /// Moves the event of a source to `at`, or to the present if that is later. An event further
    /// ahead than [`FAR`] comes at that limit; there is none at [`Time::NEVER`].
    #[inline]
    pub(super) fn set(&mut self, source: Source, at: Time) {
        let source = self.number(source);
        match at {
            Time::NEVER => self.events.clear(source),
            at => self.events.set(source, at.clamp(self.now, self.now.after(FAR))),
        }
    }

    /// Removes the event of a source.
    #[inline]
    pub(super) fn clear(&mut self, source: Source) {
        self.events.clear(self.number(source));
    }

    /// Keeps the horizon of the event list ahead of the present.
    pub(super) fn rebase(&mut self) {
        self.events.rebase(self.now);
    }
}
