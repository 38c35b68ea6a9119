//! The credit queue of a host's own link: short, and shaped like those of switches.
//!
//! In the simulator no queue precedes an uplink, so this queue is part of the transport. All
//! messages that a host receives share it, and credits beyond the link's share are dropped here.

use alloc::collections::VecDeque;

use tidegate_core::fabric::CreditQueue;
use tidegate_core::{Rate, Time, TokenBucket};

use super::header::Credit;

/// A credit on its way to the link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Leaving {
    pub(super) dst: u32,
    pub(super) credit: Credit,
    pub(super) wire_bytes: u32,
}

/// Credits that wait for the token bucket.
pub(super) struct Nic {
    waiting: VecDeque<Leaving>,
    bytes: u32,
    most_bytes: u32,
    bucket: TokenBucket,
    /// Time from which the first credit may leave; never if there is none.
    opens_at: Time,
}

impl Nic {
    pub(super) fn new(link: Rate, queue: &CreditQueue) -> Nic {
        Nic {
            waiting: VecDeque::new(),
            bytes: 0,
            most_bytes: queue.bytes,
            bucket: TokenBucket::new(queue.rate(link), queue.burst_bytes),
            opens_at: Time::NEVER,
        }
    }

    /// Queues a credit, or drops it if there is no room.
    pub(super) fn offer(&mut self, leaving: Leaving) {
        let bytes = self.bytes.saturating_add(leaving.wire_bytes);
        if bytes <= self.most_bytes {
            self.bytes = bytes;
            self.waiting.push_back(leaving);
            if self.waiting.len() == 1 {
                self.open();
            }
        }
    }

    /// Drops the queued credits to `dst`.
    pub(super) fn drop_to(&mut self, dst: u32) {
        self.waiting.retain(|leaving| leaving.dst != dst);
        self.bytes = self.waiting.iter().map(|leaving| leaving.wire_bytes).sum();
        self.open();
    }

    /// Updates the time of the first credit after a change.
    fn open(&mut self) {
        let first = self.waiting.front();
        let opens = |first: &Leaving| self.bucket.opens_for(first.wire_bytes as u64);
        self.opens_at = first.map_or(Time::NEVER, opens);
    }

    /// Time from which the first credit may leave; never if there is none.
    #[inline]
    pub(super) fn opens_at(&self) -> Time {
        self.opens_at
    }

    /// Takes the first credit if it may leave.
    #[inline]
    pub(super) fn pop(&mut self, now: Time) -> Option<Leaving> {
        if self.opens_at() > now {
            return None;
        }
        let leaving = self.waiting.pop_front()?;
        self.bytes -= leaving.wire_bytes;
        self.bucket.charge(now, leaving.wire_bytes as u64);
        self.open();
        Some(leaving)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use tidegate_core::Span;

    fn nic() -> Nic {
        let queue = CreditQueue { share: 84.0 / 1622.0, bytes: 672, burst_bytes: 168 };
        Nic::new(Rate::gbps(100), &queue)
    }

    fn numbered(credit: u32) -> Leaving {
        Leaving { dst: 1, credit: Credit { credit, ..Credit::default() }, wire_bytes: 84 }
    }

    #[test]
    fn burst_of_two_leaves_then_the_shares_pace() {
        let mut nic = nic();
        (0..12).for_each(|number| nic.offer(numbered(number)));
        let start = Time::us(5);
        let mut times = Vec::new();
        let mut now = start;
        while nic.opens_at() < Time::NEVER {
            now = now.max(nic.opens_at());
            let left = nic.pop(now).unwrap();
            assert_eq!(left.credit.credit as usize, times.len());
            times.push(now);
        }
        // Eight fit into the queue; one credit for each full packet of the link, 129.76 ns.
        assert_eq!(times.len(), 8);
        assert!(nic.is_empty());
        assert_eq!(times[..2], [start, start]);
        for (i, at) in times.iter().enumerate().skip(2) {
            let expected = start + Rate::gbps(100).serialise(1622).times(i as u64 - 1);
            assert!(at.as_ps().abs_diff(expected.as_ps()) < 50, "{at} for {expected}");
        }
    }

    #[test]
    fn dropped_credits_free_their_room_and_place() {
        let mut nic = nic();
        (0..8).for_each(|number| nic.offer(Leaving { dst: number % 2, ..numbered(number) }));
        nic.drop_to(0);
        (8..20).for_each(|number| nic.offer(numbered(number)));
        let left = core::iter::from_fn(|| nic.pop(nic.opens_at())).map(|left| left.credit.credit);
        assert!(left.eq([1, 3, 5, 7, 8, 9, 10, 11]));
        nic.offer(numbered(0));
        nic.drop_to(1);
        assert!(nic.is_empty() && nic.opens_at() == Time::NEVER);
    }

    #[test]
    fn nothing_leaves_before_it_is_paid_for() {
        let mut nic = nic();
        (0..3).for_each(|number| nic.offer(numbered(number)));
        assert!(nic.pop(Time::us(1)).is_some() && nic.pop(Time::us(1)).is_some());
        let opens_at = nic.opens_at();
        assert!(opens_at > Time::us(1));
        assert_eq!(nic.pop(opens_at - Span::ps(1)), None);
        assert!(nic.pop(opens_at).is_some());
        assert_eq!((nic.opens_at(), nic.pop(Time::ms(1))), (Time::NEVER, None));
    }
}
