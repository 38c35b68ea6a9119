//! Where a scenario comes from.

use std::path::{Path, PathBuf};

/// Where a scenario comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file; the files that it names are looked for next to it.
    File(PathBuf),
    /// TOML that somebody wrote; the files that it names are looked for in the current folder.
    Text(String),
    /// The same, made by a program: messages name no line of it, which nobody has seen.
    Made(String),
}

/// What messages call a scenario that is no file, and what it is called unless it says so.
pub(crate) const NO_FILE: &str = "scenario";

impl<P: AsRef<Path>> From<P> for Source {
    fn from(path: P) -> Source {
        Source::File(path.as_ref().to_owned())
    }
}
