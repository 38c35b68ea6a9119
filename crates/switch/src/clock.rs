//! The time that switches see, by the clock that nobody sets.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tidegate_core::{Dilation, Span, Time};

/// Two readings of a clock that are so close have nothing between them but a third.
const CLOSE: Duration = Duration::from_micros(2);
/// Tries to read them so close.
const TRIES: usize = 8;

pub(crate) struct Clock(Dilation);

/// What the clock of the kernel's time stamps, which people set, is ahead of the one that nobody
/// sets.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    ahead: Duration,
    dilation: Dilation,
}

impl Clock {
    /// One that begins now, unless it is told how it goes.
    pub(crate) fn new(dilation: Option<Dilation>) -> Clock {
        Clock(dilation.unwrap_or_else(|| Dilation::none(read(ClockId::CLOCK_MONOTONIC))))
    }

    pub(crate) fn now(&self) -> Time {
        self.0.time(read(ClockId::CLOCK_MONOTONIC))
    }

    /// How long that is for who sleeps.
    pub(crate) fn real(&self, span: Span) -> Duration {
        self.0.real(span)
    }

    /// How long that is here.
    pub(crate) fn span(&self, real: Duration) -> Span {
        self.0.span(real)
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
                best = (apart, shown.saturating_sub(before + apart / 2));
            }
            if apart <= CLOSE {
                break;
            }
        }
        Start { ahead: best.1, dilation: self.0 }
    }
}

impl Start {
    /// When something happened that has this stamp.
    pub(crate) fn time(self, stamp: Duration) -> Time {
        self.dilation.time(stamp.saturating_sub(self.ahead))
    }
}

fn read(clock: ClockId) -> Duration {
    // Both clocks are there on every Linux.
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}
