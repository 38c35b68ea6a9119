//! Flow records of a run. The sending and the receiving end of a message are kept apart, because
//! they may be in different partitions. Rows combine the two.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::workload::Flow;
use tidegate_core::{Handle, Message, MessageId, Span, Time, mix64};

use crate::bytes::bytes;
use crate::ids::{FIRST_DEPENDENT, step};
use crate::measures::outcome::{Exchange, FlowRecord, Window};
use crate::traffic::submission::{Asked, Submission};

/// The sending end of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending {
    pub(crate) flow: Flow,
    pub(crate) id: u64,
    pub(crate) handle: Handle,
    /// Time of submission.
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
    /// Its message.
    pub(crate) message: MessageId,
    /// Serialisation time of a full packet on the slowest link of the path.
    packet_time: Span,
    /// Payload delivered.
    pub(crate) delivered_bytes: u64,
    /// Payload delivered in the measured window.
    window_bytes: u64,
    /// Last delivery in the measured window; `NEVER` if none.
    last_delivery: Time,
    completed: Option<Time>,
    bytes: u64,
}

/// Flow ends that are done.
#[derive(Default)]
pub(crate) struct Done {
    sent: Vec<Sending>,
    received: Vec<Receiving>,
    /// Replies that have started.
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
        let Done { sent, received, asked } = others;
        self.sent.extend(sent);
        self.received.extend(received);
        self.asked.extend(asked);
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

/// Rows of a run: joins both ends of each flow, and orders the rows.
pub(crate) struct Rows {
    /// Messages that have arrived and whose sender does not know it yet, by ID.
    arrived: BTreeMap<u64, Receiving>,
    /// The same by completion time: later rows wait for them.
    waiting: BTreeSet<(Time, u64)>,
    /// Sending ends that are done and whose receiving ends have not been collected.
    ahead: Vec<Sending>,
    done: BTreeMap<(Time, u64), FlowRecord>,
    /// Replies without a row, by ID.
    asked: BTreeMap<u64, Asked>,
    digest: u64,
    window: Window,
    /// By receiving host: payload delivered in the measured window, of the rows that were returned.
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

    /// Appends the rows that no later row can precede, in order of completion, then ID.
    pub(crate) fn take(&mut self, out: &mut Vec<FlowRecord>) {
        let first = self.waiting.first().map_or(Time::NEVER, |&(at, _)| at);
        // A row that completed at the same time as a waiting one waits with it, so ties come out in
        // order.
        while let Some(entry) = self.done.first_entry()
            && entry.key().0 < first
        {
            let record = entry.remove();
            self.count(&record);
            out.push(record);
        }
    }

    /// Ends the measured window at `end`.
    pub(crate) fn close_window(&mut self, end: Time) {
        self.window.until = end;
    }

    /// Number of rows that wait.
    pub(crate) fn held(&self) -> usize {
        self.done.len()
    }

    /// Every remaining row, of `rest` and the ends collected before: first completed flows, then
    /// unfinished ones by ID. Also returns the digest of all rows and the received payload.
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

    /// The record of a flow by `now`, from both ends.
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
            exchange: (sent.id >= FIRST_DEPENDENT && step(sent.id).is_none()).then(|| {
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

/// An empty place.
const NONE: u32 = u32::MAX;

/// Hash table of the live messages of a host by number: a ring with at least twice as many places
/// as entries. Each number is at its home or at the next free place. Homes of consecutive numbers
/// are far apart; if they were adjacent, [`remove`](Numbers::remove) would visit all messages of a
/// burst.
#[derive(Default)]
struct Numbers {
    live: usize,
    /// (number, slot); the length is a power of two.
    places: Vec<(u32, u32)>,
}

/// 2^32 over the golden ratio: its multiples stay far apart, however many there are.
const APART: u32 = 0x9e37_79b9;

impl Numbers {
    /// Adds a number with its slot.
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

    /// Home of a number. The table must not be empty.
    #[inline]
    fn home(&self, number: u32) -> usize {
        // The high bits, as many as the index has.
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

    /// Removes a number, and moves up the entries that it had displaced.
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
                // Young numbers are removed more often than old ones, so some live long.
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
    fn burst_is_removed_in_linear_time() {
        // Oldest first, in a step or two each. It takes minutes if each removal visits all entries.
        let (mut numbers, most) = (Numbers::default(), 1_000_000);
        (0..most).for_each(|number| numbers.add(number, number));
        for number in 0..most {
            assert_eq!(numbers.find(number), Some(number));
            numbers.remove(number);
        }
        assert_eq!(numbers.live, 0);
    }

    #[test]
    fn old_number_does_not_grow_the_table() {
        let mut numbers = Numbers::default();
        numbers.add(0, 7);
        for number in 1..3_000_000 {
            numbers.add(number, 8);
            numbers.remove(number);
        }
        assert_eq!((numbers.find(0), numbers.places.len()), (Some(7), 4));
    }
}
