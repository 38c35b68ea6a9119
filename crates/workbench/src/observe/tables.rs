//! Where the tables of a run go: to files of a folder, or to memory, as the bytes of such files.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tidegate_results::Partial;

use super::Left;
use crate::Error;

/// Where the tables of a run go.
#[derive(Clone, Debug)]
pub(crate) enum Shelf {
    /// To files of this folder.
    Folder(PathBuf),
    /// To memory.
    Memory,
}

/// A table on its way.
pub(crate) enum Table {
    File(Partial),
    Bytes(&'static str, Vec<u8>),
}

impl Shelf {
    /// An empty table of that name.
    pub(crate) fn table(&self, name: &'static str) -> io::Result<Table> {
        match self {
            Shelf::Folder(folder) => Partial::new(folder.join(name)).map(Table::File),
            Shelf::Memory => Ok(Table::Bytes(name, Vec::new())),
        }
    }

    /// What cannot be written there.
    pub(crate) fn error(&self) -> impl FnOnce(io::Error) -> Error {
        Error::output(match self {
            Shelf::Folder(folder) => folder,
            Shelf::Memory => Path::new("memory"),
        })
    }
}

impl Left {
    /// Adds a table that is complete.
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
