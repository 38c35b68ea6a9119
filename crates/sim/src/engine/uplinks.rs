//! Hosts: taking packets in, pulling packets out, deadlines, and what the generator asks of them.

use super::*;

impl<P: Probe> Engine<P> {
    #[inline(always)]
    pub(super) fn arrive_at_host(&mut self, host: u32, packet: u32) {
        let now = self.now;
        if self.hazardous && self.refuses(host, packet) {
            return;
        }
        self.pull(host);
        if P::ON {
            let p = self.packets.get(packet);
            self.probe.arrived(now, host, p.frame, p.body);
        }
        let h = &mut self.hosts[host as usize];
        let stack = self.packets.body(packet).transport;
        let reply =
            h.transport(stack, &self.setup.stacks).receive(now, self.packets.get(packet), &mut self.flows);
        h.quiet_until = Time::ZERO;
        match reply {
            Reply::Send => {
                let index = h.port;
                let frame = &mut self.packets.frames[packet as usize];
                if let Some(rng) = &mut self.spray {
                    frame.entropy = rng.bits() as u32;
                }
                let port = &mut self.ports[index as usize];
                if port.is_free(now) {
                    self.launch(index, packet, now, Time::ZERO);
                    if P::EXPLICIT_DEQUEUES {
                        self.schedule_explicit(index);
                    }
                } else {
                    port.enqueue(packet, now, &mut self.packets.frames);
                }
            }
            Reply::None => self.packets.free(packet),
        }
        if !self.pull(host) {
            self.arm(host);
        }
    }

    /// Lets everything leave a host that may leave up to and including now, replies first. False where nothing could have
    /// left, so that nothing was looked at.
    #[inline]
    pub(super) fn pull(&mut self, host: u32) -> bool {
        let h = &mut self.hosts[host as usize];
        let index = h.port;
        let port = &self.ports[index as usize];
        if port.free_at > self.now {
            return false;
        }
        if h.quiet_until > self.now && !port.has_queue() {
            h.pulled_until = self.now;
            return false;
        }
        self.pull_packets(host, index);
        self.arm(host);
        true
    }

    pub(super) fn pull_packets(&mut self, host: u32, index: u32) {
        let now = self.now;
        loop {
            let port = &mut self.ports[index as usize];
            let h = &mut self.hosts[host as usize];
            let start = port.free_at.max(h.pulled_until);
            if start > now {
                break;
            }
            h.pulled_until = start;
            if port.has_queue() {
                let packet = port.dequeue(&self.packets.frames);
                let waited = start.since(self.packets.frames[packet as usize].at);
                self.launch(index, packet, start, waited);
                continue;
            }
            let (packets, packet) = (&mut self.packets, self.blank);
            let sent = h.pull(|transport| match transport.transmit(start, packets.get(packet)) {
                Transmit::Sent => Some(packets.frames[packet as usize].wire_bytes as u32),
                Transmit::Idle => None,
            });
            let Some(stack) = sent else {
                let next = h.deadline();
                h.quiet_until = next;
                if next > now || next <= start {
                    h.pulled_until = now;
                    break;
                }
                h.pulled_until = next;
                continue;
            };
            let body = self.packets.body(packet);
            body.transport = stack;
            if body.flags & tidegate_core::body_flag::RETRANSMISSION != 0 {
                let (message, bytes) = (body.message as usize, body.payload_bytes as u64);
                if let Some(live) = self.flows.live.get_mut(message) {
                    live.record.retransmitted_bytes += bytes;
                }
            }
            if let Some(rng) = &mut self.spray {
                self.packets.frames[packet as usize].entropy = rng.bits() as u32;
            }
            self.launch(index, packet, start, Time::ZERO);
            self.blank = self.packets.alloc();
        }
        if P::EXPLICIT_DEQUEUES {
            self.schedule_explicit(index);
        }
    }

    /// Keeps the host's entry in the event list no later than its earliest deadline. One that has passed is a wish to
    /// transmit: the uplink is busy, and asks when it is free.
    #[inline]
    pub(super) fn arm(&mut self, host: u32) {
        let h = &mut self.hosts[host as usize];
        let deadline = h.deadline();
        if deadline < h.armed_at && deadline > self.now {
            let deadline = deadline.min(self.now.after(FAR));
            h.armed_at = deadline;
            let source = self.host_source(host);
            self.events.set(source, deadline);
        }
    }

    pub(super) fn on_host(&mut self, host: u32) {
        let now = self.now;
        self.hosts[host as usize].armed_at = Time::NEVER;
        self.events.clear(self.host_source(host));
        if self.hosts[host as usize].stopped {
            return;
        }
        self.pull(host);
        let h = &mut self.hosts[host as usize];
        for stack in 0..h.stacks() {
            if let Some(transport) = h.existing_mut(stack).filter(|transport| transport.deadline() <= now) {
                transport.on_deadline(now, &mut self.flows);
            }
        }
        h.quiet_until = Time::ZERO;
        if !self.pull(host) {
            self.arm(host);
        }
    }

    pub(super) fn schedule_generator(&mut self) {
        let at = self.generator.next_at();
        let source = self.generator_source();
        match at {
            Time::NEVER => self.events.clear(source),
            at => self.events.set(source, at.max(self.now)),
        }
    }

    pub(super) fn on_generator(&mut self) {
        let now = self.now;
        while self.work > 0
            && let Some(action) = self.generator.take(now)
        {
            // It costs as much as many events: paths are looked up, and a transport may be made.
            self.work = self.work.saturating_sub(64);
            let (host, slot, submit) = match action {
                Action::Submit(flow) => {
                    let unlimited = flow.bytes == Message::UNLIMITED;
                    let ideal = if unlimited {
                        Time::ZERO
                    } else {
                        self.routing.ideal(flow.src, flow.dst, flow.bytes)
                    };
                    let slot = self.flows.open(&flow, now, ideal);
                    if flow.stop < Time::NEVER {
                        self.generator.stop_at(flow.stop, slot);
                    }
                    (flow.src, slot, Some(flow))
                }
                Action::Stop(slot) => (self.flows.live[slot as usize].record.src, slot, None),
            };
            self.pull(host);
            let live = &mut self.flows.live[slot as usize];
            let transport = self.hosts[host as usize].transport(live.record.stack, &self.setup.stacks);
            match submit {
                Some(flow) => {
                    let message =
                        Message { id: slot, dst: flow.dst, bytes: flow.bytes, dedicated: flow.dedicated };
                    live.handle = transport.submit(now, message, &self.routing);
                }
                None => transport.stop(now, live.handle),
            }
            self.hosts[host as usize].quiet_until = Time::ZERO;
            if !self.pull(host) {
                self.arm(host);
            }
        }
        self.submitting = self.generator.next_at() <= now;
        self.schedule_generator();
    }
}
