//! Offered and delivered traffic of all hosts together.

use serde::{Deserialize, Serialize};
use tidegate_core::{Message, Time};
use tidegate_scenario::Plan;
use tidegate_sim::FlowRecord;

use super::{End, Measure, RunOutput};
use crate::Error;

/// Payload between warm-up and the end, in Gbit/s per host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Delivered {
    /// Payload of submitted messages.
    pub offered_gbps: f64,
    /// Payload that arrived for the first time.
    pub arrived_gbps: f64,
    /// Total payload of completed messages, without replies, as SIRD's authors count goodput.
    pub completed_gbps: f64,
}

/// Sums of traffic.
#[derive(Default)]
pub(super) struct Adder {
    offered_bytes: u64,
    arrived_bytes: u64,
    completed_bytes: u64,
}

impl Measure for Adder {
    fn flow(&mut self, plan: &Plan, record: &FlowRecord) -> Result<(), Error> {
        self.arrived_bytes += record.window_bytes;
        if record.bytes != Message::UNLIMITED {
            let counts = |at: Time| plan.warmup <= at && at < plan.duration;
            let bytes_if = |counts| if counts { record.bytes } else { 0 };
            self.offered_bytes += bytes_if(counts(record.start));
            let is_reply = record.exchange.is_some_and(|exchange| exchange.is_reply);
            self.completed_bytes += bytes_if(!is_reply && record.completed.is_some_and(counts));
        }
        Ok(())
    }

    fn finish(self: Box<Self>, end: &End<'_>, output: &mut RunOutput) -> Result<(), Error> {
        let ns = (end.plan.duration - end.plan.warmup).as_us_f64() * 1e3;
        let gbps = |bytes: u64| bytes as f64 * 8.0 / ns / end.plan.fabric.hosts.len() as f64;
        output.seen.delivered = Some(Delivered {
            offered_gbps: gbps(self.offered_bytes),
            arrived_gbps: gbps(self.arrived_bytes),
            completed_gbps: gbps(self.completed_bytes),
        });
        Ok(())
    }
}
