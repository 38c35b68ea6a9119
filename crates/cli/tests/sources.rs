//! Source files of the crates, for tests that read them.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of all crates.
pub(crate) fn crates() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Adds the Rust files below `folder` to `found`.
pub(crate) fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// A piece of a source text.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Piece<'a> {
    Code(&'a str),
    /// A text or character in quotes, with them.
    Quoted(&'a str),
    Comment,
}

/// Cuts a source text. Comments of a line end before its end.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let (mut found, mut from, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        let rest = &text[at..];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else {
            quoted(&text[..at], rest)
        };
        if length == 0 {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        }
        found.push(Piece::Code(&text[from..at]));
        let is_comment = rest.starts_with('/');
        found.push(if is_comment { Piece::Comment } else { Piece::Quoted(&rest[..length]) });
        at += length;
        from = at;
    }
    found.push(Piece::Code(&text[from..]));
    found
}

/// Length of the text or character in quotes that begins `rest`; 0 if none does.
fn quoted(before: &str, rest: &str) -> usize {
    let mut chars = rest.char_indices();
    match chars.next() {
        Some((_, '"')) => {
            let hashes = before.len() - before.trim_end_matches('#').len();
            let is_raw = before.trim_end_matches('#').ends_with('r');
            if is_raw {
                let end = format!("\"{}", "#".repeat(hashes));
                return rest[1..].find(&end).map_or(rest.len(), |at| 1 + at + end.len());
            }
            let mut is_escaped = false;
            let end = chars.find(|&(_, c)| {
                let ends = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                ends
            });
            end.map_or(rest.len(), |(at, _)| at + 1)
        }
        Some((_, '\'')) => match (chars.next(), chars.next()) {
            (Some((_, '\\')), Some((at, c))) => {
                rest[at + c.len_utf8()..].find('\'').map_or(0, |end| at + c.len_utf8() + end + 1)
            }
            (Some(_), Some((at, '\''))) => at + 1,
            // A lifetime.
            _ => 0,
        },
        _ => 0,
    }
}

/// Source text before the module of tests, which ends the file.
fn before_tests(text: &str) -> &str {
    let is_module = |&(at, attribute): &(usize, &str)| {
        let line = text[at + attribute.len()..].lines().next().unwrap_or_default();
        line.ends_with("mod tests {")
    };
    let tests = text.match_indices("#[cfg(test)]\n").find(is_module);
    &text[..tests.map_or(text.len(), |(at, _)| at)]
}

/// Source text without comments and the module of tests.
pub(crate) fn code(text: &str) -> String {
    let kept = pieces(before_tests(text)).into_iter().map(|piece| match piece {
        Piece::Code(piece) | Piece::Quoted(piece) => piece,
        Piece::Comment => "",
    });
    kept.collect()
}

/// Source text without comments, texts in quotes and the module of tests.
pub(crate) fn unquoted(text: &str) -> String {
    let kept = pieces(before_tests(text)).into_iter().map(|piece| match piece {
        Piece::Code(piece) => piece,
        Piece::Quoted(_) => "\"\"",
        Piece::Comment => "",
    });
    kept.collect()
}

#[test]
fn comments_and_texts_are_cut() {
    let text =
        "a(\"//\", '\"', b'\\'', '\\u{2f}', \"\\\\\"); // \"c\"\nd::<'e>(\"f\n//g\"); /* h\" */";
    let expected = "a(\"//\", '\"', b'\\'', '\\u{2f}', \"\\\\\"); \nd::<'e>(\"f\n//g\"); ";
    assert_eq!(code(text), expected);
    let expected = "a(\"\", \"\", b\"\", \"\", \"\"); \nd::<'e>(\"\"); ";
    assert_eq!(unquoted(text), expected);
    assert_eq!(unquoted("r#\"a\" // \"#; b // c"), "r#\"\"; b ");
    assert_eq!(unquoted("&'a str // 'b'"), "&'a str ");
    assert_eq!(code("a\n#[cfg(test)]\nmod tests {\n b\n}\n"), "a\n");
}
