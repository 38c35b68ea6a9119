//! The receiving half: arrived packets and the accounting of their credit (algorithm 1,
//! `onDataPacket`).

use alloc::vec::Vec;

use tidegate_core::{Application, Message, MessageId, Span, Time};

use super::credit::{Bucket, Pacer};
use super::header::{Ack, Announced, Credit, Data, Header, Request};
use super::target::TargetLaw;
use super::{LONG, Settings, Step};
use crate::kit::backoff::Backoff;
use crate::kit::by_host::ByHost;
use crate::kit::heap::{Heap, Pile, Positions};
use crate::kit::horizon::Horizon;
use crate::kit::lanes::{IncomingLanes, Known};
use crate::kit::segments::is_size;
use crate::kit::slab::Slab;
use crate::kit::timers::Timers;
use crate::kit::window::{MAX_AHEAD, Window};

/// Largest number of messages that are received at a time. Others are ignored, and their senders
/// repeat the request.
const MAX_MESSAGES: usize = 1 << 16;
/// Largest number of unscheduled packets of one message.
const MAX_UNSCHEDULED: u64 = 1 << 20;

/// A message that is being received.
#[derive(Default)]
pub(super) struct Incoming {
    pub(super) complete: bool,
    pub(super) id: u32,
    pub(super) source: u32,
    pub(super) lane: u32,
    pub(super) generation: u32,
    /// The sender's slot.
    pub(super) connection: u32,
    pub(super) size: u64,
    pub(super) packets: u64,
    /// Packets for which credit has been issued, or taken by the sender itself.
    pub(super) granted: u64,
    pub(super) received: u64,
    pub(super) window: Window,
    /// Packets that have been sent by the sender's account: more than were granted if it spent
    /// credit of other messages.
    pub(super) sent: u64,
    /// Credit for packets that a stopped message no longer has: its sender must discard it.
    excess: u64,
    pub(super) order: u64,
    pub(super) weight: u8,
    /// Time since which packets are expected: the later of its opening and its last arrival.
    pub(super) waits_since: Time,
    /// Time of the last request for missing packets.
    pub(super) requested_at: Time,
    pub(super) horizon: Horizon,
    pub(super) backoff: Backoff,
}

impl Incoming {
    /// Whether packets are in flight, as far as the receiver knows.
    pub(super) fn expects(&self) -> bool {
        self.received < self.granted.max(self.window.high()).max(self.sent)
    }

    /// Whether the message needs more credit and may get it.
    #[inline]
    pub(super) fn wants(&self) -> bool {
        self.granted < self.packets && self.granted < self.window.base() + MAX_AHEAD
    }

    #[inline]
    fn key(&self, settings: &Settings) -> u128 {
        let left = match self.size {
            Message::UNLIMITED => LONG,
            size => size.saturating_sub(self.received * settings.segments.mtu),
        };
        settings.receiver_policy.rank(left, self.order, self.weight)
    }
}

/// A sender, as the receiver sees it.
pub(super) struct Source {
    pub(super) host: u32,
    pub(super) bucket: Bucket,
    /// Total credit issued to it.
    pub(super) granted_bytes: u64,
    /// Messages that need credit.
    pub(super) messages: Pile<u128>,
    /// For an arrived message, its excess credit is kept.
    lanes: IncomingLanes<u64>,
    pub(super) last_packet_at: Time,
    /// Time at which a packet of any of its messages last arrived for the first time.
    pub(super) data_at: Time,
    /// Minimum delay of a full packet in picoseconds, by the two hosts' clocks; their offset may
    /// make it negative. It never ages.
    least_delay: i64,
    /// Whether the sender does not respond; it then gets no credit until a packet from it arrives,
    /// and its outstanding credit does not count against the budget.
    pub(super) silent: bool,
}

impl Source {
    /// A new source.
    fn new(settings: &Settings, host: u32) -> Source {
        Source {
            host,
            bucket: Bucket::new(settings, host),
            granted_bytes: 0,
            messages: Pile::default(),
            lanes: IncomingLanes::default(),
            last_packet_at: Time::ZERO,
            data_at: Time::ZERO,
            least_delay: i64::MAX,
            silent: false,
        }
    }
}

/// All receiving state of a host.
pub(super) struct Inbox {
    by_host: ByHost<u32>,
    pub(super) sources: Vec<Source>,
    pub(super) messages: Slab<Incoming>,
    positions: Positions,
    /// Senders that need credit and may get it, by their first message.
    pub(super) ready: Heap<u128>,
    /// Senders that may get credit later, although no data returns credit before.
    late: Timers,
    pub(super) timers: Timers,
    /// Credit outstanding over all senders except silent ones (`b` of algorithm 1).
    pub(super) outstanding: i64,
    /// Part of it that waits at links between switches, by the law of a target delay.
    pub(super) waiting: i64,
    pub(super) pacer: Pacer,
    /// Time of the last change.
    pub(super) clock: Time,
    /// Time of the next credit unless the state changes.
    pub(super) credit_at: Time,
    pub(super) order: u64,
}

impl Inbox {
    pub(super) fn new(pacer: Pacer) -> Inbox {
        Inbox {
            by_host: ByHost::default(),
            sources: Vec::new(),
            messages: Slab::default(),
            positions: Positions::default(),
            ready: Heap::default(),
            late: Timers::default(),
            timers: Timers::default(),
            outstanding: 0,
            waiting: 0,
            pacer,
            clock: Time::ZERO,
            credit_at: Time::NEVER,
            order: 0,
        }
    }

    #[inline]
    pub(super) fn deadline(&self) -> Time {
        self.credit_at.min(self.timers.next())
    }

    /// Earliest time of any action except issuing credit.
    #[inline]
    pub(super) fn timer(&self) -> Time {
        self.timers.next()
    }

    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        let waiting = self.sources.iter().map(|source| source.bucket.waiting).sum::<i64>();
        let start = self.outstanding == 0
            && (self.waiting, waiting) == (0, 0)
            && self.sources.iter().all(|source| source.bucket.outstanding == 0);
        start && self.messages.len() == 0 && self.deadline() == Time::NEVER
    }

    #[cfg(test)]
    pub(super) fn most_ahead(&self) -> u64 {
        let windows = self.messages.all().iter().map(|message| &message.window);
        windows.map(|w| w.high().saturating_sub(w.base())).max().unwrap_or(0)
    }

    /// Number of the sender at `host`; assigned if it is new and the packet announces a message.
    pub(super) fn source(
        &mut self,
        settings: &Settings,
        host: u32,
        announces: bool,
    ) -> Option<u32> {
        if let Some(known) = self.by_host.get(host).copied() {
            return Some(known);
        }
        if host >= settings.hosts || host == settings.host || !announces {
            return None;
        }
        let number = self.sources.len() as u32;
        self.sources.push(Source::new(settings, host));
        *self.by_host.entry(host) = number;
        Some(number)
    }

    /// Forgets the sender at `host`; its part of the budget becomes available to others.
    pub(super) fn forget(&mut self, settings: &Settings, host: u32) {
        let Some(number) = self.by_host.get(host).copied() else { return };
        let source = &mut self.sources[number as usize];
        for slot in self.messages.slots(|message| message.source == number) {
            source.messages.remove(&mut self.positions, slot);
            self.timers.remove(slot);
            self.messages.remove(slot);
        }
        if !source.silent {
            self.outstanding -= source.bucket.outstanding;
        }
        self.waiting -= source.bucket.waiting;
        *source = Source::new(settings, host);
        self.reschedule(settings, number, self.clock);
    }

    /// Registers that a packet of any kind has arrived from `source`: updates both control loops
    /// (section 4.3).
    #[inline]
    pub(super) fn on_packet(&mut self, step: &Step<'_>, source: u32, csn: bool, ce: bool) {
        let source = &mut self.sources[source as usize];
        source.bucket.observe(step.settings, csn, ce);
        source.last_packet_at = step.now;
        if core::mem::take(&mut source.silent) {
            self.outstanding += source.bucket.outstanding;
        }
    }

    /// Registers the size and the delay of a scheduled data packet from `source`: updates the
    /// control loop of shared links by a target delay.
    #[inline]
    pub(super) fn steer(
        &mut self,
        now: Time,
        law: &TargetLaw,
        source: u32,
        (wire, delay): (u32, Span),
    ) {
        let bucket = &mut self.sources[source as usize].bucket;
        self.waiting += bucket.steer(law, wire, delay, now);
    }

    /// Delay of a data packet beyond the fastest full packet of its sender, for this departure time
    /// by the sender's clock; zero before the first full packet. A shorter packet takes less time
    /// on every link, so its true queueing delay is larger than the result.
    pub(super) fn delay(&mut self, source: u32, now: Time, sent_at: Time, is_full: bool) -> Span {
        let least = &mut self.sources[source as usize].least_delay;
        let took = now.as_ps().wrapping_sub(sent_at.as_ps()) as i64;
        if is_full {
            *least = took.min(*least);
        }
        Span::ps(took.saturating_sub(*least).max(0) as u64)
    }

    /// Treats a sender as silent: others get its credit until it responds.
    pub(super) fn silence(&mut self, settings: &Settings, number: u32) {
        let source = &mut self.sources[number as usize];
        if !source.silent {
            source.silent = true;
            self.outstanding -= source.bucket.outstanding;
            source.bucket.delays.cancel();
            self.waiting += source.bucket.set_waiting(0);
            self.reschedule(settings, number, self.clock);
        }
    }

    /// Finds the message in a sender's lane.
    #[inline]
    fn find(&self, source: u32, lane: u32, generation: u32) -> Known<u64> {
        self.sources[source as usize].lanes.find(lane, generation)
    }

    /// Opens an unknown message: books the credit that its sender took for the unscheduled packets.
    /// The sender discards any credit beyond the booked amount once the message has arrived,
    /// because credit for those packets is issued as for others. Returns `Known::Never` if there is
    /// no room for the message or its announcement is invalid.
    #[cold]
    fn open(&mut self, step: &Step<'_>, number: u32, announced: &Announced) -> Known<u64> {
        let (settings, now) = (step.settings, step.now);
        let (size, unscheduled) = (announced.size, announced.unscheduled as u64);
        let packets = settings.segments.packets(size);
        let sane = is_size(size) && unscheduled <= packets.min(MAX_UNSCHEDULED);
        if !sane || self.messages.len() >= MAX_MESSAGES {
            return Known::Never;
        }
        let bucket = &self.sources[number as usize].bucket;
        let granted = bucket.bookable_packets(settings, size, unscheduled);
        let [taken, booked] =
            [unscheduled, granted].map(|packets| settings.segments.wire_below(size, packets));
        let order = settings.receiver_policy.first_order(&mut self.order);
        let slot = self.messages.insert(|last| Incoming {
            id: announced.message,
            source: number,
            lane: announced.lane,
            generation: announced.generation,
            connection: announced.connection,
            size,
            packets,
            granted,
            excess: taken - booked,
            window: last.window.cleared(),
            order,
            weight: announced.weight.clamp(1, Message::MOST_WEIGHT as u32) as u8,
            waits_since: now,
            ..Incoming::default()
        });
        self.book(number, booked as i64);
        self.sources[number as usize].lanes.open(announced.lane, announced.generation, slot);
        self.place(settings, slot);
        self.arm(step, slot);
        Known::Slot(slot)
    }

    /// Books issued credit, or, if negative, credit returned with data. Never for a silent sender:
    /// a packet from it has just arrived.
    pub(super) fn book(&mut self, source: u32, bytes: i64) {
        let bucket = &mut self.sources[source as usize].bucket;
        bucket.outstanding += bytes;
        self.outstanding += bytes;
        if bucket.waiting > bucket.outstanding.max(0) {
            self.waiting += bucket.set_waiting(bucket.outstanding.max(0));
        }
    }

    /// Adds a message to those that need credit, or removes it.
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
        if !message.complete && !self.timers.run(slot) && message.expects() {
            message.horizon = Horizon::of(&message.window, step.now);
            message.waits_since = step.now;
            self.timers.set(slot, step.now.after(step.settings.timeout));
        }
    }

    /// Adds a sender to those that may get credit at `now` or later, or removes it. Called after
    /// every change of its bucket and its messages.
    pub(super) fn reschedule(&mut self, settings: &Settings, number: u32, now: Time) {
        let source = &self.sources[number as usize];
        if let Some((key, slot)) = source.messages.first()
            && !source.silent
        {
            let message = &self.messages[slot];
            let wire = settings.segments.wire(message.size, message.granted) as i64;
            let at = source.bucket.opens_at(settings, wire);
            if at <= now {
                self.not_late(number);
                return self.ready.set(number, key);
            }
            if at < Time::NEVER {
                self.ready.remove(number);
                return self.late.set(number, at);
            }
        }
        self.not_late(number);
        self.ready.remove(number);
    }

    #[inline]
    fn not_late(&mut self, number: u32) {
        if self.late.next() < Time::NEVER {
            self.late.remove(number);
        }
    }

    /// Time at which the first of the senders that may get credit later may get it.
    #[inline]
    pub(super) fn late_at(&self) -> Time {
        self.late.next()
    }

    /// Adds the first of the senders that may get credit later to those that may get it.
    pub(super) fn open_late(&mut self, settings: &Settings) {
        if let Some((at, number)) = self.late.first() {
            self.clock = self.clock.max(at);
            self.reschedule(settings, number, at);
        }
    }

    /// Sets the size of a message whose size was unknown.
    fn learn_size(&mut self, settings: &Settings, slot: u32, size: u64) {
        let message = &mut self.messages[slot];
        let ended = settings.segments.of_ended(size, message.window.high());
        let (Message::UNLIMITED, Some(packets)) = (message.size, ended) else { return };
        (message.size, message.packets) = (size, packets);
        if message.granted > packets {
            let excess = (message.granted - packets) * settings.full;
            message.excess += excess;
            message.granted = packets;
            let source = message.source;
            // Its data will not arrive, as the measurement of a round trip assumes.
            self.sources[source as usize].bucket.delays.cancel();
            self.book(source, -(excess as i64));
        }
        self.place(settings, slot);
    }

    pub(super) fn on_request<A: Application>(
        &mut self,
        step: &mut Step<'_>,
        source: u32,
        request: &Request,
        app: &mut A,
    ) -> Option<Header> {
        let announced = request.announced();
        let found = self.find(source, announced.lane, announced.generation);
        let is_new = found == Known::New;
        match if is_new { self.open(step, source, &announced) } else { found } {
            Known::Never | Known::New => None,
            Known::Done(excess) => Some(self.done(source, &announced, excess)),
            Known::Slot(slot) => {
                self.learn_size(step.settings, slot, request.size);
                if request.repeated {
                    let sent = request.sent / step.settings.segments.mtu;
                    self.on_repeated_request(step, slot, sent);
                }
                match self.finish(step.now, slot, app) {
                    None if !is_new => Some(self.repeat(source, request.message)),
                    answer => answer,
                }
            }
        }
    }

    /// Repeats the total credit of a sender.
    pub(super) fn repeat(&self, source: u32, message: u32) -> Header {
        let granted = self.sources[source as usize].granted_bytes;
        Header::Credit(Credit { message, granted, ..Credit::default() })
    }

    #[inline]
    pub(super) fn on_data<A: Application>(
        &mut self,
        step: &Step<'_>,
        source: u32,
        data: &Data,
        payload_bytes: u32,
        app: &mut A,
    ) -> Option<Header> {
        let (settings, now) = (step.settings, step.now);
        let found = match self.find(source, data.lane, data.generation) {
            Known::New => self.open(step, source, &data.announced()),
            found => found,
        };
        let slot = match found {
            Known::Slot(slot) => slot,
            Known::Done(excess) => {
                return Some(self.done(source, &data.announced(), excess));
            }
            Known::Never | Known::New => return None,
        };
        if self.messages[slot].size != data.size {
            self.learn_size(settings, slot, data.size);
        }
        let message = &mut self.messages[slot];
        let packet = settings.segments.packet_at(message.size, data.offset, payload_bytes);
        let near = |packet: &u64| *packet < message.window.base() + MAX_AHEAD;
        let Some(packet) = packet.filter(near) else { return self.finish(now, slot, app) };
        let wire = settings.segments.wire(message.size, packet);
        if data.retransmission {
            // Link time that no credit has paid for.
            self.pacer.spend(now, wire);
        }
        if !message.window.insert(packet) {
            return self.finish(now, slot, app);
        }
        message.received += 1;
        message.waits_since = now;
        if message.backoff.end() {
            self.timers.set(slot, now.after(settings.timeout));
        }
        let sender = &mut self.sources[source as usize];
        let id = MessageId { src: sender.host, id: message.id };
        app.delivered(now, id, data.offset, payload_bytes);
        sender.data_at = now;
        sender.bucket.returned(settings, data, now);
        self.book(source, -(wire as i64));
        self.place(settings, slot);
        self.arm(step, slot);
        self.finish(now, slot, app)
    }

    /// If the message is complete, reports that to the application and to the sender.
    #[inline]
    fn finish<A: Application>(&mut self, now: Time, slot: u32, app: &mut A) -> Option<Header> {
        let message = &self.messages[slot];
        if message.complete || message.received < message.packets {
            return None;
        }
        self.complete(now, slot, app)
    }

    /// Completes a message. The record stays until credit for all of it has been issued: its sender
    /// may have spent credit of other messages on it.
    #[cold]
    fn complete<A: Application>(&mut self, now: Time, slot: u32, app: &mut A) -> Option<Header> {
        let message = &mut self.messages[slot];
        message.complete = true;
        let (id, excess, source) = (message.id, message.excess, message.source);
        let announced = Announced {
            connection: message.connection,
            lane: message.lane,
            generation: message.generation,
            message: id,
            unscheduled: 0,
            weight: message.weight as u32,
            size: message.size,
        };
        self.sources[source as usize].lanes.close(announced.lane, excess);
        self.timers.remove(slot);
        self.release(slot);
        app.completed(now, MessageId { src: self.sources[source as usize].host, id });
        Some(self.done(source, &announced, excess))
    }

    /// Acknowledges a message, in response to a packet of it. The excess credit may have been lost
    /// on its way to the sender.
    fn done(&self, source: u32, announced: &Announced, excess: u64) -> Header {
        Header::Ack(Ack {
            connection: announced.connection,
            lane: announced.lane,
            generation: announced.generation,
            message: announced.message,
            granted: if excess > 0 { self.sources[source as usize].granted_bytes } else { 0 },
            excess,
        })
    }

    #[inline]
    pub(super) fn release(&mut self, slot: u32) {
        let message = &self.messages[slot];
        if message.complete && message.granted == message.packets {
            self.messages.remove(slot);
        }
    }
}
