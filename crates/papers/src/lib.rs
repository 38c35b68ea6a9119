//! Papers and pages: [`reproduce`] the figures of papers and judge their claims, and make a
//! [`report`] about results in folders.

mod conditions;
pub mod markdown;
mod pages;
mod plot;
mod report;
mod reproduce;
#[cfg(test)]
#[path = "../../runs/tests/samples/mod.rs"]
mod samples;

pub use conditions::conditions;
pub use pages::publish;
pub use plot::PALETTE;
pub use report::{
    FigureScheme, FigureWidth, report, reproduction_files, write_pdf, write_report, write_svg,
};
pub use reproduce::{
    Alternative, ClaimResult, Count, Counts, DERIVED, FigureInfo, FigureRuns, FigureText, Forecast,
    PaperRecord, PaperText, Picture, ReproduceOptions, Reproduction, Seeds, Sensitivity, Step,
    StepListener, Verdict, figures, forecast_reproduction, reproduce,
};
#[cfg(test)]
use tidegate_runs::{ProtocolEntry, RunOptions, protocols, run};
