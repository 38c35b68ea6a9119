//! One run of one plan.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_core::Time;
use tidegate_core::fabric::Node;
use tidegate_results::{
    Engine as EngineSummary, Fixed, FlowFile, GroupSummary, Manifest, Names, Partial, Recorder, SeriesFile,
    Summary, busiest,
};
use tidegate_scenario::Plan;
use tidegate_sim::{Engine, FlowRecord, Outcome, Sample, Setup};

use crate::fair_share::FairShares;
use crate::machine::{self, Stopwatch};
use crate::series::Goodputs;
use crate::{Destination, Error, convert, interrupt};

/// Queue histograms are kept by default up to so many switch ports.
const HISTOGRAM_PORTS_MAX: usize = 512;
/// Between two looks at the interrupt flag the engine should work about this long.
const CHUNK: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(100));

/// A larger share of unfinished messages is warned of.
const UNFINISHED_MAX: f64 = 0.02;

/// Hears the number of a run (0 unless there are several) and how far it is, from the thread that runs it.
pub type Listener<'a> = &'a (dyn Fn(usize, &Progress) + Sync);

/// How to run a plan.
#[derive(Clone, Copy, Default)]
pub struct RunOptions<'a> {
    /// Folder for results; without one nothing is written.
    pub out: Option<&'a Path>,
    /// Replace results that the folder holds.
    pub force: bool,
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
    /// To be simulated in all.
    pub duration: Time,
    /// Packet-hops so far.
    pub packet_hops: u64,
    /// Since the run began.
    pub wall: Duration,
}

impl Progress {
    /// Simulated share, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.duration == Time::ZERO { 1.0 } else { self.now.as_s_f64() / self.duration.as_s_f64() }
    }
    /// Packet-hops over wall seconds.
    pub fn packet_hops_per_second(&self) -> f64 {
        self.packet_hops as f64 / self.wall.as_secs_f64().max(1e-9)
    }
    /// Wall time to go if simulated time passes on as it did so far; `None` before anything is known.
    pub fn left(&self) -> Option<Duration> {
        let share = self.share();
        let left = self.wall.as_secs_f64() * (1.0 - share) / share;
        (share > 0.0).then(|| Duration::try_from_secs_f64(left).ok()).flatten()
    }
}

/// Runs a plan and writes its results, if anywhere.
///
/// # Errors
/// When the folder for results is occupied or cannot be written, the engine refuses the plan, or the run is interrupted.
/// Nothing is left under a final name then.
pub fn run(plan: &Plan, options: &RunOptions<'_>) -> Result<Summary, Error> {
    crate::guarded(|| {
        let out = options.out.map(|out| Destination::open(out, options.force)).transpose()?;
        let (summary, staged) = run_numbered(plan, options, 0, out)?;
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
    if options.is_interrupted() {
        return Err(Error::Interrupted);
    }
    let watch = Stopwatch::start();
    let asks = || options.is_interrupted();
    let setup = setup(plan);
    let mut engine = interrupt::patiently(&asks, || Engine::new(setup, ()).map_err(Error::Run))?;
    let output = out.map(|out| Output::open(out, plan)).transpose()?;
    let shares = FairShares::of(plan).with_targets(plan, engine.paths());
    let recorder = Recorder::new(convert::names(plan), plan.warmup, plan.duration);
    let mut sinks = Sinks { shares, recorder, output };

    let sampling = plan.output.timeseries.filter(|interval| *interval > Time::ZERO);
    let (mut finished, mut samples) = (Vec::new(), Vec::new());
    let mut next_sample = sampling.unwrap_or(Time::NEVER);
    let mut chunk = Time::ps((plan.duration.as_ps() / 1000).max(1));
    while engine.now() < plan.duration {
        let before = watch.wall();
        let until = engine.now().after(chunk).min(next_sample).min(plan.duration);
        interrupt::advance(&mut engine, until, &asks)?;
        engine.take_finished(&mut finished);
        sinks.flows(&mut finished)?;
        if until == next_sample {
            engine.sample(&mut samples);
            sinks.samples(plan, &mut samples)?;
            next_sample = next_sample.after(sampling.unwrap_or(Time::NEVER));
        }
        let wall = watch.wall();
        let progress =
            Progress { now: until, duration: plan.duration, packet_hops: engine.packet_hops(), wall };
        if let Some(tell) = options.progress {
            tell(number, &progress);
        }
        if options.is_interrupted() {
            return Err(Error::Interrupted);
        }
        chunk = adapt(chunk, wall - before);
    }
    let (mut finished, mut outcome) = engine.finish();
    sinks.flows(&mut finished)?;
    outcome.unfinished.sort_by_key(|record| record.id);
    sinks.flows(&mut outcome.unfinished)?;
    sinks.samples(plan, &mut samples)?;
    sinks.finish(plan, &outcome, &watch)
}

/// Chunks that are long enough to cost nothing and short enough to be interrupted. They do not change the outcome.
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
        seed: plan.seed,
        duration: plan.duration,
        warmup: plan.warmup,
        histograms: plan.output.histograms.unwrap_or(ports <= HISTOGRAM_PORTS_MAX),
    }
}

/// Where a run's rows go.
struct Sinks {
    shares: FairShares,
    recorder: Recorder,
    output: Option<Output>,
}

impl Sinks {
    /// Takes `records`, in the order of `flows.parquet`.
    fn flows(&mut self, records: &mut Vec<FlowRecord>) -> Result<(), Error> {
        for record in records.drain(..) {
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
        watch: &Stopwatch,
    ) -> Result<(Summary, Option<Staged>), Error> {
        let mut recorded = self.recorder.finish();
        for group in &mut recorded.groups {
            let aim = self.shares.queue_aim(plan, &group.label, &group.protocol, &outcome.links);
            group.hop_delay_us = aim.and_then(|aim| Fixed::nearest(aim.hop_delay_us));
            group.queue_target_us = aim.and_then(|aim| aim.target_us).and_then(Fixed::nearest);
        }
        let links = outcome.links.iter().map(|record| convert::link(plan, record)).collect();
        let (links, links_omitted) = busiest(links);
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
        let summary = Summary {
            schema: Summary::SCHEMA,
            name: plan.name.clone(),
            seed: plan.seed,
            protocols,
            connections: convert::connections(plan.connections),
            sim_seconds: plan.duration.as_s_f64(),
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
        let staged = self.output.map(|output| output.stage(plan, &summary, watch)).transpose()?;
        Ok((summary, staged))
    }
}

/// A warning about messages that did not finish, where they are so many that the percentiles of the others mislead.
fn unfinished(group: &GroupSummary) -> Option<String> {
    let share = group.fct.unfinished as f64 / group.fct.count as f64;
    (share > UNFINISHED_MAX).then(|| {
        let label = if group.label.is_empty() { String::new() } else { format!("{}: ", group.label) };
        format!(
            "{label}{} of {} messages of {} ({:.1} %) did not finish: percentiles are of the others, and too low",
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
