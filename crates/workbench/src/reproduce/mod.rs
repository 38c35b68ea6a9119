//! The figures and claims of papers: run, measured, drawn, and judged.
//!
//! Everything that is particular to a paper is data: a figure is a scenario file and a file of the
//! registry. A run is made once for everything that asks about it, with the measures that this
//! needs, and kept in a cache by its content.

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
use tidegate_scenario::Plan;

pub use claims::{ClaimResult, Count, Counts, Seeds};
pub use document::DERIVED;
pub(crate) use document::{digits, measured, paper_value, values, with_unit};
pub use registry::Verdict;

use crate::cache::{Cache, Recording};
use crate::compare::in_parallel;
use crate::markdown::wrapped;
use crate::observe::{Control, Left, Measure, Observations, adapt, drive};
use crate::report::plot::Plot;
#[cfg(target_os = "linux")]
use crate::testbed;
use crate::{Error, machine};
use judge::{Measured, Varied};
use record::Record;
use registry::{Choice, Claim, Figure, Model, Paper, Run, SEEDS, Singles};
pub use sensitivity::{Alternative, Sensitivity};

/// How far the work is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step<'a> {
    /// Runs that are done.
    pub done: usize,
    /// Of so many.
    pub all: usize,
    /// About this share of the work, which runs that were kept from before are none of.
    pub share: f64,
    /// The run that was done last.
    pub name: &'a str,
}

/// Hears of every run that is done, from the thread that did it.
pub type StepListener<'a> = &'a (dyn Fn(&Step<'_>) + Sync);

/// What is going to be done, before it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Runs in all.
    pub runs: usize,
    /// Of these, made before and kept.
    pub kept: usize,
    /// What the others take together, in CPU seconds of one core of the machine on which that was
    /// measured: a paper's runs are taken to cost alike for each simulated second of a host.
    pub cpu_s: f64,
    /// What those of real packets take, one after the other, by the clock: it is slowed down for
    /// them.
    pub clock_s: f64,
    /// The others are made on so many threads.
    pub threads: usize,
}

impl Forecast {
    /// What all takes by the clock.
    pub fn seconds(&self) -> f64 {
        self.cpu_s / self.threads as f64 + self.clock_s
    }
}

/// How to reproduce.
#[derive(Clone, Copy, Default)]
pub struct ReproduceOptions<'a> {
    /// One seed each.
    pub quick: bool,
    /// Everything again for each alternative to what a paper leaves open.
    pub sensitivity: bool,
    /// At most so many threads; `None`: as many as there are cores.
    pub threads: Option<usize>,
    /// Runs that were made before are looked for here, and new ones are kept.
    pub cache: Option<&'a Path>,
    /// What becomes a host of a testbed, for runs of real packets.
    pub host: Option<&'a Path>,
    /// Told what is going to be done.
    pub forecast: Option<&'a (dyn Fn(&Forecast) + Sync)>,
    /// Told of every run that is done.
    pub progress: Option<StepListener<'a>>,
    /// Set from elsewhere, it ends the work with [`Error::Interrupted`].
    pub interrupted: Option<&'a AtomicBool>,
}

impl ReproduceOptions<'_> {
    fn is_interrupted(&self) -> bool {
        self.interrupted.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
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

/// A picture.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Name of a file, without extension.
    pub name: String,
    /// What it shows.
    pub plot: Plot,
}

/// What a reader of a paper's claims has to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PaperText {
    /// The paper's name.
    pub paper: String,
    /// As people write it.
    pub title: String,
    /// About all of its figures, in Markdown.
    pub about: String,
    /// What changed since their claims were written, in Markdown; said where there are several.
    #[serde(default)]
    pub history: String,
    /// Its figures, in order.
    pub figures: Vec<FigureText>,
}

impl PaperText {
    /// What stands before its figures, in Markdown. A reader of one figure is spared the history of
    /// the others.
    pub(crate) fn opening(&self) -> String {
        match self.figures.len() {
            0 | 1 => self.about.clone(),
            _ => format!("{}\n\n{}", self.about, self.history).trim_end().to_owned(),
        }
    }
}

/// What a paper's claims measured under every alternative.
#[derive(Clone, Debug)]
pub struct PaperRecord {
    /// The paper's name.
    pub paper: String,
    /// A file.
    pub json: String,
}

/// A figure but for its claims.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FigureText {
    /// The paper's number.
    pub figure: String,
    /// What it shows.
    pub title: String,
    /// What there is to say beside its claims: paragraphs.
    pub said: Vec<String>,
    /// Names of its pictures.
    pub pictures: Vec<String>,
}

/// Names of what [`Reproduction::documents`] gives.
pub(crate) const DOCUMENTS: [&str; 2] = ["reproduction.md", "sensitivity.md"];

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Reproduction {
    /// Every claim.
    pub claims: Vec<ClaimResult>,
    /// Papers and their figures.
    pub papers: Vec<PaperText>,
    /// Every plot.
    pub pictures: Vec<Picture>,
    /// How the claims move with what the papers leave open, by the paper's title; empty unless
    /// asked for.
    pub sensitivity: Vec<(String, Vec<Sensitivity>)>,
    /// With `--quick`.
    pub quick: bool,
    /// What claims measured under every alternative, as kept for runs that do not vary.
    pub records: Vec<PaperRecord>,
}

/// All figures of `selection`: everything but those of real packets, a paper, or `paper/figure`.
///
/// # Errors
/// When there is no such paper or figure.
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
        paper.ok_or_else(|| usage(format!("there is no paper `{name}`; there are {known}")))?;
    let is_meant = |figure: &&Figure| number.is_none_or(|number| figure.is_meant(number));
    let figures: Vec<_> =
        paper.figures.iter().filter(is_meant).map(|figure| (paper, figure)).collect();
    if figures.is_empty() {
        let known =
            paper.figures.iter().map(|figure| figure.name.as_str()).collect::<Vec<_>>().join(", ");
        let number = number.unwrap_or_default();
        return Err(usage(format!("{name} has no figure `{number}` here; there are {known}")));
    }
    Ok(figures)
}

/// One run that has to be made.
struct Job {
    work: Work,
    recording: Recording,
    name: String,
    /// What it takes, about: of a core, or by the clock where packets are real.
    seconds: f64,
}

/// What is done for it.
enum Work {
    /// Packets are simulated.
    Packets(Box<Plan>),
    /// A model is followed.
    Model(Model),
}

/// Reproduces `selection`.
///
/// # Errors
/// When there is no such paper or figure, or a run fails.
pub fn reproduce(
    selection: Option<&str>,
    options: &ReproduceOptions<'_>,
) -> Result<Reproduction, Error> {
    let papers = registry::papers(options.quick)?;
    let figures = selected(&papers, selection)?;
    let mut jobs = Jobs::default();
    let mut wanted = Vec::new();
    for &(paper, figure) in &figures {
        if options.is_interrupted() {
            return Err(Error::Interrupted);
        }
        let base = jobs.want(paper, figure, options.quick, None)?;
        let choices = paper.choices().filter(|_| options.sensitivity);
        let others = choices
            .map(|choice| Ok((choice, jobs.want(paper, figure, options.quick, Some(choice))?)));
        wanted.push((base, others.collect::<Result<Vec<_>, Error>>()?));
    }
    let forecast = forecast(&jobs.jobs, options);
    if let Some(tell) = options.forecast {
        tell(&forecast);
    }
    let seen = make(&jobs.jobs, &forecast, options)?;
    let mut result = Reproduction { quick: options.quick, ..Reproduction::default() };
    let (mut record, mut fresh) = (Record::default(), Record::default());
    for (&(paper, figure), (base, others)) in figures.iter().zip(wanted) {
        let observed = |wanted: &[Vec<usize>]| -> Vec<Vec<&Observations>> {
            wanted.iter().map(|seeds| seeds.iter().map(|&i| &seen[i]).collect()).collect()
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
            result.papers.push(PaperText {
                paper: paper.name.clone(),
                title: paper.title.clone(),
                about: paper.about.trim().to_owned(),
                history: paper.history.trim().to_owned(),
                figures: Vec::new(),
            });
            result
                .sensitivity
                .extend(options.sensitivity.then(|| (paper.title.clone(), sensitivity::of(paper))));
        }
        let runs = observed(&base);
        let others: Vec<(Choice, Vec<Vec<&Observations>>)> =
            others.iter().map(|(choice, wanted)| (*choice, observed(wanted))).collect();
        let plans = record::plans(paper, figure)?;
        for claim in &figure.claims {
            let key = |choice, seeds| record::key(paper, figure, claim, choice, &plans, seeds);
            let chosen = measure(figure, claim, &runs);
            if !options.quick {
                fresh.put(key(None, SEEDS).unwrap_or_default(), chosen);
            }
            let mut varied: Vec<Varied> = Vec::new();
            for choice in paper.choices() {
                // An alternative that changes none of the claim's runs is none.
                let Some(kept) = key(Some(choice), 1) else { continue };
                let measured = match others.iter().find(|(other, _)| *other == choice) {
                    Some((_, runs)) => Some(measure(figure, claim, runs)),
                    None => record.get(&kept),
                };
                if let Some(measured) = measured.filter(|_| options.sensitivity && !options.quick) {
                    fresh.put(kept, measured);
                }
                varied.push((paper.choice_name(choice), measured));
            }
            let mut seeds = chosen.seeds;
            if !figure.has_chance(claim) || claim.control.is_none() {
                // There is one solution, whatever the seed; or one run of another simulator, beside
                // which ours may be without chance, too.
                seeds = SEEDS;
            } else if options.quick {
                // One seed stands for as many as were tried.
                let several = key(None, SEEDS).and_then(|key| record.get(&key));
                seeds = several.map_or(seeds, |several| several.seeds);
                varied.push((format!("{SEEDS} seeds"), several));
            }
            let singles = claim.singles(|ask, run| figure.answer(ask, run, |run| &runs[run]));
            let claimed = told(paper, figure, claim, &chosen, &varied, seeds, singles);
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
        let about = Some(figure.about.trim().to_owned()).filter(|about| !about.is_empty());
        if let Some(text) = result.papers.last_mut() {
            text.figures.push(FigureText {
                figure: figure.name.clone(),
                title: figure.title.clone(),
                said: about
                    .into_iter()
                    .chain(facts(figure, &runs))
                    .chain(figure.tables.iter().map(|of| of.markdown(figure, |run| &runs[run])))
                    .collect(),
                pictures: pictures.iter().map(|picture| picture.name.clone()).collect(),
            });
        }
        result.pictures.extend(pictures);
    }
    Ok(result)
}

/// Runs to be made: the same plan, looked at in the same intervals, is run once for all who ask.
#[derive(Default)]
struct Jobs {
    jobs: Vec<Job>,
    /// By hash of the plan, interval, and whether packets are real; by what the registry says of a
    /// model.
    known: BTreeMap<(String, Option<Span>, bool), usize>,
}

impl Jobs {
    /// The numbers of a figure's runs, each with all its seeds.
    fn want(
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
                    // What no claim asks about is drawn as chosen.
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

/// What a figure has to say beside its claims.
fn facts(figure: &Figure, runs: &[Vec<&Observations>]) -> impl Iterator<Item = String> {
    figure.facts.iter().map(|fact| {
        let value = |i: usize| {
            let run = fact.measure.run(i)?;
            let value = match figure.estimate(&fact.measure, run, |run| &runs[run]) {
                Some(value) => format!("{value} {}", fact.unit),
                None => "none".to_owned(),
            };
            Some(format!("{run} {}", value.trim_end()))
        };
        let values: Vec<String> = (0..fact.measure.runs.len()).filter_map(value).collect();
        format!("{}: {}.", fact.text, values.join("; "))
    })
}

fn threads(options: &ReproduceOptions<'_>) -> usize {
    options.threads.or_else(machine::cores).unwrap_or(1).max(1)
}

fn forecast(jobs: &[Job], options: &ReproduceOptions<'_>) -> Forecast {
    let cache = Cache::new(options.cache);
    let is_kept = |job: &&Job| match &job.work {
        Work::Packets(plan) => cache.has(plan, &job.recording),
        Work::Model(_) => false,
    };
    let left: Vec<&Job> = jobs.iter().filter(|job| !is_kept(job)).collect();
    let seconds = |real: bool| {
        let those = left.iter().filter(|job| job.recording.real == real);
        those.map(|job| job.seconds).sum()
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
    // How many runs are done, and what those of them took that had to be made.
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
                            return acted_out(plan, measures, options);
                        }
                        let control = Control {
                            partitions: None,
                            threads,
                            ranks: None,
                            asks: &is_interrupted,
                            tell: &|_| {},
                            chunk: &adapt,
                        };
                        drive(plan, measures, &control)
                    })?
                }
            },
        };
        if let Some(tell) = options.progress {
            let mut state = state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            state.0 += 1;
            state.1 += spent;
            let (done, all) = (state.0, jobs.len());
            let of_runs = done as f64 / all as f64;
            let expected = forecast.seconds();
            let share = if expected > 0.0 { state.1 / expected } else { of_runs };
            tell(&Step { done, all, share: share.min(1.0), name });
        }
        Ok(seen)
    };
    // Real packets go by clocks: nothing runs beside them.
    let is_real = |i: &usize| jobs[*i].recording.real;
    let (real, simulated): (Vec<usize>, Vec<usize>) = (0..jobs.len()).partition(is_real);
    let first = in_parallel(simulated.len(), threads(options), |n, all| one(simulated[n], all));
    let then = in_parallel(real.len(), 1, |n, all| one(real[n], all));
    let mut seen: Vec<_> =
        simulated.into_iter().zip(first).chain(real.into_iter().zip(then)).collect();
    seen.sort_by_key(|(i, _)| *i);
    seen.into_iter().map(|(_, seen)| seen).collect()
}

/// What a run of real packets takes by the clock.
#[cfg(target_os = "linux")]
fn clock_s(plan: &Plan) -> Result<f64, Error> {
    let dilation = testbed::usual_dilation(plan)?;
    Ok(f64::from(dilation) * plan.duration.since(Time::ZERO).as_s_f64())
}

#[cfg(not(target_os = "linux"))]
fn clock_s(_: &Plan) -> Result<f64, Error> {
    Ok(0.0)
}

/// A run of real packets.
#[cfg(target_os = "linux")]
fn acted_out(
    plan: &Plan,
    measures: Vec<Box<dyn Measure>>,
    options: &ReproduceOptions<'_>,
) -> Result<Left, Error> {
    let Some(program) = options.host else {
        let message = "real packets need processes, which only the command starts";
        return Err(Error::Run(message.to_owned()));
    };
    let dilation = testbed::usual_dilation(plan)?;
    let asks = || options.is_interrupted();
    let control = testbed::Control { program, dilation, asks: &asks, tell: &|_| {} };
    let left = testbed::act(plan, measures, &control)?;
    // What a busy machine has measured is no value. Runs that were kept need not be made again.
    match left.real.as_ref().and_then(tidegate_results::RealSummary::warning) {
        Some(warning) => Err(Error::Run(format!("{}: {warning}", plan.name))),
        None => Ok(left),
    }
}

#[cfg(not(target_os = "linux"))]
fn acted_out(
    plan: &Plan,
    _: Vec<Box<dyn Measure>>,
    _: &ReproduceOptions<'_>,
) -> Result<Left, Error> {
    Err(Error::Run(format!("{}: real packets need Linux", plan.name)))
}

/// A claim's value over all seeds and over each.
fn measure(figure: &Figure, claim: &Claim, runs: &[Vec<&Observations>]) -> Measured {
    let count = runs.first().map_or(0, Vec::len);
    let value = |seeds: std::ops::Range<usize>| {
        claim.value(|ask, run| figure.answer(ask, run, |run| &runs[run][seeds.clone()]))
    };
    let each: Option<Vec<f64>> = (0..count).map(|seed| value(seed..seed + 1)).collect();
    let least = |pick: fn(f64, f64) -> f64| each.as_ref()?.iter().copied().reduce(pick);
    // Seeds that change nothing are one.
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

/// A claim and how it fared: measured with so many different seeds.
fn told(
    paper: &Paper,
    figure: &Figure,
    claim: &Claim,
    chosen: &Measured,
    varied: &[Varied],
    seeds: u64,
    Singles { counted, all, range }: Singles,
) -> ClaimResult {
    let (verdict, hangs) = judge::judge(claim, chosen, varied, seeds);
    let no_answer = if chosen.value.is_none() { "A run gave no answer." } else { "" };
    let some = match range {
        Some((least, most)) if all > 1 && chosen.value.is_some() => {
            let whole = if counted == all { String::new() } else { format!(" of {all}") };
            format!("Of {counted}{whole}: {} to {}.", digits(least), digits(most))
        }
        _ => String::new(),
    };
    let tolerance = format!("Tolerance: {}.", claim.tolerance);
    let said = [&tolerance, no_answer, &some, &hangs, &claim.note];
    let said: Vec<&str> = said.into_iter().map(str::trim).filter(|said| !said.is_empty()).collect();
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
        why: said.join(" "),
        seeds: Seeds { count: chosen.seeds, least, most },
    }
}

impl Reproduction {
    /// Whether no claim deviates.
    pub fn holds(&self) -> bool {
        self.claims.iter().all(|claim| claim.verdict != Verdict::Deviates)
    }

    /// How the claims came out. Several readings or parts of one sentence count once.
    pub fn counts(&self) -> Counts {
        Counts::of(&self.claims)
    }

    /// Documents in Markdown, each with a name: the claims, and how they move where that was asked
    /// for.
    pub fn documents(&self) -> Vec<(&'static str, String)> {
        let claims = (DOCUMENTS[0], wrapped(&document::markdown(self)));
        let moves = (!self.sensitivity.is_empty())
            .then(|| (DOCUMENTS[1], wrapped(&sensitivity::markdown(self))));
        std::iter::once(claims).chain(moves).collect()
    }
}
