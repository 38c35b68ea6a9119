//! Result files of a run: `summary.json`, `flows.parquet`, `timeseries.parquet` and
//! `manifest.json`.
//!
//! Names include units (`fct_us`, `size_bytes`, `rate_gbps`), and undefined values are `null`. The
//! same rows give the same bytes: this crate reads no clock and no random numbers. It neither runs
//! simulations nor prints tables.
//!
//! * [`Recorder`] takes flows one at a time and aggregates them for a [`Summary`], in bounded
//!   memory.
//! * [`Curve`] is the estimated distribution of times, some of which are censored.
//! * [`FlowFile`] and [`SeriesFile`] write rows to Parquet; [`FlowSummary::read`] and
//!   [`SeriesEntry::read`] read them.
//! * [`SweepTable`] writes the metrics of many runs as one long table.
//! * [`Folder`] publishes files under their names only when all are complete.

mod fct;
mod fixed;
mod flow_file;
mod folder;
mod groups;
mod jobs;
mod manifest;
mod queue;
mod real;
mod recorder;
mod rows;
mod series_file;
mod sketch;
mod summary;
mod survival;
mod sweep_table;
mod table_file;

pub use fct::{BySize, FctSummary, Slowdown, is_maximum};
pub use fixed::Fixed;
pub use flow_file::FlowFile;
pub use folder::{FILES, Folder, LIVE, Partial, clear_abandoned};
pub use groups::SIZE_BOUNDS;
pub use jobs::{IterationTimes, Job, JobSummary};
pub use manifest::{
    Host, Manifest, NamedFiles, Origin, PointManifest, ReproductionInputs, ReproductionManifest,
    SweepManifest,
};
pub use queue::{QueueBytes, QueueDelay};
pub use real::{MOST_DILATION, RealSummary, TcpAcks};
pub use recorder::{Recorded, Recorder};
pub use rows::{ExchangeRow, FlowRow, IterationRow, Names, StepRow};
pub use series_file::{Entity, EntryOf, SeriesEntry, SeriesFile, SeriesRow};
pub use summary::{
    CircuitSettings, Engine, FLOWS_MAX, FaultSummary, FlowSummary, Goodput, GroupSummary,
    LINKS_MAX, LinkSummary, MarkedAt, PauseStormSummary, PauseSummary, Summary, SwitchSettings,
    SwitchSummary, busiest, write_json,
};
pub use survival::Curve;
pub use sweep_table::{AxisCell, SweepDifference, SweepRow, SweepTable};
