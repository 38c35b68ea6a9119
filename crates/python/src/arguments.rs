//! What comes from Python and goes back: scenarios, changes, seeds; TOML and JSON.

use pyo3::prelude::*;
use serde::Serialize;
use tidegate_workbench::{self as workbench, Error, Override, SeedList, Source};

use crate::errors::{RunError, raised};

/// A scenario: `file` and its path, or `text` or `made` and TOML.
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

/// What is changed in a scenario, from `key=value` texts.
pub(crate) fn changes(set: &[String], seed: Option<u64>) -> Result<Vec<Override>, Error> {
    let seed = seed.map(|seed| Ok(Override::option("--seed", "seed", &seed.to_string())));
    set.iter().map(|change| workbench::set(change)).chain(seed).collect()
}

/// Seeds as the command line takes them.
pub(crate) fn seed_list(text: &str) -> Result<SeedList, Error> {
    text.parse().map_err(|message| Error::Usage { option: "--seeds", message })
}

/// Results as JSON.
pub(crate) fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| RunError::new_err(error.to_string()))
}

/// A value as TOML writes it behind a key, from JSON.
#[pyfunction]
pub(crate) fn toml_value(json: &str) -> PyResult<String> {
    Ok(toml(json)?.to_string())
}

/// A table as a TOML document, from JSON.
#[pyfunction]
pub(crate) fn toml_document(json: &str) -> PyResult<String> {
    toml::to_string(&toml(json)?).map_err(refused)
}

fn toml(json: &str) -> PyResult<toml::Value> {
    let value: serde_json::Value = serde_json::from_str(json).map_err(refused)?;
    toml::Value::try_from(value).map_err(refused)
}

fn refused(error: impl ToString) -> PyErr {
    raised(Error::Scenario(error.to_string()))
}

/// Refuses what an argument says that Python's types let through.
pub(crate) fn at_least_one(threads: Option<usize>) -> Result<Option<usize>, Error> {
    let message = "expected a whole number from 1 on".to_owned();
    match threads {
        Some(0) => Err(Error::Usage { option: "--threads", message }),
        threads => Ok(threads),
    }
}
