//! Numbers as text.

/// A value as text.
pub fn with_unit(value: Option<f64>, unit: &str) -> String {
    value.map_or_else(
        || "none".to_owned(),
        |value| format!("{} {unit}", digits(value)).trim_end().to_owned(),
    )
}

/// Three significant digits.
pub fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        x if x >= 99.95 => 0,
        x if x >= 9.995 => 1,
        x if x >= 0.9995 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
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
}
