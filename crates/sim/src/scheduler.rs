//! The queues of a port that are not plain strict priorities: who goes next, and when at the
//! earliest.
//!
//! A plain port sends the head of its first queue that is not empty as soon as it is free. Here
//! credits may have a queue of their own that is shaped, and a queue may be shaped, one of many
//! (virtual output queues), weighted, or paused, and the port's rate may change. All that is asked
//! is the earliest start of the next transmission: it depends on nothing but what has arrived by
//! then, so ports are committed lazily all the same. Only where a port is idle and what it holds
//! may not go yet does it need an event of its own to wake up.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_core::fabric::{Queues, ServiceOrder, Switch};
use tidegate_core::{Frame, Pace, Rate, Span, Time, TokenBucket};

use crate::credits::Credits;
use crate::packets::NIL;
use crate::pause_state::PauseState;

/// Queues of a port, and the rule of their turns.
pub(crate) struct Scheduler {
    queues: Vec<Queue>,
    /// Goes before all others, paused or not.
    urgent: Fifo,
    /// Credits: go before the queues as soon as they are paid for.
    credits: Option<Credits>,
    /// By host: its queue. Empty: by priority.
    of_destination: Arc<[u16]>,
    weighted: bool,
    /// Of weighted queues: whose turn it is, and whether it has had its bytes for that.
    round: (usize, bool),
    /// Rates to come, in order.
    changes: VecDeque<(Time, Rate)>,
    /// The port's rate; zero: nothing starts.
    rate: Rate,
    /// The same, unless it is zero.
    pace: Pace,
    /// Strict priorities at one rate, beside pauses and credits.
    is_strict: bool,
    /// Then, a bit each: queues that are not empty.
    occupied: u8,
    /// Packets that it holds.
    packets: u32,
    /// When its port's own event is due; [`Time::NEVER`]: it has none.
    pub(crate) wakes_at: Time,
    /// Time spent sending.
    pub(crate) busy: Span,
    pub(crate) pause_state: PauseState,
    /// Credits that found no room.
    pub(crate) credit_drops: u64,
    /// What credits that have left have waited since warm-up, in byte picoseconds; less what those
    /// had waited before that were there then.
    pub(crate) credit_byte_ps: i128,
}

struct Queue {
    fifo: Fifo,
    bytes: u32,
    paused: bool,
    /// When it was last told to go on.
    resumed: Time,
    shaper: Option<Shaper>,
    /// Bytes a turn, and bytes left of this one.
    quantum: u32,
    left: u32,
}

/// What lets a queue send, and how much it may hold.
struct Shaper {
    bucket: TokenBucket,
    most_bytes: u32,
}

/// Packets in order of arrival, a list through their frames.
#[derive(Clone, Copy)]
pub(crate) struct Fifo {
    head: u32,
    tail: u32,
}

impl Fifo {
    pub(crate) const EMPTY: Fifo = Fifo { head: NIL, tail: NIL };

    pub(crate) fn push(&mut self, packet: u32, frames: &mut [Frame]) {
        frames[packet as usize].next = NIL;
        match self.tail {
            NIL => self.head = packet,
            tail => frames[tail as usize].next = packet,
        }
        self.tail = packet;
    }

    pub(crate) fn pop(&mut self, frames: &[Frame]) -> u32 {
        let packet = self.head;
        self.head = frames[packet as usize].next;
        if self.head == NIL {
            self.tail = NIL;
        }
        packet
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// The packet that has waited longest. There may be none.
    pub(crate) fn head(&self) -> u32 {
        self.head
    }

    pub(crate) fn iter<'a>(&self, frames: &'a [Frame]) -> impl Iterator<Item = u32> + 'a {
        let some = |packet: u32| Some(packet).filter(|&packet| packet != NIL);
        std::iter::successors(some(self.head), move |&packet| some(frames[packet as usize].next))
    }
}

impl Scheduler {
    /// Of a port of `switch`, if it needs one; `pauses`: somebody at the other end of its link may
    /// tell it to; `changes` are of its rate, in order of time.
    pub(crate) fn new(
        switch: &Switch,
        rate: Rate,
        pauses: bool,
        changes: VecDeque<(Time, Rate)>,
    ) -> Option<Scheduler> {
        let discipline = switch.discipline.as_ref();
        let is_strict = discipline.is_none() && changes.is_empty();
        let is_plain = is_strict && switch.pausing.is_none() && switch.credit_queue.is_none();
        if is_plain && !pauses {
            return None;
        }
        let of_destination: Arc<[u16]> = match discipline.map(|d| &d.queues) {
            Some(Queues::ByDestination(queues)) => queues[..].into(),
            _ => [].into(),
        };
        let most = of_destination.iter().max().map_or(7, |&most| most as usize);
        let mut queues: Vec<Queue> = (0..=most).map(|_| Queue::default()).collect();
        let quanta = match discipline.map(|d| &d.service) {
            Some(ServiceOrder::Weighted(quanta)) => &quanta[..],
            _ => &[],
        };
        for (queue, &quantum) in queues.iter_mut().zip(quanta) {
            queue.quantum = quantum.max(1);
        }
        for limit in discipline.iter().flat_map(|d| &d.limits) {
            if let Some(queue) = queues.get_mut(limit.queue as usize) {
                let bucket = TokenBucket::new(limit.rate, limit.burst_bytes);
                queue.shaper = Some(Shaper { bucket, most_bytes: limit.most_bytes });
            }
        }
        let credits = switch.credit_queue.map(|of| Credits::new(&of, rate));
        Some(Scheduler {
            queues,
            urgent: Fifo::EMPTY,
            credits,
            of_destination,
            weighted: !quanta.is_empty(),
            round: (0, false),
            changes,
            rate,
            pace: if rate == Rate::default() { Pace::default() } else { rate.pace() },
            is_strict,
            occupied: 0,
            packets: 0,
            wakes_at: Time::NEVER,
            busy: Span::ZERO,
            pause_state: PauseState::default(),
            credit_drops: 0,
            credit_byte_ps: 0,
        })
    }

    /// The queue that a packet joins.
    fn queue_of(&self, frame: &Frame) -> usize {
        let queue = match self.of_destination.get(frame.dst as usize) {
            Some(&queue) => queue as usize,
            None => frame.priority as usize,
        };
        queue.min(self.queues.len() - 1)
    }

    /// Whether the packet's queue holds as much as it may.
    pub(crate) fn refuses(&self, frame: &Frame) -> bool {
        self.queues[self.queue_of(frame)].refuses(frame)
    }

    /// Whether it has a queue for credits.
    #[inline]
    pub(crate) fn has_credits(&self) -> bool {
        self.credits.is_some()
    }

    /// Whether the queue of credits has no room for this one.
    #[inline]
    pub(crate) fn refuses_credit(&self, frame: &Frame) -> bool {
        self.credits.as_ref().is_some_and(|credits| credits.refuses(frame))
    }

    /// Bytes of credits that wait.
    pub(crate) fn credit_bytes(&self) -> u32 {
        self.credits.as_ref().map_or(0, Credits::bytes)
    }

    /// What the credits that wait have waited until `now`, in byte picoseconds.
    pub(crate) fn credits_waited(&self, now: Time, frames: &[Frame]) -> i128 {
        let waited = |packet: u32| {
            let frame = &frames[packet as usize];
            i128::from(frame.wire_bytes) * i128::from(now.since(frame.at).as_ps())
        };
        self.credits.iter().flat_map(|credits| credits.iter(frames)).map(waited).sum()
    }

    /// Puts a credit at the end of its queue.
    pub(crate) fn push_credit(&mut self, packet: u32, frames: &mut [Frame]) {
        let Some(credits) = &mut self.credits else { return self.push(packet, frames) };
        credits.push(packet, frames);
        self.packets += 1;
    }

    /// Whether a credit that finds the port free leaves at `now` without joining its queue.
    #[inline]
    pub(crate) fn lets_credit_through(&mut self, now: Time, frame: &Frame) -> bool {
        let Some(credits) = self.credits.as_mut().filter(|_| self.is_strict) else { return false };
        let passes = credits.lets_through(now, frame);
        if passes {
            self.busy += self.pace.serialise(frame.wire_bytes as u64);
        }
        passes
    }

    /// Puts `packet` at the end of its queue.
    pub(crate) fn push(&mut self, packet: u32, frames: &mut [Frame]) {
        let frame = &frames[packet as usize];
        let number = self.queue_of(frame);
        let queue = &mut self.queues[number];
        queue.bytes += frame.wire_bytes as u32;
        queue.fifo.push(packet, frames);
        self.occupied |= 1 << (number & 7);
        self.packets += 1;
    }

    /// Whether a packet that finds the port free leaves at `now` without joining a queue.
    #[inline]
    pub(crate) fn lets_through(&mut self, now: Time, frame: &Frame) -> bool {
        let queue = &self.queues[self.queue_of(frame)];
        let passes = self.is_strict && !queue.paused && queue.resumed <= now;
        if passes {
            self.busy += self.pace.serialise(frame.wire_bytes as u64);
        }
        passes
    }

    /// Puts `packet` before all that is not urgent.
    pub(crate) fn push_urgent(&mut self, packet: u32, frames: &mut [Frame]) {
        self.urgent.push(packet, frames);
        self.packets += 1;
    }

    /// Whether it holds nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// When the next transmission starts, at a port that is free from `free_at` on, if nothing else
    /// arrives before; [`Time::NEVER`]: not before something else happens.
    pub(crate) fn next_start(&self, free_at: Time, frames: &[Frame]) -> Time {
        let earliest = |head: u32, from: Time| from.max(frames[head as usize].at).max(free_at);
        let mut start = Time::NEVER;
        if !self.urgent.is_empty() {
            start = earliest(self.urgent.head, Time::ZERO);
        }
        if let Some(credits) = &self.credits {
            start = start.min(credits.ready().max(free_at));
        }
        if self.is_strict {
            let mut left = self.occupied;
            while left != 0 {
                let queue = &self.queues[left.trailing_zeros() as usize];
                let opens = if queue.paused { Time::NEVER } else { queue.resumed };
                start = start.min(earliest(queue.fifo.head, opens));
                left &= left - 1;
            }
            return start;
        }
        for queue in self.queues.iter().filter(|queue| !queue.fifo.is_empty()) {
            start = start.min(earliest(queue.fifo.head, queue.opens(frames)));
        }
        self.when_moving(start)
    }

    /// The first time from `start` on at which the port's rate is not zero.
    fn when_moving(&self, mut start: Time) -> Time {
        let mut rate = self.rate;
        for &(at, next) in &self.changes {
            if at > start && rate != Rate::default() {
                return start;
            }
            (start, rate) = (start.max(at), next);
        }
        if rate == Rate::default() { Time::NEVER } else { start }
    }

    /// Takes up the rate that holds at `start`.
    pub(crate) fn rate_at(&mut self, start: Time) -> Rate {
        while let Some((_, rate)) = self.changes.pop_front_if(|&mut (at, _)| at <= start) {
            self.rate = rate;
            if rate != Rate::default() {
                self.pace = rate.pace();
            }
        }
        self.rate
    }

    /// Takes the packet whose transmission starts at `start`, which is the time that
    /// [`next_start`](Self::next_start) named.
    pub(crate) fn pop(&mut self, start: Time, frames: &[Frame]) -> u32 {
        self.packets -= 1;
        if !self.urgent.is_empty() && frames[self.urgent.head as usize].at <= start {
            return self.sent(self.urgent.head, |scheduler| scheduler.urgent.pop(frames), frames);
        }
        if let Some(credits) = self.credits.as_mut().filter(|credits| credits.ready() <= start) {
            let packet = credits.pop(start, frames);
            self.busy += self.pace.serialise(frames[packet as usize].wire_bytes as u64);
            return packet;
        }
        let number = if self.weighted {
            self.next_by_deficit(start, frames)
        } else {
            self.first(start, frames)
        };
        let head = self.queues[number].fifo.head;
        let packet =
            self.sent(head, |scheduler| scheduler.queues[number].pop(start, frames), frames);
        if self.is_strict && self.queues[number].fifo.is_empty() {
            self.occupied &= !(1 << number);
        }
        packet
    }

    fn sent(
        &mut self,
        packet: u32,
        pop: impl FnOnce(&mut Scheduler) -> u32,
        frames: &[Frame],
    ) -> u32 {
        self.busy += self.pace.serialise(frames[packet as usize].wire_bytes as u64);
        pop(self)
    }

    /// The first queue that may send.
    fn first(&self, start: Time, frames: &[Frame]) -> usize {
        let may = |queue: &Queue| queue.may_send(start, frames);
        // Of strict priorities those before the first that is occupied hold nothing.
        let from = if self.is_strict { self.occupied.trailing_zeros() as usize } else { 0 };
        let first = self.queues.iter().skip(from).position(may);
        from + first.expect("a queue opens when the next start is due")
    }

    /// By deficit round robin: the queue that sends now, its bytes taken off its turn.
    fn next_by_deficit(&mut self, start: Time, frames: &[Frame]) -> usize {
        loop {
            let (at, begun) = self.round;
            let queue = &mut self.queues[at];
            if queue.may_send(start, frames) {
                if !begun {
                    queue.left = queue.left.saturating_add(queue.quantum);
                    self.round.1 = true;
                }
                let bytes = frames[queue.fifo.head as usize].wire_bytes as u32;
                if bytes <= queue.left {
                    queue.left -= bytes;
                    return at;
                }
            } else if queue.fifo.is_empty() {
                queue.left = 0;
            }
            self.round = ((at + 1) % self.queues.len(), false);
        }
    }

    /// From `now` on packets of `priority` stand still, or go on.
    pub(crate) fn pause(&mut self, now: Time, priority: u8, on: bool) {
        if !self.pause_state.set(now, priority, on) {
            return;
        }
        let last = self.queues.len() - 1;
        let queue = &mut self.queues[(priority as usize).min(last)];
        queue.paused = on;
        if !on {
            queue.resumed = now;
        }
    }

    /// The first urgent packet of this kind.
    pub(crate) fn urgent(&self, frames: &[Frame], kind: impl Fn(&Frame) -> bool) -> Option<u32> {
        self.urgent.iter(frames).find(|&packet| kind(&frames[packet as usize]))
    }

    /// Takes every packet, in no order.
    pub(crate) fn drain(&mut self, frames: &[Frame], mut lost: impl FnMut(u32)) {
        self.credits.iter_mut().for_each(|credits| credits.drain(frames, &mut lost));
        let fifos = self.queues.iter_mut().map(|queue| {
            queue.bytes = 0;
            &mut queue.fifo
        });
        for fifo in fifos.chain(std::iter::once(&mut self.urgent)) {
            while !fifo.is_empty() {
                lost(fifo.pop(frames));
            }
        }
        (self.packets, self.occupied) = (0, 0);
    }

    /// Every packet that it holds.
    pub(crate) fn packets<'a>(&'a self, frames: &'a [Frame]) -> impl Iterator<Item = u32> + 'a {
        let all = self.queues.iter().map(|queue| &queue.fifo);
        let all = all.chain(std::iter::once(&self.urgent)).flat_map(|fifo| fifo.iter(frames));
        all.chain(self.credits.iter().flat_map(|credits| credits.iter(frames)))
    }
}

impl Default for Queue {
    fn default() -> Self {
        Queue {
            fifo: Fifo::EMPTY,
            bytes: 0,
            paused: false,
            resumed: Time::ZERO,
            shaper: None,
            quantum: 1,
            left: 0,
        }
    }
}

impl Queue {
    /// Whether it holds as much as it may.
    fn refuses(&self, frame: &Frame) -> bool {
        let with = self.bytes.saturating_add(frame.wire_bytes as u32);
        self.shaper.as_ref().is_some_and(|shaper| with > shaper.most_bytes)
    }

    /// From when on its head may go.
    fn opens(&self, frames: &[Frame]) -> Time {
        let open = match &self.shaper {
            _ if self.paused => Time::NEVER,
            Some(of) => of.bucket.opens_for(frames[self.fifo.head as usize].wire_bytes as u64),
            None => Time::ZERO,
        };
        open.max(self.resumed)
    }

    /// So many bytes begin to leave at `start`.
    fn pay(&mut self, start: Time, bytes: u64) {
        if let Some(shaper) = &mut self.shaper {
            shaper.bucket.pay(start, bytes);
        }
    }

    fn may_send(&self, start: Time, frames: &[Frame]) -> bool {
        !self.fifo.is_empty()
            && self.opens(frames) <= start
            && frames[self.fifo.head as usize].at <= start
    }

    fn pop(&mut self, start: Time, frames: &[Frame]) -> u32 {
        let packet = self.fifo.pop(frames);
        let bytes = frames[packet as usize].wire_bytes as u32;
        self.bytes -= bytes;
        self.pay(start, bytes as u64);
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::fabric::{Buffer, Discipline};

    fn weighted(quantum: u32) -> Scheduler {
        let discipline = Discipline {
            queues: Queues::ByPriority,
            service: ServiceOrder::Weighted(vec![quantum; 8]),
            limits: Vec::new(),
        };
        let switch = Switch {
            name: String::new(),
            latency: Span::ZERO,
            telemetry: false,
            buffer: Buffer::Unlimited,
            ecn: None,
            priorities: 8,
            discipline: Some(discipline),
            pausing: None,
            credit_queue: None,
        };
        Scheduler::new(&switch, Rate::gbps(1), false, VecDeque::new()).unwrap()
    }

    #[test]
    fn a_queue_that_runs_empty_saves_nothing_of_its_turn() {
        let mut scheduler = weighted(5_000);
        let frame = |packet: u8| Frame {
            wire_bytes: 1_000,
            priority: packet % 2,
            next: NIL,
            ..Frame::default()
        };
        let mut frames: Vec<Frame> = (0..30).map(frame).collect();
        let mut served = Vec::new();
        // One of each; then many of each.
        for packets in [0..2, 2..30] {
            packets.clone().for_each(|packet| scheduler.push(packet, &mut frames));
            let pops = packets.map(|_| scheduler.pop(Time::ZERO, &frames));
            served.extend(pops.map(|packet| frames[packet as usize].priority));
        }
        // Queue 1 goes on with its turn; queue 0 begins one, and has no more than that.
        let begin = [0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1];
        assert_eq!(served[..begin.len()], begin);
    }
}
