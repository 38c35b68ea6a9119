//! One direction of a link: the egress queue in front of it, and the packets on it.
//!
//! Both are lists through the packet slab. Only the head of the link is in the event list. The
//! queue is committed lazily: a commit starts every transmission that is due, at its true time. It
//! is done before anything touches the port and when its link runs empty. A packet that finds the
//! port free never enters the queue.

use tidegate_core::{Frame, Rate, Span, Time};

use crate::measures::histogram::Histogram;
use crate::ports::packets::NIL;

/// Top bit of [`Port::to`] and [`Port::owner`]: a host.
pub(crate) const HOST: u32 = 1 << 31;

/// Bits of [`Port::flags`].
pub(crate) mod flag {
    /// Stamps telemetry.
    pub(crate) const STAMPS: u8 = 1;
    /// Marks packets that join its queue.
    pub(crate) const MARKS_EARLY: u8 = 2;
    /// Its switch has a limited buffer or trims packets.
    pub(crate) const LIMITED: u8 = 4;
    /// Keeps histograms.
    pub(crate) const HISTOGRAMS: u8 = 8;
    /// Processes packets that find it free like those that wait: it marks even if nothing is
    /// queued, its telemetry has a limited resolution, or its scheduler may delay or refuse them.
    pub(crate) const NO_SHORTCUT: u8 = 16;
    /// Its link is down.
    pub(crate) const DOWN: u8 = 32;
    /// Its queues belong to a scheduler.
    pub(crate) const SCHEDULED: u8 = 64;
    /// Marks packets whose transmission starts.
    pub(crate) const MARKS_LATE: u8 = 128;
}

/// One direction of a link. Three cache lines; only packets that have to wait touch the third.
#[repr(C, align(64))]
pub(crate) struct Port {
    /// End of the transmission in progress.
    pub(crate) free_at: Time,
    /// Propagation, and the latency of the switch it leads to.
    pub(crate) delay: Span,
    ps_per_byte_q20: u64,
    /// Packets on the link.
    link_head: u32,
    link_tail: u32,
    /// Wire bytes sent.
    pub(crate) tx_bytes: u64,
    /// Packets sent.
    pub(crate) packets: u64,
    /// Wire bytes queued, without the packet in service. At most 4 GiB.
    pub(crate) queue_bytes: u32,
    /// Switch, or host with [`HOST`].
    pub(crate) to: u32,
    pub(crate) owner: u32,
    /// Bit p: priority p is not empty.
    occupied: u8,
    pub(crate) flags: u8,
    /// Index of its ECN configuration, if it marks.
    pub(crate) marking: u16,
    queues: [Fifo; 8],
    pub(crate) waits: Waits,
}

#[derive(Clone, Copy)]
struct Fifo {
    head: u32,
    tail: u32,
}

/// Sums over the packets that had to wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waits {
    /// Σ wire bytes · wait, in byte picoseconds: the time integral of the queue.
    pub(crate) byte_ps: u128,
    pub(crate) delay_ps: u128,
    pub(crate) max_delay: Span,
    pub(crate) max_bytes: u32,
    /// Packets that lost their payload here.
    pub(crate) trims: u32,
    pub(crate) drops: u64,
    pub(crate) marks: u64,
}

/// The compact histograms of one port.
#[derive(Default)]
pub(crate) struct PortHistograms {
    /// Waits in nanoseconds, by packet.
    pub(crate) delay_ns: Histogram,
    /// Queue in bytes, by time in nanoseconds.
    pub(crate) bytes: Histogram,
    changed_at: Time,
}

impl PortHistograms {
    /// Records that the queue held `bytes` until now.
    #[inline]
    pub(crate) fn level(&mut self, now: Time, bytes: u32) {
        self.bytes.add(bytes as u64, now.since(self.changed_at).as_ps() / 1_000);
        self.changed_at = now;
    }
    pub(crate) fn restart(&mut self, now: Time) {
        self.delay_ns.clear();
        self.bytes.clear();
        self.changed_at = now;
    }
}

/// The longest transmission time of a packet.
pub(crate) fn longest_flight(rate: Rate) -> Span {
    let ps = (u16::MAX as u128 * rate.ps_per_byte_q20() as u128) >> 20;
    Span::ps(ps as u64)
}

impl Port {
    pub(crate) fn new(rate: Rate, delay: Span, owner: u32, to: u32, flags: u8) -> Self {
        Port {
            free_at: Time::ZERO,
            delay,
            ps_per_byte_q20: rate.ps_per_byte_q20(),
            link_head: NIL,
            link_tail: NIL,
            tx_bytes: 0,
            packets: 0,
            queue_bytes: 0,
            to,
            owner,
            occupied: 0,
            flags,
            marking: 0,
            queues: [Fifo { head: NIL, tail: NIL }; 8],
            waits: Waits::default(),
        }
    }

    #[inline]
    pub(crate) fn has_queue(&self) -> bool {
        self.occupied != 0
    }

    /// Returns whether packets of several priorities are queued.
    #[inline]
    pub(crate) fn has_several_queues(&self) -> bool {
        self.occupied & self.occupied.wrapping_sub(1) != 0
    }

    /// Returns whether packets of `priority` are queued.
    pub(crate) fn has_queue_of(&self, priority: u8) -> bool {
        self.occupied & 1 << priority != 0
    }

    /// Returns whether a packet that arrives now leaves now.
    #[inline]
    pub(crate) fn is_free(&self, now: Time) -> bool {
        self.free_at <= now && self.occupied == 0
    }

    #[inline]
    pub(crate) fn serialise(&self, wire_bytes: u16) -> Span {
        Span::ps((wire_bytes as u64 * self.ps_per_byte_q20) >> 20)
    }

    /// Serialisation time of `bytes`, without limit.
    pub(crate) fn serialise_all(&self, bytes: u64) -> Span {
        Span::ps(((bytes as u128 * self.ps_per_byte_q20 as u128) >> 20) as u64)
    }

    /// Part of the transmission in progress that lies after `now`.
    pub(crate) fn busy_beyond(&self, now: Time) -> Span {
        if self.free_at == Time::NEVER { Span::ZERO } else { self.free_at.since(now) }
    }

    /// Sets the queue length to that of the port's scheduler.
    pub(crate) fn set_queue(&mut self, bytes: u32, is_empty: bool) {
        self.queue_bytes = bytes;
        self.occupied = !is_empty as u8;
    }

    /// Sets the rate of the transmissions that start from now on.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        self.ps_per_byte_q20 = rate.ps_per_byte_q20();
    }

    /// Appends `packet` to the queue of its priority.
    #[inline]
    pub(crate) fn enqueue(&mut self, packet: u32, now: Time, frames: &mut [Frame]) {
        let frame = &mut frames[packet as usize];
        frame.at = now;
        frame.next = NIL;
        self.queue_bytes += frame.wire_bytes as u32;
        let priority = frame.priority as usize & 7;
        let queue = &mut self.queues[priority];
        if self.occupied & 1 << priority == 0 {
            queue.head = packet;
        } else {
            frames[queue.tail as usize].next = packet;
        }
        queue.tail = packet;
        self.occupied |= 1 << priority;
    }

    /// Takes the next packet by strict priority. The queue must not be empty.
    #[inline]
    pub(crate) fn dequeue(&mut self, frames: &[Frame]) -> u32 {
        self.dequeue_of(self.occupied.trailing_zeros() as usize, frames)
    }

    /// Takes the next packet whose priority is not in `excluded` (one bit each), if any.
    pub(crate) fn dequeue_but(&mut self, excluded: u8, frames: &[Frame]) -> Option<u32> {
        let open = self.occupied & !excluded;
        (open != 0).then(|| self.dequeue_of(open.trailing_zeros() as usize, frames))
    }

    /// Takes the next packet of `priority`, whose queue must not be empty.
    #[inline(always)]
    pub(crate) fn dequeue_of(&mut self, priority: usize, frames: &[Frame]) -> u32 {
        let queue = &mut self.queues[priority];
        let packet = queue.head;
        let frame = &frames[packet as usize];
        queue.head = frame.next;
        if queue.head == NIL {
            self.occupied &= !(1 << priority);
        }
        self.queue_bytes -= frame.wire_bytes as u32;
        packet
    }

    /// Adds up the wait of a packet that leaves a queue of a switch at `start`, and returns it.
    #[inline(always)]
    pub(crate) fn end_wait(&mut self, frame: &Frame, start: Time) -> Span {
        let waited = start - frame.at;
        self.waits.byte_ps += frame.wire_bytes as u128 * waited.as_ps() as u128;
        self.waits.delay_ps += waited.as_ps() as u128;
        self.waits.max_delay = self.waits.max_delay.max(waited);
        waited
    }

    /// Puts `packet` on the link at `start`. Returns its landing time if the link was empty, so
    /// that the caller sets its event.
    #[inline]
    pub(crate) fn launch(
        &mut self,
        packet: u32,
        start: Time,
        frames: &mut [Frame],
    ) -> Option<Time> {
        let frame = &mut frames[packet as usize];
        let wire = frame.wire_bytes;
        self.free_at = start + self.serialise(wire);
        let landing = self.free_at + self.delay;
        self.tx_bytes += wire as u64;
        self.packets += 1;
        self.append(packet, landing, frames).then_some(landing)
    }

    /// Appends `packet`, which lands after all others, to the link. Returns whether the link was
    /// empty, so that the caller sets its event.
    #[inline(always)]
    pub(crate) fn append(&mut self, packet: u32, landing: Time, frames: &mut [Frame]) -> bool {
        frames[packet as usize].next = NIL;
        let was_empty = self.link_head == NIL;
        if was_empty {
            self.link_head = packet;
        } else {
            let before = &mut frames[self.link_tail as usize];
            (before.next, before.at) = (packet, landing);
        }
        self.link_tail = packet;
        was_empty
    }

    /// Takes the packet that reaches the far end. Also returns the landing time of the next one.
    #[inline]
    pub(crate) fn land(&mut self, frames: &[Frame]) -> (u32, Option<Time>) {
        let packet = self.link_head;
        let frame = &frames[packet as usize];
        self.link_head = frame.next;
        (packet, (frame.next != NIL).then_some(frame.at))
    }

    /// The packet that lands next, or [`NIL`].
    #[inline]
    pub(crate) fn link_head(&self) -> u32 {
        self.link_head
    }

    #[inline]
    pub(crate) fn link_is_empty(&self) -> bool {
        self.link_head == NIL
    }

    /// Takes the link down, and removes every packet that is on it or queued for it.
    pub(crate) fn cut(&mut self, frames: &[Frame], mut lost: impl FnMut(u32)) {
        while self.link_head != NIL {
            lost(self.land(frames).0);
        }
        while self.has_queue() {
            lost(self.dequeue(frames));
        }
        self.free_at = Time::NEVER;
        self.flags |= flag::DOWN;
    }

    /// Brings the link up.
    pub(crate) fn bring_up(&mut self, now: Time) {
        self.free_at = now;
        self.flags &= !flag::DOWN;
    }

    /// Bytes in the queue of `priority`.
    pub(crate) fn bytes_of(&self, priority: u8, frames: &[Frame]) -> u32 {
        self.packets_of(priority, frames)
            .map(|packet| frames[packet as usize].wire_bytes as u32)
            .sum()
    }

    /// The last packet in the queue of `priority`.
    pub(crate) fn last_of(&self, priority: u8) -> Option<u32> {
        self.has_queue_of(priority).then_some(self.queues[priority as usize].tail)
    }

    /// Puts `packet` in the place of the last packet in the queue of `priority`, which must not be
    /// empty, and returns that packet.
    pub(crate) fn replace_last(
        &mut self,
        priority: u8,
        packet: u32,
        now: Time,
        frames: &mut [Frame],
    ) -> u32 {
        let Fifo { head, tail: last } = self.queues[priority as usize];
        let before = self.packets_of(priority, frames).find(|&at| frames[at as usize].next == last);
        match before {
            Some(before) => frames[before as usize].next = packet,
            None => self.queues[priority as usize].head = packet,
        }
        debug_assert!(before.is_some() || head == last);
        self.queues[priority as usize].tail = packet;
        self.queue_bytes += frames[packet as usize].wire_bytes as u32;
        self.queue_bytes -= frames[last as usize].wire_bytes as u32;
        let frame = &mut frames[packet as usize];
        (frame.at, frame.next) = (now, NIL);
        last
    }

    /// Packets in the queue of `priority`, in order.
    fn packets_of<'a>(
        &'a self,
        priority: u8,
        frames: &'a [Frame],
    ) -> impl Iterator<Item = u32> + 'a {
        let first = self.has_queue_of(priority).then_some(self.queues[priority as usize & 7].head);
        std::iter::successors(first, |&packet| {
            Some(frames[packet as usize].next).filter(|&next| next != NIL)
        })
    }

    /// Every queued packet.
    pub(crate) fn queued<'a>(&'a self, frames: &'a [Frame]) -> impl Iterator<Item = &'a Frame> {
        (0..8).filter(|p| self.occupied & 1 << p != 0).flat_map(move |p| {
            std::iter::successors(frames.get(self.queues[p].head as usize), |frame| {
                frames.get(frame.next as usize)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_three_cache_lines() {
        assert_eq!(size_of::<Port>(), 192);
    }

    #[test]
    fn queues_are_fifo_by_priority() {
        let mut frames: Vec<Frame> = (0..6)
            .map(|i| Frame {
                wire_bytes: 100 + i as u16,
                priority: [3, 0, 3, 7, 0, 3][i],
                ..Frame::default()
            })
            .collect();
        let mut port = Port::new(Rate::gbps(100), Span::ZERO, 0, 0, 0);
        (0..6).for_each(|packet| port.enqueue(packet, Time::ZERO, &mut frames));
        assert_eq!(port.queue_bytes, 615);
        assert_eq!(port.queued(&frames).count(), 6);
        let order: Vec<_> = (0..6).map(|_| port.dequeue(&frames)).collect();
        assert_eq!(order, [1, 4, 0, 2, 5, 3]);
        assert_eq!((port.queue_bytes, port.has_queue()), (0, false));
    }

    #[test]
    fn last_packet_of_a_priority_is_replaced() {
        let mut frames: Vec<Frame> = (0..6)
            .map(|i| Frame {
                wire_bytes: 100 + i as u16,
                priority: [1, 1, 0, 1, 1, 0][i],
                ..Frame::default()
            })
            .collect();
        let mut port = Port::new(Rate::gbps(100), Span::ZERO, 0, 0, 0);
        (0..3).for_each(|packet| port.enqueue(packet, Time::ZERO, &mut frames));
        assert_eq!([0, 1].map(|priority| port.bytes_of(priority, &frames)), [102, 201]);
        assert_eq!(port.replace_last(1, 3, Time::ns(7), &mut frames), 1);
        assert_eq!((port.queue_bytes, frames[3].at), (305, Time::ns(7)));
        let order: Vec<_> = (0..2).map(|_| port.dequeue(&frames)).collect();
        assert_eq!(order, [2, 0]);
        // The only packet of its priority.
        assert_eq!(port.replace_last(1, 4, Time::ns(8), &mut frames), 3);
        port.enqueue(5, Time::ns(9), &mut frames);
        let order: Vec<_> = (0..2).map(|_| port.dequeue(&frames)).collect();
        assert_eq!((order, port.queue_bytes, port.has_queue()), (vec![5, 4], 0, false));
    }
}
