//! Files from outside, which may be anything: only what is a file is read, and only up to a size;
//! damage becomes an error.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Once;

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Row;

/// Opens a file of at most `most_bytes`.
///
/// # Errors
/// When it is not there, is larger, or is a folder, a device or a pipe, whose end might never come.
pub fn open(path: &Path, most_bytes: u64) -> io::Result<File> {
    let wrong = |why: String| Err(io::Error::new(ErrorKind::InvalidInput, why));
    // Before it is opened: to open a pipe is to wait for its other end.
    let found = fs::metadata(path)?;
    if found.is_dir() {
        return wrong("it is a folder".to_owned());
    }
    if !found.is_file() {
        return wrong("it is a device, a pipe or a socket".to_owned());
    }
    if found.len() > most_bytes {
        return wrong(format!("{} bytes, and at most {most_bytes} are read", found.len()));
    }
    File::open(path)
}

/// The content of a file of at most `most_bytes`.
///
/// # Errors
/// As [`open`], and when it cannot be read.
pub fn read(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // A file can grow, and some that say that they are empty are not.
    open(path, most_bytes)?.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        let why = format!("at most {most_bytes} bytes are read");
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    }
    Ok(bytes)
}

/// More entries of a folder are not looked at.
const MOST_ENTRIES: usize = 10_000;

/// The file in the same folder whose name is nearest to that of one that is not there, and which
/// ends in the same way.
pub(crate) fn nearest(missing: &Path) -> Option<String> {
    let folder = missing.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let files = entries.take(MOST_ENTRIES).flatten().map(|entry| entry.path());
    let files = files.filter(|path| path.is_file() && path.extension() == Some("toml".as_ref()));
    let stem = |path: &Path| Some(path.file_stem()?.to_str()?.to_owned());
    let mut stems: Vec<String> = files.filter_map(|path| stem(&path)).collect();
    stems.sort_unstable();
    let near = crate::error::nearest(&stem(missing)?, stems.iter().map(String::as_str))?;
    Some(missing.with_file_name(format!("{near}.toml")).display().to_string())
}

/// A text without the mark that some editors put in front of it.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Calls `each` with the number of every row of a Parquet file, from 1, and the row.
///
/// # Errors
/// The first of `each`, or what `wrong` makes of the reason why the file cannot be read.
pub fn parquet_rows<E>(
    file: File,
    wrong: impl Fn(String) -> E,
    mut each: impl FnMut(usize, &Row) -> Result<(), E>,
) -> Result<(), E> {
    let reader = caught(|| SerializedFileReader::new(file)).map_err(&wrong)?;
    let mut rows = caught(|| reader.get_row_iter(None)).map_err(&wrong)?;
    let mut number = 0;
    while let Some(row) = caught(|| rows.next().transpose()).map_err(&wrong)? {
        number += 1;
        each(number, &row)?;
    }
    Ok(())
}

/// Does what may panic where a file is damaged: the library checks less than it might.
fn caught<T>(job: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
    thread_local!(static QUIET: Cell<bool> = const { Cell::new(false) });
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                usual(panic);
            }
        }));
    });
    QUIET.set(true);
    // What it leaves half-done is not used again.
    let done = panic::catch_unwind(AssertUnwindSafe(job));
    QUIET.set(false);
    match done {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("it is damaged".to_owned()),
    }
}
