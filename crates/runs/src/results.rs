//! Results of one or more runs: of a comparison, and of several seeds.

use serde::Serialize;
use tidegate_results::Summary;

use crate::aggregated::Aggregated;

/// Results of one or more runs.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it is boxed")]
pub enum Results {
    /// One run.
    Run(Summary),
    /// Of a comparison.
    Comparison(Comparison),
    /// Of several seeds.
    Aggregate(Aggregate),
}

/// A scenario under several protocols: the content of `comparison.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Version of this schema.
    pub schema: u32,
    /// Name of the scenario.
    pub name: String,
    /// Seed of all randomness.
    pub seed: u64,
    /// Differences between the runs that are probably not intended to be compared.
    pub warnings: Vec<String>,
    /// One run per protocol, in the requested order.
    pub runs: Vec<Compared>,
}

/// One run of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// The protocol under comparison. Flows that name another one in the scenario keep it.
    pub protocol: String,
    /// Its results.
    pub summary: Summary,
}

/// A scenario under several seeds, and perhaps several protocols: the content of `aggregate.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Aggregate {
    /// Version of this schema.
    pub schema: u32,
    /// Name of the scenario.
    pub name: String,
    /// The seeds, in the requested order.
    pub seeds: Vec<u64>,
    /// The protocol that others are compared with; null if there is only one.
    pub baseline: Option<String>,
    /// Things that are allowed but probably not intended, each once, with its seeds.
    pub warnings: Vec<String>,
    /// The runs, each under all seeds: one, or one per compared protocol.
    pub runs: Vec<SeededRun>,
}

/// A run under all seeds.
#[derive(Clone, Debug, Serialize)]
pub struct SeededRun {
    /// The protocol under comparison; else those of the scenario, joined by ` + `.
    pub protocol: String,
    /// Digest of each seed's run, in the order of seeds. If two are equal, the seed has no effect.
    pub digests: Vec<String>,
    /// All metrics, over the seeds.
    pub metrics: Vec<Aggregated>,
    /// The whole summary of the first seed, for values that do not depend on the seed.
    #[serde(skip)]
    pub first: Summary,
}
