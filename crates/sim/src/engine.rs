//! The event loop.
//!
//! Sources of events: every port (the head of its link), every host (its earliest deadline), the generator, the sampler. A packet
//! costs one event a hop: when it lands, its next port is committed up to now, and it starts its transmission or joins the
//! queue. At equal times departures come before arrivals, because a port is committed up to and including now first.

use tidegate_core::fabric::{Buffer, Ecn, Fabric, MarkAt, Node, Routing as Choice};
use tidegate_core::{
    Domain, Hop, HostContext, Message, Need, PathOracle, Rate, Reply, Rng, Time, Transmit, Transport,
    frame_flag, mix64,
};

use crate::events::{EventList, MAX_SOURCES};
use crate::faults::{Change, Fate, Injector};
use crate::flows::Flows;
use crate::generate::{Action, Generator};
use crate::histogram::Histogram;
use crate::host::{Host, MAX_STACKS};
use crate::outcome::{FaultCounts, FlowRecord, LinkRecord, Outcome, Quantity, Sample, Spread, SwitchRecord};
use crate::packets::Packets;
use crate::port::{HOST, Port, PortHistograms, flag};
use crate::probe::{Departure, Probe};
use crate::routing::{NO_PORT, Routing};
use crate::setup::Setup;

/// Switch buffers are sampled so often for their percentiles and maximum.
const SAMPLE_INTERVAL: Time = Time::us(10);

/// A deadline further away than this is looked at again then; it stays well inside the event list's horizon.
const FAR: Time = Time::s(4);

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
    sampled_max: u64,
}

/// Counters of a port as of warm-up.
#[derive(Clone, Copy, Default)]
struct Baseline {
    tx_bytes: u64,
    packets: u64,
    /// Of a transmission in progress.
    busy: Time,
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
    histograms: Vec<PortHistograms>,
    switches: Vec<Switch>,
    /// Ports of each switch, by `first_port..last_port`.
    switch_ports: Vec<u32>,
    hosts: Vec<Host>,
    routing: Routing,
    flows: Flows,
    generator: Generator,
    marking: Rng,
    spray: Option<Rng>,
    injector: Injector,
    /// Packets can suffer at the end of a link.
    hazardous: bool,
    fault_counts: FaultCounts,
    /// A free packet for transports to write into.
    blank: u32,
    warm: bool,
    packet_hops: u64,
    handled: u64,
    links: Vec<(Node, Node)>,
    setup: Setup,
    probe: P,
}

impl<P: Probe> Engine<P> {
    /// Builds the network and schedules the first arrivals.
    ///
    /// # Errors
    /// When the fabric cannot carry the workload: a host without exactly one link, hosts that cannot reach each other, too
    /// many links and hosts for the event list.
    pub fn new(setup: Setup, probe: P) -> Result<Engine<P>, String> {
        let fabric = &setup.fabric;
        let sources = fabric.links.len() * 2 + fabric.hosts.len() + 3;
        if sources > MAX_SOURCES {
            return Err(format!("{sources} links and hosts are more than {MAX_SOURCES}"));
        }
        if setup.stacks.len() > MAX_STACKS {
            return Err(format!("{} protocols side by side are more than {MAX_STACKS}", setup.stacks.len()));
        }
        let routing = Routing::new(fabric, setup.seed, setup.bdp_bytes)?;
        let needs = |need| setup.stacks.iter().any(|stack| stack.protocol().card().needs.has(need));
        let mut packets = Packets::new(needs(Need::HopRecords));
        let blank = packets.alloc();
        let ports = ports(&setup);
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
                priorities: fabric.switches.iter().map(|s| s.priorities).min().unwrap_or(1),
            };
            Host::new(routing.host(h).up_port, setup.stacks.len(), context)
        });
        let mut engine = Engine {
            now: Time::ZERO,
            events: EventList::new(sources),
            packets,
            rates: fabric.links.iter().flat_map(|link| [link.rate, link.rate]).collect(),
            baselines: vec![Baseline::default(); ports.len()],
            histograms: if setup.histograms {
                ports.iter().map(|_| PortHistograms::default()).collect()
            } else {
                Vec::new()
            },
            switches,
            switch_ports,
            hosts: hosts.collect(),
            flows: Flows::default(),
            generator: Generator::new(&setup.workload, fabric.hosts.len() as u32, setup.seed),
            marking: Rng::stream(setup.seed, Domain::Marking, 0),
            spray: (setup.routing == Choice::Spray)
                .then(|| Rng::stream(setup.seed, Domain::Entropy, u64::MAX)),
            hazardous: setup.faults.touch_packets(),
            injector: Injector::new(&setup.faults, fabric, setup.seed),
            fault_counts: FaultCounts::default(),
            blank,
            warm: false,
            packet_hops: 0,
            handled: 0,
            links: fabric.links.iter().flat_map(|link| [(link.a, link.b), (link.b, link.a)]).collect(),
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

    /// Runs to `until` or the end of the run, whichever is first. The outcome does not depend on the steps.
    pub fn advance(&mut self, until: Time) {
        let until = until.min(self.setup.duration);
        if !self.warm && until >= self.setup.warmup {
            // What happens at the very moment of warm-up counts already.
            if let Some(before) = self.setup.warmup.as_ps().checked_sub(1) {
                self.run_until(Time::ps(before));
            }
            self.commit_all();
            self.warm_up();
        }
        self.run_until(until);
        if until == self.setup.duration {
            self.commit_all();
        }
    }

    fn run_until(&mut self, until: Time) {
        while let Some((now, source)) = self.events.first_until(until) {
            debug_assert!(now >= self.now, "time runs backwards");
            self.now = now;
            self.handled += 1;
            if (source as usize) < self.ports.len() {
                self.on_link(source);
            } else {
                self.on_other(source - self.ports.len() as u32);
            }
        }
        self.now = self.now.max(until);
    }

    /// The head of a link has arrived (or, with explicit dequeues, a transmission has ended).
    #[inline(always)]
    fn on_link(&mut self, index: u32) {
        let port = &mut self.ports[index as usize];
        if P::EXPLICIT_DEQUEUES && port.next_landing(&self.packets.frames) != Some(self.now) {
            self.commit(index); // the end of a transmission
            self.schedule_explicit(index);
            return;
        }
        let packet = port.land(&self.packets.frames);
        let to = port.to;
        if let Some(next) = port.next_landing(&self.packets.frames) {
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
        self.packet_hops += 1;
        if self.hazardous { self.meet_fate(index, to, packet) } else { self.arrive(to, packet) }
    }

    #[inline(always)]
    fn arrive(&mut self, to: u32, packet: u32) {
        if to & HOST == 0 {
            self.arrive_at_switch(to, packet)
        } else {
            self.arrive_at_host(to & !HOST, packet)
        }
    }

    #[inline(never)]
    fn meet_fate(&mut self, index: u32, to: u32, packet: u32) {
        match self.injector.fate(index) {
            Fate::Arrives => self.arrive(to, packet),
            Fate::Lost => {
                self.fault_counts.lost += 1;
                self.packets.free(packet);
            }
            Fate::Corrupted => {
                self.packets.frames[packet as usize].flags |= frame_flag::CORRUPT;
                self.arrive(to, packet);
            }
            Fate::Duplicated => {
                self.fault_counts.duplicated += 1;
                let copy = self.packets.copy(packet);
                self.arrive(to, packet);
                self.arrive(to, copy);
            }
            Fate::Late(by) => {
                self.fault_counts.reordered += 1;
                self.injector.hold(self.now + by, packet, to);
                self.schedule_faults();
            }
        }
    }

    fn schedule_faults(&mut self) {
        let source = self.fault_source();
        match self.injector.next_at() {
            Time::NEVER => self.events.clear(source),
            at => self.events.set(source, at.max(self.now)),
        }
    }

    /// Releases held packets, and takes links and hosts down and up.
    fn on_faults(&mut self) {
        let now = self.now;
        while let Some((packet, to)) = self.injector.release(now) {
            self.packets.frames[packet as usize].at = now;
            self.arrive(to, packet);
        }
        let mut rerouted = false;
        while let Some((change, toggled)) = self.injector.change(now) {
            if toggled {
                self.toggle(change);
                rerouted = true;
            }
            if let Some(host) = change.host {
                self.hosts[host as usize].stopped = change.down;
                if !change.down {
                    self.on_host(host);
                }
            }
        }
        if rerouted {
            let injector = &self.injector;
            self.routing.reroute(|link| !injector.is_down(link));
        }
        self.schedule_faults();
    }

    /// A link goes down or comes back.
    fn toggle(&mut self, change: Change) {
        self.fault_counts.outages += change.down as u64;
        for index in [2 * change.link, 2 * change.link + 1] {
            self.commit(index);
            let now = self.now;
            let port = &mut self.ports[index as usize];
            if change.down {
                let queued = queued_byte_ps(port, &self.packets.frames, now);
                let bytes = port.queue_bytes as u64;
                let Packets { frames, free, .. } = &mut self.packets;
                let before = free.len();
                port.cut(frames, |packet| free.push(packet));
                self.fault_counts.lost += (free.len() - before) as u64;
                if port.owner & HOST == 0 {
                    port.waits.byte_ps += queued;
                    self.switches[port.owner as usize].used -= bytes;
                }
                self.events.clear(index);
            } else {
                port.mend(now);
                if port.owner & HOST != 0 {
                    let host = port.owner & !HOST;
                    self.hosts[host as usize].quiet_until = Time::ZERO;
                    self.pull(host);
                }
            }
        }
    }

    /// Explicit dequeues: the next event of a port is its next landing or the end of its transmission.
    fn schedule_explicit(&mut self, index: u32) {
        let port = &self.ports[index as usize];
        let landing = port.next_landing(&self.packets.frames).unwrap_or(Time::NEVER);
        let wants_more = port.has_queue() || port.owner & HOST != 0;
        let dequeue = if wants_more && port.free_at > self.now { port.free_at } else { Time::NEVER };
        let next = landing.min(dequeue);
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

    #[inline]
    fn commit_switch_port(&mut self, index: u32) {
        loop {
            let port = &mut self.ports[index as usize];
            if !port.has_queue() || port.free_at > self.now {
                return;
            }
            let start = port.free_at;
            if port.flags & flag::HISTOGRAMS != 0 {
                self.histograms[index as usize].level(start, port.queue_bytes);
            }
            let packet = port.dequeue(&self.packets.frames);
            let frame = &self.packets.frames[packet as usize];
            let waited = start - frame.at;
            let wire = frame.wire_bytes as u128;
            port.waits.byte_ps += wire * waited.as_ps() as u128;
            port.waits.delay_ps += waited.as_ps() as u128;
            port.waits.max_delay = port.waits.max_delay.max(waited);
            self.switches[port.owner as usize].used -= wire as u64;
            self.start(index, packet, start, waited);
        }
    }

    /// A packet begins to leave a switch port.
    #[inline]
    fn start(&mut self, index: u32, packet: u32, start: Time, waited: Time) {
        let port = &mut self.ports[index as usize];
        let frame = &mut self.packets.frames[packet as usize];
        if port.flags & flag::STAMPS != 0
            && frame.flags & (frame_flag::STAMP_PEAK | frame_flag::STAMP_HOPS) != 0
        {
            if frame.flags & frame_flag::STAMP_PEAK != 0 {
                frame.peak_hop_delay = frame.peak_hop_delay.max(waited);
            }
            if frame.flags & frame_flag::STAMP_HOPS != 0 {
                let hop = Hop {
                    at: start,
                    tx_bytes: port.tx_bytes,
                    rate: self.rates[index as usize],
                    queue_bytes: port.queue_bytes,
                    port: index,
                };
                self.packets.trace(packet).push(hop);
            }
        }
        if port.flags & flag::HISTOGRAMS != 0 {
            self.histograms[index as usize].delay_ns.add(waited.as_ps() / 1_000, 1);
        }
        if port.flags & flag::ECN != 0 {
            self.mark(index, packet, MarkAt::Dequeue);
        }
        self.launch(index, packet, start, waited);
    }

    /// Puts a packet on the wire.
    #[inline(always)]
    fn launch(&mut self, index: u32, packet: u32, start: Time, waited: Time) {
        if P::ON {
            let port = &self.ports[index as usize];
            let (port_bytes, p) = (port.queue_bytes, self.packets.get(packet));
            self.probe.departed(&Departure {
                at: start,
                port: index,
                waited,
                queue_bytes: port_bytes,
                frame: p.frame,
                body: p.body,
                hops: p.hops,
            });
        }
        let port = &mut self.ports[index as usize];
        if port.launch(packet, start, &mut self.packets.frames) {
            let at = self.packets.frames[packet as usize].at;
            if !P::EXPLICIT_DEQUEUES {
                self.events.set(index, at);
            }
        }
    }

    /// Marks the packet where the queue asks for it.
    #[inline]
    fn mark(&mut self, index: u32, packet: u32, at: MarkAt) {
        let port = &mut self.ports[index as usize];
        let frame = &mut self.packets.frames[packet as usize];
        if frame.flags & frame_flag::ECN_CAPABLE == 0 {
            return;
        }
        let Some(ecn) = self.switches[port.owner as usize].ecn.filter(|ecn| ecn.at == at) else { return };
        let queue = port.queue_bytes as f64;
        let marks = if queue >= ecn.max_bytes {
            true
        } else if queue < ecn.min_bytes {
            false
        } else {
            let share = (queue - ecn.min_bytes) / (ecn.max_bytes - ecn.min_bytes);
            self.marking.unit() < share * ecn.max_probability
        };
        if marks {
            frame.flags |= frame_flag::CONGESTION_EXPERIENCED;
            port.waits.marks += 1;
        }
    }

    #[inline(always)]
    fn arrive_at_switch(&mut self, switch: u32, packet: u32) {
        let now = self.now;
        let frame = &self.packets.frames[packet as usize];
        let special = frame.flags & frame_flag::STAMP_HOPS;
        let index = self.routing.egress(switch, frame.dst, frame.entropy);
        if index == NO_PORT {
            self.lose(packet);
            return;
        }
        let port = &mut self.ports[index as usize];
        if port.has_queue() && port.free_at <= now {
            self.commit_switch_port(index);
        }
        let port = &mut self.ports[index as usize];
        if port.is_free(now) && special == 0 && port.flags & (flag::ECN_AT_ZERO | flag::HISTOGRAMS) == 0 {
            // The common case: nothing to wait for, and nothing to write down (a wait of zero is no new peak).
            self.launch(index, packet, now, Time::ZERO);
        } else {
            self.join_queue(switch, index, packet);
        }
        if P::EXPLICIT_DEQUEUES {
            self.schedule_explicit(index);
        }
    }

    #[cold]
    fn lose(&mut self, packet: u32) {
        self.fault_counts.lost += 1;
        self.packets.free(packet);
    }

    fn join_queue(&mut self, switch: u32, index: u32, packet: u32) {
        let port = &mut self.ports[index as usize];
        if port.flags & flag::DOWN != 0 {
            self.lose(packet);
            return;
        }
        if port.flags & flag::ECN != 0 {
            self.mark(index, packet, MarkAt::Enqueue);
        }
        let port = &mut self.ports[index as usize];
        if port.is_free(self.now) {
            self.start(index, packet, self.now, Time::ZERO);
            return;
        }
        let wire = self.packets.frames[packet as usize].wire_bytes as u32;
        if (port.flags & flag::SHARED != 0 || port.queue_bytes > u32::MAX - wire)
            && !self.admits(switch, index, wire)
        {
            self.drop_packet(switch, index, packet);
            return;
        }
        let port = &mut self.ports[index as usize];
        if port.flags & flag::HISTOGRAMS != 0 {
            self.histograms[index as usize].level(self.now, port.queue_bytes);
        }
        port.enqueue(packet, &mut self.packets.frames);
        port.waits.max_bytes = port.waits.max_bytes.max(port.queue_bytes);
        self.switches[switch as usize].used += wire as u64;
    }

    /// Whether the switch's buffer takes `wire` more bytes at this port.
    fn admits(&mut self, switch: u32, index: u32, wire: u32) -> bool {
        let fits = |s: &Switch, port: &Port| {
            let free = s.capacity.saturating_sub(s.used);
            let bytes = port.queue_bytes as u64 + wire as u64;
            wire as u64 <= free && bytes as f64 <= s.alpha * free as f64 && bytes <= u32::MAX as u64
        };
        if fits(&self.switches[switch as usize], &self.ports[index as usize]) {
            return true;
        }
        // The occupancy may be stale, and then too high: bring every port of the switch up to now and look again.
        self.commit_switch(switch);
        fits(&self.switches[switch as usize], &self.ports[index as usize])
    }

    fn commit_switch(&mut self, switch: u32) {
        let Switch { first_port, last_port, .. } = self.switches[switch as usize];
        for i in first_port..last_port {
            self.commit_switch_port(self.switch_ports[i as usize]);
        }
    }

    #[cold]
    fn drop_packet(&mut self, switch: u32, index: u32, packet: u32) {
        self.ports[index as usize].waits.drops += 1;
        self.switches[switch as usize].drops += 1;
        self.packets.free(packet);
    }

    #[inline(always)]
    fn arrive_at_host(&mut self, host: u32, packet: u32) {
        let now = self.now;
        if self.hazardous && self.refuses(host, packet) {
            return;
        }
        self.pull(host);
        if P::ON {
            let p = self.packets.get(packet);
            self.probe.arrived(now, host, p.frame, p.body);
        }
        let h = &mut self.hosts[host as usize];
        let stack = self.packets.body(packet).transport;
        let reply =
            h.transport(stack, &self.setup.stacks).receive(now, self.packets.get(packet), &mut self.flows);
        h.quiet_until = Time::ZERO;
        match reply {
            Reply::Send => {
                let index = h.port;
                let frame = &mut self.packets.frames[packet as usize];
                frame.at = now;
                if let Some(rng) = &mut self.spray {
                    frame.entropy = rng.bits() as u32;
                }
                let port = &mut self.ports[index as usize];
                if port.is_free(now) {
                    self.launch(index, packet, now, Time::ZERO);
                    if P::EXPLICIT_DEQUEUES {
                        self.schedule_explicit(index);
                    }
                } else {
                    port.enqueue(packet, &mut self.packets.frames);
                }
            }
            Reply::None => self.packets.free(packet),
        }
        if !self.pull(host) {
            self.arm(host);
        }
    }

    /// Whether a host does not take a packet: damaged, or held back until the host had stopped.
    #[cold]
    fn refuses(&mut self, host: u32, packet: u32) -> bool {
        let corrupt = self.packets.frames[packet as usize].flags & frame_flag::CORRUPT != 0;
        let stopped = self.hosts[host as usize].stopped;
        self.fault_counts.corrupted += corrupt as u64;
        if stopped {
            self.lose(packet);
        } else if corrupt {
            self.packets.free(packet);
        }
        corrupt || stopped
    }

    /// Lets everything leave a host that may leave up to and including now, replies first. False where nothing could have
    /// left, so that nothing was looked at.
    #[inline]
    fn pull(&mut self, host: u32) -> bool {
        let h = &mut self.hosts[host as usize];
        let index = h.port;
        let port = &self.ports[index as usize];
        if port.free_at > self.now {
            return false;
        }
        if h.quiet_until > self.now && !port.has_queue() {
            h.pulled_until = self.now;
            return false;
        }
        self.pull_packets(host, index);
        self.arm(host);
        true
    }

    fn pull_packets(&mut self, host: u32, index: u32) {
        let now = self.now;
        loop {
            let port = &mut self.ports[index as usize];
            let h = &mut self.hosts[host as usize];
            let start = port.free_at.max(h.pulled_until);
            if start > now {
                break;
            }
            h.pulled_until = start;
            if port.has_queue() {
                let packet = port.dequeue(&self.packets.frames);
                let waited = start.since(self.packets.frames[packet as usize].at);
                self.launch(index, packet, start, waited);
                continue;
            }
            let (packets, packet) = (&mut self.packets, self.blank);
            let sent = h.pull(|transport| match transport.transmit(start, packets.get(packet)) {
                Transmit::Sent => Some(packets.frames[packet as usize].wire_bytes as u32),
                Transmit::Idle => None,
            });
            let Some(stack) = sent else {
                let next = h.deadline();
                h.quiet_until = next;
                if next > now || next <= start {
                    h.pulled_until = now;
                    break;
                }
                h.pulled_until = next;
                continue;
            };
            let body = self.packets.body(packet);
            body.transport = stack;
            if body.flags & tidegate_core::body_flag::RETRANSMISSION != 0 {
                let (message, bytes) = (body.message as usize, body.payload_bytes as u64);
                if let Some(live) = self.flows.live.get_mut(message) {
                    live.record.retransmitted_bytes += bytes;
                }
            }
            if let Some(rng) = &mut self.spray {
                self.packets.frames[packet as usize].entropy = rng.bits() as u32;
            }
            self.launch(index, packet, start, Time::ZERO);
            self.blank = self.packets.alloc();
        }
        if P::EXPLICIT_DEQUEUES {
            self.schedule_explicit(index);
        }
    }

    /// Keeps the host's entry in the event list no later than its earliest deadline. One that has passed is a wish to
    /// transmit: the uplink is busy, and asks when it is free.
    #[inline]
    fn arm(&mut self, host: u32) {
        let h = &mut self.hosts[host as usize];
        let deadline = h.deadline();
        if deadline < h.armed_at && deadline > self.now {
            let deadline = deadline.min(self.now.after(FAR));
            h.armed_at = deadline;
            let source = self.host_source(host);
            self.events.set(source, deadline);
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

    fn on_host(&mut self, host: u32) {
        let now = self.now;
        self.hosts[host as usize].armed_at = Time::NEVER;
        self.events.clear(self.host_source(host));
        if self.hosts[host as usize].stopped {
            return;
        }
        self.pull(host);
        let h = &mut self.hosts[host as usize];
        for stack in 0..h.stacks() {
            if let Some(transport) = h.existing_mut(stack).filter(|transport| transport.deadline() <= now) {
                transport.on_deadline(now, &mut self.flows);
            }
        }
        h.quiet_until = Time::ZERO;
        if !self.pull(host) {
            self.arm(host);
        }
    }

    fn schedule_generator(&mut self) {
        let at = self.generator.next_at();
        let source = self.generator_source();
        match at {
            Time::NEVER => self.events.clear(source),
            at => self.events.set(source, at.max(self.now)),
        }
    }

    fn on_generator(&mut self) {
        let now = self.now;
        while let Some(action) = self.generator.take(now) {
            let (host, slot, submit) = match action {
                Action::Submit(flow) => {
                    let unlimited = flow.bytes == Message::UNLIMITED;
                    let ideal = if unlimited {
                        Time::ZERO
                    } else {
                        self.routing.ideal(flow.src, flow.dst, flow.bytes)
                    };
                    let slot = self.flows.open(&flow, now, ideal);
                    if flow.stop < Time::NEVER {
                        self.generator.stop_at(flow.stop, slot);
                    }
                    (flow.src, slot, Some(flow))
                }
                Action::Stop(slot) => (self.flows.live[slot as usize].record.src, slot, None),
            };
            self.pull(host);
            let live = &mut self.flows.live[slot as usize];
            let transport = self.hosts[host as usize].transport(live.record.stack, &self.setup.stacks);
            match submit {
                Some(flow) => {
                    let message =
                        Message { id: slot, dst: flow.dst, bytes: flow.bytes, dedicated: flow.dedicated };
                    live.handle = transport.submit(now, message, &self.routing);
                }
                None => transport.stop(now, live.handle),
            }
            self.hosts[host as usize].quiet_until = Time::ZERO;
            if !self.pull(host) {
                self.arm(host);
            }
        }
        self.schedule_generator();
    }

    /// Samples the switch buffers, and keeps the event list's horizon ahead.
    fn on_sampler(&mut self) {
        self.events.rebase(self.now);
        let next = if self.warm {
            self.commit_all();
            for switch in &mut self.switches {
                switch.occupancy.add(switch.used, 1);
                switch.sampled_max = switch.sampled_max.max(switch.used);
            }
            self.now + SAMPLE_INTERVAL
        } else {
            self.setup.warmup.min(self.now + FAR)
        };
        let source = self.sampler();
        self.events.set(source, next);
    }

    fn commit_all(&mut self) {
        for index in 0..self.ports.len() as u32 {
            self.commit(index);
        }
    }

    /// Everything measured so far is forgotten. What is queued now is charged only for its wait from now on.
    fn warm_up(&mut self) {
        self.warm = true;
        self.flows.warm_up();
        for (index, port) in self.ports.iter_mut().enumerate() {
            port.waits = Default::default();
            self.baselines[index] = Baseline {
                tx_bytes: port.tx_bytes,
                packets: port.packets,
                busy: port.busy_beyond(self.now),
                byte_ps: queued_byte_ps(port, &self.packets.frames, self.now),
            };
            port.waits.max_bytes = if port.owner & HOST == 0 { port.queue_bytes } else { 0 };
            if let Some(histograms) = self.histograms.get_mut(index) {
                histograms.restart(self.now);
            }
        }
        for switch in &mut self.switches {
            switch.drops = 0;
        }
    }

    /// Appends the flows that finished, in order of completion, then id.
    pub fn take_finished(&mut self, out: &mut Vec<FlowRecord>) {
        self.flows.take_finished(self.now, self.setup.warmup, out);
    }

    /// Samples the running flows and the ports: delivered bytes in all, windows, queues.
    pub fn sample(&mut self, out: &mut Vec<Sample>) {
        self.commit_all();
        let at = self.now;
        for live in &self.flows.live {
            let record = &live.record;
            if record.completed.is_some() {
                continue;
            }
            let mut push = |quantity, value| out.push(Sample { at, entity: record.id, quantity, value });
            push(Quantity::DeliveredBytes, record.delivered_bytes as f64);
            let transport = self.hosts[record.src as usize].existing(record.stack);
            if let Some((window, _)) = transport.and_then(|transport| transport.limits(live.handle))
                && window.is_finite()
            {
                push(Quantity::WindowBytes, window);
            }
        }
        for (index, port) in self.ports.iter().enumerate().filter(|(_, port)| port.owner & HOST == 0) {
            out.push(Sample {
                at,
                entity: index as u64,
                quantity: Quantity::QueueBytes,
                value: port.queue_bytes as f64,
            });
        }
    }

    /// Payload submitted at `host` and not yet sent for the first time.
    pub fn backlog_bytes(&self, host: u32) -> u64 {
        self.hosts[host as usize].backlog_bytes()
    }

    /// Ends the run where it is. Flows that finished and were not taken come first among `finished`.
    pub fn finish(mut self) -> (Vec<FlowRecord>, Outcome) {
        self.commit_all();
        if !self.warm {
            self.warm_up();
        }
        let end = self.now;
        let (finished, unfinished, mut digest) = self.flows.take_rest(end, self.setup.warmup);
        let links: Vec<_> = (0..self.ports.len()).map(|index| self.link_record(index, end)).collect();
        for (port, link) in self.ports.iter().zip(&links) {
            let parts =
                [link.wire_bytes, link.packets, link.drops, link.ecn_marks, port.waits.byte_ps as u64];
            digest =
                parts.iter().fold(digest, |digest, &x| mix64(digest ^ x).wrapping_add(0x9e37_79b9_7f4a_7c15));
        }
        let span = end.since(self.setup.warmup).as_ps() as f64;
        let mean = |switch: &Switch| {
            let ports = &self.switch_ports[switch.first_port as usize..switch.last_port as usize];
            ports.iter().map(|&port| links[port as usize].queue_bytes.mean).sum::<f64>()
        };
        let switches = self.switches.iter().enumerate().map(|(i, switch)| SwitchRecord {
            switch: i as u32,
            buffer_bytes: Spread {
                mean: if span > 0.0 { mean(switch) } else { 0.0 },
                p99: switch.occupancy.quantile(0.99),
                max: switch.sampled_max as f64,
            },
            drops: switch.drops,
        });
        let outcome = Outcome {
            unfinished,
            switches: switches.collect(),
            links,
            faults: self.fault_counts,
            digest,
            packet_hops: self.packet_hops,
            events: self.handled,
        };
        (finished, outcome)
    }

    fn link_record(&mut self, index: usize, end: Time) -> LinkRecord {
        let port = &self.ports[index];
        let span = end.since(self.setup.warmup).as_ps() as f64;
        let (from, to) = self.links[index];
        let before = self.baselines[index];
        let packets = port.packets - before.packets;
        let queue = port.waits.byte_ps + queued_byte_ps(port, &self.packets.frames, end);
        let histograms = self.histograms.get_mut(index).map(|histograms| {
            histograms.level(end, port.queue_bytes);
            &*histograms
        });
        let per = |sum: f64, by: f64| if by > 0.0 { sum / by } else { 0.0 };
        let wire_bytes = port.tx_bytes - before.tx_bytes;
        // What was under way at warm-up belongs in part, and what is under way now does so too.
        let busy = port.serialise_all(wire_bytes) + before.busy;
        let utilisation = per(busy.since(port.busy_beyond(end)).as_ps() as f64, span).min(1.0);
        LinkRecord {
            from,
            to,
            utilisation,
            rate_bps: self.rates[index].as_bps(),
            wire_bytes,
            packets,
            queue_bytes: Spread {
                mean: per(queue.saturating_sub(before.byte_ps) as f64, span),
                p99: histograms.and_then(|h| h.bytes.quantile(0.99)),
                max: port.waits.max_bytes as f64,
            },
            queue_delay_us: Spread {
                mean: per(port.waits.delay_ps as f64 * 1e-6, packets as f64),
                p99: histograms.and_then(|h| h.delay_ns.quantile(0.99)).map(|ns| ns * 1e-3),
                max: port.waits.max_delay.as_us_f64(),
            },
            drops: port.waits.drops,
            ecn_marks: port.waits.marks,
            pfc_pauses: 0,
        }
    }
}

/// What the queued packets have waited for so far, in byte picoseconds.
fn queued_byte_ps(port: &Port, frames: &[tidegate_core::Frame], now: Time) -> u128 {
    if port.owner & HOST != 0 {
        return 0;
    }
    port.queued(frames).map(|frame| frame.wire_bytes as u128 * now.since(frame.at).as_ps() as u128).sum()
}

fn ports(setup: &Setup) -> Vec<Port> {
    let fabric = &setup.fabric;
    let code = |node| match node {
        Node::Host(h) => h | HOST,
        Node::Switch(s) => s,
    };
    let mut ports = Vec::with_capacity(fabric.links.len() * 2);
    for link in &fabric.links {
        for (from, to) in [(link.a, link.b), (link.b, link.a)] {
            let latency = match to {
                Node::Switch(s) => fabric.switches[s as usize].latency,
                Node::Host(_) => Time::ZERO,
            };
            let mut flags = 0;
            if let Node::Switch(s) = from {
                let switch = &fabric.switches[s as usize];
                let set = |on: bool, flag: u8| if on { flag } else { 0 };
                flags = set(switch.telemetry, flag::STAMPS)
                    | set(
                        switch.ecn.is_some_and(|ecn| !ecn.core_only || matches!(to, Node::Switch(_))),
                        flag::ECN,
                    )
                    | set(switch.ecn.is_some_and(|ecn| ecn.min_bytes <= 0.0), flag::ECN_AT_ZERO)
                    | set(switch.buffer != Buffer::Unlimited, flag::SHARED)
                    | set(setup.histograms, flag::HISTOGRAMS);
            }
            ports.push(Port::new(link.rate, link.delay + latency, code(from), code(to), flags));
        }
    }
    ports
}

fn switches(fabric: &Fabric, ports: &[Port]) -> (Vec<Switch>, Vec<u32>) {
    let mut of: Vec<Vec<u32>> = vec![Vec::new(); fabric.switches.len()];
    for (index, port) in ports.iter().enumerate().filter(|(_, port)| port.owner & HOST == 0) {
        of[port.owner as usize].push(index as u32);
    }
    let mut all = Vec::new();
    let mut switches = Vec::new();
    for (switch, ports) in fabric.switches.iter().zip(of) {
        let first_port = all.len() as u32;
        all.extend(ports);
        let (capacity, alpha) = match switch.buffer {
            Buffer::Unlimited => (u64::MAX, f64::INFINITY),
            Buffer::Shared { bytes, alpha } => (bytes, alpha),
        };
        switches.push(Switch {
            first_port,
            last_port: all.len() as u32,
            used: 0,
            capacity,
            alpha,
            ecn: switch.ecn,
            drops: 0,
            occupancy: Histogram::default(),
            sampled_max: 0,
        });
    }
    (switches, all)
}
