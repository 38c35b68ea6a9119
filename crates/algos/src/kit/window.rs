//! Packets of a message that have arrived, each counted once, and the missing ones between them.
//! SIRD, Tide, Homa, EQDS, RCCC and NDP receive with it.

use alloc::format;
use alloc::string::String;

use tidegate_core::Path;

use super::bits::Bits;

/// Largest distance beyond the first missing packet at which receivers accept packets, and senders
/// send them. The record of these packets takes 128 KiB, and grows only as packets arrive. A link
/// of 800 Gbit/s carries as many packets of 1,000 B in 10 ms, within which Homa's default timeout
/// requests a lost packet.
pub(crate) const MAX_AHEAD: u64 = 1 << 20;

/// Warns of a path with so long a BDP that this distance limits the rate of a message.
pub(crate) fn shorter_than_bdp(path: &Path) -> Option<String> {
    let full = f64::from(path.full_wire_bytes.max(1));
    let packets = path.bdp_bytes / full;
    (packets > MAX_AHEAD as f64).then(|| {
        format!(
            "a BDP is {packets:.0} packets, and a receiver accepts {MAX_AHEAD} beyond the first \
             missing one: a message uses at most {:.2} of the link; use a larger mtu or more \
             messages",
            MAX_AHEAD as f64 / packets
        )
    })
}

/// Packets that have arrived.
#[derive(Default)]
pub(crate) struct Window {
    /// The base is the first missing packet.
    arrived: Bits,
    /// Highest packet that has arrived, plus one.
    high: u64,
}

impl Window {
    /// The window for another message, with its memory reused.
    pub(crate) fn cleared(mut self) -> Window {
        self.arrived.begin(0);
        self.high = 0;
        self
    }

    /// The first missing packet.
    #[inline]
    pub(crate) fn base(&self) -> u64 {
        self.arrived.base()
    }
    /// Highest packet that has arrived, plus one.
    #[inline]
    pub(crate) fn high(&self) -> u64 {
        self.high
    }

    /// Adds a packet. Returns false if it was present. The caller bounds its distance from the
    /// first missing one.
    #[inline]
    pub(crate) fn insert(&mut self, packet: u64) -> bool {
        if packet < self.base() || !self.arrived.set(packet) {
            return false;
        }
        self.high = self.high.max(packet + 1);
        if packet == self.base() {
            self.arrived.slide();
        }
        true
    }

    /// Whether a packet has arrived.
    pub(crate) fn contains(&self, packet: u64) -> bool {
        packet < self.base() || self.arrived.get(packet)
    }

    /// The first missing packet at or above `packet`.
    pub(crate) fn next_missing(&self, packet: u64) -> u64 {
        let mut packet = packet.max(self.base());
        while packet < self.high {
            let missing = self.arrived.missing(packet);
            if missing != 0 {
                return packet + missing.trailing_zeros() as u64;
            }
            packet += 64;
        }
        packet
    }

    /// Missing packets below packet `end`, up to 64 at a time: the first one, and a map of those
    /// from there on, lowest bit first.
    pub(crate) fn holes(&self, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut from = self.base();
        core::iter::from_fn(move || {
            let start = self.next_missing(from);
            let room = end.checked_sub(start).filter(|&room| room > 0)?;
            from = start + 64;
            let below_end = if room < 64 { (1 << room) - 1 } else { u64::MAX };
            Some((start, self.arrived.missing(start) & below_end))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use tidegate_core::{Domain, Rng};

    #[test]
    fn paths_longer_than_the_distance_warn() {
        let path = |bdp_bytes| Path { bdp_bytes, ..contract::path() };
        let most = MAX_AHEAD as f64 * f64::from(contract::path().full_wire_bytes);
        assert_eq!(shorter_than_bdp(&path(most)), None);
        let text = shorter_than_bdp(&path(2.0 * most)).unwrap();
        assert!(text.contains("2097152 packets") && text.contains("at most 0.50"), "{text}");
    }

    #[test]
    fn window_agrees_with_a_set() {
        let mut rng = Rng::stream(1, Domain::Transport, 0);
        let mut window = Window::default();
        for reach in [1, 3, 64, 300] {
            window = window.cleared();
            let mut arrived = BTreeSet::new();
            for _ in 0..5_000 {
                let packet = window.base() + rng.below(reach + 2) - rng.below(2).min(window.base());
                assert_eq!(window.insert(packet), arrived.insert(packet));
                let base = (0..).find(|packet| !arrived.contains(packet)).unwrap();
                assert_eq!((window.base(), window.high()), (base, arrived.last().unwrap() + 1));
                let end = base + rng.below(reach + 200);
                let missing: Vec<u64> = (base..end).filter(|p| !arrived.contains(p)).collect();
                let mut found = Vec::new();
                for (start, map) in window.holes(end) {
                    assert!(map & 1 == 1, "starts with a missing packet");
                    found.extend((0..64).filter(|i| map >> i & 1 == 1).map(|i| start + i));
                }
                assert_eq!(found, missing);
                if arrived.len() > 1_000 {
                    break;
                }
            }
            assert!(window.arrived.words() as u64 <= reach / 64 + 2);
        }
        assert_eq!(window.holes(window.base()).next(), None);
    }
}
