//! Construction of a partition from the description of a run.

use std::collections::BTreeMap;

use tidegate_core::fabric::{
    Buffer, Fabric, MarkAt, Node, PortEnds, Routing as Choice, TelemetryResolution,
};
use tidegate_core::{HostContext, Span};

use super::Partition;
use super::boundary::Boundary;
use super::clock::{Clock, Source};
use super::generator::Generator;
use super::link_effects::LinkEffects;
use super::links::Links;
use super::measures::Measures;
use super::partitioning::Partitioning;
use super::switching::{Inputs, Returns, Switching};
use super::uplinks::Uplinks;
use crate::events::{Common, EventList, Group};
use crate::fabric::faults::Injector;
use crate::fabric::routing::Routing;
use crate::host::Host;
use crate::measures::outcome::Window;
use crate::measures::probe::Probe;
use crate::naming::Naming;
use crate::ports::ingress::egress_buffer;
use crate::ports::marking::Markings;
use crate::ports::packets::Packets;
use crate::ports::port::{HOST, Port, flag};
use crate::ports::scheduler::Scheduler;
use crate::run_context::RunContext;
use crate::setup::Setup;
use crate::traffic::flows::Flows;

impl<P: Probe, N: Naming> Partition<P, N> {
    /// Partition `number` of `partitioning`, with its first events scheduled.
    pub(crate) fn new(
        context: &RunContext,
        partitioning: &Partitioning,
        number: u32,
        probe: P,
    ) -> Partition<P, N> {
        let RunContext { setup, routes, markings, .. } = context;
        let (fabric, seed) = (&setup.fabric, setup.seed);
        let routing = Routing::new(setup, routes.clone());
        let lookup = Lookup { fabric, partitioning, number };
        let (own, inbound) = (lookup.ports(true), lookup.ports(false));
        let all = [&own[..], &inbound].concat();
        let own_hosts = lookup.hosts();
        let port_names = N::of(all.clone(), 2 * fabric.links.len());
        let host_names = N::of(own_hosts.clone(), fabric.hosts.len());
        let port =
            |&name: &u32| lookup.port(setup, markings, name, |host| host_names.index_of(host));
        let mut ports: Vec<Port> = all.iter().map(port).collect();
        let host = |&host: &u32| {
            let port = port_names.index_of(routing.uplink(host));
            Host::new(port, setup.stacks.len(), host_context(setup, &routing, host))
        };
        let hosts: Vec<Host> = own_hosts.iter().map(host).collect();

        let schedulers = lookup.schedulers(&own, &mut ports);
        let wakes = !schedulers.is_empty() || fabric.circuits.is_some();
        let inputs = Inputs {
            routing,
            schedulers,
            own: lookup.switches(),
            histograms: setup.histograms,
            returns: Returns::of(setup, ports.len()),
        };
        let with_ports = (&mut ports[..], &all[..], own.len());
        let index_of = |name| port_names.index_of(name);
        let switching = Switching::new(fabric, with_ports, markings, seed, index_of, inputs);

        let crossing_ports = (0..).zip(&own).filter_map(|(port, &name)| {
            let to = lookup.partition_of(fabric.port_ends(name).to);
            (to != number).then_some((port, to))
        });
        let boundary = Boundary::new(own.len() as u32, crossing_ports.collect());

        // Batches longer than one event need independent nodes. Held packets share one queue per
        // partition, and days begin and end for all racks at once.
        let held_back = setup.faults.reordering > 0.0 || setup.stack_time.most() > Span::ZERO;
        let coupled = held_back || fabric.circuits.is_some() || switching.couples_nodes(&ports);
        let apart = !P::EXPLICIT_DEQUEUES && !coupled;
        let events = lookup.events(&all, &own_hosts, &ports, wakes, apart);
        let clock = Clock::new(events, ports.len() as u32, hosts.len() as u32);
        let mut packets = Packets::new(context.keeps_records);
        let blank = packets.alloc();
        let rates = all.iter().map(|&port| fabric.rate(port)).collect();
        let measures = Measures::new(setup.clone(), ports.len());
        let mut links = Links::new(clock, packets, ports, port_names, rates, probe);
        for port in boundary.crossing_ports() {
            let sentinel = links.packets.alloc();
            boundary.put_sentinel(&mut links, port, sentinel);
        }
        let sprays = setup.routing == Choice::Spray;
        let link_effects = LinkEffects::new(setup, &own_hosts, &switching);
        let mut partition = Partition {
            links,
            switching,
            uplinks: Uplinks::new(hosts, host_names, &own_hosts, sprays, blank, setup.clone()),
            link_effects,
            injector: Injector::new(
                (&setup.faults, setup.convergence),
                fabric,
                |change| markings.configuration_from(change),
                &all,
                seed,
            ),
            generator: Generator::new(setup, partitioning, number),
            flows: Flows::new(fabric.hosts.len(), Window::of(setup), fabric.mtu),
            boundary,
            measures,
            packet_hops: 0,
            handled: 0,
            work: 0,
        };
        partition.change_rates();
        partition.schedule_faults();
        partition.schedule_generator();
        partition.links.clock.set(Source::Sampler, setup.warmup);
        partition
    }
}

/// Properties of a host that its transports know.
pub(crate) fn host_context(setup: &Setup, routing: &Routing, host: u32) -> HostContext {
    let fabric = &setup.fabric;
    HostContext {
        host,
        hosts: fabric.hosts.len() as u32,
        seed: setup.seed,
        mtu: fabric.mtu,
        nic_rate: routing.nic_rate(host),
        fabric_base_rtt: routing.fabric_base_rtt(),
        fabric_control_rtt: routing.fabric_control_rtt(),
        sizes: setup.largest_sizes(),
        bdp_bytes: routing.bdp_bytes(host),
        connections: setup.connections,
        // Packets on a circuit can overtake earlier packets in the packet network, and vice versa.
        spraying: setup.routing == Choice::Spray || fabric.circuits.is_some(),
        most_held: setup.stack_time.most(),
        priorities: fabric.priorities(),
    }
}

/// Lookups for one partition of a fabric.
struct Lookup<'a> {
    fabric: &'a Fabric,
    partitioning: &'a Partitioning,
    number: u32,
}

impl Lookup<'_> {
    fn partition_of(&self, node: Node) -> u32 {
        match node {
            Node::Host(h) => self.partitioning.of_host[h as usize],
            Node::Switch(s) => self.partitioning.of_switch[s as usize],
        }
    }

    /// Global IDs of the partition's own ports, or of other partitions' ports whose links end here.
    fn ports(&self, own: bool) -> Vec<u32> {
        let all = 0..2 * self.fabric.links.len() as u32;
        all.filter(|&port| {
            let PortEnds { from, to } = self.fabric.port_ends(port);
            let is_own = self.partition_of(from) == self.number;
            if own { is_own } else { !is_own && self.partition_of(to) == self.number }
        })
        .collect()
    }

    /// Switches that belong to it.
    fn switches(&self) -> Vec<u32> {
        let all = 0..self.fabric.switches.len() as u32;
        all.filter(|&switch| self.partition_of(Node::Switch(switch)) == self.number).collect()
    }

    /// Global IDs of its hosts.
    fn hosts(&self) -> Vec<u32> {
        let all = 0..self.fabric.hosts.len() as u32;
        all.filter(|&host| self.partition_of(Node::Host(host)) == self.number).collect()
    }

    fn port(
        &self,
        setup: &Setup,
        markings: &Markings,
        name: u32,
        host_at: impl Fn(u32) -> u32,
    ) -> Port {
        let fabric = self.fabric;
        let code = |node| match node {
            Node::Host(h) => host_at(h) | HOST,
            Node::Switch(s) => s,
        };
        let link = &fabric.links[name as usize / 2];
        let PortEnds { from, to } = fabric.port_ends(name);
        let latency = match to {
            Node::Switch(s) => fabric.switches[s as usize].latency,
            Node::Host(_) => Span::ZERO,
        };
        let mut flags = 0;
        if let Node::Switch(s) = from {
            let switch = &fabric.switches[s as usize];
            let set = |on: bool, flag: u8| if on { flag } else { 0 };
            let has_limit = egress_buffer(switch) != Buffer::Unlimited;
            let is_limited = has_limit || switch.trimming.is_some();
            flags = set(switch.telemetry.covers(fabric.host_at(to).is_some()), flag::STAMPS)
                | set(is_limited, flag::LIMITED)
                | set(switch.telemetry_resolution != TelemetryResolution::EXACT, flag::NO_SHORTCUT)
                | set(setup.histograms, flag::HISTOGRAMS);
        }
        let mut port =
            Port::new(fabric.rate(name), link.delay + latency, code(from), code(to), flags);
        if let Some(way) = markings.configuration(name) {
            let ecn = &markings.configurations()[way as usize];
            port.marking = way;
            port.flags |= match ecn.at {
                MarkAt::Enqueue => flag::MARKS_EARLY,
                MarkAt::Dequeue => flag::MARKS_LATE,
            };
            port.flags |= if markings.any_marks_all() { flag::NO_SHORTCUT } else { 0 };
        }
        port
    }

    /// Schedulers of its own ports; empty if all ports are plain.
    fn schedulers(&self, own: &[u32], ports: &mut [Port]) -> Vec<Option<Box<Scheduler>>> {
        let scheduler = |&name: &u32| Scheduler::new(self.fabric, name).map(Box::new);
        let mut all: Vec<Option<Box<Scheduler>>> = own.iter().map(scheduler).collect();
        if all.iter().all(Option::is_none) {
            return Vec::new();
        }
        for (port, scheduler) in ports.iter_mut().zip(&mut all) {
            if let Some(scheduler) = scheduler {
                port.flags |= flag::SCHEDULED;
                scheduler.permit_shortcut(port);
            }
        }
        all.resize_with(ports.len(), || None);
        all
    }

    /// Builds the event list. Its sources are ports, hosts, generator, sampler and faults, and one
    /// wake-up per port if any port has a scheduler. The group of a node has the links that lead to
    /// it, and its wake-ups. If `apart` is set, a batch of the group may be as long as the shortest
    /// of these links.
    fn events<N: Naming>(
        &self,
        names: &[u32],
        own_hosts: &[u32],
        ports: &[Port],
        wakes: bool,
        apart: bool,
    ) -> EventList<N> {
        let first_host = 2 * self.fabric.links.len() as u32;
        let others = first_host + self.fabric.hosts.len() as u32;
        let hosts = own_hosts.iter().map(|&host| first_host + host);
        let mut sources: Vec<u32> =
            names.iter().copied().chain(hosts).chain(others..others + 3).collect();
        let mut all = others + 3;
        if wakes {
            sources.extend(names.iter().map(|port| all + port));
            all += first_host;
        }
        let mut nodes: BTreeMap<u32, Group> = BTreeMap::new();
        let mut add = |node: u32, source: u32, lookahead: Span| {
            let is_host = node & HOST != 0;
            let none = || Group { sources: Vec::new(), lookahead: Span::FOREVER, is_host };
            let group = nodes.entry(node).or_insert_with(none);
            group.sources.push(source);
            group.lookahead = group.lookahead.min(lookahead);
        };
        let first_wake = (ports.len() + own_hosts.len() + 3) as u32;
        for (index, port) in (0..).zip(ports) {
            add(port.to, index, if apart { port.delay } else { Span::ZERO });
            if wakes {
                add(port.owner, first_wake + index, Span::FOREVER);
            }
        }
        for host in 0..own_hosts.len() as u32 {
            add(host | HOST, ports.len() as u32 + host, Span::FOREVER);
        }
        let generator = (ports.len() + own_hosts.len()) as u32;
        let common = Common { for_all: [generator + 1, generator + 2], for_hosts: generator };
        EventList::new(nodes.into_values().collect(), common, N::of(sources, all as usize))
    }
}
