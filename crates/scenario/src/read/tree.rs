//! The TOML text as a tree in which every value records its place in a file or an option.

use std::collections::BTreeMap;
use std::rc::Rc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Override;
use crate::error::{Error, nearest, one_of};

/// A text that contains values.
#[derive(Debug)]
pub(crate) struct Source {
    /// Name in messages.
    name: String,
    text: String,
    /// Whether messages show lines: true for files, false for options and manifests.
    lines: bool,
    /// Whether it ships with this crate.
    builtin: bool,
}

impl Source {
    pub(crate) fn file(name: &str, text: &str) -> Rc<Source> {
        Rc::new(Source { name: name.into(), text: text.into(), lines: true, builtin: false })
    }
    /// A text that was converted from another, whose lines are unknown.
    pub(crate) fn without_lines(name: &str, text: &str) -> Rc<Source> {
        Rc::new(Source { name: name.into(), text: text.into(), lines: false, builtin: false })
    }
    pub(crate) fn builtin(name: String, text: &str) -> Rc<Source> {
        Rc::new(Source { name, text: text.into(), lines: true, builtin: true })
    }
    fn of_default(text: &str) -> Rc<Source> {
        Rc::new(Source { name: "default".into(), text: text.into(), lines: false, builtin: true })
    }
}

/// A range of a source.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    source: Rc<Source>,
    start: usize,
    end: usize,
}

/// Number of characters of an excerpt in a message.
const EXCERPT_CHARS: usize = 60;

impl Place {
    pub(crate) fn new(source: &Rc<Source>, span: core::ops::Range<usize>) -> Place {
        Place { source: source.clone(), start: span.start, end: span.end }
    }

    /// Whether the value comes from a default or a preset, not from the user.
    pub(crate) fn is_builtin(&self) -> bool {
        self.source.builtin
    }

    /// Whether the value comes from an option or a manifest, not from a file that a user wrote.
    pub(crate) fn is_changed(&self) -> bool {
        !self.source.lines && !self.source.builtin
    }

    /// Returns the text at this place, cut to the length of an excerpt.
    pub(crate) fn excerpt(&self) -> String {
        let text = self.text();
        let line = text.lines().next().unwrap_or("");
        if line.len() == text.len() && line.chars().count() <= EXCERPT_CHARS {
            return if line.is_empty() { "nothing".into() } else { line.into() };
        }
        format!("{}…", line.chars().take(EXCERPT_CHARS).collect::<String>())
    }

    /// Returns the text at this place.
    pub(crate) fn text(&self) -> &str {
        self.source.text.get(self.start..self.end).unwrap_or("")
    }

    /// Returns the name of the place in messages: the source and, in a file, the line.
    pub(crate) fn name(&self) -> String {
        match self.error("", "", "") {
            Error { line: 0, origin, .. } => origin.into(),
            Error { line, origin, .. } => format!("{origin}:{line}"),
        }
    }

    /// Returns the line in which the place starts.
    fn line(&self) -> String {
        let (before, after) = self.source.text.split_at_checked(self.start).unwrap_or(("", ""));
        let before = before.rsplit('\n').next().unwrap_or("");
        let after = after.lines().next().unwrap_or("");
        let line: String = before.chars().chain(after.chars()).take(EXCERPT_CHARS).collect();
        match line.trim() {
            "" => "the end of the line".into(),
            line => format!("`{line}`"),
        }
    }

    /// Returns an error at this place.
    pub(crate) fn error(
        &self,
        key: impl Into<Box<str>>,
        found: impl Into<Box<str>>,
        expected: impl Into<Box<str>>,
    ) -> Error {
        let mut error = Error::whole(&self.source.name, found, expected);
        error.key = key.into();
        if self.source.lines {
            let before = &self.source.text[..self.start.min(self.source.text.len())];
            error.line = 1 + before.matches('\n').count() as u32;
            error.column = 1 + before.rsplit('\n').next().unwrap_or("").chars().count() as u32;
        }
        error
    }
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) raw: Raw,
    pub(crate) at: Place,
}

/// Entries of a table by key; each key has its own place.
pub(crate) type Entries = BTreeMap<String, (Place, Node)>;

/// A value as TOML knows it.
#[derive(Clone, Debug)]
pub(crate) enum Raw {
    Text(String),
    /// Saturates on overflow; the place contains the original text.
    Integer(i128),
    Number(f64),
    Flag(bool),
    Date,
    List(Vec<Node>),
    Table(Entries),
}

impl Node {
    /// Parses a document.
    pub(crate) fn document(source: &Rc<Source>) -> Result<Node, Error> {
        match DeTable::parse(&source.text) {
            Ok(table) => Ok(Node {
                at: Place::new(source, 0..0),
                raw: Raw::Table(entries(source, table.into_inner())),
            }),
            Err(error) => {
                let span = error.span().unwrap_or(0..0);
                let start = span.start.min(source.text.len());
                let at = Place::new(source, start..start);
                let expected = format!("valid TOML: {}", error.message().replace('\n', "; "));
                Err(at.error("", at.line(), expected))
            }
        }
    }

    /// Parses the value of an option or a default: TOML, or else the text itself as a string. Dates
    /// and a bare `inf` become texts, because no key takes them.
    pub(crate) fn value(source: &Rc<Source>) -> Node {
        let whole = Place::new(source, 0..source.text.len());
        match DeValue::parse(&source.text) {
            Ok(value) if !value.get_ref().is_datetime() && source.text != "inf" => {
                node(source, value)
            }
            _ => Node { raw: Raw::Text(source.text.clone()), at: whole },
        }
    }

    /// Parses a default of a table of keys.
    pub(crate) fn default(text: &str) -> Node {
        Node::value(&Source::of_default(text))
    }

    /// Returns the text `found` of a message.
    pub(crate) fn found(&self) -> String {
        match &self.raw {
            Raw::Table(_) => "a table".into(),
            Raw::List(items) => format!("a list of {}", items.len()),
            Raw::Text(text) if text.is_empty() => "\"\"".into(),
            _ => self.at.excerpt(),
        }
    }

    /// Adds the keys of `other` that this node lacks, table by table.
    pub(crate) fn fill(&mut self, other: Node) {
        if let (Raw::Table(own), Raw::Table(theirs)) = (&mut self.raw, other.raw) {
            for (key, (place, value)) in theirs {
                match own.get_mut(&key) {
                    Some((_, mine)) => mine.fill(value),
                    None => {
                        own.insert(key, (place, value));
                    }
                }
            }
        }
    }

    /// Replaces or adds one value. Missing tables on the path are created. Items of lists must
    /// exist; the path selects them by position, by label, or all with `*`.
    pub(crate) fn set(&mut self, change: &Override) -> Result<(), Error> {
        let source = Rc::new(Source {
            name: change.option.clone(),
            text: change.value.clone(),
            lines: false,
            builtin: false,
        });
        let value = Node::value(&source);
        if change.replaces_protocol {
            self.forget_protocol(&change.value);
        }
        let steps = steps(&change.key);
        if steps.iter().any(|step| step.is_empty()) {
            return Err(Error::whole(
                &change.option,
                format!("key {:?}", change.key),
                "a path such as \"transport.params.m\" or \"flows.0.size\"",
            ));
        }
        self.put(&steps, 0, &value)
    }

    /// Returns the paths of the values that a key selects. In these paths, items of lists are
    /// positions.
    pub(crate) fn places(&self, key: &str) -> Vec<Vec<String>> {
        /// A path, and the node there.
        type Way<'a> = (Vec<String>, Option<&'a Node>);
        fn further<'a>((way, node): Way<'a>, step: &str) -> Vec<Way<'a>> {
            let to = |step: &str, node| {
                let way = way.iter().cloned().chain([step.to_owned()]);
                (way.collect(), node)
            };
            match node.map(|node| &node.raw) {
                Some(Raw::List(items)) => {
                    let chosen = choose(items, step).into_iter();
                    chosen.map(|at| to(&at.to_string(), Some(&items[at]))).collect()
                }
                Some(Raw::Table(entries)) => {
                    vec![to(step, entries.get(step).map(|(_, node)| node))]
                }
                _ => vec![to(step, None)],
            }
        }
        let mut ways: Vec<Way<'_>> = vec![(Vec::new(), Some(self))];
        for step in steps(key) {
            ways = ways.into_iter().flat_map(|way| further(way, &step)).collect();
        }
        ways.into_iter().map(|(way, _)| way).collect()
    }

    /// Puts `value` at the path that `steps[depth..]` describe, relative to this node.
    fn put(&mut self, steps: &[String], depth: usize, value: &Node) -> Result<(), Error> {
        let at = &value.at;
        let Some(step) = steps.get(depth).map(String::as_str) else {
            *self = value.clone();
            return Ok(());
        };
        let shown = || steps[..=depth].join(".");
        match &mut self.raw {
            Raw::Table(entries) => {
                let is_place = |next: &&String| *next == "*" || next.parse::<usize>().is_ok();
                let place = steps.get(depth + 1).filter(is_place);
                if let Some(place) = place.filter(|_| !entries.contains_key(step)) {
                    let found =
                        format!("position {place} of a list that the scenario does not have");
                    let expected = format!("a scenario with [[{}]]", shown());
                    return Err(at.error(shown(), found, expected));
                }
                let empty = Node { raw: Raw::Table(Entries::new()), at: at.clone() };
                let entry = entries.entry(step.to_string()).or_insert_with(|| (at.clone(), empty));
                entry.1.put(steps, depth + 1, value)
            }
            Raw::List(items) => {
                let chosen = choose(items, step);
                if chosen.is_empty() {
                    return Err(no_item(items, step, at, shown()));
                }
                let labelled = items.iter().position(|item| label(item) == Some(step));
                if let Some(other) = labelled.filter(|other| !chosen.contains(other)) {
                    let found = format!(
                        "{step}, which is a position and also the label of position {other}"
                    );
                    return Err(at.error(
                        shown(),
                        found,
                        "labels that are not numbers: rename the label",
                    ));
                }
                chosen.into_iter().try_for_each(|index| items[index].put(steps, depth + 1, value))
            }
            _ => {
                Err(at.error(shown(), "a value that is not a table", "the path of an existing key"))
            }
        }
    }
}

impl Node {
    /// Removes the protocol of `[transport]` from the whole document, with its presets and
    /// parameters. Nothing changes if it is `protocol` already.
    fn forget_protocol(&mut self, protocol: &str) {
        let Raw::Table(root) = &mut self.raw else { return };
        let Some((_, Node { raw: Raw::Table(transport), .. })) = root.get_mut("transport") else {
            return;
        };
        let named = |table: &Entries| match table.get("protocol") {
            Some((_, Node { raw: Raw::Text(name), .. })) => Some(name.clone()),
            _ => None,
        };
        let Some(old) = named(transport).filter(|old| old != protocol) else { return };
        let forget =
            |table: &mut Entries| ["protocol", "preset", "params"].map(|key| table.remove(key));
        forget(transport);
        for list in ["flows", "traffic"] {
            let Some((_, Node { raw: Raw::List(items), .. })) = root.get_mut(list) else {
                continue;
            };
            for item in items {
                if let Raw::Table(table) = &mut item.raw
                    && named(table).is_none_or(|name| name == old)
                {
                    forget(table);
                }
            }
        }
    }
}

/// Splits a path into steps. `flows[0].start` and `flows.0.start` are equivalent.
fn steps(key: &str) -> Vec<String> {
    key.replace('[', ".").replace(']', "").split('.').map(|step| step.trim().to_owned()).collect()
}

/// Returns the positions in a list that a step selects: a number, `*` for all, or else a label.
fn choose(items: &[Node], step: &str) -> Vec<usize> {
    let all = 0..items.len();
    match step.parse::<usize>() {
        Ok(place) => all.filter(|&index| index == place).collect(),
        Err(_) if step == "*" => all.collect(),
        Err(_) => all.filter(|&index| label(&items[index]) == Some(step)).collect(),
    }
}

fn label(item: &Node) -> Option<&str> {
    match &item.raw {
        Raw::Table(entries) => match &entries.get("label")?.1.raw {
            Raw::Text(label) => Some(label),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the error for a step that selects no item of a list.
fn no_item(items: &[Node], step: &str, at: &Place, key: String) -> Error {
    let len = items.len();
    let place = match len {
        0 => "a non-empty list".to_string(),
        1 => "position 0".to_string(),
        _ => format!("a position from 0 to {}, or * for all", len - 1),
    };
    let is_place = step == "*" || step.parse::<usize>().is_ok();
    let mut labels: Vec<&str> = items.iter().filter_map(label).collect();
    labels.dedup();
    // Other labels cannot be used in a path.
    labels.retain(|label| *label != "*" && !label.contains(['.', '[', ']']));
    if is_place || labels.is_empty() {
        return at.error(key, format!("position {step} of a list of {len}"), place);
    }
    let expected = format!("{place}, or label {}", one_of(labels.iter().copied()));
    at.error(key, format!("label {step} in a list of {len}"), expected)
        .suggest(nearest(step, labels))
}

fn entries(source: &Rc<Source>, table: DeTable<'_>) -> Entries {
    table
        .into_iter()
        .map(|(key, value)| {
            let place = Place::new(source, key.span());
            (key.into_inner().into_owned(), (place, node(source, value)))
        })
        .collect()
}

fn node(source: &Rc<Source>, value: Spanned<DeValue<'_>>) -> Node {
    let at = Place::new(source, value.span());
    let raw = match value.into_inner() {
        DeValue::String(text) => Raw::Text(text.into_owned()),
        DeValue::Integer(integer) => {
            let text = integer.as_str();
            let limit = if text.starts_with('-') { i128::MIN } else { i128::MAX };
            Raw::Integer(i128::from_str_radix(text, integer.radix()).unwrap_or(limit))
        }
        DeValue::Float(float) => Raw::Number(float.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Raw::Flag(flag),
        DeValue::Datetime(_) => Raw::Date,
        DeValue::Array(items) => {
            Raw::List(items.into_iter().map(|item| node(source, item)).collect())
        }
        DeValue::Table(table) => Raw::Table(entries(source, table)),
    };
    Node { raw, at }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_falls_back_to_text() {
        for (text, is_text) in [
            ("200Gbps", true),
            ("0.25", false),
            ("true", false),
            ("2020-01-01", true),
            ("[1,", true),
        ] {
            let node = Node::default(text);
            assert_eq!(matches!(node.raw, Raw::Text(_)), is_text, "{text}");
        }
    }

    #[test]
    fn ambiguous_label_is_refused() {
        let text = "[[a]]\nlabel = '1'\n[[a]]\nlabel = 'b.c'\n";
        let mut document = Node::document(&Source::file("x", text)).unwrap();
        let mut set = |key: &str| {
            let change = Override::set(&format!("{key}=1")).unwrap();
            document.set(&change).map_err(|error| error.to_string())
        };
        let message = set("a.1.x").unwrap_err();
        assert!(
            message.contains("1, which is a position and also the label of position 0"),
            "{message}"
        );
        assert_eq!(set("a.0.x"), Ok(()));
        let message = set("a.z.x").unwrap_err();
        assert!(message.contains("label \"1\"") && !message.contains("b.c"), "{message}");
    }

    #[test]
    fn places_count_lines_and_characters() {
        let source = Source::file("x", "a = 1\n  µ = 2\nbad");
        let error = Place::new(&source, 8..9).error("k", "f", "e");
        assert_eq!((error.line, error.column), (2, 3));
    }

    #[test]
    fn odd_floats_are_kept_as_floats() {
        for (text, expected) in
            [("1e400", f64::INFINITY), ("-inf", f64::NEG_INFINITY), ("1_0.5", 10.5)]
        {
            match Node::default(text).raw {
                Raw::Number(x) => assert_eq!(x, expected, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
