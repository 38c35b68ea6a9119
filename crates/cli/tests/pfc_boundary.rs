//! PFC is in few files of the engine. The other files that know of it are listed here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::sources::{crates, sources, unquoted};

/// (reason, files of the engine that may know of PFC for this reason). The reasons are in
/// `docs/design/pfc-and-circuits.md`, too.
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
        "senders hold their pause state and send by it",
        &["partition/uplinks/mod.rs", "ports/scheduler.rs", "ports/uplink.rs"],
    ),
    (
        "packets are counted by ingress as they land, wait and leave",
        &["partition/link_effects.rs", "partition/switching/scheduled.rs"],
    ),
    ("links that fail clear pauses, and hosts start pause storms", &["partition/outages.rs"]),
    ("faults have pause storms", &["fabric/faults.rs"]),
    (
        "switches are built with PFC, and its configuration is checked",
        &["partition/build.rs", "partition/switching/mod.rs", "ports/checks.rs"],
    ),
    (
        "the run searches for deadlocks",
        &["engine/failure.rs", "engine/run.rs", "lib.rs", "parallel/ranks.rs"],
    ),
    (
        "results have statistics of pauses",
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

/// Parts of the names that the files of PFC have for it, in lower case.
const NAMES: &[&str] = &[
    "pfc",
    "paus",
    "storm",
    "ingress",
    "deadlock",
    "egress_buffer",
    "couples_nodes",
    "uncount",
    "needs_departures",
];

/// The part of a name of PFC in the code of a source text. Declarations of modules do not count.
fn pfc_name(text: &str) -> Option<&'static str> {
    let is_declaration = |line: &&str| line.split_whitespace().rev().nth(1) == Some("mod");
    let code = unquoted(text).to_lowercase();
    let lines: Vec<_> = code.lines().filter(|line| !is_declaration(line)).collect();
    NAMES.iter().copied().find(|name| lines.iter().any(|line| line.contains(name)))
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
        .filter(|path| pfc_name(&fs::read_to_string(path).unwrap()).is_some())
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
fn design_names_all_reasons() {
    let document = crates().join("../docs/design/pfc-and-circuits.md");
    let text = fs::read_to_string(document).unwrap();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (reason, _) in &ALLOWED[1..] {
        assert!(text.contains(reason), "the document does not name the reason {reason:?}");
    }
}

#[test]
fn names_of_pfc_are_found() {
    for text in [
        "self.uses_pfc()",
        "use a::PauseState;",
        "switch.pausing",
        "frame_flag::PAUSE",
        "use crate::ports::ingress;",
        "use crate::ports::{deadlock::Waits};",
        "egress_buffer(switch)",
        "switching.couples_nodes(&ports)",
        "mod a;\nf(\"a \\\" b\", paused)",
        "f(\"//\", paused)",
        "f('\"', paused, '\"')",
    ] {
        assert!(pfc_name(text).is_some(), "{text}");
    }
    for text in [
        "// PFC\npub(crate) mod pausing;\nf(\"PFC \\\" pauses\", 1); // paused\n",
        "f('\"', \"PFC\"); // pauses\n",
        "a\n#[cfg(test)]\nmod tests {\n paused\n}\n",
    ] {
        assert_eq!(pfc_name(text), None, "{text}");
    }
}
