//! `[[traffic]]`: generated flows.

use std::path::Path;

use tidegate_core::fabric::{Fabric, Node};
use tidegate_core::workload::{Pattern, Sizes, Traffic};
use tidegate_core::{Message, Rate, Span, Time};

use super::generators::Given;
use super::hosts::Hosts;
use super::transport::Stacks;
use super::{Course, Labels, closed_loop, collective, csv, generators, requests, sizes};
use crate::error::Error;
use crate::read::keys::{
    Default, INTERVAL, Key, LINK_RATE, Optional, Required, SPAN, Shape, Variant, key,
};
use crate::read::table::{Table, Word};

/// Keys that every kind has.
pub(crate) static COMMON: &[Key] = &[
    key("kind", Shape::Text, Required, "The pattern."),
    key("label", Shape::Text, Optional, "What results of these flows are counted under."),
    super::WEIGHT,
    key("start", SPAN, Default("0us"), "First submission."),
    key("stop", SPAN, Optional, "No submission from here on; the end of the run unless set."),
    key(
        "protocol",
        Shape::Protocol,
        Optional,
        "Carries these flows; the transport's protocol unless set.",
    ),
    key(
        "preset",
        Shape::Text,
        Optional,
        "A named set of the protocol's parameters; \"paper\" is its defaults.",
    ),
    key(
        "params",
        Shape::Params,
        Optional,
        "Parameters that differ from the preset, or from what the protocol has elsewhere in the \
         scenario.",
    ),
];

const SIZES: Key = key(
    "sizes",
    Shape::Text,
    Required,
    "A size such as \"1MB\", the name of a distribution, or the path of a CSV file of \
     size_bytes,cdf, from the scenario's folder.",
);
const SIZES_OR_INF: Key =
    key("sizes", Shape::Text, Default("inf"), "As for poisson, or \"inf\": flows that never end.");
const LOAD: Key = key(
    "load",
    Shape::Number { min: 1e-6, max: 10.0 },
    Optional,
    "Payload that the senders offer as a share of what their links carry together. One of load, \
     rate and gap is given.",
);
const LOAD_BASE: Key = key(
    "load_base",
    Shape::Word(&["host-links", "rack-uplinks"]),
    Optional,
    "What load is relative to: the senders' links (the default), or their shares of their rack's \
     uplinks.",
);
const RATE: Key =
    key("rate", LINK_RATE, Optional, "Payload bits that each sending host offers a second.");
const GAP: Key =
    key("gap", INTERVAL, Optional, "Mean time between two messages of one sending host.");
const SENDERS: Key =
    key("senders", Shape::Globs, Optional, "Sending hosts, by name or wildcard; all unless set.");
const REPLY: Key = key(
    "reply",
    Shape::Text,
    Optional,
    "Sizes of replies, as `sizes` for poisson: each message is answered as soon as it has arrived, \
     by a message of that size on the same transport. None unless set.",
);
const REPLY_LABEL: Key = key(
    "reply_label",
    Shape::Text,
    Optional,
    "What results of replies are counted under; \"reply\" unless set.",
);
const POISSON: &[Key] = &[
    SIZES,
    sizes::SAMPLING,
    sizes::MEAN,
    LOAD,
    LOAD_BASE,
    RATE,
    GAP,
    SENDERS,
    key(
        "receivers",
        Shape::Globs,
        Optional,
        "Receiving hosts, by name or wildcard; all unless set. Never the sender itself.",
    ),
    generators::GENERATOR,
    generators::GENERATOR_SEED,
    REPLY,
    REPLY_LABEL,
];

/// Every kind of generated traffic.
pub(crate) static KINDS: &[Variant] = &[
    Variant {
        kind: "poisson",
        doc: "Each sending host submits messages with exponential gaps to uniform random \
            receivers.",
        keys: POISSON,
    },
    Variant {
        kind: "incast",
        doc: "Random senders send one message each to one receiver at once: once, or again and \
            again where interval or load is given.",
        keys: &[
            SIZES,
            sizes::SAMPLING,
            sizes::MEAN,
            key("fan_in", Shape::Count { min: 1, max: 100_000 }, Required, "Senders of one burst."),
            key("dst", Shape::Text, Optional, "The receiver; random for each burst unless set."),
            key("interval", INTERVAL, Optional, "(Mean) time between bursts."),
            key(
                "load",
                Shape::Number { min: 1e-9, max: 10.0 },
                Optional,
                "Instead of interval: payload bits offered a second, over the rates of all host \
                 links together.",
            ),
            key("poisson", Shape::Flag, Default("false"), "Exponential times between bursts."),
            key(
                "jitter",
                SPAN,
                Default("0us"),
                "Each sender starts at a random time within this span of the burst.",
            ),
            REPLY,
            REPLY_LABEL,
        ],
    },
    Variant {
        kind: "requests",
        doc: "Each asking host requests something at random times of fan_in hosts of one other \
            rack, all of them drawn, which all answer at once.",
        keys: requests::KEYS,
    },
    Variant {
        kind: "rotating-incast",
        doc: "In rounds: every sender sends one message to the same receiver, in the next round to \
            the next one.",
        keys: &[
            SIZES,
            sizes::SAMPLING,
            sizes::MEAN,
            LOAD,
            LOAD_BASE,
            RATE,
            GAP,
            SENDERS,
            key(
                "receivers",
                Shape::Globs,
                Optional,
                "Receiving hosts, by name or wildcard, in turn; all unless set. A sender never \
                 sends to itself.",
            ),
            key(
                "jitter",
                SPAN,
                Default("0us"),
                "Each sender starts at a random time within this span of the round, the same in \
                 every round.",
            ),
            REPLY,
            REPLY_LABEL,
        ],
    },
    Variant {
        kind: "closed-loop",
        doc: "Clients that each send a request to a random server, get its reply, think, and send \
            the next request. All send their first at `start`, and none from `stop` on.",
        keys: closed_loop::KEYS,
    },
    Variant {
        kind: "collective",
        doc: "A collective operation, again and again: a message begins when those it waits for \
            have arrived at its host.",
        keys: collective::KEYS,
    },
    Variant {
        kind: "permutation",
        doc: "Every host sends one message to one other, and no host receives two.",
        keys: &[SIZES_OR_INF, sizes::SAMPLING, sizes::MEAN, REPLY, REPLY_LABEL],
    },
    Variant {
        kind: "all-to-all",
        doc: "Every host sends one message to every other at once.",
        keys: &[SIZES, sizes::SAMPLING, sizes::MEAN, REPLY, REPLY_LABEL],
    },
    Variant {
        kind: "trace",
        doc: "Arrivals listed in a file.",
        keys: &[
            key(
                "file",
                Shape::Text,
                Required,
                "Path of a CSV file of start_us,src,dst,size_bytes, from the scenario's folder.",
            ),
            REPLY,
            REPLY_LABEL,
        ],
    },
];

/// Most messages that one all-to-all may submit.
const MOST_PAIRS: usize = 100_000_000;

/// What the builders of patterns need to know.
pub(crate) struct Context<'a> {
    /// Where the scenario's file lies.
    pub(crate) dir: &'a Path,
    pub(crate) fabric: &'a Fabric,
    pub(crate) hosts: &'a Hosts<'a>,
    pub(crate) course: Course,
}

/// Makes one block of traffic.
pub(crate) fn traffic<'a>(
    table: &'a Table,
    context: &Context<'_>,
    stacks: &mut Stacks<'a>,
    labels: &mut Labels,
    warnings: &mut Vec<String>,
) -> Result<Traffic, Error> {
    let start: Time = table.get("start");
    let stop: Option<Time> = table.find("stop");
    context.course.within(table, start, stop)?;
    let label = labels.weighed(table)?;
    let kind = table.get::<&str>("kind");
    let sizes = match kind {
        // Each message has its own.
        "trace" | "collective" => Sizes::Fixed(1),
        "closed-loop" => sizes::of(table, "request", context.dir, false)?,
        _ => {
            let unlimited = matches!(kind, "permutation" | "incast");
            sizes::of(table, "sizes", context.dir, unlimited)?
        }
    };
    let mean_bytes = match &sizes {
        Sizes::Fixed(bytes) => *bytes as f64,
        Sizes::Drawn(distribution) => distribution.mean_bytes,
    };
    let pattern = match kind {
        "poisson" => poisson(table, context, &sizes, mean_bytes)?,
        "incast" => incast(table, context, mean_bytes)?,
        "requests" => requests::pattern(table, context)?,
        "closed-loop" => closed_loop::pattern(table, context, labels)?,
        "collective" => collective::pattern(table, context)?,
        "rotating-incast" => {
            let senders = context.hosts.selected(table, "senders", 2)?;
            let receivers = context.hosts.selected(table, "receivers", 2)?;
            let gap_ps = gap(table, context, &senders, mean_bytes)?;
            Pattern::RotatingIncast { gap_ps, senders, receivers, jitter: table.get("jitter") }
        }
        "permutation" => Pattern::Permutation,
        "all-to-all" => {
            let pairs = context.hosts.len() * (context.hosts.len() - 1);
            if pairs > MOST_PAIRS {
                return Err(table.error_found(
                    "kind",
                    format!("{pairs} messages"),
                    format!("at most {MOST_PAIRS}"),
                ));
            }
            Pattern::AllToAll
        }
        _ => {
            let path = context.dir.join(table.get::<&str>("file"));
            let arrivals = csv::trace(table, "file", &path, context.hosts)?;
            let late =
                arrivals.iter().filter(|arrival| arrival.at >= context.course.duration).count();
            if late > 0 {
                warnings.push(format!(
                    "{}: {late} of {} arrivals come after the end of the run at {}",
                    path.display(),
                    arrivals.len(),
                    context.course.duration
                ));
            }
            Pattern::Trace(arrivals)
        }
    };
    Ok(Traffic {
        pattern: answered(table, context, labels, pattern, &sizes)?,
        sizes,
        stack: stacks.number(table)?,
        label,
        start,
        stop: stop.unwrap_or(context.course.duration).min(context.course.duration),
    })
}

/// The pattern, with replies where the table has them.
fn answered(
    table: &Table,
    context: &Context<'_>,
    labels: &mut Labels,
    pattern: Pattern,
    sizes: &Sizes,
) -> Result<Pattern, Error> {
    // A closed loop has replies of its own.
    if matches!(pattern, Pattern::ClosedLoop { .. } | Pattern::Collective(_)) {
        return Ok(pattern);
    }
    if table.item("reply").is_none() {
        return match table.item("reply_label") {
            None => Ok(pattern),
            Some(_) => Err(table.error("reply_label", "no such key where reply is not given")),
        };
    }
    if *sizes == Sizes::Fixed(Message::UNLIMITED) {
        return Err(table.error("reply", "no such key where messages never end"));
    }
    let replies = sizes::of(table, "reply", context.dir, false)?;
    let reply_label = labels.number_or(table, "reply_label", "reply")?;
    Ok(Pattern::Answered { of: Box::new(pattern), replies, reply_label })
}

fn poisson(
    table: &Table,
    context: &Context<'_>,
    sizes: &Sizes,
    mean_bytes: f64,
) -> Result<Pattern, Error> {
    let senders = context.hosts.selected(table, "senders", 1)?;
    let receivers = context.hosts.selected(table, "receivers", 1)?;
    if let [receiver] = receivers[..]
        && senders.contains(&receiver)
    {
        return Err(table.error("receivers", "a receiver other than itself for every sender"));
    }
    let mean_gap_ps = gap(table, context, &senders, mean_bytes)?;
    let stop = table.find("stop").unwrap_or(context.course.duration);
    let list = generators::list(table, sizes, |sizes| Given {
        hosts: context.hosts.len() as u32,
        mean_gap_ps,
        sizes,
        seed: table.find("generator_seed").unwrap_or(context.course.seed),
        until: stop.min(context.course.duration),
    })?;
    Ok(match list {
        Some(arrivals) => Pattern::Trace(arrivals),
        None => Pattern::Poisson { mean_gap_ps, senders, receivers },
    })
}

fn incast(table: &Table, context: &Context<'_>, mean_bytes: f64) -> Result<Pattern, Error> {
    let fan_in: u64 = table.get("fan_in");
    let others = context.hosts.len() - 1;
    if fan_in > others as u64 {
        return Err(table.error("fan_in", format!("at most {others}, the number of other hosts")));
    }
    let (load, interval): (Option<f64>, Option<Span>) =
        (table.find("load"), table.find("interval"));
    let interval = match (load, interval) {
        (Some(_), Some(_)) => {
            return Err(table.error("interval", "no such key where load is given"));
        }
        (None, interval) => interval.unwrap_or(Span::FOREVER),
        (Some(load), None) => {
            let offered = load * host_links(context).map(|(_, rate)| rate).sum::<f64>();
            let ps = fan_in as f64 * mean_bytes * 8e12 / offered;
            if !(1_000.0..1e18).contains(&ps) {
                return Err(table
                    .error("load", format!("1ns to 1e6s between bursts, not {:e}s", ps * 1e-12)));
            }
            Span::from_ps_f64(ps)
        }
    };
    let poisson: bool = table.get("poisson");
    if poisson && interval == Span::FOREVER {
        return Err(table.error("poisson", "interval or load to be given too"));
    }
    if interval != Span::FOREVER && mean_bytes >= Message::UNLIMITED as f64 {
        return Err(table.error("sizes", "a finite size where bursts repeat"));
    }
    let dst = table.item("dst").map(|_| context.hosts.one(table, "dst")).transpose()?;
    Ok(Pattern::Incast {
        fan_in: fan_in as u32,
        dst,
        interval,
        poisson,
        jitter: table.get("jitter"),
    })
}

/// Each host's switch and link rate in bit/s, in order of number.
pub(super) fn host_links<'a>(context: &'a Context<'_>) -> impl Iterator<Item = (usize, f64)> + 'a {
    let mut links = vec![(0, 0.0); context.hosts.len()];
    for link in &context.fabric.links {
        if let (Node::Host(host), Node::Switch(switch)) | (Node::Switch(switch), Node::Host(host)) =
            (link.a, link.b)
        {
            links[host as usize] = (switch as usize, link.rate.as_bps() as f64);
        }
    }
    links.into_iter()
}

/// What a load of 1 means for each host, in bit/s.
fn bases(table: &Table, context: &Context<'_>) -> Result<Vec<f64>, Error> {
    if table.find::<Word>("load_base").is_none_or(|base| base.0 == "host-links") {
        return Ok(host_links(context).map(|(_, rate)| rate).collect());
    }
    let mut racks = vec![(0.0, 0.0); context.fabric.switches.len()];
    for link in context.fabric.packet_links() {
        let rate = link.rate.as_bps() as f64;
        match (link.a, link.b) {
            (Node::Switch(a), Node::Switch(b)) => {
                [a, b].into_iter().for_each(|end| racks[end as usize].0 += rate)
            }
            (_, Node::Switch(rack)) | (Node::Switch(rack), _) => racks[rack as usize].1 += 1.0,
            _ => {}
        }
    }
    let bases: Vec<f64> =
        host_links(context).map(|(rack, _)| racks[rack].0 / racks[rack].1).collect();
    if bases.iter().any(|base| *base <= 0.0) {
        return Err(table.error("load_base", "\"host-links\", as there are racks without uplinks"));
    }
    Ok(bases)
}

/// Mean gap between two messages of one sender, in picoseconds.
fn gap(
    table: &Table,
    context: &Context<'_>,
    senders: &[u32],
    mean_bytes: f64,
) -> Result<f64, Error> {
    const WAYS: [&str; 3] = ["load", "rate", "gap"];
    let mut given = WAYS.into_iter().filter(|key| table.item(key).is_some());
    let Some(key) = given.next() else {
        return Err(table.error("load", "one of load, rate and gap to be given"));
    };
    if let Some(other) = given.next() {
        return Err(table.error(other, format!("no such key where {key} is given")));
    }
    if key != "load" && table.item("load_base").is_some() {
        return Err(table.error("load_base", format!("no such key where {key} is given")));
    }
    let per_host = match key {
        "gap" => return Ok(table.get::<Span>("gap").as_ps() as f64),
        "rate" => table.get::<Rate>("rate").as_bps() as f64,
        _ => {
            let bases = bases(table, context)?;
            let sum: f64 = senders.iter().map(|sender| bases[*sender as usize]).sum();
            table.get::<f64>("load") * sum / senders.len() as f64
        }
    };
    let ps = mean_bytes * 8e12 / per_host;
    if !(1_000.0..1e18).contains(&ps) {
        return Err(table
            .error(key, format!("1ns to 1e6s between messages of a host, not {:e}s", ps * 1e-12)));
    }
    Ok(ps)
}
