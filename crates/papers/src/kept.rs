//! Results of a paper's figures that a repository keeps, in the folder of the paper's documents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tidegate_runs::Error;
use tidegate_runs::destination::PLOTS;

use crate::plot::Plot;
#[cfg(test)]
use crate::reproduce::is_consistent;
use crate::reproduce::{
    ClaimResult, FIGURES, FigureText, Paper, Record, beside_name, beside_paper, figure_key, mark,
    rejudged,
};

/// The file with the results.
pub(crate) const RESULTS: &str = "results.json";

/// Results of a paper's figures.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    pub(crate) figures: Vec<KeptFigure>,
    pub(crate) claims: Vec<ClaimResult>,
    /// The plots, by the names of their pictures; a file of their own.
    #[serde(skip)]
    pub(crate) plots: BTreeMap<String, Plot>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeptFigure {
    #[serde(flatten)]
    pub(crate) text: FigureText,
    /// Names and titles of the pictures in the folder.
    pub(crate) drawn: Vec<(String, String)>,
}

impl Kept {
    /// The results in a folder; empty if there are none.
    pub(crate) fn read(folder: &Path) -> Result<Kept, Error> {
        let mut kept: Kept = read(&folder.join(RESULTS))?.unwrap_or_default();
        kept.plots = read(&folder.join(PLOTS))?.unwrap_or_default();
        Ok(kept)
    }

    /// The file with the plots: a line for each.
    pub(crate) fn plots_json(&self) -> String {
        let line = |(name, plot): (&String, &Plot)| {
            format!("{}: {}", serde_json::json!(name), serde_json::json!(plot))
        };
        let lines: Vec<String> = self.plots.iter().map(line).collect();
        format!("{{\n{}\n}}\n", lines.join(",\n"))
    }

    /// Sets the marks of the paper's values on all plots.
    pub(crate) fn mark(&mut self, paper: &Paper) {
        for kept in &self.figures {
            let figure = paper.figures.iter().find(|figure| figure.name == kept.text.figure);
            for name in &kept.text.pictures {
                if let Some((figure, plot)) = figure.zip(self.plots.get_mut(name)) {
                    mark(paper, figure, plot);
                }
            }
        }
    }

    /// The plots of all pictures by their names, including those of claims beside their source.
    pub(crate) fn all_plots(&self, paper: &Paper) -> BTreeMap<String, Plot> {
        let mut all = self.plots.clone();
        for figure in &self.figures {
            let name = &figure.text.figure;
            let is_its = |claim: &&ClaimResult| claim.figure == *name;
            let claims: Vec<&ClaimResult> = self.claims.iter().filter(is_its).collect();
            let registered = paper.figures.iter().find(|figure| figure.name == *name);
            let beside = beside_paper(&claims, &paper.source, registered);
            all.extend(beside.map(|plot| (beside_name(&paper.name, name), plot)));
        }
        all
    }

    /// Sets the verdicts of these figures by the present bounds of their claims, from recorded
    /// values. Returns whether any result has changed.
    pub(crate) fn judge(
        &mut self,
        paper: &Paper,
        is_meant: impl Fn(&KeptFigure) -> bool,
    ) -> Result<bool, Error> {
        let record = Record::of(&paper.name)?;
        let mut is_new = false;
        for kept in self.figures.iter().filter(|kept| is_meant(kept)) {
            let figure = paper.figures.iter().find(|figure| figure.name == kept.text.figure);
            let Some(figure) = figure else { continue };
            if figure_key(paper, figure)? != kept.text.key {
                continue;
            }
            for result in self.claims.iter_mut().filter(|of| of.figure == figure.name) {
                let claim = figure.claims.iter().find(|claim| claim.name == result.claim);
                let Some(claim) = claim else { continue };
                let Some(now) = rejudged((paper, figure, claim), result, &record)? else {
                    #[cfg(test)]
                    assert!(
                        !paper.opens.is_empty() || is_consistent(figure, claim, result),
                        "{}/{}: the bounds of {} need a run",
                        paper.name,
                        figure.name,
                        claim.name
                    );
                    continue;
                };
                is_new |= now.differs(result);
                *result = now;
            }
        }
        Ok(is_new)
    }

    pub(crate) fn replace(&mut self, figure: KeptFigure) {
        self.figures.retain(|other| other.text.figure != figure.text.figure);
        self.figures.push(figure);
    }

    /// Orders figures and claims as in the registry, and removes those that it no longer has.
    pub(crate) fn sort(&mut self, paper: &Paper) {
        let place = |name: &str| paper.figures.iter().position(|figure| figure.name == name);
        self.figures.retain(|figure| place(&figure.text.figure).is_some());
        self.figures.sort_by_key(|figure| place(&figure.text.figure));
        let names: Vec<&str> = paper
            .figures
            .iter()
            .flat_map(|figure| figure.claims.iter().map(|claim| claim.name.as_str()))
            .collect();
        let place = |claim: &ClaimResult| names.iter().position(|name| *name == claim.claim);
        self.claims.retain(|claim| place(claim).is_some());
        self.claims.sort_by_key(place);
    }

    pub(crate) fn remove_other_pictures(&mut self, folder: &Path) -> std::io::Result<()> {
        let names = self.pictures();
        self.plots.retain(|name, _| names.contains(&format!("{name}.svg")));
        for entry in fs::read_dir(folder.join(FIGURES))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| name.ends_with(".svg") && !names.contains(name)) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Names of the files of all pictures.
    pub(crate) fn pictures(&self) -> BTreeSet<String> {
        let drawn = self.figures.iter().flat_map(|figure| &figure.drawn);
        drawn.map(|(name, _)| format!("{name}.svg")).collect()
    }
}

/// Content of a JSON file; `None` if it does not exist.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(path).map_err(|error| error.to_string());
    let value =
        text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
    value.map(Some).map_err(|error| Error::Run(format!("{}: {error}", path.display())))
}
