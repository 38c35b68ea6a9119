//! Fits tables, prose and messages to the width of the terminal.
//!
//! A wider table is folded into several blocks of columns, one below the other. Each block repeats
//! the columns that name the rows. Text columns wrap between words; no other cell wraps, and no
//! cell is omitted.

use std::io::IsTerminal;
use std::ops::Range;
#[cfg(unix)]
use std::os::fd::AsFd as Handle;
#[cfg(not(unix))]
use std::os::windows::io::AsHandle as Handle;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, presets};

/// Number of blanks between two columns.
const GAP: usize = 2;
/// Minimum width of a wrapped text column.
const TEXT_MIN: usize = 32;

/// The width of the terminal on stdout: `COLUMNS` if set, else its actual width. `None` if stdout
/// is not a terminal; lines are then not folded.
pub(crate) fn width() -> Option<usize> {
    width_of(&std::io::stdout())
}

fn width_of(stream: &(impl IsTerminal + Handle)) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let set = std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse().ok());
    set.filter(|columns| *columns > 0).or_else(|| actual_width(stream))
}

/// The width of a terminal, also if its height is unknown, as after `stty cols 80` on a new
/// pseudo-terminal.
#[cfg(unix)]
fn actual_width(stream: &impl Handle) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[cfg(not(unix))]
fn actual_width(stream: &impl Handle) -> Option<usize> {
    terminal_size::terminal_size_of(stream).map(|(width, _)| usize::from(width.0))
}

/// A table with the layout of its columns.
pub(crate) struct Grid {
    table: Table,
    titles: Vec<String>,
    /// The first numeric column.
    numbers: usize,
    /// The number of leading columns that name the rows.
    names: usize,
}

/// Creates an empty table. Columns from `numbers` on are right-aligned; the columns before name the
/// rows. If all columns are text, only the first one names the rows. A title `delay|p99` is shown
/// as `p99`, or as `delay p99` in the first column of a block.
pub(crate) fn new(titles: &[&str], numbers: usize) -> Grid {
    let mut table = Table::new();
    let short = titles.iter().map(|title| title.rsplit('|').next().unwrap_or(title));
    table.load_style(presets::NOTHING).set_header(short.collect::<Vec<_>>());
    for column in table.column_iter_mut().skip(numbers) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP as u16));
    }
    let names = if numbers < titles.len() { numbers } else { 1 };
    Grid {
        table,
        titles: titles.iter().map(|title| title.replace('|', " ")).collect(),
        numbers,
        names,
    }
}

/// Formats the table, without trailing blanks.
pub(crate) fn drawn(grid: &Grid) -> String {
    grid.within(width())
}

impl Grid {
    pub(crate) fn add_row<T: Into<Row>>(&mut self, row: T) {
        self.table.add_row(row);
    }

    /// Formats the table within `most` columns, if given.
    fn within(&self, most: Option<usize>) -> String {
        let widths = self.table.column_max_content_widths();
        let widths: Vec<usize> = widths.iter().map(|width| usize::from(*width) + GAP).collect();
        let Some(most) = most else { return lines(&self.table) };
        let blocks = self.blocks(&widths, most + GAP);
        let block = |block: &Range<usize>| {
            let mut table = self.table.clone();
            if let Some(first) = table.header().cloned().filter(|_| block.start > self.names) {
                let mut titles: Vec<String> =
                    first.cell_iter().map(|cell| cell.content()).collect();
                titles[block.start].clone_from(&self.titles[block.start]);
                table.set_header(titles);
            }
            let is_in = |i: usize| i < self.names || block.contains(&i);
            for (i, column) in table.column_iter_mut().enumerate() {
                let is_text = (self.names..self.numbers).contains(&i);
                if !is_in(i) {
                    column.set_constraint(ColumnConstraint::Hidden);
                } else if !is_text {
                    column.set_constraint(ColumnConstraint::ContentWidth);
                }
            }
            let used: usize = (0..widths.len()).filter(|i| is_in(*i)).map(|i| widths[i]).sum();
            if used > most + GAP {
                let width = u16::try_from(most + GAP).unwrap_or(u16::MAX);
                table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
            }
            lines(&table)
        };
        blocks.iter().map(block).collect::<Vec<_>>().join("\n")
    }

    /// The columns of each block, without those that name the rows: as many as fit, at least one.
    fn blocks(&self, widths: &[usize], most: usize) -> Vec<Range<usize>> {
        let names: usize = widths[..self.names].iter().sum();
        let needed = |i: usize| match widths[i] {
            width if i < self.numbers => width.min(TEXT_MIN + GAP),
            width => width,
        };
        let (mut blocks, mut start, mut used) = (Vec::new(), self.names, names);
        for i in self.names..widths.len() {
            if i > start && used + needed(i) > most {
                blocks.push(start..i);
                // The first column of a block has its full title, which may be longer.
                let title = (self.titles[i].chars().count() + GAP).saturating_sub(needed(i));
                (start, used) = (i, names + title);
            }
            used += needed(i);
        }
        blocks.push(start..widths.len());
        blocks
    }
}

fn lines(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Wraps lines that are wider than the terminal between words. Continuation lines are indented to
/// the text after the first wide gap (two blanks) of the line, if any.
pub(crate) fn prose(text: &str) -> String {
    width().map_or_else(|| text.to_owned(), |most| broken(text, most))
}

/// The same for a message on stderr.
pub(crate) fn message(text: &str) -> String {
    width_of(&std::io::stderr()).map_or_else(|| text.to_owned(), |most| broken(text, most))
}

fn broken(text: &str, most: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end_matches('\n');
        let count = bare.chars().count();
        if count <= most {
            out.push_str(line);
            continue;
        }
        let own = bare.find(|c| c != ' ').unwrap_or(0);
        let gap = bare[own..].find("  ").map(|at| own + at);
        let behind = gap.and_then(|at| Some(at + bare[at..].find(|c| c != ' ')?));
        let indent = behind.filter(|at| bare[..*at].chars().count() <= most / 2).unwrap_or(own);
        let margin = " ".repeat(bare[..indent].chars().count());
        let mut used = bare[..indent].chars().count();
        out.push_str(&bare[..indent]);
        let mut is_first = true;
        for word in bare[indent..].split(' ') {
            let length = word.chars().count();
            if !is_first && used + 1 + length > most {
                out.push('\n');
                out.push_str(&margin);
                used = margin.len();
            } else if !is_first {
                out.push(' ');
                used += 1;
            }
            out.push_str(word);
            used += length;
            is_first = false;
        }
        out.push_str(&line[bare.len()..]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let mut grid = new(&["label", "protocol", "goodput Gbps", "FCT p50", "FCT|p99"], 2);
        grid.add_row(["search", "swift", "271 ± 60", "13.4 ± 6.11 us", "≥ 224 ± 93.8 us"]);
        grid.add_row(["incast", "dctcp", "378 ± 51", "1.05 ms", "2.00 ms"]);
        grid
    }

    #[test]
    fn wide_table_folds_whole_columns() {
        assert_eq!(
            grid().within(Some(40)),
            "label   protocol  goodput Gbps\n\
             search  swift         271 ± 60\n\
             incast  dctcp         378 ± 51\n\
             \n\
             label   protocol         FCT p50\n\
             search  swift     13.4 ± 6.11 us\n\
             incast  dctcp            1.05 ms\n\
             \n\
             label   protocol          FCT p99\n\
             search  swift     ≥ 224 ± 93.8 us\n\
             incast  dctcp             2.00 ms\n"
        );
        let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap();
        let whole = grid().within(None);
        assert!(!whole.contains("FCT p99"), "short title after FCT p50:\n{whole}");
        assert_eq!(grid().within(Some(widest(&whole))), whole, "it fits");
        for most in 33..widest(&whole) {
            let text = grid().within(Some(most));
            assert!(widest(&text) <= most, "{most}:\n{text}");
            for cell in ["271 ± 60", "13.4 ± 6.11 us", "≥ 224 ± 93.8 us", "2.00 ms"] {
                assert!(text.contains(cell), "{cell} at {most}:\n{text}");
            }
        }
    }

    #[test]
    fn text_columns_wrap_between_words() {
        let mut grid = new(&["protocol", "needs of switches", "what it does"], 3);
        let (needs, text) = ("marks, telemetry and pauses", "Keeps queues short by its own rate.");
        grid.add_row(["a-long-name", needs, text]);
        for most in 48..120 {
            let shown = grid.within(Some(most));
            assert!(shown.lines().all(|line| line.chars().count() <= most), "{most}:\n{shown}");
            let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
            for word in words(needs).into_iter().chain(words(text)) {
                assert!(shown.contains(&word), "{word} at {most}:\n{shown}");
            }
        }
        assert_eq!(grid.within(None).lines().count(), 2, "full width");
    }

    #[test]
    fn prose_hanging_indent() {
        assert_eq!(broken("one two three\nfour\n", 8), "one two\nthree\nfour\n");
        assert_eq!(broken("Key    a value of words", 16), "Key    a value\n       of words");
        assert_eq!(broken("  a bc def", 6), "  a bc\n  def");
        assert_eq!(broken("unbreakable", 4), "unbreakable");
    }
}
