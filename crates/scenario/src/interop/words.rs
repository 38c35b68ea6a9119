//! Words of a text with their lines.

use super::Input;
use crate::error::Error;
use crate::read::cell::Cell;

/// Words of a text in which line breaks have no meaning.
pub(super) struct Words<'a, I> {
    /// Place of errors at the end of the text.
    end: Cell<'a>,
    words: I,
}

/// Returns the words of an input.
pub(super) fn words(input: &Input) -> Words<'_, impl Iterator<Item = Cell<'_>>> {
    let line = input.text.lines().count().max(1);
    Words {
        end: Cell { file: &input.name, line, heading: "", text: "" },
        words: rows(input).flatten(),
    }
}

impl<'a, I: Iterator<Item = Cell<'a>>> Words<'a, I> {
    /// Returns the next word and names it `heading`.
    pub(super) fn next(&mut self, heading: &'a str) -> Result<Cell<'a>, Error> {
        let word = self.words.next().map(|word| word.named(heading));
        word.ok_or_else(|| self.end.named(heading).error_found("the end of the file", "a value"))
    }

    /// Returns the first word of the rest of the text.
    pub(super) fn rest(mut self) -> Option<Cell<'a>> {
        self.words.next()
    }
}

/// Returns the lines of an input as words; an empty line has none.
pub(super) fn rows(input: &Input) -> impl Iterator<Item = impl Iterator<Item = Cell<'_>>> {
    let file = input.name.as_str();
    input.text.lines().enumerate().map(move |(number, line)| {
        let cell = move |text| Cell { file, line: number + 1, heading: "", text };
        line.split_whitespace().map(cell)
    })
}
