//! A switch that is a part of its own, all of whose ports are borders: packets come from whoever
//! drives it and go back there.

use std::cell::RefCell;

use tidegate_core::{Body, HopTrace};

use super::*;
use crate::lone_switch::{Leaving, Packet};

impl<N: Naming> Part<(), N> {
    /// What is measured is asked for in between: no samples are taken.
    pub(crate) fn without_samples(mut self) -> Self {
        self.closed = true;
        self
    }

    /// All that happens until `now` has happened.
    pub(crate) fn come_to(&mut self, now: Time) {
        self.work = u64::MAX;
        self.run_until(now);
    }

    /// A packet is here in full; whether the switch takes it.
    pub(crate) fn admit(&mut self, packet: &Packet) -> bool {
        let before = self.packets.in_use();
        let slot = self.packets.alloc();
        let p = self.packets.get(slot);
        (*p.frame, *p.hops) = (packet.frame, packet.hops);
        *p.body = Body { message: packet.number, ..Body::default() };
        self.arrive_at_switch(0, slot);
        self.packets.in_use() > before
    }

    /// Hands over what has begun to leave by now.
    pub(crate) fn release(&mut self, mail: &RefCell<Mail>, out: &mut Vec<Leaving>) {
        self.hand_over(|_| mail.borrow_mut());
        let Mail { parcels, hops: records, .. } = &mut *mail.borrow_mut();
        let mut hops = records.iter();
        for parcel in parcels.drain(..) {
            let index = self.port_names.here(parcel.port);
            let port = &self.ports[index as usize];
            let end = parcel.landing.before(port.delay);
            let mut trace = HopTrace::default();
            hops.by_ref().take(parcel.hops as usize).for_each(|hop| trace.push(*hop));
            out.push(Leaving {
                packet: Packet { number: parcel.body.message, frame: parcel.frame, hops: trace },
                start: end.before(port.serialise(parcel.frame.wire_bytes)),
                end,
                landing: parcel.landing,
            });
        }
        records.clear();
    }

    /// When the next packet begins to leave, if nothing else arrives before.
    pub(crate) fn next_start_of_all(&self) -> Time {
        self.next_at_borders()
    }

    /// What the ports and the switch have done so far.
    pub(crate) fn records_so_far(&mut self) -> (Vec<LinkRecord>, SwitchRecord) {
        let links = self.records().0.into_iter().map(|(_, link)| link).collect();
        (links, self.switch_record(0, self.now))
    }
}
