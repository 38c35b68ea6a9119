//! The receiving half: arrived packets, grants and acknowledgements.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use tidegate_core::{Application, Message, MessageId, Time};

use super::header::{Ack, Announced, Data, Header, NO_MESSAGE, NeedAck};
use super::incast::{Exchanges, IncastRole};
use super::schedule::Schedule;
use super::{LONG, Settings, Step};
use crate::kit::backoff::Backoff;
use crate::kit::heap::{Pile, Positions, shortest_first};
use crate::kit::horizon::Horizon;
use crate::kit::lanes::{IncomingLanes, Known};
use crate::kit::segments::is_size;
use crate::kit::slab::Slab;
use crate::kit::timers::Timers;
use crate::kit::window::{MAX_AHEAD, Window};
use crate::kit::words::pair;

/// Largest number of messages that are received at a time. Others are ignored, and their senders
/// repeat the request.
const MAX_MESSAGES: usize = 1 << 16;
/// Largest number of unscheduled packets of one message.
const MAX_UNSCHEDULED: u64 = 1 << 20;
/// Number of arrived messages of one sender that wait for an acknowledgement before one is sent in
/// a packet of its own.
const MOST_UNACKED: usize = 16;

/// A message that is being received.
#[derive(Default)]
pub(super) struct Incoming {
    pub(super) id: u32,
    pub(super) source: u32,
    pub(super) lane: u32,
    pub(super) generation: u32,
    pub(super) size: u64,
    pub(super) packets: u64,
    /// Packets that may be sent.
    pub(super) granted: u64,
    /// Unscheduled packets among them.
    unscheduled: u64,
    pub(super) received: u64,
    pub(super) window: Window,
    pub(super) order: u64,
    /// Packets granted in the current round of a message of unknown size.
    pub(super) in_round: u64,
    /// Time since which packets are expected: the later of its opening and its last arrival.
    pub(super) waits_since: Time,
    /// Time of the last request for missing packets.
    pub(super) requested_at: Time,
    pub(super) horizon: Horizon,
    pub(super) backoff: Backoff,
    role: IncastRole,
}

impl Incoming {
    /// Whether packets are in flight, as far as the receiver knows.
    pub(super) fn expects(&self) -> bool {
        self.received < self.granted
    }

    /// Whether the message has packets that still need grants.
    fn needs_grants(&self) -> bool {
        self.packets > self.unscheduled
    }

    /// Whether the message needs grants and may get them.
    #[inline]
    pub(super) fn wants(&self) -> bool {
        self.granted < self.packets && self.granted < self.window.base() + MAX_AHEAD
    }

    /// Whether another packet may be in flight. Bytes on the wire count, as in the authors'
    /// simulator (`getBytesOnWire`); an unscheduled packet counts as a granted one.
    #[inline]
    pub(super) fn has_room(&self, settings: &Settings) -> bool {
        (self.granted - self.received) * settings.packets.full() < settings.rtt_bytes
    }

    /// Order of messages: fewest bytes left to grant first (SRPT).
    #[inline]
    fn key(&self, settings: &Settings) -> u128 {
        let left = match self.size {
            Message::UNLIMITED => LONG,
            size => settings.packets.left(size, self.granted),
        };
        shortest_first(left, self.order)
    }
}

/// A sender, as the receiver sees it.
#[derive(Default)]
pub(super) struct Source {
    pub(super) host: u32,
    /// Messages that need grants.
    pub(super) messages: Pile<u128>,
    /// Level of the last grant.
    pub(super) level: u32,
    pub(super) lanes: IncomingLanes<()>,
    /// Arrived messages that have not been acknowledged.
    unacked: VecDeque<u64>,
    pub(super) last_packet_at: Time,
    /// Time at which a packet of any of its messages last arrived for the first time.
    pub(super) data_at: Time,
    /// Whether the sender does not respond and gets no grants until a packet from it arrives.
    pub(super) silent: bool,
}

/// All receiving state of a host.
pub(super) struct Inbox {
    pub(super) sources: Vec<Source>,
    pub(super) messages: Slab<Incoming>,
    positions: Positions,
    pub(super) schedule: Schedule,
    /// By message: time to look for missing packets.
    pub(super) timers: Timers,
    /// By sender: time of the next grant.
    pub(super) grants: Timers,
    /// By sender: time to acknowledge arrived messages.
    pub(super) acks: Timers,
    /// Time at which an idle link gets one more active sender.
    pub(super) bubble_at: Time,
    pub(super) order: u64,
    pub(super) exchanges: Exchanges,
}

impl Inbox {
    pub(super) fn new(settings: &Settings) -> Inbox {
        Inbox {
            sources: Vec::new(),
            messages: Slab::default(),
            positions: Positions::default(),
            schedule: Schedule::new(settings.overcommitment),
            timers: Timers::default(),
            grants: Timers::default(),
            acks: Timers::default(),
            bubble_at: Time::NEVER,
            order: 0,
            exchanges: Exchanges::default(),
        }
    }

    /// Earliest time for any action; grants and acknowledgements need an event of their own.
    #[inline]
    pub(super) fn deadline(&self) -> Time {
        self.timer().min(self.grants.next()).min(self.acks.next())
    }

    #[inline]
    pub(super) fn timer(&self) -> Time {
        self.timers.next().min(self.bubble_at)
    }

    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        let unacked = self.sources.iter().any(|source| !source.unacked.is_empty());
        let granting = self.schedule.active() > 0 || self.schedule.has_waiting();
        let rests = !unacked && !granting && self.exchanges.is_quiet();
        rests && self.messages.len() == 0 && self.deadline() == Time::NEVER
    }

    #[cfg(test)]
    pub(super) fn most_ahead(&self) -> u64 {
        let windows = self.messages.all().iter().map(|message| &message.window);
        windows.map(|w| w.high().saturating_sub(w.base())).max().unwrap_or(0)
    }

    /// Adds the next known host.
    pub(super) fn add_host(&mut self, host: u32) {
        self.sources.push(Source { host, ..Source::default() });
    }

    /// Forgets a sender; its grants become available to others.
    pub(super) fn forget(&mut self, step: &mut Step<'_>, number: u32) {
        let source = &mut self.sources[number as usize];
        let host = source.host;
        let gone = self.messages.slots(|message| message.source == number);
        for &slot in &gone {
            source.messages.remove(&mut self.positions, slot);
            self.timers.remove(slot);
            self.messages.remove(slot);
        }
        self.grants.remove(number);
        self.acks.remove(number);
        *source = Source { host, ..Source::default() };
        self.exchanges.forget(host);
        // The records of the removed messages stay readable.
        for slot in gone {
            if self.messages[slot].needs_grants() {
                self.narrow(step);
            }
        }
        self.serve(step, number);
        if self.schedule.active() == 0 {
            self.bubble_at = Time::NEVER;
        }
    }

    /// Registers that a packet of any kind has arrived from a sender.
    #[inline]
    pub(super) fn on_packet(&mut self, step: &mut Step<'_>, number: u32) {
        let source = &mut self.sources[number as usize];
        source.last_packet_at = step.now;
        if core::mem::take(&mut source.silent) {
            self.serve(step, number);
        }
    }

    /// Opens an unknown message. Returns `Known::Never` if there is no room for it or its
    /// announcement is invalid.
    #[cold]
    fn open(&mut self, step: &Step<'_>, number: u32, announced: &Announced) -> Known<()> {
        let (settings, now) = (step.settings, step.now);
        let (size, unscheduled) = (announced.size, announced.unscheduled as u64);
        let packets = settings.packets.of(size);
        let sane = is_size(size) && unscheduled <= packets.min(MAX_UNSCHEDULED);
        if !sane || self.messages.len() >= MAX_MESSAGES {
            return Known::Never;
        }
        self.order += 1;
        let slot = self.messages.insert(|last| Incoming {
            id: announced.message,
            source: number,
            lane: announced.lane,
            generation: announced.generation,
            size,
            packets,
            granted: unscheduled,
            unscheduled,
            window: last.window.cleared(),
            order: self.order,
            waits_since: now,
            role: announced.role,
            ..Incoming::default()
        });
        self.sources[number as usize].lanes.open(announced.lane, announced.generation, slot);
        self.place(settings, slot);
        self.arm(step, slot);
        Known::Slot(slot)
    }

    /// Adds a message to those that need grants, or removes it.
    #[inline]
    pub(super) fn place(&mut self, settings: &Settings, slot: u32) {
        let message = &self.messages[slot];
        let source = &mut self.sources[message.source as usize];
        if message.wants() {
            source.messages.set(&mut self.positions, slot, message.key(settings));
        } else {
            source.messages.remove(&mut self.positions, slot);
        }
    }

    /// Starts a message's timer if it expects packets and the timer is not running.
    #[inline]
    pub(super) fn arm(&mut self, step: &Step<'_>, slot: u32) {
        let message = &mut self.messages[slot];
        if !self.timers.run(slot) && message.expects() {
            message.horizon = Horizon::of(&message.window, step.now);
            message.waits_since = step.now;
            self.timers.set(slot, step.now.after(step.settings.timeout));
        }
    }

    /// Sets the size of a message whose size was unknown.
    fn learn_size(&mut self, settings: &Settings, slot: u32, size: u64) {
        let message = &mut self.messages[slot];
        let ended = settings.packets.segments().of_ended(size, message.window.high());
        let (Message::UNLIMITED, Some(packets)) = (message.size, ended) else { return };
        (message.size, message.packets) = (size, packets);
        message.granted = message.granted.min(packets);
        self.place(settings, slot);
    }

    pub(super) fn on_need_ack<A: Application>(
        &mut self,
        step: &mut Step<'_>,
        source: u32,
        need_ack: &NeedAck,
        app: &mut A,
    ) -> Option<Header> {
        let announced = need_ack.announced();
        let found = self.sources[source as usize].lanes.find(announced.lane, announced.generation);
        let found = if found == Known::New { self.open(step, source, &announced) } else { found };
        match found {
            Known::Never | Known::New => None,
            Known::Done(()) => Some(self.done(
                source,
                announced.message,
                pair(announced.lane, announced.generation),
            )),
            Known::Slot(slot) => {
                self.learn_size(step.settings, slot, need_ack.size);
                if need_ack.repeated {
                    let sent = need_ack.sent / step.settings.packets.mtu;
                    self.on_repeated(step, slot, sent);
                }
                let answer = self.finish(step, slot, app);
                self.serve(step, source);
                answer
            }
        }
    }

    #[inline]
    pub(super) fn on_data<A: Application>(
        &mut self,
        step: &mut Step<'_>,
        source: u32,
        data: &Data,
        payload_bytes: u32,
        app: &mut A,
    ) -> Option<Header> {
        let settings = step.settings;
        let found = match self.sources[source as usize].lanes.find(data.lane, data.generation) {
            Known::New => self.open(step, source, &data.announced()),
            found => found,
        };
        let slot = match found {
            Known::Slot(slot) => slot,
            Known::Done(()) => {
                let name = pair(data.lane, data.generation);
                return Some(self.done(source, data.message, name));
            }
            Known::Never | Known::New => return None,
        };
        if self.messages[slot].size != data.size {
            self.learn_size(settings, slot, data.size);
        }
        self.register_data(step, slot, data.offset, payload_bytes, app);
        let answer = self.finish(step, slot, app);
        self.serve(step, source);
        answer
    }

    /// Registers an arrived packet: reports it to the application if it belongs to the message and
    /// is new.
    #[inline]
    fn register_data<A: Application>(
        &mut self,
        step: &Step<'_>,
        slot: u32,
        offset: u64,
        payload_bytes: u32,
        app: &mut A,
    ) {
        let (settings, now) = (step.settings, step.now);
        let message = &mut self.messages[slot];
        let packet = settings.packets.segments().packet_at(message.size, offset, payload_bytes);
        let near = |packet: &u64| *packet < message.window.base() + MAX_AHEAD;
        let Some(packet) = packet.filter(near) else { return };
        if !message.window.insert(packet) {
            return;
        }
        message.received += 1;
        // A packet that has arrived counts as granted.
        message.granted = message.granted.max(message.window.high());
        message.waits_since = now;
        if message.backoff.end() {
            self.timers.set(slot, now.after(settings.timeout));
        }
        let source = &mut self.sources[message.source as usize];
        source.data_at = now;
        let id = MessageId { src: source.host, id: message.id };
        app.delivered(now, id, offset, payload_bytes);
        self.place(settings, slot);
        self.arm(step, slot);
    }

    /// If the message is complete, reports that to the application, and to the sender immediately
    /// or later.
    #[inline]
    fn finish<A: Application>(
        &mut self,
        step: &mut Step<'_>,
        slot: u32,
        app: &mut A,
    ) -> Option<Header> {
        let message = &self.messages[slot];
        if message.received < message.packets { None } else { self.complete(step, slot, app) }
    }

    #[cold]
    fn complete<A: Application>(
        &mut self,
        step: &mut Step<'_>,
        slot: u32,
        app: &mut A,
    ) -> Option<Header> {
        let message = &self.messages[slot];
        let (number, id) = (message.source, message.id);
        let name = pair(message.lane, message.generation);
        let was_granted = message.needs_grants();
        let source = &mut self.sources[number as usize];
        source.messages.remove(&mut self.positions, slot);
        source.lanes.close(message.lane, ());
        // Before the call of the application, which may submit a reply.
        self.exchanges.arrived(source.host, id, message.role);
        app.completed(step.now, MessageId { src: source.host, id });
        self.timers.remove(slot);
        self.messages.remove(slot);
        if was_granted {
            self.narrow(step);
            return Some(self.done(number, id, name));
        }
        source.unacked.push_back(name);
        if source.unacked.len() >= MOST_UNACKED {
            let first = source.unacked.pop_front()?;
            return Some(self.done(number, 0, first));
        }
        if !self.acks.run(number) {
            self.acks.set(number, step.now.after(step.settings.ack_delay));
        }
        None
    }

    /// Acknowledges an arrived message, with its number if that is known, and others that wait for
    /// an acknowledgement.
    fn done(&mut self, number: u32, message: u32, name: u64) -> Header {
        let unacked = &mut self.sources[number as usize].unacked;
        let mut next = || unacked.pop_front().unwrap_or(NO_MESSAGE);
        Header::Ack(Ack::of(message, [name, next(), next(), next(), next()]))
    }

    /// Takes an arrived message of `source` for data to acknowledge.
    #[inline]
    pub(super) fn unacked(&mut self, number: u32) -> Option<u64> {
        self.sources[number as usize].unacked.pop_front()
    }

    /// Handles the earliest acknowledgement timer.
    pub(super) fn on_ack_timer(&mut self, step: &mut Step<'_>) {
        let Some((_, number)) = self.acks.first() else { return };
        self.acks.remove(number);
        while let Some(first) = self.unacked(number) {
            let header = self.done(number, 0, first);
            step.send(self.sources[number as usize].host, header);
        }
    }
}
