//! `[[traffic]]` of the kind `closed-loop`: clients that ask, wait, think, and ask again.

use tidegate_core::workload::Pattern;

use super::traffic::Context;
use super::{Labels, sizes};
use crate::error::Error;
use crate::read::keys::{Default, Key, Optional, Required, SPAN, Shape, key};
use crate::read::table::{Table, Word};

/// Keys of the kind.
pub(crate) const KEYS: &[Key] = &[
    key("request", Shape::Text, Required, "Sizes of requests, as `sizes` for poisson."),
    key("reply", Shape::Text, Required, "Sizes of replies."),
    key(
        "reply_label",
        Shape::Text,
        Optional,
        "What results of replies are counted under; what requests are unless set.",
    ),
    key("clients", Shape::Globs, Optional, "Hosts with clients; all unless set."),
    key(
        "per_host",
        Shape::Count { min: 1, max: 100_000 },
        Default("1"),
        "Clients on each of them, each with one exchange at a time.",
    ),
    key(
        "servers",
        Shape::Globs,
        Optional,
        "Hosts that reply, drawn anew for each request; all unless set. Never the client's own.",
    ),
    key("think", SPAN, Default("0us"), "(Mean) time from a reply to the client's next request."),
    key(
        "think_times",
        Shape::Word(&["fixed", "exponential"]),
        Default("fixed"),
        "Whether that is the same each time, or drawn.",
    ),
];

/// Most clients of a block.
const MOST_CLIENTS: u64 = 10_000_000;

/// Makes the pattern of one block.
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
        return Err(table.error("servers", "a server other than itself for every client"));
    }
    let per_host: u64 = table.get("per_host");
    let clients = per_host * hosts.len() as u64;
    if clients > MOST_CLIENTS {
        return Err(table.error_found(
            "per_host",
            format!("{clients} clients in all"),
            format!("at most {MOST_CLIENTS}"),
        ));
    }
    let clients = hosts.iter().flat_map(|&host| (0..per_host).map(move |_| host)).collect();
    let label = if table.item("reply_label").is_some() { "reply_label" } else { "label" };
    Ok(Pattern::ClosedLoop {
        clients,
        servers,
        replies: sizes::of(table, "reply", context.dir, false)?,
        reply_label: labels.number(table, label)?,
        think: table.get("think"),
        exponential: table.get::<Word>("think_times").0 == "exponential",
    })
}
