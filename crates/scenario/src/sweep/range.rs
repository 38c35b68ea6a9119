//! Ranges of decimal numbers with a unit. The arithmetic uses integers, so that values are exact:
//! 0.3, 0.4, and not 0.30000000000000004.

/// A decimal number with its unit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Decimal {
    /// Digits without the decimal point.
    digits: i128,
    /// Number of digits after the point.
    decimals: u32,
    /// Unit; may be empty.
    unit: String,
}

/// Largest number of digits; more are probably a mistake.
const DIGITS_MAX: usize = 15;
/// Largest number of values; a longer range is probably a mistake.
const VALUES_MAX: i128 = 10_000;

impl Decimal {
    fn parse(text: &str) -> Option<Decimal> {
        let text = text.trim();
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, unit) = unsigned.split_at(end.unwrap_or(unsigned.len()));
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let is_wrong = whole.is_empty() || number.ends_with('.') || part.contains('.');
        let is_unit = unit.chars().all(|c| c.is_alphabetic() || c == '%');
        if is_wrong || !is_unit || number.len() > DIGITS_MAX {
            return None;
        }
        let digits: i128 = format!("{whole}{part}").parse().ok()?;
        let digits = if unsigned.len() < text.len() { -digits } else { digits };
        Some(Decimal { digits, decimals: part.len() as u32, unit: unit.to_owned() })
    }

    /// Returns the digits with `decimals` of them after the point, which must be at least its own
    /// number.
    fn scaled(&self, decimals: u32) -> i128 {
        self.digits * 10i128.pow(decimals - self.decimals)
    }
}

/// Formats a number with at most `decimals` digits after the point, without trailing zeros.
fn shown(digits: i128, decimals: u32, unit: &str) -> String {
    let (sign, digits) = (if digits < 0 { "-" } else { "" }, digits.unsigned_abs());
    let scale = 10u128.pow(decimals);
    let part = format!("{:0width$}", digits % scale, width = decimals as usize);
    let part = if decimals == 0 { "" } else { part.trim_end_matches('0') };
    let point = if part.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{part}{unit}", digits / scale)
}

/// Whether a text has the form of a range.
pub(super) fn is_range(text: &str) -> bool {
    text.contains("..") && !text.starts_with(['"', '\'', '[', '{'])
}

/// Returns the values of a range, including both ends. The default step is one unit of the last
/// written digit of either end.
///
/// # Errors
/// The expected value.
pub(super) fn values(from: &str, to: &str, step: Option<&str>) -> Result<Vec<String>, String> {
    let number = |text: &str| {
        let wrong = || {
            format!(
                "a decimal number of at most {DIGITS_MAX} digits, without an exponent and with an \
                 optional unit, instead of {text:?}"
            )
        };
        Decimal::parse(text).ok_or_else(wrong)
    };
    let (from, to) = (number(from)?, number(to)?);
    let unit = from.unit.clone();
    let of_last_digit =
        || Decimal { digits: 1, decimals: from.decimals.max(to.decimals), unit: unit.clone() };
    let step = step.map_or_else(|| Ok(of_last_digit()), number)?;
    if to.unit != unit || step.unit != unit {
        return Err("the same unit for both ends and the step".to_owned());
    }
    let decimals = from.decimals.max(to.decimals).max(step.decimals);
    let [first, last, step] = [&from, &to, &step].map(|number| number.scaled(decimals));
    if step <= 0 {
        return Err("a step above zero".to_owned());
    }
    if first > last {
        return Err("a range whose first end is not above the last".to_owned());
    }
    if (last - first) % step != 0 {
        let before = shown(first + (last - first) / step * step, decimals, &unit);
        let after = shown(first + ((last - first) / step + 1) * step, decimals, &unit);
        return Err(format!("a step that reaches the end: this one reaches {before} and {after}"));
    }
    let count = (last - first) / step + 1;
    if count > VALUES_MAX {
        return Err(format!("at most {VALUES_MAX} values; this range has {count}"));
    }
    Ok((0..count).map(|i| shown(first + i * step, decimals, &unit)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_both_ends_exactly() {
        for (from, to, step, all) in [
            ("0.3", "0.9", Some("0.1"), "0.3 0.4 0.5 0.6 0.7 0.8 0.9"),
            ("0", "1", Some("0.25"), "0 0.25 0.5 0.75 1"),
            ("1", "4", None, "1 2 3 4"),
            ("0.98", "1.01", None, "0.98 0.99 1 1.01"),
            ("10us", "50us", Some("20us"), "10us 30us 50us"),
            ("30%", "50%", Some("10%"), "30% 40% 50%"),
            ("-1", "1", Some("0.5"), "-1 -0.5 0 0.5 1"),
            ("7", "7", None, "7"),
            ("100", "300", Some("100"), "100 200 300"),
        ] {
            let found = values(from, to, step).unwrap();
            assert_eq!(found.join(" "), all, "{from}..{to}");
        }
    }

    #[test]
    fn invalid_ranges_are_refused() {
        for (from, to, step, expected) in [
            ("", "1", None, "a decimal number"),
            ("1", "x", None, "instead of \"x\""),
            ("1e3", "2e3", None, "a decimal number"),
            ("1.", "2", None, "a decimal number"),
            ("1.2.3", "2", None, "a decimal number"),
            ("1", "2", Some("nan"), "a decimal number"),
            ("1234567890123456", "2", None, "a decimal number"),
            ("10us", "1ms", None, "the same unit"),
            ("10us", "20us", Some("5"), "the same unit"),
            ("1", "2", Some("0"), "a step above zero"),
            ("1", "2", Some("-1"), "a step above zero"),
            ("2", "1", None, "first end is not above"),
            ("0.3", "0.9", Some("0.25"), "this one reaches 0.8 and 1.05"),
            ("0", "1", Some("0.00001"), "at most 10000 values; this range has 100001"),
        ] {
            let error = values(from, to, step).unwrap_err();
            assert!(error.contains(expected), "{from}..{to}: {error}");
        }
    }
}
