//! The sending half: allowed bytes, and the choice of the next packet: from the message with the
//! fewest bytes left (SRPT, section 3.2).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use tidegate_core::{Message, Time};

use super::header::{Data, Grant, Header, NeedAck};
use super::incast::IncastRole;
use super::{LONG, Settings, Step};
use crate::kit::backoff::Backoff;
use crate::kit::heap::{Heap, shortest_first};
use crate::kit::lanes::Lanes;
use crate::kit::resends::Resends;
use crate::kit::slab::{Key, Slab};
use crate::kit::timers::Timers;
use crate::kit::window::MAX_AHEAD;
use crate::kit::words::unpair;

/// Largest number of level changes among granted packets that are kept; further ones share the last
/// level.
const MOST_RUNS: usize = 64;

/// Granted packets at one level.
#[derive(Clone, Copy)]
struct Run {
    /// First packet behind them.
    end: u64,
    level: u32,
}

/// A message that is being sent.
#[derive(Default)]
pub(super) struct Outgoing {
    pub(super) id: u32,
    pub(super) destination: u32,
    lane: u32,
    generation: u32,
    size: u64,
    packets: u64,
    /// First unsent packet.
    pub(super) next: u64,
    /// Unscheduled packets at the start.
    unscheduled: u64,
    /// Number of packets that may be sent.
    granted: u64,
    /// Levels of granted, unsent packets, in order.
    runs: VecDeque<Run>,
    /// Whether it waits for a lane.
    held: bool,
    role: IncastRole,
    /// Whether it starts with one packet only.
    is_brief: bool,
    order: u64,
    /// Time of the last first transmission, and of the last retransmission.
    pub(super) sent_at: Time,
    pub(super) resent_at: Time,
    pub(super) backoff: Backoff,
}

impl Outgoing {
    #[inline]
    pub(super) fn may_send(&self) -> bool {
        self.next < self.granted
    }

    /// Order of messages: fewest unsent bytes first; messages of unknown size follow round-robin.
    #[inline]
    fn key(&self, settings: &Settings) -> u128 {
        let left = match self.size {
            Message::UNLIMITED => LONG,
            size => settings.packets.left(size, self.next),
        };
        shortest_first(left, self.order)
    }

    /// Level of a packet that leaves for the first time.
    #[inline]
    fn level(&mut self, settings: &Settings, packet: u64) -> u32 {
        if packet < self.unscheduled {
            return settings.levels.unscheduled(settings.packets.left(self.size, packet));
        }
        while self.runs.front().is_some_and(|run| run.end <= packet) {
            self.runs.pop_front();
        }
        self.runs.front().map_or(settings.levels.all - 1, |run| run.level)
    }
}

/// A receiver, as the sender sees it.
#[derive(Default)]
pub(super) struct Destination {
    pub(super) host: u32,
    lanes: Lanes,
    /// Slot of the last message of each lane.
    slots: Vec<u32>,
}

/// A data packet that leaves.
pub(super) struct Leaving {
    /// Number of its destination.
    pub(super) peer: u32,
    pub(super) header: Data,
    pub(super) payload_bytes: u32,
    pub(super) level: u32,
}

/// All sending state of a host.
#[derive(Default)]
pub(super) struct Outbox {
    pub(super) destinations: Vec<Destination>,
    pub(super) messages: Slab<Outgoing>,
    /// Messages that may send, fewest bytes left first.
    ready: Heap<u128>,
    pub(super) again: Resends,
    pub(super) timers: Timers,
    order: u64,
    backlog_bytes: u64,
}

impl Outbox {
    #[inline]
    pub(super) fn deadline(&self) -> Time {
        self.timers.next()
    }

    pub(super) fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    /// Payload bytes of a message that may be sent in total.
    pub(super) fn allowed(&self, settings: &Settings, message: Key) -> Option<u64> {
        let message = &self.messages[self.messages.slot(message)?];
        Some((message.granted - message.next).saturating_mul(settings.packets.mtu))
    }

    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        self.messages.len() == 0 && self.ready.len() == 0 && self.deadline() == Time::NEVER
    }

    /// Adds the next known host.
    pub(super) fn add_host(&mut self, host: u32) {
        self.destinations.push(Destination { host, ..Destination::default() });
    }

    /// Forgets a receiver.
    pub(super) fn forget(&mut self, settings: &Settings, number: u32) {
        for slot in self.messages.slots(|message| message.destination == number) {
            self.remove(settings, slot);
        }
        self.again.drop_gone(&self.messages);
        let destination = &mut self.destinations[number as usize];
        *destination = Destination { host: destination.host, ..Destination::default() };
    }

    /// Removes a message, whether or not it has been sent.
    fn remove(&mut self, settings: &Settings, slot: u32) {
        let message = &self.messages[slot];
        if message.size != Message::UNLIMITED {
            self.backlog_bytes -= settings.packets.left(message.size, message.next);
        }
        self.ready.remove(slot);
        self.timers.remove(slot);
        self.messages.remove(slot);
    }

    pub(super) fn submit(
        &mut self,
        step: &mut Step<'_>,
        destination: u32,
        message: &Message,
        (role, is_brief): (IncastRole, bool),
    ) -> Key {
        self.order += 1;
        let slot = self.messages.insert(|last| {
            let mut runs = last.runs;
            runs.clear();
            Outgoing {
                id: message.id,
                destination,
                size: message.bytes,
                packets: step.settings.packets.of(message.bytes),
                order: self.order,
                role,
                is_brief,
                runs,
                ..Outgoing::default()
            }
        });
        if message.bytes != Message::UNLIMITED {
            self.backlog_bytes += message.bytes;
        }
        self.begin(step, slot);
        self.messages.key(slot)
    }

    /// Assigns a lane to a message and allows its first packets.
    fn begin(&mut self, step: &mut Step<'_>, slot: u32) {
        let message = &mut self.messages[slot];
        let destination = &mut self.destinations[message.destination as usize];
        let lane = destination.lanes.open(slot);
        message.held = lane.is_none();
        let Some((lane, generation)) = lane else { return };
        (message.lane, message.generation) = (lane, generation);
        match destination.slots.get_mut(lane as usize) {
            Some(last) => *last = slot,
            None => destination.slots.push(slot),
        }
        let most = if message.is_brief { 1 } else { step.settings.packets.unscheduled };
        message.unscheduled = most.min(message.packets);
        message.granted = message.unscheduled;
        if message.packets == 0 {
            // Stopped while it waited for a lane: its receiver must still receive its description.
            let header = Header::NeedAck(need_ack(message, step.settings));
            step.send(destination.host, header);
        }
        self.reschedule(step.settings, slot);
        self.timers.set(slot, step.now.after(step.settings.timeout));
    }

    /// Ends a message of unknown size behind its sent bytes.
    pub(super) fn stop(&mut self, step: &mut Step<'_>, message: Key) {
        let Some(slot) = self.messages.slot(message) else { return };
        let message = &mut self.messages[slot];
        if message.size != Message::UNLIMITED {
            return;
        }
        message.packets = message.next;
        message.size = message.next * step.settings.packets.mtu;
        message.granted = message.next;
        message.unscheduled = message.unscheduled.min(message.next);
        if message.held {
            return;
        }
        message.backoff.end();
        let header = Header::NeedAck(need_ack(message, step.settings));
        step.send(self.destinations[message.destination as usize].host, header);
        self.reschedule(step.settings, slot);
        self.timers.set(slot, step.now.after(step.settings.timeout));
    }

    /// Adds a message to those that may send, or removes it.
    #[inline]
    fn reschedule(&mut self, settings: &Settings, slot: u32) {
        let message = &self.messages[slot];
        if message.may_send() {
            self.ready.set(slot, message.key(settings));
        } else {
            self.ready.remove(slot);
        }
    }

    /// The next data packet: a retransmission, or the next packet of the shortest message that may
    /// send.
    #[inline]
    pub(super) fn data(&mut self, settings: &Settings, now: Time) -> Option<Leaving> {
        let (slot, packet, again) = match self.again.pop(&self.messages) {
            Some((slot, packet)) => (slot, packet, true),
            None => {
                let (_, slot) = self.ready.first()?;
                (slot, self.messages[slot].next, false)
            }
        };
        // Retransmissions are the oldest packets, so they get the highest level.
        let level = if again { 0 } else { self.messages[slot].level(settings, packet) };
        if again {
            self.repeats(settings, now, slot);
        } else {
            self.advances(settings, now, slot);
        }
        let message = &self.messages[slot];
        let header = Data {
            end_of_message: packet + 1 == message.packets,
            retransmission: again,
            scheduled: packet >= message.unscheduled,
            acknowledges: false,
            wants_brief: message.role.wants_brief,
            replies: message.role.replies,
            lane: message.lane,
            generation: message.generation,
            message: message.id,
            unscheduled: message.unscheduled as u32,
            size: message.size,
            offset: packet * settings.packets.mtu,
            acked: 0,
        };
        let payload_bytes = settings.packets.payload(message.size, packet) as u32;
        Some(Leaving { peer: message.destination, header, payload_bytes, level })
    }

    /// Sends the next packet of a message.
    #[inline]
    fn advances(&mut self, settings: &Settings, now: Time, slot: u32) {
        let message = &mut self.messages[slot];
        let packet = message.next;
        message.next += 1;
        message.sent_at = now;
        if message.backoff.end() {
            self.timers.set(slot, now.after(settings.timeout));
        }
        if message.size == Message::UNLIMITED {
            self.order += 1;
            message.order = self.order;
        } else {
            self.backlog_bytes -= settings.packets.payload(message.size, packet);
        }
        self.reschedule(settings, slot);
    }

    /// Retransmits a packet of a message.
    #[cold]
    fn repeats(&mut self, settings: &Settings, now: Time, slot: u32) {
        let message = &mut self.messages[slot];
        message.resent_at = now;
        if message.backoff.end() {
            self.timers.set(slot, now.after(settings.timeout));
        }
    }

    /// Handles a grant.
    #[inline]
    pub(super) fn on_grant(&mut self, settings: &Settings, peer: u32, grant: &Grant) {
        let Some(slot) = self.find(peer, grant.lane, grant.generation) else { return };
        self.allow(settings, slot, grant.granted.div_ceil(settings.packets.mtu), grant.level);
    }

    /// Allows a message to send this number of packets; newly allowed ones get this level.
    #[inline]
    pub(super) fn allow(&mut self, settings: &Settings, slot: u32, packets: u64, level: u32) {
        let message = &mut self.messages[slot];
        // A receiver limits the bytes in flight by its own link, which may be far faster, and
        // repeats no grant; but no grant exceeds what the receiver misses by more than this bound.
        let granted = packets.min(message.packets).min(message.next.saturating_add(MAX_AHEAD));
        if granted <= message.granted {
            return;
        }
        message.granted = granted;
        let full = message.runs.len() >= MOST_RUNS;
        match message.runs.back_mut() {
            Some(last) if full || last.level == level => last.end = granted,
            _ => message.runs.push_back(Run { end: granted, level }),
        }
        self.reschedule(settings, slot);
    }

    /// Finds the message that a packet from a peer refers to, if it still exists.
    #[inline]
    pub(super) fn find(&self, peer: u32, lane: u32, generation: u32) -> Option<u32> {
        let slot = *self.destinations[peer as usize].slots.get(lane as usize)?;
        let message = self.messages.get(slot)?;
        let same = (message.destination, message.lane, message.generation, message.held)
            == (peer, lane, generation, false);
        same.then_some(slot)
    }

    /// Removes an acknowledged message, and returns the application's number of it.
    pub(super) fn on_acked(&mut self, step: &mut Step<'_>, peer: u32, name: u64) -> Option<u32> {
        let (lane, generation) = unpair(name);
        let slot = self.find(peer, lane, generation)?;
        let id = self.messages[slot].id;
        self.remove(step.settings, slot);
        let destination = &mut self.destinations[peer as usize];
        if let Some(waiting) = destination.lanes.close(lane) {
            self.begin(step, waiting);
        }
        Some(id)
    }
}

/// Describes a message completely and requests its acknowledgement.
pub(super) fn need_ack(message: &Outgoing, settings: &Settings) -> NeedAck {
    NeedAck {
        repeated: false,
        wants_brief: message.role.wants_brief,
        replies: message.role.replies,
        lane: message.lane,
        generation: message.generation,
        message: message.id,
        unscheduled: message.unscheduled as u32,
        size: message.size,
        sent: message.next * settings.packets.mtu,
    }
}
