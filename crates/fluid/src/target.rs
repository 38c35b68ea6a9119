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
//!
//! # Stability
//!
//! Near the equilibrium, with delayed feedback, the gain `g = θ · A · m / p` and time `u` in round
//! trips:
//!
//! * paced flows: `u² + (1 + m) u + g exp(−u) = 0`, stable up to `g = ω √(ω² + (1 + m)²)` with `ω
//!   tan ω = 1 + m`
//! * clocked flows: `u + m (1 − exp(−u)) + g exp(−u) = 0`, stable up to `g = m + √(ω² + m²)` with
//!   `tan ω = −ω / m`, which is π/2 for a small `m`
//!
//! The derivation of the second: with the sum of windows `W`, `y = (W − W₀) / b`, and `D − D₀ =
//! y(t − θ)`, the target of a flow changes by `−(p/A) (y − y(t − θ)) / θ`, because its rate is the
//! present window over the round trip that it measures. So `y' = −(m/θ) (y − y(t − θ)) − (A m / p)
//! y(t − θ)`.

use std::f64::consts::{FRAC_PI_2, PI};

use crate::{Bottleneck, Feedback, Lags, Model, Past};

/// How the windows of senders become arrivals at the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At the rate `w/θ`, as in PowerTCP's appendix A. The queue follows the windows with a time
    /// constant of `θ`.
    Paced,
    /// One byte for each that leaves the bottleneck, and for each by which windows grow. The queue
    /// is what all windows exceed the BDP by. The first variable of the state is the queue that the
    /// data of now will find, and must start at this value.
    Clocked,
}

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
    /// How windows become arrivals.
    pub arrivals: Arrivals,
}

/// The zero of a function that is negative below it, between two ends.
fn zero(function: impl Fn(f64) -> f64, ends: (f64, f64)) -> f64 {
    let (low, high) = (0..60).fold(ends, |(low, high), _| {
        let middle = 0.5 * (low + high);
        if function(middle) < 0.0 { (middle, high) } else { (low, middle) }
    });
    0.5 * (low + high)
}

impl Targets {
    /// Longest RTT in microseconds, queue included, at which flows are stable with delayed
    /// feedback.
    pub fn longest_stable_us(&self) -> f64 {
        let m = self.m;
        // Sines and cosines in place of tangents, which have poles at the ends.
        let gain = match self.arrivals {
            Arrivals::Paced => {
                let ends = (0.0, FRAC_PI_2);
                let at = zero(|at| at * at.sin() - (1.0 + m) * at.cos(), ends);
                at * at.hypot(1.0 + m)
            }
            Arrivals::Clocked => {
                let at = zero(|at| -m * at.sin() - at * at.cos(), (FRAC_PI_2, PI));
                m + at.hypot(m)
            }
        };
        gain * self.p_us / (self.logarithm() * m)
    }

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

    pub(crate) fn exponent(&self, rate_gbps: f64, delay_us: f64) -> f64 {
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
        let flows = |state: &[f64; N]| state[1..].iter().sum::<f64>();
        // Paced flows know the present RTT, clocked flows that of the data that arrives now.
        let (queue_kb, measured_kb) = match self.arrivals {
            Arrivals::Paced => (now[0], past.measured[0]),
            Arrivals::Clocked => {
                let found_kb = flows(&past.round) - self.link.bdp_kb();
                (found_kb, found_kb)
            }
        };
        let rtt_us = self.link.rtt_us(queue_kb);
        let delay_us = measured_kb.max(0.0) / self.link.rate();
        let mut change = *now;
        for (change, window_kb) in change[1..].iter_mut().zip(&now[1..]) {
            let rate_gbps = 8.0 * window_kb / rtt_us;
            *change = window_kb * self.exponent(rate_gbps, delay_us) / rtt_us;
        }
        change[0] = match self.arrivals {
            Arrivals::Paced => self.link.growth(now[0], flows(&past.sent) / rtt_us),
            Arrivals::Clocked => flows(&change),
        };
        change
    }
}
