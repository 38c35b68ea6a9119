//! Tokens: their timing and their packets.
//!
//! Each matched sender has a clock, whose period is given by its channels' share of the link. At
//! each tick the receiver sends a token for the next packet of the sender's shortest message,
//! unless a short message uses the packet's time. Data uses tokens. While more than a window of
//! tokens are outstanding the clock waits, up to a timeout: tokens may be lost or expired.

use tidegate_core::{Message, Span, Time};

use super::header::{Header, Token};
use super::inbox::{Inbox, Incoming};
use super::{Settings, Step};

/// Clocks of a source: for its match in the data phase, and for its prompt channels.
const CLOCKS: u32 = 2;
const PROMPT: u32 = 1;

impl Incoming {
    /// Registers data with the number of a token.
    #[inline]
    pub(super) fn mark_used(&mut self, token: u32) {
        let ahead = token.wrapping_add(1).wrapping_sub(self.used_tokens);
        if ahead <= self.outstanding() {
            self.used_tokens = token.wrapping_add(1);
        }
    }

    /// Tokens since the last one that data has used.
    #[inline]
    fn outstanding(&self) -> u32 {
        self.tokens.wrapping_sub(self.used_tokens)
    }

    /// No packet from there on has a token yet.
    fn end(&self, settings: &Settings) -> u64 {
        self.packets.min(self.window.base() + settings.ahead)
    }

    /// The next packet for a token, and whether it is the last missing one before they start again
    /// from the first. The message is not complete.
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
    /// Channels of a clock, and label of its tokens.
    fn channels(&self, clock: u32) -> (u32, u32) {
        let source = &self.sources[(clock / CLOCKS) as usize];
        match clock % CLOCKS {
            PROMPT => (source.next.prompt, source.next.label),
            _ => (source.sending.channels, source.sending.label),
        }
    }

    /// Starts those clocks of a source that are stopped or wait for data.
    pub(super) fn start_clocks(&mut self, step: &Step<'_>, source: u32) {
        for clock in [CLOCKS * source, CLOCKS * source + PROMPT] {
            let at = self.sources[source as usize].clocks[(clock % CLOCKS) as usize];
            let paced = self.clocks.run(clock) && !at.waits;
            if !paced && self.channels(clock).0 > 0 {
                self.set_clock(clock, at.next_at.max(step.now), false);
            }
        }
    }

    /// Data of a message has arrived: resumes the clocks of its source if they waited for it.
    #[inline]
    pub(super) fn resume_clocks(&mut self, step: &Step<'_>, slot: u32) {
        let source = &self.sources[self.messages[slot].source as usize];
        let idle = source.clocks.iter().any(|clock| clock.waits);
        if idle && source.messages.first().is_some_and(|(_, first)| first == slot) {
            self.start_clocks(step, self.messages[slot].source);
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

    /// Handles the earliest clock.
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
                message.used_tokens = message.tokens.wrapping_sub(most - 1);
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
            // Packets that are missing by then were lost.
            self.withdraw(step, slot);
            self.timers.set(slot, step.now.after(step.settings.resend_timeout));
        } else if without_end {
            // Messages of unknown size are served round-robin.
            self.order += 1;
            self.messages[slot].order = self.order;
            self.rank(slot);
        }
    }
}

impl Settings {
    /// Interval of tokens over this number of channels.
    fn spacing(&self, channels: u32) -> Span {
        Span::ps(self.calendar.packet.as_ps() * self.channels as u64 / channels as u64)
    }

    /// Number of outstanding tokens above which no more are sent over this number of channels.
    fn most_outstanding(&self, channels: u32) -> u32 {
        (self.window * channels as u64 / self.channels as u64).clamp(1, u32::MAX as u64) as u32
    }
}
