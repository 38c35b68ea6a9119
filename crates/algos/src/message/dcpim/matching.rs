//! The receiver's half of matching: it asks senders for channels, and takes some that they offer.
//!
//! Time is cut by the [calendar](super::calendar). A host without messages to receive has no event
//! of it; one that gets some joins at the next round.

use alloc::vec::Vec;

use tidegate_core::{Rng, Time};

use super::header::{Accept, Grant, Header, Reject, Request};
use super::receiver::{Inbox, NOWHERE, Source};
use super::{MAX_BACKOFF, Settings, Step};

/// A sender that has said nothing for so many timeouts, though it was asked, is asked less often.
const PATIENCE: u64 = 2;
/// The label of tokens for matched channels begins here: those of short messages go before.
const FIRST_LABEL: u32 = 2;

/// What a receiver and a sender have of each other in an epoch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Match {
    pub(super) channels: u32,
    /// Of which so many are in use already while the epoch is matched.
    pub(super) prompt: u32,
    /// Packets that were missing of the sender's shortest message.
    shortest: u32,
    /// Of its tokens, which says its place among the receiver's matches; zero: there is no match.
    pub(super) label: u32,
}

/// A grant of this round.
#[derive(Clone, Copy, Debug)]
struct Offer {
    /// In what order they are taken: the smallest first.
    key: (u32, u64),
    source: u32,
    message: u32,
    channels: u32,
    prompt: u32,
    remaining: u32,
}

/// What a receiver knows of epochs.
pub(super) struct Matching {
    /// When the next round begins or ends; never while there is nothing to match.
    pub(super) stage_at: Time,
    /// The round that runs.
    round: Option<(u64, u32)>,
    /// Epoch whose matches send, and when tokens of now are worth nothing.
    phase: u64,
    pub(super) expires: Time,
    /// Sources matched for the phase of data, and in the epoch that is matched.
    sending: Vec<u32>,
    next: Vec<u32>,
    /// Channels that these take, and prompt ones of the latter.
    busy: u32,
    taken: u32,
    prompt: u32,
    offers: Vec<Offer>,
}

impl Default for Matching {
    fn default() -> Matching {
        Matching {
            stage_at: Time::NEVER,
            round: None,
            phase: 0,
            expires: Time::ZERO,
            sending: Vec::new(),
            next: Vec::new(),
            busy: 0,
            taken: 0,
            prompt: 0,
            offers: Vec::new(),
        }
    }
}

impl Matching {
    /// Channels that can be used at once: idle in this phase of data, and not given away yet.
    fn idle(&self, settings: &Settings) -> u32 {
        settings.channels.saturating_sub(self.busy + self.prompt)
    }
}

/// In what order requests and grants are served: the shortest message first in the first rounds, at
/// random later and among equals.
pub(super) fn order(settings: &Settings, round: u32, remaining: u32, rng: &mut Rng) -> (u32, u64) {
    (if round <= settings.select_min_rounds { remaining } else { 0 }, rng.bits())
}

impl Inbox {
    /// Puts a source among those that are asked for channels, or takes it out. Follows every change
    /// of what it has to send.
    pub(super) fn reschedule(&mut self, step: &Step<'_>, number: u32) {
        let source = &mut self.sources[number as usize];
        let wants = source.messages.len() > 0 && !self.pauses.run(number);
        match (wants, source.place) {
            (true, NOWHERE) => {
                source.place = self.wanting.len() as u32;
                self.wanting.push(number);
                if self.matching.stage_at == Time::NEVER {
                    self.matching.stage_at = step.settings.calendar.next_stage(step.now);
                }
            }
            (false, place) if place != NOWHERE => {
                source.place = NOWHERE;
                self.wanting.swap_remove(place as usize);
                if let Some(&moved) = self.wanting.get(place as usize) {
                    self.sources[moved as usize].place = place;
                }
            }
            _ => {}
        }
    }

    /// A round begins or ends.
    pub(super) fn on_stage(&mut self, step: &mut Step<'_>, rng: &mut Rng) {
        let calendar = &step.settings.calendar;
        let stage = calendar.stage(step.now);
        self.matching.expires = calendar.phase_end(step.now) + calendar.grace;
        if let Some((epoch, round)) = self.matching.round.take() {
            self.accept(step, epoch, round);
        }
        if let Some(epoch) = stage.begins {
            self.begin_phase(step, epoch);
        }
        if let Some((epoch, round)) = stage.opens {
            self.matching.round = stage.opens;
            let first = rng.below(self.wanting.len().max(1) as u64);
            self.ask(step, epoch, round, first as usize);
            if round as u64 == calendar.rounds {
                (0..self.wanting.len()).rev().for_each(|at| self.lose_patience(step, at));
            }
        }
        self.matching.stage_at = calendar.next_stage(step.now);
        self.rest();
    }

    /// Has no event while there is nothing to match.
    fn rest(&mut self) {
        let matching = &mut self.matching;
        let matched = matching.busy + matching.taken > 0 || !matching.offers.is_empty();
        if !matched && self.wanting.is_empty() {
            (matching.round, matching.stage_at) = (None, Time::NEVER);
        }
    }

    /// A source has no match any more, and no grant of it is taken.
    pub(super) fn part(&mut self, number: u32) {
        let Source { sending, next, .. } = &self.sources[number as usize];
        let matching = &mut self.matching;
        matching.busy -= sending.channels;
        matching.taken -= next.channels;
        matching.prompt -= next.prompt;
        matching.sending.retain(|&matched| matched != number);
        matching.next.retain(|&matched| matched != number);
        matching.offers.retain(|offer| offer.source != number);
        self.rest();
    }

    /// Asks senders for the channels that their shortest message could fill, from the `first` on:
    /// so many as can be asked in half a round. More would be late, and what is left of them would
    /// make those of the next round late, too.
    fn ask(&mut self, step: &mut Step<'_>, epoch: u64, round: u32, first: usize) {
        let settings = step.settings;
        let free = settings.channels - self.matching.taken;
        let idle = self.matching.idle(settings);
        let mut left = settings.calendar.requests;
        let (before, after) = self.wanting.split_at(first);
        for &number in after.iter().chain(before) {
            if left == 0 {
                return;
            }
            let source = &mut self.sources[number as usize];
            let Some((_, slot)) = source.messages.first() else { continue };
            let (message, remaining) = (self.messages[slot].id, self.messages[slot].remaining());
            let needed = (remaining as u64).div_ceil(settings.calendar.quota);
            let matched = source.sending.channels + source.next.channels;
            let channels = needed.saturating_sub(matched as u64).min(free as u64) as u32;
            if channels > 0 {
                let prompt = channels.min(idle);
                let request = Request { message, epoch, round, channels, prompt, remaining };
                source.asked_at = source.asked_at.min(step.now);
                step.send(source.host, Header::Request(request));
                left -= 1;
            }
        }
    }

    /// A sender that says nothing, though it was asked, is not asked again for a while.
    fn lose_patience(&mut self, step: &Step<'_>, at: usize) {
        let number = self.wanting[at];
        let source = &mut self.sources[number as usize];
        let timeout = step.settings.notify_timeout;
        if step.now.since(source.asked_at) >= timeout.times(PATIENCE) {
            self.pauses.set(number, step.now.after(source.silence.wait(timeout)));
            source.silence.double(MAX_BACKOFF);
            self.reschedule(step, number);
        }
    }

    /// A silent sender is asked again.
    pub(super) fn end_pause(&mut self, step: &Step<'_>) {
        if let Some((_, number)) = self.pauses.first() {
            self.pauses.remove(number);
            self.reschedule(step, number);
        }
    }

    /// A grant of this round is kept until it ends; others come too late.
    pub(super) fn on_grant(&mut self, step: &Step<'_>, number: u32, grant: &Grant, rng: &mut Rng) {
        let Grant { message, epoch, round, channels, prompt, remaining } = *grant;
        let source = &mut self.sources[number as usize];
        let is_new = source.granted != (epoch, round);
        if self.matching.round != Some((epoch, round)) || !is_new || channels == 0 {
            return;
        }
        source.granted = (epoch, round);
        let key = order(step.settings, round, remaining, rng);
        let offer = Offer { key, source: number, message, channels, prompt, remaining };
        self.matching.offers.push(offer);
    }

    /// Takes what fits of the grants of a round.
    fn accept(&mut self, step: &mut Step<'_>, epoch: u64, round: u32) {
        let settings = step.settings;
        let mut offers = core::mem::take(&mut self.matching.offers);
        offers.sort_unstable_by_key(|offer| offer.key);
        for offer in offers.drain(..) {
            let free = settings.channels - self.matching.taken;
            let channels = offer.channels.min(free);
            if channels == 0 {
                break;
            }
            let prompt = offer.prompt.min(channels).min(self.matching.idle(settings));
            let source = &mut self.sources[offer.source as usize];
            if source.next.label == 0 {
                source.next.shortest = offer.remaining;
                // Below the labels of matched channels.
                source.next.label = FIRST_LABEL + settings.channels;
                self.matching.next.push(offer.source);
            }
            source.next.channels += channels;
            source.next.prompt += prompt;
            self.matching.taken += channels;
            self.matching.prompt += prompt;
            let accept = Accept { message: offer.message, epoch, round, channels, prompt };
            step.send(source.host, Header::Accept(accept));
            if prompt > 0 {
                self.wind(step, offer.source);
            }
        }
        self.matching.offers = offers;
    }

    /// What was matched sends now; what was sending does no more.
    fn begin_phase(&mut self, step: &Step<'_>, epoch: u64) {
        let mut old = core::mem::take(&mut self.matching.sending);
        for &number in &old {
            self.sources[number as usize].sending = Match::default();
            self.stop_clocks(number);
        }
        old.clear();
        let sources = &self.sources;
        let shortest = |number: &u32| {
            let source = &sources[*number as usize];
            (source.next.shortest, source.host)
        };
        self.matching.next.sort_unstable_by_key(shortest);
        let next = core::mem::replace(&mut self.matching.next, old);
        let mut label = FIRST_LABEL;
        for &number in &next {
            self.stop_clocks(number);
            let source = &mut self.sources[number as usize];
            source.sending = Match { label, prompt: 0, ..source.next };
            source.next = Match::default();
            label += source.sending.channels;
        }
        let matching = &mut self.matching;
        (matching.busy, matching.taken, matching.prompt) = (matching.taken, 0, 0);
        matching.phase = epoch;
        matching.sending = next;
        for at in 0..self.matching.sending.len() {
            let number = self.matching.sending[at];
            self.wind(step, number);
        }
    }

    /// A sender does not have the channels that were taken.
    pub(super) fn on_reject(&mut self, number: u32, reject: &Reject) {
        let Reject { epoch, round, channels, prompt, .. } = *reject;
        let matching = &mut self.matching;
        let source = &mut self.sources[number as usize];
        if core::mem::replace(&mut source.rejected, (epoch, round)) == (epoch, round) {
            return;
        }
        let matches = matching.round.is_some_and(|(matched, _)| matched == epoch);
        if matches {
            let channels = channels.min(source.next.channels);
            let prompt = prompt.min(source.next.prompt);
            source.next.channels -= channels;
            source.next.prompt -= prompt;
            matching.taken -= channels;
            matching.prompt -= prompt;
        } else if matching.phase == epoch {
            let channels = channels.min(source.sending.channels);
            source.sending.channels -= channels;
            matching.busy -= channels;
        }
    }

    /// Nobody has asked this host for long enough that its matches are over.
    pub(super) fn oversleep(&mut self, step: &Step<'_>) {
        for at in 0..self.sources.len() {
            let source = &mut self.sources[at];
            (source.sending, source.next) = (Match::default(), Match::default());
            self.stop_clocks(at as u32);
        }
        let matching = &mut self.matching;
        matching.sending.clear();
        matching.next.clear();
        matching.offers.clear();
        (matching.busy, matching.taken, matching.prompt) = (0, 0, 0);
        matching.round = None;
        matching.stage_at = step.settings.calendar.next_stage(step.now);
    }
}
