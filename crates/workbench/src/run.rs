//! One run of one plan.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_core::fabric::Node;
use tidegate_core::{Message, Time};
use tidegate_results::{
    Engine as EngineSummary, Fixed, FlowFile, GroupSummary, Manifest, Names, Partial, Recorder,
    SeriesFile, Summary, busiest,
};
use tidegate_scenario::Plan;
use tidegate_sim::{Engine, FlowRecord, Outcome, Probe, Sample, Setup};

use crate::fair_share::FairShares;
use crate::machine::{self, Stopwatch};
use crate::pcap::{Capture, Capturing};
use crate::series::Goodputs;
use crate::{Destination, Error, convert, interrupt};

/// Queue histograms are kept by default up to so many switch ports.
const HISTOGRAM_PORTS_MAX: usize = 512;
/// Between two looks at the interrupt flag the engine should work about this long.
const CHUNK: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(100));

/// A larger share of unfinished messages is warned of.
const UNFINISHED_MAX: f64 = 0.02;

/// Hears the number of a run (0 unless there are several) and how far it is, from the thread that
/// runs it.
pub type Listener<'a> = &'a (dyn Fn(usize, &Progress) + Sync);

/// How to run a plan.
#[derive(Clone, Copy, Default)]
pub struct RunOptions<'a> {
    /// Folder for results; without one nothing is written.
    pub out: Option<&'a Path>,
    /// Replace results that the folder holds, and the capture.
    pub force: bool,
    /// Capture packets; comparisons do not.
    pub capture: Option<Capture<'a>>,
    /// At most so many threads; `None`: as many as there are cores.
    pub threads: Option<usize>,
    /// Told of the state of a run now and then.
    pub progress: Option<Listener<'a>>,
    /// Set from elsewhere, it ends the run with [`Error::Interrupted`].
    pub interrupted: Option<&'a AtomicBool>,
}

impl RunOptions<'_> {
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
    /// Threads that may work.
    pub(crate) fn threads(&self) -> usize {
        self.threads.or_else(machine::cores).unwrap_or(1).max(1)
    }
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Simulated so far.
    pub now: Time,
    /// To be simulated in all, but for what messages take to finish afterwards.
    pub duration: Time,
    /// Packet-hops so far.
    pub packet_hops: u64,
    /// Since the run began.
    pub wall: Duration,
}

impl Progress {
    /// Simulated share, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.duration == Time::ZERO {
            1.0
        } else {
            self.now.as_s_f64() / self.duration.as_s_f64()
        }
    }
    /// Packet-hops over wall seconds.
    pub fn packet_hops_per_second(&self) -> f64 {
        self.packet_hops as f64 / self.wall.as_secs_f64().max(1e-9)
    }
    /// Wall time to go if simulated time passes on as it did so far; `None` before anything is
    /// known.
    pub fn left(&self) -> Option<Duration> {
        let share = self.share();
        let left = self.wall.as_secs_f64() * (1.0 - share) / share;
        (share > 0.0).then(|| Duration::try_from_secs_f64(left).ok()).flatten()
    }
}

/// Runs a plan and writes its results, if anywhere.
///
/// # Errors
/// When the folder for results is occupied or cannot be written, the engine refuses the plan, or
/// the run is interrupted. Nothing is left under a final name then.
pub fn run(plan: &Plan, options: &RunOptions<'_>) -> Result<Summary, Error> {
    crate::guarded(|| {
        let out = options.out.map(|out| Destination::open(out, options.force)).transpose()?;
        let Some(capture) = options.capture else {
            let (summary, staged) = run_numbered(plan, options, 0, out)?;
            staged.map(Staged::publish).transpose()?;
            return Ok(summary);
        };
        let capturing = Capturing::open(plan, capture, options.force)?;
        let check = || capturing.check();
        let (summary, staged) =
            run_in_chunks(plan, options, 0, out, (capturing.tap(), &check), adapt)?;
        capturing.publish()?;
        staged.map(Staged::publish).transpose()?;
        Ok(summary)
    })
}

/// Like [`run`], as one of several. Its files wait for their names.
pub(crate) fn run_numbered(
    plan: &Plan,
    options: &RunOptions<'_>,
    number: usize,
    out: Option<Destination>,
) -> Result<(Summary, Option<Staged>), Error> {
    run_in_chunks(plan, options, number, out, ((), &|| Ok(())), adapt)
}

/// Runs a plan in chunks of simulated time, watched by `probe`; `check` says after each whether
/// what the probe does goes well, and `next` how long the next one is, given the last and what it
/// took.
fn run_in_chunks<P: Probe + 'static>(
    plan: &Plan,
    options: &RunOptions<'_>,
    number: usize,
    out: Option<Destination>,
    (probe, check): (P, &dyn Fn() -> Result<(), Error>),
    mut next: impl FnMut(Time, Duration) -> Time,
) -> Result<(Summary, Option<Staged>), Error> {
    if options.is_interrupted() {
        return Err(Error::Interrupted);
    }
    let watch = Stopwatch::start();
    let asks = || options.is_interrupted();
    let setup = setup(plan);
    let mut engine = interrupt::patiently(&asks, || Engine::new(setup, probe).map_err(Error::Run))?;
    let output = out.map(|out| Output::open(out, plan)).transpose()?;
    let shares = FairShares::of(plan).with_targets(plan, engine.paths());
    let recorder = Recorder::new(convert::names(plan), plan.warmup, plan.duration);
    let mut sinks = Sinks { shares, recorder, output, last_start: Time::ZERO };

    let sampling = plan.output.timeseries.filter(|interval| *interval > Time::ZERO);
    let (mut finished, mut samples) = (Vec::new(), Vec::new());
    // Every interval, and at the end, for what is left of the run after the last whole one.
    let sample_after = |at: Time| match sampling {
        Some(interval) if at < plan.duration => at.after(interval).min(plan.duration),
        _ => Time::NEVER,
    };
    let mut next_sample = sample_after(Time::ZERO);
    let mut chunk = Time::ps((plan.duration.as_ps() / 1000).max(1));
    while !engine.is_over() {
        let before = watch.wall();
        let until = engine.now().after(chunk).min(next_sample);
        let until = if engine.now() < plan.duration { until.min(plan.duration) } else { until };
        interrupt::advance(&mut engine, until, &asks)?;
        check()?;
        engine.take_finished(&mut finished);
        sinks.flows(&mut finished)?;
        if until == next_sample {
            engine.sample(&mut samples);
            sinks.samples(plan, &mut samples)?;
            next_sample = sample_after(next_sample);
        }
        let wall = watch.wall();
        let progress = Progress {
            now: until.min(plan.duration),
            duration: plan.duration,
            packet_hops: engine.packet_hops(),
            wall,
        };
        if let Some(tell) = options.progress {
            tell(number, &progress);
        }
        if options.is_interrupted() {
            return Err(Error::Interrupted);
        }
        chunk = next(chunk, wall - before);
    }
    let drained = engine.now().since(plan.duration);
    let (mut finished, mut outcome) = engine.finish();
    sinks.flows(&mut finished)?;
    outcome.unfinished.sort_by_key(|record| record.id);
    let stuck = stuck(&outcome.unfinished, &sinks, plan.duration.after(drained));
    sinks.flows(&mut outcome.unfinished)?;
    sinks.samples(plan, &mut samples)?;
    sinks.finish(plan, &outcome, (drained, stuck), &watch)
}

/// Chunks that are long enough to cost nothing and short enough to be interrupted. They do not
/// change the outcome.
fn adapt(chunk: Time, took: Duration) -> Time {
    if took < CHUNK.0 {
        chunk.times(2)
    } else if took > CHUNK.1 {
        Time::ps((chunk.as_ps() / 2).max(1))
    } else {
        chunk
    }
}

pub(crate) fn setup(plan: &Plan) -> Setup {
    let ends = plan.fabric.links.iter().flat_map(|link| [link.a, link.b]);
    let ports = ends.filter(|end| matches!(end, Node::Switch(_))).count();
    Setup {
        fabric: plan.fabric.clone(),
        routing: plan.routing,
        stacks: plan.stacks.clone(),
        connections: plan.connections,
        bdp_bytes: plan.bdp_bytes,
        workload: plan.workload.clone(),
        faults: plan.faults.clone(),
        stack_time: plan.stack_time,
        seed: plan.seed,
        duration: plan.duration,
        warmup: plan.warmup,
        drain: plan.drain,
        histograms: plan.output.histograms.unwrap_or(ports <= HISTOGRAM_PORTS_MAX),
    }
}

/// Says so where messages stay unfinished although there was nothing else to do: since the last
/// submission there was time for every host to send, and to receive, all of its unfinished messages
/// one after another.
fn stuck(unfinished: &[FlowRecord], sinks: &Sinks, end: Time) -> Option<String> {
    let last_start = unfinished.iter().map(|record| record.start).fold(sinks.last_start, Time::max);
    let unfinished: Vec<_> =
        unfinished.iter().filter(|record| record.bytes != Message::UNLIMITED).collect();
    let mut needed: BTreeMap<(bool, u32), Time> = BTreeMap::new();
    for record in &unfinished {
        for host in [(false, record.src), (true, record.dst)] {
            let sum = needed.entry(host).or_default();
            *sum = sum.after(record.ideal);
        }
    }
    let quiet = end.since(last_start);
    let is_stuck = needed.values().max().is_some_and(|needed| quiet > *needed);
    let count = unfinished.len();
    let messages = if count == 1 { "message is" } else { "messages are" };
    is_stuck.then(|| {
        format!(
            "{count} {messages} unfinished, though nothing was submitted in the last {} of the run",
            rounded(quiet)
        )
    })
}

/// A span in the unit that people know it by.
fn rounded(span: Time) -> String {
    let s = span.as_s_f64();
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us")];
    let (scale, unit) = units.into_iter().find(|(scale, _)| s >= *scale).unwrap_or((1e-9, "ns"));
    format!("{:.1} {unit}", s / scale)
}

/// Where a run's rows go.
struct Sinks {
    shares: FairShares,
    recorder: Recorder,
    output: Option<Output>,
    /// The last submission.
    last_start: Time,
}

impl Sinks {
    /// Takes `records`, in the order of `flows.parquet`.
    fn flows(&mut self, records: &mut Vec<FlowRecord>) -> Result<(), Error> {
        for record in records.drain(..) {
            self.last_start = self.last_start.max(record.start);
            let row = convert::flow(&record, &self.shares);
            self.recorder.add(&row);
            if let Some(output) = &mut self.output {
                output.flows.add(&row).map_err(Error::output(output.out.path()))?;
                if let Some((_, goodputs)) = &mut output.series {
                    goodputs.ended(&record);
                }
            }
        }
        Ok(())
    }

    /// Writes and clears `samples`.
    fn samples(&mut self, plan: &Plan, samples: &mut Vec<Sample>) -> Result<(), Error> {
        if let Some(output) = &mut self.output
            && let Some((series, goodputs)) = &mut output.series
        {
            let failed = Error::output(output.out.path());
            let mut write = || {
                for sample in samples.iter() {
                    series.add(&convert::sample(plan, sample))?;
                    goodputs.row(sample).iter().try_for_each(|row| series.add(row))?;
                }
                goodputs.rows_of_ended().iter().try_for_each(|row| series.add(row))
            };
            write().map_err(failed)?;
        }
        samples.clear();
        Ok(())
    }

    fn finish(
        self,
        plan: &Plan,
        outcome: &Outcome,
        (drained, stuck): (Time, Option<String>),
        watch: &Stopwatch,
    ) -> Result<(Summary, Option<Staged>), Error> {
        let mut recorded = self.recorder.finish();
        for group in &mut recorded.groups {
            let aim = self.shares.queue_aim(plan, &group.label, &group.protocol, &outcome.links);
            group.hop_delay_us = aim.and_then(|aim| Fixed::nearest(aim.hop_delay_us));
            group.queue_target_us = aim.and_then(|aim| aim.target_us).and_then(Fixed::nearest);
        }
        let (links, links_omitted) = busiest(&outcome.links, |record| record.utilisation);
        let links = links.into_iter().map(|record| convert::link(plan, record)).collect();
        let wall_seconds = watch.wall().as_secs_f64();
        let rate = outcome.packet_hops as f64 / wall_seconds;
        let mut protocols = Vec::new();
        for name in convert::names(plan).protocols {
            if !protocols.contains(&name) {
                protocols.push(name);
            }
        }
        let mut warnings = plan.warnings.clone();
        warnings.extend(recorded.groups.iter().filter_map(unfinished));
        warnings.extend(stuck);
        let summary = Summary {
            schema: Summary::SCHEMA,
            name: plan.name.clone(),
            seed: plan.seed,
            protocols,
            connections: convert::connections(plan.connections),
            sim_seconds: plan.duration.as_s_f64(),
            drain_seconds: drained.as_s_f64(),
            drain_max_seconds: plan.drain.as_s_f64(),
            warmup_seconds: plan.warmup.as_s_f64(),
            truncated: false,
            warnings,
            engine: EngineSummary {
                digest: format!("{:016x}", outcome.digest),
                packet_hops: outcome.packet_hops,
                wall_seconds,
                cpu_seconds: watch.cpu().as_secs_f64(),
                events: outcome.events,
                packet_hops_per_second: rate.is_finite().then_some(rate),
                threads: 1,
                peak_rss_bytes: machine::peak_rss_bytes(),
            },
            flows_in: recorded.flows.is_none().then(|| "flows.parquet".to_owned()),
            flows: recorded.flows,
            groups: recorded.groups,
            fct: recorded.fct,
            links,
            links_omitted,
            switches: convert::switches(plan, &outcome.switches),
            faults: (plan.faults != Default::default()).then(|| convert::faults(&outcome.faults)),
        };
        debug_assert_eq!(summary.impossible(), Vec::<String>::new());
        let staged = self.output.map(|output| output.stage(plan, &summary, watch)).transpose()?;
        Ok((summary, staged))
    }
}

/// A warning about messages that did not finish, where they are so many that the percentiles of the
/// others mislead.
fn unfinished(group: &GroupSummary) -> Option<String> {
    let share = group.fct.unfinished as f64 / group.fct.count as f64;
    (share > UNFINISHED_MAX).then(|| {
        let label =
            if group.label.is_empty() { String::new() } else { format!("{}: ", group.label) };
        format!(
            "{label}{} of {} messages of {} ({:.1} %) did not finish: percentiles are of the \
             others, and too low",
            group.fct.unfinished,
            group.fct.count,
            group.protocol,
            share * 100.0
        )
    })
}

/// The files of a run. Fields drop in this order: the files go before their folder.
struct Output {
    flows: FlowFile<Partial>,
    series: Option<(SeriesFile<Partial>, Goodputs)>,
    out: Destination,
}

impl Output {
    fn open(out: Destination, plan: &Plan) -> Result<Output, Error> {
        let names = convert::names(plan);
        let open = || {
            let flows = FlowFile::new(out.partial("flows.parquet")?, &names)?;
            let series = plan.output.timeseries.map(|interval| {
                let goodputs = Goodputs::new(interval, plan.duration);
                series_file(&out, &names).map(|file| (file, goodputs))
            });
            Ok((flows, series.transpose()?))
        };
        let (flows, series) = open().map_err(Error::output(out.path()))?;
        Ok(Output { flows, series, out })
    }

    fn stage(self, plan: &Plan, summary: &Summary, watch: &Stopwatch) -> Result<Staged, Error> {
        let Output { flows, series, out } = self;
        let stage = || {
            let mut files = vec![flows.close()?];
            if let Some((series, _)) = series {
                files.push(series.close()?);
            }
            let mut file = out.partial("summary.json")?;
            summary.write(&mut file)?;
            files.push(file);
            let mut file = out.partial("manifest.json")?;
            manifest(plan, watch).write(&mut file)?;
            files.push(file);
            Ok(files)
        };
        let files = stage().map_err(Error::output(out.path()))?;
        Ok(Staged { files, out })
    }
}

/// What a run wrote, but for its names.
pub(crate) struct Staged {
    files: Vec<Partial>,
    out: Destination,
}

impl Staged {
    /// Gives the files their names.
    pub(crate) fn publish(self) -> Result<(), Error> {
        self.out.publish(self.files, &[])
    }
}

fn series_file(out: &Destination, names: &Names) -> io::Result<SeriesFile<Partial>> {
    SeriesFile::new(out.partial("timeseries.parquet")?, names)
}

fn manifest(plan: &Plan, watch: &Stopwatch) -> Manifest {
    Manifest {
        schema: Manifest::SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        git_revision: env!("TIDEGATE_GIT_REVISION").to_owned(),
        semantics: tidegate_sim::SEMANTICS,
        seed: plan.seed,
        scenario: tidegate_scenario::resolved(plan),
        scenario_hash: tidegate_scenario::content_hash(plan),
        host: machine::host(),
        wall_seconds: watch.wall().as_secs_f64(),
        started_unix_seconds: watch.started_unix_seconds(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_rounded_to_a_unit_that_people_know() {
        let spans = [Time::ps(10_003_536_794), Time::ns(1500), Time::ps(70), Time::ms(2500)];
        assert_eq!(spans.map(rounded), ["10.0 ms", "1.5 us", "0.1 ns", "2.5 s"]);
    }
    use tidegate_core::{Domain, Rng};

    const SCENARIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");

    /// What stopped, straddled warm-up, finished before it, and did not finish, under load and over
    /// ECMP.
    const MIXED: &str = r#"
duration = "600us"
warmup = "150us"
drain = "100us"
fabric = { kind = "leaf-spine", racks = 2, hosts_per_rack = 4, spines = 2 }
transport = { protocol = "PROTOCOL" }
flows = [
  { src = "h0", dst = "h7", label = "long" },
  { src = "h1", dst = "h7", label = "long", stop = "400us" },
  { src = "h2", dst = "h7", label = "long", size = "3MB", start = "500us" },
]
[[traffic]]
kind = "poisson"
sizes = "20KB"
load = 0.5
"#;

    /// Summary, but for its volatile keys, and rows of a run, recorded with series or without.
    fn files(plan: &Plan, mut next: impl FnMut() -> Option<Time>, series: bool) -> Vec<Vec<u8>> {
        let mut plan = plan.clone();
        plan.output.timeseries = series.then_some(Time::us(7));
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let destination = Destination::open(&out, false).unwrap();
        let next = |chunk, _| next().unwrap_or(chunk);
        let (summary, staged) = run_in_chunks(
            &plan,
            &RunOptions::default(),
            0,
            Some(destination),
            ((), &|| Ok(())),
            next,
        )
        .unwrap();
        staged.unwrap().publish().unwrap();
        let mut json = serde_json::to_value(&summary).unwrap();
        let engine = json["engine"].as_object_mut().unwrap();
        let volatile = [
            "wall_seconds",
            "cpu_seconds",
            "events",
            "packet_hops_per_second",
            "threads",
            "peak_rss_bytes",
        ];
        volatile.iter().for_each(|key| assert!(engine.remove(*key).is_some(), "{key} is missing"));
        let read = |name| std::fs::read(out.join(name)).unwrap();
        vec![serde_json::to_vec_pretty(&json).unwrap(), read("flows.parquet")]
    }

    #[test]
    fn chunks_and_series_change_no_byte_of_summary_and_rows() {
        let dir = tempfile::tempdir().unwrap();
        let mut plans = Vec::new();
        for protocol in crate::protocols() {
            let path = dir.path().join("mixed.toml");
            std::fs::write(&path, MIXED.replace("PROTOCOL", protocol.name)).unwrap();
            let name = crate::set(&format!("name=mixed, {}", protocol.name)).unwrap();
            plans.push(crate::load(&path, &[name]).unwrap());
        }
        for (file, changes) in [
            ("poseidon/multi-hop.toml", ["duration=2ms", "warmup=1ms"]),
            ("demo/leaf-spine.toml", ["duration=600us", "warmup=200us"]),
        ] {
            let changes: Vec<_> =
                changes.iter().map(|change| crate::set(change).unwrap()).collect();
            plans.push(crate::load(&Path::new(SCENARIOS).join(file), &changes).unwrap());
        }
        for plan in &plans {
            let mut rng = Rng::stream(plan.seed, Domain::Faults, 0);
            let mut random = || Some(Time::ps(1 + rng.below(plan.duration.as_ps() / 20)));
            let whole = files(plan, || Some(Time::NEVER), true);
            for (what, parts) in [
                ("random chunks", files(plan, &mut random, true)),
                ("no series", files(plan, &mut random, false)),
                ("even chunks", files(plan, || None, true)),
            ] {
                for (number, (file, whole)) in parts.iter().zip(&whole).enumerate() {
                    let at = file.iter().zip(whole).position(|(a, b)| a != b).unwrap_or(0);
                    let near = |bytes: &[u8]| {
                        let part = &bytes[at.saturating_sub(300)..bytes.len().min(at + 60)];
                        String::from_utf8_lossy(part).into_owned()
                    };
                    let name = &plan.name;
                    assert!(
                        file == whole,
                        "{name}, {what}, file {number}: {}\n{}",
                        near(file),
                        near(whole)
                    );
                }
            }
        }
    }
}
