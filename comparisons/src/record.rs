//! Measurements of a sender.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::process::{Report, report};

/// Maximum recorded time.
const MOST_NS: u64 = 60_000_000_000;

/// Results over the messages answered in the measured time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Length of the measured time.
    pub(crate) seconds: f64,
    /// Number of messages.
    pub(crate) messages: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Median of the time from submission to answer.
    pub(crate) p50_us: f64,
    /// 99th percentile.
    pub(crate) p99_us: f64,
}

/// Records the times of messages, and reports when the measurement begins and ends.
pub(crate) struct Recorder {
    bytes: usize,
    seconds: Duration,
    state: Mutex<State>,
}

enum State {
    Before(Instant),
    Measures { since: Instant, times: Histogram<u64> },
    Over,
}

impl Recorder {
    /// Creates a recorder for messages of `bytes` bytes, for `seconds` after `warmup`.
    pub(crate) fn new(bytes: usize, warmup: Duration, seconds: Duration) -> Recorder {
        let state = Mutex::new(State::Before(Instant::now() + warmup));
        Recorder { bytes, seconds, state }
    }

    /// Records the time of a message; returns whether to send another.
    pub(crate) fn done(&self, took: Duration) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match &mut *state {
            State::Before(begin) if now < *begin => true,
            State::Before(_) => {
                let times = Histogram::new_with_max(MOST_NS, 3).expect("three digits are allowed");
                *state = State::Measures { since: now, times };
                report(&Report::Begin);
                true
            }
            State::Measures { since, times } => {
                times.saturating_record(took.as_nanos() as u64);
                let passed = now - *since;
                if passed < self.seconds {
                    return true;
                }
                let us = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
                report(&Report::End(Figures {
                    seconds: passed.as_secs_f64(),
                    messages: times.len(),
                    bytes: times.len() * self.bytes as u64,
                    p50_us: us(0.5),
                    p99_us: us(0.99),
                }));
                *state = State::Over;
                false
            }
            State::Over => false,
        }
    }

    /// Whether the measurement is complete.
    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.state.lock().unwrap_or_else(PoisonError::into_inner), State::Over)
    }
}
