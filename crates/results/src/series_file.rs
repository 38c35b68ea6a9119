//! `timeseries.parquet`: one row per sample, in long form.

use crate::fixed::Fixed;
use crate::rows::Names;
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

/// Object of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entity {
    /// The flow with this id.
    Flow(u64),
    /// The direction of a link from the first node to the second.
    Link(Node, Node),
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesRow {
    /// Time of the sample.
    pub at: Time,
    /// Object of the quantity.
    pub entity: Entity,
    /// Quantity, with its unit, such as `window_bytes`.
    pub quantity: &'static str,
    /// Value; an infinite value, such as no limit, is written as null.
    pub value: f64,
}

/// Writes samples to Parquet in the caller's order.
pub struct SeriesFile<W: Write + Send> {
    table: TableFile<W>,
    hosts: Vec<ByteArray>,
    switches: Vec<ByteArray>,
}

impl<W: Write + Send> SeriesFile<W> {
    /// An empty file.
    ///
    /// # Errors
    /// If writing to `to` fails.
    pub fn new(to: W, names: &Names) -> io::Result<SeriesFile<W>> {
        let table = TableFile::new(to, "timeseries", COLUMNS)?;
        Ok(SeriesFile { table, hosts: text(&names.hosts), switches: text(&names.switches) })
    }

    /// Appends a sample.
    ///
    /// # Errors
    /// If writing fails.
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

    /// Completes the file and returns it.
    ///
    /// # Errors
    /// If writing fails.
    pub fn close(self) -> io::Result<W> {
        self.table.close()
    }
}

/// A row of `timeseries.parquet`.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesEntry {
    /// Time in microseconds.
    pub time_us: f64,
    /// Quantity, with its unit.
    pub quantity: String,
    /// Object of the quantity.
    pub of: EntryOf,
    /// Value; `None` if it is not finite.
    pub value: Option<f64>,
}

/// Object of an entry's quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryOf {
    /// The flow with this id.
    Flow(u64),
    /// The direction of a link from the first node to the second.
    Link(String, String),
}

impl SeriesEntry {
    /// Reads a row; `None` if the row has other columns.
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
