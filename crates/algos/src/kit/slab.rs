//! Records with reusable slots. SIRD and windowed keep their messages in slabs.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// A slot and the generation of its record. References that may outlive a record use a key; the
/// slot alone is for code that knows that the record exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) slot: u32,
    /// Odd while the slot is in use; even between two records.
    generation: u32,
}

impl Key {
    /// Conversion to one word and back.
    pub(crate) fn bits(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }
    pub(crate) fn of_bits(bits: u64) -> Key {
        Key { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// Records by slot.
#[derive(Default)]
pub(crate) struct Slab<T> {
    values: Vec<T>,
    /// Odd if the slot is in use.
    generations: Vec<u32>,
    free: Vec<u32>,
}

impl<T: Default> Slab<T> {
    /// Takes a slot for the record that `value` makes from the slot's last record, whose
    /// allocations can thus be reused.
    pub(crate) fn insert(&mut self, value: impl FnOnce(T) -> T) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.values.push(T::default());
            self.generations.push(0);
            // So that the removal of records never allocates.
            self.free.reserve(self.values.len());
            self.values.len() as u32 - 1
        });
        let place = &mut self.values[slot as usize];
        *place = value(core::mem::take(place));
        self.generations[slot as usize] = self.generations[slot as usize].wrapping_add(1);
        slot
    }
}

impl<T> Slab<T> {
    /// Frees the slot of a record, if it is in use. The record stays readable until the slot is
    /// reused.
    #[cold]
    pub(crate) fn remove(&mut self, slot: u32) {
        if self.get(slot).is_some() {
            let generation = &mut self.generations[slot as usize];
            *generation = generation.wrapping_add(1);
            self.free.push(slot);
        }
    }

    /// The record in a slot, if it is in use.
    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        let generation = self.generations.get(slot as usize)?;
        (generation & 1 == 1).then(|| &self.values[slot as usize])
    }
    #[allow(dead_code, reason = "the documented example uses it")]
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        let generation = self.generations.get(slot as usize)?;
        (generation & 1 == 1).then(|| &mut self.values[slot as usize])
    }

    /// The key of the record in a slot that is in use.
    pub(crate) fn key(&self, slot: u32) -> Key {
        Key { slot, generation: self.generations[slot as usize] }
    }
    /// The slot of a record, if it still exists.
    pub(crate) fn slot(&self, key: Key) -> Option<u32> {
        let same = self.generations.get(key.slot as usize) == Some(&key.generation);
        (same && key.generation & 1 == 1).then_some(key.slot)
    }

    /// Slots of all matching records, by a scan.
    pub(crate) fn slots(&self, fits: impl Fn(&T) -> bool) -> Vec<u32> {
        let all = 0..self.values.len() as u32;
        all.filter(|&slot| self.get(slot).is_some_and(&fits)).collect()
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }
    /// All records by slot, including removed ones.
    #[allow(dead_code, reason = "the documented example uses it")]
    pub(crate) fn all_mut(&mut self) -> &mut [T] {
        &mut self.values
    }
    #[cfg(test)]
    pub(crate) fn all(&self) -> &[T] {
        &self.values
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, slot: u32) -> &T {
        &self.values[slot as usize]
    }
}
impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.values[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{Domain, Rng};

    #[test]
    fn key_finds_its_record_while_it_exists() {
        let mut rng = Rng::stream(1, Domain::Transport, 0);
        let mut slab = Slab::<u64>::default();
        // All keys so far, and whether their records exist.
        let mut keys: Vec<(Key, u64, bool)> = Vec::new();
        for value in 0..3_000 {
            if rng.below(3) < 2 && !keys.is_empty() {
                let which = rng.below(keys.len() as u64) as usize;
                let (key, _, lives) = &mut keys[which];
                if core::mem::take(lives) {
                    slab.remove(key.slot);
                }
            } else {
                let slot = slab.insert(|_| value);
                keys.push((slab.key(slot), value, true));
            }
            assert_eq!(slab.len(), keys.iter().filter(|key| key.2).count());
        }
        let mut even: Vec<u32> = keys
            .iter()
            .filter(|(_, value, lives)| *lives && value % 2 == 0)
            .map(|(key, ..)| key.slot)
            .collect();
        even.sort_unstable();
        assert_eq!(slab.slots(|value| value % 2 == 0), even);
        for &(key, value, lives) in &keys {
            assert_eq!(Key::of_bits(key.bits()), key);
            assert_eq!(slab.slot(key), lives.then_some(key.slot));
            assert!(!lives || slab.get(key.slot) == Some(&value) && slab[key.slot] == value);
        }
        assert!(slab.all().len() < keys.len() / 2, "slots are reused");
        assert_eq!((slab.get(u32::MAX), slab.slot(Key::of_bits(u64::MAX))), (None, None));
    }

    #[test]
    fn slot_keeps_allocations_and_is_freed_once() {
        let mut slab = Slab::<Vec<u8>>::default();
        let slot = slab.insert(|_| Vec::with_capacity(100));
        let key = slab.key(slot);
        slab.remove(slot);
        slab.remove(slot);
        assert!(slab.len() == 0 && slab.get(slot).is_none() && slab.get_mut(slot).is_none());
        let of_nobody = Key { generation: key.generation + 1, ..key };
        assert_eq!((slab.slot(key), slab.slot(of_nobody)), (None, None));
        assert_eq!(slab.insert(|last| last), slot);
        assert!(slab[slot].capacity() >= 100);
        assert_eq!(slab.insert(|_| Vec::new()), slot + 1, "freed once, reused once");
    }

    #[test]
    fn removal_does_not_allocate() {
        let mut slab = Slab::<u8>::default();
        (0..100).for_each(|value| _ = slab.insert(|_| value));
        assert!(slab.free.capacity() >= 100);
    }
}
