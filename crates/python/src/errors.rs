//! Converts errors to Python exceptions, with the messages of the command line.

use pyo3::PyErr;
use pyo3::exceptions::PyKeyboardInterrupt;
use tidegate_workbench::Error;

pyo3::import_exception!(tidegate.errors, OutputError);
pyo3::import_exception!(tidegate.errors, RunError);
pyo3::import_exception!(tidegate.errors, ScenarioError);
pyo3::import_exception!(tidegate.errors, UsageError);

/// The exception for an error of the workbench.
pub(crate) fn raised(error: Error) -> PyErr {
    if let Error::Unwritten { why, .. } = error {
        return raised(*why);
    }
    let text = error.to_string();
    match error {
        Error::Usage { .. } | Error::Occupied(_) | Error::Busy(_) | Error::Alone(_) => {
            UsageError::new_err(text)
        }
        Error::Scenario(_) | Error::Advised { .. } => ScenarioError::new_err(text),
        Error::Output { .. } | Error::Capture { .. } => OutputError::new_err(text),
        Error::Unwritten { .. } | Error::Run(_) | Error::RankFailure(_) => RunError::new_err(text),
        Error::Interrupted => PyKeyboardInterrupt::new_err(text),
    }
}
