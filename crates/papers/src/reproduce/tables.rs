//! Plots of tables, or else of facts, for figures without charts: means with confidence intervals.
//!
//! The longer dimension of a table is the x axis, and each entry of the other has a line. If the
//! names on the x axis are numbers, points are joined. A table with more lines than a reader can
//! distinguish becomes a matrix.

use tidegate_algos::Protocol;

use super::registry::{Fact, Figure, Query, Run, Table, means};
use crate::plot::{Axis, Line, MARKERS, PALETTE, Plot, short, with_unit};
use tidegate_runs::estimate::Estimate;
use tidegate_runs::observe::Observations;

/// Largest number of lines.
const LINES_MAX: usize = PALETTE.len();
/// Ratio of the largest to the smallest value from which an axis is logarithmic.
const LOG_RATIO: f64 = 20.0;
/// Share of the distance between names over which their lines are spread.
const SPREAD: f64 = 0.5;

/// Values by row and column, row by row.
struct Matrix<'a> {
    title: String,
    y: String,
    /// Title of the columns' axis, if their names are numbers.
    x: String,
    rows: Vec<String>,
    columns: Vec<String>,
    /// The table with the titles of the axes, if the plot is a matrix.
    table: Option<&'a Table>,
    /// The query of each cell, and the name of its run.
    cells: Vec<(&'a Query, &'a str)>,
}

/// The matrices of a figure's tables, or else of its facts about several runs.
fn matrices(figure: &Figure) -> Vec<Matrix<'_>> {
    if !figure.tables.is_empty() {
        return figure.tables.iter().map(Matrix::of_table).collect();
    }
    let is_of_same =
        |one: &Fact, other: &Fact| one.measure.runs == other.measure.runs && one.unit == other.unit;
    let together = figure.facts.chunk_by(is_of_same);
    together.filter(|facts| facts[0].measure.runs.len() > 1).map(Matrix::of_facts).collect()
}

/// All plots of a figure's tables and facts.
pub(crate) fn plots(figure: &Figure, runs: &[Vec<&Observations>]) -> Vec<Plot> {
    let seeds = runs.first().map_or(0, Vec::len);
    let plot = |matrix: Matrix<'_>| {
        let value = |&(query, run): &(&Query, &str)| figure.estimate(query, run, |run| &runs[run]);
        let values: Vec<Option<Estimate>> = matrix.cells.iter().map(value).collect();
        matrix.plot(figure, &values, seeds)
    };
    matrices(figure).into_iter().map(plot).collect()
}

/// Sets the titles of a recorded matrix.
pub(super) fn label(figure: &Figure, plot: &mut Plot) {
    let all = matrices(figure);
    let its = all.iter().find(|of| {
        figure.plot_title(&of.title) == plot.title
            && (!plot.cells.is_empty() || of.y == plot.y.label)
    });
    if let Some(matrix) = its {
        matrix.label(plot);
    }
}

/// The line of a plot of [`plots`] that shows the value of a query, and its x; if the value is
/// that of several points of the line, the x of the first and of the last.
pub(super) fn place<'a>(
    figure: &Figure,
    query: &Query,
    plot: &'a Plot,
) -> Option<(&'a Line, f64, Option<f64>)> {
    let all = matrices(figure);
    let is_its =
        |of: &&Matrix<'_>| figure.plot_title(&of.title) == plot.title && of.y == plot.y.label;
    let matrix = all.iter().find(is_its)?;
    let name = query.runs.first()?;
    let is_its = |&cell: &usize| {
        let (of, run) = matrix.cells[cell];
        of.is_like(query) && means(name, run)
    };
    let places: Vec<(usize, usize)> =
        (0..matrix.cells.len()).filter(is_its).map(|cell| matrix.place(cell)).collect();
    let (series, _) = *places.first()?;
    if places.iter().any(|(other, _)| *other != series) {
        return None;
    }
    let line = plot.lines.iter().find(|line| line.name == matrix.series()[series])?;
    let xs = || places.iter().map(|(series, place)| matrix.x(*series, *place));
    let (from, to) = (xs().fold(f64::INFINITY, f64::min), xs().fold(f64::NEG_INFINITY, f64::max));
    Some((line, from, Some(to).filter(|to| from < *to)))
}

impl<'a> Matrix<'a> {
    fn of_table(table: &'a Table) -> Matrix<'a> {
        Matrix {
            title: table.title.clone(),
            y: with_unit(table.title.clone(), &table.unit),
            x: table.across.clone(),
            rows: table.rows.clone(),
            columns: table.columns.clone(),
            table: Some(table),
            cells: table.cells.runs.iter().map(|run| (&table.cells, run.as_str())).collect(),
        }
    }

    /// Facts about the same runs, each of which is a row. The words that all facts begin with are
    /// the title.
    fn of_facts(facts: &'a [Fact]) -> Matrix<'a> {
        let first = facts[0].text.as_str();
        let is_common =
            |end: &usize| facts.iter().all(|fact| fact.text.starts_with(&first[..*end]));
        let ends = first.match_indices(' ').map(|(at, _)| at + 1);
        let end = if facts.len() > 1 { ends.filter(is_common).max() } else { None };
        let common = first[..end.unwrap_or(0)].trim_end();
        // `completion of all, over 50 us` is about completion, over numbers of microseconds.
        let (about, over) = common.rsplit_once(", ").unwrap_or((common, ""));
        let about = if end.is_none() && facts.len() == 1 { first } else { about };
        let runs = &facts[0].measure.runs;
        let cell = |run: &'a String| facts.iter().map(move |fact| (&fact.measure, run.as_str()));
        Matrix {
            title: if about.is_empty() { "measured values" } else { about }.to_owned(),
            y: match about {
                "" => facts[0].unit.clone(),
                about => with_unit(about.to_owned(), &facts[0].unit),
            },
            x: over.to_owned(),
            rows: runs.clone(),
            columns: facts.iter().map(|fact| fact.text[end.unwrap_or(0)..].to_owned()).collect(),
            table: None,
            cells: runs.iter().flat_map(cell).collect(),
        }
    }

    /// Whether the rows are on the x axis.
    fn is_transposed(&self) -> bool {
        self.rows.len() > self.columns.len()
    }

    /// Names of the lines.
    fn series(&self) -> &[String] {
        if self.is_transposed() { &self.columns } else { &self.rows }
    }

    /// Names on the x axis.
    fn across(&self) -> &[String] {
        if self.is_transposed() { &self.rows } else { &self.columns }
    }

    /// Line and place on the x axis of a cell.
    fn place(&self, cell: usize) -> (usize, usize) {
        let (row, column) = (cell / self.columns.len(), cell % self.columns.len());
        if self.is_transposed() { (column, row) } else { (row, column) }
    }

    /// The numbers with which all names on the x axis begin, and their unit.
    fn numbers(&self) -> Option<(Vec<f64>, &str)> {
        let number = |name: &'_ String| -> Option<(f64, usize)> {
            let end = name.find(' ').unwrap_or(name.len());
            Some((name[..end].parse().ok()?, end))
        };
        let all = self.across().iter().map(number).collect::<Option<Vec<_>>>()?;
        let unit = |i: usize| &self.across()[i][all[i].1..];
        let is_same = (0..all.len()).all(|i| unit(i) == unit(0));
        let is_several = all.len() > 2 && is_same;
        is_several.then(|| (all.iter().map(|of| of.0).collect(), unit(0).trim()))
    }

    /// Position on the x axis. The lines of a name stand beside each other.
    fn x(&self, series: usize, place: usize) -> f64 {
        if let Some((numbers, _)) = self.numbers() {
            return numbers[place];
        }
        let others = self.series().len() - 1;
        let shift = if others > 0 { series as f64 / others as f64 - 0.5 } else { 0.0 };
        place as f64 + SPREAD * shift
    }

    /// The plot with a value for each cell.
    fn plot(&self, figure: &Figure, values: &[Option<Estimate>], seeds: usize) -> Plot {
        let title = figure.plot_title(&self.title);
        let means = || values.iter().flatten().map(|value| value.mean);
        let names = |names: &[String]| Axis { names: names.to_vec(), ..Axis::default() };
        if self.series().len() > LINES_MAX {
            let rows = values.chunks(self.columns.len());
            let mean = |value: &Option<Estimate>| value.map(|value| short(value.mean));
            let cells = rows.map(|row| row.iter().map(mean).collect()).collect();
            let [columns, rows] = [&self.columns, &self.rows].map(|all| all.len() as f64 - 0.5);
            let x = Axis { from: Some(-0.5), to: Some(columns), ..names(&self.columns) };
            // The first row is at the top.
            let y = Axis { from: Some(rows), to: Some(-0.5), ..names(&self.rows) };
            let mut plot = Plot { title, x, y, cells, ..Plot::default() };
            self.label(&mut plot);
            return plot;
        }
        let least = means().fold(f64::INFINITY, f64::min);
        let log = least > 0.0 && means().fold(0.0, f64::max) > LOG_RATIO * least;
        // Intervals end at the limit of the quantity, or at the end of a logarithmic axis.
        let floor = if log { least } else { least.min(0.0) };
        let floor = if least < 0.0 { f64::NEG_INFINITY } else { floor };
        let lines = (0..self.series().len()).map(|series| self.line(figure, series, values, floor));
        let x = match self.numbers() {
            None => {
                let ends = (-0.5, self.across().len() as f64 - 0.5);
                Axis { from: Some(ends.0), to: Some(ends.1), ..names(self.across()) }
            }
            Some((numbers, unit)) => {
                let log =
                    numbers[0] > 0.0 && numbers[numbers.len() - 1] > LOG_RATIO / 2.0 * numbers[0];
                Axis { label: self.label_of_numbers(unit), log, ..Axis::default() }
            }
        };
        let note = match seeds {
            0 | 1 => String::new(),
            seeds => format!("Intervals: 95 % confidence over {seeds} seeds"),
        };
        let y = Axis { label: self.y.clone(), log, ..Axis::default() };
        Plot { title, x, y, lines: lines.collect(), note, ..Plot::default() }
    }

    fn label_of_numbers(&self, unit: &str) -> String {
        match self.x.as_str() {
            "" => unit.to_owned(),
            words => with_unit(words.to_owned(), unit),
        }
    }

    /// Sets the titles of the axes, and for a matrix the unit of its cells.
    fn label(&self, plot: &mut Plot) {
        let Some(table) = self.table.filter(|table| !table.down.is_empty()) else {
            plot.y.label.clone_from(&self.y);
            match self.numbers() {
                Some((_, unit)) => plot.x.label = self.label_of_numbers(unit),
                // Rows have no title, unless the plot is a matrix.
                None if self.table.is_some() && !self.is_transposed() => {
                    plot.x.label.clone_from(&self.x);
                }
                None => {}
            }
            return;
        };
        plot.x.label.clone_from(&table.across);
        plot.y.label.clone_from(&table.down);
        plot.note = format!("Cells: {}", table.unit);
    }

    /// A line with its confidence intervals, which end at `floor`.
    fn line(
        &self,
        figure: &Figure,
        series: usize,
        values: &[Option<Estimate>],
        floor: f64,
    ) -> Line {
        let mut cells: Vec<(f64, Estimate)> = Vec::new();
        for (cell, value) in values.iter().enumerate() {
            let (own, place) = self.place(cell);
            cells.extend(
                value.filter(|_| own == series).map(|value| (self.x(series, place), value)),
            );
        }
        let range = |&(_, Estimate { mean, half }): &(f64, Estimate)| {
            let half = half.unwrap_or(0.0);
            ((mean - half).max(floor), mean + half)
        };
        let range: Vec<(f64, f64)> = cells.iter().map(range).collect();
        let is_exact = range.iter().all(|(least, most)| least == most);
        let protocol = self.protocols(figure).map(|all| all[series]);
        let info = protocol.and_then(Protocol::named).map(Protocol::info);
        let (color, marker) = info.map_or_else(
            || (PALETTE[series % PALETTE.len()], MARKERS[series % MARKERS.len()]),
            |info| (info.color, info.marker.name()),
        );
        Line {
            name: self.series()[series].clone(),
            color: color.to_owned(),
            marker: Some(marker.to_owned()),
            dash: info.map_or(0, |info| info.dash.index()),
            points: cells.iter().map(|(x, value)| (*x, value.mean)).collect::<Vec<_>>().into(),
            range: if is_exact { Vec::new() } else { range }.into(),
            apart: self.numbers().is_none(),
            protocol: protocol.map(str::to_owned),
            ..Line::default()
        }
    }

    /// The protocol of each line, if each has one of its own.
    fn protocols<'f>(&self, figure: &'f Figure) -> Option<Vec<&'f str>> {
        let of_line = |series: usize| {
            let cells = (0..self.cells.len()).filter(|&cell| self.place(cell).0 == series);
            let protocol = |cell: usize| {
                let is_meant = |run: &&Run| means(self.cells[cell].1, &run.name);
                figure.runs.iter().find(is_meant)?.protocol.as_deref()
            };
            let mut all = cells.map(protocol);
            let first = all.next()??;
            all.all(|other| other == Some(first)).then_some(first)
        };
        let all = (0..self.series().len()).map(of_line).collect::<Option<Vec<&str>>>()?;
        let is_own = |(i, name): (usize, &&str)| !all[..i].contains(name);
        all.iter().enumerate().all(is_own).then_some(all.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The plot of a table over three seeds.
    fn plot(rows: &[&str], columns: &[&str], values: &[f64]) -> Plot {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let value = |&mean: &f64| Some(Estimate { mean, half: Some(0.5) });
        let values: Vec<_> = values.iter().map(value).collect();
        let query = toml::from_str::<Query>("metric = 'goodput'").unwrap();
        let matrix = Matrix {
            title: "T".to_owned(),
            y: "T (us)".to_owned(),
            x: String::new(),
            rows: owned(rows),
            columns: owned(columns),
            table: None,
            cells: vec![(&query, ""); values.len()],
        };
        matrix.plot(&figure(), &values, 3)
    }

    fn figure() -> Figure {
        Figure::read("figure-1", "title = 'x'", false).unwrap().resolved(&[]).unwrap()
    }

    #[test]
    fn the_longer_dimension_is_the_x_axis() {
        let plot = plot(&["a", "b", "c"], &["in", "out"], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(
            (&plot.x.names[..], plot.title.as_str()),
            (&["a", "b", "c"].map(str::to_owned)[..], "Figure 1: T")
        );
        let lines: Vec<&str> = plot.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(lines, ["in", "out"]);
        assert_eq!(plot.lines[1].points[..], [(0.25, 2.0), (1.25, 4.0), (2.25, 6.0)]);
        assert_eq!(plot.lines[1].range[0], (1.5, 2.5));
        assert!(plot.lines[0].apart && plot.note.contains("3 seeds") && !plot.y.log);
    }

    #[test]
    fn numbers_are_joined_and_wide_values_are_logarithmic() {
        let plot = plot(&["a"], &["2 flows", "10 flows", "100 flows"], &[0.4, 2.0, 30.0]);
        assert_eq!(plot.lines[0].points[..], [(2.0, 0.4), (10.0, 2.0), (100.0, 30.0)]);
        assert_eq!((plot.x.label.as_str(), plot.x.log, plot.y.log), ("flows", true, true));
        // Intervals on a logarithmic axis end at the smallest value.
        assert_eq!(plot.lines[0].range[0], (0.4, 0.9));
        assert!(!plot.lines[0].apart && plot.x.names.is_empty());
    }

    #[test]
    fn many_lines_become_a_matrix() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let plot = plot(&names, &names, &[1.0; 64]);
        assert_eq!((plot.cells.len(), plot.cells[0].len(), plot.lines.len()), (8, 8, 0));
        assert_eq!((plot.y.from, plot.y.to), (Some(7.5), Some(-0.5)));
    }

    #[test]
    fn facts_about_the_same_runs_share_a_plot() {
        let text = "title = 'x'\ntrace_us = 1.0\n[[run]]\nname = 'a'\n[[run]]\nname = 'b'\n";
        let fact = |text: &str| {
            format!(
                "[[fact]]\ntext = '{text}'\nunit = 'us'\n\
                 measure = {{ metric = 'goodput', runs = ['*'] }}\n"
            )
        };
        let plots = |facts: &[&str]| {
            let text = text.to_owned() + &facts.iter().map(|text| fact(text)).collect::<String>();
            let figure = Figure::read("figure-1", &text, false).unwrap().resolved(&[]).unwrap();
            plots(&figure, &[vec![], vec![]])
        };
        let of = |plot: &Plot| (plot.title.clone(), plot.y.label.clone(), plot.x.label.clone());
        let three = plots(&["time, over 50 us", "time, over 100 us", "time, over 500 us"]);
        let expected = ["Figure 1: time", "time (µs)", "over (µs)"].map(str::to_owned);
        assert_eq!(of(&three[0]), expected.clone().into());
        assert_eq!(three[0].lines.len(), 2);
        let one = plots(&["mean goodput"]);
        assert_eq!(of(&one[0]).1, "mean goodput (µs)");
    }
}
