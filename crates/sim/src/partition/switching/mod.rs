//! Switches: routing, queueing, marking, admission, and committing transmissions that are due.
//!
//! [`scheduled`]: ports with a scheduler. [`racks`]: racks with circuits. [`trimming`]: switches
//! that trim packets. [`pausing`]: PFC. [`totals`]: sums for the records of switch ports. All use
//! [`Links`], which also contains ports and packets; none accesses a host's transports.
//!
//! A packet is *lost* if its link is down or goes down, or if it has no path. It is *dropped* if
//! the buffer or a queue has no room; the port counts this, and the scheduler counts credits. At a
//! port without a scheduler, [`Switching::refuse`] trims the packet or another, returns it or drops
//! it; ports with a scheduler do not trim.

mod coarse_telemetry;
mod pausing;
mod racks;
mod scheduled;
mod totals;
mod trimming;

use tidegate_core::fabric::{Buffer, Ecn, Fabric, Trimming};
use tidegate_core::{Domain, Hop, Rng, Span, Time, frame_flag};

use super::links::Links;
use crate::fabric::routing::{NO_PORT, Routing};
use crate::measures::histogram::Histogram;
use crate::measures::probe::Probe;
use crate::naming::Naming;
use crate::ports::ingress::{Ingress, egress_buffer};
use crate::ports::marking::Markings;
use crate::ports::port::{HOST, Port, PortHistograms, flag};
use crate::ports::scheduler::Scheduler;
use coarse_telemetry::{CoarseTelemetry, Reading};
use racks::Racks;
pub(super) use trimming::Returns;

/// The switches of a partition.
pub(super) struct Switching {
    /// By global ID. Only those of `own` are used.
    switches: Vec<Switch>,
    /// Switches that belong to this partition.
    own: Vec<u32>,
    /// This partition's ports, grouped by switch; a switch owns the range `first_port..last_port`.
    ports: Vec<u32>,
    routing: Routing,
    /// Schedulers by port. Empty if no port has one.
    schedulers: Vec<Option<Box<Scheduler>>>,
    /// Queues by destination rack, if the fabric has circuits.
    racks: Option<Box<Racks>>,
    /// Bytes by ingress port, if any switch uses PFC.
    ingress: Option<Box<Ingress>>,
    /// Histograms of queues by port. Empty if the run keeps none.
    histograms: Vec<PortHistograms>,
    /// ECN configurations, indexed by [`Port::marking`].
    ecn: Vec<Ecn>,
    /// Random streams by port, if any configuration marks at random.
    marking_rng: Vec<Rng>,
    /// Random streams by port, if any switch trims packets.
    trimming_rng: Vec<Rng>,
    /// By port: packets of the queue for headers that have left since the last packet of data,
    /// while both waited. Empty if the queue for headers of every switch has strict priority.
    header_runs: Vec<u16>,
    /// State for the return of trimmed packets, if any switch returns them to their senders.
    returns: Option<Box<Returns>>,
    /// Readings of coarse telemetry, if the telemetry of any switch has a limited resolution.
    coarse_telemetry: Option<Box<CoarseTelemetry>>,
    /// Priority of data: the largest number, which is the lowest priority, that every switch has.
    data_priority: u8,
}

/// State that the ports of a switch share.
struct Switch {
    first_port: u32,
    last_port: u32,
    /// Queued bytes without credits. Includes packets that have left since the last commit of their
    /// port.
    used: u64,
    capacity: u64,
    alpha: f64,
    trimming: Option<Trimming>,
    drops: u64,
    occupancy: Histogram,
    /// Maximum occupancy. Exact, because all ports are committed before it is raised.
    max_used: u64,
}

/// Inputs of [`Switching::new`] that are built together with the partition's ports.
pub(super) struct Inputs {
    pub(super) routing: Routing,
    pub(super) schedulers: Vec<Option<Box<Scheduler>>>,
    /// Switches that belong to this partition.
    pub(super) own: Vec<u32>,
    /// Whether the run keeps histograms.
    pub(super) histograms: bool,
    /// State for the return of trimmed packets, if any switch returns them to their senders.
    pub(super) returns: Option<Box<Returns>>,
}

impl Switching {
    /// Creates the switches of a partition. `ports` has its `own_ports` own ports, then the far
    /// ends of links from other partitions; `names` has their global IDs, which `index_of` converts
    /// to indices.
    pub(super) fn new(
        fabric: &Fabric,
        (ports, names, own_ports): (&mut [Port], &[u32], usize),
        markings: &Markings,
        seed: u64,
        index_of: impl Fn(u32) -> u32,
        inputs: Inputs,
    ) -> Switching {
        let Inputs { routing, schedulers, own, histograms, returns } = inputs;
        let is_here = |switch: u32| own.binary_search(&switch).is_ok();
        let racks = Racks::new(fabric, ports, index_of, is_here);
        let (switches, switch_ports) = switches(fabric, &ports[..own_ports]);
        let is_random = |ecn: &Ecn| ecn.min_bytes < ecn.max_bytes;
        let streams = if markings.configurations().iter().any(is_random) { names } else { &[] };
        let stream = |&name: &u32| Rng::stream(seed, Domain::Marking, name as u64);
        let kept = if histograms { ports.len() } else { 0 };
        let trims = fabric.switches.iter().any(|switch| switch.trimming.is_some());
        let trimming = if trims { names } else { &[] };
        let trimming_stream = |&name: &u32| Rng::stream(seed, Domain::Trimming, name as u64);
        let mut rules = fabric.switches.iter().filter_map(|switch| switch.trimming);
        let weighted = if rules.any(|rule| rule.header_weight.is_some()) { ports.len() } else { 0 };
        Switching {
            switches,
            own,
            ports: switch_ports,
            routing,
            schedulers,
            racks,
            ingress: Ingress::new(fabric, names).map(Box::new),
            histograms: (0..kept).map(|_| PortHistograms::default()).collect(),
            ecn: markings.configurations().to_vec(),
            marking_rng: streams.iter().map(stream).collect(),
            trimming_rng: trimming.iter().map(trimming_stream).collect(),
            header_runs: vec![0; weighted],
            returns,
            coarse_telemetry: CoarseTelemetry::new(fabric, names),
            data_priority: fabric.priorities().saturating_sub(1),
        }
    }

    pub(super) fn routing(&self) -> &Routing {
        &self.routing
    }

    pub(super) fn routing_mut(&mut self) -> &mut Routing {
        &mut self.routing
    }

    /// Ports of a switch that are in this partition.
    pub(super) fn ports_of(&self, switch: u32) -> &[u32] {
        let Switch { first_port, last_port, .. } = self.switches[switch as usize];
        &self.ports[first_port as usize..last_port as usize]
    }

    /// Starts every transmission that is due at a port, at its true time.
    #[inline(always)]
    pub(super) fn commit_port<P: Probe, N: Naming>(&mut self, links: &mut Links<P, N>, index: u32) {
        let now = links.now();
        loop {
            let port = &links.ports[index as usize];
            if !port.has_queue() || port.free_at > now {
                return;
            }
            if port.flags & flag::SCHEDULED != 0 {
                return self.commit_scheduled(links, index);
            }
            self.start_next(links, index);
        }
    }

    /// Starts the transmission that is due at a port without a scheduler. Not inlined: otherwise
    /// the compiler would load fields for a second iteration of the loop above, which is rare.
    #[inline(never)]
    fn start_next<P: Probe, N: Naming>(&mut self, links: &mut Links<P, N>, index: u32) {
        let port = &mut links.ports[index as usize];
        let start = port.free_at;
        if port.flags & flag::HISTOGRAMS != 0 {
            self.histograms[index as usize].level(start, port.queue_bytes);
        }
        let packet = if port.has_several_queues() && !self.header_runs.is_empty() {
            self.dequeue_by_weight(index, port, &links.packets.frames)
        } else {
            port.dequeue(&links.packets.frames)
        };
        let frame = &links.packets.frames[packet as usize];
        self.switches[port.owner as usize].used -= frame.wire_bytes as u64;
        let waited = port.end_wait(frame, start);
        self.stamp(links, index, packet, start, waited);
        links.launch(index, packet, start, waited);
    }

    /// Starts every transmission that is due at a switch.
    fn commit_switch<P: Probe, N: Naming>(&mut self, links: &mut Links<P, N>, switch: u32) {
        let Switch { first_port, last_port, .. } = self.switches[switch as usize];
        for at in first_port..last_port {
            self.commit_port(links, self.ports[at as usize]);
        }
    }

    /// As [`stamp`](Self::stamp), then puts the packet on the link.
    #[inline(never)]
    fn start<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        index: u32,
        packet: u32,
        start: Time,
        waited: Span,
    ) {
        self.stamp(links, index, packet, start, waited);
        links.launch(index, packet, start, waited);
    }

    /// Writes telemetry into a packet whose transmission starts, if the packet requests it, and
    /// marks the packet if the port marks at departure.
    #[inline(always)]
    fn stamp<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        index: u32,
        packet: u32,
        start: Time,
        waited: Span,
    ) {
        let port = &links.ports[index as usize];
        let frame = &mut links.packets.frames[packet as usize];
        let flags = port.flags;
        if flags & flag::STAMPS != 0
            && frame.flags & (frame_flag::STAMP_PEAK | frame_flag::STAMP_HOPS) != 0
        {
            let (tx_bytes, queue_bytes) = (port.tx_bytes, port.queue_bytes);
            let mut reading = Reading { at: start, delay: waited, tx_bytes, queue_bytes };
            if let Some(coarse) = &mut self.coarse_telemetry {
                reading = coarse.read(index, links.rate(index), reading);
            }
            let frame = &mut links.packets.frames[packet as usize];
            if frame.flags & frame_flag::STAMP_PEAK != 0 {
                frame.peak_hop_delay = frame.peak_hop_delay.max(reading.delay);
            }
            if frame.flags & frame_flag::STAMP_HOPS != 0 {
                let Reading { at, tx_bytes, queue_bytes, .. } = reading;
                let (rate, port) = (links.rate(index), links.name(index));
                links.packets.trace(packet).push(Hop { at, tx_bytes, rate, queue_bytes, port });
            }
        }
        if flags & flag::HISTOGRAMS != 0 {
            self.histograms[index as usize].delay_ns.add(waited.as_ps() / 1_000, 1);
        }
        if flags & flag::MARKS_LATE != 0 {
            self.mark(links, index, packet);
        }
    }

    /// Marks the packet if it is ECN-capable and the queue requires a mark.
    #[inline]
    fn mark<P, N>(&mut self, links: &mut Links<P, N>, index: u32, packet: u32) {
        let port = &links.ports[index as usize];
        if links.packets.frames[packet as usize].flags & frame_flag::ECN_CAPABLE != 0
            && port.queue_bytes as f64 >= self.ecn[port.marking as usize].min_bytes
        {
            self.mark_by_queue(links, index, packet);
        }
    }

    /// Marks by the queue length, which is at least the lower threshold.
    #[inline(never)]
    fn mark_by_queue<P, N>(&mut self, links: &mut Links<P, N>, index: u32, packet: u32) {
        let port = &mut links.ports[index as usize];
        let frame = &mut links.packets.frames[packet as usize];
        let ecn = &self.ecn[port.marking as usize];
        let queue = port.queue_bytes as f64;
        let marks = queue >= ecn.max_bytes || {
            let share = (queue - ecn.min_bytes) / (ecn.max_bytes - ecn.min_bytes);
            self.marking_rng[index as usize].unit() < share * ecn.max_probability
        };
        if marks {
            frame.flags |= frame_flag::CONGESTION_EXPERIENCED;
            port.waits.marks += 1;
        }
    }

    /// A packet has arrived at a switch.
    #[inline(always)]
    pub(super) fn arrive<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switch: u32,
        packet: u32,
    ) {
        let now = links.now();
        if let Some(racks) = &mut self.racks {
            racks.announce(links, switch, packet);
        }
        let frame = &links.packets.frames[packet as usize];
        let special = frame.flags & frame_flag::STAMP_HOPS;
        let index = self.routing.egress(switch, frame.dst, frame.entropy);
        if index == NO_PORT {
            links.lose(packet);
            return;
        }
        let index = links.index_of(index);
        self.commit_port(links, index);
        let port = &links.ports[index as usize];
        if !port.is_free(now) || port.flags & flag::NO_SHORTCUT != 0 {
            self.join_queue(links, switch, index, packet);
        } else if special != 0 {
            self.start(links, index, packet, now, Span::ZERO);
        } else {
            // The common case: the port is free, and the packet needs no record of this hop. A wait
            // of zero cannot raise its largest delay.
            links.launch(index, packet, now, Span::ZERO);
        }
        if P::EXPLICIT_DEQUEUES {
            links.schedule_explicit(index);
        }
    }

    // Forced inline: `arrive` is inlined in several places, because returned packets arrive again,
    // so the compiler would not inline this.
    #[inline(always)]
    fn join_queue<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switch: u32,
        index: u32,
        packet: u32,
    ) {
        let port = &links.ports[index as usize];
        if port.flags & flag::DOWN != 0 {
            links.lose(packet);
            return;
        }
        // Marks follow admission, so that dropped packets do not count as marked.
        let marks = port.flags & flag::MARKS_EARLY != 0;
        if port.flags & flag::SCHEDULED != 0 {
            return self.join_scheduled(links, switch, index, packet);
        }
        let now = links.now();
        if port.is_free(now) {
            if marks {
                self.mark(links, index, packet);
            }
            self.start(links, index, packet, now, Span::ZERO);
            return;
        }
        if self.overflows(links, switch, index, packet) {
            self.refuse(links, switch, index, packet);
            return;
        }
        if marks {
            self.mark(links, index, packet);
        }
        self.enqueue(links, switch, index, packet);
    }

    /// A packet joins the queue of its priority at a port without a scheduler.
    #[inline(always)]
    fn enqueue<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switch: u32,
        index: u32,
        packet: u32,
    ) {
        let now = links.now();
        let port = &mut links.ports[index as usize];
        if port.flags & flag::HISTOGRAMS != 0 {
            self.histograms[index as usize].level(now, port.queue_bytes);
        }
        port.enqueue(packet, now, &mut links.packets.frames);
        port.waits.max_bytes = port.waits.max_bytes.max(port.queue_bytes);
        let wire = links.packets.frames[packet as usize].wire_bytes;
        self.switches[switch as usize].used += wire as u64;
        self.record_occupancy(links, switch);
    }

    /// Returns whether the packet does not fit into the shared buffer, into its queue if the switch
    /// trims, or into the port's counter of bytes. With PFC, [`Ingress`] admits to the buffer.
    #[inline(always)]
    fn overflows<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switch: u32,
        index: u32,
        packet: u32,
    ) -> bool {
        let port = &links.ports[index as usize];
        let frame = &links.packets.frames[packet as usize];
        let (wire, priority) = (frame.wire_bytes as u32, frame.priority);
        (port.flags & flag::LIMITED != 0 || port.queue_bytes > u32::MAX - wire)
            && !(self.queue_admits(links, switch, index, (wire, priority))
                && self.admits(links, switch, index, wire))
    }

    /// Records the occupancy of a switch if it seems to be a new maximum.
    #[inline(always)]
    fn record_occupancy<P: Probe, N: Naming>(&mut self, links: &mut Links<P, N>, switch: u32) {
        let Switch { used, max_used, .. } = self.switches[switch as usize];
        if used > max_used {
            self.record_maximum(links, switch);
        }
    }

    /// The occupancy may be stale: commits every port of the switch, and compares again.
    #[inline(never)]
    fn record_maximum<P: Probe, N: Naming>(&mut self, links: &mut Links<P, N>, switch: u32) {
        self.commit_switch(links, switch);
        let switch = &mut self.switches[switch as usize];
        switch.max_used = switch.max_used.max(switch.used);
    }

    /// Returns whether the switch's buffer takes `wire` more bytes at this port.
    fn admits<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switch: u32,
        index: u32,
        wire: u32,
    ) -> bool {
        let fits = |s: &Switch, queue_bytes: u32| {
            let free = s.capacity.saturating_sub(s.used);
            let bytes = queue_bytes as u64 + wire as u64;
            wire as u64 <= free && bytes as f64 <= s.alpha * free as f64 && bytes <= u32::MAX as u64
        };
        if fits(&self.switches[switch as usize], links.ports[index as usize].queue_bytes) {
            return true;
        }
        // `used` may be too high, and `queue_bytes` includes credits, which do not use the shared
        // buffer. Commit every port of the switch, subtract the credits, and compare again.
        self.commit_switch(links, switch);
        let shared = links.ports[index as usize].queue_bytes - self.credit_bytes(index);
        fits(&self.switches[switch as usize], shared)
    }

    #[cold]
    fn drop_packet<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switch: u32,
        index: u32,
        packet: u32,
    ) {
        links.ports[index as usize].waits.drops += 1;
        self.switches[switch as usize].drops += 1;
        links.discard(packet);
    }

    /// The link of a port goes down: frees the bytes of the shared buffer that wait at the port
    /// (credits use none). The packets of a scheduler are lost here; [`Links::cut`] loses those of
    /// a plain queue and those on the link.
    pub(super) fn empty_port<P: Probe, N: Naming>(&mut self, links: &mut Links<P, N>, index: u32) {
        let now = links.now();
        let queued = self.queued_byte_ps(links, index, now);
        let shared = links.ports[index as usize].queue_bytes - self.credit_bytes(index);
        // The port is down before its scheduler is emptied, because that may send resume frames,
        // which must not join this queue.
        let port = &mut links.ports[index as usize];
        port.flags |= flag::DOWN;
        if port.owner & HOST == 0 {
            port.waits.byte_ps += queued;
            self.switches[port.owner as usize].used -= shared as u64;
        }
        self.drain_scheduler(links, index);
    }
}

/// State of every switch, and the ports of those in this partition.
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
        let (capacity, alpha) = match egress_buffer(switch) {
            Buffer::Unlimited => (u64::MAX, f64::INFINITY),
            Buffer::Shared { bytes, alpha } => (bytes, alpha),
        };
        switches.push(Switch {
            first_port,
            last_port: all.len() as u32,
            used: 0,
            capacity,
            alpha,
            trimming: switch.trimming,
            drops: 0,
            occupancy: Histogram::default(),
            max_used: 0,
        });
    }
    (switches, all)
}
