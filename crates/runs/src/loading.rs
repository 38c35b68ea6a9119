//! Scenarios from files and texts, with changes, and templates of new ones.

use tidegate_scenario::sweep::Axis;
use tidegate_scenario::{Override, Plan};

use crate::error::Error;
use crate::source::{NO_FILE, Source};

/// Reads a scenario and applies `overrides` to it.
///
/// When the file cannot be read, or the file or an override is invalid. The message names the
/// place, the value, and what is allowed.
pub fn load(from: impl Into<Source>, overrides: &[Override]) -> Result<Plan, Error> {
    let parse = |text: &str| tidegate_scenario::load(text, NO_FILE, overrides);
    let plan = match from.into() {
        Source::File(path) => tidegate_scenario::load_file(&path, overrides),
        Source::Text(text) => parse(&text),
        Source::Made(text) => parse(&text).map_err(|mut error| {
            if &*error.origin == NO_FILE {
                error.line = 0;
            }
            error
        }),
    };
    plan.map_err(Error::scenario)
}

/// A change to a scenario, from `--set key=value`.
///
/// # Errors
/// When the argument has no key or no value.
pub fn set(argument: &str) -> Result<Override, Error> {
    Override::set(argument).map_err(Error::scenario)
}

/// A key and its values, from `--vary key=values`.
///
/// # Errors
/// When the argument has no key or no value, or a range is empty.
pub fn vary(argument: &str) -> Result<Axis, Error> {
    Axis::vary(argument).map_err(Error::scenario)
}

/// A starting scenario on one of the fabrics that [`templates`] lists. Keys that it leaves at their
/// defaults are included as comments.
///
/// # Errors
/// When no template has this name.
pub fn template(fabric: &str) -> Result<String, Error> {
    tidegate_scenario::template(fabric).map_err(Error::scenario)
}

/// The JSON Schema of scenario files.
pub fn schema() -> serde_json::Value {
    tidegate_scenario::schema()
}
