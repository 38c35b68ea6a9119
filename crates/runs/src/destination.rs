//! Folders for results: exclusive access, the files that belong to results, and the removal of old
//! results.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tidegate_results::{FILES, Folder, Partial};

use crate::{Error, catalog};

/// The file that marks a folder as a reproduction.
pub const CLAIMS: &str = "reproduction.json";
/// Texts of papers and figures in a reproduction.
pub const FIGURES: &str = "figures.json";
/// Plots of a reproduction.
pub const PLOTS: &str = "plots.json";
/// Texts of a reproduction: the verdicts, and how they depend on what the papers leave open.
pub const DOCUMENTS: [&str; 2] = ["reproduction.md", "sensitivity.md"];

/// A folder that will receive results. Other processes cannot write results there meanwhile.
#[derive(Debug)]
pub struct Destination {
    out: PathBuf,
    folder: Folder,
}

impl Destination {
    /// Opens the folder `out` and creates it if it is missing. A created folder is removed if
    /// nothing is written.
    ///
    /// # Errors
    /// When it is not a folder, holds results and `force` is not set, another process writes there,
    /// or it cannot be created.
    pub fn open(out: &Path, force: bool) -> Result<Destination, Error> {
        if out.is_symlink() && !out.exists() {
            let message = format!(
                "{} is a symbolic link to a folder that does not exist: create that folder, remove \
                 the link, or choose another folder",
                out.display()
            );
            return Err(Error::Usage { option: "--out", message });
        }
        if out.exists() && !out.is_dir() {
            let message = format!("{} is not a folder", out.display());
            return Err(Error::Usage { option: "--out", message });
        }
        let folder = Folder::open(out).map_err(Error::cannot_open(out))?;
        // Checked while the folder is locked, so that no other process can add results in between.
        if !force && ours(out).iter().any(|name| out.join(name).exists()) {
            return Err(Error::Occupied(out.to_owned()));
        }
        Ok(Destination { out: out.to_owned(), folder })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.out
    }

    /// A temporary file that `publish` will rename to `name`.
    pub fn partial(&self, name: &str) -> io::Result<Partial> {
        self.folder.partial(name)
    }

    /// Renames the files to their final names, in this order. Removes the folder's previous
    /// results, including those in the subfolders that they list, except for the folders `kept`.
    pub fn publish(self, files: Vec<Partial>, kept: &[String]) -> Result<(), Error> {
        let Destination { out, folder } = self;
        // Includes the seeds that an aborted call has left.
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

    /// Writes files. Each gets its final name when all are complete.
    ///
    /// # Errors
    /// When a file cannot be written.
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

/// Names of result files in a folder. Those that mark a result as complete come last.
fn ours(out: &Path) -> Vec<String> {
    files_of_reproduction(out).into_iter().chain(FILES.map(str::to_owned)).collect()
}

/// Results in a folder and in the subfolders that they list, as paths relative to it, in order of
/// their names. Reports are not results.
pub fn results(folder: &Path) -> Vec<PathBuf> {
    let own = ours(folder).into_iter().filter(|name| name != "report.html").map(PathBuf::from);
    let mut all: Vec<PathBuf> = own.filter(|name| folder.join(name).is_file()).collect();
    for part in parts(folder) {
        let below = results(&folder.join(&part)).into_iter();
        all.extend(below.map(|path| Path::new(&part).join(path)));
    }
    all.sort();
    all
}

/// Removes the results in a folder, and in the subfolders that they list.
fn clear(folder: &Path) -> io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    parts(folder).into_iter().try_for_each(|name| clear(&folder.join(name)))?;
    match Folder::open(folder) {
        // Another process is writing new results there.
        Err(error) if error.kind() == ErrorKind::ResourceBusy => Ok(()),
        folder => folder?.clear(&FILES),
    }
}

/// Removes the results of a seed, and of the protocols `names` below it, that an aborted call has
/// left.
pub fn clear_made(folder: &Path, names: &[String]) {
    for name in names {
        // If this fails, the next call refuses or replaces the results.
        let _ = clear(&folder.join(name));
        let _ = fs::remove_dir(folder.join(name));
    }
    let _ = clear(folder);
    let _ = fs::remove_dir(folder);
}

/// Names of the files of a reproduction in a folder; empty if there is none.
fn files_of_reproduction(folder: &Path) -> Vec<String> {
    if ![FIGURES, CLAIMS].iter().any(|name| folder.join(name).exists()) {
        return Vec::new();
    }
    DOCUMENTS.into_iter().chain([PLOTS, FIGURES, CLAIMS]).map(str::to_owned).collect()
}

/// Subfolders whose names are those of seeds.
fn seed_folders(out: &Path) -> Vec<String> {
    let names = fs::read_dir(out).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let is_seed = |name: &String| {
        let seed = name.strip_prefix("seed-").and_then(|seed| seed.parse().ok());
        seed.is_some_and(|seed| folder_name(seed) == *name)
    };
    names.filter_map(|name| name.into_string().ok()).filter(is_seed).collect()
}

/// The name of a seed's folder.
pub fn folder_name(seed: u64) -> String {
    format!("seed-{seed}")
}

/// Subfolders that hold parts of this result: a protocol of a comparison each, or a seed each.
fn parts(out: &Path) -> Vec<String> {
    compared(out).into_iter().chain(seeds(out).into_iter().map(folder_name)).collect()
}

/// The part of `comparison.json` that lists the runs.
#[derive(Default, Deserialize)]
struct Comparison {
    runs: Vec<Compared>,
}

#[derive(Deserialize)]
struct Compared {
    protocol: String,
}

/// Protocols of the comparison in a folder; empty if there is no readable comparison.
pub fn compared(out: &Path) -> Vec<String> {
    let found: Comparison = read(out, "comparison.json");
    let names = found.runs.into_iter().map(|run| run.protocol);
    names.filter(|name| catalog::find(name).is_ok()).collect()
}

/// The part of `aggregate.json` that lists the seeds.
#[derive(Default, Deserialize)]
struct Aggregate {
    seeds: Vec<u64>,
}

/// Seeds whose results a folder holds; empty if there is no readable aggregate.
fn seeds(out: &Path) -> Vec<u64> {
    read::<Aggregate>(out, "aggregate.json").seeds
}

/// Content of a file in the folder; the default if it cannot be read.
fn read<T: Default + DeserializeOwned>(out: &Path, name: &str) -> T {
    let bytes = tidegate_scenario::files::read(&out.join(name), u64::MAX);
    bytes.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}
