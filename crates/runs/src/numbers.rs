//! Numbers as text.

/// A value as text.
pub fn with_unit(value: Option<f64>, unit: &str) -> String {
    value.map_or_else(
        || "none".to_owned(),
        |value| format!("{} {unit}", digits(value)).trim_end().to_owned(),
    )
}

/// The configured load, if the drawn load differs from it by so much that both are to be shown.
pub fn differing_load(drawn: Option<f64>, configured: Option<f64>) -> Option<f64> {
    const SHARE: f64 = 0.05;
    configured.filter(|set| drawn.is_some_and(|drawn| (drawn / set - 1.0).abs() > SHARE))
}

/// Three significant digits.
pub fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        x if x >= 99.95 => 0,
        x if x >= 9.995 => 1,
        x if x >= 0.9995 => 2,
        _ => 3,
    };
    without_zeros(format!("{value:.decimals$}"))
}

/// Three significant digits, or as many decimals as distinguish the value from `other`.
pub fn digits_apart(value: f64, other: f64) -> String {
    let few = digits(value);
    if value == other || few != digits(other) {
        return few;
    }
    let text = |value: f64, decimals: usize| format!("{value:.decimals$}");
    let decimals =
        (1..=DECIMALS_MAX).find(|&decimals| text(value, decimals) != text(other, decimals));
    decimals.map_or_else(|| value.to_string(), |decimals| without_zeros(text(value, decimals)))
}

/// Most decimals of a rounded number.
const DECIMALS_MAX: usize = 12;

fn without_zeros(text: String) -> String {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        let shown = [66.666, 12.0, 0.1634, 1234.4, -3.456, 0.0, 200.0].map(digits);
        assert_eq!(shown, ["66.7", "12", "0.163", "1234", "-3.46", "0", "200"]);
    }
    #[test]
    fn numbers_that_differ_are_shown_apart() {
        let shown = [(800.303, 800.0), (715.1, 800.0), (0.94996, 0.95), (1.0, 1.0)];
        let shown = shown.map(|(value, other)| digits_apart(value, other));
        assert_eq!(shown, ["800.3", "715", "0.94996", "1"]);
        // The other one has the same decimals.
        assert_eq!([digits_apart(800.0, 800.303), digits_apart(2.1235, 2.123)], ["800", "2.1235"]);
        assert_eq!(digits_apart(1e-20, 0.0), "0.00000000000000000001");
    }
}
