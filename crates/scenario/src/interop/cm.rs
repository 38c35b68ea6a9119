//! htsim's connection matrices, `.cm`: one flow per line.
//!
//! The header has `Nodes` and `Connections`. Lines such as `0->13 id 1 start 0 size 2000000`
//! follow. Start times are in picoseconds; a size of 0 means unlimited. In htsim, a flow can start
//! on a trigger that fires at once when another flow completes, at any host. Dependent messages of
//! tidegate wait for messages that arrive at their own host, so files with triggers are refused.

use std::fmt::Write;

use tidegate_core::workload::Arrival;
use tidegate_core::{Message, Span, Time};

use super::words::rows;
use super::{Input, LATEST, MOST_FLOW};
use crate::compile::topology::MOST_NODES;
use crate::error::{Error, nearest, one_of};
use crate::plan::Plan;
use crate::read::cell::Cell;

/// Keywords at the start of a header line.
const HEAD: [&str; 4] = ["Nodes", "Connections", "Triggers", "Failures"];
/// Keywords in the line of a flow.
const OF_FLOW: [&str; 4] = ["id", "start", "size", "prio"];
/// Keywords of triggers in the line of a flow.
const OF_TRIGGERS: [&str; 4] = ["trigger", "send_done_trigger", "recv_done_trigger", "addon"];

/// Reads flows between `hosts` hosts.
pub(super) fn flows(
    input: &Input,
    hosts: usize,
    warnings: &mut Vec<String>,
) -> Result<Vec<Arrival>, Error> {
    let mut announced = None;
    let mut arrivals = Vec::new();
    let mut lost = Lost::default();
    for mut words in rows(input) {
        let Some(first) = words.next().filter(|word| !word.text.starts_with('#')) else { continue };
        if first.text.contains("->") {
            arrivals.push(flow(first, words, hosts, &mut lost)?);
            continue;
        }
        let mut number = |min, max| {
            let cell = words.next().ok_or_else(|| first.error("a number after this keyword"))?;
            cell.named(first.text).whole(min, max)
        };
        match first.text {
            "Nodes" => {
                let nodes = number(2, MOST_NODES)?;
                if nodes > hosts as u64 {
                    let found = format!("{nodes} nodes");
                    let expected = format!("at most {hosts}, the number of hosts of the fabric");
                    return Err(first.error_found(found, expected));
                }
            }
            "Connections" => announced = Some((first, number(1, u32::MAX.into())?)),
            "Triggers" | "Failures" => {
                if number(0, u32::MAX.into())? > 0 {
                    return Err(refused(first));
                }
            }
            "trigger" | "failure" => return Err(refused(first)),
            _ => {
                let expected = format!("{}, or a flow such as 0->1", one_of(HEAD));
                return Err(first.error(expected).suggest(nearest(first.text, HEAD)));
            }
        }
    }
    let Some((cell, count)) = announced else {
        return Err(Error::whole(
            &input.name,
            "no line Connections",
            "a line Connections with the number of flows",
        ));
    };
    if count != arrivals.len() as u64 {
        let found = format!("{} flows in the file", arrivals.len());
        return Err(cell
            .named("Connections")
            .error_found(found, format!("{count}, the number in this line")));
    }
    if lost.priorities {
        warnings.push(format!("{}: priorities of flows are omitted", input.name));
    }
    if lost.fractions > 0 {
        let starts = if lost.fractions == 1 { "start time is" } else { "start times are" };
        let count = lost.fractions;
        warnings.push(format!("{}: {count} {starts} rounded to a picosecond", input.name));
    }
    arrivals.sort_by_key(|arrival: &Arrival| arrival.at);
    Ok(arrivals)
}

/// Content of flows that a scenario cannot express.
#[derive(Default)]
struct Lost {
    priorities: bool,
    /// Number of start times with fractions of a picosecond.
    fractions: usize,
}

/// Returns the error for content that a scenario cannot express.
fn refused(cell: Cell<'_>) -> Error {
    let expected = match cell.text.to_lowercase().as_str() {
        "failure" | "failures" => "no failures: set them in [faults] of the scenario",
        _ => {
            "no triggers: every flow needs a start time (for collectives and chains, use \
             [[traffic]] of the kind \"collective\")"
        }
    };
    cell.error(expected)
}

fn flow<'a>(
    ends: Cell<'a>,
    mut words: impl Iterator<Item = Cell<'a>>,
    hosts: usize,
    lost: &mut Lost,
) -> Result<Arrival, Error> {
    let host = |heading, text| {
        let cell = Cell { heading, text, ..ends };
        cell.whole(0, hosts as u64 - 1).map(|number| (cell, number as u32))
    };
    let (src, dst) = ends.text.split_once("->").unwrap_or((ends.text, ""));
    let ((_, src), (cell, dst)) = (host("src", src)?, host("dst", dst)?);
    if src == dst {
        return Err(cell.error("a node other than src"));
    }
    let (mut start, mut size) = (None, None);
    while let Some(word) = words.next() {
        if OF_TRIGGERS.contains(&word.text) {
            return Err(refused(word));
        }
        let known = OF_FLOW.contains(&word.text);
        let Some(value) = words.next().filter(|_| known) else {
            let expected =
                if known { "a value after this keyword".into() } else { one_of(OF_FLOW) };
            return Err(word
                .error(expected)
                .suggest((!known).then(|| nearest(word.text, OF_FLOW)).flatten()));
        };
        let value = value.named(word.text);
        match word.text {
            "start" => {
                start = Some(value.time("ps", LATEST)?);
                let is_between = value.text.parse().is_ok_and(|ps: f64| ps.fract() != 0.0);
                lost.fractions += usize::from(is_between);
            }
            "size" => size = Some(value.whole(0, MOST_FLOW)?),
            "prio" => lost.priorities = true,
            _ => {
                value.whole(1, u32::MAX.into())?;
            }
        }
    }
    let missing = |what| ends.error(format!("a flow with a {what}"));
    let at = Time::ZERO + start.ok_or_else(|| missing("start"))?;
    let bytes = match size.ok_or_else(|| missing("size"))? {
        0 => Message::UNLIMITED,
        bytes => bytes,
    };
    Ok(Arrival { at, src, dst, bytes })
}

/// Returns the file of a plan.
pub(super) fn write(plan: &Plan, arrivals: &[Arrival]) -> Vec<(String, String)> {
    let mut text = format!("Nodes {}\nConnections {}\n", plan.fabric.hosts.len(), arrivals.len());
    for (number, Arrival { at, src, dst, bytes }) in arrivals.iter().enumerate() {
        let size = if *bytes == Message::UNLIMITED { 0 } else { *bytes };
        let start = super::decimal(*at, Span::ps(1));
        let _ = writeln!(text, "{src}->{dst} id {} start {start} size {size}", number + 1);
    }
    vec![("flows.cm".into(), text)]
}
