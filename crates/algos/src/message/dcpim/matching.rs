//! The receiver's half of matching: it requests channels from senders and accepts some of the
//! offers.
//!
//! The [calendar](super::calendar) divides time. A host without messages to receive has no events
//! for it; a host that gets one joins at the next round.

use tidegate_core::{Rng, Time};

use super::header::{Accept, Grant, Header, Reject, Request};
use super::inbox::{Inbox, Match, Matching, Offer, Source};
use super::{MAX_BACKOFF, Settings, Step};

/// Number of timeouts without a response after which a sender gets requests at longer intervals.
const PATIENCE: u64 = 2;
/// First label of tokens for matched channels; the labels below have priority and are for short
/// messages.
const FIRST_LABEL: u32 = 2;

impl Matching {
    /// Channels that can be used immediately: idle in this data phase, and not assigned yet.
    fn idle(&self, settings: &Settings) -> u32 {
        settings.channels.saturating_sub(self.busy + self.prompt)
    }
}

/// Order of service of requests and grants: the shortest message first in the first rounds, random
/// later and among equals.
pub(super) fn order(settings: &Settings, round: u32, remaining: u32, rng: &mut Rng) -> (u32, u64) {
    (if round <= settings.select_min_rounds { remaining } else { 0 }, rng.bits())
}

impl Inbox {
    /// Handles the start or end of a round.
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
            self.send_requests(step, epoch, round, first as usize);
            if round as u64 == calendar.rounds {
                (0..self.wanting.len()).rev().for_each(|at| self.pause_silent(step, at));
            }
        }
        self.matching.stage_at = calendar.next_stage(step.now);
        self.disable_if_unmatched();
    }

    /// Disables events while there is nothing to match.
    fn disable_if_unmatched(&mut self) {
        let matching = &mut self.matching;
        let matched = matching.busy + matching.taken > 0 || !matching.offers.is_empty();
        if !matched && self.wanting.is_empty() {
            (matching.round, matching.stage_at) = (None, Time::NEVER);
        }
    }

    /// Removes the match of a source and its grants.
    pub(super) fn disconnect(&mut self, number: u32) {
        let Source { sending, next, .. } = &self.sources[number as usize];
        let matching = &mut self.matching;
        matching.busy -= sending.channels;
        matching.taken -= next.channels;
        matching.prompt -= next.prompt;
        matching.sending.retain(|&matched| matched != number);
        matching.next.retain(|&matched| matched != number);
        matching.offers.retain(|offer| offer.source != number);
        self.disable_if_unmatched();
    }

    /// Requests the channels that each sender's shortest message could fill, from the `first`
    /// sender on, up to the number of requests that fit into half a round. More requests would be
    /// late, and would delay those of the next round, too.
    fn send_requests(&mut self, step: &mut Step<'_>, epoch: u64, round: u32, first: usize) {
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
                source.requested_at = source.requested_at.min(step.now);
                step.send(source.host, Header::Request(request));
                left -= 1;
            }
        }
    }

    /// If a sender has not responded to requests for long, pauses its requests.
    fn pause_silent(&mut self, step: &Step<'_>, at: usize) {
        let number = self.wanting[at];
        let source = &mut self.sources[number as usize];
        let timeout = step.settings.notify_timeout;
        if step.now.since(source.requested_at) >= timeout.times(PATIENCE) {
            self.pauses.set(number, step.now.after(source.silence.wait(timeout)));
            source.silence.double(MAX_BACKOFF);
            self.reschedule(step, number);
        }
    }

    /// Ends the pause of a silent sender.
    pub(super) fn end_pause(&mut self, step: &Step<'_>) {
        if let Some((_, number)) = self.pauses.first() {
            self.pauses.remove(number);
            self.reschedule(step, number);
        }
    }

    /// Keeps a grant of this round until its end; late grants are dropped.
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

    /// Accepts the grants of a round that fit.
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
                // Below the priority of matched channels.
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
                self.start_clocks(step, offer.source);
            }
        }
        self.matching.offers = offers;
    }

    /// Starts the data phase of an epoch; matches of the previous phase end.
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
            self.start_clocks(step, number);
        }
    }

    /// Handles a rejection: the sender does not have the accepted channels.
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

    /// No host has sent a message for so long that the matches have expired.
    pub(super) fn expire(&mut self, step: &Step<'_>) {
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
        self.disable_if_unmatched();
    }
}
