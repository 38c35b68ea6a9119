//! Cache of observations, keyed by everything that they depend on.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::{Span, Time};
use tidegate_results::{Partial, clear_abandoned};
use tidegate_scenario::{Plan, files};

use crate::Error;
use crate::observe::{Measure, Measurement, Observations, RunOutput, measures};

/// Hash of the sources that determine observations, so that observations of other builds are not
/// used. The revision does not change with uncommitted edits, and a hash of the whole program would
/// change with tables and pages, which do not affect observations.
pub const BUILD: &str = env!("TIDEGATE_SOURCES");

/// Age of a partial file after which its writer must have died.
const ABANDONED: Duration = Duration::from_hours(24);

/// Measurements to record in a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Sampling interval of flows and queues.
    pub interval: Option<Span>,
    /// Recorded data.
    pub parts: BTreeSet<Measurement>,
    /// Name of the carrier of the packets, and of its build; empty for the simulator.
    pub carrier: String,
}

impl Recording {
    /// The measures for a run of `plan`.
    pub fn measures(&self, plan: &Plan) -> Vec<Box<dyn Measure>> {
        let interval = self.interval.unwrap_or(plan.duration - Time::ZERO);
        measures(plan, self.parts.iter().copied(), interval)
    }

    /// Whether a time series is requested without an interval.
    pub fn lacks_interval(&self) -> bool {
        let over_time =
            [Measurement::Traces, Measurement::Windows, Measurement::Queues, Measurement::Ports];
        self.interval.is_none() && over_time.iter().any(|part| self.parts.contains(part))
    }
}

/// A folder of observations, or `None`. A plan is named by its
/// [content hash](tidegate_scenario::content_hash), which callers compute once.
#[derive(Clone, Debug)]
pub struct Cache(Option<PathBuf>);

/// A cache file.
#[derive(Deserialize)]
struct Entry {
    /// The key: everything that the entry depends on.
    key: String,
    /// The measurements that were recorded.
    parts: BTreeSet<Measurement>,
    seen: Observations,
}

/// An entry to be written.
#[derive(Serialize)]
struct Kept<'a> {
    key: &'a str,
    parts: &'a BTreeSet<Measurement>,
    seen: &'a Observations,
}

fn key(hash: &str, recording: &Recording) -> String {
    let interval = recording.interval.map_or(0, Span::as_ps);
    format!("{}{hash}-{interval}-{BUILD}", recording.carrier)
}

impl Cache {
    /// A cache in `folder`; `None` caches nothing. Removes partial files that killed processes
    /// left.
    pub fn new(folder: Option<&Path>) -> Cache {
        if let Some(folder) = folder {
            clear_abandoned(folder, ABANDONED);
        }
        Cache(folder.map(Path::to_owned))
    }

    /// The cached observations of the plan with this hash, if they include all of `recording`. An
    /// unreadable file, or one of another key, counts as missing.
    pub fn get(&self, hash: &str, recording: &Recording) -> Option<Observations> {
        let key = key(hash, recording);
        let mut json = Vec::new();
        // A pipe would never end.
        let file = files::open(&path(self.0.as_ref()?, &key), u64::MAX).ok()?;
        snap::read::FrameDecoder::new(file).read_to_end(&mut json).ok()?;
        let entry: Entry = serde_json::from_slice(&json).ok()?;
        let is_enough = entry.key == key && entry.parts.is_superset(&recording.parts);
        is_enough.then_some(entry.seen)
    }

    /// Whether a file for the plan with this hash exists. It may lack some of `recording`.
    pub fn has(&self, hash: &str, recording: &Recording) -> bool {
        self.0.as_ref().is_some_and(|folder| path(folder, &key(hash, recording)).is_file())
    }

    /// Makes the run of a plan with this hash by `happen` and stores its observations.
    pub fn make(
        &self,
        (plan, hash): (&Plan, &str),
        recording: &Recording,
        happen: impl FnOnce(Vec<Box<dyn Measure>>) -> Result<RunOutput, Error>,
    ) -> Result<Observations, Error> {
        let seen = happen(recording.measures(plan))?.seen;
        self.put(hash, recording, &seen);
        Ok(seen)
    }

    /// Stores an observation. A write failure is ignored: it costs only time.
    fn put(&self, hash: &str, recording: &Recording, seen: &Observations) {
        let key = key(hash, recording);
        if let Some(folder) = &self.0 {
            let _ = write(path(folder, &key), &Kept { key: &key, parts: &recording.parts, seen });
        }
    }
}

fn path(folder: &Path, key: &str) -> PathBuf {
    folder.join(format!("{key}.json.sz"))
}

fn write(path: PathBuf, kept: &Kept<'_>) -> std::io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    if path.is_dir() {
        // A folder of this name is ours to remove; a file cannot replace a folder.
        fs::remove_dir_all(&path)?;
    }
    // Traces consist mostly of digits, which compress well.
    let mut file = snap::write::FrameEncoder::new(Partial::new(path)?);
    file.write_all(&serde_json::to_vec(kept)?)?;
    // A damaged entry counts as missing, so no run waits for the disk.
    file.into_inner().map_err(|error| error.into_error())?.publish_unsynced()
}

/// Default folder for observations: below the user's cache folder.
pub fn default_cache() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(base.join("tidegate").join("runs"))
}

/// Checks that observations can be stored in a folder, which may not exist yet.
///
/// # Errors
/// When it is not a folder, or cannot be written.
pub fn can_keep(folder: &Path) -> Result<(), Error> {
    let there = folder.ancestors().find(|path| path.exists());
    // The file is removed when it is dropped.
    let trial = Partial::new(there.unwrap_or(Path::new(".")).join("trial"));
    trial.map(drop).map_err(|why| {
        let message = format!("{}: cannot store runs in this folder ({why})", folder.display());
        Error::Usage { option: "--cache", message }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_and_foreign_entries_are_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(dir.path()));
        let recording = &Recording::default();
        let hashes = ["one", "two"];
        let digest = |i: usize| cache.get(hashes[i], recording).map(|seen| seen.digest);
        let put = |i: usize| {
            let seen = Observations { digest: i.to_string(), ..Observations::default() };
            cache.put(hashes[i], recording, &seen);
        };
        let both = || [digest(0), digest(1)];
        assert_eq!(both(), [None, None]);
        (0..2).for_each(put);
        assert_eq!(both(), [Some("0".to_owned()), Some("1".to_owned())]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);

        let [a, b] = [0, 1].map(|i: usize| path(dir.path(), &key(hashes[i], recording)));
        let spare = dir.path().join("spare");
        fs::rename(&a, &spare).unwrap();
        fs::rename(&b, &a).unwrap();
        fs::rename(&spare, &b).unwrap();
        assert_eq!(both(), [None, None], "swapped");

        assert!(cache.has(hashes[0], recording) && !cache.has("three", recording));
        put(0);
        let whole = fs::read(&a).unwrap();
        for length in 0..whole.len() {
            fs::write(&a, &whole[..length]).unwrap();
            assert_eq!(digest(0), None, "{length} of {} bytes", whole.len());
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            fs::write(&a, damaged).unwrap();
            assert!(digest(0).is_none_or(|digest| digest == "0"), "byte {at}");
        }
        put(0);
        assert_eq!(digest(0), Some("0".to_owned()), "rewritten");
        assert!(key(hashes[0], recording).ends_with(BUILD), "bound to this build");
        fs::remove_file(&a).unwrap();
        fs::create_dir(&a).unwrap();
        assert_eq!(digest(0), None, "a folder");
        fs::remove_dir(&a).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&a).status().unwrap().success());
        assert_eq!(digest(0), None, "a pipe");
        fs::remove_file(&a).unwrap();
        fs::create_dir(&a).unwrap();
        put(0);
        assert_eq!(digest(0), Some("0".to_owned()), "replaces a folder");

        let with = |part| Recording { parts: [part].into(), ..Recording::default() };
        let messages = with(Measurement::Messages);
        assert!(cache.get(hashes[0], &messages).is_none(), "lacks a requested measurement");
        cache.put(hashes[0], &messages, &Observations::default());
        assert!(cache.get(hashes[0], &messages).is_some());
        assert!(cache.get(hashes[0], &with(Measurement::Links)).is_none());
        assert!(cache.get(hashes[0], recording).is_some(), "has an extra measurement");
        let carried = Recording { carrier: "udp-".to_owned(), ..Recording::default() };
        assert!(cache.get(hashes[0], &carried).is_none(), "of another carrier");
    }
}
