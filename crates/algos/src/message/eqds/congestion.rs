//! Rate of a receiver's credit when links between switches are oversubscribed (RCCC).
//!
//! Source: `oversubscribed_cc.cpp` of ultraethernet/uet-htsim. In an interval of about 1.5 base
//! RTTs, `f` is the share of marked packets among those with payload, and `t` the share of packets
//! trimmed in the core among all; `r` is the rate relative to the link:
//!
//! * `g ← (1 − α) g + α f`
//! * `r ← r − t` if `t > 0`, then `r ← r (1 − β (g − target))` if `g > target`
//! * otherwise `r ← r + a`; without any mark `r ← r + a · 2ⁿ` in the nth interval in a row without
//!   a decrease
//! * `r` stays in \[least, 1\]

use tidegate_core::{Rng, Span, Time};

/// Intervals without packets after which the rate is that of the link, whatever it was.
const IDLE: u32 = 64;

/// Parameters of the control loop.
#[derive(Clone, Copy, Debug)]
pub(in crate::message) struct Adaptation {
    pub(in crate::message) base_rtt: Span,
    pub(in crate::message) target: f64,
    pub(in crate::message) increase: f64,
    pub(in crate::message) decrease: f64,
    pub(in crate::message) gain: f64,
    pub(in crate::message) least: f64,
}

/// Packets that arrived in the present interval.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    all: u32,
    marked: u32,
    trimmed: u32,
    trimmed_in_core: u32,
}

/// Outcome of an arriving data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Whole { marked: bool },
    Trimmed { last_hop: bool },
}

/// The control loop of one receiving host.
pub(super) struct CreditRate {
    adaptation: Adaptation,
    rng: Rng,
    /// Rate of credit relative to the link.
    rate: f64,
    /// Smoothed share of marked packets.
    marked: f64,
    counts: Counts,
    /// Intervals in a row without a decrease.
    rises: u32,
    /// End of the present interval.
    until: Time,
}

impl CreditRate {
    pub(super) fn new(adaptation: Adaptation, rng: Rng) -> CreditRate {
        CreditRate {
            adaptation,
            rng,
            rate: 1.0,
            marked: 0.0,
            counts: Counts::default(),
            rises: 0,
            until: Time::ZERO,
        }
    }

    /// Rate of credit relative to the link, at `now`.
    pub(super) fn rate(&mut self, now: Time) -> f64 {
        self.advance(now);
        self.rate
    }

    /// Closes the intervals that have ended by `now`. The rate rises in those without packets.
    fn advance(&mut self, now: Time) {
        for missed in 0.. {
            if now < self.until {
                break;
            }
            if missed == IDLE {
                (self.rate, self.until) = (1.0, now);
            }
            self.close();
        }
    }

    /// Registers a data packet.
    pub(super) fn on_packet(&mut self, now: Time, arrival: Arrival) {
        self.advance(now);
        self.counts.all += 1;
        match arrival {
            Arrival::Whole { marked } => self.counts.marked += marked as u32,
            Arrival::Trimmed { last_hop } => {
                self.counts.trimmed += 1;
                self.counts.trimmed_in_core += !last_hop as u32;
            }
        }
    }

    /// Ends the interval and begins the next, whose length is random so that receivers do not act
    /// at the same times.
    fn close(&mut self) {
        let Adaptation { base_rtt, target, increase, decrease, gain, least } = self.adaptation;
        let counts = core::mem::take(&mut self.counts);
        let whole = counts.all - counts.trimmed;
        let share = if whole > 0 { counts.marked as f64 / whole as f64 } else { 0.0 };
        self.marked += gain * (share - self.marked);
        let is_congested = self.marked > target;
        if counts.trimmed_in_core > 0 {
            self.rate -= counts.trimmed_in_core as f64 / counts.all as f64;
        }
        if is_congested {
            self.rate *= 1.0 - decrease * (self.marked - target);
        }
        if is_congested || counts.trimmed_in_core > 0 {
            self.rises = 0;
        } else {
            let doublings = if counts.marked == 0 { self.rises.min(30) } else { 0 };
            self.rate += increase * (1u32 << doublings) as f64;
            self.rises += 1;
        }
        self.rate = self.rate.clamp(least, 1.0);
        self.until = self.until.after(base_rtt.scale(1.5 * (0.75 + self.rng.unit() / 2.0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Domain;

    fn loop_at(rate: f64) -> CreditRate {
        let adaptation = Adaptation {
            base_rtt: Span::us(12),
            target: 0.3,
            increase: 0.01,
            decrease: 0.5,
            gain: 0.5,
            least: 0.05,
        };
        let rng = Rng::stream(1, Domain::Transport, 0);
        CreditRate { rate, until: Time::us(10), ..CreditRate::new(adaptation, rng) }
    }

    /// The rate after an interval with these packets.
    fn after(control: &mut CreditRate, packets: &[(u32, Arrival)]) -> f64 {
        let within = control.until.before(Span::us(1));
        for &(count, arrival) in packets {
            (0..count).for_each(|_| control.on_packet(within, arrival));
        }
        control.close();
        control.rate
    }

    const GOOD: Arrival = Arrival::Whole { marked: false };
    const MARKED: Arrival = Arrival::Whole { marked: true };
    const CORE: Arrival = Arrival::Trimmed { last_hop: false };
    const LAST: Arrival = Arrival::Trimmed { last_hop: true };

    #[test]
    fn rate_rises_faster_while_nothing_is_marked() {
        let mut control = loop_at(0.2);
        let rates = [(); 5].map(|()| after(&mut control, &[(9, GOOD), (3, LAST)]));
        let expected = [0.21, 0.23, 0.27, 0.35, 0.51];
        for (rate, expected) in rates.into_iter().zip(expected) {
            assert!((rate - expected).abs() < 1e-12, "{rate}");
        }
        assert!((after(&mut control, &[(9, GOOD), (1, MARKED)]) - 0.52).abs() < 1e-12);
        (0..9).for_each(|_| _ = after(&mut control, &[(1, GOOD)]));
        assert_eq!(control.rate, 1.0);
    }

    #[test]
    fn core_trims_and_marks_reduce_the_rate() {
        let mut control = loop_at(1.0);
        // Two of ten were trimmed in the core; all others have marks: g = 1/2.
        let rate = after(&mut control, &[(8, MARKED), (2, CORE)]);
        assert!((rate - 0.8 * (1.0 - 0.5 * 0.2)).abs() < 1e-12, "{rate}");
        (0..60).for_each(|_| _ = after(&mut control, &[(8, MARKED)]));
        assert_eq!(control.rate, 0.05);
    }

    #[test]
    fn core_trims_end_a_series_of_rises() {
        let mut control = loop_at(0.2);
        (0..3).for_each(|_| _ = after(&mut control, &[(9, GOOD)]));
        let rate = after(&mut control, &[(99, GOOD), (1, CORE)]);
        assert!((rate - 0.26).abs() < 1e-12, "{rate}");
        assert!((after(&mut control, &[(9, GOOD)]) - 0.27).abs() < 1e-12);
    }

    #[test]
    fn intervals_vary_around_one_and_a_half_rtts() {
        let mut control = loop_at(1.0);
        let mut lengths = [(); 200].map(|()| {
            let before = control.until;
            control.close();
            control.until.since(before).as_us_f64()
        });
        lengths.sort_by(f64::total_cmp);
        assert!((13.5..14.0).contains(&lengths[0]) && (22.0..22.5).contains(&lengths[199]));
    }

    #[test]
    fn rate_rises_while_pulls_are_rare() {
        let mut control = loop_at(0.05);
        // Within 100 us, five intervals or more pass.
        assert_eq!(control.rate(Time::us(9)), 0.05);
        assert!(control.rate(Time::us(110)) > 0.3);
    }

    #[test]
    fn an_idle_receiver_begins_at_the_full_rate() {
        let mut control = loop_at(0.1);
        control.on_packet(Time::s(3), GOOD);
        assert_eq!(control.rate, 1.0);
        assert!(control.until > Time::s(3) && control.until < Time::s(3).after(Span::us(30)));
    }
}
