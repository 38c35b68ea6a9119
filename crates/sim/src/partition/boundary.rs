//! Packets that cross from one partition to another.
//!
//! Partitions run independently for a window. No packet can cross a boundary within a window,
//! because the window is shorter than the lookahead: the shortest time from the start of a
//! transmission to its landing in another partition. It is at most the lookahead minus 1 ps. At the
//! end of a window each partition commits its boundary ports, removes the started packets from
//! their links and sends them. They land in a later window. The receiving partition stores
//! only the link of such a port, not its queue. The link keeps the port's global ID, which breaks
//! ties between events at equal times, so a run gives the same bytes in any partitioning.

use std::ops::{DerefMut, Range};

use tidegate_core::{Body, Frame, Hop, Time};

use super::Partition;
use super::links::Links;
use crate::bytes::{Bytes, bytes};
use crate::measures::probe::Probe;
use crate::naming::Naming;
use crate::traffic::submission::Submission;

/// The own ports of a partition, and those of them that lead to other partitions.
pub(super) struct Boundary {
    /// Number of ports that belong to this partition. They come first.
    own_ports: u32,
    /// Own ports whose links end in another partition, with that partition; ordered by port. A
    /// sentinel packet stays at the head of such a link: the link is never empty, so it has no
    /// events here.
    crossing_ports: Vec<(u32, u32)>,
}

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

/// Packets and messages that one partition sends to another at the end of a window.
#[derive(Default)]
pub(crate) struct Mailbox {
    pub(super) crossings: Vec<Crossing>,
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
        for crossing in self.crossings.drain(..) {
            crossing.put(to);
            hops.by_ref().take(crossing.hops as usize).for_each(|hop| hop.put(to));
        }
        self.hops.clear();
    }

    /// Adds the contents of `from`; `None` if the bytes are malformed.
    pub(crate) fn read(&mut self, mut from: &[u8]) -> Option<()> {
        for _ in 0..u64::take(&mut from)? {
            self.started.push(Submission::take(&mut from)?);
        }
        while !from.is_empty() {
            let crossing = Crossing::take(&mut from)?;
            for _ in 0..crossing.hops {
                self.hops.push(Hop::take(&mut from)?);
            }
            self.crossings.push(crossing);
        }
        Some(())
    }
}

impl Boundary {
    /// Boundary ports are given with the partition that they lead to, ordered by port.
    pub(super) fn new(own_ports: u32, crossing_ports: Vec<(u32, u32)>) -> Boundary {
        Boundary { own_ports, crossing_ports }
    }

    /// Ports that belong to this partition.
    pub(super) fn own_ports(&self) -> Range<u32> {
        0..self.own_ports
    }

    /// Returns whether a port belongs to this partition.
    pub(super) fn is_own(&self, index: u32) -> bool {
        index < self.own_ports
    }

    /// Ports whose links end in another partition.
    pub(super) fn crossing_ports(&self) -> impl ExactSizeIterator<Item = u32> {
        self.crossing_ports.iter().map(|&(port, _)| port)
    }

    /// Takes the sentinel packet off a link, if it is a boundary link.
    pub(super) fn take_sentinel<P, N>(&self, links: &mut Links<P, N>, index: u32) -> Option<u32> {
        self.crossing_ports.binary_search_by_key(&index, |&(port, _)| port).ok()?;
        Some(links.ports[index as usize].land(&links.packets.frames).0)
    }

    /// Puts the sentinel packet on a boundary link from which everything has been taken.
    pub(super) fn put_sentinel<P, N>(&self, links: &mut Links<P, N>, index: u32, sentinel: u32) {
        links.ports[index as usize].append(sentinel, Time::NEVER, &mut links.packets.frames);
    }
}

impl<P: Probe, N: Naming> Partition<P, N> {
    /// Commits the boundary ports up to now and moves the packets that they have started to the
    /// mailboxes of other partitions, which `mail` returns. Returns the landing time of the first
    /// of these packets.
    pub(crate) fn fill_mailboxes<M: DerefMut<Target = Mailbox>>(
        &mut self,
        mail: impl Fn(u32) -> M,
    ) -> Time {
        let Partition { links, switching, boundary, generator, .. } = self;
        let mut first = Time::NEVER;
        for &(index, to) in &boundary.crossing_ports {
            switching.commit_port(links, index);
            let (sentinel, landing) = links.ports[index as usize].land(&links.packets.frames);
            if let Some(landing) = landing {
                first = first.min(landing);
                post(links, index, landing, &mut mail(to));
            }
            boundary.put_sentinel(links, index, sentinel);
        }
        for (to, submission) in generator.take_announced() {
            mail(to).started.push(submission);
        }
        first
    }

    /// Receives the contents of a mailbox.
    pub(crate) fn receive_mail(&mut self, mail: &mut Mailbox) {
        let Partition { links, switching, generator, flows, .. } = self;
        let mut hops = mail.hops.iter();
        for crossing in mail.crossings.drain(..) {
            let packet = links.packets.alloc();
            let p = links.packets.get(packet);
            (*p.frame, *p.body) = (crossing.frame, crossing.body);
            p.hops.clear();
            hops.by_ref().take(crossing.hops as usize).for_each(|hop| p.hops.push(*hop));
            links.append(links.index_of(crossing.port), packet, crossing.landing);
        }
        mail.hops.clear();
        for submission in mail.started.drain(..) {
            generator.expect(flows, switching.routing(), &submission);
        }
        generator.submit_all(&mut links.clock, &mut mail.submissions);
    }

    /// Time of the next event, or of the earliest start at a boundary port.
    pub(crate) fn next_at(&self) -> Time {
        let Partition { links, switching, boundary, .. } = self;
        let starts = boundary.crossing_ports().map(|port| switching.next_start(links, port));
        starts.min().unwrap_or(Time::NEVER).min(links.clock.next())
    }
}

/// Moves all packets on a link to `mail`. The first lands at `landing`.
fn post<P: Probe, N: Naming>(
    links: &mut Links<P, N>,
    index: u32,
    mut landing: Time,
    mail: &mut Mailbox,
) {
    let port = links.name(index);
    loop {
        let (packet, next) = links.ports[index as usize].land(&links.packets.frames);
        let p = links.packets.get(packet);
        let hops = p.hops.as_slice();
        mail.hops.extend_from_slice(hops);
        let hops = hops.len() as u32;
        mail.crossings.push(Crossing { port, hops, landing, frame: *p.frame, body: *p.body });
        links.packets.free(packet);
        match next {
            Some(next) => landing = next,
            None => return,
        }
    }
}
