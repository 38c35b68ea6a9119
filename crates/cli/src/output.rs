//! The text and JSON output of subcommands.

use std::path::Path;

use tidegate_workbench::{self as workbench, Error, Results};

use crate::format::shown;
use crate::{Result, emit};

/// The results, and the error of writing them if there is one.
pub(crate) fn done<T>(
    result: Result<T>,
    take: impl FnOnce(Results) -> Option<T>,
) -> Result<(T, Option<Error>)> {
    match result {
        Ok(done) => Ok((done, None)),
        Err(Error::Unwritten { results, why }) => match take(*results) {
            Some(done) => Ok((done, Some(*why))),
            None => Err(*why),
        },
        Err(error) => Err(error),
    }
}

/// The summary of a run.
pub(crate) fn one_run(results: Results) -> Option<workbench::results::Summary> {
    match results {
        Results::Run(summary) => Some(summary),
        _ => None,
    }
}

/// Returns the text with the folder of results. If the results cannot be written, prints the text
/// before the error.
pub(crate) fn ended(text: String, unwritten: Option<Error>, out: Option<&Path>) -> Result<String> {
    match unwritten {
        Some(error) => {
            emit(&text);
            Err(error)
        }
        None => Ok(text + &written(out)),
    }
}

/// The line that names the folder of results.
pub(crate) fn written(out: Option<&Path>) -> String {
    out.map(|out| format!("\nResults are in {}\n", shown(&out.display().to_string())))
        .unwrap_or_default()
}

pub(crate) fn json(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut bytes = Vec::new();
    write(&mut bytes).expect("memory can be written, and every key is a string");
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) fn pretty(value: &impl serde::Serialize) -> String {
    json(|to| workbench::results::write_json(value, to))
}
