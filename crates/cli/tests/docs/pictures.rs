//! The pictures of the documents are of the current scenarios, parameters and engine. `make
//! pictures` draws them and records what they show; no test simulates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use tidegate_workbench::{SEMANTICS, Source, content_hash, load, set};

use super::{blocks, document, root};
use crate::common::protocols;

/// Kinds of a protocol's figures: text, end of the file's name, whether every protocol has one.
pub(super) const FIGURES: [(&str, &str, bool); 3] = [
    ("Goodput of each flow", "goodput", true),
    ("Window of each flow", "windows", false),
    ("Queue of the congested port", "queue", true),
];

/// A protocol's figures: text and file.
pub(super) fn figures(protocol: &str) -> Vec<(&'static str, String)> {
    let file = |kind: &str| format!("{protocol}-{kind}.svg");
    let is_there = |file: &String| root(&format!("docs/protocols/figures/{file}")).exists();
    FIGURES
        .iter()
        .map(|&(text, kind, always)| (text, file(kind), always))
        .filter(|(_, file, always)| *always || is_there(file))
        .map(|(text, file, _)| (text, file))
        .collect()
}

/// The runs of the pictures: `scenario[/seed-N]/protocol`, with the semantics and the hash of the
/// resolved scenario, which contains all parameters.
fn runs() -> BTreeMap<String, String> {
    serde_json::from_str(&document("docs/pictures/runs.json")).unwrap()
}

/// The key of a run under the current scenarios, parameters and engine.
fn key(run: &str) -> String {
    let parts: Vec<&str> = run.split('/').collect();
    let (scenario, protocol) = (parts[0], parts[parts.len() - 1]);
    let mut overrides = vec![format!("transport.protocol={protocol}")];
    overrides.extend(parts[1].strip_prefix("seed-").map(|seed| format!("seed={seed}")));
    let source = match scenario {
        "tutorial" => {
            overrides.push("output.timeseries=20us".to_owned());
            Source::Text(blocks(&document("docs/tutorial.md"), "toml").remove(0))
        }
        "multi-hop" => Source::File(root("scenarios/poseidon/multi-hop.toml")),
        demo => Source::File(root(&format!("scenarios/demo/{demo}.toml"))),
    };
    let overrides: Vec<_> = overrides.iter().map(|text| set(text).unwrap()).collect();
    let plan = load(source, &overrides).unwrap_or_else(|error| panic!("{run}: {error}"));
    format!("{SEMANTICS} {}", content_hash(&plan))
}

#[test]
fn pictures_are_current() {
    let runs = runs();
    assert!(runs.len() > 40, "{runs:?}");
    let outdated: Vec<_> = runs.iter().filter(|(run, old)| key(run) != **old).collect();
    assert!(outdated.is_empty(), "run `make pictures`: these runs changed: {outdated:#?}");
}

#[test]
fn protocol_figures_exist() {
    let shown = |protocol: &String| ["steps", "circuits"].map(|name| format!("{name}/{protocol}"));
    let runs = runs();
    let mut files = BTreeSet::new();
    for protocol in protocols() {
        let is_recorded = shown(&protocol).iter().any(|run| runs.contains_key(run));
        assert!(is_recorded, "no run of {protocol} is drawn: run `make pictures`");
        files.extend(figures(&protocol).into_iter().map(|(_, file)| file));
    }
    let there = fs::read_dir(root("docs/protocols/figures")).unwrap();
    let there: BTreeSet<String> =
        there.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(there, files, "run `make pictures`; delete figures of protocols that are gone");
    for file in files {
        let size = fs::metadata(root(&format!("docs/protocols/figures/{file}"))).unwrap().len();
        assert!(size < 25_000, "docs/protocols/figures/{file} is too large: {size} bytes");
    }
}
