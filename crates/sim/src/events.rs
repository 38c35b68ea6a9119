//! The event list: one pending entry per source, in a winner tree of bare 64-bit keys.
//!
//! A key is the time since a moving epoch (44 bits of picoseconds, 17.6 s) above the tie number of
//! its source (20 bits). The tie number is a permutation of the source's global ID that changes
//! with the event time. So the key alone identifies the source; the order at equal times does not
//! depend on the order of insertion; and no source wins every tie of a run.
//!
//! In a winner tree every source has a leaf of its own. Moving an entry is one walk to the root: a
//! load, a minimum and a store per level, at addresses known in advance. No branch depends on where
//! the walk begins or on what it finds. A walk that stopped where nothing changes, and leaves on
//! two levels, were slower (docs/notes/perf.md).
//!
//! Sources form groups. A group is one node of the fabric: the links that lead to it, and its own
//! events. An event elsewhere affects a node only after the delay of a link. So the group with the
//! earliest event runs a *node batch*: its events are handled in order until the group's lookahead
//! has passed or an event that concerns all groups is due. Other groups may have earlier events,
//! but these cannot affect the group within that time. The leaves of a group are side by side, so a
//! batch updates only the subtree below the group's root; the levels above are updated when the
//! batch ends. Batches do not change the order of events within one group. Events of two groups
//! that are less than a lookahead apart may be handled in either order.

use tidegate_core::{Span, Time};

use crate::naming::Naming;

const TIE_BITS: u32 = 20;
/// Maximum number of sources: links in both directions, hosts and a few more.
pub(crate) const MAX_SOURCES: usize = 1 << TIE_BITS;
const TIE_MASK: u64 = (1 << TIE_BITS) - 1;
/// Furthest that an entry can lie ahead of the epoch.
const HORIZON: u64 = (1 << (64 - TIE_BITS)) - 2;
/// Furthest that an event may be set ahead of the present. A source with a later deadline sets an
/// event at this limit and then checks again.
pub(crate) const FAR: Span = Span::s(4);
/// The epoch is moved when the present is further from it than this. The distance is checked at
/// least once per [`FAR`].
const STALE: u64 = HORIZON / 2;
const _: () = assert!(STALE + 2 * FAR.as_ps() <= HORIZON);
/// Key of a source without an event. Above every other key.
const NONE: u64 = u64::MAX;

/// Mask that maps sources to tie numbers by exclusive or. The highest bit in which two sources
/// differ decides their order, and the mask flips that bit at half of all times.
#[inline(always)]
fn scramble(at: u64) -> u64 {
    at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - TIE_BITS)
}

/// Writes a key into a leaf and updates the nodes above it.
type Walk = fn(&mut [u64], usize, u64);

/// Indexed by the number of levels below the root.
const WALKS: [Walk; TIE_BITS as usize + 2] = [
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
    walk::<0x40_0000>,
];

/// Walks up the same number of steps from every leaf. The number of steps and of nodes is known at
/// compile time: the loop is unrolled, and no index needs a check.
fn walk<const NODES: usize>(tree: &mut [u64], leaf: usize, mut key: u64) {
    let tree: &mut [u64; NODES] = tree.try_into().expect("the tree has the size of this walk");
    let mut node = leaf & (NODES - 1);
    tree[node] = key;
    for _ in 1..NODES.trailing_zeros() {
        key = key.min(tree[node ^ 1]);
        node >>= 1;
        tree[node] = key;
    }
}

/// Sources whose events are handled in one batch.
pub(crate) struct Group {
    pub(crate) sources: Vec<u32>,
    /// Least time after which an event elsewhere can affect this group.
    pub(crate) lookahead: Span,
    /// The group belongs to a host: submissions concern it.
    pub(crate) is_host: bool,
}

/// Sources that concern several groups. A batch of such a group ends before their next event.
pub(crate) struct Common {
    pub(crate) for_all: [u32; 2],
    pub(crate) for_hosts: u32,
}

/// The subtree of a group.
#[derive(Clone, Copy)]
struct Subtree {
    /// Lowest node above all its leaves, and above no others.
    root: u32,
    /// Levels between its leaves and the root.
    levels: u32,
    /// In picoseconds; at most [`FAR`].
    lookahead: u64,
    /// Node above the common sources that concern the group.
    limit: u32,
}

/// Pending events, at most one per source.
pub(crate) struct EventList<N> {
    /// Node i is the least of nodes 2i and 2i + 1; the root is node 1.
    tree: Vec<u64>,
    walk: Walk,
    /// By source: node of its leaf, and its group.
    leaf_of: Vec<(u32, u32)>,
    groups: Vec<Subtree>,
    /// Group of the current batch. Nodes above its root are stale during the batch.
    open: Subtree,
    /// First key that is beyond the current batch.
    bound: u64,
    epoch: u64,
    /// Global IDs of the sources. They break ties between events at equal times.
    naming: N,
}

/// Subtree of groups that are handled one event at a time. Node 0 is outside the tree: no leaf is
/// below it, and no node above.
const CLOSED: Subtree = Subtree { root: 0, levels: 0, lookahead: 0, limit: 0 };

impl<N: Naming> EventList<N> {
    /// Builds the list for these groups and the common sources. Each source belongs to exactly one
    /// of them.
    pub(crate) fn new(mut groups: Vec<Group>, common: Common, naming: N) -> Self {
        let Common { for_all: [a, b], for_hosts } = common;
        // The two sources that concern all groups take the first two of the four leaves of the
        // common group, so one node covers exactly these.
        let sources = vec![a, b, for_hosts];
        groups.push(Group { sources, lookahead: Span::ZERO, is_host: true });
        let width = |group: &Group| group.sources.len().next_power_of_two();
        let leaves = groups.iter().map(width).sum::<usize>().max(2).next_power_of_two();
        let sources = groups.iter().map(|group| group.sources.len()).sum();
        let mut leaf_of = vec![(0, 0); sources];
        let mut subtrees = vec![CLOSED; groups.len()];
        // Wide groups come first, so that each begins at a multiple of its width.
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_by_key(|&group| std::cmp::Reverse(width(&groups[group])));
        let mut next = leaves;
        for group in order {
            let Group { sources, lookahead, .. } = &groups[group];
            for (leaf, &source) in (next as u32..).zip(sources) {
                leaf_of[source as usize] = (leaf, group as u32);
            }
            let levels = width(&groups[group]).ilog2();
            let lookahead = (*lookahead).min(FAR).as_ps();
            subtrees[group] =
                Subtree { root: (next >> levels) as u32, levels, lookahead, limit: 0 };
            next += 1 << levels;
        }
        let common = subtrees[groups.len() - 1].root;
        for (subtree, group) in subtrees.iter_mut().zip(&groups) {
            subtree.limit = if group.is_host { common } else { 2 * common };
            if subtree.lookahead == 0 {
                *subtree = CLOSED;
            }
        }
        EventList {
            tree: vec![NONE; 2 * leaves],
            walk: WALKS[leaves.ilog2() as usize],
            leaf_of,
            groups: subtrees,
            open: CLOSED,
            bound: 0,
            epoch: 0,
            naming,
        }
    }

    /// Time of the earliest event; [`Time::NEVER`] if there is none.
    pub(crate) fn next(&self) -> Time {
        match self.tree[1] {
            NONE => Time::NEVER,
            key => self.event(key).0,
        }
    }

    #[inline(always)]
    fn event(&self, key: u64) -> (Time, u32) {
        let at = self.epoch + (key >> TIE_BITS);
        (Time::ps(at), self.naming.index_of((key & TIE_MASK ^ scramble(at)) as u32))
    }

    /// Returns the earliest event if it is not after `until`, and begins a batch of its group. The
    /// batch does not extend beyond `until` either. The event stays until its source is set again
    /// or cleared.
    #[inline(always)]
    pub(crate) fn open(&mut self, until: Time) -> Option<(Time, u32)> {
        let key = self.tree[1];
        let most = (until.as_ps().saturating_sub(self.epoch).min(HORIZON) + 1) << TIE_BITS;
        if key >= most {
            return None;
        }
        let (at, source) = self.event(key);
        let (_, group) = self.leaf_of[source as usize];
        self.open = self.groups[group as usize];
        let ahead = ((key >> TIE_BITS) + self.open.lookahead) << TIE_BITS;
        self.bound = ahead.min(most).min(self.tree[self.open.limit as usize]);
        Some((at, source))
    }

    /// The next event of the batch; `None` if the batch has no more.
    #[inline(always)]
    pub(crate) fn next_of_open(&self) -> Option<(Time, u32)> {
        let key = self.tree[self.open.root as usize];
        (key < self.bound).then(|| self.event(key))
    }

    /// Ends the batch and updates the nodes above its group.
    #[inline(always)]
    pub(crate) fn close(&mut self) {
        let mut node = self.open.root as usize;
        let mut key = self.tree[node];
        while node > 1 {
            key = key.min(self.tree[node ^ 1]);
            node >>= 1;
            self.tree[node] = key;
        }
        self.open = CLOSED;
    }

    /// Moves the event of `source` to `at`, which is at most [`FAR`] after the present. So it stays
    /// within `HORIZON` of the epoch.
    #[inline(always)]
    pub(crate) fn set(&mut self, source: u32, at: Time) {
        self.write(source, self.key(source, at));
    }

    #[inline(always)]
    fn key(&self, source: u32, at: Time) -> u64 {
        debug_assert!(
            at.as_ps() >= self.epoch && at.as_ps() - self.epoch <= HORIZON,
            "event at {at} is outside the horizon"
        );
        let since = at.as_ps() - self.epoch;
        let name = self.naming.name(source) as u64;
        since << TIE_BITS | (name ^ scramble(self.epoch + since))
    }

    /// Removes the event of `source`.
    #[inline(always)]
    pub(crate) fn clear(&mut self, source: u32) {
        self.write(source, NONE);
    }

    #[inline(always)]
    fn write(&mut self, source: u32, key: u64) {
        let (leaf, _) = self.leaf_of[source as usize];
        let Subtree { root, levels, .. } = self.open;
        if leaf >> levels == root {
            let (mut node, mut key) = (leaf as usize, key);
            self.tree[node] = key;
            for _ in 0..levels {
                key = key.min(self.tree[node ^ 1]);
                node >>= 1;
                self.tree[node] = key;
            }
        } else {
            // Always the same function, so the branch predictor foresees the call.
            (self.walk)(&mut self.tree, leaf as usize, key);
            // The event may concern the group of this batch, too.
            self.bound = self.bound.min(self.tree[self.open.limit as usize]);
        }
    }

    /// Moves the epoch so that the horizon stays ahead of `now`. Cheap: once in eight simulated
    /// seconds.
    pub(crate) fn rebase(&mut self, now: Time) {
        if now.as_ps() - self.epoch <= STALE {
            return;
        }
        let pending = self.leaf_of.iter().map(|&(leaf, _)| {
            let key = self.tree[leaf as usize];
            (key != NONE).then(|| self.epoch + (key >> TIE_BITS))
        });
        let pending: Vec<_> = pending.collect();
        self.epoch = now.as_ps();
        // The bound of the current batch refers to the old epoch.
        self.bound = 0;
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

    /// A list in which each source is a group of its own.
    fn list(sources: u32) -> EventList<Same> {
        let alone = |source| node(vec![source], Span::ZERO);
        let common = Common { for_all: [sources, sources + 1], for_hosts: sources + 2 };
        EventList::new((0..sources).map(alone).collect(), common, Same)
    }

    fn node(sources: Vec<u32>, lookahead: Span) -> Group {
        Group { sources, lookahead, is_host: false }
    }

    fn take(list: &mut EventList<Same>) -> Option<(Time, u32)> {
        let event = list.open(Time::NEVER)?;
        list.clear(event.1);
        list.close();
        Some(event)
    }

    fn drain(list: &mut EventList<Same>) -> Vec<(Time, u32)> {
        let mut out = Vec::new();
        while let Some(event) = take(list) {
            out.push(event);
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
            let mut list = list(2_000);
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
                let mut list = list(1_000);
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
        let mut list = list(3);
        list.set(0, Time::ns(9));
        list.set(1, Time::ns(5));
        list.set(0, Time::ns(2));
        list.set(2, Time::ns(7));
        list.clear(1);
        assert_eq!(drain(&mut list), [(Time::ns(2), 0), (Time::ns(7), 2)]);
    }

    /// A host and a switch of two sources each, 10 ns apart. Sources 4 and 5 concern both, source 6
    /// only the host.
    fn two_nodes() -> EventList<Same> {
        let host = Group { is_host: true, ..node(vec![0, 3], Span::ns(10)) };
        let common = Common { for_all: [4, 5], for_hosts: 6 };
        EventList::new(vec![host, node(vec![1, 2], Span::ns(10))], common, Same)
    }

    /// Runs the batch that is due and returns its sources.
    fn batch(list: &mut EventList<Same>, until: Time) -> Vec<u32> {
        let Some((_, first)) = list.open(until) else { return Vec::new() };
        list.clear(first);
        let mut batch = vec![first];
        while let Some((_, source)) = list.next_of_open() {
            list.clear(source);
            batch.push(source);
        }
        list.close();
        batch
    }

    #[test]
    fn batch_ends_at_the_lookahead() {
        let times = [5, 6, 14, 14, 30].map(Time::ns);
        let filled = |last: Time| {
            let mut list = two_nodes();
            (0..).zip(times).for_each(|(source, at)| list.set(source, at));
            list.set(3, last);
            list
        };
        let mut list = filled(Time::ps(14_999));
        let batches: Vec<_> = (0..3).map(|_| batch(&mut list, Time::NEVER)).collect();
        assert_eq!(batches, [vec![0, 3], vec![1, 2], vec![4]]);
        assert_eq!(list.next(), Time::NEVER);
        let mut list = filled(Time::ns(15));
        let batches: Vec<_> = (0..4).map(|_| batch(&mut list, Time::NEVER)).collect();
        assert_eq!(batches, [vec![0], vec![1, 2], vec![3], vec![4]]);
    }

    #[test]
    fn batch_ends_at_common_events_and_the_interval() {
        let mut list = two_nodes();
        for (source, at) in [(0, 5), (3, 9), (4, 8)] {
            list.set(source, Time::ns(at));
        }
        let batches: Vec<_> = (0..3).map(|_| batch(&mut list, Time::NEVER)).collect();
        assert_eq!(batches, [vec![0], vec![4], vec![3]]);
        for (source, at) in [(0, 11), (3, 14), (1, 12), (2, 15), (6, 13)] {
            list.set(source, Time::ns(at));
        }
        let batches: Vec<_> = (0..4).map(|_| batch(&mut list, Time::NEVER)).collect();
        assert_eq!(batches, [vec![0], vec![1, 2], vec![6], vec![3]], "a submission");
        list.set(1, Time::ns(20));
        list.set(2, Time::ns(22));
        assert_eq!(batch(&mut list, Time::ns(21)), [1]);
        assert_eq!(batch(&mut list, Time::ns(21)), []);
        assert_eq!(batch(&mut list, Time::ns(22)), [2]);
    }

    #[test]
    fn batch_ends_at_common_event_set_meanwhile() {
        for common in [4, 6] {
            let mut list = two_nodes();
            list.set(0, Time::ns(5));
            list.set(3, Time::ns(9));
            assert_eq!(list.open(Time::NEVER), Some((Time::ns(5), 0)));
            list.clear(0);
            list.set(common, Time::ns(8));
            assert_eq!(list.next_of_open(), None);
            list.close();
            assert_eq!(drain(&mut list), [(Time::ns(8), common), (Time::ns(9), 3)]);
        }
    }

    #[test]
    fn batch_sets_events_of_other_groups() {
        let mut list = two_nodes();
        list.set(0, Time::ns(5));
        list.set(1, Time::ns(50));
        assert_eq!(list.open(Time::NEVER), Some((Time::ns(5), 0)));
        list.set(2, Time::ns(16));
        list.set(0, Time::ns(40));
        assert_eq!(list.next_of_open(), None);
        list.close();
        let all = [(Time::ns(16), 2), (Time::ns(40), 0), (Time::ns(50), 1)];
        assert_eq!(drain(&mut list), all);
    }

    #[test]
    fn rebase_keeps_order() {
        let mut list = list(4);
        list.set(2, Time::s(17));
        list.rebase(Time::s(16));
        list.set(3, Time::s(20));
        assert_eq!(drain(&mut list), [(Time::s(17), 2), (Time::s(20), 3)]);
    }

    #[test]
    #[should_panic(expected = "outside the horizon")]
    fn an_event_beyond_the_horizon_is_refused() {
        list(2).set(1, Time::s(18));
    }
}
