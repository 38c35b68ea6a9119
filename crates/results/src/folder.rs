//! A folder of results, in which every file is either complete or absent, and which one process
//! writes at a time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use same_file::Handle;

/// Files whose presence makes a folder one "that holds results". The last is written last: if it
/// exists, the others do.
pub const FILES: [&str; 10] = [
    "sweep.csv",
    "sweep.parquet",
    "sweep.json",
    "aggregate.json",
    "comparison.json",
    "flows.parquet",
    "timeseries.parquet",
    "report.html",
    "summary.json",
    "manifest.json",
];

/// Lock file of a folder that a process is writing. The system releases the lock even if the
/// process is killed.
const LOCK: &str = ".tidegate.lock";
/// The state of a run while it goes on.
pub const LIVE: &str = "live.json";
/// Suffix of the names of incomplete files.
const PARTIAL: &str = ".partial";

/// A folder for results with an exclusive lock. If it is dropped before anything is published, it
/// removes the folders that it created.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Created folders, outermost first.
    created: Vec<PathBuf>,
    /// The lock; `None` on a file system without locks.
    lock: Option<File>,
}

impl Folder {
    /// Opens `path`, or creates it if it is missing, and removes incomplete files that a killed
    /// process left.
    ///
    /// # Errors
    /// [`ErrorKind::ResourceBusy`] if another process holds the lock; otherwise if the folder
    /// cannot be created, or `path` is not a folder.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let mut created: Vec<_> =
            path.ancestors().take_while(is_missing).map(Path::to_owned).collect();
        created.reverse();
        let mut folder = Folder { path: path.to_owned(), created, lock: None };
        fs::create_dir_all(path)?;
        folder.lock = locked(&path.join(LOCK))?;
        folder.sweep()?;
        Ok(folder)
    }

    /// Removes incomplete files that a killed process left. This process holds the lock, so no
    /// other process needs them.
    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let is_left = |name: &str| is_partial(name) || name == LIVE;
            if entry.file_name().to_str().is_some_and(is_left) && entry.file_type()?.is_file() {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Creates a file that will be published as `name`.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn partial(&self, name: &str) -> io::Result<Partial> {
        Partial::new(self.path.join(name))
    }

    /// Renames the files to their final names, in this order: if the last exists, the others do.
    /// All content is on the disk before the first rename. Before that, the files of the folder
    /// named in `old` are removed, the last of them first.
    ///
    /// # Errors
    /// If the last bytes cannot be written or a file cannot be renamed. Files that are not yet
    /// renamed are deleted.
    pub fn publish<S: AsRef<str>>(mut self, mut files: Vec<Partial>, old: &[S]) -> io::Result<()> {
        files.iter_mut().try_for_each(Partial::complete)?;
        old.iter().rev().try_for_each(|name| remove(&self.path.join(name.as_ref())))?;
        files.into_iter().try_for_each(Partial::rename)?;
        sync_folder(&self.path)?;
        self.created.clear();
        Ok(())
    }

    /// Removes the files named in `old`, the last of them first, and then the folder if it is
    /// empty.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn clear<S: AsRef<str>>(mut self, old: &[S]) -> io::Result<()> {
        old.iter().rev().try_for_each(|name| remove(&self.path.join(name.as_ref())))?;
        self.created = vec![self.path.clone()];
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(lock) = self.lock.take() {
            // Removed before the lock is released, so that the file of another process is never
            // removed.
            let _ = fs::remove_file(self.path.join(LOCK));
            drop(lock);
        }
        // Innermost first. A folder that is not empty stays, with its parents.
        while let Some(path) = self.created.pop() {
            if fs::remove_dir(path).is_err() {
                break;
            }
        }
    }
}

/// Removes incomplete files of killed processes in a folder that several processes may write: those
/// not modified for `age`. Failures are ignored.
pub fn clear_abandoned(path: &Path, age: Duration) {
    let is_abandoned = |entry: &fs::DirEntry| {
        let written = || entry.metadata().ok().filter(fs::Metadata::is_file)?.modified().ok();
        entry.file_name().to_str().is_some_and(is_partial)
            && written().and_then(|at| at.elapsed().ok()).is_some_and(|since| since > age)
    };
    for entry in fs::read_dir(path).into_iter().flatten().flatten().filter(is_abandoned) {
        let _ = fs::remove_file(entry.path());
    }
}

/// Locks the file at `path`, and creates it if it is missing.
fn locked(path: &Path) -> io::Result<Option<File>> {
    loop {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ErrorKind::ResourceBusy.into()),
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
                remove(path)?;
                return Ok(None);
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The previous holder may have removed the file after it was opened. The locked file must
        // be the one at `path`.
        match Handle::from_path(path) {
            Ok(found) if found == Handle::from_file(file.try_clone()?)? => return Ok(Some(file)),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
}

/// Returns a text that is unique on this machine.
fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Whether a name has the form `.NAME.PROCESS-NUMBER.partial`.
fn is_partial(name: &str) -> bool {
    let inner = name.strip_prefix('.').and_then(|name| name.strip_suffix(PARTIAL));
    let word =
        inner.and_then(|inner| inner.rsplit_once('.')).and_then(|(_, word)| word.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    word.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Flushes the names in a folder to the disk, on systems that can open folders.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}

/// An incomplete file with its final name. If it is dropped before it is published, it is deleted.
#[derive(Debug)]
pub struct Partial {
    path: PathBuf,
    target: PathBuf,
    file: BufWriter<File>,
    published: bool,
}

impl Partial {
    /// Creates a file that will be published as `target`, in the same folder.
    ///
    /// # Errors
    /// If it cannot be created, or `target` is not a file name.
    pub fn new(target: PathBuf) -> io::Result<Partial> {
        let name = target.file_name().ok_or(ErrorKind::InvalidFilename)?.to_string_lossy();
        let path = target.with_file_name(format!(".{name}.{}{PARTIAL}", unique()));
        let file = BufWriter::new(OpenOptions::new().write(true).create_new(true).open(&path)?);
        Ok(Partial { path, target, file, published: false })
    }

    /// Flushes the file to the disk and renames it to its final name, replacing an existing file.
    ///
    /// # Errors
    /// If the last bytes cannot be written or the file cannot be renamed. It is deleted then.
    pub fn publish(mut self) -> io::Result<()> {
        self.complete()?;
        let folder =
            self.target.parent().filter(|path| !path.as_os_str().is_empty()).map(Path::to_owned);
        self.rename()?;
        sync_folder(&folder.unwrap_or_else(|| ".".into()))
    }

    /// As [`publish`](Self::publish), without waiting for the disk: a power failure can leave an
    /// empty or incomplete file. For files whose readers notice that.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub fn publish_unsynced(mut self) -> io::Result<()> {
        self.file.flush()?;
        self.rename()
    }

    fn complete(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()
    }

    fn rename(mut self) -> io::Result<()> {
        fs::rename(&self.path, &self.target)?;
        self.published = true;
        Ok(())
    }
}

impl Write for Partial {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Partial {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.published {
            // An error is ignored: the name of a remaining file shows that it is incomplete.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(path)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn files_are_published_together() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let folder = Folder::open(&path).unwrap();
        let mut summary = folder.partial("summary.json").unwrap();
        let manifest = folder.partial("manifest.json").unwrap();
        summary.write_all(b"{}").unwrap();
        assert!(
            names(&path).iter().all(|name| name == LOCK || is_partial(name)),
            "{:?}",
            names(&path)
        );
        folder.publish(vec![summary, manifest], &FILES).unwrap();
        assert_eq!(names(&path), ["manifest.json", "summary.json"]);
        assert_eq!(fs::read(path.join("summary.json")).unwrap(), b"{}");
    }

    #[test]
    fn new_results_replace_old_ones() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("timeseries.parquet"), b"old").unwrap();
        fs::write(dir.path().join("notes.txt"), b"mine").unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let summary = folder.partial("summary.json").unwrap();
        folder.publish(vec![summary], &FILES).unwrap();
        assert_eq!(names(dir.path()), ["notes.txt", "summary.json"]);
        Folder::open(dir.path()).unwrap().clear(&FILES).unwrap();
        assert_eq!(names(dir.path()), ["notes.txt"]);
        fs::remove_file(dir.path().join("notes.txt")).unwrap();
        Folder::open(dir.path()).unwrap().clear(&FILES).unwrap();
        assert!(!dir.path().exists());
    }

    #[test]
    fn clear_abandoned_keeps_recent_files() {
        let dir = tempfile::tempdir().unwrap();
        let hour = Duration::from_secs(3_600);
        for (name, hours) in [(".a.1-2.partial", 2), (".b.1-3.partial", 0), ("c.json", 2)] {
            let file = File::create(dir.path().join(name)).unwrap();
            let now = file.metadata().unwrap().modified().unwrap();
            file.set_modified(now - hours * hour).unwrap();
        }
        clear_abandoned(dir.path(), hour);
        assert_eq!(names(dir.path()), [".b.1-3.partial", "c.json"]);
        clear_abandoned(&dir.path().join("none"), hour);
    }

    #[test]
    fn dropped_run_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(&dir.path().join("a/b")).unwrap();
        let partial = folder.partial("flows.parquet").unwrap();
        assert_eq!(names(&dir.path().join("a/b")).len(), 2);
        drop(partial);
        drop(folder);
        assert_eq!(names(dir.path()), Vec::<String>::new());
    }

    #[test]
    fn existing_folder_stays() {
        let dir = tempfile::tempdir().unwrap();
        drop(Folder::open(dir.path()).unwrap());
        assert!(dir.path().exists());
    }

    #[test]
    fn folder_lock_is_exclusive() {
        let dir = tempfile::tempdir().unwrap();
        let held = Folder::open(dir.path()).unwrap();
        assert_eq!(Folder::open(dir.path()).unwrap_err().kind(), ErrorKind::ResourceBusy);
        assert!(
            names(dir.path()).contains(&LOCK.to_owned()),
            "a refused process leaves the lock in place"
        );
        drop(held);
        drop(Folder::open(dir.path()).unwrap());
        assert_eq!(names(dir.path()), Vec::<String>::new());
    }

    #[test]
    fn folder_lock_is_exclusive_among_threads() {
        let dir = tempfile::tempdir().unwrap();
        let holders = AtomicU64::new(0);
        let entered = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    // On a busy machine, too, some thread gets the lock.
                    while entered.load(Ordering::SeqCst) < 500 {
                        let Ok(folder) = Folder::open(dir.path()) else { continue };
                        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                        entered.fetch_add(1, Ordering::SeqCst);
                        assert_eq!(holders.fetch_sub(1, Ordering::SeqCst), 1);
                        drop(folder);
                    }
                });
            }
        });
        assert!(entered.into_inner() >= 500 && holders.into_inner() == 0);
    }

    #[test]
    fn old_results_are_removed_last_first() {
        // A folder named `flows.parquet` stops the removal there. `manifest.json`, which marks
        // complete results, is already removed.
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("flows.parquet")).unwrap();
        fs::write(dir.path().join("manifest.json"), b"old").unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let summary = folder.partial("summary.json").unwrap();
        assert!(folder.publish(vec![summary], &FILES).is_err());
        assert_eq!(names(dir.path()), ["flows.parquet"]);
    }

    #[test]
    fn only_incomplete_files_are_swept() {
        let dir = tempfile::tempdir().unwrap();
        for name in [".flows.parquet.123-4.partial", LOCK] {
            fs::write(dir.path().join(name), b"old").unwrap();
        }
        let mine = [
            ".mine.partial",
            ".x.-4.partial",
            ".x.1-.partial",
            ".x.1-abc.partial",
            ".x.abc-1.partial",
            "flows.parquet.1-2.partial",
        ];
        for name in mine {
            fs::write(dir.path().join(name), b"mine").unwrap();
        }
        fs::create_dir(dir.path().join(".folder.1-2.partial")).unwrap();
        drop(Folder::open(dir.path()).unwrap());
        assert_eq!(names(dir.path())[0], ".folder.1-2.partial");
        assert_eq!(names(dir.path())[1..], mine);
    }
}
