//! One value of a text file: a cell of a table, or a word.

use tidegate_core::{Rate, Span};

use super::quantity::{self, Why};
use crate::error::Error;

/// Number of characters of a value that a message shows.
const SHOWN: usize = 60;

/// A value and its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell<'a> {
    pub(crate) file: &'a str,
    /// From 1.
    pub(crate) line: usize,
    /// Name of the value in messages.
    pub(crate) heading: &'a str,
    pub(crate) text: &'a str,
}

impl<'a> Cell<'a> {
    /// Returns the cell with another name.
    pub(crate) fn named(self, heading: &'a str) -> Cell<'a> {
        Cell { heading, ..self }
    }

    /// Returns an error that this value is not `expected`.
    pub(crate) fn error(&self, expected: impl Into<Box<str>>) -> Error {
        let shown = self.text.chars().take(SHOWN).collect::<String>();
        self.error_found(format!("{shown:?}"), expected)
    }

    /// Returns an error at this value, with the text `found`.
    pub(crate) fn error_found(
        &self,
        found: impl Into<Box<str>>,
        expected: impl Into<Box<str>>,
    ) -> Error {
        let mut error = Error::whole(self.file, found, expected);
        error.line = self.line as u32;
        error.column = 1;
        error.key = self.heading.into();
        error
    }

    pub(crate) fn number(&self, min: f64, max: f64) -> Result<f64, Error> {
        let number = self.text.parse().ok().filter(|x| (min..=max).contains(x));
        number.ok_or_else(|| self.error(format!("a number from {min} to {max}")))
    }

    pub(crate) fn whole(&self, min: u64, max: u64) -> Result<u64, Error> {
        let number = self.text.parse().ok().filter(|x| (min..=max).contains(x));
        number.ok_or_else(|| self.error(format!("a whole number from {min} to {max}")))
    }

    /// Parses a quantity with its unit.
    pub(crate) fn rate(&self, min: Rate, max: Rate) -> Result<Rate, Error> {
        self.quantity(quantity::rate(self.text), min, max)
    }

    /// Parses a quantity with its unit.
    pub(crate) fn span(&self, min: Span, max: Span) -> Result<Span, Error> {
        self.quantity(quantity::span(self.text), min, max)
    }

    /// Parses a time since the start, given as a number of `unit`.
    pub(crate) fn time(&self, unit: &str, max: Span) -> Result<Span, Error> {
        let time = quantity::span(&format!("{}{unit}", self.text)).ok();
        time.filter(|time| *time <= max).ok_or_else(|| {
            self.error(format!("a time in {unit} of at most {max}, as a number without unit"))
        })
    }

    fn quantity<T: PartialOrd + std::fmt::Display>(
        &self,
        read: Result<T, Why>,
        min: T,
        max: T,
    ) -> Result<T, Error> {
        match read {
            Ok(value) if (&min..=&max).contains(&&value) => Ok(value),
            Ok(_) => Err(self.error(format!("a value from {min} to {max}"))),
            Err(why) => Err(self.error(why.expected).suggest(why.suggestion)),
        }
    }
}
