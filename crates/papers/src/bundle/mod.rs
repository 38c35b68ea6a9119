//! Bundles: one ZIP archive with results, everything that repeats them, and a report. [`verify`]
//! repeats the runs and compares the files.

mod differ;
mod inputs;
mod repeat;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tidegate_results::{Origin, Partial};
use tidegate_runs::destination::results;
use tidegate_runs::{Error, origin};
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

pub use repeat::RepeatOptions;

use crate::report::{is_archive, report};
use inputs::{Inputs, MANIFEST};
use repeat::{Place, Repeatable};

/// The folder of the results in a bundle.
const RESULTS: &str = "results";
const PAGE: &str = "report.html";
/// The suffix of the name of a bundle.
const SUFFIX: &str = "zip";
const README: &str = "README.txt";
const COMMAND: &str = "tidegate verify ";
/// The address of the project.
const ADDRESS: &str = env!("CARGO_PKG_REPOSITORY");
/// The folder into which an archive is unpacked.
const BUNDLE: &str = "bundle";
/// The size from which a file in a ZIP archive needs another format.
const LARGE: u64 = u32::MAX as u64;

/// A written bundle.
#[derive(Clone, Debug)]
pub struct Bundled {
    /// Number of files of results.
    pub files: usize,
    /// Number of files that scenarios name.
    pub inputs: usize,
    /// Number of scenarios of a reproduction, each a file of its own.
    pub scenarios: usize,
    /// Names in the folder that are not results, and not in the bundle.
    pub left_out: Vec<String>,
}

/// A verified bundle.
#[derive(Clone, Debug)]
pub struct Verified {
    /// The verdict on each file.
    pub files: Vec<(String, FileVerdict)>,
}

/// Whether a file of a bundle is the one that the repeated runs give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileVerdict {
    /// It is the same.
    Same,
    /// Its first difference.
    Differs(String),
    /// The reason why the files cannot be compared.
    NotCompared(String),
}

impl FileVerdict {
    fn of(difference: Option<String>) -> FileVerdict {
        difference.map_or(FileVerdict::Same, FileVerdict::Differs)
    }
}

/// Packs the results in `folder` into the archive `out`.
///
/// # Errors
/// When the folder holds no results, or none that can be repeated; when a file that a scenario
/// names is missing or has changed; when the name of `out` does not end in `.zip`; when `out`
/// exists and `force` is not set, or cannot be written.
pub fn bundle(folder: &Path, out: &Path, force: bool) -> Result<Bundled, Error> {
    let unusable = if out.extension().is_none_or(|suffix| suffix != SUFFIX) {
        Some(format!("a bundle is a ZIP archive: name a file that ends in .{SUFFIX}"))
    } else if out.exists() && !force {
        Some("this file exists: choose another one, or replace it with --force".to_owned())
    } else {
        None
    };
    if let Some(why) = unusable {
        let message = format!("{}: {why}", out.display());
        return Err(Error::Usage { option: "--out", message });
    }
    let from = Place { option: "bundle", archive: None };
    let inputs = Inputs::find(folder, from)?;
    let repeatable = Repeatable::read(folder, from)?;
    let page = report(&[folder.to_owned()], &|_| {})?;
    let scenarios = repeatable.scenarios()?;
    let files = results(folder);
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    let readme = readme(&name, &repeatable, &origins(folder, from)?);
    let packed = |path: &PathBuf| inputs.packed(folder, path, from);
    let packed = files.iter().map(packed).collect::<Result<Vec<_>, Error>>()?;
    let counts = (inputs.originals.len(), scenarios.len());
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
        add(README, 0, &mut readme.as_bytes())?;
        add(PAGE, 0, &mut page.as_bytes())?;
        for (name, text) in &scenarios {
            add(name, 0, &mut text.as_bytes())?;
        }
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
    let left_out = others(folder, &files);
    let (inputs, scenarios) = counts;
    Ok(Bundled { files: files.len(), inputs, scenarios, left_out })
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
    let root = if path.is_dir() {
        (results(path).is_empty() && inside.is_dir()).then(|| path.to_owned())
    } else {
        unpack(path, &place.path().join(BUNDLE)).map_err(|why| {
            let message = format!(
                "{}: {why}: name a file that `tidegate bundle` has written, a folder into which it \
                 was unpacked, or a folder of results",
                path.display()
            );
            Error::Usage { option: "verify", message }
        })?;
        Some(place.path().join(BUNDLE))
    };
    let folder = root.as_ref().map_or_else(|| path.to_owned(), |root| root.join(RESULTS));
    let archive = root.as_deref().filter(|_| !path.is_dir()).map(|root| (path, root));
    let from = Place { option: "verify", archive };
    let again = place.path().join("again");
    compare(&folder, root.as_deref(), &again, from, options).map_err(|error| from.named(error))
}

/// Repeats the results in `folder` into the folder `again` and compares the files, with the page
/// and the README of the bundle in `root`, if it is one.
fn compare(
    folder: &Path,
    root: Option<&Path>,
    again: &Path,
    from: Place<'_>,
    options: &RepeatOptions<'_>,
) -> Result<Verified, Error> {
    let own = origin();
    for made in origins(folder, from)? {
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
    let inputs = Inputs::find(folder, from)?;
    let repeatable = Repeatable::read(folder, from)?;
    repeatable.repeat(again, options)?;
    let mut files = results(folder);
    files.extend(results(again));
    files.sort();
    files.dedup();
    let compared = |path: &PathBuf| {
        let difference = differ::difference(&folder.join(path), &again.join(path));
        Ok((slashed(path), FileVerdict::of(difference.map_err(Error::output(folder))?)))
    };
    let mut verdicts: Vec<_> = files.iter().map(compared).collect::<Result<_, Error>>()?;
    let Some(root) = root else { return Ok(Verified { files: verdicts }) };
    let scenarios = repeatable.scenarios()?;
    verdicts.extend(around(root, folder, (&repeatable, &scenarios), from)?);
    // A folder may also hold other files; an archive may not.
    if from.archive.is_some() {
        let of_results = files.iter().map(|path| format!("{RESULTS}/{}", slashed(path)));
        let named = scenarios.into_iter().map(|(name, _)| name);
        let known = of_results.chain(inputs.originals.into_keys()).chain(named);
        let known: BTreeSet<String> = known.chain([PAGE, README].map(str::to_owned)).collect();
        let all = below(root, Path::new("")).map_err(Error::output(root))?;
        let unknown = all.iter().map(|path| slashed(path)).filter(|name| !known.contains(name));
        let why = || FileVerdict::Differs("a bundle of these results has no such file".to_owned());
        verdicts.extend(unknown.map(|name| (name, why())));
    }
    Ok(Verified { files: verdicts })
}

/// Verdicts on the page, the README and the scenarios of a reproduction of a bundle in `root` with
/// results in `folder`.
fn around(
    root: &Path,
    folder: &Path,
    (repeatable, scenarios): (&Repeatable, &[(String, String)]),
    from: Place<'_>,
) -> Result<Vec<(String, FileVerdict)>, Error> {
    let (made, own) = (origins(folder, from)?, origin());
    let other = made
        .iter()
        .find(|made| (&made.version, &made.git_revision) != (&own.version, &own.git_revision));
    let other = other.map(|Origin { version, git_revision, .. }| {
        FileVerdict::NotCompared(format!(
            "tidegate {version} (revision {git_revision}) made the results"
        ))
    });
    let page = match &other {
        Some(other) => other.clone(),
        None => match report(&[folder.to_owned()], &|_| {}) {
            Ok(page) => FileVerdict::of(
                differ::from_text(&root.join(PAGE), &page).map_err(Error::output(root))?,
            ),
            // A damaged file of the results has a verdict of its own.
            Err(why) => FileVerdict::NotCompared(match from.named(why) {
                Error::Usage { message, .. } => message,
                why => why.to_string(),
            }),
        },
    };
    // The archive may have another name now.
    let path = root.join(README);
    let text = fs::read_to_string(&path).unwrap_or_default();
    let is_name =
        |name: &&str| name.chars().all(|letter| letter.is_alphanumeric() || "._-".contains(letter));
    let name = text.lines().find_map(|line| line.trim_start().strip_prefix(COMMAND));
    let name = name.filter(is_name);
    let readme = readme(name.unwrap_or_default(), repeatable, &made);
    let readme = FileVerdict::of(differ::from_text(&path, &readme).map_err(Error::output(root))?);
    let mut verdicts = vec![(PAGE.to_owned(), page), (README.to_owned(), readme)];
    for (name, text) in scenarios {
        let difference = || differ::from_text(&root.join(name), text).map_err(Error::output(root));
        let verdict = match &other {
            Some(other) => other.clone(),
            None => FileVerdict::of(difference()?),
        };
        verdicts.push((name.clone(), verdict));
    }
    Ok(verdicts)
}

/// All files in a folder and its subfolders, as paths relative to `root`, in order of their names.
fn below(root: &Path, folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            all.extend(below(root, &path)?);
        } else {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}

/// Unpacks an archive into a folder. No entry is written outside it.
fn unpack(path: &Path, folder: &Path) -> io::Result<()> {
    let file = BufReader::new(File::open(path)?);
    // The library names parts of its format, which say nothing about another file.
    let wrong = |why| match why {
        ZipError::Io(why) => why,
        _ if is_archive(path) => io::Error::other("the archive is damaged or incomplete"),
        _ => io::Error::other("this file is not an archive of a study"),
    };
    let mut archive = ZipArchive::new(file).map_err(wrong)?;
    for i in 0..archive.len() {
        let mut entry = archive.by_index(i).map_err(wrong)?;
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
        io::copy(&mut entry, &mut file).map_err(|why| match why.kind() {
            ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof => {
                let name = String::from_utf8_lossy(entry.name_raw());
                io::Error::other(format!("{name} in it is damaged ({why})"))
            }
            _ => why,
        })?;
        file.flush()?;
    }
    Ok(())
}

/// The origins of all results in a folder.
fn origins(folder: &Path, from: Place<'_>) -> Result<Vec<Origin>, Error> {
    let manifests = results(folder).into_iter().filter(|path| path.ends_with(MANIFEST));
    let origin = |path: PathBuf| repeat::required(&folder.join(path), from);
    manifests.map(origin).collect()
}

/// Names in a folder that are not results. Hidden files and reports do not count.
fn others(folder: &Path, files: &[PathBuf]) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_other = |name: &String| {
        !name.starts_with('.') && name != PAGE && files.iter().all(|path| !path.starts_with(name))
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
    let scenario = repeat::required::<Named>(&named, Place { option: "bundle", archive: None })
        .map(|named| named.name);
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
    let command = repeatable.command();
    let contents = match &command {
        Some(_) => format!(
            "{RESULTS}/     the results\n\
             scenarios/   the complete scenario of each simulated run under its first seed\n"
        ),
        None => format!(
            "{RESULTS}/     the results; every manifest.json holds complete scenarios\n\
             files/       sizes and traces that the scenarios name, if any\n"
        ),
    };
    let command = command.map_or_else(String::new, |command| format!("Command: {command}\n"));
    format!(
        "{what} of tidegate, a simulator of datacenter transports\n{ADDRESS}\n\n\
         {scenario}{command}Made by: {made}\n\
         Seeds: {seeds}\n\n\
         This command repeats all runs, and states for each file whether it is the same:\n\n    \
         {COMMAND}{name}\n\n\
         report.html  plots and tables, for any browser\n\
         {contents}",
        what = repeatable.title(),
        made = made.join("\n         "),
        seeds = repeatable.seeds(),
    )
}
