//! Switch ports in the measured window.

use super::{End, Measure, RunOutput};
use crate::{Error, convert};

/// Stores the engine's records of the switch ports that sent packets.
pub(super) struct Links;

impl Measure for Links {
    fn finish(self: Box<Self>, end: &End<'_>, output: &mut RunOutput) -> Result<(), Error> {
        let links = end.outcome.links.iter().map(|record| convert::link(end.plan, record));
        let sent =
            links.filter(|link| !link.from_host && link.utilization.is_some_and(|used| used > 0.0));
        output.seen.links = sent.collect();
        Ok(())
    }
}
