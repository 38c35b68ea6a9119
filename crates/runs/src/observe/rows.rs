//! Flows and messages, one row each.

use tidegate_results::FlowFile;
use tidegate_scenario::Plan;
use tidegate_sim::FlowRecord;

use super::tables::{Table, TableDestination};
use super::{End, Measure, RunOutput, Start};
use crate::{Error, convert};

/// Writes `flows.parquet`.
pub struct RowsFile {
    to: TableDestination,
    file: Option<FlowFile<Table>>,
}

impl RowsFile {
    /// Writes to `to`.
    pub fn new(to: TableDestination) -> RowsFile {
        RowsFile { to, file: None }
    }
}

impl Measure for RowsFile {
    fn begin(&mut self, start: &Start<'_>) -> Result<(), Error> {
        let names = convert::names(start.plan);
        let file = self.to.table("flows.parquet").and_then(|to| FlowFile::new(to, &names));
        self.file = Some(file.map_err(self.to.error())?);
        Ok(())
    }

    fn flow(&mut self, plan: &Plan, record: &FlowRecord) -> Result<(), Error> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.add(&convert::flow(plan, record, None)).map_err(self.to.error())
    }

    fn finish(self: Box<Self>, _end: &End<'_>, output: &mut RunOutput) -> Result<(), Error> {
        if let Some(file) = self.file {
            output.add(file.close().map_err(self.to.error())?);
        }
        Ok(())
    }
}
