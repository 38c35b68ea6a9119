//! Statistics over flows of one label and protocol, mergeable into those of a label and of all.

use crate::fixed::Fixed;
use crate::recorder::FlowRow;
use crate::sketch::Sketch;
use crate::summary::{BySize, FctSummary, Goodput, Slowdown};
use tidegate_core::Span;

/// Messages are grouped by size at these bounds: decades, whatever the fabric, so that runs
/// compare.
pub const SIZE_BOUNDS: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Completion times of some messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fct {
    unfinished: u64,
    /// In picoseconds.
    times: Sketch,
    /// In millionths.
    slowdowns: Sketch,
}

impl Fct {
    fn add(&mut self, row: &FlowRow) {
        match row.fct() {
            Some(fct) => {
                self.times.add(fct.as_ps());
                if let Some(slowdown) = row.slowdown() {
                    self.slowdowns.add(slowdown.as_millionths());
                }
            }
            None => self.unfinished += 1,
        }
    }

    fn merge(&mut self, other: &Fct) {
        self.unfinished += other.unfinished;
        self.times.merge(&other.times);
        self.slowdowns.merge(&other.slowdowns);
    }

    fn summary(&self, by_size: Vec<BySize>) -> FctSummary {
        let micros = |ps: Option<u64>| ps.map(Fixed::millionths);
        let [p50, p99, p999] = self.times.percentiles([0.5, 0.99, 0.999]).map(micros);
        let [s50, s99, s999] = self.slowdowns.percentiles([0.5, 0.99, 0.999]).map(micros);
        FctSummary {
            count: self.times.count() + self.unfinished,
            unfinished: self.unfinished,
            mean_us: micros(self.times.mean()),
            p50_us: p50,
            p99_us: p99,
            p999_us: p999,
            slowdown: Slowdown { p50: s50, p99: s99, p999: s999 },
            by_size,
        }
    }
}

/// Times from request to reply.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exchanges {
    requests: u64,
    /// Of those whose replies arrived, in picoseconds.
    times: Sketch,
}

impl Exchanges {
    /// Adds a request or a reply.
    pub(crate) fn add(&mut self, row: &FlowRow) {
        self.requests += u64::from(row.exchange.is_some_and(|exchange| !exchange.is_reply));
        if let Some(time) = row.exchange() {
            self.times.add(time.as_ps());
        }
    }

    pub(crate) fn merge(&mut self, other: &Exchanges) {
        self.requests += other.requests;
        self.times.merge(&other.times);
    }

    pub(crate) fn summary(&self) -> FctSummary {
        let unfinished = self.requests.saturating_sub(self.times.count());
        Fct { unfinished, times: self.times.clone(), ..Fct::default() }.summary(Vec::new())
    }
}

/// Completion times by size. The parts add up to the whole, so only they are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct SizedFct {
    bins: [Fct; SIZE_BOUNDS.len() + 1],
}

impl SizedFct {
    /// Adds a message of `bytes`.
    pub(crate) fn add(&mut self, bytes: u64, row: &FlowRow) {
        self.bins[SIZE_BOUNDS.partition_point(|&bound| bound <= bytes)].add(row);
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
            fct: bin.summary(Vec::new()),
        });
        let rows = rows.filter(|row| row.fct.count > 0).collect();
        all.summary(rows)
    }
}

/// Goodputs of some flows.
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

    /// `measured`: from warm-up to the end.
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

/// `bytes` over `span`; `None` where that is no time.
pub(crate) fn gbps(bytes: u64, span: Span) -> Option<f64> {
    // 8 bits over a picosecond are 8000 Gbit/s.
    (span > Span::ZERO).then(|| bytes as f64 * 8e3 / span.as_ps() as f64)
}
