//! Repeats results from their manifests.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_results::{Manifest, ReproductionManifest, SweepManifest};
use tidegate_runs::destination::{CLAIMS, compared, folder_name};
use tidegate_runs::{
    Design, Destination, Error, ProgressListener, RunOptions, SeedList, SweepOptions,
    compare_plans, load, run, run_seeded, sweep,
};
use tidegate_scenario::{Plan, files};

use crate::report::{NO_RESULTS, RESULTS_EXPECTED, reproduction_files};
use crate::reproduce::{
    ReproduceOptions, StepListener, command, reproduce, reproduction_manifest, scenarios,
    seeds as seeds_of_figures,
};

/// The folder of the scenarios of a reproduction in a bundle.
const SCENARIOS: &str = "scenarios";

/// How to repeat results.
#[derive(Clone, Copy, Default)]
pub struct RepeatOptions<'a> {
    /// Upper limit of threads; `None`: the number of cores.
    pub threads: Option<usize>,
    /// Program that becomes a host of a testbed, for live UDP runs of reproductions.
    pub host: Option<&'a Path>,
    /// Receives the number of runs to make.
    pub begin: Option<&'a (dyn Fn(usize) + Sync)>,
    /// Receives the state of each run periodically.
    pub progress: Option<ProgressListener<'a>>,
    /// Receives every finished run of a reproduction.
    pub step: Option<StepListener<'a>>,
    /// A flag that ends the work with [`Error::Interrupted`] when another thread sets it.
    pub interrupted: Option<&'a AtomicBool>,
}

/// Results in a folder that can be repeated.
pub(super) struct Repeatable {
    folder: PathBuf,
    kind: Kind,
}

enum Kind {
    Run(Vec<Plan>),
    Comparison(Vec<String>, Vec<Plan>),
    /// Seeds, compared protocols, the baseline, and the plans of each seed.
    Seeds(SeedList, Option<Vec<String>>, Option<String>, Vec<Vec<Plan>>),
    Sweep(Box<(Design, SweepManifest)>),
    Reproduction(ReproductionManifest),
}

/// The part of `aggregate.json` that determines the runs.
#[derive(Deserialize)]
struct Aggregate {
    seeds: Vec<u64>,
    baseline: Option<String>,
}

/// Where results come from, for messages.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// The command.
    pub(super) option: &'static str,
    /// An archive and the folder into which it was unpacked, if it was.
    pub(super) archive: Option<(&'a Path, &'a Path)>,
}

impl Place<'_> {
    /// The error for a path, which is named as the user knows it.
    pub(super) fn wrong(&self, path: &Path, why: impl Display) -> Error {
        let inside = self.archive.and_then(|(archive, root)| {
            let inside = path.strip_prefix(root).ok()?;
            Some(format!("{}: {}", archive.display(), inside.display()))
        });
        let path = inside.unwrap_or_else(|| path.display().to_string());
        Error::Usage { option: self.option, message: format!("{path}: {why}") }
    }

    /// The error with the names that files have in the archive, in place of those of the folder
    /// into which it was unpacked.
    pub(super) fn named(&self, error: Error) -> Error {
        let Some((archive, root)) = self.archive else { return error };
        let (unpacked, packed) =
            (format!("{}/", root.display()), format!("{}: ", archive.display()));
        let named = |message: String| message.replace(&unpacked, &packed);
        match error {
            Error::Usage { option, message } => Error::Usage { option, message: named(message) },
            Error::Scenario(message) => Error::Scenario(named(message)),
            Error::Run(message) => Error::Run(named(message)),
            Error::Advised { why, advice } => {
                Error::Advised { why: Box::new(self.named(*why)), advice: named(advice) }
            }
            error => error,
        }
    }

    /// The error for a folder without results.
    fn no_results(&self, folder: &Path) -> Error {
        let why = match (self.archive, fs::metadata(folder)) {
            (Some(_), _) => {
                format!("{NO_RESULTS}; name an archive that `tidegate bundle` has written")
            }
            (None, Err(why)) => format!("{why}: {RESULTS_EXPECTED}"),
            (None, Ok(found)) if !found.is_dir() => format!("not a folder: {RESULTS_EXPECTED}"),
            (None, Ok(_)) => format!("{NO_RESULTS}; {RESULTS_EXPECTED}"),
        };
        self.wrong(folder, why)
    }
}

/// Content of a JSON file that must exist.
pub(super) fn required<T: DeserializeOwned>(path: &Path, from: Place<'_>) -> Result<T, Error> {
    let content = files::read(path, u64::MAX);
    let parsed = content
        .map_err(|why| why.to_string())
        .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|why| why.to_string()));
    parsed.map_err(|why| {
        let remedy = "without this file the results cannot be repeated: make them again with this \
                      version";
        from.wrong(path, format!("{why}; {remedy}"))
    })
}

impl Repeatable {
    /// Reads the manifests of the results in a folder.
    pub(super) fn read(folder: &Path, from: Place<'_>) -> Result<Repeatable, Error> {
        let has = |name: &str| folder.join(name).is_file();
        let manifest = folder.join("manifest.json");
        let kind = if has(CLAIMS) {
            Kind::Reproduction(required(&manifest, from)?)
        } else if has("sweep.json") {
            let inputs = required(&manifest, from)?;
            Kind::Sweep(Box::new((Design::load(&manifest, Vec::new(), None)?, inputs)))
        } else if has("aggregate.json") {
            let Aggregate { seeds, baseline } = required(&folder.join("aggregate.json"), from)?;
            let of_seed = |seed: &u64| folder.join(folder_name(*seed));
            let names = compared(&of_seed(seeds.first().unwrap_or(&0)));
            let names = Some(names).filter(|names| !names.is_empty());
            let plans = |seed| plans(&of_seed(seed), names.as_deref(), from);
            let plans = seeds.iter().map(plans).collect::<Result<_, Error>>()?;
            Kind::Seeds(SeedList::of(seeds).map_err(Error::Run)?, names, baseline, plans)
        } else if has("comparison.json") {
            let names = compared(folder);
            let plans = plans(folder, Some(&names), from)?;
            Kind::Comparison(names, plans)
        } else if has("summary.json") {
            Kind::Run(plans(folder, None, from)?)
        } else {
            return Err(from.no_results(folder));
        };
        Ok(Repeatable { folder: folder.to_owned(), kind })
    }

    /// Repeats all runs and writes their results to the folder `out`.
    pub(super) fn repeat(&self, out: &Path, options: &RepeatOptions<'_>) -> Result<(), Error> {
        let RepeatOptions { threads, begin, progress, interrupted, .. } = *options;
        let of_run =
            RunOptions { out: Some(out), threads, progress, interrupted, ..RunOptions::default() };
        let begins = |runs: usize| begin.iter().for_each(|begin| begin(runs));
        match &self.kind {
            Kind::Run(plans) => {
                begins(1);
                run(&plans[0], &of_run).map(drop)
            }
            Kind::Comparison(names, plans) => {
                begins(plans.len());
                compare_plans(names, plans, &of_run).map(drop)
            }
            Kind::Seeds(seeds, names, baseline, plans) => {
                begins(plans.iter().map(Vec::len).sum());
                let (plans, baseline) = (plans.clone(), baseline.clone());
                run_seeded(plans, names.as_deref(), baseline, seeds, &of_run).map(drop)
            }
            Kind::Sweep(of) => {
                let (design, _) = &**of;
                let of_sweep =
                    SweepOptions { threads, begin, progress, interrupted, ..Default::default() };
                let files = sweep(design, &of_sweep)?.files().map_err(Error::output(out))?;
                Destination::open(out, false)?.write(&files)
            }
            Kind::Reproduction(ReproductionManifest { reproduce: inputs, .. }) => {
                let of_papers = ReproduceOptions {
                    quick: inputs.quick,
                    sensitivity: inputs.sensitivity,
                    threads,
                    host: options.host,
                    progress: options.step,
                    interrupted,
                    ..ReproduceOptions::default()
                };
                let what = inputs.what.as_deref();
                let mut files = reproduction_files(&reproduce(what, &of_papers)?);
                files.insert(0, reproduction_manifest(what, &of_papers));
                Destination::open(out, false)?.write(&files)
            }
        }
    }

    /// Kind of the results, in words.
    pub(super) fn title(&self) -> &'static str {
        match self.kind {
            Kind::Run(_) => "A run",
            Kind::Comparison(..) => "A comparison",
            Kind::Seeds(_, None, ..) => "Runs under several seeds",
            Kind::Seeds(..) => "A comparison under several seeds",
            Kind::Sweep(..) => "A sweep",
            Kind::Reproduction(_) => "A reproduction of papers",
        }
    }

    /// The file that names the scenario.
    pub(super) fn marker(&self) -> PathBuf {
        self.folder.join(match self.kind {
            Kind::Run(_) => "summary.json",
            Kind::Comparison(..) => "comparison.json",
            Kind::Seeds(..) => "aggregate.json",
            Kind::Sweep(..) => "sweep.json",
            Kind::Reproduction(_) => CLAIMS,
        })
    }

    /// The seeds of the runs.
    pub(super) fn seeds(&self) -> String {
        let listed =
            |seeds: &[u64]| seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        match &self.kind {
            Kind::Run(plans) | Kind::Comparison(_, plans) => listed(&[plans[0].seed]),
            Kind::Seeds(seeds, ..) => listed(seeds.seeds()),
            Kind::Sweep(of) => listed(&of.1.seeds),
            Kind::Reproduction(of) => seeds_of_figures(of.reproduce.quick),
        }
    }

    /// The command that makes the results, if its options determine them.
    pub(super) fn command(&self) -> Option<String> {
        let Kind::Reproduction(ReproductionManifest { reproduce: inputs, .. }) = &self.kind else {
            return None;
        };
        Some(command(inputs.what.as_deref(), inputs.quick, inputs.sensitivity))
    }

    /// Scenarios that the results do not contain: (name of a file in the bundle, content).
    pub(super) fn scenarios(&self) -> Result<Vec<(String, String)>, Error> {
        let Kind::Reproduction(ReproductionManifest { reproduce: inputs, .. }) = &self.kind else {
            return Ok(Vec::new());
        };
        let files = scenarios(inputs.what.as_deref(), inputs.quick)?.into_iter();
        Ok(files.map(|(name, text)| (format!("{SCENARIOS}/{name}"), text)).collect())
    }
}

/// The plans in a folder: its own, or one per compared protocol.
fn plans(folder: &Path, protocols: Option<&[String]>, from: Place<'_>) -> Result<Vec<Plan>, Error> {
    match protocols {
        Some(names) => names.iter().map(|name| plan(&folder.join(name), from)).collect(),
        None => Ok(vec![plan(folder, from)?]),
    }
}

fn plan(folder: &Path, from: Place<'_>) -> Result<Plan, Error> {
    let summary: Value = required(&folder.join("summary.json"), from)?;
    if summary.get("real").is_some_and(|real| !real.is_null()) {
        let why = "a run of `tidegate testbed`, whose times are measured and not repeated: name \
                   the results of a simulation";
        return Err(from.wrong(folder, why));
    }
    let manifest = folder.join("manifest.json");
    required::<Manifest>(&manifest, from)?;
    load(manifest, &[])
}
