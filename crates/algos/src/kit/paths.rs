//! Path choice. SIRD, Homa and dcPIM use any path if the fabric sprays packets, otherwise one path
//! for each of the messages in flight between two hosts.

use tidegate_core::{Domain, HostContext, Rng, mix64};

/// Draws the entropy of a host's packets.
pub(crate) struct Paths {
    host: u32,
    spraying: bool,
    rng: Rng,
}

impl Paths {
    pub(crate) fn new(host: &HostContext) -> Paths {
        let rng = Rng::stream(host.seed, Domain::Entropy, host.host as u64);
        Paths { host: host.host, spraying: host.spraying, rng }
    }

    /// Entropy of a packet to `dst` of the message in that lane.
    #[inline]
    pub(crate) fn entropy(&mut self, dst: u32, lane: u32) -> u32 {
        match self.spraying {
            true => self.rng.bits() as u32,
            false => mix64((self.host as u64) << 32 | dst as u64) as u32 ^ lane,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness;

    #[test]
    fn messages_keep_their_path_without_spraying() {
        for spraying in [false, true] {
            let mut paths = Paths::new(&HostContext { spraying, ..harness::context(1) });
            let [first, again, other_lane, other_host] =
                [(2, 3), (2, 3), (2, 4), (3, 3)].map(|(dst, lane)| paths.entropy(dst, lane));
            assert_eq!(first == again, !spraying);
            assert!(first != other_lane && first != other_host);
            // Another host uses different paths.
            let mut others = Paths::new(&HostContext { spraying, ..harness::context(2) });
            assert_ne!(first, others.entropy(2, 3));
        }
    }
}
