//! The model of `manifest.json`: what is needed to run the same again.

use crate::summary::write_json;
use serde::{Deserialize, Serialize};
use std::io;

/// Where a run's numbers come from. It names no path: the resolved scenario is all that the run was
/// made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this schema.
    pub schema: u32,
    /// Version of the program.
    pub version: String,
    /// Revision it was built from, or `unknown`.
    pub git_revision: String,
    /// Version of the engine's semantics.
    pub semantics: u32,
    /// All randomness came from here.
    pub seed: u64,
    /// The scenario with every default filled in.
    pub scenario: serde_json::Value,
    /// Hash of it.
    pub scenario_hash: String,
    /// The machine.
    pub host: Host,
    /// How long the run took.
    pub wall_seconds: f64,
    /// When it began, in seconds since 1970, where the clock is past that.
    pub started_unix_seconds: Option<u64>,
}

impl Manifest {
    /// The version that [`schema`](Self::schema) carries.
    pub const SCHEMA: u32 = 1;

    /// The bytes of `manifest.json`.
    ///
    /// # Errors
    /// When `to` refuses to be written.
    pub fn write(&self, to: impl io::Write) -> io::Result<()> {
        write_json(self, to)
    }
}

/// A machine, as far as speed depends on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Operating system.
    pub os: String,
    /// Instruction set.
    pub arch: String,
    /// Cores that the process may use.
    pub cores: Option<usize>,
    /// Model of the processor, where the system tells.
    pub cpu: Option<String>,
}
