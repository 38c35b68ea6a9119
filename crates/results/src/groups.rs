//! Statistics of flows by label and protocol, which merge into those of a label and of all flows.

use crate::fct::{BySize, FctSummary, Slowdown};
use crate::fixed::Fixed;
use crate::rows::{FlowRow, gbps};
use crate::summary::Goodput;
use crate::survival::{Curve, Lifetimes};
use tidegate_core::{Span, Time};

/// Bounds of message size groups. They are decades in every fabric, so that runs are comparable.
pub const SIZE_BOUNDS: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Completion times of messages; those of unfinished messages are censored at the end of the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fct {
    /// Times in picoseconds.
    times: Lifetimes,
    /// Slowdowns in millionths.
    slowdowns: Lifetimes,
}

impl Fct {
    /// Adds a message. `over` is the end of the run, including the drain.
    fn add(&mut self, row: &FlowRow, over: Time) {
        let slowdown = |took| row.slowdown_of(took).map(Fixed::as_millionths);
        match row.fct() {
            Some(took) => {
                self.times.add(took.as_ps());
                slowdown(took).into_iter().for_each(|times| self.slowdowns.add(times));
            }
            None => {
                let took = over.since(row.start);
                self.times.add_open(took.as_ps());
                slowdown(took).into_iter().for_each(|times| self.slowdowns.add_open(times));
            }
        }
    }

    fn merge(&mut self, other: &Fct) {
        self.times.merge(&other.times);
        self.slowdowns.merge(&other.slowdowns);
    }

    fn summary(&self) -> FctSummary {
        self.with(self.slowdowns.curve(), Vec::new())
    }

    fn with(&self, slowdowns: Curve, by_size: Vec<BySize>) -> FctSummary {
        let micros = |ps: Option<u64>| ps.map(Fixed::millionths);
        let times = self.times.curve();
        let [p50, p99, p999] = times.percentiles([0.5, 0.99, 0.999]).map(micros);
        let [s50, s99, s999] = slowdowns.percentiles([0.5, 0.99, 0.999]).map(micros);
        FctSummary {
            count: self.times.known() + self.times.open(),
            unfinished: self.times.open(),
            reach: times.reach(),
            mean_us: micros(self.times.mean()),
            p50_us: p50,
            p99_us: p99,
            p999_us: p999,
            slowdown: Slowdown { reach: slowdowns.reach(), p50: s50, p99: s99, p999: s999 },
            by_size,
        }
    }
}

/// Times from request to reply; those of requests without a reply are censored at the end of the
/// run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exchanges {
    requests: u64,
    fct: Fct,
}

impl Exchanges {
    /// Adds a request or a reply. `over` is the end of the run, including the drain.
    pub(crate) fn add(&mut self, row: &FlowRow, over: Time) {
        let Some(exchange) = row.exchange else { return };
        self.requests += u64::from(!exchange.is_reply);
        match (exchange.is_reply, row.completed) {
            (true, Some(at)) => self.fct.times.add(at.since(exchange.requested).as_ps()),
            // The row of the reply contains the time of both.
            (false, Some(_)) => {}
            (_, None) => self.fct.times.add_open(over.since(exchange.requested).as_ps()),
        }
    }

    pub(crate) fn merge(&mut self, other: &Exchanges) {
        self.requests += other.requests;
        self.fct.merge(&other.fct);
    }

    pub(crate) fn summary(&self) -> FctSummary {
        let mut fct = self.fct.clone();
        // A reply that was never submitted has no row: its exchange is censored at 0.
        let recorded = fct.times.known() + fct.times.open();
        (recorded..self.requests).for_each(|_| fct.times.add_open(0));
        fct.summary()
    }
}

/// Completion times by size. Only the groups are stored: they add up to the total.
#[derive(Clone, Debug, Default)]
pub(crate) struct SizedFct {
    bins: [Fct; SIZE_BOUNDS.len() + 1],
}

impl SizedFct {
    /// Adds a message of `bytes`. `over` is the end of the run, including the drain.
    pub(crate) fn add(&mut self, bytes: u64, row: &FlowRow, over: Time) {
        self.bins[SIZE_BOUNDS.partition_point(|&bound| bound <= bytes)].add(row, over);
    }

    pub(crate) fn merge(&mut self, other: &SizedFct) {
        self.bins.iter_mut().zip(&other.bins).for_each(|(bin, more)| bin.merge(more));
    }

    pub(crate) fn summary(&self) -> FctSummary {
        let mut all = Fct::default();
        self.bins.iter().for_each(|bin| all.merge(bin));
        let rows = self.bins.iter().enumerate();
        let rows = rows.map(|(i, bin)| BySize {
            min_bytes: if i == 0 { 0 } else { SIZE_BOUNDS[i - 1] },
            below_bytes: SIZE_BOUNDS.get(i).copied(),
            fct: bin.summary(),
        });
        let rows = rows.filter(|row| row.fct.count > 0).collect();
        // Slowdowns are estimated by size, because large messages are censored at lower slowdowns
        // than small ones.
        let slowdowns = self.bins.iter().map(|bin| bin.slowdowns.curve());
        all.with(Curve::together(slowdowns), rows)
    }
}

/// Goodputs of flows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    n: u64,
    sum: f64,
    squares: f64,
    range: Option<(f64, f64)>,
    window_bytes: u64,
}

impl Rates {
    pub(crate) fn add(&mut self, row: &FlowRow) {
        self.window_bytes = self.window_bytes.saturating_add(row.window_bytes);
        let Some(rate) = row.goodput_gbps() else { return };
        self.n += 1;
        self.sum += rate;
        self.squares += rate * rate;
        let (min, max) = self.range.unwrap_or((rate, rate));
        self.range = Some((min.min(rate), max.max(rate)));
    }

    /// Returns the statistics. `measured` is the length of the measured window.
    pub(crate) fn summary(&self, measured: Span) -> Goodput {
        let n = self.n as f64;
        Goodput {
            mean: (self.n > 0).then(|| self.sum / n),
            min: self.range.map(|range| range.0),
            max: self.range.map(|range| range.1),
            total: gbps(self.window_bytes, measured),
            jain: (self.squares > 0.0).then(|| self.sum * self.sum / (n * self.squares)),
        }
    }
}
