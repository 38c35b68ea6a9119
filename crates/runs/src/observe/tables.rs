//! Destination of a run's tables: files in a folder, or memory with the bytes of such files.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tidegate_results::Partial;

use super::RunOutput;
use crate::Error;

/// Destination of a run's tables.
#[derive(Clone, Debug)]
pub enum TableDestination {
    /// Files in this folder.
    Folder(PathBuf),
    /// Memory.
    Memory,
}

/// A table that is being written.
pub enum Table {
    File(Partial),
    Bytes(&'static str, Vec<u8>),
}

impl TableDestination {
    /// An empty table of that name.
    pub fn table(&self, name: &'static str) -> io::Result<Table> {
        match self {
            TableDestination::Folder(folder) => Partial::new(folder.join(name)).map(Table::File),
            TableDestination::Memory => Ok(Table::Bytes(name, Vec::new())),
        }
    }

    /// Error for a table that cannot be written.
    pub fn error(&self) -> impl FnOnce(io::Error) -> Error {
        Error::output(match self {
            TableDestination::Folder(folder) => folder,
            TableDestination::Memory => Path::new("memory"),
        })
    }
}

impl RunOutput {
    /// Adds a complete table.
    pub(super) fn add(&mut self, table: Table) {
        match table {
            Table::File(file) => self.files.push(file),
            Table::Bytes(name, bytes) => self.tables.push((name, bytes)),
        }
    }
}

impl Write for Table {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Table::File(file) => file.write(bytes),
            Table::Bytes(_, all) => all.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Table::File(file) => file.flush(),
            Table::Bytes(..) => Ok(()),
        }
    }
}
