//! Sweeps: one scenario at several points (values of keys) and seeds. Every run is cached, so that
//! none is repeated.

mod demand;
mod design;
mod forecast;
mod patch;
mod table;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde_json::Value as Json;
use tidegate_results::SweepManifest;
use tidegate_scenario::content_hash;
use tidegate_scenario::sweep::FAILURE;

pub use design::Design;
pub use forecast::{
    Bound, SweepForecast, forecast_capture, forecast_packets, forecast_runs, forecast_seconds,
    forecast_sweep,
};

use crate::aggregated::{Aggregated, aggregated};
use crate::cache::{Cache, Recording};
use crate::compare::in_parallel;
use crate::ideal_paths::ideal_paths_warning;
use crate::observe::{Control, Measurement, Observations, adapt, drive};
use crate::paired::{self, Candidate};
use crate::readings::{Reading, readings};
use crate::resolution::resolution;
use crate::seeds::is_fixed;
use crate::warnings::gathered;
use crate::{Error, Notice, ProgressListener, SeedList, machine};

/// The key whose values are compared with the baseline.
const PROTOCOL: &str = "transport.protocol";

/// Options of a sweep.
#[derive(Clone, Copy, Default)]
pub struct SweepOptions<'a> {
    /// Upper limit of threads; `None`: the number of cores.
    pub threads: Option<usize>,
    /// Number of partitions of each run, as in
    /// [`RunOptions::partitions`](crate::RunOptions::partitions).
    pub partitions: Option<usize>,
    /// Folder of cached runs, in which new runs are stored.
    pub cache: Option<&'a Path>,
    /// Receives the number of runs to make.
    pub begin: Option<&'a (dyn Fn(usize) + Sync)>,
    /// Receives the state of each run periodically.
    pub progress: Option<ProgressListener<'a>>,
    /// Receives the resolved scenario of the first point before anything runs.
    pub resolved: Option<Notice<'a>>,
    /// A flag that ends the sweep with [`Error::Interrupted`] when another thread sets it.
    pub interrupted: Option<&'a AtomicBool>,
}

impl SweepOptions<'_> {
    fn is_interrupted(&self) -> bool {
        self.interrupted.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    fn threads(&self) -> usize {
        self.threads.or_else(machine::cores).unwrap_or(1).max(1)
    }
}

/// Result of a sweep: the content of `sweep.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Sweep {
    /// Version of this schema.
    pub schema: u32,
    /// Name of the scenario.
    pub name: String,
    /// The keys that vary.
    pub keys: Vec<String>,
    /// The seeds of every point.
    pub seeds: Vec<u64>,
    /// The protocol that others are compared with; null if no protocol varies.
    pub baseline: Option<String>,
    /// Things that are allowed but probably not intended: each once, with the first run that has it
    /// and the number of others.
    pub warnings: Vec<String>,
    /// Every point, in the order of the design.
    pub points: Vec<SweepPoint>,
    /// Runs that failed. None of their measurements are included.
    pub failed: Vec<FailedRun>,
    /// Number of runs that were cached.
    #[serde(skip)]
    pub kept: usize,
    /// The inputs: the content of `manifest.json`.
    #[serde(skip)]
    manifest: SweepManifest,
    /// Measurements of each run, point by point, seed by seed; `None` for failed runs.
    #[serde(skip)]
    runs: Vec<Found>,
}

/// A point of a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct SweepPoint {
    /// The value of each key, in the order of keys; numbers as numbers.
    pub values: Vec<Json>,
    /// Number of ordered pairs of hosts without a path during the failure of this point; absent if
    /// there are none.
    #[serde(skip_serializing_if = "is_zero")]
    pub unreachable_pairs: u64,
    /// Metrics of its runs, over the seeds.
    pub metrics: Vec<Aggregated>,
}

/// A run that failed.
#[derive(Clone, Debug, Serialize)]
pub struct FailedRun {
    /// The value of each key.
    pub values: Vec<Json>,
    /// Its seed.
    pub seed: u64,
    /// The reason.
    pub why: String,
}

/// Measurements of a run.
#[derive(Clone, Debug, Default)]
struct Known {
    readings: Vec<Reading>,
    warnings: Vec<String>,
}

/// A run looked up in the cache.
type Found = Option<Known>;

impl Design {
    /// Reports the resolved scenario of the first point.
    ///
    /// # Errors
    /// When it is invalid.
    pub fn report_resolved(&self, notice: Notice<'_>) -> Result<(), Error> {
        let (seeds, name) = self.seeds()?;
        let plan = self.plan(0, Some(seeds.seeds()[0]))?;
        resolution(&[(&name, &plan)]).iter().for_each(|line| notice(line));
        Ok(())
    }
}

/// Makes the missing runs of a sweep, several at a time.
///
/// # Errors
/// When the scenario is invalid at any point: then nothing runs. When all runs fail: the first
/// failure. If only some fail, the result lists them.
pub fn sweep(design: &Design, options: &SweepOptions<'_>) -> Result<Sweep, Error> {
    let (seeds, name) = design.seeds()?;
    let found = found(design, &seeds, options)?;
    if let Some(notice) = options.resolved {
        design.report_resolved(notice)?;
    }
    let missing = missing(&found);
    let made = make(design, &missing, &seeds, options);
    let kept = found.len() - missing.len();
    let mut runs = found;
    let (mut failed, mut first) = (Vec::new(), None);
    for (place_of, result) in missing.into_iter().zip(made) {
        match result {
            Ok(known) => runs[place_of] = Some(known),
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => {
                let (point, seed) = place(place_of, &seeds);
                let values = design.points[point].clone();
                failed.push(FailedRun { values, seed, why: error.to_string() });
                first = first.or(Some(error));
            }
        }
    }
    if let Some(error) = first.filter(|_| failed.len() == runs.len()) {
        return Err(error);
    }
    let apart = unreachable_pairs(design)?;
    let of_point = |((values, &unreachable_pairs), runs): ((&Vec<Json>, &u64), &[Found])| {
        let readings = runs.iter().map(|run| run.clone().unwrap_or_default().readings);
        let metrics = aggregated(&readings.collect::<Vec<_>>());
        SweepPoint { values: values.clone(), unreachable_pairs, metrics }
    };
    let points = design.points.iter().zip(&apart).zip(runs.chunks(seeds.seeds().len()));
    let mut points: Vec<SweepPoint> = points.map(of_point).collect();
    let keys = design.keys.clone();
    let baseline = design.baseline.clone();
    compare(&keys, &mut points, baseline.as_deref());
    let mut warnings: Vec<String> = unlike_ideals(design)?.into_iter().collect();
    warnings.extend(of_runs(&keys, &points, seeds.seeds(), &runs));
    let manifest = design.manifest(&seeds)?;
    let (schema, seeds) = (Sweep::SCHEMA, seeds.seeds().to_vec());
    Ok(Sweep {
        schema,
        name,
        keys,
        seeds,
        baseline,
        warnings,
        points,
        failed,
        kept,
        manifest,
        runs,
    })
}

/// The number of pairs of hosts that each point's failure leaves without a path.
fn unreachable_pairs(design: &Design) -> Result<Vec<u64>, Error> {
    if !design.varies(FAILURE) {
        return Ok(vec![0; design.points.len()]);
    }
    let apart = |point| Ok(tidegate_scenario::unreachable_pairs(&design.plan(point, None)?));
    (0..design.points.len()).map(apart).collect()
}

/// The warnings of a sweep that are known before its runs. Each point has those of its first seed.
///
/// # Errors
/// When the scenario is invalid at any point.
pub fn sweep_warnings(design: &Design) -> Result<Vec<String>, Error> {
    let (seeds, _) = design.seeds()?;
    let of_point = |(number, values): (usize, &Vec<Json>)| {
        let plan = design.plan(number, Some(seeds.seeds()[0]))?;
        Ok((named(&design.keys, values), plan.warnings))
    };
    let runs = design.points.iter().enumerate().map(of_point).collect::<Result<Vec<_>, Error>>()?;
    Ok(unlike_ideals(design)?.into_iter().chain(gathered(&runs)).collect())
}

/// A warning if the points have different ideal completion times for the same messages.
fn unlike_ideals(design: &Design) -> Result<Option<String>, Error> {
    let changes_paths = |key: &String| {
        ["protocol", "routing", "params", "preset"].iter().any(|word| key.contains(word))
    };
    if !design.keys.iter().any(changes_paths) {
        return Ok(None);
    }
    let plans = (0..design.points.len()).map(|point| design.plan(point, None));
    Ok(ideal_paths_warning(plans.collect::<Result<Vec<_>, _>>()?.iter()))
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Compares points that differ only in their protocol.
fn compare(keys: &[String], points: &mut [SweepPoint], baseline: Option<&str>) {
    let Some(key) = keys.iter().position(|key| key == PROTOCOL) else { return };
    let mut sets: Vec<(Vec<Json>, Vec<Candidate<'_>>)> = Vec::new();
    for SweepPoint { values, metrics, .. } in points {
        let Some(protocol) = values[key].as_str() else { continue };
        let mut others = values.clone();
        others.remove(key);
        let candidate = Candidate { protocol, metrics };
        match sets.iter_mut().find(|(known, _)| *known == others) {
            Some((_, set)) => set.push(candidate),
            None => sets.push((others, vec![candidate])),
        }
    }
    let mut sets: Vec<_> = sets.into_iter().map(|(_, set)| set).collect();
    paired::compare(&mut sets, baseline);
}

/// The values of a point with their keys.
fn named(keys: &[String], values: &[Json]) -> String {
    let value = |(key, value): (&String, &Json)| match value {
        Json::String(text) => format!("{key}={text}"),
        value => format!("{key}={value}"),
    };
    keys.iter().zip(values).map(value).collect::<Vec<_>>().join(", ")
}

/// Merged warnings of the runs, and warnings for points on which the seed has no effect.
fn of_runs(keys: &[String], points: &[SweepPoint], seeds: &[u64], runs: &[Found]) -> Vec<String> {
    let place = |point: &SweepPoint| named(keys, &point.values);
    let of_run = |(i, run): (usize, &Found)| {
        let place = place(&points[i / seeds.len()]);
        let warnings = run.as_ref().map_or(Vec::new(), |known| known.warnings.clone());
        (format!("{place}, seed {}", seeds[i % seeds.len()]), warnings)
    };
    let mut all = gathered(&runs.iter().enumerate().map(of_run).collect::<Vec<_>>());
    let fixed = |point: &SweepPoint| {
        let text = "every seed gives the same values, so confidence intervals are meaningless";
        (place(point), is_fixed(&point.metrics).then(|| text.to_owned()).into_iter().collect())
    };
    all.extend(gathered(&points.iter().map(fixed).collect::<Vec<_>>()));
    all
}

/// Numbers of the runs that are not in the cache: those that [`sweep`] would make.
///
/// # Errors
/// When the scenario is invalid at any point, or an interrupt is requested.
pub fn missing_runs(design: &Design, options: &SweepOptions<'_>) -> Result<Vec<usize>, Error> {
    let (seeds, _) = design.seeds()?;
    Ok(missing(&found(design, &seeds, options)?))
}

/// Makes some runs of a sweep, by number, and stores them in the cache for [`sweep`]. Cached runs
/// are not repeated. Failures are not returned: [`sweep`] repeats failed runs and reports them.
///
/// # Errors
/// When a number exceeds the runs of the sweep, the scenario is invalid, or an interrupt is
/// requested.
pub fn make_runs(design: &Design, runs: &[usize], options: &SweepOptions<'_>) -> Result<(), Error> {
    let (seeds, _) = design.seeds()?;
    let all = design.runs(&seeds);
    if let Some(run) = runs.iter().find(|run| **run >= all) {
        let message = format!("run {run} does not exist: the sweep has runs 0 to {}", all - 1);
        return Err(Error::Run(message));
    }
    let cache = Cache::new(options.cache);
    let mut left = Vec::new();
    for &run in runs {
        let (point, seed) = place(run, &seeds);
        let hash = content_hash(&design.plan(point, Some(seed))?);
        if cache.get(&hash, &recording()).is_none() {
            left.push(run);
        }
    }
    let made = make(design, &left, &seeds, options);
    if made.iter().any(|made| matches!(made, Err(Error::Interrupted))) {
        return Err(Error::Interrupted);
    }
    Ok(())
}

/// Makes these runs, several at a time, and stores them. Results are in order.
fn make(
    design: &Design,
    runs: &[usize],
    seeds: &SeedList,
    options: &SweepOptions<'_>,
) -> Vec<Result<Known, Error>> {
    if let Some(begin) = options.begin {
        begin(runs.len());
    }
    let cache = Cache::new(options.cache);
    in_parallel(runs.len(), options.threads(), |number, threads| {
        let (point, seed) = place(runs[number], seeds);
        let progress = |progress: &crate::Progress| {
            if let Some(listener) = options.progress {
                listener(number, progress);
            }
        };
        let is_interrupted = || options.is_interrupted();
        let control = Control {
            threads,
            partitions: options.partitions,
            ranks: None,
            is_interrupted: &is_interrupted,
            progress: &progress,
            chunk: &adapt,
        };
        let plan = design.plan(point, Some(seed))?;
        let happen = |measures| drive(&plan, measures, &control);
        measured(&cache.make((&plan, &content_hash(&plan)), &recording(), happen)?)
    })
}

/// Numbers of the runs that are missing.
fn missing(found: &[Found]) -> Vec<usize> {
    (0..found.len()).filter(|&i| found[i].is_none()).collect()
}

/// Looks up all runs in the cache. Also checks the scenario at every point.
fn found(
    design: &Design,
    seeds: &SeedList,
    options: &SweepOptions<'_>,
) -> Result<Vec<Found>, Error> {
    let cache = Cache::new(options.cache);
    let found = in_parallel(design.runs(seeds), options.threads(), |i, _| {
        if options.is_interrupted() {
            return Err(Error::Interrupted);
        }
        let (point, seed) = place(i, seeds);
        let hash = content_hash(&design.plan(point, Some(seed))?);
        let seen = cache.get(&hash, &recording());
        seen.map(|seen| measured(&seen)).transpose()
    });
    found.into_iter().collect()
}

/// The point and the seed of a run.
fn place(run: usize, seeds: &SeedList) -> (usize, u64) {
    let seeds = seeds.seeds();
    (run / seeds.len(), seeds[run % seeds.len()])
}

/// Measurements that are recorded in every run.
fn recording() -> Recording {
    Recording { parts: [Measurement::Summary].into(), ..Recording::default() }
}

fn measured(seen: &Observations) -> Result<Known, Error> {
    let missing = || Error::Run("a run ended without a summary".to_owned());
    let summary = seen.summary.as_ref().ok_or_else(missing)?;
    Ok(Known { readings: readings(summary), warnings: summary.warnings.clone() })
}

impl Sweep {
    /// The version that [`schema`](Self::schema) carries.
    pub const SCHEMA: u32 = 1;

    /// Number of runs.
    pub fn count(&self) -> usize {
        self.runs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Mode, Source};

    const SCENARIO: &str = "duration = '200us'\nwarmup = '20us'\ndrain = '1ms'\n\
        fabric = { kind = 'leaf-spine', racks = 2, hosts_per_rack = 2, spines = 1 }\n\
        transport = { protocol = 'PROTOCOL' }\n\
        [[traffic]]\nkind = 'poisson'\nsizes = '20KB'\nload = 0.3\n";

    #[test]
    fn partitions_of_runs_change_no_byte_of_a_sweep() {
        let text = SCENARIO.replace("PROTOCOL", crate::protocols()[0].name);
        let axis = Axis::vary("traffic.0.load=0.2,0.4").unwrap();
        let seeds = SeedList::of(vec![1, 2]).unwrap();
        let made = (&[axis][..], Mode::Grid);
        let design = Design::new(Source::Text(text), Vec::new(), made, Some(seeds)).unwrap();
        let files = |threads, partitions| {
            let folder = tempfile::tempdir().unwrap();
            let cache = Some(folder.path());
            let (threads, partitions) = (Some(threads), Some(partitions));
            let options = SweepOptions { threads, partitions, cache, ..SweepOptions::default() };
            let swept = sweep(&design, &options).unwrap();
            for (point, seed) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
                let plan = design.plan(point, Some(seed)).unwrap();
                let seen = Cache::new(cache).get(&content_hash(&plan), &recording()).unwrap();
                assert_eq!(Some(seen.summary.unwrap().engine.threads), partitions);
            }
            swept.files().unwrap()
        };
        let whole = files(1, 1);
        assert!(whole == files(3, 1), "three runs at a time");
        assert!(whole == files(1, 2), "two partitions a run");
        assert!(whole == files(3, 2), "both");
    }
}
