//! The time series of a run: the engine's samples, and, between two samples, the goodput of every
//! flow and the paused time of every port.

use std::collections::BTreeMap;

use tidegate_core::{Span, Time};
use tidegate_results::{Entity, SeriesFile, SeriesRow};
use tidegate_scenario::Plan;
use tidegate_sim::{FlowRecord, Quantity, Sample};

use super::tables::{Table, TableDestination};
use super::{End, Measure, RunOutput, Start};
use crate::{Error, convert};

/// Writes `timeseries.parquet`.
pub struct SamplesFile {
    to: TableDestination,
    interval: Span,
    goodputs: Goodputs,
    /// The engine's running sums at the last sample, by quantity and port.
    sums: BTreeMap<(u8, u64), f64>,
    at: Time,
    file: Option<SeriesFile<Table>>,
}

impl SamplesFile {
    /// Writes to `to`, with a row for every entity and `interval` up to `end`.
    pub fn new(to: TableDestination, interval: Span, end: Time) -> SamplesFile {
        let goodputs = Goodputs::new(interval, end);
        SamplesFile { to, interval, goodputs, sums: BTreeMap::new(), at: Time::ZERO, file: None }
    }

    /// The row of a sample. For a running sum, the row has the change over the interval that ends
    /// here.
    fn row(&mut self, plan: &Plan, sample: &Sample, span: Span) -> SeriesRow {
        // 8 bits over a picosecond are 8000 Gbit/s.
        let per_interval = match sample.quantity {
            Quantity::PausedPs => 1.0,
            Quantity::QueueBytePs => 1.0 / span.as_ps() as f64,
            Quantity::SentBytes => 8e3 / span.as_ps() as f64,
            _ => return convert::sample(plan, sample),
        };
        let key = (sample.quantity as u8, sample.entity);
        let before = self.sums.insert(key, sample.value).unwrap_or(0.0);
        let value = (sample.value - before) * per_interval;
        convert::sample(plan, &Sample { value, ..*sample })
    }

    /// Whether the scenario selects a row.
    fn is_wanted(plan: &Plan, row: &SeriesRow, port: u64) -> bool {
        let is_port = || {
            let ports = plan.output.ports.as_ref();
            ports.is_none_or(|ports| ports.iter().any(|&wanted| u64::from(wanted) == port))
        };
        plan.output.quantities.contains(&row.quantity)
            && (matches!(row.entity, Entity::Flow(_)) || is_port())
    }

    fn write(&mut self, plan: &Plan, rows: Vec<(SeriesRow, u64)>) -> Result<(), Error> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut wanted = rows.iter().filter(|(row, port)| Self::is_wanted(plan, row, *port));
        wanted.try_for_each(|(row, _)| file.add(row)).map_err(self.to.error())
    }
}

impl Measure for SamplesFile {
    fn samples_every(&self) -> Option<Span> {
        Some(self.interval)
    }

    fn begin(&mut self, start: &Start<'_>) -> Result<(), Error> {
        let names = convert::names(start.plan);
        let file = self.to.table("timeseries.parquet").and_then(|to| SeriesFile::new(to, &names));
        self.file = Some(file.map_err(self.to.error())?);
        Ok(())
    }

    fn sampled(&mut self, plan: &Plan, at: Time, samples: &[Sample]) -> Result<(), Error> {
        let span = at.since(self.at);
        self.at = at;
        self.goodputs.end = plan.duration;
        for sample in samples {
            let row = self.row(plan, sample, span);
            let rows = std::iter::once(row).chain(self.goodputs.row(sample));
            self.write(plan, rows.map(|row| (row, sample.entity)).collect())?;
        }
        let ended = self.goodputs.rows_of_ended();
        self.write(plan, ended.into_iter().map(|row| (row, 0)).collect())
    }

    fn flow(&mut self, _plan: &Plan, record: &FlowRecord) -> Result<(), Error> {
        self.goodputs.ended(record);
        Ok(())
    }

    fn finish(mut self: Box<Self>, end: &End<'_>, output: &mut RunOutput) -> Result<(), Error> {
        let ended = self.goodputs.rows_of_ended();
        self.write(end.plan, ended.into_iter().map(|row| (row, 0)).collect())?;
        if let Some(file) = self.file {
            output.add(file.close().map_err(self.to.error())?);
        }
        Ok(())
    }
}

/// Converts the flows' delivered bytes to goodput. Holds one entry per running flow.
struct Goodputs {
    interval: Span,
    end: Time,
    /// Bytes that each running flow had delivered at its last sample, by id.
    delivered: BTreeMap<u64, u64>,
    /// Flows that ended since the last sample: completion, id, size.
    ended: Vec<(Time, u64, u64)>,
}

impl Goodputs {
    /// For samples every `interval` and at `end`, up to which rows are written.
    fn new(interval: Span, end: Time) -> Goodputs {
        Goodputs { interval, end, delivered: BTreeMap::new(), ended: Vec::new() }
    }

    /// Records the end of a flow. Its last bytes count in the interval in which they were
    /// delivered.
    fn ended(&mut self, record: &FlowRecord) {
        if let Some(completed) = record.completed {
            self.ended.push((completed, record.id, record.delivered_bytes));
        }
    }

    /// The row of a sample; `None` for other quantities.
    fn row(&mut self, sample: &Sample) -> Option<SeriesRow> {
        let delivered =
            (sample.quantity == Quantity::DeliveredBytes).then_some(sample.value as u64)?;
        let before = self.delivered.insert(sample.entity, delivered).unwrap_or(0);
        Some(self.goodput(sample.at, sample.entity, delivered.saturating_sub(before)))
    }

    /// The last rows of flows that ended, by completion. Their times can be one interval before
    /// those of other rows.
    fn rows_of_ended(&mut self) -> Vec<SeriesRow> {
        let ended = std::mem::take(&mut self.ended);
        let mut rows = Vec::with_capacity(2 * ended.len());
        for (completed, id, bytes) in ended {
            let before = self.delivered.remove(&id).unwrap_or(0);
            if completed <= self.end {
                let intervals = completed.as_ps().div_ceil(self.interval.as_ps());
                let at = Time::ZERO.after(self.interval.times(intervals)).min(self.end);
                let entity = Entity::Flow(id);
                rows.push(SeriesRow {
                    at,
                    entity,
                    quantity: "delivered_bytes",
                    value: bytes as f64,
                });
                rows.push(self.goodput(at, id, bytes.saturating_sub(before)));
            }
        }
        rows
    }

    fn goodput(&self, at: Time, id: u64, bytes: u64) -> SeriesRow {
        // The last row covers the rest of the run after the last whole interval.
        let rest = at.as_ps() % self.interval.as_ps();
        let span = if rest > 0 { rest } else { self.interval.as_ps() };
        // 8 bits over a picosecond are 8000 Gbit/s.
        let value = bytes as f64 * 8e3 / span as f64;
        SeriesRow { at, entity: Entity::Flow(id), quantity: "goodput_gbps", value }
    }
}
