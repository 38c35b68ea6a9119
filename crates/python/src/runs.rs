//! Runs, comparisons and reproductions.

use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::prelude::*;
use serde::Serialize;
use tidegate_workbench::{
    self as workbench, Capture, Error, Portable, Progress, ReproduceOptions, RunOptions, Source,
    Step,
};

use crate::arguments::{Scenario, Threads, changes, json, seed_list, toml};
use crate::attend::{Watch, attended};
use crate::errors::raised;
use crate::table::Table;

/// Options of a run: threads, folder for results, and whether to replace existing ones.
type How = (Threads, Option<PathBuf>, bool);

/// Tables of runs without a folder, with the number of their run and their name.
type Tables = Vec<(usize, &'static str, Table)>;

/// Information about a scenario before a run.
#[derive(Serialize)]
struct Loaded<'a> {
    name: &'a str,
    seed: u64,
    hash: String,
    warnings: &'a [String],
    ineffective: Vec<Ineffective<'a>>,
    resolved: serde_json::Value,
}

/// A parameter without effect in a scenario.
#[derive(Serialize)]
struct Ineffective<'a> {
    parameter: &'a str,
    depends_on: Option<&'a str>,
    reason: &'a str,
}

/// Loads a scenario and returns information about it, as JSON.
#[pyfunction]
pub(crate) fn load(
    py: Python<'_>,
    scenario: Scenario,
    set: Vec<String>,
    seed: Option<u64>,
) -> PyResult<String> {
    let scenario = Source::from(scenario);
    let plan = py.detach(|| workbench::load(scenario, &changes(&set, seed)?)).map_err(raised)?;
    let (name, warnings) = (plan.name.as_str(), plan.warnings.as_slice());
    let (hash, resolved) = (workbench::content_hash(&plan), workbench::resolved(&plan));
    let ineffective = plan.ineffective.iter().map(|of| Ineffective {
        parameter: of.parameter,
        depends_on: of.depends_on,
        reason: &of.reason,
    });
    let ineffective = ineffective.collect();
    json(&Loaded { name, seed: plan.seed, hash, warnings, ineffective, resolved })
}

/// A warning if the ideal completion times of messages differ between variants of a scenario.
#[pyfunction]
pub(crate) fn ideal_paths_warning(
    py: Python<'_>,
    scenario: Scenario,
    sets: Vec<Vec<String>>,
) -> PyResult<Option<String>> {
    let scenario = Source::from(scenario);
    let plan = |set: &Vec<String>| workbench::load(scenario.clone(), &changes(set, None)?);
    let warning = || {
        let plans = sets.iter().map(plan).collect::<Result<Vec<_>, Error>>()?;
        Ok(workbench::ideal_paths_warning(plans.iter()))
    };
    py.detach(warning).map_err(raised)
}

/// Loads a scenario; returns it as TOML with names of files in `folder`, beside it, and the new
/// name and the original of each file.
#[pyfunction]
pub(crate) fn portable(
    py: Python<'_>,
    scenario: Scenario,
    set: Vec<String>,
    folder: String,
) -> PyResult<(String, Vec<(String, PathBuf)>)> {
    let scenario = Source::from(scenario);
    let plan = py.detach(|| workbench::load(scenario, &changes(&set, None)?)).map_err(raised)?;
    let Portable { scenario, files } = workbench::portable(&plan, &folder);
    Ok((toml(&scenario)?, files.into_iter().collect()))
}

/// Runs `job` with options that report progress; returns its result and the tables of its runs.
fn observed<T: Send>(
    py: Python<'_>,
    runs: usize,
    ((threads, partitions), out, force): &How,
    progress: Option<&Bound<'_, PyAny>>,
    job: impl FnOnce(&RunOptions<'_>) -> Result<T, Error> + Send,
) -> PyResult<(T, Tables)> {
    let tables = Mutex::new(Tables::new());
    let take = |number: usize, all: Vec<(&'static str, Vec<u8>)>| {
        let all = all.into_iter().map(|(name, bytes)| (number, name, Table::from(bytes)));
        tables.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).extend(all);
    };
    let done = attended(py, progress, |watch: &Watch| {
        watch.begin(runs);
        let update = |number: usize, progress: &Progress| watch.update(number, progress);
        job(&RunOptions {
            out: out.as_deref(),
            force: *force,
            threads: *threads,
            partitions: *partitions,
            tables: Some(&take),
            progress: Some(&update),
            interrupted: Some(&watch.interrupted),
            ..RunOptions::default()
        })
    })?;
    Ok((done, tables.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())))
}

/// Runs a scenario; returns its summary as JSON, and its tables.
#[pyfunction]
pub(crate) fn run(
    py: Python<'_>,
    scenario: Scenario,
    set: Vec<String>,
    seed: Option<u64>,
    how: How,
    pcap: Option<(PathBuf, Vec<String>)>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<(String, Tables)> {
    let scenario = Source::from(scenario);
    let (summary, tables) = observed(py, 1, &how, progress.as_ref(), |options| {
        let plan = workbench::load(scenario, &changes(&set, seed)?)?;
        let capture = pcap.as_ref().map(|(file, of)| Capture { file, of });
        workbench::run(&plan, &RunOptions { capture, ..*options })
    })?;
    Ok((json(&summary)?, tables))
}

/// Runs a scenario under several protocols; returns the comparison as JSON, warnings, and tables.
#[pyfunction]
pub(crate) fn compare(
    py: Python<'_>,
    scenario: Scenario,
    protocols: Vec<String>,
    set: Vec<String>,
    seed: Option<u64>,
    how: How,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<(String, Vec<String>, Tables)> {
    let scenario = Source::from(scenario);
    let (comparison, tables) = observed(py, protocols.len(), &how, progress.as_ref(), |options| {
        workbench::compare(scenario, &changes(&set, seed)?, &protocols, options)
    })?;
    Ok((json(&comparison)?, comparison.all_warnings(), tables))
}

/// Runs a scenario under several seeds, and under several protocols if given; returns the aggregate
/// as JSON.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "Python names them")]
pub(crate) fn run_seeds(
    py: Python<'_>,
    scenario: Scenario,
    protocols: Option<Vec<String>>,
    baseline: Option<String>,
    set: Vec<String>,
    seeds: String,
    how: How,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let scenario = Source::from(scenario);
    let seeds = seed_list(&seeds).map_err(raised)?;
    let runs = seeds.seeds().len() * protocols.as_ref().map_or(1, Vec::len);
    let (aggregate, _) = observed(py, runs, &how, progress.as_ref(), |options| {
        // Rows of individual seeds are kept only in folders.
        let options = RunOptions { tables: None, ..*options };
        let (protocols, baseline) = (protocols.as_deref(), baseline.as_deref());
        workbench::run_seeds(scenario, &changes(&set, None)?, protocols, baseline, &seeds, &options)
    })?;
    json(&aggregate)
}

/// Figures and their claims, as JSON.
#[pyfunction]
pub(crate) fn figures(what: Option<String>) -> PyResult<String> {
    json(&workbench::figures(what.as_deref()).map_err(raised)?)
}

/// Reproduces papers; returns all claims with their verdicts, as JSON.
#[pyfunction]
pub(crate) fn reproduce(
    py: Python<'_>,
    what: Option<String>,
    quick: bool,
    sensitivity: bool,
    how: How,
    cache: Option<PathBuf>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    // Reproductions choose partitions themselves.
    let ((threads, _), out, force) = how;
    let result = attended(py, progress.as_ref(), |watch| {
        let out = out.map(|out| workbench::Destination::open(&out, force)).transpose()?;
        let update = |step: &Step<'_>| watch.step(step);
        let result = workbench::reproduce(
            what.as_deref(),
            &ReproduceOptions {
                quick,
                sensitivity,
                threads,
                dilation: None,
                cache: cache.as_deref(),
                host: None,
                controls: None,
                forecast: None,
                progress: Some(&update),
                interrupted: Some(&watch.interrupted),
            },
        )?;
        let files = out.map(|out| out.write(&workbench::reproduction_files(&result)));
        files.transpose()?;
        Ok(result)
    })?;
    json(&result.claims)
}
