//! One run of one plan, and its files.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_core::Span;
use tidegate_results::{Manifest, NamedFiles, Origin, Partial, Summary};
use tidegate_scenario::{InputFiles, Plan};

use crate::machine::{self, Stopwatch};
use crate::observe::{
    Control, FallibleMeasure, LiveFile, Measure, Progress, RowsFile, RunOutput, SamplesFile,
    Summarised, TableDestination, adapt, build_among, drive,
};
use crate::pcap::{Capture, Capturing};
use crate::ranks::{Parallelism, Ranks};
use crate::resolution::resolution;
use crate::{Destination, Error, Results, interrupt};

/// Receives the number of a run (0 for a single run) and its progress, on the thread that runs it.
pub type ProgressListener<'a> = &'a (dyn Fn(usize, &Progress) + Sync);

/// Receives the tables of a run: the run's number (0 for a single run), and the name and file
/// content of each table.
pub type Tables<'a> = &'a (dyn Fn(usize, Vec<(&'static str, Vec<u8>)>) + Sync);
/// Receives one line of text for the user.
pub type Notice<'a> = &'a (dyn Fn(&str) + Sync);

/// How to run a plan.
#[derive(Clone, Copy, Default)]
pub struct RunOptions<'a> {
    /// Folder for results; without one nothing is written.
    pub out: Option<&'a Path>,
    /// Receives the tables of runs without a folder for results.
    pub tables: Option<Tables<'a>>,
    /// Replace results that the folder holds, and the capture.
    pub force: bool,
    /// Capture packets; comparisons do not.
    pub capture: Option<Capture<'a>>,
    /// Receives the number of captured packets once the file has its name.
    pub captured: Option<&'a (dyn Fn(u64) + Sync)>,
    /// Upper limit of threads; `None`: the number of cores.
    pub threads: Option<usize>,
    /// Number of partitions (in each of several processes), limited by the number of racks, each on
    /// its own thread, even if that is slower: for tests of determinism.
    pub partitions: Option<usize>,
    /// Receives the state of a run periodically.
    pub progress: Option<ProgressListener<'a>>,
    /// Receives the plan's warnings once the folder for results is open. Comparisons report none
    /// here.
    pub warn: Option<Notice<'a>>,
    /// Receives the resolved scenario before anything runs.
    pub resolved: Option<Notice<'a>>,
    /// A flag that ends the run with [`Error::Interrupted`] when another thread sets it.
    pub interrupted: Option<&'a AtomicBool>,
    /// The processes of [`run`]. Rank 0 calls [`run`], the others [`serve`]. Comparisons use one
    /// process.
    pub ranks: Option<&'a Ranks>,
}

impl RunOptions<'_> {
    /// Whether an interrupt was requested.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Reports the resolved plans, each under a name, if `resolved` is set.
    pub fn report_resolved(&self, plans: &[(&str, &Plan)]) {
        if let Some(notice) = self.resolved {
            resolution(plans).iter().for_each(|line| notice(line));
        }
    }

    /// Number of threads to use.
    pub fn threads(&self) -> usize {
        self.threads.or_else(machine::cores).unwrap_or(1).max(1)
    }

    /// The numbers of threads and partitions on which several processes agree.
    fn parallelism(&self) -> Parallelism {
        Parallelism { threads: self.threads, partitions: self.partitions }
    }
}

/// Runs a plan and writes its results, if a folder is set.
///
/// # Errors
/// When the folder for results is occupied or cannot be written, the engine refuses the plan, or
/// the run is interrupted. In these cases no file is left under its final name.
/// [`Error::Unwritten`] when the run completes and its results cannot be written.
pub fn run(plan: &Plan, options: &RunOptions<'_>) -> Result<Summary, Error> {
    crate::guarded(|| {
        if options.ranks.is_some() && options.capture.is_some() {
            let message = "packet capture needs a single process: start tidegate without mpirun";
            return Err(Error::Usage { option: "--pcap", message: message.to_owned() });
        }
        let out = options.out.map(|out| Destination::open(out, options.force)).transpose()?;
        let open = |capture| Capturing::open(plan, capture, options.force);
        let capturing = options.capture.map(open).transpose()?;
        options.report_resolved(&[(&plan.name, plan)]);
        if let Some(warn) = options.warn {
            plan.warnings.iter().for_each(|warning| warn(warning));
        }
        let tap =
            capturing.iter().map(|capturing| FallibleMeasure::boxed(Box::new(capturing.tap())));
        let progress = |number: usize, progress: &Progress| {
            if let Some(listener) = options.progress {
                let captured_bytes = capturing.as_ref().map_or(0, Capturing::bytes);
                listener(number, &Progress { captured_bytes, ..*progress });
            }
        };
        let with_bytes = RunOptions { progress: Some(&progress), ..*options };
        let (summary, kept) =
            run_in_chunks(plan, &with_bytes, options.threads(), (0, out), tap.collect(), adapt)?;
        let captured = capturing.map(Capturing::publish).transpose();
        if let (Ok(Some(packets)), Some(listener)) = (&captured, options.captured) {
            listener(*packets);
        }
        match captured.and(publish(kept)) {
            Ok(()) => Ok(summary),
            Err(why) => Err(Error::unwritten(Results::Run(summary), why)),
        }
    })
}

/// Takes part in a run that rank 0 directs. Writes no files.
///
/// # Errors
/// When the engine refuses the plan, the run is interrupted, or a process fails.
pub fn serve(plan: &Plan, options: &RunOptions<'_>) -> Result<(), Error> {
    crate::guarded(|| {
        let Some(ranks) = options.ranks else { return Ok(()) };
        let is_interrupted = || options.is_interrupted();
        let partitions = ranks.agree(plan, options.parallelism())?;
        let mut engine = build_among(plan, (ranks, partitions), &is_interrupted)?;
        engine.serve().map_err(interrupt::lost(&is_interrupted))
    })
}

/// Like [`run`], as one of several runs, on at most `threads` threads. The caller publishes the
/// files.
pub(crate) fn run_numbered(
    plan: &Plan,
    options: &RunOptions<'_>,
    threads: usize,
    number: usize,
    out: Option<Destination>,
) -> Result<(Summary, Kept), Error> {
    run_in_chunks(plan, options, threads, (number, out), Vec::new(), adapt)
}

/// Runs a plan in chunks of simulated time with `more` measures. `chunk` returns the length of the
/// next chunk, given the last one and the time that it took.
fn run_in_chunks(
    plan: &Plan,
    options: &RunOptions<'_>,
    threads: usize,
    (number, out): (usize, Option<Destination>),
    mut measures: Vec<Box<dyn Measure>>,
    chunk: impl Fn(Span, Duration) -> Option<Span>,
) -> Result<(Summary, Kept), Error> {
    measures.extend(
        out.iter().map(|out| -> Box<dyn Measure> { Box::new(LiveFile::new(out.path(), plan)) }),
    );
    let progress = |progress: &Progress| {
        if let Some(listener) = options.progress {
            listener(number, progress);
        }
    };
    let is_interrupted = || options.is_interrupted();
    let ranks = match options.ranks {
        Some(ranks) => Some((ranks, ranks.agree(plan, options.parallelism())?)),
        None => None,
    };
    let control = Control {
        threads,
        partitions: options.partitions,
        ranks,
        is_interrupted: &is_interrupted,
        progress: &progress,
        chunk: &chunk,
    };
    recorded(plan, options, (number, out), measures, |measures| drive(plan, measures, &control))
}

/// Runs `job` with the measures of the result files, the summary and `more`, and returns their
/// results. The caller publishes the files.
pub fn recorded(
    plan: &Plan,
    options: &RunOptions<'_>,
    (number, out): (usize, Option<Destination>),
    mut measures: Vec<Box<dyn Measure>>,
    happen: impl FnOnce(Vec<Box<dyn Measure>>) -> Result<RunOutput, Error>,
) -> Result<(Summary, Kept), Error> {
    let watch = Stopwatch::start();
    measures.push(Box::new(Summarised::new(plan)));
    let destination = match &out {
        Some(out) => Some(TableDestination::Folder(out.path().to_owned())),
        None => options.tables.map(|_| TableDestination::Memory),
    };
    if let Some(destination) = destination {
        measures.push(FallibleMeasure::boxed(Box::new(RowsFile::new(destination.clone()))));
        measures.extend(plan.output.timeseries.map(|interval| {
            let file = SamplesFile::new(destination, interval, plan.duration);
            FallibleMeasure::boxed(Box::new(file))
        }));
    }
    let output = happen(measures)?;
    let missing = || Error::Run("a run ended without a summary".to_owned());
    let summary = output.seen.summary.ok_or_else(missing)?;
    if let Some(take) = options.tables.filter(|_| out.is_none()) {
        take(number, output.tables);
    }
    let staged =
        || out.map(|out| Staged::new(out, output.files, plan, &summary, &watch)).transpose();
    let kept = output.failure.map_or_else(staged, Err);
    Ok((summary, kept))
}

/// The staged files of a run, if it has any, or the reason why they cannot be written.
pub type Kept = Result<Option<Staged>, Error>;

/// Publishes staged files under their names.
pub fn publish(kept: Kept) -> Result<(), Error> {
    kept?.map_or(Ok(()), Staged::publish)
}

/// Output of a run before its files get their final names. Fields drop in this order: the files
/// before their folder.
pub struct Staged {
    files: Vec<Partial>,
    out: Destination,
}

impl Staged {
    /// Adds the summary and, last, the manifest: its presence shows that the result is complete.
    fn new(
        out: Destination,
        mut files: Vec<Partial>,
        plan: &Plan,
        summary: &Summary,
        watch: &Stopwatch,
    ) -> Result<Staged, Error> {
        let mut add = || {
            let mut file = out.partial("summary.json")?;
            summary.write(&mut file)?;
            files.push(file);
            let mut file = out.partial("manifest.json")?;
            manifest(plan, watch).write(&mut file)?;
            files.push(file);
            Ok(())
        };
        add().map_err(Error::output(out.path()))?;
        Ok(Staged { files, out })
    }

    /// Renames the files to their final names.
    pub fn publish(self) -> Result<(), Error> {
        self.out.publish(self.files, &[])
    }
}

/// The program and the machine, for manifests.
pub fn origin() -> Origin {
    Origin {
        schema: Origin::SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        git_revision: crate::revision::get().to_owned(),
        compiler: env!("TIDEGATE_COMPILER").to_owned(),
        semantics: tidegate_sim::SEMANTICS,
        host: machine::host(),
    }
}

/// The files that the scenario names, for manifests.
pub(crate) fn named(plan: &Plan) -> NamedFiles {
    let InputFiles { folder, hashes } = plan.files.clone();
    NamedFiles { files: hashes, folder: folder.map(|folder| folder.display().to_string()) }
}

fn manifest(plan: &Plan, watch: &Stopwatch) -> Manifest {
    Manifest {
        origin: origin(),
        seed: plan.seed,
        scenario: tidegate_scenario::resolved(plan),
        scenario_hash: tidegate_scenario::content_hash(plan),
        named: named(plan),
        wall_seconds: watch.wall().as_secs_f64(),
        started_unix_seconds: watch.started_unix_seconds(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tidegate_core::{Domain, Rng};
    use tidegate_results::Engine;

    use super::*;
    use crate::any_scenario::any_scenario;

    const SCENARIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    const JOB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/jobs/ring.goal");

    /// Flows that are stopped, straddle warm-up, finish before it, or do not finish, under load and
    /// with ECMP.
    const MIXED: &str = r#"
duration = "600us"
warmup = "150us"
drain = "100us"
transport = { protocol = "PROTOCOL" }
flows = [
  { src = "h0", dst = "h7", label = "long" },
  { src = "h1", dst = "h7", label = "long", stop = "400us" },
  { src = "h2", dst = "h7", label = "long", size = "3MB", start = "500us" },
]
[fabric]
kind = "leaf-spine"
mtu = "1000B"
racks = 2
hosts_per_rack = 4
spines = 2
fabric_link = { rate = "400Gbps", delay = "4us" }
[[traffic]]
kind = "poisson"
sizes = "20KB"
load = 0.5
"#;

    /// A transport whose credit waits for its uplink, behind timers of other hosts. Regression
    /// test: such timers were lost, so packets left too late.
    const WAITING: &str = r#"
name = "waiting"
seed = 449
duration = "500us"
drain = "2ms"
flows = [{ src = "h3", dst = "h0", count = 2, protocol = "dctcp", stop = "450us" }]
[fabric]
kind = "parking-lot"
switches = 3
hosts_per_switch = 3
bottleneck = { rate = "25Gbps", delay = "80us" }
[switch]
ecn = { kmin = "0KB", kmax = "20KB", pmax = 0.1, at = "dequeue" }
[transport]
protocol = "sird"
connections = 3
[[traffic]]
kind = "poisson"
sizes = "150KB"
load = 0.5
[[traffic]]
kind = "poisson"
protocol = "dctcp"
sizes = "websearch"
load = 0.5
[[traffic]]
kind = "poisson"
protocol = "powertcp"
sizes = "websearch"
load = 0.5
[[traffic]]
kind = "permutation"
sizes = "inf"
"#;

    /// Number of partitions into which the fabric is divided, at most `most`.
    fn partitions_of(plan: &Plan, most: usize) -> usize {
        tidegate_sim::simulation::unobserved(plan.setup.clone(), most).unwrap().partitions()
    }

    /// The summary without its volatile keys, the rows, and the series if recorded, of a run with
    /// `partitions` partitions, or as many as the fabric allows.
    fn files(
        plan: &Plan,
        partitions: usize,
        next: impl Fn() -> Option<Span>,
        series: bool,
    ) -> Vec<Vec<u8>> {
        let mut plan = plan.clone();
        plan.output.timeseries = series.then_some(Span::us(7));
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let destination = Destination::open(&out, false).unwrap();
        let next = |chunk, _| Some(next().unwrap_or(chunk));
        let partitions = partitions_of(&plan, partitions);
        let (summary, staged) = run_in_chunks(
            &plan,
            &RunOptions { partitions: Some(partitions), ..RunOptions::default() },
            1,
            (0, Some(destination)),
            Vec::new(),
            next,
        )
        .unwrap();
        publish(staged).unwrap();
        assert_eq!(summary.engine.threads, partitions, "{}", plan.name);
        let mut json = serde_json::to_value(&summary).unwrap();
        let engine = json["engine"].as_object_mut().unwrap();
        for key in Engine::VARIES {
            assert!(engine.remove(key).is_some(), "{key} is missing");
        }
        let read = |name| std::fs::read(out.join(name)).unwrap();
        let mut files = vec![serde_json::to_vec_pretty(&json).unwrap(), read("flows.parquet")];
        files.extend(series.then(|| read("timeseries.parquet")));
        files
    }

    #[test]
    fn partitions_change_no_output_of_protocols() {
        let dir = tempfile::tempdir().unwrap();
        let mut plans = Vec::new();
        for protocol in crate::samples::anywhere() {
            let path = dir.path().join("mixed.toml");
            std::fs::write(&path, MIXED.replace("PROTOCOL", protocol.name)).unwrap();
            let name = crate::set(&format!("name=mixed, {}", protocol.name)).unwrap();
            plans.push(crate::load(&path, &[name]).unwrap());
        }
        same_output(&plans);
    }

    #[test]
    fn partitions_change_no_output_of_scenarios() {
        let dir = tempfile::tempdir().unwrap();
        let mut plans = Vec::new();
        let waiting = dir.path().join("waiting.toml");
        std::fs::write(&waiting, WAITING).unwrap();
        plans.push(crate::load(&waiting, &[]).unwrap());
        for (file, changes) in [
            ("poseidon/multi-hop.toml", ["duration=2ms", "warmup=1ms"]),
            ("demo/leaf-spine.toml", ["duration=600us", "warmup=200us"]),
            ("powertcp/figure-08.toml", ["duration=600us", "warmup=200us"]),
        ] {
            let changes: Vec<_> =
                changes.iter().map(|change| crate::set(change).unwrap()).collect();
            plans.push(crate::load(Path::new(SCENARIOS).join(file), &changes).unwrap());
        }
        same_output(&plans);
    }

    /// As the fuzz target `partitions`, but of whole files: small scenarios of arbitrary content.
    /// `TIDEGATE_SEEDS=2000 cargo test -p tidegate-runs any_scenario` makes more.
    #[test]
    fn partitions_change_no_output_of_any_scenario() {
        let seeds = std::env::var("TIDEGATE_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
        let (seeds, mut compared, mut hops, mut largest) = (seeds.unwrap_or(20), 0, 0, 0);
        for seed in 0..seeds {
            let mut rng = Rng::stream(seed, Domain::Faults, 0);
            let script: Vec<u8> = (0..200).map(|_| rng.below(256) as u8).collect();
            let text = any_scenario(&script, JOB);
            let Ok(plan) = tidegate_scenario::load(&text, "any.toml", &[]) else { continue };
            let whole = files(&plan, 1, || None, true);
            let most = [2, 3, 7][seed as usize % 3];
            let divided = files(&plan, most, || None, true);
            largest = largest.max(partitions_of(&plan, most));
            assert!(divided == whole, "seed {seed}:\n{text}");
            let summary: serde_json::Value = serde_json::from_slice(&whole[0]).unwrap();
            hops += summary["engine"]["packet_hops"].as_u64().unwrap();
            compared += 1;
        }
        assert!(compared > seeds / 3 && hops > 1_000 * compared, "{compared} runs, {hops} hops");
        assert!(largest > 3, "{largest} partitions at most");
    }

    /// Asserts that chunks, series and partitions change no output of these plans.
    fn same_output(plans: &[Plan]) {
        for plan in plans {
            let rng = RefCell::new(Rng::stream(plan.seed, Domain::Faults, 0));
            let random = || Some(Span::ps(1 + rng.borrow_mut().below(plan.duration.as_ps() / 20)));
            assert!(partitions_of(plan, 2) > 1, "{} has one partition", plan.name);
            let whole = files(plan, 1, || Some(Span::FOREVER), true);
            for (what, parts) in [
                ("random chunks", files(plan, 1, random, true)),
                ("no series", files(plan, 1, random, false)),
                ("even chunks", files(plan, 1, || None, true)),
                ("two partitions", files(plan, 2, random, true)),
                ("five partitions", files(plan, 5, random, true)),
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
