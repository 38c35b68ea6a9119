//! Scenarios: TOML text in, a validated [`Plan`] out.
//!
//! A text goes through one path. It is parsed into a tree whose values know their places; options
//! ([`Override`]) and presets change the tree; it is checked against tables of keys, which also
//! make the [`schema`]; and what each section means is built into the plan. Whatever is wrong on
//! the way becomes one [`Error`] that names the place, the key, what was found and what is allowed.
//!
//! A [`sweep`] is many scenarios in one: keys and the values that they take.
//!
//! Files of other simulators become scenarios, and scenarios become such files, in [`exchange`].
//!
//! Nothing here simulates, and of all files only those that a scenario names are read.

mod compile;
mod error;
pub mod files;
mod hash;
pub mod interop;
mod load;
mod overrides;
pub mod plan;
mod presets;
mod read;
mod schema;
pub mod sweep;
mod template;

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::Path;

use compile::{scenario, software};
use read::tree::{Node, Source};

pub use compile::glob::Glob;
pub use compile::sizes::{Distributed, distributions};
pub use compile::software::{Places, SoftwareSwitch};
pub use error::Error;
pub use hash::content_hash;
pub use load::asked_bps;
pub use overrides::Override;
pub use plan::{Counted, Output, Plan};
pub use read::quantity::magnitude;
pub use schema::schema;
pub use template::{template, template_says, templates};

/// Largest scenario file.
const MOST_BYTES: u64 = 64 << 20;

/// Makes the plan of a scenario.
///
/// `origin` is the file's name: errors show it, and the files that the scenario names are looked
/// for next to it. The text need not come from there.
///
/// # Errors
/// When anything about the scenario is wrong; see [`Error`].
pub fn load(text: &str, origin: &str, overrides: &[Override]) -> Result<Plan, Error> {
    let mut document = document(text, origin, overrides)?;
    presets::fill(&mut document)?;
    let root = read::check::table(document, scenario::ROOT, "")?;
    let folder = Path::new(origin).parent().unwrap_or(Path::new(""));
    scenario::plan(&root, folder, &stem(origin, "scenario"))
}

/// A text as a tree, changed.
fn document(text: &str, origin: &str, overrides: &[Override]) -> Result<Node, Error> {
    let mut document = Node::document(&Source::file(origin, files::without_mark(text)))?;
    sweep::refuse(&document)?;
    for change in overrides {
        document.set(change)?;
    }
    Ok(document)
}

/// What a file is called without its ending; `unnamed` where it has no name.
fn stem<'a>(origin: &'a str, unnamed: &'a str) -> Cow<'a, str> {
    Path::new(origin).file_stem().map_or(unnamed.into(), |stem| stem.to_string_lossy())
}

/// What the file of a switch in software says.
///
/// # Errors
/// When the file cannot be read or is not UTF-8, or anything about it is wrong; see [`Error`].
pub fn software_switch(path: &Path, overrides: &[Override]) -> Result<SoftwareSwitch, Error> {
    let (text, origin) = (text(path)?, path.display().to_string());
    let root = read::check::table(document(&text, &origin, overrides)?, software::ROOT, "")?;
    software::software_switch(&root, &stem(&origin, "switch"))
}

/// Makes the plan of a scenario file.
///
/// # Errors
/// When the file cannot be read or is not UTF-8, or anything about the scenario is wrong; see
/// [`Error`].
pub fn load_file(path: &Path, overrides: &[Override]) -> Result<Plan, Error> {
    load(&text(path)?, &path.display().to_string(), overrides)
}

/// What a scenario file says.
///
/// # Errors
/// When it cannot be read, or is not UTF-8.
pub fn text(path: &Path) -> Result<String, Error> {
    let origin = path.display().to_string();
    let unreadable = |why: std::io::Error| {
        let near = (why.kind() == ErrorKind::NotFound).then(|| files::nearest(path)).flatten();
        Error::whole(&origin, format!("a file that cannot be read ({why})"), "a scenario file")
            .meant(near)
    };
    let bytes = files::read(path, MOST_BYTES).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let mut wrong = Error::whole(&origin, "bytes that are not UTF-8", "a text in UTF-8");
        wrong.line = 1 + before.iter().filter(|byte| **byte == b'\n').count() as u32;
        wrong.column = 1;
        wrong
    })
}

/// A scenario as a file with nothing left out: every default, every parameter, and what protocols
/// asked of the switches.
pub fn resolved(plan: &Plan) -> serde_json::Value {
    plan.resolved.clone()
}
