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

/// Source text without comments and the module of tests, which ends the file.
pub(crate) fn code(text: &str) -> String {
    let is_module = |&(at, attribute): &(usize, &str)| {
        let line = text[at + attribute.len()..].lines().next().unwrap_or_default();
        line.ends_with("mod tests {")
    };
    let tests = text.match_indices("#[cfg(test)]\n").find(is_module);
    let before_tests = &text[..tests.map_or(text.len(), |(at, _)| at)];
    let lines = before_tests.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}
