//! The event list: one pending entry a source, in a 4-ary heap of bare 64-bit keys.
//!
//! A key is the time since a moving epoch (44 bits of picoseconds, 17.6 s) above the rank of its source (20 bits). The rank is
//! a bijection of the source that depends on the time, so the key alone names the source; equal times are ordered by
//! content, whatever the order of insertion, and no source wins every tie of a run.

use tidegate_core::Time;

const RANK_BITS: u32 = 20;
/// Most sources: links in both directions, hosts and a few more.
pub(crate) const MAX_SOURCES: usize = 1 << RANK_BITS;
const RANK_MASK: u64 = (1 << RANK_BITS) - 1;
/// Furthest an entry can lie ahead of the epoch.
const HORIZON: u64 = (1 << (64 - RANK_BITS)) - 1;
/// What the time turns sources into ranks with, by exclusive or: of two sources, the highest bit in which they differ decides,
/// and the time flips it half of the time.
#[inline(always)]
fn scramble(at: u64) -> u64 {
    at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RANK_BITS)
}

/// Pending events, at most one meaningful entry a source; stale entries are their reader's to recognise.
#[derive(Default)]
pub(crate) struct EventList {
    keys: Vec<u64>,
    epoch: u64,
    /// The top has been handled and waits to be replaced or removed.
    hole: bool,
}

impl EventList {
    pub(crate) fn with_capacity(sources: usize) -> Self {
        EventList { keys: Vec::with_capacity(sources * 2), ..Self::default() }
    }

    #[inline]
    fn key(&self, at: Time, source: u32) -> u64 {
        debug_assert!(at.as_ps() >= self.epoch);
        // An event beyond the horizon fires there, early; its reader finds nothing to do and inserts it again.
        let since = (at.as_ps() - self.epoch).min(HORIZON);
        since << RANK_BITS | (source as u64 ^ scramble(self.epoch + since))
    }

    /// The earliest event: the top becomes a hole, to be filled by the next [`insert`](Self::insert) or closed by [`close`](Self::close).
    #[inline]
    pub(crate) fn take_until(&mut self, until: Time) -> Option<(Time, u32)> {
        let key = *self.keys.first()?;
        let at = self.epoch + (key >> RANK_BITS);
        if at > until.as_ps() {
            return None;
        }
        self.hole = true;
        Some((Time::ps(at), (key & RANK_MASK ^ scramble(at)) as u32))
    }

    /// Ends the handling of the event taken last.
    #[inline]
    pub(crate) fn close(&mut self) {
        if self.hole {
            self.hole = false;
            if let Some(last) = self.keys.pop()
                && !self.keys.is_empty()
            {
                self.sift_down(last);
            }
        }
    }

    #[inline]
    pub(crate) fn insert(&mut self, at: Time, source: u32) {
        let key = self.key(at, source);
        if self.hole {
            self.hole = false;
            self.sift_down(key);
        } else {
            self.keys.push(key);
            self.sift_up(self.keys.len() - 1, key);
        }
    }

    #[inline]
    fn sift_up(&mut self, mut at: usize, key: u64) {
        while at > 0 {
            let parent = (at - 1) / 4;
            if self.keys[parent] <= key {
                break;
            }
            self.keys[at] = self.keys[parent];
            at = parent;
        }
        self.keys[at] = key;
    }

    /// Puts `key` in the place of the top.
    fn sift_down(&mut self, key: u64) {
        let keys = &mut self.keys[..];
        let mut at = 0;
        loop {
            let first = 4 * at + 1;
            let (child, least) = if let Some(&[k0, k1, k2, k3]) = keys.get(first..).and_then(<[u64]>::first_chunk) {
                let (a, ka) = (first + (k1 < k0) as usize, k0.min(k1));
                let (b, kb) = (first + 2 + (k3 < k2) as usize, k2.min(k3));
                (if kb < ka { b } else { a }, ka.min(kb))
            } else {
                let Some((i, k)) = keys.get(first..).and_then(|rest| rest.iter().enumerate().min_by_key(|(_, k)| **k)) else {
                    break;
                };
                (first + i, *k)
            };
            if key <= least {
                break;
            }
            keys[at] = least;
            at = child;
        }
        keys[at] = key;
    }

    /// Moves the epoch so that the horizon stays ahead of `now`. Cheap: once in eight simulated seconds.
    pub(crate) fn rebase(&mut self, now: Time) {
        self.close();
        if now.as_ps() - self.epoch <= HORIZON / 2 {
            return;
        }
        let entries: Vec<_> = self
            .keys
            .drain(..)
            .map(|key| {
                let at = self.epoch + (key >> RANK_BITS);
                (Time::ps(at), (key & RANK_MASK ^ scramble(at)) as u32)
            })
            .collect();
        self.epoch = now.as_ps();
        for (at, source) in entries {
            self.insert(at, source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{Domain, Rng};

    fn drain(list: &mut EventList) -> Vec<(Time, u32)> {
        let mut out = Vec::new();
        while let Some(event) = list.take_until(Time::ps(u64::MAX - 1)) {
            out.push(event);
            list.close();
        }
        out
    }

    #[test]
    fn order_is_by_time_and_does_not_depend_on_insertion() {
        let mut rng = Rng::stream(1, Domain::Faults, 0);
        let mut entries: Vec<_> = (0..2_000u32).map(|source| (Time::ps(rng.below(300)), source)).collect();
        let mut orders = Vec::new();
        for _ in 0..3 {
            rng.shuffle(&mut entries);
            let mut list = EventList::default();
            entries.iter().for_each(|&(at, source)| list.insert(at, source));
            orders.push(drain(&mut list));
        }
        assert_eq!(orders[0], orders[1]);
        assert_eq!(orders[0], orders[2]);
        assert!(orders[0].windows(2).all(|w| w[0].0 <= w[1].0));
        let mut sources: Vec<_> = orders[0].iter().map(|e| e.1).collect();
        sources.sort_unstable();
        assert!(sources.into_iter().eq(0..2_000), "every source comes out once");
    }

    #[test]
    fn ties_are_fair() {
        let mut wins = 0;
        for t in 0..10_000 {
            let mut list = EventList::default();
            list.insert(Time::ps(t * 997), 3);
            list.insert(Time::ps(t * 997), 4);
            wins += (drain(&mut list)[0].1 == 3) as u32;
        }
        assert!((4_500..5_500).contains(&wins), "source 3 won {wins} of 10000 ties");
    }

    #[test]
    fn a_hole_is_filled_or_closed() {
        let mut list = EventList::default();
        for i in 0..20 {
            list.insert(Time::ps(i * 10), i as u32);
        }
        assert_eq!(list.take_until(Time::ps(5)), Some((Time::ZERO, 0)));
        list.insert(Time::ps(55), 0);
        list.close();
        let rest = drain(&mut list);
        assert_eq!(rest.len(), 20);
        assert_eq!(rest[5], (Time::ps(55), 0));
    }

    #[test]
    fn rebase_keeps_order_and_far_events_fire_early() {
        let mut list = EventList::default();
        list.insert(Time::s(100), 1);
        let (at, source) = list.take_until(Time::s(100)).unwrap();
        assert_eq!((at < Time::s(18), source), (true, 1));
        list.insert(Time::s(17), 2);
        list.rebase(Time::s(16));
        list.insert(Time::s(20), 3);
        assert_eq!(drain(&mut list), [(Time::s(17), 2), (Time::s(20), 3)]);
    }
}
