//! No crate but `algos` and `kernel` names a protocol, so that a new one is one file and one line.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Names of all protocols of the catalog.
fn names() -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["protocols", "--json"])
        .output()
        .unwrap();
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    list.as_array().unwrap().iter().map(|info| info["name"].as_str().unwrap().to_string()).collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The code of a file without tests and comments.
fn code(text: &str) -> String {
    let before_tests = text.split("#[cfg(test)]").next().unwrap_or_default();
    before_tests
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn no_protocol_names_outside_algos() {
    let names = names();
    assert!(names.len() >= 8, "{names:?}");
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for name in [
        "core",
        "sim",
        "scenario",
        "results",
        "runs",
        "papers",
        "live",
        "workbench",
        "cli",
        "python",
        "endpoint",
        "fluid",
        "switch",
        "mpi",
    ] {
        sources(&crates.join(name).join("src"), &mut files);
    }
    assert!(files.len() > 50, "{} files", files.len());
    for file in files {
        let code = code(&std::fs::read_to_string(&file).unwrap()).to_lowercase();
        // Names of workloads and fabrics may contain those of protocols: only whole words count.
        let words: Vec<&str> =
            code.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_').collect();
        for name in &names {
            let spellings = [name.clone(), name.replace('-', "_"), name.replace('-', "")];
            let word = words.iter().find(|word| spellings.iter().any(|spelling| *word == spelling));
            assert_eq!(word, None, "{} names the protocol {name}", file.display());
        }
    }
}
