//! Members ordered by key, any of which can be moved or removed by its number: the next one by
//! shortest-first, round-robin or time, in O(log n).
//!
//! SIRD orders messages, senders, receivers and timers with heaps, windowed orders the connections
//! of a pool. A heap of one or two members costs a few instructions, and that is the common case.

use alloc::vec::Vec;

/// No entry.
const NONE: u32 = u32::MAX;

/// Fewest bytes left first, then the order of arrival or round: two numbers in one, so that a
/// comparison is a subtraction.
#[inline]
pub(crate) fn shortest_first(bytes_left: u64, order: u64) -> u128 {
    (bytes_left as u128) << 64 | order as u128
}

/// Positions of the members of one or several disjoint heaps, by number.
#[derive(Default)]
pub(crate) struct Positions(Vec<u32>);

impl Positions {
    #[inline]
    fn of(&self, id: u32) -> Option<usize> {
        self.0
            .get(id as usize)
            .filter(|&&position| position != NONE)
            .map(|&position| position as usize)
    }

    #[inline]
    pub(crate) fn contain(&self, id: u32) -> bool {
        self.of(id).is_some()
    }

    /// Sets the position of a new member.
    #[inline]
    fn add(&mut self, id: u32, position: usize) {
        if self.0.len() <= id as usize {
            self.grow(id);
        }
        self.put(id, position);
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, id: u32) {
        self.0.resize(id as usize + 1, NONE);
    }

    #[inline]
    fn put(&mut self, id: u32, position: usize) {
        self.0[id as usize] = position as u32;
    }
}

/// One of several disjoint heaps over the same numbers: the owner of all of them keeps the
/// positions of their members only once. The smallest key is first; equal keys are ordered by
/// number, so the order never depends on history.
pub(crate) struct Pile<K> {
    entries: Vec<(K, u32)>,
}

impl<K> Default for Pile<K> {
    fn default() -> Self {
        Pile { entries: Vec::new() }
    }
}

impl<K: Copy + Ord> Pile<K> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<(K, u32)> {
        self.entries.first().copied()
    }

    /// Adds `id`, or moves it.
    #[inline]
    pub(crate) fn set(&mut self, positions: &mut Positions, id: u32, key: K) {
        let Some(position) = positions.of(id) else { return self.add(positions, id, key) };
        let before = core::mem::replace(&mut self.entries[position].0, key);
        if before != key && self.entries.len() > 1 {
            self.sift(positions, position);
        }
    }

    /// Operations that are not needed for every packet are separate, so that the rest stays small.
    #[inline(never)]
    fn add(&mut self, positions: &mut Positions, id: u32, key: K) {
        let position = self.entries.len();
        self.entries.push((key, id));
        positions.add(id, position);
        if position > 0 {
            self.sift(positions, position);
        }
    }

    /// Removes `id`, if present.
    #[inline]
    pub(crate) fn remove(&mut self, positions: &mut Positions, id: u32) {
        if let Some(position) = positions.of(id) {
            self.take_out(positions, id, position);
        }
    }

    #[inline(never)]
    fn take_out(&mut self, positions: &mut Positions, id: u32, position: usize) {
        positions.0[id as usize] = NONE;
        let Some(last) = self.entries.pop() else { return };
        if position < self.entries.len() {
            self.entries[position] = last;
            positions.put(last.1, position);
            self.sift(positions, position);
        }
    }

    /// Moves the entry at `position` up or down, to where it belongs.
    #[inline(never)]
    fn sift(&mut self, positions: &mut Positions, position: usize) {
        let parent = position.saturating_sub(1) / 2;
        if self.entries[position] < self.entries[parent] {
            self.rise(positions, position);
        } else {
            self.sink(positions, position);
        }
    }

    fn rise(&mut self, positions: &mut Positions, mut position: usize) {
        let entry = self.entries[position];
        while position > 0 {
            let parent = (position - 1) / 2;
            if self.entries[parent] <= entry {
                break;
            }
            self.entries[position] = self.entries[parent];
            positions.put(self.entries[position].1, position);
            position = parent;
        }
        self.entries[position] = entry;
        positions.put(entry.1, position);
    }

    fn sink(&mut self, positions: &mut Positions, mut position: usize) {
        let entry = self.entries[position];
        loop {
            let mut child = 2 * position + 1;
            if child + 1 < self.entries.len() && self.entries[child + 1] < self.entries[child] {
                child += 1;
            }
            if child >= self.entries.len() || entry <= self.entries[child] {
                break;
            }
            self.entries[position] = self.entries[child];
            positions.put(self.entries[position].1, position);
            position = child;
        }
        self.entries[position] = entry;
        positions.put(entry.1, position);
    }
}

/// A heap with its own positions.
pub(crate) struct Heap<K> {
    pile: Pile<K>,
    positions: Positions,
}

impl<K> Default for Heap<K> {
    fn default() -> Self {
        Heap { pile: Pile::default(), positions: Positions::default() }
    }
}

impl<K: Copy + Ord> Heap<K> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.pile.len()
    }
    #[inline]
    pub(crate) fn first(&self) -> Option<(K, u32)> {
        self.pile.first()
    }
    #[inline]
    pub(crate) fn contains(&self, id: u32) -> bool {
        self.positions.contain(id)
    }
    /// The key of a member.
    #[inline]
    pub(crate) fn key(&self, id: u32) -> Option<K> {
        self.positions.of(id).map(|position| self.pile.entries[position].0)
    }
    /// Adds `id`, or moves it.
    #[inline]
    pub(crate) fn set(&mut self, id: u32, key: K) {
        self.pile.set(&mut self.positions, id, key);
    }
    /// Removes `id`, if present.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        self.pile.remove(&mut self.positions, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use tidegate_core::{Domain, Rng};

    #[test]
    fn a_heap_agrees_with_a_sorted_map() {
        let mut rng = Rng::stream(1, Domain::Transport, 0);
        let (mut heap, mut expected) = (Heap::<u64>::default(), BTreeMap::new());
        // Few members as well as many, and keys that are often equal.
        for members in [1, 2, 3, 40] {
            for _ in 0..20_000 {
                let id = rng.below(members) as u32;
                if rng.below(3) == 0 {
                    heap.remove(id);
                    expected.remove(&id);
                } else {
                    let key = rng.below(10);
                    heap.set(id, key);
                    expected.insert(id, key);
                }
                assert_eq!(heap.first(), expected.iter().map(|(&id, &key)| (key, id)).min());
                assert_eq!(heap.len(), expected.len());
                assert_eq!(heap.key(id), expected.get(&id).copied());
                assert_eq!(heap.contains(id), expected.contains_key(&id));
            }
        }
    }

    #[test]
    fn disjoint_piles_share_their_places() {
        let mut rng = Rng::stream(2, Domain::Transport, 0);
        let (mut piles, mut positions) =
            ([(); 3].map(|_| Pile::<u128>::default()), Positions::default());
        let mut expected = BTreeMap::new();
        for _ in 0..20_000 {
            let id = rng.below(30) as u32;
            let number = id as usize % 3;
            if rng.below(3) == 0 {
                piles[number].remove(&mut positions, id);
                expected.remove(&(number, id));
            } else {
                let key = shortest_first(rng.below(3), rng.below(3));
                piles[number].set(&mut positions, id, key);
                expected.insert((number, id), key);
            }
            for (number, pile) in piles.iter().enumerate() {
                let members = expected.iter().filter(|((of, _), _)| *of == number);
                let first = members.clone().map(|(&(_, id), &key)| (key, id)).min();
                assert_eq!((pile.first(), pile.len()), (first, members.count()));
            }
            assert_eq!(positions.contain(id), expected.contains_key(&(number, id)));
        }
    }

    #[test]
    fn fewer_bytes_first_then_order() {
        let sorted = [(0, 0), (0, u64::MAX), (1, 0), (1, 1), (u64::MAX, 0), (u64::MAX, u64::MAX)];
        let keys = sorted.map(|(bytes, order)| shortest_first(bytes, order));
        assert!(keys.is_sorted_by(|a, b| a < b));
    }
}
