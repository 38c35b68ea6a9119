//! Flows and messages, a row each.

use std::path::{Path, PathBuf};

use tidegate_results::{FlowFile, Partial};
use tidegate_scenario::Plan;
use tidegate_sim::FlowRecord;

use super::{End, Left, Measure, Start};
use crate::{Error, convert};

/// Writes `flows.parquet`.
pub(crate) struct RowsFile {
    out: PathBuf,
    file: Option<FlowFile<Partial>>,
}

impl RowsFile {
    /// In the folder `out`.
    pub(crate) fn new(out: &Path) -> RowsFile {
        RowsFile { out: out.to_owned(), file: None }
    }
}

impl Measure for RowsFile {
    fn begin(&mut self, start: &Start<'_>) -> Result<(), Error> {
        let names = convert::names(start.plan);
        let to = Partial::new(self.out.join("flows.parquet"));
        let file = to.and_then(|to| FlowFile::new(to, &names));
        self.file = Some(file.map_err(Error::output(&self.out))?);
        Ok(())
    }

    fn flow(&mut self, plan: &Plan, record: &FlowRecord) -> Result<(), Error> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.add(&convert::flow(plan, record, None)).map_err(Error::output(&self.out))
    }

    fn finish(self: Box<Self>, _end: &End<'_>, left: &mut Left) -> Result<(), Error> {
        if let Some(file) = self.file {
            left.files.push(file.close().map_err(Error::output(&self.out))?);
        }
        Ok(())
    }
}
