//! Per-hop records against those of the acknowledgement before: what happened at each hop in
//! between.

use alloc::boxed::Box;

use tidegate_core::{Hop, HopTrace};

/// The records of the latest acknowledgement. Allocated with the connection, off its hot state.
#[derive(Clone, Debug, Default)]
pub(crate) struct PreviousHops(Box<HopTrace>);

/// How the records of an acknowledgement stand to those kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Of other ports, so that nothing can be said of what happened in between.
    OtherPath,
    /// Of the same ports, and one was stamped before that kept.
    Older,
    /// Of the same ports, none stamped before that kept.
    Newer,
}

/// What happened at one hop between two of its records.
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
    /// There are none yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    /// How `hops` stand to the records kept. Acknowledgements can overtake each other.
    #[inline]
    pub(crate) fn compare(&self, hops: &[Hop]) -> Standing {
        compare(self.0.as_slice(), hops)
    }

    /// How many records of `hops`, from the front, are of the same ports as those kept.
    pub(crate) fn shared(&self, hops: &[Hop]) -> usize {
        let pairs = self.0.as_slice().iter().zip(hops);
        pairs.take_while(|(before, hop)| before.port == hop.port).count()
    }

    /// As [`compare`](Self::compare), of as many of the records kept as `hops` has.
    pub(crate) fn compare_front(&self, hops: &[Hop]) -> Standing {
        compare(&self.0.as_slice()[..hops.len()], hops)
    }

    /// What happened at each of `hops`, which are newer, since the records kept; nothing at a hop
    /// that was stamped twice at one moment.
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

    /// Keeps `hops` instead.
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
    // Without a branch a hop: all ports differ in no bit, and some record is older.
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
