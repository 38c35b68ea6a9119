//! PFC: a switch counts buffered bytes by ingress and sends pause and resume frames; senders obey
//! them.
//!
//! A pause frame is a packet of its own. It precedes all other packets, takes time on the wire, and
//! waits for the transmission in progress. At most one frame per class waits, because a frame
//! reports the state at the time when it leaves. Pause frames are not counted, cannot be paused,
//! and suffer no impairments.

use std::collections::BTreeMap;

use super::*;
use crate::ports::deadlock::{At, PausedPort, Queued, Waits};
use crate::ports::uplink::Effect;

impl<P: Probe, N: Naming> Partition<P, N> {
    /// Returns whether any switch uses PFC.
    #[inline(always)]
    pub(super) fn has_pfc(&self) -> bool {
        self.ingress.is_some()
    }

    fn uses_pfc(&self, switch: u32) -> bool {
        self.ingress.as_deref().is_some_and(|ingress| ingress.pauses(switch))
    }

    /// Returns whether every departure of the switch must be committed at its time: the switch has
    /// paused a sender, which resumes when enough packets have left.
    pub(super) fn pfc_needs_departures(&self, switch: u32) -> bool {
        self.ingress.as_deref().is_some_and(|ingress| ingress.has_paused(switch))
    }

    /// Records that `packet` has arrived by the port `index`.
    pub(super) fn note_ingress(&mut self, index: u32, packet: u32) {
        if let Some(ingress) = &mut self.ingress {
            ingress.came_in(packet, index);
        }
    }

    /// Counts a packet by its ingress. Returns `false` if there is no room.
    pub(super) fn pfc_admits(&mut self, switch: u32, packet: u32) -> bool {
        if !self.uses_pfc(switch) {
            return true;
        }
        let frame = self.packets.frames[packet as usize];
        let room = |ingress: &Ingress| ingress.room(switch, ingress.of(packet), &frame);
        let Some(mut found) = self.ingress.as_deref().map(room) else { return true };
        if found != Room::Usual {
            // The counts may be stale, and are then too high.
            self.commit_switch(switch);
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
    pub(super) fn pfc_joined(&mut self, switch: u32, packet: u32, class: u8) {
        let over = |ingress: &Ingress| {
            let by = ingress.of(packet);
            ingress.is_over(switch, by, class).then_some(by)
        };
        if self.ingress.as_deref().and_then(over).is_none() {
            return;
        }
        // The counts may be stale, and are then too high.
        self.commit_switch(switch);
        let Some(by) = self.ingress.as_deref().and_then(over) else { return };
        self.send_pause(switch, by, class, true);
        // From now on every departure must be counted when it happens.
        let Switch { first_port, last_port, .. } = self.switches[switch as usize];
        for at in first_port..last_port {
            self.commit_scheduled(self.switch_ports[at as usize]);
        }
    }

    /// A packet has left a queue: uncounts it by its ingress, and resumes the sender if the count
    /// is below the threshold.
    #[inline(always)]
    pub(super) fn pfc_left(&mut self, index: u32, packet: u32) {
        if self.has_pfc() {
            self.count_out(index, packet);
        }
    }

    #[inline(never)]
    fn count_out(&mut self, index: u32, packet: u32) {
        let switch = self.ports[index as usize].owner;
        let Some(ingress) = &mut self.ingress else { return };
        let frame = self.packets.frames[packet as usize];
        if frame.flags & frame_flag::PAUSE != 0 || !ingress.pauses(switch) {
            return;
        }
        let (by, class) = (ingress.of(packet), frame.priority & 7);
        ingress.release(switch, by, &frame);
        if ingress.is_under(switch, by, class) {
            self.send_pause(switch, by, class, false);
        }
    }

    /// Sends a pause (`on`) or resume frame to the sender at the other end of ingress port `by`.
    fn send_pause(&mut self, switch: u32, by: u32, class: u8, on: bool) {
        if let Some(ingress) = &mut self.ingress {
            ingress.set_paused(switch, by, class, on);
        }
        let back = self.port_names.index_of(self.port_names.name(by) ^ 1);
        if self.ports[back as usize].flags & flag::DOWN != 0 {
            return;
        }
        self.commit_scheduled(back);
        let frames = &mut self.packets.frames;
        let entropy = class as u32 | (on as u32) << 8;
        let same = |frame: &tidegate_core::Frame| frame.entropy as u8 == class;
        let waiting = self.schedulers[back as usize].as_ref().and_then(|s| s.urgent(frames, same));
        if let Some(waiting) = waiting {
            frames[waiting as usize].entropy = entropy;
            return;
        }
        let packet = self.packets.alloc();
        let p = self.packets.get(packet);
        *p.frame = tidegate_core::Frame {
            entropy,
            wire_bytes: tidegate_core::MIN_WIRE_BYTES as u16,
            flags: frame_flag::PAUSE,
            ..Default::default()
        };
        *p.body = Default::default();
        p.hops.clear();
        self.enqueue_scheduled(switch, back, packet, Scheduler::push_urgent);
        self.commit_scheduled(back);
    }

    /// Obeys a pause or resume frame that has arrived by the port `ingress`. Returns `false` if the
    /// packet is no such frame.
    #[inline]
    pub(super) fn takes_pause_frame(&mut self, ingress: u32, packet: u32) -> bool {
        let is_pause = self.packets.frames[packet as usize].flags & frame_flag::PAUSE != 0;
        if is_pause {
            self.take_pause(ingress, packet);
        }
        is_pause
    }

    #[cold]
    fn take_pause(&mut self, ingress: u32, packet: u32) {
        let pause = self.packets.frames[packet as usize].entropy;
        self.packets.free(packet);
        let (class, on) = (pause as u8 & 7, pause >> 8 != 0);
        let back = self.port_names.index_of(self.port_names.name(ingress) ^ 1);
        let owner = self.ports[back as usize].owner;
        if owner & HOST != 0 {
            self.pause_host(owner & !HOST, back, class, on);
        } else {
            self.pause_port(back, class, on);
        }
    }

    /// Pauses or resumes a class at a switch port.
    fn pause_port(&mut self, index: u32, class: u8, on: bool) {
        let now = self.now;
        self.commit_switch_port(index);
        self.scheduler(index).into_iter().for_each(|scheduler| scheduler.pause(now, class, on));
        self.commit_scheduled(index);
    }

    /// Pauses or resumes a class at a host.
    fn pause_host(&mut self, host: u32, index: u32, class: u8, on: bool) {
        self.pull(host);
        self.pull_though_paused(host);
        let (uplink, port) =
            (&mut self.hosts[host as usize].uplink, &mut self.ports[index as usize]);
        match uplink.pause(self.now, class, on, port) {
            Effect::Paused => self.arm(host),
            Effect::Resumed => {
                self.events.clear(self.wake_source(index));
                return self.look_again(host);
            }
            Effect::None => {}
        }
        self.pull_though_paused(host);
    }

    /// Lets a host send what may leave although it is paused: replies and control packets whose
    /// priority is above the paused classes. Does nothing if no class is paused.
    #[inline]
    pub(super) fn pull_though_paused(&mut self, host: u32) {
        if self.hosts[host as usize].uplink.is_paused() {
            self.pull_unpaused(host);
        }
    }

    #[cold]
    #[inline(never)]
    fn pull_unpaused(&mut self, host: u32) {
        let (now, index) = (self.now, self.hosts[host as usize].uplink.port());
        while let Some(paused) = self.hosts[host as usize].uplink.free_though_paused(now)
            && let Some((packet, waited)) = self.next_unpaused(host, index, paused)
        {
            self.launch(index, packet, now, waited);
            let port = &mut self.ports[index as usize];
            self.hosts[host as usize].uplink.sent_though_paused(port);
        }
        let source = self.wake_source(index);
        match self.hosts[host as usize].uplink.frees_at(now) {
            Time::NEVER => self.events.clear(source),
            at => self.events.set(source, at),
        }
        if P::EXPLICIT_DEQUEUES {
            self.schedule_explicit(index);
        }
    }

    /// The next packet of a class that is not paused, and how long it has waited.
    fn next_unpaused(&mut self, host: u32, index: u32, paused: u8) -> Option<(u32, Span)> {
        let now = self.now;
        let frames = &self.packets.frames;
        if let Some(packet) = self.ports[index as usize].dequeue_but(paused, frames) {
            return Some((packet, now.since(frames[packet as usize].at)));
        }
        let highest = paused.trailing_zeros() as u8;
        let (packets, packet) = (&mut self.packets, self.blank);
        let stack = self.hosts[host as usize].transports.poll(|transport| {
            match transport.transmit_above(highest, now, packets.get(packet)) {
                Transmit::Sent => Some(packets.frames[packet as usize].wire_bytes as u32),
                Transmit::Idle => None,
            }
        })?;
        self.complete(host, stack, packet);
        self.blank = self.packets.alloc();
        Some((packet, Span::ZERO))
    }

    /// Delivers a packet to the transport of a host that may be paused.
    pub(super) fn deliver_though_paused(&mut self, host: u32, packet: u32, landed: Time) {
        self.pull_though_paused(host);
        self.deliver(host, packet, landed);
        self.pull_though_paused(host);
    }

    /// Clears all pauses over a link that has gone down or come back.
    pub(super) fn forget_pauses(&mut self, index: u32) {
        let (now, &Port { owner, to, .. }) = (self.now, &self.ports[index as usize]);
        for class in 0..8 {
            self.scheduler(index)
                .into_iter()
                .for_each(|scheduler| scheduler.pause(now, class, false));
        }
        if owner & HOST != 0 {
            let uplink = &mut self.hosts[(owner & !HOST) as usize].uplink;
            if uplink.forget_pauses(now, &mut self.ports[index as usize]) {
                self.events.clear(self.wake_source(index));
            }
        }
        if let Some(ingress) = self.ingress.as_mut().filter(|_| to & HOST == 0) {
            ingress.forget(to, index);
        }
    }

    /// Starts or ends a PFC storm: the host pauses all lossless classes of its switch's downlink.
    pub(super) fn storm(&mut self, host: u32, on: bool) {
        let uplink = self.hosts[host as usize].uplink.port();
        let index = self.port_names.index_of(self.port_names.name(uplink) ^ 1);
        let switch = self.ports[index as usize].owner;
        let pausing = self.setup.fabric.switches[switch as usize].pausing;
        let classes = pausing.map_or(0, |pausing| pausing.classes);
        for class in (0..8).filter(|class| classes & 1 << class != 0) {
            self.pause_port(index, class, on);
        }
    }

    /// Pause state of a port; `None` if it can never be paused.
    pub(super) fn pause_state(&self, index: usize) -> Option<&PauseState> {
        let owner = self.ports[index].owner;
        match self.schedulers.get(index).and_then(Option::as_ref) {
            Some(scheduler) => Some(&scheduler.pause_state),
            None if owner & HOST != 0 => {
                Some(self.hosts[(owner & !HOST) as usize].uplink.pause_state())
            }
            None => None,
        }
    }

    /// Ports that have been paused since before `since`, and the ingress ports that wait for them.
    pub(crate) fn waits(&self, since: Time) -> Waits {
        let mut waits = Waits::default();
        let Some(ingress) = self.ingress.as_deref() else { return waits };
        let long_paused =
            |&index: &u32| self.pause_state(index as usize).filter(|s| s.since_before(since));
        let mut switches = Vec::new();
        for index in 0..self.own_ports as u32 {
            let Some(pause_state) = long_paused(&index) else { continue };
            let &PauseState { classes, since, .. } = pause_state;
            waits.paused.push(PausedPort { port: self.port_names.name(index), classes, since });
            if self.ports[index as usize].owner & HOST == 0 {
                switches.push(self.ports[index as usize].owner);
                self.queued_by_ingress(index, pause_state.classes, &mut waits.queued);
            }
        }
        switches.sort_unstable();
        switches.dedup();
        for switch in switches.into_iter().filter(|&switch| ingress.pauses(switch)) {
            let Switch { first_port, last_port, .. } = self.switches[switch as usize];
            for &port in &self.switch_ports[first_port as usize..last_port as usize] {
                let name = self.port_names.name(port) ^ 1;
                let held = |class| (class, ingress.held(self.port_names.index_of(name), class));
                let some = (0..8).map(held).filter(|(_, (held, _))| held.bytes > 0);
                waits.held.extend(some.map(|(class, (held, sender_paused))| At {
                    ingress: name,
                    class,
                    bytes: held.bytes,
                    headroom: held.headroom,
                    sender_paused,
                }));
            }
        }
        waits
    }

    /// Bytes queued at a port in `classes`, by ingress.
    fn queued_by_ingress(&self, index: u32, classes: u8, queued: &mut Vec<Queued>) {
        let Some(scheduler) = self.schedulers[index as usize].as_deref() else { return };
        let Some(ingress) = self.ingress.as_deref() else { return };
        let frames = &self.packets.frames;
        let mut sums = BTreeMap::new();
        for packet in scheduler.packets(frames) {
            let frame = &frames[packet as usize];
            let class = frame.priority & 7;
            if classes & 1 << class != 0 && frame.flags & frame_flag::PAUSE == 0 {
                *sums.entry((ingress.of(packet), class)).or_insert(0) += frame.wire_bytes as u64;
            }
        }
        queued.extend(sums.into_iter().map(|((by, class), bytes)| Queued {
            egress: self.port_names.name(index),
            ingress: self.port_names.name(by),
            class,
            bytes,
        }));
    }
}
