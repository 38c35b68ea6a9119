//! `[[traffic]]` of the kind `closed-loop`: clients that send a request, wait for the reply, think,
//! and repeat.

use tidegate_core::workload::Pattern;

use super::context::Context;
use super::{Labels, sizes};
use crate::error::Error;
use crate::read::keys::{Default, Key, Optional, Required, SPAN, Shape, key};
use crate::read::table::{Table, Word};

/// Keys of the kind.
pub(crate) const KEYS: &[Key] = &[
    key("request", Shape::Text, Required, "Request sizes, in the form of `sizes` for poisson."),
    key("reply", Shape::Text, Required, "Reply sizes, in the form of `sizes` for poisson."),
    key(
        "reply_label",
        Shape::Text,
        Optional,
        "Label of replies in results. Default: that of requests.",
    ),
    key(
        "clients",
        Shape::Globs,
        Optional,
        "Hosts that run clients, by name or wildcard. Default: all.",
    ),
    key(
        "per_host",
        Shape::Count { min: 1, max: 100_000 },
        Default("1"),
        "Number of clients on each of these hosts. A client has one exchange at a time.",
    ),
    key(
        "servers",
        Shape::Globs,
        Optional,
        "Hosts that reply, by name or wildcard. Each request draws one, never the client's own \
         host. Default: all.",
    ),
    key(
        "think",
        SPAN,
        Default("0us"),
        "Time from a reply to the client's next request; the mean if think_times is exponential.",
    ),
    key(
        "think_times",
        Shape::Word(&["fixed", "exponential"]),
        Default("fixed"),
        "Whether the think time is constant or drawn.",
    ),
];

/// Largest number of clients in a block.
const MOST_CLIENTS: u64 = 10_000_000;

/// Builds the pattern of one block.
pub(crate) fn pattern(
    table: &Table,
    context: &Context<'_>,
    labels: &mut Labels,
) -> Result<Pattern, Error> {
    let hosts = context.hosts.selected(table, "clients", 1)?;
    let servers = context.hosts.selected(table, "servers", 1)?;
    if let [server] = servers[..]
        && hosts.contains(&server)
    {
        return Err(table.error(
            "servers",
            "at least one server other than the client's own host for every client",
        ));
    }
    let per_host: u64 = table.get("per_host");
    let clients = per_host * hosts.len() as u64;
    if clients > MOST_CLIENTS {
        return Err(table.error_found(
            "per_host",
            format!("{clients} clients in total"),
            format!("at most {MOST_CLIENTS} clients in total"),
        ));
    }
    let clients = hosts.iter().flat_map(|&host| (0..per_host).map(move |_| host)).collect();
    let label = if table.item("reply_label").is_some() { "reply_label" } else { "label" };
    Ok(Pattern::ClosedLoop {
        clients,
        servers,
        replies: sizes::of(table, "reply", context.files, false)?,
        reply_label: labels.number(table, label)?,
        think: table.get("think"),
        exponential: table.get::<Word>("think_times").0 == "exponential",
    })
}
