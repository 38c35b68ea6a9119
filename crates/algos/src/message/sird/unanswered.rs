//! Loss recovery at the sender: requested retransmissions, and timeouts without a response.

use super::header::{Busy, Header, Request, Resend};
use super::sender::{Outbox, request};
use super::{MAX_BACKOFF, Step};

impl Outbox {
    /// Handles a request for missing packets. Unsent packets are not missing; if the message
    /// stalled but a packet of it was sent within half a timeout, none is. If nothing is missing,
    /// the reply is that the sender is busy.
    pub(super) fn on_resend(
        &mut self,
        step: &Step<'_>,
        host: u32,
        resend: &Resend,
    ) -> Option<Header> {
        let Resend { connection, lane, generation, .. } = *resend;
        let slot = self.find(host, connection, lane, generation)?;
        let message = &self.messages[slot];
        let start = resend.offset / step.settings.segments.mtu;
        let sent_lately = step.now.since(message.sent_at).times(2) < step.settings.timeout;
        let moving = resend.stalled && sent_lately;
        let sent = if moving { 0 } else { message.next.saturating_sub(start) };
        let missing = resend.missing;
        let map = if sent >= 64 { missing } else { missing & ((1 << sent) - 1) };
        // Possibly nothing is lost, and a queue is longer than a timeout: only the last packet is
        // sent, since packets that are missing below it a timeout after its arrival are lost.
        let map = if resend.stalled { last_of(map) } else { map };
        if map == 0 {
            let number = message.destination;
            let busy = Busy {
                connection,
                lane,
                generation,
                message: message.id,
                unscheduled: message.unscheduled,
                weight: message.weight as u32,
                size: message.size,
            };
            self.destinations[number as usize].lend = true;
            self.reschedule(step.settings, number);
            return Some(Header::Busy(busy));
        }
        self.again.push(self.messages.key(slot), start, map);
        None
    }

    /// Handles the earliest message timer: if nothing of the message was sent for a timeout,
    /// requests credit (again), which also reports the sent bytes and requests an acknowledgement.
    pub(super) fn on_timer(&mut self, step: &mut Step<'_>) {
        let Some((at, slot)) = self.timers.first() else { return };
        let timeout = step.settings.timeout;
        let message = &mut self.messages[slot];
        let quiet_at = message.sent_at.max(message.resent_at).after(timeout);
        let next = if quiet_at > at {
            message.backoff.end();
            quiet_at
        } else {
            if message.announced {
                let dst = self.destinations[message.destination as usize].host;
                let sent = message.next * step.settings.segments.mtu;
                let again = Request { repeated: true, sent, ..request(message, slot) };
                step.send(dst, Header::Request(again));
                message.backoff.double(MAX_BACKOFF);
            }
            at.after(message.backoff.wait(timeout))
        };
        self.timers.set_again(slot, next, step.now, timeout);
    }
}

/// The highest bit of a map alone.
const fn last_of(map: u64) -> u64 {
    if map == 0 { 0 } else { 1 << map.ilog2() }
}
