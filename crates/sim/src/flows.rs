//! What a run knows of each message while it lives: the sending end and the receiving end apart,
//! for they may be in different parts of a fabric; and the rows that the two become.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::workload::Flow;
use tidegate_core::{Handle, Message, MessageId, Span, Time, mix64};

use crate::bytes::bytes;
use crate::jobs::step;
use crate::loops::{Asked, FIRST_ID};
use crate::outcome::{Exchange, FlowRecord, Window};

/// A flow that the hosts are told of: which it is of the run, and of its host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submission {
    pub(crate) flow: Flow,
    /// In order of submission, over the run.
    pub(crate) id: u64,
    /// The number that its packets carry: how many messages its host has submitted before.
    pub(crate) number: u32,
    /// Is one of a known number, which a run may wait for.
    pub(crate) listed: bool,
}

/// The sending end of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending {
    pub(crate) flow: Flow,
    pub(crate) id: u64,
    pub(crate) handle: Handle,
    /// When it was submitted.
    start: Time,
    acked: Option<Time>,
    retransmitted_bytes: u64,
    ideal: Span,
    listed: bool,
}

/// The receiving end of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receiving {
    pub(crate) id: u64,
    /// Of which message.
    pub(crate) message: MessageId,
    /// What a full packet takes on the slowest link of the path.
    packet_time: Span,
    /// Payload delivered.
    pub(crate) delivered_bytes: u64,
    /// Within the window.
    window_bytes: u64,
    /// Within the window; `NEVER`: none.
    last_delivery: Time,
    completed: Option<Time>,
    bytes: u64,
}

/// Ends that are done.
#[derive(Default)]
pub(crate) struct Done {
    sent: Vec<Sending>,
    received: Vec<Receiving>,
    /// Replies that have begun.
    pub(crate) asked: Vec<Asked>,
}

bytes! {
    Flow { src, dst, bytes, start, stop, stack, label, dedicated }
    Submission { flow, id, number, listed }
    MessageId { src, id }
    Sending { flow, id, handle, start, acked, retransmitted_bytes, ideal, listed }
    Receiving {
        id, message, packet_time, delivered_bytes, window_bytes, last_delivery, completed, bytes,
    }
    Done { sent, received, asked }
}

/// The ends that are in a part of a fabric.
pub(crate) struct Flows {
    sending: Ends<Sending>,
    receiving: Ends<Receiving>,
    /// Those that are done, not yet taken.
    pub(crate) done: Done,
    /// Messages of closed loops and jobs that have arrived, by id, whose turns have not been taken.
    pub(crate) awaited: Vec<u64>,
    /// Messages that end by themselves, and of which the sender does not know yet that they have.
    open: u64,
    /// Listed messages of which the sender knows that they have arrived.
    listed_done: u64,
    /// Goodput is measured from here to there.
    window: Window,
    /// Payload of a full packet.
    mtu: u32,
}

impl Flows {
    /// For a run on so many hosts that is measured within `window`.
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

    /// Makes room for the sending end of a flow: its slot.
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

    /// Makes room for the receiving end of a flow. `packet_time` is what a full packet takes on its
    /// slowest link.
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

    /// The sending end of a message whose sender does not know yet that it has arrived.
    pub(crate) fn sender(&self, message: MessageId) -> Option<&Sending> {
        self.sending.slot(message).map(|slot| &self.sending.slots[slot as usize])
    }

    /// Messages that end by themselves and have not, or whose sender does not know.
    pub(crate) fn open(&self) -> u64 {
        self.open
    }

    /// Listed messages that have finished here.
    pub(crate) fn listed_done(&self) -> u64 {
        self.listed_done
    }

    /// What is measured ends at `end`.
    pub(crate) fn close_window(&mut self, end: Time) {
        self.window.until = end;
    }

    /// Sending ends that are not taken.
    pub(crate) fn live(&self) -> usize {
        self.sending.live() + self.done.sent.len()
    }

    /// Receiving ends of flows that have not completed.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Receiving> {
        self.receiving.iter()
    }

    /// Slots of the unlimited flows that have not stopped by `now`, by id.
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

    /// The id of a message that is being sent.
    pub(crate) fn id(&self, message: MessageId) -> Option<u64> {
        self.sender(message).map(|sending| sending.id)
    }

    /// `bytes` of a message have arrived, the last of their bits at `landed`; the message's id.
    ///
    /// Of a packet that was under way when the window opened, only as much counts as its slowest
    /// link has carried since: the rest was carried before.
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
                end_of.partition_of(bytes, since, mtu)
            };
        }
        Some(end_of.id)
    }

    /// The last byte of a message has been handed to the receiving application.
    pub(crate) fn completed(&mut self, now: Time, message: MessageId) {
        let finite = |end: &mut Receiving| end.bytes != Message::UNLIMITED;
        if self.receiving.find(message).is_some_and(finite)
            && let Some(mut end) = self.receiving.remove(message)
        {
            end.completed = Some(now);
            self.done.received.push(end);
            if end.id >= FIRST_ID {
                self.awaited.push(end.id);
            }
        }
    }

    /// The sender of a message knows that it has arrived.
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

    /// `bytes` of a message were sent again.
    pub(crate) fn resent(&mut self, message: MessageId, bytes: u32) {
        if let Some(end) = self.sending.find(message) {
            end.retransmitted_bytes += bytes as u64;
        }
    }

    /// Sending ends that are not done.
    pub(crate) fn senders(&self) -> impl Iterator<Item = &Sending> {
        self.sending.iter()
    }

    /// Every end that is left, done or not.
    pub(crate) fn take_rest(&mut self) -> Done {
        let mut rest = std::mem::take(&mut self.done);
        rest.sent.extend(self.sending.iter());
        rest.received.extend(self.receiving.iter());
        rest
    }
}

impl Done {
    /// Adds those of others.
    pub(crate) fn join(&mut self, others: Done) {
        let Done { sent, received, asked } = others;
        self.sent.extend(sent);
        self.received.extend(received);
        self.asked.extend(asked);
    }

    /// Adds the receiving ends of flows of which nothing has arrived, so that nobody there knows
    /// of them. `packet_time` is as in [`Receiving`].
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

    /// What the slowest link of the path carries in `span` of a packet with `bytes` of payload.
    #[cold]
    fn partition_of(&self, bytes: u32, span: Span, mtu: u32) -> u64 {
        let full = self.packet_time.as_ps().max(1) as u128;
        let carried = mtu as u128 * span.as_ps() as u128 / full;
        carried.min(bytes as u128) as u64
    }
}

/// What a run's flows become: both ends of each, and when their row may go out.
pub(crate) struct Rows {
    /// Messages that have arrived, of which the sender does not know yet, by id.
    arrived: BTreeMap<u64, Receiving>,
    /// The same by time of completion: no row goes out before an earlier one.
    waiting: BTreeSet<(Time, u64)>,
    /// Ends whose senders know, and whose other ends have not been seen.
    ahead: Vec<Sending>,
    done: BTreeMap<(Time, u64), FlowRecord>,
    /// Of replies without a row yet, by id.
    asked: BTreeMap<u64, Asked>,
    digest: u64,
    window: Window,
    /// By receiving host: payload delivered within the window, of the rows that went out.
    received: Vec<u64>,
}

impl Rows {
    pub(crate) fn new(hosts: usize, window: Window) -> Rows {
        Rows {
            arrived: BTreeMap::new(),
            waiting: BTreeSet::new(),
            ahead: Vec::new(),
            done: BTreeMap::new(),
            asked: BTreeMap::new(),
            digest: 0,
            window,
            received: vec![0; hosts],
        }
    }

    /// Takes the ends that are done, of every partition.
    pub(crate) fn collect<'a>(
        &mut self,
        partitions: impl Iterator<Item = &'a mut Done>,
        now: Time,
    ) {
        let mut sent = std::mem::take(&mut self.ahead);
        for done in partitions {
            for end in done.received.drain(..) {
                let at = end.completed.unwrap_or(Time::NEVER);
                self.waiting.insert((at, end.id));
                self.arrived.insert(end.id, end);
            }
            sent.append(&mut done.sent);
            self.asked.extend(done.asked.drain(..).map(|asked| (asked.id, asked)));
        }
        for end in sent {
            let Some(other) = self.arrived.remove(&end.id) else {
                self.ahead.push(end);
                continue;
            };
            let key = (other.completed.unwrap_or(Time::NEVER), other.id);
            self.waiting.remove(&key);
            let record = self.record(&end, &other, now);
            self.done.insert(key, record);
        }
    }

    /// Appends the rows that nothing can overtake any more, in order of completion, then id.
    pub(crate) fn take(&mut self, out: &mut Vec<FlowRecord>) {
        let first = self.waiting.first().map_or(Time::NEVER, |&(at, _)| at);
        // What completed with one that waits waits with it, so that a tie comes out whole.
        while let Some(entry) = self.done.first_entry()
            && entry.key().0 < first
        {
            let record = entry.remove();
            self.count(&record);
            out.push(record);
        }
    }

    /// What is measured ends at `end`.
    pub(crate) fn close_window(&mut self, end: Time) {
        self.window.until = end;
    }

    /// Rows that are held back.
    pub(crate) fn held(&self) -> usize {
        self.done.len()
    }

    /// Every row left, of these ends and those seen before: first those of completed flows, then
    /// the unfinished by id; and the digest of all.
    pub(crate) fn take_rest(
        mut self,
        rest: Vec<Done>,
        now: Time,
    ) -> (Vec<FlowRecord>, Vec<FlowRecord>, u64, Vec<u64>) {
        let mut senders = std::mem::take(&mut self.ahead);
        let mut receivers = std::mem::take(&mut self.arrived);
        for Done { sent, received, asked } in rest {
            senders.extend(sent);
            self.asked.extend(asked.into_iter().map(|asked| (asked.id, asked)));
            receivers.extend(received.into_iter().map(|end| (end.id, end)));
        }
        senders.sort_unstable_by_key(|end| end.id);
        let mut unfinished = Vec::new();
        for end in &senders {
            let Some(other) = receivers.get(&end.id) else { continue };
            let record = self.record(end, other, now);
            match record.completed {
                Some(at) => _ = self.done.insert((at, record.id), record),
                None => unfinished.push(record),
            }
        }
        let done: Vec<FlowRecord> = std::mem::take(&mut self.done).into_values().collect();
        for record in done.iter().chain(&unfinished) {
            self.count(record);
        }
        (done, unfinished, self.digest, self.received)
    }

    fn count(&mut self, record: &FlowRecord) {
        self.digest = digest(self.digest, record);
        self.received[record.dst as usize] += record.window_bytes;
    }

    /// What both ends of a flow say of it by `now`.
    fn record(&mut self, sent: &Sending, received: &Receiving, now: Time) -> FlowRecord {
        let (Window { from: warmup, until: end }, flow) = (self.window, &sent.flow);
        let last_delivery = received.last_delivery;
        let from = sent.start.max(warmup);
        let until = match received.completed {
            Some(at) if at <= end => last_delivery,
            None if flow.bytes == Message::UNLIMITED && flow.stop < now.min(end) => {
                if last_delivery == Time::NEVER { flow.stop } else { last_delivery }
            }
            _ => now,
        };
        FlowRecord {
            id: sent.id,
            label: flow.label,
            stack: flow.stack,
            src: flow.src,
            dst: flow.dst,
            start: sent.start,
            bytes: flow.bytes,
            delivered_bytes: received.delivered_bytes,
            window_bytes: received.window_bytes,
            measured: Window { from, until: until.min(now).min(end).max(from) },
            packet_time: received.packet_time,
            completed: received.completed,
            acked: sent.acked,
            retransmitted_bytes: sent.retransmitted_bytes,
            ideal: sent.ideal,
            exchange: (sent.id >= FIRST_ID && step(sent.id).is_none()).then(|| {
                match self.asked.remove(&sent.id) {
                    Some(Asked { at, label, .. }) => Exchange { asked: at, label, is_reply: true },
                    None => Exchange { asked: sent.start, label: flow.label, is_reply: false },
                }
            }),
        }
    }
}

fn digest(so_far: u64, record: &FlowRecord) -> u64 {
    let done = record.completed.map_or(u64::MAX, Time::as_ps);
    let acked = record.acked.map_or(u64::MAX, Time::as_ps);
    let FlowRecord {
        id, start, delivered_bytes, window_bytes, measured, retransmitted_bytes, ..
    } = *record;
    let Window { from, until } = measured;
    let (from, to) = (from.as_ps(), until.as_ps());
    [id, start.as_ps(), done, acked, delivered_bytes, retransmitted_bytes, window_bytes, from, to]
        .iter()
        .fold(so_far, |digest, &x| mix64(digest ^ x).wrapping_add(0x9e37_79b9_7f4a_7c15))
}

/// Ends of flows that are alive, by slot and by message.
struct Ends<T> {
    slots: Vec<T>,
    free: Vec<u32>,
    /// By slot.
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

/// Nothing.
const NONE: u32 = u32::MAX;

/// The live messages of a host by number: at least twice as many places in a ring, each number at
/// its home or at the next place that is free. Homes of numbers that follow each other lie far
/// apart: were they neighbours, [`remove`](Numbers::remove) would pass all messages of a burst.
#[derive(Default)]
struct Numbers {
    live: usize,
    /// (number, slot), a power of two.
    places: Vec<(u32, u32)>,
}

/// 2^32 over the golden ratio: its multiples keep apart, however many they are.
const APART: u32 = 0x9e37_79b9;

impl Numbers {
    /// The message of this number is in `slot`.
    fn add(&mut self, number: u32, slot: u32) {
        self.live += 1;
        if self.places.len() < 2 * self.live {
            let larger = vec![(0, NONE); (2 * self.places.len()).max(4)];
            let places = std::mem::replace(&mut self.places, larger);
            for (number, slot) in places.into_iter().filter(|&(_, slot)| slot != NONE) {
                self.put(number, slot);
            }
        }
        self.put(number, slot);
    }

    /// Where a number should be; there are places.
    #[inline]
    fn home(&self, number: u32) -> usize {
        // The high bits, as many as places need.
        let bits = self.places.len().trailing_zeros();
        (number.wrapping_mul(APART) >> (u32::BITS - bits)) as usize
    }

    fn put(&mut self, number: u32, slot: u32) {
        let mask = self.places.len() - 1;
        let mut at = self.home(number);
        while self.places[at].1 != NONE {
            at = (at + 1) & mask;
        }
        self.places[at] = (number, slot);
    }

    /// The slot of the message with this number.
    #[inline]
    fn find(&self, number: u32) -> Option<u32> {
        self.place(number).map(|at| self.places[at].1)
    }

    #[inline]
    fn place(&self, number: u32) -> Option<usize> {
        let mask = self.places.len().checked_sub(1)?;
        let mut at = self.home(number);
        loop {
            match self.places[at] {
                (_, NONE) => return None,
                (same, _) if same == number => return Some(at),
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Forgets a number, and moves up those that it was in the way of.
    fn remove(&mut self, number: u32) {
        let Some(mut hole) = self.place(number) else { return };
        let mask = self.places.len() - 1;
        self.live -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let (number, slot) = self.places[at];
            if slot == NONE {
                break;
            }
            let from_home = at.wrapping_sub(self.home(number)) & mask;
            if from_home >= at.wrapping_sub(hole) & mask {
                self.places[hole] = self.places[at];
                hole = at;
            }
        }
        self.places[hole].1 = NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tidegate_core::{Domain, Rng};

    #[test]
    fn numbers_are_found_while_they_live() {
        let mut rng = Rng::stream(1, Domain::Faults, 0);
        let (mut numbers, mut model) = (Numbers::default(), BTreeMap::new());
        let mut next = u32::MAX - 5_000;
        for step in 0..20_000u32 {
            if model.len() < 3 || rng.below(100) < 50 && model.len() < 300 {
                numbers.add(next, step);
                assert!(model.insert(next, step).is_none());
                next = next.wrapping_add(1);
            } else {
                // The youngest more often than the oldest, so that some live long.
                let nth =
                    model.len() - 1 - rng.below(model.len() as u64).min(rng.below(300)) as usize;
                let number = *model.keys().nth(nth).unwrap();
                numbers.remove(number);
                model.remove(&number);
                assert_eq!(numbers.find(number), None);
            }
            assert!(model.iter().all(|(&number, &slot)| numbers.find(number) == Some(slot)));
        }
        assert!(numbers.places.len() <= 1024);
    }

    #[test]
    fn a_burst_of_messages_ends_as_soon_as_it_began() {
        // Oldest first, each in a step or two; in minutes where each passes all that are left.
        let (mut numbers, most) = (Numbers::default(), 1_000_000);
        (0..most).for_each(|number| numbers.add(number, number));
        for number in 0..most {
            assert_eq!(numbers.find(number), Some(number));
            numbers.remove(number);
        }
        assert_eq!(numbers.live, 0);
    }

    #[test]
    fn a_long_lived_message_beside_millions_makes_no_table_grow() {
        let mut numbers = Numbers::default();
        numbers.add(0, 7);
        for number in 1..3_000_000 {
            numbers.add(number, 8);
            numbers.remove(number);
        }
        assert_eq!((numbers.find(0), numbers.places.len()), (Some(7), 4));
    }
}
