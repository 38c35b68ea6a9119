//! `flows.parquet`: one row per flow.

use crate::fixed::Fixed;
use crate::rows::{FlowRow, Names};
use crate::summary::FlowSummary;
use crate::table_file::{Cell, Cells, Column, Kind, TableFile, pick, text};
use parquet::data_type::ByteArray;
use parquet::record::Row;
use std::io::{self, Write};
use tidegate_core::{Span, Time};

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
    Column::required("measured", Kind::Flag),
    Column::optional("exchange_us", Kind::Double),
];

/// Writes flows to Parquet in the caller's order: by completion time, then id, with unfinished
/// flows last.
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
    /// If writing to `to` fails.
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
    /// If writing fails.
    pub fn add(&mut self, row: &FlowRow) -> io::Result<()> {
        let micros = |span: Span| Fixed::micros(span).as_f64();
        self.table.row([
            Cell::Integer(Some(row.id)),
            pick(&self.labels, usize::from(row.label)),
            pick(&self.protocols, usize::from(row.stack)),
            pick(&self.hosts, row.src as usize),
            pick(&self.hosts, row.dst as usize),
            Cell::Double(Some(micros(row.start.since(Time::ZERO)))),
            Cell::Integer(row.size_bytes),
            Cell::Integer(Some(row.delivered_bytes)),
            Cell::Double(row.goodput_gbps()),
            Cell::Double(row.fct().map(micros)),
            Cell::Double(row.acked_after().map(micros)),
            Cell::Double((row.ideal > Span::ZERO).then(|| micros(row.ideal))),
            Cell::Double(row.slowdown().map(Fixed::as_f64)),
            Cell::Integer(Some(row.retransmitted_bytes)),
            Cell::Flag(row.measured),
            Cell::Double(row.exchange().map(micros)),
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

impl FlowSummary {
    /// Reads a row of `flows.parquet`; `None` if the row has other columns. The file does not
    /// contain fair shares. Older files lack `measured`: there, messages submitted from `warmup_us`
    /// on count as measured.
    pub fn read(row: &Row, warmup_us: f64) -> Option<FlowSummary> {
        let cells = Cells(row);
        let micros = |name| cells.double(name).and_then(Fixed::nearest);
        let start_us = micros("start_us")?;
        let size_bytes = cells.integer("size_bytes");
        let is_late = || size_bytes.is_some() && start_us.as_f64() >= warmup_us;
        Some(FlowSummary {
            id: cells.integer("id")?,
            label: cells.text("label")?,
            src: cells.text("src")?,
            dst: cells.text("dst")?,
            protocol: cells.text("protocol")?,
            start_us,
            size_bytes,
            delivered_bytes: cells.integer("delivered_bytes")?,
            goodput_gbps: cells.double("goodput_gbps"),
            fair_share_gbps: None,
            fct_us: micros("fct_us"),
            acked_us: micros("acked_us"),
            ideal_us: micros("ideal_us"),
            slowdown: micros("slowdown"),
            retransmitted_bytes: cells.integer("retransmitted_bytes")?,
            measured: cells.flag("measured").unwrap_or_else(is_late),
            exchange_us: micros("exchange_us"),
        })
    }
}
