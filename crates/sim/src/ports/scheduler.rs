//! Schedulers: the queues of ports that are not plain strict-priority ports. A scheduler selects
//! the next packet and its earliest start.
//!
//! A plain port sends the head of its first non-empty queue as soon as it is free. With a
//! scheduler, priorities are strict, too, but credits may have a shaped queue of their own, and
//! queues may be paused. A scheduler answers only one question: the earliest start of the next
//! transmission. This depends only on the packets that have arrived by then, so these ports are
//! committed lazily, too. A port needs an event of its own only if it is idle and may not send yet
//! what it holds.

use tidegate_core::fabric::{Fabric, Node, PortEnds, Switch};
use tidegate_core::{Frame, Rate, Time};

use crate::ports::credits::Credits;
use crate::ports::fifo::Fifo;
use crate::ports::pause_state::PauseState;
use crate::ports::port::{Port, flag};

/// Number of queues of a port: one per priority.
const QUEUES: usize = 8;

/// Queues of a port.
pub(crate) struct Scheduler {
    /// By priority: lower ones are served first.
    queues: [Queue; QUEUES],
    /// Non-empty queues, one bit each.
    occupied: u8,
    /// Served before all others, even if classes are paused.
    urgent: Fifo,
    /// Credits: served before the queues as soon as the token bucket allows.
    credits: Option<Credits>,
    /// Number of packets held.
    packets: u32,
    /// Time of the port's own event; [`Time::NEVER`] if it has none.
    pub(crate) wakes_at: Time,
    pub(crate) pause_state: PauseState,
    /// If no class is paused, a packet that finds the port free leaves as from a plain port.
    has_shortcut: bool,
    /// Credits dropped because their queue was full.
    pub(crate) credit_drops: u64,
    /// Waiting since warm-up of the credits that have left, in byte picoseconds. Waiting before
    /// warm-up is subtracted in advance for the credits that were queued at that time.
    pub(crate) credit_byte_ps: i128,
}

#[derive(Clone, Copy)]
struct Queue {
    fifo: Fifo,
    paused: bool,
    /// Time of the last resume.
    resumed: Time,
}

/// Returns whether every port of the switch needs a scheduler.
pub(crate) fn needs_scheduler(switch: &Switch) -> bool {
    switch.pausing.is_some() || switch.credit_queue.is_some()
}

impl Scheduler {
    /// The scheduler of a port; `None` if the port is plain or belongs to a host.
    pub(crate) fn new(fabric: &Fabric, port: u32) -> Option<Scheduler> {
        let PortEnds { from: Node::Switch(switch), to } = fabric.port_ends(port) else {
            return None;
        };
        let pauses = |to: u32| fabric.switches[to as usize].pausing.is_some();
        let switch = &fabric.switches[switch as usize];
        if !needs_scheduler(switch) && !matches!(to, Node::Switch(to) if pauses(to)) {
            return None;
        }
        let rate = fabric.rate(port);
        Some(Scheduler {
            queues: [Queue::EMPTY; QUEUES],
            occupied: 0,
            urgent: Fifo::EMPTY,
            credits: switch.credit_queue.map(|of| Credits::new(&of, rate)),
            packets: 0,
            wakes_at: Time::NEVER,
            pause_state: PauseState::default(),
            has_shortcut: false,
            credit_drops: 0,
            credit_byte_ps: 0,
        })
    }

    /// Permits the shortcut at `port`, unless a packet that finds it free may need the scheduler or
    /// may be refused.
    pub(crate) fn permit_shortcut(&mut self, port: &mut Port) {
        let needs_more = flag::NO_SHORTCUT | flag::LIMITED;
        self.has_shortcut = port.flags & needs_more == 0 && !self.has_credits();
        self.set_shortcut(port);
    }

    /// Opens the shortcut at `port` if no class is paused.
    fn set_shortcut(&self, port: &mut Port) {
        match self.has_shortcut && self.pause_state.classes == 0 {
            true => port.flags &= !flag::NO_SHORTCUT,
            false => port.flags |= flag::NO_SHORTCUT,
        }
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
    pub(crate) fn credit_bypasses_queue(&mut self, now: Time, frame: &Frame) -> bool {
        self.credits.as_mut().is_some_and(|credits| credits.bypasses_queue(now, frame))
    }

    /// Appends `packet` to its queue.
    pub(crate) fn push(&mut self, packet: u32, frames: &mut [Frame]) {
        let number = queue_of(frames[packet as usize].priority);
        self.queues[number].fifo.push(packet, frames);
        self.occupied |= 1 << number;
        self.packets += 1;
    }

    /// Returns whether a packet at a free port leaves at `now` without being queued.
    #[inline]
    pub(crate) fn bypasses_queue(&self, now: Time, frame: &Frame) -> bool {
        self.queues[queue_of(frame.priority)].opens() <= now
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
        for queue in self.occupied().map(|number| &self.queues[number]) {
            start = start.min(earliest(queue.fifo.head(), queue.opens()));
        }
        start
    }

    /// Sets the rate of the transmissions that start from now on.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        self.credits.iter_mut().for_each(|credits| credits.set_rate(rate));
    }

    /// Takes the packet whose transmission starts at `start`, which must be the time that
    /// [`next_start`](Self::next_start) returned.
    pub(crate) fn pop(&mut self, start: Time, frames: &[Frame]) -> u32 {
        self.packets -= 1;
        let arrived = |head: u32| frames[head as usize].at <= start;
        if !self.urgent.is_empty() && arrived(self.urgent.head()) {
            self.urgent.pop(frames)
        } else if let Some(credits) = self.credits.as_mut().filter(|all| all.ready() <= start) {
            credits.pop(start, frames)
        } else {
            let may_send = |queue: &Queue| queue.opens() <= start && arrived(queue.fifo.head());
            let mut occupied = self.occupied();
            let number = occupied
                .find(|&number| may_send(&self.queues[number]))
                .expect("a queue opens when the next start is due");
            let fifo = &mut self.queues[number].fifo;
            let packet = fifo.pop(frames);
            if fifo.is_empty() {
                self.occupied &= !(1 << number);
            }
            packet
        }
    }

    /// Non-empty queues, in the order in which they are served.
    #[inline]
    fn occupied(&self) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.occupied;
        std::iter::from_fn(move || {
            let first = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (first < QUEUES).then_some(first)
        })
    }

    /// Pauses or resumes `priority` at `now`. `port` is the port of this scheduler.
    pub(crate) fn pause(&mut self, port: &mut Port, now: Time, priority: u8, on: bool) {
        if !self.pause_state.set(now, priority, on) {
            return;
        }
        let queue = &mut self.queues[queue_of(priority)];
        queue.paused = on;
        if !on {
            queue.resumed = now;
        }
        self.set_shortcut(port);
    }

    /// The first urgent packet for which `kind` holds.
    pub(crate) fn urgent(&self, frames: &[Frame], kind: impl Fn(&Frame) -> bool) -> Option<u32> {
        self.urgent.iter(frames).find(|&packet| kind(&frames[packet as usize]))
    }

    /// Removes every packet, in no order.
    pub(crate) fn drain(&mut self, frames: &[Frame], mut lost: impl FnMut(u32)) {
        self.credits.iter_mut().for_each(|credits| credits.drain(frames, &mut lost));
        let fifos = self.queues.iter_mut().map(|queue| &mut queue.fifo);
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

impl Queue {
    const EMPTY: Queue = Queue { fifo: Fifo::EMPTY, paused: false, resumed: Time::ZERO };

    /// Earliest time at which a packet may leave, by its pauses.
    #[inline]
    fn opens(&self) -> Time {
        if self.paused { Time::NEVER } else { self.resumed }
    }
}

/// Index of the queue for packets of a priority.
#[inline]
fn queue_of(priority: u8) -> usize {
    (priority as usize).min(QUEUES - 1)
}
