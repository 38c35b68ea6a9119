//! Code, comments and prose are at most 100 columns wide.

use std::fs;
use std::path::{Path, PathBuf};

const WIDTH: usize = 100;
const WRITTEN: [&str; 7] = [".rs", ".md", ".toml", ".sh", ".js", ".css", ".py"];
/// Folders of generated and external files.
const OTHERS: [&str; 3] = ["target", "corpus", "vendor"];

/// Handwritten files below `folder`.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = entry.file_name().into_string().unwrap();
        if path.is_dir() {
            if !name.starts_with('.') && !OTHERS.contains(&name.as_str()) {
                files(&path, found);
            }
        } else if WRITTEN.iter().any(|end| name.ends_with(end)) {
            found.push(path);
        }
    }
}

/// Lines of `text` that are too wide. Exempt are lines that cannot be broken: rows of tables, code
/// blocks with program output, and values of TOML.
fn too_wide(path: &Path, text: &str) -> Vec<usize> {
    let extension = path.extension().unwrap_or_default();
    let mut in_block = false;
    let mut wide = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let exempt = match extension.to_str() {
            Some("md") => {
                in_block ^= line.starts_with("```");
                in_block || line.starts_with('|')
            }
            Some("toml") => !line.starts_with('#'),
            _ => false,
        };
        if line.chars().count() > WIDTH && !exempt {
            wide.push(number + 1);
        }
    }
    wide
}

#[test]
fn lines_have_at_most_100_columns() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    files(&root, &mut found);
    // The documents write results to this folder; the crate of that name is not exempt.
    let results = root.join("results");
    found.retain(|path| !path.starts_with(&results));
    assert!(found.len() > 200, "{} files", found.len());
    let mut wide = Vec::new();
    for path in found {
        // Some fixtures are binary.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for line in too_wide(&path, &text) {
            wide.push(format!("{}:{line}", path.strip_prefix(&root).unwrap().display()));
        }
    }
    assert!(wide.is_empty(), "wider than {WIDTH} columns:\n{}", wide.join("\n"));
}

#[test]
fn too_wide_lines() {
    let long = "x".repeat(WIDTH + 1);
    let found = |name: &str, text: String| too_wide(Path::new(name), &text);
    assert_eq!(found("a.rs", format!("fn\n{long}")), [2]);
    assert_eq!(found("a.md", format!("```\n{long}\n```\n| {long}\n{long}")), [5]);
    assert_eq!(found("a.toml", format!("a = \"{long}\"\n# {long}")), [2]);
}
