//! The sender's half of matching: it knows its receivers, and grants its channels to those that
//! request them.

use alloc::vec::Vec;

use tidegate_core::{Rng, Time};

use super::header::{Accept, Grant, Header, Reject, Request};
use super::matching::order;
use super::{Settings, Step};
use crate::kit::by_host::ByHost;
use crate::kit::lanes::Lanes;

/// Channels that a sender has assigned in an epoch.
#[derive(Clone, Copy, Debug, Default)]
struct Booking {
    epoch: u64,
    taken: u32,
    prompt: u32,
}

/// The bookings of the epoch that is matched and of the previous one, by the lowest bit of the
/// epoch.
#[derive(Clone, Copy, Debug, Default)]
struct Bookings([Booking; 2]);

impl Bookings {
    /// Booking of an epoch, even if it is empty.
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

/// A receiver, as the sender sees it.
pub(super) struct Destination {
    pub(super) host: u32,
    pub(super) lanes: Lanes,
    /// Messages that have not arrived.
    pub(super) open: u32,
    /// Epoch and round of its last request.
    requested: (u64, u32),
    /// Channels granted in that round and not accepted yet.
    granted: u32,
    /// Channels that it has accepted.
    bookings: Bookings,
    /// Time of the last control packet to it.
    pub(super) last_sent_at: Time,
}

impl Destination {
    /// A new destination.
    fn new(host: u32) -> Destination {
        Destination {
            host,
            lanes: Lanes::default(),
            open: 0,
            requested: (0, 0),
            granted: 0,
            bookings: Bookings::default(),
            last_sent_at: Time::ZERO,
        }
    }

    /// A host that gets no channels still gets a response at a limited rate, to show that this host
    /// is alive.
    fn needs_keepalive(&self, step: &Step<'_>) -> bool {
        step.now.since(self.last_sent_at).times(2) >= step.settings.notify_timeout
    }
}

/// A request of this round.
#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    /// Order of service: the smallest first.
    key: (u32, u64),
    destination: u32,
    message: u32,
    channels: u32,
    prompt: u32,
    remaining: u32,
}

/// Matching state of a sender.
pub(super) struct Granting {
    pub(super) by_host: ByHost<u32>,
    pub(super) destinations: Vec<Destination>,
    /// Time of the next grants; never without requests.
    pub(super) stage_at: Time,
    bookings: Bookings,
    pending: Vec<PendingRequest>,
}

impl Default for Granting {
    fn default() -> Granting {
        Granting {
            by_host: ByHost::default(),
            destinations: Vec::new(),
            stage_at: Time::NEVER,
            bookings: Bookings::default(),
            pending: Vec::new(),
        }
    }
}

impl Granting {
    /// Number of the destination at `host`; assigned if it is new.
    #[inline]
    pub(super) fn connect(&mut self, host: u32) -> u32 {
        self.by_host.get(host).copied().unwrap_or_else(|| {
            let number = self.destinations.len() as u32;
            self.destinations.push(Destination::new(host));
            *self.by_host.entry(host) = number;
            number
        })
    }

    /// Free channels and free prompt channels of an epoch. Prompt channels are those that the
    /// previous epoch, whose data phase is now, has not taken.
    fn free(&mut self, settings: &Settings, epoch: u64) -> (u32, u32) {
        let sending = epoch.checked_sub(1).map_or(0, |before| self.bookings.of(before).taken);
        let booking = *self.bookings.of(epoch);
        let idle = settings.channels.saturating_sub(sending + booking.prompt);
        (settings.channels.saturating_sub(booking.taken), idle)
    }

    /// Removes the state of a destination: frees its bookings and drops its requests.
    pub(super) fn disconnect(&mut self, number: u32) {
        let destination = &mut self.destinations[number as usize];
        for (all, its) in self.bookings.0.iter_mut().zip(destination.bookings.0) {
            if all.epoch == its.epoch {
                all.taken -= its.taken;
                all.prompt -= its.prompt;
            }
        }
        *destination = Destination::new(destination.host);
        self.pending.retain(|request| request.destination != number);
        if self.pending.is_empty() {
            self.stage_at = Time::NEVER;
        }
    }

    /// Keeps a request until the middle of its round. A later request is only answered, at a
    /// limited rate, with an empty grant that shows that this host is alive.
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
        if destination.requested == (epoch, round) || destination.open == 0 {
            return;
        }
        let calendar = &step.settings.calendar;
        let runs = calendar.round(step.now).filter(|&(e, r, _)| (e, r) == (epoch, round));
        let half = runs.map(|(.., since)| calendar.half(since));
        let Some(half) = half.filter(|&half| step.now < half) else {
            if destination.needs_keepalive(step) {
                destination.last_sent_at = step.now;
                let (channels, prompt) = (0, 0);
                let grant = Grant { message, epoch, round, channels, prompt, remaining };
                step.send(host, Header::Grant(grant));
            }
            return;
        };
        destination.requested = (epoch, round);
        destination.granted = 0;
        let key = order(step.settings, round, remaining, rng);
        let request =
            PendingRequest { key, destination: number, message, channels, prompt, remaining };
        self.pending.push(request);
        self.stage_at = half;
    }

    /// Assigns channels in the middle of a round.
    pub(super) fn grant(&mut self, step: &mut Step<'_>) {
        let settings = step.settings;
        self.stage_at = Time::NEVER;
        let round = settings.calendar.round(step.now);
        let mut pending = core::mem::take(&mut self.pending);
        pending.sort_unstable_by_key(|request| request.key);
        if let Some((epoch, round, _)) = round {
            let (mut free, mut idle) = self.free(settings, epoch);
            for request in &pending {
                let destination = &mut self.destinations[request.destination as usize];
                let channels = request.channels.min(free);
                let prompt = request.prompt.min(channels).min(idle);
                if channels == 0 && !destination.needs_keepalive(step) {
                    continue;
                }
                (free, idle) = (free - channels, idle - prompt);
                destination.granted = channels;
                destination.last_sent_at = step.now;
                let (message, remaining) = (request.message, request.remaining);
                let grant = Grant { message, epoch, round, channels, prompt, remaining };
                step.send(destination.host, Header::Grant(grant));
            }
        }
        pending.clear();
        self.pending = pending;
    }

    /// Handles an acceptance: books the channels and rejects those that are no longer free.
    pub(super) fn on_accept(&mut self, step: &mut Step<'_>, host: u32, accept: &Accept) {
        let Accept { message, epoch, round, .. } = *accept;
        let Some(&number) = self.by_host.get(host) else { return };
        let destination = &mut self.destinations[number as usize];
        let is_old = epoch.saturating_add(1) < step.settings.calendar.epoch(step.now);
        if destination.requested != (epoch, round) || is_old {
            return;
        }
        let channels = accept.channels.min(core::mem::take(&mut destination.granted));
        let prompt = accept.prompt.min(channels);
        let booked = channels.min(step.settings.channels - self.bookings.of(epoch).taken);
        let at_once = prompt.min(booked);
        self.bookings.book(epoch, booked, at_once);
        destination.bookings.book(epoch, booked, at_once);
        if booked < channels {
            let (channels, prompt) = (channels - booked, prompt - at_once);
            let reject = Reject { message, epoch, round, channels, prompt };
            step.send(host, Header::Reject(reject));
        }
    }

    /// No host has sent a request for so long that earlier requests have expired.
    pub(super) fn expire(&mut self) {
        self.pending.clear();
        self.stage_at = Time::NEVER;
    }
}
