//! The scenarios of a reproduction, so that its bundle shows them without the program.

use std::collections::BTreeSet;

use serde_json::json;
use tidegate_runs::Error;

use super::{SEEDS, registry, selected};

/// The seeds of a reproduction.
pub(crate) fn seeds(quick: bool) -> String {
    if quick { "1".to_owned() } else { format!("1 to {SEEDS}") }
}

/// The resolved scenario of each simulated run under its first seed, as chosen: (name of a file,
/// content). `tidegate run` accepts the content.
pub(crate) fn scenarios(
    selection: Option<&str>,
    quick: bool,
) -> Result<Vec<(String, String)>, Error> {
    let papers = registry::papers(quick)?;
    let (mut files, mut taken) = (Vec::new(), BTreeSet::new());
    for (paper, figure) in selected(&papers, selection)? {
        for run in figure.runs.iter().filter(|run| run.model.is_none()) {
            let plan = figure.plan(paper, run, 1, None)?;
            let content = json!({ "scenario": tidegate_scenario::resolved(&plan) });
            let mut text = Vec::new();
            tidegate_results::write_json(&content, &mut text).expect("memory can be written");
            let name = format!("{}/{}/{}", paper.name, figure.name, file_name(&run.name));
            let numbered = (2..).map(|number| format!("{name}-{number}"));
            let mut names = std::iter::once(name.clone()).chain(numbered);
            let name = names.find(|name| taken.insert(name.clone())).unwrap_or(name);
            files.push((format!("{name}.json"), String::from_utf8_lossy(&text).into_owned()));
        }
    }
    Ok(files)
}

/// The name of a run with characters that every file system allows.
fn file_name(run: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let words = run.split(|letter| !is_plain(letter)).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_of_a_figure_can_be_run() {
        let files = scenarios(Some("poseidon/1"), true).unwrap();
        assert!(!files.is_empty());
        for (name, text) in &files {
            assert!(name.starts_with("poseidon/1/") && name.ends_with(".json"), "{name}");
            let plan = tidegate_scenario::load(text, name, &[]).unwrap();
            let again: serde_json::Value = serde_json::from_str(text).unwrap();
            assert_eq!(tidegate_scenario::resolved(&plan), again["scenario"], "{name}");
        }
        assert!(files.iter().any(|(name, _)| name == "poseidon/1/m-0.01.json"));
        let names: BTreeSet<_> = files.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), files.len());
    }
}
