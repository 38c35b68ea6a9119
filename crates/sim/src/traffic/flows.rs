//! Ends of flows. The sending and the receiving end of a message are kept apart, because they may
//! be in different partitions. [`Rows`](super::rows::Rows) join them.

use std::collections::BTreeSet;

use tidegate_core::workload::Flow;
use tidegate_core::{Handle, Message, MessageId, Span, Time};

use crate::bytes::bytes;
use crate::ids::FIRST_DEPENDENT;
use crate::measures::outcome::Window;
use crate::traffic::numbers::Numbers;
use crate::traffic::submission::{AnsweredRequest, Submission};

/// The sending end of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending {
    pub(crate) flow: Flow,
    pub(crate) id: u64,
    pub(crate) handle: Handle,
    /// Time of submission.
    pub(super) start: Time,
    pub(super) acked: Option<Time>,
    pub(super) retransmitted_bytes: u64,
    pub(super) ideal: Span,
    pub(super) listed: bool,
}

/// The receiving end of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receiving {
    pub(crate) id: u64,
    /// Its message.
    pub(crate) message: MessageId,
    /// Serialisation time of a full packet on the slowest link of the path.
    pub(super) packet_time: Span,
    /// Payload delivered.
    pub(crate) delivered_bytes: u64,
    /// Payload delivered in the measured window.
    pub(super) window_bytes: u64,
    /// Last delivery in the measured window; `NEVER` if none.
    pub(super) last_delivery: Time,
    pub(super) completed: Option<Time>,
    bytes: u64,
}

/// Flow ends that are done.
#[derive(Default)]
pub(crate) struct Done {
    pub(super) sent: Vec<Sending>,
    pub(super) received: Vec<Receiving>,
    /// Replies that have started.
    pub(crate) answered: Vec<AnsweredRequest>,
}

bytes! {
    Flow { src, dst, bytes, start, stop, stack, label, dedicated }
    Submission { flow, id, number, listed }
    MessageId { src, id }
    Sending { flow, id, handle, start, acked, retransmitted_bytes, ideal, listed }
    Receiving {
        id, message, packet_time, delivered_bytes, window_bytes, last_delivery, completed, bytes,
    }
    Done { sent, received, answered }
}

/// Flow ends in one partition.
pub(crate) struct Flows {
    sending: Ends<Sending>,
    receiving: Ends<Receiving>,
    /// Ends that are done and not yet taken.
    pub(crate) done: Done,
    /// IDs of dependent messages that have arrived, whose successors have not been started.
    pub(crate) awaited: Vec<u64>,
    /// Number of finite messages that the sender does not know to be complete.
    open: u64,
    /// Listed messages whose senders know that they are complete.
    listed_done: u64,
    /// Measured window of goodput.
    window: Window,
    /// Payload of a full packet.
    mtu: u32,
}

impl Flows {
    /// For a run on `hosts` hosts, measured within `window`.
    pub(crate) fn new(hosts: usize, window: Window, mtu: u32) -> Flows {
        Flows {
            sending: Ends::new(hosts),
            receiving: Ends::new(hosts),
            done: Done::default(),
            awaited: Vec::new(),
            open: 0,
            listed_done: 0,
            window,
            mtu,
        }
    }

    /// Adds the sending end of a flow, and returns its slot.
    pub(crate) fn send(&mut self, submission: &Submission, now: Time, ideal: Span) -> u32 {
        let Submission { flow, id, number, listed } = *submission;
        self.open += (flow.bytes != Message::UNLIMITED) as u64;
        let sending = Sending {
            flow,
            id,
            handle: Handle(0),
            start: now,
            acked: None,
            retransmitted_bytes: 0,
            ideal,
            listed,
        };
        self.sending.add(MessageId { src: flow.src, id: number }, sending)
    }

    /// Adds the receiving end of a flow. `packet_time` is the serialisation time of a full packet
    /// on the slowest link.
    pub(crate) fn receive(&mut self, submission: &Submission, packet_time: Span) {
        let Submission { flow, id, number, .. } = *submission;
        let message = MessageId { src: flow.src, id: number };
        let receiving = Receiving::new(id, message, packet_time, flow.bytes);
        self.receiving.add(message, receiving);
    }

    /// The sending end in a slot.
    pub(crate) fn get(&mut self, slot: u32) -> &mut Sending {
        &mut self.sending.slots[slot as usize]
    }

    /// The sending end of a message that its sender does not know to be complete.
    pub(crate) fn sender(&self, message: MessageId) -> Option<&Sending> {
        self.sending.slot(message).map(|slot| &self.sending.slots[slot as usize])
    }

    /// Number of finite messages that the sender does not know to be complete.
    pub(crate) fn open(&self) -> u64 {
        self.open
    }

    /// Number of listed messages that are complete here.
    pub(crate) fn listed_done(&self) -> u64 {
        self.listed_done
    }

    /// Ends the measured window at `end`.
    pub(crate) fn close_window(&mut self, end: Time) {
        self.window.until = end;
    }

    /// Number of sending ends that have not been taken.
    pub(crate) fn live(&self) -> usize {
        self.sending.live() + self.done.sent.len()
    }

    /// Receiving ends of flows that have not completed.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Receiving> {
        self.receiving.iter()
    }

    /// Slots of the unlimited flows that have not stopped by `now`, by ID.
    pub(crate) fn unlimited(&self, now: Time) -> Vec<u32> {
        let ends = self.sending.occupied();
        let unlimited = ends.filter(|(_, sending)| {
            sending.flow.bytes == Message::UNLIMITED && sending.flow.stop > now
        });
        let mut slots: Vec<(u64, u32)> =
            unlimited.map(|(slot, sending)| (sending.id, slot)).collect();
        slots.sort_unstable();
        slots.into_iter().map(|(_, slot)| slot).collect()
    }

    /// The ID of a message that is being sent.
    pub(crate) fn id(&self, message: MessageId) -> Option<u64> {
        self.sender(message).map(|sending| sending.id)
    }

    /// Records the delivery of `bytes` of a message, whose last bit arrived at `landed`. Returns
    /// the message's ID.
    ///
    /// If the packet was in flight when the measured window opened, only the bytes count that its
    /// slowest link has carried since then.
    #[inline]
    pub(crate) fn delivered(
        &mut self,
        now: Time,
        landed: Time,
        message: MessageId,
        bytes: u32,
    ) -> Option<u64> {
        let (Window { from: warmup, until: end }, mtu) = (self.window, self.mtu);
        let end_of = self.receiving.find(message)?;
        end_of.delivered_bytes += bytes as u64;
        debug_assert!(end_of.delivered_bytes <= end_of.bytes, "delivered twice: {end_of:?}");
        if now <= end {
            end_of.last_delivery = now;
            let since = landed.since(warmup);
            end_of.window_bytes += if since >= end_of.packet_time {
                bytes as u64
            } else {
                end_of.carried_bytes(bytes, since, mtu)
            };
        }
        Some(end_of.id)
    }

    /// Records the arrival of a whole message that a link has carried since `began`, without
    /// packets. Of its bytes, those count that the link has carried in the measured window.
    pub(crate) fn carried(&mut self, now: Time, began: Time, message: MessageId) {
        let Window { from: warmup, until: end } = self.window;
        let Some(end_of) = self.receiving.find(message) else { return };
        end_of.delivered_bytes = end_of.bytes;
        let last = now.min(end);
        let (whole, inside) = (now.since(began).as_ps(), last.since(began.max(warmup)).as_ps());
        if inside > 0 || now <= end {
            end_of.last_delivery = last;
            let share = u128::from(end_of.bytes) * u128::from(inside) / u128::from(whole.max(1));
            end_of.window_bytes = if inside == whole { end_of.bytes } else { share as u64 };
        }
        self.completed(now, message);
        self.acked(now, message);
    }

    /// Records that the last byte of a message has been delivered to the receiving application.
    pub(crate) fn completed(&mut self, now: Time, message: MessageId) {
        let finite = |end: &mut Receiving| end.bytes != Message::UNLIMITED;
        if self.receiving.find(message).is_some_and(finite)
            && let Some(mut end) = self.receiving.remove(message)
        {
            end.completed = Some(now);
            self.done.received.push(end);
            if end.id >= FIRST_DEPENDENT {
                self.awaited.push(end.id);
            }
        }
    }

    /// Records that the sender of a message knows that it is complete.
    pub(crate) fn acked(&mut self, now: Time, message: MessageId) {
        let Some(end) = self.sending.find(message) else { return };
        end.acked = Some(now);
        if end.flow.bytes != Message::UNLIMITED
            && let Some(end) = self.sending.remove(message)
        {
            self.done.sent.push(end);
            self.open -= 1;
            self.listed_done += u64::from(end.listed);
        }
    }

    /// Records that `bytes` of a message were retransmitted.
    pub(crate) fn resent(&mut self, message: MessageId, bytes: u32) {
        if let Some(end) = self.sending.find(message) {
            end.retransmitted_bytes += bytes as u64;
        }
    }

    /// Sending ends that are not done.
    pub(crate) fn senders(&self) -> impl Iterator<Item = &Sending> {
        self.sending.iter()
    }

    /// Takes every remaining end, done or not.
    pub(crate) fn take_rest(&mut self) -> Done {
        let mut rest = std::mem::take(&mut self.done);
        rest.sent.extend(self.sending.iter());
        rest.received.extend(self.receiving.iter());
        rest
    }
}

impl Done {
    /// Adds the ends of other partitions.
    pub(crate) fn join(&mut self, others: Done) {
        let Done { sent, received, answered } = others;
        self.sent.extend(sent);
        self.received.extend(received);
        self.answered.extend(answered);
    }

    /// Adds the receiving ends of flows of which nothing has arrived: the receiver does not know
    /// them. `packet_time` is as in [`Receiving`].
    pub(crate) fn expect_rest(&mut self, packet_time: impl Fn(&Flow) -> Span) {
        let known: BTreeSet<u64> = self.received.iter().map(|end| end.id).collect();
        let unknown = self.sent.iter().filter(|end| !known.contains(&end.id));
        self.received.extend(unknown.map(|end| {
            let message = MessageId { src: end.flow.src, id: 0 };
            Receiving::new(end.id, message, packet_time(&end.flow), end.flow.bytes)
        }));
    }
}

impl Receiving {
    fn new(id: u64, message: MessageId, packet_time: Span, bytes: u64) -> Receiving {
        Receiving {
            id,
            message,
            packet_time,
            delivered_bytes: 0,
            window_bytes: 0,
            last_delivery: Time::NEVER,
            completed: None,
            bytes,
        }
    }

    /// Bytes of a packet with `bytes` of payload that the slowest link of the path carries in
    /// `span`.
    #[cold]
    fn carried_bytes(&self, bytes: u32, span: Span, mtu: u32) -> u64 {
        let full = self.packet_time.as_ps().max(1) as u128;
        let carried = mtu as u128 * span.as_ps() as u128 / full;
        carried.min(bytes as u128) as u64
    }
}

/// Live flow ends, by slot and by message.
struct Ends<T> {
    slots: Vec<T>,
    free: Vec<u32>,
    /// By slot: whether it is in use.
    occupied: Vec<bool>,
    /// By sending host.
    numbers: Vec<Numbers>,
}

impl<T: Copy> Ends<T> {
    fn new(hosts: usize) -> Ends<T> {
        Ends {
            slots: Vec::new(),
            free: Vec::new(),
            occupied: Vec::new(),
            numbers: (0..hosts).map(|_| Numbers::default()).collect(),
        }
    }

    fn add(&mut self, message: MessageId, end: T) -> u32 {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(end);
                self.occupied.push(true);
                self.slots.len() as u32 - 1
            }
        };
        self.slots[slot as usize] = end;
        self.occupied[slot as usize] = true;
        self.numbers[message.src as usize].add(message.id, slot);
        slot
    }

    #[inline]
    fn slot(&self, message: MessageId) -> Option<u32> {
        self.numbers.get(message.src as usize)?.find(message.id)
    }

    #[inline]
    fn find(&mut self, message: MessageId) -> Option<&mut T> {
        let slot = self.slot(message)?;
        Some(&mut self.slots[slot as usize])
    }

    fn remove(&mut self, message: MessageId) -> Option<T> {
        let slot = self.slot(message)?;
        self.numbers[message.src as usize].remove(message.id);
        self.free.push(slot);
        self.occupied[slot as usize] = false;
        Some(self.slots[slot as usize])
    }

    fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn occupied(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.slots).filter(|(slot, _)| self.occupied[*slot as usize])
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        self.occupied().map(|(_, end)| end)
    }
}
