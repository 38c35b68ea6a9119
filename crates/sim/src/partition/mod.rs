//! The event loop of one partition. A partition is a part of the fabric, or all of it.
//!
//! Event sources are: every port (landing of the head of its link), every host (its earliest
//! deadline), the generator, the sampler and the faults. A packet costs one event per hop: when it
//! lands, the event loop commits its next port up to now, and the packet either starts its
//! transmission or joins the queue. At equal times departures precede arrivals, because a port is
//! first committed up to and including now.
//!
//! Events are handled in node batches, so one node can be ahead of another by up to a link's delay
//! (`events.rs`). The events of one node keep their order. Everything that concerns several nodes
//! (the generator, samples, the end of a run interval) finds all of them at the same time.
//!
//! A partition has its own hosts and switches, the ports that they send from, and the far ends of
//! links that arrive from other partitions. Ports and hosts have local indices; switches keep their
//! global ones. [`boundary`] describes how packets move between partitions.

mod boundary;
mod build;
mod landing;
mod measures;
mod open;
mod outages;
pub(crate) mod partitioning;
mod pausing;
mod racks;
mod scheduling;
mod switching;
mod uplinks;

pub(crate) use boundary::Mailbox;
pub(crate) use build::context;
use landing::LinkEffects;
pub use open::{Leaving, Packet};
use racks::Racks;
use std::sync::Arc;

use tidegate_core::fabric::{Buffer, Ecn, Fabric, MarkAt, Node, PortEnds, Routing as Choice};
use tidegate_core::{
    Application, Domain, Feedback, Hop, HostContext, Message, MessageId, PathOracle, Rate, Reply,
    Rng, Role, Span, Time, Transmit, Transport, frame_flag,
};

use crate::events::{EventList, FAR};
use crate::fabric::routing::{NO_PORT, Routing};
use crate::host::Host;
use crate::measures::histogram::Histogram;
use crate::measures::outcome::{FaultCounts, LinkRecord, Spread, SwitchRecord};
use crate::measures::probe::{Departure, Probe};
use crate::naming::{NOWHERE, Naming};
use crate::ports::ingress::{Ingress, Room};
use crate::ports::packets::Packets;
use crate::ports::pause_state::PauseState;
use crate::ports::port::{HOST, Port, PortHistograms, flag};
use crate::ports::scheduler::Scheduler;
use crate::setup::Setup;
use crate::traffic::agenda::{Action, Agenda};
use crate::traffic::dependents::Dependents;
use crate::traffic::flows::Flows;
use crate::traffic::submission::Submission;

/// Interval at which switch buffers are sampled for percentiles.
const SAMPLE_INTERVAL: Span = Span::us(10);

/// State that the ports of a switch share.
struct Switch {
    first_port: u32,
    last_port: u32,
    /// Bytes queued. Too high by what lazily committed ports have sent since their last commit.
    used: u64,
    capacity: u64,
    alpha: f64,
    drops: u64,
    occupancy: Histogram,
    /// Maximum of `used`; exact.
    max_used: u64,
}

/// Counters of a port at the end of warm-up.
#[derive(Clone, Copy, Default)]
struct Baseline {
    tx_bytes: u64,
    packets: u64,
    /// Remainder of a transmission in progress.
    busy: Span,
    /// Remainder of the transmissions that a failing link has cut short since then.
    unsent: Span,
    /// Waiting so far of the packets that were queued at that time.
    byte_ps: u128,
    /// Waiting of all packets that had left by that time.
    waited: u128,
    /// Time spent sending. Only for ports with a scheduler.
    sent: Span,
    /// Number of pauses, and their total duration.
    paused: (u64, Span),
}

/// Simulation of one partition. The alignment keeps two of them out of one cache line, or pair of
/// lines.
#[repr(align(128))]
pub(crate) struct Partition<P, N> {
    pub(crate) now: Time,
    /// Start of the current node batch. Every event before it has been handled, at every node.
    batch_start: Time,
    events: EventList<N>,
    packets: Packets,
    ports: Vec<Port>,
    /// Number of ports that belong to this partition. They come first in `ports`.
    own_ports: usize,
    /// Own ports whose links end in another partition, with that partition; ordered by port. A
    /// sentinel packet stays at the head of such a link: the link is never empty, so it has no
    /// events here.
    boundaries: Vec<(u32, u32)>,
    rates: Vec<Rate>,
    baselines: Vec<Baseline>,
    /// Landing time of the head of each link. Used only with explicit dequeues; otherwise the event
    /// list has it.
    landings: Vec<Time>,
    histograms: Vec<PortHistograms>,
    /// Schedulers by port. Empty if no port has one.
    schedulers: Vec<Option<Box<Scheduler>>>,
    /// Virtual output queues of racks, if the fabric has circuits.
    racks: Option<Box<Racks>>,
    /// Ingress accounting, if any switch uses PFC.
    ingress: Option<Box<Ingress>>,
    /// All switches of the fabric.
    switches: Vec<Switch>,
    /// Switches that belong to this partition.
    own_switches: Vec<u32>,
    /// Ports of all switches; a switch owns the range `first_port..last_port`.
    switch_ports: Vec<u32>,
    hosts: Vec<Host>,
    port_names: N,
    host_names: N,
    routing: Routing,
    pub(crate) flows: Flows,
    pub(crate) agenda: Agenda,
    /// Dependent messages, if the run has any.
    dependents: Option<Box<Dependents>>,
    /// ECN configurations, indexed by [`Port::marking`].
    ways_to_mark: Vec<Ecn>,
    /// Random streams by port, if any configuration marks at random.
    marking: Vec<Rng>,
    /// Random streams by host for the entropy of its packets, if packets are sprayed.
    spray: Vec<Rng>,
    effects: LinkEffects,
    /// Free packet that transports write into.
    blank: u32,
    warm: bool,
    /// The measured window is over.
    closed: bool,
    pub(crate) packet_hops: u64,
    pub(crate) handled: u64,
    /// Work that [`run_until`](Self::run_until) may still do before it returns.
    pub(crate) work: u64,
    /// `run_until` returned between submissions of one instant. They continue before any other
    /// event.
    submitting: bool,
    setup: Arc<Setup>,
    pub(crate) probe: P,
}

impl<P: Probe, N: Naming> Partition<P, N> {
    fn host_source(&self, host: u32) -> u32 {
        self.ports.len() as u32 + host
    }

    fn generator_source(&self) -> u32 {
        (self.ports.len() + self.hosts.len()) as u32
    }

    fn sampler(&self) -> u32 {
        self.generator_source() + 1
    }

    fn fault_source(&self) -> u32 {
        self.generator_source() + 2
    }

    fn wake_source(&self, port: u32) -> u32 {
        self.generator_source() + 3 + port
    }

    /// Returns the local index of a host, if it belongs to this partition.
    fn local_host(&self, host: u32) -> Option<u32> {
        Some(self.host_names.index_of(host)).filter(|&index| index != NOWHERE)
    }

    /// Path properties: base RTT, rates, hops.
    pub(crate) fn paths(&self) -> &dyn PathOracle {
        &self.routing
    }

    pub(crate) fn fault_counts(&self) -> &FaultCounts {
        &self.effects.counts
    }

    /// Number of packets in this partition, queued or in flight.
    pub(crate) fn packets_in_flight(&self) -> usize {
        self.packets.in_use() - 1 - self.boundaries.len()
    }

    /// Handles all events up to and including `until`. Returns `false` if the work limit was
    /// reached first.
    pub(crate) fn run_until(&mut self, until: Time) -> bool {
        if self.submitting {
            self.on_generator();
        }
        while self.work > 0 {
            let Some((mut now, mut source)) = self.events.open(until) else {
                self.now = self.now.max(until);
                return true;
            };
            self.batch_start = now;
            loop {
                self.work = self.work.saturating_sub(1);
                self.handle(now, source);
                match self.events.next_of_open() {
                    Some(next) if self.work > 0 => (now, source) = next,
                    _ => break,
                }
            }
            self.events.shut();
        }
        // This node may be ahead of others.
        self.now = self.batch_start;
        false
    }

    #[inline(always)]
    fn handle(&mut self, now: Time, source: u32) {
        debug_assert!(now >= self.batch_start, "time runs backwards");
        self.now = now;
        self.handled += 1;
        if (source as usize) < self.ports.len() {
            self.on_link(source);
        } else {
            self.on_other(source - self.ports.len() as u32);
        }
    }

    /// The head of a link has landed (or, with explicit dequeues, a transmission has ended).
    #[inline(always)]
    fn on_link(&mut self, index: u32) {
        let port = &mut self.ports[index as usize];
        if P::EXPLICIT_DEQUEUES && self.landings[index as usize] != self.now {
            self.commit(index); // End of a transmission.
            self.schedule_explicit(index);
            return;
        }
        let (packet, next) = port.land(&self.packets.frames);
        let to = port.to;
        if P::EXPLICIT_DEQUEUES {
            self.landings[index as usize] = next.unwrap_or(Time::NEVER);
        }
        if let Some(next) = next {
            let behind = self.packets.frames[port.link_head() as usize].next;
            self.packets.prefetch(behind, to & HOST != 0);
            if !P::EXPLICIT_DEQUEUES {
                self.events.set(index, next);
            }
        } else {
            // The sender may be behind this node. So it is committed only up to the start of the
            // batch, which all nodes have reached. Later starts land after this batch, because the
            // delay of the link exceeds the length of the batch; for the same reason a transmission
            // that was in progress at that time has ended by now.
            let now = std::mem::replace(&mut self.now, self.batch_start);
            if port.owner & HOST != 0 {
                let host = port.owner & !HOST;
                if !self.pull(host) {
                    self.arm(host);
                }
            } else if port.has_queue() {
                self.commit_switch_port(index);
            }
            self.now = now;
            if self.ports[index as usize].link_is_empty() {
                self.events.clear(index);
            }
        }
        if P::EXPLICIT_DEQUEUES {
            self.schedule_explicit(index);
        }
        self.packet_hops += 1;
        if !self.effects.are_none() {
            self.apply_link_effects(index, to, packet)
        } else if to & HOST == 0 {
            self.arrive_at_switch(to, packet)
        } else {
            self.deliver(to & !HOST, packet, self.now)
        }
    }

    /// With explicit dequeues, the next event of a port is its next landing or the end of its
    /// transmission.
    fn schedule_explicit(&mut self, index: u32) {
        let port = &self.ports[index as usize];
        let scheduled = port.flags & flag::SCHEDULED != 0;
        let wants_more = port.has_queue() && !scheduled || port.owner & HOST != 0;
        let dequeue =
            if wants_more && port.free_at > self.now { port.free_at } else { Time::NEVER };
        let next = self.landings[index as usize].min(dequeue);
        match next {
            Time::NEVER => self.events.clear(index),
            next => self.events.set(index, next),
        }
    }

    /// Starts every transmission that is due at a port.
    #[inline]
    fn commit(&mut self, index: u32) {
        let owner = self.ports[index as usize].owner;
        if owner & HOST != 0 {
            self.pull(owner & !HOST);
        } else {
            self.commit_switch_port(index);
        }
    }

    #[inline(never)]
    fn on_other(&mut self, source: u32) {
        if (source as usize) < self.hosts.len() {
            self.on_host(source);
        } else if source as usize == self.hosts.len() {
            self.on_generator();
        } else if source as usize == self.hosts.len() + 1 {
            self.on_sampler();
        } else if source as usize == self.hosts.len() + 2 {
            self.on_faults();
        } else {
            self.on_wake(source - self.hosts.len() as u32 - 3);
        }
    }
}
