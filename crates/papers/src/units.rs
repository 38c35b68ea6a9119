//! Microseconds in texts for readers: `µs`. The registry and names of runs have `us`, as in input.

use std::borrow::Cow;

/// The text with `µs` for each `us` that follows a number, a bracket or `in`, or is in parentheses.
/// Code keeps its letters.
pub(crate) fn readable(text: &str) -> Cow<'_, str> {
    if !text.contains("us") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let (mut done, mut is_code) = (0, false);
    for (at, _) in text.match_indices("us") {
        let before = &text[..at];
        is_code ^= text[done..at].matches('`').count() % 2 == 1;
        out.push_str(&text[done..at]);
        done = at + 2;
        let value = before.trim_end_matches([' ', '\n']);
        let follows = value.len() < at && value.ends_with(|c: char| c.is_ascii_digit() || c == ']');
        let is_unit = follows || before.ends_with('(') || before.ends_with(", in ");
        let is_word = !text[done..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
        out.push_str(if is_unit && is_word && !is_code { "µs" } else { "us" });
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_have_their_sign_outside_of_code() {
        for (text, expected) in [
            ("within 50 us, or [4 to 5] us.", "within 50 µs, or [4 to 5] µs."),
            ("completion (us), in us:", "completion (µs), in µs:"),
            ("after 1,000\nus", "after 1,000\nµs"),
            ("5 user, 5us, tell us, 5 us_x", "5 user, 5us, tell us, 5 us_x"),
            ("`--set a=5 us` and 5 us", "`--set a=5 us` and 5 µs"),
        ] {
            assert_eq!(readable(text), expected);
        }
    }
}
