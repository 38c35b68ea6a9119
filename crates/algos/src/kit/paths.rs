//! Which way packets go. SIRD, Homa and dcPIM: any way where the fabric sprays, else one way for
//! each of the messages that are under way between two hosts.

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

    /// Of a packet to `dst` about the message in that lane.
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
    fn messages_keep_their_way_unless_the_fabric_sprays() {
        for spraying in [false, true] {
            let mut paths = Paths::new(&HostContext { spraying, ..harness::context(1) });
            let [first, again, other_lane, other_host] =
                [(2, 3), (2, 3), (2, 4), (3, 3)].map(|(dst, lane)| paths.entropy(dst, lane));
            assert_eq!(first == again, !spraying);
            assert!(first != other_lane && first != other_host);
            // Nor does another host send the same way.
            let mut others = Paths::new(&HostContext { spraying, ..harness::context(2) });
            assert_ne!(first, others.entropy(2, 3));
        }
    }
}
