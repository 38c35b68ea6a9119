//! One timer per record, by its number. SIRD has them at both ends; Homa's timeouts, dcPIM's window
//! timeouts and ExpressPass's repeated requests work alike.

use tidegate_core::{Span, Time};

use super::heap::Heap;

/// Timers by number.
pub(crate) struct Timers {
    heap: Heap<Time>,
    /// Time of the first timer; `NEVER` if there is none.
    next: Time,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers { heap: Heap::default(), next: Time::NEVER }
    }
}

impl Timers {
    /// Time at which the first timer fires.
    #[inline]
    pub(crate) fn next(&self) -> Time {
        self.next
    }

    /// The first timer and its time.
    pub(crate) fn first(&self) -> Option<(Time, u32)> {
        self.heap.first()
    }

    /// Whether that timer is running.
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

    /// Moves a timer that has fired to `at`. If that has passed after a long pause of the driver,
    /// the timer fires next after a `timeout`, not once for every missed time.
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
    fn first_timer_is_next_after_any_change() {
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
    fn timer_fires_once_after_a_pause() {
        let mut timers = Timers::default();
        for (at, next) in [(11, 11), (10, 17), (3, 17)] {
            timers.set_again(0, Time::us(at), Time::us(10), Span::us(7));
            assert_eq!(timers.next(), Time::us(next));
        }
    }
}
