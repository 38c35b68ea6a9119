//! Reproduction of papers: runs their figures, draws them, and judges their claims.
//!
//! Everything specific to a paper is data: each figure is a scenario file and a registry file.
//! Claims and charts that use the same run share it. A run records the measurements that they need,
//! and is cached by its content.

mod claims;
mod document;
mod draw;
mod judge;
mod metrics;
mod phase;
mod record;
mod registry;
mod sensitivity;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use tidegate_core::{Span, Time};
use tidegate_results::{ReproductionInputs, ReproductionManifest};
use tidegate_scenario::Plan;
use tidegate_sim::SEMANTICS;

pub use claims::{ClaimResult, Count, Counts, Seeds};
pub use document::DERIVED;
pub(crate) use document::{Document, Drawn, FIGURES, measured, paper_value, values};
#[cfg(test)]
pub(crate) use document::{image, verdicts};
pub(crate) use record::figure_key;
pub use registry::Verdict;
pub(crate) use registry::{Paper, SEEDS, papers};
use tidegate_runs::destination::DOCUMENTS;
use tidegate_runs::numbers::digits;

use crate::markdown::wrapped;
use crate::plot::Plot;
use judge::{Judgement, Measured, Varied};
use record::Record;
use registry::{Choice, Claim, Fact, Figure, Model, Run, Singles};
pub use sensitivity::{Alternative, Sensitivity};
#[cfg(target_os = "linux")]
use tidegate_live::testbed;
use tidegate_runs::cache::{Cache, Recording};
use tidegate_runs::in_parallel;
use tidegate_runs::observe::{Control, Measure, Observations, RunOutput, adapt, drive};
use tidegate_runs::{Error, machine};

/// Progress of a reproduction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step<'a> {
    /// Finished runs.
    pub done: usize,
    /// All runs.
    pub all: usize,
    /// Approximate share of the work that is done. Cached runs do not count as work.
    pub share: f64,
    /// The run that finished last.
    pub name: &'a str,
}

/// Receives every finished run, on the thread that ran it.
pub type StepListener<'a> = &'a (dyn Fn(&Step<'_>) + Sync);

/// Cost of a reproduction, before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// All runs.
    pub runs: usize,
    /// Runs that are in the cache.
    pub kept: usize,
    /// CPU seconds of the other runs together, on the machine on which costs were measured. All
    /// runs of a paper are assumed to cost the same per simulated second and host.
    pub cpu_s: f64,
    /// Wall-clock seconds of the live UDP runs, one after the other, with dilation.
    pub clock_s: f64,
    /// Threads that make the other runs.
    pub threads: usize,
}

impl Forecast {
    /// Expected wall-clock time of all runs.
    pub fn seconds(&self) -> f64 {
        self.cpu_s / self.threads as f64 + self.clock_s
    }
}

/// Options of a reproduction.
#[derive(Clone, Copy, Default)]
pub struct ReproduceOptions<'a> {
    /// Uses one seed.
    pub quick: bool,
    /// Repeats everything for each alternative of the papers' open values.
    pub sensitivity: bool,
    /// Upper limit of threads; `None`: the number of cores.
    pub threads: Option<usize>,
    /// Folder of cached runs, in which new runs are stored.
    pub cache: Option<&'a Path>,
    /// Program that becomes a host of a testbed, for live UDP runs.
    pub host: Option<&'a Path>,
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
    /// Number of its runs.
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
    /// Tables of measured values without a claim, in Markdown.
    #[serde(default)]
    pub values: Vec<String>,
    /// Names of its pictures.
    pub pictures: Vec<String>,
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
    /// Whether the run used `--quick`.
    pub quick: bool,
    /// Recorded values under every alternative, for runs without `--sensitivity`.
    pub records: Vec<PaperRecord>,
}

/// Lists the figures of `selection`: a paper, `paper/figure`, or all figures without live UDP.
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
    let paper =
        paper.ok_or_else(|| usage(format!("unknown paper `{name}`; expected one of {known}")))?;
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

/// A run to be made.
struct Job {
    work: Work,
    recording: Recording,
    name: String,
    /// Approximate cost: CPU seconds, or wall-clock seconds for live UDP.
    seconds: f64,
}

/// The work of a run.
enum Work {
    /// Simulation of packets.
    Packets(Box<Plan>),
    /// Solution of a model.
    Model(Model),
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
    let mut jobs = Jobs::default();
    let mut requested = Vec::new();
    for &(paper, figure) in &figures {
        if options.is_interrupted() {
            return Err(Error::Interrupted);
        }
        let base = jobs.request(paper, figure, options.quick, None)?;
        let choices = paper.choices().filter(|_| options.sensitivity);
        let others = choices
            .map(|choice| Ok((choice, jobs.request(paper, figure, options.quick, Some(choice))?)));
        requested.push((base, others.collect::<Result<Vec<_>, Error>>()?));
    }
    let forecast = forecast(&jobs.jobs, options);
    if let Some(listener) = options.forecast {
        listener(&forecast);
    }
    let seen = make(&jobs.jobs, &forecast, options)?;
    let mut result = Reproduction { quick: options.quick, ..Reproduction::default() };
    let (mut record, mut fresh) = (Record::default(), Record::default());
    for (&(paper, figure), (base, others)) in figures.iter().zip(requested) {
        let observed = |requested: &[Vec<usize>]| -> Vec<Vec<&Observations>> {
            requested.iter().map(|seeds| seeds.iter().map(|&i| &seen[i]).collect()).collect()
        };
        if result.papers.last().is_none_or(|last| last.paper != paper.name) {
            record = Record::of(&paper.name)?;
            fresh = Record::default();
            for other in &paper.figures {
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
            let key = |choice, seeds| record::key(paper, figure, claim, choice, &plans, seeds);
            let chosen = measure(figure, claim, &runs);
            if !options.quick {
                fresh.put(key(None, SEEDS).unwrap_or_default(), chosen);
            }
            let mut varied: Vec<Varied> = Vec::new();
            for choice in paper.choices() {
                // An alternative that changes none of the claim's runs does not count.
                let Some(kept) = key(Some(choice), 1) else { continue };
                let measured = match others.iter().find(|(other, _)| *other == choice) {
                    Some((_, runs)) => Some(measure(figure, claim, runs)),
                    None => record.get(&kept),
                };
                if let Some(measured) = measured.filter(|_| options.sensitivity && !options.quick) {
                    fresh.put(kept, measured);
                }
                let changes = paper.changes(figure, claim, choice);
                let measured = measured
                    .map(|other| if changes { other } else { chosen.with_control_of(&other) });
                varied.push((paper.choice_name(choice), measured));
            }
            let mut seeds = chosen.seeds;
            if !figure.has_chance(claim) || claim.control.is_none() {
                // A model has one solution for all seeds. A comparison has one run of another
                // simulator, and our run may also be free of chance.
                seeds = SEEDS;
            } else if options.quick {
                // With `--quick`, the recorded number of different seeds is used.
                let several = key(None, SEEDS).and_then(|key| record.get(&key));
                seeds = several.map_or(seeds, |several| several.seeds);
                varied.push((format!("{SEEDS} seeds"), several));
            }
            let singles = claim.singles(|ask, run| figure.answer(ask, run, |run| &runs[run]));
            let claimed = judged(paper, figure, claim, &chosen, &varied, seeds, singles);
            if let Some((_, opens)) = result.sensitivity.last_mut() {
                sensitivity::take(opens, &claimed, claim, |choice| {
                    let runs = &others.iter().find(|(other, _)| *other == choice)?.1;
                    Some(measure(figure, claim, runs))
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
            let tables = figure.tables.iter().map(|of| of.markdown(figure, |run| &runs[run]));
            text.figures.push(FigureText {
                figure: figure.name.clone(),
                title: figure.title.clone(),
                about: figure.about.trim().to_owned(),
                values: facts(figure, &runs).into_iter().chain(tables).collect(),
                pictures: pictures.iter().map(|picture| picture.name.clone()).collect(),
                key,
                semantics: SEMANTICS,
            });
        }
        result.pictures.extend(pictures);
    }
    Ok(result)
}

/// Runs to be made. A plan with equal sampling intervals is run once for all uses.
#[derive(Default)]
struct Jobs {
    jobs: Vec<Job>,
    /// Keys: hash of the plan, interval, and whether the run uses live UDP; for a model, its
    /// source.
    known: BTreeMap<(String, Option<Span>, bool), usize>,
}

impl Jobs {
    /// Indices of a figure's runs, each with all its seeds.
    fn request(
        &mut self,
        paper: &Paper,
        figure: &Figure,
        quick: bool,
        choice: Option<Choice>,
    ) -> Result<Vec<Vec<usize>>, Error> {
        let mut number = |run: &Run, seed| {
            let recording = figure.recording(run);
            let (work, key) = match &run.model {
                Some(model) => (Work::Model(model.clone()), (model.source.clone(), None, false)),
                None => {
                    // Runs that no claim uses are made as chosen.
                    let choice = choice.filter(|_| figure.is_claimed(run));
                    let plan = figure.plan(paper, run, seed, choice)?;
                    let hash = tidegate_scenario::content_hash(&plan);
                    let key = (hash, recording.interval, recording.real);
                    (Work::Packets(Box::new(plan)), key)
                }
            };
            let number = *self.known.entry(key).or_insert(self.jobs.len());
            if let Some(job) = self.jobs.get_mut(number) {
                job.recording.parts.extend(recording.parts);
            } else {
                let name = format!("{}/{} {}", paper.name, figure.name, run.name);
                let seconds = match &work {
                    Work::Packets(plan) if recording.real => clock_s(plan)?,
                    Work::Packets(plan) => paper.cpu_s(plan),
                    Work::Model(_) => 0.0,
                };
                self.jobs.push(Job { work, recording, name, seconds });
            }
            Ok(number)
        };
        let seeds = if quick || choice.is_some() { 1 } else { SEEDS };
        let mut seeds = |run| (1..=seeds).map(|seed| number(run, seed)).collect();
        figure.runs.iter().map(&mut seeds).collect()
    }
}

/// Facts of a figure as tables with a row per run. Facts about the same runs share a table.
fn facts(figure: &Figure, runs: &[Vec<&Observations>]) -> Vec<String> {
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

fn threads(options: &ReproduceOptions<'_>) -> usize {
    options.threads.or_else(machine::cores).unwrap_or(1).max(1)
}

/// Lists the runs of the figures of `selection`, and their cost together. Nothing runs.
///
/// # Errors
/// When the paper or figure does not exist.
pub fn forecast_reproduction(
    selection: Option<&str>,
    options: &ReproduceOptions<'_>,
) -> Result<(Vec<FigureRuns>, Forecast), Error> {
    let papers = registry::papers(options.quick)?;
    let (figures, mut jobs) = (selected(&papers, selection)?, Jobs::default());
    let mut requested = Vec::new();
    for (paper, figure) in figures {
        let choices = paper.choices().filter(|_| options.sensitivity).map(Some);
        let mut own = BTreeSet::new();
        for choice in std::iter::once(None).chain(choices) {
            own.extend(jobs.request(paper, figure, options.quick, choice)?.into_iter().flatten());
        }
        requested.push((paper, figure, own));
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
    Ok((figures, forecast(&jobs.jobs, options)))
}

/// Whether each job is in the cache.
fn kept(jobs: &[Job], options: &ReproduceOptions<'_>) -> Vec<bool> {
    let cache = Cache::new(options.cache);
    let is_kept = |job: &Job| match &job.work {
        Work::Packets(plan) => cache.has(plan, &job.recording),
        Work::Model(_) => false,
    };
    jobs.iter().map(is_kept).collect()
}

fn forecast(jobs: &[Job], options: &ReproduceOptions<'_>) -> Forecast {
    let kept = kept(jobs, options);
    let left: Vec<&Job> = jobs.iter().zip(kept).filter(|(_, is)| !is).map(|(job, _)| job).collect();
    let seconds = |real: bool| {
        let those = left.iter().filter(|job| job.recording.real == real);
        those.map(|job| job.seconds).fold(0.0, |sum, seconds| sum + seconds)
    };
    Forecast {
        runs: jobs.len(),
        kept: jobs.len() - left.len(),
        cpu_s: seconds(false),
        clock_s: seconds(true),
        threads: threads(options),
    }
}

fn make(
    jobs: &[Job],
    forecast: &Forecast,
    options: &ReproduceOptions<'_>,
) -> Result<Vec<Observations>, Error> {
    let cache = Cache::new(options.cache);
    // Number of finished runs, and cost of those that were not cached.
    let state = Mutex::new((0, 0.0));
    let is_interrupted = || options.is_interrupted();
    let one = |i: usize, threads: usize| {
        let Job { work, recording, name, seconds } = &jobs[i];
        // Simulated runs share the threads.
        let threads_each = if recording.real { 1.0 } else { forecast.threads as f64 };
        let mut spent = 0.0;
        let seen = match work {
            Work::Model(model) => {
                model.follow().map_err(|why| Error::Run(format!("{name}: {why}")))?
            }
            Work::Packets(plan) => match cache.get(plan, recording) {
                Some(seen) => seen,
                None => {
                    spent = *seconds / threads_each;
                    cache.make(plan, recording, |measures| {
                        if recording.real {
                            return run_live(plan, measures, options);
                        }
                        let control = Control {
                            partitions: None,
                            threads,
                            ranks: None,
                            is_interrupted: &is_interrupted,
                            progress: &|_| {},
                            chunk: &adapt,
                        };
                        drive(plan, measures, &control)
                    })?
                }
            },
        };
        if let Some(listener) = options.progress {
            let mut state = state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            state.0 += 1;
            state.1 += spent;
            let (done, all) = (state.0, jobs.len());
            let of_runs = done as f64 / all as f64;
            let expected = forecast.seconds();
            let share = if expected > 0.0 { state.1 / expected } else { of_runs };
            listener(&Step { done, all, share: share.min(1.0), name });
        }
        Ok(seen)
    };
    // Live UDP runs depend on clocks: nothing else runs at the same time.
    let is_real = |i: &usize| jobs[*i].recording.real;
    let (real, simulated): (Vec<usize>, Vec<usize>) = (0..jobs.len()).partition(is_real);
    let first = in_parallel(simulated.len(), threads(options), |n, all| one(simulated[n], all));
    let then = in_parallel(real.len(), 1, |n, all| one(real[n], all));
    let mut seen: Vec<_> =
        simulated.into_iter().zip(first).chain(real.into_iter().zip(then)).collect();
    seen.sort_by_key(|(i, _)| *i);
    seen.into_iter().map(|(_, seen)| seen).collect()
}

/// Wall-clock time of a live UDP run.
#[cfg(target_os = "linux")]
fn clock_s(plan: &Plan) -> Result<f64, Error> {
    let dilation = testbed::usual_dilation(plan)?;
    Ok(f64::from(dilation) * plan.duration.since(Time::ZERO).as_s_f64())
}

#[cfg(not(target_os = "linux"))]
fn clock_s(_: &Plan) -> Result<f64, Error> {
    Ok(0.0)
}

/// Makes a live UDP run.
#[cfg(target_os = "linux")]
fn run_live(
    plan: &Plan,
    measures: Vec<Box<dyn Measure>>,
    options: &ReproduceOptions<'_>,
) -> Result<RunOutput, Error> {
    let Some(program) = options.host else {
        let message = "live UDP runs need the binary `tidegate` under this name: it starts one \
                       process per host";
        return Err(Error::Run(message.to_owned()));
    };
    let dilation = testbed::usual_dilation(plan)?;
    let is_interrupted = || options.is_interrupted();
    let control =
        testbed::Control { program, dilation, is_interrupted: &is_interrupted, progress: &|_| {} };
    let output = testbed::emulate(plan, measures, &control)?;
    // Measurements on an overloaded machine are invalid. Cached runs need not be repeated.
    match output.real.as_ref().and_then(tidegate_results::RealSummary::warning) {
        Some(warning) => Err(Error::Run(format!("{}: {warning}", plan.name))),
        None => Ok(output),
    }
}

#[cfg(not(target_os = "linux"))]
fn run_live(
    plan: &Plan,
    _: Vec<Box<dyn Measure>>,
    _: &ReproduceOptions<'_>,
) -> Result<RunOutput, Error> {
    Err(Error::Run(format!("{}: live UDP runs require Linux", plan.name)))
}

/// A claim's value over all seeds, and over each.
fn measure(figure: &Figure, claim: &Claim, runs: &[Vec<&Observations>]) -> Measured {
    let count = runs.first().map_or(0, Vec::len);
    let value = |seeds: std::ops::Range<usize>| {
        claim.value(|ask, run| figure.answer(ask, run, |run| &runs[run][seeds.clone()]))
    };
    let each: Option<Vec<f64>> = (0..count).map(|seed| value(seed..seed + 1)).collect();
    let least = |pick: fn(f64, f64) -> f64| each.as_ref()?.iter().copied().reduce(pick);
    // Seeds with equal runs count once.
    let asked: Vec<usize> = claim.asks().flat_map(|ask| figure.asked(ask)).collect();
    let control = claim.control_value(|ask, run| figure.answer(ask, run, |run| &runs[run]));
    let outcome =
        |seed: usize| asked.iter().map(|&run| &runs[run][seed].digest).collect::<Vec<_>>();
    let different: BTreeSet<Vec<&String>> = (0..count).map(outcome).collect();
    Measured {
        value: value(0..count),
        range: least(f64::min).zip(least(f64::max)),
        seeds: different.len() as u64,
        control,
    }
}

/// The result of a claim that was measured with `seeds` different seeds.
fn judged(
    paper: &Paper,
    figure: &Figure,
    claim: &Claim,
    chosen: &Measured,
    varied: &[Varied],
    seeds: u64,
    Singles { counted, all, range }: Singles,
) -> ClaimResult {
    let Judgement { verdict, short, reasons } = judge::judge(claim, chosen, varied, seeds);
    let no_answer = if chosen.value.is_none() { "A run gave no value." } else { "" };
    let some = match range {
        Some((least, most)) if all > 1 && chosen.value.is_some() => {
            let whole = if counted == all { String::new() } else { format!(" of {all}") };
            format!("Of {counted}{whole}: {} to {}.", digits(least), digits(most))
        }
        _ => String::new(),
    };
    let tolerance = format!("Tolerance: {}.", claim.tolerance);
    let sentences = [&tolerance, no_answer, &some, &reasons, &claim.note];
    let sentences: Vec<&str> =
        sentences.into_iter().map(str::trim).filter(|text| !text.is_empty()).collect();
    let (least, most) = chosen.range.unzip();
    let sentence = claim.reading_of.as_ref().or(claim.part_of.as_ref());
    ClaimResult {
        paper: paper.name.clone(),
        figure: figure.name.clone(),
        claim: claim.name.clone(),
        sentence: sentence.unwrap_or(&claim.name).clone(),
        is_part: claim.part_of.is_some(),
        text: claim.text.clone(),
        paper_value: claim.paper,
        derived: claim.derived,
        measured: chosen.value,
        unit: claim.unit.clone(),
        verdict,
        as_chosen: chosen.verdict(claim),
        short,
        why: sentences.join(" "),
        is_headline: claim.headline,
        seeds: Seeds { count: chosen.seeds, least, most },
    }
}

impl Reproduction {
    /// Whether no claim deviates.
    pub fn holds(&self) -> bool {
        self.claims.iter().all(|claim| claim.verdict != Verdict::Deviates)
    }

    /// Totals of the verdicts. Several readings or parts of one sentence count once.
    pub fn counts(&self) -> Counts {
        Counts::of(&self.claims)
    }

    /// Markdown documents by name: the claims, and, if requested, their sensitivity.
    pub fn documents(&self) -> Vec<(&'static str, String)> {
        let quick = if self.quick { " --quick" } else { "" };
        let vary = if self.sensitivity.is_empty() { "" } else { " --sensitivity" };
        let document = Document {
            command: format!("tidegate reproduce{vary}{quick} --out DIR"),
            seeds: if self.quick { 1 } else { SEEDS },
            papers: &self.papers,
            claims: &self.claims,
            drawn: None,
        };
        let claims = (DOCUMENTS[0], wrapped(&document.markdown()));
        let moves = (!self.sensitivity.is_empty())
            .then(|| (DOCUMENTS[1], wrapped(&sensitivity::markdown(self))));
        std::iter::once(claims).chain(moves).collect()
    }
}
