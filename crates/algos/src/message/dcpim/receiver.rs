//! The receiving half: arrived and missing packets.

use tidegate_core::{Application, Message, MessageId, Time};

use super::header::{Ack, Announced, Data, Header, Notification};
use super::inbox::{Inbox, Incoming, Source};
use super::{Settings, Step};
use crate::kit::lanes::Known;
use crate::kit::segments::is_size;

/// Largest number of messages that are received at a time. Others are ignored, and their senders
/// repeat the notification.
const MAX_MESSAGES: usize = 1 << 16;
/// Number of packets beyond the first missing one that get tokens and are accepted, unless two
/// round trips are more, up to [`MAX_AHEAD`](crate::kit::window::MAX_AHEAD). Tokens that expire at
/// the end of a phase leave holes, so a longer message has its holes filled at this interval.
pub(super) const AHEAD: u64 = 1 << 12;

impl Inbox {
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
        self.sources.push(Source::new(host));
        *self.by_host.entry(host) = number;
        Some(number)
    }

    /// Forgets the sender at `host` and frees its channels.
    pub(super) fn forget(&mut self, step: &Step<'_>, host: u32) {
        let Some(number) = self.by_host.get(host).copied() else { return };
        for slot in self.messages.slots(|message| message.source == number) {
            self.sources[number as usize].messages.remove(&mut self.positions, slot);
            self.timers.remove(slot);
            self.messages.remove(slot);
        }
        self.pauses.remove(number);
        self.stop_clocks(number);
        self.reschedule(step, number);
        self.disconnect(number);
        self.sources[number as usize] = Source::new(host);
    }

    /// Registers that a packet of any kind has arrived from a source.
    #[inline]
    pub(super) fn on_packet(&mut self, step: &Step<'_>, number: u32) {
        let source = &mut self.sources[number as usize];
        source.requested_at = Time::NEVER;
        if source.silence.end() {
            self.pauses.remove(number);
            self.reschedule(step, number);
        }
    }

    /// Opens an unknown message. Returns `Known::Never` if there is no room for it or its
    /// announcement is invalid.
    #[cold]
    fn open(&mut self, step: &Step<'_>, number: u32, announced: &Announced) -> Known<()> {
        let settings = step.settings;
        let size = announced.size;
        let packets = settings.segments.packets(size);
        if !is_size(size) || self.messages.len() >= MAX_MESSAGES {
            return Known::Never;
        }
        self.order += 1;
        let is_short = packets <= settings.short;
        let sent = if is_short { packets } else { 0 };
        let slot = self.messages.insert(|last| Incoming {
            id: announced.message,
            source: number,
            lane: announced.lane,
            generation: announced.generation,
            connection: announced.connection,
            size,
            packets,
            window: last.window.cleared(),
            cursor: sent,
            tokens: sent as u32,
            order: self.order,
            ..Incoming::default()
        });
        self.sources[number as usize].lanes.open(announced.lane, announced.generation, slot);
        if is_short {
            // All packets are on the way; any that has not arrived a timeout later was lost.
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

    /// From now on the message may get tokens.
    pub(super) fn compete(&mut self, step: &Step<'_>, slot: u32) {
        self.rank(slot);
        let number = self.messages[slot].source;
        self.reschedule(step, number);
        self.start_clocks(step, number);
    }

    /// Sets the size of a message whose size was unknown.
    fn learn_size(&mut self, settings: &Settings, slot: u32, size: u64) {
        let message = &mut self.messages[slot];
        let ended = settings.segments.of_ended(size, message.window.high());
        let (Message::UNLIMITED, Some(packets)) = (message.size, ended) else { return };
        (message.size, message.packets) = (size, packets);
        if self.positions.contain(slot) {
            self.rank(slot);
        }
    }

    /// Finds a message, and opens it if it is new.
    #[inline]
    fn find(&mut self, step: &Step<'_>, source: u32, announced: &Announced) -> Known<()> {
        match self.sources[source as usize].lanes.find(announced.lane, announced.generation) {
            Known::New => self.open(step, source, announced),
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
        let announced = notification.announced();
        match self.find(step, source, &announced) {
            Known::Never | Known::New => None,
            Known::Done(()) => done(&announced),
            Known::Slot(slot) => {
                self.learn_size(step.settings, slot, announced.size);
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
        let announced = data.announced();
        let slot = match self.find(step, source, &announced) {
            Known::Slot(slot) => slot,
            Known::Done(()) => return done(&announced),
            Known::Never | Known::New => return None,
        };
        if self.messages[slot].size != data.size {
            self.learn_size(step.settings, slot, data.size);
        }
        let message = &mut self.messages[slot];
        let packet = step.settings.segments.packet_at(message.size, data.offset, payload_bytes);
        let near = |packet: &u64| *packet < message.window.base() + step.settings.ahead;
        if let Some(packet) = packet.filter(near) {
            message.mark_used(data.token);
            if message.window.insert(packet) {
                message.received += 1;
                let id = MessageId { src: self.sources[source as usize].host, id: message.id };
                app.delivered(step.now, id, data.offset, payload_bytes);
                if self.positions.contain(slot) {
                    self.rank(slot);
                }
            }
            self.resume_clocks(step, slot);
        }
        self.finish(step, slot, app)
    }

    /// If the message is complete, reports that to the application and to the sender.
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

    /// Handles the earliest message timer: packets that have not arrived by now are missing.
    pub(super) fn on_timer(&mut self, step: &Step<'_>) {
        let Some((_, slot)) = self.timers.first() else { return };
        self.timers.remove(slot);
        self.compete(step, slot);
    }
}

/// Acknowledges a message, in response to a packet of it.
fn done(announced: &Announced) -> Option<Header> {
    let Announced { connection, lane, generation, message, .. } = *announced;
    Some(Header::Ack(Ack { connection, lane, generation, message }))
}
