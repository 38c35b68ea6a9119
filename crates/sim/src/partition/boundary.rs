//! Packets that cross from one partition to another.
//!
//! Partitions run independently for a window. No packet can cross a boundary within a window,
//! because its length is at most the shortest time from the start of a transmission to its landing
//! in another partition. At the end of a window each partition commits its boundary ports, removes
//! the started packets from their links and hands them over. They land in a later window. The
//! receiving partition stores only the link of such a port, not its queue. The link keeps the
//! port's global ID, which breaks ties between events at equal times, so a run gives the same bytes
//! in any partitioning.

use std::ops::DerefMut;

use tidegate_core::{Body, Frame};

use super::*;
use crate::bytes::{Bytes, bytes};

/// A packet whose transmission has started in one partition and which lands in another.
pub(super) struct Crossing {
    /// Global ID of the port that it left by.
    pub(super) port: u32,
    /// Number of its hop records in [`Mailbox::hops`].
    pub(super) hops: u32,
    pub(super) landing: Time,
    pub(super) frame: Frame,
    pub(super) body: Body,
}

/// Packets and messages that one partition hands to another at the end of a window.
#[derive(Default)]
pub(crate) struct Mailbox {
    pub(super) parcels: Vec<Crossing>,
    pub(super) hops: Vec<Hop>,
    /// Flows that start in a later window.
    pub(crate) submissions: Vec<Submission>,
    /// Dependent messages that the sending partition has started and the receiving one must expect.
    started: Vec<Submission>,
}

bytes! {
    Crossing { port, hops, landing, frame, body }
}

impl Mailbox {
    /// Serialises the packets and the started messages, and appends them to `to`. Flows of the feed
    /// are not included: every process draws all of them itself.
    pub(crate) fn write(&mut self, to: &mut Vec<u8>) {
        debug_assert!(self.submissions.is_empty());
        (self.started.len() as u64).put(to);
        self.started.drain(..).for_each(|submission| submission.put(to));
        let mut hops = self.hops.iter();
        for parcel in self.parcels.drain(..) {
            parcel.put(to);
            hops.by_ref().take(parcel.hops as usize).for_each(|hop| hop.put(to));
        }
        self.hops.clear();
    }

    /// Adds the contents of `from`; `None` if the bytes are malformed.
    pub(crate) fn read(&mut self, mut from: &[u8]) -> Option<()> {
        for _ in 0..u64::take(&mut from)? {
            self.started.push(Submission::take(&mut from)?);
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
    /// Commits the boundary ports up to now and hands over the packets that they have started.
    /// `mail` returns the mailbox of a partition. Returns the landing time
    /// of the first of these packets.
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
            self.restore_sentinel(index, sentinel);
        }
        for (to, submission) in
            self.dependents.iter_mut().flat_map(|dependents| dependents.take_announced())
        {
            mail(to).started.push(submission);
        }
        first
    }

    /// Puts the sentinel packet back on a boundary link from which everything has been taken.
    pub(super) fn restore_sentinel(&mut self, index: u32, sentinel: u32) {
        self.ports[index as usize].append(sentinel, Time::NEVER, &mut self.packets.frames);
    }

    /// Moves all packets on a link to `mail`. The first lands at `landing`.
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

    /// Takes in the contents of a mailbox.
    pub(crate) fn take_in(&mut self, mail: &mut Mailbox) {
        let mut hops = mail.hops.iter();
        for parcel in mail.parcels.drain(..) {
            let packet = self.packets.alloc();
            let p = self.packets.get(packet);
            (*p.frame, *p.body) = (parcel.frame, parcel.body);
            p.hops.clear();
            hops.by_ref().take(parcel.hops as usize).for_each(|hop| p.hops.push(*hop));
            let index = self.port_names.index_of(parcel.port);
            let port = &mut self.ports[index as usize];
            if port.append(packet, parcel.landing, &mut self.packets.frames) {
                self.events.set(index, parcel.landing);
            }
        }
        mail.hops.clear();
        mail.started.drain(..).for_each(|submission| self.expect(&submission));
        if !mail.submissions.is_empty() {
            mail.submissions.drain(..).for_each(|submission| self.agenda.submit(submission));
            self.schedule_generator();
        }
    }

    /// Time of the next event, or of the earliest start at a boundary port.
    pub(crate) fn next_at(&self) -> Time {
        let waiting =
            (0..self.boundaries.len()).map(|at| self.next_start(self.boundaries[at].0)).min();
        waiting.unwrap_or(Time::NEVER).min(self.events.next())
    }
}
