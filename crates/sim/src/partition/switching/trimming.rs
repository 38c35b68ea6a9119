//! Packet trimming: a port whose queue for data is full keeps the headers of a packet and drops its
//! payload. Headers and control packets have a queue of their own before data.
//!
//! The queue for data has the lowest priority. Its packets are counted only when the whole port
//! holds more than the capacity in question.

use tidegate_core::fabric::{TrimVictim, Trimming};
use tidegate_core::{Frame, frame_flag};

use super::{Links, Pausing, Switching};
use crate::measures::probe::Probe;
use crate::naming::Naming;
use crate::ports::port::{HOST, flag};

/// Priorities of trimmed packets, which tell receivers where they were trimmed, as the two code
/// points of the Ultra Ethernet specification do: in the core, or at the port to the receiver.
const HEADERS: u8 = 0;
const LAST_HOP_HEADERS: u8 = 1;

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

    /// The buffer or a queue has no room for a packet: trims it, or drops it if it has no payload
    /// or the switch does not trim.
    #[cold]
    pub(super) fn refuse<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        pausing: &mut Pausing,
        switch: u32,
        index: u32,
        packet: u32,
    ) {
        let Some(trimming) = self.switches[switch as usize].trimming else {
            return self.drop_packet(links, switch, index, packet);
        };
        if links.packets.body(packet).payload_bytes == 0 {
            return self.drop_packet(links, switch, index, packet);
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
            && self.admits(links, pausing, switch, index, wire)
        {
            self.enqueue(links, pausing, switch, index, victim);
        } else {
            self.drop_packet(links, switch, index, victim);
        }
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
            && self.victims[index as usize].below(2) == 0;
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
