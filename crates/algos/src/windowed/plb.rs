//! Change of a congested path: Protective Load Balancing (Qureshi et al., "PLB: Congestion Signals
//! are Simple and Effective for Network Load Balancing", SIGCOMM 2022), for any congestion control
//! that distinguishes good samples from bad ones.
//!
//! Two rules, by [`PlbRule`]:
//!
//! * `htsim` (Broadcom/csg-htsim, `swift.cpp`): a connection without a good sample for a random 5
//!   to 7 round trips takes a new ECMP hash and restarts the count; the interval is drawn again
//!   with each good sample. A first sample starts the clock, also if it is not good.
//! * `rounds` (from the paper; constants are those of Linux, `net/ipv4/tcp_plb.c`): a round trip is
//!   congested if half of its acknowledged packets were; after 12 consecutive congested rounds, or
//!   3 if nothing is in flight, the connection takes a new hash. A round ends with the
//!   acknowledgement of the last packet that was sent before it began.
//!
//! Under both rules a retransmission timeout changes the path immediately. Under `rounds` the
//! connection then keeps the new path for 60 to 120 s, unless another timeout occurs. Packets on
//! the new path overtake those on the old one, so for two round trips losses are detected by time,
//! not by order.

use tidegate_core::{Ack, Domain, Rng, Span, Time};

use super::params::{ConnectionParams, PlbRule};

/// Number of round trips without a good sample before a change: from the first value up to, but
/// excluding, the second.
const PATIENCE_RTTS: (f64, f64) = (5.0, 7.0);

/// Path state of a connection.
pub(super) struct Plb {
    rng: Rng,
    /// `htsim`: the last good sample or path change; none before the first sample.
    since: Option<Time>,
    patience: Span,
    /// `rounds`: packets acknowledged in this round, and the congested ones among them.
    acked: u32,
    congested: u32,
    /// The round ends when all packets before this one are acknowledged; 0 before the first.
    round_end: u64,
    /// Consecutive congested rounds.
    rounds: u64,
    /// No path change before this time.
    suspended_until: Time,
    /// Until this time packets may overtake each other.
    unordered_until: Time,
}

impl Plb {
    /// State of a connection with this seed.
    pub(super) fn new(seed: u64) -> Plb {
        Plb {
            rng: Rng::stream(seed, Domain::Transport, 0),
            since: None,
            patience: Span::ZERO,
            acked: 0,
            congested: 0,
            round_end: 0,
            rounds: 0,
            suspended_until: Time::ZERO,
            unordered_until: Time::ZERO,
        }
    }

    /// Registers a sample. Returns a new ECMP hash if the path changes. `rtt` is the smoothed one.
    pub(super) fn sample(
        &mut self,
        params: &ConnectionParams,
        ack: &Ack<'_>,
        rtt: Span,
        congested: bool,
    ) -> Option<u32> {
        let leaves = match params.plb {
            PlbRule::Off => false,
            PlbRule::Htsim => self.htsim_expired(ack.now, rtt, congested),
            PlbRule::Rounds => self.rounds_expired(params, ack, congested),
        };
        leaves.then(|| self.leave(ack.now, rtt))
    }

    /// The rule of htsim.
    fn htsim_expired(&mut self, now: Time, rtt: Span, congested: bool) -> bool {
        match self.since {
            Some(since) if congested => now.since(since) > self.patience,
            _ => {
                let (least, most) = PATIENCE_RTTS;
                self.patience = rtt.scale(least + (most - least) * self.rng.unit());
                self.since = Some(now);
                false
            }
        }
    }

    /// The rule of the paper.
    fn rounds_expired(
        &mut self,
        params: &ConnectionParams,
        ack: &Ack<'_>,
        congested: bool,
    ) -> bool {
        if self.round_end == 0 {
            self.round_end = ack.next_seq;
        }
        self.acked += ack.acked_packets;
        self.congested += if congested { ack.acked_packets } else { 0 };
        if ack.seq + 1 >= self.round_end {
            if self.acked > 0 {
                let is_congested =
                    self.congested as f64 >= params.plb_threshold * self.acked as f64;
                self.rounds = if is_congested { self.rounds + 1 } else { 0 };
            }
            (self.acked, self.congested, self.round_end) = (0, 0, ack.next_seq);
        }
        let enough =
            if ack.in_flight_bytes == 0 { params.plb_idle_rounds } else { params.plb_rounds };
        self.rounds >= enough.min(params.plb_rounds) && ack.now >= self.suspended_until
    }

    /// Handles a retransmission timeout: returns a new ECMP hash.
    pub(super) fn time_out(&mut self, params: &ConnectionParams, now: Time, rtt: Span) -> u32 {
        if params.plb == PlbRule::Rounds {
            self.suspended_until = now.after(params.plb_suspend.scale(1.0 + self.rng.unit()));
        }
        self.leave(now, rtt)
    }

    fn leave(&mut self, now: Time, rtt: Span) -> u32 {
        // Before the first sample, there is no interval.
        self.since = self.since.map(|_| now);
        self.rounds = 0;
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
    use alloc::vec::Vec;

    use super::*;
    use crate::contract::ack;

    const RTT: Span = Span::us(10);

    fn with(plb: PlbRule) -> ConnectionParams {
        ConnectionParams { plb, ..Default::default() }
    }

    fn sample(plb: &mut Plb, us: u64, congested: bool) -> bool {
        plb.sample(&with(PlbRule::Htsim), &ack(Time::us(us)), RTT, congested).is_some()
    }

    fn congested_until_path_change(plb: &mut Plb, from: u64) -> u64 {
        (from..from + 1000).find(|&us| sample(plb, us, true)).unwrap()
    }

    /// Rounds of 20 packets with this number of congested ones, after each of which something is in
    /// flight or not; returns the rounds in which the path changes.
    fn left_in(
        plb: &mut Plb,
        params: &ConnectionParams,
        rounds: core::ops::Range<u64>,
        congested: u64,
        idle: bool,
    ) -> Vec<u64> {
        let mut left = Vec::new();
        for round in rounds {
            for i in 0..20 {
                let last = i == 19;
                let seq = 20 * round + i;
                let ack = Ack {
                    seq,
                    next_seq: 20 * (round + 1 + u64::from(last)),
                    in_flight_bytes: if idle && last { 0 } else { 80_000 },
                    ..ack(Time::us(10 * round))
                };
                if plb.sample(params, &ack, RTT, i < congested).is_some() {
                    left.push(round);
                }
            }
        }
        left
    }

    #[test]
    fn path_changes_after_12_congested_rounds_or_3_idle() {
        let params = with(PlbRule::Rounds);
        let left = |congested, idle| left_in(&mut Plb::new(1), &params, 0..36, congested, idle);
        assert_eq!(left(10, false), [11, 23, 35]);
        assert_eq!(left(9, false), []);
        assert_eq!(left(20, true)[..4], [2, 5, 8, 11]);
        // A good round restarts the count.
        let mut plb = Plb::new(1);
        assert_eq!(left_in(&mut plb, &params, 0..11, 20, false), []);
        assert_eq!(left_in(&mut plb, &params, 11..13, 0, false), []);
        assert_eq!(left_in(&mut plb, &params, 13..36, 20, false), [24]);
    }

    #[test]
    fn timeout_suspends_path_changes() {
        let params = ConnectionParams { plb_suspend: Span::us(1000), ..with(PlbRule::Rounds) };
        let mut plb = Plb::new(1);
        plb.time_out(&params, Time::ZERO, RTT);
        let first = left_in(&mut plb, &params, 0..220, 20, false)[0];
        assert!((100..200).contains(&first), "{first}");
    }

    #[test]
    fn idle_rounds_never_take_longer_than_others() {
        let params =
            ConnectionParams { plb_rounds: 3, plb_idle_rounds: 10, ..with(PlbRule::Rounds) };
        let mut plb = Plb::new(1);
        // One packet per round, with nothing in flight after it.
        let left = (0..10).filter(|&seq| {
            let ack = Ack { seq, next_seq: seq + 1, in_flight_bytes: 0, ..ack(Time::us(10 * seq)) };
            plb.sample(&params, &ack, RTT, true).is_some()
        });
        assert_eq!(left.collect::<Vec<_>>(), [2, 5, 8]);
    }

    #[test]
    fn round_is_congested_from_the_threshold() {
        let params = with(PlbRule::Rounds);
        for (congested, expected) in [(4_999, &[][..]), (5_000, &[11, 23][..])] {
            let mut plb = Plb::new(1);
            let left = (0..30).filter(|&round| {
                let ack = Ack { next_seq: 2 * round + 2, ..ack(Time::us(10 * round)) };
                let bad = Ack { seq: 2 * round, acked_packets: congested, ..ack };
                let acked_packets = 10_000 - congested;
                let next_seq = 2 * round + 4;
                let good = Ack { seq: 2 * round + 1, next_seq, acked_packets, ..ack };
                plb.sample(&params, &bad, RTT, true)
                    .or(plb.sample(&params, &good, RTT, false))
                    .is_some()
            });
            assert_eq!(left.collect::<Vec<_>>(), expected, "{congested} of 10,000");
        }
    }

    #[test]
    fn timeout_restarts_on_an_unordered_path() {
        let mut plb = Plb::new(1);
        assert!(!sample(&mut plb, 100, false));
        plb.time_out(&with(PlbRule::Htsim), Time::us(140), RTT);
        assert!(plb.is_unordered(Time::us(159)) && !plb.is_unordered(Time::us(160)));
        // 5 to 7 round trips from the timeout, not from the good sample.
        let left = congested_until_path_change(&mut plb, 141);
        assert!((190..=211).contains(&left), "{left}");
        // Rounds before the timeout do not count after it.
        let params = ConnectionParams { plb_suspend: Span::ZERO, ..with(PlbRule::Rounds) };
        let mut plb = Plb::new(1);
        assert_eq!(left_in(&mut plb, &params, 0..11, 20, false), []);
        plb.time_out(&params, Time::us(110), RTT);
        assert_eq!(left_in(&mut plb, &params, 11..24, 20, false), [22]);
    }

    #[test]
    fn timeout_before_the_first_sample_sets_no_interval() {
        let mut plb = Plb::new(1);
        plb.time_out(&with(PlbRule::Htsim), Time::us(40), RTT);
        let left = congested_until_path_change(&mut plb, 100);
        assert!((150..=171).contains(&left), "{left}");
    }

    #[test]
    fn patience_is_drawn_with_each_good_sample() {
        let (mut plb, mut us) = (Plb::new(1), 0);
        let mut patiences: Vec<_> = (0..40)
            .map(|_| {
                assert!(!sample(&mut plb, us, false));
                let left = congested_until_path_change(&mut plb, us + 1);
                let patience = left - us;
                us = left + 1;
                patience
            })
            .collect();
        patiences.sort_unstable();
        let (least, most) = (patiences[0], patiences[39]);
        assert!((51..55).contains(&least) && (66..=71).contains(&most), "{patiences:?}");
    }

    #[test]
    fn path_changes_after_5_to_7_rtts_without_good_sample() {
        for seed in 0..100 {
            let mut plb = Plb::new(seed);
            assert!(!sample(&mut plb, 100, false));
            let first = congested_until_path_change(&mut plb, 101);
            assert!((150..=171).contains(&first), "{first}");
            let second = congested_until_path_change(&mut plb, first + 1);
            assert!((50..=71).contains(&(second - first)), "{}", second - first);
        }
    }

    #[test]
    fn a_good_sample_starts_the_clock_again() {
        let mut plb = Plb::new(1);
        for us in 0..10_000 {
            assert!(!sample(&mut plb, us, us % 40 != 0));
        }
    }

    #[test]
    fn losses_are_by_time_for_two_round_trips() {
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
