//! tidegate in Python: the facade, and the command line, as an extension module.
//!
//! What comes in are texts, numbers and paths; what goes out is the JSON of results, and tables
//! that Arrow's libraries read. The package `tidegate` around it (`python/tidegate`) gives both
//! their types. Whatever takes long is done without Python's lock.

mod arguments;
mod attend;
mod errors;
mod runs;
mod sweeps;
mod table;

use std::ffi::OsString;

use pyo3::prelude::*;
use tidegate_workbench as workbench;

/// The command `tidegate`: its exit status. Signals are the command's for the rest of the process.
#[pyfunction]
fn command(py: Python<'_>, args: Vec<OsString>) -> u8 {
    py.detach(|| tidegate_cli::main(args))
}

/// Every protocol, as JSON.
#[pyfunction]
fn protocols() -> PyResult<String> {
    arguments::json(&workbench::protocols())
}

/// The JSON Schema of scenario files.
#[pyfunction]
fn schema() -> PyResult<String> {
    arguments::json(&workbench::schema())
}

/// Colours for what is no protocol.
#[pyfunction]
fn palette() -> [&'static str; workbench::PALETTE.len()] {
    workbench::PALETTE
}

/// What no value of a metric is below, and above.
#[pyfunction]
fn limits(metric: &str) -> (f64, f64) {
    let (least, most) = workbench::limits(metric);
    (least, most.unwrap_or(f64::INFINITY))
}

/// A metric in words, without its unit.
#[pyfunction]
fn words(metric: &str) -> String {
    workbench::words(metric)
}

/// A key of a scenario in words.
#[pyfunction]
fn key_words(key: &str) -> String {
    workbench::key_words(key)
}

/// A quantity or a plain number, and its unit; nothing where a text is neither.
#[pyfunction]
fn magnitude(text: &str) -> Option<(f64, &'static str)> {
    workbench::magnitude(text)
}

#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::arguments::{toml_document, toml_value};
    #[pymodule_export]
    use crate::runs::{compare, figures, load, reproduce, run, run_seeds};
    #[pymodule_export]
    use crate::sweeps::{build, can_keep, default_cache, forecast, make_runs, missing_runs, sweep};
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        tidegate_workbench::set_revision(tidegate_cli::REVISION);
        Ok(())
    }

    #[pymodule_export]
    use crate::{command, key_words, limits, magnitude, palette, protocols, schema, words};
}
