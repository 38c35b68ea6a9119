//! One run of one plan, and its files.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_core::Span;
use tidegate_results::{Manifest, Partial, Summary};
use tidegate_scenario::Plan;

use crate::machine::{self, Stopwatch};
use crate::observe::{
    Control, Left, Measure, Progress, RowsFile, SamplesFile, Shelf, Summarised, adapt, build_among,
    drive,
};
use crate::pcap::{Capture, Capturing};
use crate::ranks::Ranks;
use crate::resolution::resolution;
use crate::{Destination, Error, interrupt};

/// Hears the number of a run (0 unless there are several) and how far it is, from the thread that
/// runs it.
pub type ProgressListener<'a> = &'a (dyn Fn(usize, &Progress) + Sync);

/// Takes the tables of a run: its number (0 unless there are several), and each table's name and
/// the bytes of a file of that name.
pub type Tables<'a> = &'a (dyn Fn(usize, Vec<(&'static str, Vec<u8>)>) + Sync);
/// Hears a line of what there is to be said.
pub type Notice<'a> = &'a (dyn Fn(&str) + Sync);

/// How to run a plan.
#[derive(Clone, Copy, Default)]
pub struct RunOptions<'a> {
    /// Folder for results; without one nothing is written.
    pub out: Option<&'a Path>,
    /// Given the tables of runs that have no folder for results.
    pub tables: Option<Tables<'a>>,
    /// Replace results that the folder holds, and the capture.
    pub force: bool,
    /// Capture packets; comparisons do not.
    pub capture: Option<Capture<'a>>,
    /// At most so many threads; `None`: as many as there are cores.
    pub threads: Option<usize>,
    /// Divide the fabric into so many partitions (in each of several processes), as far as it has
    /// racks, each on a thread of its own, whether or not that pays: for tests of determinism.
    pub partitions: Option<usize>,
    /// Told of the state of a run now and then.
    pub progress: Option<ProgressListener<'a>>,
    /// Told of what the plan warns of once its results have a place to go to; comparisons tell
    /// nobody.
    pub warn: Option<Notice<'a>>,
    /// Told what the scenario came to, before anything runs.
    pub resolved: Option<Notice<'a>>,
    /// Set from elsewhere, it ends the run with [`Error::Interrupted`].
    pub interrupted: Option<&'a AtomicBool>,
    /// The processes that [`run`] is done in, of which the first calls that, and the others
    /// [`serve`]; comparisons are done in one.
    pub ranks: Option<&'a Ranks>,
}

impl RunOptions<'_> {
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Tells what plans came to, each under a name, if somebody wants to hear it.
    pub(crate) fn tell_resolved(&self, plans: &[(&str, &Plan)]) {
        if let Some(say) = self.resolved {
            resolution(plans).iter().for_each(|line| say(line));
        }
    }

    /// Threads that may work.
    pub fn threads(&self) -> usize {
        self.threads.or_else(machine::cores).unwrap_or(1).max(1)
    }
}

/// Runs a plan and writes its results, if anywhere.
///
/// # Errors
/// When the folder for results is occupied or cannot be written, the engine refuses the plan, or
/// the run is interrupted. Nothing is left under a final name then.
pub fn run(plan: &Plan, options: &RunOptions<'_>) -> Result<Summary, Error> {
    crate::guarded(|| {
        if options.ranks.is_some() && options.capture.is_some() {
            let message = "packets are captured in one process: start it without mpirun";
            return Err(Error::Usage { option: "--pcap", message: message.to_owned() });
        }
        let out = options.out.map(|out| Destination::open(out, options.force)).transpose()?;
        let open = |capture| Capturing::open(plan, capture, options.force);
        let capturing = options.capture.map(open).transpose()?;
        options.tell_resolved(&[(&plan.name, plan)]);
        if let Some(warn) = options.warn {
            plan.warnings.iter().for_each(|warning| warn(warning));
        }
        let tap = capturing.iter().map(|capturing| Box::new(capturing.tap()) as Box<dyn Measure>);
        let (summary, staged) =
            run_in_chunks(plan, options, options.threads(), (0, out), tap.collect(), adapt)?;
        capturing.map(Capturing::publish).transpose()?;
        staged.map(Staged::publish).transpose()?;
        Ok(summary)
    })
}

/// Takes part in a run that the first of several processes does: writes nothing.
///
/// # Errors
/// When the engine refuses the plan, the run is interrupted, or a process fails.
pub fn serve(plan: &Plan, options: &RunOptions<'_>) -> Result<(), Error> {
    crate::guarded(|| {
        let Some(ranks) = options.ranks else { return Ok(()) };
        let asks = || options.is_interrupted();
        let parts = ranks.greet(plan, options)?;
        let mut engine = build_among(plan, (ranks, parts), &asks)?;
        engine.serve().map_err(interrupt::lost(&asks))
    })
}

/// Like [`run`], as one of several, on at most `threads` threads. Its files wait for their names.
pub(crate) fn run_numbered(
    plan: &Plan,
    options: &RunOptions<'_>,
    threads: usize,
    number: usize,
    out: Option<Destination>,
) -> Result<(Summary, Option<Staged>), Error> {
    run_in_chunks(plan, options, threads, (number, out), Vec::new(), adapt)
}

/// Runs a plan in chunks of simulated time, with some more measures; `chunk` says how long the next
/// one is, given the last and what it took.
fn run_in_chunks(
    plan: &Plan,
    options: &RunOptions<'_>,
    threads: usize,
    (number, out): (usize, Option<Destination>),
    measures: Vec<Box<dyn Measure>>,
    chunk: impl Fn(Span, Duration) -> Span,
) -> Result<(Summary, Option<Staged>), Error> {
    let tell = |progress: &Progress| {
        if let Some(tell) = options.progress {
            tell(number, progress);
        }
    };
    let asks = || options.is_interrupted();
    let ranks = match options.ranks {
        Some(ranks) => Some((ranks, ranks.greet(plan, options)?)),
        None => None,
    };
    let control = Control {
        threads,
        partitions: options.partitions,
        ranks,
        asks: &asks,
        tell: &tell,
        chunk: &chunk,
    };
    recorded(plan, options, (number, out), measures, |measures| drive(plan, measures, &control))
}

/// Has a run heard by measures of its files and of the summary, and some more, and keeps what they
/// leave. Its files wait for their names.
pub(crate) fn recorded(
    plan: &Plan,
    options: &RunOptions<'_>,
    (number, out): (usize, Option<Destination>),
    mut measures: Vec<Box<dyn Measure>>,
    happen: impl FnOnce(Vec<Box<dyn Measure>>) -> Result<Left, Error>,
) -> Result<(Summary, Option<Staged>), Error> {
    let watch = Stopwatch::start();
    measures.push(Box::new(Summarised::new(plan)));
    let shelf = match &out {
        Some(out) => Some(Shelf::Folder(out.path().to_owned())),
        None => options.tables.map(|_| Shelf::Memory),
    };
    if let Some(shelf) = shelf {
        measures.push(Box::new(RowsFile::new(shelf.clone())));
        measures.extend(plan.output.timeseries.map(|interval| {
            let file = SamplesFile::new(shelf, interval, plan.duration);
            Box::new(file) as Box<dyn Measure>
        }));
    }
    let left = happen(measures)?;
    let missing = || Error::Run("a run ended without a summary".to_owned());
    let summary = left.seen.summary.ok_or_else(missing)?;
    if let Some(take) = options.tables.filter(|_| out.is_none()) {
        take(number, left.tables);
    }
    let staged = out.map(|out| Staged::new(out, left.files, plan, &summary, &watch)).transpose()?;
    Ok((summary, staged))
}

/// What a run wrote, but for its names. Fields drop in this order: the files go before their
/// folder.
pub(crate) struct Staged {
    files: Vec<Partial>,
    out: Destination,
}

impl Staged {
    /// Adds the summary and, last, the manifest: where it is, the others are.
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

    /// Gives the files their names.
    pub(crate) fn publish(self) -> Result<(), Error> {
        self.out.publish(self.files, &[])
    }
}

fn manifest(plan: &Plan, watch: &Stopwatch) -> Manifest {
    Manifest {
        schema: Manifest::SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        git_revision: crate::revision::get().to_owned(),
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
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use tidegate_core::fabric::{Link, Node};
    use tidegate_core::{Domain, Rng};

    use super::*;

    const SCENARIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");

    /// What stopped, straddled warm-up, finished before it, and did not finish, under load and over
    /// ECMP.
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

    /// A transport whose credit waits for its uplink, and timers of others behind it: they were
    /// once forgotten, and packets then left too late.
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

    /// Switches with hosts: the most partitions that a fabric has.
    fn racks(plan: &Plan) -> usize {
        let rack = |link: &Link| match (link.a, link.b) {
            (Node::Host(_), Node::Switch(s)) | (Node::Switch(s), Node::Host(_)) => Some(s),
            _ => None,
        };
        plan.fabric.links.iter().filter_map(rack).collect::<BTreeSet<_>>().len()
    }

    /// Summary, but for its volatile keys, rows, and series where they are recorded, of a run in so
    /// many partitions, or as many as the fabric has racks.
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
        let next = |chunk, _| next().unwrap_or(chunk);
        let (summary, staged) = run_in_chunks(
            &plan,
            &RunOptions { partitions: Some(partitions), ..RunOptions::default() },
            1,
            (0, Some(destination)),
            Vec::new(),
            next,
        )
        .unwrap();
        staged.unwrap().publish().unwrap();
        assert_eq!(summary.engine.threads, partitions.min(racks(&plan)), "{}", plan.name);
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
        let mut files = vec![serde_json::to_vec_pretty(&json).unwrap(), read("flows.parquet")];
        files.extend(series.then(|| read("timeseries.parquet")));
        files
    }

    #[test]
    fn chunks_series_and_partitions_change_no_byte() {
        let dir = tempfile::tempdir().unwrap();
        let mut plans = Vec::new();
        for protocol in crate::catalog::anywhere() {
            let path = dir.path().join("mixed.toml");
            std::fs::write(&path, MIXED.replace("PROTOCOL", protocol.name)).unwrap();
            let name = crate::set(&format!("name=mixed, {}", protocol.name)).unwrap();
            plans.push(crate::load(&path, &[name]).unwrap());
        }
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
        for plan in &plans {
            let rng = RefCell::new(Rng::stream(plan.seed, Domain::Faults, 0));
            let random = || Some(Span::ps(1 + rng.borrow_mut().below(plan.duration.as_ps() / 20)));
            assert!(racks(plan) > 1, "{} has one partition", plan.name);
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
