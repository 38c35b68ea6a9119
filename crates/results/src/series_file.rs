//! `timeseries.parquet`: one row a sample, in long form.

use crate::fixed::Fixed;
use crate::recorder::Names;
use crate::table_file::{Cell, Cells, Column, Kind, TableFile, pick, text};
use parquet::data_type::ByteArray;
use parquet::record::Row;
use std::io::{self, Write};
use tidegate_core::Time;
use tidegate_core::fabric::Node;

const COLUMNS: &[Column] = &[
    Column::required("time_us", Kind::Double),
    Column::required("quantity", Kind::Text),
    Column::optional("flow", Kind::Integer),
    Column::optional("from", Kind::Text),
    Column::optional("to", Kind::Text),
    Column::optional("value", Kind::Double),
];

/// Whose quantity it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entity {
    /// The flow with this id.
    Flow(u64),
    /// The direction of a link from one node to the other.
    Link(Node, Node),
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesRow {
    /// When.
    pub at: Time,
    /// Of what.
    pub entity: Entity,
    /// What, with its unit: `window_bytes`, say.
    pub quantity: &'static str,
    /// How much; what is not finite (no limit, say) is written as null.
    pub value: f64,
}

/// Streams samples into Parquet, in the caller's order.
pub struct SeriesFile<W: Write + Send> {
    table: TableFile<W>,
    hosts: Vec<ByteArray>,
    switches: Vec<ByteArray>,
}

impl<W: Write + Send> SeriesFile<W> {
    /// An empty file.
    ///
    /// # Errors
    /// When `to` refuses to be written.
    pub fn new(to: W, names: &Names) -> io::Result<SeriesFile<W>> {
        let table = TableFile::new(to, "timeseries", COLUMNS)?;
        Ok(SeriesFile { table, hosts: text(&names.hosts), switches: text(&names.switches) })
    }

    /// Appends a sample.
    ///
    /// # Errors
    /// When the file refuses to be written.
    pub fn add(&mut self, row: &SeriesRow) -> io::Result<()> {
        let node = |node| match node {
            Node::Host(i) => pick(&self.hosts, i as usize),
            Node::Switch(i) => pick(&self.switches, i as usize),
        };
        let (flow, from, to) = match row.entity {
            Entity::Flow(id) => (Some(id), Cell::Text(None), Cell::Text(None)),
            Entity::Link(from, to) => (None, node(from), node(to)),
        };
        self.table.row([
            Cell::Double(Some(Fixed::micros(row.at.since(Time::ZERO)).as_f64())),
            Cell::Text(Some(ByteArray::from(row.quantity))),
            Cell::Integer(flow),
            from,
            to,
            Cell::Double(Some(row.value)),
        ])
    }

    /// Completes the file and gives it back.
    ///
    /// # Errors
    /// When the file refuses to be written.
    pub fn close(self) -> io::Result<W> {
        self.table.close()
    }
}

/// A row of `timeseries.parquet` read back.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesEntry {
    /// When, in microseconds.
    pub time_us: f64,
    /// What, with its unit.
    pub quantity: String,
    /// Of which flow, or which direction of a link.
    pub of: EntryOf,
    /// How much; `None` where that is not finite.
    pub value: Option<f64>,
}

/// Whose quantity an entry has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryOf {
    /// The flow with this id.
    Flow(u64),
    /// The link from one node to the other.
    Link(String, String),
}

impl SeriesEntry {
    /// Reads a row; `None` where it is none of such a file.
    pub fn read(row: &Row) -> Option<SeriesEntry> {
        let cells = Cells(row);
        let of = match cells.integer("flow") {
            Some(id) => EntryOf::Flow(id),
            None => EntryOf::Link(cells.text("from")?, cells.text("to")?),
        };
        let (time_us, quantity) = (cells.double("time_us")?, cells.text("quantity")?);
        Some(SeriesEntry { time_us, quantity, of, value: cells.double("value") })
    }
}
