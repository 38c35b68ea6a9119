//! `[[flows]]`: explicit flows.

use tidegate_core::workload::Flow;
use tidegate_core::{Domain, Message, Rng, Span};

use super::hosts::Hosts;
use super::transport::Stacks;
use super::{Labels, RunSettings};
use crate::error::Error;
use crate::read::keys::{Default, Key, MESSAGE, Optional, Required, SPAN, Shape, key};
use crate::read::table::{Or, Table};

/// Keys of a flow, without those of its transport.
pub(crate) static KEYS: &[Key] = &[
    key("src", Shape::Text, Required, "Sending host."),
    key("dst", Shape::Text, Required, "Receiving host."),
    key(
        "size",
        Shape::Or(&["inf"], &MESSAGE),
        Default("inf"),
        "Payload. \"inf\" is unlimited: the flow ends at stop or with the run.",
    ),
    key("start", SPAN, Default("0us"), "Time of submission."),
    key("stop", SPAN, Optional, "Time from which the flow sends nothing more. Default: none."),
    key(
        "jitter",
        SPAN,
        Default("0us"),
        "Each flow starts at a random time within this interval after start.",
    ),
    key(
        "count",
        Shape::Count { min: 1, max: 100_000 },
        Default("1"),
        "Number of parallel flows, each with its own connection.",
    ),
    key(
        "pairs",
        Shape::Count { min: 1, max: 100_000 },
        Optional,
        "Number of pairs of hosts that have these flows: src and dst, the next host after src and \
         the next after dst, and so on, in order of number. Default: 1.",
    ),
    key("label", Shape::Text, Optional, "Label of these flows in results."),
    super::WEIGHT,
];

/// Largest number of explicit flows in a scenario.
const MOST_FLOWS: u64 = 1_000_000;
/// Offset of the random streams of start times, which keeps them apart from those of generated
/// traffic.
const JITTER_STREAM: u64 = 1 << 63;

/// Number of pairs of hosts that have the flows of a table.
pub(crate) fn pairs(table: &Table) -> u64 {
    table.find("pairs").unwrap_or(1)
}

/// Builds the flows.
pub(crate) fn flows<'a>(
    tables: &'a [Table],
    hosts: &Hosts<'_>,
    stacks: &mut Stacks<'a>,
    labels: &mut Labels,
    run: RunSettings,
) -> Result<Vec<Flow>, Error> {
    let mut flows = Vec::new();
    for (block, table) in tables.iter().enumerate() {
        let (src, dst) = (hosts.one(table, "src")?, hosts.one(table, "dst")?);
        if src == dst {
            return Err(table.error("dst", "a host other than src"));
        }
        let (start, stop) = run.interval(table, ["start", "stop"])?;
        let jitter: Span = table.get("jitter");
        if start.after(jitter) >= stop.min(run.duration) && jitter > Span::ZERO {
            return Err(table.error(
                "jitter",
                "a jitter with which every flow starts before stop and before the end of the run",
            ));
        }
        let (count, pairs) = (table.get::<u64>("count"), pairs(table));
        let room = hosts.len() as u64 - u64::from(src.max(dst));
        if pairs > room {
            let expected = format!("at most {room}, because the fabric has {} hosts", hosts.len());
            return Err(table.error("pairs", expected));
        }
        if flows.len() as u64 + count * pairs > MOST_FLOWS {
            let key = if pairs > 1 { "pairs" } else { "count" };
            return Err(table.error(key, format!("at most {MOST_FLOWS} flows in total")));
        }
        let bytes = match table.get("size") {
            Or::Word(_) => Message::UNLIMITED,
            Or::Value::<u64>(bytes) => bytes,
        };
        let (stack, label) = (stacks.number(table)?, labels.weighed(table)?);
        let mut rng = Rng::stream(run.seed, Domain::Traffic, JITTER_STREAM | block as u64);
        let pairs = (0..pairs as u32).flat_map(|pair| (0..count).map(move |_| pair));
        flows.extend(pairs.map(|pair| Flow {
            src: src + pair,
            dst: dst + pair,
            bytes,
            start: if jitter > Span::ZERO { start + jitter.scale(rng.unit()) } else { start },
            stop,
            stack,
            label,
            dedicated: true,
        }));
    }
    Ok(flows)
}
