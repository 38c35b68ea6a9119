//! What endpoints have measured.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use tidegate_endpoint::node::Counters;

use super::intervals::Interval;
use crate::machine::Stopwatch;

/// Three digits of any time are kept.
const DIGITS: u8 = 3;

/// An endpoint's run in numbers, named as those of a simulated one.
#[derive(Clone, Debug, Serialize)]
pub struct NetSummary {
    /// Of this format.
    pub schema: u32,
    /// Which side.
    pub name: &'static str,
    /// Packets were real.
    pub real: bool,
    /// The protocol.
    pub protocols: [String; 1],
    /// What this side was told.
    pub settings: Settings,
    /// Why the protocol was not at home on the path to the first peer for which that is so.
    pub warnings: Vec<String>,
    /// How long it was measured.
    pub seconds: f64,
    /// About the run itself.
    pub engine: NetEngine,
    /// Payload of messages that arrived here, over that time.
    pub received_gbps: f64,
    /// Payload of messages that the other side has, over that time.
    pub goodput_gbps: f64,
    /// What was to be reached: payload that an open loop offered, or that the link carries for a
    /// closed one; null where messages were counted, or replies were awaited.
    pub target_gbps: Option<f64>,
    /// Why it ended early: the peer has gone. What was measured until then stands here.
    pub failure: Option<String>,
    /// Messages, from submission to the word that all of it is there; null where none were timed.
    pub fct: Option<Completed>,
    /// Requests, from submission to the last byte of the reply; null where none were sent.
    pub exchanges: Option<Completed>,
    /// Each second of what was measured; of who sends.
    pub intervals: Vec<Interval>,
    /// What the network did.
    pub network: Network,
}

/// What an endpoint was told.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// The link is filled up to that.
    pub rate_gbps: f64,
    /// UDP payload of a full packet.
    pub datagram_bytes: u64,
    /// Parameters of the protocol that are not as simulated fabrics have them.
    pub params: Vec<String>,
}

/// What the run took.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NetEngine {
    /// By the clock.
    pub wall_seconds: f64,
    /// Of all cores.
    pub cpu_seconds: f64,
}

/// Times, under the names of a summary's.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Completed {
    /// So many were submitted.
    pub count: u64,
    /// So many of them were not done.
    pub unfinished: u64,
    /// Mean of those that were.
    pub mean_us: Option<f64>,
    /// Median.
    pub p50_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// 99.9th percentile.
    pub p999_us: Option<f64>,
}

/// What the network did, as far as this side knows.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Network {
    /// The shortest round trip to a peer.
    pub base_rtt_us: Option<f64>,
    /// Datagrams that were taken.
    pub datagrams: u64,
    /// Those of them that switches had marked.
    pub ecn_marks: u64,
    /// Datagrams that came before.
    pub repeated: u64,
    /// Datagrams that were not sealed with the key, or damaged.
    pub forged: u64,
    /// Datagrams of no session.
    pub strangers: u64,
    /// Datagrams that nobody here can read.
    pub malformed: u64,
}

impl Network {
    pub(super) fn of(counters: Counters, base_rtt_us: Option<f64>) -> Network {
        Network {
            base_rtt_us,
            datagrams: counters.taken,
            ecn_marks: counters.marked,
            repeated: counters.old,
            forged: counters.forged,
            strangers: counters.strangers,
            malformed: counters.malformed,
        }
    }
}

/// Times as they come.
pub(super) struct Times {
    histogram: Histogram<u64>,
    pub(super) submitted: u64,
}

impl Times {
    pub(super) fn new() -> Times {
        // Never above a day.
        let histogram = Histogram::new_with_bounds(1, 86_400_000_000_000, DIGITS);
        Times { histogram: histogram.expect("bounds and digits are valid"), submitted: 0 }
    }

    pub(super) fn add(&mut self, took: Duration) {
        self.histogram.saturating_record(took.as_nanos() as u64);
    }

    /// So many are done.
    pub(super) fn done(&self) -> u64 {
        self.histogram.len()
    }

    /// Forgets all.
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
        // Of all threads: the kernel's work for a socket is some of it.
        let cpu = stopwatch.cpu(2);
        NetEngine { wall_seconds: stopwatch.wall().as_secs_f64(), cpu_seconds: cpu.as_secs_f64() }
    }
}

/// A number with three significant digits in the largest of these units that it has one of.
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

/// A rate as people read it.
pub fn rate_shown(gbps: f64) -> String {
    in_unit(gbps, &[(1.0, "Gbps"), (1e-3, "Mbps"), (1e-6, "kbps")])
}

/// A time as people read it.
pub fn time_shown(us: f64) -> String {
    in_unit(us, &[(1e6, "s"), (1e3, "ms"), (1.0, "us")])
}

/// Rate of so many bytes in that time.
pub(super) fn gbps(bytes: u64, seconds: f64) -> f64 {
    let rate = bytes as f64 * 8e-9 / seconds.max(1e-9);
    (rate * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times_are_in_units_for_people() {
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
