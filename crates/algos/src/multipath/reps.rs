//! Recycled Entropy Packet Spraying (REPS): the entropies of the latest good acknowledgements are
//! used again, oldest first, once each; without one, a packet gets a random entropy. After a
//! timeout the connection **freezes**: it cycles through the entropies that it holds, also used
//! ones, because new ones could lead to the failed link. 10 ms later it forgets all of them and
//! explores with 16 random ones.
//!
//! Source: `buffer_reps.cpp` and `uec_mp.cpp` of ultraethernet/uet-htsim; the idea is REPS (arXiv
//! 2407.21625).

use tidegate_core::{Span, Time};

/// Number of entropies that are held.
const HELD: usize = 8;
/// Time for which a connection stays frozen.
const FROZEN: Span = Span::ms(10);
/// Random entropies after that time.
const EXPLORED: u32 = 16;

/// State of a connection.
#[derive(Default)]
pub(super) struct Reps {
    held: [Entropy; HELD],
    /// Place of the next entropy.
    head: usize,
    /// Number of places in use.
    count: usize,
    /// Number of entropies that have not been used again.
    fresh: usize,
    frozen_until: Option<Time>,
    /// Place of the next entropy while frozen.
    frozen_head: usize,
    /// Random entropies to use before others.
    explores: u32,
}

#[derive(Clone, Copy, Default)]
struct Entropy {
    path: u32,
    is_fresh: bool,
}

impl Reps {
    /// The entropy to use again; `None`: a random one.
    pub(super) fn next(&mut self) -> Option<u32> {
        if self.explores > 0 {
            self.explores -= 1;
            return None;
        }
        let place = if self.frozen_until.is_some() {
            if self.count == 0 {
                return None;
            }
            let place = self.frozen_head % self.count;
            self.frozen_head = (place + 1) % self.count;
            place
        } else {
            if self.fresh == 0 {
                return None;
            }
            (self.head + HELD - self.fresh) % HELD
        };
        let entropy = &mut self.held[place];
        self.fresh -= usize::from(entropy.is_fresh);
        entropy.is_fresh = false;
        Some(entropy.path)
    }

    /// Registers the feedback on a packet with the entropy `path`.
    pub(super) fn feedback(&mut self, now: Time, path: u32, is_good: bool) {
        if self.frozen_until.is_some_and(|until| now > until) {
            *self = Reps { explores: EXPLORED, ..Reps::default() };
        }
        if is_good {
            let place = &mut self.held[self.head];
            self.fresh += usize::from(!place.is_fresh);
            *place = Entropy { path, is_fresh: true };
            self.head = (self.head + 1) % HELD;
            self.count = (self.count + 1).min(HELD);
        }
    }

    /// Registers a timeout.
    pub(super) fn time_out(&mut self, now: Time) {
        if self.frozen_until.is_none() && self.explores == 0 {
            self.frozen_until = Some(now + FROZEN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(paths: core::ops::Range<u32>) -> Reps {
        let mut reps = Reps::default();
        paths.for_each(|path| reps.feedback(Time::ZERO, path, true));
        reps
    }

    #[test]
    fn good_entropies_are_used_again_once() {
        let mut reps = Reps::default();
        assert_eq!(reps.next(), None);
        for (path, is_good) in [(3, true), (4, false), (5, true)] {
            reps.feedback(Time::ZERO, path, is_good);
        }
        assert_eq!([reps.next(), reps.next(), reps.next()], [Some(3), Some(5), None]);
        // The latest eight.
        let mut reps = filled(0..11);
        for path in 3..11 {
            assert_eq!(reps.next(), Some(path));
        }
        assert_eq!(reps.next(), None);
    }

    #[test]
    fn timeout_freezes_the_held_entropies() {
        let mut reps = filled(0..3);
        assert_eq!(reps.next(), Some(0));
        reps.time_out(Time::us(1));
        let cycle: [_; 7] = core::array::from_fn(|_| reps.next());
        assert_eq!(cycle, [0, 1, 2, 0, 1, 2, 0].map(Some));
        // Good ones join the cycle.
        reps.feedback(Time::us(2), 9, true);
        assert_eq!([reps.next(), reps.next(), reps.next()], [1, 2, 9].map(Some));
        // Later it explores, and a timeout does not freeze it.
        reps.feedback(Time::ms(11), 5, true);
        reps.time_out(Time::ms(11));
        for _ in 0..EXPLORED {
            assert_eq!(reps.next(), None);
        }
        assert_eq!([reps.next(), reps.next()], [Some(5), None]);
    }

    #[test]
    fn frozen_without_entropies_is_random() {
        let mut reps = Reps::default();
        reps.time_out(Time::ZERO);
        assert_eq!(reps.next(), None);
    }
}
