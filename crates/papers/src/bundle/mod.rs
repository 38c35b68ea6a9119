//! Bundles: one ZIP archive with results, everything that repeats them, and a report. [`verify`]
//! repeats the runs and compares the files.

mod differ;
mod inputs;
mod repeat;

use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tidegate_results::{Origin, Partial};
use tidegate_runs::destination::results;
use tidegate_runs::{Error, origin};
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

pub use repeat::RepeatOptions;

use crate::report::report;
use inputs::{Inputs, MANIFEST};
use repeat::Repeatable;

/// The folder of the results in a bundle.
const RESULTS: &str = "results";
/// The size from which a file in a ZIP archive needs another format.
const LARGE: u64 = u32::MAX as u64;

/// A written bundle.
#[derive(Clone, Debug)]
pub struct Bundled {
    /// Number of files of results.
    pub files: usize,
    /// Number of files that scenarios name.
    pub inputs: usize,
    /// Names in the folder that are not results, and not in the bundle.
    pub left_out: Vec<String>,
}

/// A verified bundle.
#[derive(Clone, Debug)]
pub struct Verified {
    /// Each file, and its first difference; `None` if the file is the same.
    pub files: Vec<(String, Option<String>)>,
}

/// Packs the results in `folder` into the archive `out`.
///
/// # Errors
/// When the folder holds no results, or none that can be repeated; when a file that a scenario
/// names is missing or has changed; when `out` exists and `force` is not set, or cannot be written.
pub fn bundle(folder: &Path, out: &Path, force: bool) -> Result<Bundled, Error> {
    let inputs = Inputs::find(folder, "bundle")?;
    let repeatable = Repeatable::read(folder, "bundle")?;
    if out.exists() && !force {
        let message =
            format!("{} exists: choose another file, or replace it with --force", out.display());
        return Err(Error::Usage { option: "--out", message });
    }
    let page = report(&[folder.to_owned()], &|_| {})?;
    let files = results(folder);
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    let readme = readme(&name, &repeatable, &origins(folder, "bundle")?);
    let packed = |path: &PathBuf| inputs.packed(folder, path, "bundle");
    let packed = files.iter().map(packed).collect::<Result<Vec<_>, Error>>()?;
    let named = inputs.originals.len();
    let partial = Partial::new(out.to_owned()).map_err(Error::cannot_open(out))?;
    let write = move || {
        let mut zip = ZipWriter::new(partial);
        let mut add = |name: &str, size: u64, from: &mut dyn io::Read| {
            // The default time is constant, so that equal results give equal bytes.
            let options = SimpleFileOptions::default()
                .last_modified_time(zip::DateTime::default())
                .unix_permissions(0o644)
                .large_file(size >= LARGE);
            zip.start_file(name, options)?;
            io::copy(from, &mut zip)
        };
        add("README.txt", 0, &mut readme.as_bytes())?;
        add("report.html", 0, &mut page.as_bytes())?;
        for (name, original) in &inputs.originals {
            let mut file = File::open(original)?;
            let size = file.metadata()?.len();
            add(name, size, &mut file)?;
        }
        for (path, packed) in files.iter().zip(&packed) {
            let name = format!("{RESULTS}/{}", slashed(path));
            if let Some(content) = packed {
                add(&name, content.len() as u64, &mut &content[..])?;
                continue;
            }
            let mut file = File::open(folder.join(path))?;
            let size = file.metadata()?.len();
            add(&name, size, &mut file)?;
        }
        zip.finish()?.publish()?;
        Ok(files)
    };
    let files = write().map_err(Error::output(out))?;
    Ok(Bundled { left_out: others(folder, &files), files: files.len(), inputs: named })
}

/// Repeats the runs of a bundle, packed or unpacked, or of a folder of results, and compares the
/// files.
///
/// # Errors
/// When `path` is none of them; when its results have other semantics than this program; when a
/// run fails.
pub fn verify(path: &Path, options: &RepeatOptions<'_>) -> Result<Verified, Error> {
    let place = tempfile::tempdir().map_err(Error::cannot_open(&std::env::temp_dir()))?;
    let inside = path.join(RESULTS);
    let folder = if path.is_dir() && results(path).is_empty() && inside.is_dir() {
        inside
    } else if path.is_dir() {
        path.to_owned()
    } else {
        unpack(path, place.path()).map_err(|why| {
            let message = format!(
                "{}: {why}: name a file that `tidegate bundle` has written, a folder into which it \
                 was unpacked, or a folder of results",
                path.display()
            );
            Error::Usage { option: "verify", message }
        })?;
        place.path().join(RESULTS)
    };
    let own = origin();
    for made in origins(&folder, "verify")? {
        if made.semantics != own.semantics {
            let Origin { version, git_revision, semantics, .. } = made;
            return Err(Error::Run(format!(
                "semantics: the results have version {semantics}, this program has {}, so the \
                 outcomes may differ: verify them with tidegate {version} (revision \
                 {git_revision})",
                own.semantics
            )));
        }
    }
    Inputs::find(&folder, "verify")?;
    let again = place.path().join("again");
    Repeatable::read(&folder, "verify")?.repeat(&again, options)?;
    let mut files = results(&folder);
    files.extend(results(&again));
    files.sort();
    files.dedup();
    let compared = |path: &PathBuf| {
        let difference = differ::difference(&folder.join(path), &again.join(path));
        Ok((slashed(path), difference.map_err(Error::output(&folder))?))
    };
    Ok(Verified { files: files.iter().map(compared).collect::<Result<_, Error>>()? })
}

/// Unpacks an archive into a folder. No entry is written outside it.
fn unpack(archive: &Path, folder: &Path) -> io::Result<()> {
    let mut archive = ZipArchive::new(BufReader::new(File::open(archive)?))?;
    for i in 0..archive.len() {
        let mut entry = archive.by_index(i)?;
        let inside = entry.enclosed_name().filter(|_| !entry.is_symlink());
        let path = folder.join(inside.ok_or_else(|| {
            let name = String::from_utf8_lossy(entry.name_raw());
            io::Error::other(format!("the entry {name:?} leads out of the bundle"))
        })?);
        if entry.is_dir() {
            continue;
        }
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        let mut file = File::create(path)?;
        io::copy(&mut entry, &mut file)?;
        file.flush()?;
    }
    Ok(())
}

/// The origins of all results in a folder.
fn origins(folder: &Path, option: &'static str) -> Result<Vec<Origin>, Error> {
    let manifests = results(folder).into_iter().filter(|path| path.ends_with(MANIFEST));
    let origin = |path: PathBuf| repeat::required(&folder.join(path), option);
    manifests.map(origin).collect()
}

/// Names in a folder that are not results. Hidden files and reports do not count.
fn others(folder: &Path, files: &[PathBuf]) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_other = |name: &String| {
        !name.starts_with('.')
            && name != "report.html"
            && files.iter().all(|path| !path.starts_with(name))
    };
    let mut names: Vec<String> = names.filter(is_other).collect();
    names.sort();
    names
}

fn slashed(path: &Path) -> String {
    path.iter().map(|name| name.to_string_lossy()).collect::<Vec<_>>().join("/")
}

fn readme(name: &str, repeatable: &Repeatable, origins: &[Origin]) -> String {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let named = repeatable.marker();
    let scenario = repeat::required::<Named>(&named, "bundle").map(|named| named.name);
    let scenario = scenario.map_or_else(|_| String::new(), |name| format!("Scenario: {name}\n"));
    let mut made: Vec<String> = origins
        .iter()
        .map(|Origin { version, git_revision, compiler, semantics, host, .. }| {
            format!(
                "tidegate {version} (revision {git_revision}, semantics {semantics}), {compiler}, \
                 on {} {}",
                host.os, host.arch
            )
        })
        .collect();
    made.dedup();
    format!(
        "{what} of tidegate, a simulator of datacenter transports\n\n{scenario}Made by: {made}\n\
         Seeds: {seeds}\n\n\
         This command repeats all runs, and states for each file whether its bytes are the \
         same:\n\n    tidegate verify {name}\n\n\
         report.html  plots and tables, for any browser\n\
         {RESULTS}/     the results; every manifest.json holds complete scenarios\n\
         files/       sizes and traces that the scenarios name, if any\n",
        what = repeatable.title(),
        made = made.join("\n         "),
        seeds = repeatable.seeds(),
    )
}
