//! The definition of a sweep: its scenario, points and seeds. Its manifest has the complete
//! scenario of every point, as changes of that of the first.

use std::path::Path;

use serde_json::{Map, Value as Json, json};
use tidegate_results::{NamedFiles, PointManifest, SweepManifest};
use tidegate_scenario::sweep::{self, Axis, AxisValue, Mode, Point, SweepFile};
use tidegate_scenario::{Override, Plan};

use super::PROTOCOL;
use super::patch::{patch, patched};
use crate::seeds::only_seeds;
use crate::source::NO_FILE;
use crate::{Error, SeedList, Source, load, paired, run};

/// A larger number of runs is considered a mistake.
const RUNS_MAX: usize = 1_000_000;

/// Definition of a sweep.
#[derive(Clone, Debug)]
pub struct Design {
    scenarios: Scenarios,
    /// Overrides that apply at all points.
    changes: Vec<Override>,
    /// The keys that vary.
    pub(super) keys: Vec<String>,
    /// The value of each key at every point.
    pub(super) points: Vec<Vec<Json>>,
    /// `None`: the scenario's own seed.
    pub(super) seeds: Option<SeedList>,
    /// The protocol that others are compared with, if several are swept.
    pub(super) baseline: Option<String>,
}

/// Scenarios of the points of a sweep.
#[derive(Clone, Debug)]
enum Scenarios {
    /// A scenario, changed at each point.
    Changed(Source, Vec<Point>),
    /// A manifest with the complete scenario of each point.
    Resolved(Vec<Json>),
}

impl Design {
    /// A sweep of a scenario over axes.
    ///
    /// # Errors
    /// When the axes give no points, or an override sets the seed beside a list of seeds.
    pub fn new(
        scenario: impl Into<Source>,
        changes: Vec<Override>,
        (axes, mode): (&[Axis], Mode),
        seeds: Option<SeedList>,
    ) -> Result<Design, Error> {
        Design::changed(scenario.into(), changes, (axes, mode, "--vary"), seeds)
    }

    /// Reads a sweep file, or the manifest of a sweep. `changes` also apply at all points; `seeds`
    /// replaces those of the file.
    ///
    /// # Errors
    /// When the file is invalid.
    pub fn load(
        file: &Path,
        changes: Vec<Override>,
        seeds: Option<SeedList>,
    ) -> Result<Design, Error> {
        // The sweep file reports an unreadable file.
        if let Ok(text) = tidegate_scenario::text(file)
            && text.trim_start().starts_with('{')
        {
            return Design::resolved(&text, file, changes, seeds);
        }
        let file = SweepFile::load(file).map_err(Error::scenario)?;
        let changes = file.changes.into_iter().chain(changes).collect();
        let seeds = seeds.or(file.seeds);
        Design::changed(file.scenario.into(), changes, (&file.axes, file.mode, &file.origin), seeds)
    }

    /// A sweep of a scenario over axes, which `option` names in messages, once checked.
    fn changed(
        scenario: Source,
        changes: Vec<Override>,
        (axes, mode, option): (&[Axis], Mode, &str),
        seeds: Option<SeedList>,
    ) -> Result<Design, Error> {
        let (text, origin) = match &scenario {
            Source::File(path) => {
                let text = tidegate_scenario::text(path).map_err(Error::scenario)?;
                (text, path.display().to_string())
            }
            Source::Text(text) | Source::Made(text) => (text.clone(), NO_FILE.to_owned()),
        };
        let axes = sweep::with_failures(axes, (&text, &origin), &changes);
        let points = axes.and_then(|axes| sweep::points(&axes, mode, option));
        let points = points.map_err(Error::scenario)?;
        // All points have the same keys, so one check suffices.
        sweep::check(&text, &points[0], &changes).map_err(Error::scenario)?;
        let keys = points[0].iter().map(|value| value.change.key.clone()).collect();
        let values = points.iter().map(values).collect();
        let scenarios = Scenarios::Changed(scenario, points);
        Design { scenarios, changes, keys, points: values, seeds, baseline: None }.checked()
    }

    /// The sweep of a manifest. `changes` apply at all points; `seeds` replaces those of the
    /// manifest.
    fn resolved(
        text: &str,
        file: &Path,
        changes: Vec<Override>,
        seeds: Option<SeedList>,
    ) -> Result<Design, Error> {
        let wrong = |why: &dyn std::fmt::Display| {
            let file = file.display();
            Error::Scenario(format!(
                "{file}: not the manifest of a sweep ({why}): name a sweep file"
            ))
        };
        let manifest: SweepManifest = serde_json::from_str(text).map_err(|why| wrong(&why))?;
        let SweepManifest { keys, baseline, scenario, points, named, .. } = manifest;
        let beside = || file.parent().unwrap_or(Path::new("")).display().to_string();
        let folder = named.folder.unwrap_or_else(beside);
        if points.is_empty() || points.iter().any(|point| point.values.len() != keys.len()) {
            return Err(wrong(&"it needs points, each with one value per key"));
        }
        let own = || SeedList::of(manifest.seeds).map_err(|why| wrong(&why));
        let seeds = Some(seeds.map_or_else(own, Ok)?);
        // Each in the form of a run's manifest, which has the folder of the files.
        let complete =
            |changes| json!({ "folder": folder, "scenario": patched(scenario.clone(), changes) });
        let scenarios = points.iter().map(|point| complete(&point.changes)).collect();
        let points = points.into_iter().map(|point| point.values).collect();
        let scenarios = Scenarios::Resolved(scenarios);
        let design = Design { scenarios, changes, keys, points, seeds, baseline: None };
        design.checked()?.with_baseline(baseline.as_deref())
    }

    /// Sets the protocol that others are compared with; by default the first of those that vary.
    ///
    /// # Errors
    /// When it is not one of them, or no protocol varies.
    pub fn with_baseline(self, name: Option<&str>) -> Result<Design, Error> {
        let mut names: Vec<String> = Vec::new();
        let key = self.keys.iter().position(|key| key == PROTOCOL);
        for name in self.points.iter().filter_map(|values| values[key?].as_str()) {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        if name.is_some() && names.is_empty() {
            let message = "needs several protocols: add --vary protocol=…".to_owned();
            return Err(Error::Usage { option: "--baseline", message });
        }
        Ok(Design { baseline: paired::baseline(name, &names)?, ..self })
    }

    /// Whether a key varies.
    pub fn varies(&self, key: &str) -> bool {
        self.keys.iter().any(|known| known == key)
    }

    fn checked(self) -> Result<Design, Error> {
        let Design { changes, points, seeds, .. } = &self;
        if seeds.is_some() {
            only_seeds("--seeds", changes)?;
        }
        let seeds = seeds.as_ref().map_or(1, |seeds| seeds.seeds().len());
        if points.len() * seeds > RUNS_MAX {
            let points = points.len();
            let message =
                format!("{points} points under {seeds} seeds each are more than {RUNS_MAX} runs");
            return Err(Error::Usage { option: "--seeds", message });
        }
        self.with_baseline(None)
    }

    /// The scenario at a point, under `seed` or its own seed.
    pub(super) fn plan(&self, point: usize, seed: Option<u64>) -> Result<Plan, Error> {
        let seed = seed.map(|seed| Override::option("--seeds", "seed", &seed.to_string()));
        match &self.scenarios {
            Scenarios::Changed(scenario, points) => {
                let mut changes = sweep::changes(&points[point], &self.changes);
                changes.extend(seed);
                load(scenario.clone(), &changes)
            }
            Scenarios::Resolved(scenarios) => {
                let changes: Vec<Override> = self.changes.iter().cloned().chain(seed).collect();
                load(Source::Made(scenarios[point].to_string()), &changes)
            }
        }
    }

    /// The manifest of the sweep under these seeds.
    pub(super) fn manifest(&self, seeds: &SeedList) -> Result<SweepManifest, Error> {
        let seed = Some(seeds.seeds()[0]);
        let mut named = NamedFiles::default();
        let mut resolved = |point| {
            let plan = self.plan(point, seed)?;
            let NamedFiles { files, folder } = run::named(&plan);
            named.files.extend(files);
            named.folder = named.folder.take().or(folder);
            Ok::<Json, Error>(tidegate_scenario::resolved(&plan))
        };
        let scenario = resolved(0)?;
        let point = |(i, values): (usize, &Vec<Json>)| {
            let changes = patch(&scenario, &resolved(i)?);
            let changes = changes.unwrap_or_else(|| Map::new().into());
            Ok(PointManifest { values: values.clone(), changes })
        };
        let points = self.points.iter().enumerate().map(point).collect::<Result<_, Error>>()?;
        Ok(SweepManifest {
            origin: run::origin(),
            keys: self.keys.clone(),
            seeds: seeds.seeds().to_vec(),
            baseline: self.baseline.clone(),
            points,
            scenario,
            named,
        })
    }

    /// All seeds, and the name of the scenario.
    pub(super) fn seeds(&self) -> Result<(SeedList, String), Error> {
        let plan = self.plan(0, None)?;
        let own = || SeedList::of(vec![plan.seed]).map_err(Error::Run);
        Ok((self.seeds.clone().map_or_else(own, Ok)?, plan.name))
    }

    /// Number of runs.
    pub(super) fn runs(&self, seeds: &SeedList) -> usize {
        self.points.len() * seeds.seeds().len()
    }
}

fn values(point: &Point) -> Vec<Json> {
    let value = |value: &AxisValue| match value.number {
        Some(number) if number.fract() == 0.0 && number.abs() < 1e15 => Json::from(number as i64),
        Some(number) => Json::from(number),
        None => Json::from(value.text.clone()),
    };
    point.iter().map(value).collect()
}
