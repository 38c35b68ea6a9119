//! PFC is in few files of the engine. The other files that name it are listed here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::sources::{code, crates, sources};

/// (reason, files of the engine that may name PFC or pauses for this reason).
const ALLOWED: &[(&str, &[&str])] = &[
    (
        "PFC itself",
        &[
            "partition/pausing.rs",
            "partition/switching/pausing.rs",
            "partition/uplinks/paused.rs",
            "ports/deadlock.rs",
            "ports/ingress.rs",
            "ports/pause_state.rs",
        ],
    ),
    (
        "a sender has a pause state, and sends by it",
        &["partition/uplinks/mod.rs", "ports/scheduler.rs", "ports/uplink.rs"],
    ),
    (
        "a packet lands or joins a queue, or a link fails",
        &["partition/link_effects.rs", "partition/outages.rs", "partition/switching/scheduled.rs"],
    ),
    (
        "statistics",
        &[
            "engine/run.rs",
            "lib.rs",
            "measures/outcome.rs",
            "parallel/reports.rs",
            "partition/measures.rs",
        ],
    ),
    ("live switches refuse PFC", &["open/open_fabric.rs"]),
];

/// Returns whether `code` has an identifier of PFC. Declarations of modules and texts in quotes do
/// not count.
fn names_pfc(code: &str) -> bool {
    let is_declaration = |line: &&str| line.split_whitespace().rev().nth(1) == Some("mod");
    let lines: Vec<_> = code.lines().filter(|line| !is_declaration(line)).collect();
    let text = lines.join("\n").replace("\\\"", "").to_lowercase();
    text.split('"').step_by(2).any(|code| code.contains("pfc") || code.contains("paus"))
}

#[test]
fn only_listed_files_name_pfc() {
    let engine = crates().join("sim/src");
    let mut files = Vec::new();
    sources(&engine, &mut files);
    assert!(files.len() > 50, "{} files", files.len());
    let is_test = |path: &Path| path.iter().any(|part| part == "tests" || part == "tests.rs");
    let found: BTreeSet<PathBuf> = files
        .into_iter()
        .filter(|path| names_pfc(&code(&fs::read_to_string(path).unwrap())))
        .map(|path| path.strip_prefix(&engine).unwrap().to_owned())
        .filter(|path| !is_test(path))
        .collect();
    let listed = ALLOWED.iter().flat_map(|(_, files)| *files).map(PathBuf::from).collect();
    let others: Vec<_> = found.difference(&listed).collect();
    assert!(others.is_empty(), "move PFC to its own files, or list the reason: {others:?}");
    let idle: Vec<_> = listed.difference(&found).collect();
    assert!(idle.is_empty(), "these files do not name PFC, and must not be listed: {idle:?}");
}

#[test]
fn identifiers_of_pfc_are_found() {
    let names = |text: &str| names_pfc(&code(text));
    for text in ["self.uses_pfc()", "use a::PauseState;", "switch.pausing", "frame_flag::PAUSE"] {
        assert!(names(text), "{text}");
    }
    assert!(names("mod a;\nf(\"a \\\" b\", paused)"));
    let others = "// PFC\npub(crate) mod pausing;\nf(\"PFC \\\" pauses\", 1); // paused\n";
    assert!(!names(others) && !names("a\n#[cfg(test)]\nmod tests {\n paused\n}\n"));
}
