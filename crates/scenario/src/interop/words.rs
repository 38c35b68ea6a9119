//! Words of a text, each with its line.

use super::Input;
use crate::error::Error;
use crate::read::cell::Cell;

/// The words of a text whose ends of lines mean nothing.
pub(super) struct Words<'a, I> {
    /// What messages say where the words are over.
    end: Cell<'a>,
    words: I,
}

/// The words of an input.
pub(super) fn words(input: &Input) -> Words<'_, impl Iterator<Item = Cell<'_>>> {
    let line = input.text.lines().count().max(1);
    Words {
        end: Cell { file: &input.name, line, heading: "", text: "" },
        words: rows(input).flatten(),
    }
}

impl<'a, I: Iterator<Item = Cell<'a>>> Words<'a, I> {
    /// The next word, which is `heading`.
    pub(super) fn next(&mut self, heading: &'a str) -> Result<Cell<'a>, Error> {
        let word = self.words.next().map(|word| word.named(heading));
        word.ok_or_else(|| self.end.named(heading).error_found("the end of the file", "a value"))
    }

    /// What is left of the text begins with this.
    pub(super) fn rest(mut self) -> Option<Cell<'a>> {
        self.words.next()
    }
}

/// The lines of an input, each as its words; empty where it has none.
pub(super) fn rows(input: &Input) -> impl Iterator<Item = impl Iterator<Item = Cell<'_>>> {
    let file = input.name.as_str();
    input.text.lines().enumerate().map(move |(number, line)| {
        let cell = move |text| Cell { file, line: number + 1, heading: "", text };
        line.split_whitespace().map(cell)
    })
}
