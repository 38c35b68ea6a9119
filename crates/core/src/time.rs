//! Points in simulated time and spans of time, in picoseconds.
//!
//! At every usual Ethernet rate up to 1.6 Tbit/s, a byte takes a whole number of picoseconds. A
//! `u64` holds 213 days.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// A point in simulated time: picoseconds since the start of the run.
///
/// The difference of two points is a [`Span`], and adding a span moves a point:
///
/// ```
/// use tidegate_core::{Span, Time};
/// let sent = Time::us(1) + Span::us(2);
/// assert_eq!(sent - Time::us(1), Span::us(2));
/// ```
///
/// Points cannot be added or multiplied:
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

/// Functions that points and spans have in common.
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
            /// Uses the largest unit that leaves a whole number: `20ms`, `245ns`, `163840ps`. Shows
            /// `inf` for infinity.
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

    /// Time since `earlier`; [`Span::ZERO`] if `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
    /// `self + span`, or [`Time::NEVER`] on overflow.
    #[inline]
    pub const fn after(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
    /// `self - span`, or [`Time::ZERO`] on underflow.
    #[inline]
    pub const fn before(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl Span {
    /// A span of zero.
    pub const ZERO: Span = Span(0);
    /// Longer than every other span.
    pub const FOREVER: Span = Span(u64::MAX);

    /// From a number of microseconds. Negative numbers and NaN give zero, too large ones
    /// [`Span::FOREVER`].
    #[inline]
    pub fn from_us_f64(us: f64) -> Span {
        Span(crate::math::round(us * 1e6) as u64)
    }
    /// From a number of picoseconds. Negative numbers and NaN give zero, too large ones
    /// [`Span::FOREVER`].
    #[inline]
    pub fn from_ps_f64(ps: f64) -> Span {
        Span(ps as u64)
    }
    /// `self - other`; [`Span::ZERO`] if `other` is longer.
    #[inline]
    pub const fn beyond(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
    /// `self + other`, or [`Span::FOREVER`] on overflow.
    #[inline]
    pub const fn plus(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
    /// `self` times `factor`, saturating.
    #[inline]
    pub const fn times(self, factor: u64) -> Span {
        Span(self.0.saturating_mul(factor))
    }
    /// `self` scaled by `factor`. Negative and NaN factors give zero.
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
    fn arithmetic_saturates() {
        assert_eq!(Time::us(1).since(Time::us(2)), Span::ZERO);
        assert_eq!(Time::us(1).after(Span::FOREVER), Time::NEVER);
        assert_eq!(Time::us(1).before(Span::us(2)), Time::ZERO);
        assert_eq!(Span::us(1).beyond(Span::us(2)), Span::ZERO);
        assert_eq!(Span::us(1).plus(Span::FOREVER), Span::FOREVER);
        assert_eq!(Span::us(1).times(u64::MAX), Span::FOREVER);
    }
}
