//! Choice of a path for every packet of a connection, by an entropy that switches hash.
//!
//! A connection has `paths` entropies; switches map each to a path by ECMP, so two of them may
//! share links. An acknowledgement returns the entropy of its packet with what happened on that
//! path. Any transport whose packets may overtake each other can use it. The rules:
//!
//! * **Oblivious**: every entropy in turn, in an order that changes with each round. Feedback has
//!   no effect.
//! * **Flowlet**: a random entropy for each flowlet, which ends when no packet leaves for a given
//!   time. Feedback has no effect.
//! * **Bitmap**: every entropy in turn, but an entropy with a penalty is skipped. The first one
//!   that is skipped for a packet loses one point. A mark costs 1, a packet trimmed in the core 4,
//!   one that was also returned to its sender 12, at most 15 in all.
//! * **REPS** ([`reps`]): entropies of unmarked acknowledgements are used again, once each.
//! * **Mixed**: uses the entropies of unmarked acknowledgements again, oldest first, as a first
//!   version of REPS did; if there is none, as `bitmap`.
//! * **MRC** ([`mrc`]): every entropy in turn; a congested one is skipped once, and one that lost a
//!   packet is replaced until a probe over it is answered.
//!
//! Source: `uec_mp.cpp` and `buffer_reps.cpp` of ultraethernet/uet-htsim; REPS (arXiv 2407.21625);
//! flowlets: LetFlow (NSDI'17), where switches detect them.
//!
//! # Differences from the source
//!
//! * The source does not know the path of a packet whose timeout expired. It penalises the entropy
//!   of an arbitrary constant; here, bitmaps ignore timeouts. In both, a timeout freezes REPS.

mod mrc;
mod reps;

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use mrc::Mrc;
use reps::Reps;
use tidegate_core::{Domain, MultipathRule, Rng, Span, Time};

/// Largest penalty of a path.
const MAX_PENALTY: u8 = 15;
/// Most entropies that wait to be used again: the most packets in flight in the source. Duplicate
/// acknowledgements could otherwise add any number.
const MOST_RECYCLED: usize = 1 << 14;

/// Outcome of a packet on its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathFeedback {
    /// It arrived without a mark, or was trimmed at the last hop without a mark.
    Good,
    /// It arrived with a mark.
    Marked,
    /// It was trimmed in the core.
    Trimmed,
    /// It was trimmed in the core and returned to its sender.
    Returned,
}

/// Path state of a connection.
pub(crate) struct Multipath {
    rng: Rng,
    /// Upper bits of all entropies.
    base: u32,
    /// The other bits.
    own: u32,
    /// Number of paths, minus one: a mask.
    mask: u32,
    position: u32,
    /// Order of this round: the position is combined with it.
    order: u32,
    choice: Choice,
}

enum Choice {
    Oblivious,
    Flowlet(Flowlet),
    Bitmap(Vec<u8>),
    Reps(Reps),
    Mixed { penalties: Vec<u8>, recycled: VecDeque<u32> },
    Mrc(Mrc),
}

/// The current flowlet.
struct Flowlet {
    /// Time without a packet that ends it.
    gap: Span,
    path: u32,
    /// Departure of its last packet; `None`: there has been none.
    left_at: Option<Time>,
}

/// Rule of a connection, and its settings.
#[derive(Clone, Copy)]
pub(crate) struct PathRule {
    pub(crate) rule: MultipathRule,
    /// Number of entropies, a power of two.
    pub(crate) paths: u32,
    /// Time without a packet that ends a flowlet.
    pub(crate) flowlet_gap: Span,
}

impl Multipath {
    /// State of a connection with this seed. `None` without multipath.
    pub(crate) fn new(rule: PathRule, seed: u64) -> Option<Multipath> {
        let PathRule { rule, paths, flowlet_gap: gap } = rule;
        let penalties = || vec![0; paths as usize];
        let choice = match rule {
            MultipathRule::Off => return None,
            MultipathRule::Oblivious => Choice::Oblivious,
            MultipathRule::Flowlet => Choice::Flowlet(Flowlet { gap, path: 0, left_at: None }),
            MultipathRule::Bitmap => Choice::Bitmap(penalties()),
            MultipathRule::Reps => Choice::Reps(Reps::default()),
            MultipathRule::Mixed => {
                Choice::Mixed { penalties: penalties(), recycled: VecDeque::new() }
            }
            MultipathRule::Mrc => Choice::Mrc(Mrc::new(paths)),
        };
        let mut rng = Rng::stream(seed, Domain::Transport, 1);
        let mask = paths - 1;
        let own = if rule == MultipathRule::Mrc { 2 * paths - 1 } else { mask };
        let base = rng.bits() as u32 & !own;
        let order = rng.bits() as u32 & mask;
        Some(Multipath { rng, base, own, mask, position: 0, order, choice })
    }

    /// Entropy of the next packet, which leaves now.
    #[inline]
    pub(crate) fn next(&mut self, now: Time) -> u32 {
        let Multipath { rng, base, own: _, mask, position, order, choice } = self;
        let mut round_robin = || {
            let path = (*position ^ *order) & *mask;
            *position += 1;
            if *position > *mask {
                *position = 0;
                *order = rng.bits() as u32 & *mask;
            }
            path
        };
        let path = match choice {
            Choice::Oblivious => round_robin(),
            Choice::Flowlet(Flowlet { gap, path, left_at }) => {
                if left_at.is_none_or(|at| now.since(at) >= *gap) {
                    *path = rng.bits() as u32 & *mask;
                }
                *left_at = Some(now);
                *path
            }
            Choice::Bitmap(penalties) => unpenalised(penalties, round_robin),
            Choice::Mixed { penalties, recycled } => match recycled.pop_front() {
                Some(path) => path,
                None => unpenalised(penalties, round_robin),
            },
            Choice::Reps(reps) => reps.next().unwrap_or_else(|| rng.bits() as u32 & *mask),
            Choice::Mrc(mrc) => mrc.next(round_robin),
        };
        *base | path
    }

    /// Registers what happened to a packet with this entropy. Entropies of other connections are
    /// ignored: an acknowledgement can be forged.
    pub(crate) fn feedback(&mut self, now: Time, entropy: u32, feedback: PathFeedback) {
        let path = entropy & self.own;
        if entropy & !self.own != self.base {
            return;
        }
        let is_good = feedback == PathFeedback::Good;
        match &mut self.choice {
            Choice::Oblivious | Choice::Flowlet(_) => {}
            Choice::Bitmap(penalties) => penalise(penalties, path, feedback),
            Choice::Reps(reps) => reps.feedback(now, path, is_good),
            Choice::Mixed { penalties, recycled } => {
                penalise(penalties, path, feedback);
                if is_good && recycled.len() < MOST_RECYCLED {
                    recycled.push_back(path);
                }
            }
            Choice::Mrc(mrc) => mrc.arrived(path, is_good),
        }
    }

    /// Whether it must know the paths of lost packets.
    #[inline]
    pub(crate) fn learns_from_losses(&self) -> bool {
        matches!(self.choice, Choice::Mrc(_))
    }

    /// Registers that a packet with this entropy was lost without a trace.
    pub(crate) fn lost(&mut self, now: Time, entropy: u32) {
        if let Choice::Mrc(mrc) = &mut self.choice {
            mrc.lost(now, entropy & self.own);
        }
    }

    /// Entropy of a path to probe now, if one is due. Each call is a probe, so that the next one of
    /// this path is due an `interval` later. A packet leaves between two probes.
    #[inline]
    pub(crate) fn probe(&mut self, now: Time, interval: Span) -> Option<u32> {
        let Choice::Mrc(mrc) = &mut self.choice else { return None };
        mrc.probe(now, interval).map(|path| self.base | path)
    }

    /// Registers a retransmission timeout.
    pub(crate) fn time_out(&mut self, now: Time) {
        if let Choice::Reps(reps) = &mut self.choice {
            reps.time_out(now);
        }
    }
}

fn penalise(penalties: &mut [u8], path: u32, feedback: PathFeedback) {
    let penalty = match feedback {
        PathFeedback::Good => 0,
        PathFeedback::Marked => 1,
        PathFeedback::Trimmed => 4,
        // As three trimmed ones: csg-htsim, ndp.cpp, count_feedback.
        PathFeedback::Returned => 12,
    };
    let of_path = &mut penalties[path as usize];
    *of_path = (*of_path + penalty).min(MAX_PENALTY);
}

/// The next path in turn without a penalty. Only the first one that is skipped becomes better.
fn unpenalised(penalties: &mut [u8], mut round_robin: impl FnMut() -> u32) -> u32 {
    let mut path = round_robin();
    if penalties[path as usize] == 0 {
        return path;
    }
    penalties[path as usize] -= 1;
    for _ in 0..penalties.len() {
        path = round_robin();
        if penalties[path as usize] == 0 {
            break;
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    fn of(rule: MultipathRule) -> PathRule {
        PathRule { rule, paths: 8, flowlet_gap: Span::us(5) }
    }

    fn new(rule: MultipathRule) -> Multipath {
        Multipath::new(of(rule), 1).expect("a rule")
    }

    fn round(paths: &mut Multipath) -> Vec<u32> {
        (0..8).map(|_| paths.next(Time::ZERO)).collect()
    }

    #[test]
    fn flowlets_have_a_path_each() {
        let mut paths = new(MultipathRule::Flowlet);
        let mut used = BTreeSet::new();
        for start in (0..100).map(|nth| Time::us(20 * nth)) {
            let path = paths.next(start);
            // Packets with shorter gaps belong to the same flowlet.
            for us in [4, 8, 12] {
                assert_eq!(paths.next(start + Span::us(us)), path);
            }
            used.insert(path);
        }
        assert_eq!(used.len(), 8);
    }

    #[test]
    fn every_round_has_every_path_once() {
        for rule in [
            MultipathRule::Oblivious,
            MultipathRule::Bitmap,
            MultipathRule::Mixed,
            MultipathRule::Mrc,
        ] {
            let mut paths = new(rule);
            let rounds: Vec<_> = (0..6).map(|_| round(&mut paths)).collect();
            for round in &rounds {
                assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), 8, "{rule:?}");
            }
            assert!(
                rounds.iter().collect::<BTreeSet<_>>().len() > 2,
                "{rule:?}: the order changes"
            );
            let rounds = rounds.concat();
            let upper: BTreeSet<u32> = rounds.iter().map(|entropy| entropy & !7).collect();
            assert_eq!(upper.len(), 1, "{rule:?}");
        }
        assert!(Multipath::new(of(MultipathRule::Off), 1).is_none());
    }

    #[test]
    fn penalised_paths_are_skipped_once_a_point() {
        for (feedback, skips) in
            [(PathFeedback::Marked, 1), (PathFeedback::Trimmed, 4), (PathFeedback::Returned, 12)]
        {
            let mut paths = new(MultipathRule::Bitmap);
            let bad = paths.next(Time::ZERO);
            paths.feedback(Time::ZERO, bad, feedback);
            let used =
                (0..200).map(|_| paths.next(Time::ZERO)).filter(|&entropy| entropy == bad).count();
            let mut without = new(MultipathRule::Bitmap);
            let all = (0..201)
                .map(|_| without.next(Time::ZERO))
                .filter(|&entropy| entropy == bad)
                .count();
            assert!((all - 1 - skips..=all - skips + 1).contains(&used), "{used} of {all}");
        }
        // Penalties have a bound, and with all paths penalised there is a next one.
        let mut paths = new(MultipathRule::Bitmap);
        for _ in 0..100 {
            for path in 0..8 {
                paths.feedback(Time::ZERO, paths.base | path, PathFeedback::Trimmed);
            }
        }
        let used: BTreeSet<u32> = (0..400).map(|_| paths.next(Time::ZERO)).collect();
        assert_eq!(used.len(), 8);
        // Feedback on an entropy that it never had.
        paths.feedback(Time::ZERO, !paths.base, PathFeedback::Marked);
    }

    #[test]
    fn mixed_recycles_good_paths_first() {
        let mut paths = new(MultipathRule::Mixed);
        let sent = round(&mut paths);
        paths.feedback(Time::ZERO, sent[3], PathFeedback::Good);
        paths.feedback(Time::ZERO, sent[5], PathFeedback::Marked);
        paths.feedback(Time::ZERO, sent[6], PathFeedback::Good);
        assert_eq!([paths.next(Time::ZERO), paths.next(Time::ZERO)], [sent[3], sent[6]]);
        let next = round(&mut paths);
        assert!(!next[..7].contains(&sent[5]), "{next:?} {}", sent[5]);
    }

    #[test]
    fn losses_and_probes_concern_own_entropies() {
        let mut paths = new(MultipathRule::Mrc);
        assert!(paths.learns_from_losses() && !new(MultipathRule::Bitmap).learns_from_losses());
        let sent = round(&mut paths);
        assert_eq!(sent.iter().collect::<BTreeSet<_>>().len(), 8);
        paths.lost(Time::ZERO, sent[3]);
        paths.feedback(Time::ZERO, sent[3] ^ 1 << 4, PathFeedback::Good);
        assert_eq!(paths.probe(Time::ZERO, Span::us(1)), Some(sent[3]));
        // The backup differs in the bit above those of the paths.
        let next = round(&mut paths);
        assert!(next.contains(&(sent[3] ^ 8)) && !next.contains(&sent[3]));
        paths.feedback(Time::ZERO, sent[3], PathFeedback::Good);
        assert!(round(&mut paths).contains(&sent[3]));
    }
}
