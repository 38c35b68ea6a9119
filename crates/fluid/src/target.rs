//! Flows that aim at a queueing delay that falls with the logarithm of their rate: Poseidon.
//!
//! Weitao Wang et al. "Poseidon: Efficient, Robust, and Practical Datacenter CC via Deployable
//! INT". NSDI 2023.
//!
//! With `x = w/θ`, a flow's rate, and the delay `D` of the bottleneck's queue:
//!
//! * target `T(x) = p · ln(max_rate/x) / A + k`, `A = ln(max_rate/min_rate)` (equation 3)
//! * a round trip multiplies the rate by `U = exp((T(x) − D) · A · m / p)` (equation 4), which is
//!   `(r/x)^m` for the rate `r` whose target is `D` (equation 5)
//!
//! The paper prints no differential equation. If its update is spread evenly over the round trip
//! that it belongs to, it becomes `w' = w · ln U / θ`. Then the ratio of two windows converges by
//! `d ln(w₁/w₂) = −m · ln(w₁/w₂) · dt/θ`, whatever the queue does: by the factor `exp(−m)` in the
//! logarithm per round trip, where discrete updates would give `1 − m`.

use crate::{Bottleneck, Feedback, Lags, Model, Past};

/// Flows at one bottleneck. The state is the queue and one window per flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Targets {
    /// Bottleneck.
    pub link: Bottleneck,
    /// Range of the target, in microseconds.
    pub p_us: f64,
    /// Target of the fastest flow, in microseconds.
    pub k_us: f64,
    /// Fraction of the logarithmic distance that is covered per round trip.
    pub m: f64,
    /// Range of rates in Gbit/s in which targets differ.
    pub rates_gbps: (f64, f64),
    /// Feedback delay.
    pub feedback: Feedback,
}

impl Targets {
    /// `A`, the logarithm of the largest rate over the smallest.
    fn logarithm(&self) -> f64 {
        (self.rates_gbps.1 / self.rates_gbps.0).ln()
    }

    /// Target delay in microseconds of a flow with this rate in Gbit/s (equation 3).
    pub fn target_us(&self, rate_gbps: f64) -> f64 {
        let (least, most) = self.rates_gbps;
        self.p_us * (most / rate_gbps.clamp(least, most)).ln() / self.logarithm() + self.k_us
    }

    /// Factor by which a round trip with this delay multiplies a rate in Gbit/s (equation 4).
    pub fn update(&self, rate_gbps: f64, delay_us: f64) -> f64 {
        self.exponent(rate_gbps, delay_us).exp()
    }

    fn exponent(&self, rate_gbps: f64, delay_us: f64) -> f64 {
        (self.target_us(rate_gbps) - delay_us) * self.logarithm() * self.m / self.p_us
    }

    /// Queue in KB in equilibrium with this number of flows at equal rates.
    pub fn equilibrium_kb(&self, flows: f64) -> f64 {
        self.link.rate() * self.target_us(self.link.gbps / flows)
    }
}

impl<const N: usize> Model<N> for Targets {
    fn longest_step_us(&self) -> f64 {
        self.link.longest_step_us(self.feedback)
    }

    fn lags(&self, now: &[f64; N]) -> Option<Lags> {
        self.link.lags(self.feedback, now[0])
    }

    fn derivative(&self, now: &[f64; N], past: &Past<N>) -> [f64; N] {
        let rtt_us = self.link.rtt_us(now[0]);
        let delay_us = past.measured[0].max(0.0) / self.link.rate();
        let mut change = *now;
        change[0] = self.link.growth(now[0], past.sent[1..].iter().sum::<f64>() / rtt_us);
        for (change, window_kb) in change[1..].iter_mut().zip(&now[1..]) {
            let rate_gbps = 8.0 * window_kb / rtt_us;
            *change = window_kb * self.exponent(rate_gbps, delay_us) / rtt_us;
        }
        change
    }
}
