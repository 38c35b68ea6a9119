//! One timer a record, by its number. SIRD has them at both ends; Homa's ticks without news,
//! dcPIM's window timeouts and ExpressPass's retries of requests are the same.

use tidegate_core::{Span, Time};

use super::heap::Heap;

/// Timers by number.
pub(crate) struct Timers {
    heap: Heap<Time>,
    /// Of the first; `NEVER` where there is none.
    next: Time,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers { heap: Heap::default(), next: Time::NEVER }
    }
}

impl Timers {
    /// When the first timer fires.
    #[inline]
    pub(crate) fn next(&self) -> Time {
        self.next
    }

    /// The first timer, and when it fires.
    pub(crate) fn first(&self) -> Option<(Time, u32)> {
        self.heap.first()
    }

    /// Whether that timer runs.
    #[inline]
    pub(crate) fn run(&self, id: u32) -> bool {
        self.heap.contains(id)
    }

    /// Starts a timer, or moves it.
    #[inline(never)]
    pub(crate) fn set(&mut self, id: u32, at: Time) {
        self.heap.set(id, at);
        self.next = self.heap.first().map_or(Time::NEVER, |(at, _)| at);
    }

    /// Moves a timer that has fired to `at`. After a driver's long pause that is past too: it does
    /// not fire for every time it missed, but next a `timeout` from now.
    pub(crate) fn set_again(&mut self, id: u32, at: Time, now: Time, timeout: Span) {
        self.set(id, if at > now { at } else { now.after(timeout) });
    }

    #[inline(never)]
    pub(crate) fn remove(&mut self, id: u32) {
        self.heap.remove(id);
        self.next = self.heap.first().map_or(Time::NEVER, |(at, _)| at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_timer_is_the_next_whatever_is_moved_or_taken_out() {
        let mut timers = Timers::default();
        assert_eq!((timers.next(), timers.first(), timers.run(3)), (Time::NEVER, None, false));
        timers.set(3, Time::us(30));
        timers.set(1, Time::us(10));
        assert_eq!((timers.next(), timers.first()), (Time::us(10), Some((Time::us(10), 1))));
        timers.set(1, Time::us(40));
        assert_eq!(timers.next(), Time::us(30));
        timers.remove(3);
        assert_eq!((timers.next(), timers.run(3), timers.run(1)), (Time::us(40), false, true));
        timers.remove(1);
        assert_eq!(timers.next(), Time::NEVER);
    }

    #[test]
    fn a_timer_fires_once_for_all_the_times_that_a_pause_missed() {
        let mut timers = Timers::default();
        for (at, next) in [(11, 11), (10, 17), (3, 17)] {
            timers.set_again(0, Time::us(at), Time::us(10), Span::us(7));
            assert_eq!(timers.next(), Time::us(next));
        }
    }
}
