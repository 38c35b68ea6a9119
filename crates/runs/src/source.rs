//! Sources of scenarios.

use std::path::{Path, PathBuf};

/// Source of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file. Files that it names are relative to its folder.
    File(PathBuf),
    /// TOML that a user wrote. Files that it names are relative to the current folder.
    Text(String),
    /// TOML that a program generated. Messages name no line of it, because the user has not seen
    /// it.
    Made(String),
}

/// Name of a scenario without a file in messages, and its default name.
pub(crate) const NO_FILE: &str = "scenario";

impl<P: AsRef<Path>> From<P> for Source {
    fn from(path: P) -> Source {
        Source::File(path.as_ref().to_owned())
    }
}
