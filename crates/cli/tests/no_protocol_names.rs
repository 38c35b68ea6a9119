//! No crate but `algos` and `kernel` names a protocol, so that a new one is one file and one line.

use std::process::Command;

use crate::sources::{code, crates, sources};

/// Names of all protocols of the catalog.
fn names() -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["protocols", "--json"])
        .output()
        .unwrap();
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    list.as_array().unwrap().iter().map(|info| info["name"].as_str().unwrap().to_string()).collect()
}

#[test]
fn no_protocol_names_outside_algos() {
    let names = names();
    assert!(names.len() >= 8, "{names:?}");
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
        sources(&crates().join(name).join("src"), &mut files);
    }
    // Unit tests may name protocols, also in a file of their own.
    files.retain(|file| !file.ends_with("tests.rs"));
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
