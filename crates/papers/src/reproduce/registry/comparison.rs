//! Tables of another simulator's numbers, one row per run. Each number is a claim.
//!
//! A number near a limit that no run can pass, such as the rate of a link, needs a narrower
//! tolerance: a share of the whole number would accept any value between it and the limit, and
//! several times the distance from it. Therefore that distance may also be half to twice the other
//! simulator's. Numbers within the least tolerance from the limit count as at the limit.

use serde::Deserialize;

use super::{Claim, Query};
use tidegate_runs::numbers::with_unit;

/// A table of numbers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Comparison {
    /// Prefix of its claims' names, followed by a number.
    name: String,
    unit: String,
    /// Tolerance relative to the other simulator's number.
    within: f64,
    /// Least tolerance, in the column's unit.
    #[serde(default)]
    slack: f64,
    /// Origin of the limits, in words.
    #[serde(default)]
    limited_by: String,
    columns: Vec<Column>,
    rows: Vec<Row>,
    /// Notes on cells.
    #[serde(default, rename = "note")]
    notes: Vec<Note>,
}

/// A value that is measured in every run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Column {
    name: String,
    /// A metric and its parameters.
    measure: toml::Table,
    /// Tolerance in place of the table's.
    within: Option<f64>,
    slack: Option<f64>,
    unit: Option<String>,
}

/// Numbers of one run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    run: String,
    /// One value per column; NaN for none.
    values: Vec<f64>,
    /// Limits by arithmetic, or the source's own extremes, one per column; NaN for that of the
    /// metric. By default, those of the metrics.
    #[serde(default)]
    limits: Vec<f64>,
}

/// A note on all cells of some runs or columns, or on a single cell.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    #[serde(default)]
    runs: Vec<String>,
    #[serde(default)]
    columns: Vec<String>,
    text: String,
}

impl Comparison {
    /// A claim for each number, row by row.
    pub(super) fn claims(&self) -> Result<Vec<Claim>, String> {
        let wrong = |fault: String| format!("comparison {:?}: {fault}", self.name);
        let mut claims = Vec::new();
        for row in &self.rows {
            let (given, wanted) = (row.values.len(), self.columns.len());
            if given != wanted {
                return Err(wrong(format!("{}: {given} values, not {wanted}", row.run)));
            }
            let limits = row.limits.len();
            if limits > 0 && (limits != wanted || self.limited_by.is_empty()) {
                let expected = format!("{wanted} limits and `limited_by`");
                return Err(wrong(format!("{}: {limits} limits; expected {expected}", row.run)));
            }
            for (i, (column, &value)) in self.columns.iter().zip(&row.values).enumerate() {
                if value.is_nan() {
                    continue;
                }
                let name = format!("{}.{}", self.name, claims.len() + 1);
                let limit = row.limits.get(i).copied().filter(|limit| !limit.is_nan());
                claims.push(self.claim(name, row, column, (value, limit)).map_err(wrong)?);
            }
        }
        let known = |note: &Note| {
            let runs = note.runs.iter().all(|run| self.rows.iter().any(|row| row.run == *run));
            let is_column = |name: &String| self.columns.iter().any(|of| of.name == *name);
            runs && note.columns.iter().all(is_column)
        };
        match self.notes.iter().find(|note| !known(note)) {
            Some(note) => Err(wrong(format!("unknown cell: {:?} {:?}", note.runs, note.columns))),
            None => Ok(claims),
        }
    }

    fn claim(
        &self,
        name: String,
        row: &Row,
        column: &Column,
        (value, limit): (f64, Option<f64>),
    ) -> Result<Claim, String> {
        let mut measure = column.measure.clone();
        measure.insert("run".to_owned(), toml::Value::String(row.run.clone()));
        let measure: Query = measure
            .try_into()
            .map_err(|error: toml::de::Error| format!("{}: {}", column.name, error.message()))?;
        let unit = column.unit.as_ref().unwrap_or(&self.unit).clone();
        let (within, slack) =
            (column.within.unwrap_or(self.within), column.slack.unwrap_or(self.slack));
        let apart = (within * value.abs()).max(slack);
        let mut tolerance = match slack > within * value.abs() {
            true => format!("{slack} {unit}"),
            false => format!("{} %", (within * 1e4).round() / 1e2),
        };
        let (mut bounds, reason) = ((value - apart, value + apart), &self.limited_by);
        let (nearest, by) = match limit {
            Some(limit) => (limit, format!(" ({reason})")),
            None => (measure.metric.limit(), String::new()),
        };
        let near = near_limit(value, nearest, slack);
        if bounds.0 < near.0 || near.1 < bounds.1 {
            bounds = (bounds.0.max(near.0), bounds.1.min(near.1));
            let limit = match unit.as_str() {
                "times" => format!("a ratio of {nearest}"),
                unit => with_unit(Some(nearest), unit),
            };
            tolerance = format!(
                "{}, and half to twice the distance from {limit}{by}",
                tolerance.trim_end()
            );
        }
        let concerns = |names: &[String], name: &String| names.is_empty() || names.contains(name);
        let notes = self
            .notes
            .iter()
            .filter(|note| concerns(&note.runs, &row.run) && concerns(&note.columns, &column.name));
        let notes: Vec<&str> = notes.map(|note| note.text.trim()).collect();
        let text = format!("{}: {}", row.run, column.name);
        let remarks = (tolerance.trim_end().to_owned(), notes.join(" "));
        Ok(Claim::of_comparison(name, text, (value, unit), measure, bounds, remarks))
    }
}

/// Values at half to twice the distance of `value` from a limit; any if it is at the limit, within
/// `slack`.
fn near_limit(value: f64, limit: f64, slack: f64) -> (f64, f64) {
    let distance = value - limit;
    let (half, twice) = (limit + distance / 2.0, limit + 2.0 * distance);
    if distance.abs() <= slack {
        (f64::NEG_INFINITY, f64::INFINITY)
    } else {
        (half.min(twice), half.max(twice))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    const TEXT: &str = "name = 'x'\nunit = 'KB'\nwithin = 0.05\nslack = 1.0\n\
        columns = [\n  { name = 'a', measure = { metric = 'goodput' } },\n  \
        { name = 'b', unit = 'us', within = 0.2, measure = { metric = 'rtt' } },\n]\n\
        rows = [{ run = 'r', values = [100.0, nan] }, { run = 's', values = [2.0, 10.0] }]\n\
        [[note]]\nruns = ['s']\ncolumns = ['b']\ntext = 'why'";

    fn claims(text: &str) -> Result<Vec<Claim>, String> {
        toml::from_str::<Comparison>(text).unwrap().claims()
    }

    #[test]
    fn each_number_is_a_claim_with_bounds() {
        let claims = claims(TEXT).unwrap();
        let found: Vec<_> = claims.iter().map(|of| (&*of.name, &*of.text, &*of.unit)).collect();
        assert_eq!(found, [("x.1", "r: a", "KB"), ("x.2", "s: a", "KB"), ("x.3", "s: b", "us")]);
        assert_eq!(claims.iter().map(|of| &*of.note).collect::<Vec<_>>(), ["", "", "why"]);
        let tolerances: Vec<_> = claims.iter().map(|of| &*of.tolerance).collect();
        assert_eq!(tolerances, ["5 %", "1 KB", "20 %"]);
        for (i, value, verdict) in [
            (0, 104.9, Verdict::Reproduced),
            (0, 105.1, Verdict::Deviates),
            (1, 2.9, Verdict::Reproduced),
            (1, 3.1, Verdict::Deviates),
            (2, 8.1, Verdict::Reproduced),
            (2, 7.9, Verdict::Deviates),
        ] {
            assert_eq!(claims[i].verdict(Some(value)), verdict, "{i} {value}");
        }
    }

    #[test]
    fn numbers_near_a_limit_can_fail_on_both_sides() {
        let text = "name = 'x'\nunit = 'us'\nwithin = 0.25\nlimited_by = 'bytes'\n\
            columns = [{ name = 'a', measure = { metric = 'message', share = 1.0 } }, \
            { name = 'b', within = 0.05, unit = 'times', \
            measure = { metric = 'slowdown' } }]\n\
            rows = [{ run = 'r', values = [217.0, 1.02], limits = [167.0, nan] }, \
            { run = 's', values = [900.0, 1.0], limits = [167.0, nan] }]";
        let claims = claims(text).unwrap();
        let bounds = |i: usize| claims[i].reproduced.unwrap();
        let is_near = |i: usize, least: f64, most: f64| {
            let (low, high) = bounds(i);
            (low - least).abs() < 1e-9 && (high - most).abs() < 1e-9
        };
        assert!(is_near(0, 192.0, 267.0), "half to twice the distance: {:?}", bounds(0));
        assert!(is_near(1, 1.01, 1.04), "of the metric: {:?}", bounds(1));
        assert!(is_near(2, 675.0, 1125.0), "far from the limit: {:?}", bounds(2));
        assert!(is_near(3, 0.95, 1.05), "at the limit: {:?}", bounds(3));
        let of = |i: usize| claims[i].tolerance.as_str();
        assert_eq!(of(0), "25 %, and half to twice the distance from 167 us (bytes)");
        assert_eq!(of(1), "5 %, and half to twice the distance from a ratio of 1");
        assert_eq!(of(2), "25 %");
    }

    #[test]
    fn a_wrong_table_is_refused() {
        for (from, to, expected) in [
            ("[2.0, 10.0]", "[2.0]", "s: 1 values, not 2"),
            ("'goodput'", "'good'", "a: unknown metric `good`"),
            ("['b']", "['c']", "unknown cell"),
            ("['s']\n", "['t']\n", "unknown cell"),
            ("nan] }", "nan], limits = [1.0] }", "r: 1 limits; expected 2 limits and"),
        ] {
            let refused = claims(&TEXT.replace(from, to)).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
