//! Manifests of sweeps: the complete scenario of every point, as changes of that of the first.

use std::path::Path;

use serde_json::{Map, Value as Json, json};
use tidegate_results::{NamedFiles, PointManifest, SweepManifest};
use tidegate_scenario::Override;

use super::Design;
use super::design::Scenarios;
use crate::{Error, SeedList, run};

/// The sweep of a manifest. `changes` apply at all points; `seeds` replaces those of the manifest.
pub(super) fn design(
    text: &str,
    file: &Path,
    changes: Vec<Override>,
    seeds: Option<SeedList>,
) -> Result<Design, Error> {
    let wrong = |why: &dyn std::fmt::Display| {
        let file = file.display();
        Error::Scenario(format!("{file}: not the manifest of a sweep ({why}): name a sweep file"))
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

impl Design {
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
}

/// The JSON merge patch (RFC 7396) from one scenario to another; `None` if they are equal. Resolved
/// scenarios have no null, which such a patch cannot express.
fn patch(from: &Json, to: &Json) -> Option<Json> {
    let (Json::Object(from), Json::Object(to)) = (from, to) else {
        return (from != to).then(|| to.clone());
    };
    let removed = from.keys().filter(|key| !to.contains_key(*key));
    let mut changes: Map<_, _> = removed.map(|key| (key.clone(), Json::Null)).collect();
    for (key, value) in to {
        let change = from.get(key).map_or_else(|| Some(value.clone()), |old| patch(old, value));
        changes.extend(change.map(|change| (key.clone(), change)));
    }
    (!changes.is_empty()).then(|| changes.into())
}

/// Applies a JSON merge patch.
fn patched(target: Json, patch: &Json) -> Json {
    let Json::Object(changes) = patch else { return patch.clone() };
    let mut map = if let Json::Object(map) = target { map } else { Map::new() };
    for (key, change) in changes {
        let old = map.remove(key).unwrap_or_default();
        if !change.is_null() {
            map.insert(key.clone(), patched(old, change));
        }
    }
    map.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn patched_returns_to_the_scenario() {
        let from = json!({ "a": { "b": 1, "c": [1, 2] }, "d": "x", "e": { "f": 1 } });
        for to in [
            from.clone(),
            json!({ "a": { "b": 2, "c": [1] }, "d": "x" }),
            json!({ "a": 3, "d": { "b": { "c": 1 } }, "e": { "f": 1, "g": false } }),
        ] {
            let changes = patch(&from, &to).unwrap_or(json!({}));
            assert_eq!(patched(from.clone(), &changes), to, "{changes}");
        }
        assert_eq!(patch(&from, &json!({ "a": from["a"], "d": "x" })), Some(json!({ "e": null })));
    }
}
