//! Time and receiver of credits (algorithm 1, `sendCredit`).

use tidegate_core::{Message, Time};

use super::header::{Credit, Header};
use super::receiver::Inbox;
use super::{Settings, Step};

impl Inbox {
    /// Issues the credit that is due by the step's time.
    ///
    /// Each credit leaves when the pacer opens or when the state changes, whichever is later; so
    /// the credits depend on times only, not on how often the driver calls.
    pub(super) fn issue(&mut self, step: &mut Step<'_>) {
        loop {
            let next = self.creditable(step.settings);
            let due = next.map_or(Time::NEVER, |_| self.pacer.opens_at().max(self.clock));
            let late = self.late_at();
            if late <= due.min(step.now) {
                self.open_late(step.settings);
                continue;
            }
            let Some((source, slot)) = next.filter(|_| due <= step.now) else {
                self.credit_at = due.min(late);
                return;
            };
            self.credit(&mut step.at(due), source, slot);
        }
    }

    /// All credit due by `now` has been issued; the state changes after this.
    pub(super) fn changed(&mut self, now: Time) {
        self.clock = now;
    }

    /// The next sender and message, if the budget has room for the packet.
    #[inline]
    fn creditable(&self, settings: &Settings) -> Option<(u32, u32)> {
        let (_, source) = self.ready.first()?;
        let (_, slot) = self.sources[source as usize].messages.first()?;
        let message = &self.messages[slot];
        let wire = settings.segments.wire(message.size, message.granted) as i64;
        (self.outstanding - self.waiting + wire <= settings.budget).then_some((source, slot))
    }

    /// Issues the credit of one packet.
    fn credit(&mut self, step: &mut Step<'_>, number: u32, slot: u32) {
        let settings = step.settings;
        let message = &mut self.messages[slot];
        let packet = message.granted;
        let payload_bytes = settings.segments.payload(message.size, packet) as u32;
        let wire = settings.segments.wire(message.size, packet);
        message.granted += 1;
        let policy = settings.receiver_policy;
        let by_order = policy.is_by_order() || message.size == Message::UNLIMITED;
        if by_order {
            // Credit that a message could not use while its sender was congested or silent is not
            // made up for.
            let order = message.order.max(self.order);
            message.order = policy.next_order(&mut self.order, order, wire, message.weight);
        }
        let moves = by_order || !message.wants();
        let (connection, lane, id) = (message.connection, message.lane, message.id);
        self.book(number, wire as i64);
        self.pacer.spend(step.now, wire);
        let source = &mut self.sources[number as usize];
        source.bucket.issued(settings, wire, step.now);
        source.granted_bytes += wire;
        let header = Header::Credit(Credit {
            connection,
            lane,
            message: id,
            payload_bytes,
            offset: packet * settings.segments.mtu,
            granted: source.granted_bytes,
        });
        step.send(source.host, header);
        if moves {
            self.place(settings, slot);
        }
        self.arm(step, slot);
        self.release(slot);
        self.reschedule(settings, number, step.now);
    }
}
