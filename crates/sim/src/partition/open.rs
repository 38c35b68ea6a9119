//! A part that has all switches of a fabric and none of its hosts: packets come from whoever drives
//! it and go back there.

use std::cell::RefCell;
use std::sync::Arc;

use tidegate_core::{Body, HopTrace};

use super::*;
use crate::open_fabric::{Leaving, Packet};

impl<P: Probe, N: Naming> Partition<P, N> {
    /// What is measured is asked for in between: no samples are taken. Nor is anybody there to be
    /// asked for a packet when the link of a host is free.
    pub(crate) fn open(mut self) -> Self {
        self.closed = true;
        self.ports[self.own_ports..].iter_mut().for_each(|port| port.owner = port.to);
        self
    }

    /// All that happens until `now` happens.
    pub(crate) fn come_to(&mut self, now: Time) {
        self.work = u64::MAX;
        self.run_until(now);
    }

    /// A packet lands from the uplink of its sender, behind those that have.
    pub(crate) fn enter(&mut self, host: u32, landing: Time, packet: &Packet) {
        let slot = self.packets.alloc();
        let p = self.packets.get(slot);
        (*p.frame, *p.hops) = (packet.frame, packet.hops);
        *p.body = Body { message: packet.number, ..Body::default() };
        let index = self.port_names.here(self.routing.uplink(host));
        let port = &mut self.ports[index as usize];
        if port.append(slot, landing, &mut self.packets.frames) {
            self.events.set(index, landing);
        }
    }

    /// What is measured begins there, which is now.
    pub(crate) fn measure_from(&mut self, now: Time) {
        Arc::make_mut(&mut self.setup).warmup = now;
        self.warm_up();
    }

    /// Hands over what has begun to leave for hosts by now.
    pub(crate) fn release(&mut self, mail: &RefCell<Mailbox>, out: &mut Vec<Leaving>) {
        self.hand_over(|_| mail.borrow_mut());
        let Mailbox { parcels, hops: records, .. } = &mut *mail.borrow_mut();
        let mut hops = records.iter();
        for parcel in parcels.drain(..) {
            let index = self.port_names.here(parcel.port);
            let port = &self.ports[index as usize];
            let end = parcel.landing.before(port.delay);
            let mut trace = HopTrace::default();
            hops.by_ref().take(parcel.hops as usize).for_each(|hop| trace.push(*hop));
            let packet = Packet { number: parcel.body.message, frame: parcel.frame, hops: trace };
            let start = end.before(port.serialise(parcel.frame.wire_bytes));
            out.push(Leaving { packet, start, end, landing: parcel.landing });
        }
        records.clear();
    }
}
