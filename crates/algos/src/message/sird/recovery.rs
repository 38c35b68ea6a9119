//! Loss at the receiver: how it finds what is missing, and asks for it again.
//!
//! Packets take paths of their own, so order says nothing and only time does. Three things tell:
//!
//! * What was missing below the highest packet of a message a timeout ago is lost, because it left
//!   before that one.
//! * A sender that has sent nothing of a message for a timeout, and has no acknowledgement, says
//!   how many packets it has sent.
//! * When nothing has arrived from a sender for a timeout although it has credit, whatever was
//!   credited may be lost: data, credit, or a request of this kind. The sender knows which. While
//!   other messages of the same sender arrive, a message without news waits its turn there, and
//!   nothing is asked for.
//!
//! A packet's credit stays booked until the packet arrives, so what is asked for is bounded by the
//! buckets and costs no new credit. The pacer counts it when it comes; a request that nothing
//! answers holds nobody up. A sender that does not answer at all loses its credit to others until
//! it is heard of.

use alloc::collections::VecDeque;

use tidegate_core::Time;

use super::header::{Header, Resend};
use super::receiver::{Inbox, MAX_AHEAD};
use super::{Control, MAX_BACKOFF, Settings};

/// After so many unanswered requests in a row the credit of a silent sender is given to others.
const PATIENCE: u8 = 3;
/// Requests for lost packets, of 64 each, that leave for one message at a time; the rest a timeout
/// later.
const MAX_ASKS: usize = 32;

impl Inbox {
    /// The first timer has fired.
    pub(super) fn on_timer(
        &mut self,
        settings: &Settings,
        now: Time,
        control: &mut VecDeque<Control>,
    ) {
        let Some((at, slot)) = self.timers.first() else { return };
        let message = &mut self.messages[slot];
        if !message.expects() {
            return self.timers.remove(&mut self.timer_places, slot);
        }
        let timeout = settings.timeout;
        let number = message.source;
        let patience = timeout.times(1 << message.backoff);
        let heard_at = message.waits_since.max(self.sources[number as usize].data_at);
        let news_at = heard_at.max(message.asked_at);
        let next = if at.since(news_at) >= patience {
            message.backoff = (message.backoff + 1).min(MAX_BACKOFF);
            let backoff = message.backoff;
            self.ask_for_all(settings, at, slot, control);
            let header = self.repeat(number, self.messages[slot].id);
            let source = &self.sources[number as usize];
            control.push_back(Control { dst: source.host, header });
            if backoff >= PATIENCE && at.since(source.heard_at) >= patience {
                self.silence(settings, number);
            }
            at.after(timeout.times(1 << backoff))
        } else {
            message.backoff = 0;
            let (base, high) = (message.window.base(), message.window.high());
            let gap_at = message.horizon_at.max(message.asked_at).after(timeout);
            let lost = (base < message.horizon && at >= gap_at).then_some(message.horizon);
            // Without a gap the next one is younger than this.
            let passed = base >= message.horizon && at.since(message.horizon_at) >= timeout;
            if lost.is_some() || base == high || passed {
                (message.horizon, message.horizon_at) = (high, at);
            }
            let gap_at = message.horizon_at.max(message.asked_at).after(timeout);
            if let Some(horizon) = lost {
                self.ask_below(settings, at, slot, horizon, false, control);
            }
            let quiet_at = news_at.after(timeout);
            if base < high { quiet_at.min(gap_at) } else { quiet_at }
        };
        self.timers.set(&mut self.timer_places, slot, settings.next_timer(now, next));
    }

    /// The sender says that it has sent `sent` packets, the last of them a timeout ago. No use in
    /// asking twice.
    pub(super) fn on_repeated_request(
        &mut self,
        settings: &Settings,
        now: Time,
        slot: u32,
        sent: u64,
        control: &mut VecDeque<Control>,
    ) {
        let message = &mut self.messages[slot];
        message.sent =
            message.sent.max(sent).min(message.packets).min(message.window.base() + MAX_AHEAD);
        if !message.complete && now.since(message.asked_at) >= settings.timeout {
            let end = message.sent;
            self.ask_below(settings, now, slot, end, false, control);
            self.arm(settings, now, slot);
        }
    }

    /// Asks for everything credited.
    fn ask_for_all(
        &mut self,
        settings: &Settings,
        at: Time,
        slot: u32,
        control: &mut VecDeque<Control>,
    ) {
        let message = &self.messages[slot];
        // Credit may have gone into packets of this message that was meant for others.
        let outstanding = self.sources[message.source as usize].bucket.outstanding.max(0) as u64;
        let known = message.granted.max(message.window.high()).max(message.sent);
        let end = known.saturating_add(outstanding / settings.full + 1).min(message.packets);
        self.ask_below(settings, at, slot, end, true, control);
    }

    /// Asks for what is missing of a message below packet `end`.
    fn ask_below(
        &mut self,
        settings: &Settings,
        at: Time,
        slot: u32,
        end: u64,
        stalled: bool,
        control: &mut VecDeque<Control>,
    ) {
        let message = &mut self.messages[slot];
        let dst = self.sources[message.source as usize].host;
        let mut start = message.window.base();
        for _ in 0..MAX_ASKS {
            start = message.window.next_missing(start);
            if start >= end {
                return;
            }
            message.asked_at = at;
            let room = end - start;
            let missing =
                message.window.missing(start) & if room < 64 { (1 << room) - 1 } else { u64::MAX };
            let header = Header::Resend(Resend {
                stalled,
                connection: message.connection,
                lane: message.lane,
                generation: message.generation,
                message: message.id,
                offset: start * settings.mtu,
                missing,
            });
            control.push_back(Control { dst, header });
            start += 64;
        }
    }
}
