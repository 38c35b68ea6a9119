//! Times in lists of flows, in picoseconds.

use tidegate_core::Span;

use crate::error::{Error, nearest, one_of};

/// Unit of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

/// Endings of column names, longest first, with their units.
const ENDINGS: [(&str, TimeUnit); 15] = [
    ("milliseconds", TimeUnit::Ms),
    ("microseconds", TimeUnit::Us),
    ("nanoseconds", TimeUnit::Ns),
    ("seconds", TimeUnit::S),
    ("millis", TimeUnit::Ms),
    ("micros", TimeUnit::Us),
    ("nanos", TimeUnit::Ns),
    ("msec", TimeUnit::Ms),
    ("usec", TimeUnit::Us),
    ("nsec", TimeUnit::Ns),
    ("sec", TimeUnit::S),
    ("ms", TimeUnit::Ms),
    ("us", TimeUnit::Us),
    ("ns", TimeUnit::Ns),
    ("s", TimeUnit::S),
];

impl TimeUnit {
    /// All units.
    pub const ALL: [TimeUnit; 4] = [TimeUnit::S, TimeUnit::Ms, TimeUnit::Us, TimeUnit::Ns];

    /// Returns the name: s, ms, us or ns.
    pub const fn name(self) -> &'static str {
        match self {
            TimeUnit::S => "s",
            TimeUnit::Ms => "ms",
            TimeUnit::Us => "us",
            TimeUnit::Ns => "ns",
        }
    }

    /// Returns the unit with this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(name: &str) -> Result<TimeUnit, Error> {
        let names = || TimeUnit::ALL.into_iter().map(TimeUnit::name);
        TimeUnit::ALL.into_iter().find(|unit| unit.name() == name).ok_or_else(|| {
            Error::whole("--time-unit", format!("{name:?}"), one_of(names()))
                .suggest(nearest(name, names()))
        })
    }

    const fn ps(self) -> i128 {
        match self {
            TimeUnit::S => 1_000_000_000_000,
            TimeUnit::Ms => 1_000_000_000,
            TimeUnit::Us => 1_000_000,
            TimeUnit::Ns => 1_000,
        }
    }

    /// Divides the name of a column into its stem and the unit at its end.
    pub(super) fn split(name: &str) -> Option<(&str, TimeUnit)> {
        ENDINGS.iter().find_map(|(ending, unit)| Some((name.strip_suffix(ending)?, *unit)))
    }

    /// Parses a number of this unit that is not negative. Digits below a picosecond are omitted.
    pub(super) fn parse(self, text: &str) -> Option<i128> {
        let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
        let is_digits = |text: &str| text.len() <= 24 && text.bytes().all(|b| b.is_ascii_digit());
        if is_digits(whole) && is_digits(rest) && whole.len() + rest.len() > 0 {
            let number = |text: &str| if text.is_empty() { Some(0) } else { text.parse().ok() };
            let below: i128 = number(rest)?;
            let below = below.checked_mul(self.ps())? / 10i128.pow(rest.len() as u32);
            return number(whole)?.checked_mul(self.ps())?.checked_add(below);
        }
        // With an exponent.
        let number: f64 = text.parse().ok().filter(|x: &f64| (0.0..1e20).contains(x))?;
        Some((number * self.ps() as f64) as i128)
    }
}

/// Parses a date with a time of day, `2026-03-01 12:00:00.125` or `2026-03-01T12:00:00Z`, as time
/// since 1970.
pub(super) fn date(text: &str) -> Option<i128> {
    let (date, time) = text.split_once([' ', 'T'])?;
    let time = time.strip_suffix('Z').unwrap_or(time);
    let number = |text: &str, len: usize| {
        let fits = text.len() == len && text.bytes().all(|byte| byte.is_ascii_digit());
        if fits { text.parse::<i128>().ok() } else { None }
    };
    let mut parts = date.splitn(3, '-');
    let [year, month, day] = [4, 2, 2].map(|len| number(parts.next().unwrap_or(""), len));
    let (year, month, day) = (year?, month?, day?);
    let mut parts = time.splitn(3, ':');
    let [hour, minute] = [2, 2].map(|len| number(parts.next().unwrap_or(""), len));
    let (hour, minute) = (hour?, minute?);
    let second = TimeUnit::S.parse(parts.next()?)?;
    let is_valid = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 61 * TimeUnit::S.ps();
    // Days since 1970 in the Gregorian calendar, with years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60;
    is_valid.then_some(seconds * TimeUnit::S.ps() + second)
}

/// A time with at most six significant digits, above a microsecond in whole nanoseconds.
pub(super) fn rounded(span: Span) -> Span {
    let digits = span.as_ps().max(1).ilog10();
    let least = if span > Span::us(1) { 3 } else { 0 };
    let unit = 10u64.pow(digits.saturating_sub(5).max(least));
    Span::ps(span.as_ps().div_ceil(unit) * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact() {
        assert_eq!(TimeUnit::Us.parse("0.000001"), Some(1));
        assert_eq!(TimeUnit::Ms.parse("1700000000123.25"), Some(1_700_000_000_123_250_000_000));
        assert_eq!(TimeUnit::S.parse("1.5e3"), Some(1_500_000_000_000_000));
        assert_eq!(TimeUnit::S.parse(".5"), Some(500_000_000_000));
        for text in ["", ".", "-1", "x", "1,5", "nan", "inf", &"9".repeat(40)] {
            assert_eq!(TimeUnit::S.parse(text), None, "{text}");
        }
    }

    #[test]
    fn dates_count_from_1970() {
        let ms = |text| date(text).map(|ps| ps / 1_000_000_000);
        assert_eq!(ms("1970-01-01 00:00:00"), Some(0));
        assert_eq!(ms("2000-03-01T00:00:00.250Z"), Some(951_868_800_250));
        assert_eq!(ms("2024-02-29 12:34:56"), Some(1_709_210_096_000));
        for text in ["2024-13-01 00:00:00", "2024-01-01", "24-01-01 00:00:00", "x 00:00:00"] {
            assert_eq!(date(text), None, "{text}");
        }
    }

    #[test]
    fn column_names_end_in_units() {
        assert_eq!(TimeUnit::split("flowstartmilliseconds"), Some(("flowstart", TimeUnit::Ms)));
        assert_eq!(TimeUnit::split("startus"), Some(("start", TimeUnit::Us)));
        assert_eq!(TimeUnit::split("first"), None);
    }
}
