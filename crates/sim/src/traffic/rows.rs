//! Rows of a run: one per flow, from its two ends, in order of completion.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::{Message, Time};

use crate::ids::{FIRST_DEPENDENT, step};
use crate::measures::digest;
use crate::measures::outcome::{Exchange, FlowRecord, Window};
use crate::traffic::flows::{Done, Receiving, Sending};
use crate::traffic::submission::AnsweredRequest;

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
    answered: BTreeMap<u64, AnsweredRequest>,
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
            answered: BTreeMap::new(),
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
            self.answered.extend(done.answered.drain(..).map(|answered| (answered.id, answered)));
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
        for Done { sent, received, answered } in rest {
            senders.extend(sent);
            self.answered.extend(answered.into_iter().map(|answered| (answered.id, answered)));
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
        self.digest = with_row(self.digest, record);
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
            listed: sent.listed,
            exchange: (sent.id >= FIRST_DEPENDENT && step(sent.id).is_none()).then(|| {
                match self.answered.remove(&sent.id) {
                    Some(AnsweredRequest { at, label, .. }) => {
                        Exchange { requested: at, label, is_reply: true }
                    }
                    None => Exchange { requested: sent.start, label: flow.label, is_reply: false },
                }
            }),
        }
    }
}

/// The digest `before`, extended by a row.
fn with_row(before: u64, record: &FlowRecord) -> u64 {
    let done = record.completed.map_or(u64::MAX, Time::as_ps);
    let acked = record.acked.map_or(u64::MAX, Time::as_ps);
    let FlowRecord {
        id, start, delivered_bytes, window_bytes, measured, retransmitted_bytes, ..
    } = *record;
    let Window { from, until } = measured;
    let (from, to) = (from.as_ps(), until.as_ps());
    let values = [
        id,
        start.as_ps(),
        done,
        acked,
        delivered_bytes,
        retransmitted_bytes,
        window_bytes,
        from,
        to,
    ];
    digest::extended(before, values)
}
