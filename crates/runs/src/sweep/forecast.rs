//! Forecasts the cost of runs from short trial runs.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use tidegate_core::Time;
use tidegate_scenario::Plan;
use tidegate_sim::partitions_worth;

use super::{Design, SweepOptions, found, missing, place, recording};
use crate::machine::Stopwatch;
use crate::observe::{Control, Measure, adapt, drive, measures};
use crate::pcap::{Capture, Size};
use crate::{Error, Progress, RunOptions, machine};

/// Cost of runs. All values but the numbers of runs are estimates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SweepForecast {
    /// All runs.
    pub runs: usize,
    /// Runs that are in the cache.
    pub kept: usize,
    /// Packet-hops of the other runs together.
    pub packet_hops: f64,
    /// Processor time of all runs.
    pub cpu_seconds: f64,
    /// Time that they take on all threads together, on an idle machine.
    pub wall_seconds: f64,
    /// Memory that the process needs; `None` if the system does not report memory.
    pub memory_bytes: Option<u64>,
    /// Number of threads.
    pub threads: usize,
    /// Number of trial runs.
    pub probes: usize,
    /// Longest drain of the trial runs in simulated seconds. The estimate excludes it: a run drains
    /// only until its messages are complete.
    pub drain_max_seconds: f64,
}

/// Maximum number of trial runs.
const PROBES: usize = 6;
/// Minimum share of the simulated time in a trial run.
const SHARE: f64 = 0.25;
/// Minimum and maximum wall-clock time of a trial run.
const PROBE_TIME: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));

/// Result of a trial run, extrapolated to the whole run.
#[derive(Clone, Copy)]
struct Probe {
    packet_hops: f64,
    seconds: f64,
    /// Bytes of its capture.
    captured: f64,
    /// Its drain in simulated seconds.
    drain: f64,
}

/// Up to some share of the simulated time.
#[derive(Clone, Copy, Default)]
struct Point {
    share: f64,
    packet_hops: f64,
    seconds: f64,
    captured: f64,
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
        let plan = design.plan(point, Some(seed))?;
        probe(&plan, options.interrupted, None)
    };
    let probes = tried(&missing).into_iter().map(probe).collect::<Result<Vec<Probe>, Error>>()?;
    let peaks = before.zip(machine::peak_rss_bytes());
    Ok(SweepForecast::of((found.len(), missing.len()), &probes, options.threads(), peaks))
}

/// Forecasts the cost of these runs in the same way.
///
/// # Errors
/// When a trial run fails, or the caller interrupts it.
pub fn forecast_runs(plans: &[Plan], options: &RunOptions<'_>) -> Result<SweepForecast, Error> {
    let before = machine::peak_rss_bytes();
    let all: Vec<usize> = (0..plans.len()).collect();
    let probe = |run: usize| probe(&plans[run], options.interrupted, options.capture);
    let probes = tried(&all).into_iter().map(probe).collect::<Result<Vec<Probe>, Error>>()?;
    let peaks = before.zip(machine::peak_rss_bytes());
    let most = options.threads();
    let threads = match plans {
        [plan] if options.capture.is_none() => {
            let hops: f64 = probes.iter().map(|probe| probe.packet_hops).sum();
            partitions_worth(&plan.fabric, most, hops / plan.duration.as_s_f64())
        }
        _ => most.min(plans.len()),
    };
    Ok(SweepForecast::of((plans.len(), plans.len()), &probes, threads.max(1), peaks))
}

/// Forecasts the size in bytes of a run's capture in the same way.
///
/// # Errors
/// When the capture names an unknown host, the run fails, or the caller interrupts it.
pub fn forecast_capture(plan: &Plan, options: &RunOptions<'_>) -> Result<f64, Error> {
    probe(plan, options.interrupted, options.capture).map(|probe| probe.captured)
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
        let cpu_seconds = whole(|probe| probe.seconds);
        SweepForecast {
            runs,
            kept: runs - missing,
            packet_hops: whole(|probe| probe.packet_hops),
            cpu_seconds,
            wall_seconds: cpu_seconds / threads as f64,
            memory_bytes: peaks.map(needed),
            threads,
            probes: probes.len(),
            drain_max_seconds: probes.iter().map(|probe| probe.drain).fold(0.0, f64::max),
        }
    }
}

/// Starts a run on one thread, and stops it early.
fn probe(
    plan: &Plan,
    interrupted: Option<&AtomicBool>,
    capture: Option<Capture<'_>>,
) -> Result<Probe, Error> {
    crate::guarded(|| {
        let size = capture.map(|capture| Size::of(plan, capture)).transpose()?;
        let captured = || size.as_ref().map_or(0, Size::bytes) as f64;
        // Time of this thread, whatever the load of the machine is.
        let watch = Stopwatch::start();
        let points = RefCell::new(vec![Point::default()]);
        let progress = |progress: &Progress| {
            points.borrow_mut().push(Point {
                share: progress.share(),
                packet_hops: progress.packet_hops as f64,
                seconds: watch.cpu(1).as_secs_f64(),
                captured: captured(),
            });
        };
        let was_interrupted = || interrupted.is_some_and(|flag| flag.load(Ordering::Relaxed));
        let is_enough = || {
            let (share, took) =
                (points.borrow().last().map_or(0.0, |last| last.share), watch.wall());
            share >= SHARE && took >= PROBE_TIME.0 || share > 0.0 && took >= PROBE_TIME.1
        };
        let is_interrupted = || was_interrupted() || is_enough();
        let control = Control {
            threads: 1,
            partitions: None,
            ranks: None,
            is_interrupted: &is_interrupted,
            progress: &progress,
            chunk: &adapt,
        };
        let mut measures = measures(plan, recording().parts, plan.duration.since(Time::ZERO));
        measures.extend(size.clone().map(|size| Box::new(size) as Box<dyn Measure>));
        match drive(plan, measures, &control) {
            Ok(_) => {}
            Err(Error::Interrupted) if !was_interrupted() => {}
            Err(error) => return Err(error),
        }
        let drain = plan.drain.as_s_f64();
        Ok(Probe { drain, ..Probe::of(&points.borrow()) })
    })
}

impl Probe {
    /// Extrapolates from the last quarter of the trial run, because flows accumulate at the start.
    fn of(points: &[Point]) -> Probe {
        let last = points.last().copied().unwrap_or_default();
        let is_before = |point: &&Point| point.share <= last.share * 0.75;
        let before = points.iter().rfind(is_before).copied().unwrap_or_default();
        let left = (1.0 - last.share) / (last.share - before.share).max(1e-9);
        let whole = |of: fn(&Point) -> f64| of(&last) + (of(&last) - of(&before)) * left;
        Probe {
            packet_hops: whole(|point| point.packet_hops),
            seconds: whole(|point| point.seconds),
            captured: whole(|point| point.captured),
            drain: 0.0,
        }
    }
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
        let probes = [(1.0, 2.0), (3.0, 4.0)].map(|(packet_hops, seconds)| Probe {
            packet_hops,
            seconds,
            captured: 0.0,
            drain: seconds / 1e3,
        });
        // Ten of thirty runs are missing, on four threads; a run adds 50 bytes to 100.
        let ours = SweepForecast::of((30, 10), &probes, 4, Some((100, 150)));
        let expected = SweepForecast {
            runs: 30,
            kept: 20,
            packet_hops: 20.0,
            cpu_seconds: 30.0,
            wall_seconds: 30.0 / 4.0,
            memory_bytes: Some(100 + 4 * 50),
            threads: 4,
            probes: 2,
            drain_max_seconds: 4e-3,
        };
        assert_eq!(ours, expected);
        let few = SweepForecast::of((30, 2), &probes, 4, Some((100, 150)));
        assert_eq!(few.memory_bytes, Some(200), "two run at once");
        assert_eq!(SweepForecast::of((30, 0), &[], 4, None).wall_seconds, 0.0);
    }

    #[test]
    fn forecast_extends_the_last_quarter() {
        let point = |share, seconds| Point { share, seconds, ..Point::default() };
        // A second for the first hundredth, and then two.
        let points = [point(0.0, 0.0), point(0.01, 1.0), point(0.02, 3.0)];
        assert!((Probe::of(&points).seconds - (3.0 + 98.0 * 2.0)).abs() < 1e-9);
        assert_eq!(Probe::of(&[point(0.0, 0.0), point(0.5, 1.0), point(1.0, 4.0)]).seconds, 4.0);
        assert_eq!(Probe::of(&[point(0.0, 0.0)]).seconds, 0.0);
    }
}
