//! Per-hop records against those of the acknowledgement before: what happened at each hop in
//! between.

use alloc::boxed::Box;

use tidegate_core::{Hop, HopTrace};

/// The records of the latest acknowledgement. Allocated with the connection, off its hot state.
#[derive(Clone, Debug, Default)]
pub(crate) struct PreviousHops(Box<HopTrace>);

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

    /// Whether `hops` are of the same ports.
    pub(crate) fn same_path(&self, hops: &[Hop]) -> bool {
        let before = self.0.as_slice();
        before.len() == hops.len()
            && before.iter().zip(hops).all(|(before, hop)| before.port == hop.port)
    }

    /// Whether `hops` were stamped before the records kept: acknowledgements can overtake each
    /// other.
    pub(crate) fn are_newer_than(&self, hops: &[Hop]) -> bool {
        self.same_path(hops)
            && self.0.as_slice().iter().zip(hops).any(|(before, hop)| hop.at < before.at)
    }

    /// What happened at each hop since the records kept. Nothing on another path, and nothing at a
    /// hop that was stamped twice at one moment.
    pub(crate) fn until<'a>(&'a self, hops: &'a [Hop]) -> impl Iterator<Item = Interval<'a>> {
        let comparable = if self.same_path(hops) { self.0.as_slice() } else { &[] };
        let pairs = comparable.iter().zip(hops).enumerate();
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
    pub(crate) fn replace(&mut self, hops: &[Hop]) {
        self.0.clear();
        hops.iter().for_each(|&hop| self.0.push(hop));
    }
}
