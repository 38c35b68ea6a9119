//! Observations that were made before, by everything they depend on.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use tidegate_scenario::{Plan, content_hash};
use tidegate_sim::SEMANTICS;

use super::observe::{Observation, VERSION};
use super::registry::Recording;

/// A folder of observations, or none.
#[derive(Clone, Debug)]
pub(crate) struct Cache(Option<PathBuf>);

impl Cache {
    /// In that folder; `None` keeps nothing.
    pub(crate) fn new(folder: Option<&Path>) -> Cache {
        Cache(folder.map(Path::to_owned))
    }

    fn path(&self, plan: &Plan, recording: Recording) -> Option<PathBuf> {
        let trace = recording.trace.map_or(0, |trace| trace.as_ps());
        let windows = if recording.windows { "w" } else { "" };
        let queues = if recording.queues { "q" } else { "" };
        let hash = content_hash(plan);
        let name = format!("{hash}-{trace}{windows}{queues}-{SEMANTICS}-{VERSION}.json.sz");
        Some(self.0.as_ref()?.join(name))
    }

    /// What was seen of this plan before. A file that cannot be read is none.
    pub(crate) fn get(&self, plan: &Plan, recording: Recording) -> Option<Observation> {
        let mut json = Vec::new();
        let file = fs::File::open(self.path(plan, recording)?).ok()?;
        snap::read::FrameDecoder::new(file).read_to_end(&mut json).ok()?;
        serde_json::from_slice(&json).ok()
    }

    /// Keeps an observation. A cache that cannot be written costs time, nothing else.
    pub(crate) fn put(&self, plan: &Plan, recording: Recording, seen: &Observation) {
        if let Some(path) = self.path(plan, recording) {
            let _ = write(&path, seen);
        }
    }
}

fn write(path: &Path, seen: &Observation) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // Under a name of its own until it is whole: others may look for it meanwhile.
    let partial = path.with_extension(format!("{}.partial", std::process::id()));
    // Traces are mostly digits, which compress well.
    let mut file = snap::write::FrameEncoder::new(fs::File::create(&partial)?);
    file.write_all(&serde_json::to_vec(seen)?)?;
    file.into_inner().map_err(|error| error.into_error())?;
    fs::rename(&partial, path)
}

/// Where observations are kept unless said otherwise: a folder of the user's cache.
pub fn default_cache() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(base.join("tidegate").join("reproduce"))
}
