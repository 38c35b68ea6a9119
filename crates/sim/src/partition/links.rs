//! The links of a partition, their ports, and the packets in them: all that hosts and switches use
//! in common.

use tidegate_core::{Rate, Span, Time};

use super::clock::Clock;
use crate::measures::probe::{Departure, Probe};
use crate::naming::{NOWHERE, Naming};
use crate::ports::packets::Packets;
use crate::ports::port::{HOST, Port, flag};

/// Links, ports, packets and the clock. Hosts and switches work directly on ports, packets and
/// clock; the other fields are private.
pub(super) struct Links<P, N> {
    pub(super) clock: Clock<N>,
    pub(super) packets: Packets,
    /// The ports that belong to this partition, then those of other partitions whose links end
    /// here.
    pub(super) ports: Vec<Port>,
    pub(super) probe: P,
    names: N,
    rates: Vec<Rate>,
    /// Landing time of the head of each link. Used only with explicit dequeues; otherwise the event
    /// list has it.
    landings: Vec<Time>,
    /// Packets lost on links, without a path, or queued for a link that went down.
    lost: u64,
}

/// A packet that has come off its link.
pub(super) struct Landed {
    pub(super) packet: u32,
    /// Node behind the link, as [`Port::to`].
    pub(super) to: u32,
    /// If the link is empty now: the node that sends on it, as [`Port::owner`].
    pub(super) sender: Option<u32>,
}

impl<P: Probe, N: Naming> Links<P, N> {
    /// `rates` are those of the links of `ports`, and `names` their global IDs.
    pub(super) fn new(
        clock: Clock<N>,
        packets: Packets,
        ports: Vec<Port>,
        names: N,
        rates: Vec<Rate>,
        probe: P,
    ) -> Links<P, N> {
        let explicit = if P::EXPLICIT_DEQUEUES { ports.len() } else { 0 };
        let landings = vec![Time::NEVER; explicit];
        Links { clock, packets, ports, probe, names, rates, landings, lost: 0 }
    }

    /// The present.
    #[inline(always)]
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Returns whether there is a port with this index.
    #[inline(always)]
    pub(super) fn has(&self, index: u32) -> bool {
        (index as usize) < self.ports.len()
    }

    /// Global ID of a port.
    #[inline(always)]
    pub(super) fn name(&self, index: u32) -> u32 {
        self.names.name(index)
    }

    /// Index of the port with a global ID, which must be in this partition.
    #[inline(always)]
    pub(super) fn index_of(&self, name: u32) -> u32 {
        self.names.index_of(name)
    }

    /// Index of the port with a global ID, if this partition has it.
    pub(super) fn find(&self, name: u32) -> Option<u32> {
        Some(self.names.index_of(name)).filter(|&index| index != NOWHERE)
    }

    /// The other direction of a port's link.
    pub(super) fn opposite(&self, index: u32) -> u32 {
        self.names.index_of(self.names.name(index) ^ 1)
    }

    /// Rate of a port.
    #[inline(always)]
    pub(super) fn rate(&self, index: u32) -> Rate {
        self.rates[index as usize]
    }

    /// Sets the rate of the transmissions that start from now on.
    #[inline]
    pub(super) fn set_rate(&mut self, index: u32, rate: Rate) {
        if rate != self.rates[index as usize] {
            self.rates[index as usize] = rate;
            self.ports[index as usize].set_rate(rate);
        }
    }

    /// Puts a packet on the wire.
    #[inline(always)]
    pub(super) fn launch(&mut self, index: u32, packet: u32, start: Time, waited: Span) {
        let queue_bytes = if P::ON { self.ports[index as usize].queue_bytes } else { 0 };
        self.launch_from(index, packet, start, waited, queue_bytes);
    }

    /// Like [`launch`](Self::launch), from a queue that now holds `queue_bytes`.
    #[inline(always)]
    pub(super) fn launch_from(
        &mut self,
        index: u32,
        packet: u32,
        start: Time,
        waited: Span,
        queue_bytes: u32,
    ) {
        if P::ON {
            let p = self.packets.get(packet);
            self.probe.departed(&Departure {
                at: start,
                port: self.names.name(index),
                waited,
                queue_bytes,
                frame: p.frame,
                body: p.body,
                hops: p.hops,
            });
        }
        let port = &mut self.ports[index as usize];
        if let Some(landing) = port.launch(packet, start, &mut self.packets.frames) {
            debug_assert!(
                landing >= self.clock.now(),
                "port {index} was committed too late, at {start}"
            );
            if P::EXPLICIT_DEQUEUES {
                self.landings[index as usize] = landing;
            } else {
                self.clock.set_link(index, landing);
            }
        }
    }

    /// Takes the packet that lands now off the link of the port `index`. If the link is empty then,
    /// the caller must let its sender start what is due, and clear its event if it stays empty.
    #[inline(always)]
    pub(super) fn land(&mut self, index: u32) -> Landed {
        let port = &mut self.ports[index as usize];
        let (packet, next) = port.land(&self.packets.frames);
        let (to, sender) = (port.to, next.is_none().then_some(port.owner));
        if P::EXPLICIT_DEQUEUES {
            self.landings[index as usize] = next.unwrap_or(Time::NEVER);
        }
        if let Some(next) = next {
            let behind = self.packets.frames[port.link_head() as usize].next;
            self.packets.prefetch(behind, to & HOST != 0);
            if !P::EXPLICIT_DEQUEUES {
                self.clock.set_link(index, next);
            }
        }
        Landed { packet, to, sender }
    }

    /// Appends a packet whose transmission has started elsewhere. It lands at `landing`, after all
    /// others on the link.
    pub(super) fn append(&mut self, index: u32, packet: u32, landing: Time) {
        let port = &mut self.ports[index as usize];
        if port.append(packet, landing, &mut self.packets.frames) {
            self.clock.set_link(index, landing);
        }
    }

    /// With explicit dequeues: returns whether the event of a port is the end of a transmission,
    /// not a landing.
    pub(super) fn ends_transmission(&self, index: u32) -> bool {
        self.landings[index as usize] != self.clock.now()
    }

    /// With explicit dequeues, the next event of a port is its next landing or the end of its
    /// transmission.
    pub(super) fn schedule_explicit(&mut self, index: u32) {
        let port = &self.ports[index as usize];
        let scheduled = port.flags & flag::SCHEDULED != 0;
        let wants_more = port.has_queue() && !scheduled || port.owner & HOST != 0;
        let dequeue =
            if wants_more && port.free_at > self.now() { port.free_at } else { Time::NEVER };
        match self.landings[index as usize].min(dequeue) {
            Time::NEVER => self.clock.clear_link(index),
            next => self.clock.set_link(index, next),
        }
    }

    /// Takes a link down, and discards every packet that is on it or queued for it.
    pub(super) fn cut(&mut self, index: u32) {
        let Packets { frames, free, .. } = &mut self.packets;
        let before = free.len();
        self.ports[index as usize].cut(frames, |packet| free.push(packet));
        self.lost += (free.len() - before) as u64;
        if P::EXPLICIT_DEQUEUES {
            self.landings[index as usize] = Time::NEVER;
        }
        self.clock.clear_link(index);
    }

    /// Drops a packet.
    #[cold]
    pub(super) fn discard(&mut self, packet: u32) {
        if P::ON {
            self.probe.dropped(self.packets.body(packet));
        }
        self.packets.free(packet);
    }

    /// Drops a packet that is lost on a link, or for which none is left.
    #[cold]
    pub(super) fn lose(&mut self, packet: u32) {
        self.lost += 1;
        self.discard(packet);
    }

    /// A link has lost a packet that had started on it.
    pub(super) fn lose_in_flight(&mut self, packet: u32) {
        self.lost += 1;
        self.packets.free(packet);
    }

    /// Packets lost so far.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}
