//! Scenarios: TOML text in, a validated [`Plan`] out.
//!
//! A text passes four steps. It is parsed into a tree whose values record their places. Options
//! ([`Override`]) and presets change the tree. The tree is checked against tables of keys, from
//! which the [`schema`] is generated too. The sections are compiled into the plan. The first
//! problem becomes an [`Error`] that names the place, the key, the value found and the allowed
//! values.
//!
//! A [`sweep`] is a set of scenarios: a scenario, some of its keys, and the values of each.
//!
//! [`interop`] converts files of other simulators to scenarios, and scenarios to such files.
//! [`workload`] makes scenarios from a user's own traffic.
//!
//! This crate does not simulate. Except for these conversions, it reads only files that a scenario
//! names.

mod compile;
mod error;
pub mod files;
mod hash;
mod inputs;
pub mod interop;
mod job;
mod load;
mod manifest;
pub mod options;
mod overload;
mod overrides;
pub mod plan;
mod portable;
mod presets;
mod read;
mod schema;
pub mod sweep;
mod template;
mod wire;
pub mod workload;

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use compile::{scenario, software};
use read::tree::{Node, Source};

pub use compile::failure::{disconnected, unreachable_pairs};
pub use compile::glob::Glob;
pub use compile::preset::{Preset, presets};
pub use compile::sizes::{NamedDistribution, distributions};
pub use compile::software::{Places, SoftwareSwitch};
pub use error::Error;
pub use hash::content_hash;
pub use inputs::InputFiles;
pub use job::chakra;
pub use load::configured_bps;
pub use overload::overload;
pub use overrides::Override;
pub use plan::{Counted, Ineffective, Output, Plan};
pub use portable::{Portable, portable};
pub use read::quantity::magnitude;
pub use schema::schema;
pub use template::{template, template_summary, templates};

/// Size limit of a scenario file, in bytes.
const MOST_BYTES: u64 = 64 << 20;

/// Compiles the plan of a scenario. The text is TOML, or the manifest of a run.
///
/// `origin` is the name of the file. Errors show it, and paths in the scenario are relative to its
/// folder, or to the folder that a manifest records. The text may come from elsewhere.
///
/// # Errors
/// If the scenario is invalid; see [`Error`].
pub fn load(text: &str, origin: &str, overrides: &[Override]) -> Result<Plan, Error> {
    let (mut document, recorded) = document(text, origin, overrides)?;
    presets::fill(&mut document)?;
    let root = read::check::table(document, scenario::ROOT, "")?;
    let beside = || Path::new(origin).parent().unwrap_or(Path::new("")).to_owned();
    let folder = recorded.unwrap_or_else(beside);
    scenario::plan(&root, inputs::Reader::new(folder), &stem(origin, "scenario"))
}

/// Parses a text and applies the overrides. Also returns the folder that a manifest records.
fn document(
    text: &str,
    origin: &str,
    overrides: &[Override],
) -> Result<(Node, Option<PathBuf>), Error> {
    let (mut document, folder) = parsed(text, origin)?;
    sweep::refuse(&document)?;
    for change in overrides {
        document.set(change)?;
    }
    Ok((document, folder))
}

/// Parses a scenario or a manifest. Also returns the folder that a manifest records.
fn parsed(text: &str, origin: &str) -> Result<(Node, Option<PathBuf>), Error> {
    let text = files::without_mark(text);
    let (source, folder) = match manifest::scenario(text) {
        None => (Source::file(origin, text), None),
        Some(Ok((toml, folder))) => (Source::without_lines(origin, &toml), folder),
        Some(Err(found)) => {
            return Err(Error::whole(origin, found, "the manifest of a run, or TOML"));
        }
    };
    Ok((Node::document(&source)?, folder))
}

/// Returns the name of a file without its extension, or `unnamed` if it has no name.
fn stem<'a>(origin: &'a str, unnamed: &'a str) -> Cow<'a, str> {
    Path::new(origin).file_stem().map_or(unnamed.into(), |stem| stem.to_string_lossy())
}

/// Reads the file of a live switch.
///
/// # Errors
/// If the file cannot be read, is not UTF-8, or is invalid; see [`Error`].
pub fn software_switch(path: &Path, overrides: &[Override]) -> Result<SoftwareSwitch, Error> {
    let expected = "the TOML file of a switch; docs/switch.md has examples";
    let (text, origin) = (text_of(path, expected)?, path.display().to_string());
    let (document, _) = document(&text, &origin, overrides)?;
    let root = read::check::table(document, software::ROOT, "")?;
    software::software_switch(&root, &stem(&origin, "switch"))
}

/// Compiles the plan of a scenario file.
///
/// # Errors
/// If the file cannot be read, is not UTF-8, or is invalid; see [`Error`].
pub fn load_file(path: &Path, overrides: &[Override]) -> Result<Plan, Error> {
    load(&text(path)?, &path.display().to_string(), overrides)
}

/// Reads the text of a scenario file.
///
/// # Errors
/// If the file cannot be read, or is not UTF-8.
pub fn text(path: &Path) -> Result<String, Error> {
    let expected = match path.join("manifest.json").is_file() {
        true => "a scenario file, such as manifest.json in this folder",
        false => "a scenario file; `tidegate new` writes one",
    };
    text_of(path, expected)
}

/// Reads the text of a file, which messages describe as `expected`.
fn text_of(path: &Path, expected: &str) -> Result<String, Error> {
    let origin = path.display().to_string();
    let unreadable = |why: std::io::Error| {
        let near = (why.kind() == ErrorKind::NotFound).then(|| files::nearest(path)).flatten();
        Error::whole(&origin, files::unreadable(&why), expected).suggest(near)
    };
    let bytes = files::read(path, MOST_BYTES).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let mut wrong = Error::whole(&origin, "bytes that are not UTF-8", "text in UTF-8");
        wrong.line = 1 + before.iter().filter(|byte| **byte == b'\n').count() as u32;
        wrong.column = 1;
        wrong
    })
}

/// Returns a scenario as a complete file: with all defaults, all parameters, and the switch
/// settings that protocols require.
pub fn resolved(plan: &Plan) -> serde_json::Value {
    plan.resolved.clone()
}
