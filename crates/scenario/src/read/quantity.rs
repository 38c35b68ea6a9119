//! Quantities with units: `"245ns"`, `"200Gbps"`, `"64MB"`, `"1.5BDP"`.
//!
//! Decimal arithmetic keeps the written value exact. Fractions of a picosecond, bit or byte are
//! rounded to nearest. A space may separate number and unit.

use tidegate_core::{Extent, Rate, Span};

use crate::error::{either, nearest};

/// A duration for messages, rounded up to four significant digits: `9.984ms`.
pub(crate) fn rounded_up(span: Span) -> String {
    let step = 10u64.pow(span.as_ps().max(1).ilog10().saturating_sub(3));
    let ps = span.as_ps().div_ceil(step).saturating_mul(step);
    let fitting =
        TIME.units.iter().filter(|(_, size)| *size <= ps.max(1)).max_by_key(|unit| unit.1);
    match fitting {
        Some((unit, size)) if ![0, u64::MAX].contains(&span.as_ps()) => {
            format!("{}{unit}", ps as f64 / *size as f64)
        }
        _ => span.to_string(),
    }
}

/// A kind of quantity.
pub(crate) struct Dimension {
    /// Noun with its article.
    pub(crate) noun: &'static str,
    /// Example of a value.
    pub(crate) example: &'static str,
    /// Names of units and their sizes in the base unit, as messages list them.
    pub(crate) units: &'static [(&'static str, u64)],
    /// Aliases, with the units that they stand for.
    pub(crate) aliases: &'static [(&'static str, &'static str)],
}

impl Dimension {
    /// Returns the allowed values: an example, and all units without aliases.
    pub(crate) fn expected(&self, such_as: &str) -> String {
        let units = self.units.iter().map(|(name, _)| name.to_string()).collect();
        format!("{} {such_as} {:?}, in {}", self.noun, self.example, either(units))
    }

    /// Returns all names of units, with aliases.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        let aliases = self.aliases.iter().map(|(name, _)| *name);
        self.units.iter().map(|(name, _)| *name).chain(aliases)
    }

    /// Returns the unit that `word` abbreviates or spells out: `Gbps` for `G` and `Gb`, `MiB` for
    /// `Mi`, `s` for `seconds`.
    fn completed(&self, word: &str) -> Option<&'static str> {
        let spelt = match word {
            "byte" | "bytes" => "B",
            "sec" | "secs" | "second" | "seconds" => "s",
            _ => "",
        };
        let lacks = |name: &str, end| name.strip_suffix(end) == Some(word);
        let is_it =
            |name: &&str| *name == spelt || ["B", "bps", "ps"].iter().any(|end| lacks(name, *end));
        self.units.iter().map(|(name, _)| *name).find(is_it)
    }

    /// Returns the size of a unit in the base unit.
    fn size(&self, unit: &str) -> Option<u64> {
        let alias = self.aliases.iter().find(|(name, _)| *name == unit);
        let unit = alias.map_or(unit, |(_, plain)| plain);
        self.units.iter().find(|(name, _)| *name == unit).map(|(_, size)| *size)
    }
}

/// In picoseconds.
pub(crate) const TIME: Dimension = Dimension {
    noun: "a duration",
    example: "10us",
    units: &[
        ("ps", 1),
        ("ns", 1_000),
        ("us", 1_000_000),
        ("ms", 1_000_000_000),
        ("s", 1_000_000_000_000),
    ],
    aliases: &[("\u{b5}s", "us"), ("\u{3bc}s", "us")],
};
/// In bits per second.
pub(crate) const RATE: Dimension = Dimension {
    noun: "a rate",
    example: "200Gbps",
    units: &[
        ("Gbps", 1_000_000_000),
        ("Mbps", 1_000_000),
        ("kbps", 1_000),
        ("bps", 1),
        ("Tbps", 1_000_000_000_000),
    ],
    aliases: &[
        ("Gbit/s", "Gbps"),
        ("Mbit/s", "Mbps"),
        ("kbit/s", "kbps"),
        ("bit/s", "bps"),
        ("Tbit/s", "Tbps"),
        ("Gb/s", "Gbps"),
        ("Mb/s", "Mbps"),
        ("kb/s", "kbps"),
        ("b/s", "bps"),
        ("Tb/s", "Tbps"),
    ],
};
/// In bytes.
pub(crate) const SIZE: Dimension = Dimension {
    noun: "a size",
    example: "4096B",
    units: &[
        ("B", 1),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
    ],
    aliases: &[("kB", "KB")],
};
/// A share, as a percentage.
pub(crate) const SHARE: Dimension =
    Dimension { noun: "a share", example: "60%", units: &[("%", 1)], aliases: &[] };
/// Unit of a size relative to the bandwidth-delay product.
pub(crate) const BDP: &str = "BDP";

/// Reason why a text is not a quantity.
#[derive(Debug, PartialEq)]
pub(crate) struct Why {
    /// Allowed values.
    pub(crate) expected: String,
    /// Value that the user probably intended.
    pub(crate) suggestion: Option<String>,
}

/// A duration.
pub(crate) fn span(text: &str) -> Result<Span, Why> {
    quantity(text, &TIME).map(Span::ps)
}
/// A rate.
pub(crate) fn rate(text: &str) -> Result<Rate, Why> {
    quantity(text, &RATE).map(Rate::bps)
}
/// A size in bytes.
pub(crate) fn bytes(text: &str) -> Result<u64, Why> {
    quantity(text, &SIZE)
}
/// Parses a percentage: `60%` is 0.6; `None` if the text is not a percentage.
pub(crate) fn share(text: &str) -> Option<f64> {
    let (number, "%") = split(text) else { return None };
    number.parse::<f64>().ok().map(|number| number / 100.0)
}
/// A size in bytes or in bandwidth-delay products; `inf` is unlimited.
pub(crate) fn extent(text: &str) -> Result<Extent, Why> {
    if text == "inf" {
        return Ok(Extent::Bdp(f64::INFINITY));
    }
    if let Some(number) = text.strip_suffix(BDP)
        && let Some(factor) = Decimal::parse(number.trim_end_matches(' '))
    {
        return Ok(Extent::Bdp(factor.to_f64()));
    }
    let relative = |why: Why| {
        let why = or_relative(why);
        let suggestion = why.suggestion.or_else(|| {
            let (number, unit) = split(text);
            (unit.eq_ignore_ascii_case(BDP)).then(|| format!("{number}{BDP}"))
        });
        Why { suggestion, ..why }
    };
    quantity(text, &SIZE).map(|bytes| Extent::Bytes(bytes as f64)).map_err(relative)
}

/// Parses a quantity, a share or a plain number, and returns it with its unit: microseconds,
/// Gbit/s, bytes, bandwidth-delay products, or none. `None` if the text is none of these.
pub fn magnitude(text: &str) -> Option<(f64, &'static str)> {
    let (number, unit) = split(text);
    let number: f64 = number.parse().ok()?;
    let of =
        |dimension: &Dimension, base: f64| Some(number * (dimension.size(unit)? as f64 / base));
    match unit {
        "" => Some((number, "")),
        "%" => Some((number / 100.0, "")),
        BDP => Some((number, BDP)),
        _ => [(TIME, 1e6, "us"), (RATE, 1e9, "Gbps"), (SIZE, 1.0, "B")]
            .iter()
            .find_map(|(dimension, base, name)| Some((of(dimension, *base)?, *name))),
    }
}

/// Whether a text is a quantity that the base unit cannot express, because it is too large.
pub(crate) fn is_too_large(text: &str, dimension: &Dimension) -> bool {
    let (number, unit) = split(text);
    let size = dimension.size(unit);
    size.zip(Decimal::parse(number)).is_some_and(|(size, decimal)| decimal.times(size).is_none())
}

/// Adds sizes in bandwidth-delay products to the allowed values.
pub(crate) fn or_relative(why: Why) -> Why {
    Why { expected: format!("{}, or \"1.5BDP\"", why.expected), ..why }
}

/// Splits a text into number and unit.
fn split(text: &str) -> (&str, &str) {
    let end = text
        .char_indices()
        .find(|&(at, c)| {
            let exponent = matches!(c, 'e' | 'E')
                && text[at + 1..]
                    .trim_start_matches(['+', '-'])
                    .starts_with(|next: char| next.is_ascii_digit());
            !(c.is_ascii_digit()
                || c == '.'
                || exponent
                || matches!(c, '+' | '-') && after_exponent(text, at))
        })
        .map_or(text.len(), |(at, _)| at);
    let (number, unit) = text.split_at(end);
    (number, if number.is_empty() { unit } else { unit.trim_start_matches(' ') })
}

fn after_exponent(text: &str, at: usize) -> bool {
    at > 0 && matches!(text.as_bytes()[at - 1], b'e' | b'E')
}

fn quantity(text: &str, dimension: &Dimension) -> Result<u64, Why> {
    let expected = || dimension.expected("such as");
    let (number, unit) = split(text.trim());
    let Some(decimal) = Decimal::parse(number) else {
        let sign = text.trim().strip_prefix(['-', '\u{2212}']).map(|rest| split(rest).0);
        let expected = match sign.and_then(Decimal::parse) {
            Some(_) => format!("{} (no negative value)", expected()),
            None => expected(),
        };
        return Err(Why { expected, suggestion: None });
    };
    if let Some(size) = dimension.size(unit)
        && text.trim().len() == text.len()
    {
        return decimal.times(size).ok_or_else(|| Why {
            expected: format!("{} of at most {}{unit}", dimension.noun, u64::MAX / size),
            suggestion: None,
        });
    }
    // A unit of another dimension is not a misspelling.
    let is_other = |other: &&&Dimension| other.noun != dimension.noun && other.size(unit).is_some();
    if let Some(other) = [&TIME, &RATE, &SIZE, &SHARE].iter().find(is_other) {
        let expected = format!("{} ({unit} is the unit of {})", expected(), other.noun);
        return Err(Why { expected, suggestion: None });
    }
    if unit.starts_with([',', '_']) {
        let expected = format!("{} (digits, perhaps with a decimal point)", expected());
        return Err(Why { expected, suggestion: None });
    }
    let near = |unit| dimension.completed(unit).or_else(|| nearest(unit, dimension.names()));
    let suggestion = if unit.is_empty() { None } else { near(unit.trim()) };
    // A wrong case of `b` changes the value by a factor of 8. If the user wrote mixed case, this
    // may be intended, so no suggestion is made.
    let other_letter = |suggested: &str| {
        unit.chars().any(char::is_uppercase)
            && unit.chars().any(char::is_lowercase)
            && unit.contains('B') != suggested.contains('B')
            && unit.eq_ignore_ascii_case(suggested)
    };
    if suggestion.is_some_and(other_letter) {
        let expected = format!("{} (b is a bit, B a byte of 8 bits)", expected());
        return Err(Why { expected, suggestion: None });
    }
    let with_unit =
        if unit.is_empty() { dimension.expected("with a unit, such as") } else { expected() };
    Err(Why { expected: with_unit, suggestion: suggestion.map(|unit| format!("{number}{unit}")) })
}

/// `mantissa · 10^exponent`, the mantissa below 10¹⁸.
#[derive(Clone, Copy)]
struct Decimal {
    mantissa: u64,
    exponent: i32,
}

impl Decimal {
    /// Parses digits with an optional fraction and an optional exponent; no sign.
    fn parse(text: &str) -> Option<Decimal> {
        let (digits, exponent) = match text.split_once(['e', 'E']) {
            Some((digits, exponent)) => {
                (digits, exponent.parse::<i32>().ok()?.clamp(-1_000, 1_000))
            }
            None => (text, 0),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !all_digits(whole) || !all_digits(fraction) || text.len() > 400 {
            return None;
        }
        let mut decimal = Decimal { mantissa: 0, exponent };
        for digit in whole.bytes() {
            if !decimal.push(digit) {
                decimal.exponent += 1;
            }
        }
        for digit in fraction.bytes() {
            if decimal.push(digit) {
                decimal.exponent -= 1;
            }
        }
        Some(decimal)
    }

    fn push(&mut self, digit: u8) -> bool {
        let room = self.mantissa < 100_000_000_000_000_000;
        if room {
            self.mantissa = self.mantissa * 10 + u64::from(digit - b'0');
        }
        room
    }

    /// Multiplies by `unit` and rounds to nearest; `None` if the result does not fit.
    fn times(self, unit: u64) -> Option<u64> {
        let product = u128::from(self.mantissa) * u128::from(unit);
        if product == 0 {
            return Some(0);
        }
        let exact = if self.exponent >= 0 {
            product.checked_mul(10u128.checked_pow(self.exponent as u32)?)?
        } else {
            match 10u128.checked_pow(self.exponent.unsigned_abs()) {
                Some(divisor) => (product + divisor / 2) / divisor,
                None => 0,
            }
        };
        u64::try_from(exact).ok()
    }

    fn to_f64(self) -> f64 {
        format!("{}e{}", self.mantissa, self.exponent).parse().unwrap_or(f64::INFINITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_messages_have_four_digits() {
        for (ps, shown) in [
            (0, "0us"),
            (999, "999ps"),
            (1_250_000, "1.25us"),
            (9_983_650_000, "9.984ms"),
            (9_999_900_000, "10ms"),
            (25_000_000_000, "25ms"),
            (61_234_000_000_000, "61.24s"),
            (u64::MAX, "inf"),
        ] {
            assert_eq!(rounded_up(Span::ps(ps)), shown);
        }
    }

    #[test]
    fn quantities_are_exact() {
        assert_eq!(span("245ns"), Ok(Span::ns(245)));
        assert_eq!(span("0.1us"), Ok(Span::ns(100)));
        assert_eq!(span("1.5µs"), span("1500ns"));
        assert_eq!(span("1.5\u{3bc}s"), span("1500ns"));
        assert_eq!(span("2e-6s"), Ok(Span::us(2)));
        assert_eq!(span("163840ps"), Ok(Span::ps(163_840)));
        assert_eq!(span("0.12345678901234567890123us"), Ok(Span::ps(123_457)));
        assert_eq!(rate("0.1Tbps"), Ok(Rate::gbps(100)));
        assert_eq!(rate("100Gbit/s"), Ok(Rate::gbps(100)));
        assert_eq!(rate("0.1Tb/s"), Ok(Rate::gbps(100)));
        assert_eq!(bytes("64MB"), Ok(64_000_000));
        assert_eq!(bytes("64MiB"), Ok(64 << 20));
        assert_eq!(bytes("1e3B"), Ok(1_000));
        assert_eq!(bytes("0B"), Ok(0));
        // As tables print them.
        assert_eq!(rate("10 Gbps"), rate("10Gbps"));
        assert_eq!(span("1.5 us"), span("1500ns"));
        assert_eq!(share("30 %"), Some(0.3));
        assert_eq!(extent("1.5 BDP"), Ok(Extent::Bdp(1.5)));
        assert_eq!(magnitude("40 Gbit/s"), Some((40.0, "Gbps")));
        assert_eq!(extent("1.5BDP"), Ok(Extent::Bdp(1.5)));
        assert_eq!(extent("4096B"), Ok(Extent::Bytes(4096.0)));
        assert_eq!(extent("inf"), Ok(Extent::Bdp(f64::INFINITY)));
    }

    #[test]
    fn other_texts_are_refused() {
        let wrong = [
            "",
            " ",
            "10",
            "us",
            "-1us",
            "+1us",
            "1\tus",
            "1 ",
            " 1us",
            "1us ",
            "1e400us",
            "NaNus",
            "infus",
            "1.us",
            ".5us",
            "1,5us",
            "1e",
            "1eus",
            "1e+us",
            "0x10us",
            "1_000us",
            "99999999999999999999s",
            "1us1",
            "١us",
            "1u\u{308}s",
            "🙂",
        ];
        for text in wrong {
            assert!(span(text).is_err(), "{text}");
            assert!(rate(text).is_err(), "{text}");
            assert!(extent(text).is_err(), "{text}");
        }
        for text in ["1.5bdp", "BDP", "-1BDP", "1.5\u{a0}BDP"] {
            assert!(extent(text).is_err(), "{text}");
        }
    }

    #[test]
    fn magnitudes_of_one_kind_have_one_unit() {
        let all = ["0.3", "30%", "1.5ms", "40Gbit/s", "64KiB", "2BDP", "x", "1", "inf", "3x", ""];
        let found = all.map(magnitude);
        let of = |number, unit| Some((number, unit));
        assert_eq!(found[..3], [of(0.3, ""), of(0.3, ""), of(1500.0, "us")]);
        assert_eq!(found[3..6], [of(40.0, "Gbps"), of(65536.0, "B"), of(2.0, "BDP")]);
        assert_eq!(found[6..], [None, of(1.0, ""), None, None, None]);
    }

    #[test]
    fn units_of_other_dimensions_are_named() {
        for (why, words) in [
            (bytes("100ms").unwrap_err(), "(ms is the unit of a duration)"),
            (bytes("10Gb/s").unwrap_err(), "(Gb/s is the unit of a rate)"),
            (bytes("10Gbps").unwrap_err(), "(Gbps is the unit of a rate)"),
            (extent("1s").unwrap_err(), "(s is the unit of a duration)"),
            (rate("10GB").unwrap_err(), "(GB is the unit of a size)"),
            (rate("60%").unwrap_err(), "(% is the unit of a share)"),
            (span("1KB").unwrap_err(), "(KB is the unit of a size)"),
            (bytes("1,000B").unwrap_err(), "(digits, perhaps with a decimal point)"),
        ] {
            assert!(why.expected.contains(words) && why.suggestion.is_none(), "{why:?}");
        }
    }

    #[test]
    fn units_are_suggested() {
        let suggestion = |why: Why| why.suggestion.unwrap_or_default();
        assert_eq!(suggestion(rate("10Gbsp").unwrap_err()), "10Gbps");
        assert_eq!(suggestion(rate("10gbps").unwrap_err()), "10Gbps");
        assert_eq!(suggestion(span("5\tms").unwrap_err()), "5ms");
        assert_eq!(suggestion(bytes("1mb").unwrap_err()), "1MB");
        assert_eq!(suggestion(extent("1.5bdp").unwrap_err()), "1.5BDP");
        for (text, right) in [("10G", "10Gbps"), ("10 Gb", "10Gbps"), ("10k", "10kbps")] {
            assert_eq!(suggestion(rate(text).unwrap_err()), right, "{text}");
        }
        assert_eq!(suggestion(bytes("10Mi").unwrap_err()), "10MiB");
        assert_eq!(suggestion(bytes("10 bytes").unwrap_err()), "10B");
        assert_eq!(suggestion(span("3 seconds").unwrap_err()), "3s");
        for why in
            [rate("100GBps").unwrap_err(), rate("1GB/s").unwrap_err(), bytes("4Mb").unwrap_err()]
        {
            assert!(
                why.suggestion.is_none() && why.expected.contains("a byte of 8 bits"),
                "{why:?}"
            );
        }
        assert!(span("10").unwrap_err().expected.contains("with a unit"));
    }
}
