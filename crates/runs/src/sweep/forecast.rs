//! Forecasts the cost of runs from their traffic and short trial runs.
//!
//! A trial run is the beginning of a run. It shows packet-hops per delivered data packet, and time
//! per packet-hop. The workload shows the data packets that follow, where the messages are known
//! before the run. For other traffic, the forecast assumes the rate of the trial run for as long as
//! the traffic lasts.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tidegate_core::{Span, Time};
use tidegate_scenario::Plan;
use tidegate_sim::{FlowRecord, partitions_worth};

use super::demand::{Demand, Kind, Times, all_packets, delivered, sources};
use super::{Design, SweepOptions, found, missing, place, recording};
use crate::cache::Recording;
use crate::machine::Stopwatch;
use crate::observe::{Control, End, Measure, RunOutput, Start, adapt, drive};
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
    /// Meaning of packet-hops and times.
    pub bound: Bound,
}

/// How an estimate relates to the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// It may be higher or lower.
    #[default]
    About,
    /// It includes traffic of which nothing arrived in the trial run, as if links of hosts were the
    /// only limit.
    AtMost,
}

impl Bound {
    /// The bound of a sum.
    fn with(self, other: Bound) -> Bound {
        match (self, other) {
            (Bound::About, Bound::About) => Bound::About,
            _ => Bound::AtMost,
        }
    }
}

/// Maximum number of trial runs.
const PROBES: usize = 6;
/// Minimum share of the simulated time in a trial run.
const SHARE: f64 = 0.25;
/// Minimum and maximum processor time of a trial run.
const PROBE_TIME: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));

/// Result of a trial run, extrapolated to the whole run.
#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    packet_hops: f64,
    seconds: f64,
    /// Bytes of its capture.
    captured: f64,
    /// End of the simulated time, without the drain.
    end: Time,
    bound: Bound,
}

/// State of a trial run at some time.
#[derive(Clone, Copy, Default)]
struct Point {
    now: Time,
    packet_hops: f64,
    seconds: f64,
    captured: f64,
}

/// Adds up the packets of a trial run.
#[derive(Clone, Copy, Debug, Default)]
struct Delivered {
    /// Data packets that have arrived, by kind of traffic.
    packets: [f64; Kind::COUNT],
    /// Links from the first to the last host.
    links: u32,
}

#[derive(Clone, Default)]
struct Delivery(Arc<Mutex<Delivered>>);

impl Delivery {
    fn lock(&self) -> MutexGuard<'_, Delivered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Measure for Delivery {
    fn begin(&mut self, start: &Start<'_>) -> Result<(), Error> {
        let last = start.plan.fabric.hosts.len().saturating_sub(1) as u32;
        self.lock().links = if last > 0 { start.paths.path(0, last).hops + 1 } else { 0 };
        Ok(())
    }

    fn flow(&mut self, plan: &Plan, record: &FlowRecord) -> Result<(), Error> {
        let (kind, packets) = delivered(plan, record);
        self.lock().packets[kind as usize] += packets;
        Ok(())
    }

    fn finish(self: Box<Self>, _end: &End<'_>, _output: &mut RunOutput) -> Result<(), Error> {
        Ok(())
    }
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
        probe(&plan, &recording(), options.interrupted, None)
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
    let probe = |run: usize| probe(&plans[run], &recording(), options.interrupted, options.capture);
    let probes = tried(&all).into_iter().map(probe).collect::<Result<Vec<Probe>, Error>>()?;
    let peaks = before.zip(machine::peak_rss_bytes());
    let most = options.threads();
    let threads = match plans {
        [plan] if options.capture.is_none() => {
            let hops: f64 = probes.iter().map(|probe| probe.packet_hops).sum();
            let end = probes.iter().map(|probe| probe.end).max().unwrap_or(plan.duration);
            partitions_worth(&plan.fabric, most, hops / end.as_s_f64())
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
    let probe = probe(plan, &recording(), options.interrupted, options.capture)?;
    Ok(probe.captured)
}

/// A rough number of data packets of a run, by its traffic alone.
///
/// # Errors
/// When the caller interrupts it.
pub fn forecast_packets(plan: &Plan, interrupted: Option<&AtomicBool>) -> Result<f64, Error> {
    let is_interrupted = || interrupted.is_some_and(|flag| flag.load(Ordering::Relaxed));
    all_packets(plan, &|| if is_interrupted() { Err(Error::Interrupted) } else { Ok(()) })
}

/// Forecasts the processor time of a run in seconds, with the measures of this recording, in the
/// same way.
///
/// # Errors
/// When the run fails, or the caller interrupts it.
pub fn forecast_seconds(
    plan: &Plan,
    recording: &Recording,
    interrupted: Option<&AtomicBool>,
) -> Result<f64, Error> {
    probe(plan, recording, interrupted, None).map(|probe| probe.seconds)
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
            bound: probes.iter().fold(Bound::About, |all, probe| all.with(probe.bound)),
        }
    }
}

/// Starts a run on one thread, and stops it early.
fn probe(
    plan: &Plan,
    recording: &Recording,
    interrupted: Option<&AtomicBool>,
    capture: Option<Capture<'_>>,
) -> Result<Probe, Error> {
    crate::guarded(|| {
        let size = capture.map(|capture| Size::of(plan, capture)).transpose()?;
        let captured = || size.as_ref().map_or(0, Size::bytes) as f64;
        // Time of this thread, whatever the load of the machine is.
        let watch = Stopwatch::start();
        let points = RefCell::new(vec![Point::default()]);
        let (share, packet_hops) = (Cell::new(0.0), Cell::new(0));
        let is_partial = Cell::new(false);
        let progress = |progress: &Progress| {
            share.set(progress.share());
            packet_hops.set(progress.packet_hops);
            points.borrow_mut().push(Point {
                now: progress.now,
                packet_hops: progress.packet_hops as f64,
                seconds: watch.cpu(1).as_secs_f64(),
                captured: captured(),
            });
        };
        let is_interrupted = || interrupted.is_some_and(|flag| flag.load(Ordering::Relaxed));
        // Time without traffic passes quickly, so it rarely ends the trial run.
        let is_enough = || {
            let (spent, has_traffic) = (watch.cpu(1), packet_hops.get() > 0);
            let has_share = has_traffic && share.get() >= SHARE && spent >= PROBE_TIME.0;
            has_share || spent >= PROBE_TIME.1
        };
        // Afterwards, chunks do not grow: a long one may hold much traffic.
        let chunk = |chunk, took| {
            is_partial.set(is_enough());
            let idle = Span::ps(plan.duration.as_ps() / 1000);
            let most = if packet_hops.get() == 0 { idle.max(chunk) } else { chunk };
            adapt(chunk, took).filter(|_| !is_partial.get()).map(|next| next.min(most))
        };
        let control = Control {
            threads: 1,
            partitions: None,
            ranks: None,
            is_interrupted: &is_interrupted,
            progress: &progress,
            chunk: &chunk,
        };
        let delivered = Delivery::default();
        let mut measures = recording.measures(plan);
        measures.push(Box::new(delivered.clone()));
        measures.extend(size.clone().map(|size| Box::new(size) as Box<dyn Measure>));
        drive(plan, measures, &control)?;
        let points = points.into_inner();
        let last = points.last().copied().unwrap_or_default();
        if !is_partial.get() {
            let Point { now, packet_hops, seconds, captured } = last;
            return Ok(Probe { packet_hops, seconds, captured, end: now, bound: Bound::About });
        }
        // Flows accumulate at the start, so the last quarter shows the rates.
        let quarter = Time::ps(last.now.as_ps() / 4 * 3);
        let is_before = |point: &&Point| point.now <= quarter && point.now < last.now;
        let before = points.iter().rfind(is_before).copied().unwrap_or_default();
        let check = || if is_interrupted() { Err(Error::Interrupted) } else { Ok(()) };
        extended(plan, (before, last), *delivered.lock(), &check)
    })
}

/// Extends a trial run to the whole run. Its last quarter begins at the first point and ends at the
/// second.
fn extended(
    plan: &Plan,
    (before, last): (Point, Point),
    delivered: Delivered,
    check: &dyn Fn() -> Result<(), Error>,
) -> Result<Probe, Error> {
    let lately = last.packet_hops - before.packet_hops;
    let recent = lately / last.packet_hops.max(1.0);
    let extend = |of: fn(&Point) -> f64, packet_hops: f64, end: Time| {
        let each = match lately {
            // Only the cost of idle time is known.
            _ if last.packet_hops == 0.0 => {
                return of(&last) * end.as_s_f64() / last.now.as_s_f64().max(1e-12);
            }
            0.0 => of(&last) / last.packet_hops,
            lately => (of(&last) - of(&before)) / lately,
        };
        of(&last) + each * (packet_hops - last.packet_hops)
    };
    let whole = |packet_hops: f64, end, bound| Probe {
        packet_hops,
        seconds: extend(|point| point.seconds, packet_hops, end),
        captured: extend(|point| point.captured, packet_hops, end),
        end,
        bound,
    };
    let Delivered { packets: delivered, links } = delivered;
    let times = |end: Time| Times { before: before.now, now: last.now, end };
    let messages = |kind: Kind, demand: &Demand, times| {
        let delivered = delivered[kind as usize];
        demand.messages(times, delivered, delivered * recent)
    };

    let of_all = times(plan.duration.after(plan.drain));
    let (mut finite, mut start) = (Demand::default(), plan.warmup);
    sources(plan, true, plan.duration, |source| {
        start = start.max(source.start);
        finite.add(of_all, &source);
        check()
    })?;
    let (of_finite, needed) = messages(Kind::Finite, &finite, of_all);
    let mut end = plan.duration;
    if let Some(needed) = needed.filter(|_| plan.until_done) {
        end = start.max(last.now).after(Span::from_ps_f64(needed * 1e12)).min(end);
    }
    // Unlimited flows and clients stop before the drain.
    let (of_open, of_lasting) = (times(end.after(plan.drain)), times(end));
    let mut others: [Demand; Kind::COUNT] = Default::default();
    sources(plan, false, end, |source| {
        let times = if source.kind == Kind::Open { of_open } else { of_lasting };
        others[source.kind as usize].add(times, &source);
        check()
    })?;
    let mut more = of_finite + messages(Kind::Open, &others[Kind::Open as usize], of_open).0;
    let lasts = others.iter().any(|demand| demand.after > 0.0);
    let is_endless = needed.is_none() && (finite.so_far() > 0.0 || plan.until_done && lasts);
    let mut bound = if is_endless { Bound::AtMost } else { Bound::About };
    for kind in [Kind::Unlimited, Kind::Closed] {
        let delivered = delivered[kind as usize];
        match others[kind as usize].lasting(delivered, delivered * recent) {
            Some(packets) => more += packets,
            None => {
                more += others[kind as usize].after;
                bound = Bound::AtMost;
            }
        }
    }
    let arrived: f64 = delivered.iter().sum();
    if arrived == 0.0 {
        // Each packet and its acknowledgement cross all links of a path.
        let hops = last.packet_hops + more * 2.0 * f64::from(links);
        return Ok(whole(hops, end, if more > 0.0 { Bound::AtMost } else { bound }));
    }
    Ok(whole(last.packet_hops * (1.0 + more / arrived), end, bound))
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
            ..Probe::default()
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
            bound: Bound::About,
        };
        assert_eq!(ours, expected);
        let few = SweepForecast::of((30, 2), &probes, 4, Some((100, 150)));
        assert_eq!(few.memory_bytes, Some(200), "two run at once");
        assert_eq!(SweepForecast::of((30, 0), &[], 4, None).wall_seconds, 0.0);
    }

    #[test]
    fn bounds_of_sums() {
        let (about, most) = (Bound::About, Bound::AtMost);
        assert_eq!((about.with(about), about.with(most), most.with(about)), (about, most, most));
    }

    /// The forecast of a trial run of 4 ms with these packets and 1,000 packet-hops, 800 of them in
    /// 3 ms.
    fn of(text: &str, packets: [f64; Kind::COUNT]) -> Probe {
        let text = format!(
            "duration = '20ms'\ntransport = {{ protocol = 'PROTOCOL' }}\n\
             fabric = {{ kind = 'star', hosts = 4, mtu = '1000B' }}\n{text}"
        );
        let text = text.replace("PROTOCOL", crate::protocols()[0].name);
        let plan = tidegate_scenario::load(&text, "test.toml", &[]).unwrap();
        let before = Point { now: Time::ms(3), packet_hops: 800.0, seconds: 3.0, captured: 10.0 };
        let last = Point { now: Time::ms(4), packet_hops: 1e3, seconds: 3.5, captured: 30.0 };
        let delivered = Delivered { packets, links: 2 };
        extended(&plan, (before, last), delivered, &|| Ok(())).unwrap()
    }

    #[test]
    fn costs_follow_packet_hops() {
        // 5,000 packets, of which 1,000 have arrived within 4 ms.
        let flows = "flows = [{ src = 'h0', dst = 'h1', size = '5MB' }]\n";
        let Probe { packet_hops, seconds, captured, end, bound } = of(flows, [1e3, 0.0, 0.0, 0.0]);
        assert_eq!((packet_hops, end, bound), (5e3, Time::ms(20), Bound::About));
        // As in the last quarter: 200 packet-hops in half a second, with 20 bytes.
        assert_eq!((seconds, captured), (3.5 + 4e3 / 400.0, 30.0 + 4e3 / 10.0));
    }

    #[test]
    fn messages_arrive_in_the_drain() {
        let flow = "flows = [{ src = 'h0', dst = 'h1', size = '50MB' }]\n";
        let hops = |text: &str| of(text, [1e3, 0.0, 0.0, 0.0]).packet_hops.round();
        // 250 packets arrive per millisecond.
        assert_eq!(hops(flow), 250.0 * 20.0);
        assert_eq!(hops(&format!("drain = '10ms'\n{flow}")), 250.0 * 30.0);
    }

    #[test]
    fn a_run_ends_when_finite_messages_have_arrived() {
        let both = "flows = [\n\
            { src = 'h0', dst = 'h1', size = '1.5MB' },\n\
            { src = 'h2', dst = 'h3' },\n]\n";
        let delivered = [1e3, 0.0, 4e3, 0.0];
        // 4,000 of 5,000 packets arrived from the unlimited flow, in 4 ms.
        let whole = of(both, delivered);
        assert_eq!(whole.end, Time::ms(20));
        assert!((whole.packet_hops - (1e3 + (500.0 + 800.0 * 16.0) / 5.0)).abs() < 1e-6);
        // The rest of 500 packets needs 2 ms at 250 per millisecond.
        let done = of(&format!("until = 'done'\n{both}"), delivered);
        assert_eq!((done.end, done.bound), (Time::ms(6), Bound::About));
        assert!((done.packet_hops - (1e3 + (500.0 + 800.0 * 2.0) / 5.0)).abs() < 1e-6, "{done:?}");
        let unknown = of(&format!("until = 'done'\n{both}"), [0.0, 0.0, 4e3, 0.0]);
        assert_eq!((unknown.end, unknown.bound), (Time::ms(20), Bound::AtMost));
    }

    #[test]
    fn traffic_without_a_trial_gives_an_upper_bound() {
        let late = "flows = [\n\
            { src = 'h0', dst = 'h1', size = '1MB' },\n\
            { src = 'h2', dst = 'h3', start = '10ms' },\n]\n";
        // The later flow fills a link of 100 Gbit/s for 10 ms.
        let later = 12.5e3 * 10.0;
        let known = of(late, [1e3, 0.0, 0.0, 0.0]);
        assert_eq!((known.packet_hops.round(), known.bound), (1e3 + later, Bound::AtMost));
        // Each packet and its acknowledgement cross two links.
        let nothing = of(late, [0.0; Kind::COUNT]);
        let expected = 1e3 + (1e3 + later) * 4.0;
        assert_eq!((nothing.packet_hops.round(), nothing.bound), (expected, Bound::AtMost));
        let over = of("flows = [{ src = 'h0', dst = 'h1', stop = '1ms' }]", [0.0; Kind::COUNT]);
        assert_eq!((over.packet_hops, over.bound), (1e3, Bound::About));
    }
}
