//! State of a host about its peers: memory for known peers only, not for all hosts.
//!
//! A table indexed by host would need one load, but with 65,536 hosts it takes megabytes after a
//! message to a high number, on every host: the square of the fabric. A sorted list is as small as
//! this table, but every arriving data packet looks up its source, and a search among a hundred
//! takes seven loads that no branch predictor anticipates.

use alloc::vec;
use alloc::vec::Vec;

/// No value.
const NONE: u32 = u32::MAX;

/// Values by host, created when a host is first looked up.
#[derive(Default)]
pub(crate) struct ByHost<T> {
    /// Host and the index of its value: at the host's home position, or if that is occupied, at the
    /// next free one. The table has at least twice as many entries as values, so that one is free;
    /// its size is a power of two.
    places: Vec<(u32, u32)>,
    values: Vec<T>,
}

impl<T: Default> ByHost<T> {
    /// Multiples of the golden ratio are evenly distributed, so hosts at equal distances
    /// (neighbours, the first of every rack) are, too.
    #[inline]
    fn home(&self, host: u32) -> usize {
        ((host.wrapping_mul(0x9e37_79b9) as u64 * self.places.len() as u64) >> 32) as usize
    }

    #[inline]
    fn find(&self, host: u32) -> Option<usize> {
        let mask = self.places.len().wrapping_sub(1);
        let mut at = self.home(host);
        loop {
            match *self.places.get(at)? {
                (_, NONE) => return None,
                (same, value) if same == host => return Some(value as usize),
                _ => at = (at + 1) & mask,
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, host: u32) -> Option<&T> {
        self.find(host).map(|value| &self.values[value])
    }

    /// The value of `host`; a default is created if there is none.
    pub(crate) fn entry(&mut self, host: u32) -> &mut T {
        let value = self.find(host).unwrap_or_else(|| self.add(host));
        &mut self.values[value]
    }

    /// Takes the value of `host`, if any, and leaves the default.
    pub(crate) fn take(&mut self, host: u32) -> T {
        self.find(host).map(|value| core::mem::take(&mut self.values[value])).unwrap_or_default()
    }

    #[cold]
    fn add(&mut self, host: u32) -> usize {
        let value = self.values.len();
        self.values.push(T::default());
        if self.places.len() < 2 * self.values.len() {
            let larger = vec![(0, NONE); (2 * self.places.len()).max(4)];
            for (host, value) in core::mem::replace(&mut self.places, larger) {
                if value != NONE {
                    self.put(host, value);
                }
            }
        }
        self.put(host, value as u32);
        value
    }

    fn put(&mut self, host: u32, value: u32) {
        let mask = self.places.len() - 1;
        let mut at = self.home(host);
        while self.places[at].1 != NONE {
            at = (at + 1) & mask;
        }
        self.places[at] = (host, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use tidegate_core::{Domain, Rng};

    #[test]
    fn agrees_with_a_map_in_proportional_memory() {
        let mut rng = Rng::stream(1, Domain::Transport, 0);
        let (mut table, mut expected) = (ByHost::<u64>::default(), BTreeMap::new());
        for i in 0..3_000 {
            let host = rng.below(500) as u32 * 200;
            assert_eq!(table.get(host), expected.get(&host));
            match rng.below(4) {
                0 | 1 => {
                    *table.entry(host) = i;
                    expected.insert(host, i);
                }
                2 => {
                    let taken = expected.get_mut(&host).map(core::mem::take);
                    assert_eq!(table.take(host), taken.unwrap_or_default());
                }
                _ => {}
            }
        }
        assert_eq!(table.values.len(), expected.len());
        let mut one = ByHost::<u64>::default();
        *one.entry(u32::MAX - 1) = 1;
        assert!(one.places.capacity() + one.values.capacity() < 16);
    }

    #[test]
    fn hosts_at_equal_distances_rarely_collide() {
        for distance in
            [1, 2, 3, 8, 9, 16, 24, 32, 40, 48, 64, 100, 128, 256, 512, 1_000, 1_024, 4_096]
        {
            let mut table = ByHost::<u32>::default();
            (0..160).for_each(|i| *table.entry(7 + i * distance) = i);
            assert!(table.places.len() <= 512);
            let mask = table.places.len() - 1;
            let places = table.places.iter().enumerate().filter(|(_, place)| place.1 != NONE);
            let from_home = places.map(|(at, &(host, _))| at.wrapping_sub(table.home(host)) & mask);
            let from_home: Vec<_> = from_home.collect();
            let (sum, most) = (from_home.iter().sum::<usize>(), from_home.iter().max().unwrap());
            assert!(sum <= 160 && *most <= 8, "at {distance}: {sum} steps for 160, at most {most}");
        }
    }
}
