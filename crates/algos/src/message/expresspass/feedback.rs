//! Rate of credits for one message: the receiver raises and lowers it by the share of credits that
//! return as data (section 3.2, algorithm 1; authors' simulator,
//! `xpass.cc:credit_feedback_control`).

use tidegate_core::{Span, Time};

use super::{Rise, Settings};

/// Largest weight of the full rate (w_max).
const MOST_WEIGHT: f64 = 0.5;
/// Increase of the weight under [`Rise::Step`].
const STEP: f64 = 0.05;
/// Weight of the latest round trip in the moving average.
const RTT_GAIN: f64 = 0.2;

/// The control loop of one message.
#[derive(Clone, Debug, Default)]
pub(super) struct Feedback {
    /// Credit bytes per second (cur_rate).
    rate: f64,
    /// Weight of the full rate when the rate rises (w).
    weight: f64,
    /// Whether the last round was good, so that the weight may rise, too.
    was_good: bool,
    /// Credits accounted for since the last update, and the number of lost ones among them.
    total: u64,
    lost: u64,
    updated_at: Time,
    /// Moving average of the time from a credit to its data, in seconds; zero: no sample yet.
    rtt: f64,
}

impl Feedback {
    /// Starts the loop for a request of a sender with this number of packets left.
    pub(super) fn start(&mut self, settings: &Settings, packets: u32, now: Time) {
        let short = match settings.full_start {
            0 => 1.0,
            full => (packets.max(1) as f64 / full as f64).min(1.0),
        };
        self.rate = settings.initial_rate * short * settings.full_rate;
        self.weight = settings.initial_weight;
        self.updated_at = now;
    }

    /// A credit returned as data after `rtt`; the `lost` credits before it did not.
    pub(super) fn on_return(&mut self, lost: u32, rtt: Span) {
        self.total += lost as u64 + 1;
        self.lost += lost as u64;
        let rtt = rtt.as_s_f64();
        if rtt > 0.0 {
            let known = self.rtt > 0.0;
            self.rtt = if known { (1.0 - RTT_GAIN) * self.rtt + RTT_GAIN * rtt } else { rtt };
        }
    }

    /// Updates the rate before a credit leaves: at most once a round trip and only after data has
    /// arrived.
    pub(super) fn update(&mut self, settings: &Settings, now: Time) {
        let elapsed = now.since(self.updated_at).as_s_f64();
        let round = self.rtt + settings.held.as_s_f64();
        if self.rtt <= 0.0 || elapsed < round || self.total == 0 {
            return;
        }
        let (full, credit) = (settings.full_rate, settings.credit_bytes);
        let loss = self.lost as f64 / self.total as f64;
        let target = (1.0 - self.rate / full) * settings.loss_scaling;
        let rate = if loss > target {
            self.weight = (self.weight / 2.0).max(settings.least_weight);
            self.was_good = false;
            let returned = (self.total - self.lost) as f64 * credit / elapsed;
            (returned * (1.0 + target)).min(self.rate)
        } else {
            if self.was_good {
                self.weight = match settings.rise {
                    Rise::Halfway => (self.weight + MOST_WEIGHT) / 2.0,
                    Rise::Step => (self.weight + STEP).min(MOST_WEIGHT),
                };
            }
            self.was_good = true;
            self.weight * full + (1.0 - self.weight) * self.rate
        };
        // At least one credit in a round trip.
        self.rate = rate.max(credit / round).min(full);
        (self.total, self.lost, self.updated_at) = (0, 0, now);
    }

    /// Mean time from this credit to the next.
    pub(super) fn gap(&self, settings: &Settings) -> Span {
        Span::from_ps_f64(settings.credit_bytes / self.rate * 1e12)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{params, settings_of};
    use super::*;
    use tidegate_core::Rate;

    const RTT: Span = Span::us(8);

    /// A loop at a share of the full rate, after a good or a bad round.
    fn at(settings: &Settings, share: f64, weight: f64, was_good: bool) -> Feedback {
        Feedback {
            rate: share * settings.full_rate,
            weight,
            was_good,
            rtt: RTT.as_s_f64(),
            ..Feedback::default()
        }
    }

    fn settings(rise: Rise) -> Settings {
        settings_of(&super::super::ExpressPassParams { rise, ..params() })
    }

    /// `returned` of `sent` credits return within a round trip.
    fn round(feedback: &mut Feedback, settings: &Settings, returned: u64, sent: u64) {
        (feedback.total, feedback.lost) = (sent, sent - returned);
        feedback.update(settings, feedback.updated_at + RTT);
    }

    #[test]
    fn full_rate_is_one_credit_per_full_packet() {
        // 64.73 MB/s at 10 Gbit/s, and so on: a share of 84 / 1622 = 5.179 %.
        for (gbps, mega) in [(10, 64.73), (100, 647.3), (400, 2_589.0)] {
            let rate = Rate::gbps(gbps);
            let settings = super::super::tests::settings_at(&params(), rate);
            assert!((settings.full_rate / 1e6 / mega - 1.0).abs() < 1e-3, "{}", settings.full_rate);
            let per_second = settings.full_rate / settings.credit_bytes;
            let packets = rate.as_bps() as f64 / 8.0 / 1622.0;
            assert!((per_second / packets - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn first_rate_is_lower_for_short_messages() {
        let settings = settings(Rise::Halfway);
        for (packets, share) in [(u32::MAX, 0.5), (40, 0.5), (20, 0.25), (1, 0.0125), (0, 0.0125)] {
            let mut feedback = Feedback::default();
            feedback.start(&settings, packets, Time::us(3));
            assert!((feedback.rate / settings.full_rate - share).abs() < 1e-12, "{packets}");
            assert_eq!((feedback.weight, feedback.updated_at), (0.5, Time::us(3)));
        }
    }

    #[test]
    fn low_loss_moves_the_rate_towards_the_full_rate() {
        let settings = settings(Rise::Halfway);
        // The target at half the full rate is 1/16: 1 of 16 is not above it.
        let mut feedback = at(&settings, 0.5, 0.25, false);
        round(&mut feedback, &settings, 15, 16);
        let share = feedback.rate / settings.full_rate;
        assert!((share - (0.25 + 0.75 * 0.5)).abs() < 1e-12, "{share}");
        assert_eq!(feedback.weight, 0.25, "the first good round does not change it");
    }

    #[test]
    fn more_loss_lowers_the_rate_to_what_came_back() {
        let settings = settings(Rise::Halfway);
        let mut feedback = at(&settings, 0.5, 0.5, true);
        // 2 of 25 lost; 23 returned in 8 us.
        round(&mut feedback, &settings, 23, 25);
        let expected = 23.0 * 84.0 / 8e-6 * (1.0 + 1.0 / 16.0);
        assert!((feedback.rate / expected - 1.0).abs() < 1e-12, "{}", feedback.rate);
        assert_eq!((feedback.weight, feedback.was_good), (0.25, false));
        // Never above the previous rate.
        let mut feedback = at(&settings, 0.5, 0.5, true);
        let before = feedback.rate;
        round(&mut feedback, &settings, 1_000, 1_100);
        assert_eq!(feedback.rate, before);
    }

    #[test]
    fn weight_rises_from_second_good_round_to_a_cap() {
        for (rise, weights) in [
            (Rise::Halfway, [0.125, 0.3125, 0.40625, 0.453125]),
            (Rise::Step, [0.125, 0.175, 0.225, 0.275]),
        ] {
            let settings = settings(rise);
            let mut feedback = at(&settings, 0.1, 0.25, true);
            round(&mut feedback, &settings, 1, 2);
            for expected in weights {
                round(&mut feedback, &settings, 10, 10);
                assert!((feedback.weight - expected).abs() < 1e-12, "{}", feedback.weight);
            }
            (0..40).for_each(|_| round(&mut feedback, &settings, 10, 10));
            assert!(feedback.weight <= MOST_WEIGHT && feedback.weight > 0.49);
            (0..40).for_each(|_| round(&mut feedback, &settings, 1, 2));
            assert_eq!(feedback.weight, settings.least_weight);
        }
    }

    #[test]
    fn rate_is_between_one_credit_a_round_and_full() {
        let settings = settings(Rise::Halfway);
        let mut feedback = at(&settings, 1.0, 0.5, true);
        (0..5).for_each(|_| round(&mut feedback, &settings, 10, 10));
        assert_eq!(feedback.rate, settings.full_rate);
        assert_eq!(feedback.gap(&settings), Rate::gbps(100).serialise(1622));
        (0..50).for_each(|_| round(&mut feedback, &settings, 1, 100));
        assert!((feedback.rate - 84.0 / 8e-6).abs() < 1e-6, "{}", feedback.rate);
        assert!(feedback.gap(&settings).as_ps().abs_diff(RTT.as_ps()) < 10);
    }

    #[test]
    fn rate_changes_once_a_round_trip_with_data() {
        let settings = settings(Rise::Halfway);
        let mut feedback = at(&settings, 0.5, 0.5, true);
        let before = feedback.rate;
        feedback.update(&settings, Time::us(100));
        assert_eq!(feedback.rate, before, "no data");
        feedback.on_return(0, RTT);
        feedback.updated_at = Time::us(100);
        feedback.update(&settings, Time::us(107));
        assert_eq!(feedback.rate, before, "too soon");
        feedback.update(&settings, Time::us(108));
        assert!(feedback.rate > before);
        let after = feedback.rate;
        feedback.on_return(0, RTT);
        feedback.update(&settings, Time::us(115));
        assert_eq!(feedback.rate, after, "too soon again");
        let mut fresh = Feedback { rtt: 0.0, ..at(&settings, 0.5, 0.5, true) };
        (fresh.total, fresh.lost) = (10, 0);
        fresh.update(&settings, Time::ms(1));
        assert_eq!(fresh.rate, before, "no round-trip sample");
    }

    #[test]
    fn a_round_trip_is_a_moving_average() {
        let mut feedback = Feedback::default();
        feedback.on_return(3, Span::us(10));
        assert_eq!((feedback.rtt, feedback.total, feedback.lost), (10e-6, 4, 3));
        feedback.on_return(0, Span::us(20));
        assert!((feedback.rtt - 12e-6).abs() < 1e-18);
        feedback.on_return(0, Span::ZERO);
        assert!((feedback.rtt - 12e-6).abs() < 1e-18, "an impossible time is ignored");
    }
}
