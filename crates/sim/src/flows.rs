//! The flow table: what the run knows of each message while it lives.

use std::collections::VecDeque;

use tidegate_core::workload::Flow;
use tidegate_core::{Handle, Message, MessageId, Time, mix64};

use crate::outcome::FlowRecord;

/// Flows that are alive, by slot.
pub(crate) struct Flows {
    live: Vec<Live>,
    free: Vec<u32>,
    /// By sending host: what its packets call its messages.
    numbers: Vec<Numbers>,
    /// Slots in order of completion, not yet taken.
    completed: VecDeque<u32>,
    submitted: u64,
    /// Messages that end by themselves, and of which the sender does not know yet that they have.
    open: u64,
    digest: u64,
    /// Goodput is measured from here to there.
    window: (Time, Time),
    /// Payload of a full packet.
    mtu: u32,
    /// By receiving host: payload delivered within the window, of the flows that were closed.
    received: Vec<u64>,
}

/// A flow and what has become of it.
pub(crate) struct Live {
    pub(crate) record: FlowRecord,
    pub(crate) handle: Handle,
    stop: Time,
    /// Within the window; `NEVER`: none.
    last_delivery: Time,
}

impl Flows {
    /// For a run that is measured within `window`.
    pub(crate) fn new(hosts: usize, window: (Time, Time), mtu: u32) -> Flows {
        Flows {
            live: Vec::new(),
            free: Vec::new(),
            numbers: (0..hosts).map(|_| Numbers::default()).collect(),
            completed: VecDeque::new(),
            submitted: 0,
            open: 0,
            digest: 0,
            window,
            mtu,
            received: vec![0; hosts],
        }
    }

    /// Makes room for `flow`: its slot, and the number that its packets carry, which is how many
    /// messages its host has submitted before. `packet_time` is what a full packet takes on its
    /// slowest link.
    pub(crate) fn open(
        &mut self,
        flow: &Flow,
        now: Time,
        ideal: Time,
        packet_time: Time,
    ) -> (u32, u32) {
        let record = FlowRecord {
            id: self.submitted,
            label: flow.label,
            stack: flow.stack,
            src: flow.src,
            dst: flow.dst,
            start: now,
            bytes: flow.bytes,
            delivered_bytes: 0,
            window_bytes: 0,
            measured: (now, Time::NEVER),
            packet_time,
            completed: None,
            acked: None,
            retransmitted_bytes: 0,
            ideal,
        };
        self.submitted += 1;
        self.open += (flow.bytes != Message::UNLIMITED) as u64;
        let live = Live { record, handle: Handle(0), stop: flow.stop, last_delivery: Time::NEVER };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.live[slot as usize] = live;
                slot
            }
            None => {
                self.live.push(live);
                self.live.len() as u32 - 1
            }
        };
        (slot, self.numbers[flow.src as usize].add(slot))
    }

    /// The flow in a slot.
    pub(crate) fn get(&mut self, slot: u32) -> &mut Live {
        &mut self.live[slot as usize]
    }

    /// How many are not taken.
    pub(crate) fn live(&self) -> usize {
        self.live.len() - self.free.len()
    }

    /// Whether every message that ends by itself has, and its sender knows.
    pub(crate) fn all_done(&self) -> bool {
        self.open == 0
    }

    /// Flows that have not completed, by id.
    pub(crate) fn running(&self) -> Vec<&Live> {
        let mut running: Vec<_> =
            self.live.iter().filter(|live| live.record.completed.is_none()).collect();
        running.sort_unstable_by_key(|live| live.record.id);
        running
    }

    /// Slots of the unlimited flows that have not stopped by `now`, by id.
    pub(crate) fn unlimited(&self, now: Time) -> Vec<u32> {
        let unlimited = |slot: &u32| {
            let live = &self.live[*slot as usize];
            live.record.bytes == Message::UNLIMITED && live.stop > now
        };
        let mut slots: Vec<u32> = (0..self.live.len() as u32).filter(unlimited).collect();
        slots.sort_unstable_by_key(|&slot| self.live[slot as usize].record.id);
        slots
    }

    /// Payload delivered to a host within the window, of the flows that were closed.
    pub(crate) fn received(&self, host: usize) -> u64 {
        self.received[host]
    }

    #[inline]
    fn find(&mut self, message: MessageId) -> Option<&mut Live> {
        let slot = self.numbers.get(message.src as usize)?.find(message.id)?;
        Some(&mut self.live[slot as usize])
    }

    /// The id of a message.
    pub(crate) fn id(&mut self, message: MessageId) -> Option<u64> {
        self.find(message).map(|live| live.record.id)
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
        let ((warmup, end), mtu) = (self.window, self.mtu);
        let live = self.find(message)?;
        live.record.delivered_bytes += bytes as u64;
        debug_assert!(
            live.record.delivered_bytes <= live.record.bytes,
            "delivered twice: {:?}",
            live.record
        );
        if now <= end {
            live.last_delivery = now;
            let since = landed.since(warmup);
            live.record.window_bytes += if since >= live.record.packet_time {
                bytes as u64
            } else {
                live.part_of(bytes, since, mtu)
            };
        }
        Some(live.record.id)
    }

    /// The last byte of a message has been handed to the receiving application.
    pub(crate) fn completed(&mut self, now: Time, message: MessageId) {
        let Some(slot) =
            self.numbers.get(message.src as usize).and_then(|own| own.find(message.id))
        else {
            return;
        };
        let record = &mut self.live[slot as usize].record;
        if record.bytes != Message::UNLIMITED && record.completed.is_none() {
            record.completed = Some(now);
            self.completed.push_back(slot);
            self.close_if_done(message);
        }
    }

    /// The sender of a message knows that it has arrived.
    pub(crate) fn acked(&mut self, now: Time, message: MessageId) {
        if let Some(live) = self.find(message) {
            live.record.acked = Some(now);
            self.close_if_done(message);
        }
    }

    /// `bytes` of a message were sent again.
    pub(crate) fn resent(&mut self, message: MessageId, bytes: u32) {
        if let Some(live) = self.find(message) {
            live.record.retransmitted_bytes += bytes as u64;
        }
    }

    /// Nothing more is heard of a message that both ends are done with, whenever its row is taken.
    fn close_if_done(&mut self, message: MessageId) {
        if self
            .find(message)
            .is_some_and(|live| live.record.completed.is_some() && live.record.acked.is_some())
        {
            self.numbers[message.src as usize].remove(message.id);
            self.open -= 1;
        }
    }

    /// Takes the finished flows that nothing can overtake any more, in order of completion, then
    /// id.
    pub(crate) fn take_finished(&mut self, now: Time, out: &mut Vec<FlowRecord>) {
        let first = out.len();
        while let Some(&slot) = self.completed.front() {
            let at = self.live[slot as usize].record.completed;
            let records = self.completed.iter().map(|&slot| &self.live[slot as usize].record);
            let mut tie = records.take_while(|record| record.completed == at);
            // A row needs its sender's acknowledgement, which takes time: once it is there, all
            // that completed with it has, and the tie comes out whole.
            if !tie.all(|record| record.acked.is_some()) {
                break;
            }
            while let Some(&slot) = self.completed.front()
                && self.live[slot as usize].record.completed == at
            {
                self.completed.pop_front();
                out.push(self.live[slot as usize].close(self.window, now));
                self.free.push(slot);
            }
        }
        out[first..].sort_by_key(|record| (record.completed, record.id));
        for record in &out[first..] {
            self.count(record);
        }
    }

    /// Takes every flow left: first the completed ones, then the unfinished by id; and the digest
    /// of all.
    pub(crate) fn take_rest(&mut self, now: Time) -> (Vec<FlowRecord>, Vec<FlowRecord>, u64) {
        let unfinished: Vec<_> =
            self.running().into_iter().map(|live| live.close(self.window, now)).collect();
        let done =
            self.completed.drain(..).map(|slot| self.live[slot as usize].close(self.window, now));
        let mut done: Vec<_> = done.collect();
        done.sort_by_key(|record| (record.completed, record.id));
        for record in done.iter().chain(&unfinished) {
            self.count(record);
        }
        (done, unfinished, self.digest)
    }

    fn count(&mut self, record: &FlowRecord) {
        self.digest = digest(self.digest, record);
        self.received[record.dst as usize] += record.window_bytes;
    }
}

impl Live {
    /// What the slowest link of the path carries in `span` of a packet with `bytes` of payload.
    #[cold]
    fn part_of(&self, bytes: u32, span: Time, mtu: u32) -> u64 {
        let carried =
            mtu as u128 * span.as_ps() as u128 / self.record.packet_time.as_ps().max(1) as u128;
        carried.min(bytes as u128) as u64
    }

    fn close(&self, (warmup, end): (Time, Time), now: Time) -> FlowRecord {
        let record = &self.record;
        let from = record.start.max(warmup);
        let to = match record.completed {
            Some(at) if at <= end => self.last_delivery,
            None if record.bytes == Message::UNLIMITED && self.stop < now.min(end) => {
                if self.last_delivery == Time::NEVER { self.stop } else { self.last_delivery }
            }
            _ => now,
        };
        FlowRecord { measured: (from, to.min(now).min(end).max(from)), ..self.record }
    }
}

fn digest(so_far: u64, record: &FlowRecord) -> u64 {
    let done = record.completed.map_or(u64::MAX, Time::as_ps);
    let acked = record.acked.map_or(u64::MAX, Time::as_ps);
    let FlowRecord {
        id, start, delivered_bytes, window_bytes, measured, retransmitted_bytes, ..
    } = *record;
    let (from, to) = (measured.0.as_ps(), measured.1.as_ps());
    [id, start.as_ps(), done, acked, delivered_bytes, retransmitted_bytes, window_bytes, from, to]
        .iter()
        .fold(so_far, |digest, &x| mix64(digest ^ x).wrapping_add(0x9e37_79b9_7f4a_7c15))
}

/// Nothing.
const NONE: u32 = u32::MAX;

/// The live messages of a host by number: a ring of at least twice as many places, each number at
/// its own place modulo their count, or where a long-lived message of an earlier round is in the
/// way, at the next that is free.
#[derive(Default)]
struct Numbers {
    next: u32,
    live: usize,
    /// (number, slot).
    places: Vec<(u32, u32)>,
}

impl Numbers {
    /// Gives the message in `slot` the next number.
    fn add(&mut self, slot: u32) -> u32 {
        self.live += 1;
        if self.places.len() < 2 * self.live {
            let larger = vec![(0, NONE); (2 * self.places.len()).max(4)];
            let places = std::mem::replace(&mut self.places, larger);
            for (number, slot) in places.into_iter().filter(|&(_, slot)| slot != NONE) {
                self.put(number, slot);
            }
        }
        let number = self.next;
        self.next = number.wrapping_add(1);
        self.put(number, slot);
        number
    }

    fn put(&mut self, number: u32, slot: u32) {
        let mask = self.places.len() - 1;
        let mut at = number as usize & mask;
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
        let mut at = number as usize & mask;
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
            let from_home = at.wrapping_sub(number as usize) & mask;
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
        numbers.next = u32::MAX - 5_000;
        for step in 0..20_000u32 {
            if model.len() < 3 || rng.below(100) < 50 && model.len() < 300 {
                let number = numbers.add(step);
                assert!(model.insert(number, step).is_none());
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
    fn a_long_lived_message_beside_millions_makes_no_table_grow() {
        let mut numbers = Numbers::default();
        let first = numbers.add(7);
        for slot in 0..3_000_000 {
            let number = numbers.add(slot);
            numbers.remove(number);
        }
        assert_eq!((numbers.find(first), numbers.places.len()), (Some(7), 4));
    }
}
