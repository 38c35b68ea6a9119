//! Loss at the receiver: timers that find what is missing, and the requests to send it again.
//!
//! Packets take paths of their own, so order says nothing and only time does. A message's timer sees two cases. While packets
//! arrive, what was missing below the highest packet a timeout ago is lost, because it left before that one. When nothing has
//! arrived for a timeout, whatever was credited may be lost: data, credit, or a request of this kind; the sender knows which.
//!
//! A packet's credit stays booked until the packet arrives, so lost packets are asked for at no new cost, and what is under
//! way stays within the buckets. A sender that does not answer at all loses its credit to others until it is heard of.

use alloc::collections::VecDeque;

use tidegate_core::{Body, Time};

use super::receiver::{Ask, Inbox, MAX_AHEAD};
use super::{Control, MAX_BACKOFF, Settings, flag, own_kind};

/// After so many unanswered requests in a row the credit of a silent sender is given to others.
const PATIENCE: u8 = 3;

impl Inbox {
    /// The first timer has fired.
    pub(super) fn on_timer(&mut self, settings: &Settings, now: Time, control: &mut VecDeque<Control>) {
        let Some((at, slot)) = self.timers.first() else { return };
        let message = &mut self.messages[slot];
        if !message.expects() {
            return self.timers.remove(&mut self.timer_places, slot);
        }
        let timeout = settings.timeout;
        let patience = timeout.times(1 << message.backoff);
        let next = if at.since(message.progress_at) >= patience {
            let number = message.source;
            self.ask_for_all(settings, slot);
            let body = self.repeat(number, self.messages[slot].id);
            let source = &self.sources[number as usize];
            control.push_back(Control { dst: source.host, body });
            let backoff = self.messages[slot].backoff;
            if backoff >= PATIENCE && at.since(source.heard_at) >= patience {
                self.silence(settings, number);
            }
            at.after(timeout.times(1 << backoff))
        } else {
            let (base, high) = (message.window.base(), message.window.high());
            let lost = (base < message.horizon && at.since(message.horizon_at) >= timeout)
                .then_some(message.horizon);
            // Without a gap the next one is younger than this.
            if lost.is_some() || base == high || at.since(message.horizon_at) >= timeout {
                (message.horizon, message.horizon_at) = (high, at);
            }
            let quiet = message.progress_at.after(patience);
            let gaps = message.horizon_at.after(timeout);
            if let Some(horizon) = lost {
                self.ask_below(slot, horizon, false);
            }
            if base < high { quiet.min(gaps) } else { quiet }
        };
        self.timers.set(&mut self.timer_places, slot, settings.next_timer(now, next));
    }

    /// The sender says that `sent` packets should have arrived. No use in asking twice.
    pub(super) fn on_repeated_request(&mut self, settings: &Settings, now: Time, slot: u32, sent: u64) {
        let message = &mut self.messages[slot];
        message.sent = message.sent.max(sent).min(message.packets).min(message.window.base() + MAX_AHEAD);
        if !message.complete && message.expects() && message.backoff == 0 {
            self.ask_for_all(settings, slot);
            self.timers.set(&mut self.timer_places, slot, now.after(settings.timeout.times(2)));
        }
    }

    /// Asks for everything credited.
    fn ask_for_all(&mut self, settings: &Settings, slot: u32) {
        let message = &mut self.messages[slot];
        message.backoff = (message.backoff + 1).min(MAX_BACKOFF);
        // Credit may have gone into packets of this message that was meant for others.
        let outstanding = self.sources[message.source as usize].bucket.outstanding.max(0) as u64;
        let known = message.granted.max(message.window.high()).max(message.sent);
        let end = known.saturating_add(outstanding / settings.full + 1).min(message.packets);
        self.ask_below(slot, end, true);
    }

    fn ask_below(&mut self, slot: u32, end: u64, stalled: bool) {
        let message = &mut self.messages[slot];
        if message.ask.replace(Ask { next: message.window.base(), end, stalled }).is_none() {
            self.asks.push_back(slot);
        }
    }

    /// Asks for up to 64 lost packets, paced like the credit for them; false where there is nothing to ask for.
    pub(super) fn ask(&mut self, settings: &Settings, at: Time, control: &mut VecDeque<Control>) -> bool {
        while let Some(&slot) = self.asks.front() {
            let message = &mut self.messages[slot];
            if message.alive
                && let Some(ask) = &mut message.ask
            {
                let start = message.window.next_missing(ask.next);
                if start < ask.end {
                    let room = ask.end - start;
                    let map =
                        message.window.missing(start) & if room < 64 { (1 << room) - 1 } else { u64::MAX };
                    ask.next = start.saturating_add(64);
                    let body = Body {
                        kind: own_kind::RESEND,
                        flags: if ask.stalled { flag::STALLED } else { 0 },
                        connection: message.connection,
                        lane: message.lane,
                        message: message.id,
                        seq: start * settings.mtu,
                        ack: message.generation as u64,
                        sack: map,
                        ..Body::default()
                    };
                    let dst = self.sources[message.source as usize].host;
                    self.pacer.spend(at, map.count_ones() as u64 * settings.full);
                    control.push_back(Control { dst, body });
                    return true;
                }
                message.ask = None;
            }
            self.asks.pop_front();
        }
        false
    }
}
