//! Writes Parquet files row by row in bounded memory, with the same bytes for the same rows, and
//! reads cells of rows.

use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;

/// Number of rows in a row group, which is held in memory.
const ROWS_PER_GROUP: usize = 1 << 16;

/// Type of a column.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Integer,
    Double,
    Text,
    Flag,
}

/// A column of a table.
#[derive(Clone)]
pub(crate) struct Column {
    name: Cow<'static, str>,
    kind: Kind,
    optional: bool,
}

impl Column {
    /// A column in which every row has a value.
    pub(crate) const fn required(name: &'static str, kind: Kind) -> Column {
        Column { name: Cow::Borrowed(name), kind, optional: false }
    }
    /// A column in which every row has a value, with a name known only at run time.
    pub(crate) fn named(name: String, kind: Kind) -> Column {
        Column { name: Cow::Owned(name), kind, optional: false }
    }
    /// A column in which a row may have no value.
    pub(crate) const fn optional(name: &'static str, kind: Kind) -> Column {
        Column { name: Cow::Borrowed(name), kind, optional: true }
    }
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
    fn field(&self) -> Result<Arc<Type>, ParquetError> {
        let (physical, converted) = match self.kind {
            Kind::Integer => (Physical::INT64, ConvertedType::NONE),
            Kind::Double => (Physical::DOUBLE, ConvertedType::NONE),
            Kind::Text => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
            Kind::Flag => (Physical::BOOLEAN, ConvertedType::NONE),
        };
        let repetition = if self.optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let field = Type::primitive_type_builder(&self.name, physical);
        let field = field.with_repetition(repetition).with_converted_type(converted).build()?;
        Ok(Arc::new(field))
    }
}

/// One cell of a row. A double that is not finite is written as null.
pub(crate) enum Cell {
    Integer(Option<u64>),
    Double(Option<f64>),
    Text(Option<ByteArray>),
    Flag(bool),
}

/// Cells of one column that are not yet written.
enum Pending {
    Integer(Vec<i64>),
    Double(Vec<f64>),
    Text(Vec<ByteArray>),
    Flag(Vec<bool>),
}

/// Writer of a table.
pub(crate) struct TableFile<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<Column>,
    pending: Vec<(Pending, Vec<i16>)>,
    rows: usize,
}

impl<W: Write + Send> TableFile<W> {
    /// An empty table.
    pub(crate) fn new(to: W, name: &str, columns: &[Column]) -> io::Result<TableFile<W>> {
        let fields = columns.iter().map(Column::field).collect::<Result<_, _>>().map_err(other)?;
        let schema = Type::group_type_builder(name).with_fields(fields).build().map_err(other)?;
        // The writer name is fixed, so that a new version of the library does not change the file.
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
        let properties = properties.set_created_by("tidegate".to_owned()).build();
        let writer =
            SerializedFileWriter::new(to, Arc::new(schema), Arc::new(properties)).map_err(other)?;
        let pending = columns.iter().map(|column| match column.kind {
            Kind::Integer => (Pending::Integer(Vec::new()), Vec::new()),
            Kind::Double => (Pending::Double(Vec::new()), Vec::new()),
            Kind::Text => (Pending::Text(Vec::new()), Vec::new()),
            Kind::Flag => (Pending::Flag(Vec::new()), Vec::new()),
        });
        let pending = pending.collect();
        Ok(TableFile { writer, columns: columns.to_vec(), pending, rows: 0 })
    }

    /// Appends a row with one cell per column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) -> io::Result<()> {
        let mut cells = cells.into_iter();
        for (pending, levels) in &mut self.pending {
            let missing = || io::Error::other("a row has fewer cells than the table has columns");
            let cell = cells.next().ok_or_else(missing)?;
            let present = match (cell, pending) {
                (Cell::Integer(x), Pending::Integer(all)) => {
                    x.map(|x| all.push(i64::try_from(x).unwrap_or(i64::MAX))).is_some()
                }
                (Cell::Double(x), Pending::Double(all)) => {
                    x.filter(|x| x.is_finite()).map(|x| all.push(x)).is_some()
                }
                (Cell::Text(x), Pending::Text(all)) => x.map(|x| all.push(x)).is_some(),
                (Cell::Flag(x), Pending::Flag(all)) => {
                    all.push(x);
                    true
                }
                _ => return Err(io::Error::other("a cell is not of its column's kind")),
            };
            levels.push(i16::from(present));
        }
        self.rows += 1;
        if self.rows == ROWS_PER_GROUP { self.flush() } else { Ok(()) }
    }

    /// Writes the pending rows as a row group.
    fn flush(&mut self) -> io::Result<()> {
        let mut group = self.writer.next_row_group().map_err(other)?;
        for (column, (pending, levels)) in self.columns.iter().zip(&mut self.pending) {
            let Some(mut writer) = group.next_column().map_err(other)? else { break };
            let levels_of = column.optional.then_some(levels.as_slice());
            match (writer.untyped(), &mut *pending) {
                (ColumnWriter::Int64ColumnWriter(to), Pending::Integer(all)) => {
                    to.write_batch(all, levels_of, None).map_err(other)?;
                    all.clear();
                }
                (ColumnWriter::DoubleColumnWriter(to), Pending::Double(all)) => {
                    to.write_batch(all, levels_of, None).map_err(other)?;
                    all.clear();
                }
                (ColumnWriter::ByteArrayColumnWriter(to), Pending::Text(all)) => {
                    to.write_batch(all, levels_of, None).map_err(other)?;
                    all.clear();
                }
                (ColumnWriter::BoolColumnWriter(to), Pending::Flag(all)) => {
                    to.write_batch(all, levels_of, None).map_err(other)?;
                    all.clear();
                }
                _ => return Err(io::Error::other("a column is not of its schema's kind")),
            }
            writer.close().map_err(other)?;
            levels.clear();
        }
        group.close().map_err(other)?;
        self.rows = 0;
        Ok(())
    }

    /// Writes the pending rows and returns the file.
    pub(crate) fn close(mut self) -> io::Result<W> {
        if self.rows > 0 {
            self.flush()?;
        }
        self.writer.into_inner().map_err(other)
    }
}

fn other(error: ParquetError) -> io::Error {
    match error {
        // Returns an error of the system unchanged.
        ParquetError::External(source) => {
            source.downcast::<io::Error>().map_or_else(io::Error::other, |system| *system)
        }
        error => io::Error::other(error),
    }
}

/// Access to the cells of a row by name.
pub(crate) struct Cells<'a>(pub(crate) &'a Row);

impl Cells<'_> {
    fn field(&self, name: &str) -> Option<&Field> {
        self.0.get_column_iter().find(|(column, _)| *column == name).map(|(_, field)| field)
    }

    pub(crate) fn integer(&self, name: &str) -> Option<u64> {
        match self.field(name)? {
            Field::Long(x) => u64::try_from(*x).ok(),
            _ => None,
        }
    }

    pub(crate) fn double(&self, name: &str) -> Option<f64> {
        match self.field(name)? {
            Field::Double(x) => Some(*x),
            _ => None,
        }
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        match self.field(name)? {
            Field::Str(text) => Some(text.clone()),
            _ => None,
        }
    }

    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        match self.field(name)? {
            Field::Bool(x) => Some(*x),
            _ => None,
        }
    }
}

/// Converts names to cells, which are cheap to copy.
pub(crate) fn text(names: &[String]) -> Vec<ByteArray> {
    names.iter().map(|name| ByteArray::from(name.as_str())).collect()
}

/// Returns the name at `index`, or `?` if there is none.
pub(crate) fn pick(names: &[ByteArray], index: usize) -> Cell {
    Cell::Text(Some(names.get(index).cloned().unwrap_or_else(|| ByteArray::from("?"))))
}
