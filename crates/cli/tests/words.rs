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
    "Card",
    "Said",
    "hazards",
    "deed",
    "told",
    "heard",
    "wishes",
    "fate",
    "Fate",
    "try_turn",
    "tell_resolved",
    "greet",
    "Exchanged",
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

/// Folders of generated files, and of files of others. Those with a slash are paths from the root.
const OTHERS: &[&str] =
    &["target", "corpus", "vendor", "node_modules", "./results", "docs/papers", "tests/files"];

/// Endings of checked files, with the marks of their comments; documents have none.
const ENDINGS: &[(&str, &[&str])] = &[
    ("md", &[]),
    ("rs", &["//"]),
    ("c", &["//", "/*", "*"]),
    ("h", &["//", "/*", "*"]),
    ("js", &["//"]),
    ("p4", &["//"]),
    ("py", &["#", "\"\"\""]),
    ("sh", &["#"]),
    ("toml", &["#"]),
];

/// The marks of comments in a file that is checked.
fn marks(path: &Path) -> Option<&'static [&'static str]> {
    let ending = path.extension()?;
    ENDINGS.iter().find(|(known, _)| ending == *known).map(|(_, marks)| *marks)
}

/// The repository's files that are checked, with their paths from the root.
fn files(root: &Path, folder: &str, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(root.join(folder)).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{folder}/{name}");
        if entry.path().is_dir() {
            let is_other = |other: &&str| **other == name || path.ends_with(*other);
            if !name.starts_with('.') && !OTHERS.iter().any(is_other) {
                files(root, &path, found);
            }
        } else if marks(&entry.path()).is_some() && name != "CHANGELOG.md" {
            found.push((entry.path(), path));
        }
    }
}

fn repository() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), ".", &mut found);
    assert!(found.len() > 1_000, "{} files", found.len());
    found
}

/// The text of a line that people read: prose, a comment, or a message in quotes. Documents have no
/// marks of comments.
fn prose<'a>(line: &'a str, marks: &[&str]) -> Vec<&'a str> {
    let line = line.trim_start();
    let is_edge = |c: char| ['/', '!', ' ', '*', '-', '>', '#'].contains(&c);
    if marks.is_empty() {
        return vec![line.trim_start_matches(['*', '-', '>', ' '])];
    }
    match marks.iter().find_map(|mark| line.strip_prefix(mark)) {
        Some(comment) => vec![comment.trim_start_matches(is_edge)],
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
fn wrong(line: &str, marks: &[&str]) -> Option<String> {
    if !marks.is_empty()
        && let Some(word) = RETIRED.iter().find(|word| has(line, word))
    {
        return Some(format!("the identifier {word:?} is retired"));
    }
    prose(line, marks).into_iter().find_map(|text| {
        if let Some(phrase) = PHRASES.iter().find(|phrase| has(text, phrase)) {
            return Some(format!("{phrase:?} is no technical term"));
        }
        let clause = starts(text).find(|first| CLAUSES.contains(first))?;
        Some(format!("a sentence begins with {clause:?}"))
    })
}

#[test]
fn retired_words_do_not_return() {
    let mut all = Vec::new();
    for (path, name) in repository() {
        if name.ends_with("tests/words.rs") {
            continue;
        }
        let marks = marks(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        // Code in documents, texts of several lines in code.
        let (mut in_block, fence) = (false, if marks.is_empty() { "```" } else { "\"\"\"" });
        for (number, line) in text.lines().enumerate() {
            in_block ^= line.matches(fence).count() % 2 == 1;
            let why = match in_block {
                true if marks.is_empty() => None,
                true => wrong(line, &[]),
                false => wrong(line, marks),
            };
            all.extend(why.map(|why| format!("{name}:{}: {why}: {}", number + 1, line.trim())));
        }
    }
    assert!(all.is_empty(), "see docs/glossary.md:\n{}", all.join("\n"));
}

/// Names of tests, with the file.
fn tests() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (path, file) in repository().into_iter().filter(|(_, name)| name.ends_with(".rs")) {
        let text = fs::read_to_string(path).unwrap();
        let mut is_next = false;
        for line in text.lines().map(str::trim) {
            is_next |= line == "#[test]";
            if let Some(name) = line.strip_prefix("fn ").filter(|_| is_next) {
                found.push((file.clone(), name[..name.find('(').unwrap()].to_owned()));
                is_next = false;
            }
        }
    }
    found
}

#[test]
fn names_of_tests_are_short() {
    let tests = tests();
    assert!(tests.len() > 1_500, "{} tests", tests.len());
    let long: Vec<_> = tests.iter().filter(|(_, name)| name.len() > 50).collect();
    assert!(long.is_empty(), "at most 50 characters: {long:#?}");
}

#[test]
fn clauses_and_phrases_are_found() {
    let code = marks(Path::new("a.rs")).unwrap();
    assert_eq!(wrong("// What has left.", code).unwrap(), "a sentence begins with \"What\"");
    assert_eq!(wrong("Sent. Nor may it wait.", &[]).unwrap(), "a sentence begins with \"Nor\"");
    assert!(wrong("What is the largest queue?", &[]).is_none());
    assert!(wrong("let ears = 1;", code).is_some() && wrong("let years = 1;", code).is_none());
    assert!(wrong("error(\"it is told of\")", code).is_some());
    assert!(wrong("fold()", code).is_none());
    let script = marks(Path::new("a.py")).unwrap();
    assert_eq!(wrong("# Who waits.", script).unwrap(), "a sentence begins with \"Who\"");
}
