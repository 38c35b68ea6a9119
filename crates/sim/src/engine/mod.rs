//! The event loop.
//!
//! Sources of events: every port (the head of its link), every host (its earliest deadline), the
//! generator, the sampler. A packet costs one event a hop: when it lands, its next port is
//! committed up to now, and it starts its transmission or joins the queue. At equal times
//! departures come before arrivals, because a port is committed up to and including now first.

mod build;
mod hazards;
mod measures;
mod switching;
mod uplinks;

use build::{ports, switches};
use measures::queued_byte_ps;
use tidegate_core::fabric::{Buffer, Ecn, Fabric, MarkAt, Node, Routing as Choice, StackTime};
use tidegate_core::workload::Flow;
use tidegate_core::{
    Application, Domain, Feedback, HEADER_BYTES, Hop, HostContext, Message, MessageId, Need,
    PathOracle, Rate, Reply, Rng, Time, Transmit, Transport, frame_flag, mix64,
};

use crate::events::{EventList, FAR, MAX_SOURCES};
use crate::faults::{Changed, Fate, Held, Injector};
use crate::flows::Flows;
use crate::generate::{Action, Generator};
use crate::histogram::Histogram;
use crate::host::{Host, MAX_STACKS};
use crate::outcome::{
    FaultCounts, FlowRecord, LinkRecord, Outcome, Quantity, Sample, Spread, SwitchRecord,
};
use crate::packets::Packets;
use crate::port::{HOST, Port, PortHistograms, flag};
use crate::probe::{Departure, Probe};
use crate::routing::{NO_PORT, Routing};
use crate::setup::Setup;

/// Switch buffers are sampled so often for their percentiles.
const SAMPLE_INTERVAL: Time = Time::us(10);

/// What a switch's ports share.
struct Switch {
    first_port: u32,
    last_port: u32,
    /// Bytes queued, too high by what lazily committed ports have sent meanwhile.
    used: u64,
    capacity: u64,
    alpha: f64,
    ecn: Option<Ecn>,
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
    busy: Time,
    /// Of transmissions since that a failing link cut short: what was left of them.
    unsent: Time,
    /// What the packets queued then had waited for before.
    byte_ps: u128,
}

/// A simulation in progress.
pub struct Engine<P: Probe = ()> {
    now: Time,
    events: EventList,
    packets: Packets,
    ports: Vec<Port>,
    rates: Vec<Rate>,
    baselines: Vec<Baseline>,
    /// When the head of each link lands. Kept only with explicit dequeues, else the event list
    /// knows.
    landings: Vec<Time>,
    histograms: Vec<PortHistograms>,
    switches: Vec<Switch>,
    /// Ports of each switch, by `first_port..last_port`.
    switch_ports: Vec<u32>,
    hosts: Vec<Host>,
    routing: Routing,
    flows: Flows,
    generator: Generator,
    /// By port, where some mark at random.
    marking: Vec<Rng>,
    /// By host, where packets are sprayed: entropy of what it sends.
    spray: Vec<Rng>,
    injector: Injector,
    /// Packets can suffer at the end of a link, or wait behind it.
    hazardous: bool,
    /// By host, where software takes time: when it hands over the last packet it has, and the
    /// stream of its jitter.
    stacks_busy: Vec<(Time, Rng)>,
    fault_counts: FaultCounts,
    /// A free packet for transports to write into.
    blank: u32,
    warm: bool,
    /// Links and switches between warm-up and the end, once that is over.
    measured: Option<(Vec<LinkRecord>, Vec<SwitchRecord>)>,
    packet_hops: u64,
    handled: u64,
    /// What may still be done before [`advance_some`](Self::advance_some) returns.
    work: u64,
    /// It returned amid the submissions of one moment: they go on before anything else happens.
    submitting: bool,
    links: Vec<(Node, Node)>,
    setup: Setup,
    probe: P,
}

impl<P: Probe> Engine<P> {
    /// Builds the network and schedules the first arrivals.
    ///
    /// # Errors
    /// When the fabric cannot carry the workload: a host without exactly one link, hosts that
    /// cannot reach each other, too many links and hosts for the event list, a link on which a
    /// packet spends more than four seconds.
    pub fn new(setup: Setup, probe: P) -> Result<Engine<P>, String> {
        let fabric = &setup.fabric;
        let sources = fabric.links.len() * 2 + fabric.hosts.len() + 3;
        if sources > MAX_SOURCES {
            return Err(format!("{sources} links and hosts are more than {MAX_SOURCES}"));
        }
        if setup.stacks.len() > MAX_STACKS {
            return Err(format!(
                "{} protocols side by side are more than {MAX_STACKS}",
                setup.stacks.len()
            ));
        }
        let routing = Routing::new(fabric, setup.routing, setup.seed, setup.bdp_bytes)?;
        let ports = ports(&setup);
        if let Some(slow) = ports.iter().position(|port| port.longest_flight() > FAR) {
            let (link, flight) = (&fabric.links[slow / 2], ports[slow].longest_flight());
            let name = |node| match node {
                Node::Host(h) => &fabric.hosts[h as usize],
                Node::Switch(s) => &fabric.switches[s as usize].name,
            };
            let (a, b) = (name(link.a), name(link.b));
            return Err(format!(
                "the link between {a} and {b} takes up to {flight} to carry a packet \
                 (serialisation, propagation and switch \
                 latency); at most {FAR} is allowed"
            ));
        }
        let needs = |need| setup.stacks.iter().any(|stack| stack.protocol().card().needs.has(need));
        let mut packets = Packets::new(needs(Need::HopRecords));
        let blank = packets.alloc();
        let (switches, switch_ports) = switches(fabric, &ports);
        let hosts = (0..fabric.hosts.len() as u32).map(|h| {
            let context = HostContext {
                host: h,
                hosts: fabric.hosts.len() as u32,
                seed: setup.seed,
                mtu: fabric.mtu,
                nic_rate: routing.nic_rate(h),
                fabric_base_rtt: routing.fabric_base_rtt(),
                bdp_bytes: routing.bdp_bytes(h),
                connections: setup.connections,
                spraying: setup.routing == Choice::Spray,
                most_held: setup.stack_time.most(),
                priorities: fabric.switches.iter().map(|s| s.priorities).min().unwrap_or(1),
            };
            Host::new(routing.uplink(h), setup.stacks.len(), context)
        });
        let random = |ecn: &Ecn| ecn.min_bytes < ecn.max_bytes;
        let random = fabric.switches.iter().any(|switch| switch.ecn.as_ref().is_some_and(random));
        let marking = if random { ports.len() as u64 } else { 0 };
        let spraying = if setup.routing == Choice::Spray { fabric.hosts.len() as u64 } else { 0 };
        let held = if setup.stack_time.most() > Time::ZERO { fabric.hosts.len() as u64 } else { 0 };
        let stream = |host| Rng::stream(setup.seed, Domain::Stack, host);
        let mut engine = Engine {
            now: Time::ZERO,
            events: EventList::new(sources),
            packets,
            rates: fabric.links.iter().flat_map(|link| [link.rate, link.rate]).collect(),
            baselines: vec![Baseline::default(); ports.len()],
            landings: if P::EXPLICIT_DEQUEUES {
                vec![Time::NEVER; ports.len()]
            } else {
                Vec::new()
            },
            histograms: if setup.histograms {
                ports.iter().map(|_| PortHistograms::default()).collect()
            } else {
                Vec::new()
            },
            switches,
            switch_ports,
            hosts: hosts.collect(),
            flows: Flows::new(fabric.hosts.len(), (setup.warmup, setup.duration), fabric.mtu),
            generator: Generator::new(&setup.workload, fabric.hosts.len() as u32, setup.seed),
            marking: (0..marking)
                .map(|port| Rng::stream(setup.seed, Domain::Marking, port))
                .collect(),
            spray: (0..spraying).map(|host| Rng::stream(setup.seed, Domain::Spray, host)).collect(),
            hazardous: setup.faults.touch_packets() || setup.stack_time.most() > Time::ZERO,
            stacks_busy: (0..held).map(|host| (Time::ZERO, stream(host))).collect(),
            injector: Injector::new(&setup.faults, fabric, setup.seed),
            fault_counts: FaultCounts::default(),
            blank,
            warm: false,
            measured: None,
            packet_hops: 0,
            handled: 0,
            work: 0,
            submitting: false,
            links: fabric
                .links
                .iter()
                .flat_map(|link| [(link.a, link.b), (link.b, link.a)])
                .collect(),
            ports,
            routing,
            setup,
            probe,
        };
        engine.schedule_generator();
        engine.schedule_faults();
        let source = engine.sampler();
        engine.events.set(source, engine.setup.warmup.min(FAR));
        Ok(engine)
    }

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

    /// How far the run has come.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Packets delivered over any link so far.
    pub fn packet_hops(&self) -> u64 {
        self.packet_hops
    }

    /// What a path looks like: base RTT, rates, hops.
    pub fn paths(&self) -> &dyn PathOracle {
        &self.routing
    }

    /// The probe.
    pub fn probe(&self) -> &P {
        &self.probe
    }

    /// Flows submitted and not taken by [`take_finished`](Self::take_finished).
    pub fn live_flows(&self) -> usize {
        self.flows.live()
    }

    /// Packets that are somewhere in the network.
    pub fn packets_in_flight(&self) -> usize {
        self.packets.in_use() - 1
    }

    /// Whether nothing is left to simulate.
    pub fn is_over(&self) -> bool {
        let Setup { duration, drain, .. } = self.setup;
        self.measured.is_some() && (self.flows.all_done() || self.now >= duration.after(drain))
    }

    /// Runs to `until` or the end of the run, whichever is first. The outcome does not depend on
    /// the steps.
    pub fn advance(&mut self, until: Time) {
        while !self.advance_some(until, u64::MAX) {}
    }

    /// As [`advance`](Self::advance), but for at most `work` events and submissions, so that it
    /// returns soon: `false` where it has to be called again before anything else is asked of the
    /// engine. The outcome does not depend on that either.
    pub fn advance_some(&mut self, until: Time, work: u64) -> bool {
        self.work = work;
        let Setup { duration, drain, .. } = self.setup;
        self.advance_measured(until.min(duration))
            && (until <= duration
                || drain == Time::ZERO
                || self.drain(until.min(duration.after(drain))))
    }

    /// `false`, here and below, if there was more work than is allowed.
    fn advance_measured(&mut self, until: Time) -> bool {
        if self.measured.is_some() {
            return true;
        }
        if !self.warm && until >= self.setup.warmup {
            // What happens at the very moment of warm-up counts already.
            if let Some(before) = self.setup.warmup.as_ps().checked_sub(1)
                && !self.run_until(Time::ps(before))
            {
                return false;
            }
            self.commit_all();
            self.warm_up();
        }
        if !self.run_until(until) {
            return false;
        }
        if until == self.setup.duration {
            self.close_window();
            if self.setup.drain > Time::ZERO {
                self.close_to_arrivals();
            }
        }
        true
    }

    /// Nothing more is submitted or measured: lets messages finish.
    fn drain(&mut self, until: Time) -> bool {
        while !self.flows.all_done() {
            let Some((now, source)) = self.events.first_until(until) else {
                self.now = self.now.max(until);
                return true;
            };
            if self.work == 0 {
                return false;
            }
            self.work -= 1;
            self.handle(now, source);
        }
        true
    }

    fn run_until(&mut self, until: Time) -> bool {
        if self.submitting {
            self.on_generator();
        }
        while self.work > 0 {
            let Some((now, source)) = self.events.first_until(until) else {
                self.now = self.now.max(until);
                return true;
            };
            self.work -= 1;
            self.handle(now, source);
        }
        false
    }

    #[inline(always)]
    fn handle(&mut self, now: Time, source: u32) {
        debug_assert!(now >= self.now, "time runs backwards");
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
            if !P::EXPLICIT_DEQUEUES {
                self.events.set(index, next);
            }
        } else {
            if port.owner & HOST != 0 || port.has_queue() {
                self.commit(index);
            }
            if self.ports[index as usize].link_is_empty() {
                self.events.clear(index);
            }
        }
        if P::EXPLICIT_DEQUEUES {
            self.schedule_explicit(index);
        }
        self.look_ahead(index);
        self.packet_hops += 1;
        if self.hazardous {
            self.meet_fate(index, to, packet)
        } else {
            self.arrive(to, packet, self.now)
        }
    }

    /// The event of `index` has moved, so another may have become the first of its part of the
    /// event list. With many hosts its packet has left the caches since it was launched: it is
    /// asked for now, and is there when it lands.
    #[inline(always)]
    fn look_ahead(&self, index: u32) {
        if let Some(port) = self.ports.get(self.events.soon(index) as usize) {
            self.packets.prefetch(port.link_head(), port.to & HOST != 0);
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
        let wants_more = port.has_queue() || port.owner & HOST != 0;
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

    fn on_other(&mut self, source: u32) {
        if (source as usize) < self.hosts.len() {
            self.on_host(source);
        } else if source as usize == self.hosts.len() {
            self.on_generator();
        } else if source as usize == self.hosts.len() + 1 {
            self.on_sampler();
        } else {
            self.on_faults();
        }
    }
}
