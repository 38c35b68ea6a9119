//! Traffic of the kind `trace`: messages listed in a file.

use std::path::Path;

use tidegate_core::workload::Pattern;
use tidegate_core::{Span, Time};

use super::context::Context;
use super::csv;
use super::replies::{REPLY, REPLY_LABEL};
use crate::error::Error;
use crate::read::keys::{Key, Optional, Required, Shape, key};
use crate::read::table::Table;

pub(crate) const KEYS: &[Key] = &[
    key(
        "file",
        Shape::Text,
        Required,
        "Path of a CSV file with the columns start_us,src,dst,size_bytes, relative to the \
         scenario's folder.",
    ),
    key(
        "scale",
        Shape::Number { min: 0.001, max: 1000.0 },
        Optional,
        "Factor of the load: all start times of the file are divided by it. Default: 1.",
    ),
    REPLY,
    REPLY_LABEL,
];

/// Reads the messages, with their start times divided by `scale`.
pub(crate) fn pattern(
    table: &Table,
    context: &Context<'_>,
    warnings: &mut Vec<String>,
) -> Result<Pattern, Error> {
    let mut arrivals = csv::trace(table, "file", context.files, context.hosts)?;
    if let Some(scale) = table.find::<f64>("scale") {
        for arrival in &mut arrivals {
            let ps = arrival.at.as_ps() as f64 / scale;
            arrival.at = Time::ZERO + Span::from_ps_f64(ps.round());
        }
    }
    let late = arrivals.iter().filter(|arrival| arrival.at >= context.course.duration).count();
    if late > 0 {
        // Without the folder, because warnings are results.
        let file = Path::new(table.get::<&str>("file")).file_name().unwrap_or_default();
        warnings.push(format!(
            "{}: {late} of {} messages start after the end of the run at {} and are not sent",
            file.display(),
            arrivals.len(),
            context.course.duration
        ));
    }
    Ok(Pattern::Trace(arrivals))
}
