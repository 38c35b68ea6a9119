//! Typed values of a checked scenario.

use serde_json::{Value as Json, json};
use tidegate_algos::Protocol;
use tidegate_core::params::Sizes;
use tidegate_core::{Extent, Rate, Span, Time};

use super::tree::{Entries, Place};
use crate::error::Error;

/// A typed value.
#[derive(Clone, Debug)]
pub(crate) enum Datum {
    Word(&'static str),
    Text(String),
    Flag(bool),
    Number(f64),
    Count(u64),
    Span(Span),
    Rate(Rate),
    Bytes(u64),
    Extent(Extent),
    Texts(Vec<String>),
    Rows(Vec<Row>),
    Sizes(Sizes),
    Protocol(Protocol),
    Params(Entries),
    Table(Table),
    Tables(Vec<Table>),
    ByProtocol(Vec<(Protocol, Table)>),
}

/// A list of numbers and its place.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) numbers: Vec<u64>,
    pub(crate) at: Place,
}

/// A typed value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) datum: Datum,
    pub(crate) at: Place,
}

/// A checked table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// Path of the table in messages; empty for the top level.
    pub(super) path: String,
    pub(super) at: Place,
    /// Items by key. A list, because a table has few keys and a fabric may have a million tables.
    pub(super) items: Vec<(&'static str, Item)>,
}

impl Table {
    /// Returns the path of a key.
    pub(crate) fn path(&self, key: &str) -> String {
        join(&self.path, key)
    }

    /// Returns the item of a key, if the table has it.
    pub(crate) fn item(&self, key: &str) -> Option<&Item> {
        self.items.iter().find(|(name, _)| *name == key).map(|(_, item)| item)
    }

    /// Returns the value of an optional key.
    ///
    /// # Panics
    /// If `T` is not the type in the table of keys: a bug in this crate.
    pub(crate) fn find<'a, T: FromDatum<'a>>(&'a self, key: &str) -> Option<T> {
        let item = self.item(key)?;
        Some(
            T::from_datum(&item.datum)
                .unwrap_or_else(|| panic!("{key} has another type: {:?}", item.datum)),
        )
    }

    /// Returns the value of a key that is required or has a default.
    ///
    /// # Panics
    /// If the key is optional: a bug in this crate.
    pub(crate) fn get<'a, T: FromDatum<'a>>(&'a self, key: &str) -> T {
        self.find(key).unwrap_or_else(|| panic!("{key} is neither required nor has a default"))
    }

    /// Returns the tables of a list; none if the key is missing.
    pub(crate) fn tables(&self, key: &str) -> &[Table] {
        self.find(key).unwrap_or(&[])
    }

    /// Whether the value of a key comes from an option, and not from the file or a default.
    pub(crate) fn is_changed(&self, key: &str) -> bool {
        self.item(key).is_some_and(|item| item.at.is_changed())
    }

    /// Returns an error about the value of a key, or about its absence.
    pub(crate) fn error(&self, key: &str, expected: impl Into<Box<str>>) -> Error {
        match self.item(key) {
            Some(item) => item.at.error(self.path(key), item.found(), expected),
            None => self.at.error(self.path(key), "nothing", expected),
        }
    }

    /// Returns an error at a key, with the text `found`.
    pub(crate) fn error_found(
        &self,
        key: &str,
        found: impl Into<Box<str>>,
        expected: impl Into<Box<str>>,
    ) -> Error {
        let at = self.item(key).map_or(&self.at, |item| &item.at);
        at.error(self.path(key), found, expected)
    }

    /// Returns the table as a file would contain it.
    pub(crate) fn json(&self) -> Json {
        self.items
            .iter()
            .map(|(key, item)| (key.to_string(), item.json()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

impl Item {
    fn found(&self) -> String {
        match &self.datum {
            Datum::Table(_) | Datum::Params(_) | Datum::ByProtocol(_) => "a table".into(),
            Datum::Tables(items) => format!("a list of {}", items.len()),
            Datum::Rows(items) => format!("a list of {}", items.len()),
            Datum::Texts(items) if items.len() != 1 => format!("a list of {}", items.len()),
            _ => self.at.excerpt(),
        }
    }

    /// Returns the value as a file would contain it.
    pub(crate) fn json(&self) -> Json {
        match &self.datum {
            Datum::Word(word) => json!(word),
            Datum::Text(text) => json!(text),
            Datum::Flag(flag) => json!(flag),
            Datum::Number(number) => json!(number),
            Datum::Count(count) => json!(count),
            Datum::Span(span) => json!(span.to_string()),
            Datum::Rate(rate) => json!(rate.to_string()),
            Datum::Bytes(bytes) => json!(format!("{bytes}B")),
            Datum::Extent(extent) => json!(extent.to_string()),
            Datum::Texts(texts) => json!(texts),
            Datum::Sizes(sizes) => {
                sizes.as_slice().iter().map(|bytes| json!(format!("{bytes}B"))).collect()
            }
            Datum::Rows(rows) => rows.iter().map(|row| json!(row.numbers)).collect(),
            Datum::Protocol(protocol) => json!(protocol.info().name),
            // Replaced by all parameters when the protocol is known.
            Datum::Params(_) => Json::Null,
            Datum::Table(table) => table.json(),
            Datum::Tables(tables) => tables.iter().map(Table::json).collect(),
            Datum::ByProtocol(tables) => tables
                .iter()
                .map(|(protocol, table)| (protocol.info().name.to_string(), table.json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }
}

/// A type that a [`Datum`] can be read as.
pub(crate) trait FromDatum<'a>: Sized {
    fn from_datum(datum: &'a Datum) -> Option<Self>;
}

macro_rules! readable {
    ($($type:ty: $pattern:pat => $value:expr;)*) => {
        $(impl<'a> FromDatum<'a> for $type {
            fn from_datum(datum: &'a Datum) -> Option<Self> {
                match datum { $pattern => Some($value), _ => None }
            }
        })*
    };
}
readable! {
    &'a str: Datum::Text(text) => text;
    bool: Datum::Flag(flag) => *flag;
    f64: Datum::Number(number) => *number;
    u64: Datum::Count(count) | Datum::Bytes(count) => *count;
    Span: Datum::Span(span) => *span;
    // A point in time is written as the span since the start.
    Time: Datum::Span(span) => Time::ZERO + *span;
    Rate: Datum::Rate(rate) => *rate;
    Extent: Datum::Extent(extent) => *extent;
    Protocol: Datum::Protocol(protocol) => *protocol;
    &'a [String]: Datum::Texts(texts) => texts;
    &'a [Row]: Datum::Rows(rows) => rows;
    &'a Entries: Datum::Params(entries) => entries;
    &'a Table: Datum::Table(table) => table;
    &'a [Table]: Datum::Tables(tables) => tables;
    &'a [(Protocol, Table)]: Datum::ByProtocol(tables) => tables;
    Word: Datum::Word(word) => Word(word);
}

/// A keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) &'static str);

/// A keyword or a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Or<T> {
    Word(&'static str),
    Value(T),
}

impl<'a, T: FromDatum<'a>> FromDatum<'a> for Or<T> {
    fn from_datum(datum: &'a Datum) -> Option<Self> {
        match datum {
            Datum::Word(word) => Some(Or::Word(word)),
            other => T::from_datum(other).map(Or::Value),
        }
    }
}

/// Returns the path of a key of a table.
pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_string() } else { format!("{path}.{key}") }
}
