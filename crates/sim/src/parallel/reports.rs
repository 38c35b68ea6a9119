//! Reports of the partitions of a process: completed flows, samples, and the final state.

use tidegate_core::{Span, Time};

use crate::bytes::bytes;
use crate::measures::iterations::IterationTime;
use crate::measures::outcome::{FaultCounts, LinkRecord, Quantity, Sample, SwitchRecord};
use crate::traffic::flows::Done;

/// Completed flows, and progress.
#[derive(Default)]
pub(crate) struct Completions {
    /// By partition.
    pub(crate) done: Vec<Done>,
    /// Packet-hops so far.
    pub(crate) packet_hops: u64,
}

/// One sample of everything that is sampled, in no order.
#[derive(Default)]
pub(crate) struct Snapshot {
    /// By ID of an incomplete flow: bytes delivered.
    pub(crate) running: Vec<(u64, u64)>,
    /// By ID of a flow: its window in bytes.
    pub(crate) windows: Vec<(u64, f64)>,
    /// By port of a switch: bytes queued.
    pub(crate) queues: Vec<(u32, u32)>,
    /// By port of a switch: queueing so far in byte picoseconds, and wire bytes sent so far.
    pub(crate) ports: Vec<(u32, (u128, u64))>,
    /// By port that has ever been paused: total pause time.
    pub(crate) paused: Vec<(u32, Span)>,
}

/// Records at the end of a run, in no order.
#[derive(Default)]
pub(crate) struct FinalState {
    /// By port.
    pub(crate) links: Vec<(u32, LinkRecord)>,
    pub(crate) switches: Vec<SwitchRecord>,
    /// By port: queueing in byte picoseconds.
    pub(crate) waits: Vec<(u32, u128)>,
    /// By partition: flow ends that have not been collected.
    pub(crate) flows: Vec<Done>,
    /// By partition, job and iteration.
    pub(crate) iterations: Vec<IterationTime>,
    pub(crate) faults: FaultCounts,
    pub(crate) packet_hops: u64,
    pub(crate) events: u64,
}

bytes! {
    Completions { done, packet_hops }
    Snapshot { running, windows, queues, ports, paused }
    FinalState { links, switches, waits, flows, iterations, faults, packet_hops, events }
}

impl Snapshot {
    /// Adds the snapshot of other partitions.
    pub(crate) fn join(&mut self, others: Snapshot) {
        self.running.extend(others.running);
        self.windows.extend(others.windows);
        self.queues.extend(others.queues);
        self.ports.extend(others.ports);
        self.paused.extend(others.paused);
    }

    /// Appends the samples to `out` in their order: flows by ID, then ports, then ports with
    /// pauses.
    pub(crate) fn samples(mut self, at: Time, out: &mut Vec<Sample>) {
        let mut push = |entity, quantity, value| out.push(Sample { at, entity, quantity, value });
        self.running.sort_unstable();
        self.windows.sort_unstable_by_key(|&(id, _)| id);
        let mut windows = self.windows.into_iter().peekable();
        for (id, delivered) in self.running {
            push(id, Quantity::DeliveredBytes, delivered as f64);
            while windows.next_if(|&(other, _)| other < id).is_some() {}
            if let Some((_, window)) = windows.next_if(|&(other, _)| other == id) {
                push(id, Quantity::WindowBytes, window);
            }
        }
        self.queues.sort_unstable();
        for (port, bytes) in self.queues {
            push(port as u64, Quantity::QueueBytes, bytes as f64);
        }
        self.ports.sort_unstable();
        for (port, (byte_ps, sent)) in self.ports {
            push(port as u64, Quantity::QueueBytePs, byte_ps as f64);
            push(port as u64, Quantity::SentBytes, sent as f64);
        }
        self.paused.sort_unstable();
        for (port, span) in self.paused {
            push(port as u64, Quantity::PausedPs, span.as_ps() as f64);
        }
    }
}

impl FinalState {
    /// Adds the final state of other partitions.
    pub(crate) fn join(&mut self, others: FinalState) {
        self.links.extend(others.links);
        self.switches.extend(others.switches);
        self.waits.extend(others.waits);
        self.flows.extend(others.flows);
        self.iterations.extend(others.iterations);
        self.faults = self.faults.plus(others.faults);
        self.packet_hops += others.packet_hops;
        self.events += others.events;
    }

    /// Sorts records by port and by switch.
    pub(crate) fn sort(&mut self) {
        self.links.sort_unstable_by_key(|&(port, _)| port);
        self.switches.sort_unstable_by_key(|record| record.switch);
        self.waits.sort_unstable();
    }
}
