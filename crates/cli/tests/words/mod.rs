//! Code, messages and documents use the terms of `docs/glossary.md`: words that it replaced do not
//! return, and no sentence begins with a noun clause ("Who has more …", "What is measured …").

mod pieces;
mod retired;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pieces::{Line, Piece};
use retired::{RETIRED, Used, candidates, retired_in, retired_in_path};

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
    "anew",
    "real packets",
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
    ("lua", &["--"]),
    ("p4", &["//"]),
    ("py", &["#", "\"\"\""]),
    ("sh", &["#"]),
    ("toml", &["#"]),
];

/// The marks of comments in code blocks of documents.
const BLOCK_MARKS: &[&str] = &["#", "//"];

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

/// Names of all files under version control, from the root, and of the others that are checked.
fn names_of_files(checked: &[(PathBuf, String)]) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output();
    // An unpacked archive of the sources has no repository.
    let listed = listed.map(|listed| String::from_utf8(listed.stdout).unwrap()).unwrap_or_default();
    let is_other = |name: &str| {
        OTHERS.iter().any(|other| match other.starts_with("./") {
            true => name.starts_with(&format!("{other}/")),
            false => name.contains(&format!("/{other}/")),
        })
    };
    let tracked = listed.split_terminator('\0').map(|name| format!("./{name}"));
    let tracked = tracked.filter(|name| !is_other(name));
    tracked.chain(checked.iter().map(|(_, name)| name.clone())).collect()
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
fn wrong(line: Line<'_>, candidates: &[usize], used: &mut Used) -> Option<String> {
    // Quotes that delimit no text.
    let text = line.text.replace("\\\"", "''").replace("'\"'", "' '");
    Line { text: &text, ..line }.pieces().into_iter().find_map(|piece| {
        if let Some(retired) = retired_in(line.path, piece, candidates, used) {
            return Some(retired);
        }
        let Piece::Prose(text) = piece else { return None };
        if let Some(phrase) = PHRASES.iter().find(|phrase| has(text, phrase)) {
            return Some(format!("{phrase:?} is no technical term"));
        }
        let clause = starts(text).find(|first| CLAUSES.contains(first))?;
        Some(format!("a sentence begins with {clause:?}"))
    })
}

#[test]
fn retired_words_do_not_return() {
    let (mut all, mut used) = (Vec::new(), Used::new());
    let checked = repository();
    for name in names_of_files(&checked) {
        all.extend(retired_in_path(&name, &mut used).map(|why| format!("{name}: {why}")));
    }
    for (path, name) in checked {
        if name.starts_with("./crates/cli/tests/words") {
            continue;
        }
        let marks = marks(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        // Code in documents, texts of several lines in code.
        let (mut in_block, fence) = (false, if marks.is_empty() { "```" } else { "\"\"\"" });
        let (mut is_continued, words) = (false, candidates(&name, &text));
        for (number, text) in text.lines().enumerate() {
            in_block ^= text.matches(fence).count() % 2 == 1;
            let line = Line { path: &name, text, marks, is_continued };
            let why = match in_block {
                true if marks.is_empty() => {
                    wrong(Line { marks: BLOCK_MARKS, ..line }, &words, &mut used)
                }
                true => wrong(Line { marks: &[], ..line }, &words, &mut used),
                false => wrong(line, &words, &mut used),
            };
            all.extend(why.map(|why| format!("{name}:{}: {why}: {}", number + 1, text.trim())));
            is_continued = name.ends_with(".rs") && text.ends_with('\\');
        }
    }
    assert!(all.is_empty(), "see docs/glossary.md:\n{}", all.join("\n"));
    for (number, retired) in RETIRED.iter().enumerate() {
        for (at, exception) in retired.except.iter().enumerate() {
            assert!(used.contains(&(number, at)), "{}: remove {exception:?}", retired.word);
        }
    }
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

/// The defect of a line of a file in the root.
fn wrong_in(path: &str, text: &str, is_continued: bool) -> Option<String> {
    let marks = marks(Path::new(path)).unwrap();
    wrong(Line { path, text, marks, is_continued }, &candidates(path, text), &mut Used::new())
}

#[test]
fn clauses_and_phrases_are_found() {
    let wrong = |path, text| wrong_in(path, text, false);
    let clause = |word| Some(format!("a sentence begins with {word:?}"));
    assert_eq!(wrong("./a.rs", "// What has left."), clause("What"));
    assert_eq!(wrong("./a.rs", "let a = 1; // Who waits."), clause("Who"));
    assert_eq!(wrong("./a.md", "Sent. Nor may it wait."), clause("Nor"));
    assert_eq!(wrong("./a.py", "# Who waits."), clause("Who"));
    assert!(wrong("./a.md", "What is the largest queue?").is_none());
    assert!(wrong("./a.rs", "error(\"it is told of\")").is_some());
    assert!(wrong("./a.rs", "error(\"the \\\"told\\\" one\")").is_some());
}

#[test]
fn retired_words_are_found_in_names() {
    let is_wrong = |path, text| wrong_in(path, text, false).is_some();
    for wrong in [
        "let ears = 1;",
        "to_strangers += 1;",
        "fn hear(&self)",
        "struct LinePart;",
        "enum Fate {",
        "const MOST_TURNS: u32 = 1;",
        "use a::HostDeeds;",
        "let wishes = 1;",
        "json[\"said\"]",
        "/// As [`Tree::meet`].",
        "// It was heard.",
        "error(\"a hazard\")",
        "error(\"its greeting\")",
        "struct Greeting {",
        "let is_met = true;",
        "fn isTurned() {",
        "let says_so = 1;",
    ] {
        assert!(is_wrong("./crates/sim/src/a.rs", wrong), "{wrong}");
    }
    for right in [
        "let years = 1;",
        "fold()",
        "tidegate_core::parts()",
        "let partition = departures;",
        "/// Part of it, in turn.",
        "let isBeside = 1; // Stretch acknowledgements.",
        "fn stretch_acks_are_few() {",
        "error(\"turn it off\")",
        "let exchange = a.exchanges();",
        "testbed::run()",
    ] {
        assert!(!is_wrong("./crates/sim/src/a.rs", right), "{right}");
    }
    assert!(is_wrong("./docs/a.md", "The key `datagrams.strangers`."));
    assert!(!is_wrong("./docs/a.md", "A host takes turns."));
    assert!(is_wrong("./crates/algos/src/a.rs", "mod testbed;"));
    assert!(is_wrong("./crates/scenario/src/a.rs", "mod exchange;"));
    assert!(is_wrong("./crates/runs/src/a.rs", "use a::Profile;"));
    assert!(!is_wrong("./crates/runs/src/workload/a.rs", "use a::Profile;"));
}

#[test]
fn continued_messages_are_prose() {
    assert!(wrong_in("./a.rs", "  in turn\")", true).is_none());
    assert!(wrong_in("./a.rs", "  in turn\", turn)", true).is_some());
}

#[test]
fn retired_words_are_found_in_names_of_files() {
    let is_wrong = |path: &str| retired_in_path(path, &mut Used::new()).is_some();
    assert!(is_wrong("./crates/runs/tests/exchange.rs"));
    assert!(is_wrong("./crates/endpoint/tests/strangers.rs"));
    assert!(is_wrong("./crates/sim/src/told/mod.rs"));
    assert!(!is_wrong("./crates/sim/src/boundary_exchange.rs"));
    assert!(!is_wrong("./docs/testbed.md"));
}
