//! Ranges of decimal numbers with a unit. Whole numbers throughout, so that what is written is what
//! is meant: 0.3, 0.4, and not 0.30000000000000004.

/// A decimal number and what stands behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Decimal {
    /// Without its point.
    digits: i128,
    /// So many of them stand behind the point.
    decimals: u32,
    /// A unit, or nothing.
    unit: String,
}

/// More digits are none that somebody means.
const DIGITS_MAX: usize = 15;
/// A longer range is a slip of the pen.
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

    /// Its digits with so many behind the point, which are no fewer than it has.
    fn scaled(&self, decimals: u32) -> i128 {
        self.digits * 10i128.pow(decimals - self.decimals)
    }
}

/// So many behind the point, and no zeros at the end of those.
fn shown(digits: i128, decimals: u32, unit: &str) -> String {
    let (sign, digits) = (if digits < 0 { "-" } else { "" }, digits.unsigned_abs());
    let scale = 10u128.pow(decimals);
    let part = format!("{:0width$}", digits % scale, width = decimals as usize);
    let part = if decimals == 0 { "" } else { part.trim_end_matches('0') };
    let point = if part.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{part}{unit}", digits / scale)
}

/// Whether a text is meant to be a range.
pub(super) fn is_range(text: &str) -> bool {
    text.contains("..") && !text.starts_with(['"', '\'', '[', '{'])
}

/// The values of a range from one end to the other, both included. Without a step it is one of the
/// last digit that is written of either end.
///
/// # Errors
/// What is expected instead.
pub(super) fn values(from: &str, to: &str, step: Option<&str>) -> Result<Vec<String>, String> {
    let number = |text: &str| {
        let wrong = || format!("a decimal number, perhaps with a unit, in place of {text:?}");
        Decimal::parse(text).ok_or_else(wrong)
    };
    let (from, to) = (number(from)?, number(to)?);
    let unit = from.unit.clone();
    let of_last_digit =
        || Decimal { digits: 1, decimals: from.decimals.max(to.decimals), unit: unit.clone() };
    let step = step.map_or_else(|| Ok(of_last_digit()), number)?;
    if to.unit != unit || step.unit != unit {
        return Err("a range with the same unit behind each number".to_owned());
    }
    let decimals = from.decimals.max(to.decimals).max(step.decimals);
    let [first, last, step] = [&from, &to, &step].map(|number| number.scaled(decimals));
    if step <= 0 {
        return Err("a step above zero".to_owned());
    }
    if first > last {
        return Err("a range from less to more".to_owned());
    }
    if (last - first) % step != 0 {
        let before = shown(first + (last - first) / step * step, decimals, &unit);
        let after = shown(first + ((last - first) / step + 1) * step, decimals, &unit);
        return Err(format!("steps that lead to its end: these lead to {before} and {after}"));
    }
    let count = (last - first) / step + 1;
    if count > VALUES_MAX {
        return Err(format!("at most {VALUES_MAX} values, where these are {count}"));
    }
    Ok((0..count).map(|i| shown(first + i * step, decimals, &unit)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_both_ends_and_what_is_written() {
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
    fn what_is_no_range_is_refused() {
        for (from, to, step, said) in [
            ("", "1", None, "a decimal number"),
            ("1", "x", None, "in place of \"x\""),
            ("1e3", "2e3", None, "a decimal number"),
            ("1.", "2", None, "a decimal number"),
            ("1.2.3", "2", None, "a decimal number"),
            ("1", "2", Some("nan"), "a decimal number"),
            ("1234567890123456", "2", None, "a decimal number"),
            ("10us", "1ms", None, "the same unit"),
            ("10us", "20us", Some("5"), "the same unit"),
            ("1", "2", Some("0"), "a step above zero"),
            ("1", "2", Some("-1"), "a step above zero"),
            ("2", "1", None, "from less to more"),
            ("0.3", "0.9", Some("0.25"), "these lead to 0.8 and 1.05"),
            ("0", "1", Some("0.00001"), "at most 10000 values, where these are 100001"),
        ] {
            let error = values(from, to, step).unwrap_err();
            assert!(error.contains(said), "{from}..{to}: {error}");
        }
    }
}
