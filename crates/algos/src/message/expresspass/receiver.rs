//! The receiving half: arrived data, in order, and the credits for more.

use tidegate_core::{Application, Message, MessageId, Rng, Span, Time};

use super::feedback::Feedback;
use super::header::{Announced, Credit, Data, Done, Header, Nack, Request, Stop};
use super::nic::{Leaving, Nic};
use super::{MAX_BACKOFF, PATIENCE, Settings, Step};
use crate::kit::backoff::Backoff;
use crate::kit::by_host::ByHost;
use crate::kit::lanes::{IncomingLanes, Known};
use crate::kit::name::Name;
use crate::kit::segments::is_size;
use crate::kit::slab::{Key, Slab};
use crate::kit::timers::Timers;

/// Largest number of messages that are received at a time. Others are ignored, and their senders
/// repeat the request.
const MAX_MESSAGES: usize = 1 << 16;
/// Number of consecutive credits without data after which a sender that has been silent for long
/// gets no more. If thousands of messages share a link, nearly all credits of a message are lost on
/// their way.
const UNANSWERED: u32 = 256;

/// A message that is being received, or that has arrived and whose sender may still need credits.
#[derive(Default)]
pub(super) struct Incoming {
    complete: bool,
    src: u32,
    name: Name,
    size: u64,
    packets: u64,
    /// The expected packet.
    next: u64,
    /// Whether this packet is missing and was requested.
    waits: bool,
    /// Numbers of the next credit, and of the first that has not returned.
    next_credit: u32,
    expected_credit: u32,
    feedback: Feedback,
    last_packet_at: Time,
    backoff: Backoff,
}

impl Incoming {
    fn nack(&self, settings: &Settings) -> Header {
        let Name { connection, lane, generation, message } = self.name;
        let offset = self.next * settings.segments.mtu;
        Header::Nack(Nack { connection, lane, generation, message, offset })
    }

    /// Whether nothing has arrived for a long time in spite of enough credits.
    fn is_silent(&self, timeout: Span, now: Time) -> bool {
        let unanswered = self.next_credit.wrapping_sub(self.expected_credit);
        self.last_packet_at.after(timeout.times(PATIENCE)) <= now && unanswered >= UNANSWERED
    }

    /// Accounts for credit `credit`, created at `sent_at`, that returned with data: unreturned
    /// credits before it were lost on the way there or back. Numbers that were never issued, or
    /// that were skipped, are ignored.
    #[inline]
    fn account(&mut self, now: Time, credit: u32, sent_at: Time) {
        let lost = credit.wrapping_sub(self.expected_credit);
        let in_flight = self.next_credit.wrapping_sub(self.expected_credit);
        if lost < in_flight {
            self.expected_credit = credit.wrapping_add(1);
            self.feedback.on_return(lost, now.since(sent_at));
        }
    }
}

/// All receiving state of a host.
pub(super) struct Inbox {
    /// By sender. For an arrived message, the key of its record is kept, if there is one.
    by_host: ByHost<IncomingLanes<Key>>,
    messages: Slab<Incoming>,
    /// By message: time of its next credit.
    paces: Timers,
    timers: Timers,
    pub(super) nic: Nic,
    /// Random intervals and sizes of credits.
    rng: Rng,
}

impl Inbox {
    pub(super) fn new(nic: Nic, rng: Rng) -> Inbox {
        Inbox {
            by_host: ByHost::default(),
            messages: Slab::default(),
            paces: Timers::default(),
            timers: Timers::default(),
            nic,
            rng,
        }
    }

    /// Forgets the sender at `src` and drops its credits.
    pub(super) fn forget(&mut self, src: u32) {
        for slot in self.messages.slots(|message| message.src == src) {
            self.remove(slot);
        }
        self.by_host.take(src);
        self.nic.drop_to(src);
    }

    /// Creation time of the next credit.
    #[inline]
    pub(super) fn credit_at(&self) -> Time {
        self.paces.next()
    }

    #[inline]
    pub(super) fn timer(&self) -> Time {
        self.timers.next()
    }

    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        let none = self.messages.len() == 0 && self.nic.is_empty();
        none && self.credit_at() == Time::NEVER && self.timer() == Time::NEVER
    }

    #[cfg(test)]
    pub(super) fn feedback(&mut self, src: u32) -> Option<&mut Feedback> {
        self.messages.all_mut().iter_mut().find(|m| m.src == src).map(|m| &mut m.feedback)
    }

    #[inline]
    fn find(&self, src: u32, name: Name) -> Known<Key> {
        let lanes = self.by_host.get(src).unwrap_or(const { &IncomingLanes::NONE });
        lanes.find(name.lane, name.generation)
    }

    /// Opens an unknown message. Returns `None` if there is no room for it or its announcement is
    /// invalid.
    fn open(&mut self, step: &Step<'_>, src: u32, announced: &Announced) -> Option<u32> {
        let Announced { name, size } = *announced;
        if !is_size(size) || src >= step.settings.hosts || self.messages.len() >= MAX_MESSAGES {
            return None;
        }
        let slot = self.messages.insert(|_| Incoming {
            src,
            name,
            size,
            packets: step.settings.segments.packets(size),
            last_packet_at: step.now,
            ..Incoming::default()
        });
        // The sender has ended the lane's last message, and its packets are ignored from now on, so
        // its credits end here.
        if let Some(kept) = self.by_host.entry(src).open(name.lane, name.generation, slot)
            && let Some(over) = self.messages.slot(kept)
        {
            self.remove(over);
        }
        Some(slot)
    }

    /// Sets the size of a message whose size was unknown.
    fn learn_size(&mut self, settings: &Settings, slot: u32, size: u64) {
        let message = &mut self.messages[slot];
        let ended = settings.segments.of_ended(size, message.next);
        let (Message::UNLIMITED, Some(packets)) = (message.size, ended) else { return };
        (message.size, message.packets) = (size, packets);
    }

    pub(super) fn on_request<A: Application>(
        &mut self,
        step: &mut Step<'_>,
        src: u32,
        request: &Request,
        app: &mut A,
    ) -> Option<Header> {
        let announced = Announced { name: request.name(), size: request.size };
        let slot = match self.find(src, announced.name) {
            Known::New => self.open(step, src, &announced)?,
            Known::Slot(slot) => slot,
            Known::Done(_) => return Some(done(announced.name)),
            Known::Never => return None,
        };
        self.learn_size(step.settings, slot, request.size);
        let message = &mut self.messages[slot];
        message.last_packet_at = step.now;
        if message.next == message.packets {
            return self.complete(step, slot, app);
        }
        if !self.paces.run(slot) {
            message.feedback.start(step.settings, request.packets, step.now);
            if !self.timers.run(slot) {
                let silent_at = step.now.after(step.settings.timeout.times(PATIENCE));
                self.timers.set(slot, silent_at);
            }
            self.issue_credit(step.settings, step.now, slot);
        }
        None
    }

    pub(super) fn on_stop<A: Application>(
        &mut self,
        step: &mut Step<'_>,
        src: u32,
        stop: &Stop,
        app: &mut A,
    ) -> Option<Header> {
        let announced = Announced { name: stop.name(), size: stop.size };
        let slot = match self.find(src, announced.name) {
            // Nothing has been sent, so nothing is missing.
            Known::New if stop.sent == 0 && stop.size > 0 => return None,
            Known::New => self.open(step, src, &announced)?,
            Known::Slot(slot) => slot,
            Known::Done(kept) => {
                if let Some(slot) = self.messages.slot(kept) {
                    self.remove(slot);
                }
                return Some(done(announced.name));
            }
            Known::Never => return None,
        };
        self.learn_size(step.settings, slot, stop.size);
        self.paces.remove(slot);
        let message = &mut self.messages[slot];
        message.last_packet_at = step.now;
        if message.next == message.packets {
            return self.complete(step, slot, app);
        }
        let is_missing = stop.sent > message.next * step.settings.segments.mtu;
        match is_missing && !message.waits {
            true => self.miss(step, slot),
            false => None,
        }
    }

    #[inline]
    pub(super) fn on_data<A: Application>(
        &mut self,
        step: &mut Step<'_>,
        src: u32,
        data: &Data,
        payload_bytes: u32,
        app: &mut A,
    ) -> Option<Header> {
        let slot = match self.find(src, data.name()) {
            Known::Slot(slot) => slot,
            Known::Done(kept) => return self.on_duplicate(step, kept, data),
            Known::New | Known::Never => return None,
        };
        if self.messages[slot].size != data.size {
            self.learn_size(step.settings, slot, data.size);
        }
        let message = &mut self.messages[slot];
        message.last_packet_at = step.now;
        message.account(step.now, data.credit, data.sent_at);
        let packet = step.settings.segments.packet_at(message.size, data.offset, payload_bytes)?;
        if packet < message.next {
            return None;
        }
        if packet > message.next {
            return if message.waits { None } else { self.miss(step, slot) };
        }
        message.next += 1;
        if core::mem::take(&mut message.waits) {
            message.backoff.end();
        }
        let id = MessageId { src, id: message.name.message };
        app.delivered(step.now, id, data.offset, payload_bytes);
        match self.messages[slot].next == self.messages[slot].packets {
            true => self.complete(step, slot, app),
            false => None,
        }
    }

    /// Handles data of an arrived message: the credit that it uses still counts.
    #[cold]
    fn on_duplicate(&mut self, step: &Step<'_>, kept: Key, data: &Data) -> Option<Header> {
        if let Some(slot) = self.messages.slot(kept) {
            self.messages[slot].account(step.now, data.credit, data.sent_at);
        }
        Some(done(data.name()))
    }

    /// The expected packet is missing: requests all packets from there on.
    fn miss(&mut self, step: &Step<'_>, slot: u32) -> Option<Header> {
        let message = &mut self.messages[slot];
        message.waits = true;
        self.timers.set(slot, step.now.after(message.backoff.wait(step.settings.timeout)));
        Some(message.nack(step.settings))
    }

    /// Completes a message. Credits continue until the sender stops them: as in the paper, only the
    /// sender knows whether it has more to send.
    #[cold]
    fn complete<A: Application>(
        &mut self,
        step: &Step<'_>,
        slot: u32,
        app: &mut A,
    ) -> Option<Header> {
        let kept = self.messages.key(slot);
        let message = &mut self.messages[slot];
        message.complete = true;
        let (src, name) = (message.src, message.name);
        self.by_host.entry(src).close(name.lane, kept);
        if self.paces.run(slot) {
            self.timers.set(slot, step.now.after(step.settings.timeout.times(PATIENCE)));
        } else {
            self.remove(slot);
        }
        app.completed(step.now, MessageId { src, id: name.message });
        Some(done(name))
    }

    fn remove(&mut self, slot: u32) {
        self.paces.remove(slot);
        self.timers.remove(slot);
        self.messages.remove(slot);
    }

    /// Creates the next credit of the earliest message.
    #[inline]
    pub(super) fn on_pace(&mut self, step: &Step<'_>) {
        if let Some((at, slot)) = self.paces.first() {
            // Credits that were missed in a long pause of the driver are not made up for.
            let now = if step.settings.is_past(at, step.now) { step.now } else { at };
            self.issue_credit(step.settings, now, slot);
        }
    }

    /// Creates a credit for a message, and sets the time of the next one.
    fn issue_credit(&mut self, settings: &Settings, now: Time, slot: u32) {
        let message = &mut self.messages[slot];
        message.feedback.update(settings, now);
        let Name { connection, lane, generation, message: id } = message.name;
        let number = message.next_credit;
        message.next_credit = number.wrapping_add(1);
        let credit =
            Credit { connection, lane, generation, message: id, credit: number, sent_at: now };
        let least = settings.smallest_credit;
        let more = settings.largest_credit - least;
        let more = if more > 0 { self.rng.below(more as u64 + 1) as u32 } else { 0 };
        self.nic.offer(Leaving { dst: message.src, credit, wire_bytes: least + more });
        let jitter = settings.jitter * (2.0 * self.rng.unit() - 1.0);
        let gap = message.feedback.gap(settings).scale(1.0 + jitter);
        self.paces.set(slot, now.after(gap));
    }

    /// Handles the earliest timer: a packet is still missing, or a sender has become silent.
    pub(super) fn on_timer(&mut self, step: &mut Step<'_>) {
        let Some((at, slot)) = self.timers.first() else { return };
        let step = &mut step.at(if step.settings.is_past(at, step.now) { step.now } else { at });
        let timeout = step.settings.timeout;
        let message = &mut self.messages[slot];
        let silent = message.is_silent(timeout, step.now);
        if message.complete {
            self.remove(slot);
        } else if message.waits {
            message.backoff.double(MAX_BACKOFF);
            if step.has_room() {
                step.send(message.src, message.nack(step.settings));
            }
            let wait = message.backoff.wait(timeout);
            self.timers.set(slot, step.now.after(wait));
            if silent {
                self.paces.remove(slot);
            }
        } else if !self.paces.run(slot) {
            self.timers.remove(slot);
        } else if !silent {
            let patience = timeout.times(PATIENCE);
            let silent_at = message.last_packet_at.after(patience);
            let next = if silent_at > step.now { silent_at } else { step.now.after(patience) };
            self.timers.set(slot, next);
        } else {
            // The sender requests credits again when it is back.
            self.paces.remove(slot);
            self.timers.remove(slot);
        }
    }
}

/// Acknowledges a message.
fn done(name: Name) -> Header {
    let Name { connection, lane, generation, message } = name;
    Header::Done(Done { connection, lane, generation, message })
}
