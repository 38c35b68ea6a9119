//! Formats numbers for readers: three significant digits and a suitable unit.

use std::time::Duration;

use tidegate_workbench::results::{FctSummary, Fixed, is_maximum};
use tidegate_workbench::{Estimate, Spread, differing_load, is_share};

/// Shown in place of a missing number.
pub(crate) const NONE: &str = "-";
/// Prefix of a percentile that is only a lower bound.
pub(crate) const BOUND: &str = "≥";

/// Prefix of a percentile of so few values that it is their maximum.
pub(crate) const MAXIMUM: &str = "max";

/// Makes external text safe for a terminal: control characters (cursor, colours) and characters
/// that change the text direction are escaped.
pub(crate) fn shown(text: &str) -> String {
    let is_directional = |c: char| {
        matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(c, '\u{2066}'..='\u{2069}')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_directional(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A count with its noun, whose plural ends with an s: `1 run`, `2 runs`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Formats a number with three significant digits, and at most three decimals.
pub(crate) fn digits(x: f64) -> String {
    if x == 0.0 {
        return "0".to_owned();
    }
    let decimals = match x.abs() {
        x if x >= 99.95 => 0,
        x if x >= 9.995 => 1,
        x if x >= 0.9995 => 2,
        _ => 3,
    };
    format!("{x:.decimals$}")
}

/// Formats a rate in Gbit/s, or [`NONE`]: also below 0.1 with three significant digits, because
/// rates over the kernel's TCP are of some Mbit/s.
pub(crate) fn rate(gbps: Option<f64>) -> String {
    match gbps {
        Some(x) if (9.995e-3..0.09995).contains(&x) => format!("{x:.4}"),
        Some(x) if x > 0.0 && x < 0.09995 => format!("{x:.5}"),
        x => number(x),
    }
}

/// Formats a number, or [`NONE`].
pub(crate) fn number(x: Option<f64>) -> String {
    x.map_or_else(|| NONE.to_owned(), digits)
}

/// Adds the configured load to the drawn load, `shown`, if the two differ.
pub(crate) fn offered(shown: String, drawn: Option<f64>, configured: Option<f64>) -> String {
    match differing_load(drawn, configured) {
        Some(set) => format!("{shown} (configured {})", digits(set)),
        None => shown,
    }
}

/// Formats a share of one in per cent.
pub(crate) fn percent(x: Option<f64>) -> String {
    x.map_or_else(|| NONE.to_owned(), |x| format!("{:.1} %", x * 100.0))
}

/// Formats a time span given in microseconds.
pub(crate) fn micros(us: Option<Fixed>) -> String {
    let Some(us) = us.map(Fixed::as_f64) else { return NONE.to_owned() };
    let (scale, unit) = time_unit(us);
    format!("{} {unit}", digits(us * scale))
}

/// A suitable unit for a number of microseconds, with the factor that converts to it.
pub(crate) fn time_unit(us: f64) -> (f64, &'static str) {
    match us {
        us if us >= 999_500.0 => (1e-6, "s"),
        us if us >= 999.5 => (1e-3, "ms"),
        _ => (1.0, "us"),
    }
}

/// Formats a number of bytes, with decimal prefixes.
pub(crate) fn bytes(x: Option<f64>) -> String {
    let Some(x) = x else { return NONE.to_owned() };
    match size_unit(x) {
        (_, "B") => format!("{x:.0} B"),
        (scale, unit) => format!("{} {unit}", digits(x * scale)),
    }
}

/// A suitable unit for a number of bytes, with the factor that converts to it.
pub(crate) fn size_unit(bytes: f64) -> (f64, &'static str) {
    match bytes {
        x if x >= 0.9995e12 => (1e-12, "TB"),
        x if x >= 0.9995e9 => (1e-9, "GB"),
        x if x >= 0.9995e6 => (1e-6, "MB"),
        x if x >= 0.9995e3 => (1e-3, "KB"),
        _ => (1.0, "B"),
    }
}

/// Limits of a difference.
pub(crate) const ANY: (f64, Option<f64>) = (f64::NEG_INFINITY, None);

/// A suitable unit for a metric of this magnitude, with the factor that converts to it.
pub(crate) fn unit(metric: &str, unit: &str, size: f64) -> (f64, &'static str) {
    match unit {
        "us" => time_unit(size),
        "B" => size_unit(size),
        _ if is_share(metric) => (100.0, "%"),
        _ => (1.0, ""),
    }
}

/// Formats a mean with half of its interval and a unit: `19.8 ± 0.12 us`. An interval beyond the
/// limits of the quantity is shown by its ends, which are cut there: `86.0 [0.0, 100.0] %`.
pub(crate) fn estimate(
    of: Estimate,
    limits: (f64, Option<f64>),
    (scale, unit): (f64, &'static str),
    sign: &str,
) -> String {
    let shown = |x: f64| match unit {
        "%" => format!("{:.1}", x * scale),
        "B" => format!("{x:.0}"),
        _ => digits(x * scale),
    };
    let half = match of.spread(limits) {
        Spread::None => String::new(),
        Spread::Half(half) => format!(" ± {}", shown(half)),
        Spread::Ends(low, high) => format!(" [{}, {}]", shown(low), shown(high)),
    };
    let mean = shown(of.mean);
    // A value whose shown digits are all zero has no sign.
    let is_zero = !mean.contains(|c: char| ('1'..='9').contains(&c));
    let (sign, mean) = if is_zero { ("", mean.trim_start_matches('-')) } else { (sign, &*mean) };
    format!("{sign}{mean}{half} {unit}").trim_end().to_owned()
}

/// Formats a ratio.
pub(crate) fn ratio(x: Option<Fixed>) -> String {
    number(x.map(Fixed::as_f64))
}

/// Marks a percentile as a lower bound if unfinished messages hide its value.
pub(crate) fn bound(hidden: bool, shown: String) -> String {
    if hidden && shown != NONE { format!("{BOUND} {shown}") } else { shown }
}

/// Marks a percentile of `count` values, with `per_mille` of them above it: as a lower bound if it
/// is `hidden`, or as a maximum.
pub(crate) fn tail((count, per_mille): (u64, u64), hidden: bool, shown: String) -> String {
    if !hidden && shown != NONE && is_maximum(count, per_mille) {
        return format!("{MAXIMUM} {shown}");
    }
    bound(hidden, shown)
}

/// Explains the signs of percentiles that occur in `text`.
pub(crate) fn signs(text: &str, why_bound: &str) -> String {
    let mut signs = String::new();
    if text.contains(BOUND) {
        signs.push_str(&format!("{BOUND}: a lower bound: {why_bound}.\n"));
    }
    let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    if text.split(&format!("{MAXIMUM} ")).skip(1).any(is_number) {
        signs.push_str(&format!(
            "{MAXIMUM}: the 99th percentile of fewer than 100 values, or the 99.9th of fewer than \
             1,000, is their maximum.\n"
        ));
    }
    signs
}

/// The number of finished messages: `32 of 44`, or `44` if all finished.
pub(crate) fn finished(fct: &FctSummary) -> String {
    if fct.unfinished == 0 {
        fct.count.to_string()
    } else {
        format!("{} of {}", fct.finished(), fct.count)
    }
}

/// Formats a duration as on a clock: `7 s`, `3:05`, `2:03:05`.
pub(crate) fn clock(span: Duration) -> String {
    let s = span.as_secs();
    match (s / 3600, s / 60 % 60, s % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m}:{s:02}"),
        (h, m, s) => format!("{h}:{m:02}:{s:02}"),
    }
}

/// The compared protocol, and the flow's own if it differs.
pub(crate) fn protocol(compared: &str, own: &str) -> String {
    if compared == own { own.to_owned() } else { format!("{compared}, flow: {own}") }
}

pub(crate) fn label(label: &str) -> String {
    if label.is_empty() { NONE.to_owned() } else { shown(label) }
}

/// Formats a JSON value; strings without quotes.
pub(crate) fn text(value: &serde_json::Value) -> String {
    shown(&value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// Titles of the columns of varied keys: the last part (`load` of `traffic.search.load`) if no
/// other key has it, else the whole key. The line above the tables has whole keys.
pub(crate) fn heads(keys: &[String]) -> Vec<String> {
    let last = |key: &String| key.rsplit('.').next().map(str::to_owned).unwrap_or_default();
    let head = |key: &String| {
        let is_unique = keys.iter().filter(|other| last(other) == last(key)).count() == 1;
        shown(&if is_unique { last(key) } else { key.clone() })
    };
    keys.iter().map(head).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_workbench::limits;

    #[test]
    fn digits_three_significant() {
        let shown =
            [0.0, 0.001234, 0.99949, 0.9996, 9.994, 9.996, 99.94, 99.96, 12345.0].map(digits);
        assert_eq!(shown, ["0", "0.001", "0.999", "1.00", "9.99", "10.0", "99.9", "100", "12345"]);
    }

    #[test]
    fn rates_have_three_significant_digits() {
        let shown = [0.0, 0.00123, 0.009996, 0.0123, 0.0996, 0.1234, 12.3].map(|x| rate(Some(x)));
        assert_eq!(shown, ["0", "0.00123", "0.0100", "0.0123", "0.0996", "0.123", "12.3"]);
    }

    #[test]
    fn shown_escapes_control_characters() {
        assert_eq!(
            shown("a\u{1b}[31m\n\u{9b}b\u{202e}\u{7f}"),
            "a\\u{1b}[31m\\n\\u{9b}b\\u{202e}\\u{7f}"
        );
        assert_eq!(shown("µs, 10 %, שלום"), "µs, 10 %, שלום");
    }

    #[test]
    fn micros_and_bytes_units() {
        let shown = [0.5, 999.4, 999.6, 1.5e6].map(|us| micros(Fixed::nearest(us)));
        assert_eq!(shown, ["0.500 us", "999 us", "1.00 ms", "1.50 s"]);
        assert_eq!(
            [0.0, 999.0, 4176.0, 2.5e6].map(|x| bytes(Some(x))),
            ["0 B", "999 B", "4.18 KB", "2.50 MB"]
        );
        assert_eq!(micros(None), NONE);
    }

    #[test]
    fn estimate_units_match_single_values() {
        let shown = |metric: &str, of: &str, mean: f64, half: f64, sign: &str| {
            let limits = if sign == "+" { ANY } else { limits(metric) };
            estimate(Estimate { mean, half: Some(half) }, limits, unit(metric, of, mean), sign)
        };
        assert_eq!(shown("fct_p99_us", "us", 1234.5, 56.0, ""), "1.23 ± 0.056 ms");
        assert_eq!(shown("utilization_max", "", 0.945, 0.01, ""), "94.5 ± 1.0 %");
        assert_eq!(percent(Some(0.945)), "94.5 %");
        assert_eq!(shown("fair_share_gbps", "Gbps", 19.6, 0.0, ""), "19.6");
        assert_eq!(shown("tor_buffer_max_bytes", "B", 57.2, 13.0, "+"), "+57 ± 13 B");
        assert_eq!(shown("utilization_max", "", 0.86, 1.74, ""), "86.0 [0.0, 100.0] %");
        assert_eq!(shown("fct_p99_us", "us", 1234.5, 5600.0, ""), "1.23 [0, 6.83] ms");
        assert_eq!(shown("slowdown_p50", "", 0.0001, 0.0002, "+"), "0.000 ± 0.000");
    }

    #[test]
    fn heads_are_short_if_unique() {
        let keys = ["traffic.a.load", "transport.protocol", "traffic.b.load", "seed"];
        let titles = heads(&keys.map(str::to_owned));
        assert_eq!(titles, ["traffic.a.load", "protocol", "traffic.b.load", "seed"]);
    }

    #[test]
    fn clock_format() {
        assert_eq!(
            [7, 185, 7385].map(|s| clock(Duration::from_secs(s))),
            ["7 s", "3:05", "2:03:05"]
        );
    }
}
