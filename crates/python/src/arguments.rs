//! Conversion of arguments and results: scenarios, overrides, seeds; TOML and JSON.

use pyo3::prelude::*;
use serde::Serialize;
use tidegate_workbench::{self as workbench, Error, Override, SeedList, Source};

use crate::errors::{RunError, raised};

/// A scenario: the kind `file` with a path, or `text` or `made` with TOML.
#[derive(FromPyObject)]
pub(crate) struct Scenario(String, String);

impl From<Scenario> for Source {
    fn from(Scenario(kind, text): Scenario) -> Source {
        match kind.as_str() {
            "text" => Source::Text(text),
            "made" => Source::Made(text),
            _ => Source::File(text.into()),
        }
    }
}

/// Parses overrides of a scenario from `key=value` texts.
pub(crate) fn changes(set: &[String], seed: Option<u64>) -> Result<Vec<Override>, Error> {
    let seed = seed.map(|seed| Ok(Override::option("--seed", "seed", &seed.to_string())));
    set.iter().map(|change| workbench::set(change)).chain(seed).collect()
}

/// Parses seeds in the syntax of the command line.
pub(crate) fn seed_list(text: &str) -> Result<SeedList, Error> {
    text.parse().map_err(|message| Error::Usage { option: "--seeds", message })
}

/// Serialises results as JSON.
pub(crate) fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| RunError::new_err(error.to_string()))
}

/// Converts a JSON value to a TOML value.
#[pyfunction]
pub(crate) fn toml_value(json: &str) -> PyResult<String> {
    Ok(value(&parsed(json)?)?.to_string())
}

/// Converts a JSON object to a TOML document.
#[pyfunction]
pub(crate) fn toml_document(json: &str) -> PyResult<String> {
    toml(&parsed(json)?)
}

/// Serialises a JSON object as TOML.
pub(crate) fn toml(object: &serde_json::Value) -> PyResult<String> {
    toml::to_string(&value(object)?).map_err(refused)
}

fn value(json: &serde_json::Value) -> PyResult<toml::Value> {
    toml::Value::try_from(json).map_err(refused)
}

fn parsed(json: &str) -> PyResult<serde_json::Value> {
    serde_json::from_str(json).map_err(refused)
}

fn refused(error: impl ToString) -> PyErr {
    raised(Error::Scenario(error.to_string()))
}

/// Maximum number of threads, and the number of partitions of each run. Python checks that both are
/// at least 1.
pub(crate) type Threads = (Option<usize>, Option<usize>);
