//! Path states of Multipath Reliable Connection (MRC).
//!
//! A connection has a rotation of `paths` entropies and as many backups. Each entropy is good, to
//! be skipped, or assumed bad:
//!
//! * A mark or a packet trimmed in the core: the entropy is skipped once. A packet that would take
//!   it restores it and takes the next good one. A packet restores one entropy at most.
//! * The timeout of a packet: switches trim packets that they cannot queue, so its path is assumed
//!   to have failed. The entropy is assumed bad, and its backup takes its place in the rotation.
//! * An entropy that is assumed bad is probed at an interval. The first acknowledgement of a probe
//!   or of a late packet makes it good, or to be skipped if it reports a mark.
//!
//! Source: "Multipath Reliable Connection", Open Compute Project, revision 1.0, and "Resilient AI
//! Supercomputer Networking using MRC and SRv6" (arXiv 2605.04333). Neither text was available. The
//! rules are those of public summaries: the page on MRC of ManiAm/RDMA-Primer, and the design notes
//! of "MRC emu", an emulator of a host.
//!
//! # Differences from the source
//!
//! * Switches hash entropies (the mode "ECMP"). MRC's deployments use source routes.
//! * The backup of an entropy is the one that is `paths` higher, so that both lead into the same
//!   plane if the number of planes divides `paths`.
//! * Acknowledgements take the entropy of their packet, so an entropy is avoided if its path fails
//!   in either direction. MRC's receivers have entropies of their own.
//! * Not published: the interval of probes (`probe_interval`), the number of acknowledgements that
//!   restore an entropy (one here), and the timeout of a packet.
//! * Probes leave only while the connection has packets to send and one has been acknowledged, one
//!   for each packet at most. They have the priority of data and no payload, so a full queue drops
//!   them. MRC's receivers also report gaps, from which senders detect losses earlier.
//! * No operator denies paths, hosts do not announce the failure of a port, and receivers report
//!   no path as bad.
//! * A timeout also has other causes: a lost acknowledgement, a longer delay, or a drop where there
//!   is no room for headers.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use tidegate_core::{Span, Time};

/// State of an entropy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Good,
    Skip,
    AssumedBad,
}

/// State of a connection. Entropies are numbered: those of the rotation first, then the backup of
/// each.
pub(super) struct Mrc {
    states: Vec<State>,
    /// By place in the rotation: whether the backup has it.
    is_replaced: Vec<bool>,
    /// Places without a working entropy.
    empty: u32,
    /// Entropies to probe, and the earliest time of the next probe, in order. Some have recovered.
    to_probe: VecDeque<(Time, u32)>,
    /// By entropy: whether it is in `to_probe`.
    waits: Vec<bool>,
    /// Whether a packet has left since the last probe.
    may_probe: bool,
}

impl Mrc {
    pub(super) fn new(paths: u32) -> Mrc {
        Mrc {
            states: vec![State::Good; 2 * paths as usize],
            is_replaced: vec![false; paths as usize],
            empty: 0,
            to_probe: VecDeque::new(),
            waits: vec![false; 2 * paths as usize],
            may_probe: true,
        }
    }

    fn paths(&self) -> u32 {
        self.is_replaced.len() as u32
    }

    /// The entropy that has this place in the rotation.
    fn entropy(&self, place: u32) -> u32 {
        if self.is_replaced[place as usize] { place + self.paths() } else { place }
    }

    /// The next entropy. If all are assumed bad, the one in turn.
    pub(super) fn next(&mut self, mut round_robin: impl FnMut() -> u32) -> u32 {
        self.may_probe = true;
        let mut entropy = self.entropy(round_robin());
        if self.empty == self.paths() {
            return entropy;
        }
        let mut restored = None;
        // Two rounds, because the order changes between rounds.
        for _ in 0..2 * self.paths() {
            match self.states[entropy as usize] {
                State::Good => return entropy,
                State::Skip if restored.is_none() => {
                    self.states[entropy as usize] = State::Good;
                    restored = Some(entropy);
                }
                State::Skip | State::AssumedBad => {}
            }
            entropy = self.entropy(round_robin());
        }
        restored.unwrap_or(entropy)
    }

    /// A packet or a probe with this entropy has arrived.
    pub(super) fn arrived(&mut self, entropy: u32, is_good: bool) {
        let was_bad = self.is_assumed_bad(entropy);
        if was_bad || !is_good {
            self.set(entropy, if is_good { State::Good } else { State::Skip });
        }
    }

    pub(super) fn lost(&mut self, now: Time, entropy: u32) {
        if self.is_assumed_bad(entropy) {
            return;
        }
        self.set(entropy, State::AssumedBad);
        if !core::mem::replace(&mut self.waits[entropy as usize], true) {
            // Probes that are due precede it.
            let latest = self.to_probe.back().map_or(now, |&(at, _)| at.max(now));
            self.to_probe.push_back((latest, entropy));
        }
    }

    /// Sets a state. The entropy of the rotation has its place, unless only its backup works.
    fn set(&mut self, entropy: u32, state: State) {
        let place = entropy % self.paths();
        let backup = place + self.paths();
        let is_empty = |mrc: &Mrc| mrc.is_assumed_bad(place) && mrc.is_assumed_bad(backup);
        self.empty -= u32::from(is_empty(self));
        self.states[entropy as usize] = state;
        self.empty += u32::from(is_empty(self));
        self.is_replaced[place as usize] =
            self.is_assumed_bad(place) && !self.is_assumed_bad(backup);
    }

    #[inline]
    pub(super) fn probe(&mut self, now: Time, interval: Span) -> Option<u32> {
        let is_due = self.to_probe.front().is_some_and(|&(at, _)| at <= now) && self.may_probe;
        if is_due { self.probe_next(now, interval) } else { None }
    }

    #[cold]
    fn probe_next(&mut self, now: Time, interval: Span) -> Option<u32> {
        while let Some((_, entropy)) = self.to_probe.pop_front_if(|&mut (at, _)| at <= now) {
            if self.is_assumed_bad(entropy) {
                self.to_probe.push_back((now.after(interval), entropy));
                self.may_probe = false;
                return Some(entropy);
            }
            self.waits[entropy as usize] = false;
        }
        None
    }

    fn is_assumed_bad(&self, entropy: u32) -> bool {
        self.states[entropy as usize] == State::AssumedBad
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Span = Span::us(10);

    /// A rotation of four in the order of their numbers.
    struct Rotation {
        mrc: Mrc,
        position: u32,
    }

    impl Rotation {
        fn new() -> Rotation {
            Rotation { mrc: Mrc::new(4), position: 0 }
        }

        fn next<const N: usize>(&mut self) -> [u32; N] {
            let Rotation { mrc, position } = self;
            let mut round_robin = || {
                let place = *position;
                *position = (place + 1) % 4;
                place
            };
            core::array::from_fn(|_| mrc.next(&mut round_robin))
        }
    }

    #[test]
    fn congested_entropy_is_skipped_once() {
        let mut rotation = Rotation::new();
        rotation.mrc.arrived(1, false);
        // Further feedback before the turn of the entropy changes nothing.
        rotation.mrc.arrived(1, false);
        rotation.mrc.arrived(1, true);
        assert_eq!(rotation.next(), [0, 2, 3, 0, 1, 2, 3]);
    }

    #[test]
    fn packet_restores_one_entropy() {
        let mut rotation = Rotation::new();
        (0..4).for_each(|entropy| rotation.mrc.arrived(entropy, false));
        // 0 is restored, 1 to 3 are skipped, then it is the turn of 0 again. The same with 1, ...
        assert_eq!(rotation.next(), [0]);
        assert_eq!(rotation.mrc.states[..4], [State::Good, State::Skip, State::Skip, State::Skip]);
        assert_eq!(rotation.next(), [0, 1, 0, 1, 2, 0, 1, 2, 3, 0]);
    }

    #[test]
    fn lost_packet_replaces_its_entropy() {
        let mut rotation = Rotation::new();
        rotation.mrc.lost(Time::us(1), 1);
        assert_eq!(rotation.next(), [0, 5, 2, 3]);
        // Without a backup that works, the place is empty.
        rotation.mrc.lost(Time::us(2), 5);
        assert_eq!(rotation.next(), [0, 2, 3, 0, 2, 3]);
        // The backup alone has the place until the other one recovers.
        rotation.mrc.arrived(5, true);
        assert_eq!(rotation.next(), [0, 5, 2, 3]);
        rotation.mrc.arrived(1, false);
        assert_eq!(rotation.next(), [0, 2, 3, 0, 1]);
    }

    #[test]
    fn failed_entropies_are_probed_round_robin() {
        let mut mrc = Mrc::new(4);
        assert_eq!(mrc.probe(Time::us(5), INTERVAL), None);
        [1, 5, 1].into_iter().for_each(|entropy| mrc.lost(Time::us(5), entropy));
        let probe = |mrc: &mut Mrc, us| {
            mrc.next(|| 0);
            mrc.probe(Time::us(us), INTERVAL)
        };
        let probes = [5, 5, 5, 14].map(|us| probe(&mut mrc, us));
        assert_eq!(probes, [Some(1), Some(5), None, None]);
        // A packet leaves between two probes.
        mrc.lost(Time::us(6), 3);
        mrc.lost(Time::us(6), 7);
        assert!(probe(&mut mrc, 15).is_some() && mrc.probe(Time::us(15), INTERVAL).is_none());
        mrc.arrived(3, true);
        mrc.arrived(7, true);
        let mut mrc = Mrc::new(4);
        mrc.lost(Time::us(5), 1);
        mrc.lost(Time::us(5), 5);
        assert_eq!([5, 5].map(|us| probe(&mut mrc, us)), [Some(1), Some(5)]);
        // A new one waits for those before it.
        mrc.lost(Time::us(14), 2);
        let probes = [14, 15, 16, 16, 24].map(|us| probe(&mut mrc, us));
        assert_eq!(probes, [None, Some(1), Some(5), Some(2), None]);
        for (entropy, is_good) in [(5, true), (1, true), (2, false)] {
            mrc.arrived(entropy, is_good);
        }
        assert_eq!(probe(&mut mrc, 90), None);
        // One that fails again is probed again.
        mrc.lost(Time::us(95), 1);
        assert_eq!(probe(&mut mrc, 95), Some(1));
    }

    #[test]
    fn without_working_paths_packets_still_leave() {
        let mut rotation = Rotation::new();
        (0..8).for_each(|entropy| rotation.mrc.lost(Time::ZERO, entropy));
        assert!(rotation.next::<4>().iter().all(|&entropy| entropy < 4));
        // The only one that works is used, also after it was to be skipped.
        rotation.mrc.arrived(6, false);
        assert_eq!(rotation.next(), [6, 6, 6]);
        // Also if the turns of two rounds do not include it again.
        rotation.mrc.arrived(6, false);
        let mut positions = [2].into_iter().chain(core::iter::repeat(0));
        assert_eq!(rotation.mrc.next(|| positions.next().unwrap()), 6);
    }
}
