//! Ports whose queues belong to a scheduler: joining, committing, waking.
//!
//! They are committed as lazily as others. A port has an event of its own, at its earliest start,
//! if it is idle and holds only packets that may not leave yet, or if PFC needs the exact times of
//! its departures.

use tidegate_core::{Frame, Span, Time, frame_flag};

use super::{Links, Switching};
use crate::measures::probe::Probe;
use crate::naming::Naming;
use crate::partition::clock::Source;
use crate::ports::port::flag;
use crate::ports::scheduler::Scheduler;

impl Switching {
    /// The scheduler of a port, if it has one.
    pub(in crate::partition) fn scheduler(&self, index: u32) -> Option<&Scheduler> {
        self.schedulers.get(index as usize)?.as_deref()
    }

    /// The scheduler of a port, if it has one.
    pub(in crate::partition) fn scheduler_mut(&mut self, index: u32) -> Option<&mut Scheduler> {
        self.schedulers.get_mut(index as usize)?.as_deref_mut()
    }

    /// Bytes of credits in a queue of their own at this port.
    pub(super) fn credit_bytes(&self, index: u32) -> u32 {
        self.scheduler(index).map_or(0, Scheduler::credit_bytes)
    }

    /// A packet joins a queue of a port that has a scheduler, or leaves at once if it may.
    #[cold]
    #[inline(never)]
    pub(super) fn join_scheduled<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switch: u32,
        index: u32,
        packet: u32,
    ) {
        if let Some(rack) = self.rack_at(index) {
            return self.join_voq(links, switch, rack, packet);
        }
        if links.packets.frames[packet as usize].flags & frame_flag::CREDIT != 0
            && self.scheduler(index).is_some_and(|scheduler| scheduler.has_credits())
        {
            return self.join_credits(links, switch, index, packet);
        }
        if self.overflows(links, switch, index, packet) {
            return self.drop_packet(links, switch, index, packet);
        }
        let frame = links.packets.frames[packet as usize];
        let now = links.now();
        if links.ports[index as usize].is_free(now)
            && self.scheduler_mut(index).is_some_and(|of| of.bypasses_queue(now, &frame))
        {
            // It is not buffered.
            if links.ports[index as usize].flags & flag::MARKS_EARLY != 0 {
                self.mark(links, index, packet);
            }
            return self.start(links, index, packet, now, Span::ZERO);
        }
        if !self.ingress_admits(links, switch, packet) {
            return self.drop_packet(links, switch, index, packet);
        }
        if links.ports[index as usize].flags & flag::MARKS_EARLY != 0 {
            self.mark(links, index, packet);
        }
        self.enqueue_scheduled(links, switch, index, packet, Scheduler::push);
        self.commit_joined(links, switch, index);
        self.pause_if_over(links, switch, packet, frame.priority & 7);
    }

    /// A credit joins the credit queue, which is not part of the switch's shared buffer.
    fn join_credits<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switch: u32,
        index: u32,
        packet: u32,
    ) {
        let (now, frame) = (links.now(), links.packets.frames[packet as usize]);
        let is_free = links.ports[index as usize].is_free(now);
        let Some(scheduler) = self.scheduler_mut(index) else { return };
        if is_free && scheduler.credit_bypasses_queue(now, &frame) {
            return self.start(links, index, packet, now, Span::ZERO);
        }
        if scheduler.refuses_credit(&frame) {
            // The count may be stale: queued credits may have left by now.
            self.commit_scheduled(links, index);
            if let Some(scheduler) =
                self.scheduler_mut(index).filter(|of| of.refuses_credit(&frame))
            {
                scheduler.credit_drops += 1;
                return links.discard(packet);
            }
        }
        self.push_scheduled(links, index, packet, Scheduler::push_credit);
        self.commit_joined(links, switch, index);
    }

    /// A packet has joined a queue of a port. The port is committed now, unless a later event will
    /// do so: it is sending, its link is not empty, and nothing needs to know when the packet
    /// leaves.
    fn commit_joined<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switch: u32,
        index: u32,
    ) {
        let waits = self.scheduler(index).is_some_and(|of| of.wakes_at == Time::NEVER)
            && links.ports[index as usize].free_at > links.now()
            && !links.ports[index as usize].link_is_empty();
        if !waits || self.needs_departures(switch) || P::EXPLICIT_DEQUEUES {
            self.commit_scheduled(links, index);
        }
        let port = &mut links.ports[index as usize];
        port.waits.max_bytes = port.waits.max_bytes.max(port.queue_bytes);
        self.record_occupancy(links, switch);
    }

    /// A packet joins a queue of a port and takes room in its switch's buffer.
    pub(super) fn enqueue_scheduled<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        switch: u32,
        index: u32,
        packet: u32,
        push: impl FnOnce(&mut Scheduler, u32, &mut [Frame]),
    ) {
        self.push_scheduled(links, index, packet, push);
        let wire = links.packets.frames[packet as usize].wire_bytes;
        self.switches[switch as usize].used += wire as u64;
    }

    fn push_scheduled<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        index: u32,
        packet: u32,
        push: impl FnOnce(&mut Scheduler, u32, &mut [Frame]),
    ) {
        let now = links.now();
        let port = &mut links.ports[index as usize];
        if port.flags & flag::HISTOGRAMS != 0 {
            self.histograms[index as usize].level(now, port.queue_bytes);
        }
        let Some(scheduler) = self.schedulers[index as usize].as_deref_mut() else { return };
        let frames = &mut links.packets.frames;
        frames[packet as usize].at = now;
        let wire = frames[packet as usize].wire_bytes as u32;
        push(scheduler, packet, frames);
        port.set_queue(port.queue_bytes + wire, false);
    }

    /// Starts every transmission that is due, and schedules an event for the next one if nothing
    /// else would start it.
    #[cold]
    #[inline(never)]
    pub(super) fn commit_scheduled<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        index: u32,
    ) {
        if let Some(rack) = self.rack_at(index) {
            return self.commit_rack(links, rack);
        }
        let now = links.now();
        loop {
            let Some(scheduler) = self.schedulers[index as usize].as_deref_mut() else { return };
            let port = &links.ports[index as usize];
            let start = match port.has_queue() && port.flags & flag::DOWN == 0 {
                true => scheduler.next_start(port.free_at, &links.packets.frames),
                false => Time::NEVER,
            };
            if start > now {
                if P::EXPLICIT_DEQUEUES {
                    links.schedule_explicit(index);
                }
                return self.wake(links, index, start);
            }
            let (port, frames) = (&mut links.ports[index as usize], &links.packets.frames);
            if port.flags & flag::HISTOGRAMS != 0 {
                self.histograms[index as usize].level(start, port.queue_bytes);
            }
            let packet = scheduler.pop(start, frames);
            let frame = &frames[packet as usize];
            let wire = frame.wire_bytes as u32;
            port.set_queue(port.queue_bytes - wire, scheduler.is_empty());
            let is_credit = frame.flags & frame_flag::CREDIT != 0 && scheduler.has_credits();
            let waited = port.end_wait(frame, start);
            if is_credit {
                scheduler.credit_byte_ps += i128::from(wire) * i128::from(waited.as_ps());
            } else {
                self.switches[port.owner as usize].used -= u64::from(wire);
            }
            self.start(links, index, packet, start, waited);
            self.uncount(links, index, packet);
        }
    }

    /// A port that was not allowed to send may be allowed now.
    pub(in crate::partition) fn on_wake<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        index: u32,
    ) {
        links.clock.clear(Source::Wake(index));
        if let Some(rack) = self.rack_at(index) {
            return self.on_rack_wake(links, rack);
        }
        self.scheduler_mut(index).into_iter().for_each(|of| of.wakes_at = Time::NEVER);
        self.commit_scheduled(links, index);
    }

    /// Schedules a commit of the port at `start` if no other event would do it.
    fn wake<P: Probe, N: Naming>(&mut self, links: &mut Links<P, N>, index: u32, start: Time) {
        let port = &links.ports[index as usize];
        let eager = P::EXPLICIT_DEQUEUES || self.needs_departures(port.owner);
        let at = if eager || port.link_is_empty() { start } else { Time::NEVER };
        let at = if at == Time::NEVER { at } else { links.clock.reach(at) };
        let Some(scheduler) = self.schedulers[index as usize].as_deref_mut() else { return };
        if std::mem::replace(&mut scheduler.wakes_at, at) != at {
            links.clock.set(Source::Wake(index), at);
        }
    }

    /// Earliest start of what a boundary port holds; [`Time::NEVER`] if it holds nothing.
    pub(in crate::partition) fn next_start<P: Probe, N: Naming>(
        &self,
        links: &Links<P, N>,
        index: u32,
    ) -> Time {
        let port = &links.ports[index as usize];
        let racks = self.racks.as_ref();
        if let Some(start) =
            racks.and_then(|racks| racks.start_of(index, &links.ports, &links.packets))
        {
            return start;
        }
        match self.scheduler(index) {
            _ if !port.has_queue() => Time::NEVER,
            Some(scheduler) => scheduler.next_start(port.free_at, &links.packets.frames),
            None => port.free_at,
        }
    }

    /// Drops all packets that wait for a link that has gone down.
    pub(super) fn drain_scheduler<P: Probe, N: Naming>(
        &mut self,
        links: &mut Links<P, N>,
        index: u32,
    ) {
        let now = links.now();
        let Some(scheduler) = self.scheduler_mut(index) else { return };
        scheduler.credit_byte_ps += scheduler.credits_waited(now, &links.packets.frames);
        let mut lost = Vec::new();
        scheduler.drain(&links.packets.frames, |packet| lost.push(packet));
        links.ports[index as usize].set_queue(0, true);
        for packet in lost {
            self.uncount(links, index, packet);
            links.lose(packet);
        }
        self.wake(links, index, Time::NEVER);
    }
}
