//! The receiving half: what has arrived, and whose credit that was (algorithm 1, `onDataPacket`).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use tidegate_core::{Application, Message, MessageId, Time};

use super::credit::{Bucket, Pacer};
use super::header::{Ack, Announced, Credit, Data, Header, Request};
use super::sender::MAX_LANES;
use super::{Answer, Control, Key, LONG, Policy, Settings};
use crate::by_host::ByHost;
use crate::tables::{Heap, Places, Slab};
use crate::window::Window;

/// Messages being received at a time. More are not heard, and their senders ask again.
const MAX_MESSAGES: usize = 1 << 16;
/// Packets beyond the first missing one that are taken; credit stops there too.
pub(super) const MAX_AHEAD: u64 = 1 << 16;
/// Larger messages do not exist, but for those without end.
const MAX_SIZE: u64 = 1 << 56;
/// More packets of one message are not sent without credit.
const MAX_UNSCHEDULED: u64 = 1 << 20;

/// A message being received.
#[derive(Default)]
pub(super) struct Incoming {
    /// In use; the timers look at the slots of those that are not complete.
    pub(super) alive: bool,
    pub(super) complete: bool,
    pub(super) id: u32,
    pub(super) source: u32,
    pub(super) lane: u32,
    pub(super) generation: u32,
    /// The sender's slot.
    pub(super) connection: u32,
    pub(super) size: u64,
    pub(super) packets: u64,
    /// Packets for which credit has been handed out, or taken by the sender itself.
    pub(super) granted: u64,
    pub(super) received: u64,
    pub(super) window: Window,
    /// So many packets have been sent, the sender says: more than were granted where it spent other
    /// messages' credit.
    pub(super) sent: u64,
    /// Credit for packets that a stopped message no longer has: its sender must forget it.
    excess: u64,
    pub(super) order: u64,
    /// When it began to expect packets, or one of it last arrived.
    pub(super) waits_since: Time,
    /// When packets of it were last asked for.
    pub(super) asked_at: Time,
    /// Whatever is missing below this packet at `horizon_at` plus the timeout is lost.
    pub(super) horizon: u64,
    pub(super) horizon_at: Time,
    pub(super) backoff: u8,
}

impl Incoming {
    /// More packets are under way, as far as this side can tell.
    pub(super) fn expects(&self) -> bool {
        self.received < self.granted.max(self.window.high()).max(self.sent)
    }

    fn key(&self, settings: &Settings) -> Key {
        let remaining = match settings.policy {
            Policy::RoundRobin => 0,
            Policy::Srpt if self.size == Message::UNLIMITED => LONG,
            Policy::Srpt => self.size.saturating_sub(self.received * settings.mtu),
        };
        (remaining, self.order)
    }
}

/// What a lane's last message has become.
#[derive(Clone, Copy)]
enum Last {
    /// There was none.
    Unused,
    /// Being received, in this slot.
    Slot(u32),
    /// Complete, with so much excess credit.
    Done(u64),
}

#[derive(Clone, Copy)]
struct Lane {
    generation: u32,
    last: Last,
}

/// A sender, as its receiver sees it.
pub(super) struct Source {
    pub(super) host: u32,
    pub(super) bucket: Bucket,
    /// Every byte of credit handed out to it so far.
    pub(super) granted_bytes: u64,
    /// Messages that want credit.
    pub(super) messages: Heap<Key>,
    lanes: Vec<Lane>,
    pub(super) heard_at: Time,
    /// When a packet of any of its messages last arrived for the first time.
    pub(super) data_at: Time,
    /// Did not answer: gets no credit until it is heard of, and what it has does not count against
    /// the budget.
    silent: bool,
}

/// Everything a host is receiving.
pub(super) struct Inbox {
    by_host: ByHost<u32>,
    pub(super) sources: Vec<Source>,
    pub(super) messages: Slab<Incoming>,
    places: Places,
    /// Senders that want credit and may have it, by their head message.
    pub(super) ready: Heap<Key>,
    ready_places: Places,
    pub(super) timers: Heap<Time>,
    pub(super) timer_places: Places,
    /// Credit outstanding over all senders but silent ones (`b` of algorithm 1).
    pub(super) outstanding: i64,
    pub(super) pacer: Pacer,
    /// When anything last changed.
    pub(super) clock: Time,
    /// When the next credit leaves unless anything changes.
    pub(super) credit_at: Time,
    pub(super) order: u64,
}

/// What is known of the message that a packet belongs to.
enum Found {
    /// It is being received, in this slot; true where this packet is the first of it.
    Slot(u32, bool),
    /// This packet is the first of it that came.
    New,
    /// It has arrived, with so much excess credit.
    Done(u64),
    /// It is over, or there is no room for it, or the packet makes no sense.
    Nothing,
}

impl Inbox {
    pub(super) fn new(pacer: Pacer) -> Inbox {
        Inbox {
            by_host: ByHost::default(),
            sources: Vec::new(),
            messages: Slab::default(),
            places: Places::default(),
            ready: Heap::default(),
            ready_places: Places::default(),
            timers: Heap::default(),
            timer_places: Places::default(),
            outstanding: 0,
            pacer,
            clock: Time::ZERO,
            credit_at: Time::NEVER,
            order: 0,
        }
    }

    #[inline]
    pub(super) fn deadline(&self) -> Time {
        self.credit_at.min(self.timer())
    }

    /// When the first timer fires.
    #[inline]
    pub(super) fn timer(&self) -> Time {
        self.timers.first().map_or(Time::NEVER, |(at, _)| at)
    }

    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        let start = self.outstanding == 0
            && self.sources.iter().all(|source| source.bucket.outstanding == 0);
        start && self.messages.in_use() == 0 && self.deadline() == Time::NEVER
    }

    #[cfg(test)]
    pub(super) fn most_ahead(&self) -> u64 {
        (0..self.messages.len())
            .map(|slot| &self.messages[slot].window)
            .map(|w| w.high().saturating_sub(w.base()))
            .max()
            .unwrap_or(0)
    }

    /// The sender at `host`; made if there is none and the packet announces a message.
    pub(super) fn source(
        &mut self,
        settings: &Settings,
        host: u32,
        announces: bool,
    ) -> Option<u32> {
        if let Some(known) = self.by_host.get(host).copied() {
            return Some(known);
        }
        if host >= settings.hosts || !announces {
            return None;
        }
        let number = self.sources.len() as u32;
        self.sources.push(Source {
            host,
            bucket: Bucket::new(settings),
            granted_bytes: 0,
            messages: Heap::default(),
            lanes: Vec::new(),
            heard_at: Time::ZERO,
            data_at: Time::ZERO,
            silent: false,
        });
        *self.by_host.entry(host) = number;
        Some(number)
    }

    /// A packet of any kind came from `source`: both control loops run (section 4.3).
    pub(super) fn hear(
        &mut self,
        settings: &Settings,
        now: Time,
        source: u32,
        csn: bool,
        ce: bool,
    ) {
        let source = &mut self.sources[source as usize];
        source.bucket.observe(settings, csn, ce);
        source.heard_at = now;
        if core::mem::take(&mut source.silent) {
            self.outstanding += source.bucket.outstanding;
        }
    }

    /// A sender does not answer: its credit is for others until it does.
    pub(super) fn silence(&mut self, settings: &Settings, number: u32) {
        let source = &mut self.sources[number as usize];
        if !source.silent {
            source.silent = true;
            self.outstanding -= source.bucket.outstanding;
            self.settle(settings, number);
        }
    }

    /// The message of a sender in that lane.
    #[inline]
    fn find(&self, source: u32, lane: u32, generation: u32) -> Found {
        if lane as usize >= MAX_LANES {
            return Found::Nothing;
        }
        let lane = self.sources[source as usize].lanes.get(lane as usize);
        match lane.copied().unwrap_or(Lane { generation, last: Last::Unused }) {
            Lane { last: Last::Unused, .. } => Found::New,
            Lane { generation: same, last } if same == generation => match last {
                Last::Slot(slot) => Found::Slot(slot, false),
                Last::Done(excess) => Found::Done(excess),
                Last::Unused => Found::Nothing,
            },
            // A sender uses a lane again when it knows that the message before has arrived.
            Lane { generation: before, last: Last::Done(_) }
                if (generation.wrapping_sub(before) as i32) > 0 =>
            {
                Found::New
            }
            _ => Found::Nothing,
        }
    }

    /// A message that was not known: books the credit that its sender took for the unscheduled
    /// packets.
    fn open(&mut self, settings: &Settings, now: Time, number: u32, said: &Announced) -> Found {
        let (size, unscheduled) = (said.size, said.unscheduled as u64);
        let packets = settings.packets(size);
        let sane = (size <= MAX_SIZE || size == Message::UNLIMITED)
            && unscheduled <= packets.min(MAX_UNSCHEDULED);
        if !sane || self.messages.in_use() >= MAX_MESSAGES {
            return Found::Nothing;
        }
        let slot = self.messages.take();
        self.order += 1;
        let message = &mut self.messages[slot];
        let mut window = core::mem::take(&mut message.window);
        window.clear();
        *message = Incoming {
            alive: true,
            id: said.message,
            source: number,
            lane: said.lane,
            generation: said.generation,
            connection: said.connection,
            size,
            packets,
            granted: unscheduled,
            window,
            order: self.order,
            waits_since: now,
            horizon_at: now,
            ..Incoming::default()
        };
        self.book(number, settings.wire_below(size, unscheduled) as i64);
        let source = &mut self.sources[number as usize];
        if source.lanes.len() <= said.lane as usize {
            source.lanes.resize(said.lane as usize + 1, Lane { generation: 0, last: Last::Unused });
        }
        source.lanes[said.lane as usize] =
            Lane { generation: said.generation, last: Last::Slot(slot) };
        self.place(settings, slot);
        self.arm(settings, now, slot);
        Found::Slot(slot, true)
    }

    /// Counts credit handed out, or, below zero, come back with data. Never for a silent sender: it
    /// has just been heard.
    pub(super) fn book(&mut self, source: u32, bytes: i64) {
        self.sources[source as usize].bucket.outstanding += bytes;
        self.outstanding += bytes;
    }

    /// Puts a message among those that want credit, or takes it out.
    pub(super) fn place(&mut self, settings: &Settings, slot: u32) {
        let message = &self.messages[slot];
        let source = &mut self.sources[message.source as usize];
        let wants = message.granted < message.packets
            && message.granted < message.window.base() + MAX_AHEAD;
        if wants {
            source.messages.set(&mut self.places, slot, message.key(settings));
        } else {
            source.messages.remove(&mut self.places, slot);
        }
    }

    /// Starts a message's timer if it expects packets and none is running.
    pub(super) fn arm(&mut self, settings: &Settings, now: Time, slot: u32) {
        let message = &mut self.messages[slot];
        if !message.complete && message.expects() && !self.timer_places.contain(slot) {
            (message.horizon, message.horizon_at) = (message.window.high(), now);
            message.waits_since = now;
            self.timers.set(&mut self.timer_places, slot, now.after(settings.timeout));
        }
    }

    /// Puts a sender among those that may have credit, or takes it out. Follows every change of its
    /// bucket and its messages.
    pub(super) fn settle(&mut self, settings: &Settings, number: u32) {
        let source = &self.sources[number as usize];
        if let Some((key, slot)) = source.messages.first()
            && !source.silent
        {
            let message = &self.messages[slot];
            let wire = settings.wire(message.size, message.granted) as i64;
            if source.bucket.admits(settings, wire) {
                return self.ready.set(&mut self.ready_places, number, key);
            }
        }
        self.ready.remove(&mut self.ready_places, number);
    }

    /// A message without end has one now.
    fn learn_size(&mut self, settings: &Settings, slot: u32, size: u64) {
        let message = &mut self.messages[slot];
        let packets = settings.packets(size);
        if message.size != Message::UNLIMITED
            || size > MAX_SIZE
            || !size.is_multiple_of(settings.mtu)
            || packets < message.window.high()
        {
            return;
        }
        (message.size, message.packets) = (size, packets);
        if message.granted > packets {
            message.excess = (message.granted - packets) * settings.full;
            message.granted = packets;
            let (source, excess) = (message.source, message.excess as i64);
            self.book(source, -excess);
        }
        self.place(settings, slot);
    }

    pub(super) fn on_request<A: Application>(
        &mut self,
        settings: &Settings,
        now: Time,
        source: u32,
        request: &Request,
        app: &mut A,
        control: &mut VecDeque<Control>,
    ) -> Answer {
        let said = request.announced();
        let found = match self.find(source, said.lane, said.generation) {
            Found::New => self.open(settings, now, source, &said),
            found => found,
        };
        match found {
            Found::Nothing | Found::New => Answer::None,
            Found::Done(excess) => Answer::Reply(self.done(source, &said, excess)),
            Found::Slot(slot, fresh) => {
                self.learn_size(settings, slot, request.size);
                if request.repeated {
                    let sent = request.sent / settings.mtu;
                    self.on_repeated_request(settings, now, slot, sent, control);
                }
                match self.finish(now, slot, app) {
                    Answer::None if !fresh => Answer::Reply(self.repeat(source, request.message)),
                    answer => answer,
                }
            }
        }
    }

    /// Says again how much credit a sender has had in all.
    pub(super) fn repeat(&self, source: u32, message: u32) -> Header {
        let granted = self.sources[source as usize].granted_bytes;
        Header::Credit(Credit { message, granted, ..Credit::default() })
    }

    #[inline]
    pub(super) fn on_data<A: Application>(
        &mut self,
        settings: &Settings,
        now: Time,
        source: u32,
        data: &Data,
        payload_bytes: u32,
        app: &mut A,
    ) -> Answer {
        let found = match self.find(source, data.lane, data.generation) {
            Found::New => self.open(settings, now, source, &data.announced()),
            found => found,
        };
        let slot = match found {
            Found::Slot(slot, _) => slot,
            Found::Done(excess) => {
                return Answer::Reply(self.done(source, &data.announced(), excess));
            }
            Found::Nothing | Found::New => return Answer::None,
        };
        if self.messages[slot].size != data.size {
            self.learn_size(settings, slot, data.size);
        }
        let message = &mut self.messages[slot];
        let packet = data.offset / settings.mtu;
        let fits = data.offset.is_multiple_of(settings.mtu)
            && packet < message.packets
            && payload_bytes as u64 == settings.payload(message.size, packet)
            && packet < message.window.base() + MAX_AHEAD;
        let wire = if fits { settings.wire(message.size, packet) } else { 0 };
        if fits && data.retransmission {
            // Time of the link that no credit has paid for.
            self.pacer.spend(now, wire);
        }
        if fits && message.window.insert(packet) {
            message.received += 1;
            message.waits_since = now;
            if core::mem::take(&mut message.backoff) > 0 {
                self.timers.set(&mut self.timer_places, slot, now.after(settings.timeout));
            }
            let sender = &mut self.sources[source as usize];
            let id = MessageId { src: sender.host, id: message.id };
            app.delivered(now, id, data.offset, payload_bytes);
            sender.data_at = now;
            self.book(source, -(wire as i64));
            self.place(settings, slot);
            self.arm(settings, now, slot);
        }
        self.finish(now, slot, app)
    }

    /// Tells application and sender if all has arrived. The record stays until credit for all of it
    /// has been handed out: its sender may have spent on it what was meant for others.
    fn finish<A: Application>(&mut self, now: Time, slot: u32, app: &mut A) -> Answer {
        let message = &mut self.messages[slot];
        if message.complete || message.received < message.packets {
            return Answer::None;
        }
        message.complete = true;
        let (id, excess, source) = (message.id, message.excess, message.source);
        let said = Announced {
            connection: message.connection,
            lane: message.lane,
            generation: message.generation,
            message: id,
            unscheduled: 0,
            size: message.size,
        };
        self.sources[source as usize].lanes[said.lane as usize].last = Last::Done(excess);
        self.timers.remove(&mut self.timer_places, slot);
        self.release(slot);
        app.completed(now, MessageId { src: self.sources[source as usize].host, id });
        Answer::Reply(self.done(source, &said, excess))
    }

    /// Says that a message has arrived, in answer to a packet of it. What the sender is to forget
    /// may be credit that was lost on its way.
    fn done(&self, source: u32, said: &Announced, excess: u64) -> Header {
        Header::Ack(Ack {
            connection: said.connection,
            lane: said.lane,
            generation: said.generation,
            message: said.message,
            granted: if excess > 0 { self.sources[source as usize].granted_bytes } else { 0 },
            excess,
        })
    }

    pub(super) fn release(&mut self, slot: u32) {
        let message = &mut self.messages[slot];
        if message.complete && message.granted == message.packets {
            message.alive = false;
            self.messages.give_back(slot);
        }
    }
}
