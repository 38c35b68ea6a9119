//! A hash of sources, for build scripts.

use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

/// A hash of these files and folders, names included. Cargo rebuilds when they change.
pub(crate) fn hash(decisive: &[&str]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    let mut open: Vec<PathBuf> = decisive.iter().rev().map(PathBuf::from).collect();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(entries(&path).into_iter().rev());
        } else {
            println!("cargo:rerun-if-changed={}", path.display());
            let content =
                fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (path, content).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Entries of a folder, by name. Cargo rebuilds when they change.
fn entries(folder: &Path) -> Vec<PathBuf> {
    println!("cargo:rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
