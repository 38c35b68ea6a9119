//! Measurements of the machine in live UDP mode, and of runs over the kernel's TCP.

use serde::{Deserialize, Serialize};

use crate::fixed::Fixed;
use crate::queue::QueueDelay;

/// Largest dilation.
pub const MOST_DILATION: u32 = 1_000_000;
/// Largest share of datagrams lost outside the fabric without a warning.
const MOST_LOST: f64 = 1e-4;
/// Largest 99th percentile of lateness, as a share of the base RTT, without a warning.
const MOST_LATE: f64 = 0.05;

/// A live run: its size, and effects of the machine that a network does not have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RealSummary {
    /// Dilation: ratio of wall-clock time to the time of the run.
    pub dilation: u32,
    /// Number of hosts: processes, or network namespaces.
    pub hosts: u32,
    /// Datagrams that arrived at the switches.
    pub datagrams: u64,
    /// Datagrams sent by hosts or switches and lost outside the queues of the fabric, because the
    /// machine was too slow.
    pub lost: u64,
    /// Lateness of datagrams that leave the switches, in the time of the run.
    pub late_us: QueueDelay,
    /// Time from the arrival of datagrams at hosts until their process reads them, in the time of
    /// the run. Missing in older results.
    #[serde(default)]
    pub hosts_late_us: Option<QueueDelay>,
    /// Largest base RTT of the fabric, with which lateness should be compared.
    pub base_rtt_us: Option<Fixed>,
    /// Congestion control of the kernel's TCP, if it carried the messages. Missing in older
    /// results.
    #[serde(default)]
    pub tcp: Option<String>,
    /// Acknowledgements under a control of this project that reads telemetry. Missing in older
    /// results.
    #[serde(default)]
    pub tcp_acks: Option<TcpAcks>,
}

/// Acknowledgements that a control of the kernel has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpAcks {
    /// With telemetry of switches.
    pub with_telemetry: u64,
    /// Without.
    pub without_telemetry: u64,
}

impl RealSummary {
    /// Returns a warning if the machine affected the results.
    pub fn warning(&self) -> Option<String> {
        let RealSummary { lost, datagrams, dilation, .. } = self;
        let share = *lost as f64 / (*datagrams).max(1) as f64;
        let what = if share > MOST_LOST {
            format!("{lost} of {datagrams} datagrams were lost outside the fabric")
        } else {
            let rtt = self.base_rtt_us?.as_f64();
            let places = [
                (Some(&self.late_us), "left the switches"),
                (self.hosts_late_us.as_ref(), "were read by their hosts"),
            ];
            places.into_iter().find_map(|(late, what)| {
                let p99 = late?.p99?.as_f64();
                (p99 > MOST_LATE * rtt).then(|| {
                    format!(
                        "1 % of datagrams {what} at least {p99:.1} us late, while the base RTT is \
                         {rtt:.1} us"
                    )
                })
            })?
        };
        let remedy = match &self.tcp {
            None => format!("for a dilation of {dilation}; increase --dilation"),
            Some(_) => "for these rates; lower them, or end other programs".to_owned(),
        };
        Some(format!("{what}: the machine is too slow or too busy {remedy}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_machine_is_warned_of() {
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
            tcp: None,
            tcp_acks: None,
        };
        assert_eq!(good.warning(), None);
        let lossy = RealSummary { lost: 11, ..good.clone() }.warning().unwrap();
        assert!(lossy.starts_with("11 of 100000 datagrams were lost"), "{lossy}");
        let at_hosts = QueueDelay { p99: fixed(0.52), ..late_us.clone() };
        let at_hosts = RealSummary { hosts_late_us: Some(at_hosts), ..good.clone() };
        assert!(
            at_hosts.warning().unwrap().contains("were read by their hosts at least 0.5 us late")
        );
        let late_us = QueueDelay { p99: fixed(0.51), ..late_us };
        let late = RealSummary { late_us, ..good.clone() }.warning().unwrap();
        assert!(late.contains("0.5 us late") && late.contains("dilation of 400"), "{late}");
        let tcp = RealSummary { tcp: Some("reno".into()), lost: 1_000, ..good }.warning().unwrap();
        assert!(tcp.ends_with("lower them, or end other programs"), "{tcp}");
    }
}
