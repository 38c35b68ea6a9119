//! The switches of a fabric without hosts, generators or a clock. The caller supplies packets as
//! they arrive at the first switch, and collects them as they leave the last one.
//!
//! The switches are a partition like any other, with the hosts beyond its boundaries. Paths,
//! queues, marks, telemetry, thresholds and times are the simulator's, because the same code
//! computes them.

use std::cell::RefCell;

use tidegate_core::fabric::{Fabric, Node, Routing, Switch};
use tidegate_core::{Body, Span, Time};

use crate::measures::outcome::{LinkRecord, SwitchRecord};
use crate::measures::probe::Probe;
use crate::naming::Table;
use crate::partition::partitioning::Partitioning;
pub use crate::partition::{Leaving, Packet};
use crate::partition::{Mailbox, Partition};
use crate::run_context::RunContext;
use crate::setup::Setup;

/// Switches without hosts.
pub struct OpenFabric {
    partition: Partition<Dropped, Table>,
    mail: RefCell<Mailbox>,
    uplinks: Vec<Uplink>,
}

/// Link from a host to its switch.
struct Uplink {
    /// Time that the switch holds a packet before it queues it.
    latency: Span,
    /// Time at which the last packet is queued. No packet overtakes another.
    last: Time,
}

/// Numbers of the packets that were dropped.
#[derive(Default)]
struct Dropped(Vec<u32>);

impl Probe for Dropped {
    fn dropped(&mut self, body: &Body) {
        self.0.push(body.message);
    }
}

impl OpenFabric {
    /// All random choices, in marking and routing, derive from `seed`.
    ///
    /// # Errors
    /// If a switch uses PFC, which the senders would have to obey, or returns packets to their
    /// senders, whom it does not know; if the fabric has circuits or
    /// rate changes; or if no engine accepts the fabric: for example, hosts that cannot reach each
    /// other, links on which a packet spends more than four seconds, or credit queues that let
    /// nothing through.
    pub fn new(fabric: Fabric, routing: Routing, seed: u64) -> Result<OpenFabric, String> {
        let pauses = |switch: &&Switch| switch.pausing.is_some();
        if let Some(Switch { name, .. }) = fabric.switches.iter().find(pauses) {
            return Err(format!(
                "PFC is not supported on live switches: switch {name} uses it; set switch.pfc = \
                 \"off\""
            ));
        }
        if let Some(Switch { name, .. }) = fabric.switches.iter().find(|s| s.returns_to_sender()) {
            return Err(format!(
                "live switches do not return packets to their senders: switch {name} does; set \
                 switch.trimming.return_to_sender = false"
            ));
        }
        if fabric.circuits.is_some() || !fabric.rate_changes.is_empty() {
            return Err(
                "live switches support neither circuits nor rate changes: remove them from \
                        the fabric"
                    .to_owned(),
            );
        }
        let partitioning = Partitioning {
            partitions: 2,
            of_switch: vec![0; fabric.switches.len()],
            of_host: vec![1; fabric.hosts.len()],
            lookahead: Span::FOREVER,
        };
        let mut context =
            RunContext::of(Setup { routing, histograms: true, ..Setup::new(fabric, seed) })?;
        context.keeps_records = true;
        let partition = Partition::new(&context, &partitioning, 0, Dropped::default()).open();
        let fabric = &context.setup.fabric;
        let uplink = |host: u32| {
            let latency = match fabric.port_ends(context.routes.uplink(host)).to {
                Node::Switch(switch) => fabric.switches[switch as usize].latency,
                Node::Host(_) => Span::ZERO,
            };
            Uplink { latency, last: Time::ZERO }
        };
        let uplinks = (0..fabric.hosts.len() as u32).map(uplink).collect();
        Ok(OpenFabric { partition, mail: RefCell::default(), uplinks })
    }

    /// Time to which the switches have advanced.
    pub fn now(&self) -> Time {
        self.partition.now()
    }

    /// A packet from a host has arrived completely at its switch at `now`. If the packet before it
    /// from the same host, or [`now()`](Self::now), is later, then at that time. Returns `false` if
    /// there is no such host, or no destination host with this index.
    pub fn arrive(&mut self, now: Time, host: u32, packet: &Packet) -> bool {
        if packet.frame.dst as usize >= self.uplinks.len() {
            return false;
        }
        let Some(uplink) = self.uplinks.get_mut(host as usize) else { return false };
        // Other packets may arrive at the same time. Their order is decided when all are present.
        self.partition.advance_to(now.before(Span::ps(1)));
        uplink.last = uplink.last.max(now.max(self.partition.now()) + uplink.latency);
        self.partition.enter(host, uplink.last, packet);
        true
    }

    /// Advances to `now`. Appends to `leaving` the packets whose transmission to a host has
    /// started, by host and in order for each, and to `dropped` the numbers of the dropped packets.
    /// At equal times departures precede arrivals, and arrivals keep the order of the simulator.
    pub fn advance(&mut self, now: Time, leaving: &mut Vec<Leaving>, dropped: &mut Vec<u32>) {
        self.partition.advance_to(now);
        self.partition.release(&self.mail, leaving);
        dropped.append(&mut self.partition.probe_mut().0);
    }

    /// Time of the next event if nothing else arrives before. No transmission to a host that
    /// [`advance`](Self::advance) has not reported starts earlier.
    pub fn next(&self) -> Time {
        self.partition.next_at()
    }

    /// Discards the measurements so far, and returns the new start of the measured window.
    pub fn measure_anew(&mut self) -> Time {
        let now = self.partition.now();
        self.partition.measure_from(now);
        now
    }

    /// Bytes queued now at the ports of switches, each named as in
    /// [`Sample::entity`](crate::Sample).
    pub fn queues(&mut self) -> impl Iterator<Item = (u64, u32)> {
        self.partition.commit_all();
        self.partition.queues().map(|(port, bytes)| (u64::from(port), bytes))
    }

    /// Records so far of the ports of switches, by index, and of the switches. There are no
    /// percentiles of buffers, because buffers are not sampled.
    pub fn records(&mut self) -> (Vec<LinkRecord>, Vec<SwitchRecord>) {
        let (links, switches) = self.partition.records();
        (links.into_iter().map(|(_, link)| link).collect(), switches)
    }
}
