//! Where results go: who may write there, which files there are ours, and what goes when new ones
//! come.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tidegate_results::{FILES, Folder, Partial};

use crate::report::files_of_reproduction;
use crate::seeds::folder_name;
use crate::{Error, catalog};

/// A folder that results are about to be written to. Nobody else can write there meanwhile.
#[derive(Debug)]
pub struct Destination {
    out: PathBuf,
    folder: Folder,
}

impl Destination {
    /// Takes the folder `out`, which is created where it is missing, and goes again if nothing is
    /// written.
    ///
    /// # Errors
    /// When it is no folder, holds results and `force` is not set, somebody else writes there, or
    /// it cannot be created.
    pub fn open(out: &Path, force: bool) -> Result<Destination, Error> {
        if out.exists() && !out.is_dir() {
            let message = format!("{} is not a folder", out.display());
            return Err(Error::Usage { option: "--out", message });
        }
        let folder = Folder::open(out).map_err(Error::cannot_open(out))?;
        // With the folder in hand, so that no results can come between.
        if !force && ours(out).iter().any(|name| out.join(name).exists()) {
            return Err(Error::Occupied(out.to_owned()));
        }
        Ok(Destination { out: out.to_owned(), folder })
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.out
    }

    /// A file that is to be called `name`.
    pub(crate) fn partial(&self, name: &str) -> io::Result<Partial> {
        self.folder.partial(name)
    }

    /// Gives the files their names, in this order. The results that the folder held are gone then,
    /// and so are those in folders below that it told of, but for the folders `kept`.
    pub(crate) fn publish(self, files: Vec<Partial>, kept: &[String]) -> Result<(), Error> {
        let Destination { out, folder } = self;
        // Of several seeds, those too that were made before a call ended early.
        let stray = if kept.is_empty() { Vec::new() } else { seed_folders(&out) };
        let gone: BTreeSet<String> = parts(&out).into_iter().chain(stray).collect();
        let gone = gone.into_iter().filter(|name| !kept.contains(name));
        let gone: Vec<PathBuf> = gone.map(|name| out.join(name)).collect();
        let publish = || {
            folder.publish(files, &ours(&out))?;
            gone.iter().try_for_each(|part| clear(part))
        };
        publish().map_err(Error::output(&out))
    }

    /// Writes files, each under its name only when all are complete.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(self, files: &[(String, Vec<u8>)]) -> Result<(), Error> {
        let partial = |(name, content): &(String, Vec<u8>)| {
            let mut partial = self.partial(name)?;
            io::Write::write_all(&mut partial, content)?;
            Ok(partial)
        };
        let partials = files.iter().map(partial).collect::<io::Result<Vec<_>>>();
        let partials = partials.map_err(Error::output(&self.out))?;
        self.publish(partials, &[])
    }
}

/// Names that our files in a folder may have, those that say that it is complete last.
fn ours(out: &Path) -> Vec<String> {
    files_of_reproduction(out).into_iter().chain(FILES.map(str::to_owned)).collect()
}

/// Removes the results in a folder, and in those below that it tells of.
fn clear(folder: &Path) -> io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    parts(folder).into_iter().try_for_each(|name| clear(&folder.join(name)))?;
    match Folder::open(folder) {
        // Somebody makes it anew.
        Err(error) if error.kind() == ErrorKind::ResourceBusy => Ok(()),
        folder => folder?.clear(&FILES),
    }
}

/// Takes away the results of a seed, and of the protocols `names` below it, that a call which ended
/// early has made.
pub(crate) fn clear_made(folder: &Path, names: &[String]) {
    for name in names {
        // What cannot be cleared is refused or replaced by the next call.
        let _ = clear(&folder.join(name));
        let _ = fs::remove_dir(folder.join(name));
    }
    let _ = clear(folder);
    let _ = fs::remove_dir(folder);
}

/// Folders below that are called as those of seeds are.
fn seed_folders(out: &Path) -> Vec<String> {
    let names = fs::read_dir(out).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let is_seed = |name: &String| {
        let seed = name.strip_prefix("seed-").and_then(|seed| seed.parse().ok());
        seed.is_some_and(|seed| folder_name(seed) == *name)
    };
    names.filter_map(|name| name.into_string().ok()).filter(is_seed).collect()
}

/// Folders below that hold parts of the results of this one: a protocol of a comparison each, or a
/// seed.
fn parts(out: &Path) -> Vec<String> {
    compared(out).into_iter().chain(seeds(out).into_iter().map(folder_name)).collect()
}

/// What `comparison.json` says of its runs.
#[derive(Default, Deserialize)]
struct Comparison {
    runs: Vec<Compared>,
}

#[derive(Deserialize)]
struct Compared {
    protocol: String,
}

/// The protocols of the comparison that a folder holds; none where it holds none that can be read.
pub(crate) fn compared(out: &Path) -> Vec<String> {
    let found: Comparison = read(out, "comparison.json");
    let names = found.runs.into_iter().map(|run| run.protocol);
    names.filter(|name| catalog::find(name).is_ok()).collect()
}

/// What `aggregate.json` says of its seeds.
#[derive(Default, Deserialize)]
struct Aggregate {
    seeds: Vec<u64>,
}

/// The seeds whose results a folder holds; none where it says nothing of that.
fn seeds(out: &Path) -> Vec<u64> {
    read::<Aggregate>(out, "aggregate.json").seeds
}

/// What a file of the folder says; nothing where it cannot be read.
fn read<T: Default + DeserializeOwned>(out: &Path, name: &str) -> T {
    let bytes = tidegate_scenario::files::read(&out.join(name), u64::MAX);
    bytes.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}
