//! The receiving half: what has arrived, and what is missing.

use alloc::vec::Vec;

use tidegate_core::{Application, Message, MessageId, Time};

use super::header::{Ack, Announced, Data, Header, Notification};
use super::matching::{Match, Matching};
use super::tokens::Clock;
use super::{LONG, Settings, Step};
use crate::kit::backoff::Backoff;
use crate::kit::by_host::ByHost;
use crate::kit::heap::{Pile, Places, shortest_first};
use crate::kit::lanes::{Heard, Known};
use crate::kit::segments::is_size;
use crate::kit::slab::Slab;
use crate::kit::timers::Timers;
use crate::kit::window::Window;

/// Messages being received at a time. More are not heard, and their senders tell again.
const MAX_MESSAGES: usize = 1 << 16;
/// Packets beyond the first missing one that tokens are sent for, and that are taken, where two
/// round trips are no more. What expires at the end of a phase leaves a hole, so a longer message
/// has its holes filled so often.
pub(super) const AHEAD: u64 = 1 << 12;
/// The same, however long a round trip is.
pub(super) const MAX_AHEAD: u64 = 1 << 16;
/// In no list.
pub(super) const NOWHERE: u32 = u32::MAX;

/// A message being received.
#[derive(Default)]
pub(super) struct Incoming {
    pub(super) id: u32,
    pub(super) source: u32,
    pub(super) lane: u32,
    pub(super) generation: u32,
    /// The sender's slot.
    pub(super) connection: u32,
    pub(super) size: u64,
    pub(super) packets: u64,
    pub(super) received: u64,
    pub(super) window: Window,
    /// The packet that the last token was for, and one.
    pub(super) cursor: u64,
    /// Tokens so far; a short message is sent as if it had one for each packet. Wraps.
    pub(super) tokens: u32,
    /// The highest one that data has answered, and one.
    pub(super) answered: u32,
    pub(super) token_at: Time,
    pub(super) order: u64,
}

impl Incoming {
    /// Packets that are missing; all ones where that is more.
    #[inline]
    pub(super) fn remaining(&self) -> u32 {
        (self.packets - self.received).min(u32::MAX as u64) as u32
    }

    #[inline]
    fn key(&self) -> u128 {
        let left = match self.size {
            Message::UNLIMITED => LONG,
            _ => self.packets - self.received,
        };
        shortest_first(left, self.order)
    }
}

/// A sender, as its receiver sees it.
pub(super) struct Source {
    pub(super) host: u32,
    /// Messages that tokens may be sent for.
    pub(super) messages: Pile<u128>,
    lanes: Heard<()>,
    /// In the phase of data, and in the epoch that is matched.
    pub(super) sending: Match,
    pub(super) next: Match,
    /// Those of the two.
    pub(super) clocks: [Clock; 2],
    /// Among those that are asked for channels, or [`NOWHERE`].
    pub(super) place: u32,
    /// Epoch and round of its last grant and its last rejection.
    pub(super) granted: (u64, u32),
    pub(super) rejected: (u64, u32),
    /// When it was first asked for channels since it was last heard; never: it was not.
    pub(super) asked_at: Time,
    /// How often in a row it was given up for a while.
    pub(super) silence: Backoff,
}

impl Source {
    /// One that was never heard of.
    fn new(host: u32) -> Source {
        Source {
            host,
            messages: Pile::default(),
            lanes: Heard::default(),
            sending: Match::default(),
            next: Match::default(),
            clocks: [Clock::default(); 2],
            place: NOWHERE,
            granted: (0, 0),
            rejected: (0, 0),
            asked_at: Time::NEVER,
            silence: Backoff::default(),
        }
    }
}

/// Everything a host is receiving.
#[derive(Default)]
pub(super) struct Inbox {
    by_host: ByHost<u32>,
    pub(super) sources: Vec<Source>,
    pub(super) messages: Slab<Incoming>,
    pub(super) places: Places,
    /// By message: when it competes (again) for tokens.
    pub(super) timers: Timers,
    /// By source: when a silent one is asked again.
    pub(super) pauses: Timers,
    /// Two by source: when the next token goes there.
    pub(super) clocks: Timers,
    /// Sources that are asked for channels.
    pub(super) wanting: Vec<u32>,
    pub(super) matching: Matching,
    /// Until then a short message takes the link.
    pub(super) held_until: Time,
    pub(super) order: u64,
}

impl Inbox {
    #[inline]
    pub(super) fn deadline(&self) -> Time {
        self.timer().min(self.clocks.next())
    }

    /// Without the wish to send a token.
    #[inline]
    pub(super) fn timer(&self) -> Time {
        self.matching.stage_at.min(self.timers.next()).min(self.pauses.next())
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
        self.sources.push(Source::new(host));
        *self.by_host.entry(host) = number;
        Some(number)
    }

    /// The sender at `host` was never heard of, and its channels are free.
    pub(super) fn forget(&mut self, step: &Step<'_>, host: u32) {
        let Some(number) = self.by_host.get(host).copied() else { return };
        for slot in self.messages.slots(|message| message.source == number) {
            self.sources[number as usize].messages.remove(&mut self.places, slot);
            self.timers.remove(slot);
            self.messages.remove(slot);
        }
        self.pauses.remove(number);
        self.stop_clocks(number);
        self.reschedule(step, number);
        self.part(number);
        self.sources[number as usize] = Source::new(host);
    }

    /// A packet of any kind came from a source.
    #[inline]
    pub(super) fn hear(&mut self, step: &Step<'_>, number: u32) {
        let source = &mut self.sources[number as usize];
        source.asked_at = Time::NEVER;
        if source.silence.end() {
            self.pauses.remove(number);
            self.reschedule(step, number);
        }
    }

    /// A message that was not known. What is known of it then: it can never be where there is no
    /// room for it, or it makes no sense.
    #[cold]
    fn open(&mut self, step: &Step<'_>, number: u32, said: &Announced) -> Known<()> {
        let settings = step.settings;
        let size = said.size;
        let packets = settings.segments.packets(size);
        if !is_size(size) || self.messages.len() >= MAX_MESSAGES {
            return Known::Never;
        }
        self.order += 1;
        let is_short = packets <= settings.short;
        let sent = if is_short { packets } else { 0 };
        let slot = self.messages.insert(|last| Incoming {
            id: said.message,
            source: number,
            lane: said.lane,
            generation: said.generation,
            connection: said.connection,
            size,
            packets,
            window: last.window.cleared(),
            cursor: sent,
            tokens: sent as u32,
            order: self.order,
            ..Incoming::default()
        });
        self.sources[number as usize].lanes.open(said.lane, said.generation, slot);
        if is_short {
            // All of it is on its way; what has not come a timeout later was lost.
            let arrived = step.now.after(settings.calendar.packet.times(packets));
            if settings.hold {
                self.held_until = self.held_until.max(arrived);
            }
            self.timers.set(slot, arrived.after(settings.resend_timeout));
        } else {
            self.compete(step, slot);
        }
        Known::Slot(slot)
    }

    /// From now on tokens may be sent for a message.
    pub(super) fn compete(&mut self, step: &Step<'_>, slot: u32) {
        self.rank(slot);
        let number = self.messages[slot].source;
        self.reschedule(step, number);
        self.wind(step, number);
    }

    /// Puts a message where it belongs among those that tokens may be sent for.
    pub(super) fn rank(&mut self, slot: u32) {
        let message = &self.messages[slot];
        let source = &mut self.sources[message.source as usize];
        source.messages.set(&mut self.places, slot, message.key());
    }

    /// For now, no tokens are sent for a message.
    pub(super) fn withdraw(&mut self, step: &Step<'_>, slot: u32) {
        let number = self.messages[slot].source;
        self.sources[number as usize].messages.remove(&mut self.places, slot);
        self.reschedule(step, number);
    }

    /// A message without end has one now.
    fn learn_size(&mut self, settings: &Settings, slot: u32, size: u64) {
        let message = &mut self.messages[slot];
        let ended = settings.segments.of_ended(size, message.window.high());
        let (Message::UNLIMITED, Some(packets)) = (message.size, ended) else { return };
        (message.size, message.packets) = (size, packets);
        if self.places.contain(slot) {
            self.rank(slot);
        }
    }

    /// What is known of a message, which is opened if it is new.
    #[inline]
    fn find(&mut self, step: &Step<'_>, source: u32, said: &Announced) -> Known<()> {
        match self.sources[source as usize].lanes.find(said.lane, said.generation) {
            Known::New => self.open(step, source, said),
            found => found,
        }
    }

    pub(super) fn on_notification<A: Application>(
        &mut self,
        step: &Step<'_>,
        source: u32,
        notification: &Notification,
        app: &mut A,
    ) -> Option<Header> {
        let said = notification.announced();
        match self.find(step, source, &said) {
            Known::Never | Known::New => None,
            Known::Done(()) => done(&said),
            Known::Slot(slot) => {
                self.learn_size(step.settings, slot, said.size);
                self.finish(step, slot, app)
            }
        }
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
        let said = data.announced();
        let slot = match self.find(step, source, &said) {
            Known::Slot(slot) => slot,
            Known::Done(()) => return done(&said),
            Known::Never | Known::New => return None,
        };
        if self.messages[slot].size != data.size {
            self.learn_size(step.settings, slot, data.size);
        }
        let message = &mut self.messages[slot];
        let packet = step.settings.segments.packet_at(message.size, data.offset, payload_bytes);
        let near = |packet: &u64| *packet < message.window.base() + step.settings.ahead;
        if let Some(packet) = packet.filter(near) {
            message.answer(data.token);
            if message.window.insert(packet) {
                message.received += 1;
                let id = MessageId { src: self.sources[source as usize].host, id: message.id };
                app.delivered(step.now, id, data.offset, payload_bytes);
                if self.places.contain(slot) {
                    self.rank(slot);
                }
            }
            self.wind_for(step, slot);
        }
        self.finish(step, slot, app)
    }

    /// Tells application and sender if all has arrived.
    #[inline]
    fn finish<A: Application>(
        &mut self,
        step: &Step<'_>,
        slot: u32,
        app: &mut A,
    ) -> Option<Header> {
        let message = &self.messages[slot];
        if message.received < message.packets {
            return None;
        }
        self.complete(step, slot, app)
    }

    #[cold]
    fn complete<A: Application>(
        &mut self,
        step: &Step<'_>,
        slot: u32,
        app: &mut A,
    ) -> Option<Header> {
        self.withdraw(step, slot);
        self.timers.remove(slot);
        self.messages.remove(slot);
        let message = &self.messages[slot];
        let source = &mut self.sources[message.source as usize];
        source.lanes.close(message.lane, ());
        app.completed(step.now, MessageId { src: source.host, id: message.id });
        done(&Announced {
            connection: message.connection,
            lane: message.lane,
            generation: message.generation,
            message: message.id,
            size: message.size,
        })
    }

    /// The first of the messages' timers has fired: what was on its way has not come, and is
    /// missing.
    pub(super) fn on_timer(&mut self, step: &Step<'_>) {
        let Some((_, slot)) = self.timers.first() else { return };
        self.timers.remove(slot);
        self.compete(step, slot);
    }
}

/// Says that a message has arrived, in answer to a packet of it.
fn done(said: &Announced) -> Option<Header> {
    let Announced { connection, lane, generation, message, .. } = *said;
    Some(Header::Ack(Ack { connection, lane, generation, message }))
}

#[cfg(test)]
impl Inbox {
    pub(super) fn is_quiet(&self) -> bool {
        self.messages.len() == 0 && self.wanting.is_empty() && self.deadline() == Time::NEVER
    }

    pub(super) fn most_ahead(&self) -> u64 {
        let windows = self.messages.all().iter().map(|message| &message.window);
        windows.map(|w| w.high().saturating_sub(w.base())).max().unwrap_or(0)
    }
}
