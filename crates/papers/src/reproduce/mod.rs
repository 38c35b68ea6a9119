//! Reproduction of papers: runs their figures, draws them, and judges their claims.
//!
//! Everything specific to a paper is data: each figure is a scenario file and a registry file.
//! Claims and charts that use the same run share it. A run records the measurements that they need,
//! and is cached by its content.

mod beside;
mod claims;
mod document;
mod draw;
mod headlines;
mod jobs;
mod judge;
mod marks;
mod metrics;
mod phase;
mod planned;
mod record;
mod registry;
mod rejudge;
mod scenarios;
mod sensitivity;
mod tables;
mod value_column;
#[cfg(test)]
mod wrong;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use tidegate_results::{ReproductionInputs, ReproductionManifest};
use tidegate_runs::nearest;
use tidegate_sim::SEMANTICS;

pub(crate) use beside::{VERDICTS, beside_name, beside_paper};
pub use claims::{ClaimResult, Seeds};
pub(crate) use claims::{Counts, counting};
pub use document::DERIVED;
pub(crate) use document::{Document, Drawn, FIGURES, State, source_of, values};
#[cfg(test)]
pub(crate) use document::{image, verdicts};
pub use jobs::{Forecast, Step, StepListener};
pub(crate) use marks::mark;
pub use planned::RunLength;
#[cfg(test)]
pub(crate) use record::lengths;
pub(crate) use record::{Record, figure_key};
pub use registry::Verdict;
#[cfg(test)]
pub(crate) use registry::shared_papers;
pub(crate) use registry::{Claim, Paper, SEEDS, papers};
#[cfg(test)]
pub(crate) use rejudge::is_consistent;
pub(crate) use rejudge::rejudged;
use tidegate_runs::destination::DOCUMENTS;
pub(crate) use value_column::{has_values, measured, paper_value, worded};

use crate::markdown;
use crate::plot::{Plot, is_paper, paper_source};
use jobs::{Jobs, Request, calibrate, forecast, kept, make};
use judge::Measured;
use registry::{Choice, Fact, Figure, Query};
pub(crate) use scenarios::{scenarios, seeds};
pub use sensitivity::{Alternative, Sensitivity};
#[cfg(test)]
pub(crate) use sensitivity::{markdown as sensitivity_markdown, recorded};
use tidegate_live::ControlLoader;
use tidegate_runs::Error;
use tidegate_runs::observe::Observations;

/// Options of a reproduction.
#[derive(Clone, Copy, Default)]
pub struct ReproduceOptions<'a> {
    /// Uses one seed.
    pub quick: bool,
    /// Repeats everything for each alternative of the papers' open values.
    pub sensitivity: bool,
    /// Upper limit of threads; `None`: the number of cores.
    pub threads: Option<usize>,
    /// Time dilation of live UDP runs; `None`: chosen for each run and this machine.
    pub dilation: Option<u32>,
    /// Folder of cached runs, in which new runs are stored.
    pub cache: Option<&'a Path>,
    /// Program that becomes a host of a testbed, for live UDP runs.
    pub host: Option<&'a Path>,
    /// Loads congestion controls into the kernel, for runs over its TCP.
    pub controls: Option<&'a dyn ControlLoader>,
    /// Receives the forecast.
    pub forecast: Option<&'a (dyn Fn(&Forecast) + Sync)>,
    /// Receives every finished run.
    pub progress: Option<StepListener<'a>>,
    /// A flag that ends the work with [`Error::Interrupted`] when another thread sets it.
    pub interrupted: Option<&'a AtomicBool>,
}

impl ReproduceOptions<'_> {
    fn is_interrupted(&self) -> bool {
        self.interrupted.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

/// `manifest.json` of a reproduction, with its name.
pub fn reproduction_manifest(
    selection: Option<&str>,
    options: &ReproduceOptions<'_>,
) -> (String, Vec<u8>) {
    let what = selection.map(str::to_owned);
    let (quick, sensitivity) = (options.quick, options.sensitivity);
    let reproduce = ReproductionInputs { what, quick, sensitivity };
    let manifest = ReproductionManifest { origin: tidegate_runs::origin(), reproduce };
    let mut bytes = Vec::new();
    tidegate_results::write_json(&manifest, &mut bytes).expect("memory can be written");
    ("manifest.json".to_owned(), bytes)
}

/// The runs of a figure, before they start. Figures may share runs.
#[derive(Clone, Debug, Serialize)]
pub struct FigureRuns {
    /// The paper's name on the command line.
    pub paper: String,
    /// Name of the figure.
    pub figure: String,
    /// Its title.
    pub title: String,
    /// Number of its runs, with all seeds.
    pub runs: usize,
    /// Number of these that are in the cache.
    pub kept: usize,
}

/// A figure in `--list`.
#[derive(Clone, Debug, Serialize)]
pub struct FigureInfo {
    /// The paper's name on the command line.
    pub paper: String,
    /// Name of the figure.
    pub figure: String,
    /// Its title.
    pub title: String,
    /// Number of its runs with one seed.
    pub runs: usize,
    /// Names of its claims.
    pub claims: Vec<String>,
}

/// A picture.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Name of a file, without extension.
    pub name: String,
    /// The plot.
    pub plot: Plot,
}

/// Introduction to a paper's claims.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PaperText {
    /// The paper's name.
    pub paper: String,
    /// Title in texts.
    pub title: String,
    /// Introduction to all of its figures, in Markdown.
    pub about: String,
    /// Changes since the claims were written, in Markdown; shown with several figures.
    #[serde(default)]
    pub history: String,
    /// Name of the picture that represents the paper; empty: the first.
    #[serde(default)]
    pub picture: String,
    /// Name of the source of the values that claims are compared with; absent in files if it is a
    /// paper.
    #[serde(default = "paper_source", skip_serializing_if = "is_paper")]
    pub source: String,
    /// Its figures, in order.
    pub figures: Vec<FigureText>,
}

impl PaperText {
    /// The texts of the registry, without figures.
    pub(crate) fn of(paper: &Paper) -> PaperText {
        PaperText {
            paper: paper.name.clone(),
            title: paper.title.clone(),
            about: paper.about.trim().to_owned(),
            history: paper.history.trim().to_owned(),
            picture: paper.picture.clone(),
            source: paper.source.clone(),
            figures: Vec::new(),
        }
    }

    /// Text before the figures, in Markdown. With a single figure, the history is omitted.
    pub(crate) fn opening(&self) -> String {
        match self.figures.len() {
            0 | 1 => self.about.clone(),
            _ => format!("{}\n\n{}", self.about, self.history).trim_end().to_owned(),
        }
    }
}

/// Recorded values of a paper's claims under every alternative.
#[derive(Clone, Debug)]
pub struct PaperRecord {
    /// The paper's name.
    pub paper: String,
    /// Content of the file.
    pub json: String,
}

/// Texts of a figure, without its claims.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FigureText {
    /// The paper's number.
    pub figure: String,
    /// Its title.
    pub title: String,
    /// Introduction to its claims, in Markdown.
    #[serde(default)]
    pub about: String,
    /// Its result in a sentence, if it has no claims.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub result: String,
    /// Tables of measured values without a claim, in Markdown.
    #[serde(default)]
    pub values: Vec<String>,
    /// Names of its pictures.
    pub pictures: Vec<String>,
    /// Simulated lengths of its runs; empty in older results.
    #[serde(default)]
    pub lengths: Vec<RunLength>,
    /// Hash of everything that the results depend on; empty with `--quick`.
    #[serde(default)]
    pub key: String,
    /// Version of the engine's semantics.
    #[serde(default)]
    pub semantics: u32,
}

/// Result of a reproduction.
#[derive(Clone, Debug, Default)]
pub struct Reproduction {
    /// All claims.
    pub claims: Vec<ClaimResult>,
    /// Papers and their figures.
    pub papers: Vec<PaperText>,
    /// All plots.
    pub pictures: Vec<Picture>,
    /// Sensitivity of the claims to the papers' open values, by the paper's title; empty unless
    /// requested.
    pub sensitivity: Vec<(String, Vec<Sensitivity>)>,
    /// The selection, if not all figures.
    pub selection: Option<String>,
    /// Whether the run used `--quick`.
    pub quick: bool,
    /// Recorded values under every alternative, for runs without `--sensitivity`.
    pub records: Vec<PaperRecord>,
}

/// Lists the figures of `selection`: a paper, `paper/figure`, or all simulated figures.
///
/// # Errors
/// When the paper or figure does not exist.
pub fn figures(selection: Option<&str>) -> Result<Vec<FigureInfo>, Error> {
    let papers = registry::papers(false)?;
    let info = |(paper, figure): (&Paper, &Figure)| FigureInfo {
        paper: paper.name.clone(),
        figure: figure.name.clone(),
        title: figure.title.clone(),
        runs: figure.runs.len(),
        claims: figure.claims.iter().map(|claim| claim.name.clone()).collect(),
    };
    Ok(selected(&papers, selection)?.into_iter().map(info).collect())
}

fn selected<'a>(
    papers: &'a [Paper],
    selection: Option<&str>,
) -> Result<Vec<(&'a Paper, &'a Figure)>, Error> {
    let all =
        papers.iter().flat_map(|paper| paper.figures.iter().map(move |figure| (paper, figure)));
    let Some(selection) = selection else {
        return Ok(all.filter(|(_, figure)| !figure.is_real()).collect());
    };
    let (name, number) = selection.split_once('/').map_or((selection, None), |(a, b)| (a, Some(b)));
    let usage = |message| Error::Usage { option: "reproduce", message };
    let known = papers.iter().map(|paper| paper.name.as_str()).collect::<Vec<_>>().join(", ");
    let paper = papers.iter().find(|paper| paper.name == name);
    let paper = paper.ok_or_else(|| {
        let hint = nearest(name, papers.iter().map(|paper| paper.name.as_str()));
        usage(format!("unknown paper `{name}`{hint}; expected one of {known}"))
    })?;
    let is_meant = |figure: &&Figure| number.is_none_or(|number| figure.is_meant(number));
    let figures: Vec<_> =
        paper.figures.iter().filter(is_meant).map(|figure| (paper, figure)).collect();
    if figures.is_empty() {
        let known =
            paper.figures.iter().map(|figure| figure.name.as_str()).collect::<Vec<_>>().join(", ");
        let number = number.unwrap_or_default();
        return Err(usage(format!("{name}: unknown figure `{number}`; expected one of {known}")));
    }
    Ok(figures)
}

/// Reproduces `selection`.
///
/// # Errors
/// When the paper or figure does not exist, or a run fails.
pub fn reproduce(
    selection: Option<&str>,
    options: &ReproduceOptions<'_>,
) -> Result<Reproduction, Error> {
    let papers = registry::papers(options.quick)?;
    let figures = selected(&papers, selection)?;
    let mut jobs = Jobs::dilated(options.dilation);
    jobs.plan(&requests(&figures, options), options)?;
    let mut requested = Vec::new();
    for &(paper, figure) in &figures {
        if options.is_interrupted() {
            return Err(Error::Interrupted);
        }
        let base = jobs.request((paper, figure, None), options.quick)?;
        let choices = paper.choices().filter(|_| options.sensitivity);
        let others = choices.map(|choice| {
            Ok((choice, jobs.request((paper, figure, Some(choice)), options.quick)?))
        });
        requested.push((base, others.collect::<Result<Vec<_>, Error>>()?));
    }
    let is_watched = options.forecast.is_some() || options.progress.is_some();
    let trials = if is_watched { calibrate(&mut jobs.jobs, options)? } else { 0 };
    let forecast = forecast(&jobs.jobs, trials, options);
    if let Some(listener) = options.forecast {
        listener(&forecast);
    }
    let seen = make(&jobs.jobs, &forecast, options)?;
    let mut result = Reproduction {
        selection: selection.map(str::to_owned),
        quick: options.quick,
        ..Reproduction::default()
    };
    let (mut record, mut fresh) = (Record::default(), Record::default());
    for (&(paper, figure), (base, others)) in figures.iter().zip(requested) {
        let observed = |requested: &[Vec<usize>]| -> Vec<Vec<&Observations>> {
            requested.iter().map(|seeds| seeds.iter().map(|&i| &seen[i]).collect()).collect()
        };
        if result.papers.last().is_none_or(|last| last.paper != paper.name) {
            record = Record::of(&paper.name)?;
            fresh = Record::default();
            // Only these runs write a record.
            let others = paper.figures.iter().filter(|_| options.sensitivity && !options.quick);
            for other in others {
                let is_made = figures.iter().any(|&(_, figure)| std::ptr::eq(figure, other));
                if !is_made {
                    fresh.take(&record, paper, other)?;
                }
            }
            result.papers.push(PaperText::of(paper));
            result
                .sensitivity
                .extend(options.sensitivity.then(|| (paper.title.clone(), sensitivity::of(paper))));
        }
        let runs = observed(&base);
        let others: Vec<(Choice, Vec<Vec<&Observations>>)> =
            others.iter().map(|(choice, requested)| (*choice, observed(requested))).collect();
        let plans = record::plans(paper, figure)?;
        for claim in &figure.claims {
            let key = |choice, seeds| record::key(paper, figure, claim, choice, plans, seeds);
            let chosen = Measured::of(figure, claim, &runs);
            if !options.quick {
                fresh.put(key(None, SEEDS).unwrap_or_default(), chosen);
            }
            // One seed does not show whether the record is current.
            let is_current = options.quick || record.is_current(key(None, SEEDS), chosen.value);
            let mut varied = rejudge::varied((paper, figure, claim), &chosen, |choice, kept| {
                let measured = match others.iter().find(|(other, _)| *other == choice) {
                    Some((_, runs)) => Some(Measured::of(figure, claim, runs)),
                    None => record.get(&kept).filter(|_| is_current),
                };
                if let Some(measured) = measured.filter(|_| options.sensitivity && !options.quick) {
                    fresh.put(kept, measured);
                }
                measured
            })?;
            let mut seeds = rejudge::seeds(figure, claim, chosen.seeds);
            if options.quick && figure.has_chance(claim) && claim.control.is_some() {
                // With `--quick`, the recorded number of different seeds is used.
                let several = key(None, SEEDS).and_then(|key| record.get(&key));
                seeds = several.map_or(seeds, |several| several.seeds);
                varied.push((format!("{SEEDS} seeds"), several));
            }
            let singles = claim.singles(|query, run| figure.value(query, run, |run| &runs[run]));
            let singles = claims::singles(&chosen, singles);
            let mut claimed =
                ClaimResult::of(paper, figure, claim, &chosen, &varied, seeds, &singles);
            if options.quick {
                let is_recorded = varied.iter().all(|(_, recorded)| recorded.is_some());
                claimed = claimed.of_one_seed(options.sensitivity, is_recorded);
            }
            if let Some((_, opens)) = result.sensitivity.last_mut() {
                let changes = |choice| paper.changes(figure, claim, choice);
                sensitivity::take(opens, &claimed, changes, |choice| {
                    let runs = &others.iter().find(|(other, _)| *other == choice)?.1;
                    Some(Alternative::of(&Measured::of(figure, claim, runs), claim))
                });
            }
            result.claims.push(claimed);
        }
        if options.sensitivity && !options.quick {
            result.records.retain(|record| record.paper != paper.name);
            result.records.push(PaperRecord { paper: paper.name.clone(), json: fresh.json() });
        }
        let pictures = draw::pictures(paper, figure, &runs);
        let key = if options.quick { String::new() } else { record::figure_key(paper, figure)? };
        if let Some(text) = result.papers.last_mut() {
            let cell = |query: &Query, name: &str| figure.estimate(query, name, |run| &runs[run]);
            let tables = figure.tables.iter().map(|table| table.markdown(cell));
            text.figures.push(FigureText {
                figure: figure.name.clone(),
                title: figure.title.clone(),
                about: figure.about.trim().to_owned(),
                result: figure.result.clone(),
                values: fact_tables(figure, &runs).into_iter().chain(tables).collect(),
                pictures: pictures.iter().map(|picture| picture.name.clone()).collect(),
                lengths: record::lengths(paper, figure)?,
                key,
                semantics: SEMANTICS,
            });
        }
        result.pictures.extend(pictures);
    }
    Ok(result)
}

/// These figures as chosen, each followed by its alternatives if they are requested.
fn requests<'a>(
    figures: &[(&'a Paper, &'a Figure)],
    options: &ReproduceOptions<'_>,
) -> Vec<Request<'a>> {
    let of_figure = |&(paper, figure): &(&'a Paper, &'a Figure)| {
        let choices = paper.choices().filter(|_| options.sensitivity).map(Some);
        std::iter::once(None).chain(choices).map(move |choice| (paper, figure, choice))
    };
    figures.iter().flat_map(of_figure).collect()
}

/// Facts of a figure as tables with a row per run. Facts about the same runs share a table.
fn fact_tables(figure: &Figure, runs: &[Vec<&Observations>]) -> Vec<String> {
    let is_of_same = |one: &Fact, other: &Fact| one.measure.runs == other.measure.runs;
    let table = |facts: &[Fact]| {
        let head = |fact: &Fact| match fact.unit.as_str() {
            "" => fact.text.clone(),
            unit => format!("{} ({unit})", fact.text),
        };
        let heads: Vec<String> = facts.iter().map(head).collect();
        let mut text = format!("| | {} |\n|---|{}", heads.join(" | "), "--:|".repeat(facts.len()));
        let of = &facts[0].measure;
        for run in (0..of.runs.len()).filter_map(|i| of.run(i)) {
            let cell = |fact: &Fact| {
                let value = figure.estimate(&fact.measure, run, |run| &runs[run]);
                value.map_or_else(|| "none".to_owned(), |value| value.to_string())
            };
            let cells: Vec<String> = facts.iter().map(cell).collect();
            text.push_str(&format!("\n| {run} | {} |", cells.join(" | ")));
        }
        text
    };
    figure.facts.chunk_by(is_of_same).map(table).collect()
}

/// Lists the runs of the figures of `selection`, and estimates their cost together from the
/// beginning of some of them.
///
/// # Errors
/// When the paper or figure does not exist, a run fails, or the caller interrupts it.
pub fn forecast_reproduction(
    selection: Option<&str>,
    options: &ReproduceOptions<'_>,
) -> Result<(Vec<FigureRuns>, Forecast), Error> {
    let papers = registry::papers(options.quick)?;
    let (figures, mut jobs) = (selected(&papers, selection)?, Jobs::dilated(options.dilation));
    let requests = requests(&figures, options);
    jobs.plan(&requests, options)?;
    let mut requested = Vec::new();
    for of in requests.chunk_by(|one, other| std::ptr::eq(one.1, other.1)) {
        let mut own = BTreeSet::new();
        for &request in of {
            own.extend(jobs.request(request, options.quick)?.into_iter().flatten());
        }
        requested.push((of[0].0, of[0].1, own));
    }
    let kept = kept(&jobs.jobs, options);
    let of_figure = |(paper, figure, own): (&Paper, &Figure, BTreeSet<usize>)| FigureRuns {
        paper: paper.name.clone(),
        figure: figure.name.clone(),
        title: figure.title.clone(),
        runs: own.len(),
        kept: own.iter().filter(|&&job| kept[job]).count(),
    };
    let figures = requested.into_iter().map(of_figure).collect();
    let trials = calibrate(&mut jobs.jobs, options)?;
    Ok((figures, forecast(&jobs.jobs, trials, options)))
}

/// The command that makes a reproduction, without its folder.
pub(crate) fn command(selection: Option<&str>, quick: bool, sensitivity: bool) -> String {
    let what = selection.map_or_else(String::new, |what| format!(" {what}"));
    let quick = if quick { " --quick" } else { "" };
    let sensitivity = if sensitivity { " --sensitivity" } else { "" };
    format!("tidegate reproduce{what}{quick}{sensitivity}")
}

impl Reproduction {
    /// Whether no claim deviates.
    pub fn holds(&self) -> bool {
        self.claims.iter().all(|claim| claim.verdict != Verdict::Deviates)
    }

    /// The source of the values: `paper`, or that of the only paper.
    pub fn source(&self) -> &str {
        source_of(&self.papers)
    }

    /// Totals of the verdicts. Several readings or parts of one sentence count once.
    pub fn totals(&self) -> String {
        Counts::of(&self.claims).named(self.source())
    }

    /// Markdown documents by name: the claims, and, if requested, their sensitivity.
    pub fn documents(&self) -> Vec<(&'static str, String)> {
        let command = command(self.selection.as_deref(), self.quick, !self.sensitivity.is_empty());
        let document = Document {
            command: format!("{command} --out DIR"),
            seeds: if self.quick { 1 } else { SEEDS },
            papers: &self.papers,
            claims: &self.claims,
            drawn: None,
        };
        let claims = (DOCUMENTS[0], markdown::document(&document.markdown()));
        let moves = (!self.sensitivity.is_empty())
            .then(|| sensitivity::markdown(&self.sensitivity, self.quick))
            .map(|text| (DOCUMENTS[1], markdown::document(&text)));
        std::iter::once(claims).chain(moves).collect()
    }
}
