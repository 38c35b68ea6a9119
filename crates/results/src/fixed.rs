//! Numbers with six decimals.

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;
use std::fmt;
use tidegate_core::Span;

/// A number of millionths, written to JSON with exactly six decimals: `12.345678`.
///
/// The simulator counts picoseconds, so a time in microseconds is exact in this form. A ratio is
/// rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fixed(u64);

impl Fixed {
    /// A number from its millionths.
    pub const fn millionths(count: u64) -> Fixed {
        Fixed(count)
    }
    /// A span in microseconds, exactly.
    pub const fn micros(span: Span) -> Fixed {
        Fixed(span.as_ps())
    }
    /// The nearest millionth; `None` if `x` is negative, infinite or not a number.
    pub fn nearest(x: f64) -> Option<Fixed> {
        (x >= 0.0 && x.is_finite()).then(|| Fixed((x * 1e6).round() as u64))
    }
    /// Returns the number of millionths.
    pub const fn as_millionths(self) -> u64 {
        self.0
    }
    /// Returns the number as a float.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl fmt::Display for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

impl Serialize for Fixed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.to_string()).map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Fixed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fixed, D::Error> {
        let x = f64::deserialize(deserializer)?;
        Fixed::nearest(x)
            .ok_or_else(|| D::Error::custom(format!("{x} is not a finite number of at least 0")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_carries_six_decimals_and_every_picosecond() {
        let shown = |ps| serde_json::to_string(&Fixed::micros(Span::ps(ps))).unwrap();
        assert_eq!(shown(0), "0.000000");
        assert_eq!(shown(12_345_678), "12.345678");
        assert_eq!(shown(1), "0.000001");
        assert_eq!(shown(u64::MAX), "18446744073709.551615");
    }

    #[test]
    fn undefined_numbers_are_none() {
        assert_eq!(Fixed::nearest(f64::NAN), None);
        assert_eq!(Fixed::nearest(f64::INFINITY), None);
        assert_eq!(Fixed::nearest(-1.0), None);
        assert_eq!(Fixed::nearest(1.000_000_4), Some(Fixed::millionths(1_000_000)));
    }

    #[test]
    fn json_reads_back() {
        let x = Fixed::millionths(12_345_678);
        assert_eq!(serde_json::from_str::<Fixed>(&serde_json::to_string(&x).unwrap()).unwrap(), x);
    }
}
