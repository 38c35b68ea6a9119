//! The sending half: packets that leave on credit, and those that leave again.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use tidegate_core::{Limits, Message, Path, Time, mix64};

use super::header::{Ack, Data, Header, Nack, Pull, Request};
use super::outgoing::Outgoing;
use super::window::Window;
use super::{Demand, FIRST_PULL, MAX_BACKOFF, Settings, Step};
use crate::kit::by_host::ByHost;
use crate::kit::lanes::Lanes;
use crate::kit::name::Name;
use crate::kit::slab::{Key, Slab};
use crate::kit::timers::Timers;
use crate::multipath::{Multipath, PathFeedback};

/// A receiver, as the sender sees it.
struct Destination {
    host: u32,
    lanes: Lanes,
}

impl Destination {
    fn new(host: u32) -> Destination {
        Destination { host, lanes: Lanes::default() }
    }
}

/// Entropy of a packet's path, and whether it was trimmed at the port to its receiver.
type Way = (u32, bool);

/// A data packet that is about to leave.
pub(super) struct Departing {
    pub(super) dst: u32,
    /// Entropy of its path, with multipath.
    pub(super) entropy: Option<u32>,
    pub(super) payload_bytes: u32,
    pub(super) header: Header,
}

/// All sending state of a host.
#[derive(Default)]
pub(super) struct Outbox {
    destinations: Vec<Destination>,
    by_host: ByHost<u32>,
    messages: Slab<Outgoing>,
    timers: Timers,
    /// Messages that wait for the uplink, round-robin. Some no longer exist.
    ready: VecDeque<Key>,
    backlog_bytes: u64,
}

impl Outbox {
    #[inline]
    pub(super) fn deadline(&self) -> Time {
        self.timers.next()
    }

    pub(super) fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        self.messages.len() == 0 && self.deadline() == Time::NEVER
    }

    pub(super) fn limits(&self, message: Key) -> Option<Limits> {
        let slot = self.messages.slot(message)?;
        let message = &self.messages[slot];
        let credit = message.credit.max(0) as f64;
        let window_bytes = message.window.as_ref().map_or(credit, |window| window.limit());
        Some(Limits { window_bytes, pace_bps: f64::INFINITY })
    }

    /// Submits a message. `path` is that to its receiver if messages have a window.
    pub(super) fn submit(
        &mut self,
        step: &mut Step<'_>,
        message: &Message,
        path: Option<&Path>,
    ) -> Key {
        let law = step.settings.law.as_ref();
        let fresh = law.zip(path).map(|(law, path)| Window::new(law, path, step.now));
        let destination =
            self.by_host.get(message.dst).copied().unwrap_or_else(|| self.connect(message.dst));
        let slot = self.messages.insert(|last| {
            let Outgoing { mut arrived, mut lost, mut window, .. } = last;
            arrived.begin(0);
            lost.begin(0);
            renew(&mut window, fresh);
            Outgoing {
                id: message.id,
                destination,
                size: message.bytes,
                packets: step.settings.segments.packets(message.bytes),
                arrived,
                lost,
                credit: step.settings.max_window as i64,
                pull: FIRST_PULL,
                speculates: true,
                window,
                ..Outgoing::default()
            }
        });
        if message.bytes != Message::UNLIMITED {
            self.backlog_bytes += message.bytes;
        }
        self.begin(step, slot);
        self.messages.key(slot)
    }

    fn connect(&mut self, host: u32) -> u32 {
        let number = self.destinations.len() as u32;
        self.destinations.push(Destination::new(host));
        *self.by_host.entry(host) = number;
        number
    }

    /// Forgets the receiver at `host`.
    pub(super) fn forget(&mut self, settings: &Settings, host: u32) {
        let Some(number) = self.by_host.get(host).copied() else { return };
        for slot in self.messages.slots(|message| message.destination == number) {
            self.backlog_bytes -= self.messages[slot].unsent(settings);
            self.timers.remove(slot);
            self.messages.remove(slot);
        }
        self.destinations[number as usize] = Destination::new(host);
    }

    /// Assigns a lane to a message, which may then be sent.
    fn begin(&mut self, step: &mut Step<'_>, slot: u32) {
        let message = &mut self.messages[slot];
        let destination = &mut self.destinations[message.destination as usize];
        let Some((lane, generation)) = destination.lanes.open(slot) else { return };
        (message.lane, message.generation) = (lane, generation);
        message.has_begun = true;
        let seed = (destination.host as u64) << 32 | (lane as u64) << 12 ^ generation as u64;
        let Settings { seed: own, multipath, .. } = *step.settings;
        message.multipath = Multipath::new(multipath, mix64(own ^ mix64(seed))).map(Box::new);
        if message.packets == 0 {
            return self.request(step, slot);
        }
        self.offer(step.settings, slot);
    }

    /// Lets a message wait for the uplink if it may send.
    #[inline]
    fn offer(&mut self, settings: &Settings, slot: u32) {
        let message = &mut self.messages[slot];
        if message.may_send(settings) && !message.is_ready {
            message.is_ready = true;
            self.ready.push_back(self.messages.key(slot));
        }
    }

    /// The next data packet, if one may leave.
    #[inline]
    pub(super) fn transmit(&mut self, settings: &Settings, now: Time) -> Option<Departing> {
        while let Some(key) = self.ready.pop_front() {
            let Some(slot) = self.messages.slot(key) else { continue };
            self.messages[slot].is_ready = false;
            if self.messages[slot].may_send(settings) {
                let departing = self.depart(settings, now, slot);
                self.offer(settings, slot);
                return Some(departing);
            }
        }
        None
    }

    fn depart(&mut self, settings: &Settings, now: Time, slot: u32) -> Departing {
        let segments = settings.segments;
        // The message itself is among those that compete for the uplink.
        let ready = self.ready.len() + 1;
        let message = &mut self.messages[slot];
        let again = message.first_lost();
        let packet = again.unwrap_or(message.next);
        match again {
            Some(packet) => message.recover(settings, packet),
            None => message.next += 1,
        }
        let payload = segments.payload(message.size, packet);
        if again.is_none() && message.size != Message::UNLIMITED {
            self.backlog_bytes -= payload;
        }
        message.leave(settings, packet, now);
        let destination = &self.destinations[message.destination as usize];
        let entropy = message.multipath.as_mut().map(|multipath| multipath.next(now));
        let Name { connection, lane, generation, message: number } = message.name(slot);
        let header = Header::Data(Data {
            speculative: message.speculates && again.is_none(),
            retransmission: again.is_some(),
            connection,
            lane,
            generation,
            message: number,
            size: message.size,
            offset: packet * segments.mtu,
            target: message.target(settings, ready),
            sent_at: now,
        });
        if !self.timers.run(slot) {
            self.timers.set(slot, now.after(settings.timeout));
        }
        Departing { dst: destination.host, entropy, payload_bytes: payload as u32, header }
    }

    /// Requests credit without data.
    fn request(&mut self, step: &mut Step<'_>, slot: u32) {
        let ready = self.ready.len();
        let message = &mut self.messages[slot];
        let Name { connection, lane, generation, message: number } = message.name(slot);
        message.requested_at = step.now;
        let target = match step.settings.demand {
            Demand::Announced => message.target(step.settings, ready),
            Demand::Arrivals => message.pull.saturating_add(step.settings.full),
        };
        let size = message.size;
        let request = Request { connection, lane, generation, message: number, size, target };
        let wait = message.backoff.wait(step.settings.timeout);
        step.send(self.destinations[message.destination as usize].host, Header::Request(request));
        self.timers.set(slot, step.now.after(wait));
    }

    /// Ends a message of unknown size behind its sent packets.
    pub(super) fn stop(&mut self, step: &mut Step<'_>, message: Key) {
        let Some(slot) = self.messages.slot(message) else { return };
        let message = &mut self.messages[slot];
        if message.size != Message::UNLIMITED {
            return;
        }
        message.packets = message.next;
        message.size = message.next * step.settings.segments.mtu;
        if message.has_begun {
            // The packets in flight do not announce the end.
            self.request(step, slot);
        }
    }

    /// Finds the message that a packet from `host` refers to, if it still exists.
    fn find(&self, host: u32, name: Name) -> Option<u32> {
        let slot = self.find_own(name)?;
        let destination = self.messages[slot].destination;
        (self.destinations[destination as usize].host == host).then_some(slot)
    }

    /// Finds the message that one of its own packets belongs to, if it still exists.
    fn find_own(&self, name: Name) -> Option<u32> {
        let Name { connection, lane, generation, .. } = name;
        let message = self.messages.get(connection)?;
        let same = message.has_begun && (message.lane, message.generation) == (lane, generation);
        same.then_some(connection)
    }

    /// Handles an acknowledgement. Returns the application's number of the message if all of it has
    /// arrived.
    #[inline]
    pub(super) fn on_ack(
        &mut self,
        step: &mut Step<'_>,
        host: u32,
        ack: &Ack,
        entropy: u32,
    ) -> Option<u32> {
        let slot = self.find(host, ack.name())?;
        let settings = step.settings;
        let message = &mut self.messages[slot];
        // A message that was stopped before it began has no packets, but ends.
        let is_unsent = ack.packet >= message.next && message.packets > 0;
        if ack.cumulative > message.next || is_unsent {
            return None;
        }
        if let Some(multipath) = &mut message.multipath {
            let feedback = if ack.marked { PathFeedback::Marked } else { PathFeedback::Good };
            multipath.feedback(step.now, entropy, feedback);
            message.recent.add(true);
        }
        message.end_speculation(settings.demand);
        message.backoff.end();
        let progress = message.progress(settings, ack);
        if ack.packet >= message.first() && message.arrived.set(ack.packet) {
            if message.lost.get(ack.packet) {
                message.recover(settings, ack.packet);
            }
            message.arrived.slide();
        }
        let first = message.first().max(ack.cumulative);
        while message.lost_bytes > 0
            && let Some(packet) = message.lost.first_from(message.lost.base())
            && packet < first
        {
            message.recover(settings, packet);
        }
        message.arrived.advance(first);
        message.arrived.slide();
        let first = message.first();
        message.lost.advance(first);
        message.departures.advance(first);
        // The receiver may not know yet that a stopped message ends here.
        if !ack.complete || first < message.packets {
            let next = message.next;
            if let Some((window, law)) = message.window_and_law(settings) {
                window.on_ack(law, step.now, ack, progress, next);
            }
            self.offer(settings, slot);
            return None;
        }
        let (id, lane) = (message.id, message.lane);
        let destination = &mut self.destinations[message.destination as usize];
        let waiting = destination.lanes.close(lane);
        self.timers.remove(slot);
        self.messages.remove(slot);
        if let Some(waiting) = waiting {
            self.begin(step, waiting);
        }
        Some(id)
    }

    /// A packet was trimmed.
    pub(super) fn on_nack(&mut self, step: &Step<'_>, host: u32, nack: &Nack, entropy: u32) {
        let Some(slot) = self.find(host, nack.name()) else { return };
        let message = &mut self.messages[slot];
        let Some(bytes) = message.lose_sent(step.settings, nack.packet, nack.sent_at) else {
            return;
        };
        if let Some((window, law)) = message.window_and_law(step.settings) {
            window.on_trim(law, step.now, (Some(nack.sent_at), nack.last_hop), bytes);
        }
        if let Some(multipath) = &mut message.multipath {
            // The path is not to blame for the receiver's link.
            let feedback = if nack.last_hop { PathFeedback::Good } else { PathFeedback::Trimmed };
            multipath.feedback(step.now, entropy, feedback);
            message.recent.add(false);
        }
        message.nacks += 1;
        message.end_speculation(step.settings.demand);
        message.backoff.end();
        self.offer(step.settings, slot);
    }

    /// A switch returned a packet that it had trimmed, so its receiver does not know of it.
    #[cold]
    pub(super) fn on_return(&mut self, step: &Step<'_>, data: &Data, (entropy, last_hop): Way) {
        let Some(slot) = self.find_own(data.name()) else { return };
        let settings = step.settings;
        let message = &mut self.messages[slot];
        // Lanes of different receivers have the same numbers.
        if message.id != data.message {
            return;
        }
        let packet = data.offset / settings.segments.mtu;
        let Some(bytes) = message.lose_sent(settings, packet, data.sent_at) else { return };
        if let Some((window, law)) = message.window_and_law(settings) {
            window.on_trim(law, step.now, (None, last_hop), bytes);
        }
        let mut is_bad_path = false;
        if let Some(multipath) = &mut message.multipath {
            let feedback = if last_hop { PathFeedback::Good } else { PathFeedback::Returned };
            multipath.feedback(step.now, entropy, feedback);
            message.recent.add(false);
            is_bad_path = message.recent.is_good();
        }
        message.end_speculation(settings.demand);
        message.backoff.end();
        if settings.demand == Demand::Arrivals {
            // Senders that resent at once would repeat the incast that filled the queue. Waiting
            // for a pull makes the window smaller by this packet. The rest of the first window of
            // a short message is for new packets only.
            if message.next == message.packets {
                message.credit = message.credit.min(0);
            }
            let is_alone = !message.expects_pulls(settings);
            if is_bad_path || is_alone {
                message.restore_credit(settings, packet);
            }
            if is_alone {
                message.credit = message.credit.max(1);
            }
        }
        self.offer(step.settings, slot);
    }

    /// Credit has arrived.
    #[inline]
    pub(super) fn on_pull(&mut self, step: &Step<'_>, host: u32, pull: &Pull) {
        let Settings { max_window, demand, .. } = *step.settings;
        let Some(slot) = self.find(host, pull.name()) else { return };
        let message = &mut self.messages[slot];
        let more = pull.pull.wrapping_sub(message.pull);
        // An earlier sum was overtaken. Any later one is valid, because each trimmed packet adds
        // its size to the sum.
        if more > u64::MAX / 2 {
            return;
        }
        message.end_speculation(demand);
        message.backoff.end();
        message.pull = pull.pull;
        let more = more.min(2 * max_window) as i64;
        message.credit = (message.credit + more).min(max_window as i64);
        self.offer(step.settings, slot);
    }

    /// Handles the earliest timer.
    pub(super) fn on_timer(&mut self, step: &mut Step<'_>) {
        let Some((at, slot)) = self.timers.first() else { return };
        // Actions that were missed in a long pause of the driver are done once.
        let step = &mut step.at(if step.settings.is_past(at, step.now) { step.now } else { at });
        let (settings, now) = (step.settings, step.now);
        let message = &mut self.messages[slot];
        debug_assert!(message.is_consistent(settings));
        let mut expired = false;
        let oldest = loop {
            let Outgoing { departures, arrived, lost, .. } = &mut *message;
            let resolved = |packet| arrived.get(packet) || lost.get(packet);
            match departures.first(resolved) {
                Some((packet, left)) if left.after(settings.timeout) <= now => {
                    message.expire(settings, packet);
                    expired = true;
                }
                oldest => break oldest,
            }
        };
        if expired && let Some(multipath) = &mut message.multipath {
            multipath.time_out(now);
        }
        if expired || oldest.is_none() && !message.may_send(settings) {
            message.end_speculation(settings.demand);
        }
        // Without credit, only the receiver can continue, and it may not know that it must.
        let is_stuck = !message.may_send(settings) && (expired || oldest.is_none());
        let oldest = oldest.map(|(_, left)| left.after(settings.timeout));
        if is_stuck && message.requested_at.after(settings.base_rtt) <= now {
            message.backoff.double(MAX_BACKOFF);
            self.request(step, slot);
        } else {
            self.timers.set(slot, now.after(settings.timeout));
        }
        if let Some(at) = oldest {
            self.timers.set(slot, at);
        }
        self.offer(settings, slot);
    }
}

/// Replaces a window and keeps its allocation.
fn renew(window: &mut Option<Box<Window>>, fresh: Option<Window>) {
    match (window, fresh) {
        (Some(window), Some(fresh)) => **window = fresh,
        (window, fresh) => *window = fresh.map(Box::new),
    }
}
