//! The event list: one pending entry a source, in a 4-ary heap of bare 64-bit keys.
//!
//! A key is the time since a moving epoch (44 bits of picoseconds, 17.6 s) above the rank of its source (20 bits). The rank is
//! a bijection of the source that depends on the time, so the key alone names the source; equal times are ordered by
//! content, whatever the order of insertion, and no source wins every tie of a run.

use tidegate_core::{Time, mix64};

const RANK_BITS: u32 = 20;
/// Most sources: links in both directions, hosts and a few more.
pub(crate) const MAX_SOURCES: usize = 1 << RANK_BITS;
const RANK_MASK: u64 = (1 << RANK_BITS) - 1;
/// Furthest an entry can lie ahead of the epoch.
const HORIZON: u64 = (1 << (64 - RANK_BITS)) - 1;
/// Odd multipliers and their inverses modulo 2^RANK_BITS; the time chooses one. With a single multiplier the same one of two
/// sources would win 62 % of their ties.
const SCRAMBLES: [(u32, u32); 256] = scrambles();

const fn scrambles() -> [(u32, u32); 256] {
    let mut table = [(0, 0); 256];
    let mut i = 0;
    while i < 256 {
        let odd = mix64(i as u64 + 1) & RANK_MASK | 1;
        // Newton: each step doubles the bits that are right, from three.
        let mut inverse = odd;
        let mut step = 0;
        while step < 3 {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
            step += 1;
        }
        table[i] = (odd as u32, (inverse & RANK_MASK) as u32);
        i += 1;
    }
    table
}

#[inline(always)]
fn rank(source: u32, at: u64) -> u64 {
    let hash = hash(at);
    let (odd, _) = SCRAMBLES[(hash >> 56) as usize];
    source.wrapping_add(hash as u32).wrapping_mul(odd) as u64 & RANK_MASK
}

#[inline(always)]
fn source(rank: u64, at: u64) -> u32 {
    let hash = hash(at);
    let (_, inverse) = SCRAMBLES[(hash >> 56) as usize];
    (rank as u32).wrapping_mul(inverse).wrapping_sub(hash as u32) & RANK_MASK as u32
}

/// One multiplication and a fold: the top byte chooses a scramble, the bottom word shifts it.
#[inline(always)]
fn hash(at: u64) -> u64 {
    let x = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ (x >> 32)
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
        since << RANK_BITS | rank(source, self.epoch + since)
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
        Some((Time::ps(at), source(key & RANK_MASK, at)))
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
    #[inline]
    fn sift_down(&mut self, key: u64) {
        let keys = &mut self.keys[..];
        let mut at = 0;
        loop {
            let first = 4 * at + 1;
            let (child, least) = if let Some(four) = keys.get(first..first + 4) {
                let (a, ka) = if four[1] < four[0] { (1, four[1]) } else { (0, four[0]) };
                let (b, kb) = if four[3] < four[2] { (3, four[3]) } else { (2, four[2]) };
                if kb < ka { (first + b, kb) } else { (first + a, ka) }
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
                (Time::ps(at), source(key & RANK_MASK, at))
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
