//! Packets that go from part to part.
//!
//! Parts run beside each other for a window of time that no packet can cross a boundary within: the
//! shortest time from the start of a transmission to its landing in another partition. At the end
//! of a window each partition commits its ports at boundaries, takes what they have started off
//! their links and hands it over; it lands in a later window. The port's far end is in the other
//! partition, a link without a queue, and has the port's name there, so that equal times are
//! decided as in the whole.

use std::ops::DerefMut;

use tidegate_core::{Body, Frame};

use super::*;
use crate::bytes::{Bytes, bytes};

/// A packet that has started to leave one partition and lands in another.
pub(super) struct Crossing {
    /// The port that it left by, as the whole calls it.
    pub(super) port: u32,
    /// Hop records among those of the mail.
    pub(super) hops: u32,
    pub(super) landing: Time,
    pub(super) frame: Frame,
    pub(super) body: Body,
}

/// What one partition hands to another at the end of a window.
#[derive(Default)]
pub(crate) struct Mailbox {
    pub(super) parcels: Vec<Crossing>,
    pub(super) hops: Vec<Hop>,
    /// Flows that begin in a later window.
    pub(crate) submissions: Vec<Submission>,
    /// Messages that have begun at the one and arrive at the other.
    begun: Vec<Submission>,
}

bytes! {
    Crossing { port, hops, landing, frame, body }
}

impl Mailbox {
    /// Moves packets and messages that have begun to the end of `to`, as bytes. Flows of the feed
    /// stay: every process knows its own.
    pub(crate) fn write(&mut self, to: &mut Vec<u8>) {
        debug_assert!(self.submissions.is_empty());
        (self.begun.len() as u64).put(to);
        self.begun.drain(..).for_each(|submission| submission.put(to));
        let mut hops = self.hops.iter();
        for parcel in self.parcels.drain(..) {
            parcel.put(to);
            hops.by_ref().take(parcel.hops as usize).for_each(|hop| hop.put(to));
        }
        self.hops.clear();
    }

    /// Adds what is in these bytes; `None` where they are others.
    pub(crate) fn read(&mut self, mut from: &[u8]) -> Option<()> {
        for _ in 0..u64::take(&mut from)? {
            self.begun.push(Submission::take(&mut from)?);
        }
        while !from.is_empty() {
            let parcel = Crossing::take(&mut from)?;
            for _ in 0..parcel.hops {
                self.hops.push(Hop::take(&mut from)?);
            }
            self.parcels.push(parcel);
        }
        Some(())
    }
}

impl<P: Probe, N: Naming> Partition<P, N> {
    /// Commits the ports at boundaries up to now, and hands over what they have started: `mail` is
    /// by part. Says when the first of it lands.
    pub(crate) fn hand_over<M: DerefMut<Target = Mailbox>>(
        &mut self,
        mail: impl Fn(u32) -> M,
    ) -> Time {
        let mut first = Time::NEVER;
        for at in 0..self.boundaries.len() {
            let (index, to) = self.boundaries[at];
            self.commit_switch_port(index);
            let (sentinel, landing) = self.ports[index as usize].land(&self.packets.frames);
            if let Some(landing) = landing {
                first = first.min(landing);
                self.post(index, landing, &mut mail(to));
            }
            self.shut(index, sentinel);
        }
        for (to, submission) in
            self.dependents.iter_mut().flat_map(|dependents| dependents.take_announced())
        {
            mail(to).begun.push(submission);
        }
        first
    }

    /// Puts the gate back on a link at a boundary from which everything has been taken.
    pub(super) fn shut(&mut self, index: u32, sentinel: u32) {
        self.ports[index as usize].append(sentinel, Time::NEVER, &mut self.packets.frames);
    }

    /// Moves all packets on a link, of which the first lands at `landing`, to `mail`.
    fn post(&mut self, index: u32, mut landing: Time, mail: &mut Mailbox) {
        let port = self.port_names.name(index);
        loop {
            let (packet, next) = self.ports[index as usize].land(&self.packets.frames);
            let p = self.packets.get(packet);
            let hops = p.hops.as_slice();
            mail.hops.extend_from_slice(hops);
            let hops = hops.len() as u32;
            mail.parcels.push(Crossing { port, hops, landing, frame: *p.frame, body: *p.body });
            self.packets.free(packet);
            match next {
                Some(next) => landing = next,
                None => return,
            }
        }
    }

    /// Takes in what another partition has handed over.
    pub(crate) fn take_in(&mut self, mail: &mut Mailbox) {
        let mut hops = mail.hops.iter();
        for parcel in mail.parcels.drain(..) {
            let packet = self.packets.alloc();
            let p = self.packets.get(packet);
            (*p.frame, *p.body) = (parcel.frame, parcel.body);
            p.hops.clear();
            hops.by_ref().take(parcel.hops as usize).for_each(|hop| p.hops.push(*hop));
            let index = self.port_names.here(parcel.port);
            let port = &mut self.ports[index as usize];
            if port.append(packet, parcel.landing, &mut self.packets.frames) {
                self.events.set(index, parcel.landing);
            }
        }
        mail.hops.clear();
        mail.begun.drain(..).for_each(|submission| self.expect(&submission));
        if !mail.submissions.is_empty() {
            mail.submissions.drain(..).for_each(|submission| self.agenda.submit(submission));
            self.schedule_generator();
        }
    }

    /// When something happens next, or may be started at a boundary.
    pub(crate) fn next_at(&self) -> Time {
        let waiting =
            (0..self.boundaries.len()).map(|at| self.next_start(self.boundaries[at].0)).min();
        waiting.unwrap_or(Time::NEVER).min(self.events.next())
    }
}
