//! Code, messages and documents use the terms of `docs/glossary.md`: words that it replaced do not
//! return, and no sentence begins with a noun clause ("Who has more …", "What is measured …").

use std::fs;
use std::path::{Path, PathBuf};

/// Identifiers that the glossary's terms replaced.
const RETIRED: &[&str] = &[
    "Habits",
    "Equipment",
    "Wishes",
    "Stretch",
    "Deed",
    "Begun",
    "Parcel",
    "Beside",
    "Heard",
    "SaidLaw",
    "hazardous",
    "ears",
];

/// Everyday expressions that stood for technical terms.
const PHRASES: &[&str] = &[
    "to be had",
    "acts out",
    "stands still",
    "stand still",
    "is told",
    "are told",
    "was told",
    "were told",
    "hears of",
    "hear of",
    "says so where",
    "at home",
    "by itself alone",
    "of which it is not shown",
    "unless told otherwise",
    "unless said otherwise",
    "for want of",
    "comes to stand",
];

/// Words that begin a noun clause at the start of a sentence.
const CLAUSES: &[&str] = &["Who", "Whoever", "What", "Nor"];

/// Folders of generated files, and of files of others.
const OTHERS: &[&str] = &["target", "corpus", "vendor", "results", "papers", "records"];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = entry.file_name().into_string().unwrap();
        let extension = path.extension().unwrap_or_default();
        if path.is_dir() {
            if !name.starts_with('.') && !OTHERS.contains(&name.as_str()) {
                files(&path, found);
            }
        } else if (extension == "rs" || extension == "md") && name != "CHANGELOG.md" {
            found.push(path);
        }
    }
}

/// The text of a line that people read: prose, a comment, or a message in quotes.
fn prose(line: &str, is_code: bool) -> Vec<&str> {
    let line = line.trim_start();
    if !is_code {
        return vec![line.trim_start_matches(['*', '-', '>', ' '])];
    }
    match line.strip_prefix("//") {
        Some(comment) => vec![comment.trim_start_matches(['/', '!', ' ', '*', '-'])],
        None => line.split('"').skip(1).step_by(2).filter(|text| text.contains(' ')).collect(),
    }
}

/// Whether `word` is in `text` as a whole word.
fn has(text: &str, word: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(is_letter) && !text[at + word.len()..].starts_with(is_letter)
    })
}

/// The first word of every sentence that begins in `text`; questions do not count.
fn starts(text: &str) -> impl Iterator<Item = &str> {
    let sentences = text.split_inclusive(['.', '?', '!']).filter(|part| !part.ends_with('?'));
    sentences.filter_map(|sentence| sentence.split_whitespace().next())
}

/// The defect of a line.
fn wrong(line: &str, is_code: bool) -> Option<String> {
    if is_code && let Some(word) = RETIRED.iter().find(|word| has(line, word)) {
        return Some(format!("the identifier {word:?} is retired"));
    }
    prose(line, is_code).into_iter().find_map(|text| {
        if let Some(phrase) = PHRASES.iter().find(|phrase| has(text, phrase)) {
            return Some(format!("{phrase:?} is no technical term"));
        }
        let clause = starts(text).find(|first| CLAUSES.contains(first))?;
        Some(format!("a sentence begins with {clause:?}"))
    })
}

#[test]
fn retired_words_do_not_return() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    files(&root, &mut found);
    assert!(found.len() > 300, "{} files", found.len());
    let mut all = Vec::new();
    for path in found.iter().filter(|path| !path.ends_with("tests/words.rs")) {
        let is_code = path.extension().is_some_and(|extension| extension == "rs");
        let text = fs::read_to_string(path).unwrap();
        let mut in_block = false;
        for (number, line) in text.lines().enumerate() {
            in_block ^= !is_code && line.starts_with("```");
            if !in_block && let Some(why) = wrong(line, is_code) {
                all.push(format!("{}:{}: {why}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    assert!(all.is_empty(), "see docs/glossary.md:\n{}", all.join("\n"));
}

#[test]
fn clauses_and_phrases_are_found() {
    assert_eq!(wrong("// What has left.", true).unwrap(), "a sentence begins with \"What\"");
    assert_eq!(wrong("Sent. Nor may it wait.", false).unwrap(), "a sentence begins with \"Nor\"");
    assert!(wrong("What is the largest queue?", false).is_none());
    assert!(wrong("let ears = 1;", true).is_some() && wrong("let years = 1;", true).is_none());
    assert!(wrong("error(\"it is told of\")", true).is_some() && wrong("told()", true).is_none());
}
