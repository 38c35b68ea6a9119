//! Reads results from folders.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use tidegate_results::Summary;

use super::files::{json, wrong};
use super::flows::Flows;
use super::series::Series;
use crate::kept::{Kept, RESULTS};
use crate::plot::Plot;
use crate::reproduce::{ClaimResult, PaperText, Picture, papers};
use tidegate_runs::Error;
use tidegate_runs::destination::{CLAIMS, FIGURES, PLOTS, compared};

/// Fault of a folder without results.
pub(crate) const NO_RESULTS: &str = "no results: neither summary.json nor folders with one, nor \
                                     sweep.json, aggregate.json or reproduction.json";

/// Remedy for a folder without results.
pub(crate) const RESULTS_EXPECTED: &str =
    "name a folder of results, which --out of run, compare, sweep or reproduce writes";

/// A run in a folder.
pub(crate) struct Run {
    /// Distinguishes the run from the others.
    pub(crate) title: String,
    /// The title without the part that distinguishes runs which differ only in their seed.
    pub(crate) kind: String,
    /// Its protocol, if there is only one.
    pub(crate) protocol: Option<String>,
    pub(crate) summary: Summary,
    /// Its flows, once loaded.
    pub(crate) flows: Flows,
    /// Its samples, once loaded.
    pub(crate) series: Option<Series>,
    /// The resolved scenario, if there is a manifest.
    pub(crate) scenario: Option<Value>,
    pub(super) folder: PathBuf,
}

impl Run {
    /// The missing files among those that every run writes.
    pub(crate) fn missing_files(&self) -> Vec<PathBuf> {
        let files = ["manifest.json", "flows.parquet"].map(|name| self.folder.join(name));
        files.into_iter().filter(|path| !path.exists()).collect()
    }

    /// Loads the flows, and the samples if `with_series`. With a hundred runs, loading is too slow
    /// for those that are not drawn.
    pub(crate) fn load(&mut self, with_series: bool) -> Result<(), Error> {
        self.flows = Flows::read(&self.folder, &self.summary)?;
        if with_series {
            self.series = Series::read(&self.folder, &self.flows)?;
        }
        Ok(())
    }
}

/// A reproduction in a folder.
pub(crate) struct Found {
    pub(crate) claims: Vec<ClaimResult>,
    pub(crate) papers: Vec<PaperText>,
    pub(crate) pictures: Vec<Picture>,
}

/// The reproduction in a folder: what `tidegate reproduce` wrote, or the documents of a paper.
pub(crate) fn reproduction(folder: &Path) -> Result<Option<Found>, Error> {
    let Some(claims) = json(&folder.join(CLAIMS))? else { return documents(folder) };
    let papers: Vec<PaperText> = json(&folder.join(FIGURES))?.unwrap_or_default();
    let plots: Option<Vec<(String, Plot)>> = json(&folder.join(PLOTS))?;
    let is_drawn = papers.iter().flat_map(|paper| &paper.figures).any(|of| !of.pictures.is_empty());
    if plots.is_none() && is_drawn {
        let why = "is missing: an older version made this folder; run `tidegate reproduce` again";
        return Err(wrong(&folder.join(PLOTS), why));
    }
    let picture = |(name, plot): (String, Plot)| Picture { name, plot };
    let pictures = plots.unwrap_or_default().into_iter().map(picture).collect();
    Ok(Some(Found { claims, papers, pictures }))
}

/// The reproduction that a folder of documents holds, with the marks of the present registry;
/// `None` if it holds no documents of a paper.
fn documents(folder: &Path) -> Result<Option<Found>, Error> {
    // Almost every folder has runs: reading the registry for it would be most of a report's time.
    if !folder.join(RESULTS).exists() {
        return Ok(None);
    }
    let name = folder.file_name().and_then(|name| name.to_str());
    let papers = papers(false)?;
    let paper = papers.iter().find(|paper| Some(paper.name.as_str()) == name);
    let Some(paper) = paper else { return Ok(None) };
    let mut kept = Kept::read(folder)?;
    kept.mark(paper);
    let figures = kept.figures.into_iter().map(|kept| kept.text).collect();
    let pictures = kept.plots.into_iter().map(|(name, plot)| Picture { name, plot });
    Ok(Some(Found {
        claims: kept.claims,
        papers: vec![PaperText { figures, ..PaperText::of(paper) }],
        pictures: pictures.collect(),
    }))
}

/// The runs in a folder: its own run, or those of a comparison in its subfolders. Adds the
/// summaries that the comparison lacks to `lacking`.
pub(crate) fn runs(folder: &Path, lacking: &mut Vec<PathBuf>) -> Result<Vec<Run>, Error> {
    if let Some(run) = run(folder)? {
        return Ok(vec![run]);
    }
    // The order of the comparison; without one, all subfolders.
    let mut below: Vec<PathBuf> = compared(folder).iter().map(|name| folder.join(name)).collect();
    if below.is_empty() {
        let entries = fs::read_dir(folder).map_err(|error| match error.kind() {
            ErrorKind::NotFound => wrong(folder, format!("{error}: {RESULTS_EXPECTED}")),
            _ => wrong(folder, error),
        })?;
        below = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        below.sort();
    }
    let is_listed = !compared(folder).is_empty();
    let mut found = Vec::new();
    for path in below {
        let run = run(&path)?;
        if run.is_none() && is_listed {
            lacking.push(path.join("summary.json"));
        }
        found.extend(run);
    }
    if found.is_empty() {
        return Err(wrong(folder, format!("{NO_RESULTS}; {RESULTS_EXPECTED}")));
    }
    Ok(found)
}

/// Warnings of the comparison in a folder, without those of its runs.
pub(crate) fn warnings_of_comparison(folder: &Path) -> Result<Vec<String>, Error> {
    #[derive(Default, Deserialize)]
    struct Comparison {
        #[serde(default)]
        warnings: Vec<String>,
    }
    let found: Option<Comparison> = json(&folder.join("comparison.json"))?;
    Ok(found.unwrap_or_default().warnings)
}

fn run(folder: &Path) -> Result<Option<Run>, Error> {
    let Some(summary) = json::<Summary>(&folder.join("summary.json"))? else { return Ok(None) };
    let protocol = if let [only] = &summary.protocols[..] { Some(only.clone()) } else { None };
    let title = summary.protocols.join(" + ");
    let manifest = json::<Value>(&folder.join("manifest.json"))?;
    let scenario = manifest.and_then(|mut manifest| manifest.get_mut("scenario").map(Value::take));
    Ok(Some(Run {
        kind: title.clone(),
        title,
        protocol,
        summary,
        flows: Flows::default(),
        series: None,
        scenario,
        folder: folder.to_owned(),
    }))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A run with only a summary, as if its scenario contained only the seed.
    pub(crate) fn of_summary(summary: Summary) -> Run {
        Run {
            kind: "a".to_owned(),
            title: format!("a, seed {}", summary.seed),
            protocol: None,
            scenario: Some(serde_json::json!({ "seed": summary.seed })),
            summary,
            flows: Flows::default(),
            series: None,
            folder: PathBuf::new(),
        }
    }

    #[test]
    fn plots_of_a_reproduction_are_checked() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let refused = |words: &str| {
            reproduction(dir.path()).is_err_and(|error| error.to_string().contains(words))
        };
        write(CLAIMS, "[]");
        write(
            FIGURES,
            r#"[{"paper":"x","title":"X","about":"","figures":
                [{"figure":"1","title":"t","pictures":["one"]}]}]"#,
        );
        assert!(refused("plots.json") && refused("again"));
        write(PLOTS, r#"[["one", {"title": "t", "lines": [{"points": [[0, 1]], "hue": 1}]}]]"#);
        assert!(refused("plots.json") && refused("unknown field `hue`"));
        write(PLOTS, r#"[["one", {"title": "t", "lines": [{"points": [[0, 1]]}]}]]"#);
        let found = reproduction(dir.path()).unwrap().unwrap();
        assert_eq!(found.pictures[0].plot.lines[0].points[..], [(0.0, 1.0)]);
    }
}
