//! Hosts whose uplink PFC pauses.

use tidegate_core::{Span, Time, Transmit, Transport};

use super::{Links, Uplinks};
use crate::measures::probe::Probe;
use crate::naming::Naming;
use crate::partition::clock::Source;
use crate::ports::uplink::Effect;
use crate::traffic::flows::Flows;

impl<N: Naming> Uplinks<N> {
    /// Pauses or resumes a class at a host.
    pub(in crate::partition) fn pause<P: Probe>(
        &mut self,
        links: &mut Links<P, N>,
        flows: &mut Flows,
        host: u32,
        class: u8,
        on: bool,
    ) {
        self.send_due(links, flows, host);
        self.send_while_paused(links, flows, host);
        let now = links.now();
        let uplink = &mut self.hosts[host as usize].uplink;
        let index = uplink.port();
        match uplink.pause(now, class, on, &mut links.ports[index as usize]) {
            Effect::Paused => self.set_event(links, host),
            Effect::Resumed => {
                links.clock.clear(Source::Wake(index));
                return self.poll_after_change(links, flows, host);
            }
            Effect::None => {}
        }
        self.send_while_paused(links, flows, host);
    }

    /// A transmission has ended while a class is paused: packets of other classes may leave.
    pub(in crate::partition) fn on_wake<P: Probe>(
        &mut self,
        links: &mut Links<P, N>,
        flows: &mut Flows,
        host: u32,
    ) {
        links.clock.clear(Source::Wake(self.hosts[host as usize].uplink.port()));
        self.send_while_paused(links, flows, host);
    }

    /// Ends all pauses of a host whose link has gone down or come back.
    pub(in crate::partition) fn clear_pauses<P: Probe>(
        &mut self,
        links: &mut Links<P, N>,
        host: u32,
    ) {
        let now = links.now();
        let uplink = &mut self.hosts[host as usize].uplink;
        let index = uplink.port();
        if uplink.clear_pauses(now, &mut links.ports[index as usize]) {
            links.clock.clear(Source::Wake(index));
        }
    }

    /// Sends what may leave a host while a class is paused: queued replies of other classes, and
    /// control packets of transports above all paused classes. Does nothing if no class is paused.
    #[inline]
    pub(in crate::partition) fn send_while_paused<P: Probe>(
        &mut self,
        links: &mut Links<P, N>,
        flows: &mut Flows,
        host: u32,
    ) {
        if self.hosts[host as usize].uplink.is_paused() {
            self.send_unpaused(links, flows, host);
        }
    }

    #[cold]
    #[inline(never)]
    fn send_unpaused<P: Probe>(&mut self, links: &mut Links<P, N>, flows: &mut Flows, host: u32) {
        let (now, index) = (links.now(), self.hosts[host as usize].uplink.port());
        while let Some(paused) = self.hosts[host as usize].uplink.free_while_paused(now)
            && let Some((packet, waited)) = self.next_unpaused(links, flows, host, paused)
        {
            links.launch(index, packet, now, waited);
            let port = &mut links.ports[index as usize];
            self.hosts[host as usize].uplink.sent_while_paused(port);
        }
        links.clock.set(Source::Wake(index), self.hosts[host as usize].uplink.frees_at(now));
        if P::EXPLICIT_DEQUEUES {
            links.schedule_explicit(index);
        }
    }

    /// The next packet of a class that is not paused, and how long it has waited.
    fn next_unpaused<P: Probe>(
        &mut self,
        links: &mut Links<P, N>,
        flows: &mut Flows,
        host: u32,
        paused: u8,
    ) -> Option<(u32, Span)> {
        let now: Time = links.now();
        let index = self.hosts[host as usize].uplink.port();
        let frames = &links.packets.frames;
        if let Some(packet) = links.ports[index as usize].dequeue_but(paused, frames) {
            return Some((packet, now.since(frames[packet as usize].at)));
        }
        let highest = paused.trailing_zeros() as u8;
        let (packets, packet) = (&mut links.packets, self.blank);
        let stack = self.hosts[host as usize].transports.poll(|transport| {
            match transport.transmit_above(highest, now, packets.get(packet)) {
                Transmit::Sent => Some(packets.frames[packet as usize].wire_bytes as u32),
                Transmit::Idle => None,
            }
        })?;
        self.complete(links, flows, host, stack, packet);
        self.blank = links.packets.alloc();
        Some((packet, Span::ZERO))
    }
}
