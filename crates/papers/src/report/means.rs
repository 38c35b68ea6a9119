//! Means over seeds from `sweep.json` and `aggregate.json`. The latter is read as a sweep over
//! protocols, or over no key.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::files::{json, wrong};
use tidegate_runs::destination::folder_name;
use tidegate_runs::estimate::Estimate;
use tidegate_runs::{Aggregate, Error, Sweep};

/// The key whose values are compared with the baseline.
pub(crate) const PROTOCOL: &str = "transport.protocol";

/// Metrics at points of a scenario, over seeds.
#[derive(Debug)]
pub(crate) struct Means {
    /// Name of the scenario.
    pub(crate) name: String,
    /// The keys that vary.
    pub(crate) keys: Vec<String>,
    /// The seeds of every point.
    pub(crate) seeds: Vec<u64>,
    /// The protocol that others are compared with, if any are compared.
    pub(crate) baseline: Option<String>,
    /// The points, in the order of the file.
    pub(crate) points: Vec<Point>,
    /// The failed runs, with reasons.
    pub(crate) failed: Vec<String>,
    /// Things that are allowed but probably not intended.
    pub(crate) warnings: Vec<String>,
    /// Whether the folder also holds the runs of each seed.
    pub(crate) has_runs: bool,
}

/// A point with its metrics.
#[derive(Debug, Deserialize)]
pub(crate) struct Point {
    /// Values in the order of keys.
    pub(crate) values: Vec<Value>,
    pub(crate) metrics: Vec<Entry>,
}

/// A metric at a point.
#[derive(Debug, Deserialize)]
pub(crate) struct Entry {
    pub(crate) label: String,
    pub(crate) protocol: String,
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) min_bytes: Option<u64>,
    pub(crate) below_bytes: Option<u64>,
    pub(crate) n: usize,
    pub(crate) mean: f64,
    pub(crate) half_width: Option<f64>,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) is_lower_bound: bool,
    #[serde(default)]
    pub(crate) is_maximum: bool,
    pub(crate) is_best: bool,
    #[serde(default)]
    pub(crate) difference: Option<Paired>,
}

/// Paired difference of a metric from the baseline.
#[derive(Debug, Deserialize)]
pub(crate) struct Paired {
    pub(crate) n: usize,
    pub(crate) mean: f64,
    pub(crate) half_width: Option<f64>,
    pub(crate) p_holm: Option<f64>,
    pub(crate) is_significant: bool,
}

impl Entry {
    pub(crate) fn estimate(&self) -> Estimate {
        Estimate { mean: self.mean, half: self.half_width }
    }
}

/// `sweep.json`.
#[derive(Deserialize)]
struct SweepFile {
    name: String,
    keys: Vec<String>,
    seeds: Vec<u64>,
    #[serde(default)]
    baseline: Option<String>,
    points: Vec<Point>,
    failed: Vec<Failed>,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Deserialize)]
struct Failed {
    values: Vec<Value>,
    seed: u64,
    why: String,
}

/// `aggregate.json`.
#[derive(Deserialize)]
struct AggregateFile {
    name: String,
    seeds: Vec<u64>,
    #[serde(default)]
    baseline: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    protocol: String,
    metrics: Vec<Entry>,
}

/// JSON as text; strings without quotes.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Means {
    /// The means in a folder; `None` if there are none.
    pub(crate) fn read(folder: &Path) -> Result<Option<Means>, Error> {
        let sweep = folder.join("sweep.json");
        if let Some(file) = versioned::<SweepFile>(&sweep, Sweep::SCHEMA)? {
            let lacks = |values: &[Value]| values.len() != file.keys.len();
            let lacking = file.points.iter().find(|point| lacks(&point.values));
            if let Some(point) = lacking {
                let (values, keys) = (point.values.len(), file.keys.len());
                return Err(wrong(&sweep, format!("a point has {values} values for {keys} keys")));
            }
            let failed = |one: &Failed| {
                let value = |(key, value): (&String, &Value)| format!("{key} {}", text(value));
                let at: Vec<String> = file.keys.iter().zip(&one.values).map(value).collect();
                format!("Failed: {}, seed {}: {}", at.join(", "), one.seed, one.why)
            };
            return Ok(Some(Means {
                failed: file.failed.iter().map(failed).collect(),
                name: file.name,
                keys: file.keys,
                seeds: file.seeds,
                baseline: file.baseline,
                points: file.points,
                warnings: file.warnings,
                has_runs: false,
            }));
        }
        let aggregate = folder.join("aggregate.json");
        let file = versioned::<AggregateFile>(&aggregate, Aggregate::SCHEMA)?;
        let point = |run: Run| Point { values: vec![run.protocol.into()], metrics: run.metrics };
        Ok(file.map(|file| Means {
            name: file.name,
            keys: vec![PROTOCOL.to_owned()],
            seeds: file.seeds,
            baseline: file.baseline,
            points: file.runs.into_iter().map(point).collect(),
            failed: Vec::new(),
            warnings: file.warnings,
            has_runs: true,
        }))
    }

    /// The subfolders with the runs of each seed: those that exist, and those that are missing.
    pub(crate) fn folders(&self, folder: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let seeds = self.seeds.iter().filter(|_| self.has_runs);
        seeds.map(|seed| folder.join(folder_name(*seed))).partition(|path| path.is_dir())
    }
}

/// Reads a file that contains the version of its layout.
fn versioned<T: DeserializeOwned>(path: &Path, known: u32) -> Result<Option<T>, Error> {
    let Some(value) = json::<Value>(path)? else { return Ok(None) };
    match value["schema"].as_u64() {
        Some(schema) if schema == u64::from(known) => {}
        Some(schema) => {
            let why = format!("its layout has version {schema}; this program reads {known}");
            return Err(wrong(path, why));
        }
        None => return Err(wrong(path, "the version of its layout, `schema`, is missing")),
    }
    serde_json::from_value(value).map(Some).map_err(|error| wrong(path, error))
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn entry(label: &str, protocol: &str, metric: &str, mean: f64) -> Value {
        json!({ "label": label, "protocol": protocol, "metric": metric, "unit": "us", "n": 2,
            "mean": mean, "half_width": 1.5, "min": mean - 1.0, "max": mean + 1.0,
            "is_lower_bound": false, "is_best": false })
    }

    pub(crate) fn means(keys: &[&str], points: &[(Value, Vec<Value>)]) -> Means {
        let point = |(values, metrics): &(Value, Vec<Value>)| {
            let point = json!({ "values": values, "metrics": metrics });
            serde_json::from_value(point).unwrap()
        };
        Means {
            name: "x".to_owned(),
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            seeds: vec![1, 2],
            baseline: None,
            points: points.iter().map(point).collect(),
            failed: Vec::new(),
            warnings: Vec::new(),
            has_runs: false,
        }
    }

    #[test]
    fn invalid_files_are_refused_with_the_fault() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |name: &str, text: &str| {
            std::fs::write(dir.path().join(name), text).unwrap();
            Means::read(dir.path()).unwrap_err().to_string()
        };
        for (text, expected) in [
            ("[1", "EOF"),
            ("{}", "`schema`"),
            (r#"{"schema": 2}"#, "has version 2; this program reads 1"),
            (r#"{"schema": 1, "name": "x"}"#, "missing field `keys`"),
            (
                r#"{"schema": 1, "name": "x", "keys": ["a", "b"], "seeds": [1], "failed": [],
                    "points": [{"values": [1], "metrics": []}]}"#,
                "a point has 1 values for 2 keys",
            ),
        ] {
            let message = refused("sweep.json", text);
            assert!(message.contains("sweep.json: ") && message.contains(expected), "{message}");
        }
        std::fs::remove_file(dir.path().join("sweep.json")).unwrap();
        assert!(refused("aggregate.json", r#"{"schema": 1}"#).contains("aggregate.json: missing"));
        std::fs::remove_file(dir.path().join("aggregate.json")).unwrap();
        assert!(Means::read(dir.path()).unwrap().is_none());
    }
}
