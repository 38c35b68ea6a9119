//! Lists the files of the scenarios and of the registry. The build script uses this module, too.

use std::fs;
use std::path::{Path, PathBuf};

/// Names of files, and their paths, by name.
pub(crate) type Listed = Vec<(String, PathBuf)>;

/// Every scenario as folder/name. `root` is the folder of the crate.
pub(crate) fn scenarios(root: &Path) -> Listed {
    below(&root.join("../../scenarios"))
}

/// Every file of the registry as paper/name.
pub(crate) fn registry(root: &Path) -> Listed {
    below(&root.join("src/reproduce"))
}

/// Recorded values of claims under every alternative, by paper.
pub(crate) fn records(root: &Path) -> Listed {
    files(&root.join("src/reproduce/records"), "json")
}

/// TOML files of every subfolder of `path`, as folder/name.
fn below(path: &Path) -> Listed {
    let folders = entries(path).into_iter().filter(|path| path.is_dir());
    let named = |folder: PathBuf| {
        let files = files(&folder, "toml").into_iter();
        files.map(move |(name, path)| (format!("{}/{name}", stem(&folder)), path))
    };
    folders.flat_map(named).collect()
}

/// Files of a folder with that extension.
fn files(folder: &Path, extension: &str) -> Listed {
    let named = |path: &PathBuf| path.extension().is_some_and(|other| other == extension);
    let files = entries(folder).into_iter().filter(named);
    files.map(|path| (stem(&path), path)).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
