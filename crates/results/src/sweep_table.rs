//! `sweep.parquet`: one row per run and metric, in long form, with one column per key that varies.

use crate::table_file::{Cell, Column, Kind, TableFile};
use parquet::data_type::ByteArray;
use std::io;

/// A value of a key that varies.
#[derive(Clone, Debug, PartialEq)]
pub enum AxisCell {
    /// A value of a column of numbers.
    Number(f64),
    /// A value of a column of texts.
    Text(String),
}

/// A metric of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepRow<'a> {
    /// Values of the keys that vary.
    pub axes: &'a [AxisCell],
    /// Seed of the run.
    pub seed: u64,
    /// Label of the flows; empty for unlabelled flows, and for metrics of the whole run.
    pub label: &'a str,
    /// Protocol of the flows.
    pub protocol: &'a str,
    /// Smallest size of the messages; `None`: all sizes.
    pub min_bytes: Option<u64>,
    /// Exclusive upper bound of the size; `None`: no bound.
    pub below_bytes: Option<u64>,
    /// Name of the metric.
    pub metric: &'a str,
    /// Value of the metric.
    pub value: f64,
    /// Unit; empty for counts and ratios.
    pub unit: &'a str,
    /// Whether the value is a lower bound, because some messages did not finish.
    pub is_lower_bound: bool,
    /// Difference from the baseline; `None` for the baseline itself.
    pub difference: Option<SweepDifference>,
    /// Whether the value is a percentile of so few values that it is their maximum.
    pub is_maximum: bool,
}

/// Difference of a metric from that of the baseline, which differs only in its protocol.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SweepDifference {
    /// Difference under the row's seed; `None` if either has no value.
    pub of_seed: Option<f64>,
    /// Number of seeds under which both have a value.
    pub n: u64,
    /// Mean difference over these seeds.
    pub mean: f64,
    /// Half-width of the 95 % confidence interval of the mean.
    pub half_width: Option<f64>,
    /// p-value of the paired t-test with Holm's correction.
    pub p_holm: Option<f64>,
    /// Whether the difference is significant.
    pub is_significant: bool,
}

impl SweepRow<'_> {
    /// Returns the cells as texts in the order of columns; missing values are empty.
    pub fn texts(&self) -> Vec<String> {
        let whole = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        let axis = |axis: &AxisCell| match axis {
            AxisCell::Number(number) => number.to_string(),
            AxisCell::Text(text) => text.clone(),
        };
        let real = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let paired = self.difference;
        let rest = [
            self.seed.to_string(),
            self.label.to_owned(),
            self.protocol.to_owned(),
            whole(self.min_bytes),
            whole(self.below_bytes),
            self.metric.to_owned(),
            self.value.to_string(),
            self.unit.to_owned(),
            self.is_lower_bound.to_string(),
            real(paired.and_then(|paired| paired.of_seed)),
            whole(paired.map(|paired| paired.n)),
            real(paired.map(|paired| paired.mean)),
            real(paired.and_then(|paired| paired.half_width)),
            real(paired.and_then(|paired| paired.p_holm)),
            paired.is_some_and(|paired| paired.is_significant).to_string(),
            self.is_maximum.to_string(),
        ];
        self.axes.iter().map(axis).chain(rest).collect()
    }

    fn cells(&self) -> impl Iterator<Item = Cell> {
        let text = |text: &str| Cell::Text(Some(ByteArray::from(text)));
        let axis = move |axis: &AxisCell| match axis {
            AxisCell::Number(number) => Cell::Double(Some(*number)),
            AxisCell::Text(shown) => text(shown),
        };
        let paired = self.difference;
        let rest = [
            Cell::Integer(Some(self.seed)),
            text(self.label),
            text(self.protocol),
            Cell::Integer(self.min_bytes),
            Cell::Integer(self.below_bytes),
            text(self.metric),
            Cell::Double(Some(self.value)),
            text(self.unit),
            Cell::Flag(self.is_lower_bound),
            Cell::Double(paired.and_then(|paired| paired.of_seed)),
            Cell::Integer(paired.map(|paired| paired.n)),
            Cell::Double(paired.map(|paired| paired.mean)),
            Cell::Double(paired.and_then(|paired| paired.half_width)),
            Cell::Double(paired.and_then(|paired| paired.p_holm)),
            Cell::Flag(paired.is_some_and(|paired| paired.is_significant)),
            Cell::Flag(self.is_maximum),
        ];
        self.axes.iter().map(axis).chain(rest)
    }
}

/// Writes the file in memory.
pub struct SweepTable {
    table: TableFile<Vec<u8>>,
    names: Vec<String>,
}

impl SweepTable {
    /// An empty table with a column for each of these keys. The flag selects numbers or texts.
    ///
    /// # Errors
    /// If two columns have the same name.
    pub fn new(axes: &[(String, bool)]) -> io::Result<SweepTable> {
        let kind = |is_number| if is_number { Kind::Double } else { Kind::Text };
        let axis = |(key, number): &(String, bool)| Column::named(key.clone(), kind(*number));
        let rest = [
            Column::required("seed", Kind::Integer),
            Column::required("label", Kind::Text),
            Column::required("protocol", Kind::Text),
            Column::optional("min_bytes", Kind::Integer),
            Column::optional("below_bytes", Kind::Integer),
            Column::required("metric", Kind::Text),
            Column::required("value", Kind::Double),
            Column::required("unit", Kind::Text),
            Column::required("is_lower_bound", Kind::Flag),
            Column::optional("difference", Kind::Double),
            Column::optional("difference_n", Kind::Integer),
            Column::optional("difference_mean", Kind::Double),
            Column::optional("difference_half_width", Kind::Double),
            Column::optional("difference_p_holm", Kind::Double),
            Column::required("is_significant", Kind::Flag),
            Column::required("is_maximum", Kind::Flag),
        ];
        let columns: Vec<Column> = axes.iter().map(axis).chain(rest).collect();
        let names: Vec<String> = columns.iter().map(|column| column.name().to_owned()).collect();
        if let Some(name) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
            return Err(io::Error::other(format!("two columns have the name {}", name.1)));
        }
        Ok(SweepTable { table: TableFile::new(Vec::new(), "sweep", &columns)?, names })
    }

    /// Returns the names of the columns, in order.
    pub fn columns(&self) -> Vec<String> {
        self.names.clone()
    }

    /// Appends a row.
    ///
    /// # Errors
    /// If the row does not match the columns.
    pub fn add(&mut self, row: &SweepRow<'_>) -> io::Result<()> {
        self.table.row(row.cells())
    }

    /// Completes the file and returns its bytes.
    ///
    /// # Errors
    /// If the file cannot be completed.
    pub fn close(self) -> io::Result<Vec<u8>> {
        self.table.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    #[test]
    fn rows_come_back_under_the_names_of_keys() {
        let keys = [("traffic.0.load".to_owned(), true), ("flows[*].size".to_owned(), false)];
        let mut table = SweepTable::new(&keys).unwrap();
        let axes = [AxisCell::Number(0.3), AxisCell::Text("1MB".to_owned())];
        let row = SweepRow {
            axes: &axes,
            seed: 7,
            label: "a",
            protocol: "p",
            min_bytes: None,
            below_bytes: Some(9),
            metric: "m",
            value: 1.5,
            unit: "us",
            is_lower_bound: true,
            difference: Some(SweepDifference {
                of_seed: Some(-0.5),
                n: 2,
                mean: -0.75,
                half_width: Some(0.1),
                p_holm: None,
                is_significant: false,
            }),
            is_maximum: true,
        };
        table.add(&row).unwrap();
        let alone = SweepRow { difference: None, ..row.clone() };
        assert_eq!(
            row.texts().join(" "),
            "0.3 1MB 7 a p  9 m 1.5 us true -0.5 2 -0.75 0.1  false true"
        );
        assert_eq!(alone.texts().join(" "), "0.3 1MB 7 a p  9 m 1.5 us true      false true");
        let columns = table.columns();
        let bytes = bytes::Bytes::from(table.close().unwrap());
        let reader = SerializedFileReader::new(bytes).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 1);
        let found: Vec<(String, Field)> =
            rows[0].get_column_iter().map(|(name, field)| (name.clone(), field.clone())).collect();
        assert_eq!(found.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), columns);
        assert_eq!(found[0].1, Field::Double(0.3));
        assert_eq!(found[1].1, Field::Str("1MB".to_owned()));
        assert_eq!(found[5].1, Field::Null);
        let field = |name: &str| &found.iter().find(|(known, _)| known == name).unwrap().1;
        assert_eq!(*field("difference"), Field::Double(-0.5));
        assert_eq!(*field("difference_n"), Field::Long(2));
        assert_eq!(*field("difference_p_holm"), Field::Null);
        assert!(SweepTable::new(&[("seed".to_owned(), true)]).is_err());
    }
}
