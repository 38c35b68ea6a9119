//! Windows that are divided by what is measured at the bottleneck: the simplified model of
//! PowerTCP's section 2 and appendix C, and PowerTCP's own law of appendix A.
//!
//! Vamsi Addanki, Oliver Michel, Stefan Schmid. "PowerTCP: Pushing the Performance Limits of
//! Datacenter Networks". NSDI 2022.
//!
//! With the window `w` of all flows together, queue `q`, RTT `θ = q/b + τ`, weight `γ` of an
//! update, time `δt` between updates, and `β̂`, what all flows add in an update:
//!
//! * `w' = γ/δt · (w · e/f − w + β̂)` (equation 22)
//! * `q' = w(t − tf)/θ − b`, and an empty queue does not shrink (equations 4 and 9)
//! * `f/e`, measured at `t − θ + tf`, says which law it is (equations 11 and 21)
//! * the law of power divides the window of a round trip ago, `w(t − θ)` (equation 14)

use crate::{Bottleneck, Feedback, Lags, Model, Past};

/// What a window is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// Voltage in bytes: queue and pipe over the pipe, as HPCC nearly has it.
    QueueLength,
    /// Voltage in time: RTT over base RTT, as FAST has it.
    Delay,
    /// Current: one and the gradient of the RTT, as TIMELY has it.
    Gradient,
    /// Voltage times current: PowerTCP.
    Power,
}

/// What is measured at the bottleneck at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signal {
    /// In KB.
    pub queue_kb: f64,
    /// How fast that grows, in KB a microsecond.
    pub growth: f64,
    /// What the link sends, in KB a microsecond.
    pub sent: f64,
}

impl Law {
    /// `f/e`: what the window is divided by, 1 in equilibrium but for the increase.
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

/// All flows at one bottleneck, under one law. Its state is the queue, and the window of all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Windows {
    /// Where they meet.
    pub link: Bottleneck,
    /// By what windows are divided.
    pub law: Law,
    /// Weight of an update, γ, from 0 to 1.
    pub gamma: f64,
    /// Time between updates, δt, in microseconds.
    pub update_us: f64,
    /// What all flows together add in an update, β̂, in KB.
    pub increase_kb: f64,
    /// When they hear.
    pub feedback: Feedback,
}

impl Windows {
    /// The queue and the window that stay as they are, where there is one such pair alone
    /// (theorem 1 and appendix C).
    pub fn equilibrium(&self) -> Option<[f64; 2]> {
        let unique = self.law != Law::Gradient;
        unique.then(|| [self.increase_kb, self.link.bdp_kb() + self.increase_kb])
    }

    /// The time constant by which PowerTCP's window nears its equilibrium (theorem 2).
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
        // What was measured by then had been sent a round trip ago.
        let measured_kb = past.measured[0].max(0.0);
        let arrived = past.round[1] / link.rtt_us(measured_kb);
        let growth = link.growth(measured_kb, arrived);
        let signal = Signal { queue_kb: measured_kb, growth, sent: arrived - growth };
        let divided = if self.law == Law::Power { past.round[1] } else { window_kb };
        let update = divided / self.law.division(link, signal) - window_kb + self.increase_kb;
        [link.growth(queue_kb, arriving), self.gamma / self.update_us * update]
    }
}
