//! The sending half: messages, their tokens, and the choice of the next packet.

use alloc::collections::VecDeque;

use tidegate_core::{Message, Time};

use super::granting::Granting;
use super::header::{Ack, Data, Header, Notification, Token};
use super::{MAX_BACKOFF, Settings, Step};
use crate::kit::backoff::Backoff;
use crate::kit::heap::Heap;
use crate::kit::slab::{Key, Slab};
use crate::kit::timers::Timers;
use crate::kit::window::Window;

/// Largest number of waiting tokens per message; the receiver replaces dropped ones.
const MAX_TOKENS: usize = 4096;
/// Label of packets of short messages, which need no tokens.
const SHORT_LABEL: u32 = 1;

/// A received, unused token.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    packet: u64,
    number: u32,
    expires: Time,
}

/// Numbers of the tokens that have arrived, so that a duplicate is recognised among the latest 128.
/// An older number counts as new.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    /// The highest number, plus one. Wraps.
    end: u32,
    /// Whether the numbers below it have arrived, the highest in the lowest bit.
    arrived: u128,
}

impl Numbers {
    /// Adds a number. Returns false if it was present.
    #[inline]
    fn insert(&mut self, number: u32) -> bool {
        let ahead = number.wrapping_sub(self.end);
        if ahead <= u32::MAX / 2 {
            self.arrived = self.arrived.checked_shl(ahead + 1).unwrap_or(0) | 1;
            self.end = number.wrapping_add(1);
            return true;
        }
        let bit = 1u128.checked_shl(u32::MAX - ahead).unwrap_or(0);
        let is_new = self.arrived & bit == 0;
        self.arrived |= bit;
        is_new
    }
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
    /// Unsent payload; zero for a message of unknown size.
    unsent: u64,
    /// Priority of its data.
    priority: u8,
    /// Packets below `free_end` need no tokens; this is the next of them.
    free: u64,
    free_end: u64,
    /// Packets that have been sent.
    sent: Window,
    tokens: VecDeque<Waiting>,
    numbers: Numbers,
    /// Contents of the last token: label of the match, and missing packets.
    label: u32,
    remaining: u32,
    /// Whether the receiver has been notified.
    announced: bool,
    /// Whether it waits for a lane.
    held: bool,
    order: u64,
    /// Time of the last transmission or token.
    active_at: Time,
    backoff: Backoff,
}

impl Outgoing {
    /// Order: tokens of better matches first, then messages with fewer missing packets, then older
    /// ones.
    fn key(&self) -> u128 {
        (self.label as u128) << 96 | (self.remaining as u128) << 64 | self.order as u128
    }

    fn notification(&self, slot: u32, repeated: bool) -> Header {
        Header::Notification(Notification {
            repeated,
            connection: slot,
            lane: self.lane,
            generation: self.generation,
            message: self.id,
            size: self.size,
        })
    }
}

/// The next packet.
pub(super) enum Next {
    Control(u32, Header),
    /// Destination, header, payload and priority.
    Data(u32, Data, u32, u8),
}

/// All sending state of a host.
#[derive(Default)]
pub(super) struct Outbox {
    pub(super) granting: Granting,
    messages: Slab<Outgoing>,
    /// Messages of which a packet may be sent.
    ready: Heap<u128>,
    pub(super) timers: Timers,
    order: u64,
    backlog_bytes: u64,
}

impl Outbox {
    #[inline]
    pub(super) fn deadline(&self) -> Time {
        self.timers.next().min(self.granting.stage_at)
    }

    pub(super) fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    pub(super) fn contains(&self, message: Key) -> bool {
        self.messages.slot(message).is_some()
    }

    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        self.messages.len() == 0 && self.ready.len() == 0 && self.deadline() == Time::NEVER
    }

    #[cfg(test)]
    pub(super) fn tokens(&self) -> usize {
        self.messages.all().iter().map(|message| message.tokens.len()).sum()
    }

    pub(super) fn submit(&mut self, step: &mut Step<'_>, message: &Message) -> Key {
        let destination = self.granting.connect(message.dst);
        self.granting.destinations[destination as usize].open += 1;
        self.order += 1;
        let packets = step.settings.segments.packets(message.bytes);
        let unsent = if message.bytes == Message::UNLIMITED { 0 } else { message.bytes };
        let slot = self.messages.insert(|last| {
            let mut tokens = last.tokens;
            tokens.clear();
            Outgoing {
                id: message.id,
                destination,
                size: message.bytes,
                packets,
                unsent,
                priority: step.settings.priority(packets),
                sent: last.sent.cleared(),
                tokens,
                order: self.order,
                ..Outgoing::default()
            }
        });
        self.backlog_bytes += unsent;
        self.begin(step, slot);
        self.messages.key(slot)
    }

    /// Forgets the receiver at `host` and frees its channels.
    pub(super) fn forget(&mut self, host: u32) {
        let Some(number) = self.granting.by_host.get(host).copied() else { return };
        for slot in self.messages.slots(|message| message.destination == number) {
            self.remove(slot);
        }
        self.granting.disconnect(number);
    }

    /// Removes a message, whether or not it has been sent.
    fn remove(&mut self, slot: u32) {
        self.backlog_bytes -= self.messages[slot].unsent;
        self.ready.remove(slot);
        self.timers.remove(slot);
        self.messages.remove(slot);
    }

    /// Assigns a lane to a message. A short message may be sent immediately; for a long one the
    /// receiver is notified.
    fn begin(&mut self, step: &mut Step<'_>, slot: u32) {
        let settings = step.settings;
        let message = &mut self.messages[slot];
        let destination = &mut self.granting.destinations[message.destination as usize];
        let lane = destination.lanes.open(slot);
        message.held = lane.is_none();
        let Some((lane, generation)) = lane else { return };
        (message.lane, message.generation) = (lane, generation);
        message.active_at = step.now;
        if message.packets > 0 && message.packets <= settings.short {
            message.free_end = message.packets;
            (message.label, message.remaining) = (SHORT_LABEL, message.packets as u32);
            self.ready.set(slot, message.key());
        } else {
            message.announced = true;
            step.send(destination.host, message.notification(slot, false));
        }
        self.timers.set(slot, step.now.after(settings.notify_timeout));
    }

    /// Ends a message of unknown size behind its sent packets.
    pub(super) fn stop(&mut self, step: &mut Step<'_>, message: Key) {
        let Some(slot) = self.messages.slot(message) else { return };
        let message = &mut self.messages[slot];
        if message.size != Message::UNLIMITED {
            return;
        }
        message.packets = message.sent.high();
        message.size = message.packets * step.settings.segments.mtu;
        if message.held {
            return;
        }
        message.backoff.end();
        let host = self.granting.destinations[message.destination as usize].host;
        step.send(host, message.notification(slot, false));
        self.timers.set(slot, step.now.after(step.settings.notify_timeout));
    }

    /// Finds the message that a packet from `host` refers to, if it still exists.
    fn find(&self, host: u32, connection: u32, lane: u32, generation: u32) -> Option<u32> {
        let message = self.messages.get(connection)?;
        let same = !message.held
            && message.lane == lane
            && message.generation == generation
            && self.granting.destinations[message.destination as usize].host == host;
        same.then_some(connection)
    }

    /// Handles a token, once if links have duplicated it. Packets that are sent without tokens
    /// ignore it. A token beyond the end of the message shows that the receiver does not know the
    /// end, so it does not suppress the next notification.
    #[inline]
    pub(super) fn on_token(&mut self, step: &Step<'_>, host: u32, token: &Token) {
        let Token { connection, lane, generation, packet, .. } = *token;
        let Some(slot) = self.find(host, connection, lane, generation) else { return };
        let message = &mut self.messages[slot];
        let end = message.packets.min(message.sent.base() + step.settings.ahead);
        if packet >= end || !message.numbers.insert(token.token) {
            return;
        }
        message.active_at = step.now;
        if message.backoff.end() {
            self.timers.set(slot, step.now.after(step.settings.notify_timeout));
        }
        let waits = (message.free..message.free_end).contains(&packet);
        if waits || message.tokens.len() >= MAX_TOKENS {
            return;
        }
        let (number, expires) = (token.token, token.expires);
        message.tokens.push_back(Waiting { packet, number, expires });
        if message.free == message.free_end {
            (message.label, message.remaining) = (token.label, token.remaining);
        }
        self.ready.set(slot, message.key());
    }

    /// Chooses the next packet: of the first message that may send one.
    #[inline]
    pub(super) fn next(&mut self, settings: &Settings, now: Time) -> Option<Next> {
        loop {
            let (_, slot) = self.ready.first()?;
            let message = &mut self.messages[slot];
            let destination = &mut self.granting.destinations[message.destination as usize];
            let waiting = if message.free < message.free_end {
                if !message.announced {
                    message.announced = true;
                    return Some(Next::Control(
                        destination.host,
                        message.notification(slot, false),
                    ));
                }
                let packet = message.free;
                message.free += 1;
                Some(Waiting { packet, number: packet as u32, expires: Time::NEVER })
            } else {
                message.tokens.pop_front()
            };
            if message.free == message.free_end && message.tokens.is_empty() {
                self.ready.remove(slot);
            }
            // A stopped message has fewer packets.
            let good =
                |waiting: &Waiting| waiting.expires >= now && waiting.packet < message.packets;
            let Some(Waiting { packet, number, .. }) = waiting.filter(good) else { continue };
            let payload = settings.segments.payload(message.size, packet) as u32;
            let is_new = message.sent.insert(packet);
            if is_new {
                let counted = message.unsent.min(payload as u64);
                message.unsent -= counted;
                self.backlog_bytes -= counted;
            }
            message.active_at = now;
            destination.last_sent_at = now;
            let data = Data {
                end_of_message: packet + 1 == message.packets,
                retransmission: !is_new,
                connection: slot,
                lane: message.lane,
                generation: message.generation,
                message: message.id,
                token: number,
                size: message.size,
                offset: packet * settings.segments.mtu,
            };
            return Some(Next::Data(destination.host, data, payload, message.priority));
        }
    }

    /// Removes an acknowledged message, and returns the application's number of it.
    pub(super) fn on_ack(&mut self, step: &mut Step<'_>, host: u32, ack: &Ack) -> Option<u32> {
        let slot = self.find(host, ack.connection, ack.lane, ack.generation)?;
        let message = &self.messages[slot];
        if message.size == Message::UNLIMITED {
            return None;
        }
        let Outgoing { id, destination, lane, .. } = *message;
        self.remove(slot);
        let destination = &mut self.granting.destinations[destination as usize];
        destination.open -= 1;
        if let Some(waiting) = destination.lanes.close(lane) {
            self.begin(step, waiting);
        }
        Some(id)
    }

    /// Handles the earliest message timer: after a timeout without transmission or token, notifies
    /// the receiver (again), which responds if the message has arrived.
    pub(super) fn on_timer(&mut self, step: &mut Step<'_>) {
        let Some((at, slot)) = self.timers.first() else { return };
        let timeout = step.settings.notify_timeout;
        let message = &mut self.messages[slot];
        let quiet_at = message.active_at.after(timeout);
        let next = if quiet_at > at {
            message.backoff.end();
            quiet_at
        } else {
            if message.announced {
                let host = self.granting.destinations[message.destination as usize].host;
                step.send(host, message.notification(slot, true));
                message.backoff.double(MAX_BACKOFF);
            }
            at.after(message.backoff.wait(timeout))
        };
        self.timers.set_again(slot, next, step.now, timeout);
    }
}
