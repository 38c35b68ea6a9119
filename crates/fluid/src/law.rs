//! Window laws that divide the window by a signal of the bottleneck: the simplified model of
//! PowerTCP's section 2 and appendix C, and PowerTCP's own law of appendix A.
//!
//! Vamsi Addanki, Oliver Michel, Stefan Schmid. "PowerTCP: Pushing the Performance Limits of
//! Datacenter Networks". NSDI 2022.
//!
//! With the window `w` of all flows together, queue `q`, RTT `θ = q/b + τ`, weight `γ` of an
//! update, time `δt` between updates, and the additive increase `β̂` of all flows per update:
//!
//! * `w' = γ/δt · (w · e/f − w + β̂)` (equation 22)
//! * `q' = w(t − tf)/θ − b`, and an empty queue does not shrink (equations 4 and 9)
//! * `f/e`, measured at `t − θ + tf`, defines the law (equations 11 and 21)
//! * the power law divides the window of one round trip ago, `w(t − θ)` (equation 14)

use crate::{Bottleneck, Feedback, Lags, Model, Past};

/// Signal by which a window is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// Voltage in bytes: queue plus pipe over the pipe, similar to HPCC.
    QueueLength,
    /// Voltage in time: RTT over base RTT, as in FAST.
    Delay,
    /// Current: one plus the gradient of the RTT, as in TIMELY.
    Gradient,
    /// Voltage times current, as in PowerTCP.
    Power,
}

/// Measurement at the bottleneck at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signal {
    /// Queue in KB.
    pub queue_kb: f64,
    /// Its growth in KB per microsecond.
    pub growth: f64,
    /// Sending rate of the link in KB per microsecond.
    pub sent: f64,
}

impl Law {
    /// `f/e`: the divisor of the window. In equilibrium it is 1, except for the increase.
    pub fn division(self, link: Bottleneck, signal: Signal) -> f64 {
        let Signal { queue_kb, growth, sent } = signal;
        let voltage = queue_kb + link.bdp_kb();
        match self {
            Law::QueueLength => voltage / link.bdp_kb(),
            Law::Delay => link.rtt_us(queue_kb) / link.base_rtt_us,
            Law::Gradient => growth / link.rate() + 1.0,
            Law::Power => voltage * (growth + sent) / (link.rate() * link.bdp_kb()),
        }
    }
}

/// All flows at one bottleneck under one law. The state is the queue and the combined window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Windows {
    /// Bottleneck.
    pub link: Bottleneck,
    /// Signal by which windows are divided.
    pub law: Law,
    /// Weight of an update, γ, from 0 to 1.
    pub gamma: f64,
    /// Time between updates, δt, in microseconds.
    pub update_us: f64,
    /// Additive increase of all flows together per update, β̂, in KB.
    pub increase_kb: f64,
    /// Feedback delay.
    pub feedback: Feedback,
}

impl Windows {
    /// Equilibrium of queue and window; `None` if it is not unique (theorem 1 and appendix C).
    pub fn equilibrium(&self) -> Option<[f64; 2]> {
        let unique = self.law != Law::Gradient;
        unique.then(|| [self.increase_kb, self.link.bdp_kb() + self.increase_kb])
    }

    /// Time constant with which PowerTCP's window approaches its equilibrium (theorem 2).
    pub fn time_constant_us(&self) -> f64 {
        self.update_us / self.gamma
    }
}

impl Model<2> for Windows {
    fn longest_step_us(&self) -> f64 {
        self.link.longest_step_us(self.feedback)
    }

    fn lags(&self, [queue_kb, _]: &[f64; 2]) -> Option<Lags> {
        self.link.lags(self.feedback, *queue_kb)
    }

    fn derivative(&self, now: &[f64; 2], past: &Past<2>) -> [f64; 2] {
        let link = self.link;
        let [queue_kb, window_kb] = *now;
        let arriving = past.sent[1] / link.rtt_us(queue_kb);
        // The bytes that this measurement refers to were sent one round trip ago.
        let measured_kb = past.measured[0].max(0.0);
        let arrived = past.round[1] / link.rtt_us(measured_kb);
        let growth = link.growth(measured_kb, arrived);
        let signal = Signal { queue_kb: measured_kb, growth, sent: arrived - growth };
        let divided = if self.law == Law::Power { past.round[1] } else { window_kb };
        let update = divided / self.law.division(link, signal) - window_kb + self.increase_kb;
        [link.growth(queue_kb, arriving), self.gamma / self.update_us * update]
    }
}
