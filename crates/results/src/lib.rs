//! What a run leaves for people and programs: `summary.json`, `flows.parquet`, `timeseries.parquet`
//! and `manifest.json`.
//!
//! Units are in the names (`fct_us`, `size_bytes`, `rate_gbps`), undefined is `null`, and the same
//! rows give the same bytes: nothing here reads a clock or a random number. This crate neither runs
//! a simulation nor prints a table.
//!
//! * [`Recorder`] takes flows one at a time and keeps what a [`Summary`] needs, in bounded memory.
//! * [`Curve`] is the distribution of times of which some are only known to be longer than others.
//! * [`FlowFile`] and [`SeriesFile`] stream rows into Parquet; [`FlowSummary::read`] and
//!   [`SeriesEntry::read`] read them back.
//! * [`SweepTable`] makes one long table of what many runs measured.
//! * [`Folder`] gives files their names only when all of them are complete.

mod fct;
mod fixed;
mod flow_file;
mod folder;
mod groups;
mod jobs;
mod manifest;
mod real;
mod recorder;
mod series_file;
mod sketch;
mod summary;
mod survival;
mod sweep_table;
mod table_file;

pub use fct::{BySize, FctSummary, Slowdown};
pub use fixed::Fixed;
pub use flow_file::FlowFile;
pub use folder::{FILES, Folder, Partial, clear_abandoned};
pub use groups::SIZE_BOUNDS;
pub use jobs::{IterationTimes, Job, JobSummary, StepRow};
pub use manifest::{Host, Manifest};
pub use real::RealSummary;
pub use recorder::{ExchangeRow, FlowRow, Names, Recorded, Recorder};
pub use series_file::{Entity, EntryOf, SeriesEntry, SeriesFile, SeriesRow};
pub use summary::{
    CircuitSettings, Engine, FLOWS_MAX, FaultSummary, FlowSummary, Goodput, GroupSummary,
    LINKS_MAX, LinkSummary, MarkedAt, PauseStormSummary, PauseSummary, QueueBytes, QueueDelay,
    Summary, SwitchSettings, SwitchSummary, busiest, write_json,
};
pub use survival::Curve;
pub use sweep_table::{AxisCell, SweepDifference, SweepRow, SweepTable};
