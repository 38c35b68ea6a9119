//! Axes of a sweep: one key of a scenario and its values.

use super::{range, repeated};
use crate::error::{Error, shortened};
use crate::overrides::Override;
use crate::read::tree::{Node, Raw, Source};

/// The key that names the failure of a run.
pub const FAILURE: &str = "faults.failure";

/// A key of a scenario and its values, at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Path of the key, as for `--set`; `protocol` is the protocol under comparison, `failure` is
    /// [`FAILURE`].
    pub key: String,
    /// Values, without duplicates.
    pub values: Vec<AxisValue>,
}

/// A value of an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisValue {
    /// Text of the value.
    pub text: String,
    /// Number, if the value is one.
    pub number: Option<f64>,
    /// Number, if the value is one or a percentage.
    amount: Option<f64>,
    /// Change of the scenario.
    pub change: Override,
}

const EXAMPLES: &str = "key=values, such as traffic.0.load=0.3..0.9:0.1 or fabric.spines=2,4";

impl Axis {
    /// Parses `key=values`, the argument of `--vary`.
    ///
    /// # Errors
    /// If there is no key or no value, or a range is invalid.
    pub fn vary(argument: &str) -> Result<Axis, Error> {
        let option = format!("--vary {}", shortened(argument));
        let wrong = |expected: &str| Error::whole(&option, format!("{argument:?}"), expected);
        let (key, values) = argument.split_once('=').ok_or_else(|| wrong(EXAMPLES))?;
        let mut axis = Axis { key: key.trim().to_owned(), values: Vec::new() };
        if axis.key.is_empty() {
            return Err(wrong(EXAMPLES));
        }
        for text in divided(values) {
            if text.is_empty() {
                return Err(wrong("a value before and after each comma"));
            }
            for value in expanded(text).map_err(|expected| wrong(&expected))? {
                let assignment = format!("{}={value}", axis.key);
                let option = format!("--vary {}", shortened(&assignment));
                axis.push(&value, &option);
            }
        }
        Ok(axis)
    }

    /// Adds a value, given as TOML or as a bare text. `option` is its name in messages.
    pub(super) fn push(&mut self, value: &str, option: &str) {
        let node = Node::value(&Source::file("", value));
        let (text, number) = match node.raw {
            Raw::Text(text) => (text, None),
            Raw::Integer(x) => (value.to_owned(), Some(x as f64)),
            Raw::Number(x) => (value.to_owned(), Some(x).filter(|x| x.is_finite())),
            _ => (value.to_owned(), None),
        };
        let share = || text.strip_suffix('%')?.trim().parse::<f64>().ok().map(|x| x / 100.0);
        let amount = number.or_else(share);
        let change = match self.key.as_str() {
            "protocol" => Override::protocol(option, &text),
            "failure" => Override::option(option, FAILURE, value),
            key => Override::option(option, key, value),
        };
        self.values.push(AxisValue { text, number, amount, change });
    }
}

impl Axis {
    /// The place of the first value that is equal to an earlier one.
    pub(super) fn repeated(&self) -> Option<usize> {
        repeated(self.values.iter().map(AxisValue::identity))
    }
}

impl AxisValue {
    /// A text that two values share if they are the same amount or the same text.
    pub(super) fn identity(&self) -> String {
        self.amount.map_or_else(|| self.text.clone(), |amount| amount.to_string())
    }
}

/// Expands a word of a list: a range to its values, another word to itself.
fn expanded(word: &str) -> Result<Vec<String>, String> {
    if !range::is_range(word) {
        return Ok(vec![word.to_owned()]);
    }
    let (from, rest) = word.split_once("..").unwrap_or((word, ""));
    let (to, step) = rest.split_once(':').map_or((rest, None), |(to, step)| (to, Some(step)));
    range::values(from, to, step)
}

/// Splits a text at commas outside quotes and brackets, and trims the parts.
fn divided(text: &str) -> Vec<&str> {
    let (mut words, mut start, mut depth, mut quote) = (Vec::new(), 0, 0usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                words.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    words.push(text[start..].trim());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(argument: &str) -> Vec<String> {
        Axis::vary(argument).unwrap().values.into_iter().map(|value| value.text).collect()
    }

    #[test]
    fn axes_are_lists_and_ranges() {
        assert_eq!(texts("a.b=1,2.5,x"), ["1", "2.5", "x"]);
        assert_eq!(texts("a=1..3, 7"), ["1", "2", "3", "7"]);
        assert_eq!(texts("a=10us..30us:10us"), ["10us", "20us", "30us"]);
        assert_eq!(texts("a='x,y',[1, 2],{ b = 1, c = 2 }"), ["x,y", "[1, 2]", "{ b = 1, c = 2 }"]);
        assert_eq!(texts("file=\"../a..b.csv\""), ["../a..b.csv"]);
        let axis = Axis::vary("a = 0.5,true").unwrap();
        assert_eq!((axis.key.as_str(), axis.values[0].number), ("a", Some(0.5)));
        assert_eq!(axis.values[1].number, None);
        assert_eq!(axis.values[0].change.option, "--vary a=0.5");
        let protocol = Axis::vary("protocol=swift").unwrap();
        assert!(protocol.values[0].change.replaces_protocol);
        assert_eq!(protocol.values[0].change.key, "transport.protocol");
    }

    #[test]
    fn invalid_axes_are_refused() {
        for (argument, expected) in [
            ("", "expected key=values, such as"),
            ("load", "expected key=values, such as"),
            ("=1", "expected key=values, such as"),
            ("load=", "a value before and after each comma"),
            ("load=1,,2", "a value before and after each comma"),
            ("load=0.1..0.5:0.3", "this one reaches 0.4 and 0.7"),
            ("load=1..", "instead of \"\""),
        ] {
            let error = Axis::vary(argument).unwrap_err().to_string();
            let place = format!("--vary {argument}: found {argument:?}");
            assert!(error.contains(expected) && error.starts_with(&place), "{argument}: {error}");
        }
    }
}
