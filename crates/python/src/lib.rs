//! The workbench and the command line as a Python extension module.
//!
//! Arguments are texts, numbers and paths; results are JSON, and tables for Arrow libraries. The
//! package `tidegate` (`python/tidegate`) adds types. Long-running functions release Python's lock
//! (GIL).

mod arguments;
mod attend;
mod errors;
mod runs;
mod sweeps;
mod table;

use std::ffi::OsString;

use pyo3::prelude::*;
use tidegate_workbench as workbench;

/// Runs the command `tidegate` and returns its exit status. The command handles signals for the
/// rest of the process.
#[pyfunction]
fn command(py: Python<'_>, args: Vec<OsString>) -> u8 {
    py.detach(|| tidegate_cli::main(args))
}

/// All protocols, as JSON.
#[pyfunction]
fn protocols() -> PyResult<String> {
    arguments::json(&workbench::protocols())
}

/// The JSON Schema of scenario files.
#[pyfunction]
fn schema() -> PyResult<String> {
    arguments::json(&workbench::schema())
}

/// Colours for lines that are not protocols.
#[pyfunction]
fn palette() -> [&'static str; workbench::PALETTE.len()] {
    workbench::PALETTE
}

/// The least and the greatest possible value of a metric.
#[pyfunction]
fn limits(metric: &str) -> (f64, f64) {
    let (least, most) = workbench::limits(metric);
    (least, most.unwrap_or(f64::INFINITY))
}

/// The description of a metric, without its unit.
#[pyfunction]
fn words(metric: &str) -> String {
    workbench::words(metric)
}

/// The description of a scenario key.
#[pyfunction]
fn key_words(key: &str) -> String {
    workbench::key_words(key)
}

/// Parses a quantity or a plain number; returns value and unit, or `None`.
#[pyfunction]
fn magnitude(text: &str) -> Option<(f64, &'static str)> {
    workbench::magnitude(text)
}

/// All metrics.
#[pyfunction]
fn metrics() -> Vec<&'static str> {
    workbench::METRICS.iter().map(|(name, ..)| *name).collect()
}

/// Version, revision and semantics of this package.
#[pyfunction]
fn versions() -> (&'static str, &'static str, u32) {
    (env!("CARGO_PKG_VERSION"), tidegate_cli::REVISION, workbench::SEMANTICS)
}

#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::arguments::{toml_document, toml_value};
    #[pymodule_export]
    use crate::runs::{
        compare, figures, ideal_paths_warning, load, portable, reproduce, run, run_seeds,
    };
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
    use crate::{command, key_words, limits, magnitude, metrics, palette, protocols, schema};
    #[pymodule_export]
    use crate::{versions, words};
}
