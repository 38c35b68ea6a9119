//! The flow table: what the run knows of each message while it lives.

use std::collections::VecDeque;

use tidegate_core::workload::Flow;
use tidegate_core::{Application, Handle, Message, Time, mix64};

use crate::outcome::FlowRecord;

/// Flows that are alive, by slot. The slot is the message number that packets carry.
#[derive(Default)]
pub(crate) struct Flows {
    pub(crate) live: Vec<Live>,
    free: Vec<u32>,
    /// Slots in order of completion, not yet taken.
    completed: VecDeque<u32>,
    submitted: u64,
    digest: u64,
}

/// A flow and what has become of it.
pub(crate) struct Live {
    pub(crate) record: FlowRecord,
    pub(crate) handle: Handle,
    stop: Time,
    delivered_at_warmup: u64,
}

impl Flows {
    /// Makes room for `flow`; the slot it is known by.
    pub(crate) fn open(&mut self, flow: &Flow, now: Time, ideal: Time) -> u32 {
        let record = FlowRecord {
            id: self.submitted,
            label: flow.label,
            stack: flow.stack,
            src: flow.src,
            dst: flow.dst,
            start: now,
            bytes: flow.bytes,
            delivered_bytes: 0,
            delivered_after_warmup: 0,
            measured: (now, Time::NEVER),
            completed: None,
            acked: None,
            retransmitted_bytes: 0,
            ideal,
        };
        self.submitted += 1;
        let live = Live { record, handle: Handle(0), stop: flow.stop, delivered_at_warmup: 0 };
        match self.free.pop() {
            Some(slot) => {
                self.live[slot as usize] = live;
                slot
            }
            None => {
                self.live.push(live);
                self.live.len() as u32 - 1
            }
        }
    }

    /// How many are not taken.
    pub(crate) fn live(&self) -> usize {
        self.live.len() - self.free.len()
    }

    /// What was delivered so far does not count as goodput.
    pub(crate) fn warm_up(&mut self) {
        for live in &mut self.live {
            live.delivered_at_warmup = live.record.delivered_bytes;
        }
    }

    /// Takes the finished flows that nothing at or after `now` can overtake any more, in order of completion, then id.
    pub(crate) fn take_finished(&mut self, now: Time, warmup: Time, out: &mut Vec<FlowRecord>) {
        let first = out.len();
        while let Some(&slot) = self.completed.front() {
            let live = &self.live[slot as usize];
            // A tie must come out whole, and a row needs its sender's acknowledgement too.
            if live.record.completed >= Some(now) || live.record.acked.is_none() {
                break;
            }
            self.completed.pop_front();
            out.push(live.close(warmup, now));
            self.free.push(slot);
        }
        out[first..].sort_by_key(|record| (record.completed, record.id));
        for record in &out[first..] {
            self.digest = digest(self.digest, record);
        }
    }

    /// Takes every flow left: first the completed ones, then the unfinished by id.
    pub(crate) fn take_rest(&mut self, end: Time, warmup: Time) -> (Vec<FlowRecord>, Vec<FlowRecord>, u64) {
        let mut done: Vec<_> =
            self.completed.drain(..).map(|slot| self.live[slot as usize].close(warmup, end)).collect();
        done.sort_by_key(|record| (record.completed, record.id));
        self.free.sort_unstable();
        let open = |slot: &usize| self.free.binary_search(&(*slot as u32)).is_err();
        let mut unfinished: Vec<_> = (0..self.live.len())
            .filter(open)
            .map(|slot| self.live[slot].close(warmup, end))
            .filter(|record| record.completed.is_none())
            .collect();
        unfinished.sort_by_key(|record| record.id);
        let all = done.iter().chain(&unfinished).fold(self.digest, digest);
        (done, unfinished, all)
    }
}

impl Live {
    fn close(&self, warmup: Time, now: Time) -> FlowRecord {
        let end = self.record.completed.unwrap_or(now).min(self.stop).min(now);
        FlowRecord {
            delivered_after_warmup: self.record.delivered_bytes - self.delivered_at_warmup,
            measured: (self.record.start.max(warmup), end.max(self.record.start.max(warmup))),
            ..self.record
        }
    }
}

fn digest(so_far: u64, record: &FlowRecord) -> u64 {
    let done = record.completed.map_or(u64::MAX, Time::as_ps);
    let acked = record.acked.map_or(u64::MAX, Time::as_ps);
    [record.id, record.start.as_ps(), done, acked, record.delivered_bytes, record.retransmitted_bytes]
        .iter()
        .fold(so_far, |digest, &x| mix64(digest ^ x).wrapping_add(0x9e37_79b9_7f4a_7c15))
}

impl Application for Flows {
    #[inline]
    fn delivered(&mut self, message: u32, bytes: u32) {
        if let Some(live) = self.live.get_mut(message as usize) {
            live.record.delivered_bytes += bytes as u64;
        }
    }

    fn completed(&mut self, now: Time, message: u32) {
        if let Some(live) = self.live.get_mut(message as usize)
            && live.record.bytes != Message::UNLIMITED
            && live.record.completed.is_none()
        {
            live.record.completed = Some(now);
            self.completed.push_back(message);
        }
    }

    fn acked(&mut self, now: Time, message: u32) {
        if let Some(live) = self.live.get_mut(message as usize) {
            live.record.acked = Some(now);
        }
    }
}
