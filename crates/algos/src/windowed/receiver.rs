//! The receiving half of connections: order, delivery, acknowledgements.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::by_host::ByHost;
use tidegate_core::{
    Application, Card, MIN_WIRE_BYTES, MessageId, PacketMut, Reply, Time, body_flag, frame_flag, kind,
};

/// A packet further ahead of what is missing than this is dropped: no sender has such a window.
const MAX_AHEAD: u64 = 1 << 16;
/// More connections a host pair than this do not exist; a packet that claims one is dropped.
const MAX_LANES: u32 = 1 << 16;
/// No receiver yet.
const NONE: u32 = u32::MAX;

/// Receiving connections of a host.
#[derive(Default)]
pub(super) struct Receivers {
    /// By source host, then lane.
    lanes: ByHost<Vec<u32>>,
    receivers: Vec<Receiver>,
    spare: Vec<Box<Reorder>>,
}

#[derive(Default)]
struct Receiver {
    /// Every packet below has arrived.
    next: u64,
    /// Packets above, while there are any.
    reorder: Option<Box<Reorder>>,
}

/// Packets that arrived ahead of a missing one.
#[derive(Default)]
struct Reorder {
    /// Entry i is packet `next + i`.
    packets: VecDeque<Early>,
    /// Bit i says that packet `next + 1 + i` has arrived.
    mask: u64,
}

/// A packet that waits for an earlier one, or the place of one.
#[derive(Clone, Copy, Default)]
struct Early {
    present: bool,
    /// The last of its message.
    last: bool,
    message: u32,
}

impl Receivers {
    #[inline]
    fn find(&mut self, src: u32, lane: u32) -> Option<usize> {
        let found = self.lanes.get(src).and_then(|lanes| lanes.get(lane as usize)).copied().unwrap_or(NONE);
        if found != NONE { Some(found as usize) } else { self.open(src, lane) }
    }

    #[cold]
    fn open(&mut self, src: u32, lane: u32) -> Option<usize> {
        if lane >= MAX_LANES {
            return None;
        }
        let lanes = self.lanes.entry(src);
        if lanes.len() <= lane as usize {
            lanes.resize(lane as usize + 1, NONE);
        }
        lanes[lane as usize] = self.receivers.len() as u32;
        self.receivers.push(Receiver::default());
        Some(self.receivers.len() - 1)
    }

    /// Takes a data packet and turns it into its acknowledgement.
    #[inline]
    pub(super) fn receive<A: Application>(
        &mut self,
        now: Time,
        packet: PacketMut<'_>,
        ack_flags: u8,
        card: &Card,
        app: &mut A,
    ) -> Reply {
        let body = packet.body;
        let Some(index) = self.find(body.src, body.lane) else { return Reply::None };
        let receiver = &mut self.receivers[index];
        let message = MessageId { src: body.src, id: body.message };
        let last = body.flags & body_flag::END_OF_MESSAGE != 0;
        if body.seq == receiver.next && receiver.reorder.is_none() {
            receiver.next += 1;
            app.delivered(now, message, body.payload_bytes);
            if last {
                app.completed(now, message);
            }
            body.sack = 0;
        } else if body.seq >= receiver.next {
            if body.seq - receiver.next > MAX_AHEAD {
                return Reply::None;
            }
            let early = Early { present: true, last, message: body.message };
            let mut reorder = receiver.reorder.take().or_else(|| self.spare.pop()).unwrap_or_default();
            if reorder.insert((body.seq - receiver.next) as usize, early) {
                app.delivered(now, message, body.payload_bytes);
            }
            receiver.next += reorder.hand_on(now, body.src, app);
            body.sack = reorder.mask;
            if reorder.packets.is_empty() {
                self.spare.push(reorder);
            } else {
                receiver.reorder = Some(reorder);
            }
        } else {
            body.sack = receiver.reorder.as_ref().map_or(0, |reorder| reorder.mask);
        }
        body.kind = kind::ACK;
        let marked = packet.frame.flags & frame_flag::CONGESTION_EXPERIENCED != 0;
        body.flags = if marked { body_flag::ECHO } else { 0 };
        body.ack = receiver.next;
        body.echoed_peak = packet.frame.peak_hop_delay;
        let frame = packet.frame;
        core::mem::swap(&mut frame.dst, &mut body.src);
        frame.peak_hop_delay = Time::ZERO;
        frame.flags = ack_flags;
        frame.wire_bytes = (MIN_WIRE_BYTES + card.echo(packet.hops.as_slice().len() as u32)) as u16;
        Reply::Send
    }
}

impl Reorder {
    /// Whether the packet is new.
    fn insert(&mut self, ahead: usize, early: Early) -> bool {
        if self.packets.len() <= ahead {
            self.packets.resize(ahead + 1, Early::default());
        }
        let is_new = !self.packets[ahead].present;
        self.packets[ahead] = early;
        if (1..=64).contains(&ahead) {
            self.mask |= 1 << (ahead - 1);
        }
        is_new
    }

    /// Takes out what has become contiguous, and tells of the messages that end in it; how many packets that were.
    fn hand_on<A: Application>(&mut self, now: Time, src: u32, app: &mut A) -> u64 {
        let mut count = 0;
        while let Some(early) = self.packets.front().copied().filter(|early| early.present) {
            if early.last {
                app.completed(now, MessageId { src, id: early.message });
            }
            self.packets.pop_front();
            self.mask >>= 1;
            if self.packets.get(64).is_some_and(|early| early.present) {
                self.mask |= 1 << 63;
            }
            count += 1;
        }
        count
    }
}
