//! Tables of measured values.

use std::fmt::Write;

use serde::Deserialize;

use super::Query;
use super::query::Pick;
use tidegate_runs::estimate::Estimate;
use tidegate_runs::numbers::digits;

/// A metric by two parts of the runs' names: as measured, and, if `best` is set, relative to the
/// best of each column.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) unit: String,
    pub(crate) rows: Vec<String>,
    pub(crate) columns: Vec<String>,
    /// Titles of the axes with the columns, if they are numbers or the plot is a matrix, and with
    /// the rows of a matrix.
    #[serde(default)]
    pub(crate) across: String,
    #[serde(default)]
    pub(crate) down: String,
    /// The query of a cell; its run's name contains `{row}` and `{column}`.
    pub(crate) cells: Query,
    /// Which value of a column is the best, if any.
    best: Option<Pick>,
}

impl Table {
    /// Expands the names of the runs of all cells, row by row.
    pub(super) fn spell_out(&mut self) {
        let names = std::mem::take(&mut self.cells.runs);
        let cells = self.rows.iter().flat_map(|row| self.columns.iter().map(move |col| (row, col)));
        let named = |(row, column): (&String, &String)| {
            names.first().map(|name| name.replace("{row}", row).replace("{column}", column))
        };
        self.cells.runs = cells.filter_map(named).collect();
    }

    /// Markdown of the values of all runs, and, if `best` is set, of a second table relative to the
    /// best of each column, with row means. Cells without a value are empty and do not count.
    pub(crate) fn markdown(&self, value: impl Fn(&Query, &str) -> Option<Estimate>) -> String {
        let names = self.cells.runs.iter();
        let values: Vec<Option<Estimate>> = names.map(|name| value(&self.cells, name)).collect();
        let title = &self.title;
        let unit = if self.unit.is_empty() { String::new() } else { format!(", in {}", self.unit) };
        let mut text = format!("{title}{unit}:\n\n");
        self.lines(&mut text, &values, false);
        let Some(pick) = self.best else { return text.trim_end().to_owned() };
        let width = self.columns.len();
        let best = |column: usize| {
            let column = values.iter().skip(column).step_by(width);
            pick.of(column.flatten().map(|value| value.mean))
        };
        let best: Vec<Option<f64>> = (0..width).map(best).collect();
        // A ratio to zero is undefined.
        let over = |(i, value): (usize, &Option<Estimate>)| {
            let mean = value.as_ref()?.mean / best[i % width].filter(|best| *best > 0.0)?;
            Some(Estimate { mean, half: None })
        };
        let normalised: Vec<Option<Estimate>> = values.iter().enumerate().map(over).collect();
        let _ = write!(text, "\n{title}, over the best of each column:\n\n");
        self.lines(&mut text, &normalised, true);
        text.trim_end().to_owned()
    }

    fn lines(&self, text: &mut String, values: &[Option<Estimate>], with_mean: bool) {
        let mean = if with_mean { " mean |" } else { "" };
        let _ = writeln!(text, "| | {} |{mean}", self.columns.join(" | "));
        let columns = self.columns.len() + usize::from(with_mean);
        let _ = writeln!(text, "|---|{}", "--:|".repeat(columns));
        for (row, values) in self.rows.iter().zip(values.chunks(self.columns.len())) {
            let cell = |value: &Option<Estimate>| {
                value.as_ref().map_or_else(String::new, Estimate::to_string)
            };
            let cells: Vec<String> = values.iter().map(cell).collect();
            let known: Vec<f64> = values.iter().flatten().map(|value| value.mean).collect();
            let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
            let mean = mean.map_or_else(String::new, digits);
            let mean = if with_mean { format!(" {mean} |") } else { String::new() };
            let _ = writeln!(text, "| {row} | {} |{mean}", cells.join(" | "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Figure;
    use tidegate_runs::observe::{Delivered, Observations};

    #[test]
    fn cells_are_relative_to_the_column_s_best() {
        let text = "title = 'x'\n[[grid]]\nname = '{of}, {x}, {y}'\n\
                    over = { of = ['a', 'b'], x = [1, 2], y = ['in', 'out'] }\n\
                    [[table]]\ntitle = 'Goodput'\nunit = 'Gbit/s'\nrows = ['in', 'out']\n\
                    columns = ['a', 'b']\nbest = 'most'\n\
                    cells = { metric = 'arrived', run = '{column}, *, {row}', pick = 'most', \
                    sustained = 0.5 }\n";
        let figure = Figure::read("figure-1", text, false).unwrap().resolved(&[]).unwrap();
        let seen = |run: usize| {
            let name = figure.runs[run].name.as_str();
            let arrived_gbps = match name {
                "a, 1, in" => 1.0,
                "a, 2, in" => 2.0,
                "b, 1, in" => 4.0,
                "a, 1, out" => 8.0,
                _ => 0.0,
            };
            let delivered = Delivered { offered_gbps: 1.0, arrived_gbps, completed_gbps: 0.0 };
            Observations { delivered: Some(delivered), ..Observations::default() }
        };
        let all: Vec<Observations> = (0..figure.runs.len()).map(seen).collect();
        let seeds: Vec<[&Observations; 1]> = all.iter().map(|seen| [seen]).collect();
        assert_eq!(
            figure.tables[0]
                .markdown(|query, name| figure.estimate(query, name, |run| &seeds[run])),
            "Goodput, in Gbit/s:\n\n| | a | b |\n|---|--:|--:|\n| in | 2 | 4 |\n| out | 8 |  |\n\n\
             Goodput, over the best of each column:\n\n| | a | b | mean |\n|---|--:|--:|--:|\n\
             | in | 0.25 | 1 | 0.625 |\n| out | 1 |  | 1 |"
        );
        let other = text.replace("{column}, *", "c, *");
        let refused = Figure::read("figure-1", &other, false).unwrap().resolved(&[]).unwrap_err();
        assert!(refused.contains("table \"Goodput\": unknown run `c, *, in`"), "{refused}");
        let other = text.replace(", pick = 'most', sustained = 0.5", "");
        let refused = Figure::read("figure-1", &other, false).unwrap().resolved(&[]).unwrap_err();
        assert!(refused.contains("`a, *, in` selects several runs"), "{refused}");
    }
}
