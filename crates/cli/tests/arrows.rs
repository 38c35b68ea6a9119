//! Which crate may know which. A dependency that is not drawn here is refused.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// (crate, the crates of this workspace that it may use).
const ARROWS: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("algos", &["core"]),
    ("sim", &["core", "algos"]),
    ("endpoint", &["core", "algos"]),
    ("switch", &["core", "sim"]),
    ("mpi", &["sim"]),
    ("scenario", &["core", "algos"]),
    ("results", &["core", "algos"]),
    ("fluid", &[]),
    ("runs", &["core", "algos", "sim", "endpoint", "scenario", "results", "fluid"]),
    ("live", &["core", "algos", "sim", "endpoint", "switch", "scenario", "results", "runs"]),
    ("papers", &["core", "algos", "sim", "scenario", "results", "fluid", "runs", "live"]),
    ("workbench", &["scenario", "results", "runs", "live", "papers"]),
    ("cli", &["workbench", "mpi"]),
    ("python", &["workbench", "cli"]),
];

/// What the protocols and their vocabulary may use besides each other.
const PURE: &[&str] = &["core", "algos"];

fn crates() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Names in the sections of a manifest that make a crate depend on others; those of tests apart.
fn dependencies(name: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).unwrap();
    let mut inside = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            inside = section == "dependencies" || section.ends_with(".dependencies");
            assert!(
                !section.starts_with("dependencies."),
                "{name}: write dependencies on a line each"
            );
        } else if let Some((key, _)) =
            line.split_once('=').filter(|_| inside && !line.starts_with('#'))
        {
            found.insert(key.trim().trim_end_matches(".workspace").to_owned());
        }
    }
    found
}

#[test]
fn arrows_run_one_way() {
    for (name, allowed) in ARROWS {
        for dependency in dependencies(name) {
            if let Some(own) = dependency.strip_prefix("tidegate-") {
                assert!(allowed.contains(&own), "{name} must not know {own}");
            } else {
                let fine = !PURE.contains(name) || dependency == "libm";
                assert!(fine, "{name} is pure and must not use {dependency}");
            }
        }
    }
}

#[test]
fn every_crate_is_drawn() {
    let drawn: BTreeSet<_> = ARROWS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let entries = fs::read_dir(crates()).unwrap().map(Result::unwrap);
    let there: BTreeSet<_> = entries
        .filter(|entry| entry.path().join("Cargo.toml").exists())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    assert_eq!(there, drawn);
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn only_header_files_know_what_the_words_of_a_packet_mean() {
    let mut found = Vec::new();
    for (name, _) in ARROWS {
        sources(&crates().join(name).join("src"), &mut found);
    }
    let mut headers = 0;
    for path in found {
        let text = fs::read_to_string(&path).unwrap();
        let touches = ["body.words", "body.tag"].iter().any(|words| text.contains(words));
        let is_header = path.file_name().is_some_and(|name| name == "header.rs");
        headers += u32::from(touches && is_header);
        // One says which tag is none of a transport, the other changes any bytes.
        let may = is_header
            || ["wire/mod.rs", "endpoint/src/torment.rs"].iter().any(|end| path.ends_with(end));
        assert!(may || !touches, "{} reads words that only a header file knows", path.display());
    }
    assert!(headers >= 3, "{headers} header files");
}
