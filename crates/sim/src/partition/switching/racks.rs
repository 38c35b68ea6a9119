//! Ports of racks that have circuits. The queues for the other racks are committed together, in
//! steps, as lazily as other ports.
//!
//! The measures of a queue (waiting, drops, marks) are kept at its circuit's port, whichever link
//! its packets leave by.

use tidegate_core::fabric::Fabric;
use tidegate_core::{Frame, Hop, Time, frame_flag};

use super::{Links, Switching};
use crate::measures::probe::Probe;
use crate::naming::{NOWHERE, Naming};
use crate::partition::clock::Source;
use crate::ports::packets::Packets;
use crate::ports::port::{Port, flag};
use crate::ports::voqs::{REST, Step, Voqs};

/// The racks of a partition.
pub(super) struct Racks {
    all: Vec<Voqs>,
    /// By port: the rack whose queues it serves.
    of_port: Vec<u32>,
    /// By global ID of a switch: the rack that it is.
    of_switch: Vec<u32>,
}

impl Racks {
    /// Returns `None` if there are no circuits.
    pub(super) fn new(
        fabric: &Fabric,
        ports: &mut [Port],
        index_of: impl Fn(u32) -> u32,
        is_here: impl Fn(u32) -> bool,
    ) -> Option<Box<Racks>> {
        fabric.circuits.as_ref()?;
        let all = Voqs::of_racks(fabric, index_of, is_here);
        let mut of_port = vec![NOWHERE; ports.len()];
        let mut of_switch = vec![NOWHERE; fabric.switches.len()];
        for (rack, voqs) in (0..).zip(&all) {
            of_switch[ports[voqs.uplink as usize].owner as usize] = rack;
            for port in voqs.ports() {
                of_port[port as usize] = rack;
                ports[port as usize].flags |= flag::SCHEDULED | flag::NO_SHORTCUT;
            }
        }
        Some(Box::new(Racks { all, of_port, of_switch }))
    }

    /// Marks a packet that arrives at a switch if that is a rack whose circuit to the rack of the
    /// packet's source is up, or soon will be. The mark of an acknowledgement thus announces the
    /// circuit of its data.
    #[cold]
    #[inline(never)]
    pub(super) fn announce<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switch: u32,
        packet: u32,
    ) {
        let now = links.now();
        let rack = self.of_switch[switch as usize] as usize;
        let Some(voqs) = self.all.get_mut(rack) else { return };
        // No circuit leads to the rack itself, so packets that leave it remain unmarked.
        let queue = voqs.queue_for(links.packets.body(packet).src);
        if voqs.announces(queue, now) {
            links.packets.frames[packet as usize].flags |= frame_flag::CIRCUIT;
        }
    }

    fn at(&self, port: u32) -> Option<&Voqs> {
        self.all.get(*self.of_port.get(port as usize)? as usize)
    }

    /// Earliest start of a transmission at a port, in the present state.
    pub(super) fn start_of(&self, port: u32, ports: &[Port], frames: &Packets) -> Option<Time> {
        Some(self.at(port)?.start_of(port, ports, &frames.frames))
    }

    /// Packets of the queue whose measures the port keeps.
    pub(super) fn queued<'a>(
        &'a self,
        port: u32,
        packets: &'a Packets,
    ) -> Option<impl Iterator<Item = &'a Frame>> {
        Some(self.at(port)?.queued(port, &packets.frames))
    }

    /// Packets that have left that queue since warm-up.
    pub(super) fn left(&self, port: u32) -> Option<u64> {
        Some(self.at(port)?.left(port))
    }

    /// Counts the packets that leave from now on.
    pub(super) fn warm_up(&mut self) {
        self.all.iter_mut().for_each(Voqs::warm_up);
    }
}

impl Switching {
    /// The rack whose queues a port serves, if any.
    #[inline]
    pub(super) fn rack_at(&self, port: u32) -> Option<usize> {
        let rack = *self.racks.as_ref()?.of_port.get(port as usize)?;
        (rack != NOWHERE).then_some(rack as usize)
    }

    fn voqs(&mut self, rack: usize) -> Option<&mut Voqs> {
        self.racks.as_mut()?.all.get_mut(rack)
    }

    /// A packet joins the queue for its destination rack, and leaves at once if it may.
    pub(super) fn join_voq<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switch: u32,
        rack: usize,
        packet: u32,
    ) {
        self.commit_rack(links, rack);
        let (now, frame) = (links.now(), links.packets.frames[packet as usize]);
        let Some(voqs) = self.voqs(rack) else { return };
        let queue = voqs.queue_for(frame.dst);
        let port = voqs.port(queue);
        let refused = voqs.refuses(queue, frame.wire_bytes, now);
        if refused || self.overflows(links, switch, port, packet) {
            return self.drop_packet(links, switch, port, packet);
        }
        if links.ports[port as usize].flags & flag::MARKS_EARLY != 0 {
            self.mark(links, port, packet);
        }
        self.record_level(&links.ports[port as usize], port, now);
        links.packets.frames[packet as usize].at = now;
        let Some(racks) = self.racks.as_deref_mut() else { return };
        racks.all[rack].push(queue, packet, now, &mut links.packets.frames);
        self.show(&mut links.ports, rack, queue);
        self.switches[switch as usize].used += frame.wire_bytes as u64;
        self.commit_rack(links, rack);
        let port = &mut links.ports[port as usize];
        port.waits.max_bytes = port.waits.max_bytes.max(port.queue_bytes);
        self.record_occupancy(links, switch);
    }

    /// Records how long the queue of the port `index` has had its length.
    fn record_level(&mut self, port: &Port, index: u32, now: Time) {
        if port.flags & flag::HISTOGRAMS != 0 {
            self.histograms[index as usize].level(now, port.queue_bytes);
        }
    }

    /// Copies the queue lengths to the queue's port and the uplink.
    fn show(&self, ports: &mut [Port], rack: usize, queue: usize) {
        let Some(racks) = &self.racks else { return };
        let voqs = &racks.all[rack];
        let (bytes, _) = voqs.bytes(queue);
        let (rest, _) = voqs.bytes(REST);
        ports[voqs.port(queue) as usize].set_queue(bytes, bytes == 0);
        ports[voqs.uplink as usize].set_queue(rest, voqs.is_empty());
    }

    /// Takes every step that is due, and schedules an event for the next one if no other event
    /// would take it.
    #[cold]
    #[inline(never)]
    pub(super) fn commit_rack<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        rack: usize,
    ) {
        while let Some(racks) = self.racks.as_deref_mut() {
            let voqs = &mut racks.all[rack];
            if voqs.is_empty() {
                break;
            }
            match voqs.next(&links.ports, &links.packets.frames) {
                (at, _) if at > links.now() => break,
                (at, Step::Reconfigure) => voqs.reconfigure(at),
                (at, Step::Start { queue, port }) => {
                    self.start_from_voq(links, rack, queue, port, at);
                }
            }
        }
        self.wake_rack(links, rack);
    }

    /// Sends a packet of a queue by `port`.
    fn start_from_voq<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        rack: usize,
        queue: usize,
        port: u32,
        start: Time,
    ) {
        let Some(racks) = self.racks.as_deref_mut() else { return };
        let voqs = &mut racks.all[rack];
        let (home, uplink) = (voqs.port(queue), voqs.uplink);
        let (_, tx_bytes) = voqs.bytes(queue);
        let packet = voqs.pop(queue, port, &links.packets.frames);
        self.record_level(&links.ports[home as usize], home, start);
        self.show(&mut links.ports, rack, queue);
        let kept = &mut links.ports[home as usize];
        let (queue_bytes, flags) = (kept.queue_bytes, kept.flags);
        let frame = &mut links.packets.frames[packet as usize];
        let (waited, wire) = (start - frame.at, frame.wire_bytes as u128);
        kept.waits.byte_ps += wire * waited.as_ps() as u128;
        kept.waits.delay_ps += waited.as_ps() as u128;
        kept.waits.max_delay = kept.waits.max_delay.max(waited);
        self.switches[kept.owner as usize].used -= wire as u64;
        if flags & flag::STAMPS != 0 {
            if frame.flags & frame_flag::STAMP_PEAK != 0 {
                frame.peak_hop_delay = frame.peak_hop_delay.max(waited);
            }
            if frame.flags & frame_flag::STAMP_HOPS != 0 {
                // The queue is the hop. Its rate is that of the link that serves it.
                let (rate, name) = (links.rate(port), links.name(uplink));
                let hop = Hop { at: start, tx_bytes, rate, queue_bytes, port: name };
                links.packets.trace(packet).push(hop);
            }
        }
        if flags & flag::HISTOGRAMS != 0 {
            self.histograms[home as usize].delay_ns.add(waited.as_ps() / 1_000, 1);
        }
        if flags & flag::MARKS_LATE != 0 {
            self.mark(links, home, packet);
        }
        links.launch_from(port, packet, start, waited, queue_bytes);
        if P::EXPLICIT_DEQUEUES {
            links.schedule_explicit(port);
        }
    }

    /// A step is due at the rack.
    pub(super) fn on_rack_wake<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        rack: usize,
    ) {
        self.voqs(rack).into_iter().for_each(|voqs| voqs.wakes_at = Time::NEVER);
        self.commit_rack(links, rack);
    }

    /// Schedules the rack's next commit: when a day begins or ends, and for every start that no
    /// packet on a link would trigger.
    fn wake_rack<P: Probe, N: Naming>(&mut self, links: &mut Links<P, N>, rack: usize) {
        let Some(racks) = &mut self.racks else { return };
        let (voqs, frames) = (&mut racks.all[rack], &links.packets.frames);
        let unseen = |port: u32, start: Time| match links.ports[port as usize].link_is_empty() {
            false if !P::EXPLICIT_DEQUEUES => Time::NEVER,
            _ => start,
        };
        let mut at = Time::NEVER;
        if !voqs.is_empty() {
            let uplink = unseen(voqs.uplink, voqs.uplink_start(&links.ports));
            let circuit =
                voqs.up().map(|port| unseen(port, voqs.circuit_start(&links.ports, frames)));
            at = voqs.reconfigures_at().min(uplink).min(circuit.unwrap_or(Time::NEVER));
        }
        if std::mem::replace(&mut voqs.wakes_at, at) != at {
            links.clock.set(Source::Wake(voqs.uplink), at);
        }
    }
}
