//! Papers and pages: [`reproduce`] the figures of papers and judge their claims, make a [`report`]
//! about results in folders, [`bundle`] them for others, and [`verify`] bundles.

mod bundle;
mod conditions;
mod kept;
pub mod markdown;
mod pages;
mod plot;
mod report;
mod reproduce;
#[cfg(test)]
#[path = "../../runs/tests/samples/mod.rs"]
mod samples;
mod units;

pub use bundle::{Bundled, FileVerdict, RepeatOptions, Verified, bundle, verify};
pub use conditions::conditions;
pub use pages::publish;
pub use plot::PALETTE;
pub use report::{
    FigureScheme, FigureWidth, completions_page, live_page, live_state, report, reproduction_files,
    workload_page, write_pdf, write_report, write_svg,
};
pub use reproduce::{
    Alternative, ClaimResult, DERIVED, FigureInfo, FigureRuns, FigureText, Forecast, PaperRecord,
    PaperText, Picture, ReproduceOptions, Reproduction, RunLength, Seeds, Sensitivity, Step,
    StepListener, Verdict, figures, forecast_reproduction, reproduce, reproduction_manifest,
};
#[cfg(test)]
use tidegate_runs::{ProtocolEntry, RunOptions, protocols, run};
