//! The event list: one pending entry a source, in a winner tree of bare 64-bit keys.
//!
//! A key is the time since a moving epoch (44 bits of picoseconds, 17.6 s) above the rank of its
//! source (20 bits). The rank is a bijection of the source that depends on the time, so the key
//! alone names the source; equal times are ordered by content, whatever the order of insertion, and
//! no source wins every tie of a run.
//!
//! A winner tree because every source has a leaf of its own: moving an entry is one walk to the
//! root, a load, a minimum and a store a level, with addresses known in advance. Nor does any
//! branch depend on where the walk begins or on what it finds: a walk that stopped where nothing
//! changes, and leaves on two levels, were slower (docs/notes/perf.md).

use tidegate_core::{Span, Time};

use crate::naming::Naming;

const RANK_BITS: u32 = 20;
/// Most sources: links in both directions, hosts and a few more.
pub(crate) const MAX_SOURCES: usize = 1 << RANK_BITS;
const RANK_MASK: u64 = (1 << RANK_BITS) - 1;
/// Furthest an entry can lie ahead of the epoch.
const HORIZON: u64 = (1 << (64 - RANK_BITS)) - 2;
/// Furthest an event may be set ahead of the present. Who waits for longer looks again then.
pub(crate) const FAR: Span = Span::s(4);
/// The epoch moves on when the present is so far from it. It is looked at no later than every
/// [`FAR`].
const STALE: u64 = HORIZON / 2;
const _: () = assert!(STALE + 2 * FAR.as_ps() <= HORIZON);
/// No event. Above every key.
const NONE: u64 = u64::MAX;

/// What the time turns sources into ranks with, by exclusive or: of two sources, the highest bit in
/// which they differ decides, and the time flips it half of the time.
#[inline(always)]
fn scramble(at: u64) -> u64 {
    at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RANK_BITS)
}

/// Writes a key into a leaf, and what follows from it into the nodes above.
type Walk = fn(&mut [u64], usize, u64);

/// By levels of the tree below its root.
const WALKS: [Walk; RANK_BITS as usize + 1] = [
    walk::<2>,
    walk::<4>,
    walk::<8>,
    walk::<0x10>,
    walk::<0x20>,
    walk::<0x40>,
    walk::<0x80>,
    walk::<0x100>,
    walk::<0x200>,
    walk::<0x400>,
    walk::<0x800>,
    walk::<0x1000>,
    walk::<0x2000>,
    walk::<0x4000>,
    walk::<0x8000>,
    walk::<0x1_0000>,
    walk::<0x2_0000>,
    walk::<0x4_0000>,
    walk::<0x8_0000>,
    walk::<0x10_0000>,
    walk::<0x20_0000>,
];

/// The way up takes the same number of steps from every leaf, and the compiler knows it and the
/// number of nodes: the loop is unrolled, and no index needs a check.
fn walk<const NODES: usize>(tree: &mut [u64], leaf: usize, mut key: u64) {
    let tree: &mut [u64; NODES] = tree.try_into().expect("the tree that the walk is for");
    let mut node = leaf & (NODES - 1);
    tree[node] = key;
    for _ in 1..NODES.trailing_zeros() {
        key = key.min(tree[node ^ 1]);
        node >>= 1;
        tree[node] = key;
    }
}

/// Pending events, at most one a source.
pub(crate) struct EventList<N> {
    /// Node i is the least of nodes 2i and 2i + 1; the root is node 1, the leaf of source s is node
    /// `leaves + s`.
    tree: Vec<u64>,
    /// A power of two.
    leaves: usize,
    walk: Walk,
    /// From a leaf so many levels up lies the first event of a quarter of the sources.
    quarter: u32,
    epoch: u64,
    /// What the sources are called in the whole fabric, which decides among equal times.
    naming: N,
}

impl<N: Naming> EventList<N> {
    /// For so many sources.
    pub(crate) fn new(sources: usize, naming: N) -> Self {
        let leaves = sources.max(2).next_power_of_two();
        let quarter = leaves.ilog2().saturating_sub(2);
        let (tree, walk) = (vec![NONE; 2 * leaves], WALKS[leaves.ilog2() as usize]);
        EventList { tree, leaves, walk, quarter, epoch: 0, naming }
    }

    /// When the earliest event is due; [`Time::NEVER`]: there is none.
    pub(crate) fn next(&self) -> Time {
        self.first_until(Time::NEVER).map_or(Time::NEVER, |(at, _)| at)
    }

    /// The earliest event, if it is not after `until`. It stays until its source is set again or
    /// cleared.
    #[inline(always)]
    pub(crate) fn first_until(&self, until: Time) -> Option<(Time, u32)> {
        let key = self.tree[1];
        let at = self.epoch + (key >> RANK_BITS);
        if at > until.as_ps() || key == NONE {
            return None;
        }
        Some((Time::ps(at), self.naming.here((key & RANK_MASK ^ scramble(at)) as u32)))
    }

    /// Who fires first in the quarter of the sources that `source` is in: soon, on average in four
    /// events. Any number where nobody does.
    #[inline(always)]
    pub(crate) fn soon(&self, source: u32) -> u32 {
        let key = self.tree[(self.leaves + source as usize) >> self.quarter];
        let at = self.epoch.wrapping_add(key >> RANK_BITS);
        self.naming.here((key & RANK_MASK ^ scramble(at)) as u32)
    }

    /// Moves the event of `source` to `at`, which must lie within the horizon: at most [`FAR`]
    /// ahead of the present.
    #[inline(always)]
    pub(crate) fn set(&mut self, source: u32, at: Time) {
        self.write(source, self.key(source, at));
    }

    #[inline(always)]
    fn key(&self, source: u32, at: Time) -> u64 {
        debug_assert!(
            at.as_ps() >= self.epoch && at.as_ps() - self.epoch <= HORIZON,
            "{at} would be moved"
        );
        let since = at.as_ps() - self.epoch;
        let name = self.naming.name(source) as u64;
        since << RANK_BITS | (name ^ scramble(self.epoch + since))
    }

    /// `source` has no event.
    #[inline(always)]
    pub(crate) fn clear(&mut self, source: u32) {
        self.write(source, NONE);
    }

    #[inline(always)]
    fn write(&mut self, source: u32, key: u64) {
        // Always the same function, so the call is foreseen.
        (self.walk)(&mut self.tree, self.leaves + source as usize, key);
    }

    /// Moves the epoch so that the horizon stays ahead of `now`. Cheap: once in eight simulated
    /// seconds.
    pub(crate) fn rebase(&mut self, now: Time) {
        if now.as_ps() - self.epoch <= STALE {
            return;
        }
        let pending = self.tree[self.leaves..]
            .iter()
            .map(|&key| (key != NONE).then(|| self.epoch + (key >> RANK_BITS)));
        let pending: Vec<_> = pending.collect();
        self.epoch = now.as_ps();
        for (source, at) in pending.into_iter().enumerate() {
            if let Some(at) = at {
                self.set(source as u32, Time::ps(at.max(self.epoch)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naming::Same;
    use tidegate_core::{Domain, Rng};

    fn drain(list: &mut EventList<Same>) -> Vec<(Time, u32)> {
        let mut out = Vec::new();
        while let Some(event) = list.first_until(Time::NEVER) {
            out.push(event);
            list.clear(event.1);
        }
        out
    }

    #[test]
    fn order_is_by_time_and_does_not_depend_on_insertion() {
        let mut rng = Rng::stream(1, Domain::Faults, 0);
        let mut entries: Vec<_> =
            (0..2_000u32).map(|source| (Time::ps(rng.below(300)), source)).collect();
        let mut orders = Vec::new();
        for _ in 0..3 {
            rng.shuffle(&mut entries);
            let mut list = EventList::new(2_000, Same);
            entries.iter().for_each(|&(at, source)| list.set(source, at));
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
        for (a, b) in [(3, 4), (0, 1), (5, 700)] {
            let mut wins = 0;
            for t in 0..10_000 {
                let mut list = EventList::new(1_000, Same);
                list.set(a, Time::ps(t * 997));
                list.set(b, Time::ps(t * 997));
                wins += (drain(&mut list)[0].1 == a) as u32;
            }
            assert!(
                (4_700..5_300).contains(&wins),
                "source {a} won {wins} of 10000 ties against {b}"
            );
        }
    }

    #[test]
    fn moving_an_event_replaces_it() {
        let mut list = EventList::new(3, Same);
        list.set(0, Time::ns(9));
        list.set(1, Time::ns(5));
        list.set(0, Time::ns(2));
        list.set(2, Time::ns(7));
        list.clear(1);
        assert_eq!(drain(&mut list), [(Time::ns(2), 0), (Time::ns(7), 2)]);
    }

    #[test]
    fn rebase_keeps_order() {
        let mut list = EventList::new(4, Same);
        list.set(2, Time::s(17));
        list.rebase(Time::s(16));
        list.set(3, Time::s(20));
        assert_eq!(drain(&mut list), [(Time::s(17), 2), (Time::s(20), 3)]);
    }

    #[test]
    #[should_panic(expected = "would be moved")]
    fn an_event_beyond_the_horizon_is_refused() {
        EventList::new(2, Same).set(1, Time::s(18));
    }
}
