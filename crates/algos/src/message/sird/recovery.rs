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

use super::receiver::Inbox;
use super::{Control, MAX_BACKOFF, Settings, own_kind};

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
        let asking = message.ask.is_some();
        let timeout = settings.timeout;
        let patience = timeout.times(1 << message.backoff);
        let high = message.window.high();
        let next;
        if at.since(message.progress_at) >= patience {
            let source = &self.sources[message.source as usize];
            // Credit may have gone into packets of this message that was meant for others.
            let others = source.bucket.outstanding.max(0) as u64 / settings.full + 1;
            let end = message.granted.max(high).saturating_add(others).min(message.packets);
            let silent = at.since(source.heard_at) >= patience;
            message.ask = Some((message.window.base(), end));
            message.backoff = (message.backoff + 1).min(MAX_BACKOFF);
            next = at.after(timeout.times(1 << message.backoff));
            let (source, id, give_up) = (message.source, message.id, silent && message.backoff >= PATIENCE);
            let body = self.repeat(source, id);
            control.push_back(Control { dst: self.sources[source as usize].host, body });
            if give_up {
                self.silence(settings, source);
            }
        } else {
            if at.since(message.horizon_at) >= timeout {
                if message.window.base() < message.horizon {
                    message.ask = Some((message.window.base(), message.horizon));
                }
                (message.horizon, message.horizon_at) = (high, at);
            }
            let quiet = message.progress_at.after(patience);
            let gaps = message.horizon_at.after(timeout);
            next = if message.window.base() < high { quiet.min(gaps) } else { quiet };
        }
        let message = &mut self.messages[slot];
        if !asking && message.ask.is_some() {
            self.asks.push_back(slot);
        }
        // No gap: the next one is younger than this.
        if message.window.base() == high {
            (message.horizon, message.horizon_at) = (high, at);
        }
        self.timers.set(&mut self.timer_places, slot, settings.next_timer(now, next));
    }

    /// Asks for up to 64 lost packets, paced like the credit for them; false where there is nothing to ask for.
    pub(super) fn ask(&mut self, settings: &Settings, at: Time, control: &mut VecDeque<Control>) -> bool {
        while let Some(&slot) = self.asks.front() {
            let message = &mut self.messages[slot];
            if message.alive
                && let Some((from, end)) = message.ask
            {
                let start = message.window.next_missing(from);
                if start < end {
                    let room = end - start;
                    let map = message.window.missing(start) & if room < 64 { (1 << room) - 1 } else { u64::MAX };
                    message.ask = Some((start.saturating_add(64), end));
                    let body = Body {
                        kind: own_kind::RESEND,
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
