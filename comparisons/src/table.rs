//! Formats rows as tables.

use comfy_table::Table as Grid;
use comfy_table::presets::ASCII_MARKDOWN;

use crate::rounds::{Row, Sample};

/// A function that formats rows.
pub(crate) type Table = fn(&[Row]) -> String;

/// Median and quartiles.
pub(crate) struct Spread {
    q1: f64,
    median: f64,
    q3: f64,
}

impl Spread {
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |share: f64| {
            let place = share * last as f64;
            let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Some(Spread { q1: at(0.25), median: at(0.5), q3: at(0.75) })
    }

    /// Formats it with a number of decimals.
    pub(crate) fn shown(&self, digits: usize) -> String {
        let Spread { q1, median, q3 } = self;
        format!("{median:.digits$} ({q1:.digits$} to {q3:.digits$})")
    }
}

/// A quantity of a sample.
type Measure = fn(&Sample) -> f64;

fn spread(row: &Row, of: Measure, digits: usize) -> String {
    Spread::of(row.samples.iter().map(of)).map_or("-".into(), |spread| spread.shown(digits))
}

/// The row's measure over that of another system at the same MTU, round by round.
fn over(rows: &[Row], row: &Row, other: &str, of: Measure) -> String {
    let other = rows.iter().find(|found| found.system == other && found.mtu == row.mtu);
    let Some(other) = other else { return "-".into() };
    let ratios = row.samples.iter().zip(&other.samples).map(|(ours, theirs)| of(ours) / of(theirs));
    Spread::of(ratios).map_or("-".into(), |spread| spread.shown(2))
}

pub(crate) fn grid(header: &[&str]) -> Grid {
    let mut grid = Grid::new();
    grid.load_style(ASCII_MARKDOWN).set_header(header.iter().copied());
    grid
}

fn with_notes(grid: Grid, rows: &[Row]) -> String {
    let samples = || rows.iter().flat_map(|row| &row.samples);
    let rounds = rows.first().map_or(0, |row| row.samples.len());
    let load = Spread::of(samples().map(|sample| sample.load));
    let load = load.map_or("-".into(), |load| load.shown(1));
    format!("{grid}\n\nMedians of {rounds} rounds, with quartiles. Load of the machine: {load}.")
}

/// Goodput and its cost.
pub(crate) fn bulk(rows: &[Row]) -> String {
    let mut grid = grid(&[
        "MTU",
        "system",
        "Gbit/s",
        "Gbit per CPU s",
        "over tcp-cubic",
        "over quinn",
        "machine's CPU s/s",
    ]);
    let cost = Sample::gbit_per_cpu_second;
    for row in rows {
        grid.add_row([
            row.mtu.to_string(),
            row.system.clone(),
            spread(row, Sample::goodput_gbps, 2),
            spread(row, cost, 2),
            over(rows, row, "tcp-cubic", cost),
            over(rows, row, "quinn", cost),
            spread(row, |sample| sample.busy_seconds / sample.figures.seconds, 2),
        ]);
    }
    with_notes(grid, rows)
}

/// Times of messages.
pub(crate) fn latency(rows: &[Row]) -> String {
    let mut grid = grid(&[
        "MTU",
        "system",
        "p50 us",
        "p99 us",
        "p50 over udp",
        "p50 over udp+poll",
        "p50 over tcp-cubic",
        "CPU us",
    ]);
    let p50: Measure = |sample| sample.figures.p50_us;
    for row in rows {
        grid.add_row([
            row.mtu.to_string(),
            row.system.clone(),
            spread(row, p50, 1),
            spread(row, |sample| sample.figures.p99_us, 1),
            over(rows, row, "udp", p50),
            over(rows, row, "udp+poll", p50),
            over(rows, row, "tcp-cubic", p50),
            spread(row, |sample| sample.cpu_seconds * 1e6 / sample.figures.messages as f64, 1),
        ]);
    }
    with_notes(grid, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_interpolates_quartiles() {
        let of = |values: &[f64]| {
            let Spread { q1, median, q3 } = Spread::of(values.iter().copied()).unwrap();
            [q1, median, q3]
        };
        assert_eq!(of(&[5.0, 1.0, 3.0, 2.0, 4.0]), [2.0, 3.0, 4.0]);
        assert_eq!(of(&[1.0, 2.0]), [1.25, 1.5, 1.75]);
        assert_eq!(of(&[7.0]), [7.0; 3]);
        assert!(Spread::of(std::iter::empty()).is_none());
    }
}
