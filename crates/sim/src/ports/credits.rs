//! The credit queue of a port: short, and shaped by a token bucket.

use tidegate_core::fabric::CreditQueue;
use tidegate_core::{Frame, Rate, Time, TokenBucket};

use crate::ports::fifo::Fifo;
use crate::ports::packets::NIL;

/// Credits queued at a port.
pub(crate) struct Credits {
    fifo: Fifo,
    /// Time from which the head may leave: it has arrived, and the bucket has tokens for it.
    /// [`Time::NEVER`] if the queue is empty.
    ready: Time,
    bytes: u32,
    queue: CreditQueue,
    bucket: TokenBucket,
}

impl Credits {
    pub(crate) fn new(queue: &CreditQueue, link: Rate) -> Credits {
        Credits {
            fifo: Fifo::EMPTY,
            ready: Time::NEVER,
            bytes: 0,
            queue: *queue,
            bucket: TokenBucket::new(queue.rate(link), queue.burst_bytes),
        }
    }

    /// Sets the rate of the link from now on. The head keeps its time.
    pub(crate) fn set_rate(&mut self, link: Rate) {
        self.bucket = self.bucket.at_rate(self.queue.rate(link), self.queue.burst_bytes);
    }

    #[inline]
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    #[inline]
    pub(crate) fn ready(&self) -> Time {
        self.ready
    }

    /// Returns whether the queue has no room for this credit.
    #[inline]
    pub(crate) fn refuses(&self, frame: &Frame) -> bool {
        self.bytes.saturating_add(frame.wire_bytes as u32) > self.queue.bytes
    }

    pub(crate) fn push(&mut self, packet: u32, frames: &mut [Frame]) {
        self.bytes += frames[packet as usize].wire_bytes as u32;
        let was_empty = self.fifo.is_empty();
        self.fifo.push(packet, frames);
        if was_empty {
            self.ready = self.opens_for(&frames[packet as usize]);
        }
    }

    /// Takes the head, whose transmission starts at `start`.
    pub(crate) fn pop(&mut self, start: Time, frames: &[Frame]) -> u32 {
        let packet = self.fifo.pop(frames);
        let bytes = frames[packet as usize].wire_bytes as u32;
        self.bytes -= bytes;
        self.bucket.charge(start, bytes as u64);
        self.ready = match self.fifo.head() {
            NIL => Time::NEVER,
            head => self.opens_for(&frames[head as usize]),
        };
        packet
    }

    /// Returns whether a credit may pass an empty queue at `now`. If so, charges it to the bucket.
    #[inline]
    pub(crate) fn bypasses_queue(&mut self, now: Time, frame: &Frame) -> bool {
        let bytes = frame.wire_bytes as u64;
        let passes = self.bucket.opens_for(bytes) <= now;
        if passes {
            self.bucket.charge(now, bytes);
        }
        passes
    }

    /// All queued credits.
    pub(crate) fn iter<'a>(&self, frames: &'a [Frame]) -> impl Iterator<Item = u32> + 'a {
        self.fifo.iter(frames)
    }

    /// Removes all queued credits.
    pub(crate) fn drain(&mut self, frames: &[Frame], mut lost: impl FnMut(u32)) {
        while !self.fifo.is_empty() {
            lost(self.fifo.pop(frames));
        }
        (self.bytes, self.ready) = (0, Time::NEVER);
    }

    fn opens_for(&self, head: &Frame) -> Time {
        self.bucket.opens_for(head.wire_bytes as u64).max(head.at)
    }
}
