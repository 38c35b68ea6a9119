//! Lines as pieces: code, and prose that people read.

use Piece::{Code, Prose};

/// A line of a file.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    /// The file, from the root.
    pub(super) path: &'a str,
    pub(super) text: &'a str,
    /// The marks of comments; none in documents.
    pub(super) marks: &'a [&'a str],
    /// It begins within a text in quotes.
    pub(super) is_continued: bool,
}

/// A piece of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Piece<'a> {
    /// Names.
    Code(&'a str),
    /// Text that people read: prose, a comment, or a message in quotes.
    Prose(&'a str),
}

/// A comment or document: prose with code between backticks, unless the code continues on another
/// line.
fn written(text: &str) -> Vec<Piece<'_>> {
    let is_whole = text.matches('`').count().is_multiple_of(2);
    let code = text.split('`').skip(1).step_by(2).filter(|_| is_whole).map(Code);
    [Prose(text)].into_iter().chain(code).collect()
}

impl<'a> Line<'a> {
    pub(super) fn pieces(self) -> Vec<Piece<'a>> {
        let line = self.text.trim_start();
        let is_edge = |c: char| ['/', '!', ' ', '*', '-', '>', '#'].contains(&c);
        if self.marks.is_empty() {
            return written(line.trim_start_matches(['#', '*', '-', '>', ' ']));
        }
        if !self.is_continued
            && let Some(comment) = self.marks.iter().find_map(|mark| line.strip_prefix(mark))
        {
            return written(comment.trim_start_matches(is_edge));
        }
        let mut pieces = Vec::new();
        let mut is_text = self.is_continued;
        let mut from = 0;
        for piece in line.split('"') {
            let comment = self.marks.iter().filter(|mark| !["*", "\"\"\""].contains(mark));
            let comment = comment.filter_map(|mark| piece.find(mark)).min();
            match comment.filter(|_| !is_text) {
                Some(at) => {
                    pieces.push(Code(&piece[..at]));
                    pieces.extend(written(line[from + at..].trim_start_matches(is_edge)));
                    return pieces;
                }
                None if is_text && piece.contains(' ') => pieces.push(Prose(piece)),
                None => pieces.push(Code(piece)),
            }
            from += piece.len() + 1;
            is_text = !is_text;
        }
        pieces
    }
}

/// The names in a piece of code, and the words of prose.
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty())
}

#[test]
fn texts_and_comments_are_prose() {
    let pieces = |text, is_continued| {
        let marks = &["//"];
        Line { path: "./a.rs", text, marks, is_continued }.pieces()
    };
    let text = "f(\"a\", \"in turn\"); // At `b`.";
    let expected = [
        Code("f("),
        Code("a"),
        Code(", "),
        Prose("in turn"),
        Code("); "),
        Prose("At `b`."),
        Code("b"),
    ];
    assert_eq!(pieces(text, false), expected);
    assert_eq!(pieces("  in turn\", turn)", true), [Prose("in turn"), Code(", turn)")]);
}
