//! Line wrapping of generated Markdown.

use crate::units::readable;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm, fill};

/// Maximum columns of a line.
const WIDTH: usize = 100;

/// A document for readers: wrapped, with readable units.
pub(crate) fn document(text: &str) -> String {
    wrapped(&readable(text))
}

/// `text` with paragraphs and list items wrapped to 100 columns if one of their lines is wider.
/// Tables, headings and code blocks stay unchanged.
pub fn wrapped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 50);
    let mut paragraph: Vec<&str> = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        let fence = line.starts_with("```");
        let stays = in_code || fence || line.is_empty() || line.starts_with(['|', '#', '<']);
        if stays || line.starts_with("* ") {
            fill_into(&mut out, &mut paragraph);
        }
        in_code ^= fence;
        if stays {
            out.push_str(line);
            out.push('\n');
        } else {
            paragraph.push(line);
        }
    }
    fill_into(&mut out, &mut paragraph);
    out
}

/// Appends a paragraph or list item to `out`, and clears `lines`.
fn fill_into(out: &mut String, lines: &mut Vec<&str>) {
    let Some(first) = lines.first() else { return };
    let options = Options::new(WIDTH)
        .subsequent_indent(if first.starts_with("* ") { "  " } else { "" })
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    if lines.iter().all(|line| line.chars().count() <= WIDTH) {
        out.push_str(&lines.join("\n"));
    } else {
        let words: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
        out.push_str(&fill(&words.join(" "), options));
    }
    out.push('\n');
    lines.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paragraphs_and_items_are_wrapped() {
        let long = "word ".repeat(30);
        let (long, row) = (long.trim_end(), format!("| {long}|"));
        let text = format!("{long}\nand more\n\n* {long}\n\n{row}\n```\n{long}\n```\n");
        let filled = wrapped(&text);
        let widest = |lines: &str| lines.lines().map(str::len).max().unwrap();
        let (prose, rest) = filled.split_once("| ").unwrap();
        assert!(widest(prose) <= WIDTH, "{prose}");
        assert!(prose.contains("\n\n* word") && prose.contains("\n  word"), "{prose}");
        assert_eq!(format!("| {rest}"), format!("{row}\n```\n{long}\n```\n"));
        assert_eq!(wrapped(&filled), filled);
    }
}
