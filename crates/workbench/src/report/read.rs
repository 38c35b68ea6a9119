//! Results from folders.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use parquet::record::Row;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_results::{EntryOf, Fixed, FlowSummary, SeriesEntry, Summary};
use tidegate_scenario::files;

use super::differences::{LACKING, differences, follows_protocol};
use crate::Error;
use crate::destination::compared;
use crate::reproduce::{ClaimResult, DOCUMENTS, PaperText, Picture};

/// The file that makes a folder one of a reproduction.
pub(crate) const CLAIMS: &str = "reproduction.json";
/// What it has beside the claims.
pub(crate) const FIGURES: &str = "figures.json";
/// Largest file that is read.
const MOST_BYTES: u64 = 4 << 30;

/// A run that was found.
pub(crate) struct Run {
    /// What tells it from the others.
    pub(crate) title: String,
    /// Its protocol, if it is only one.
    pub(crate) protocol: Option<String>,
    pub(crate) summary: Summary,
    /// Slowdowns of its messages, in order.
    pub(crate) slowdowns: Vec<f64>,
    pub(crate) series: Option<Series>,
    /// The resolved scenario, where the manifest is there.
    pub(crate) scenario: Option<Value>,
    folder: PathBuf,
}

/// What was sampled, in order of time.
#[derive(Default)]
pub(crate) struct Series {
    /// By flow: its label, and (ms, goodput in Gbit/s).
    pub(crate) goodput: BTreeMap<u64, (String, Vec<(f64, f64)>)>,
    /// By port: (ms, KB queued).
    pub(crate) queues: BTreeMap<(String, String), Vec<(f64, f64)>>,
    /// By port that was ever told to pause: (ms, microseconds of the interval paused).
    pub(crate) pauses: BTreeMap<(String, String), Vec<(f64, f64)>>,
}

fn wrong(path: &Path, message: impl std::fmt::Display) -> Error {
    Error::Usage { option: "report", message: format!("{}: {message}", path.display()) }
}

fn json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    match files::read(path, MOST_BYTES) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| wrong(path, error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(wrong(path, error)),
    }
}

/// A reproduction that was found.
pub(crate) struct Found {
    pub(crate) claims: Vec<ClaimResult>,
    pub(crate) papers: Vec<PaperText>,
    pub(crate) pictures: Vec<Picture>,
}

/// Names of the files of the reproduction in a folder; none where there is none.
pub(crate) fn files_of_reproduction(folder: &Path) -> Vec<String> {
    let papers = json::<Vec<PaperText>>(&folder.join(FIGURES)).ok().flatten();
    if papers.is_none() && !folder.join(CLAIMS).exists() {
        return Vec::new();
    }
    let papers = papers.unwrap_or_default();
    let names = papers.iter().flat_map(|paper| &paper.figures).flat_map(|figure| &figure.pictures);
    let is_name = |name: &&String| folder.join(name).parent() == Some(folder);
    let pictures = names.filter(is_name).map(|name| format!("{name}.svg"));
    let others = DOCUMENTS.into_iter().chain([FIGURES, CLAIMS]);
    pictures.chain(others.map(str::to_owned)).collect()
}

/// The reproduction in a folder.
pub(crate) fn reproduction(folder: &Path) -> Result<Option<Found>, Error> {
    let Some(claims) = json(&folder.join(CLAIMS))? else { return Ok(None) };
    let papers: Vec<PaperText> = json(&folder.join(FIGURES))?.unwrap_or_default();
    let names = papers.iter().flat_map(|paper| &paper.figures).flat_map(|figure| &figure.pictures);
    let picture = |name: &String| {
        let path = folder.join(format!("{name}.svg"));
        if path.parent() != Some(folder) {
            return Err(wrong(&folder.join(FIGURES), format!("{name:?} is no picture's name")));
        }
        let svg = files::read(&path, MOST_BYTES).map_err(|error| wrong(&path, error))?;
        let svg = String::from_utf8(svg).map_err(|error| wrong(&path, error))?;
        // The page has none, so that it can be opened wherever it comes from.
        if svg.contains("<script") {
            return Err(wrong(&path, "there is a script in the picture"));
        }
        Ok(Picture { name: name.clone(), svg })
    };
    let pictures = names.map(picture).collect::<Result<Vec<_>, Error>>()?;
    Ok(Some(Found { claims, papers, pictures }))
}

/// The runs in a folder: its own, or those of a comparison in the folders below.
pub(crate) fn runs(folder: &Path) -> Result<Vec<Run>, Error> {
    if let Some(run) = run(folder)? {
        return Ok(vec![run]);
    }
    // Those of a comparison, as they were asked for; else whatever there is.
    let mut below: Vec<PathBuf> = compared(folder).iter().map(|name| folder.join(name)).collect();
    if below.is_empty() {
        let entries = fs::read_dir(folder).map_err(|error| wrong(folder, error))?;
        below = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        below.sort();
    }
    let mut found = Vec::new();
    for path in below {
        found.extend(run(&path)?);
    }
    if found.is_empty() {
        return Err(wrong(
            folder,
            "no results: neither summary.json nor folders with one, nor reproduction.json",
        ));
    }
    Ok(found)
}

fn run(folder: &Path) -> Result<Option<Run>, Error> {
    let Some(summary) = json::<Summary>(&folder.join("summary.json"))? else { return Ok(None) };
    let mut labels = BTreeMap::new();
    let mut slowdowns = Vec::new();
    let warmup_us = summary.warmup_seconds * 1e6;
    rows(&folder.join("flows.parquet"), |row| {
        let Some(flow) = FlowSummary::read(row, warmup_us) else { return };
        if flow.measured {
            slowdowns.extend(flow.slowdown.map(Fixed::as_f64));
        }
        labels.insert(flow.id, flow.label);
    })?;
    slowdowns.sort_by(f64::total_cmp);
    let protocol = if let [only] = &summary.protocols[..] { Some(only.clone()) } else { None };
    let series = series(&folder.join("timeseries.parquet"), &labels)?;
    let title = summary.protocols.join(" + ");
    let manifest = json::<Value>(&folder.join("manifest.json"))?;
    let scenario = manifest.and_then(|mut manifest| manifest.get_mut("scenario").map(Value::take));
    Ok(Some(Run {
        title,
        protocol,
        summary,
        slowdowns,
        series,
        scenario,
        folder: folder.to_owned(),
    }))
}

/// Runs of one title, and all of them where what they were run on differs, get what tells them
/// apart: the scenario's name, then what differs in it, then the seed, then the folder. Scenarios
/// of which some lack what others have are not alike enough to be told apart by what differs.
pub(crate) fn name_apart(runs: &mut [Run]) {
    let settings: Vec<_> =
        differences(runs).0.into_iter().filter(|(key, _)| !follows_protocol(key)).collect();
    let of = |i: usize, values: &[(String, Vec<usize>)]| {
        values.iter().find(|(_, having)| having.contains(&i)).map(|(value, _)| value.clone())
    };
    let all = 0..runs.len();
    let settings_of: Vec<Vec<_>> =
        all.clone().map(|i| settings.iter().map(|(_, values)| of(i, values)).collect()).collect();
    let are_mixed = settings.iter().any(|(_, values)| values.iter().any(|(it, _)| it == LACKING));
    let folders = folders(runs);
    let mut additions: Vec<Vec<String>> =
        vec![runs.iter().map(|run| run.summary.name.clone()).collect()];
    if are_mixed {
        additions.push(folders.clone());
    } else {
        additions.extend(settings.iter().map(|(key, values)| {
            let said = |i| of(i, values).map(|value| format!("{key} {value}")).unwrap_or_default();
            all.clone().map(said).collect()
        }));
    }
    let told_by_settings = additions.len();
    additions.push(runs.iter().map(|run| format!("seed {}", run.summary.seed)).collect());
    additions.push(folders);
    let titles: Vec<String> = runs.iter().map(|run| run.title.clone()).collect();
    let mut said = vec![String::new(); runs.len()];
    for (number, addition) in additions.iter().enumerate() {
        let apart = |i: usize, j: usize| {
            let differ = number < told_by_settings && settings_of[i] != settings_of[j];
            (titles[i] == titles[j] || differ) && said[i] == said[j] && addition[i] != addition[j]
        };
        let named: Vec<usize> = all.clone().filter(|&i| all.clone().any(|j| apart(i, j))).collect();
        for i in named.into_iter().filter(|&i| !addition[i].is_empty()) {
            said[i].push_str(&format!(", {}", addition[i]));
        }
    }
    runs.iter_mut().zip(said).for_each(|(run, said)| run.title.push_str(&said));
}

/// The folders of runs, without what all of them begin with.
fn folders(runs: &[Run]) -> Vec<String> {
    let at = |run: &Run, depth: usize| run.folder.iter().nth(depth).map(|name| name.to_owned());
    let depth = runs.first().map_or(0, |first| {
        let shared = |depth: &usize| runs.iter().all(|run| at(run, *depth) == at(first, *depth));
        (0..first.folder.iter().count()).take_while(shared).count()
    });
    let own = |run: &Run| {
        let own: PathBuf = run.folder.iter().skip(depth).collect();
        if own.as_os_str().is_empty() { &run.folder } else { &own }.display().to_string()
    };
    runs.iter().map(own).collect()
}

/// Calls for every row of a file, if it is there.
fn rows(path: &Path, mut each: impl FnMut(&Row)) -> Result<bool, Error> {
    let file = match files::open(path, u64::MAX) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(wrong(path, error)),
    };
    files::parquet_rows(
        file,
        |why| wrong(path, why),
        |_, row| {
            each(row);
            Ok(())
        },
    )?;
    Ok(true)
}

fn series(path: &Path, labels: &BTreeMap<u64, String>) -> Result<Option<Series>, Error> {
    let mut series = Series::default();
    let found = rows(path, |row| {
        let Some(SeriesEntry { time_us, quantity, of, value: Some(value) }) =
            SeriesEntry::read(row)
        else {
            return;
        };
        let at = time_us * 1e-3;
        match (quantity.as_str(), of) {
            ("goodput_gbps", EntryOf::Flow(id)) => {
                let label = || labels.get(&id).cloned().unwrap_or_default();
                let flow = series.goodput.entry(id).or_insert_with(|| (label(), Vec::new()));
                flow.1.push((at, value));
            }
            ("queue_bytes", EntryOf::Link(from, to)) => {
                series.queues.entry((from, to)).or_default().push((at, value * 1e-3));
            }
            ("paused_us", EntryOf::Link(from, to)) => {
                series.pauses.entry((from, to)).or_default().push((at, value));
            }
            _ => {}
        }
    })?;
    Ok(found.then_some(series))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_those_of_the_folder_and_hold_no_script() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let figures = |picture: &str| {
            format!(
                r#"[{{"paper":"x","title":"X","about":"","figures":
                    [{{"figure":"1","title":"t","said":[],"pictures":["{picture}"]}}]}}]"#
            )
        };
        write(CLAIMS, "[]");
        write(FIGURES, &figures("one"));
        write("one.svg", "<svg></svg>");
        assert_eq!(reproduction(dir.path()).unwrap().unwrap().pictures[0].svg, "<svg></svg>");
        write("one.svg", "<svg><script>1</script></svg>");
        assert!(reproduction(dir.path()).is_err_and(|error| error.to_string().contains("script")));
        write(FIGURES, &figures("../one"));
        assert!(
            reproduction(dir.path())
                .is_err_and(|error| error.to_string().contains("no picture's name"))
        );
    }
}
