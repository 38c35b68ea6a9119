//! Tokens: when they leave, and for which packets.
//!
//! A matched sender has a clock of its own, whose pace is its channels' share of the link. Each of
//! its turns is a token for the next packet of its shortest message; a turn is lost where a short
//! message takes the packet's time. Data answers tokens. While more than a window of them are not
//! answered the clock waits, but not for ever: they may be lost, or worth nothing any more.

use tidegate_core::{Message, Span, Time};

use super::header::{Header, Token};
use super::receiver::{Inbox, Incoming};
use super::{Settings, Step};

/// When tokens went to a sender.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    /// The next turn begins then, whatever happens.
    next_at: Time,
    /// What it waits for is an answer; else for its next turn.
    waits: bool,
}

/// Clocks of a source: of its match in the phase of data, and of its prompt channels.
const CLOCKS: u32 = 2;
const PROMPT: u32 = 1;

impl Incoming {
    /// Data has come with the number of a token.
    #[inline]
    pub(super) fn answer(&mut self, token: u32) {
        let ahead = token.wrapping_add(1).wrapping_sub(self.answered);
        if ahead <= self.outstanding() {
            self.answered = token.wrapping_add(1);
        }
    }

    /// Tokens since the last one that data has answered.
    #[inline]
    fn outstanding(&self) -> u32 {
        self.tokens.wrapping_sub(self.answered)
    }

    /// No packet from there on has a token yet.
    fn end(&self, settings: &Settings) -> u64 {
        self.packets.min(self.window.base() + settings.ahead)
    }

    /// The next packet to send a token for, and whether it is the last before those that are
    /// missing begin anew. The message is not complete.
    fn advance(&mut self, settings: &Settings) -> (u64, bool) {
        let mut packet = self.window.next_missing(self.cursor);
        if packet >= self.end(settings) {
            packet = self.window.base();
        }
        self.cursor = packet + 1;
        (packet, self.window.next_missing(self.cursor) >= self.end(settings))
    }
}

impl Inbox {
    /// The channels of a clock, and the label of its tokens.
    fn channels(&self, clock: u32) -> (u32, u32) {
        let source = &self.sources[(clock / CLOCKS) as usize];
        match clock % CLOCKS {
            PROMPT => (source.next.prompt, source.next.label),
            _ => (source.sending.channels, source.sending.label),
        }
    }

    /// Starts those clocks of a source that stand still or wait for an answer.
    pub(super) fn wind(&mut self, step: &Step<'_>, source: u32) {
        for clock in [CLOCKS * source, CLOCKS * source + PROMPT] {
            let at = self.sources[source as usize].clocks[(clock % CLOCKS) as usize];
            let paced = self.clocks.run(clock) && !at.waits;
            if !paced && self.channels(clock).0 > 0 {
                self.set_clock(clock, at.next_at.max(step.now), false);
            }
        }
    }

    /// Data of a message has come: where its source waited for that, it goes on.
    #[inline]
    pub(super) fn wind_for(&mut self, step: &Step<'_>, slot: u32) {
        let source = &self.sources[self.messages[slot].source as usize];
        let idle = source.clocks.iter().any(|clock| clock.waits);
        if idle && source.messages.first().is_some_and(|(_, first)| first == slot) {
            self.wind(step, self.messages[slot].source);
        }
    }

    fn set_clock(&mut self, clock: u32, at: Time, waits: bool) {
        let source = &mut self.sources[(clock / CLOCKS) as usize];
        source.clocks[(clock % CLOCKS) as usize].waits = waits;
        self.clocks.set(clock, at);
    }

    pub(super) fn stop_clocks(&mut self, source: u32) {
        for clock in [CLOCKS * source, CLOCKS * source + PROMPT] {
            self.stop_clock(clock);
        }
    }

    fn stop_clock(&mut self, clock: u32) {
        if self.clocks.run(clock) {
            self.clocks.remove(clock);
        }
        let source = &mut self.sources[(clock / CLOCKS) as usize];
        source.clocks[(clock % CLOCKS) as usize].waits = false;
    }

    /// It is the turn of the first clock.
    pub(super) fn on_clock(&mut self, step: &mut Step<'_>) {
        let Some((_, clock)) = self.clocks.first() else { return };
        let settings = step.settings;
        let (channels, label) = self.channels(clock);
        let first = self.sources[(clock / CLOCKS) as usize].messages.first();
        let Some((_, slot)) = first.filter(|_| channels > 0) else {
            return self.stop_clock(clock);
        };
        if step.now >= self.held_until {
            let message = &mut self.messages[slot];
            let most = settings.most_outstanding(channels);
            if message.outstanding() > most {
                let patience = message.token_at.after(settings.window_timeout);
                if step.now < patience {
                    return self.set_clock(clock, patience, true);
                }
                message.answered = message.tokens.wrapping_sub(most - 1);
            }
            self.send_token(step, slot, label);
        }
        let next = step.now + settings.spacing(channels);
        self.sources[(clock / CLOCKS) as usize].clocks[(clock % CLOCKS) as usize].next_at = next;
        self.set_clock(clock, next, false);
    }

    /// Sends a token for the next packet of a message.
    fn send_token(&mut self, step: &mut Step<'_>, slot: u32, label: u32) {
        let message = &mut self.messages[slot];
        let (packet, is_last) = message.advance(step.settings);
        let token = Token {
            connection: message.connection,
            lane: message.lane,
            generation: message.generation,
            message: message.id,
            token: message.tokens,
            label,
            remaining: message.remaining(),
            packet,
            expires: self.matching.expires,
        };
        message.tokens = message.tokens.wrapping_add(1);
        message.token_at = step.now;
        let without_end = message.size == Message::UNLIMITED;
        step.send(self.sources[message.source as usize].host, Header::Token(token));
        if is_last {
            // Whatever is missing then was lost.
            self.withdraw(step, slot);
            self.timers.set(slot, step.now.after(step.settings.resend_timeout));
        } else if without_end {
            // They take turns.
            self.order += 1;
            self.messages[slot].order = self.order;
            self.rank(slot);
        }
    }
}

impl Settings {
    /// Time from token to token over so many channels.
    fn spacing(&self, channels: u32) -> Span {
        Span::ps(self.calendar.packet.as_ps() * self.channels as u64 / channels as u64)
    }

    /// Tokens that data has not answered, above which no more are sent over so many channels.
    fn most_outstanding(&self, channels: u32) -> u32 {
        (self.window * channels as u64 / self.channels as u64).clamp(1, u32::MAX as u64) as u32
    }
}
