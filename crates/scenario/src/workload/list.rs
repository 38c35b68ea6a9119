//! Lists of flows in CSV, with named columns. The file is read line by line.

use std::io::{BufRead, Read};

use super::address::{Address, FORMS};
use super::columns::{Column, Columns};
use super::time::{TimeUnit, date};
use super::trace::{Gathered, LeftOut, MOST_FLOWS, Noted, Raw};
use crate::error::Error;
use crate::read::cell::Cell;

/// Longest line, in bytes.
const LONGEST_LINE: u64 = 1 << 16;
/// Longest time between the first record and another: times are 64-bit numbers of picoseconds.
const MOST_PS: i128 = 100 * 86_400 * 1_000_000_000_000;
/// Largest size of a flow, in bytes.
const MOST_BYTES: u64 = 1_000_000_000_000_000;

/// Characters that may separate columns.
const SEPARATORS: [char; 4] = [',', ';', '\t', '|'];

/// Reads a list of flows. `unit` is the unit of times whose columns do not name one.
///
/// # Errors
/// If the file cannot be read, or a line is invalid.
pub(super) fn read(
    mut from: impl BufRead,
    file: &str,
    unit: Option<TimeUnit>,
) -> Result<Gathered, Error> {
    let mut list = List {
        file,
        unit,
        separator: ',',
        columns: None,
        first: None,
        latest: i64::MIN,
        disordered: 0,
        left_out: LeftOut::default(),
        gathered: Gathered { file: file.to_owned(), ..Gathered::default() },
    };
    let (mut bytes, mut number) = (Vec::new(), 0);
    loop {
        bytes.clear();
        let read = from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut bytes);
        read.map_err(|why| Error::whole(file, format!("a read error ({why})"), "a CSV file"))?;
        if bytes.is_empty() {
            break;
        }
        number += 1;
        let place = |text| Cell { file, line: number, heading: "", text };
        if bytes.len() as u64 == LONGEST_LINE && !bytes.ends_with(b"\n") {
            let expected = format!("lines of at most {LONGEST_LINE} bytes");
            return Err(place("").error_found("a longer line", expected));
        }
        let Ok(text) = std::str::from_utf8(&bytes) else {
            return Err(place("").error_found("bytes that are not UTF-8", "text in UTF-8"));
        };
        let text = if number == 1 { crate::files::without_mark(text) } else { text };
        let text = text.trim_end_matches(['\n', '\r']);
        // nfdump ends its lists with a summary.
        if text.trim() == "Summary" {
            break;
        }
        if !text.trim().is_empty() && !text.starts_with('#') {
            list.line(place(text))?;
        }
    }
    list.finish()
}

struct List<'a> {
    file: &'a str,
    unit: Option<TimeUnit>,
    separator: char,
    columns: Option<Columns>,
    /// Start of the first record.
    first: Option<i128>,
    latest: i64,
    disordered: u64,
    left_out: LeftOut,
    gathered: Gathered,
}

impl List<'_> {
    fn finish(mut self) -> Result<Gathered, Error> {
        if self.columns.is_none() {
            let expected = "a line with the names of columns, then a line for each flow";
            return Err(Error::whole(self.file, "no lines", expected));
        }
        self.gathered.noted.extend(self.left_out.noted());
        self.gathered.noted.push(Noted {
            name: "out_of_order_flows",
            text: "flows that start before the flow in the previous line (sorted)",
            count: self.disordered,
        });
        Ok(self.gathered)
    }

    fn line(&mut self, line: Cell<'_>) -> Result<(), Error> {
        let Some(columns) = &self.columns else {
            let count = |separator: &char| line.text.matches(*separator).count();
            self.separator = SEPARATORS.into_iter().rev().max_by_key(count).unwrap_or(',');
            let columns = Columns::of(cells(line.text, self.separator), line)?;
            self.gathered.warnings.extend(columns.unread.iter().map(|[first, other]| {
                format!(
                    "column {first:?} is read, and {other:?}, which has the same meaning, is not: \
                     rename {first:?} if {other:?} is the right one"
                )
            }));
            self.columns = Some(columns);
            return Ok(());
        };
        let texts = cells(line.text, self.separator);
        if texts.len() != columns.names.len() {
            let count = columns.names.len();
            let found = format!("{} columns", texts.len());
            return Err(line.error_found(found, format!("{count} columns, as in the first line")));
        }
        let cell = |column: Column| Cell {
            heading: &columns.names[column.index],
            text: &texts[column.index],
            ..line
        };
        let [src, dst] = [columns.src, columns.dst].map(cell).map(|cell| {
            Address::parse(cell.text).ok_or_else(|| cell.error(FORMS)).map(|of| (of, cell))
        });
        let ((src, _), (dst, _)) = (src?, dst?);
        let size = cell(columns.bytes);
        let bytes =
            size.text.parse().ok().filter(|bytes| *bytes <= MOST_BYTES).ok_or_else(|| {
                size.error(format!("a whole number of bytes from 0 to {MOST_BYTES}"))
            })?;
        let start = cell(columns.start);
        let at_ps = self.time(columns.start, &start, true)?;
        let first = *self.first.get_or_insert(at_ps);
        let at = at_ps - first;
        if at.abs() > MOST_PS {
            return Err(start.error("a time within 100 days of the first line's"));
        }
        let lasted = match (columns.duration, columns.end) {
            (Some(column), _) if !cell(column).text.is_empty() => {
                Some(self.time(column, &cell(column), false)?)
            }
            (_, Some(column)) if !cell(column).text.is_empty() => {
                let end = cell(column);
                let lasted = self.time(column, &end, true)? - at_ps;
                if lasted < 0 {
                    let expected = format!("a time that is not before the start, {}", start.text);
                    return Err(end.error(expected));
                }
                Some(lasted)
            }
            _ => None,
        };
        let lasted = lasted.map(|ps| u64::try_from(ps.min(MOST_PS)).unwrap_or(0));
        if !self.left_out.keeps(&src, &dst, bytes) {
            return Ok(());
        }
        let at = at as i64;
        self.disordered += u64::from(at < self.latest);
        self.latest = at;
        let (src, dst) = (self.gathered.addresses.number(src), self.gathered.addresses.number(dst));
        if self.gathered.flows.len() >= MOST_FLOWS {
            let expected = format!("at most {MOST_FLOWS} flows: divide the file");
            return Err(line.error_found("another flow", expected));
        }
        self.gathered.flows.push(Raw { at, src, dst, bytes, lasted });
        Ok(())
    }

    /// Reads a time in picoseconds: a number, or a date if `dated`.
    fn time(&self, column: Column, cell: &Cell<'_>, dated: bool) -> Result<i128, Error> {
        if let Some(date) = date(cell.text).filter(|_| dated) {
            return Ok(date);
        }
        let Some(unit) = column.unit.or(self.unit) else {
            let text = "a column with its unit in its name (for example start_ms), dates such as \
                        2026-03-01 12:00:00.5, or the option --time-unit";
            return Err(cell.error(text));
        };
        let name = unit.name();
        let expected = || cell.error(format!("a time in {name} that is not negative"));
        unit.parse(cell.text).ok_or_else(expected)
    }
}

/// The cells of a line, without blanks around them. Quotes may enclose a cell; two quotes inside
/// are one.
fn cells(line: &str, separator: char) -> Vec<String> {
    let (mut all, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                cell.push('"');
                letters.next();
            }
            '"' => quoted = !quoted,
            _ if letter == separator && !quoted => all.push(std::mem::take(&mut cell)),
            _ => cell.push(letter),
        }
    }
    all.push(cell);
    all.iter().map(|cell| cell.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Result<Gathered, String> {
        read(text.as_bytes(), "x.csv", None).map_err(|error| error.to_string())
    }

    #[test]
    fn lists_are_read() {
        let text = "\u{feff}# exported\r\nsrc;dst;bytes;start_ms;end_ms\r\n\"10.0.0.1\"; b \
                    ;5;1700000000000.5;1700000000002\n\na;10.0.0.1;7;1700000000000;\n";
        let found = list(text).unwrap();
        assert_eq!(found.flows.len(), 2);
        let of = |i: usize| (found.flows[i].at, found.flows[i].bytes, found.flows[i].lasted);
        assert_eq!(of(0), (0, 5, Some(1_500_000_000)));
        assert_eq!(of(1), (-500_000_000, 7, None));
        let count = |name| found.noted.iter().find(|noted| noted.name == name).unwrap().count;
        assert_eq!(count("out_of_order_flows"), 1);
        let nfdump = "ts,td,sa,da,ibyt\n2026-03-01 00:00:01.5,1,a,b,9\nSummary\nflows,1\n";
        let error = list(nfdump).unwrap_err();
        assert!(error.contains("x.csv:2: td: found \"1\"") && error.contains("--time-unit"));
        let found = read(nfdump.as_bytes(), "x.csv", Some(TimeUnit::S)).unwrap();
        assert_eq!(found.flows[0].lasted, Some(1_000_000_000_000));
    }

    #[test]
    fn flows_are_left_out_and_counted() {
        let text = "src,dst,bytes,start_s\na,b,0,1\na,a,1,1\na,224.0.0.1,1,1\na,b,1,1\n";
        let found = list(text).unwrap();
        let counts: Vec<u64> = found.noted.iter().map(|noted| noted.count).collect();
        assert_eq!((found.flows.len(), &counts[..]), (1, &[1, 1, 1, 0][..]));
    }

    #[test]
    fn invalid_lines_are_named() {
        const HEAD: &str = "src,dst,bytes,start_us,end_us\n";
        for (line, words) in [
            ("10.0.0.1,10.0.0.300,1,1,2", ["x.csv:2: dst: found \"10.0.0.300\"", "IPv4"]),
            ("a,b,-1,1,2", ["bytes: found \"-1\"", "a whole number of bytes"]),
            ("a,b,1,x,2", ["start_us: found \"x\"", "a time in us"]),
            ("a,b,1,5,2", ["end_us: found \"2\"", "not before the start, 5"]),
            ("a,b,1,5", ["x.csv:2: found 4 columns", "5 columns"]),
        ] {
            let error = list(&format!("{HEAD}{line}\n")).err().unwrap();
            assert!(words.iter().all(|word| error.contains(word)), "{line}: {error}");
        }
        assert!(list("").unwrap_err().contains("no lines"));
        let long = format!("{HEAD}{}", "x".repeat(1 << 17));
        assert!(list(&long).unwrap_err().contains("x.csv:2"));
        let far = "src,dst,bytes,start_s\na,b,1,1\na,b,1,1e9\n";
        assert!(list(far).unwrap_err().contains("100 days"));
    }
}
