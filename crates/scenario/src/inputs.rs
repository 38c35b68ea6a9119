//! Files with sizes and messages that a scenario names.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf, absolute};

use serde_json::Value;

use crate::files;

/// Size limit of a file, in bytes.
const MOST_BYTES: u64 = 1 << 30;
/// Keys of traffic that may name a file.
const KEYS: [&str; 5] = ["file", "groups", "reply", "request", "sizes"];

/// The files that a scenario names, with their content when it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputFiles {
    /// Folder that relative names refer to, as an absolute path; `None` if there are no files.
    pub folder: Option<PathBuf>,
    /// SHA-256 of each file in hexadecimal, by its name in the scenario.
    pub hashes: BTreeMap<String, String>,
}

impl InputFiles {
    /// Names of the files in a resolved scenario, or in changes of one.
    pub fn names(scenario: &Value) -> impl Iterator<Item = &str> {
        let traffic = scenario.get("traffic").and_then(Value::as_array);
        let named = |entry| KEYS.into_iter().filter_map(move |key| named(entry, key));
        traffic.into_iter().flatten().flat_map(named)
    }

    /// Changes the names of files in a resolved scenario, or in changes of one.
    pub fn rename(scenario: &mut Value, names: &BTreeMap<String, String>) {
        let traffic = scenario.get_mut("traffic").and_then(Value::as_array_mut);
        for entry in traffic.into_iter().flatten() {
            for key in KEYS {
                let new = named(entry, key).and_then(|old| names.get(old)).cloned();
                if let Some(new) = new {
                    entry[key] = new.into();
                }
            }
        }
    }

    /// Returns the SHA-256 of a file in hexadecimal.
    ///
    /// # Errors
    /// If the file cannot be read, or is too large for a scenario.
    pub fn hash(path: &Path) -> io::Result<String> {
        files::hash(files::open(path, MOST_BYTES)?)
    }
}

/// Returns the file that a key of traffic names.
fn named<'a>(traffic: &'a Value, key: &str) -> Option<&'a str> {
    let text = traffic.get(key)?.as_str()?;
    (matches!(key, "file" | "groups") || is_file(text)).then_some(text)
}

/// Whether sizes are in a file, and not a fixed size or a distribution that ships with this crate.
pub(crate) fn is_file(sizes: &str) -> bool {
    sizes.ends_with(".csv")
}

/// Reads the files of one scenario, and records their content.
pub(crate) struct Reader {
    folder: PathBuf,
    hashes: RefCell<BTreeMap<String, String>>,
}

impl Reader {
    /// Relative names refer to this folder.
    pub(crate) fn new(folder: PathBuf) -> Reader {
        Reader { folder, hashes: RefCell::default() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Reads a file.
    pub(crate) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let bytes = files::read(&self.path(name), MOST_BYTES)?;
        self.record(name, files::hash(&bytes[..])?);
        Ok(bytes)
    }

    /// Opens a file.
    pub(crate) fn open(&self, name: &str) -> io::Result<std::fs::File> {
        let path = self.path(name);
        self.record(name, InputFiles::hash(&path)?);
        files::open(&path, MOST_BYTES)
    }

    fn record(&self, name: &str, hash: String) {
        self.hashes.borrow_mut().insert(name.to_owned(), hash);
    }

    /// The files that were read.
    pub(crate) fn into_files(self) -> InputFiles {
        let hashes = self.hashes.into_inner();
        // The current folder may be gone; the name of the folder then stays as it is.
        let folder = || {
            let named = self.folder.as_path();
            let named = if named.as_os_str().is_empty() { Path::new(".") } else { named };
            absolute(named).unwrap_or_else(|_| named.to_owned())
        };
        InputFiles { folder: (!hashes.is_empty()).then(folder), hashes }
    }
}
