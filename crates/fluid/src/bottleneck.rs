//! The bottleneck link.

use crate::{Feedback, Lags};

/// The only bottleneck of the papers' models.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bottleneck {
    /// Its rate in Gbit/s, above zero.
    pub gbps: f64,
    /// RTT without a queue in microseconds, above zero.
    pub base_rtt_us: f64,
}

impl Bottleneck {
    /// Rate in KB per microsecond.
    pub fn rate(self) -> f64 {
        self.gbps / 8.0
    }

    /// Bandwidth-delay product without a queue, in KB.
    pub fn bdp_kb(self) -> f64 {
        self.rate() * self.base_rtt_us
    }

    /// RTT in microseconds behind a queue in KB (PowerTCP, equation 10).
    pub fn rtt_us(self, queue_kb: f64) -> f64 {
        queue_kb.max(0.0) / self.rate() + self.base_rtt_us
    }

    /// Growth of a queue in KB per microsecond at the arrival rate `arriving` (PowerTCP, equation
    /// 4). An empty queue does not shrink.
    pub fn growth(self, queue_kb: f64, arriving: f64) -> f64 {
        let growth = arriving - self.rate();
        if queue_kb > 0.0 { growth } else { growth.max(0.0) }
    }

    /// The three delays of PowerTCP's appendix A behind a queue in KB; `None` if feedback is
    /// instant.
    pub(crate) fn lags(self, feedback: Feedback, queue_kb: f64) -> Option<Lags> {
        let Feedback::Delayed { forward_us } = feedback else { return None };
        let rtt_us = self.rtt_us(queue_kb);
        Some(Lags { sent_us: forward_us, measured_us: rtt_us - forward_us, round_us: rtt_us })
    }

    /// A small fraction of the shortest delay.
    pub(crate) fn longest_step_us(self, feedback: Feedback) -> f64 {
        match feedback {
            Feedback::Instant => self.base_rtt_us / 20.0,
            Feedback::Delayed { forward_us } => forward_us.min(self.base_rtt_us - forward_us) / 5.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_adds_its_drain_time_and_stays_positive() {
        let link = Bottleneck { gbps: 100.0, base_rtt_us: 20.0 };
        assert_eq!([link.rate(), link.bdp_kb()], [12.5, 250.0]);
        assert_eq!([0.0, 125.0, -1.0].map(|queue| link.rtt_us(queue)), [20.0, 30.0, 20.0]);
        assert_eq!([link.growth(1.0, 10.0), link.growth(1.0, 15.0)], [-2.5, 2.5]);
        assert_eq!([link.growth(0.0, 10.0), link.growth(0.0, 15.0)], [0.0, 2.5]);
    }

    /// PowerTCP, appendix A: f(t) refers to t − θ + tf, and what was measured then was sent at t −
    /// θ.
    #[test]
    fn delays_match_appendix_a() {
        let link = Bottleneck { gbps: 100.0, base_rtt_us: 20.0 };
        assert_eq!(link.lags(Feedback::Instant, 125.0), None);
        for (queue_kb, rtt_us) in [(0.0, 20.0), (125.0, 30.0)] {
            let lags = link.lags(Feedback::Delayed { forward_us: 5.0 }, queue_kb);
            let expected = Lags { sent_us: 5.0, measured_us: rtt_us - 5.0, round_us: rtt_us };
            assert_eq!(lags, Some(expected));
        }
    }
}
