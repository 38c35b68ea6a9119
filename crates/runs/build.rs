//! Passes a hash of the sources that decide the results of a run to the crate, and the compiler's
//! version.

use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sources that determine a run's results and observations: from scenarios to the engine and its
/// records.
const DECISIVE: [&str; 11] = [
    "../../Cargo.lock",
    "../core/src",
    "../algos/src",
    "../sim/src",
    "../scenario/src",
    "../scenario/presets",
    "../scenario/workloads",
    "../results/src",
    "src/fair_share.rs",
    "src/convert.rs",
    "src/observe",
];

/// Sources that also determine the observations of runs over real packets.
const DECISIVE_FOR_REAL: [&str; 5] =
    ["../endpoint/src", "../switch/src", "../live/src", "../kernel/src", "../kernel/bpf"];

fn main() {
    println!("cargo:rustc-env=TIDEGATE_SOURCES={:016x}", sources(&DECISIVE));
    println!("cargo:rustc-env=TIDEGATE_REAL_SOURCES={:016x}", sources(&DECISIVE_FOR_REAL));
    println!("cargo:rustc-env=TIDEGATE_COMPILER={}", compiler());
}

/// `rustc 1.95.0 (…)`
fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").expect("cargo sets it");
    let version = Command::new(rustc).arg("--version").output();
    version.map_or_else(
        |_| "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

/// A hash of these sources, names included.
fn sources(decisive: &[&str]) -> u64 {
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
