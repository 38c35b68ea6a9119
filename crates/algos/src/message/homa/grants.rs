//! Time, receiver and level of grants (sections 3.3 to 3.5).
//!
//! A receiver evaluates the grants of a sender when a packet from that sender arrives, and one
//! packet time after the last grant. No other event triggers this: a sender whose place has
//! improved gets its better level only then.

use tidegate_core::{Message, Time};

use super::Step;
use super::header::{Grant, Header};
use super::receiver::Inbox;
use super::schedule::MOST_ACTIVE;

impl Inbox {
    /// Handles a change of a sender: grants to it, and to any sender that becomes active because of
    /// it.
    #[inline]
    pub(super) fn serve(&mut self, step: &mut Step<'_>, number: u32) {
        let entered = self.rank(number).filter(|&entered| entered != number);
        self.grant(step, number);
        if let Some(entered) = entered {
            self.grant(step, entered);
        }
    }

    /// Moves a sender to the place of its best message. Returns the sender that becomes active, if
    /// any.
    #[inline]
    fn rank(&mut self, number: u32) -> Option<u32> {
        let source = &self.sources[number as usize];
        match source.messages.first() {
            Some((key, _)) if !source.silent => self.schedule.set(number, key),
            _ => self.schedule.remove(number),
        }
    }

    /// Grants a packet to a sender, if allowed, and to any sender that becomes active because of
    /// that.
    pub(super) fn grant(&mut self, step: &mut Step<'_>, number: u32) {
        let mut next = Some(number);
        while let Some(number) = next {
            next = self.grant_one(step, number);
        }
    }

    /// Grants the next packet of a sender's best message. Returns the sender that becomes active,
    /// if any.
    #[inline]
    fn grant_one(&mut self, step: &mut Step<'_>, number: u32) -> Option<u32> {
        let settings = step.settings;
        let place = self.schedule.place(number)?;
        let source = &mut self.sources[number as usize];
        let (_, slot) = source.messages.first()?;
        let message = &mut self.messages[slot];
        let level = settings.levels.scheduled(place, self.schedule.active());
        let level = settings.boosted(message.size, message.granted).map_or(level, |b| b.min(level));
        // Grants at a better level do not wait for the timer.
        if (self.grants.run(number) && source.level <= level) || !message.has_room(settings) {
            return None;
        }
        source.level = level;
        message.granted += 1;
        if message.size == Message::UNLIMITED {
            // One packet more than may be in flight, so that a round is never granted all at once:
            // its first packet arrives before the round of the next message.
            if message.in_round * settings.packets.full() >= settings.rtt_bytes {
                self.order += 1;
                (message.order, message.in_round) = (self.order, 0);
            } else {
                message.in_round += 1;
            }
        }
        let header = Header::Grant(Grant {
            lane: message.lane,
            generation: message.generation,
            message: message.id,
            level,
            granted: message.granted.saturating_mul(settings.packets.mtu).min(message.size),
        });
        step.send(source.host, header);
        self.place(settings, slot);
        self.arm(step, slot);
        let entered = self.rank(number);
        let best = self.sources[number as usize].messages.first();
        if best.is_some_and(|(_, slot)| self.messages[slot].has_room(settings)) {
            self.grants.set(number, step.now + settings.packet_time);
        } else {
            self.grants.remove(number);
        }
        entered.filter(|&entered| entered != number)
    }

    /// Handles the earliest grant timer.
    pub(super) fn on_grant_timer(&mut self, step: &mut Step<'_>) {
        if let Some((_, number)) = self.grants.first() {
            self.grants.remove(number);
            self.grant(step, number);
        }
    }

    /// A packet has arrived: restarts the measurement of idle time on the link.
    #[inline]
    pub(super) fn watch(&mut self, step: &Step<'_>) {
        if let Some(bubble) = step.settings.bubble {
            let at = step.now.after(bubble);
            self.bubble_at = match (self.schedule.active(), self.bubble_at) {
                (0, _) => Time::NEVER,
                (_, Time::NEVER) => at,
                (_, before) => before.max(at),
            };
        }
    }

    /// The link was idle: grants to one more sender, if any is waiting. The effect takes a round
    /// trip.
    pub(super) fn on_bubble(&mut self, step: &mut Step<'_>) {
        self.bubble_at = Time::NEVER;
        if self.schedule.has_waiting() && self.schedule.room() < MOST_ACTIVE {
            self.bubble_at = step.now.after(step.settings.round_trip);
            if let Some(entered) = self.schedule.resize(self.schedule.room() + 1) {
                self.grant(step, entered);
            }
        }
    }

    /// A message with grants is complete: removes one place, if idle time had added one.
    pub(super) fn narrow(&mut self, step: &Step<'_>) {
        if self.schedule.room() > step.settings.overcommitment {
            self.schedule.resize(self.schedule.room() - 1);
        }
    }

    /// Treats a sender as silent: others get its grants until it responds.
    pub(super) fn silence(&mut self, step: &mut Step<'_>, number: u32) {
        self.sources[number as usize].silent = true;
        if let Some(entered) = self.rank(number) {
            self.grant(step, entered);
        }
    }
}
