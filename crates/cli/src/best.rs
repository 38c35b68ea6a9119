//! Marking the best of what is compared.

use comfy_table::Table;

/// A cell, and what it is compared by.
pub(crate) struct Cell {
    text: String,
    /// Less is better. Infinite: not compared.
    cost: f64,
}

impl Cell {
    /// A cell that is not compared.
    pub(crate) fn plain(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), cost: f64::INFINITY }
    }
    /// A cell whose smallest value is the best.
    pub(crate) fn less(text: String, value: Option<f64>) -> Cell {
        Cell { text, cost: value.unwrap_or(f64::INFINITY) }
    }
    /// A cell whose largest value is the best.
    pub(crate) fn more(text: String, value: Option<f64>) -> Cell {
        Cell { text, cost: value.map_or(f64::INFINITY, |value| -value) }
    }
}

/// Adds rows, with a star behind the best cell of each column among the rows that begin with the same cell. Where all are equal, or there is
/// only one, none is best.
pub(crate) fn add_rows(table: &mut Table, rows: Vec<Vec<Cell>>) {
    let best = |row: &[Cell], column: usize| {
        let rivals = rows.iter().filter(|other| other[0].text == row[0].text).map(|other| other[column].cost);
        let costs: Vec<f64> = rivals.filter(|cost| cost.is_finite()).collect();
        let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
        (row[column].cost == least && costs.iter().any(|cost| *cost > least), costs.len() > 1)
    };
    for row in &rows {
        table.add_row(row.iter().enumerate().map(|(column, cell)| match best(row, column) {
            (true, _) => format!("{}*", cell.text),
            // A place for the star, so that digits stay below digits.
            (false, true) => format!("{} ", cell.text),
            (false, false) => cell.text.clone(),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_each_label_is_marked() {
        let row = |label: &str, value: f64| {
            vec![
                Cell::plain(label),
                Cell::less(value.to_string(), Some(value)),
                Cell::more(value.to_string(), Some(value)),
            ]
        };
        let mut table = Table::new();
        add_rows(&mut table, vec![row("a", 1.0), row("a", 2.0), row("b", 9.0), row("c", 3.0), row("c", 3.0)]);
        let cells: Vec<Vec<String>> =
            table.row_iter().map(|row| row.cell_iter().map(|cell| cell.content()).collect()).collect();
        assert_eq!(cells[0], ["a", "1*", "1 "]);
        assert_eq!(cells[1], ["a", "2 ", "2*"]);
        assert_eq!(cells[2], ["b", "9", "9"], "alone");
        assert_eq!(cells[3], ["c", "3 ", "3 "], "a tie");
    }
}
