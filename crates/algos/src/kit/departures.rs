//! Departure times of outstanding packets, so that each has a timeout of its own: where packets
//! take many paths, later arrivals say nothing about earlier packets, and a timer of the connection
//! would run only when nothing arrives. Used by windowed connections and by EQDS.

use alloc::collections::VecDeque;

use tidegate_core::Time;

/// Departures of a connection's packets.
#[derive(Default)]
pub(crate) struct Departures {
    /// The first packet in `latest`.
    base: u64,
    /// The latest departure of each packet.
    latest: VecDeque<Time>,
    /// All departures in order; also of packets that have arrived or have left again since.
    order: VecDeque<(u64, Time)>,
    /// The latest entropy of each packet, if losses concern its path.
    entropies: VecDeque<u32>,
    /// Time at which timeouts doubled last. A packet that left earlier keeps its timeout.
    pub(crate) doubled_at: Time,
}

impl Departures {
    /// A packet leaves: the next new one, or one that left before.
    pub(crate) fn record(&mut self, seq: u64, now: Time) {
        match self.latest.get_mut((seq - self.base) as usize) {
            Some(latest) => *latest = now,
            None => self.latest.push_back(now),
        }
        self.order.push_back((seq, now));
    }

    /// A packet leaves with this entropy. To be called for all packets or for none.
    pub(crate) fn record_entropy(&mut self, seq: u64, entropy: u32) {
        match self.entropies.get_mut((seq - self.base) as usize) {
            Some(latest) => *latest = entropy,
            None => self.entropies.push_back(entropy),
        }
    }

    /// The latest entropy of a packet in flight, if it is known.
    pub(crate) fn entropy(&self, seq: u64) -> Option<u32> {
        self.entropies.get(seq.checked_sub(self.base)? as usize).copied()
    }

    /// Every packet below `una` has arrived.
    pub(crate) fn advance(&mut self, una: u64) {
        let gone = ((una - self.base) as usize).min(self.latest.len());
        self.latest.drain(..gone);
        self.entropies.drain(..gone.min(self.entropies.len()));
        self.base = una;
        // The record must not grow until the next call of `first`.
        while self.order.front().is_some_and(|&(seq, _)| seq < una) {
            self.order.pop_front();
        }
    }

    /// Whether a packet that has not arrived left later than at `time`.
    pub(crate) fn has_left_since(&self, seq: u64, time: Time) -> bool {
        let place = seq.checked_sub(self.base);
        place.and_then(|place| self.latest.get(place as usize)).is_some_and(|&at| at > time)
    }

    /// The packet in flight that left first, and its departure. `is_resolved` returns whether a
    /// packet has arrived or counts as lost.
    pub(crate) fn first(&mut self, is_resolved: impl Fn(u64) -> bool) -> Option<(u64, Time)> {
        while let Some(&(seq, at)) = self.order.front() {
            let place = seq.checked_sub(self.base).map(|place| place as usize);
            let is_latest = place.and_then(|place| self.latest.get(place)) == Some(&at);
            if is_latest && !is_resolved(seq) {
                return Some((seq, at));
            }
            self.order.pop_front();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_is_the_oldest_latest_departure() {
        let mut departures = Departures::default();
        (0..7).for_each(|seq| departures.record(seq, Time::ZERO));
        departures.advance(7);
        (7..11).for_each(|seq| departures.record(seq, Time::us(seq)));
        assert_eq!(departures.first(|_| false), Some((7, Time::us(7))));
        // 7 leaves again, 8 has arrived.
        assert!(!departures.has_left_since(7, Time::us(7)));
        departures.record(7, Time::us(20));
        assert!(departures.has_left_since(7, Time::us(7)));
        assert!(![6, 8, 11].iter().any(|&seq| departures.has_left_since(seq, Time::us(8))));
        assert_eq!(departures.first(|seq| seq == 8), Some((9, Time::us(9))));
        departures.advance(10);
        assert_eq!(departures.first(|_| false), Some((10, Time::us(10))));
        departures.record(11, Time::us(21));
        departures.advance(12);
        assert_eq!(departures.first(|_| false), None);
        departures.record(12, Time::us(22));
        assert_eq!(departures.first(|_| false), Some((12, Time::us(22))));
    }

    #[test]
    fn entropy_is_that_of_the_latest_departure() {
        let mut departures = Departures::default();
        for (seq, entropy) in [(0, 5), (1, 6), (2, 7), (1, 8)] {
            departures.record_entropy(seq, entropy);
            departures.record(seq, Time::ZERO);
        }
        departures.advance(1);
        let known: [_; 4] = core::array::from_fn(|seq| departures.entropy(seq as u64));
        assert_eq!(known, [None, Some(8), Some(7), None]);
    }
}
