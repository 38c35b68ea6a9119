//! The models of `manifest.json`: the inputs of results, for repeating them.

use crate::summary::write_json;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;

/// The program and the machine that made results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// Version of the layout of the manifest.
    pub schema: u32,
    /// Version of the program.
    pub version: String,
    /// Git revision of the build, or `unknown`.
    pub git_revision: String,
    /// Compiler of the program.
    #[serde(default)]
    pub compiler: String,
    /// Version of the engine's semantics.
    pub semantics: u32,
    /// The machine.
    pub host: Host,
}

impl Origin {
    /// Value of [`schema`](Self::schema).
    pub const SCHEMA: u32 = 1;
    /// Keys of manifests that may differ although the results are the same.
    pub const VARIES: [&str; 7] = [
        "version",
        "git_revision",
        "compiler",
        "host",
        "wall_seconds",
        "started_unix_seconds",
        "folder",
    ];
}

/// Files with sizes and messages that scenarios name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NamedFiles {
    /// SHA-256 of the content that was read, in hexadecimal, by the name in the scenario.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Folder that relative names refer to; `None`: that of the manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

/// Inputs of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The program and the machine of the run.
    #[serde(flatten)]
    pub origin: Origin,
    /// Seed of all random numbers.
    pub seed: u64,
    /// The scenario with every default filled in.
    pub scenario: Value,
    /// Hash of the scenario.
    pub scenario_hash: String,
    /// Files that the scenario names.
    #[serde(flatten)]
    pub named: NamedFiles,
    /// Wall-clock time of the run.
    pub wall_seconds: f64,
    /// Start time in seconds since 1970; null if the clock is before 1970.
    pub started_unix_seconds: Option<u64>,
}

impl Manifest {
    /// Writes `manifest.json`.
    ///
    /// # Errors
    /// If writing to `to` fails.
    pub fn write(&self, to: impl io::Write) -> io::Result<()> {
        write_json(self, to)
    }
}

/// Inputs of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepManifest {
    /// The program and the machine of the sweep.
    #[serde(flatten)]
    pub origin: Origin,
    /// The keys that vary.
    pub keys: Vec<String>,
    /// The seeds of every point.
    pub seeds: Vec<u64>,
    /// The protocol that others are compared with; null if no protocol varies.
    pub baseline: Option<String>,
    /// The complete scenario of the first point.
    pub scenario: Value,
    /// Files that the scenarios of all points name.
    #[serde(flatten)]
    pub named: NamedFiles,
    /// Every point, in order.
    pub points: Vec<PointManifest>,
}

/// Inputs of a point of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointManifest {
    /// The value of each key.
    pub values: Vec<Value>,
    /// Changes from the scenario of the first point to that of this point: a JSON merge patch
    /// ([RFC 7396](https://www.rfc-editor.org/rfc/rfc7396)).
    pub changes: Value,
}

/// Inputs of a reproduction of papers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReproductionManifest {
    /// The program and the machine of the reproduction.
    #[serde(flatten)]
    pub origin: Origin,
    /// The options of the reproduction.
    pub reproduce: ReproductionInputs,
}

/// Options of a reproduction that determine its results. Its scenarios belong to the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReproductionInputs {
    /// A paper, or one of its figures; null: everything.
    pub what: Option<String>,
    /// Whether one seed was used.
    pub quick: bool,
    /// Whether settings that the papers leave open were varied.
    pub sensitivity: bool,
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
