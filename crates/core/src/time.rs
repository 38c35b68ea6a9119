//! Points in simulated time, and lengths of it, in picoseconds.
//!
//! Picoseconds because a byte lasts a whole number of them at every usual Ethernet rate up to 1.6
//! Tbit/s. A `u64` holds 213 days.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// A point in simulated time: picoseconds since the start of the run.
///
/// Points have a distance, which is a [`Span`], and are moved by one:
///
/// ```
/// use tidegate_core::{Span, Time};
/// let sent = Time::us(1) + Span::us(2);
/// assert_eq!(sent - Time::us(1), Span::us(2));
/// ```
///
/// They are neither added nor multiplied:
///
/// ```compile_fail,E0277
/// use tidegate_core::Time;
/// let now = Time::us(1);
/// now + now;
/// ```
///
/// ```compile_fail,E0599
/// use tidegate_core::Time;
/// let now = Time::us(1);
/// now.times(2);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A length of time, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

/// What points and spans have in common.
macro_rules! picoseconds {
    ($type:ident) => {
        impl $type {
            /// From picoseconds.
            #[inline]
            pub const fn ps(ps: u64) -> $type {
                $type(ps)
            }
            /// From nanoseconds.
            #[inline]
            pub const fn ns(ns: u64) -> $type {
                $type(ns * 1_000)
            }
            /// From microseconds.
            #[inline]
            pub const fn us(us: u64) -> $type {
                $type(us * 1_000_000)
            }
            /// From milliseconds.
            #[inline]
            pub const fn ms(ms: u64) -> $type {
                $type(ms * 1_000_000_000)
            }
            /// From seconds.
            #[inline]
            pub const fn s(s: u64) -> $type {
                $type(s * 1_000_000_000_000)
            }
            /// In picoseconds.
            #[inline]
            pub const fn as_ps(self) -> u64 {
                self.0
            }
            /// In microseconds.
            #[inline]
            pub fn as_us_f64(self) -> f64 {
                self.0 as f64 / 1e6
            }
            /// In seconds.
            #[inline]
            pub fn as_s_f64(self) -> f64 {
                self.0 as f64 / 1e12
            }
        }

        impl fmt::Display for $type {
            /// The largest unit that leaves a whole number: `20ms`, `245ns`, `163840ps`; `inf`
            /// where it has no end.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                show(self.0, f)
            }
        }
    };
}
picoseconds!(Time);
picoseconds!(Span);

fn show(ps: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if ps == u64::MAX {
        return f.write_str("inf");
    }
    let units = [(1_000_000_000_000, "s"), (1_000_000_000, "ms"), (1_000_000, "us"), (1_000, "ns")];
    for (scale, unit) in units {
        if ps != 0 && ps.is_multiple_of(scale) {
            return write!(f, "{}{unit}", ps / scale);
        }
    }
    if ps == 0 { f.write_str("0us") } else { write!(f, "{ps}ps") }
}

impl Time {
    /// The start of a run.
    pub const ZERO: Time = Time(0);
    /// Later than everything.
    pub const NEVER: Time = Time(u64::MAX);

    /// How long after `earlier` this is; [`Span::ZERO`] where `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
    /// `self + span`, or [`Time::NEVER`] where that does not fit.
    #[inline]
    pub const fn after(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
    /// `self - span`, or [`Time::ZERO`] where that would be before the start.
    #[inline]
    pub const fn before(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// Longer than everything.
    pub const FOREVER: Span = Span(u64::MAX);

    /// From a number of microseconds; negative and NaN become zero, too large becomes
    /// [`Span::FOREVER`].
    #[inline]
    pub fn from_us_f64(us: f64) -> Span {
        Span(crate::math::round(us * 1e6) as u64)
    }
    /// From a number of picoseconds; negative and NaN become zero, too large becomes
    /// [`Span::FOREVER`].
    #[inline]
    pub fn from_ps_f64(ps: f64) -> Span {
        Span(ps as u64)
    }
    /// How much longer than `other` this is; [`Span::ZERO`] where `other` is longer.
    #[inline]
    pub const fn beyond(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
    /// `self + other`, or [`Span::FOREVER`] where that does not fit.
    #[inline]
    pub const fn plus(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
    /// So many of this, saturating.
    #[inline]
    pub const fn times(self, factor: u64) -> Span {
        Span(self.0.saturating_mul(factor))
    }
    /// This scaled by `factor`; negative and NaN factors give zero.
    #[inline]
    pub fn scale(self, factor: f64) -> Span {
        Span((self.0 as f64 * factor) as u64)
    }
}

impl Add<Span> for Time {
    type Output = Time;
    #[inline(always)]
    fn add(self, rhs: Span) -> Time {
        Time(self.0 + rhs.0)
    }
}
impl AddAssign<Span> for Time {
    #[inline(always)]
    fn add_assign(&mut self, rhs: Span) {
        self.0 += rhs.0;
    }
}
impl Sub for Time {
    type Output = Span;
    #[inline(always)]
    fn sub(self, rhs: Time) -> Span {
        Span(self.0 - rhs.0)
    }
}
impl Sub<Span> for Time {
    type Output = Time;
    #[inline(always)]
    fn sub(self, rhs: Span) -> Time {
        Time(self.0 - rhs.0)
    }
}
impl SubAssign<Span> for Time {
    #[inline(always)]
    fn sub_assign(&mut self, rhs: Span) {
        self.0 -= rhs.0;
    }
}
impl Add for Span {
    type Output = Span;
    #[inline(always)]
    fn add(self, rhs: Span) -> Span {
        Span(self.0 + rhs.0)
    }
}
impl AddAssign for Span {
    #[inline(always)]
    fn add_assign(&mut self, rhs: Span) {
        self.0 += rhs.0;
    }
}
impl Sub for Span {
    type Output = Span;
    #[inline(always)]
    fn sub(self, rhs: Span) -> Span {
        Span(self.0 - rhs.0)
    }
}
impl SubAssign for Span {
    #[inline(always)]
    fn sub_assign(&mut self, rhs: Span) {
        self.0 -= rhs.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn spans_display_in_the_largest_whole_unit() {
        let spans = [Span::ZERO, Span::ms(20), Span::ns(245), Span::ps(163_841), Span::s(2)];
        let shown: alloc::vec::Vec<_> = spans.iter().map(|span| span.to_string()).collect();
        assert_eq!(shown, ["0us", "20ms", "245ns", "163841ps", "2s"]);
        assert_eq!(
            (Time::NEVER.to_string(), Time::ms(20).to_string()),
            ("inf".into(), "20ms".into())
        );
    }

    #[test]
    fn nothing_lies_before_the_start_or_after_never() {
        assert_eq!(Time::us(1).since(Time::us(2)), Span::ZERO);
        assert_eq!(Time::us(1).after(Span::FOREVER), Time::NEVER);
        assert_eq!(Time::us(1).before(Span::us(2)), Time::ZERO);
        assert_eq!(Span::us(1).beyond(Span::us(2)), Span::ZERO);
        assert_eq!(Span::us(1).plus(Span::FOREVER), Span::FOREVER);
        assert_eq!(Span::us(1).times(u64::MAX), Span::FOREVER);
    }
}
