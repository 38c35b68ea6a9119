//! The receiving half of connections: order, delivery, acknowledgements.

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use tidegate_core::{
    Application, Body, Frame, HopTrace, MessageId, PacketMut, ProtocolInfo, RecoveryRule, Reply,
    Span, Time,
};

use super::header::{Ack, Data, MARKED};
use super::{ConnectionParams, NONE};
use crate::kit::by_host::ByHost;

/// Largest distance of a packet ahead of the missing one. Packets beyond it are dropped, as if
/// lost: after a loss, a larger window is sent again in part.
const MAX_AHEAD: u64 = 1 << 16;
/// Largest distance of a lane ahead of the lowest unknown one. A source numbers its connections
/// from zero up, so a packet of a lane further ahead is dropped until the lanes before it are
/// known. A forged packet thus costs one connection and at most this number of entries of four
/// bytes.
const MAX_LANES_AHEAD: u32 = 1 << 16;
/// Largest number of connections of a source; others are ignored. They are kept as long as the
/// source.
const MOST_LANES: u32 = 1 << 20;
/// Total entries for packets that wait for a missing one, over all connections; packets that need
/// more are dropped, as if lost.
const MOST_EARLY: usize = 1 << 22;

/// Receiving connections of a host.
pub(super) struct Receivers {
    /// By source host.
    sources: ByHost<Source>,
    receivers: Vec<Receiver>,
    /// Connections of forgotten sources, for reuse.
    closed: Vec<u32>,
    /// Entries for packets that wait for a missing one.
    early: usize,
    spare: Vec<Box<Reorder>>,
    coalesced: Coalesced,
    /// Interval of repeated requests if packets behind a missing one are dropped; `None`: they are
    /// kept.
    nack_interval: Option<Span>,
    /// Packets may arrive without their payload.
    trims: bool,
    /// Wire bytes of an acknowledgement without echoed telemetry.
    control_bytes: u32,
    /// Priority of acknowledgements; `None`: that of their packets.
    ack_priority: Option<u8>,
}

/// Acknowledgements that wait for more packets.
struct Coalesced {
    /// Largest number of packets per acknowledgement.
    every: u32,
    delay: Span,
    /// Time of the first waiting entry.
    next: Time,
    /// Times at which receivers release a held acknowledgement, in order; stale if the time is not
    /// the receiver's.
    waiting: VecDeque<(Time, u32)>,
    /// Entries whose time has passed.
    due: VecDeque<(Time, u32)>,
}

/// Connections from one host.
#[derive(Default)]
struct Source {
    /// Receiver of each lane.
    lanes: Vec<u32>,
    /// Number of lanes with a receiver.
    open: u32,
}

#[derive(Default)]
struct Receiver {
    /// Every packet below has arrived.
    next: u64,
    /// Arrived packets above, if any.
    reorder: Option<Box<Reorder>>,
    /// Last requested packet, if packets behind a missing one are dropped.
    requested: Option<Box<Requested>>,
    /// The held acknowledgement, if any; kept for reuse.
    held: Option<Box<Held>>,
}

/// The last packet that a receiver requested because later ones arrived first.
struct Requested {
    seq: u64,
    /// Earliest time of the next request.
    again_at: Time,
}

/// A held acknowledgement.
struct Held {
    frame: Frame,
    body: Body,
    hops: HopTrace,
    /// Echoed frame flags of its packet.
    echo: u8,
    /// Packets that it covers; 0: none is held.
    packets: u32,
    /// Arrival of the last of them.
    arrived: Time,
    let_go_at: Time,
}

/// Packets that arrived ahead of a missing one.
#[derive(Default)]
struct Reorder {
    /// Entry i is packet `next + i`.
    packets: VecDeque<Early>,
    /// Bit i: packet `next + 1 + i` has arrived.
    mask: u64,
}

/// A packet that waits for an earlier one, or the empty entry of one.
#[derive(Clone, Copy, Default)]
struct Early {
    present: bool,
    /// Whether it is the last of its message.
    last: bool,
    message: u32,
}

impl Receiver {
    /// Whether it holds an acknowledgement until then.
    fn holds_until(&self, at: Time) -> bool {
        self.held.as_ref().is_some_and(|held| held.packets > 0 && held.let_go_at == at)
    }
}

impl Receivers {
    pub(super) fn new(params: &ConnectionParams, ack_priority: Option<u8>) -> Receivers {
        Receivers {
            sources: ByHost::default(),
            receivers: Vec::new(),
            closed: Vec::new(),
            early: 0,
            spare: Vec::new(),
            coalesced: Coalesced {
                every: params.ack_every as u32,
                delay: params.ack_delay,
                next: Time::NEVER,
                waiting: VecDeque::new(),
                due: VecDeque::new(),
            },
            nack_interval: (params.recovery == RecoveryRule::GoBackN)
                .then_some(params.nack_interval),
            trims: params.recovery == RecoveryRule::Trimmed,
            control_bytes: params.control_bytes as u32,
            ack_priority,
        }
    }

    #[inline]
    fn find(&mut self, src: u32, lane: u32) -> Option<usize> {
        let lanes = self.sources.get(src).map_or(&[][..], |source| &source.lanes);
        let found = lanes.get(lane as usize).copied().unwrap_or(NONE);
        if found != NONE { Some(found as usize) } else { self.open(src, lane) }
    }

    #[cold]
    fn open(&mut self, src: u32, lane: u32) -> Option<usize> {
        let source = self.sources.entry(src);
        if lane >= source.open.saturating_add(MAX_LANES_AHEAD).min(MOST_LANES) {
            return None;
        }
        if source.lanes.len() <= lane as usize {
            source.lanes.resize(lane as usize + 1, NONE);
        }
        let receiver = self.closed.pop().unwrap_or_else(|| {
            self.receivers.push(Receiver::default());
            self.receivers.len() as u32 - 1
        });
        source.lanes[lane as usize] = receiver;
        source.open += 1;
        Some(receiver as usize)
    }

    /// Forgets all connections from a host.
    pub(super) fn forget(&mut self, src: u32) {
        for receiver in self.sources.take(src).lanes {
            if receiver != NONE {
                let closed = core::mem::take(&mut self.receivers[receiver as usize]);
                self.early -= closed.reorder.as_ref().map_or(0, |reorder| reorder.packets.len());
                self.spare.extend(closed.reorder.map(Reorder::cleared));
                self.closed.push(receiver);
            }
        }
        let receivers = &self.receivers;
        let waits = |&(at, receiver): &(Time, u32)| receivers[receiver as usize].holds_until(at);
        let Coalesced { next, waiting, due, .. } = &mut self.coalesced;
        waiting.retain(waits);
        due.retain(waits);
        *next = waiting.front().map_or(Time::NEVER, |&(at, _)| at);
    }

    /// Handles a data packet with payload and turns it into its acknowledgement.
    #[inline]
    pub(super) fn receive<A: Application>(
        &mut self,
        now: Time,
        packet: PacketMut<'_>,
        ack_flags: u8,
        info: &ProtocolInfo,
        app: &mut A,
    ) -> Reply {
        let body = &mut *packet.body;
        let data = Data::read(body);
        let Some(index) = self.find(body.src, data.lane) else { return Reply::None };
        let receiver = &mut self.receivers[index];
        let message = MessageId { src: body.src, id: data.message };
        let last = data.end_of_message;
        let in_order = data.seq == receiver.next && receiver.reorder.is_none();
        let at_once = !(in_order || self.trims) || last;
        let sack = if in_order {
            receiver.next += 1;
            app.delivered(now, message, data.offset, body.payload_bytes);
            if last {
                app.completed(now, message);
            }
            0
        } else if data.seq >= receiver.next {
            if let Some(interval) = self.nack_interval {
                return self.refuse(now, index, interval, packet, ack_flags, info);
            }
            let ahead = data.seq - receiver.next;
            if ahead > MAX_AHEAD || self.early + ahead as usize >= MOST_EARLY {
                return Reply::None;
            }
            let early = Early { present: true, last, message: data.message };
            let mut reorder =
                receiver.reorder.take().or_else(|| self.spare.pop()).unwrap_or_default();
            self.early -= reorder.packets.len();
            if reorder.insert(ahead as usize, early) {
                app.delivered(now, message, data.offset, body.payload_bytes);
            }
            receiver.next += reorder.deliver(now, body.src, app);
            self.early += reorder.packets.len();
            let mask = reorder.mask;
            if reorder.packets.is_empty() {
                self.spare.push(reorder);
            } else {
                receiver.reorder = Some(reorder);
            }
            mask
        } else {
            receiver.reorder.as_ref().map_or(0, |reorder| reorder.mask)
        };
        let mut packet = packet;
        let echo =
            acknowledge(&mut packet, receiver.next, sack, ack_flags, self.control_bytes, info);
        if let Some(priority) = self.ack_priority {
            packet.frame.priority = priority;
        }
        if self.coalesced.every == 1 {
            Reply::Echo
        } else {
            self.hold(now, index, packet, echo, at_once)
        }
    }

    /// Drops a packet that arrived before a missing one. The response requests the missing one if
    /// it differs from the last requested one or the interval has passed.
    #[cold]
    #[inline(never)]
    fn refuse(
        &mut self,
        now: Time,
        index: usize,
        interval: Span,
        mut packet: PacketMut<'_>,
        ack_flags: u8,
        info: &ProtocolInfo,
    ) -> Reply {
        let Receiver { next: seq, requested, .. } = &mut self.receivers[index];
        let request = Requested { seq: *seq, again_at: now.after(interval) };
        match requested {
            Some(last) if last.seq == *seq && now < last.again_at => return Reply::None,
            Some(last) => **last = request,
            None => *requested = Some(Box::new(request)),
        }
        let echo = acknowledge(&mut packet, *seq, 0, ack_flags, self.control_bytes, info);
        Ack::refuse(packet.body);
        if self.coalesced.every == 1 {
            Reply::Send
        } else {
            self.hold(now, index, packet, echo, true)
        }
    }

    /// Handles a packet without payload, whose priority says where it was trimmed: requests it
    /// again, or acknowledges it if it has arrived before. Ignored unless packets may be trimmed.
    #[cold]
    #[inline(never)]
    pub(super) fn trimmed(
        &mut self,
        data: &Data,
        mut packet: PacketMut<'_>,
        ack_flags: u8,
        info: &ProtocolInfo,
    ) -> Reply {
        let Some(index) = self.find(packet.body.src, data.lane) else { return Reply::None };
        if !self.trims {
            return Reply::None;
        }
        let seq = data.seq;
        let Receiver { next, reorder, .. } = &self.receivers[index];
        let mask = reorder.as_ref().map_or(0, |reorder| reorder.mask);
        let has = |reorder: &Reorder| {
            let ahead = seq.checked_sub(*next).and_then(|ahead| usize::try_from(ahead).ok());
            ahead.and_then(|ahead| reorder.packets.get(ahead)).is_some_and(|early| early.present)
        };
        let has_arrived = seq < *next || reorder.as_deref().is_some_and(has);
        let is_last_hop = packet.frame.priority > 0;
        acknowledge(&mut packet, *next, mask, ack_flags, self.control_bytes, info);
        packet.frame.priority = self.ack_priority.unwrap_or(packet.frame.priority);
        if !has_arrived {
            Ack::request_again(packet.body, is_last_hop);
        }
        Reply::Send
    }

    /// Holds the acknowledgement in `packet`, or sends it for all that are held. Only
    /// acknowledgements with the same echo are combined: if it changes, the held one is sent first
    /// (RFC 8257, section 3.2).
    #[cold]
    #[inline(never)]
    fn hold(
        &mut self,
        now: Time,
        index: usize,
        packet: PacketMut<'_>,
        echo: u8,
        at_once: bool,
    ) -> Reply {
        let Coalesced { every, delay, next, waiting, due } = &mut self.coalesced;
        let held = self.receivers[index].held.get_or_insert_with(|| {
            Box::new(Held {
                frame: Frame::default(),
                body: Body::default(),
                hops: HopTrace::default(),
                echo: 0,
                packets: 0,
                arrived: Time::ZERO,
                let_go_at: Time::NEVER,
            })
        });
        let changed = held.packets > 0 && held.echo != echo;
        if !changed && (at_once || held.packets + 1 >= *every) {
            held.packets = 0;
            return Reply::Send;
        }
        let (PacketMut { frame, body, hops }, waited) = (packet, now.since(held.arrived));
        if changed {
            core::mem::swap(body, &mut held.body);
            core::mem::swap(hops, &mut held.hops);
            let driver = *frame;
            core::mem::swap(frame, &mut held.frame);
            (frame.at, frame.next) = (driver.at, driver.next);
            body.sent_at = body.sent_at.after(waited);
            held.packets = 0;
        } else {
            (held.frame, held.body, held.hops) = (*frame, *body, *hops);
        }
        if held.packets == 0 {
            held.let_go_at = now.after(*delay);
            if at_once {
                held.let_go_at = now;
                due.push_back((now, index as u32));
            } else {
                *next = held.let_go_at.min(*next);
                waiting.push_back((held.let_go_at, index as u32));
            }
        }
        held.echo = echo;
        held.packets += 1;
        held.arrived = now;
        if changed { Reply::Send } else { Reply::None }
    }

    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        let waits = |receiver: &Receiver| {
            let holds = receiver.held.as_ref().is_some_and(|held| held.packets > 0);
            holds || receiver.reorder.is_some()
        };
        self.early == 0 && !self.receivers.iter().any(waits)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.receivers.len()
    }

    /// Time at which the next held acknowledgement is due.
    #[inline]
    pub(super) fn next_due(&self) -> Time {
        self.coalesced.next
    }

    /// Releases held acknowledgements that are due.
    #[inline]
    pub(super) fn promote(&mut self, now: Time) {
        if self.coalesced.next <= now {
            self.release(now);
        }
    }

    #[cold]
    #[inline(never)]
    fn release(&mut self, now: Time) {
        let Coalesced { next, waiting, due, .. } = &mut self.coalesced;
        while *next <= now {
            due.extend(waiting.pop_front());
            *next = waiting.front().map_or(Time::NEVER, |&(at, _)| at);
        }
    }

    /// Takes the receiver of a due acknowledgement.
    #[inline]
    pub(super) fn take_due(&mut self) -> Option<u32> {
        if self.coalesced.due.is_empty() { None } else { self.take_valid() }
    }

    #[cold]
    #[inline(never)]
    fn take_valid(&mut self) -> Option<u32> {
        while let Some((at, index)) = self.coalesced.due.pop_front() {
            if self.receivers[index as usize].holds_until(at) {
                return Some(index);
            }
        }
        None
    }

    /// Writes the acknowledgement that a receiver holds into `packet`.
    #[cold]
    #[inline(never)]
    pub(super) fn transmit(&mut self, now: Time, receiver: u32, packet: PacketMut<'_>) {
        if let Some(held) = &mut self.receivers[receiver as usize].held {
            *packet.frame = Frame { at: packet.frame.at, next: packet.frame.next, ..held.frame };
            *packet.body = held.body;
            *packet.hops = held.hops;
            // The RTT is that of the packet, without the holding time.
            packet.body.sent_at = packet.body.sent_at.after(now.since(held.arrived));
            held.packets = 0;
        }
    }
}

/// Turns the data in `packet` into its acknowledgement. Returns the echoed frame flag.
#[inline(always)]
fn acknowledge(
    packet: &mut PacketMut<'_>,
    cumulative: u64,
    sack: u64,
    ack_flags: u8,
    control_bytes: u32,
    info: &ProtocolInfo,
) -> u8 {
    let (frame, body) = (&mut *packet.frame, &mut *packet.body);
    let echo = frame.flags & MARKED;
    Ack::acknowledge(body, echo, cumulative, sack, frame.peak_hop_delay);
    core::mem::swap(&mut frame.dst, &mut body.src);
    frame.peak_hop_delay = Span::ZERO;
    frame.flags = ack_flags;
    frame.wire_bytes = (control_bytes + info.echo(packet.hops.as_slice().len() as u32)) as u16;
    echo
}

impl Reorder {
    /// The record for another connection, with its memory reused.
    fn cleared(mut self: Box<Self>) -> Box<Self> {
        self.packets.clear();
        self.mask = 0;
        self
    }

    /// Adds a packet. Returns whether it is new.
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

    /// Removes packets that have become contiguous, and reports the messages that end among them.
    /// Returns the number of packets.
    fn deliver<A: Application>(&mut self, now: Time, src: u32, app: &mut A) -> u64 {
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
