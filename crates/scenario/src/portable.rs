//! Scenarios that run in other folders, with the files that they name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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

/// Returns the scenario of a plan with names of files in `folder`, beside it.
///
/// Different files with equal names are in subfolders with numbers.
pub fn portable(plan: &Plan, folder: &str) -> Portable {
    let mut scenario = plan.resolved.clone();
    let base = plan.files.folder.as_deref().unwrap_or(Path::new(""));
    let mut originals: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut names = BTreeMap::new();
    for old in InputFiles::names(&scenario) {
        let original = base.join(old);
        let mut new = format!("{folder}/{}", short(old));
        let mut number = 0;
        while originals.get(&new).is_some_and(|other| *other != original) {
            number += 1;
            new = format!("{folder}/{number}/{}", short(old));
        }
        originals.insert(new.clone(), original);
        names.insert(old.to_owned(), new);
    }
    let mut files = BTreeMap::new();
    for file in plan.files.hashes.keys() {
        let new = names.iter().filter_map(|(old, new)| renamed(old, new, file));
        files.extend(new.map(|new| (new, base.join(file))));
    }
    InputFiles::rename(&mut scenario, &names);
    Portable { scenario, files }
}

/// The last part of a path, or its end from the part with a `*` on.
fn short(name: &str) -> String {
    let parts: Vec<&str> = name.split('/').collect();
    let pattern = parts.iter().position(|part| part.contains('*'));
    parts[pattern.unwrap_or(parts.len() - 1)..].join("/")
}

/// The new name of a file that an old name in the scenario means; the name of Chakra traces has a
/// `*` for the rank.
fn renamed(old: &str, new: &str, file: &str) -> Option<String> {
    let Some((start, end)) = old.split_once('*') else {
        return (old == file).then(|| new.to_owned());
    };
    let rank = file.strip_prefix(start)?.strip_suffix(end)?;
    Some(new.replacen('*', rank, 1))
}
