//! Conversion between the system's clock and the time that protocols see.

use core::time::Duration;

use crate::{Span, Time};

/// Mapping from the system's clock to the time that protocols see. That time starts at `origin` and
/// runs `factor` times slower. So real processes can emulate a scenario with links of 100 Gbit/s at
/// a thousandth of the speed: all rates and times keep their values, and only the clock differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dilation {
    /// Reading of the system's clock at time zero.
    pub origin: Duration,
    /// 1: as fast as the system's clock; 0 is treated as 1.
    pub factor: u32,
}

impl Dilation {
    /// No dilation: as fast as the system's clock, from `origin`.
    pub const fn none(origin: Duration) -> Dilation {
        Dilation { origin, factor: 1 }
    }

    /// Time that corresponds to a reading of the clock; zero before the origin.
    pub fn time(self, clock: Duration) -> Time {
        Time::ZERO + self.span(clock.saturating_sub(self.origin))
    }

    /// Span in the time that protocols see.
    pub fn span(self, real: Duration) -> Span {
        let ps = real.as_nanos().saturating_mul(1_000) / u128::from(self.factor.max(1));
        Span::ps(u64::try_from(ps).unwrap_or(u64::MAX))
    }

    /// Span by the system's clock, rounded up to nanoseconds, so that a thread that sleeps this
    /// long does not wake up too early.
    pub fn real(self, span: Span) -> Duration {
        let ns = (u128::from(span.as_ps()) * u128::from(self.factor.max(1))).div_ceil(1_000);
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dilated_clock_runs_slower() {
        let slow = Dilation { origin: Duration::from_secs(5), factor: 1_000 };
        assert_eq!(slow.time(Duration::from_secs(6)), Time::ms(1));
        assert_eq!(slow.time(Duration::from_secs(4)), Time::ZERO);
        assert_eq!(slow.span(Duration::from_nanos(1)), Span::ps(1));
        assert_eq!(slow.real(Span::us(20)), Duration::from_millis(20));
        assert_eq!(Dilation::none(Duration::ZERO).time(Duration::from_nanos(7)), Time::ns(7));
    }

    #[test]
    fn sleep_is_long_enough_and_does_not_overflow() {
        for factor in [1, 3, 7, 1_000, u32::MAX] {
            let clock = Dilation { origin: Duration::ZERO, factor };
            for span in [Span::ps(1), Span::ns(1), Span::us(17), Span::s(3)] {
                assert!(clock.span(clock.real(span)) >= span, "{factor} {span:?}");
            }
            assert_eq!(clock.real(Span::FOREVER).max(Duration::ZERO), clock.real(Span::FOREVER));
            assert!(clock.span(Duration::MAX) > Span::s(1));
        }
    }
}
