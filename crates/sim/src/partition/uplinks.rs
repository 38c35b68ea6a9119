//! Hosts: delivering packets, pulling packets out, deadlines, and submissions of the generator.

use super::*;
use crate::ports::uplink::Step;

impl<P: Probe, N: Naming> Partition<P, N> {
    /// Delivers a packet to its transport.
    #[inline(always)]
    pub(super) fn deliver(&mut self, host: u32, packet: u32, landed: Time) {
        let now = self.now;
        self.pull(host);
        if P::ON {
            let p = self.packets.get(packet);
            self.probe.arrived(now, host, p.frame, p.body);
        }
        let h = &mut self.hosts[host as usize];
        let stack = self.packets.body(packet).transport;
        let mut sink = FeedbackSink { flows: &mut self.flows, probe: &mut self.probe, landed };
        let reply = h.transports.transport(stack, &self.setup.stacks).receive(
            now,
            self.packets.get(packet),
            &mut sink,
        );
        match reply {
            Reply::Send | Reply::Echo => {
                let index = h.uplink.port();
                let frame = &mut self.packets.frames[packet as usize];
                if let Some(rng) = self.spray.get_mut(host as usize) {
                    frame.entropy = rng.bits() as u32;
                }
                let port = &mut self.ports[index as usize];
                if port.is_free(now) {
                    self.launch(index, packet, now, Span::ZERO);
                    if P::EXPLICIT_DEQUEUES {
                        self.schedule_explicit(index);
                    }
                } else {
                    port.enqueue(packet, now, &mut self.packets.frames);
                }
            }
            Reply::None => self.packets.free(packet),
        }
        if reply != Reply::Echo {
            self.look_again(host);
        }
        if !self.flows.awaited.is_empty() {
            self.start_dependents();
        }
    }

    /// Messages with dependents have arrived: schedules the messages that follow.
    #[cold]
    fn start_dependents(&mut self) {
        let Some(dependents) = &mut self.dependents else { return };
        for id in self.flows.awaited.drain(..) {
            let asked = &mut self.flows.done.asked;
            dependents.arrived(id, self.now, asked, |next| self.agenda.start_dependent(next));
        }
        self.schedule_generator();
    }

    /// Sends everything that may leave a host up to and including now, replies first. Returns
    /// `false` if nothing could have left, so that nothing was polled.
    #[inline]
    pub(super) fn pull(&mut self, host: u32) -> bool {
        let uplink = &mut self.hosts[host as usize].uplink;
        let index = uplink.port();
        if uplink.rests(self.now, &self.ports[index as usize]) {
            return false;
        }
        self.pull_packets(host, index);
        self.arm(host);
        true
    }

    fn pull_packets(&mut self, host: u32, index: u32) {
        let now = self.now;
        loop {
            let port = &mut self.ports[index as usize];
            let Host { uplink, transports } = &mut self.hosts[host as usize];
            match uplink.next_step(now, port) {
                Step::Reply(start) => {
                    let packet = port.dequeue(&self.packets.frames);
                    let waited = start.since(self.packets.frames[packet as usize].at);
                    self.launch(index, packet, start, waited);
                }
                Step::Poll(start) => {
                    let (packets, packet) = (&mut self.packets, self.blank);
                    let sent = transports.poll(|transport| {
                        match transport.transmit(start, packets.get(packet)) {
                            Transmit::Sent => {
                                Some(packets.frames[packet as usize].wire_bytes as u32)
                            }
                            Transmit::Idle => None,
                        }
                    });
                    let Some(stack) = sent else {
                        match uplink.polled_in_vain(start, now, transports) {
                            true => continue,
                            false => break,
                        }
                    };
                    self.complete(host, stack, packet);
                    self.launch(index, packet, start, Span::ZERO);
                    self.blank = self.packets.alloc();
                }
                Step::Done => break,
            }
        }
        if P::EXPLICIT_DEQUEUES {
            self.schedule_explicit(index);
        }
    }

    /// Fills in the driver's fields of a packet that a transport of `host` sends.
    #[inline(always)]
    pub(super) fn complete(&mut self, host: u32, stack: u16, packet: u32) {
        let body = self.packets.body(packet);
        body.transport = stack;
        if body.is_retransmission {
            let src = self.hosts[host as usize].transports.host();
            self.flows.resent(MessageId { src, id: body.message }, body.payload_bytes);
        }
        if let Some(rng) = self.spray.get_mut(host as usize) {
            self.packets.frames[packet as usize].entropy = rng.bits() as u32;
        }
    }

    /// Moves the host's event to an earlier time if its uplink needs that.
    #[inline]
    pub(super) fn arm(&mut self, host: u32) {
        let Host { uplink, transports } = &mut self.hosts[host as usize];
        let port = &self.ports[uplink.port() as usize];
        if let Some(at) = uplink.arm(self.now, port, transports, !P::EXPLICIT_DEQUEUES) {
            self.events.set(self.host_source(host), at);
        }
    }

    /// The event of a host: handles its timers.
    pub(super) fn on_host(&mut self, host: u32) {
        let now = self.now;
        self.events.clear(self.host_source(host));
        if !self.hosts[host as usize].uplink.take_event(now) {
            return;
        }
        self.pull(host);
        let Host { uplink, transports } = &mut self.hosts[host as usize];
        for stack in 0..transports.stacks() {
            if let Some(transport) =
                transports.existing_mut(stack).filter(|transport| transport.deadline() <= now)
            {
                let mut sink =
                    FeedbackSink { flows: &mut self.flows, probe: &mut self.probe, landed: now };
                transport.on_deadline(now, &mut sink);
            }
        }
        uplink.changed();
        if !self.flows.awaited.is_empty() {
            self.start_dependents();
        }
        if !self.pull(host) {
            self.arm(host);
        }
        self.pull_though_paused(host);
    }

    pub(crate) fn schedule_generator(&mut self) {
        let at = self.agenda.next_at();
        let source = self.generator_source();
        match at {
            Time::NEVER => self.events.clear(source),
            at => self.events.set(source, at.clamp(self.now, self.now.after(FAR))),
        }
    }

    pub(super) fn on_generator(&mut self) {
        let now = self.now;
        while self.work > 0
            && let Some(action) = self.agenda.take(now)
        {
            // A submission costs as much as many events: it looks up paths and may create a
            // transport.
            self.work = self.work.saturating_sub(64);
            match action {
                Action::Submit(submission) => self.begin(&submission),
                Action::Stop(slot) => self.stop(slot),
            }
        }
        self.submitting = self.agenda.next_at() <= now;
        self.schedule_generator();
    }

    /// Starts a flow that has at least one end in this partition.
    fn begin(&mut self, submission: &Submission) {
        let flow = &submission.flow;
        if self.local_host(flow.dst).is_some() {
            self.expect(submission);
        } else if let Some(dependents) = &mut self.dependents {
            dependents.announce(submission);
        }
        if let Some(host) = self.local_host(flow.src) {
            self.submit(host, submission);
        }
    }

    /// Registers a flow that will arrive in this partition.
    pub(super) fn expect(&mut self, submission: &Submission) {
        let flow = &submission.flow;
        let path = self.routing.path(flow.src, flow.dst);
        let full = self.setup.sizes(flow.stack).data(path.mtu) as u64;
        self.flows.receive(submission, path.bottleneck_rate.serialise(full));
        if let Some(dependents) = &mut self.dependents {
            dependents.expect(submission);
        }
    }

    fn submit(&mut self, host: u32, submission: &Submission) {
        let (now, flow) = (self.now, &submission.flow);
        let unlimited = flow.bytes == Message::UNLIMITED;
        let sizes = self.setup.sizes(flow.stack);
        let ideal = match unlimited {
            true => Span::ZERO,
            false => self.routing.ideal(flow.src, flow.dst, flow.bytes, &sizes),
        };
        let slot = self.flows.send(submission, now, ideal);
        if unlimited && flow.stop < Time::NEVER {
            self.agenda.stop_at(flow.stop, slot);
        }
        self.pull(host);
        let message = Message {
            id: submission.number,
            dst: flow.dst,
            bytes: flow.bytes,
            dedicated: flow.dedicated,
            weight: self.setup.weights.get(flow.label as usize).copied().unwrap_or(1),
            role: self
                .dependents
                .as_ref()
                .map_or(Role::Alone, |dependents| dependents.role(submission.id)),
        };
        let transports = &mut self.hosts[host as usize].transports;
        let transport = transports.transport(flow.stack, &self.setup.stacks);
        self.flows.get(slot).handle = transport.submit(now, message, &self.routing);
        self.look_again(host);
        self.pull_though_paused(host);
    }

    /// Ends the unlimited flow in `slot`.
    fn stop(&mut self, slot: u32) {
        let sending = self.flows.get(slot);
        let (src, stack, handle) = (sending.flow.src, sending.flow.stack, sending.handle);
        let Some(host) = self.local_host(src) else { return };
        self.pull(host);
        let transports = &mut self.hosts[host as usize].transports;
        transports.transport(stack, &self.setup.stacks).stop(self.now, handle);
        self.look_again(host);
    }

    /// Polls a host after something has happened at it: it may have more to send.
    pub(super) fn look_again(&mut self, host: u32) {
        self.hosts[host as usize].uplink.changed();
        if !self.pull(host) {
            self.arm(host);
        }
    }

    /// Ends submissions and stops unlimited flows.
    pub(crate) fn close_to_arrivals(&mut self) {
        self.agenda.close();
        if let Some(dependents) = &mut self.dependents {
            dependents.close();
        }
        for slot in self.flows.unlimited(self.now) {
            self.stop(slot);
        }
    }
}

/// Receives the reports of transports.
struct FeedbackSink<'a, P> {
    flows: &'a mut Flows,
    probe: &'a mut P,
    /// When the current packet came off its link.
    landed: Time,
}

impl<P: Probe> Application for FeedbackSink<'_, P> {
    #[inline]
    fn delivered(&mut self, now: Time, message: MessageId, _offset: u64, bytes: u32) {
        let id = self.flows.delivered(now, self.landed, message, bytes);
        if P::ON
            && let Some(id) = id
        {
            self.probe.delivered(now, id, bytes);
        }
    }
    fn completed(&mut self, now: Time, message: MessageId) {
        self.flows.completed(now, message);
    }
    fn acked(&mut self, now: Time, message: MessageId) {
        self.flows.acked(now, message);
    }
    #[inline]
    fn feedback(&mut self, now: Time, feedback: &Feedback) {
        if P::ON
            && let Some(id) = self.flows.id(feedback.message)
        {
            self.probe.feedback(now, id, feedback);
        }
    }
}
