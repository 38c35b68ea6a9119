//! Complete sweeps, and individual runs of sweeps.

use std::path::PathBuf;

use pyo3::prelude::*;
use tidegate_workbench::{
    self as workbench, Axis, Design, Error, Mode, Progress, Source, SweepOptions,
};

use crate::arguments::{Scenario, Threads, changes, json, seed_list};
use crate::attend::{Watch, attended};
use crate::errors::raised;
use crate::table::Table;

/// A sweep: a scenario with axes, or a sweep file without axes. In Python it is a dictionary, which
/// can be sent to other processes.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SweepRequest {
    scenario: Scenario,
    vary: Vec<String>,
    zip: bool,
    random: Option<u64>,
    search_seed: u64,
    set: Vec<String>,
    seeds: Option<String>,
    baseline: Option<String>,
}

impl SweepRequest {
    fn design(mut self) -> Result<Design, Error> {
        let baseline = self.baseline.take();
        self.points()?.with_baseline(baseline.as_deref())
    }

    fn points(self) -> Result<Design, Error> {
        let changes = changes(&self.set, None)?;
        let seeds = self.seeds.as_deref().map(seed_list).transpose()?;
        let source = Source::from(self.scenario);
        if self.vary.is_empty() {
            let Source::File(file) = source else {
                let message = "found none, expected a key with values, or a sweep file".to_owned();
                return Err(Error::Usage { option: "--vary", message });
            };
            return Design::load(&file, changes, seeds);
        }
        let axes = self.vary.iter().map(|axis| workbench::vary(axis));
        let axes: Vec<Axis> = axes.collect::<Result<_, Error>>()?;
        let mode = match (self.zip, self.random) {
            (true, Some(_)) => {
                let message = "needs a grid and cannot be combined with zip";
                return Err(Error::Usage { option: "--random", message: message.to_owned() });
            }
            (false, Some(points)) => Mode::Random { points, seed: self.search_seed },
            (true, None) => Mode::Zip,
            (false, None) => Mode::Grid,
        };
        Design::new(source, changes, (&axes, mode), seeds)
    }
}

/// Runs `job` with options that report progress.
fn observed<T: Send>(
    py: Python<'_>,
    request: SweepRequest,
    ((threads, partitions), cache): &(Threads, Option<PathBuf>),
    progress: Option<&Bound<'_, PyAny>>,
    job: impl FnOnce(&Design, &SweepOptions<'_>) -> Result<T, Error> + Send,
) -> PyResult<T> {
    attended(py, progress, |watch: &Watch| {
        let begin = |runs: usize| watch.begin(runs);
        let update = |number: usize, progress: &Progress| watch.update(number, progress);
        let options = SweepOptions {
            resolved: None,
            threads: *threads,
            partitions: *partitions,
            cache: cache.as_deref(),
            begin: Some(&begin),
            progress: Some(&update),
            interrupted: Some(&watch.interrupted),
        };
        job(&request.design()?, &options)
    })
}

/// Runs a sweep; returns `sweep.json`, the number of cached runs, and the table.
#[pyfunction]
pub(crate) fn sweep(
    py: Python<'_>,
    request: SweepRequest,
    how: (Threads, Option<PathBuf>),
    out: Option<PathBuf>,
    force: bool,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<(String, usize, Table)> {
    let (sweep, files) = observed(py, request, &how, progress.as_ref(), |design, options| {
        let out = out.map(|out| workbench::Destination::open(&out, force)).transpose()?;
        let sweep = workbench::sweep(design, options)?;
        let files = sweep.files().map_err(|error| Error::Run(error.to_string()))?;
        out.map(|out| out.write(&files)).transpose()?;
        Ok((sweep, files))
    })?;
    let table = files.into_iter().find(|(name, _)| name == "sweep.parquet");
    let (_, table) = table.unwrap_or_default();
    Ok((json(&sweep)?, sweep.kept, Table::from(table)))
}

/// Estimates the cost of a sweep, as JSON.
#[pyfunction]
pub(crate) fn forecast(
    py: Python<'_>,
    request: SweepRequest,
    how: (Threads, Option<PathBuf>),
) -> PyResult<String> {
    json(&observed(py, request, &how, None, workbench::forecast_sweep)?)
}

/// Numbers of the runs that the cache lacks.
#[pyfunction]
pub(crate) fn missing_runs(
    py: Python<'_>,
    request: SweepRequest,
    how: (Threads, Option<PathBuf>),
) -> PyResult<Vec<usize>> {
    observed(py, request, &how, None, workbench::missing_runs)
}

/// Executes some runs of a sweep, by number, and caches them.
#[pyfunction]
pub(crate) fn make_runs(
    py: Python<'_>,
    request: SweepRequest,
    how: (Threads, Option<PathBuf>),
    runs: Vec<usize>,
) -> PyResult<()> {
    observed(py, request, &how, None, |design, options| {
        workbench::make_runs(design, &runs, options)
    })
}

/// The default cache folder.
#[pyfunction]
pub(crate) fn default_cache() -> Option<PathBuf> {
    workbench::default_cache()
}

/// Checks that a folder can be used as a cache.
#[pyfunction]
pub(crate) fn can_keep(folder: PathBuf) -> PyResult<()> {
    workbench::can_keep(&folder).map_err(raised)
}

/// Identifies the build; runs of different builds are not interchangeable.
#[pyfunction]
pub(crate) fn build() -> &'static str {
    workbench::BUILD
}
