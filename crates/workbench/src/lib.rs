//! The facade: the command line, Python and other programs use tidegate through this crate.
//! [`load`] a scenario, [`run`] it, [`compare`] it under several protocols, and list the catalog's
//! [`protocols`]. Results are returned as the types of the results crate, which is re-exported as
//! [`results`].
//!
//! This crate reads the clock, opens files and starts runs. The engine below it does not read the
//! clock or access files.

mod cache;
mod catalog;
mod compare;
mod conditions;
mod convert;
mod destination;
mod dissector;
mod error;
mod estimate;
pub mod fair_share;
mod headers;
mod interop;
mod interrupt;
mod machine;
pub mod markdown;
#[cfg(target_os = "linux")]
pub mod net;
mod observe;
mod paired;
mod pcap;
mod ranks;
mod readings;
mod report;
mod reproduce;
mod resolution;
mod revision;
mod run;
mod seeds;
mod source;
mod sweep;
mod switch;
#[cfg(target_os = "linux")]
pub mod testbed;
#[cfg(test)]
mod tshark;
mod warnings;

pub use cache::{BUILD, can_keep, default_cache};
pub use catalog::{ParameterInfo, ProtocolEntry, TelemetryBytes, protocol, protocols};
pub use compare::{Carried, Compared, Comparison, carried, compare};
pub use conditions::conditions;
pub use destination::Destination;
pub use dissector::dissector;
pub use error::{Error, Results};
pub use estimate::Estimate;
pub use headers::headers;
pub use interop::{Written, export, import};
pub use observe::Progress;
pub use paired::Difference;
pub use pcap::Capture;
pub use ranks::Ranks;
pub use readings::{Better, METRICS, is_share, key_words, limits, words};
pub use report::plot::PALETTE;
pub use report::{FigureWidth, report, reproduction_files, write_pdf, write_report, write_svg};
pub use reproduce::{
    Alternative, ClaimResult, Count, Counts, DERIVED, FigureInfo, FigureText, Forecast,
    PaperRecord, PaperText, Picture, ReproduceOptions, Reproduction, Seeds, Sensitivity, Step,
    StepListener, Verdict, figures, reproduce,
};
pub use revision::set_revision;
pub use run::{Notice, ProgressListener, RunOptions, Tables, run, serve};
pub use seeds::{Aggregate, Aggregated, SeededRun, only_seeds, run_seeds, seeded_plans};
pub use source::Source;
pub use sweep::{
    Design, FailedRun, Sweep, SweepForecast, SweepOptions, SweepPoint, forecast_capture,
    forecast_runs, forecast_sweep, make_runs, missing_runs, sweep,
};
pub use switch::{
    Datagrams, SwitchEntrance, SwitchOptions, SwitchPath, SwitchReport, load_switch, run_switch,
};
pub use tidegate_results as results;
pub use tidegate_scenario::interop::Format;
pub use tidegate_scenario::sweep::{Axis, Mode, SeedList};
pub use tidegate_scenario::{
    Distributed, Override, Plan, SoftwareSwitch, content_hash, distributions, magnitude, resolved,
    template_summary, templates,
};

/// The example of a protocol in the document compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-a-protocol.md")]
struct AddingAProtocol;

/// Reads a scenario and applies `overrides` to it.
///
/// When the file cannot be read, or the file or an override is invalid. The message names the
/// place, the value, and what is allowed.
pub fn load(from: impl Into<Source>, overrides: &[Override]) -> Result<Plan, Error> {
    let parse = |text: &str| tidegate_scenario::load(text, source::NO_FILE, overrides);
    let plan = match from.into() {
        Source::File(path) => tidegate_scenario::load_file(&path, overrides),
        Source::Text(text) => parse(&text),
        Source::Made(text) => parse(&text).map_err(|mut error| {
            if &*error.origin == source::NO_FILE {
                error.line = 0;
            }
            error
        }),
    };
    plan.map_err(scenario)
}

/// A change to a scenario, from `--set key=value`.
///
/// # Errors
/// When the argument has no key or no value.
pub fn set(argument: &str) -> Result<Override, Error> {
    Override::set(argument).map_err(scenario)
}

/// A key and its values, from `--vary key=values`.
///
/// # Errors
/// When the argument has no key or no value, or a range is empty.
pub fn vary(argument: &str) -> Result<Axis, Error> {
    Axis::vary(argument).map_err(scenario)
}

/// A starting scenario on one of the fabrics that [`templates`] lists. Keys that it leaves at their
/// defaults are included as comments.
///
/// # Errors
/// When no template has this name.
pub fn template(fabric: &str) -> Result<String, Error> {
    tidegate_scenario::template(fabric).map_err(scenario)
}

fn scenario(error: tidegate_scenario::Error) -> Error {
    Error::Scenario(error.to_string())
}

/// The JSON Schema of scenario files.
pub fn schema() -> serde_json::Value {
    tidegate_scenario::schema()
}

/// Runs `job` and turns a panic in it into an error, so that no function of the facade panics.
fn guarded<T>(job: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    // The job's state is dropped with it, so no half-updated state is observed after the panic.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Error::Run(format!("internal error in the simulator: {text}; please report it")))
    })
}
