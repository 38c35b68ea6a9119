//! The folder in the BPF file system that holds what is loaded.
//!
//! A set of pins (links and maps) is made in a temporary folder and renamed to its name: it is
//! complete or absent. The temporary folder's name has the PID namespace, the number of the process
//! and its start, so that what a process has left that ended between two steps can be recognised
//! and removed. Processes of other PID namespaces are not visible: their folders remain.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use libbpf_rs::Link;

use crate::Error;

/// Prefix of temporary folders. The BPF file system forbids names with dots.
const TEMPORARY: &str = "tmp-";

/// The default folder.
pub const PINS: &str = "/sys/fs/bpf/tidegate";

fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |error| Error::File(path, error)
}

/// Names of the complete sets.
pub(crate) fn sets(pins: &Path) -> Result<Vec<String>, Error> {
    let names = names(pins)?;
    Ok(names.into_iter().filter(|name| !name.starts_with(TEMPORARY)).collect())
}

fn names(pins: &Path) -> Result<Vec<String>, Error> {
    let entries = match fs::read_dir(pins) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::File(pins.to_owned(), error)),
    };
    // Links to folders elsewhere are not folders.
    let name = |entry: fs::DirEntry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        entry.file_name().into_string().ok().filter(|_| is_folder)
    };
    let mut names: Vec<_> = entries.flatten().filter_map(name).collect();
    names.sort();
    Ok(names)
}

/// Removes what processes have left that ended between two steps. Returns whether there was any.
///
/// # Errors
/// If pins cannot be removed.
pub fn remove_abandoned(pins: &Path) -> Result<bool, Error> {
    let abandoned = abandoned(pins)?;
    abandoned.iter().try_for_each(|name| remove(&pins.join(name)))?;
    Ok(!abandoned.is_empty())
}

/// Folders of processes of this PID namespace that ended between two steps.
fn abandoned(pins: &Path) -> Result<Vec<String>, Error> {
    let (mut names, own) = (names(pins)?, pid_namespace());
    names.retain(|name| {
        maker(name).is_some_and(|(namespace, process, start)| {
            // The start is 0 if it is unknown.
            namespace == own && start > 0 && start_of(process) != Some(start)
        })
    });
    Ok(names)
}

/// Inode of the PID namespace of this process; 0 if it is unknown.
fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

/// PID namespace, number and start of the process that has made a temporary folder; `None` for
/// other folders.
fn maker(name: &str) -> Option<(u64, u32, u64)> {
    let mut numbers = name.strip_prefix(TEMPORARY)?.splitn(4, '-');
    let namespace = numbers.next()?.parse().ok()?;
    let process = numbers.next()?.parse().ok()?;
    let start = numbers.next()?.parse().ok()?;
    numbers.next().map(|_| (namespace, process, start))
}

/// Start of a process in ticks since that of the machine; `None` if there is no such process.
/// Numbers of processes are used again, with another start.
fn start_of(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may contain spaces. The start is field 22.
    stat.rsplit(')').next()?.split_whitespace().nth(19)?.parse().ok()
}

/// Removes a set; one that is absent is removed. Links are detached first: a link whose pin is
/// removed is detached some time later.
pub(crate) fn remove(set: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(set).into_iter().flatten().flatten() {
        // Maps are not links, and links of interfaces that are gone are detached.
        let _ = Link::open(entry.path()).and_then(|link| link.detach());
    }
    match fs::remove_dir_all(set) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::File(set.into(), error)),
        _ => Ok(()),
    }
}

/// Moves a set out of the way before its removal, so that it is never seen in part. `None` if
/// another process has removed it.
pub(crate) fn take(pins: &Path, name: &str) -> Result<Option<PathBuf>, Error> {
    let to = temporary(pins, name);
    let from = pins.join(name);
    match fs::rename(&from, &to) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        moved => moved.map(|()| Some(to)).map_err(file(&from)),
    }
}

/// Removes a set if it is there.
pub(crate) fn remove_named(pins: &Path, name: &str) -> Result<(), Error> {
    take(pins, name)?.map_or(Ok(()), |taken| remove(&taken))
}

fn temporary(pins: &Path, name: &str) -> PathBuf {
    let process = std::process::id();
    let start = start_of(process).unwrap_or_default();
    pins.join(format!("{TEMPORARY}{}-{process}-{start}-{name}", pid_namespace()))
}

/// A set in preparation. It is removed unless it is published.
pub(crate) struct Draft<'a> {
    pins: &'a Path,
    name: &'a str,
    folder: PathBuf,
    published: bool,
}

impl<'a> Draft<'a> {
    /// Makes the temporary folder.
    pub(crate) fn new(pins: &'a Path, name: &'a str) -> Result<Draft<'a>, Error> {
        let folder = temporary(pins, name);
        remove(&folder)?;
        fs::create_dir_all(&folder).map_err(file(&folder))?;
        Ok(Draft { pins, name, folder, published: false })
    }

    /// Path of a pin.
    pub(crate) fn path(&self, pin: &str) -> PathBuf {
        self.folder.join(pin)
    }

    /// Gives the set its name.
    pub(crate) fn publish(mut self) -> Result<(), Error> {
        let to = self.pins.join(self.name);
        fs::rename(&self.folder, &to).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty => {
                Error::Foreign(format!("{}: another process has loaded it meanwhile", to.display()))
            }
            _ => Error::File(to.clone(), error),
        })?;
        self.published = true;
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.published {
            let _ = remove(&self.folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("tidegate-pins-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn drafts_appear_whole_or_not_at_all() {
        let pins = folder("drafts");
        let draft = Draft::new(&pins, "a").unwrap();
        fs::write(draft.path("link"), "").unwrap();
        assert!(sets(&pins).unwrap().is_empty());
        drop(draft);
        assert_eq!(fs::read_dir(&pins).unwrap().count(), 0);
        let draft = Draft::new(&pins, "a").unwrap();
        fs::write(draft.path("link"), "").unwrap();
        draft.publish().unwrap();
        assert_eq!(sets(&pins).unwrap(), ["a"]);
        // A second one does not replace the first.
        let draft = Draft::new(&pins, "a").unwrap();
        let error = draft.publish().unwrap_err().to_string();
        assert!(error.contains("another process has loaded it"), "{error}");
        assert_eq!(fs::read_dir(&pins).unwrap().count(), 1);
        fs::remove_dir_all(pins).unwrap();
    }

    #[test]
    fn folders_of_dead_processes_are_removed() {
        let pins = folder("dead");
        let (namespace, process) = (pid_namespace(), std::process::id());
        let own = temporary(&pins, "b").file_name().unwrap().to_str().unwrap().to_owned();
        // Of an earlier process with the number of this one.
        let reused = format!("tmp-{namespace}-{process}-1-c");
        let ended = |name| format!("tmp-{namespace}-4294967295-1-{name}");
        let elsewhere = "tmp-7-4294967295-1-a";
        for name in [&ended("a"), &reused, &own, "d", "tmp-other", "tmp-1-other", elsewhere] {
            fs::create_dir(pins.join(name)).unwrap();
        }
        fs::write(pins.join("d").join("link"), "").unwrap();
        std::os::unix::fs::symlink(pins.join("d"), pins.join(ended("e"))).unwrap();
        remove_abandoned(&pins).unwrap();
        assert!(pins.join("d").join("link").exists(), "the folder of a link is not removed");
        let mut left = ["d", "tmp-1-other", elsewhere, own.as_str(), "tmp-other"];
        left.sort();
        assert_eq!(names(&pins).unwrap(), left);
        fs::remove_dir_all(pins).unwrap();
    }
}
