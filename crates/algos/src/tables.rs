//! Tables without hashing: everything is found by a small number, and nothing is allocated once
//! they have grown.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// No entry.
const NONE: u32 = u32::MAX;

/// Where the members of one or several disjoint heaps are, by number.
#[derive(Default)]
pub(super) struct Places(Vec<u32>);

impl Places {
    fn of(&self, id: u32) -> Option<usize> {
        self.0.get(id as usize).filter(|&&place| place != NONE).map(|&place| place as usize)
    }

    pub(super) fn contain(&self, id: u32) -> bool {
        self.of(id).is_some()
    }

    fn put(&mut self, id: u32, place: u32) {
        if self.0.len() <= id as usize {
            self.0.resize(id as usize + 1, NONE);
        }
        self.0[id as usize] = place;
    }
}

/// A binary heap whose members can be moved and removed by number; the smallest key is first. Equal
/// keys are in order of their numbers, so the order never depends on history.
pub(super) struct Heap<K> {
    entries: Vec<(K, u32)>,
}

impl<K> Default for Heap<K> {
    fn default() -> Self {
        Heap { entries: Vec::new() }
    }
}

impl<K: Copy + Ord> Heap<K> {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(super) fn first(&self) -> Option<(K, u32)> {
        self.entries.first().copied()
    }

    /// The key of a member.
    pub(super) fn key(&self, places: &Places, id: u32) -> Option<K> {
        places.of(id).map(|place| self.entries[place].0)
    }

    /// Puts `id` in, or moves it.
    pub(super) fn set(&mut self, places: &mut Places, id: u32, key: K) {
        match places.of(id) {
            Some(place) if self.entries[place].0 == key => {}
            Some(place) => {
                self.entries[place].0 = key;
                let place = self.rise(places, place);
                self.sink(places, place);
            }
            None => {
                self.entries.push((key, id));
                places.put(id, self.entries.len() as u32 - 1);
                self.rise(places, self.entries.len() - 1);
            }
        }
    }

    /// Takes `id` out, if it is in.
    pub(super) fn remove(&mut self, places: &mut Places, id: u32) {
        let Some(place) = places.of(id) else { return };
        self.entries.swap_remove(place);
        places.put(id, NONE);
        if let Some(&(_, moved)) = self.entries.get(place) {
            places.put(moved, place as u32);
            let place = self.rise(places, place);
            self.sink(places, place);
        }
    }

    fn rise(&mut self, places: &mut Places, mut place: usize) -> usize {
        let entry = self.entries[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.entries[parent] <= entry {
                break;
            }
            self.entries[place] = self.entries[parent];
            places.put(self.entries[place].1, place as u32);
            place = parent;
        }
        self.entries[place] = entry;
        places.put(entry.1, place as u32);
        place
    }

    fn sink(&mut self, places: &mut Places, mut place: usize) {
        let entry = self.entries[place];
        loop {
            let mut child = 2 * place + 1;
            if child + 1 < self.entries.len() && self.entries[child + 1] < self.entries[child] {
                child += 1;
            }
            if child >= self.entries.len() || entry <= self.entries[child] {
                break;
            }
            self.entries[place] = self.entries[child];
            places.put(self.entries[place].1, place as u32);
            place = child;
        }
        self.entries[place] = entry;
        places.put(entry.1, place as u32);
    }
}

/// Records whose places are used again; what a record has allocated stays with its place.
#[derive(Default)]
pub(super) struct Slab<T> {
    entries: Vec<T>,
    free: Vec<u32>,
}

impl<T: Default> Slab<T> {
    /// A place; its content is stale.
    pub(super) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.entries.push(T::default());
            self.free.reserve(self.entries.len());
            self.entries.len() as u32 - 1
        })
    }
    pub(super) fn give_back(&mut self, slot: u32) {
        self.free.push(slot);
    }
    pub(super) fn get(&self, slot: u32) -> Option<&T> {
        self.entries.get(slot as usize)
    }
    #[cfg(test)]
    pub(super) fn len(&self) -> u32 {
        self.entries.len() as u32
    }
    /// Places in use.
    pub(super) fn in_use(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, slot: u32) -> &T {
        &self.entries[slot as usize]
    }
}
impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.entries[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use tidegate_core::{Domain, Rng};

    #[test]
    fn heap_agrees_with_a_sorted_map() {
        let mut rng = Rng::stream(1, Domain::Transport, 0);
        let (mut heap, mut places) = (Heap::<u64>::default(), Places::default());
        let mut expected = BTreeMap::new();
        for _ in 0..20_000 {
            let id = rng.below(40) as u32;
            if rng.below(3) == 0 {
                heap.remove(&mut places, id);
                expected.remove(&id);
            } else {
                let key = rng.below(10);
                heap.set(&mut places, id, key);
                expected.insert(id, key);
            }
            assert_eq!(heap.first(), expected.iter().map(|(&id, &key)| (key, id)).min());
            assert_eq!(heap.len(), expected.len());
            assert_eq!(heap.key(&places, id), expected.get(&id).copied());
        }
    }
}
