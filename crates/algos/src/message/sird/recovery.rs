//! Loss recovery at the receiver: detection of missing packets, and requests for them.
//!
//! Packets take different paths, so their order indicates nothing, and only time indicates losses.
//! Three rules apply:
//!
//! * If a packet was already missing below the highest packet of a message a timeout ago, it is
//!   lost, because it left before that one.
//! * If a sender has sent nothing of a message for a timeout and has no acknowledgement, it reports
//!   how many packets it has sent.
//! * If nothing has arrived from a sender for a timeout although it has credit, everything credited
//!   may be lost: data, credit, or a request of this kind. The sender knows which, and retransmits
//!   the last packet of 64: if all were lost, requests for the others follow a timeout after its
//!   arrival. If they only wait in a queue that is longer than a timeout, retransmitting all of
//!   them would make the queue permanently longer. While other messages of the same sender arrive,
//!   a message without arrivals is assumed to wait at the sender, and nothing is requested.
//!
//! A packet's credit stays booked until the packet arrives, so the requested bytes are bounded by
//! the buckets and cost no new credit. The pacer counts a packet when it arrives; an unanswered
//! request delays no other sender. A sender that does not respond at all loses its credit to others
//! until a packet from it arrives.

use tidegate_core::Time;

use super::header::{Header, Resend};
use super::receiver::{Inbox, Incoming};
use super::{MAX_BACKOFF, Step};
use crate::kit::window::MAX_AHEAD;

/// Consecutive unanswered requests after which the credit of a silent sender is given to others.
const PATIENCE: u8 = 3;
/// Largest number of requests for lost packets, of 64 packets each, per message at a time; the rest
/// follow a timeout later.
const MAX_REQUESTS: usize = 32;

impl Inbox {
    /// Handles the earliest message timer.
    pub(super) fn on_timer(&mut self, step: &mut Step<'_>) {
        let Some((at, slot)) = self.timers.first() else { return };
        let message = &mut self.messages[slot];
        if !message.expects() {
            return self.timers.remove(slot);
        }
        let timeout = step.settings.timeout;
        let number = message.source;
        let patience = message.backoff.wait(timeout);
        let arrived_at = message.waits_since.max(self.sources[number as usize].data_at);
        let news_at = arrived_at.max(message.requested_at);
        let next = if at.since(news_at) >= patience {
            message.backoff.double(MAX_BACKOFF);
            let backoff = message.backoff;
            self.request_all(&mut step.at(at), slot);
            let header = self.repeat(number, self.messages[slot].id);
            let source = &self.sources[number as usize];
            if step.has_room() {
                step.send(source.host, header);
            }
            if backoff.doubled() >= PATIENCE && at.since(source.last_packet_at) >= patience {
                self.silence(step.settings, number);
            }
            at.after(backoff.wait(timeout))
        } else {
            message.backoff.end();
            let Incoming { window, requested_at, horizon, .. } = message;
            let lost = horizon.overtaken(window, *requested_at, at, timeout);
            let has_gap = window.base() < window.high();
            let gap_at = if has_gap { horizon.due(*requested_at, timeout) } else { Time::NEVER };
            if let Some(end) = lost {
                self.request_below(&mut step.at(at), slot, end, false);
            }
            gap_at.min(news_at.after(timeout))
        };
        self.timers.set_again(slot, next, step.now, timeout);
    }

    /// The sender reports `sent` sent packets, the last of them a timeout ago. A request within a
    /// timeout is not repeated.
    pub(super) fn on_repeated_request(&mut self, step: &mut Step<'_>, slot: u32, sent: u64) {
        let message = &mut self.messages[slot];
        message.sent =
            message.sent.max(sent).min(message.packets).min(message.window.base() + MAX_AHEAD);
        if !message.complete && step.now.since(message.requested_at) >= step.settings.timeout {
            let end = message.sent;
            self.request_missing(step, slot, end);
            self.arm(step, slot);
        }
    }

    /// Requests all credited packets.
    fn request_all(&mut self, step: &mut Step<'_>, slot: u32) {
        let message = &self.messages[slot];
        // Credit of other messages may have been spent on this one.
        let outstanding = self.sources[message.source as usize].bucket.outstanding.max(0) as u64;
        let known = message.granted.max(message.window.high()).max(message.sent);
        let end = known.saturating_add(outstanding / step.settings.full + 1).min(message.packets);
        self.request_missing(step, slot, end);
    }

    /// Nothing has arrived for a timeout. Packets that are missing below the highest arrived packet
    /// are lost; those above it, below `end`, may wait in a queue.
    fn request_missing(&mut self, step: &mut Step<'_>, slot: u32, end: u64) {
        let high = self.messages[slot].window.high().min(end);
        self.request_below(step, slot, high, false);
        self.request_between(step, slot, (high, end), true);
    }

    /// Requests the missing packets of a message below packet `end`.
    fn request_below(&mut self, step: &mut Step<'_>, slot: u32, end: u64, stalled: bool) {
        self.request_between(step, slot, (0, end), stalled);
    }

    /// Requests the missing packets of a message in a range; the end is excluded.
    fn request_between(
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
        for (start, missing) in message.window.holes(end).filter_map(wanted).take(MAX_REQUESTS) {
            message.requested_at = step.now;
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
