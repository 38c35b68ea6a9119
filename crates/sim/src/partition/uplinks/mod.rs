//! Hosts: delivering packets, and polling their transports for packets and at deadlines.
//!
//! [`Uplink`](crate::ports::uplink::Uplink) decides the times; this module polls and sends at them.
//! [`paused`] contains the code for uplinks that PFC has paused. A *stack* is a protocol with its
//! parameters; a host has one transport for each stack that it uses.

mod paused;

use std::sync::Arc;

use tidegate_core::{
    Application, Domain, Feedback, Message, MessageId, PathOracle, Reply, Rng, Span, Time,
    Transmit, Transport,
};

use super::clock::Source;
use super::links::Links;
use crate::host::Host;
use crate::measures::probe::Probe;
use crate::naming::{NOWHERE, Naming};
use crate::ports::port::HOST;
use crate::ports::uplink::Step;
use crate::setup::Setup;
use crate::traffic::flows::{Flows, Sending};

/// The hosts of a partition.
pub(super) struct Uplinks<N> {
    hosts: Vec<Host>,
    names: N,
    /// Random streams by host, for the entropy of the packets that it sprays. Empty if no packets
    /// are sprayed.
    spray: Vec<Rng>,
    /// Unused packet slot, for the next packet that a transport sends.
    blank: u32,
    setup: Arc<Setup>,
}

impl<N: Naming> Uplinks<N> {
    /// For `hosts`, whose global IDs are `ids`. `blank` is an unused packet slot.
    pub(super) fn new(
        hosts: Vec<Host>,
        names: N,
        ids: &[u32],
        sprays: bool,
        blank: u32,
        setup: Arc<Setup>,
    ) -> Uplinks<N> {
        let stream = |&id: &u32| Rng::stream(setup.seed, Domain::Spray, id as u64);
        let spray = ids.iter().filter(|_| sprays).map(stream).collect();
        Uplinks { hosts, names, spray, blank, setup }
    }

    /// Local index of a host, if it belongs to this partition.
    pub(super) fn find(&self, host: u32) -> Option<u32> {
        Some(self.names.index_of(host)).filter(|&index| index != NOWHERE)
    }

    /// A host by its local index.
    pub(super) fn host(&self, host: u32) -> &Host {
        &self.hosts[host as usize]
    }

    /// Records that an outage has stopped a host, or has ended.
    pub(super) fn set_stopped(&mut self, host: u32, stopped: bool) {
        self.hosts[host as usize].uplink.set_stopped(stopped);
    }

    /// Sends the packets that are due, passes an arrived packet to its transport, and sends or
    /// queues the reply. `landed` is as in [`FeedbackSink`].
    #[inline(always)]
    pub(super) fn deliver<P: Probe>(
        &mut self,
        links: &mut Links<P, N>,
        flows: &mut Flows,
        host: u32,
        packet: u32,
        landed: Time,
    ) {
        let now = links.now();
        self.send_due(links, flows, host);
        if P::ON {
            let p = links.packets.get(packet);
            links.probe.arrived(now, host, p.frame, p.body);
        }
        let h = &mut self.hosts[host as usize];
        let stack = links.packets.body(packet).transport;
        let mut sink = FeedbackSink { flows, probe: &mut links.probe, landed };
        let reply = h.transports.transport(stack, &self.setup.stacks).receive(
            now,
            links.packets.get(packet),
            &mut sink,
        );
        match reply {
            Reply::Send | Reply::Echo => {
                let index = h.uplink.port();
                let frame = &mut links.packets.frames[packet as usize];
                if let Some(rng) = self.spray.get_mut(host as usize) {
                    frame.entropy = rng.bits() as u32;
                }
                let port = &mut links.ports[index as usize];
                if port.is_free(now) {
                    links.launch(index, packet, now, Span::ZERO);
                    if P::EXPLICIT_DEQUEUES {
                        links.schedule_explicit(index);
                    }
                } else {
                    port.enqueue(packet, now, &mut links.packets.frames);
                }
            }
            Reply::None => links.packets.free(packet),
        }
        if reply != Reply::Echo {
            self.poll_after_change(links, flows, host);
        }
    }

    /// Starts every transmission of a host that is due by now, at its true time: queued replies
    /// first, then packets of its transports. Returns `false` without a poll if the uplink is busy,
    /// down or paused, or if nothing is due. While a class is paused,
    /// [`send_while_paused`](Self::send_while_paused) sends what may leave, which is no data.
    #[inline]
    pub(super) fn send_due<P: Probe>(
        &mut self,
        links: &mut Links<P, N>,
        flows: &mut Flows,
        host: u32,
    ) -> bool {
        let uplink = &mut self.hosts[host as usize].uplink;
        let index = uplink.port();
        if uplink.has_nothing_due(links.now(), &links.ports[index as usize]) {
            return false;
        }
        self.send_due_packets(links, flows, host, index);
        self.set_event(links, host);
        true
    }

    fn send_due_packets<P: Probe>(
        &mut self,
        links: &mut Links<P, N>,
        flows: &mut Flows,
        host: u32,
        index: u32,
    ) {
        let now = links.now();
        loop {
            let port = &mut links.ports[index as usize];
            let Host { uplink, transports } = &mut self.hosts[host as usize];
            match uplink.next_step(now, port) {
                Step::Reply(start) => {
                    let packet = port.dequeue(&links.packets.frames);
                    let waited = start.since(links.packets.frames[packet as usize].at);
                    links.launch(index, packet, start, waited);
                }
                Step::Poll(start) => {
                    let (packets, packet) = (&mut links.packets, self.blank);
                    let sent = transports.poll(|transport| {
                        match transport.transmit(start, packets.get(packet)) {
                            Transmit::Sent => {
                                Some(packets.frames[packet as usize].wire_bytes as u32)
                            }
                            Transmit::Idle => None,
                        }
                    });
                    let Some(stack) = sent else {
                        match uplink.poll_found_nothing(start, now, transports) {
                            true => continue,
                            false => break,
                        }
                    };
                    self.complete(links, flows, host, stack, packet);
                    links.launch(index, packet, start, Span::ZERO);
                    self.blank = links.packets.alloc();
                }
                Step::Done => break,
            }
        }
        if P::EXPLICIT_DEQUEUES {
            links.schedule_explicit(index);
        }
    }

    /// Sets the stack of a packet that a transport of `host` sends and, with spraying, its entropy.
    /// Adds retransmitted bytes to the flow.
    #[inline(always)]
    fn complete<P: Probe>(
        &mut self,
        links: &mut Links<P, N>,
        flows: &mut Flows,
        host: u32,
        stack: u16,
        packet: u32,
    ) {
        let body = links.packets.body(packet);
        body.transport = stack;
        if body.is_retransmission {
            let src = self.hosts[host as usize].transports.host();
            flows.resent(MessageId { src, id: body.message }, body.payload_bytes);
        }
        if let Some(rng) = self.spray.get_mut(host as usize) {
            links.packets.frames[packet as usize].entropy = rng.bits() as u32;
        }
    }

    /// Sets the host's event, or moves it to an earlier time, if its uplink needs that.
    #[inline]
    pub(super) fn set_event<P: Probe>(&mut self, links: &mut Links<P, N>, host: u32) {
        let Host { uplink, transports } = &mut self.hosts[host as usize];
        let port = &links.ports[uplink.port() as usize];
        if let Some(at) = uplink.set_event(links.now(), port, transports, !P::EXPLICIT_DEQUEUES) {
            links.clock.set_host(host, at);
        }
    }

    /// The event of a host: sends the packets that are due, and calls every transport whose
    /// deadline has come.
    pub(super) fn on_event<P: Probe>(
        &mut self,
        links: &mut Links<P, N>,
        flows: &mut Flows,
        host: u32,
    ) {
        let now = links.now();
        links.clock.clear(Source::Host(host));
        if !self.hosts[host as usize].uplink.take_event(now) {
            return;
        }
        self.send_due(links, flows, host);
        let transports = &mut self.hosts[host as usize].transports;
        for stack in 0..transports.stacks() {
            if let Some(transport) =
                transports.existing_mut(stack).filter(|transport| transport.deadline() <= now)
            {
                let mut sink = FeedbackSink { flows, probe: &mut links.probe, landed: now };
                transport.on_deadline(now, &mut sink);
            }
        }
        self.poll_after_change(links, flows, host);
        self.send_while_paused(links, flows, host);
    }

    /// Polls a host after a change of its state, because its transports may have more to send.
    pub(super) fn poll_after_change<P: Probe>(
        &mut self,
        links: &mut Links<P, N>,
        flows: &mut Flows,
        host: u32,
    ) {
        self.hosts[host as usize].uplink.changed();
        if !self.send_due(links, flows, host) {
            self.set_event(links, host);
        }
    }

    /// Polls a host whose link has come back.
    pub(super) fn restart<P: Probe>(
        &mut self,
        links: &mut Links<P, N>,
        flows: &mut Flows,
        host: u32,
    ) {
        self.hosts[host as usize].uplink.changed();
        self.send_due(links, flows, host);
    }

    /// Submits a message of `stack` at its source, and stores its handle in `slot` of `flows`.
    pub(super) fn submit<P: Probe>(
        &mut self,
        links: &mut Links<P, N>,
        flows: &mut Flows,
        host: u32,
        (slot, stack): (u32, u16),
        message: Message,
        paths: &dyn PathOracle,
    ) {
        self.send_due(links, flows, host);
        let transports = &mut self.hosts[host as usize].transports;
        let transport = transports.transport(stack, &self.setup.stacks);
        flows.get(slot).handle = transport.submit(links.now(), message, paths);
        self.poll_after_change(links, flows, host);
        self.send_while_paused(links, flows, host);
    }

    /// Ends the unlimited flow in `slot`, if its source is in this partition.
    pub(super) fn stop<P: Probe>(&mut self, links: &mut Links<P, N>, flows: &mut Flows, slot: u32) {
        let Sending { flow, handle, .. } = flows.get(slot);
        let (src, stack, handle) = (flow.src, flow.stack, *handle);
        let Some(host) = self.find(src) else { return };
        self.send_due(links, flows, host);
        let transports = &mut self.hosts[host as usize].transports;
        transports.transport(stack, &self.setup.stacks).stop(links.now(), handle);
        self.poll_after_change(links, flows, host);
    }
}

/// Index of the host that a value of [`Port::to`](crate::ports::port::Port::to) or
/// [`Port::owner`](crate::ports::port::Port::owner) denotes; `None` for a switch.
#[inline(always)]
pub(super) fn host_of(node: u32) -> Option<u32> {
    (node & HOST != 0).then_some(node & !HOST)
}

/// Receives the reports of transports.
struct FeedbackSink<'a, P> {
    flows: &'a mut Flows,
    probe: &'a mut P,
    /// Time at which the current packet arrived at the end of its link, before injected delays and
    /// host software; the present at a deadline. At the start of the measured window, a packet
    /// counts with the bytes that the slowest link has carried from there until this time; at the
    /// end, it counts if it is delivered by then.
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
