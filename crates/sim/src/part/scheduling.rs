//! Ports whose queues are a scheduler's: joining, committing, waking, and pausing those that send.
//!
//! They are committed as lazily as others. A port that is idle and holds only what may not go yet
//! has an event of its own, at the earliest start; and so have all ports of a switch that has
//! somebody paused, for whoever is paused goes on at the very time of a departure.

use super::*;

/// What a switch that pauses keeps.
#[derive(Default)]
pub(super) struct Pauses {
    /// By port that leads in: bytes queued of what came by it, by priority.
    bytes: Vec<[u32; 8]>,
    /// By port that leads in: priorities that are paused, a bit each.
    paused: Vec<u8>,
    /// By switch: how many are paused.
    by_switch: Vec<u32>,
    /// By packet: the port that it came in by.
    ingress: Vec<u32>,
}

impl Pauses {
    pub(super) fn new(ports: usize, switches: usize) -> Pauses {
        Pauses {
            bytes: vec![[0; 8]; ports],
            paused: vec![0; ports],
            by_switch: vec![0; switches],
            ingress: Vec::new(),
        }
    }

    /// `packet` has come in by `ingress`.
    pub(super) fn came_in(&mut self, packet: u32, ingress: u32) {
        if self.ingress.len() <= packet as usize {
            self.ingress.resize((packet as usize + 1).next_power_of_two(), NO_PORT);
        }
        self.ingress[packet as usize] = ingress;
    }
}

impl<P: Probe, N: Naming> Part<P, N> {
    fn scheduler(&mut self, index: u32) -> Option<&mut Scheduler> {
        self.schedulers.get_mut(index as usize)?.as_deref_mut()
    }

    /// A packet joins a queue of a port that has a scheduler, and leaves at once if it may.
    #[cold]
    #[inline(never)]
    pub(super) fn join_scheduled(&mut self, switch: u32, index: u32, packet: u32) {
        let frame = self.packets.frames[packet as usize];
        if self.scheduler(index).is_some_and(|scheduler| scheduler.refuses(&frame)) {
            // What is queued may have gone by now.
            self.commit_scheduled(index);
            if self.scheduler(index).is_some_and(|scheduler| scheduler.refuses(&frame)) {
                return self.drop_packet(switch, index, packet);
            }
        }
        if self.ports[index as usize].flags & flag::MARKS_EARLY != 0 {
            self.mark(index, packet);
        }
        self.enqueue_scheduled(switch, index, packet, Scheduler::push);
        let pausing = self.setup.fabric.switches[switch as usize].pausing.is_some();
        if let Some(pauses) = self.pauses.as_mut().filter(|_| pausing) {
            let ingress = pauses.ingress[packet as usize] as usize;
            pauses.bytes[ingress][frame.priority as usize & 7] += frame.wire_bytes as u32;
        }
        self.commit_scheduled(index);
        let port = &mut self.ports[index as usize];
        port.waits.max_bytes = port.waits.max_bytes.max(port.queue_bytes);
        if self.switches[switch as usize].used > self.switches[switch as usize].max_used {
            self.reach_new_high(switch);
        }
        if pausing {
            self.pause_sender(switch, packet, frame.priority & 7);
        }
    }

    fn enqueue_scheduled(
        &mut self,
        switch: u32,
        index: u32,
        packet: u32,
        push: impl FnOnce(&mut Scheduler, u32, &mut [tidegate_core::Frame]),
    ) {
        let now = self.now;
        let port = &mut self.ports[index as usize];
        if port.flags & flag::HISTOGRAMS != 0 {
            self.histograms[index as usize].level(now, port.queue_bytes);
        }
        let Some(scheduler) = self.schedulers[index as usize].as_deref_mut() else { return };
        let frames = &mut self.packets.frames;
        frames[packet as usize].at = now;
        let wire = frames[packet as usize].wire_bytes as u32;
        push(scheduler, packet, frames);
        port.set_queue(port.queue_bytes + wire, false);
        self.switches[switch as usize].used += wire as u64;
    }

    /// Starts every transmission that is due, and wakes up for the next where nothing else does.
    #[cold]
    #[inline(never)]
    pub(super) fn commit_scheduled(&mut self, index: u32) {
        let now = self.now;
        loop {
            let port = &mut self.ports[index as usize];
            let Some(scheduler) = self.schedulers[index as usize].as_deref_mut() else { return };
            let frames = &self.packets.frames;
            let start = match port.has_queue() && port.flags & flag::DOWN == 0 {
                true => scheduler.next_start(port.free_at, frames),
                false => Time::NEVER,
            };
            if start > now {
                if P::EXPLICIT_DEQUEUES {
                    self.schedule_explicit(index);
                }
                return self.wake(index, start);
            }
            let rate = scheduler.rate_at(start);
            if rate != self.rates[index as usize] {
                self.rates[index as usize] = rate;
                port.set_rate(rate);
            }
            if port.flags & flag::HISTOGRAMS != 0 {
                self.histograms[index as usize].level(start, port.queue_bytes);
            }
            let packet = scheduler.pop(start, frames);
            let wire = frames[packet as usize].wire_bytes as u32;
            port.set_queue(port.queue_bytes - wire, scheduler.is_empty());
            self.leave(index, packet, start);
            self.count_out(index, packet);
        }
    }

    /// A port that could not send before may now.
    pub(super) fn on_wake(&mut self, index: u32) {
        self.events.clear(self.wake_source(index));
        self.commit_scheduled(index);
    }

    /// Sees to it that the port is committed at `start`, if nothing else would.
    fn wake(&mut self, index: u32, start: Time) {
        let port = &self.ports[index as usize];
        let eager = P::EXPLICIT_DEQUEUES || self.has_paused(port.owner);
        let source = self.wake_source(index);
        if start < Time::NEVER && (eager || port.link_is_empty()) {
            self.events.set(source, start.min(self.now.after(FAR)));
        } else {
            self.events.clear(source);
        }
    }

    fn has_paused(&self, switch: u32) -> bool {
        self.pauses.as_ref().is_some_and(|pauses| pauses.by_switch[switch as usize] > 0)
    }

    /// When a port at a border that holds something may start it at the earliest.
    pub(super) fn next_start(&self, index: u32) -> Time {
        let port = &self.ports[index as usize];
        match self.schedulers.get(index as usize).and_then(Option::as_deref) {
            _ if !port.has_queue() => Time::NEVER,
            Some(scheduler) => scheduler.next_start(port.free_at, &self.packets.frames),
            None => port.free_at,
        }
    }

    /// Where too much is queued of what came in by the packet's ingress, its sender pauses.
    fn pause_sender(&mut self, switch: u32, packet: u32, class: u8) {
        let Some(limits) = self.setup.fabric.switches[switch as usize].pausing else { return };
        let is_above = |pauses: &Pauses| {
            let ingress = pauses.ingress[packet as usize];
            let bytes = pauses.bytes[ingress as usize][class as usize];
            let above = bytes > limits.pause_bytes;
            (above && pauses.paused[ingress as usize] & 1 << class == 0).then_some(ingress)
        };
        if self.pauses.as_deref().and_then(is_above).is_none() {
            return;
        }
        // The count may be stale, and then too high.
        self.commit_switch(switch);
        let Some(ingress) = self.pauses.as_deref().and_then(is_above) else { return };
        if let Some(pauses) = &mut self.pauses {
            pauses.paused[ingress as usize] |= 1 << class;
            pauses.by_switch[switch as usize] += 1;
        }
        self.send_pause(switch, ingress, class, true);
        // From now on every departure counts when it happens.
        let Switch { first_port, last_port, .. } = self.switches[switch as usize];
        for at in first_port..last_port {
            self.commit_scheduled(self.switch_ports[at as usize]);
        }
    }

    /// What came in by the packet's ingress has left; at the lower threshold its sender goes on.
    fn count_out(&mut self, index: u32, packet: u32) {
        let switch = self.ports[index as usize].owner;
        let Some(limits) = self.setup.fabric.switches[switch as usize].pausing else { return };
        let Some(pauses) = &mut self.pauses else { return };
        let frame = self.packets.frames[packet as usize];
        if frame.flags & frame_flag::PAUSE != 0 {
            return;
        }
        let ingress = pauses.ingress[packet as usize];
        let class = frame.priority as usize & 7;
        let bytes = &mut pauses.bytes[ingress as usize][class];
        *bytes -= frame.wire_bytes as u32;
        if *bytes > limits.resume_bytes || pauses.paused[ingress as usize] & 1 << class == 0 {
            return;
        }
        pauses.paused[ingress as usize] &= !(1 << class);
        pauses.by_switch[switch as usize] -= 1;
        self.send_pause(switch, ingress, class as u8, false);
    }

    /// Tells whoever sends by the port `ingress` to pause a priority, or to go on.
    fn send_pause(&mut self, switch: u32, ingress: u32, class: u8, on: bool) {
        let back = self.port_names.here(self.port_names.name(ingress) ^ 1);
        if self.ports[back as usize].flags & flag::DOWN != 0 {
            return;
        }
        let packet = self.packets.alloc();
        let p = self.packets.get(packet);
        *p.frame = tidegate_core::Frame {
            entropy: class as u32 | (on as u32) << 8,
            wire_bytes: tidegate_core::MIN_WIRE_BYTES as u16,
            flags: frame_flag::PAUSE,
            ..Default::default()
        };
        *p.body = Default::default();
        p.hops.clear();
        self.enqueue_scheduled(switch, back, packet, Scheduler::push_urgent);
        self.commit_scheduled(back);
    }

    /// A pause frame has come in by the port `ingress`.
    #[cold]
    pub(super) fn take_pause(&mut self, ingress: u32, packet: u32) {
        let told = self.packets.frames[packet as usize].entropy;
        self.packets.free(packet);
        let (class, on) = (told as u8 & 7, told >> 8 != 0);
        let back = self.port_names.here(self.port_names.name(ingress) ^ 1);
        let owner = self.ports[back as usize].owner;
        if owner & HOST != 0 {
            self.pause_host(owner & !HOST, back, class, on);
        } else if self.scheduler(back).is_some() {
            let now = self.now;
            self.commit_switch_port(back);
            self.scheduler(back).into_iter().for_each(|scheduler| scheduler.pause(now, class, on));
            self.commit_scheduled(back);
        }
    }

    /// A host stands still while any of its priorities is paused.
    fn pause_host(&mut self, host: u32, index: u32, class: u8, on: bool) {
        self.pull(host);
        let now = self.now;
        let (h, port) = (&mut self.hosts[host as usize], &mut self.ports[index as usize]);
        let before = h.paused;
        h.paused = if on { before | 1 << class } else { before & !(1 << class) };
        if before == 0 && on {
            h.pauses += 1;
            h.free_at = port.free_at;
            port.free_at = Time::NEVER;
        } else if before != 0 && h.paused == 0 {
            port.free_at = h.free_at.max(now);
            self.look_again(host);
        }
    }

    /// What waits for a link that goes down is lost.
    pub(super) fn drain_scheduler(&mut self, index: u32) {
        let Some(scheduler) = self.schedulers.get_mut(index as usize).and_then(Option::as_mut)
        else {
            return;
        };
        let mut lost = Vec::new();
        scheduler.drain(&self.packets.frames, |packet| lost.push(packet));
        self.ports[index as usize].set_queue(0, true);
        for packet in lost {
            self.count_out(index, packet);
            self.lose(packet);
        }
        self.events.clear(self.wake_source(index));
    }

    /// A link has gone down or come back: nobody is paused over it.
    pub(super) fn forget_pauses(&mut self, index: u32) {
        let Port { owner, to, .. } = self.ports[index as usize];
        if owner & HOST != 0 {
            self.hosts[(owner & !HOST) as usize].paused = 0;
        }
        if let Some(pauses) = &mut self.pauses {
            let told = std::mem::take(&mut pauses.paused[index as usize]);
            if told != 0 {
                pauses.by_switch[to as usize] -= told.count_ones();
            }
        }
        let now = self.now;
        for class in 0..8 {
            self.scheduler(index)
                .into_iter()
                .for_each(|scheduler| scheduler.pause(now, class, false));
        }
    }

    /// Times that the sender by a port was paused.
    pub(super) fn pauses(&self, index: usize) -> u64 {
        let owner = self.ports[index].owner;
        match self.schedulers.get(index).and_then(Option::as_ref) {
            Some(scheduler) => scheduler.pauses,
            None if owner & HOST != 0 => self.hosts[(owner & !HOST) as usize].pauses,
            None => 0,
        }
    }
}
