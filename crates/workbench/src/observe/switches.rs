//! Buffers of switches from warm-up to the end.

use super::{End, Left, Measure};
use crate::{Error, convert};

/// Keeps what the engine says of the switches.
pub(super) struct Switches;

impl Measure for Switches {
    fn finish(self: Box<Self>, end: &End<'_>, left: &mut Left) -> Result<(), Error> {
        left.seen.switches = convert::switches(end.plan, &end.outcome.switches);
        Ok(())
    }
}
