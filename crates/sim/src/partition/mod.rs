//! The event loop of one partition. A partition is a part of the fabric, or all of it.
//!
//! A packet normally costs one event per hop. When it lands at a switch, its next port is committed
//! up to now, and the packet starts its transmission, joins the queue or is refused; at a host, it
//! is delivered. At equal times departures precede arrivals, because a port is first committed up
//! to and including now.
//!
//! Events are handled in node batches (of one event where nodes are not independent: `build.rs`),
//! so a node can be ahead of another by less than the shortest delay of the links that lead to the
//! first (`events.rs`). The events of one node keep their order. Samples, faults and the end of the
//! simulated time of a call find all nodes at the same time; if a limit of work ends the call
//! earlier, one node may be ahead. The generator finds all hosts at the same time, but switches may
//! be ahead.
//!
//! # Components
//!
//! A partition has nine components. Flows and the injector of faults are defined elsewhere. Each of
//! the seven below has a file of its own and private fields, except that the others use the ports,
//! packets, clock and probe of [`links`] directly. A method takes the other components that it
//! needs as arguments, so its signature shows what it can change:
//!
//! ```text
//! data    links         ports, packets, rates, the clock, the probe        ◄── all but effects
//!         switching     buffers, queues with schedulers, ECN, PFC, routes  links
//!         uplinks       hosts: their transports and uplinks                links, flows
//!         generator     submissions to come                                links' clock, flows
//!         link_effects  what changes, delays or drops packets at the end of a link
//!         boundary      own ports, links to other partitions               links
//!         measures      baselines of the measured window                   links, switching
//! path    land ─► link effects, if any ─► switching.arrive ─► links.launch
//!                                    └──► uplinks.deliver  ─► links.launch
//!         link is empty ─► switching.commit_port or uplinks.send_due, for its sender
//! cost    one event, one port, one frame a packet-hop; a component that a run does not use costs
//!         at most one test
//! ```
//!
//! The steps that need most of the components at once (the event loop, landings, pause frames,
//! faults, records) are methods of [`Partition`].
//!
//! A partition has its own hosts and switches, their egress ports, and the receiving ends of links
//! from other partitions. Ports and hosts have local indices; switches keep their global ones.
//! [`boundary`] describes how packets move between partitions.

mod boundary;
mod build;
mod clock;
mod generator;
mod link_effects;
mod links;
mod measures;
mod open;
mod outages;
pub(crate) mod partitioning;
mod pausing;
mod switching;
mod uplinks;

use tidegate_core::{PathOracle, Time};

use crate::fabric::faults::Injector;
use crate::measures::probe::Probe;
use crate::naming::Naming;
use crate::ports::port::HOST;
use crate::traffic::flows::Flows;
use boundary::Boundary;
use clock::Source;
use generator::Generator;
use link_effects::LinkEffects;
use links::{Landed, Links};
use measures::Measures;
use switching::Switching;
use uplinks::{Uplinks, host_of};

pub(crate) use boundary::Mailbox;
pub(crate) use build::host_context;
pub use open::{Leaving, Packet};

/// Simulation of one partition. The alignment keeps two of them out of one cache line, or pair of
/// lines.
#[repr(align(128))]
pub(crate) struct Partition<P, N> {
    links: Links<P, N>,
    switching: Switching,
    uplinks: Uplinks<N>,
    link_effects: LinkEffects,
    injector: Injector,
    generator: Generator,
    pub(crate) flows: Flows,
    boundary: Boundary,
    measures: Measures,
    pub(crate) packet_hops: u64,
    /// Number of events handled.
    pub(crate) handled: u64,
    /// Work that [`run_until`](Self::run_until) may still do before it returns.
    pub(crate) work: u64,
}

impl<P: Probe, N: Naming> Partition<P, N> {
    /// Time to which the partition has advanced.
    pub(crate) fn now(&self) -> Time {
        self.links.now()
    }

    /// Its probe.
    pub(crate) fn probe(&self) -> &P {
        &self.links.probe
    }

    /// Its probe.
    pub(crate) fn probe_mut(&mut self) -> &mut P {
        &mut self.links.probe
    }

    /// Path properties: base RTT, rates, hops.
    pub(crate) fn paths(&self) -> &dyn PathOracle {
        self.switching.routing()
    }

    /// Number of packets in this partition, queued or in flight.
    pub(crate) fn packets_in_flight(&self) -> usize {
        // One is blank, and each boundary link has a sentinel.
        self.links.packets.in_use() - 1 - self.boundary.crossing_ports().len()
    }

    /// Handles all events up to and including `until`. Returns `false` if the work limit was
    /// reached first.
    pub(crate) fn run_until(&mut self, until: Time) -> bool {
        if self.generator.has_due_submissions() {
            self.on_generator();
        }
        while self.work > 0 {
            let Some((mut now, mut source)) = self.links.clock.open_batch(until) else {
                self.links.clock.advance(self.now().max(until));
                return true;
            };
            loop {
                self.work = self.work.saturating_sub(1);
                self.handle(now, source);
                match self.links.clock.next_of_batch() {
                    Some(next) if self.work > 0 => (now, source) = next,
                    _ => break,
                }
            }
            self.links.clock.close_batch();
        }
        // This node may be ahead of others.
        self.links.clock.step_back();
        false
    }

    #[inline(always)]
    fn handle(&mut self, now: Time, source: u32) {
        self.links.clock.advance(now);
        self.handled += 1;
        // The number of a link's source is that of its port.
        if self.links.has(source) { self.on_link(source) } else { self.on_other(source) }
    }

    /// The head of a link has landed (or, with explicit dequeues, a transmission has ended).
    #[inline(always)]
    fn on_link(&mut self, index: u32) {
        if P::EXPLICIT_DEQUEUES && self.links.ends_transmission(index) {
            self.commit(index);
            self.links.schedule_explicit(index);
            return;
        }
        let Landed { packet, to, sender } = self.links.land(index);
        if let Some(sender) = sender {
            self.refill(index, sender);
        }
        if P::EXPLICIT_DEQUEUES {
            self.links.schedule_explicit(index);
        }
        self.packet_hops += 1;
        if !self.link_effects.are_none() && self.link_effects_take(index, to, packet) {
            return;
        }
        if to & HOST == 0 {
            self.switching.arrive(&mut self.links, to, packet)
        } else {
            self.deliver(to & !HOST, packet, self.links.now())
        }
    }

    /// The link of a port has become empty: its sender, a host or switch, starts what is due.
    ///
    /// The sender may be behind this node, so its port is committed only up to the start of the
    /// batch, which all nodes have reached. This is enough: the delay of the link exceeds the
    /// length of the batch, so packets that start after that start land after the batch. A port
    /// that is not paused has no transmission in progress at that start either. Its packet would
    /// land after the batch, too, and the link would not be empty now.
    #[inline(always)]
    fn refill(&mut self, index: u32, sender: u32) {
        let Partition { links, switching, uplinks, flows, .. } = self;
        let now = links.clock.step_back();
        if sender & HOST != 0 {
            if !uplinks.send_due(links, flows, sender & !HOST) {
                uplinks.set_event(links, sender & !HOST);
            }
        } else {
            switching.commit_port(links, index);
        }
        links.clock.advance(now);
        if links.ports[index as usize].link_is_empty() {
            links.clock.clear_link(index);
        }
    }

    /// Delivers a packet to the transport of a host.
    #[inline(always)]
    fn deliver(&mut self, host: u32, packet: u32, landed: Time) {
        self.uplinks.deliver(&mut self.links, &mut self.flows, host, packet, landed);
        self.start_dependents();
    }

    /// The event of a host.
    fn on_host(&mut self, host: u32) {
        self.uplinks.on_event(&mut self.links, &mut self.flows, host);
        self.start_dependents();
    }

    #[inline(always)]
    fn start_dependents(&mut self) {
        if !self.flows.awaited.is_empty() {
            self.generator.start_dependents(&mut self.links.clock, &mut self.flows);
        }
    }

    /// Starts every transmission that is due at a port.
    #[inline]
    fn commit(&mut self, index: u32) {
        let Partition { links, switching, uplinks, flows, .. } = self;
        match host_of(links.ports[index as usize].owner) {
            Some(host) => _ = uplinks.send_due(links, flows, host),
            None => switching.commit_port(links, index),
        }
    }

    #[inline(never)]
    fn on_other(&mut self, source: u32) {
        match self.links.clock.other(source) {
            Source::Host(host) => self.on_host(host),
            Source::Generator => self.on_generator(),
            Source::Sampler => self.on_sampler(),
            Source::Faults => self.on_faults(),
            Source::Wake(port) => self.on_wake(port),
        }
    }

    /// A port that was not allowed to send may be allowed now.
    fn on_wake(&mut self, index: u32) {
        let Partition { links, switching, uplinks, flows, .. } = self;
        match host_of(links.ports[index as usize].owner) {
            Some(host) => uplinks.on_wake(links, flows, host),
            None => switching.on_wake(links, index),
        }
    }
}
