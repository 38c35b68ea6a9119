//! The model of `manifest.json`: the inputs of a run, for repeating it.

use crate::summary::write_json;
use serde::{Deserialize, Serialize};
use std::io;

/// Inputs of a run. It contains no paths: the resolved scenario is complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this schema.
    pub schema: u32,
    /// Version of the program.
    pub version: String,
    /// Git revision of the build, or `unknown`.
    pub git_revision: String,
    /// Version of the engine's semantics.
    pub semantics: u32,
    /// Seed of all random numbers.
    pub seed: u64,
    /// The scenario with every default filled in.
    pub scenario: serde_json::Value,
    /// Hash of the scenario.
    pub scenario_hash: String,
    /// Machine of the run.
    pub host: Host,
    /// Wall-clock time of the run.
    pub wall_seconds: f64,
    /// Start time in seconds since 1970; null if the clock is before 1970.
    pub started_unix_seconds: Option<u64>,
}

impl Manifest {
    /// Value of [`schema`](Self::schema).
    pub const SCHEMA: u32 = 1;

    /// Writes `manifest.json`.
    ///
    /// # Errors
    /// If writing to `to` fails.
    pub fn write(&self, to: impl io::Write) -> io::Result<()> {
        write_json(self, to)
    }
}

/// Properties of a machine that affect speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Operating system.
    pub os: String,
    /// Instruction set.
    pub arch: String,
    /// Number of cores available to the process.
    pub cores: Option<usize>,
    /// Model of the processor, if the system reports it.
    pub cpu: Option<String>,
}
