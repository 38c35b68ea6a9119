//! Per-hop records compared with those of the previous acknowledgement: activity of each hop in
//! between.

use alloc::boxed::Box;

use tidegate_core::{Hop, HopTrace};

/// The records of the latest acknowledgement. Allocated with the connection, outside its hot state.
#[derive(Clone, Debug, Default)]
pub(crate) struct PreviousHops(Box<HopTrace>);

/// Relation of the records of an acknowledgement to the stored ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Of other ports, so that they cannot be compared.
    OtherPath,
    /// Of the same ports, and at least one is older than the stored one.
    Older,
    /// Of the same ports, and none is older than the stored one.
    Newer,
}

/// Activity of one hop between two of its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval<'a> {
    /// Place of the hop on the path.
    pub(crate) place: usize,
    pub(crate) before: &'a Hop,
    pub(crate) now: &'a Hop,
    /// In picoseconds, above zero.
    pub(crate) dt: f64,
    /// Wire bytes that the port sent.
    pub(crate) sent: f64,
    /// The port's rate in bytes a picosecond.
    pub(crate) rate: f64,
}

impl PreviousHops {
    /// Whether no records are stored.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    /// Relation of `hops` to the stored records. Acknowledgements can overtake each other.
    #[inline]
    pub(crate) fn compare(&self, hops: &[Hop]) -> Standing {
        compare(self.0.as_slice(), hops)
    }

    /// Number of records of `hops`, from the front, that are of the same ports as the stored ones.
    pub(crate) fn shared(&self, hops: &[Hop]) -> usize {
        let pairs = self.0.as_slice().iter().zip(hops);
        pairs.take_while(|(before, hop)| before.port == hop.port).count()
    }

    /// Like [`compare`](Self::compare), for the first `hops.len()` stored records.
    pub(crate) fn compare_front(&self, hops: &[Hop]) -> Standing {
        compare(&self.0.as_slice()[..hops.len()], hops)
    }

    /// Activity of each of `hops`, which must be newer, since the stored records; skips a hop with
    /// two records of the same time.
    #[inline]
    pub(crate) fn until<'a>(&'a self, hops: &'a [Hop]) -> impl Iterator<Item = Interval<'a>> {
        debug_assert_eq!(self.compare_front(hops), Standing::Newer);
        let pairs = self.0.as_slice().iter().zip(hops).enumerate();
        pairs.filter(|(_, (before, now))| now.at > before.at).map(|(place, (before, now))| {
            Interval {
                place,
                before,
                now,
                dt: now.at.since(before.at).as_ps() as f64,
                sent: now.tx_bytes.wrapping_sub(before.tx_bytes) as f64,
                rate: now.rate.as_bps() as f64 / 8e12,
            }
        })
    }

    /// Stores `hops` instead.
    #[inline]
    pub(crate) fn replace(&mut self, hops: &[Hop]) {
        self.0.set(hops);
    }
}

#[inline]
fn compare(before: &[Hop], hops: &[Hop]) -> Standing {
    if before.len() != hops.len() {
        return Standing::OtherPath;
    }
    // No branch per hop: the ports differ in no bit, and no record is older.
    let (mut differ, mut older) = (0, false);
    for (before, hop) in before.iter().zip(hops) {
        differ |= before.port ^ hop.port;
        older |= hop.at < before.at;
    }
    match (differ, older) {
        (0, true) => Standing::Older,
        (0, false) => Standing::Newer,
        _ => Standing::OtherPath,
    }
}
