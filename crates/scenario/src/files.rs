//! Reading of untrusted files: only regular files up to a size limit are read, and damaged files
//! give errors.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Once;

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Row;
use sha2::{Digest, Sha256};

/// Opens a file of at most `most_bytes`.
///
/// # Errors
/// If the file is missing or larger, or is a folder, a device or a pipe, which might never end.
pub fn open(path: &Path, most_bytes: u64) -> io::Result<File> {
    let wrong = |why: String| Err(io::Error::new(ErrorKind::InvalidInput, why));
    // Checked before opening, because opening a pipe waits for its other end.
    let found = fs::metadata(path)?;
    if found.is_dir() {
        return wrong("it is a folder".to_owned());
    }
    if !found.is_file() {
        return wrong("it is a device, a pipe or a socket".to_owned());
    }
    if found.len() > most_bytes {
        return wrong(format!("it has {} bytes; the limit is {most_bytes}", found.len()));
    }
    File::open(path)
}

/// Reads a file of at most `most_bytes`.
///
/// # Errors
/// As [`open`], and if the file cannot be read.
pub fn read(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // A file can grow after the check, and the system reports size 0 for some files with content.
    open(path, most_bytes)?.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        let why = format!("it has more than {most_bytes} bytes, the limit");
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    }
    Ok(bytes)
}

/// Names a file that cannot be read, and why, in an error.
pub(crate) fn unreadable(why: &io::Error) -> String {
    match why.kind() {
        ErrorKind::NotFound => "no such file".to_owned(),
        _ => format!("a file that cannot be read ({why})"),
    }
}

/// Returns the SHA-256 of everything that can be read, in hexadecimal.
pub(crate) fn hash(mut from: impl Read) -> io::Result<String> {
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            count => hash.update(&buffer[..count]),
        }
    }
}

/// Largest number of entries of a folder that are compared.
const MOST_ENTRIES: usize = 10_000;

/// Returns the file in the folder of a missing file whose name is the most similar, with the same
/// extension.
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

/// Returns a text without its byte order mark.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Calls `each` with every row of a Parquet file and its number, from 1.
///
/// # Errors
/// The first error of `each`, or the error that `wrong` builds from the reason why the file is
/// unreadable.
pub fn parquet_rows<E>(
    file: File,
    wrong: impl Fn(String) -> E,
    mut each: impl FnMut(usize, &Row) -> Result<(), E>,
) -> Result<(), E> {
    let reader = catch_panic(|| SerializedFileReader::new(file)).map_err(&wrong)?;
    let mut rows = catch_panic(|| reader.get_row_iter(None)).map_err(&wrong)?;
    let mut number = 0;
    while let Some(row) = catch_panic(|| rows.next().transpose()).map_err(&wrong)? {
        number += 1;
        each(number, &row)?;
    }
    Ok(())
}

/// Runs a job that may panic on a damaged file, because the library does not check all its input,
/// and returns the panic as an error.
fn catch_panic<T>(job: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
    thread_local!(static QUIET: Cell<bool> = const { Cell::new(false) });
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                previous(panic);
            }
        }));
    });
    QUIET.set(true);
    // Unwind safety: the reader is not used after a panic.
    let done = panic::catch_unwind(AssertUnwindSafe(job));
    QUIET.set(false);
    match done {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("it is damaged".to_owned()),
    }
}
