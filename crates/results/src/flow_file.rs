//! `flows.parquet`: one row a flow.

use crate::fixed::Fixed;
use crate::recorder::{FlowRow, Names};
use crate::table_file::{Cell, Column, Kind, TableFile, pick, text};
use parquet::data_type::ByteArray;
use std::io::{self, Write};
use tidegate_core::Time;

const COLUMNS: &[Column] = &[
    Column::required("id", Kind::Integer),
    Column::required("label", Kind::Text),
    Column::required("protocol", Kind::Text),
    Column::required("src", Kind::Text),
    Column::required("dst", Kind::Text),
    Column::required("start_us", Kind::Double),
    Column::optional("size_bytes", Kind::Integer),
    Column::required("delivered_bytes", Kind::Integer),
    Column::optional("goodput_gbps", Kind::Double),
    Column::optional("fct_us", Kind::Double),
    Column::optional("acked_us", Kind::Double),
    Column::optional("ideal_us", Kind::Double),
    Column::optional("slowdown", Kind::Double),
    Column::required("retransmitted_bytes", Kind::Integer),
];

/// Streams flows into Parquet. The caller's order is the file's: by completion time, then id,
/// unfinished ones last.
pub struct FlowFile<W: Write + Send> {
    table: TableFile<W>,
    hosts: Vec<ByteArray>,
    labels: Vec<ByteArray>,
    protocols: Vec<ByteArray>,
}

impl<W: Write + Send> FlowFile<W> {
    /// An empty file.
    ///
    /// # Errors
    /// When `to` refuses to be written.
    pub fn new(to: W, names: &Names) -> io::Result<FlowFile<W>> {
        Ok(FlowFile {
            table: TableFile::new(to, "flows", COLUMNS)?,
            hosts: text(&names.hosts),
            labels: text(&names.labels),
            protocols: text(&names.protocols),
        })
    }

    /// Appends a flow.
    ///
    /// # Errors
    /// When the file refuses to be written.
    pub fn add(&mut self, row: &FlowRow) -> io::Result<()> {
        let micros = |span: Time| Fixed::micros(span).as_f64();
        self.table.row([
            Cell::Integer(Some(row.id)),
            pick(&self.labels, usize::from(row.label)),
            pick(&self.protocols, usize::from(row.stack)),
            pick(&self.hosts, row.src as usize),
            pick(&self.hosts, row.dst as usize),
            Cell::Double(Some(micros(row.start))),
            Cell::Integer(row.size_bytes),
            Cell::Integer(Some(row.delivered_bytes)),
            Cell::Double(row.goodput_gbps()),
            Cell::Double(row.fct().map(micros)),
            Cell::Double(row.acked_after().map(micros)),
            Cell::Double((row.ideal > Time::ZERO).then(|| micros(row.ideal))),
            Cell::Double(row.slowdown().map(Fixed::as_f64)),
            Cell::Integer(Some(row.retransmitted_bytes)),
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
