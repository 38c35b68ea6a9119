//! Ports whose queues belong to a scheduler: joining, committing, waking.
//!
//! They are committed as lazily as others. A port has an event of its own, at its earliest start,
//! if it is idle and holds only packets that may not leave yet, or if PFC needs the exact times of
//! its departures.

use super::*;

impl<P: Probe, N: Naming> Partition<P, N> {
    pub(super) fn scheduler(&mut self, index: u32) -> Option<&mut Scheduler> {
        self.schedulers.get_mut(index as usize)?.as_deref_mut()
    }

    /// Bytes of credits in a queue of their own at this port.
    pub(super) fn credit_bytes(&self, index: u32) -> u32 {
        let scheduler = self.schedulers.get(index as usize).and_then(Option::as_deref);
        scheduler.map_or(0, Scheduler::credit_bytes)
    }

    /// Waiting so far of the credits that are queued there, in byte picoseconds.
    pub(super) fn credits_waited(&self, index: u32, now: Time) -> i128 {
        let scheduler = self.schedulers.get(index as usize).and_then(Option::as_deref);
        scheduler.map_or(0, |of| of.credits_waited(now, &self.packets.frames))
    }

    /// A packet joins a queue of a port that has a scheduler, or leaves at once if it may.
    #[cold]
    #[inline(never)]
    pub(super) fn join_scheduled(&mut self, switch: u32, index: u32, packet: u32) {
        if let Some(rack) = self.rack_at(index) {
            return self.join_voq(switch, rack, packet);
        }
        if self.packets.frames[packet as usize].flags & frame_flag::CREDIT != 0
            && self.scheduler(index).is_some_and(|scheduler| scheduler.has_credits())
        {
            return self.join_credits(switch, index, packet);
        }
        if self.overflows(switch, index, packet) {
            return self.drop_packet(switch, index, packet);
        }
        let frame = self.packets.frames[packet as usize];
        let now = self.now;
        if self.ports[index as usize].is_free(now)
            && self.scheduler(index).is_some_and(|scheduler| scheduler.lets_through(now, &frame))
        {
            // It is not buffered.
            if self.ports[index as usize].flags & flag::MARKS_EARLY != 0 {
                self.mark(index, packet);
            }
            return self.start(index, packet, now, Span::ZERO);
        }
        if self.scheduler(index).is_some_and(|scheduler| scheduler.refuses(&frame)) {
            // The count may be stale: queued packets may have left by now.
            self.commit_scheduled(index);
            if self.scheduler(index).is_some_and(|scheduler| scheduler.refuses(&frame)) {
                return self.drop_packet(switch, index, packet);
            }
        }
        if !self.pfc_admits(switch, packet) {
            return self.drop_packet(switch, index, packet);
        }
        if self.ports[index as usize].flags & flag::MARKS_EARLY != 0 {
            self.mark(index, packet);
        }
        self.enqueue_scheduled(switch, index, packet, Scheduler::push);
        self.commit_joined(switch, index);
        self.pfc_joined(switch, packet, frame.priority & 7);
    }

    /// A credit joins the credit queue, which is not part of the switch's shared buffer.
    fn join_credits(&mut self, switch: u32, index: u32, packet: u32) {
        let (now, frame) = (self.now, self.packets.frames[packet as usize]);
        let is_free = self.ports[index as usize].is_free(now);
        let Some(scheduler) = self.scheduler(index) else { return };
        if is_free && scheduler.lets_credit_through(now, &frame) {
            return self.start(index, packet, now, Span::ZERO);
        }
        if scheduler.refuses_credit(&frame) {
            // The count may be stale: queued credits may have left by now.
            self.commit_scheduled(index);
            if let Some(scheduler) = self.scheduler(index).filter(|of| of.refuses_credit(&frame)) {
                scheduler.credit_drops += 1;
                return self.discard(packet);
            }
        }
        self.push_scheduled(index, packet, Scheduler::push_credit);
        self.commit_joined(switch, index);
    }

    /// A packet has joined a queue of a port. The port is committed now, unless a later event will
    /// do so: it is sending, its link is not empty, and nothing needs to know when the packet
    /// leaves.
    fn commit_joined(&mut self, switch: u32, index: u32) {
        let waits = self.scheduler(index).is_some_and(|of| of.wakes_at == Time::NEVER)
            && self.ports[index as usize].free_at > self.now
            && !self.ports[index as usize].link_is_empty();
        if !waits || self.has_pfc() || P::EXPLICIT_DEQUEUES {
            self.commit_scheduled(index);
        }
        let port = &mut self.ports[index as usize];
        port.waits.max_bytes = port.waits.max_bytes.max(port.queue_bytes);
        if self.switches[switch as usize].used > self.switches[switch as usize].max_used {
            self.reach_new_high(switch);
        }
    }

    /// A packet joins a queue of a port and takes room in its switch's buffer.
    pub(super) fn enqueue_scheduled(
        &mut self,
        switch: u32,
        index: u32,
        packet: u32,
        push: impl FnOnce(&mut Scheduler, u32, &mut [tidegate_core::Frame]),
    ) {
        self.push_scheduled(index, packet, push);
        let wire = self.packets.frames[packet as usize].wire_bytes;
        self.switches[switch as usize].used += wire as u64;
    }

    fn push_scheduled(
        &mut self,
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
    }

    /// Starts every transmission that is due, and schedules an event for the next one if nothing
    /// else would start it.
    #[cold]
    #[inline(never)]
    pub(super) fn commit_scheduled(&mut self, index: u32) {
        if let Some(rack) = self.rack_at(index) {
            return self.commit_rack(rack);
        }
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
            let frame = &frames[packet as usize];
            if frame.flags & frame_flag::CREDIT != 0 && scheduler.has_credits() {
                let waited = (start - frame.at).as_ps();
                scheduler.credit_byte_ps += i128::from(wire) * i128::from(waited);
                self.leave_queue(index, packet, start);
            } else {
                self.leave(index, packet, start);
            }
            self.pfc_left(index, packet);
        }
    }

    /// A port that was not allowed to send may be allowed now.
    pub(super) fn on_wake(&mut self, index: u32) {
        self.events.clear(self.wake_source(index));
        if let Some(rack) = self.rack_at(index) {
            return self.on_rack_wake(rack);
        }
        self.scheduler(index).into_iter().for_each(|scheduler| scheduler.wakes_at = Time::NEVER);
        match self.ports[index as usize].owner {
            owner if owner & HOST != 0 => self.pull_though_paused(owner & !HOST),
            _ => self.commit_scheduled(index),
        }
    }

    /// Schedules a commit of the port at `start` if no other event would do it.
    fn wake(&mut self, index: u32, start: Time) {
        let port = &self.ports[index as usize];
        let eager = P::EXPLICIT_DEQUEUES || self.pfc_needs_departures(port.owner);
        let at = match start {
            Time::NEVER => Time::NEVER,
            start if eager || port.link_is_empty() => start.min(self.now.after(FAR)),
            _ => Time::NEVER,
        };
        let source = self.wake_source(index);
        let Some(scheduler) = self.schedulers[index as usize].as_deref_mut() else { return };
        if std::mem::replace(&mut scheduler.wakes_at, at) == at {
            return;
        }
        match at {
            Time::NEVER => self.events.clear(source),
            at => self.events.set(source, at),
        }
    }

    /// Earliest start of what a boundary port holds; [`Time::NEVER`] if it holds nothing.
    pub(super) fn next_start(&self, index: u32) -> Time {
        let port = &self.ports[index as usize];
        if let Some(racks) = &self.racks
            && let Some(start) = racks.start_of(index, &self.ports, &self.packets)
        {
            return start;
        }
        match self.schedulers.get(index as usize).and_then(Option::as_deref) {
            _ if !port.has_queue() => Time::NEVER,
            Some(scheduler) => scheduler.next_start(port.free_at, &self.packets.frames),
            None => port.free_at,
        }
    }

    /// Drops all packets that wait for a link that goes down.
    pub(super) fn drain_scheduler(&mut self, index: u32) {
        let Some(scheduler) = self.schedulers.get_mut(index as usize).and_then(Option::as_mut)
        else {
            return;
        };
        let mut lost = Vec::new();
        scheduler.drain(&self.packets.frames, |packet| lost.push(packet));
        self.ports[index as usize].set_queue(0, true);
        for packet in lost {
            self.pfc_left(index, packet);
            self.lose(packet);
        }
        self.wake(index, Time::NEVER);
    }
}
