//! What a host keeps of the hosts it has met: memory for those, not for all there are.
//!
//! A table indexed by host would be one load, but on 65,536 hosts it takes megabytes after a message to a high number, on
//! every host: the square of the fabric. Most hosts meet few others, and a search among few is quick.

use alloc::vec::Vec;

/// Values by host, made when a host is first met.
#[derive(Default)]
pub(crate) struct ByHost<T> {
    /// Host and the place of its value, by host.
    places: Vec<(u32, u32)>,
    values: Vec<T>,
}

impl<T: Default> ByHost<T> {
    #[inline]
    fn place(&self, host: u32) -> Result<usize, usize> {
        self.places.binary_search_by_key(&host, |&(host, _)| host)
    }

    #[inline]
    pub(crate) fn get(&self, host: u32) -> Option<&T> {
        self.place(host).ok().map(|at| &self.values[self.places[at].1 as usize])
    }

    /// The value of `host`; the default if it had none.
    pub(crate) fn entry(&mut self, host: u32) -> &mut T {
        let at = self.place(host).unwrap_or_else(|at| {
            self.places.insert(at, (host, self.values.len() as u32));
            self.values.push(T::default());
            at
        });
        &mut self.values[self.places[at].1 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use tidegate_core::{Domain, Rng};

    #[test]
    fn agrees_with_a_map_and_takes_room_for_what_was_met() {
        let mut rng = Rng::stream(1, Domain::Transport, 0);
        let (mut table, mut expected) = (ByHost::<u64>::default(), BTreeMap::new());
        for i in 0..3_000 {
            let host = rng.below(500) as u32 * 200;
            assert_eq!(table.get(host), expected.get(&host));
            if rng.below(2) == 0 {
                *table.entry(host) = i;
                expected.insert(host, i);
            }
        }
        assert_eq!(table.values.len(), expected.len());
        let mut one = ByHost::<u64>::default();
        *one.entry(u32::MAX - 1) = 1;
        assert!(one.places.capacity() + one.values.capacity() < 16);
    }
}
