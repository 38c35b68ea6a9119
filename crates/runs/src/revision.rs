//! The git revision of the program, which the program sets: a commit does not rebuild this crate.

use std::sync::OnceLock;

static REVISION: OnceLock<&'static str> = OnceLock::new();

/// Sets the revision that manifests and pages name. The first call counts.
pub fn set_revision(revision: &'static str) {
    REVISION.get_or_init(|| revision);
}

/// The revision, or `unknown` if the program has set none.
pub fn get() -> &'static str {
    REVISION.get().copied().unwrap_or("unknown")
}
