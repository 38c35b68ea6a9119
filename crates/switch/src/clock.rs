//! The time of switches, by the monotonic clock.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tidegate_core::{Dilation, Span, Time};

/// If two readings of the monotonic clock are this close, the reading in between is precise enough.
const CLOSE: Duration = Duration::from_micros(2);
/// Maximum number of attempts.
const TRIES: usize = 8;

pub(crate) struct Clock(Dilation);

/// The offset of the real-time clock, which the kernel's time stamps use, to the monotonic clock.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    ahead: Duration,
    dilation: Dilation,
}

impl Clock {
    /// Creates a clock; without a dilation, one that begins now at normal speed.
    pub(crate) fn new(dilation: Option<Dilation>) -> Clock {
        Clock(dilation.unwrap_or_else(|| Dilation::none(read(ClockId::CLOCK_MONOTONIC))))
    }

    pub(crate) fn now(&self) -> Time {
        self.0.time(read(ClockId::CLOCK_MONOTONIC))
    }

    /// The real duration of a span.
    pub(crate) fn real(&self, span: Span) -> Duration {
        self.0.real(span)
    }

    /// The span of a real duration.
    pub(crate) fn span(&self, real: Duration) -> Span {
        self.0.span(real)
    }

    /// Reads both clocks together, to convert recent time stamps. The thread may be preempted
    /// between the readings, so the closest of several attempts is used.
    pub(crate) fn start(&self) -> Start {
        let mut best = (Duration::MAX, Duration::ZERO);
        for _ in 0..TRIES {
            let before = read(ClockId::CLOCK_MONOTONIC);
            let real_time = read(ClockId::CLOCK_REALTIME);
            let apart = read(ClockId::CLOCK_MONOTONIC).saturating_sub(before);
            if apart < best.0 {
                best = (apart, real_time.saturating_sub(before + apart / 2));
            }
            if apart <= CLOSE {
                break;
            }
        }
        Start { ahead: best.1, dilation: self.0 }
    }
}

impl Start {
    /// Converts a time stamp.
    pub(crate) fn time(self, stamp: Duration) -> Time {
        self.dilation.time(stamp.saturating_sub(self.ahead))
    }
}

fn read(clock: ClockId) -> Duration {
    // Every Linux has both clocks.
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}
