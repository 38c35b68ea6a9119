//! Traffic of the kind `trace`: messages listed in a file.

use std::path::Path;

use tidegate_core::workload::{Arrival, Pattern};
use tidegate_core::{Span, Time};

use super::context::Context;
use super::replies::{REPLY, REPLY_LABEL};
use super::{RunSettings, csv};
use crate::error::Error;
use crate::read::keys::{Key, Optional, Required, Shape, key};
use crate::read::quantity::rounded_up;
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

/// Reads the messages from `start` until `stop`: their start times, divided by `scale`, count from
/// `start`.
pub(crate) fn pattern(
    table: &Table,
    context: &Context<'_>,
    (start, stop): (Time, Time),
    warnings: &mut Vec<String>,
) -> Result<Pattern, Error> {
    let mut arrivals = csv::trace(table, "file", context.files, context.hosts)?;
    let RunSettings { duration, until_done, .. } = context.run;
    // Without the folder, because warnings are results.
    let file = Path::new(table.get::<&str>("file")).file_name().unwrap_or_default().display();
    let last = |arrivals: &[Arrival]| arrivals.last().map_or(Time::ZERO, |arrival| arrival.at);
    let shown = |at: Time| rounded_up(at.since(Time::ZERO));
    let scale = table.find::<f64>("scale").unwrap_or(1.0);
    let scaled = |at: Time| start + Span::from_ps_f64((at.as_ps() as f64 / scale).round());
    let before = start + last(&arrivals).since(Time::ZERO);
    arrivals.iter_mut().for_each(|arrival| arrival.at = scaled(arrival.at));
    let all = arrivals.len();
    // A `stop` at the end of the run, which resolved scenarios have, is none.
    if stop < duration {
        arrivals.retain(|arrival| arrival.at < stop);
    }
    if arrivals.is_empty() && all > 0 {
        warnings.push(format!("{file}: all {all} messages start after `stop`, and none is sent"));
    }
    // The run has the length of the trace, or more.
    if scale > 1.0 && before < duration && !until_done && arrivals.len() == all {
        warnings.push(format!(
            "{file}: with scale = {scale}, the last message starts at {} instead of {}, but \
             the run still measures until {}, so mean loads are too low: divide \
             `duration` and `warmup`, counted from `start`, by scale, too, or set until = \"done\"",
            shown(last(&arrivals)),
            shown(before),
            shown(duration)
        ));
    }
    let late = arrivals.iter().filter(|arrival| arrival.at >= duration).count();
    if late > 0 {
        warnings.push(format!(
            "{file}: {late} of {} messages start after the end of the run at {} and are \
             not sent: set `duration` to more than {}, the last start",
            arrivals.len(),
            shown(duration),
            shown(last(&arrivals))
        ));
    }
    Ok(Pattern::Trace(arrivals))
}
