//! The sender's half of matching: it gives its channels to receivers that ask for them.

use alloc::vec::Vec;

use tidegate_core::{Rng, Time};

use super::header::{Accept, Grant, Header, Reject, Request};
use super::matching::order;
use super::sender::Outbox;
use super::{Settings, Step};

/// Channels that a sender has given away in an epoch.
#[derive(Clone, Copy, Debug, Default)]
struct Booking {
    epoch: u64,
    taken: u32,
    prompt: u32,
}

/// The same of the epoch that is matched and the one before, by its lowest bit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bookings([Booking; 2]);

impl Bookings {
    /// Of an epoch, even if nothing was booked in it.
    fn of(&mut self, epoch: u64) -> &mut Booking {
        let booking = &mut self.0[(epoch & 1) as usize];
        if booking.epoch != epoch {
            *booking = Booking { epoch, ..Booking::default() };
        }
        booking
    }

    fn book(&mut self, epoch: u64, channels: u32, prompt: u32) {
        let booking = self.of(epoch);
        booking.taken += channels;
        booking.prompt += prompt;
    }
}

/// A request of this round.
#[derive(Clone, Copy, Debug)]
struct Ask {
    /// In what order they are served: the smallest first.
    key: (u32, u64),
    destination: u32,
    message: u32,
    channels: u32,
    prompt: u32,
    remaining: u32,
}

/// What a sender knows of epochs.
pub(super) struct Granting {
    /// When it answers; never while nobody asks.
    pub(super) stage_at: Time,
    bookings: Bookings,
    asks: Vec<Ask>,
}

impl Default for Granting {
    fn default() -> Granting {
        Granting { stage_at: Time::NEVER, bookings: Bookings::default(), asks: Vec::new() }
    }
}

impl Granting {
    /// Channels, and prompt ones, that are free in an epoch. Prompt ones are those that the epoch
    /// before has not taken: its phase of data is now.
    fn free(&mut self, settings: &Settings, epoch: u64) -> (u32, u32) {
        let sending = epoch.checked_sub(1).map_or(0, |before| self.bookings.of(before).taken);
        let booking = *self.bookings.of(epoch);
        let idle = settings.channels.saturating_sub(sending + booking.prompt);
        (settings.channels.saturating_sub(booking.taken), idle)
    }

    /// A destination gives back what it has booked, and asks for nothing.
    pub(super) fn part(&mut self, destination: u32, bookings: &Bookings) {
        for (all, its) in self.bookings.0.iter_mut().zip(bookings.0) {
            if all.epoch == its.epoch {
                all.taken -= its.taken;
                all.prompt -= its.prompt;
            }
        }
        self.asks.retain(|ask| ask.destination != destination);
        if self.asks.is_empty() {
            self.stage_at = Time::NEVER;
        }
    }
}

impl Outbox {
    /// A request is kept until the middle of its round. Others come too late, and hear only that
    /// this host lives.
    pub(super) fn on_request(
        &mut self,
        step: &mut Step<'_>,
        host: u32,
        request: &Request,
        rng: &mut Rng,
    ) {
        let Request { message, epoch, round, channels, prompt, remaining } = *request;
        let Some(&number) = self.by_host.get(host) else { return };
        let destination = &mut self.destinations[number as usize];
        if destination.asked == (epoch, round) || destination.open == 0 {
            return;
        }
        let calendar = &step.settings.calendar;
        let runs = calendar.round(step.now).filter(|&(e, r, _)| (e, r) == (epoch, round));
        let half = runs.map(|(.., since)| calendar.half(since));
        let Some(half) = half.filter(|&half| step.now < half) else {
            if destination.must_be_told(step) {
                destination.told_at = step.now;
                let (channels, prompt) = (0, 0);
                let grant = Grant { message, epoch, round, channels, prompt, remaining };
                step.send(host, Header::Grant(grant));
            }
            return;
        };
        destination.asked = (epoch, round);
        destination.granted = 0;
        let key = order(step.settings, round, remaining, rng);
        let ask = Ask { key, destination: number, message, channels, prompt, remaining };
        self.granting.asks.push(ask);
        self.granting.stage_at = half;
    }

    /// The middle of a round: gives channels away.
    pub(super) fn grant(&mut self, step: &mut Step<'_>) {
        let settings = step.settings;
        self.granting.stage_at = Time::NEVER;
        let round = settings.calendar.round(step.now);
        let mut asks = core::mem::take(&mut self.granting.asks);
        asks.sort_unstable_by_key(|ask| ask.key);
        if let Some((epoch, round, _)) = round {
            let (mut free, mut idle) = self.granting.free(settings, epoch);
            for ask in &asks {
                let destination = &mut self.destinations[ask.destination as usize];
                let channels = ask.channels.min(free);
                let prompt = ask.prompt.min(channels).min(idle);
                if channels == 0 && !destination.must_be_told(step) {
                    continue;
                }
                (free, idle) = (free - channels, idle - prompt);
                destination.granted = channels;
                destination.told_at = step.now;
                let (message, remaining) = (ask.message, ask.remaining);
                let grant = Grant { message, epoch, round, channels, prompt, remaining };
                step.send(destination.host, Header::Grant(grant));
            }
        }
        asks.clear();
        self.granting.asks = asks;
    }

    /// A receiver takes what it was granted: books it, and takes back what is not there.
    pub(super) fn on_accept(&mut self, step: &mut Step<'_>, host: u32, accept: &Accept) {
        let Accept { message, epoch, round, .. } = *accept;
        let Some(&number) = self.by_host.get(host) else { return };
        let destination = &mut self.destinations[number as usize];
        let is_old = epoch.saturating_add(1) < step.settings.calendar.epoch(step.now);
        if destination.asked != (epoch, round) || is_old {
            return;
        }
        let channels = accept.channels.min(core::mem::take(&mut destination.granted));
        let prompt = accept.prompt.min(channels);
        let booked = channels.min(step.settings.channels - self.granting.bookings.of(epoch).taken);
        let at_once = prompt.min(booked);
        self.granting.bookings.book(epoch, booked, at_once);
        destination.bookings.book(epoch, booked, at_once);
        if booked < channels {
            let (channels, prompt) = (channels - booked, prompt - at_once);
            let reject = Reject { message, epoch, round, channels, prompt };
            step.send(host, Header::Reject(reject));
        }
    }

    /// Nobody has asked this host for long enough that what it was asked is over.
    pub(super) fn oversleep(&mut self) {
        self.granting.asks.clear();
        self.granting.stage_at = Time::NEVER;
    }
}
