//! Permitted dependencies between crates. All others are refused.

use std::collections::BTreeSet;
use std::fs;

use crate::sources::{code, crates, sources};

/// (crate, the crates of this workspace that it may use).
const ARROWS: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("algos", &["core"]),
    ("sim", &["core", "algos"]),
    ("endpoint", &["core", "algos"]),
    ("switch", &["core", "sim"]),
    ("mpi", &["sim"]),
    ("kernel", &["core", "algos"]),
    ("scenario", &["core", "algos"]),
    ("results", &["core", "algos"]),
    ("fluid", &[]),
    ("runs", &["core", "algos", "sim", "endpoint", "scenario", "results", "fluid"]),
    ("live", &["core", "algos", "sim", "endpoint", "switch", "scenario", "results", "runs"]),
    ("papers", &["core", "algos", "sim", "scenario", "results", "fluid", "runs", "live"]),
    ("workbench", &["scenario", "results", "runs", "live", "papers"]),
    ("cli", &["workbench", "mpi", "kernel"]),
    ("python", &["workbench", "cli"]),
];

/// Crates that `cargo build` leaves out: they build Arrow, or need libraries of the system.
const NOT_DEFAULT: &[&str] = &["python", "mpi", "kernel"];

/// Crates that may use no external crate but `libm`.
const PURE: &[&str] = &["core", "algos"];

/// Names in the dependency sections of a manifest, without those of tests.
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
                "{name}: write each dependency on one line"
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
fn dependencies_follow_the_arrows() {
    for (name, allowed) in ARROWS {
        for dependency in dependencies(name) {
            if let Some(own) = dependency.strip_prefix("tidegate-") {
                assert!(allowed.contains(&own), "{name} must not depend on {own}");
            } else {
                let fine = !PURE.contains(name) || dependency == "libm";
                assert!(fine, "{name} is pure and must not use {dependency}");
            }
        }
    }
}

#[test]
fn arrows_list_every_crate() {
    let drawn: BTreeSet<_> = ARROWS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let entries = fs::read_dir(crates()).unwrap().map(Result::unwrap);
    let there: BTreeSet<_> = entries
        .filter(|entry| entry.path().join("Cargo.toml").exists())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    assert_eq!(there, drawn);
}

#[test]
fn other_crates_are_default_members() {
    let manifest = fs::read_to_string(crates().join("../Cargo.toml")).unwrap();
    let (_, list) = manifest.split_once("\ndefault-members = [").unwrap();
    let (list, _) = list.split_once(']').unwrap();
    let found: BTreeSet<_> = list.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    let names = ARROWS.iter().map(|(name, _)| name).filter(|name| !NOT_DEFAULT.contains(name));
    let others = names.map(|name| format!("crates/{name}")).collect();
    assert_eq!(found, others, "default-members are all crates but {NOT_DEFAULT:?}");
}

#[test]
fn packet_words_only_in_header_files() {
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
        // The first defines the tag without transport, the second changes arbitrary bytes.
        let may = is_header
            || ["wire/mod.rs", "endpoint/src/stress.rs"].iter().any(|end| path.ends_with(end));
        assert!(may || !touches, "{} reads words that only a header file knows", path.display());
    }
    assert!(headers >= 3, "{headers} header files");
}

/// Code that only tests and fuzz targets call, by file.
const TESTING: &[(&str, &[&str])] = &[
    ("endpoint/src/lib.rs", &["datagram", "pair", "script", "stress"]),
    ("endpoint/src/node/mod.rs", &["hostile", "versions"]),
    ("kernel/src/lib.rs", &["testing"]),
    ("switch/src/lib.rs", &["any_frame", "any_traffic"]),
];

/// Names of the modules of a source text that only the feature `testing` enables.
fn hidden_modules(text: &str) -> Vec<String> {
    let code = code(text);
    let mut found = Vec::new();
    for (at, start) in code.match_indices("#[cfg(") {
        let after = &code[at + start.len()..];
        let Some((condition, mut item)) = after.split_once(")]") else { continue };
        let is_needed = condition.contains("feature = \"testing\"")
            && !["any(", "not("].iter().any(|other| condition.contains(other));
        while let Some(attribute) = item.trim_start().strip_prefix("#[") {
            item = attribute.split_once(']').map_or("", |(_, after)| after);
        }
        let item = item.trim_start();
        let item = match item.strip_prefix("pub(") {
            Some(visible) => visible.split_once(") ").map_or("", |(_, after)| after),
            None => item.strip_prefix("pub ").unwrap_or(item),
        };
        if let Some(module) = item.strip_prefix("mod ").filter(|_| is_needed) {
            let end = module.find([';', ' ', '{']).unwrap_or(module.len());
            found.push(module[..end].to_owned());
        }
    }
    found
}

#[test]
fn modules_behind_testing_are_found() {
    let text = "#[cfg(feature = \"testing\")]\nmod a;\n#[cfg(feature = \"testing\")]\npub mod b;
        #[cfg(all(unix, feature = \"testing\"))]\n#[allow(c)]\npub(crate) mod d {\n}
        #[cfg(unix)]\n#[cfg(feature = \"testing\")]\n// e\npub(in crate::f) mod g;
        #[cfg(feature = \"testing\")]\npub use h::i;\n#[cfg(unix)]\nmod j;\nmod k;
        #[cfg(any(unix, feature = \"testing\"))]\nmod l;\n#[cfg(not(feature = \"testing\"))]\nmod m;
        // #[cfg(feature = \"testing\")]\nmod n;";
    assert_eq!(hidden_modules(text), ["a", "b", "d", "g"]);
}

/// A release build has none of it: it is behind the feature `testing`, which only dev-dependencies
/// enable.
#[test]
fn code_for_tests_is_not_shipped() {
    for (file, modules) in TESTING {
        let text = fs::read_to_string(crates().join(file)).unwrap();
        let hidden = hidden_modules(&text);
        for module in *modules {
            let is_hidden = hidden.iter().any(|name| name == module);
            assert!(is_hidden, "{file}: {module} is not behind the feature testing");
        }
    }
    for (name, _) in ARROWS {
        let mut found = Vec::new();
        sources(&crates().join(name).join("src"), &mut found);
        for path in found {
            let text = fs::read_to_string(&path).unwrap();
            let is_file = |file: &str| path.ends_with(file);
            let listed = TESTING.iter().find(|(file, _)| is_file(file)).map(|(_, all)| all.len());
            let hidden = hidden_modules(&text).len();
            assert_eq!(hidden, listed.unwrap_or(0), "{}: not all are listed", path.display());
        }
        let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).unwrap();
        let mut section = "";
        for line in manifest.lines().map(str::trim) {
            section = if line.starts_with('[') { line } else { section };
            let enables = line.contains("testing\"");
            let may = section.contains("dev-dependencies");
            assert!(!enables || may, "{name}: {section} enables the feature testing: {line}");
        }
    }
}
