//! PFC of switches: a switch counts buffered bytes by ingress and sends pause and resume frames; a
//! port of a switch obeys them.
//!
//! A pause frame is a packet of its own. It precedes all other packets, takes time on the wire, and
//! waits for the transmission in progress. At most one frame per class waits, because a frame
//! reports the state at the time when it leaves. Pause frames are not counted, cannot be paused,
//! and suffer no impairments.
//!
//! The counts and thresholds are in [`Ingress`](crate::ports::ingress::Ingress). The actions that
//! they cause commit ports and fill queues, so they are methods of [`Switching`].

use std::collections::BTreeMap;

use tidegate_core::{Frame, MIN_WIRE_BYTES, Span, frame_flag};

use super::{Links, Switching};
use crate::measures::probe::Probe;
use crate::naming::Naming;
use crate::ports::deadlock::{At, Queued};
use crate::ports::ingress::Room;
use crate::ports::port::{HOST, Port, flag};
use crate::ports::scheduler::Scheduler;

impl Switching {
    /// Returns whether any switch uses PFC.
    #[inline(always)]
    pub(in crate::partition) fn uses_pfc(&self) -> bool {
        self.ingress.is_some()
    }

    /// Returns whether nodes affect each other without the delay of a link. Under PFC the far end
    /// of a link without delay commits departures at their time, possibly before arrivals at equal
    /// times.
    pub(in crate::partition) fn couples_nodes(&self, ports: &[Port]) -> bool {
        self.uses_pfc() && ports.iter().any(|port| port.delay == Span::ZERO)
    }

    /// Classes that a switch can pause; one bit each.
    pub(in crate::partition) fn pausable_classes(&self, switch: u32) -> u8 {
        self.ingress.as_deref().map_or(0, |ingress| ingress.classes(switch))
    }

    /// Returns whether every departure of the switch must be committed at its time: the switch has
    /// paused a sender, which resumes when enough packets have left.
    pub(super) fn needs_departures(&self, switch: u32) -> bool {
        self.ingress.as_deref().is_some_and(|ingress| ingress.has_paused(switch))
    }

    /// Records that `packet` has arrived by the port `index`.
    pub(in crate::partition) fn record_ingress(&mut self, index: u32, packet: u32) {
        if let Some(ingress) = &mut self.ingress {
            ingress.record_ingress(packet, index);
        }
    }

    /// A packet is about to join a queue: counts it by its ingress. Returns `false` if there is no
    /// room.
    pub(super) fn ingress_admits<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switch: u32,
        packet: u32,
    ) -> bool {
        let Some(ingress) = self.ingress.as_deref().filter(|of| of.pauses(switch)) else {
            return true;
        };
        let frame = links.packets.frames[packet as usize];
        let by = ingress.of(packet);
        let mut room = ingress.room(switch, by, &frame);
        if room != Room::Usual {
            // The counts may be stale, and are then too high.
            self.commit_switch(links, switch);
            room = self.ingress.as_deref().map_or(room, |of| of.room(switch, by, &frame));
        }
        if let Some(ingress) = self.ingress.as_mut().filter(|_| room != Room::Nowhere) {
            ingress.take(switch, by, &frame, room);
        }
        room != Room::Nowhere
    }

    /// A packet has joined a queue: pauses the sender behind its ingress if too many bytes from
    /// that ingress are buffered.
    pub(super) fn pause_if_over<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switch: u32,
        packet: u32,
        class: u8,
    ) {
        let over = |of: &Switching| {
            let ingress = of.ingress.as_deref()?;
            let by = ingress.of(packet);
            ingress.is_over(switch, by, class).then_some(by)
        };
        if over(self).is_none() {
            return;
        }
        // The counts may be stale, and are then too high.
        self.commit_switch(links, switch);
        let Some(by) = over(self) else { return };
        self.send_pause(links, switch, by, class, true);
        // From now on every departure must be counted when it happens.
        for at in 0..self.ports_of(switch).len() {
            self.commit_scheduled(links, self.ports_of(switch)[at]);
        }
    }

    /// A packet has left a queue: uncounts it by its ingress, and resumes the sender if the count
    /// is below the threshold.
    #[inline(always)]
    pub(super) fn uncount<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        index: u32,
        packet: u32,
    ) {
        if self.uses_pfc() {
            self.uncount_by_ingress(links, index, packet);
        }
    }

    #[inline(never)]
    fn uncount_by_ingress<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        index: u32,
        packet: u32,
    ) {
        let switch = links.ports[index as usize].owner;
        let Some(ingress) = &mut self.ingress else { return };
        let frame = links.packets.frames[packet as usize];
        if frame.flags & frame_flag::PAUSE != 0 || !ingress.pauses(switch) {
            return;
        }
        let (by, class) = (ingress.of(packet), frame.priority & 7);
        ingress.release(switch, by, &frame);
        if ingress.is_under(switch, by, class) {
            self.send_pause(links, switch, by, class, false);
        }
    }

    /// Sends a pause (`on`) or resume frame to the sender at the other end of ingress port `by`.
    fn send_pause<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switch: u32,
        by: u32,
        class: u8,
        on: bool,
    ) {
        if let Some(ingress) = &mut self.ingress {
            ingress.set_paused(switch, by, class, on);
        }
        let back = links.opposite(by);
        if links.ports[back as usize].flags & flag::DOWN != 0 {
            return;
        }
        self.commit_scheduled(links, back);
        let frames = &mut links.packets.frames;
        let entropy = class as u32 | (on as u32) << 8;
        let same = |frame: &Frame| frame.entropy as u8 == class;
        let waiting = self.scheduler(back).and_then(|of| of.urgent(frames, same));
        if let Some(waiting) = waiting {
            frames[waiting as usize].entropy = entropy;
            return;
        }
        let packet = links.packets.alloc();
        let p = links.packets.get(packet);
        *p.frame = Frame {
            entropy,
            wire_bytes: MIN_WIRE_BYTES as u16,
            flags: frame_flag::PAUSE,
            ..Frame::default()
        };
        *p.body = Default::default();
        p.hops.clear();
        self.enqueue_scheduled(links, switch, back, packet, Scheduler::push_urgent);
        self.commit_scheduled(links, back);
    }

    /// Pauses or resumes a class at a port.
    pub(in crate::partition) fn pause_port<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        index: u32,
        class: u8,
        on: bool,
    ) {
        self.commit_port(links, index);
        let now = links.now();
        if let Some(scheduler) = self.scheduler_mut(index) {
            scheduler.pause(&mut links.ports[index as usize], now, class, on);
        }
        self.commit_scheduled(links, index);
    }

    /// Clears all pauses over a link that has gone down or come back, at both of its ends.
    pub(in crate::partition) fn clear_pauses<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        index: u32,
    ) {
        let now = links.now();
        if let Some(scheduler) = self.scheduler_mut(index) {
            let port = &mut links.ports[index as usize];
            (0..8).for_each(|class| scheduler.pause(port, now, class, false));
        }
        let to = links.ports[index as usize].to;
        if let Some(ingress) = self.ingress.as_mut().filter(|_| to & HOST == 0) {
            ingress.forget(to, index);
        }
    }

    /// Adds the bytes that are queued at a port in `classes`, by ingress.
    pub(in crate::partition) fn queued_by_ingress<P: Probe, N: Naming>(
        &self,
        links: &Links<P, N>,
        index: u32,
        classes: u8,
        queued: &mut Vec<Queued>,
    ) {
        let (Some(ingress), Some(scheduler)) = (self.ingress.as_deref(), self.scheduler(index))
        else {
            return;
        };
        let frames = &links.packets.frames;
        let mut sums = BTreeMap::new();
        for packet in scheduler.packets(frames) {
            let frame = &frames[packet as usize];
            let class = frame.priority & 7;
            if classes & 1 << class != 0 && frame.flags & frame_flag::PAUSE == 0 {
                *sums.entry((ingress.of(packet), class)).or_insert(0) += frame.wire_bytes as u64;
            }
        }
        queued.extend(sums.into_iter().map(|((by, class), bytes)| Queued {
            egress: links.name(index),
            ingress: links.name(by),
            class,
            bytes,
        }));
    }

    /// Adds the bytes that a switch holds, by its ingress ports and classes.
    pub(in crate::partition) fn held_by_ingress<P: Probe, N: Naming>(
        &self,
        links: &Links<P, N>,
        switch: u32,
        all: &mut Vec<At>,
    ) {
        let Some(ingress) = self.ingress.as_deref().filter(|of| of.pauses(switch)) else { return };
        for &port in self.ports_of(switch) {
            let index = links.opposite(port);
            let held = |class| (class, ingress.held(index, class));
            let some = (0..8).map(held).filter(|(_, (held, _))| held.bytes > 0);
            all.extend(some.map(|(class, (held, sender_paused))| At {
                ingress: links.name(port) ^ 1,
                class,
                bytes: held.bytes,
                headroom: held.headroom,
                sender_paused,
            }));
        }
    }
}
