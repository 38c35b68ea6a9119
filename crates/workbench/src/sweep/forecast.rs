//! Forecasts the cost of a sweep from short trial runs.

use std::cell::Cell;
use std::time::Duration;

use serde::Serialize;

use super::{Design, SweepOptions, found, missing, place, recording};
use crate::observe::{Control, adapt, drive, measures};
use crate::{Error, Progress, machine};

/// Cost of a sweep. All values but the numbers of runs are estimates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SweepForecast {
    /// All runs.
    pub runs: usize,
    /// Runs that are in the cache.
    pub kept: usize,
    /// Packet-hops of the other runs together.
    pub packet_hops: f64,
    /// Time that they take on all threads together.
    pub wall_seconds: f64,
    /// Memory that the process needs; `None` if the system does not report memory.
    pub memory_bytes: Option<u64>,
    /// Number of threads.
    pub threads: usize,
    /// Number of trial runs.
    pub probes: usize,
}

/// Maximum number of trial runs.
const PROBES: usize = 6;
/// Minimum share of the simulated time in a trial run.
const SHARE: f64 = 0.02;
/// Minimum and maximum wall-clock time of a trial run.
const PROBE_TIME: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));

/// Result of a trial run, extrapolated in proportion to simulated time.
struct Probe {
    packet_hops: f64,
    seconds: f64,
}

/// Forecasts the cost of a sweep from short parts of some of its runs. Results are discarded.
///
/// # Errors
/// When the scenario is invalid at any point, a trial run fails, or an interrupt is requested.
pub fn forecast_sweep(design: &Design, options: &SweepOptions<'_>) -> Result<SweepForecast, Error> {
    let (seeds, _) = design.seeds()?;
    let found = found(design, &seeds, options)?;
    let missing = missing(&found);
    let before = machine::peak_rss_bytes();
    let probe = |run| {
        let (point, seed) = place(run, &seeds);
        crate::guarded(|| probe(design, (point, seed), options))
    };
    let probes = tried(&missing).into_iter().map(probe).collect::<Result<Vec<Probe>, Error>>()?;
    let peaks = before.zip(machine::peak_rss_bytes());
    Ok(SweepForecast::of((found.len(), missing.len()), &probes, options.threads(), peaks))
}

/// The runs to try: evenly spaced from the first to the last missing run.
fn tried(missing: &[usize]) -> Vec<usize> {
    let count = missing.len().min(PROBES);
    (0..count).map(|i| missing[i * (missing.len() - 1) / (count - 1).max(1)]).collect()
}

impl SweepForecast {
    /// Forecast for the numbers of all and of missing runs, and of threads. `peaks` is the peak
    /// memory of the process before and after the trial runs, in bytes.
    fn of(
        (runs, missing): (usize, usize),
        probes: &[Probe],
        threads: usize,
        peaks: Option<(u64, u64)>,
    ) -> SweepForecast {
        let count = probes.len().max(1) as f64;
        let whole =
            |of: fn(&Probe) -> f64| probes.iter().map(of).sum::<f64>() / count * missing as f64;
        let at_once = threads.min(missing) as u64;
        // Each concurrent run needs the memory that the largest trial run added. Linux updates the
        // counter in batches, so the later peak may appear smaller.
        let needed = |(before, now): (u64, u64)| before + now.saturating_sub(before) * at_once;
        SweepForecast {
            runs,
            kept: runs - missing,
            packet_hops: whole(|probe| probe.packet_hops),
            wall_seconds: whole(|probe| probe.seconds) / threads as f64,
            memory_bytes: peaks.map(needed),
            threads,
            probes: probes.len(),
        }
    }
}

/// Starts a run on one thread, and stops it early.
fn probe(
    design: &Design,
    (point, seed): (usize, u64),
    options: &SweepOptions<'_>,
) -> Result<Probe, Error> {
    let plan = design.plan(point, Some(seed))?;
    let last: Cell<Option<Progress>> = Cell::new(None);
    let progress = |progress: &Progress| last.set(Some(*progress));
    let is_enough = |last: Progress| {
        last.share() >= SHARE && last.wall >= PROBE_TIME.0 || last.wall >= PROBE_TIME.1
    };
    let is_interrupted = || options.is_interrupted() || last.get().is_some_and(is_enough);
    let control = Control {
        threads: 1,
        partitions: None,
        ranks: None,
        is_interrupted: &is_interrupted,
        progress: &progress,
        chunk: &adapt,
    };
    let measures =
        measures(&plan, recording().parts, plan.duration.since(tidegate_core::Time::ZERO));
    match drive(&plan, measures, &control) {
        Ok(_) => {}
        Err(Error::Interrupted) if !options.is_interrupted() => {}
        Err(error) => return Err(error),
    }
    let missing = || Error::Run("a run ended before it started".to_owned());
    let last = last.get().ok_or_else(missing)?;
    let whole = 1.0 / last.share().max(1e-6);
    Ok(Probe {
        packet_hops: last.packet_hops as f64 * whole,
        seconds: last.wall.as_secs_f64() * whole,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trial_runs_are_spread_over_missing_runs() {
        let all: Vec<usize> = (100..151).collect();
        assert_eq!(tried(&all), [100, 110, 120, 130, 140, 150]);
        assert_eq!(tried(&[3, 5]), [3, 5]);
        assert_eq!(tried(&[3]), [3]);
        assert!(tried(&[]).is_empty());
    }

    #[test]
    fn missing_runs_share_threads_and_add_memory() {
        let probes =
            [(1.0, 2.0), (3.0, 4.0)].map(|(packet_hops, seconds)| Probe { packet_hops, seconds });
        // Ten of thirty runs are missing, on four threads; a run adds 50 bytes to 100.
        let ours = SweepForecast::of((30, 10), &probes, 4, Some((100, 150)));
        let expected = SweepForecast {
            runs: 30,
            kept: 20,
            packet_hops: 20.0,
            wall_seconds: 30.0 / 4.0,
            memory_bytes: Some(100 + 4 * 50),
            threads: 4,
            probes: 2,
        };
        assert_eq!(ours, expected);
        let few = SweepForecast::of((30, 2), &probes, 4, Some((100, 150)));
        assert_eq!(few.memory_bytes, Some(200), "two run at once");
        assert_eq!(SweepForecast::of((30, 0), &[], 4, None).wall_seconds, 0.0);
    }
}
