//! Replies to the messages of a pattern.

use tidegate_core::Message;
use tidegate_core::workload::{Pattern, Sizes};

use super::context::Context;
use super::{Labels, sizes};
use crate::error::Error;
use crate::read::keys::{Key, Optional, Shape, key};
use crate::read::table::Table;

pub(super) const REPLY: Key = key(
    "reply",
    Shape::Text,
    Optional,
    "Reply sizes, in the form of `sizes` for poisson. The receiver answers each message, when it \
     has arrived, with a message of that size on the same transport. Default: no replies.",
);
pub(super) const REPLY_LABEL: Key =
    key("reply_label", Shape::Text, Optional, "Label of replies in results. Default: \"reply\".");

/// Adds replies to the pattern if the table sets them.
pub(super) fn answered(
    table: &Table,
    context: &Context<'_>,
    labels: &mut Labels,
    pattern: Pattern,
    sizes: &Sizes,
) -> Result<Pattern, Error> {
    // Closed loops, collectives and jobs have replies of their own.
    if matches!(pattern, Pattern::ClosedLoop { .. } | Pattern::Collective(_) | Pattern::Job(_)) {
        return Ok(pattern);
    }
    if table.item("reply").is_none() {
        return match table.item("reply_label") {
            None => Ok(pattern),
            Some(_) => Err(table.error(
                "reply_label",
                "no reply_label without reply: remove reply_label, or set reply",
            )),
        };
    }
    if *sizes == Sizes::Fixed(Message::UNLIMITED) {
        return Err(table
            .error("reply", "no reply to unlimited messages: remove reply, or set finite sizes"));
    }
    let replies = sizes::of(table, "reply", context.files, false)?;
    let reply_label = labels.number_or(table, "reply_label", "reply")?;
    Ok(Pattern::Answered { of: Box::new(pattern), replies, reply_label })
}
