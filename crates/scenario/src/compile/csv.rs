//! Files that scenarios name: distributions (`size_bytes,cdf`) in CSV, and traces
//! (`start_us,src,dst,size_bytes`) in CSV, or in Parquet if the name ends in `.parquet`.
//! `flows.parquet` of a run is a valid trace.
//!
//! In CSV, the reader skips empty lines, lines that start with `#`, and a heading. Every error
//! names file, line and column.

use std::fs::File;
use std::io;
use std::path::Path;

use parquet::record::Field;
use tidegate_core::workload::Arrival;
use tidegate_core::{Span, Time};

use super::hosts::Hosts;
use crate::error::{Error, nearest};
use crate::files;
use crate::inputs::Reader;
use crate::read::cell::Cell;
use crate::read::quantity;
use crate::read::table::Table;

/// Largest number of points in a distribution.
const MOST_POINTS: usize = 100_000;

/// Reads the file that `key` names.
fn read(table: &Table, key: &str, from: &Reader) -> Result<String, Error> {
    let name: &str = table.get(key);
    let expected = |why: String| {
        let path = from.path(name);
        table.error(key, format!("a readable CSV file ({}: {why})", path.display()))
    };
    let bytes = from.read(name).map_err(|error| expected(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| {
        expected(format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
    })
}

/// Calls `row` with the cells of every line.
fn rows<const N: usize>(
    file: &str,
    text: &str,
    headings: [&'static str; N],
    mut row: impl FnMut([Cell<'_>; N]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut first = true;
    for (number, line) in files::without_mark(text).lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let texts: Vec<&str> = line.split(',').map(str::trim).collect();
        if std::mem::take(&mut first) {
            if texts == headings {
                continue;
            }
            // A heading has no number in any column.
            if texts.len() == N && texts.iter().all(|text| text.parse::<f64>().is_err()) {
                let place = Cell { file, line: number + 1, heading: "", text: line };
                let expected = format!("the heading {}, or none", headings.join(","));
                return Err(place.error(expected));
            }
        }
        let cell = |heading, text| Cell { file, line: number + 1, heading, text };
        let texts: [&str; N] = texts.try_into().map_err(|texts: Vec<&str>| {
            let expected = format!("{N} columns: {}", headings.join(","));
            let mut error = cell("", line).error(expected);
            error.found = format!("{} columns", texts.len()).into();
            error
        })?;
        let mut i = 0;
        row(texts.map(|text| {
            i += 1;
            cell(headings[i - 1], text)
        }))?;
    }
    Ok(())
}

/// Calls `row` with the cells of every row of a Parquet file. The file may have further columns,
/// and columns in any order.
fn parquet_rows<const N: usize>(
    file: &str,
    open: io::Result<File>,
    headings: [&'static str; N],
    mut row: impl FnMut([Cell<'_>; N]) -> Result<(), Error>,
) -> Result<(), Error> {
    let unreadable = |why: String| {
        Error::whole(file, format!("a file that cannot be read ({why})"), "a readable Parquet file")
    };
    let open = open.map_err(|error| unreadable(error.to_string()))?;
    files::parquet_rows(open, unreadable, |number, record| {
        let mut texts = [const { String::new() }; N];
        for (heading, text) in headings.iter().zip(&mut texts) {
            let column = record.get_column_iter().find(|(name, _)| name == heading);
            let (_, field) = column.ok_or_else(|| {
                Error::whole(
                    file,
                    format!("no column {heading:?}"),
                    format!("the columns {}", headings.join(",")),
                )
            })?;
            *text = match field {
                Field::Str(text) => text.clone(),
                Field::Float(x) => x.to_string(),
                Field::Double(x) => x.to_string(),
                other => other.to_string(),
            };
        }
        let cell = |i: usize| Cell { file, line: number, heading: headings[i], text: &texts[i] };
        row(std::array::from_fn(cell))
    })
}

/// Reads the points of the distribution that `key` names.
pub(crate) fn distribution(
    table: &Table,
    key: &str,
    from: &Reader,
) -> Result<Vec<(f64, f64)>, Error> {
    let file = from.path(table.get(key)).display().to_string();
    let text = read(table, key, from)?;
    let mut points: Vec<(f64, f64)> = Vec::new();
    rows(&file, &text, ["size_bytes", "cdf"], |[size, probability]| {
        let point = (size.number(0.0, 1e15)?, probability.number(0.0, 1.0)?);
        let before = points.last().copied().unwrap_or((0.0, 0.0));
        if point.0 < before.0 {
            return Err(size.error(format!("at least {}, the size in the previous line", before.0)));
        }
        if point.1 < before.1 {
            return Err(probability
                .error(format!("at least {}, the probability in the previous line", before.1)));
        }
        if points.len() >= MOST_POINTS {
            return Err(size.error(format!("at most {MOST_POINTS} points")));
        }
        points.push(point);
        Ok(())
    })?;
    match points.last_mut() {
        // Files printed with six digits may end slightly below 1.
        Some((_, last)) if *last > 1.0 - 1e-6 => *last = 1.0,
        Some((_, last)) => {
            return Err(Error::whole(
                &file,
                format!("a cdf that ends at {last}"),
                "a last value of 1",
            ));
        }
        None => {
            return Err(Error::whole(&file, "no points", "at least one line of size_bytes,cdf"));
        }
    }
    Ok(points)
}

/// Columns of a trace.
pub(crate) const TRACE: [&str; 4] = ["start_us", "src", "dst", "size_bytes"];

/// Reads the messages of the trace that `key` names, sorted by time (stably).
pub(crate) fn trace(
    table: &Table,
    key: &str,
    from: &Reader,
    hosts: &Hosts<'_>,
) -> Result<Vec<Arrival>, Error> {
    let name: &str = table.get(key);
    let file = from.path(name).display().to_string();
    if Path::new(name).extension().is_some_and(|extension| extension == "parquet") {
        let mut arrivals = Vec::new();
        parquet_rows(&file, from.open(name), TRACE, |cells| {
            arrivals.push(arrival(cells, hosts)?);
            Ok(())
        })?;
        sorted(&file, arrivals)
    } else {
        arrivals(&file, &read(table, key, from)?, hosts)
    }
}

/// Reads the messages of a trace in CSV, sorted by time (stably).
pub(crate) fn arrivals(file: &str, text: &str, hosts: &Hosts<'_>) -> Result<Vec<Arrival>, Error> {
    let mut arrivals = Vec::new();
    rows(file, text, TRACE, |cells| {
        arrivals.push(arrival(cells, hosts)?);
        Ok(())
    })?;
    sorted(file, arrivals)
}

fn sorted(file: &str, mut arrivals: Vec<Arrival>) -> Result<Vec<Arrival>, Error> {
    if arrivals.is_empty() {
        return Err(Error::whole(
            file,
            "no messages",
            format!("at least one line of {}", TRACE.join(",")),
        ));
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    Ok(arrivals)
}

fn arrival([start, src, dst, size]: [Cell<'_>; 4], hosts: &Hosts<'_>) -> Result<Arrival, Error> {
    let after = quantity::span(&format!("{}us", start.text));
    let after = after.ok().filter(|after| *after <= Span::s(1_000));
    let after = after.ok_or_else(|| start.error("a time in microseconds from 0 to 1e9"))?;
    let ends = [host(&src, hosts)?, host(&dst, hosts)?];
    if ends[0] == ends[1] {
        return Err(dst.error("a host other than src"));
    }
    let bytes = size.text.parse().ok().filter(|bytes| (1..=1_000_000_000_000_000).contains(bytes));
    let bytes =
        bytes.ok_or_else(|| size.error("a whole number of bytes from 1 to 1000000000000000"))?;
    Ok(Arrival { at: Time::ZERO + after, src: ends[0], dst: ends[1], bytes })
}

fn host(cell: &Cell<'_>, hosts: &Hosts<'_>) -> Result<u32, Error> {
    let number = || cell.text.parse::<u32>().ok().filter(|number| (*number as usize) < hosts.len());
    hosts.number(cell.text).or_else(number).ok_or_else(|| {
        cell.error("the name or number of a host").suggest(nearest(cell.text, hosts.names()))
    })
}
