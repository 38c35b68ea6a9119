//! Resolved scenarios, as manifests hold them, are complete.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate_scenario::{content_hash, load, load_file, resolved};

/// The TOML files below a folder.
fn below(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
    }
}

/// All scenarios of the project, by path.
fn scenarios() -> Vec<PathBuf> {
    let mut files = Vec::new();
    below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios"), &mut files);
    assert!(files.len() > 50, "{}", files.len());
    files.sort();
    files
}

#[test]
fn plans_have_the_recorded_hashes() {
    let line = |path: PathBuf| {
        let plan = load_file(&path, &[]).unwrap_or_else(|error| panic!("{error}"));
        let folder = path.parent().and_then(Path::file_name).unwrap().to_string_lossy();
        let name = path.file_stem().unwrap().to_string_lossy();
        format!("{folder}/{name} {}\n", content_hash(&plan))
    };
    let found: String = scenarios().into_iter().map(line).collect();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans.txt");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&recorded, &found).unwrap();
    }
    let expected = fs::read_to_string(recorded).unwrap();
    let differ = found.lines().filter(|line| !expected.lines().any(|other| other == *line));
    let differ: Vec<&str> = differ.collect();
    assert!(
        differ.is_empty() && found.lines().count() == expected.lines().count(),
        "other plans, or other scenarios: {differ:#?}"
    );
}

#[test]
fn every_scenario_is_resolved_to_its_plan() {
    for file in scenarios() {
        let plan = load_file(&file, &[]).unwrap_or_else(|error| panic!("{error}"));
        let manifest = serde_json::json!({ "schema": 1, "scenario": resolved(&plan) });
        // In the scenario's folder, because files that it names are relative to it.
        let place = file.with_file_name("manifest.json");
        let again = load(&manifest.to_string(), place.to_str().unwrap(), &[]);
        let again = again.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(content_hash(&plan), content_hash(&again), "{}", file.display());
        assert!(plan == again, "{}", file.display());
    }
}

#[test]
fn errors_in_manifests_name_the_key() {
    let message = |text: &str| load(text, "manifest.json", &[]).unwrap_err().to_string();
    let wrong = message(r#"{"scenario": {"duration": "1"}}"#);
    assert!(wrong.starts_with("manifest.json: duration: found \"1\", expected"), "{wrong}");
    let broken = message("{\"scenario\": ");
    assert!(broken.starts_with("manifest.json: found JSON with an error (EOF"), "{broken}");
}
