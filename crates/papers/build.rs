//! Embeds every file of the scenarios and of the registry of papers, so that none has to be listed.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let scenarios = below(Path::new("../../scenarios"));
    let mut text = table("SCENARIOS", "Every scenario as folder/name, and its text", &scenarios);
    let registry = Path::new("src/reproduce");
    text += &table(
        "REGISTRY",
        "Every file of the registry as paper/name, and its text",
        &below(registry),
    );
    text += &table(
        "RECORDS",
        "Recorded values of claims under every alternative: a paper's name, and JSON",
        &files(&registry.join("records"), "json"),
    );
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("embedded.rs"), text).expect("OUT_DIR can be written");
}

/// Entries of a folder, by name. Cargo rebuilds when they change.
fn entries(folder: &Path) -> Vec<PathBuf> {
    println!("cargo:rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Files of a folder with that extension, by name.
fn files(folder: &Path, extension: &str) -> Vec<(String, PathBuf)> {
    let named = |path: &PathBuf| path.extension().is_some_and(|other| other == extension);
    let files = entries(folder).into_iter().filter(named);
    files.map(|path| (stem(&path), path)).collect()
}

/// TOML files of every subfolder of `path`, as folder/name.
fn below(path: &Path) -> Vec<(String, PathBuf)> {
    let folders = entries(path).into_iter().filter(|path| path.is_dir());
    let named = |folder: PathBuf| {
        let files = files(&folder, "toml").into_iter();
        files.map(move |(name, path)| (format!("{}/{name}", stem(&folder)), path))
    };
    folders.flat_map(named).collect()
}

fn table(name: &str, doc: &str, files: &[(String, PathBuf)]) -> String {
    let mut text = format!("/// {doc}.\npub(crate) static {name}: &[(&str, &str)] = &[\n");
    for (name, path) in files {
        println!("cargo:rerun-if-changed={}", path.display());
        let path = fs::canonicalize(path).expect("it was listed just now");
        writeln!(text, "    ({name:?}, include_str!({:?})),", path.display().to_string())
            .expect("memory");
    }
    text + "];\n"
}
