//! What is behind the numbers of a run of real packets.

use serde::{Deserialize, Serialize};

use crate::fixed::Fixed;
use crate::summary::QueueDelay;

/// A larger share of datagrams lost outside the fabric is warned of.
const MOST_LOST: f64 = 1e-4;
/// So is a 99th percentile of lateness above this share of a base RTT.
const MOST_LATE: f64 = 0.05;

/// A run of real packets: processes as hosts, and what the machine did that a network would not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RealSummary {
    /// So many times slower than clocks the time of the run passed.
    pub dilation: u32,
    /// Processes that were hosts.
    pub hosts: u32,
    /// Datagrams that came to the switches.
    pub datagrams: u64,
    /// Of those, and of others that were sent: lost where the fabric has no queue, for the machine
    /// was too slow.
    pub lost: u64,
    /// How much later than they should datagrams left the switches, in the time of the run.
    pub late_us: QueueDelay,
    /// How long datagrams that had come to hosts lay there until their process took them, likewise;
    /// older results do not say.
    #[serde(default)]
    pub hosts_late_us: Option<QueueDelay>,
    /// The largest base RTT of the fabric: lateness is little where it is little beside this.
    pub base_rtt_us: Option<Fixed>,
}

impl RealSummary {
    /// What the machine did that tells in the results, if it did.
    pub fn warning(&self) -> Option<String> {
        let RealSummary { lost, datagrams, dilation, .. } = self;
        let share = *lost as f64 / (*datagrams).max(1) as f64;
        let what = if share > MOST_LOST {
            format!("{lost} of {datagrams} datagrams were lost outside the fabric")
        } else {
            let rtt = self.base_rtt_us?.as_f64();
            let places = [
                (Some(&self.late_us), "left the switches"),
                (self.hosts_late_us.as_ref(), "was taken by its host"),
            ];
            places.into_iter().find_map(|(late, what)| {
                let p99 = late?.p99?.as_f64();
                (p99 > MOST_LATE * rtt).then(|| {
                    format!(
                        "one datagram in a hundred {what} {p99:.1} us late and more, where a base \
                         RTT is {rtt:.1} us"
                    )
                })
            })?
        };
        Some(format!(
            "{what}: the machine is too slow, or too busy, for a dilation of {dilation} \
             (--dilation)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_is_too_slow_is_warned_of() {
        let fixed = |us| Fixed::nearest(us);
        let late_us = QueueDelay { mean: fixed(0.1), p99: fixed(0.49), max: fixed(30.0) };
        let good = RealSummary {
            dilation: 400,
            hosts: 3,
            datagrams: 100_000,
            lost: 10,
            late_us: late_us.clone(),
            hosts_late_us: Some(late_us.clone()),
            base_rtt_us: fixed(10.0),
        };
        assert_eq!(good.warning(), None);
        let lossy = RealSummary { lost: 11, ..good.clone() }.warning().unwrap();
        assert!(lossy.starts_with("11 of 100000 datagrams were lost"), "{lossy}");
        let at_hosts = QueueDelay { p99: fixed(0.52), ..late_us.clone() };
        let at_hosts = RealSummary { hosts_late_us: Some(at_hosts), ..good.clone() };
        assert!(at_hosts.warning().unwrap().contains("taken by its host 0.5 us late"));
        let late_us = QueueDelay { p99: fixed(0.51), ..late_us };
        let late = RealSummary { late_us, ..good }.warning().unwrap();
        assert!(late.contains("0.5 us late") && late.contains("dilation of 400"), "{late}");
    }
}
