//! The files of a sweep: one row per run and metric.

use std::io;

use serde_json::Value as Json;
use tidegate_results::{AxisCell, SweepDifference, SweepRow, SweepTable, write_json};

use super::Sweep;
use crate::aggregated::Difference;
use crate::readings::Reading;

impl Sweep {
    /// `sweep.parquet` and `sweep.csv`, which hold the same rows, `sweep.json` and `manifest.json`,
    /// each with its name.
    ///
    /// # Errors
    /// When a row does not match its columns: a bug in this crate.
    pub fn files(&self) -> io::Result<Vec<(String, Vec<u8>)>> {
        let numeric: Vec<bool> = (0..self.keys.len())
            .map(|key| self.points.iter().all(|point| point.values[key].is_number()))
            .collect();
        let columns: Vec<(String, bool)> =
            self.keys.iter().cloned().zip(numeric.iter().copied()).collect();
        let mut table = SweepTable::new(&columns)?;
        let mut csv = String::new();
        csv_line(&mut csv, table.columns());
        for (i, run) in self.runs.iter().enumerate() {
            let point = &self.points[i / self.seeds.len()];
            let axes: Vec<AxisCell> = point
                .values
                .iter()
                .zip(&numeric)
                .map(|(value, number)| cell(value, *number))
                .collect();
            let seed = self.seeds[i % self.seeds.len()];
            for reading in run.iter().flat_map(|known| &known.readings) {
                let mean = point.metrics.iter().find(|one| one.is_of(reading));
                let paired = mean.and_then(|mean| mean.difference.as_ref());
                let difference = paired.map(|paired| difference(paired, i % self.seeds.len()));
                let row = SweepRow { difference, ..row(&axes, seed, reading) };
                csv_line(&mut csv, row.texts());
                table.add(&row)?;
            }
        }
        let mut json = Vec::new();
        write_json(self, &mut json)?;
        let mut manifest = Vec::new();
        write_json(&self.manifest, &mut manifest)?;
        Ok(vec![
            ("sweep.csv".to_owned(), csv.into_bytes()),
            ("sweep.parquet".to_owned(), table.close()?),
            ("sweep.json".to_owned(), json),
            // Last: its presence shows that the others are complete.
            ("manifest.json".to_owned(), manifest),
        ])
    }
}

fn row<'a>(axes: &'a [AxisCell], seed: u64, reading: &'a Reading) -> SweepRow<'a> {
    SweepRow {
        axes,
        seed,
        label: &reading.label,
        protocol: &reading.protocol,
        min_bytes: reading.sizes.map(|sizes| sizes.0),
        below_bytes: reading.sizes.and_then(|sizes| sizes.1),
        metric: reading.metric.name,
        value: reading.value,
        unit: reading.metric.unit,
        is_lower_bound: reading.is_lower_bound,
        difference: None,
        is_maximum: reading.is_maximum,
    }
}

/// The paired difference, with the value of a seed.
fn difference(paired: &Difference, seed: usize) -> SweepDifference {
    SweepDifference {
        of_seed: paired.values[seed],
        n: paired.n as u64,
        mean: paired.mean,
        half_width: paired.half_width,
        p_holm: paired.p_holm,
        is_significant: paired.is_significant,
    }
}

fn cell(value: &Json, is_number: bool) -> AxisCell {
    match value {
        Json::Number(number) if is_number => AxisCell::Number(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => AxisCell::Text(text.clone()),
        other => AxisCell::Text(other.to_string()),
    }
}

/// Appends a CSV line (RFC 4180, except that it ends in a newline).
fn csv_line(csv: &mut String, cells: impl IntoIterator<Item = String>) {
    for (i, cell) in cells.into_iter().enumerate() {
        if i > 0 {
            csv.push(',');
        }
        if cell.contains([',', '"', '\n', '\r']) {
            csv.push_str(&format!("\"{}\"", cell.replace('"', "\"\"")));
        } else {
            csv.push_str(&cell);
        }
    }
    csv.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readings::readings;
    use crate::samples::summary;

    #[test]
    fn a_row_contains_all_of_a_reading() {
        let mut reading = readings(&summary(1)).remove(0);
        reading.value = 1.5;
        let texts = |reading: &Reading| {
            let axes = [AxisCell::Number(0.5)];
            row(&axes, 7, reading).texts().join(" ")
        };
        assert_eq!(
            texts(&reading),
            "0.5 7 long swift   goodput_mean_gbps 1.5 Gbps false      false false"
        );
        (reading.sizes, reading.is_lower_bound) = (Some((100, Some(1_000))), true);
        reading.is_maximum = true;
        assert_eq!(
            texts(&reading),
            "0.5 7 long swift 100 1000 goodput_mean_gbps 1.5 Gbps true      false true"
        );
    }

    #[test]
    fn cells_of_csv_are_quoted_where_they_must_be() {
        let mut csv = String::new();
        csv_line(&mut csv, ["a", "b,c", "d\"e", "", "f\ng"].map(str::to_owned));
        assert_eq!(csv, "a,\"b,c\",\"d\"\"e\",,\"f\ng\"\n");
    }
}
