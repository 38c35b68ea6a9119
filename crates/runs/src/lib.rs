//! Runs of scenarios: [`load`] a scenario, [`run`] it, [`compare`] it under several protocols,
//! [`sweep`] over its keys, and list the catalog's [`protocols`]. Results are returned as the types
//! of the results crate.
//!
//! This crate reads the clock, opens files and starts runs. The engine below it does not read the
//! clock or access files.

mod aggregated;
#[cfg(test)]
mod any_scenario;
pub mod cache;
mod catalog;
mod compare;
pub mod convert;
pub mod destination;
mod dissector;
mod error;
pub mod estimate;
pub mod fair_share;
pub mod guarded;
mod headers;
mod ideal_paths;
mod interop;
pub mod interrupt;
mod loading;
pub mod machine;
pub mod numbers;
pub mod observe;
mod paired;
mod pcap;
mod ranks;
pub mod readings;
mod resolution;
mod results;
pub mod revision;
mod run;
#[cfg(test)]
#[path = "../tests/samples/mod.rs"]
mod samples;
mod seeds;
mod source;
mod sweep;
#[cfg(test)]
mod tshark;
pub mod warnings;
mod workload;

pub use aggregated::{Aggregated, Difference};
pub use cache::{BUILD, can_keep, default_cache};
pub use catalog::{
    ParameterInfo, PresetInfo, ProtocolEntry, TelemetryBytes, nearest, protocol, protocols,
};
pub use compare::{RunnableProtocols, compare, compare_plans, in_parallel, runnable_protocols};
pub use destination::Destination;
pub use dissector::dissector;
pub use error::Error;
pub use estimate::{Estimate, Spread};
use guarded::guarded;
pub use headers::headers;
pub use ideal_paths::ideal_paths_warning;
pub use interop::{Written, export, import};
pub use loading::{load, schema, set, template, vary};
pub use numbers::differing_load;
pub use observe::Progress;
pub use paired::baseline;
pub use pcap::Capture;
pub use ranks::Ranks;
pub use readings::{Better, METRICS, is_share, key_words, limits, words};
pub use results::{Aggregate, Compared, Comparison, Results, SeededRun};
pub use revision::set_revision;
pub use run::{
    Kept, Notice, ProgressListener, RunOptions, Staged, Tables, origin, publish, recorded, run,
    serve,
};
pub use seeds::{only_seeds, planned_warnings, run_seeded, run_seeds, seeded_plans};
pub use source::Source;
pub use sweep::{
    Bound, Design, FailedRun, Sweep, SweepForecast, SweepOptions, SweepPoint, forecast_capture,
    forecast_packets, forecast_runs, forecast_seconds, forecast_sweep, make_runs, missing_runs,
    sweep, sweep_warnings,
};
pub use tidegate_scenario::sweep::{Axis, FAILURE, Mode, SeedList};
pub use tidegate_sim::SEMANTICS;
pub use workload::{
    CompletedClass, Completions, MeasuredWorkload, Percentiles, compare_completions,
    workload_destination, workload_from,
};
