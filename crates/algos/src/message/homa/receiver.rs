//! The receiving half: what has arrived, and what to say of it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use tidegate_core::{Application, Message, MessageId, Time};

use super::header::{Ack, Announced, Data, Header, NOBODY, NeedAck, pair};
use super::incast::{Exchanges, Part};
use super::schedule::Schedule;
use super::{LONG, Settings, Step};
use crate::kit::backoff::Backoff;
use crate::kit::heap::{Pile, Places, shortest_first};
use crate::kit::horizon::Horizon;
use crate::kit::lanes::{Heard, Known};
use crate::kit::segments::is_size;
use crate::kit::slab::Slab;
use crate::kit::timers::Timers;
use crate::kit::window::Window;

/// Messages being received at a time. More are not heard, and their senders ask again.
const MAX_MESSAGES: usize = 1 << 16;
/// Packets beyond the first missing one that are taken; grants stop there too.
pub(super) const MAX_AHEAD: u64 = 1 << 16;
/// More packets of one message are not sent without a grant.
const MAX_UNSCHEDULED: u64 = 1 << 20;
/// Messages of one sender that have arrived and wait for a packet to tell it; from here on one is
/// made.
const MOST_UNTOLD: usize = 16;

/// A message being received.
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
    /// Of which these needed no grant.
    unscheduled: u64,
    pub(super) received: u64,
    pub(super) window: Window,
    pub(super) order: u64,
    /// Packets granted since a message without end had its turn.
    pub(super) in_turn: u64,
    /// When it began to expect packets, or one of it last arrived.
    pub(super) waits_since: Time,
    /// When packets of it were last asked for.
    pub(super) asked_at: Time,
    pub(super) horizon: Horizon,
    pub(super) backoff: Backoff,
    part: Part,
}

impl Incoming {
    /// More packets are under way, as far as this side can tell.
    pub(super) fn expects(&self) -> bool {
        self.received < self.granted
    }

    /// Not all of it may be sent without.
    fn needs_grants(&self) -> bool {
        self.packets > self.unscheduled
    }

    /// It needs grants, and may have them.
    #[inline]
    pub(super) fn wants(&self) -> bool {
        self.granted < self.packets && self.granted < self.window.base() + MAX_AHEAD
    }

    /// Another packet of it may be under way. Bytes on the wire count, as in the authors' simulator
    /// (`getBytesOnWire`); those of a packet without a grant, as if it had one.
    #[inline]
    pub(super) fn has_room(&self, settings: &Settings) -> bool {
        (self.granted - self.received) * settings.packets.full() < settings.rtt_bytes
    }

    /// Fewest bytes to grant first (SRPT).
    #[inline]
    fn key(&self, settings: &Settings) -> u128 {
        let left = match self.size {
            Message::UNLIMITED => LONG,
            size => settings.packets.left(size, self.granted),
        };
        shortest_first(left, self.order)
    }
}

/// A sender, as its receiver sees it.
#[derive(Default)]
pub(super) struct Source {
    pub(super) host: u32,
    /// Messages that want grants.
    pub(super) messages: Pile<u128>,
    /// Level of the last grant.
    pub(super) level: u32,
    pub(super) lanes: Heard<()>,
    /// Messages that have arrived, of which the sender has not been told.
    untold: VecDeque<u64>,
    pub(super) heard_at: Time,
    /// When a packet of any of its messages last arrived for the first time.
    pub(super) data_at: Time,
    /// Did not answer: gets no grants until it is heard of.
    pub(super) silent: bool,
}

/// Everything a host is receiving.
pub(super) struct Inbox {
    pub(super) sources: Vec<Source>,
    pub(super) messages: Slab<Incoming>,
    places: Places,
    pub(super) schedule: Schedule,
    /// Of messages: when to look for what is missing.
    pub(super) timers: Timers,
    /// Of senders: when the next grant may go.
    pub(super) grants: Timers,
    /// Of senders: when to tell what has arrived.
    pub(super) acks: Timers,
    /// When the link has been idle for so long that one more sender is granted to.
    pub(super) bubble_at: Time,
    pub(super) order: u64,
    pub(super) exchanges: Exchanges,
}

impl Inbox {
    pub(super) fn new(settings: &Settings) -> Inbox {
        Inbox {
            sources: Vec::new(),
            messages: Slab::default(),
            places: Places::default(),
            schedule: Schedule::new(settings.overcommitment),
            timers: Timers::default(),
            grants: Timers::default(),
            acks: Timers::default(),
            bubble_at: Time::NEVER,
            order: 0,
            exchanges: Exchanges::default(),
        }
    }

    /// Grants and acknowledgements are wishes.
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
        let untold = self.sources.iter().any(|source| !source.untold.is_empty());
        let granting = self.schedule.active() > 0 || self.schedule.is_anyone_waiting();
        let rests = !untold && !granting && self.exchanges.is_quiet();
        rests && self.messages.len() == 0 && self.deadline() == Time::NEVER
    }

    #[cfg(test)]
    pub(super) fn most_ahead(&self) -> u64 {
        let windows = self.messages.all().iter().map(|message| &message.window);
        windows.map(|w| w.high().saturating_sub(w.base())).max().unwrap_or(0)
    }

    /// The next host that was met.
    pub(super) fn meet(&mut self, host: u32) {
        self.sources.push(Source { host, ..Source::default() });
    }

    /// A sender was never heard of, and what it was granted others can have.
    pub(super) fn forget(&mut self, step: &mut Step<'_>, number: u32) {
        let source = &mut self.sources[number as usize];
        let host = source.host;
        let gone = self.messages.slots(|message| message.source == number);
        for &slot in &gone {
            source.messages.remove(&mut self.places, slot);
            self.timers.remove(slot);
            self.messages.remove(slot);
        }
        self.grants.remove(number);
        self.acks.remove(number);
        *source = Source { host, ..Source::default() };
        self.exchanges.forget(host);
        // The records of those that are gone stay readable.
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

    /// A packet of any kind came from `source`.
    #[inline]
    pub(super) fn hear(&mut self, step: &mut Step<'_>, number: u32) {
        let source = &mut self.sources[number as usize];
        source.heard_at = step.now;
        if core::mem::take(&mut source.silent) {
            self.serve(step, number);
        }
    }

    /// A message that was not known. What is known of it then: it can never be where there is no
    /// room for it, or it makes no sense.
    #[cold]
    fn open(&mut self, step: &Step<'_>, number: u32, said: &Announced) -> Known<()> {
        let (settings, now) = (step.settings, step.now);
        let (size, unscheduled) = (said.size, said.unscheduled as u64);
        let packets = settings.packets.of(size);
        let sane = is_size(size) && unscheduled <= packets.min(MAX_UNSCHEDULED);
        if !sane || self.messages.len() >= MAX_MESSAGES {
            return Known::Never;
        }
        self.order += 1;
        let slot = self.messages.insert(|last| Incoming {
            id: said.message,
            source: number,
            lane: said.lane,
            generation: said.generation,
            size,
            packets,
            granted: unscheduled,
            unscheduled,
            window: last.window.cleared(),
            order: self.order,
            waits_since: now,
            part: said.part,
            ..Incoming::default()
        });
        self.sources[number as usize].lanes.open(said.lane, said.generation, slot);
        self.place(settings, slot);
        self.arm(step, slot);
        Known::Slot(slot)
    }

    /// Puts a message among those that want grants, or takes it out.
    #[inline]
    pub(super) fn place(&mut self, settings: &Settings, slot: u32) {
        let message = &self.messages[slot];
        let source = &mut self.sources[message.source as usize];
        if message.wants() {
            source.messages.set(&mut self.places, slot, message.key(settings));
        } else {
            source.messages.remove(&mut self.places, slot);
        }
    }

    /// Starts a message's timer if it expects packets and none is running.
    #[inline]
    pub(super) fn arm(&mut self, step: &Step<'_>, slot: u32) {
        let message = &mut self.messages[slot];
        if !self.timers.run(slot) && message.expects() {
            message.horizon = Horizon::of(&message.window, step.now);
            message.waits_since = step.now;
            self.timers.set(slot, step.now.after(step.settings.timeout));
        }
    }

    /// A message without end has one now.
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
        asked: &NeedAck,
        app: &mut A,
    ) -> Option<Header> {
        let said = asked.announced();
        let found = self.sources[source as usize].lanes.find(said.lane, said.generation);
        let found = if found == Known::New { self.open(step, source, &said) } else { found };
        match found {
            Known::Never | Known::New => None,
            Known::Done(()) => {
                Some(self.done(source, said.message, pair(said.lane, said.generation)))
            }
            Known::Slot(slot) => {
                self.learn_size(step.settings, slot, asked.size);
                if asked.repeated {
                    let sent = asked.sent / step.settings.packets.mtu;
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
        self.take_in(step, slot, data.offset, payload_bytes, app);
        let answer = self.finish(step, slot, app);
        self.serve(step, source);
        answer
    }

    /// A packet of a message has arrived: tells the application if it is one of its packets, and
    /// new.
    #[inline]
    fn take_in<A: Application>(
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
        // Whatever its sender thought, it counts as granted.
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

    /// Tells the application if all has arrived, and the sender, now or soon.
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
        source.messages.remove(&mut self.places, slot);
        source.lanes.close(message.lane, ());
        // Before the application, which may answer.
        self.exchanges.arrived(source.host, id, message.part);
        app.completed(step.now, MessageId { src: source.host, id });
        self.timers.remove(slot);
        self.messages.remove(slot);
        if was_granted {
            self.narrow(step);
            return Some(self.done(number, id, name));
        }
        source.untold.push_back(name);
        if source.untold.len() >= MOST_UNTOLD {
            let first = source.untold.pop_front()?;
            return Some(self.done(number, 0, first));
        }
        if !self.acks.run(number) {
            self.acks.set(number, step.now.after(step.settings.ack_delay));
        }
        None
    }

    /// Says that a message has arrived, of that number if it is known, and others that wait for
    /// being told.
    fn done(&mut self, number: u32, message: u32, name: u64) -> Header {
        let untold = &mut self.sources[number as usize].untold;
        let mut next = || untold.pop_front().unwrap_or(NOBODY);
        Header::Ack(Ack::of(message, [name, next(), next(), next(), next()]))
    }

    /// A message of `source` that has arrived and that data to it may acknowledge.
    #[inline]
    pub(super) fn untold(&mut self, number: u32) -> Option<u64> {
        self.sources[number as usize].untold.pop_front()
    }

    /// The first time to tell has come.
    pub(super) fn on_ack_timer(&mut self, step: &mut Step<'_>) {
        let Some((_, number)) = self.acks.first() else { return };
        self.acks.remove(number);
        while let Some(first) = self.untold(number) {
            let header = self.done(number, 0, first);
            step.send(self.sources[number as usize].host, header);
        }
    }
}
