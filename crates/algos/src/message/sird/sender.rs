//! The sending half: which message's next packet leaves (algorithm 2), and what happens when nobody
//! answers.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use tidegate_core::{Message, Time};

use super::header::{Ack, Busy, Data, Header, Request, Resend};
use super::{Answer, Control, Key, LONG, MAX_BACKOFF, Rules, Settings};
use crate::by_host::ByHost;
use crate::tables::{Heap, Places, Slab};

/// Messages under way to one receiver; more wait.
pub(super) const MAX_LANES: usize = 4096;
/// Requests for retransmission, of 64 packets each, that can wait; the receiver repeats what is
/// dropped.
const MAX_AGAIN: usize = 256;
/// Credit in hand for one receiver, in BDP, beyond which no more is taken: a receiver gives one of
/// its own. What is left out comes with later credit, which carries the sum.
const MAX_IN_HAND: i64 = 16;
/// One packet's worth of deficit.
pub(super) const ONE: i64 = 1 << 24;

/// A message being sent.
#[derive(Default)]
struct Outgoing {
    alive: bool,
    id: u32,
    destination: u32,
    lane: u32,
    generation: u32,
    size: u64,
    packets: u64,
    /// The first packet not sent yet.
    next: u64,
    /// Packets covered by credit that the sender took itself.
    unscheduled: u32,
    /// The receiver has been told, or will be before any more data leaves.
    announced: bool,
    /// Waits for a lane.
    held: bool,
    order: u64,
    /// When a packet was last sent for the first time, and again.
    sent_at: Time,
    resent_at: Time,
    backoff: u8,
}

impl Outgoing {
    /// Credit that the sender took itself for packets not sent yet.
    fn taken(&self, settings: &Settings) -> i64 {
        let all = settings.wire_below(self.size, self.unscheduled as u64);
        all.saturating_sub(settings.wire_below(self.size, self.next)) as i64
    }
    /// Fewest unsent bytes first; those without end follow in turns.
    fn remaining(&self, settings: &Settings) -> Key {
        let unsent = if self.size == Message::UNLIMITED {
            LONG
        } else {
            self.size - self.next * settings.mtu
        };
        (unsent, self.order)
    }
    /// The same, but nothing overtakes a message that the receiver has not heard of: the credit
    /// that it brings must not be spent before the receiver counts it.
    fn key(&self, settings: &Settings) -> Key {
        let (unsent, order) = self.remaining(settings);
        ((self.announced as u64) << 63 | unsent, order)
    }
}

/// A receiver, as its sender sees it.
struct Destination {
    host: u32,
    /// Every byte of credit it has sent so far; credits carry this sum, so that a later one makes
    /// up for a lost one.
    granted: u64,
    /// Credit in hand, wire bytes, that of unscheduled packets included. Below zero after credit
    /// for a stopped message was taken back that had gone to another one.
    available: i64,
    /// The next packet may go on less credit than it costs: credit meant for a short last packet is
    /// in hand, a full one is next, and the receiver, whose budget waits for that credit to come
    /// back, has run out of patience.
    lend: bool,
    /// Messages with unsent packets.
    messages: Heap<Key>,
    /// Generation of the message in each lane.
    lanes: Vec<u32>,
    free_lanes: Vec<u32>,
    held: VecDeque<u32>,
}

/// Packets to send again.
struct Again {
    slot: u32,
    lane: u32,
    generation: u32,
    start: u64,
    map: u64,
}

/// Everything a host is sending.
#[derive(Default)]
pub(super) struct Outbox {
    destinations: Vec<Destination>,
    by_host: ByHost<u32>,
    messages: Slab<Outgoing>,
    places: Places,
    /// Destinations that can send, by their head message.
    shortest: Heap<Key>,
    shortest_places: Places,
    /// The same destinations; the deficit of one is `round` less its key.
    deficits: Heap<i64>,
    deficit_places: Places,
    round: i64,
    /// Credit in hand over all destinations.
    available: i64,
    /// Of which the sender took so much itself, for unscheduled packets that have not left.
    taken: i64,
    /// Messages with unsent packets.
    unsent: u32,
    again: VecDeque<Again>,
    timers: Heap<Time>,
    timer_places: Places,
    order: u64,
    backlog_bytes: u64,
}

impl Outbox {
    pub(super) fn deadline(&self) -> Time {
        self.timers.first().map_or(Time::NEVER, |(at, _)| at)
    }

    pub(super) fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    /// Credit in hand for the receiver of a message, in wire bytes.
    pub(super) fn available(&self, slot: u32) -> Option<i64> {
        let message = self.messages.get(slot).filter(|message| message.alive)?;
        Some(self.destinations[message.destination as usize].available)
    }

    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        let sum = self.destinations.iter().map(|destination| destination.available).sum::<i64>();
        let none = self.available == sum && self.taken == 0;
        self.messages.in_use() == 0 && none && self.deadline() == Time::NEVER
    }

    /// Credit in hand for a receiver that has handed out `granted` in all, with what was lost on
    /// its way.
    #[cfg(test)]
    pub(super) fn in_hand(&self, host: u32, granted: u64) -> i64 {
        let destination = &self.destinations[self.by_host.get(host).copied().unwrap() as usize];
        destination.available + (granted - destination.granted) as i64
    }

    pub(super) fn submit(
        &mut self,
        settings: &Settings,
        now: Time,
        message: &Message,
        control: &mut VecDeque<Control>,
    ) -> u32 {
        let destination =
            self.by_host.get(message.dst).copied().unwrap_or_else(|| self.connect(message.dst));
        let slot = self.messages.take();
        self.order += 1;
        self.messages[slot] = Outgoing {
            alive: true,
            id: message.id,
            destination,
            size: message.bytes,
            packets: settings.packets(message.bytes),
            order: self.order,
            ..Outgoing::default()
        };
        if message.bytes != Message::UNLIMITED {
            self.backlog_bytes += message.bytes;
        }
        self.begin(settings, now, slot, control);
        slot
    }

    fn connect(&mut self, host: u32) -> u32 {
        let number = self.destinations.len() as u32;
        self.destinations.push(Destination {
            host,
            granted: 0,
            available: 0,
            lend: false,
            messages: Heap::default(),
            lanes: Vec::new(),
            free_lanes: Vec::new(),
            held: VecDeque::new(),
        });
        *self.by_host.entry(host) = number;
        number
    }

    /// Gives a message its lane and either unscheduled credit or a request for credit.
    fn begin(
        &mut self,
        settings: &Settings,
        now: Time,
        slot: u32,
        control: &mut VecDeque<Control>,
    ) {
        let message = &mut self.messages[slot];
        let destination = &mut self.destinations[message.destination as usize];
        let Some(lane) = destination.free_lanes.pop().or_else(|| {
            destination.lanes.push(0);
            let lane = destination.lanes.len() - 1;
            if lane == MAX_LANES {
                destination.lanes.pop();
            }
            (lane < MAX_LANES).then_some(lane as u32)
        }) else {
            message.held = true;
            destination.held.push_back(slot);
            return;
        };
        message.held = false;
        (message.lane, message.generation) = (lane, destination.lanes[lane as usize]);
        let wire = settings.message_wire(message.size);
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
            let header = Header::Request(request(message, slot));
            control.push_back(Control { dst: destination.host, header });
        }
        if message.packets > 0 {
            destination.messages.set(&mut self.places, slot, message.key(settings));
            self.unsent += 1;
        }
        self.timers.set(&mut self.timer_places, slot, now.after(settings.timeout));
        let destination = message.destination;
        self.settle(settings, destination);
    }

    /// Ends a message without end after what has been sent of it.
    pub(super) fn stop(
        &mut self,
        settings: &Settings,
        now: Time,
        slot: u32,
        control: &mut VecDeque<Control>,
    ) {
        let stoppable = |message: &&Outgoing| message.alive && message.size == Message::UNLIMITED;
        if self.messages.get(slot).filter(stoppable).is_none() {
            return;
        }
        let message = &mut self.messages[slot];
        message.packets = message.next;
        message.size = message.next * settings.mtu;
        message.announced = true;
        if message.held {
            return;
        }
        let number = message.destination;
        let destination = &mut self.destinations[number as usize];
        destination.messages.remove(&mut self.places, slot);
        self.unsent -= 1;
        message.backoff = 0;
        let header = Header::Request(request(message, slot));
        control.push_back(Control { dst: destination.host, header });
        self.timers.set(&mut self.timer_places, slot, now.after(settings.timeout));
        self.settle(settings, number);
    }

    /// Puts a destination among those that can send, or takes it out.
    fn settle(&mut self, settings: &Settings, number: u32) {
        let destination = &self.destinations[number as usize];
        if let Some((_, slot)) = destination.messages.first() {
            let message = &self.messages[slot];
            let needed =
                if destination.lend { 1 } else { settings.wire(message.size, message.next) as i64 };
            if destination.available >= needed {
                self.shortest.set(&mut self.shortest_places, number, message.remaining(settings));
                if !self.deficit_places.contain(number) {
                    self.deficits.set(&mut self.deficit_places, number, self.round);
                }
                return;
            }
        }
        self.shortest.remove(&mut self.shortest_places, number);
        self.deficits.remove(&mut self.deficit_places, number);
    }

    /// The destination whose turn it is: a share of the link goes to all in turns, the rest to the
    /// shortest message. Each has a deficit that grows by its quantum with every packet; the
    /// largest is served once it is worth a packet.
    fn choose(&mut self, settings: &Settings) -> Option<u32> {
        let (_, winner) = self.shortest.first()?;
        let eligible = self.shortest.len() as i64;
        if eligible == 1 {
            return Some(winner);
        }
        let quantum = settings.fair_share / eligible;
        let extra = ONE - settings.fair_share;
        self.add_rounds(1, quantum, winner, extra);
        let (key, _) = self.deficits.first()?;
        if self.round - key < ONE {
            // As many rounds at once as it takes: either the largest deficit is enough then, or the
            // winner's.
            let rounds = |key: i64, each: i64| {
                if each > 0 { (ONE - (self.round - key) + each - 1) / each } else { i64::MAX }
            };
            let winners = self.deficits.key(&self.deficit_places, winner)?;
            let rounds = rounds(key, quantum).min(rounds(winners, quantum + extra));
            self.add_rounds(rounds, quantum, winner, extra);
        }
        let (key, chosen) = self.deficits.first()?;
        self.deficits.set(&mut self.deficit_places, chosen, key + ONE);
        Some(chosen)
    }

    fn add_rounds(&mut self, rounds: i64, quantum: i64, winner: u32, extra: i64) {
        self.round += rounds * quantum;
        if let Some(key) = self.deficits.key(&self.deficit_places, winner) {
            self.deficits.set(&mut self.deficit_places, winner, key - rounds * extra);
        }
    }

    /// The next data packet: one to send again, else the next of a message with credit. Where it
    /// goes, its header and its payload.
    pub(super) fn data(&mut self, settings: &Settings, now: Time) -> Option<(u32, Data, u32)> {
        if let Some(again) = self.data_again(settings, now) {
            return Some(again);
        }
        let number = self.choose(settings)?;
        let destination = &mut self.destinations[number as usize];
        let (_, slot) = destination.messages.first()?;
        let message = &mut self.messages[slot];
        let packet = message.next;
        let wire = settings.wire(message.size, packet) as i64;
        let csn = congestion(settings, self.available, self.taken, wire, self.unsent);
        let (header, payload) = data(settings, message, slot, packet, csn);
        destination.available -= wire;
        destination.lend = false;
        self.available -= wire;
        if packet < message.unscheduled as u64 {
            self.taken -= wire;
        }
        message.announced = true;
        message.next += 1;
        message.sent_at = now;
        if core::mem::take(&mut message.backoff) > 0 {
            self.timers.set(&mut self.timer_places, slot, now.after(settings.timeout));
        }
        if message.size == Message::UNLIMITED {
            self.order += 1;
            message.order = self.order;
        } else {
            self.backlog_bytes -= payload as u64;
        }
        if message.next == message.packets {
            destination.messages.remove(&mut self.places, slot);
            self.unsent -= 1;
        } else {
            destination.messages.set(&mut self.places, slot, message.key(settings));
        }
        let host = destination.host;
        self.settle(settings, number);
        Some((host, header, payload))
    }

    fn data_again(&mut self, settings: &Settings, now: Time) -> Option<(u32, Data, u32)> {
        while let Some(again) = self.again.front_mut() {
            let message = &mut self.messages[again.slot];
            let same = message.alive
                && (message.lane, message.generation) == (again.lane, again.generation);
            if again.map == 0 || !same {
                self.again.pop_front();
                continue;
            }
            let packet = again.start + again.map.trailing_zeros() as u64;
            again.map &= again.map - 1;
            message.resent_at = now;
            if core::mem::take(&mut message.backoff) > 0 {
                self.timers.set(&mut self.timer_places, again.slot, now.after(settings.timeout));
            }
            let csn = congestion(settings, self.available, self.taken, 0, self.unsent);
            let host = self.destinations[message.destination as usize].host;
            let (header, payload) = data(settings, message, again.slot, packet, csn);
            return Some((host, Data { retransmission: true, ..header }, payload));
        }
        None
    }

    /// Credit has come: the sum of all that its receiver has handed out to this host.
    pub(super) fn on_credit(&mut self, settings: &Settings, host: u32, granted: u64) {
        let Some(number) = self.by_host.get(host).copied() else { return };
        let destination = &mut self.destinations[number as usize];
        let fresh = granted.saturating_sub(destination.granted).min(i64::MAX as u64) as i64;
        let fresh = fresh.min((MAX_IN_HAND * settings.bdp).saturating_sub(destination.available));
        if fresh > 0 {
            destination.granted += fresh as u64;
            destination.available += fresh;
            self.available += fresh;
            self.settle(settings, number);
        }
    }

    /// The message that a reply from `host` is about, if it is still there.
    fn find(&self, host: u32, connection: u32, lane: u32, generation: u32) -> Option<u32> {
        let message = self.messages.get(connection)?;
        let same = message.alive
            && !message.held
            && message.lane == lane
            && message.generation == generation
            && self.destinations[message.destination as usize].host == host;
        same.then_some(connection)
    }

    /// The receiver misses packets. What has not been sent yet is not missing, nor what was sent
    /// after the receiver lost patience, but the receiver hears that it is on its way.
    pub(super) fn on_resend(
        &mut self,
        settings: &Settings,
        now: Time,
        host: u32,
        resend: &Resend,
    ) -> Answer {
        let Resend { connection, lane, generation, .. } = *resend;
        let Some(slot) = self.find(host, connection, lane, generation) else {
            return Answer::None;
        };
        let message = &self.messages[slot];
        let start = resend.offset / settings.mtu;
        let moving = resend.stalled && now.since(message.sent_at).times(2) < settings.timeout;
        let sent = if moving { 0 } else { message.next.saturating_sub(start) };
        let missing = resend.missing;
        let map = if sent >= 64 { missing } else { missing & ((1 << sent) - 1) };
        if map == 0 {
            let number = message.destination;
            let busy = Busy {
                connection,
                lane,
                generation,
                message: message.id,
                unscheduled: message.unscheduled,
                size: message.size,
            };
            self.destinations[number as usize].lend = true;
            self.settle(settings, number);
            return Answer::Reply(Header::Busy(busy));
        }
        if self.again.len() < MAX_AGAIN {
            self.again.push_back(Again { slot, lane, generation, start, map });
        }
        Answer::None
    }

    /// All of a message has arrived: forgets it. The application's number.
    pub(super) fn on_done(
        &mut self,
        settings: &Settings,
        now: Time,
        host: u32,
        ack: &Ack,
        control: &mut VecDeque<Control>,
    ) -> Option<u32> {
        let slot = self.find(host, ack.connection, ack.lane, ack.generation)?;
        self.on_credit(settings, host, ack.granted);
        let message = &mut self.messages[slot];
        message.alive = false;
        let number = message.destination;
        let destination = &mut self.destinations[number as usize];
        if self.places.contain(slot) {
            destination.messages.remove(&mut self.places, slot);
            self.unsent -= 1;
            if message.size != Message::UNLIMITED {
                self.backlog_bytes -= message.size - message.next * settings.mtu;
            }
        }
        self.taken -= message.taken(settings);
        let excess = ack.excess.min(settings.bdp as u64 * MAX_IN_HAND as u64) as i64;
        destination.available -= excess;
        self.available -= excess;
        destination.lanes[message.lane as usize] = message.generation.wrapping_add(1);
        destination.free_lanes.push(message.lane);
        let (id, waiting) = (message.id, destination.held.pop_front());
        self.timers.remove(&mut self.timer_places, slot);
        self.messages.give_back(slot);
        if let Some(waiting) = waiting {
            self.begin(settings, now, waiting, control);
        }
        self.settle(settings, number);
        Some(id)
    }

    /// A message's timer: where nothing of it was sent for a timeout, asks (again) for credit,
    /// which also says how much should have arrived, and asks whether it has.
    pub(super) fn on_timer(
        &mut self,
        settings: &Settings,
        now: Time,
        control: &mut VecDeque<Control>,
    ) {
        let Some((at, slot)) = self.timers.first() else { return };
        let message = &mut self.messages[slot];
        let quiet_at = message.sent_at.max(message.resent_at).after(settings.timeout);
        let next = if quiet_at > at {
            message.backoff = 0;
            quiet_at
        } else {
            if message.announced {
                let dst = self.destinations[message.destination as usize].host;
                let sent = message.next * settings.mtu;
                let again = Request { repeated: true, sent, ..request(message, slot) };
                control.push_back(Control { dst, header: Header::Request(again) });
                message.backoff = (message.backoff + 1).min(MAX_BACKOFF);
            }
            at.after(settings.timeout.times(1 << message.backoff))
        };
        self.timers.set(&mut self.timer_places, slot, settings.next_timer(now, next));
    }
}

/// Whether the sender says that it is congested (algorithm 2, line 8), with `available` bytes of
/// credit in hand, `taken` of which it took itself, before the `wire` bytes of this packet are
/// spent.
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

/// A request for credit; says everything about the message that its receiver must know.
fn request(message: &Outgoing, slot: u32) -> Request {
    Request {
        repeated: false,
        connection: slot,
        lane: message.lane,
        generation: message.generation,
        message: message.id,
        unscheduled: message.unscheduled,
        size: message.size,
        sent: 0,
    }
}

/// A packet of a message, and its payload.
fn data(
    settings: &Settings,
    message: &Outgoing,
    slot: u32,
    packet: u64,
    sender_congested: bool,
) -> (Data, u32) {
    let header = Data {
        end_of_message: packet + 1 == message.packets,
        retransmission: false,
        sender_congested,
        connection: slot,
        lane: message.lane,
        generation: message.generation,
        message: message.id,
        unscheduled: message.unscheduled,
        size: message.size,
        offset: packet * settings.mtu,
    };
    (header, settings.payload(message.size, packet) as u32)
}
