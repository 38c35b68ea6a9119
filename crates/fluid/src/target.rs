//! Flows that aim at a queueing delay which falls with the logarithm of their rate: Poseidon.
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
//! The paper prints no differential equation. Its update, spread evenly over the round trip that it
//! is made in, is `w' = w · ln U / θ`; of two flows, whatever the queue does, the ratio of windows
//! then closes by `d ln(w₁/w₂) = −m · ln(w₁/w₂) · dt/θ`: by the factor `exp(−m)` in the logarithm a
//! round trip, where single updates would make it `1 − m`.

use crate::{Bottleneck, Feedback, Lags, Model, Past};

/// Flows at one bottleneck. Its state is the queue, and a window for each flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Targets {
    /// Where they meet.
    pub link: Bottleneck,
    /// Range of the target, in microseconds.
    pub p_us: f64,
    /// Target of the fastest flow, in microseconds.
    pub k_us: f64,
    /// Share of the way that a round trip goes, in logarithms.
    pub m: f64,
    /// Rates in Gbit/s between which targets differ.
    pub rates_gbps: (f64, f64),
    /// When they hear.
    pub feedback: Feedback,
}

impl Targets {
    /// `A`, between the largest rate and the smallest.
    fn logarithm(&self) -> f64 {
        (self.rates_gbps.1 / self.rates_gbps.0).ln()
    }

    /// The delay that a flow of this rate in Gbit/s aims at, in microseconds (equation 3).
    pub fn target_us(&self, rate_gbps: f64) -> f64 {
        let (least, most) = self.rates_gbps;
        self.p_us * (most / rate_gbps.clamp(least, most)).ln() / self.logarithm() + self.k_us
    }

    /// What a round trip multiplies a rate in Gbit/s by behind this delay (equation 4).
    pub fn update(&self, rate_gbps: f64, delay_us: f64) -> f64 {
        self.exponent(rate_gbps, delay_us).exp()
    }

    fn exponent(&self, rate_gbps: f64, delay_us: f64) -> f64 {
        (self.target_us(rate_gbps) - delay_us) * self.logarithm() * self.m / self.p_us
    }

    /// The queue in KB that so many flows of equal rates leave.
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
