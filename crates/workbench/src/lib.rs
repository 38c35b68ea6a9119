//! The facade: the command line, Python and other programs use tidegate through this crate.
//! [`load`] a scenario, [`run`] it, [`compare`] it under several protocols, and list the catalog's
//! [`protocols`]. Results are returned as the types of the results crate, which is re-exported as
//! [`results`].

pub use tidegate_live::{
    ControlLoader, Datagrams, KernelNetwork, SwitchEntrance, SwitchOptions, SwitchPath,
    SwitchReport, load_switch, run_switch,
};
#[cfg(target_os = "linux")]
pub use tidegate_live::{net, testbed};
pub use tidegate_papers::{
    Alternative, Bundled, ClaimResult, DERIVED, FigureInfo, FigureRuns, FigureScheme, FigureText,
    FigureWidth, FileVerdict, Forecast, PALETTE, PaperRecord, PaperText, Picture, RepeatOptions,
    ReproduceOptions, Reproduction, Seeds, Sensitivity, Step, StepListener, Verdict, Verified,
    bundle, completions_page, conditions, figures, forecast_reproduction, live_page, live_state,
    markdown, publish, report, reproduce, reproduction_files, reproduction_manifest, verify,
    workload_page, write_pdf, write_report, write_svg,
};
pub use tidegate_results as results;
pub use tidegate_runs::{
    Aggregate, Aggregated, Axis, BUILD, Better, Bound, Capture, Compared, Comparison,
    CompletedClass, Completions, Design, Destination, Difference, Error, Estimate, FAILURE,
    FailedRun, METRICS, MeasuredWorkload, Mode, Notice, ParameterInfo, PresetInfo, Progress,
    ProgressListener, ProtocolEntry, Ranks, Results, RunOptions, RunnableProtocols, SEMANTICS,
    SeedList, SeededRun, Source, Spread, Sweep, SweepForecast, SweepOptions, SweepPoint, Tables,
    TelemetryBytes, Written, baseline, can_keep, compare, compare_completions, default_cache,
    differing_load, dissector, export, fair_share, forecast_capture, forecast_runs, forecast_sweep,
    headers, ideal_paths_warning, import, is_share, key_words, limits, load, make_runs,
    missing_runs, only_seeds, planned_warnings, protocol, protocols, run, run_seeds,
    runnable_protocols, schema, seeded_plans, serve, set, set_revision, sweep, sweep_warnings,
    template, vary, words, workload_destination, workload_from,
};
pub use tidegate_scenario::interop::Format;
pub use tidegate_scenario::{
    NamedDistribution, Override, Plan, Portable, SoftwareSwitch, content_hash, distributions,
    magnitude, options, portable, resolved, template_summary, templates, workload,
};

/// The example of a protocol in the document compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-a-protocol.md")]
struct AddingAProtocol;
