//! Schedulers: the queues of ports that are not plain strict-priority ports. A scheduler selects
//! the next packet and its earliest start.
//!
//! A plain port sends the head of its first non-empty queue as soon as it is free. With a
//! scheduler, credits may have a shaped queue of their own; queues may be shaped, per destination
//! (virtual output queues), weighted or paused; and the port's rate may change. A scheduler answers
//! only one question: the earliest start of the next transmission. This depends only on the packets
//! that have arrived by then, so these ports are committed lazily, too. A port needs an event of
//! its own only if it is idle and may not send yet what it holds.

use std::sync::Arc;

use tidegate_core::fabric::{Queues, ServiceOrder, Switch};
use tidegate_core::{Frame, Pace, Rate, Span, Time, TokenBucket};

use crate::ports::credits::Credits;
use crate::ports::fifo::Fifo;
use crate::ports::pause_state::PauseState;

/// Queues of a port and their service discipline.
pub(crate) struct Scheduler {
    queues: Vec<Queue>,
    /// Served before all others, even if classes are paused.
    urgent: Fifo,
    /// Credits: served before the queues as soon as the token bucket allows.
    credits: Option<Credits>,
    /// Queue index by destination host. Empty if queues are by priority.
    of_destination: Arc<[u16]>,
    weighted: bool,
    /// Deficit round robin: current queue, and whether it has received its quantum for this round.
    round: (usize, bool),
    /// Rate of the port. At rate zero nothing starts.
    /// Pace at the present rate.
    pace: Pace,
    /// Strict priorities at a constant rate, possibly with pauses and credits.
    is_strict: bool,
    /// Non-empty queues, one bit each. Used only if `is_strict`.
    occupied: u8,
    /// Number of packets held.
    packets: u32,
    /// Time of the port's own event; [`Time::NEVER`] if it has none.
    pub(crate) wakes_at: Time,
    /// Time spent sending.
    pub(crate) busy: Span,
    pub(crate) pause_state: PauseState,
    /// Credits dropped because their queue was full.
    pub(crate) credit_drops: u64,
    /// Waiting since warm-up of the credits that have left, in byte picoseconds. Waiting before
    /// warm-up is subtracted in advance for the credits that were queued at that time.
    pub(crate) credit_byte_ps: i128,
}

struct Queue {
    fifo: Fifo,
    bytes: u32,
    paused: bool,
    /// Time of the last resume.
    resumed: Time,
    shaper: Option<Shaper>,
    /// Quantum in bytes, and the bytes left of it in this round.
    quantum: u32,
    left: u32,
}

/// Shaper and limit of a queue.
struct Shaper {
    bucket: TokenBucket,
    most_bytes: u32,
}

impl Scheduler {
    /// The scheduler of a port of `switch`; `None` if the port is plain. `pauses` is set if the
    /// other end of the link may pause the port.
    pub(crate) fn new(switch: &Switch, rate: Rate, pauses: bool) -> Option<Scheduler> {
        let discipline = switch.discipline.as_ref();
        let is_strict = discipline.is_none();
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
            pace: rate.pace(),
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

    /// Index of the queue for a packet.
    fn queue_of(&self, frame: &Frame) -> usize {
        let queue = match self.of_destination.get(frame.dst as usize) {
            Some(&queue) => queue as usize,
            None => frame.priority as usize,
        };
        queue.min(self.queues.len() - 1)
    }

    /// Returns whether the packet's queue has no room for it.
    pub(crate) fn refuses(&self, frame: &Frame) -> bool {
        self.queues[self.queue_of(frame)].refuses(frame)
    }

    /// Returns whether there is a queue for credits.
    #[inline]
    pub(crate) fn has_credits(&self) -> bool {
        self.credits.is_some()
    }

    /// Returns whether the credit queue has no room for this credit.
    #[inline]
    pub(crate) fn refuses_credit(&self, frame: &Frame) -> bool {
        self.credits.as_ref().is_some_and(|credits| credits.refuses(frame))
    }

    /// Bytes of queued credits.
    pub(crate) fn credit_bytes(&self) -> u32 {
        self.credits.as_ref().map_or(0, Credits::bytes)
    }

    /// Waiting of the queued credits until `now`, in byte picoseconds.
    pub(crate) fn credits_waited(&self, now: Time, frames: &[Frame]) -> i128 {
        let waited = |packet: u32| {
            let frame = &frames[packet as usize];
            i128::from(frame.wire_bytes) * i128::from(now.since(frame.at).as_ps())
        };
        self.credits.iter().flat_map(|credits| credits.iter(frames)).map(waited).sum()
    }

    /// Appends a credit to its queue.
    pub(crate) fn push_credit(&mut self, packet: u32, frames: &mut [Frame]) {
        let Some(credits) = &mut self.credits else { return self.push(packet, frames) };
        credits.push(packet, frames);
        self.packets += 1;
    }

    /// Returns whether a credit at a free port leaves at `now` without being queued.
    #[inline]
    pub(crate) fn lets_credit_through(&mut self, now: Time, frame: &Frame) -> bool {
        let Some(credits) = self.credits.as_mut().filter(|_| self.is_strict) else { return false };
        let passes = credits.lets_through(now, frame);
        if passes {
            self.busy += self.pace.serialise(frame.wire_bytes as u64);
        }
        passes
    }

    /// Appends `packet` to its queue.
    pub(crate) fn push(&mut self, packet: u32, frames: &mut [Frame]) {
        let frame = &frames[packet as usize];
        let number = self.queue_of(frame);
        let queue = &mut self.queues[number];
        queue.bytes += frame.wire_bytes as u32;
        queue.fifo.push(packet, frames);
        self.occupied |= 1 << (number & 7);
        self.packets += 1;
    }

    /// Returns whether a packet at a free port leaves at `now` without being queued.
    #[inline]
    pub(crate) fn lets_through(&mut self, now: Time, frame: &Frame) -> bool {
        let queue = &self.queues[self.queue_of(frame)];
        let passes = self.is_strict && !queue.paused && queue.resumed <= now;
        if passes {
            self.busy += self.pace.serialise(frame.wire_bytes as u64);
        }
        passes
    }

    /// Queues `packet` ahead of all packets that are not urgent.
    pub(crate) fn push_urgent(&mut self, packet: u32, frames: &mut [Frame]) {
        self.urgent.push(packet, frames);
        self.packets += 1;
    }

    /// Returns whether no packet is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Start of the next transmission if the port is free from `free_at` on and nothing else
    /// arrives before. [`Time::NEVER`] if it depends on another event.
    pub(crate) fn next_start(&self, free_at: Time, frames: &[Frame]) -> Time {
        let earliest = |head: u32, from: Time| from.max(frames[head as usize].at).max(free_at);
        let mut start = Time::NEVER;
        if !self.urgent.is_empty() {
            start = earliest(self.urgent.head(), Time::ZERO);
        }
        if let Some(credits) = &self.credits {
            start = start.min(credits.ready().max(free_at));
        }
        if self.is_strict {
            let mut left = self.occupied;
            while left != 0 {
                let queue = &self.queues[left.trailing_zeros() as usize];
                let opens = if queue.paused { Time::NEVER } else { queue.resumed };
                start = start.min(earliest(queue.fifo.head(), opens));
                left &= left - 1;
            }
            return start;
        }
        for queue in self.queues.iter().filter(|queue| !queue.fifo.is_empty()) {
            start = start.min(earliest(queue.fifo.head(), queue.opens(frames)));
        }
        start
    }

    /// Sets the rate of the transmissions that start from now on.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        self.pace = rate.pace();
        self.credits.iter_mut().for_each(|credits| credits.set_rate(rate));
    }

    /// Takes the packet whose transmission starts at `start`, which must be the time that
    /// [`next_start`](Self::next_start) returned.
    pub(crate) fn pop(&mut self, start: Time, frames: &[Frame]) -> u32 {
        self.packets -= 1;
        if !self.urgent.is_empty() && frames[self.urgent.head() as usize].at <= start {
            return self.sent(self.urgent.head(), |scheduler| scheduler.urgent.pop(frames), frames);
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
        let head = self.queues[number].fifo.head();
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
        // With strict priorities, queues below the first occupied index are empty.
        let from = if self.is_strict { self.occupied.trailing_zeros() as usize } else { 0 };
        let first = self.queues.iter().skip(from).position(may);
        from + first.expect("a queue opens when the next start is due")
    }

    /// Deficit round robin: selects the queue that sends now, and deducts the packet from its
    /// deficit.
    fn next_by_deficit(&mut self, start: Time, frames: &[Frame]) -> usize {
        loop {
            let (at, begun) = self.round;
            let queue = &mut self.queues[at];
            if queue.may_send(start, frames) {
                if !begun {
                    queue.left = queue.left.saturating_add(queue.quantum);
                    self.round.1 = true;
                }
                let bytes = frames[queue.fifo.head() as usize].wire_bytes as u32;
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

    /// Pauses or resumes `priority` at `now`.
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

    /// The first urgent packet for which `kind` holds.
    pub(crate) fn urgent(&self, frames: &[Frame], kind: impl Fn(&Frame) -> bool) -> Option<u32> {
        self.urgent.iter(frames).find(|&packet| kind(&frames[packet as usize]))
    }

    /// Removes every packet, in no order.
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

    /// All packets that are held.
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
    /// Returns whether the queue has no room for the packet.
    fn refuses(&self, frame: &Frame) -> bool {
        let with = self.bytes.saturating_add(frame.wire_bytes as u32);
        self.shaper.as_ref().is_some_and(|shaper| with > shaper.most_bytes)
    }

    /// Earliest time at which its head may leave.
    fn opens(&self, frames: &[Frame]) -> Time {
        let open = match &self.shaper {
            _ if self.paused => Time::NEVER,
            Some(of) => of.bucket.opens_for(frames[self.fifo.head() as usize].wire_bytes as u64),
            None => Time::ZERO,
        };
        open.max(self.resumed)
    }

    /// Charges `bytes` that start at `start` to the shaper.
    fn pay(&mut self, start: Time, bytes: u64) {
        if let Some(shaper) = &mut self.shaper {
            shaper.bucket.pay(start, bytes);
        }
    }

    fn may_send(&self, start: Time, frames: &[Frame]) -> bool {
        !self.fifo.is_empty()
            && self.opens(frames) <= start
            && frames[self.fifo.head() as usize].at <= start
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
    use crate::ports::packets::NIL;
    use tidegate_core::fabric::{Buffer, Discipline, Stamping};

    fn weighted(quantum: u32) -> Scheduler {
        let discipline = Discipline {
            queues: Queues::ByPriority,
            service: ServiceOrder::Weighted(vec![quantum; 8]),
            limits: Vec::new(),
        };
        let switch = Switch {
            name: String::new(),
            latency: Span::ZERO,
            telemetry: Stamping::Off,
            buffer: Buffer::Unlimited,
            ecn: None,
            priorities: 8,
            discipline: Some(discipline),
            pausing: None,
            credit_queue: None,
            trimming: None,
        };
        Scheduler::new(&switch, Rate::gbps(1), false).unwrap()
    }

    #[test]
    fn empty_queue_keeps_no_deficit() {
        let mut scheduler = weighted(5_000);
        let frame = |packet: u8| Frame {
            wire_bytes: 1_000,
            priority: packet % 2,
            next: NIL,
            ..Frame::default()
        };
        let mut frames: Vec<Frame> = (0..30).map(frame).collect();
        let mut served = Vec::new();
        // One packet of each queue; then many of each.
        for packets in [0..2, 2..30] {
            packets.clone().for_each(|packet| scheduler.push(packet, &mut frames));
            let pops = packets.map(|_| scheduler.pop(Time::ZERO, &frames));
            served.extend(pops.map(|packet| frames[packet as usize].priority));
        }
        // Queue 1 continues its round; queue 0 begins one, and gets no more than one quantum.
        let begin = [0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1];
        assert_eq!(served[..begin.len()], begin);
    }
}
