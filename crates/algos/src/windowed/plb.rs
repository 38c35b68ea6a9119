//! Leaving a congested path: Protective Load Balancing (Qureshi et al., "PLB: Congestion Signals are Simple and Effective
//! for Network Load Balancing", SIGCOMM 2022), for any congestion control that can tell a good sample from a bad one.
//!
//! A connection that has had no good sample for a random 5 to 7 round trips takes a new ECMP hash and begins to count
//! again; the interval is drawn anew with each good sample. A retransmission timeout changes the path at once. This is the
//! rule of Broadcom/csg-htsim (`swift.cpp`). Linux counts rounds in which half the packets were marked instead, and waits
//! for 12.
//!
//! Packets on the new path overtake those on the old one, so for two round trips losses are found by time, not by order.

use tidegate_core::{Domain, Rng, Time};

/// A connection is patient for so many round trips: from the first, up to and without the second.
const PATIENCE_RTTS: (f64, f64) = (5.0, 7.0);

/// What a connection remembers of its path.
pub(super) struct Plb {
    rng: Rng,
    /// The last good sample or change of path; nothing before the first sample.
    since: Option<Time>,
    patience: Time,
    /// Packets may overtake each other until then.
    unordered_until: Time,
}

impl Plb {
    /// For a connection with this seed.
    pub(super) fn new(seed: u64) -> Plb {
        let rng = Rng::stream(seed, Domain::Transport, 0);
        Plb { rng, since: None, patience: Time::ZERO, unordered_until: Time::ZERO }
    }

    /// Takes in a sample; a new ECMP hash where it is time to leave.
    pub(super) fn sample(&mut self, now: Time, rtt: Time, congested: bool) -> Option<u32> {
        match self.since {
            Some(since) if congested => (now.since(since) > self.patience).then(|| self.leave(now, rtt)),
            _ => {
                let (least, most) = PATIENCE_RTTS;
                self.patience = rtt.scale(least + (most - least) * self.rng.unit());
                self.since = Some(now);
                None
            }
        }
    }

    /// A new ECMP hash, at once.
    pub(super) fn leave(&mut self, now: Time, rtt: Time) -> u32 {
        self.since = Some(now);
        self.unordered_until = now.after(rtt.times(2));
        self.rng.bits() as u32
    }

    /// Whether packets may overtake each other after a change of path.
    pub(super) fn is_unordered(&self, now: Time) -> bool {
        now < self.unordered_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Time = Time::us(10);

    fn congested_until_it_leaves(plb: &mut Plb, from: u64) -> u64 {
        (from..from + 1000).find(|&us| plb.sample(Time::us(us), RTT, true).is_some()).unwrap()
    }

    #[test]
    fn leaves_after_five_to_seven_round_trips_without_a_good_sample() {
        for seed in 0..100 {
            let mut plb = Plb::new(seed);
            assert_eq!(plb.sample(Time::us(100), RTT, false), None);
            let first = congested_until_it_leaves(&mut plb, 101);
            assert!((150..=171).contains(&first), "{first}");
            let second = congested_until_it_leaves(&mut plb, first + 1);
            assert!((50..=71).contains(&(second - first)), "{}", second - first);
        }
    }

    #[test]
    fn a_good_sample_starts_the_clock_again() {
        let mut plb = Plb::new(1);
        for us in 0..10_000 {
            assert_eq!(plb.sample(Time::us(us), RTT, us % 40 != 0), None);
        }
    }

    #[test]
    fn order_is_not_trusted_for_two_round_trips() {
        let mut plb = Plb::new(1);
        plb.leave(Time::us(50), RTT);
        assert!(plb.is_unordered(Time::us(69)) && !plb.is_unordered(Time::us(70)));
    }

    #[test]
    fn hashes_differ_between_connections_and_moves() {
        let (mut a, mut b) = (Plb::new(1), Plb::new(2));
        let hashes = [a.leave(Time::ZERO, RTT), a.leave(Time::ZERO, RTT), b.leave(Time::ZERO, RTT)];
        assert!(hashes[0] != hashes[1] && hashes[0] != hashes[2] && hashes[1] != hashes[2]);
    }
}
