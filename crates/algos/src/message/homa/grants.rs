//! When grants leave, to whom, and at which level (sections 3.3 to 3.5).
//!
//! A packet from a sender is the time to look at its grants, and so is the time that the packet
//! granted last takes on the link. Nothing else is: a sender whose place has become better does not
//! hear of it before.

use tidegate_core::{Message, Time};

use super::Step;
use super::header::{Grant, Header};
use super::receiver::Inbox;
use super::schedule::MOST_ACTIVE;

impl Inbox {
    /// Something about a sender has changed: grants to it, and to who has come in for it.
    #[inline]
    pub(super) fn serve(&mut self, step: &mut Step<'_>, number: u32) {
        let entered = self.rank(number).filter(|&entered| entered != number);
        self.grant(step, number);
        if let Some(entered) = entered {
            self.grant(step, entered);
        }
    }

    /// Puts a sender where its best message belongs. Who gets grants now and did not before.
    #[inline]
    fn rank(&mut self, number: u32) -> Option<u32> {
        let source = &self.sources[number as usize];
        match source.messages.first() {
            Some((key, _)) if !source.silent => self.schedule.set(number, key),
            _ => self.schedule.remove(number),
        }
    }

    /// Grants a packet to a sender, if it may have one, and to whoever comes in because of that.
    pub(super) fn grant(&mut self, step: &mut Step<'_>, number: u32) {
        let mut next = Some(number);
        while let Some(number) = next {
            next = self.grant_one(step, number);
        }
    }

    /// Grants the next packet of a sender's best message. Who gets grants now and did not before.
    #[inline]
    fn grant_one(&mut self, step: &mut Step<'_>, number: u32) -> Option<u32> {
        let settings = step.settings;
        let place = self.schedule.place(number)?;
        let source = &mut self.sources[number as usize];
        let (_, slot) = source.messages.first()?;
        let message = &mut self.messages[slot];
        let level = settings.levels.scheduled(place, self.schedule.active());
        let level = settings.boosted(message.size, message.granted).map_or(level, |b| b.min(level));
        // A better level does not wait.
        if (self.grants.run(number) && source.level <= level) || !message.has_room(settings) {
            return None;
        }
        source.level = level;
        message.granted += 1;
        if message.size == Message::UNLIMITED {
            // One packet more than may be under way, so that no turn is granted all at once: its
            // first packet arrives before the next message has its turn.
            if message.in_turn * settings.packets.full() >= settings.rtt_bytes {
                self.order += 1;
                (message.order, message.in_turn) = (self.order, 0);
            } else {
                message.in_turn += 1;
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

    /// The first time to grant has come.
    pub(super) fn on_grant_timer(&mut self, step: &mut Step<'_>) {
        if let Some((_, number)) = self.grants.first() {
            self.grants.remove(number);
            self.grant(step, number);
        }
    }

    /// A packet has arrived: the link is idle from now on at the earliest.
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

    /// The link was idle: grants to one more, if anybody waits. What that brings takes a round
    /// trip.
    pub(super) fn on_bubble(&mut self, step: &mut Step<'_>) {
        self.bubble_at = Time::NEVER;
        if self.schedule.is_anyone_waiting() && self.schedule.room() < MOST_ACTIVE {
            self.bubble_at = step.now.after(step.settings.round_trip);
            if let Some(entered) = self.schedule.resize(self.schedule.room() + 1) {
                self.grant(step, entered);
            }
        }
    }

    /// A message that had grants is complete: one sender less, if the link was idle before.
    pub(super) fn narrow(&mut self, step: &Step<'_>) {
        if self.schedule.room() > step.settings.overcommitment {
            self.schedule.resize(self.schedule.room() - 1);
        }
    }

    /// A sender does not answer: others get its grants until it does.
    pub(super) fn silence(&mut self, step: &mut Step<'_>, number: u32) {
        self.sources[number as usize].silent = true;
        if let Some(entered) = self.rank(number) {
            self.grant(step, entered);
        }
    }
}
