//! Measurements of endpoints.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use tidegate_core::Span;
use tidegate_endpoint::node::{Counters, Node};
use tidegate_runs::machine::Stopwatch;

/// Significant digits of times in the histogram.
const DIGITS: u8 = 3;

/// Summary of an endpoint's run, with the names of a simulated run's summary.
#[derive(Clone, Debug, Serialize)]
pub struct NetSummary {
    /// Version of this format.
    pub schema: u32,
    /// Role of the endpoint.
    pub name: &'static str,
    /// The run used live UDP.
    pub real: bool,
    /// The protocol.
    pub protocols: [String; 1],
    /// Settings of this side.
    pub settings: Settings,
    /// Warning that the protocol is outside its design range on the path to a peer; at most one.
    pub warnings: Vec<String>,
    /// Length of the measured window.
    pub seconds: f64,
    /// About the run itself.
    pub engine: NetEngine,
    /// Payload of messages that arrived here, per second.
    pub received_gbps: f64,
    /// Payload of messages that the peer received, per second.
    pub goodput_gbps: f64,
    /// The target: payload that an open loop offered, or the link's capacity for a closed loop;
    /// null if the number of messages was limited, or replies were requested.
    pub target_gbps: Option<f64>,
    /// Reason for an early end: the peer is gone. The measurements cover the time until then.
    pub failure: Option<String>,
    /// Messages, from submission to confirmed delivery; null if none were timed.
    pub fct: Option<Completed>,
    /// Requests, from submission to the last byte of the reply; null if none were sent.
    pub exchanges: Option<Completed>,
    /// Each second of the measured window; only of a sender.
    pub intervals: Vec<Interval>,
    /// Counters of the network.
    pub network: Network,
}

/// Settings of an endpoint.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// Rate of the link.
    pub rate_gbps: f64,
    /// UDP payload of a full packet.
    pub datagram_bytes: u64,
    /// Parameters of the protocol that differ from those of simulated fabrics.
    pub params: Vec<String>,
    /// The base RTT that the protocol uses; null without a session.
    pub base_rtt_us: Option<f64>,
    /// Whether it was measured, not set.
    pub base_rtt_measured: bool,
}

impl Settings {
    /// Adds the base RTT that a node uses.
    pub(super) fn with_base_rtt(self, node: &Node) -> Settings {
        let base_rtt_us = node.used_base_rtt().map(Span::as_us_f64);
        Settings { base_rtt_us, ..self }
    }
}

/// Resources that the run used.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NetEngine {
    /// Wall-clock time.
    pub wall_seconds: f64,
    /// Processor time on all cores.
    pub cpu_seconds: f64,
}

/// Completion times, with the names of a summary.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Completed {
    /// Number submitted.
    pub count: u64,
    /// Number of these that did not complete.
    pub unfinished: u64,
    /// Mean of the completed ones.
    pub mean_us: Option<f64>,
    /// Median.
    pub p50_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// 99.9th percentile.
    pub p999_us: Option<f64>,
}

/// One second of measurements. The last interval may be shorter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Start of the interval, relative to the start of measurement.
    pub start_seconds: f64,
    /// Length of the interval.
    pub seconds: f64,
    /// Payload of messages that the peer received in the interval, per second.
    pub goodput_gbps: f64,
    /// Payload of replies that arrived here in the interval, per second.
    pub received_gbps: f64,
    /// Requests answered in the interval; if none are sent, messages delivered.
    pub done: u64,
    /// Median completion time of these.
    pub p50_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// 99.9th percentile.
    pub p999_us: Option<f64>,
}

impl Interval {
    /// One line of text.
    pub(super) fn shown(&self) -> String {
        let end = self.start_seconds + self.seconds;
        let rates = match self.received_gbps {
            0.0 => rate_shown(self.goodput_gbps),
            back => format!("{}, {} back", rate_shown(self.goodput_gbps), rate_shown(back)),
        };
        let time = |time: Option<f64>| time.map_or("-".into(), time_shown);
        let [p50, p99, p999] = [self.p50_us, self.p99_us, self.p999_us].map(time);
        format!("{end:.0} s: {rates}, {} done, p50 {p50}, p99 {p99}, p99.9 {p999}", self.done)
    }
}

/// Network counters, as far as this side knows them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Network {
    /// The shortest round trip to a peer.
    pub base_rtt_us: Option<f64>,
    /// Datagrams accepted.
    pub datagrams: u64,
    /// Datagrams of these that switches had marked.
    pub ecn_marks: u64,
    /// Datagrams of these whose payload switches had removed.
    pub trims: u64,
    /// Duplicate datagrams.
    pub repeated: u64,
    /// Datagrams that failed authentication.
    pub forged: u64,
    /// Datagrams without a session.
    pub unknown_session: u64,
    /// Datagrams with an invalid format.
    pub malformed: u64,
}

impl Network {
    pub(super) fn of(counters: Counters, base_rtt_us: Option<f64>) -> Network {
        Network {
            base_rtt_us,
            datagrams: counters.accepted,
            ecn_marks: counters.marked,
            trims: counters.trimmed,
            repeated: counters.old,
            forged: counters.forged,
            unknown_session: counters.unknown_session,
            malformed: counters.malformed,
        }
    }
}

/// Completion times so far.
pub(super) struct Times {
    histogram: Histogram<u64>,
    pub(super) submitted: u64,
}

impl Times {
    pub(super) fn new() -> Times {
        // A day is the upper bound.
        let histogram = Histogram::new_with_bounds(1, 86_400_000_000_000, DIGITS);
        Times { histogram: histogram.expect("bounds and digits are valid"), submitted: 0 }
    }

    pub(super) fn add(&mut self, took: Duration) {
        self.histogram.saturating_record(took.as_nanos() as u64);
    }

    /// Number of completed ones.
    pub(super) fn done(&self) -> u64 {
        self.histogram.len()
    }

    /// Resets the measurements.
    pub(super) fn clear(&mut self) {
        self.histogram.reset();
        self.submitted = 0;
    }

    pub(super) fn summary(&self) -> Completed {
        let finished = self.histogram.len();
        let some = |us: f64| (finished > 0).then_some((us * 1e3).round() / 1e3);
        let at = |q| some(self.histogram.value_at_quantile(q) as f64 / 1e3);
        Completed {
            count: self.submitted,
            unfinished: self.submitted.saturating_sub(finished),
            mean_us: some(self.histogram.mean() / 1e3),
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
        }
    }
}

impl NetEngine {
    pub(super) fn of(stopwatch: &Stopwatch) -> NetEngine {
        // Of all threads, because the kernel's work for a socket is included.
        let cpu = stopwatch.cpu(2);
        NetEngine { wall_seconds: stopwatch.wall().as_secs_f64(), cpu_seconds: cpu.as_secs_f64() }
    }
}

/// A number with three significant digits, in the largest unit in which it is at least one.
fn in_unit(value: f64, units: &[(f64, &str)]) -> String {
    let last = units.len() - 1;
    let of = units.iter().position(|&(size, _)| value >= 0.9995 * size).unwrap_or(last);
    let (size, unit) = units[of];
    let value = value / size;
    let digits = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

/// A rate as text.
pub fn rate_shown(gbps: f64) -> String {
    in_unit(gbps, &[(1.0, "Gbps"), (1e-3, "Mbps"), (1e-6, "kbps")])
}

/// A time as text.
pub fn time_shown(us: f64) -> String {
    in_unit(us, &[(1e6, "s"), (1e3, "ms"), (1.0, "us")])
}

/// Rate of `bytes` in `seconds`.
pub(super) fn gbps(bytes: u64, seconds: f64) -> f64 {
    let rate = bytes as f64 * 8e-9 / seconds.max(1e-9);
    (rate * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times_use_readable_units() {
        let rates = [10.0, 9.87654, 0.99999, 0.2, 0.001, 0.000_5, 0.0].map(rate_shown);
        let expected = [
            "10.0 Gbps",
            "9.88 Gbps",
            "1.00 Gbps",
            "200 Mbps",
            "1.00 Mbps",
            "500 kbps",
            "0.00 kbps",
        ];
        assert_eq!(rates, expected);
        let times = [0.25, 58.439, 999.9, 14_221.3, 2_500_000.0].map(time_shown);
        assert_eq!(times, ["0.25 us", "58.4 us", "1.00 ms", "14.2 ms", "2.50 s"]);
    }
}
