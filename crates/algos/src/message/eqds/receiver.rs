//! The receiving half: arrived data, its acknowledgements, and the pulls of all messages.

use alloc::collections::VecDeque;

use tidegate_core::{Application, Message, MessageId, Span, Time};

use super::congestion::{Arrival, CreditRate};
use super::header::{Ack, Data, Header, Nack, Pull, Request};
use super::{Demand, FIRST_PULL, Settings, Step};
use crate::kit::by_host::ByHost;
use crate::kit::lanes::{IncomingLanes, Known};
use crate::kit::name::Name;
use crate::kit::segments::is_size;
use crate::kit::slab::{Key, Slab};
use crate::kit::window::{MAX_AHEAD, Window};

/// Largest number of messages that are received at a time. Others are ignored, and their senders
/// repeat the request.
const MAX_MESSAGES: usize = 1 << 16;
/// A pull that grants nothing takes the time of this many bytes.
const EMPTY_PULL: u64 = 1024;

/// A message that is being received.
#[derive(Default)]
struct Incoming {
    src: u32,
    name: Name,
    size: u64,
    packets: u64,
    arrived: Window,
    /// Sum of the credit granted, and the largest sum that the sender has requested.
    granted: u64,
    target: u64,
    /// It waits for a pull that was requested, or for one beyond the request.
    is_active: bool,
    is_idle: bool,
}

impl Incoming {
    fn is_complete(&self) -> bool {
        self.arrived.base() == self.packets
    }

    /// Whether it has what it requested, and less than a window beyond.
    fn may_advance(&self, max_window: u64) -> bool {
        self.granted.checked_sub(self.target).is_some_and(|beyond| beyond < max_window)
    }
}

/// Payload and outcome of an arriving data packet.
#[derive(Clone, Copy)]
pub(super) struct Passage {
    pub(super) payload_bytes: u32,
    pub(super) arrival: Arrival,
}

/// All receiving state of a host.
pub(super) struct Inbox {
    by_host: ByHost<IncomingLanes<()>>,
    messages: Slab<Incoming>,
    /// Messages whose senders have requested more credit than they have, and others, which get
    /// credit only if there is none of the former. Round-robin. Some messages no longer exist.
    active: VecDeque<Key>,
    idle: VecDeque<Key>,
    /// Earliest time of the next pull.
    next_pull: Time,
    credit_rate: Option<CreditRate>,
}

impl Inbox {
    pub(super) fn new(credit_rate: Option<CreditRate>) -> Inbox {
        Inbox {
            by_host: ByHost::default(),
            messages: Slab::default(),
            active: VecDeque::new(),
            idle: VecDeque::new(),
            next_pull: Time::ZERO,
            credit_rate,
        }
    }

    /// Time of the next pull.
    #[inline]
    pub(super) fn deadline(&self) -> Time {
        let waits = !self.active.is_empty() || !self.idle.is_empty();
        if waits { self.next_pull } else { Time::NEVER }
    }

    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        self.messages.len() == 0
    }

    /// Forgets the sender at `src`.
    pub(super) fn forget(&mut self, src: u32) {
        for slot in self.messages.slots(|message| message.src == src) {
            self.messages.remove(slot);
        }
        self.by_host.take(src);
        let Inbox { active, idle, messages, .. } = self;
        for list in [active, idle] {
            list.retain(|&key| messages.slot(key).is_some());
        }
    }

    #[inline]
    fn find(&self, src: u32, name: Name) -> Known<()> {
        let lanes = self.by_host.get(src).unwrap_or(const { &IncomingLanes::NONE });
        lanes.find(name.lane, name.generation)
    }

    /// Opens an unknown message. Returns `None` if there is no room for it or its announcement is
    /// invalid.
    fn open(&mut self, step: &Step<'_>, src: u32, name: Name, size: u64) -> Option<u32> {
        if !is_size(size) || src >= step.settings.hosts || self.messages.len() >= MAX_MESSAGES {
            return None;
        }
        let slot = self.messages.insert(|last| Incoming {
            src,
            name,
            size,
            packets: step.settings.segments.packets(size),
            arrived: last.arrived.cleared(),
            granted: FIRST_PULL,
            target: FIRST_PULL,
            ..Incoming::default()
        });
        self.by_host.entry(src).open(name.lane, name.generation, slot);
        Some(slot)
    }

    /// Sets the size of a message whose size was unknown.
    fn learn_size(&mut self, settings: &Settings, slot: u32, size: u64) {
        let message = &mut self.messages[slot];
        let ended = settings.segments.of_ended(size, message.arrived.high());
        let (Message::UNLIMITED, Some(packets)) = (message.size, ended) else { return };
        (message.size, message.packets) = (size, packets);
    }

    pub(super) fn on_request<A: Application>(
        &mut self,
        step: &Step<'_>,
        src: u32,
        request: &Request,
        app: &mut A,
    ) -> Option<Header> {
        let (name, size) = (request.name(), request.size);
        let slot = match self.find(src, name) {
            Known::New => self.open(step, src, name, size)?,
            Known::Slot(slot) => slot,
            Known::Done(()) => return Some(whole(step.settings, name, size)),
            Known::Never => return None,
        };
        self.learn_size(step.settings, slot, size);
        if self.completes(step.now, slot, app) {
            return Some(whole(step.settings, name, size));
        }
        self.raise(step, slot, request.target);
        self.activate(step.now, slot);
        None
    }

    #[inline]
    pub(super) fn on_data<A: Application>(
        &mut self,
        step: &Step<'_>,
        src: u32,
        data: &Data,
        passage: Passage,
        app: &mut A,
    ) -> Option<Header> {
        let Passage { payload_bytes, arrival } = passage;
        let Settings { segments, .. } = step.settings;
        let marked = arrival == Arrival::Whole { marked: true };
        let slot = match self.find(src, data.name()) {
            Known::New => self.open(step, src, data.name(), data.size)?,
            Known::Slot(slot) => slot,
            Known::Done(()) => {
                let whole = (segments.packets(data.size), true);
                let packet = data.offset / segments.mtu;
                return Some(acknowledge(data, whole, packet, marked));
            }
            Known::Never => return None,
        };
        if self.messages[slot].size != data.size {
            self.learn_size(step.settings, slot, data.size);
        }
        let message = &mut self.messages[slot];
        let packet = data.offset / segments.mtu;
        let bytes = match arrival {
            Arrival::Whole { .. } => payload_bytes,
            // The payload that it had.
            Arrival::Trimmed { .. } if packet < message.packets => {
                segments.payload(message.size, packet) as u32
            }
            Arrival::Trimmed { .. } => return None,
        };
        segments.packet_at(message.size, data.offset, bytes)?;
        if packet >= message.arrived.base() + MAX_AHEAD {
            return None;
        }
        if let Some(rate) = &mut self.credit_rate {
            rate.on_packet(step.now, arrival);
        }
        let is_new = match arrival {
            Arrival::Whole { .. } => message.arrived.insert(packet),
            Arrival::Trimmed { .. } => !message.arrived.contains(packet),
        };
        let answer = match arrival {
            Arrival::Whole { .. } => {
                if is_new {
                    let id = MessageId { src, id: message.name.message };
                    app.delivered(step.now, id, data.offset, bytes);
                }
                let message = &self.messages[slot];
                let so_far = (message.arrived.base(), message.is_complete());
                acknowledge(data, so_far, packet, marked)
            }
            Arrival::Trimmed { last_hop } if is_new => {
                let Data { connection, lane, generation, message, sent_at, .. } = *data;
                Header::Nack(Nack {
                    last_hop,
                    connection,
                    lane,
                    generation,
                    message,
                    packet,
                    sent_at,
                })
            }
            Arrival::Trimmed { .. } => {
                let so_far = (message.arrived.base(), message.is_complete());
                acknowledge(data, so_far, packet, false)
            }
        };
        if !self.completes(step.now, slot, app) {
            let (again, message) = (matches!(answer, Header::Nack(_)), &self.messages[slot]);
            let target = match step.settings.demand {
                // Its sender may have nothing left that could request credit for it.
                Demand::Announced if again => {
                    let wire = segments.wire(message.size, packet);
                    data.target.max(message.target).saturating_add(wire)
                }
                Demand::Announced => data.target,
                Demand::Arrivals if is_new => message.target + step.settings.full,
                Demand::Arrivals => message.target,
            };
            self.raise(step, slot, target);
        }
        Some(answer)
    }

    /// Completes a message if all of it has arrived.
    fn completes<A: Application>(&mut self, now: Time, slot: u32, app: &mut A) -> bool {
        let message = &self.messages[slot];
        let is_complete = message.is_complete();
        if is_complete {
            let (src, name) = (message.src, message.name);
            self.by_host.entry(src).close(name.lane, ());
            self.messages.remove(slot);
            app.completed(now, MessageId { src, id: name.message });
        }
        is_complete
    }

    /// A packet has arrived that requests credit up to `target`.
    #[inline]
    fn raise(&mut self, step: &Step<'_>, slot: u32, target: u64) {
        let Settings { max_window, full, .. } = *step.settings;
        let message = &mut self.messages[slot];
        // A sender requests at most a window, but a packet may be forged.
        let target = target.min(message.granted + max_window + full);
        if target > message.target {
            message.target = target;
            self.activate(step.now, slot);
        }
    }

    /// Adds a message to those that wait for a pull.
    fn activate(&mut self, now: Time, slot: u32) {
        let message = &mut self.messages[slot];
        if !message.is_active {
            message.is_active = true;
            self.begin_pulls(now);
            self.active.push_back(self.messages.key(slot));
        }
    }

    /// If no message waits for a pull, the next one may leave at once.
    fn begin_pulls(&mut self, now: Time) {
        if self.deadline() == Time::NEVER {
            self.next_pull = self.next_pull.max(now);
        }
    }

    /// Sends the next pull.
    pub(super) fn on_pull(&mut self, step: &mut Step<'_>) {
        let Settings { pull_bytes, max_window, ps_per_byte, slow_pulls, .. } = *step.settings;
        let bytes = if let Some((key, slot)) = pop(&mut self.active, &self.messages) {
            let message = &mut self.messages[slot];
            let granted = (message.granted + pull_bytes).min(message.target);
            let bytes = granted.saturating_sub(message.granted);
            message.granted += bytes;
            message.is_active = message.target > message.granted;
            if message.is_active {
                self.active.push_back(key);
            } else if slow_pulls && !message.is_idle && message.may_advance(max_window) {
                message.is_idle = true;
                self.idle.push_back(key);
            }
            step.send(message.src, pull(message));
            bytes
        } else if let Some((key, slot)) = pop(&mut self.idle, &self.messages) {
            // Credit beyond the request, up to a window.
            let message = &mut self.messages[slot];
            message.granted += pull_bytes;
            message.is_idle = message.may_advance(max_window);
            if message.is_idle {
                self.idle.push_back(key);
            }
            step.send(message.src, pull(message));
            pull_bytes
        } else {
            return;
        };
        let bytes = if bytes > 0 { bytes } else { EMPTY_PULL };
        let rate = self.credit_rate.as_mut().map_or(1.0, |rate| rate.rate(step.now));
        let gap = Span::from_ps_f64(bytes as f64 * ps_per_byte / rate);
        self.next_pull = step.now.after(gap);
    }
}

/// The next message in turn that still exists.
fn pop(waiting: &mut VecDeque<Key>, messages: &Slab<Incoming>) -> Option<(Key, u32)> {
    while let Some(key) = waiting.pop_front() {
        if let Some(slot) = messages.slot(key) {
            return Some((key, slot));
        }
    }
    None
}

fn pull(message: &Incoming) -> Header {
    let Name { connection, lane, generation, message: number } = message.name;
    Header::Pull(Pull { connection, lane, generation, message: number, pull: message.granted })
}

/// Acknowledges a packet. `so_far` is the first packet that has not arrived, and whether the
/// message is complete.
fn acknowledge(data: &Data, so_far: (u64, bool), packet: u64, marked: bool) -> Header {
    let (cumulative, complete) = so_far;
    let Data { connection, lane, generation, message, sent_at, .. } = *data;
    Header::Ack(Ack {
        marked,
        complete,
        connection,
        lane,
        generation,
        message,
        cumulative,
        packet,
        sent_at,
    })
}

/// Acknowledges all of a message.
fn whole(settings: &Settings, name: Name, size: u64) -> Header {
    let Name { connection, lane, generation, message } = name;
    let cumulative = settings.segments.packets(size);
    Header::Ack(Ack {
        complete: true,
        connection,
        lane,
        generation,
        message,
        cumulative,
        packet: cumulative.saturating_sub(1),
        ..Ack::default()
    })
}
