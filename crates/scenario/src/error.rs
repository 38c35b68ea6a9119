//! What is said about a wrong scenario.

use core::fmt;
use std::borrow::Cow;

/// Why a scenario was refused: where, what was found there, and what is allowed instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file, or the option (`--set key=value`), that holds the value.
    pub origin: Box<str>,
    /// Line in the file, from 1; 0 where the value comes from an option.
    pub line: u32,
    /// Character in the line, from 1; 0 where the value comes from an option.
    pub column: u32,
    /// Path of the key, as in `fabric.links[2].rate`; empty where the whole text is meant.
    pub key: Box<str>,
    /// What was found.
    pub found: Box<str>,
    /// What is allowed.
    pub expected: Box<str>,
    /// What was probably meant.
    pub suggestion: Option<Box<str>>,
}

impl Error {
    /// An error about a whole file or option.
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

    /// The same, with what was probably meant.
    pub(crate) fn meant(mut self, suggestion: Option<impl Into<Box<str>>>) -> Error {
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

/// What somebody has written, as long as a message shows it.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Most characters of a value that a message shows.
const SHOWN_CHARS: usize = 200;

/// The candidate that `word` is probably a slip of, if one is near: a few letters differ, one is
/// the start of the other, or only their ends differ. Names that differ in their number alone are
/// not slips of each other.
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

/// Whether two words begin alike for at least five letters, and go on for at most three: `rotate`
/// and `rotation`.
fn ends_differ(a: &str, b: &str) -> bool {
    let alike = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    alike >= 5 && [a, b].iter().all(|word| word.chars().count() - alike <= 3)
}

/// `"a", "b" or "c"`.
pub(crate) fn one_of<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    either(words.into_iter().map(|word| format!("{word:?}")).collect())
}

/// `a, b or c`.
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
    fn nearest_finds_slips_and_nothing_else() {
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
    fn one_of_reads_like_a_sentence() {
        assert_eq!(one_of(["a", "b", "c"]), r#""a", "b" or "c""#);
        assert_eq!(one_of(["a"]), r#""a""#);
    }
}
