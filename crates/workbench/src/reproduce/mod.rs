//! The figures and claims of papers: run, measured, drawn, and judged.
//!
//! Everything that is particular to a paper is data: its scenarios are files, its figures and claims entries of a registry.
//! A run is made once for everything that asks about it, and kept in a cache by its content.

mod cache;
mod document;
mod draw;
mod metrics;
mod observe;
mod registry;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use tidegate_scenario::Plan;

pub use cache::default_cache;
pub(crate) use document::{measured, paper_value, with_unit};
pub use registry::Verdict;

use crate::compare::in_parallel;
use crate::{Error, machine};
use cache::Cache;
use observe::Observation;
use registry::{Figure, Paper, Recording};

/// Hears how many of how many runs are done, and which was done last, from the thread that did it.
pub type Teller<'a> = &'a (dyn Fn(usize, usize, &str) + Sync);

/// How to reproduce.
#[derive(Clone, Copy, Default)]
pub struct ReproduceOptions<'a> {
    /// One seed each, and shorter runs where the registry has them.
    pub quick: bool,
    /// At most so many threads; `None`: as many as there are cores.
    pub threads: Option<usize>,
    /// Runs that were made before are looked for here, and new ones are kept.
    pub cache: Option<&'a Path>,
    /// Told of every run that is done.
    pub progress: Option<Teller<'a>>,
    /// Set from elsewhere, it ends the work with [`Error::Interrupted`].
    pub interrupted: Option<&'a AtomicBool>,
}

/// A figure as `--list` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct FigureInfo {
    /// The paper's name on the command line.
    pub paper: String,
    /// The figure's.
    pub figure: String,
    /// What it shows.
    pub title: String,
    /// How many runs it takes.
    pub runs: usize,
    /// Names of its claims.
    pub claims: Vec<String>,
}

/// A claim and how it fared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClaimResult {
    /// The paper's name.
    pub paper: String,
    /// The figure's.
    pub figure: String,
    /// The claim's.
    pub claim: String,
    /// What is claimed.
    pub text: String,
    /// The paper's value; none where it gives no number.
    pub paper_value: Option<f64>,
    /// Ours; none where a run gave no answer.
    pub measured: Option<f64>,
    /// Of both.
    pub unit: String,
    /// How it fared.
    pub verdict: Verdict,
    /// Why it is judged so.
    pub why: String,
    /// So many seeds, and the smallest and largest value of one of them.
    pub seeds: (u64, Option<f64>, Option<f64>),
}

/// A picture.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Name of a file, without extension.
    pub name: String,
    /// The figure it belongs to.
    pub figure: String,
    /// Above it.
    pub title: String,
    /// The picture, complete in itself.
    pub svg: String,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Reproduction {
    /// Every claim.
    pub claims: Vec<ClaimResult>,
    /// Every plot.
    pub pictures: Vec<Picture>,
    /// Titles of the figures, in order: (paper's title, figure, title).
    pub figures: Vec<(String, String, String)>,
    /// What a reader has to know, by the paper's title.
    pub about: Vec<(String, String)>,
    /// With `--quick`.
    pub quick: bool,
}

/// All figures of `selection`: everything, a paper, or `paper/figure`.
///
/// # Errors
/// When there is no such paper or figure.
pub fn figures(selection: Option<&str>) -> Result<Vec<FigureInfo>, Error> {
    let papers = registry::papers()?;
    let info = |(paper, figure): (&Paper, &Figure)| FigureInfo {
        paper: paper.name.clone(),
        figure: figure.name.clone(),
        title: figure.title.clone(),
        runs: figure.runs.len(),
        claims: figure.claims.iter().map(|claim| claim.name.clone()).collect(),
    };
    Ok(selected(&papers, selection)?.into_iter().map(info).collect())
}

fn selected<'a>(papers: &'a [Paper], selection: Option<&str>) -> Result<Vec<(&'a Paper, &'a Figure)>, Error> {
    let all = papers.iter().flat_map(|paper| paper.figures.iter().map(move |figure| (paper, figure)));
    let Some(selection) = selection else { return Ok(all.collect()) };
    let (name, number) = selection.split_once('/').map_or((selection, None), |(a, b)| (a, Some(b)));
    let usage = |message| Error::Usage { option: "reproduce", message };
    let known = papers.iter().map(|paper| paper.name.as_str()).collect::<Vec<_>>().join(", ");
    let paper = papers.iter().find(|paper| paper.name == name);
    let paper = paper.ok_or_else(|| usage(format!("there is no paper `{name}`; there are {known}")))?;
    // `14` means all of 14, 14b and so on.
    let is_meant = |figure: &&Figure| {
        number.is_none_or(|number| {
            let rest = figure.name.strip_prefix(number);
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
        })
    };
    let figures: Vec<_> = paper.figures.iter().filter(is_meant).map(|figure| (paper, figure)).collect();
    if figures.is_empty() {
        let known = paper.figures.iter().map(|figure| figure.name.as_str()).collect::<Vec<_>>().join(", ");
        let number = number.unwrap_or_default();
        return Err(usage(format!("{name} has no figure `{number}` here; there are {known}")));
    }
    Ok(figures)
}

/// One run that has to be made.
struct Job {
    plan: Plan,
    recording: Recording,
    name: String,
}

/// Reproduces `selection`.
///
/// # Errors
/// When there is no such paper or figure, or a run fails.
pub fn reproduce(selection: Option<&str>, options: &ReproduceOptions<'_>) -> Result<Reproduction, Error> {
    let papers = registry::papers()?;
    let figures = selected(&papers, selection)?;
    // The same plan under the same recording is run once, whoever asks.
    let mut jobs: Vec<Job> = Vec::new();
    let mut known = std::collections::BTreeMap::new();
    let mut wanted = Vec::new();
    for (paper, figure) in &figures {
        let recording = figure.recording();
        for run in &figure.runs {
            let mut seeds = Vec::new();
            for seed in 1..=figure.seeds(options.quick) {
                let plan = figure.plan(paper, run, seed, options.quick)?;
                let key = format!("{}{recording:?}", tidegate_scenario::content_hash(&plan));
                let number = *known.entry(key).or_insert(jobs.len());
                if number == jobs.len() {
                    let name = format!("{}/{} {}", paper.name, figure.name, run.name);
                    jobs.push(Job { plan, recording, name });
                }
                seeds.push(number);
            }
            wanted.push(seeds);
        }
    }
    let seen = make(&jobs, options)?;
    let mut result = Reproduction { quick: options.quick, ..Reproduction::default() };
    let mut wanted = wanted.into_iter();
    for (paper, figure) in figures {
        let seeds = wanted.by_ref().take(figure.runs.len());
        let runs: Vec<Vec<&Observation>> =
            seeds.map(|seeds| seeds.into_iter().map(|i| &seen[i]).collect()).collect();
        result.claims.extend(judge(paper, figure, &runs));
        result.pictures.extend(draw::pictures(paper, figure, &runs));
        if result.about.last().is_none_or(|(title, _)| *title != paper.title) {
            result.about.push((paper.title.clone(), paper.about.trim().to_owned()));
        }
        result.figures.push((paper.title.clone(), figure.name.clone(), figure.title.clone()));
    }
    Ok(result)
}

fn make(jobs: &[Job], options: &ReproduceOptions<'_>) -> Result<Vec<Observation>, Error> {
    let cache = Cache::new(options.cache);
    let done = AtomicUsize::new(0);
    let is_interrupted = || options.interrupted.is_some_and(|flag| flag.load(Ordering::Relaxed));
    let threads = options.threads.or_else(machine::cores).unwrap_or(1).max(1);
    let seen = in_parallel(jobs.len(), threads, |i| {
        let Job { plan, recording, name } = &jobs[i];
        let seen = match cache.get(plan, *recording) {
            Some(seen) => seen,
            None => {
                let seen = observe::observe(plan, *recording, &is_interrupted)?;
                cache.put(plan, *recording, &seen);
                seen
            }
        };
        if let Some(tell) = options.progress {
            tell(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len(), name);
        }
        Ok(seen)
    });
    seen.into_iter().collect()
}

fn judge(paper: &Paper, figure: &Figure, runs: &[Vec<&Observation>]) -> Vec<ClaimResult> {
    let result = |claim: &registry::Claim| {
        let count = runs.first().map_or(0, Vec::len);
        let value = |seeds: std::ops::Range<usize>| {
            claim.value(|ask| metrics::answer(ask, &runs[figure.run(&ask.run)?][seeds.clone()]))
        };
        let measured = value(0..count);
        let each: Vec<f64> = (0..count).filter_map(|i| value(i..i + 1)).collect();
        let verdict = claim.verdict(measured);
        let mut why = format!("Tolerance: {}.", claim.tolerance);
        if measured.is_none() {
            why = "A run gave no answer.".to_owned();
        } else if verdict != Verdict::Reproduced && !claim.note.is_empty() {
            why = format!("{why} {}", claim.note);
        }
        ClaimResult {
            paper: paper.name.clone(),
            figure: figure.name.clone(),
            claim: claim.name.clone(),
            text: claim.text.clone(),
            paper_value: claim.paper,
            measured,
            unit: claim.unit.clone(),
            verdict,
            why,
            seeds: (
                count as u64,
                each.iter().copied().reduce(f64::min),
                each.iter().copied().reduce(f64::max),
            ),
        }
    };
    figure.claims.iter().map(result).collect()
}

impl Reproduction {
    /// Whether every claim is reproduced, or at least points the paper's way.
    pub fn holds(&self) -> bool {
        self.claims.iter().all(|claim| claim.verdict != Verdict::Deviates)
    }

    /// The claims as a document in Markdown.
    pub fn document(&self) -> String {
        document::markdown(self)
    }
}
