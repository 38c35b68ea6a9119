//! `[[traffic]]`: generated flows.

use tidegate_core::fabric::Node;
use tidegate_core::workload::{Pattern, Sizes, Traffic};
use tidegate_core::{Message, Rate, Span};

use super::context::{Context, host_links};
use super::generators::GeneratorInputs;
use super::replies::{REPLY, REPLY_LABEL};
use super::transport::Stacks;
use super::{
    Labels, closed_loop, collective, generators, job, replies, requests, servers, sizes, traces,
};
use crate::error::Error;
use crate::load;
use crate::read::keys::{
    Default, INTERVAL, Key, LINK_RATE, Optional, Required, SPAN, Shape, Variant, key,
};
use crate::read::table::{Table, Word};

/// Keys of all kinds.
pub(crate) static COMMON: &[Key] = &[
    key("kind", Shape::Text, Required, "Traffic pattern."),
    key("label", Shape::Text, Optional, "Label of these flows in results."),
    super::WEIGHT,
    key("start", SPAN, Default("0us"), "Time of the first submission."),
    key(
        "stop",
        SPAN,
        Optional,
        "Time from which no more messages are submitted. Default: the end of the run.",
    ),
    key(
        "protocol",
        Shape::Protocol,
        Optional,
        "Protocol of these flows. Default: transport.protocol.",
    ),
    key(
        "preset",
        Shape::Text,
        Optional,
        "Named set of parameters of the protocol. \"paper\" is the protocol's defaults.",
    ),
    key(
        "params",
        Shape::Params,
        Optional,
        "Parameters that override the preset, or the values that the protocol has elsewhere in the \
         scenario.",
    ),
];

const SIZES: Key = key(
    "sizes",
    Shape::Text,
    Required,
    "Message sizes: a size such as \"1MB\", the name of a distribution, or the path of a CSV file \
     with the columns size_bytes,cdf, relative to the scenario's folder.",
);
const SIZES_OR_INF: Key = key(
    "sizes",
    Shape::Text,
    Default("inf"),
    "Message sizes as for poisson, or \"inf\" for unlimited flows.",
);
const LOAD: Key = key(
    "load",
    Shape::Number { min: 1e-6, max: 10.0 },
    Optional,
    "Offered payload on links of the network, as a share of the sum of the senders' link rates. \
     Messages within servers (hosts.server) are additional. Exactly one of load, rate and gap must \
     be set.",
);
const LOAD_BASE: Key = key(
    "load_base",
    Shape::Word(&["host-links", "rack-uplinks"]),
    Optional,
    "Capacity that load refers to: the senders' links (default), or each sender's share of its \
     rack's uplinks.",
);
const RATE: Key = key("rate", LINK_RATE, Optional, "Offered payload of each sending host.");
const GAP: Key = key("gap", INTERVAL, Optional, "Mean time between messages of one sending host.");
const SENDERS: Key =
    key("senders", Shape::Globs, Optional, "Sending hosts, by name or wildcard. Default: all.");
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
        "Receiving hosts, by name or wildcard. A host never sends to itself. Default: all.",
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
        doc: "Each sending host submits messages to uniformly random receivers, with exponential \
              times between them.",
        keys: POISSON,
    },
    Variant {
        kind: "incast",
        doc: "Random senders each send one message to one receiver at the same time. The burst \
              repeats if interval or load is set.",
        keys: &[
            SIZES,
            sizes::SAMPLING,
            sizes::MEAN,
            key(
                "fan_in",
                Shape::Count { min: 1, max: 100_000 },
                Required,
                "Number of senders in a burst.",
            ),
            key("dst", Shape::Text, Optional, "Receiver. Default: random for each burst."),
            key(
                "interval",
                INTERVAL,
                Optional,
                "Time between bursts; the mean if poisson is true.",
            ),
            key(
                "load",
                Shape::Number { min: 1e-9, max: 10.0 },
                Optional,
                "Alternative to interval: offered payload on links of the network, as a share of \
                 the sum of all host link rates. Messages within servers (hosts.server) are \
                 additional.",
            ),
            key(
                "poisson",
                Shape::Flag,
                Default("false"),
                "Whether the times between bursts are exponential.",
            ),
            key(
                "jitter",
                SPAN,
                Default("0us"),
                "Each sender starts at a random time within this interval after the start of the \
                 burst.",
            ),
            REPLY,
            REPLY_LABEL,
        ],
    },
    Variant {
        kind: "requests",
        doc: "At random times, each requesting host sends a request to fan_in random hosts of one \
              random other rack, and all of them reply at once.",
        keys: requests::KEYS,
    },
    Variant {
        kind: "rotating-incast",
        doc: "Rounds of incast: in each round, all senders send one message to the same receiver; \
              the next round uses the next receiver.",
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
                "Receiving hosts, by name or wildcard, used round-robin. A host never sends to \
                 itself. Default: all.",
            ),
            key(
                "jitter",
                SPAN,
                Default("0us"),
                "Each sender starts at a random time within this interval after the start of the \
                 round. Its offset is the same in every round.",
            ),
            REPLY,
            REPLY_LABEL,
        ],
    },
    Variant {
        kind: "closed-loop",
        doc: "Each client sends a request to a random server, waits for the reply, thinks, and \
              sends the next request. All clients send their first request at `start`, and none \
              from `stop` on.",
        keys: closed_loop::KEYS,
    },
    Variant {
        kind: "collective",
        doc: "Iterations of a collective operation. A host sends a message when the messages that \
              it depends on have arrived.",
        keys: collective::KEYS,
    },
    Variant {
        kind: "job",
        doc: "Operations of a training job from files: ranks compute, send and receive. An \
              operation starts when all its dependencies are complete.",
        keys: job::KEYS,
    },
    Variant {
        kind: "permutation",
        doc: "Every host sends one message to another host, and every host receives one.",
        keys: &[SIZES_OR_INF, sizes::SAMPLING, sizes::MEAN, REPLY, REPLY_LABEL],
    },
    Variant {
        kind: "all-to-all",
        doc: "Every host sends one message to every other host at the same time.",
        keys: &[SIZES, sizes::SAMPLING, sizes::MEAN, REPLY, REPLY_LABEL],
    },
    Variant {
        kind: "trace",
        doc: "Messages listed in a file. Their times count from `start`; messages from `stop` on \
              are not submitted.",
        keys: traces::KEYS,
    },
];

/// Largest number of messages in one all-to-all.
const MOST_PAIRS: usize = 100_000_000;

/// Transports and labels that are known so far.
pub(crate) struct Known<'b, 'a> {
    pub(crate) stacks: &'b mut Stacks<'a>,
    pub(crate) labels: &'b mut Labels,
}

/// Builds one block of traffic. `earlier` are the blocks before it.
pub(crate) fn traffic<'a>(
    table: &'a Table,
    context: &Context<'_>,
    Known { stacks, labels }: Known<'_, 'a>,
    earlier: &[Traffic],
    warnings: &mut Vec<String>,
) -> Result<Traffic, Error> {
    let (start, stop) = context.run.interval(table, ["start", "stop"])?;
    let label = labels.weighed(table)?;
    let kind = table.get::<&str>("kind");
    let sizes = match kind {
        // Each message has a size of its own.
        "trace" | "collective" | "job" => Sizes::Fixed(1),
        "closed-loop" => sizes::of(table, "request", context.files, false)?,
        _ => {
            let unlimited = matches!(kind, "permutation" | "incast");
            sizes::of(table, "sizes", context.files, unlimited)?
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
        "collective" => collective::pattern(table, context, earlier.len() as u64)?,
        "job" => job::pattern(table, context, earlier)?,
        "rotating-incast" => {
            let senders = context.hosts.selected(table, "senders", 2)?;
            let receivers = context.hosts.selected(table, "receivers", 2)?;
            let share = load::rotating(context.fabric, &senders, &receivers);
            let gap_ps = gap(table, context, &senders, share, mean_bytes)?;
            Pattern::RotatingIncast { gap_ps, senders, receivers, jitter: table.get("jitter") }
        }
        "permutation" => Pattern::Permutation,
        "all-to-all" => {
            let pairs = context.hosts.len() * (context.hosts.len() - 1);
            if pairs > MOST_PAIRS {
                return Err(table.error_found(
                    "kind",
                    format!("an all-to-all of {pairs} messages"),
                    format!("at most {MOST_PAIRS} messages: use fewer hosts"),
                ));
            }
            Pattern::AllToAll
        }
        _ => traces::pattern(table, context, (start, stop), warnings)?,
    };
    Ok(Traffic {
        pattern: replies::answered(table, context, labels, pattern, &sizes)?,
        sizes,
        stack: stacks.number(table)?,
        label,
        start,
        stop: stop.min(context.run.duration),
    })
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
        return Err(table
            .error("receivers", "at least one receiver other than the sender for every sender"));
    }
    let share = load::at_random(context.fabric, &senders, &receivers);
    let mean_gap_ps = gap(table, context, &senders, share, mean_bytes)?;
    let stop = table.find("stop").unwrap_or(context.run.duration);
    let list = generators::list(table, sizes, |sizes| GeneratorInputs {
        hosts: context.hosts.len() as u32,
        mean_gap_ps,
        sizes,
        seed: table.find("generator_seed").unwrap_or(context.run.seed),
        until: stop.min(context.run.duration),
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
        return Err(table.error(
            "fan_in",
            format!("at most {others}, the number of hosts other than the receiver"),
        ));
    }
    let (load, interval): (Option<f64>, Option<Span>) =
        (table.find("load"), table.find("interval"));
    let interval = match (load, interval) {
        (Some(_), Some(_)) => {
            return Err(
                table.error("interval", "only one of interval and load: remove one of them")
            );
        }
        (None, interval) => interval.unwrap_or(Span::FOREVER),
        (Some(load), None) => {
            let share = servers::known(table, load::any_to_any(context.fabric))?;
            let offered = load * host_links(context).map(|(_, rate)| rate).sum::<f64>() / share;
            let ps = fan_in as f64 * mean_bytes * 8e12 / offered;
            if !(1_000.0..1e18).contains(&ps) {
                return Err(table.error(
                    "load",
                    format!(
                        "a load that gives 1ns to 1e6s between bursts; this one gives {:e}s",
                        ps * 1e-12
                    ),
                ));
            }
            Span::from_ps_f64(ps)
        }
    };
    let poisson: bool = table.get("poisson");
    if poisson && interval == Span::FOREVER {
        return Err(table
            .error("poisson", "interval or load to be set too: poisson is about repeated bursts"));
    }
    if interval != Span::FOREVER && mean_bytes >= Message::UNLIMITED as f64 {
        return Err(table.error("sizes", "a finite size, because the bursts repeat"));
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

/// Returns the rate of each host that corresponds to a load of 1, in bit/s.
fn bases(table: &Table, context: &Context<'_>) -> Result<Vec<f64>, Error> {
    if table.find::<Word>("load_base").is_none_or(|base| base.0 == "host-links") {
        return Ok(host_links(context).map(|(_, rate)| rate).collect());
    }
    let mut racks = vec![(0.0, 0.0); context.fabric.switches.len()];
    for link in context.fabric.packet_links() {
        let rate = link.rate.as_bps() as f64;
        match (context.fabric.access(link), link.a, link.b) {
            (Some((_, rack)), ..) => racks[rack as usize].1 += 1.0,
            (None, Node::Switch(a), Node::Switch(b)) => {
                [a, b].into_iter().for_each(|end| racks[end as usize].0 += rate)
            }
            _ => {}
        }
    }
    let mut bases = vec![0.0; context.hosts.len()];
    for (host, rack) in context.fabric.links.iter().filter_map(|link| context.fabric.access(link)) {
        bases[host as usize] += racks[rack as usize].0 / racks[rack as usize].1;
    }
    if bases.iter().any(|base| *base <= 0.0) {
        return Err(table.error("load_base", "\"host-links\", because some racks have no uplinks"));
    }
    Ok(bases)
}

/// Returns the mean time between two messages of one sender, in picoseconds. `share` is that of its
/// messages on links.
fn gap(
    table: &Table,
    context: &Context<'_>,
    senders: &[u32],
    share: f64,
    mean_bytes: f64,
) -> Result<f64, Error> {
    const WAYS: [&str; 3] = ["load", "rate", "gap"];
    let mut given = WAYS.into_iter().filter(|key| table.item(key).is_some());
    let Some(key) = given.next() else {
        return Err(table.error("load", "exactly one of load, rate and gap"));
    };
    if let Some(other) = given.next() {
        return Err(table.error(other, format!("only one of load, rate and gap: {key} is set too")));
    }
    if key != "load" && table.item("load_base").is_some() {
        let expected = format!("no load_base with {key}: remove load_base, or set load instead");
        return Err(table.error("load_base", expected));
    }
    let per_host = match key {
        "gap" => return Ok(table.get::<Span>("gap").as_ps() as f64),
        "rate" => table.get::<Rate>("rate").as_bps() as f64,
        _ => {
            let bases = bases(table, context)?;
            let sum: f64 = senders.iter().map(|sender| bases[*sender as usize]).sum();
            table.get::<f64>("load") * sum / senders.len() as f64 / servers::known(table, share)?
        }
    };
    let ps = mean_bytes * 8e12 / per_host;
    if !(1_000.0..1e18).contains(&ps) {
        return Err(table.error(
            key,
            format!(
                "a value that gives 1ns to 1e6s between messages of a host; this one gives {:e}s",
                ps * 1e-12
            ),
        ));
    }
    Ok(ps)
}
