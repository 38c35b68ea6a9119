//! Loss at the receiver: how it finds what is missing, and asks for it again.
//!
//! Packets take paths of their own, so order says nothing and only time does. Three things tell:
//!
//! * What was missing below the highest packet of a message a timeout ago is lost, because it left
//!   before that one.
//! * A sender that has sent nothing of a message for a timeout, and has no acknowledgement, says
//!   how many packets it has sent.
//! * When nothing has arrived from a sender for a timeout although it has credit, whatever was
//!   credited may be lost: data, credit, or a request of this kind. The sender knows which, and
//!   sends the last packet of 64 again: if all were lost, the others follow a timeout after it.
//!   Where they only wait in a queue that is longer than a timeout, sending all of them again would
//!   make it longer still, without end. While other messages of the same sender arrive, a message
//!   without news waits its turn there, and nothing is asked for.
//!
//! A packet's credit stays booked until the packet arrives, so what is asked for is bounded by the
//! buckets and costs no new credit. The pacer counts it when it comes; a request that nothing
//! answers holds nobody up. A sender that does not answer at all loses its credit to others until
//! it is heard of.

use tidegate_core::Time;

use super::header::{Header, Resend};
use super::receiver::{Inbox, Incoming, MAX_AHEAD};
use super::{MAX_BACKOFF, Step};

/// After so many unanswered requests in a row the credit of a silent sender is given to others.
const PATIENCE: u8 = 3;
/// Requests for lost packets, of 64 each, that leave for one message at a time; the rest a timeout
/// later.
const MAX_ASKS: usize = 32;

impl Inbox {
    /// The first timer has fired.
    pub(super) fn on_timer(&mut self, step: &mut Step<'_>) {
        let Some((at, slot)) = self.timers.first() else { return };
        let message = &mut self.messages[slot];
        if !message.expects() {
            return self.timers.remove(slot);
        }
        let timeout = step.settings.timeout;
        let number = message.source;
        let patience = message.backoff.wait(timeout);
        let heard_at = message.waits_since.max(self.sources[number as usize].data_at);
        let news_at = heard_at.max(message.asked_at);
        let next = if at.since(news_at) >= patience {
            message.backoff.double(MAX_BACKOFF);
            let backoff = message.backoff;
            self.ask_for_all(&mut step.at(at), slot);
            let header = self.repeat(number, self.messages[slot].id);
            let source = &self.sources[number as usize];
            if step.has_room() {
                step.send(source.host, header);
            }
            if backoff.doubled() >= PATIENCE && at.since(source.heard_at) >= patience {
                self.silence(step.settings, number);
            }
            at.after(backoff.wait(timeout))
        } else {
            message.backoff.end();
            let Incoming { window, asked_at, horizon, .. } = message;
            let lost = horizon.overtaken(window, *asked_at, at, timeout);
            let has_gap = window.base() < window.high();
            let gap_at = if has_gap { horizon.due(*asked_at, timeout) } else { Time::NEVER };
            if let Some(end) = lost {
                self.ask_below(&mut step.at(at), slot, end, false);
            }
            gap_at.min(news_at.after(timeout))
        };
        self.timers.set_again(slot, next, step.now, timeout);
    }

    /// The sender says that it has sent `sent` packets, the last of them a timeout ago. No use in
    /// asking twice.
    pub(super) fn on_repeated_request(&mut self, step: &mut Step<'_>, slot: u32, sent: u64) {
        let message = &mut self.messages[slot];
        message.sent =
            message.sent.max(sent).min(message.packets).min(message.window.base() + MAX_AHEAD);
        if !message.complete && step.now.since(message.asked_at) >= step.settings.timeout {
            let end = message.sent;
            self.ask_again(step, slot, end);
            self.arm(step, slot);
        }
    }

    /// Asks for everything credited.
    fn ask_for_all(&mut self, step: &mut Step<'_>, slot: u32) {
        let message = &self.messages[slot];
        // Credit may have gone into packets of this message that was meant for others.
        let outstanding = self.sources[message.source as usize].bucket.outstanding.max(0) as u64;
        let known = message.granted.max(message.window.high()).max(message.sent);
        let end = known.saturating_add(outstanding / step.settings.full + 1).min(message.packets);
        self.ask_again(step, slot, end);
    }

    /// Nothing has arrived for a timeout. What is missing below the highest packet is lost; what is
    /// above it, below `end`, may wait in a queue.
    fn ask_again(&mut self, step: &mut Step<'_>, slot: u32, end: u64) {
        let high = self.messages[slot].window.high().min(end);
        self.ask_below(step, slot, high, false);
        self.ask_between(step, slot, (high, end), true);
    }

    /// Asks for what is missing of a message below packet `end`.
    fn ask_below(&mut self, step: &mut Step<'_>, slot: u32, end: u64, stalled: bool) {
        self.ask_between(step, slot, (0, end), stalled);
    }

    /// Asks for what is missing of a message between two packets, the second not included.
    fn ask_between(
        &mut self,
        step: &mut Step<'_>,
        slot: u32,
        (from, end): (u64, u64),
        stalled: bool,
    ) {
        if !step.has_room() {
            return;
        }
        let message = &mut self.messages[slot];
        let dst = self.sources[message.source as usize].host;
        let wanted = |(start, missing): (u64, u64)| {
            let below = from.saturating_sub(start);
            let missing = if below < 64 { missing >> below << below } else { 0 };
            (missing > 0).then_some((start, missing))
        };
        for (start, missing) in message.window.holes(end).filter_map(wanted).take(MAX_ASKS) {
            message.asked_at = step.now;
            let header = Header::Resend(Resend {
                stalled,
                connection: message.connection,
                lane: message.lane,
                generation: message.generation,
                message: message.id,
                offset: start * step.settings.segments.mtu,
                missing,
            });
            step.send(dst, header);
        }
    }
}
