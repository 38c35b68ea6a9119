//! Files that scenarios name: their originals, and their places in a bundle.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate_results::{NamedFiles, write_json};
use tidegate_runs::Error;
use tidegate_runs::destination::results;
use tidegate_scenario::InputFiles;

use super::repeat::{Place, required};

/// Name of manifests.
pub(super) const MANIFEST: &str = "manifest.json";
/// The folder of the files in a bundle.
const FILES: &str = "files";
/// Number of digits of a hash in the names of folders.
const DIGITS: usize = 12;

/// The files that the scenarios of results name.
#[derive(Default)]
pub(super) struct Inputs {
    /// The original of each file, by its name in the bundle.
    pub(super) originals: BTreeMap<String, PathBuf>,
    /// By manifest: the name in the bundle of each file that it names.
    names: BTreeMap<PathBuf, BTreeMap<String, String>>,
}

impl Inputs {
    /// Finds the files that all manifests in a folder name.
    ///
    /// # Errors
    /// If a file is missing, or has other content than in the run.
    pub(super) fn find(folder: &Path, from: Place<'_>) -> Result<Inputs, Error> {
        let mut inputs = Inputs::default();
        let (mut hashes, mut wrong) = (BTreeMap::new(), BTreeMap::new());
        for manifest in results(folder).into_iter().filter(|path| path.ends_with(MANIFEST)) {
            let path = folder.join(&manifest);
            let NamedFiles { files, folder: recorded } = named(&path, from)?;
            let beside = || path.parent().unwrap_or(Path::new("")).to_owned();
            let base = recorded.map_or_else(beside, PathBuf::from);
            for (name, hash) in files {
                let original = base.join(&name);
                // Several runs may read the same file.
                let found = hashes.entry(original.clone());
                let why = match found.or_insert_with(|| InputFiles::hash(&original)) {
                    Ok(found) if *found == hash => None,
                    Ok(_) => Some("it has changed".to_owned()),
                    Err(why) => Some(why.to_string()),
                };
                wrong.extend(why.map(|why| (original.clone(), why)));
                let base = original.file_name().unwrap_or_default().to_string_lossy();
                // Files with the same name and other content are in other folders.
                let place = format!("{FILES}/{}/{base}", hash.get(..DIGITS).unwrap_or(&hash));
                inputs.names.entry(manifest.clone()).or_default().insert(name, place.clone());
                inputs.originals.insert(place, original);
            }
        }
        if wrong.is_empty() {
            return Ok(inputs);
        }
        let wrong = wrong.iter().map(|(path, why)| format!("{} ({why})", path.display()));
        let wrong = wrong.collect::<Vec<_>>().join(", ");
        let why = "the runs read files that are not as they were";
        Err(from.wrong(folder, format!("{why}: {wrong}; restore them, or make the results again")))
    }

    /// The content of a manifest in the bundle, whose scenarios name the files there; `None` if it
    /// names no file.
    pub(super) fn packed(
        &self,
        folder: &Path,
        manifest: &Path,
        from: Place<'_>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let Some(places) = self.names.get(manifest) else { return Ok(None) };
        // Names are relative to the folder of the manifest.
        let up = "../".repeat(manifest.components().count());
        let names = places.iter().map(|(name, place)| (name.clone(), format!("{up}{place}")));
        let names: BTreeMap<String, String> = names.collect();
        let mut json: Value = required(&folder.join(manifest), from)?;
        scenarios(&mut json).for_each(|scenario| InputFiles::rename(scenario, &names));
        let old = json["files"].take();
        let hash = |(name, new): (&String, &String)| (new.clone(), old[name].clone());
        json["files"] = names.iter().map(hash).collect::<serde_json::Map<_, _>>().into();
        if let Some(json) = json.as_object_mut() {
            json.remove("folder");
        }
        let mut bytes = Vec::new();
        write_json(&json, &mut bytes).map_err(Error::output(folder))?;
        Ok(Some(bytes))
    }
}

/// The files that a manifest records.
fn named(path: &Path, from: Place<'_>) -> Result<NamedFiles, Error> {
    let mut json: Value = required(path, from)?;
    let recorded: NamedFiles = serde_json::from_value(json.clone()).unwrap_or_default();
    let is_known = |name: &str| recorded.files.contains_key(name);
    let mut named = scenarios(&mut json);
    if let Some(name) = named.find_map(|json| InputFiles::names(json).find(|name| !is_known(name)))
    {
        let why = if name.contains('*') {
            "bundles do not support Chakra traces: share the traces and the scenario instead"
        } else {
            "the manifest has no hash of this file: make the results again with this version"
        };
        return Err(from.wrong(path, format!("the scenario names {name:?}: {why}")));
    }
    Ok(recorded)
}

/// The scenario of a manifest, and the changes at the points of a sweep.
fn scenarios(manifest: &mut Value) -> impl Iterator<Item = &mut Value> {
    let Value::Object(map) = manifest else { return Vec::new().into_iter() };
    let mut all = Vec::new();
    for (key, value) in map {
        match (key.as_str(), value) {
            ("scenario", scenario) => all.push(scenario),
            ("points", Value::Array(points)) => {
                all.extend(points.iter_mut().filter_map(|point| point.get_mut("changes")));
            }
            _ => {}
        }
    }
    all.into_iter()
}
