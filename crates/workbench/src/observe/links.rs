//! Switch ports from warm-up to the end.

use super::{End, Left, Measure};
use crate::{Error, convert};

/// Keeps what the engine says of the switch ports that sent anything.
pub(super) struct Links;

impl Measure for Links {
    fn finish(self: Box<Self>, end: &End<'_>, left: &mut Left) -> Result<(), Error> {
        let links = end.outcome.links.iter().map(|record| convert::link(end.plan, record));
        let sent =
            links.filter(|link| !link.from_host && link.utilization.is_some_and(|used| used > 0.0));
        left.seen.links = sent.collect();
        Ok(())
    }
}
