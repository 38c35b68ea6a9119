//! Errors in scenarios.

use core::fmt;
use std::borrow::Cow;

/// An error in a scenario: its place, the value found there, and the allowed values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file, or the option (`--set key=value`), that holds the value.
    pub origin: Box<str>,
    /// Line in the file, from 1; 0 if the value comes from an option.
    pub line: u32,
    /// Character in the line, from 1; 0 if the value comes from an option.
    pub column: u32,
    /// Path of the key, such as `fabric.links[2].rate`; empty if the error concerns the whole text.
    pub key: Box<str>,
    /// Value that was found.
    pub found: Box<str>,
    /// Allowed values, and what to do.
    pub expected: Box<str>,
    /// Value that the user probably intended.
    pub suggestion: Option<Box<str>>,
}

impl Error {
    /// Returns an error about a whole file or option.
    pub(crate) fn whole(
        origin: &str,
        found: impl Into<Box<str>>,
        expected: impl Into<Box<str>>,
    ) -> Error {
        Error {
            origin: origin.into(),
            line: 0,
            column: 0,
            key: "".into(),
            found: found.into(),
            expected: expected.into(),
            suggestion: None,
        }
    }

    /// Adds a suggestion.
    pub(crate) fn suggest(mut self, suggestion: Option<impl Into<Box<str>>>) -> Error {
        self.suggestion = suggestion.map(Into::into);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", shortened(&self.key))?;
        }
        write!(f, ": found {}, expected {}", shortened(&self.found), self.expected)?;
        if let Some(suggestion) = &self.suggestion {
            write!(f, " (did you mean {suggestion:?}?)")?;
        }
        Ok(())
    }
}

impl core::error::Error for Error {}

/// Text of the user, cut to the length that a message shows.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Number of characters of a value that a message shows.
const SHOWN_CHARS: usize = 200;

/// Returns the candidate that `word` is probably a misspelling of: a few letters differ, one is a
/// prefix of the other, or only their ends differ. Names that differ only in their number do not
/// count.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word: String = word.chars().take(80).flat_map(char::to_lowercase).collect();
    let length = word.chars().count();
    let letters = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    let numbered = word.contains(|c: char| c.is_ascii_digit()).then(|| letters(&word));
    let distance = |candidate: &str| {
        let candidate = candidate.to_lowercase();
        let distance = strsim::osa_distance(&word, &candidate);
        let slip = distance <= length.div_ceil(3) && distance < candidate.chars().count();
        let start = length >= 3 && candidate.starts_with(&word)
            || candidate.len() >= 2 && word.starts_with(&candidate)
            || ends_differ(&word, &candidate);
        let other_number = distance > 0
            && numbered.as_ref().is_some_and(|numbered| *numbered == letters(&candidate));
        match (slip, start, other_number) {
            (true, _, false) => Some(distance),
            (false, true, false) => Some(usize::MAX),
            _ => None,
        }
    };
    let near = candidates
        .into_iter()
        .filter_map(|candidate| distance(candidate).map(|distance| (distance, candidate)));
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// Whether two words share a prefix of at least five letters and have at most three letters more:
/// `rotate` and `rotation`.
fn ends_differ(a: &str, b: &str) -> bool {
    let alike = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    alike >= 5 && [a, b].iter().all(|word| word.chars().count() - alike <= 3)
}

/// Returns `"a", "b" or "c"`.
pub(crate) fn one_of<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    either(words.into_iter().map(|word| format!("{word:?}")).collect())
}

/// Returns `a, b or c`.
pub(crate) fn either(words: Vec<String>) -> String {
    match words.split_last() {
        None => "nothing".to_string(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_only_misspellings() {
        let words = ["racks", "spines", "hosts_per_rack"];
        assert_eq!(nearest("raks", words), Some("racks"));
        assert_eq!(nearest("SPINES", words), Some("spines"));
        assert_eq!(nearest("host_per_racks", words), Some("hosts_per_rack"));
        assert_eq!(nearest("hosts", words), Some("hosts_per_rack"));
        assert_eq!(nearest("volume", words), None);
        assert_eq!(nearest("h9", ["h0", "h1"]), None);
        assert_eq!(nearest("ho", ["h0", "h1"]), Some("h0"));
        assert_eq!(nearest("", words), None);
        assert_eq!(nearest("rotate", ["rotation"]), Some("rotation"));
        assert_eq!(nearest("packet_delay", ["packet_link"]), None);
    }

    #[test]
    fn one_of_joins_words() {
        assert_eq!(one_of(["a", "b", "c"]), r#""a", "b" or "c""#);
        assert_eq!(one_of(["a"]), r#""a""#);
    }
}
