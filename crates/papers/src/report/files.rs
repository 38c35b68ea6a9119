//! Files of results.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use parquet::record::Row;
use serde::de::DeserializeOwned;
use tidegate_runs::Error;
use tidegate_scenario::files;

/// The first bytes of a ZIP archive with files.
const ARCHIVE_START: [u8; 4] = *b"PK\x03\x04";
/// Largest accepted file.
const MOST_BYTES: u64 = 4 << 30;

/// Error for a file that cannot be used in a report.
pub(crate) fn wrong(path: &Path, message: impl std::fmt::Display) -> Error {
    Error::Usage { option: "report", message: format!("{}: {message}", path.display()) }
}

/// Whether a file starts as a ZIP archive with files does.
pub(crate) fn is_archive(path: &Path) -> bool {
    let mut start = [0; ARCHIVE_START.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == ARCHIVE_START
}

/// Content of a JSON file; `None` if it does not exist.
pub(crate) fn json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    match files::read(path, MOST_BYTES) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| wrong(path, error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(wrong(path, error)),
    }
}

/// Calls `each` for every row of a file. Returns whether the file exists.
pub(crate) fn rows(path: &Path, mut each: impl FnMut(&Row)) -> Result<bool, Error> {
    let file = match files::open(path, u64::MAX) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(wrong(path, error)),
    };
    files::parquet_rows(
        file,
        |why| wrong(path, why),
        |_, row| {
            each(row);
            Ok(())
        },
    )?;
    Ok(true)
}
