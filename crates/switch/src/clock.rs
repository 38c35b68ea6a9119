//! Time since a switch was opened, by the clock that nobody sets.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tidegate_core::{Span, Time};

/// Two readings of a clock that are so close have nothing between them but a third.
const CLOSE: Duration = Duration::from_micros(2);
/// Tries to read them so close.
const TRIES: usize = 8;

pub(crate) struct Clock {
    start: Duration,
}

/// What the clock of the kernel's time stamps, which people set, shows at the start of a [`Clock`].
#[derive(Clone, Copy)]
pub(crate) struct Start(Duration);

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock { start: read(ClockId::CLOCK_MONOTONIC) }
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.elapsed()
    }

    fn elapsed(&self) -> Span {
        span(read(ClockId::CLOCK_MONOTONIC).saturating_sub(self.start))
    }

    /// Reads both clocks together: what stamps of about now are to be held against. A thread can
    /// lose its core between the two; of several tries the closest counts.
    pub(crate) fn start(&self) -> Start {
        let mut best = (Duration::MAX, Duration::ZERO);
        for _ in 0..TRIES {
            let before = read(ClockId::CLOCK_MONOTONIC);
            let shown = read(ClockId::CLOCK_REALTIME);
            let apart = read(ClockId::CLOCK_MONOTONIC).saturating_sub(before);
            if apart < best.0 {
                let elapsed = before.saturating_sub(self.start) + apart / 2;
                best = (apart, shown.saturating_sub(elapsed));
            }
            if apart <= CLOSE {
                break;
            }
        }
        Start(best.1)
    }
}

impl Start {
    /// When something happened that has this stamp.
    pub(crate) fn time(self, stamp: Duration) -> Time {
        Time::ZERO + span(stamp.saturating_sub(self.0))
    }
}

/// Up to the length of a [`Span`], which is that of half a year.
fn span(duration: Duration) -> Span {
    const MOST: u64 = u64::MAX / 1_000;
    Span::ns(u64::try_from(duration.as_nanos()).map_or(MOST, |ns| ns.min(MOST)))
}

fn read(clock: ClockId) -> Duration {
    // Both clocks are there on every Linux.
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}
