//! Texts of the scenarios and of the registry. A release build contains them. A development build
//! reads them from the source tree when it runs, so that an edit of one rebuilds nothing.

#[cfg(embedded)]
include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

#[cfg(not(embedded))]
pub(crate) use read::{RECORDS, REGISTRY, SCENARIOS};

#[cfg(not(embedded))]
mod read {
    use std::fs;
    use std::path::Path;
    use std::sync::LazyLock;

    use super::super::folders::{self, Listed};

    type Texts = LazyLock<Vec<(&'static str, &'static str)>>;

    pub(crate) static SCENARIOS: Texts = LazyLock::new(|| texts(folders::scenarios));
    pub(crate) static REGISTRY: Texts = LazyLock::new(|| texts(folders::registry));
    pub(crate) static RECORDS: Texts = LazyLock::new(|| texts(folders::records));

    /// Reads the listed files. They are needed until the program ends.
    fn texts(list: fn(&Path) -> Listed) -> Vec<(&'static str, &'static str)> {
        let files = list(Path::new(env!("CARGO_MANIFEST_DIR"))).into_iter();
        let text = |path| &*fs::read_to_string(path).unwrap_or_default().leak();
        files.map(|(name, path)| (&*name.leak(), text(path))).collect()
    }
}
