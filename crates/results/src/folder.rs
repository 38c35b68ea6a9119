//! A folder of results in which every file is whole or not there.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Files that make a folder one "that holds results". The last is written last: where it is, the others are.
pub const FILES: [&str; 6] = [
    "comparison.json",
    "flows.parquet",
    "timeseries.parquet",
    "report.html",
    "summary.json",
    "manifest.json",
];

/// A folder for results. Folders that it had to create go again if it is dropped and nothing was published.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Outermost first.
    created: Vec<PathBuf>,
}

impl Folder {
    /// Whether `path` holds results already.
    pub fn holds_results(path: &Path) -> bool {
        FILES.iter().any(|name| path.join(name).exists())
    }

    /// Opens `path`, and creates it where it is missing.
    ///
    /// # Errors
    /// When it cannot be created, or is not a folder.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let mut created: Vec<_> = path.ancestors().take_while(is_missing).map(Path::to_owned).collect();
        created.reverse();
        let folder = Folder { path: path.to_owned(), created };
        fs::create_dir_all(path)?;
        Ok(folder)
    }

    /// A file that is to be called `name` once it is complete.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn partial(&self, name: &'static str) -> io::Result<Partial> {
        let path = self.path.join(format!(".{name}.partial"));
        let file = BufWriter::new(File::create(&path)?);
        Ok(Partial { path, name, file, published: false })
    }

    /// Gives the files their names, in the order of [`FILES`]. Results that the folder held before are gone.
    ///
    /// # Errors
    /// When the last bytes cannot be written or a file cannot be renamed; those not yet renamed are gone then.
    pub fn publish(mut self, mut files: Vec<Partial>) -> io::Result<()> {
        files.iter_mut().try_for_each(|file| file.file.flush())?;
        for name in FILES.iter().rev() {
            match fs::remove_file(self.path.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        files.sort_by_key(|file| FILES.iter().position(|name| *name == file.name));
        for file in &mut files {
            fs::rename(&file.path, self.path.join(file.name))?;
            file.published = true;
        }
        self.created.clear();
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Innermost first. One that is not empty stays, and so do those around it.
        while let Some(path) = self.created.pop() {
            if fs::remove_dir(path).is_err() {
                break;
            }
        }
    }
}

/// A file on its way to its name. Dropped before it got there, it is deleted.
#[derive(Debug)]
pub struct Partial {
    path: PathBuf,
    name: &'static str,
    file: BufWriter<File>,
    published: bool,
}

impl Write for Partial {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.published {
            // Nothing can be done about a file that stays; its name says that it is not complete.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_get_their_names_together() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let folder = Folder::open(&path).unwrap();
        let mut summary = folder.partial("summary.json").unwrap();
        let manifest = folder.partial("manifest.json").unwrap();
        summary.write_all(b"{}").unwrap();
        assert!(!Folder::holds_results(&path));
        folder.publish(vec![manifest, summary]).unwrap();
        assert!(Folder::holds_results(&path));
        assert_eq!(names(&path), ["manifest.json", "summary.json"]);
        assert_eq!(fs::read(path.join("summary.json")).unwrap(), b"{}");
    }

    #[test]
    fn old_results_go_when_new_ones_come() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("timeseries.parquet"), b"old").unwrap();
        fs::write(dir.path().join("notes.txt"), b"mine").unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let summary = folder.partial("summary.json").unwrap();
        folder.publish(vec![summary]).unwrap();
        assert_eq!(names(dir.path()), ["notes.txt", "summary.json"]);
    }

    #[test]
    fn an_abandoned_run_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(&dir.path().join("a/b")).unwrap();
        let partial = folder.partial("flows.parquet").unwrap();
        assert_eq!(names(&dir.path().join("a/b")), [".flows.parquet.partial"]);
        drop(partial);
        drop(folder);
        assert_eq!(names(dir.path()), Vec::<String>::new());
    }

    #[test]
    fn a_folder_that_was_there_stays() {
        let dir = tempfile::tempdir().unwrap();
        drop(Folder::open(dir.path()).unwrap());
        assert!(dir.path().exists());
    }
}
