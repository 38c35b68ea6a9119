//! A partition that has all switches of a fabric and none of its hosts. Its driver supplies and
//! collects the packets.

use std::cell::RefCell;

use tidegate_core::{Body, Frame, HopTrace, Time};

use super::{Mailbox, Partition};
use crate::measures::probe::Probe;
use crate::naming::Naming;

/// A packet as switches see it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Packet {
    /// Identifier that the caller chooses.
    pub number: u32,
    /// Addressed to the host `frame.dst`. The switches use `at` and `next`.
    pub frame: Frame,
    /// Bytes that switches may trim; 0 if they must not, or after they did.
    pub payload_bytes: u32,
    /// Hop records of earlier hops; after it has left, also those of these switches.
    pub hops: HopTrace,
}

/// A packet whose transmission to its host has started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leaving {
    /// The packet, with the marks and the telemetry of all switches.
    pub packet: Packet,
    /// Start of its transmission.
    pub start: Time,
    /// Time at which its last bit is on the link.
    pub end: Time,
    /// Time at which its last bit is at the host.
    pub landing: Time,
}

impl<P: Probe, N: Naming> Partition<P, N> {
    /// Takes no samples, because the driver queries measurements whenever it needs them. Host
    /// uplinks are owned by their switch, because there is no host to pull packets from when such a
    /// link runs empty.
    pub(crate) fn open(mut self) -> Self {
        self.measures.close();
        let inbound = self.links.ports.iter_mut().skip(self.boundary.own_ports().len());
        inbound.for_each(|port| port.owner = port.to);
        self
    }

    /// Handles all events up to and including `now`.
    pub(crate) fn advance_to(&mut self, now: Time) {
        self.work = u64::MAX;
        self.run_until(now);
    }

    /// A packet lands from the uplink of its sender, behind those already on it.
    pub(crate) fn enter(&mut self, host: u32, landing: Time, packet: &Packet) {
        let slot = self.links.packets.alloc();
        let p = self.links.packets.get(slot);
        (*p.frame, *p.hops) = (packet.frame, packet.hops);
        *p.body =
            Body { message: packet.number, payload_bytes: packet.payload_bytes, ..Body::default() };
        let index = self.links.index_of(self.switching.routing().uplink(host));
        self.links.append(index, slot, landing);
    }

    /// Hands over the packets whose transmission to a host has started by now.
    pub(crate) fn release(&mut self, mail: &RefCell<Mailbox>, out: &mut Vec<Leaving>) {
        self.fill_mailboxes(|_| mail.borrow_mut());
        let Mailbox { crossings, hops: records, .. } = &mut *mail.borrow_mut();
        let mut hops = records.iter();
        for crossing in crossings.drain(..) {
            let port = &self.links.ports[self.links.index_of(crossing.port) as usize];
            let end = crossing.landing.before(port.delay);
            let mut trace = HopTrace::default();
            hops.by_ref().take(crossing.hops as usize).for_each(|hop| trace.push(*hop));
            let packet = Packet {
                number: crossing.body.message,
                frame: crossing.frame,
                payload_bytes: crossing.body.payload_bytes,
                hops: trace,
            };
            let start = end.before(port.serialise(crossing.frame.wire_bytes));
            out.push(Leaving { packet, start, end, landing: crossing.landing });
        }
        records.clear();
    }
}
