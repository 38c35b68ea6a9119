//! The event loop, over a part of a fabric or all of it.
//!
//! Sources of events: every port (the head of its link), every host (its earliest deadline), the
//! generator, the sampler. A packet costs one event a hop: when it lands, its next port is
//! committed up to now, and it starts its transmission or joins the queue. At equal times
//! departures come before arrivals, because a port is committed up to and including now first.
//!
//! Nodes have turns, in which some are ahead of others by up to the delay of a link (`events.rs`).
//! Each node's events happen in their order, and whatever concerns more than one (the generator,
//! samples, the end of a stretch) finds all of them at the same time.
//!
//! A part has the hosts and switches of its own, the ports that they send by, and the far ends of
//! links that come in from other partitions. Ports and hosts have numbers of its own; switches are
//! called as in the whole. [`boundary`] says how packets get from part to part.

mod boundary;
mod build;
mod impairments;
mod measures;
mod open;
mod pausing;
mod racks;
mod scheduling;
mod switching;
mod uplinks;

pub(crate) use boundary::Mailbox;
pub(crate) use build::context;
use racks::Racks;
use std::sync::Arc;

use tidegate_core::fabric::{
    Buffer, Ecn, Fabric, MarkAt, Node, PortEnds, Routing as Choice, StackTime,
};
use tidegate_core::{
    Application, Domain, Feedback, Hop, HostContext, Message, MessageId, PathOracle, Rate, Reply,
    Rng, Role, Span, Time, Transmit, Transport, frame_flag,
};

use crate::agenda::{Action, Agenda};
use crate::dependents::Dependents;
use crate::events::{EventList, FAR};
use crate::faults::{Changed, Held, Impairment, Injector};
use crate::flows::{Flows, Submission};
use crate::histogram::Histogram;
use crate::host::Host;
use crate::ingress::{Ingress, Room};
use crate::naming::{NOWHERE, Naming};
use crate::outcome::{FaultCounts, LinkRecord, Spread, SwitchRecord};
use crate::packets::Packets;
use crate::pause_state::PauseState;
use crate::port::{HOST, Port, PortHistograms, flag};
use crate::probe::{Departure, Probe};
use crate::routing::{NO_PORT, Routing};
use crate::scheduler::Scheduler;
use crate::setup::Setup;

/// Switch buffers are sampled so often for their percentiles.
const SAMPLE_INTERVAL: Span = Span::us(10);

/// What a switch's ports share.
struct Switch {
    first_port: u32,
    last_port: u32,
    /// Bytes queued, too high by what lazily committed ports have sent meanwhile.
    used: u64,
    capacity: u64,
    alpha: f64,
    drops: u64,
    occupancy: Histogram,
    /// The most that `used` has been, exactly.
    max_used: u64,
}

/// Counters of a port as of warm-up.
#[derive(Clone, Copy, Default)]
struct Baseline {
    tx_bytes: u64,
    packets: u64,
    /// Of a transmission in progress.
    busy: Span,
    /// Of transmissions since that a failing link cut short: what was left of them.
    unsent: Span,
    /// What the packets queued then had waited for before.
    byte_ps: u128,
    /// What all packets that had left by then had waited for.
    waited: u128,
    /// Of a port with a scheduler: time spent sending.
    sent: Span,
    /// Times that it was paused, and for how long in all.
    paused: (u64, Span),
}

/// A simulation of a part of a fabric. No two are in one cache line, or in a pair of them.
#[repr(align(128))]
pub(crate) struct Partition<P, N> {
    pub(crate) now: Time,
    /// When the turn of the node whose events happen now began: everything before has happened, at
    /// every node.
    batch_start: Time,
    events: EventList<N>,
    packets: Packets,
    ports: Vec<Port>,
    /// How many of them are its own.
    own_ports: usize,
    /// Those of its own whose links end in other partitions, and in which; by port. A packet that
    /// stays, the sentinel, is first on such a link: never empty, it has no events here.
    boundaries: Vec<(u32, u32)>,
    rates: Vec<Rate>,
    baselines: Vec<Baseline>,
    /// When the head of each link lands. Kept only with explicit dequeues, else the event list
    /// knows.
    landings: Vec<Time>,
    histograms: Vec<PortHistograms>,
    /// By port, where any has one: what holds its queues.
    schedulers: Vec<Option<Box<Scheduler>>>,
    /// Where racks have circuits.
    racks: Option<Box<Racks>>,
    /// Where switches pause those that send to them: what they count.
    ingress: Option<Box<Ingress>>,
    /// All of the fabric's.
    switches: Vec<Switch>,
    /// Which of them are its own.
    own_switches: Vec<u32>,
    /// Ports of each switch, by `first_port..last_port`.
    switch_ports: Vec<u32>,
    hosts: Vec<Host>,
    port_names: N,
    host_names: N,
    routing: Routing,
    pub(crate) flows: Flows,
    pub(crate) agenda: Agenda,
    /// Where there are messages that wait for others.
    dependents: Option<Box<Dependents>>,
    /// Ways to mark, by [`Port::marking`].
    ways_to_mark: Vec<Ecn>,
    /// By port, where some mark at random.
    marking: Vec<Rng>,
    /// By host, where packets are sprayed: entropy of what it sends.
    spray: Vec<Rng>,
    injector: Injector,
    /// Packets can suffer at the end of a link, or wait behind it.
    impaired: bool,
    /// By host, where software takes time: when it hands over the last packet it has, and the
    /// stream of its jitter.
    stacks_busy: Vec<(Time, Rng)>,
    pub(crate) fault_counts: FaultCounts,
    /// A free packet for transports to write into.
    blank: u32,
    warm: bool,
    /// The measured span is over.
    closed: bool,
    pub(crate) packet_hops: u64,
    pub(crate) handled: u64,
    /// What may still be done before [`run_until`](Self::run_until) returns.
    pub(crate) work: u64,
    /// It returned amid the submissions of one moment: they go on before anything else happens.
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

    /// What the partition calls a host of the whole, if it has it.
    fn host_here(&self, host: u32) -> Option<u32> {
        Some(self.host_names.here(host)).filter(|&here| here != NOWHERE)
    }

    /// What a path looks like: base RTT, rates, hops.
    pub(crate) fn paths(&self) -> &dyn PathOracle {
        &self.routing
    }

    /// Packets that are somewhere in the partition.
    pub(crate) fn packets_in_flight(&self) -> usize {
        self.packets.in_use() - 1 - self.boundaries.len()
    }

    /// Handles all events up to and including `until`; `false` if there was more work than is
    /// allowed.
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
        // The node may be ahead of others.
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

    /// The head of a link has arrived (or, with explicit dequeues, a transmission has ended).
    #[inline(always)]
    fn on_link(&mut self, index: u32) {
        let port = &mut self.ports[index as usize];
        if P::EXPLICIT_DEQUEUES && self.landings[index as usize] != self.now {
            self.commit(index); // the end of a transmission
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
            // The sender may be behind this node, so it is asked for what has started by the time
            // that all have reached. What starts later does not land in this turn; and what was
            // being sent then has been by now, for the link's delay is longer than the turn.
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
        if self.impaired {
            self.meet_fate(index, to, packet)
        } else {
            self.arrive(to, packet, self.now)
        }
    }

    #[inline(always)]
    fn arrive(&mut self, to: u32, packet: u32, landed: Time) {
        if to & HOST == 0 {
            self.arrive_at_switch(to, packet)
        } else {
            self.arrive_at_host(to & !HOST, packet, landed)
        }
    }

    /// Explicit dequeues: the next event of a port is its next landing or the end of its
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

    /// Starts every transmission of a port that is due.
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
