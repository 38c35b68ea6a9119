//! The sending half: unused credit, and the packet to spend it on (algorithm 2).

use alloc::vec::Vec;

use tidegate_core::{Message, Time};

use super::destinations::DestinationSchedule;
use super::header::{Ack, Data, Header, Request};
use super::{LONG, NetworkSignal, Policy, Rules, Settings, Step};
use crate::kit::backoff::Backoff;
use crate::kit::by_host::ByHost;
use crate::kit::heap::{Pile, Positions, shortest_first};
use crate::kit::lanes::Lanes;
use crate::kit::resends::Resends;
use crate::kit::slab::{Key, Slab};
use crate::kit::timers::Timers;

/// Limit of unused credit for one receiver, in BDP; a receiver issues one BDP. Credit beyond the
/// limit arrives with later credit, which carries the sum.
const MAX_IN_HAND: i64 = 16;
/// A message that is being sent.
#[derive(Default)]
pub(super) struct Outgoing {
    pub(super) id: u32,
    pub(super) destination: u32,
    pub(super) lane: u32,
    pub(super) generation: u32,
    pub(super) size: u64,
    packets: u64,
    /// First unsent packet.
    pub(super) next: u64,
    /// Packets covered by credit that the sender took itself.
    pub(super) unscheduled: u32,
    /// Whether the receiver has been notified, or will be before any more data leaves.
    pub(super) announced: bool,
    /// Whether it waits for a lane.
    held: bool,
    order: u64,
    pub(super) weight: u8,
    /// Time of the last first transmission, and of the last retransmission.
    pub(super) sent_at: Time,
    pub(super) resent_at: Time,
    pub(super) backoff: Backoff,
}

impl Outgoing {
    /// Credit that the sender took itself for unsent packets.
    fn taken(&self, settings: &Settings) -> i64 {
        let wire_below = |packets| settings.segments.wire_below(self.size, packets);
        wire_below(self.unscheduled as u64).saturating_sub(wire_below(self.next)) as i64
    }
    /// Rank among messages by the sender's policy; messages of unknown size follow round-robin.
    #[inline]
    fn remaining(&self, settings: &Settings) -> u128 {
        let unsent = if self.size == Message::UNLIMITED {
            LONG
        } else {
            self.size - self.next * settings.segments.mtu
        };
        settings.sender_policy.rank(unsent, self.order, self.weight)
    }
    /// The same, but a message of which the receiver has not been notified ranks first: its credit
    /// must not be spent before the receiver books it.
    #[inline]
    fn key(&self, settings: &Settings) -> u128 {
        (self.announced as u128) << 127 | self.remaining(settings)
    }
}

/// A receiver, as the sender sees it.
pub(super) struct Destination {
    pub(super) host: u32,
    /// Total credit that it has issued; credits carry this sum, so that a later one replaces a lost
    /// one.
    granted: u64,
    /// Unused credit in wire bytes, including that of unscheduled packets. Negative after the
    /// discard of a stopped message's credit that had been spent on another message.
    available: i64,
    /// Whether the next packet may be sent with less credit than it costs: the available credit was
    /// issued for a short last packet, a full one is next, and the receiver, whose budget waits for
    /// that credit, has requested missing packets.
    pub(super) lend: bool,
    /// Messages with unsent packets.
    messages: Pile<u128>,
    /// For weighted order: the order when this destination could last send again. Earlier orders
    /// count as this one, so missed transmissions are not made up for.
    since: u64,
    lanes: Lanes,
}

impl Destination {
    /// A new destination.
    fn new(host: u32) -> Destination {
        Destination {
            host,
            granted: 0,
            available: 0,
            lend: false,
            messages: Pile::default(),
            since: 0,
            lanes: Lanes::default(),
        }
    }
}

/// All sending state of a host.
#[derive(Default)]
pub(super) struct Outbox {
    pub(super) destinations: Vec<Destination>,
    by_host: ByHost<u32>,
    pub(super) messages: Slab<Outgoing>,
    positions: Positions,
    schedule: DestinationSchedule,
    /// Unused credit over all destinations.
    available: i64,
    /// Part of it that the sender took itself, for unscheduled packets that have not left.
    taken: i64,
    /// Messages with unsent packets.
    unsent: u32,
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

    /// Unused credit for the receiver of a message, in wire bytes.
    pub(super) fn available(&self, message: Key) -> Option<i64> {
        let message = &self.messages[self.messages.slot(message)?];
        Some(self.destinations[message.destination as usize].available)
    }

    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        let sum = self.destinations.iter().map(|destination| destination.available).sum::<i64>();
        let none = self.available == sum && self.taken == 0 && self.schedule.first_key().is_none();
        self.messages.len() == 0 && none && self.deadline() == Time::NEVER
    }

    /// Unused credit for a receiver that has issued `granted` in total, including credit lost on
    /// its way.
    #[cfg(test)]
    pub(super) fn in_hand(&self, host: u32, granted: u64) -> i64 {
        let destination = &self.destinations[self.by_host.get(host).copied().unwrap() as usize];
        destination.available + (granted - destination.granted) as i64
    }

    pub(super) fn submit(&mut self, step: &mut Step<'_>, message: &Message) -> Key {
        let destination =
            self.by_host.get(message.dst).copied().unwrap_or_else(|| self.connect(message.dst));
        let order = step.settings.sender_policy.first_order(&mut self.order);
        let slot = self.messages.insert(|_| Outgoing {
            id: message.id,
            destination,
            size: message.bytes,
            packets: step.settings.segments.packets(message.bytes),
            order,
            weight: message.weight,
            ..Outgoing::default()
        });
        if message.bytes != Message::UNLIMITED {
            self.backlog_bytes += message.bytes;
        }
        self.begin(step, slot);
        self.messages.key(slot)
    }

    fn connect(&mut self, host: u32) -> u32 {
        let number = self.destinations.len() as u32;
        self.destinations.push(Destination::new(host));
        *self.by_host.entry(host) = number;
        number
    }

    /// Forgets the receiver at `host`.
    pub(super) fn forget(&mut self, settings: &Settings, host: u32) {
        let Some(number) = self.by_host.get(host).copied() else { return };
        for slot in self.messages.slots(|message| message.destination == number) {
            self.remove(settings, slot);
        }
        self.again.drop_gone(&self.messages);
        let destination = &mut self.destinations[number as usize];
        self.available -= destination.available;
        *destination = Destination::new(host);
        self.reschedule(settings, number);
    }

    /// Removes a message, whether or not it has been sent.
    fn remove(&mut self, settings: &Settings, slot: u32) {
        let message = &self.messages[slot];
        if self.positions.contain(slot) {
            let destination = &mut self.destinations[message.destination as usize];
            destination.messages.remove(&mut self.positions, slot);
            self.unsent -= 1;
        }
        if message.size != Message::UNLIMITED {
            self.backlog_bytes -= message.size.saturating_sub(message.next * settings.segments.mtu);
        }
        self.taken -= message.taken(settings);
        self.timers.remove(slot);
        self.messages.remove(slot);
    }

    /// Assigns a lane to a message, and either unscheduled credit or a request for credit.
    fn begin(&mut self, step: &mut Step<'_>, slot: u32) {
        let settings = step.settings;
        let message = &mut self.messages[slot];
        let number = message.destination;
        let destination = &mut self.destinations[number as usize];
        let lane = destination.lanes.open(slot);
        message.held = lane.is_none();
        let Some((lane, generation)) = lane else { return };
        (message.lane, message.generation) = (lane, generation);
        let wire = settings.segments.message_wire(message.size);
        if message.packets > 0 && wire <= settings.unscheduled_threshold {
            let room =
                (settings.bdp - destination.available.max(0)).max(settings.full as i64) as u64;
            let packets = if wire <= room { message.packets } else { room / settings.full };
            message.unscheduled = packets as u32;
            let credit = message.taken(settings);
            destination.available += credit;
            self.available += credit;
            self.taken += credit;
        } else {
            message.announced = true;
            step.send(destination.host, Header::Request(request(message, slot)));
        }
        if message.packets > 0 {
            destination.messages.set(&mut self.positions, slot, message.key(settings));
            self.unsent += 1;
        }
        self.timers.set(slot, step.now.after(settings.timeout));
        self.reschedule(settings, number);
    }

    /// Ends a message of unknown size behind its sent bytes.
    pub(super) fn stop(&mut self, step: &mut Step<'_>, message: Key) {
        let Some(slot) = self.messages.slot(message) else { return };
        let message = &mut self.messages[slot];
        if message.size != Message::UNLIMITED {
            return;
        }
        message.packets = message.next;
        message.size = message.next * step.settings.segments.mtu;
        message.announced = true;
        if message.held {
            return;
        }
        let number = message.destination;
        let destination = &mut self.destinations[number as usize];
        destination.messages.remove(&mut self.positions, slot);
        self.unsent -= 1;
        message.backoff.end();
        step.send(destination.host, Header::Request(request(message, slot)));
        self.timers.set(slot, step.now.after(step.settings.timeout));
        self.reschedule(step.settings, number);
    }

    /// Adds a destination to those that can send, or removes it.
    pub(super) fn reschedule(&mut self, settings: &Settings, number: u32) {
        let destination = &self.destinations[number as usize];
        if let Some((_, slot)) = destination.messages.first() {
            let message = &self.messages[slot];
            let needed = if destination.lend {
                1
            } else {
                settings.segments.wire(message.size, message.next) as i64
            };
            if destination.available >= needed {
                let key = match settings.sender_policy {
                    Policy::Weighted => self.weighted_key(number, slot),
                    _ => message.remaining(settings),
                };
                return self.schedule.set(number, key);
            }
        }
        self.schedule.remove(number);
    }

    /// Key of a destination whose first message is in `slot`, by weighted order.
    fn weighted_key(&mut self, number: u32, slot: u32) -> u128 {
        let destination = &mut self.destinations[number as usize];
        if !self.schedule.contain(number) {
            let current = self.schedule.first_key().map_or(self.order, |key| key as u64);
            destination.since = destination.since.max(current);
        }
        shortest_first(0, self.messages[slot].order.max(destination.since))
    }

    /// The next data packet: a retransmission, or the next packet of a message with credit. Returns
    /// its destination, header and payload.
    #[inline]
    pub(super) fn data(&mut self, settings: &Settings, now: Time) -> Option<(u32, Data, u32)> {
        let (slot, packet, sender_congested, retransmission) = match self.again.pop(&self.messages)
        {
            Some((slot, packet)) => (slot, packet, self.repeats(settings, now, slot), true),
            None => {
                let (slot, packet, congested) = self.advances(settings, now)?;
                (slot, packet, congested, false)
            }
        };
        let message = &self.messages[slot];
        let header = Data {
            end_of_message: packet + 1 == message.packets,
            retransmission,
            sender_congested,
            connection: slot,
            lane: message.lane,
            generation: message.generation,
            message: message.id,
            unscheduled: message.unscheduled,
            weight: message.weight as u32,
            size: message.size,
            offset: packet * settings.segments.mtu,
            sent_at: if settings.signal == NetworkSignal::Delay { now } else { Time::ZERO },
        };
        let payload = settings.segments.payload(message.size, packet) as u32;
        Some((self.destinations[message.destination as usize].host, header, payload))
    }

    /// Spends credit on a packet of the next message. Returns its slot, the packet, and whether
    /// this sender is congested.
    #[inline]
    fn advances(&mut self, settings: &Settings, now: Time) -> Option<(u32, u64, bool)> {
        let number = self.schedule.next(settings.fair_share)?;
        let destination = &mut self.destinations[number as usize];
        let (_, slot) = destination.messages.first()?;
        let message = &mut self.messages[slot];
        let packet = message.next;
        let wire = settings.segments.wire(message.size, packet) as i64;
        let csn = congestion(settings, self.available, self.taken, wire, self.unsent);
        destination.available -= wire;
        destination.lend = false;
        self.available -= wire;
        if packet < message.unscheduled as u64 {
            self.taken -= wire;
        }
        message.announced = true;
        message.next += 1;
        message.sent_at = now;
        if message.backoff.end() {
            self.timers.set(slot, now.after(settings.timeout));
        }
        let policy = settings.sender_policy;
        if policy.is_by_order() || message.size == Message::UNLIMITED {
            let wire = wire as u64;
            let order = message.order.max(destination.since);
            message.order = policy.next_order(&mut self.order, order, wire, message.weight);
        }
        if message.size != Message::UNLIMITED {
            self.backlog_bytes -= settings.segments.payload(message.size, packet);
        }
        if message.next == message.packets {
            destination.messages.remove(&mut self.positions, slot);
            self.unsent -= 1;
        } else {
            destination.messages.set(&mut self.positions, slot, message.key(settings));
        }
        self.reschedule(settings, number);
        Some((slot, packet, csn))
    }

    /// Retransmits a packet of a message. Returns whether this sender is congested.
    #[cold]
    fn repeats(&mut self, settings: &Settings, now: Time, slot: u32) -> bool {
        let message = &mut self.messages[slot];
        message.resent_at = now;
        if message.backoff.end() {
            self.timers.set(slot, now.after(settings.timeout));
        }
        congestion(settings, self.available, self.taken, 0, self.unsent)
    }

    /// Handles credit: the sum of all credit that its receiver has issued to this host.
    pub(super) fn on_credit(&mut self, settings: &Settings, host: u32, granted: u64) {
        let Some(number) = self.by_host.get(host).copied() else { return };
        let destination = &mut self.destinations[number as usize];
        let fresh = granted.saturating_sub(destination.granted).min(i64::MAX as u64) as i64;
        let fresh = fresh.min((MAX_IN_HAND * settings.bdp).saturating_sub(destination.available));
        if fresh > 0 {
            destination.granted += fresh as u64;
            destination.available += fresh;
            self.available += fresh;
            self.reschedule(settings, number);
        }
    }

    /// Finds the message that a reply from `host` refers to, if it still exists.
    pub(super) fn find(
        &self,
        host: u32,
        connection: u32,
        lane: u32,
        generation: u32,
    ) -> Option<u32> {
        let message = self.messages.get(connection)?;
        let same = !message.held
            && message.lane == lane
            && message.generation == generation
            && self.destinations[message.destination as usize].host == host;
        same.then_some(connection)
    }

    /// Removes an acknowledged message, and returns the application's number of it.
    pub(super) fn on_done(&mut self, step: &mut Step<'_>, host: u32, ack: &Ack) -> Option<u32> {
        let settings = step.settings;
        let slot = self.find(host, ack.connection, ack.lane, ack.generation)?;
        self.on_credit(settings, host, ack.granted);
        let Outgoing { id, destination: number, lane, .. } = self.messages[slot];
        self.remove(settings, slot);
        let destination = &mut self.destinations[number as usize];
        let excess = ack.excess.min(settings.bdp as u64 * MAX_IN_HAND as u64) as i64;
        destination.available -= excess;
        self.available -= excess;
        if let Some(waiting) = destination.lanes.close(lane) {
            self.begin(step, waiting);
        }
        self.reschedule(settings, number);
        Some(id)
    }
}

/// Whether the sender reports congestion (algorithm 2, line 8), with `available` bytes of unused
/// credit, `taken` of which it took itself, before the `wire` bytes of this packet are spent.
pub(super) fn congestion(
    settings: &Settings,
    available: i64,
    taken: i64,
    wire: i64,
    unsent: u32,
) -> bool {
    match settings.rules {
        Rules::Paper => available - taken >= settings.sender_threshold,
        Rules::PublishedCode => available - wire > settings.sender_threshold && unsent >= 2,
    }
}

/// A request for credit; it contains everything that the receiver must know about the message.
pub(super) fn request(message: &Outgoing, slot: u32) -> Request {
    Request {
        repeated: false,
        connection: slot,
        lane: message.lane,
        generation: message.generation,
        message: message.id,
        unscheduled: message.unscheduled,
        weight: message.weight as u32,
        size: message.size,
        sent: 0,
    }
}
