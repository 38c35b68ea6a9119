//! Loss, at both ends: what is missing is asked for again, and who waits in vain asks why.
//!
//! Packets take paths of their own, so order says nothing and only time does. Four things tell:
//!
//! * When nothing of a message has arrived for a timeout although it has packets under way, its
//!   receiver asks for all of them, again after twice as long, and so on. A sender that has them
//!   still to send, because shorter messages go first, says that it is busy.
//! * What was missing below the highest packet of a message a timeout ago is lost, because it left
//!   before that one.
//! * A sender that has sent all it may, and has heard nothing for a timeout, asks for an
//!   acknowledgement, which also says how many packets there should be: grants may be lost, or all
//!   packets of the message.
//! * Whoever does not answer for long gets no more grants, so that others do, until it is heard of.

use tidegate_core::Time;

use super::header::{Busy, Header, NeedAck, Resend};
use super::receiver::{Inbox, Incoming, MAX_AHEAD};
use super::sender::{Outbox, need_ack};
use super::{MAX_BACKOFF, Step};
use crate::kit::lanes::Known;

/// After so many unanswered requests in a row a sender gets no more grants.
const PATIENCE: u8 = 3;
/// Requests for lost packets, of 64 each, that leave for one message at a time; the rest a timeout
/// later.
const MAX_ASKS: usize = 32;

impl Inbox {
    /// The first timer of a message has fired.
    pub(super) fn on_timer(&mut self, step: &mut Step<'_>) {
        let Some((at, slot)) = self.timers.first() else { return };
        let message = &mut self.messages[slot];
        if !message.expects() {
            return self.timers.remove(slot);
        }
        let timeout = step.settings.timeout;
        let number = message.source;
        let patience = message.backoff.wait(timeout);
        let news_at = message.waits_since.max(message.asked_at);
        let next = if at.since(news_at) >= patience {
            message.backoff.double(MAX_BACKOFF);
            let (backoff, granted) = (message.backoff, message.granted);
            self.ask_below(&mut step.at(at), slot, granted, true);
            let heard_at = self.sources[number as usize].heard_at;
            if backoff.doubled() >= PATIENCE && at.since(heard_at) >= patience {
                self.silence(&mut step.at(at), number);
            }
            at.after(backoff.wait(timeout))
        } else {
            let Incoming { window, waits_since, asked_at, horizon, .. } = message;
            let lost = horizon.overtaken(window, *asked_at, at, timeout);
            let has_gap = window.base() < window.high();
            let gap_at = if has_gap { horizon.due(*asked_at, timeout) } else { Time::NEVER };
            let waits_since = *waits_since;
            if let Some(end) = lost {
                self.ask_below(&mut step.at(at), slot, end, false);
            }
            let asked_at = self.messages[slot].asked_at;
            gap_at.min(waits_since.max(asked_at).after(patience))
        };
        self.timers.set_again(slot, next, step.now, timeout);
    }

    /// The sender has sent all it may, `sent` packets, the last of them a timeout ago. Grants may
    /// be lost, too: asking for a packet is as good. No use in asking twice.
    pub(super) fn on_repeated(&mut self, step: &mut Step<'_>, slot: u32, sent: u64) {
        let message = &mut self.messages[slot];
        let end = sent.min(message.packets).min(message.window.base() + MAX_AHEAD);
        message.granted = message.granted.max(end);
        let (granted, asked_at) = (message.granted, message.asked_at.max(message.waits_since));
        if step.now.since(asked_at) >= step.settings.timeout {
            self.ask_below(step, slot, granted, true);
        }
        self.place(step.settings, slot);
        self.arm(step, slot);
    }

    /// The sender has packets that were asked for still to send: that is news.
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

    /// Asks for what is missing of a message below packet `end`.
    fn ask_below(&mut self, step: &mut Step<'_>, slot: u32, end: u64, stalled: bool) {
        if !step.has_room() {
            return;
        }
        let message = &mut self.messages[slot];
        let dst = self.sources[message.source as usize].host;
        for (start, missing) in message.window.holes(end).take(MAX_ASKS) {
            message.asked_at = step.now;
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
    /// The receiver misses packets. What has not been sent yet is not missing, nor what was sent
    /// after the receiver lost patience, but the receiver hears that it is on its way.
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
        // What is asked for may be sent.
        self.allow(settings, slot, last.saturating_add(1), settings.levels.all - 1);
        let message = &self.messages[slot];
        let sent_lately = step.now.since(message.sent_at).times(2) < settings.timeout;
        let moving = resend.stalled && sent_lately;
        let sent = if moving { 0 } else { message.next.saturating_sub(start) };
        let map = if sent >= 64 { missing } else { missing & ((1 << sent) - 1) };
        // Nor is there time for it where too many others are asked for.
        let waits = map == 0 || !self.again.push(self.messages.key(slot), start, map);
        let id = self.messages[slot].id;
        waits.then_some(Header::Busy(Busy { lane, generation, message: id }))
    }

    /// A message's timer: where all that may be sent was, a timeout ago, asks whether it has
    /// arrived.
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
