//! One key of a scenario and the values that it takes.

use super::range;
use crate::error::{Error, shortened};
use crate::overrides::Override;
use crate::read::tree::{Node, Raw, Source};

/// A key of a scenario and the values that it takes, at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// As `--set` names it; `protocol` stands for the protocol under comparison.
    pub key: String,
    /// Each once.
    pub values: Vec<AxisValue>,
}

/// A value of an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisValue {
    /// As people read it.
    pub text: String,
    /// The same where it is a number.
    pub number: Option<f64>,
    /// The same, of percentages too.
    amount: Option<f64>,
    /// What it changes in the scenario.
    pub change: Override,
}

const EXAMPLES: &str = "key=values, such as traffic.0.load=0.3..0.9:0.1 or fabric.spines=2,4";

impl Axis {
    /// From `key=values`, the argument of `--vary`.
    ///
    /// # Errors
    /// When there is no key, no value, a range leads nowhere, or a value stands there twice.
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
                return Err(wrong("a value on either side of each comma"));
            }
            for value in expanded(text).map_err(|expected| wrong(&expected))? {
                let said = format!("{}={value}", axis.key);
                let option = format!("--vary {}", shortened(&said));
                axis.push(&value, &option).map_err(|expected| wrong(&expected))?;
            }
        }
        Ok(axis)
    }

    /// Adds a value as TOML or a bare text says it; `option` names it in messages.
    ///
    /// # Errors
    /// What is expected instead, where it is there already.
    pub(super) fn push(&mut self, value: &str, option: &str) -> Result<(), String> {
        let node = Node::value(&Source::file("", value));
        let (text, number) = match node.raw {
            Raw::Text(text) => (text, None),
            Raw::Integer(x) => (value.to_owned(), Some(x as f64)),
            Raw::Number(x) => (value.to_owned(), Some(x).filter(|x| x.is_finite())),
            _ => (value.to_owned(), None),
        };
        let share = || text.strip_suffix('%')?.trim().parse::<f64>().ok().map(|x| x / 100.0);
        let amount = number.or_else(share);
        let is_same = |known: &AxisValue| {
            let amounts = known.amount.zip(amount);
            known.text == text || amounts.is_some_and(|(known, amount)| known == amount)
        };
        if self.values.iter().any(is_same) {
            return Err(format!(
                "each value once, where {:?} stands there twice",
                shortened(&text)
            ));
        }
        let change = match self.key.as_str() {
            "protocol" => Override::protocol(option, &text),
            key => Override::option(option, key, value),
        };
        self.values.push(AxisValue { text, number, amount, change });
        Ok(())
    }
}

/// The values that a word of a list stands for: those of a range, or itself.
fn expanded(word: &str) -> Result<Vec<String>, String> {
    if !range::is_range(word) {
        return Ok(vec![word.to_owned()]);
    }
    let (from, rest) = word.split_once("..").unwrap_or((word, ""));
    let (to, step) = rest.split_once(':').map_or((rest, None), |(to, step)| (to, Some(step)));
    range::values(from, to, step)
}

/// The words between commas, but for those in quotes and brackets, without the blanks around them.
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
    fn what_is_no_axis_is_refused() {
        for (argument, said) in [
            ("", "expected key=values, such as"),
            ("load", "expected key=values, such as"),
            ("=1", "expected key=values, such as"),
            ("load=", "a value on either side of each comma"),
            ("load=1,,2", "a value on either side of each comma"),
            ("load=0.1..0.5:0.3", "these lead to 0.4 and 0.7"),
            ("load=1..", "in place of \"\""),
            ("load=1,1", "each value once, where \"1\" stands there twice"),
            ("load=1..3,2", "each value once, where \"2\" stands there twice"),
        ] {
            let error = Axis::vary(argument).unwrap_err().to_string();
            let place = format!("--vary {argument}: found {argument:?}");
            assert!(error.contains(said) && error.starts_with(&place), "{argument}: {error}");
        }
    }
}
