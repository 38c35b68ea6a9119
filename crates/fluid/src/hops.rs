//! A flow over two congested links that compares its target with the larger delay: Poseidon's
//! fairness over several hops.
//!
//! Each link has `nᵢ` other flows. The victim's rate is `w/(τ + D₁ + D₂)`, and it obeys `max(D₁,
//! D₂)`; the others are flows over one link ([`Targets`]). Feedback is instant, and arrivals are
//! paced.
//!
//! # Equilibrium
//!
//! On the link with more flows, all rates have the target `D`, so they are equal: `C/(n + 1)` for
//! the victim, too. The others on the second link share what the victim leaves. With equal numbers,
//! both delays are equal. These rates are max-min fair.

use crate::{Lags, Model, Past, Targets};

/// A victim over two links. The state is both queues, the window of the victim, and the sum of the
/// windows of the others on each link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoHops {
    /// The law of all flows, and the rate and the base RTT of both links. Feedback is instant and
    /// arrivals are paced, whatever it states.
    pub law: Targets,
    /// Number of other flows on each link.
    pub others: [f64; 2],
}

impl TwoHops {
    /// RTTs in microseconds in a state: of the victim, and of the others on each link.
    fn rtts_us(&self, state: &[f64; 5]) -> [f64; 3] {
        let [one, other] = [state[0], state[1]].map(|queue_kb| self.law.link.rtt_us(queue_kb));
        [one + other - self.law.link.base_rtt_us, one, other]
    }

    /// Rates in Gbit/s in a state: of the victim, and of one of the others on each link.
    pub fn rates_gbps(&self, state: &[f64; 5]) -> [f64; 3] {
        let flows = [1.0, self.others[0], self.others[1]];
        let rtts_us = self.rtts_us(state);
        std::array::from_fn(|i| 8.0 * state[2 + i] / flows[i] / rtts_us[i])
    }
}

impl Model<5> for TwoHops {
    fn longest_step_us(&self) -> f64 {
        self.law.link.base_rtt_us / 20.0
    }

    fn lags(&self, _now: &[f64; 5]) -> Option<Lags> {
        None
    }

    fn derivative(&self, now: &[f64; 5], _past: &Past<5>) -> [f64; 5] {
        let (link, rates_gbps, rtts_us) = (self.law.link, self.rates_gbps(now), self.rtts_us(now));
        let delays_us = [rtts_us[1], rtts_us[2]].map(|rtt_us| rtt_us - link.base_rtt_us);
        let largest_us = [delays_us[0].max(delays_us[1]), delays_us[0], delays_us[1]];
        std::array::from_fn(|i| match i {
            0 | 1 => {
                let arriving = (rates_gbps[0] + self.others[i] * rates_gbps[1 + i]) / 8.0;
                link.growth(now[i], arriving)
            }
            _ => {
                let exponent = self.law.exponent(rates_gbps[i - 2], largest_us[i - 2]);
                now[i] * exponent / rtts_us[i - 2]
            }
        })
    }
}
