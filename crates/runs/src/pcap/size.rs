//! How large a capture would be, without one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_algos::Protocol;
use tidegate_scenario::Plan;
use tidegate_sim::Departure;

use super::{Capture, blocks, chosen, frame};
use crate::Error;
use crate::observe::{End, Measure, RunOutput, Subscriptions};

/// Adds up what a capture would hold.
#[derive(Clone)]
pub(crate) struct Size {
    bytes: Arc<AtomicU64>,
    /// By port.
    chosen: Vec<bool>,
    /// By stack.
    protocols: Vec<Protocol>,
    /// Of one packet; kept for the next.
    frame: Vec<u8>,
    block: Vec<u8>,
}

impl Size {
    /// Creates a measure of the size of this capture.
    ///
    /// # Errors
    /// When the capture selects an unknown name.
    pub(crate) fn of(plan: &Plan, capture: Capture<'_>) -> Result<Size, Error> {
        Ok(Size {
            bytes: Arc::default(),
            chosen: chosen(&plan.fabric, capture.of)?,
            protocols: plan.stacks.iter().map(|stack| stack.protocol()).collect(),
            frame: Vec::new(),
            block: Vec::new(),
        })
    }

    /// So far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Measure for Size {
    fn subscriptions(&self) -> Subscriptions {
        Subscriptions { departed: true, ..Subscriptions::default() }
    }
    fn departed(&mut self, departure: &Departure<'_>) {
        let Departure { port, frame, body, hops, .. } = *departure;
        let protocol = self.protocols[body.transport as usize];
        if self.chosen[port as usize]
            && let Ok(length) = frame::write(protocol, frame, body, hops, &mut self.frame)
        {
            self.frame.truncate(blocks::SNAP_BYTES as usize);
            self.block.clear();
            blocks::packet(&mut self.block, 0, 0, &self.frame, length);
            self.bytes.fetch_add(self.block.len() as u64, Ordering::Relaxed);
        }
    }
    fn finish(self: Box<Self>, _end: &End<'_>, _output: &mut RunOutput) -> Result<(), Error> {
        Ok(())
    }
}
