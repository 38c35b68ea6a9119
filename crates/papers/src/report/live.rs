//! The page of runs that go on, and their state.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidegate_results::LIVE;
use tidegate_runs::destination::results;

use super::html;
use super::report;

/// Folders below that of a command that hold a run: a protocol of a seed.
const DEPTH: usize = 2;

/// The states of the runs that go on in `folders`, as JSON: `runs`, the content of each
/// `live.json` with its folder, and `complete`, whether there are results.
pub fn live_state(folders: &[PathBuf]) -> String {
    let complete = folders.iter().any(|folder| !results(folder).is_empty());
    json!({ "runs": runs(folders), "complete": complete }).to_string()
}

fn runs(folders: &[PathBuf]) -> Vec<Value> {
    let mut found = Vec::new();
    folders.iter().for_each(|folder| collect(folder, folder, DEPTH, &mut found));
    found
}

fn collect(root: &Path, folder: &Path, depth: usize, found: &mut Vec<Value>) {
    let content = fs::read(folder.join(LIVE)).unwrap_or_default();
    if let Ok(Value::Object(mut state)) = serde_json::from_slice(&content) {
        let below = folder.strip_prefix(root).unwrap_or(folder);
        state.insert("folder".to_owned(), below.display().to_string().into());
        found.push(state.into());
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut below: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    below.retain(|path| depth > 0 && path.is_dir());
    below.sort();
    below.iter().for_each(|path| collect(root, path, depth - 1, found));
}

/// The page about `folders` at this moment: runs that go on, else the report of their results, else
/// a page that waits for a run.
pub fn live_page(folders: &[PathBuf]) -> String {
    if runs(folders).is_empty()
        && let Ok(page) = report(folders, &|_| {})
    {
        return page;
    }
    html::live()
}
