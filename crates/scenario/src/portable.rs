//! Scenarios that run in other folders, with the files that they name.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::inputs::InputFiles;
use crate::plan::Plan;

/// A resolved scenario that runs in any folder with these files beside it.
#[derive(Clone, Debug)]
pub struct Portable {
    /// The scenario; it names the files by their new names.
    pub scenario: Value,
    /// The original of each file, by its new name, which is relative.
    pub files: BTreeMap<String, PathBuf>,
}

/// Returns the scenario of a plan with names of files below its own folder.
///
/// If two different files would have the same new name, the name of the second becomes absolute.
pub fn portable(plan: &Plan) -> Portable {
    let mut scenario = plan.resolved.clone();
    let folder = plan.files.folder.as_deref().unwrap_or(Path::new(""));
    let mut olds = BTreeMap::new();
    let mut names = BTreeMap::new();
    for old in InputFiles::names(&scenario) {
        let is_first = *olds.entry(below(old)).or_insert(old) == old;
        let absolute = || folder.join(old).display().to_string();
        names.insert(old.to_owned(), if is_first { below(old) } else { absolute() });
    }
    // A pattern names several files.
    let is_of = |old: &str, file: &str| match old.split_once('*') {
        Some((start, end)) => file.starts_with(start) && file.ends_with(end),
        None => old == file,
    };
    let files = plan.files.hashes.keys().filter(|file| olds.values().any(|old| is_of(old, file)));
    let files = files.map(|file| (below(file), folder.join(file))).collect();
    InputFiles::rename(&mut scenario, &names);
    Portable { scenario, files }
}

/// A relative name without `..`.
fn below(name: &str) -> String {
    let parts = Path::new(name).components().filter_map(|part| match part {
        Component::Normal(part) => part.to_str(),
        _ => None,
    });
    parts.collect::<Vec<_>>().join("/")
}
