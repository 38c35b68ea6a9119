//! Packet trimming: if a packet does not fit into its queue at a port, or into the buffer of the
//! switch, the switch keeps the headers and drops the payload. With return to sender, headers that
//! find no room either travel back.
//!
//! Each priority has a FIFO of its own. The lowest priority is the queue for data and has a limit
//! of its own. One limit applies to all higher priorities together: headers, control packets, and
//! data that protocols send there, such as unscheduled data. The packets of the queue for data are
//! counted only when the whole port holds more than the limit in question.
//!
//! Higher priorities precede lower ones, unless the switch weights the two queues. Then, while both
//! hold packets, each packet of data follows a fixed number of packets of the queue for headers.
//! The count continues from one such time to the next.

use tidegate_algos::{Protocol, Stack};
use tidegate_core::fabric::{Switch, TrimVictim, Trimming};
use tidegate_core::{Body, Frame, frame_flag};

use super::{Links, Switching};
use crate::measures::probe::Probe;
use crate::naming::Naming;
use crate::ports::port::{HOST, Port, flag};
use crate::setup::Setup;

/// Priorities of trimmed packets, which show receivers where they were trimmed, as the two code
/// points of the Ultra Ethernet specification do: in the core, or at the port to the receiver.
const HEADERS: u8 = 0;
const LAST_HOP_HEADERS: u8 = 1;

/// State of switches that return packets to their senders.
pub(in crate::partition) struct Returns {
    /// By stack.
    protocols: Vec<Protocol>,
    /// Returned packets, by port.
    counts: Vec<u64>,
}

impl Returns {
    /// `None` if no switch returns packets.
    pub(in crate::partition) fn of(setup: &Setup, ports: usize) -> Option<Box<Returns>> {
        let returns = setup.fabric.switches.iter().any(Switch::returns_to_sender);
        let protocols = || setup.stacks.iter().map(Stack::protocol).collect();
        returns.then(|| Box::new(Returns { protocols: protocols(), counts: vec![0; ports] }))
    }

    /// Forgets all counts.
    pub(super) fn warm_up(&mut self) {
        self.counts.fill(0);
    }

    /// The sender of a packet for `dst` if it is data that is not on its way back. A packet on its
    /// way back is addressed to its sender.
    fn sender(&self, body: &Body, dst: u32) -> Option<u32> {
        let is_data = self.protocols.get(body.transport as usize)?.offset(body).is_some();
        (is_data && dst != body.src).then_some(body.src)
    }
}

impl Switching {
    /// Returns whether the queue of this priority takes `wire` more bytes, if the switch trims.
    #[inline(always)]
    pub(super) fn queue_admits<P: Probe, N: Naming>(
        &self,
        links: &Links<P, N>,
        switch: u32,
        index: u32,
        (wire, priority): (u32, u8),
    ) -> bool {
        match &self.switches[switch as usize].trimming {
            None => true,
            Some(trimming) => self.has_room(links, index, trimming, (wire, priority)),
        }
    }

    /// Returns whether the queue for packets of this priority has `wire` free bytes.
    fn has_room<P: Probe, N: Naming>(
        &self,
        links: &Links<P, N>,
        index: u32,
        trimming: &Trimming,
        (wire, priority): (u32, u8),
    ) -> bool {
        let port = &links.ports[index as usize];
        let is_data = priority == self.data_priority;
        let capacity = if is_data { trimming.data_bytes } else { trimming.header_queue_bytes };
        let capacity = trimming.at_rate(capacity, links.rate(index));
        let fits = |queued: u32| queued.saturating_add(wire) <= capacity;
        fits(port.queue_bytes) || {
            let data = port.bytes_of(self.data_priority, &links.packets.frames);
            fits(if is_data { data } else { port.queue_bytes - data })
        }
    }

    /// Takes the next packet of a port in which packets of several priorities wait. The port may
    /// belong to a switch that does not weight its queues.
    #[inline(never)]
    pub(super) fn dequeue_by_weight(
        &mut self,
        index: u32,
        port: &mut Port,
        frames: &[Frame],
    ) -> u32 {
        let trimming = self.switches[port.owner as usize].trimming;
        let weight = trimming.and_then(|trimming| trimming.header_weight);
        let Some(weight) = weight.filter(|_| port.has_queue_of(self.data_priority)) else {
            return port.dequeue(frames);
        };
        let run = &mut self.header_runs[index as usize];
        if *run < weight {
            *run += 1;
            return port.dequeue(frames);
        }
        *run = 0;
        port.dequeue_of(self.data_priority as usize, frames)
    }

    /// The buffer or a queue has no room for a packet: trims it, or drops it if it has no payload
    /// or the switch does not trim.
    #[cold]
    pub(super) fn refuse<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switch: u32,
        index: u32,
        packet: u32,
    ) {
        let Some(trimming) = self.switches[switch as usize].trimming else {
            return self.drop_packet(links, switch, index, packet);
        };
        if links.packets.body(packet).payload_bytes == 0 {
            return self.refuse_headers(links, switch, index, packet);
        }
        let victim = self.victim(links, switch, index, packet, &trimming);
        let port = &mut links.ports[index as usize];
        port.waits.trims += 1;
        let is_last_hop = port.to & HOST != 0 || self.routing.is_nic(port.to);
        if victim != packet && port.flags & flag::MARKS_EARLY != 0 {
            self.mark(links, index, packet);
        }
        let priority = if is_last_hop { LAST_HOP_HEADERS } else { HEADERS };
        links.packets.body(victim).payload_bytes = 0;
        let frame = &mut links.packets.frames[victim as usize];
        frame.wire_bytes = trimming.trimmed_bytes.min(frame.wire_bytes);
        frame.priority = priority;
        // Headers are not marked by the queue for data, which they do not join.
        frame.flags &= !frame_flag::ECN_CAPABLE;
        let wire = frame.wire_bytes as u32;
        if self.has_room(links, index, &trimming, (wire, priority))
            && self.admits(links, switch, index, wire)
        {
            self.enqueue(links, switch, index, victim);
        } else {
            self.refuse_headers(links, switch, index, victim);
        }
    }

    /// There is no room for a packet without payload: returns it to its sender if it is a trimmed
    /// packet that may return, or else drops it.
    #[cold]
    fn refuse_headers<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switch: u32,
        index: u32,
        packet: u32,
    ) {
        let returns = self.switches[switch as usize].trimming.is_some_and(|of| of.return_to_sender);
        let sender = self.returns.as_deref().filter(|_| returns).and_then(|returns| {
            let dst = links.packets.frames[packet as usize].dst;
            returns.sender(links.packets.body(packet), dst)
        });
        match sender {
            Some(sender) => self.send_back(links, (switch, index), packet, sender),
            None => self.drop_packet(links, switch, index, packet),
        }
    }

    /// Sends a packet for which the port `index` of a switch has no room to its sender. If there is
    /// no room on the way back either, the switch drops it; then it does not count as returned.
    fn send_back<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        (switch, index): (u32, u32),
        packet: u32,
        sender: u32,
    ) {
        let frame = &mut links.packets.frames[packet as usize];
        frame.dst = sender;
        // The way back is none of the path's that telemetry and marks describe.
        frame.flags &= !(frame_flag::STAMP_PEAK | frame_flag::STAMP_HOPS | frame_flag::ECN_CAPABLE);
        let gone =
            |this: &Self, links: &Links<P, N>| this.switches[switch as usize].drops + links.lost();
        let before = gone(self, links);
        self.arrive(links, switch, packet);
        let is_sent = gone(self, links) == before;
        if let Some(returns) = &mut self.returns {
            returns.counts[index as usize] += u64::from(is_sent);
        }
    }

    /// Trimmed packets that a port had no room for and that were sent back to their senders.
    pub(in crate::partition) fn returned(&self, index: u32) -> u64 {
        self.returns.as_ref().map_or(0, |returns| returns.counts[index as usize])
    }

    /// Selects the packet that loses its payload. If it is one in the queue, `packet` takes its
    /// place.
    fn victim<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switch: u32,
        index: u32,
        packet: u32,
        trimming: &Trimming,
    ) -> u32 {
        let now = links.now();
        let Links { ports, packets, .. } = links;
        let (port, frames) = (&mut ports[index as usize], &mut packets.frames);
        let data_priority = self.data_priority;
        let replaces = trimming.victim == TrimVictim::Random
            && frames[packet as usize].priority == data_priority
            && port.last_of(data_priority).is_some_and(|last| {
                // The queue must not grow.
                frames[packet as usize].wire_bytes <= frames[last as usize].wire_bytes
            })
            && self.trimming_rng[index as usize].below(2) == 0;
        if !replaces {
            return packet;
        }
        let before = port.queue_bytes;
        let last = port.replace_last(data_priority, packet, now, frames);
        self.switches[switch as usize].used -= (before - port.queue_bytes) as u64;
        let Frame { at, wire_bytes, .. } = frames[last as usize];
        port.waits.byte_ps += u128::from(wire_bytes) * u128::from(now.since(at).as_ps());
        last
    }
}
