//! Import and export of other simulators' files. The scenario crate implements the formats.

use std::io::Write;
use std::path::{Path, PathBuf};

use tidegate_results::Folder;
use tidegate_scenario::interop::{self, Files, Format, Input};
use tidegate_scenario::{Override, load_file};

use crate::{Error, guarded};

/// Result of an import or export.
#[derive(Clone, Debug)]
pub struct Written {
    /// The written files; the main one is the last.
    pub files: Vec<PathBuf>,
    /// One sentence about each thing that was omitted.
    pub warnings: Vec<String>,
}

/// Converts files of another simulator to a scenario: a fabric and optional flows, or only flows if
/// `fabric` is a scenario file or template that provides the fabric. Writes the scenario to the
/// folder `out`, which is created, with a trace beside it if there are flows.
///
/// # Errors
/// When a file is invalid or contains something that a scenario cannot express; when `out` holds
/// such files and `force` is not set, or cannot be written.
pub fn import(
    format: Format,
    files: &[PathBuf],
    fabric: Option<&str>,
    out: &Path,
    force: bool,
) -> Result<Written, Error> {
    let read = || {
        let inputs = files.iter().map(|path| Input::read(path)).collect::<Result<Vec<_>, _>>()?;
        let base = fabric.map(Input::fabric).transpose()?;
        interop::import(format, &inputs, base.as_ref())
    };
    write(guarded(|| read().map_err(Error::scenario))?, out, force)
}

/// Writes a scenario's fabric and flows in another simulator's format to the folder `out`, which is
/// created.
///
/// # Errors
/// When the scenario is invalid or contains something that the format cannot express; when `out`
/// holds such files and `force` is not set, or cannot be written.
pub fn export(
    format: Format,
    path: &Path,
    overrides: &[Override],
    out: &Path,
    force: bool,
) -> Result<Written, Error> {
    let read = || {
        let plan = load_file(path, overrides)?;
        let hosts = plan.fabric.hosts.len() as u32;
        let flows = tidegate_sim::flows(&plan.workload, hosts, plan.seed, plan.duration);
        interop::export(format, &plan, &path.display().to_string(), flows)
    };
    write(guarded(|| read().map_err(Error::scenario))?, out, force)
}

fn write(Files { files, warnings }: Files, out: &Path, force: bool) -> Result<Written, Error> {
    let folder = Folder::open(out).map_err(Error::cannot_open(out))?;
    let paths: Vec<PathBuf> = files.iter().map(|(name, _)| out.join(name)).collect();
    if let Some(taken) = paths.iter().find(|path| path.exists()).filter(|_| !force) {
        let message = format!("{} already exists; replace it with --force", taken.display());
        return Err(Error::Usage { option: "--out", message });
    }
    let partial = |(name, content): &(String, String)| {
        let mut partial = folder.partial(name)?;
        partial.write_all(content.as_bytes())?;
        Ok(partial)
    };
    let partials = files.iter().map(partial).collect::<std::io::Result<Vec<_>>>();
    let publish = |partials| folder.publish::<&str>(partials, &[]);
    partials.and_then(publish).map_err(Error::output(out))?;
    Ok(Written { files: paths, warnings })
}
