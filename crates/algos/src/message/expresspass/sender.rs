//! The sending half: one packet per credit, and the requests and stops of credits.

use alloc::vec::Vec;

use tidegate_core::{Message, Span, Time};

use super::header::{Credit, Data, Done, Header, Nack, Request, Stop};
use super::{MAX_BACKOFF, PATIENCE, Settings, Step};
use crate::kit::backoff::Backoff;
use crate::kit::by_host::ByHost;
use crate::kit::lanes::Lanes;
use crate::kit::name::Name;
use crate::kit::slab::{Key, Slab};
use crate::kit::timers::Timers;

/// Lower bound of round-trip times.
const LEAST_RTT: Span = Span::ns(100);

/// State of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Waits for a lane.
    #[default]
    Held,
    /// Credits were requested, and none has arrived since.
    Requested,
    /// Credits arrive.
    Credited,
    /// Credits were stopped; further ones are used while packets are left.
    Stopped,
    /// The message has arrived, and its lane is reused; credits may still arrive.
    Arrived,
}

/// A message that is being sent.
#[derive(Default)]
pub(super) struct Outgoing {
    state: State,
    id: u32,
    destination: u32,
    lane: u32,
    generation: u32,
    size: u64,
    packets: u64,
    /// The next packet to send, and the highest sent packet plus one.
    next: u64,
    high: u64,
    requested_at: Time,
    /// The last request was a repetition, so it is unknown to which request a credit belongs.
    repeated: bool,
    /// Time from an unrepeated request to the first credit.
    rtt: Option<Span>,
    /// Arrival of the last credit, and a moving average of the interval between credits.
    credited_at: Time,
    gap: Span,
    /// Credits since `round_at`, the last check, at most about a round trip ago.
    round_credits: u64,
    round_at: Time,
    /// Whether credits have arrived since the last stop.
    wasted: bool,
    backoff: Backoff,
}

impl Outgoing {
    fn left(&self) -> u64 {
        self.packets - self.next
    }

    /// Unsent payload that still must be sent, if the size is known.
    fn unsent(&self, settings: &Settings) -> u64 {
        if self.state == State::Arrived || self.size == Message::UNLIMITED {
            return 0;
        }
        self.size.saturating_sub(self.high.saturating_mul(settings.segments.mtu))
    }

    fn name(&self, slot: u32) -> Name {
        let Outgoing { lane, generation, id, .. } = *self;
        Name { connection: slot, lane, generation, message: id }
    }

    /// Time to wait for credits before the next request. The first request may be lost; after that
    /// credits are probably scarce: among thousands of messages, each gets one only rarely.
    /// Requests are not paid for by credits and add to the queue.
    fn patience(&self, settings: &Settings) -> Span {
        let least = settings.timeout.times(PATIENCE);
        let wait = match self.state {
            State::Requested if !self.repeated => settings.timeout,
            _ => self.gap.times(PATIENCE).max(least),
        };
        self.backoff.wait(wait).min(least.times(1 << MAX_BACKOFF))
    }

    /// Registers the arrival of a credit.
    #[inline]
    fn on_credit(&mut self, now: Time) {
        if self.credited_at > Time::ZERO {
            let (gap, before) = (now.since(self.credited_at).as_ps(), self.gap.as_ps());
            self.gap = Span::ps(if before > 0 { before - before / 8 + gap / 8 } else { gap });
        }
        self.credited_at = now;
        self.round_credits += 1;
    }

    /// Round-trip time; never zero, whatever a packet contains.
    fn rtt(&self, settings: &Settings) -> Span {
        self.rtt.unwrap_or(settings.base_rtt).max(LEAST_RTT)
    }
}

/// A receiver, as the sender sees it.
struct Destination {
    host: u32,
    lanes: Lanes,
}

impl Destination {
    /// A new destination.
    fn new(host: u32) -> Destination {
        Destination { host, lanes: Lanes::default() }
    }
}

/// All sending state of a host.
#[derive(Default)]
pub(super) struct Outbox {
    destinations: Vec<Destination>,
    by_host: ByHost<u32>,
    messages: Slab<Outgoing>,
    timers: Timers,
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

    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        self.messages.len() == 0 && self.deadline() == Time::NEVER
    }

    pub(super) fn submit(&mut self, step: &mut Step<'_>, message: &Message) -> Key {
        let destination =
            self.by_host.get(message.dst).copied().unwrap_or_else(|| self.connect(message.dst));
        let slot = self.messages.insert(|_| Outgoing {
            id: message.id,
            destination,
            size: message.bytes,
            packets: step.settings.segments.packets(message.bytes),
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
            self.backlog_bytes -= self.messages[slot].unsent(settings);
            self.timers.remove(slot);
            self.messages.remove(slot);
        }
        self.destinations[number as usize] = Destination::new(host);
    }

    /// Assigns a lane to a message and requests credits.
    fn begin(&mut self, step: &mut Step<'_>, slot: u32) {
        let message = &mut self.messages[slot];
        let destination = &mut self.destinations[message.destination as usize];
        let Some((lane, generation)) = destination.lanes.open(slot) else { return };
        (message.lane, message.generation) = (lane, generation);
        self.request(step, slot, false);
    }

    /// Requests credits, for the first time or again.
    fn request(&mut self, step: &mut Step<'_>, slot: u32, repeated: bool) {
        let message = &mut self.messages[slot];
        let Name { connection, lane, generation, message: id } = message.name(slot);
        let request = Request {
            repeated,
            connection,
            lane,
            generation,
            message: id,
            packets: message.left().min(u32::MAX as u64) as u32,
            size: message.size,
        };
        if message.state != State::Credited {
            message.state = State::Requested;
            message.requested_at = step.now;
        }
        message.repeated = repeated;
        let wait = message.patience(step.settings);
        step.send(self.destinations[message.destination as usize].host, Header::Request(request));
        self.timers.set(slot, step.now.after(wait));
    }

    /// Stops the credits; repeats this until the receiver has everything, or no credit has arrived
    /// for a while.
    fn stop_credits(&mut self, step: &mut Step<'_>, slot: u32) {
        let message = &mut self.messages[slot];
        let Name { connection, lane, generation, message: id } = message.name(slot);
        let sent = message.next.saturating_mul(step.settings.segments.mtu).min(message.size);
        let size = message.size;
        let stop = Stop { connection, lane, generation, message: id, size, sent };
        if message.state != State::Arrived {
            message.state = State::Stopped;
        }
        message.wasted = false;
        let wait = message.backoff.wait(message.rtt(step.settings).times(2));
        step.send(self.destinations[message.destination as usize].host, Header::Stop(stop));
        self.timers.set(slot, step.now.after(wait));
    }

    /// Ends a message of unknown size behind its sent packets.
    pub(super) fn stop(&mut self, step: &mut Step<'_>, message: Key) {
        let Some(slot) = self.messages.slot(message) else { return };
        let message = &mut self.messages[slot];
        if message.size != Message::UNLIMITED {
            return;
        }
        message.packets = message.high;
        message.size = message.high * step.settings.segments.mtu;
        if message.state != State::Held && message.left() == 0 {
            message.backoff.end();
            self.stop_credits(step, slot);
        }
    }

    /// Finds the message that a packet from `host` refers to, if it still exists.
    fn find(&self, host: u32, name: Name) -> Option<u32> {
        let Name { connection, lane, generation, .. } = name;
        let message = self.messages.get(connection)?;
        let same = message.state != State::Held
            && (message.lane, message.generation) == (lane, generation)
            && self.destinations[message.destination as usize].host == host;
        same.then_some(connection)
    }

    /// Handles a credit: one packet leaves for it.
    pub(super) fn on_credit(
        &mut self,
        step: &mut Step<'_>,
        host: u32,
        credit: &Credit,
    ) -> Option<Header> {
        let Some(slot) = self.find(host, credit.name()) else {
            if host >= step.settings.hosts {
                return None;
            }
            // For a message that has arrived long ago: its receiver has not received the stop.
            let Credit { connection, lane, generation, message, .. } = *credit;
            let size = Message::UNLIMITED;
            let stop = Stop { connection, lane, generation, message, size, sent: 0 };
            return Some(Header::Stop(stop));
        };
        if !step.has_room() {
            // Treated as a lost credit.
            return None;
        }
        let message = &mut self.messages[slot];
        message.on_credit(step.now);
        match message.state {
            State::Requested => {
                if !message.repeated {
                    message.rtt = Some(step.now.since(message.requested_at));
                }
                message.round_at = step.now;
                message.state = State::Credited;
                message.backoff.end();
                self.timers.set(slot, step.now.after(message.patience(step.settings)));
                self.spend(step, slot, credit);
            }
            State::Credited => {
                message.backoff.end();
                self.spend(step, slot, credit);
            }
            State::Stopped if message.left() > 0 => {
                self.send_data(step, slot, credit);
                if self.messages[slot].left() == 0 {
                    // The earlier stop does not cover the last packets.
                    self.stop_credits(step, slot);
                }
            }
            State::Stopped | State::Arrived | State::Held => message.wasted = true,
        }
        None
    }

    /// Uses a credit, and checks whether the credits in flight suffice.
    #[inline]
    fn spend(&mut self, step: &mut Step<'_>, slot: u32, credit: &Credit) {
        if self.messages[slot].left() > 0 {
            self.send_data(step, slot, credit);
        }
        let message = &mut self.messages[slot];
        if message.left() == 0 {
            return self.stop_credits(step, slot);
        }
        if step.now.since(message.round_at) < message.rtt(step.settings) {
            return;
        }
        let enough = message.round_credits >= message.left();
        (message.round_credits, message.round_at) = (0, step.now);
        if enough {
            self.stop_credits(step, slot);
        }
    }

    #[inline]
    fn send_data(&mut self, step: &mut Step<'_>, slot: u32, credit: &Credit) {
        let segments = step.settings.segments;
        let message = &mut self.messages[slot];
        let packet = message.next;
        let retransmission = packet < message.high;
        message.next += 1;
        message.high = message.high.max(message.next);
        if !retransmission && message.size != Message::UNLIMITED {
            self.backlog_bytes -= segments.payload(message.size, packet);
        }
        let data = Data {
            end_of_message: message.next == message.packets,
            retransmission,
            connection: slot,
            lane: message.lane,
            generation: message.generation,
            message: message.id,
            credit: credit.credit,
            size: message.size,
            offset: packet * segments.mtu,
            sent_at: credit.sent_at,
        };
        step.send(self.destinations[message.destination as usize].host, Header::Data(data));
    }

    /// A packet is missing: all packets from there on are sent again (go-back-N).
    pub(super) fn on_nack(&mut self, step: &mut Step<'_>, host: u32, nack: &Nack) {
        let Some(slot) = self.find(host, nack.name()) else { return };
        let message = &mut self.messages[slot];
        let packet = nack.offset / step.settings.segments.mtu;
        if packet >= message.next || message.state == State::Arrived {
            return;
        }
        message.next = packet;
        if message.state == State::Stopped {
            message.backoff.end();
            self.request(step, slot, false);
        }
    }

    /// Handles the acknowledgement of a message. Returns the application's number at the first one.
    pub(super) fn on_done(&mut self, step: &mut Step<'_>, host: u32, done: &Done) -> Option<u32> {
        let slot = self.find(host, done.name())?;
        let message = &mut self.messages[slot];
        if message.state == State::Arrived {
            return None;
        }
        self.backlog_bytes -= message.unsent(step.settings);
        let was_stopped = message.state == State::Stopped;
        message.state = State::Arrived;
        message.wasted = false;
        message.backoff.end();
        let (id, wait) = (message.id, message.rtt(step.settings));
        let destination = &mut self.destinations[message.destination as usize];
        let waiting = destination.lanes.close(message.lane);
        if was_stopped {
            self.timers.set(slot, step.now.after(wait));
        } else {
            self.stop_credits(step, slot);
        }
        if let Some(waiting) = waiting {
            self.begin(step, waiting);
        }
        Some(id)
    }

    /// Handles the earliest timer.
    pub(super) fn on_timer(&mut self, step: &mut Step<'_>) {
        let Some((at, slot)) = self.timers.first() else { return };
        // Actions that were missed in a long pause of the driver are done once.
        let step = &mut step.at(if step.settings.is_past(at, step.now) { step.now } else { at });
        let message = &mut self.messages[slot];
        match message.state {
            State::Held => self.timers.remove(slot),
            State::Arrived if !message.wasted => {
                self.timers.remove(slot);
                self.messages.remove(slot);
            }
            State::Credited
                if message.credited_at.after(message.patience(step.settings)) > step.now =>
            {
                let quiet_at = message.credited_at.after(message.patience(step.settings));
                self.timers.set(slot, quiet_at);
            }
            State::Arrived => {
                message.backoff.double(MAX_BACKOFF);
                self.stop_credits(step, slot);
            }
            State::Stopped if message.left() == 0 => {
                message.backoff.double(MAX_BACKOFF);
                self.stop_credits(step, slot);
            }
            State::Stopped => {
                message.backoff.end();
                self.request(step, slot, false);
            }
            State::Requested | State::Credited => {
                message.backoff.double(MAX_BACKOFF);
                self.request(step, slot, true);
            }
        }
    }
}
