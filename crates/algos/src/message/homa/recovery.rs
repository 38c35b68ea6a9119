//! Loss recovery at both ends: missing packets are requested again, and an end without a response
//! requests the peer's state.
//!
//! Packets take different paths, so their order indicates nothing, and only time indicates losses.
//! Four rules apply:
//!
//! * If nothing of a message has arrived for a timeout although packets are in flight, its receiver
//!   requests all of them, then again after twice the time, and so on. A sender that has not sent
//!   them yet, because shorter messages have priority, responds that it is busy.
//! * If a packet was already missing below the highest packet of a message a timeout ago, it is
//!   lost, because it left before that one.
//! * If a sender has sent everything allowed and has received no response for a timeout, it
//!   requests an acknowledgement. The request also states the number of packets, because grants or
//!   all packets of the message may be lost.
//! * If a sender does not respond for long, it gets no more grants until a packet from it arrives,
//!   so that others get them.

use tidegate_core::Time;

use super::header::{Busy, Header, NeedAck, Resend};
use super::receiver::{Inbox, Incoming};
use super::sender::{Outbox, need_ack};
use super::{MAX_BACKOFF, Step};
use crate::kit::lanes::Known;
use crate::kit::window::MAX_AHEAD;

/// Consecutive unanswered requests after which a sender gets no more grants.
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
        let news_at = message.waits_since.max(message.requested_at);
        let next = if at.since(news_at) >= patience {
            message.backoff.double(MAX_BACKOFF);
            let (backoff, granted) = (message.backoff, message.granted);
            self.request_below(&mut step.at(at), slot, granted, true);
            let last_packet_at = self.sources[number as usize].last_packet_at;
            if backoff.doubled() >= PATIENCE && at.since(last_packet_at) >= patience {
                self.silence(&mut step.at(at), number);
            }
            at.after(backoff.wait(timeout))
        } else {
            let Incoming { window, waits_since, requested_at, horizon, .. } = message;
            let lost = horizon.overtaken(window, *requested_at, at, timeout);
            let has_gap = window.base() < window.high();
            let gap_at = if has_gap { horizon.due(*requested_at, timeout) } else { Time::NEVER };
            let waits_since = *waits_since;
            if let Some(end) = lost {
                self.request_below(&mut step.at(at), slot, end, false);
            }
            let requested_at = self.messages[slot].requested_at;
            gap_at.min(waits_since.max(requested_at).after(patience))
        };
        self.timers.set_again(slot, next, step.now, timeout);
    }

    /// The sender has sent `sent` packets, all that it may, the last of them a timeout ago. Grants
    /// may be lost, too; a request for packets also grants them. A request within a timeout is not
    /// repeated.
    pub(super) fn on_repeated(&mut self, step: &mut Step<'_>, slot: u32, sent: u64) {
        let message = &mut self.messages[slot];
        let end = sent.min(message.packets).min(message.window.base() + MAX_AHEAD);
        message.granted = message.granted.max(end);
        let (granted, requested_at) =
            (message.granted, message.requested_at.max(message.waits_since));
        if step.now.since(requested_at) >= step.settings.timeout {
            self.request_below(step, slot, granted, true);
        }
        self.place(step.settings, slot);
        self.arm(step, slot);
    }

    /// The sender has not sent the requested packets yet: restarts the timeout.
    pub(super) fn on_busy(&mut self, step: &Step<'_>, number: u32, busy: &Busy) {
        let lanes = &self.sources[number as usize].lanes;
        if let Known::Slot(slot) = lanes.find(busy.lane, busy.generation) {
            let message = &mut self.messages[slot];
            message.waits_since = step.now;
            message.backoff.end();
            if self.timers.run(slot) {
                self.timers.set(slot, step.now.after(step.settings.timeout));
            }
        }
    }

    /// Requests the missing packets of a message below packet `end`.
    fn request_below(&mut self, step: &mut Step<'_>, slot: u32, end: u64, stalled: bool) {
        if !step.has_room() {
            return;
        }
        let message = &mut self.messages[slot];
        let dst = self.sources[message.source as usize].host;
        for (start, missing) in message.window.holes(end).take(MAX_REQUESTS) {
            message.requested_at = step.now;
            let header = Header::Resend(Resend {
                stalled,
                lane: message.lane,
                generation: message.generation,
                message: message.id,
                offset: start * step.settings.packets.mtu,
                missing,
            });
            step.send(dst, header);
        }
    }
}

impl Outbox {
    /// Handles a request for missing packets. Unsent packets are not missing; if the message
    /// stalled but a packet of it was sent within half a timeout, none is. If nothing is missing,
    /// the reply is that the sender is busy.
    pub(super) fn on_resend(
        &mut self,
        step: &Step<'_>,
        peer: u32,
        resend: &Resend,
    ) -> Option<Header> {
        let Resend { lane, generation, missing, .. } = *resend;
        let slot = self.find(peer, lane, generation)?;
        let settings = step.settings;
        let start = resend.offset / settings.packets.mtu;
        let last = start.saturating_add(63 - missing.leading_zeros().min(63) as u64);
        // Requested packets may be sent.
        self.allow(settings, slot, last.saturating_add(1), settings.levels.all - 1);
        let message = &self.messages[slot];
        let sent_lately = step.now.since(message.sent_at).times(2) < settings.timeout;
        let moving = resend.stalled && sent_lately;
        let sent = if moving { 0 } else { message.next.saturating_sub(start) };
        let map = if sent >= 64 { missing } else { missing & ((1 << sent) - 1) };
        // The sender is also busy if too many other packets are requested.
        let waits = map == 0 || !self.again.push(self.messages.key(slot), start, map);
        let id = self.messages[slot].id;
        waits.then_some(Header::Busy(Busy { lane, generation, message: id }))
    }

    /// Handles the earliest message timer: if everything allowed was sent a timeout ago, requests
    /// an acknowledgement.
    pub(super) fn on_timer(&mut self, step: &mut Step<'_>) {
        let Some((at, slot)) = self.timers.first() else { return };
        let timeout = step.settings.timeout;
        let message = &mut self.messages[slot];
        let quiet_at = message.sent_at.max(message.resent_at).after(timeout);
        let next = if quiet_at > at {
            message.backoff.end();
            quiet_at
        } else {
            if !message.may_send() {
                let asks = NeedAck { repeated: true, ..need_ack(message, step.settings) };
                step.send(
                    self.destinations[message.destination as usize].host,
                    Header::NeedAck(asks),
                );
                message.backoff.double(MAX_BACKOFF);
            }
            at.after(message.backoff.wait(timeout))
        };
        self.timers.set_again(slot, next, step.now, timeout);
    }
}
