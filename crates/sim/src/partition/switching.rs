//! Switches: routing, queueing, marking, admission, and committing transmissions that are due.

use super::*;

impl<P: Probe, N: Naming> Partition<P, N> {
    #[inline]
    pub(super) fn commit_switch_port(&mut self, index: u32) {
        loop {
            let port = &mut self.ports[index as usize];
            if !port.has_queue() || port.free_at > self.now {
                return;
            }
            if port.flags & (flag::HISTOGRAMS | flag::SCHEDULED) != 0 {
                if port.flags & flag::SCHEDULED != 0 {
                    return self.commit_scheduled(index);
                }
                self.histograms[index as usize].level(port.free_at, port.queue_bytes);
            }
            let start = port.free_at;
            let packet = port.dequeue(&self.packets.frames);
            self.leave(index, packet, start);
        }
    }

    /// A packet that has waited leaves its queue and its switch's buffer.
    #[inline(always)]
    pub(super) fn leave(&mut self, index: u32, packet: u32, start: Time) {
        let owner = self.ports[index as usize].owner;
        let wire = self.packets.frames[packet as usize].wire_bytes as u64;
        self.switches[owner as usize].used -= wire;
        self.leave_queue(index, packet, start);
    }

    /// A packet that has waited leaves its queue.
    #[inline(always)]
    pub(super) fn leave_queue(&mut self, index: u32, packet: u32, start: Time) {
        let port = &mut self.ports[index as usize];
        let frame = &self.packets.frames[packet as usize];
        let waited = start - frame.at;
        let wire = frame.wire_bytes as u128;
        port.waits.byte_ps += wire * waited.as_ps() as u128;
        port.waits.delay_ps += waited.as_ps() as u128;
        port.waits.max_delay = port.waits.max_delay.max(waited);
        self.start(index, packet, start, waited);
    }

    /// Starts a transmission at a switch port: stamps telemetry and marks.
    #[inline]
    pub(super) fn start(&mut self, index: u32, packet: u32, start: Time, waited: Span) {
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
                    port: self.port_names.name(index),
                };
                self.packets.trace(packet).push(hop);
            }
        }
        if port.flags & flag::HISTOGRAMS != 0 {
            self.histograms[index as usize].delay_ns.add(waited.as_ps() / 1_000, 1);
        }
        if port.flags & flag::MARKS_LATE != 0 {
            self.mark(index, packet);
        }
        self.launch(index, packet, start, waited);
    }

    /// Puts a packet on the wire.
    #[inline(always)]
    pub(super) fn launch(&mut self, index: u32, packet: u32, start: Time, waited: Span) {
        let queue_bytes = if P::ON { self.ports[index as usize].queue_bytes } else { 0 };
        self.launch_from(index, packet, start, waited, queue_bytes);
    }

    /// Like [`launch`](Self::launch), from a queue that now holds `queue_bytes`.
    #[inline(always)]
    pub(super) fn launch_from(
        &mut self,
        index: u32,
        packet: u32,
        start: Time,
        waited: Span,
        queue_bytes: u32,
    ) {
        if P::ON {
            let p = self.packets.get(packet);
            self.probe.departed(&Departure {
                at: start,
                port: self.port_names.name(index),
                waited,
                queue_bytes,
                frame: p.frame,
                body: p.body,
                hops: p.hops,
            });
        }
        let port = &mut self.ports[index as usize];
        if let Some(landing) = port.launch(packet, start, &mut self.packets.frames) {
            debug_assert!(landing >= self.now, "port {index} was committed too late, at {start}");
            if P::EXPLICIT_DEQUEUES {
                self.landings[index as usize] = landing;
            } else {
                self.events.set(index, landing);
            }
        }
    }

    /// Marks the packet if it is ECN-capable and the queue requires a mark.
    #[inline]
    pub(super) fn mark(&mut self, index: u32, packet: u32) {
        let port = &self.ports[index as usize];
        if self.packets.frames[packet as usize].flags & frame_flag::ECN_CAPABLE != 0
            && port.queue_bytes as f64 >= self.ways_to_mark[port.marking as usize].min_bytes
        {
            self.mark_by_queue(index, packet);
        }
    }

    /// Marks by the queue length, which is at least the lower threshold.
    #[inline(never)]
    fn mark_by_queue(&mut self, index: u32, packet: u32) {
        let port = &mut self.ports[index as usize];
        let frame = &mut self.packets.frames[packet as usize];
        let ecn = &self.ways_to_mark[port.marking as usize];
        let queue = port.queue_bytes as f64;
        let marks = queue >= ecn.max_bytes || {
            let share = (queue - ecn.min_bytes) / (ecn.max_bytes - ecn.min_bytes);
            self.marking[index as usize].unit() < share * ecn.max_probability
        };
        if marks {
            frame.flags |= frame_flag::CONGESTION_EXPERIENCED;
            port.waits.marks += 1;
        }
    }

    #[inline(always)]
    pub(super) fn arrive_at_switch(&mut self, switch: u32, packet: u32) {
        let now = self.now;
        let frame = &self.packets.frames[packet as usize];
        let special = frame.flags & frame_flag::STAMP_HOPS;
        let index = self.routing.egress(switch, frame.dst, frame.entropy);
        if index == NO_PORT {
            self.lose(packet);
            return;
        }
        let index = self.port_names.index_of(index);
        let port = &mut self.ports[index as usize];
        if port.has_queue() && port.free_at <= now {
            self.commit_switch_port(index);
        }
        let port = &mut self.ports[index as usize];
        let unusual = flag::ECN_AT_ZERO | flag::HISTOGRAMS | flag::SCHEDULED;
        if !port.is_free(now) || port.flags & unusual != 0 {
            self.join_queue(switch, index, packet);
        } else if special != 0 {
            self.start(index, packet, now, Span::ZERO);
        } else {
            // The common case: nothing to wait for and nothing to record (a wait of zero is no new
            // peak).
            self.launch(index, packet, now, Span::ZERO);
        }
        if P::EXPLICIT_DEQUEUES {
            self.schedule_explicit(index);
        }
    }

    pub(super) fn join_queue(&mut self, switch: u32, index: u32, packet: u32) {
        let port = &mut self.ports[index as usize];
        if port.flags & flag::DOWN != 0 {
            self.lose(packet);
            return;
        }
        // Only packets that the buffer admits are marked.
        let marks = port.flags & flag::MARKS_EARLY != 0;
        if port.flags & flag::SCHEDULED != 0 {
            return self.join_scheduled(switch, index, packet);
        }
        if port.is_free(self.now) {
            if marks {
                self.mark(index, packet);
            }
            self.start(index, packet, self.now, Span::ZERO);
            return;
        }
        if self.overflows(switch, index, packet) {
            self.drop_packet(switch, index, packet);
            return;
        }
        if marks {
            self.mark(index, packet);
        }
        let port = &mut self.ports[index as usize];
        if port.flags & flag::HISTOGRAMS != 0 {
            self.histograms[index as usize].level(self.now, port.queue_bytes);
        }
        port.enqueue(packet, self.now, &mut self.packets.frames);
        port.waits.max_bytes = port.waits.max_bytes.max(port.queue_bytes);
        let wire = self.packets.frames[packet as usize].wire_bytes as u32;
        self.fill(switch, wire);
    }

    /// Returns whether the switch's buffer, or the counter of this queue, cannot take the packet.
    #[inline(always)]
    pub(super) fn overflows(&mut self, switch: u32, index: u32, packet: u32) -> bool {
        let port = &self.ports[index as usize];
        let wire = self.packets.frames[packet as usize].wire_bytes as u32;
        (port.flags & flag::SHARED != 0 || port.queue_bytes > u32::MAX - wire)
            && !self.admits(switch, index, wire)
    }

    /// Adds `wire` bytes to a switch's buffer.
    #[inline(always)]
    pub(super) fn fill(&mut self, switch: u32, wire: u32) {
        let state = &mut self.switches[switch as usize];
        state.used += wire as u64;
        if state.used > state.max_used {
            self.reach_new_high(switch);
        }
    }

    /// The occupancy seems to be a new maximum, but may be stale: commits every port of the switch,
    /// and compares again.
    #[inline(never)]
    pub(super) fn reach_new_high(&mut self, switch: u32) {
        self.commit_switch(switch);
        let switch = &mut self.switches[switch as usize];
        switch.max_used = switch.max_used.max(switch.used);
    }

    /// Returns whether the switch's buffer takes `wire` more bytes at this port.
    pub(super) fn admits(&mut self, switch: u32, index: u32, wire: u32) -> bool {
        let fits = |s: &Switch, queue_bytes: u32| {
            let free = s.capacity.saturating_sub(s.used);
            let bytes = queue_bytes as u64 + wire as u64;
            wire as u64 <= free && bytes as f64 <= s.alpha * free as f64 && bytes <= u32::MAX as u64
        };
        if fits(&self.switches[switch as usize], self.ports[index as usize].queue_bytes) {
            return true;
        }
        // The occupancy may be stale, and is then too high; and credits are no part of it. Commit
        // every port of the switch and compare again.
        self.commit_switch(switch);
        let shared = self.ports[index as usize].queue_bytes - self.credit_bytes(index);
        fits(&self.switches[switch as usize], shared)
    }

    pub(super) fn commit_switch(&mut self, switch: u32) {
        let Switch { first_port, last_port, .. } = self.switches[switch as usize];
        for i in first_port..last_port {
            self.commit_switch_port(self.switch_ports[i as usize]);
        }
    }

    #[cold]
    pub(super) fn drop_packet(&mut self, switch: u32, index: u32, packet: u32) {
        self.ports[index as usize].waits.drops += 1;
        self.switches[switch as usize].drops += 1;
        self.discard(packet);
    }

    /// Drops a packet.
    #[cold]
    pub(super) fn discard(&mut self, packet: u32) {
        if P::ON {
            self.probe.dropped(self.packets.body(packet));
        }
        self.packets.free(packet);
    }
}
