//! PFC: a switch counts buffered bytes by ingress and sends pause and resume frames; senders obey
//! them.
//!
//! A pause frame is a packet of its own. It precedes all other packets, takes time on the wire, and
//! waits for the transmission in progress. At most one frame per class waits, because a frame
//! reports the state at the time when it leaves. Pause frames are not counted, cannot be paused,
//! and suffer no impairments.
//!
//! Switches report to [`Pausing`] the packets that come in, join a queue and leave. It works on the
//! switches' ports; hosts are paused in [`uplinks`](super::uplinks).

use std::collections::BTreeMap;

use tidegate_core::fabric::Fabric;
use tidegate_core::{Frame, MIN_WIRE_BYTES, Span, Time, frame_flag};

use super::Partition;
use super::links::Links;
use super::switching::Switching;
use super::uplinks::host_of;
use crate::measures::probe::Probe;
use crate::naming::Naming;
use crate::ports::deadlock::{At, PausedPort, Queued, Waits};
use crate::ports::ingress::{Ingress, Room};
use crate::ports::pause_state::PauseState;
use crate::ports::port::{HOST, flag};
use crate::ports::scheduler::Scheduler;

/// PFC of the switches of a partition.
pub(super) struct Pausing {
    /// Ingress accounting, if any switch uses PFC.
    ingress: Option<Box<Ingress>>,
}

impl Pausing {
    /// For a partition with these ports.
    pub(super) fn new(fabric: &Fabric, ports: &[u32]) -> Pausing {
        Pausing { ingress: Ingress::new(fabric, ports).map(Box::new) }
    }

    /// Returns whether any switch uses PFC.
    #[inline(always)]
    pub(super) fn is_on(&self) -> bool {
        self.ingress.is_some()
    }

    /// Returns whether every departure of the switch must be committed at its time: the switch has
    /// paused a sender, which resumes when enough packets have left.
    pub(super) fn needs_departures(&self, switch: u32) -> bool {
        self.ingress.as_deref().is_some_and(|ingress| ingress.has_paused(switch))
    }

    /// Records that `packet` has arrived by the port `index`.
    pub(super) fn came_in(&mut self, index: u32, packet: u32) {
        if let Some(ingress) = &mut self.ingress {
            ingress.came_in(packet, index);
        }
    }

    /// A packet is about to join a queue: counts it by its ingress. Returns `false` if there is no
    /// room.
    pub(super) fn admits<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switching: &mut Switching,
        switch: u32,
        packet: u32,
    ) -> bool {
        if self.ingress.as_deref().is_none_or(|ingress| !ingress.pauses(switch)) {
            return true;
        }
        let frame = links.packets.frames[packet as usize];
        let room = |ingress: &Ingress| ingress.room(switch, ingress.of(packet), &frame);
        let Some(mut found) = self.ingress.as_deref().map(room) else { return true };
        if found != Room::Usual {
            // The counts may be stale, and are then too high.
            switching.commit_switch(links, self, switch);
            found = self.ingress.as_deref().map_or(found, room);
        }
        if let Some(ingress) = self.ingress.as_mut().filter(|_| found != Room::Nowhere) {
            let by = ingress.of(packet);
            ingress.take(switch, by, &frame, found);
        }
        found != Room::Nowhere
    }

    /// A packet has joined a queue: pauses the sender behind its ingress if too many bytes from
    /// that ingress are buffered.
    pub(super) fn joined<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switching: &mut Switching,
        switch: u32,
        packet: u32,
        class: u8,
    ) {
        let over = |ingress: &Ingress| {
            let by = ingress.of(packet);
            ingress.is_over(switch, by, class).then_some(by)
        };
        if self.ingress.as_deref().and_then(over).is_none() {
            return;
        }
        // The counts may be stale, and are then too high.
        switching.commit_switch(links, self, switch);
        let Some(by) = self.ingress.as_deref().and_then(over) else { return };
        self.send_pause(links, switching, switch, by, class, true);
        // From now on every departure must be counted when it happens.
        for at in 0..switching.ports_of(switch).len() {
            let port = switching.ports_of(switch)[at];
            switching.commit_scheduled(links, self, port);
        }
    }

    /// A packet has left a queue: uncounts it by its ingress, and resumes the sender if the count
    /// is below the threshold.
    #[inline(always)]
    pub(super) fn left<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switching: &mut Switching,
        index: u32,
        packet: u32,
    ) {
        if self.is_on() {
            self.count_out(links, switching, index, packet);
        }
    }

    #[inline(never)]
    fn count_out<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switching: &mut Switching,
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
            self.send_pause(links, switching, switch, by, class, false);
        }
    }

    /// Sends a pause (`on`) or resume frame to the sender at the other end of ingress port `by`.
    fn send_pause<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switching: &mut Switching,
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
        switching.commit_scheduled(links, self, back);
        let frames = &mut links.packets.frames;
        let entropy = class as u32 | (on as u32) << 8;
        let same = |frame: &Frame| frame.entropy as u8 == class;
        let waiting = switching.scheduler(back).and_then(|of| of.urgent(frames, same));
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
        switching.enqueue_scheduled(links, switch, back, packet, Scheduler::push_urgent);
        switching.commit_scheduled(links, self, back);
    }

    /// Pauses or resumes a class at a switch port.
    fn pause_port<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switching: &mut Switching,
        index: u32,
        class: u8,
        on: bool,
    ) {
        switching.commit_port(links, self, index);
        if let Some(scheduler) = switching.scheduler_mut(index) {
            scheduler.pause(links.now(), class, on);
        }
        switching.commit_scheduled(links, self, index);
    }

    /// Bytes queued at a port in `classes`, by ingress.
    fn queued_by_ingress<P: Probe, N: Naming>(
        &self,
        links: &Links<P, N>,
        scheduler: &Scheduler,
        index: u32,
        classes: u8,
        queued: &mut Vec<Queued>,
    ) {
        let Some(ingress) = self.ingress.as_deref() else { return };
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

    /// Bytes that a switch holds, by its ingress ports and classes.
    fn held<P: Probe, N: Naming>(
        &self,
        links: &Links<P, N>,
        switching: &Switching,
        switch: u32,
        all: &mut Vec<At>,
    ) {
        let Some(ingress) = self.ingress.as_deref().filter(|of| of.pauses(switch)) else { return };
        for &port in switching.ports_of(switch) {
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

impl<P: Probe, N: Naming> Partition<P, N> {
    /// Obeys a pause or resume frame that has arrived by the port `ingress`. Returns `false` if the
    /// packet is no such frame.
    #[inline]
    pub(super) fn takes_pause_frame(&mut self, ingress: u32, packet: u32) -> bool {
        let is_pause = self.links.packets.frames[packet as usize].flags & frame_flag::PAUSE != 0;
        if is_pause {
            self.take_pause(ingress, packet);
        }
        is_pause
    }

    #[cold]
    fn take_pause(&mut self, ingress: u32, packet: u32) {
        let Partition { links, switching, uplinks, pausing, flows, .. } = self;
        let pause = links.packets.frames[packet as usize].entropy;
        links.packets.free(packet);
        let (class, on) = (pause as u8 & 7, pause >> 8 != 0);
        let back = links.opposite(ingress);
        match host_of(links.ports[back as usize].owner) {
            Some(host) => uplinks.pause(links, flows, host, class, on),
            None => pausing.pause_port(links, switching, back, class, on),
        }
    }

    /// Delivers a packet to the transport of a host that may be paused.
    pub(super) fn deliver_though_paused(&mut self, host: u32, packet: u32, landed: Time) {
        self.uplinks.pull_though_paused(&mut self.links, &mut self.flows, host);
        self.deliver(host, packet, landed);
        self.uplinks.pull_though_paused(&mut self.links, &mut self.flows, host);
    }

    /// Clears all pauses over a link that has gone down or come back.
    pub(super) fn forget_pauses(&mut self, index: u32) {
        let Partition { links, switching, uplinks, pausing, .. } = self;
        let (owner, to) = (links.ports[index as usize].owner, links.ports[index as usize].to);
        if let Some(scheduler) = switching.scheduler_mut(index) {
            (0..8).for_each(|class| scheduler.pause(links.now(), class, false));
        }
        if let Some(host) = host_of(owner) {
            uplinks.forget_pauses(links, host);
        }
        if let Some(ingress) = pausing.ingress.as_mut().filter(|_| to & HOST == 0) {
            ingress.forget(to, index);
        }
    }

    /// Starts or ends a PFC storm: the host pauses all lossless classes of its switch's downlink.
    pub(super) fn storm(&mut self, host: u32, on: bool) {
        let Partition { links, switching, uplinks, pausing, .. } = self;
        let index = links.opposite(uplinks.host(host).uplink.port());
        let switch = links.ports[index as usize].owner;
        let classes = pausing.ingress.as_deref().map_or(0, |ingress| ingress.classes(switch));
        for class in (0..8).filter(|class| classes & 1 << class != 0) {
            pausing.pause_port(links, switching, index, class, on);
        }
    }

    /// Pause state of a port; `None` if it can never be paused.
    fn pause_state(&self, index: u32) -> Option<&PauseState> {
        if let Some(scheduler) = self.switching.scheduler(index) {
            return Some(&scheduler.pause_state);
        }
        let host = host_of(self.links.ports[index as usize].owner)?;
        Some(self.uplinks.host(host).uplink.pause_state())
    }

    /// Number of pauses of a port, and their total duration by `now`.
    pub(super) fn paused(&self, index: u32, now: Time) -> (u64, Span) {
        self.pause_state(index).map_or((0, Span::ZERO), |state| (state.times, state.span(now)))
    }

    /// Total pause time of the partition's ports that have ever been paused, by global port ID.
    pub(crate) fn pauses(&self) -> impl Iterator<Item = (u32, Span)> {
        let ports = if self.pausing.is_on() { self.boundary.own_ports() } else { 0..0 };
        let paused = ports.map(|index| (index, self.paused(index, self.links.now())));
        let ever_paused = paused.filter(|(_, (times, _))| *times > 0);
        ever_paused.map(|(index, (_, span))| (self.links.name(index), span))
    }

    /// Ports that have been paused since before `since`, and the ingress ports that wait for them.
    pub(crate) fn waits(&self, since: Time) -> Waits {
        let Partition { links, switching, pausing, boundary, .. } = self;
        let mut waits = Waits::default();
        if !pausing.is_on() {
            return waits;
        }
        let mut switches = Vec::new();
        for index in boundary.own_ports() {
            let Some(&PauseState { classes, since, .. }) =
                self.pause_state(index).filter(|state| state.since_before(since))
            else {
                continue;
            };
            waits.paused.push(PausedPort { port: links.name(index), classes, since });
            let owner = links.ports[index as usize].owner;
            if owner & HOST == 0 {
                switches.push(owner);
                if let Some(scheduler) = switching.scheduler(index) {
                    pausing.queued_by_ingress(links, scheduler, index, classes, &mut waits.queued);
                }
            }
        }
        switches.sort_unstable();
        switches.dedup();
        for switch in switches {
            pausing.held(links, switching, switch, &mut waits.held);
        }
        waits
    }
}
