//! The subcommands.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::CommandFactory;
use tidegate_workbench::{
    self as workbench, Error, Plan, Ranks, Results, RunOptions, SeedList, Written,
};

use crate::args::{Args, Command};
use crate::engine::Threads;
use crate::format::{bytes, counted, shown};
use crate::grid::prose;
use crate::interrupt::interrupt_flag;
use crate::options::{
    ALL, InteropArgs, Packets, RunArgs, SeededScenario, Verbosity, check_force, runnable,
};
use crate::output::{done, ended, json, one_run, pretty};
use crate::progress::{Bars, Total};
use crate::{Result, aggregate, bundle, man, page, print_stderr, reproduce, sweep, table, tune};

/// Executes a command and returns its output for stdout.
pub(crate) fn run(command: Command) -> Result<String> {
    match command {
        Command::Run { scenario, how, packets, dry_run: true } => {
            forecast(&scenario, None, &how, &packets)
        }
        Command::Run { scenario, how, packets, .. } => match scenario.several_seeds() {
            Some(seeds) => run_several(&scenario, (None, None), seeds, &how),
            None => run_one(&scenario, &how, &packets, None),
        },
        Command::Compare { scenario, protocols, baseline, how, dry_run } => {
            let protocols = compared(&scenario, protocols, how.verbosity)?;
            let baseline = baseline.as_deref();
            workbench::baseline(baseline, &protocols)?;
            if dry_run {
                return forecast(&scenario, Some(&protocols), &how, &Packets::default());
            }
            if let Some(seeds) = scenario.several_seeds() {
                return run_several(&scenario, (Some(&protocols), baseline), seeds, &how);
            }
            if baseline.is_some() {
                let message =
                    "compares seed by seed and needs several seeds: add --seeds 5".to_owned();
                return Err(Error::Usage { option: "--baseline", message });
            }
            check_force(&how, false)?;
            let overrides = scenario.overrides()?;
            let result = observed(&how, &protocols, |options| {
                workbench::compare(scenario.path(), &overrides, &protocols, options)
            });
            let take = |results| match results {
                Results::Comparison(comparison) => Some(comparison),
                _ => None,
            };
            let (comparison, unwritten) = done(result, take)?;
            comparison.all_warnings().iter().for_each(|warning| how.verbosity.warn(warning));
            let text = match how.json {
                true => json(|to| comparison.write(to)),
                false => table::comparison(&comparison),
            };
            ended(text, unwritten, how.announced_out())
        }
        Command::Sweep(args) => sweep::sweep(&args),
        Command::Tune(args) => tune::tune(&args),
        Command::Workload(workload) => workload.run(),
        Command::Reproduce(args) => reproduce::reproduce(&args),
        Command::Report(args) => reproduce::report(&args),
        Command::Bundle(args) => bundle::bundle(&args),
        Command::Verify(args) => bundle::verify(&args),
        Command::Protocols { name: None, json: true } => Ok(pretty(&workbench::protocols())),
        Command::Protocols { name: None, json: false } => Ok(page::list(&workbench::protocols())),
        Command::Protocols { name: Some(name), json } => {
            let protocol = workbench::protocol(&name)?;
            Ok(if json { pretty(&protocol) } else { page::protocol(&protocol) })
        }
        Command::New { fabric: Some(name) } => workbench::template(&name),
        Command::New { fabric: None } => {
            let width = workbench::templates().map(str::len).max().unwrap_or(0);
            let line = |name| format!("{name:width$}  {}\n", workbench::template_summary(name));
            Ok(prose(&workbench::templates().map(line).collect::<String>()))
        }
        Command::Import { files, fabric, interop: InteropArgs { format, out, force } } => {
            let made = workbench::import(format, &files, fabric.as_deref(), &out, force)?;
            let scenario = made.files.last().map(|path| path.display().to_string());
            let run = scenario.map(|path| format!("\ntidegate run {}\n", shown(&path)));
            Ok(written(&made) + &run.unwrap_or_default())
        }
        Command::Export { scenario, interop: InteropArgs { format, out, force } } => {
            let overrides = scenario.overrides()?;
            workbench::export(format, &scenario.path, &overrides, &out, force)
                .map(|made| written(&made))
        }
        #[cfg(target_os = "linux")]
        Command::Serve(args) => crate::net::serve(&args),
        #[cfg(target_os = "linux")]
        Command::Send(args) => crate::net::send(&args),
        #[cfg(target_os = "linux")]
        Command::Testbed(args) => crate::testbed::testbed(&args),
        #[cfg(target_os = "linux")]
        Command::TestbedHost => workbench::testbed::testbed_host().map(|()| String::new()),
        Command::Switch(switch) => switch.run(),
        #[cfg(all(feature = "kernel", target_os = "linux"))]
        Command::Kernel(kernel) => kernel.run(),
        #[cfg(not(all(feature = "kernel", target_os = "linux")))]
        Command::Kernel { .. } => Err(Error::Alone(
            "this program was built without the programs for the Linux kernel: build it on Linux \
             with `cargo build --release -p tidegate-cli --features kernel`"
                .to_owned(),
        )),
        Command::Dissector => Ok(workbench::dissector()),
        Command::Schema => Ok(pretty(&workbench::schema())),
        Command::Man { out: None } => Ok(man::page()),
        Command::Man { out: Some(out) } => {
            workbench::Destination::open(&out, false)?.write(&man::pages())?;
            Ok(format!("Manual pages are in {}\n", shown(&out.display().to_string())))
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "tidegate", &mut script);
            Ok(String::from_utf8_lossy(&script).into_owned())
        }
    }
}

/// Executes a command as one rank of several processes. Only the first rank prints the result; the
/// flag is `true` on that rank.
pub(crate) fn run_among(command: Command, ranks: Ranks) -> (bool, Result<String>) {
    let first = ranks.is_first();
    let result = match command {
        Command::Run { scenario, .. } if scenario.several_seeds().is_some() => {
            Err(Error::Alone("--seeds runs in one process: start it without mpirun".to_owned()))
        }
        Command::Run { dry_run: true, .. } => {
            Err(Error::Alone("--dry-run runs in one process: start it without mpirun".to_owned()))
        }
        Command::Run { scenario, how, packets, .. } if first => {
            run_one(&scenario, &how, &packets, Some(&ranks))
        }
        Command::Run { scenario, how, .. } => serve(&scenario, &how, &ranks),
        _ => Err(Error::Alone(
            "only `tidegate run` supports several processes: start other commands without mpirun"
                .to_owned(),
        )),
    };
    (first, ranks.end(result))
}

/// Forecasts the cost of runs.
fn forecast(
    scenario: &SeededScenario,
    protocols: Option<&[String]>,
    how: &RunArgs,
    packets: &Packets,
) -> Result<String> {
    let seeds = scenario.several_seeds();
    let plans = workbench::seeded_plans(scenario.path(), &scenario.overrides()?, protocols, seeds)?;
    let options = options(how, None);
    let options = RunOptions { capture: packets.capture(), ..options };
    let warnings = workbench::planned_warnings(&plans, protocols);
    warnings.iter().for_each(|warning| how.verbosity.warn(warning));
    // A real run shows the settings of the first seed, too.
    let names = protocols.map_or_else(|| vec![plans[0].name.clone()], <[String]>::to_vec);
    let first: Vec<_> = names.iter().map(String::as_str).zip(&plans).collect();
    options.report_resolved(&first);
    let forecast = workbench::forecast_runs(&plans, &options)?;
    let warn = |warning: &str| how.verbosity.warn(warning);
    let size = options.capture.map(|_| warn_of_size(&plans[0], &options, &warn)).transpose()?;
    if how.json {
        return Ok(pretty(&forecast));
    }
    let runs = counted(forecast.runs, "run");
    let capture = size.map(|size| format!(" The capture takes about {}.", bytes(Some(size))));
    let capture = capture.unwrap_or_default();
    Ok(prose(&format!("{runs}: {}.{capture}\n", sweep::takes(&forecast))))
}

/// A larger capture is warned of.
const LARGE_CAPTURE: f64 = 100e6;

/// Warns if the expected capture is large, and returns its size.
fn warn_of_size(plan: &Plan, options: &RunOptions<'_>, warn: &dyn Fn(&str)) -> Result<f64> {
    let size = workbench::forecast_capture(plan, options)?;
    if size > LARGE_CAPTURE {
        let size = bytes(Some(size));
        warn(&large_capture(plan, &format!("the expected capture size is {size}, {ESTIMATED}")));
    }
    Ok(size)
}

/// The source of the expected size of a capture.
const ESTIMATED: &str = "an estimate from the traffic and the beginning of the run";

/// A warning about a large capture: its size, and how to reduce it.
fn large_capture(plan: &Plan, size: &str) -> String {
    let host = plan.fabric.hosts.first().map_or("h0", String::as_str);
    format!("--pcap: {size}; to capture less, use --pcap-of {host} or a shorter --set duration=…")
}

/// A warning about a capture that has become large while it is written. Sizes are in bytes.
fn passed(plan: &Plan, file: &Path, written: f64, expected: f64) -> String {
    let [written, expected] = [written, expected].map(|size| bytes(Some(size)));
    let file = shown(&file.display().to_string());
    large_capture(
        plan,
        &format!("{file} has {written} now; the expected size is {expected}, {ESTIMATED}"),
    )
}

fn run_one(
    scenario: &SeededScenario,
    how: &RunArgs,
    packets: &Packets,
    ranks: Option<&Ranks>,
) -> Result<String> {
    let Packets { pcap, .. } = packets;
    check_force(how, pcap.is_some())?;
    let plan = workbench::load(scenario.path(), &scenario.overrides()?)?;
    let warn = |warning: &str| how.verbosity.warn(warning);
    let mut expected = None;
    if pcap.is_some() && !how.verbosity.quiet && ranks.is_none() {
        let options = RunOptions { capture: packets.capture(), ..options(how, None) };
        expected = Some(warn_of_size(&plan, &options, &warn)?);
    }
    // Set if the capture is complete.
    let packets_captured = OnceLock::new();
    let captured = |count: u64| _ = packets_captured.set(count);
    let (result, threads) = observed(how, std::slice::from_ref(&plan.name), |options| {
        let has_warned = AtomicBool::new(false);
        let update = |number: usize, progress: &workbench::Progress| {
            let written = progress.captured_bytes as f64;
            if let Some((file, expected)) = pcap.as_ref().zip(expected)
                && written > LARGE_CAPTURE
                && !has_warned.swap(true, Ordering::Relaxed)
                && let Some(warn) = options.warn
            {
                warn(&passed(&plan, file, written, expected));
            }
            options.progress.iter().for_each(|listener| listener(number, progress));
        };
        let capture = packets.capture();
        let (progress, captured) = (Some(&update as workbench::ProgressListener<'_>), &captured);
        let options = RunOptions { capture, captured: Some(captured), ranks, progress, ..*options };
        (workbench::run(&plan, &options), options.threads())
    });
    let (summary, unwritten) = done(result, one_run)?;
    summary.warnings[plan.warnings.len()..].iter().for_each(|warning| warn(warning));
    if how.json {
        return ended(json(|to| summary.write(to)), unwritten, None);
    }
    let threads = match (ranks, pcap) {
        // Each process has its own threads.
        (Some(_), _) => Threads::Unknown,
        (None, Some(_)) => Threads::Of(threads, "a capture needs a single thread"),
        (None, None) => Threads::Of(threads, "more would hardly be faster"),
    };
    let mut text = table::run(&summary, threads);
    if let (Some(file), Some(packets)) = (pcap, packets_captured.into_inner()) {
        let packets = counted(packets as usize, "packet");
        let file = shown(&file.display().to_string());
        text.push_str(&format!("\nThe capture of {packets} is in {file}\n"));
    }
    ended(text, unwritten, how.announced_out())
}

/// Lists the written files; prints warnings about omitted data on stderr.
fn written(made: &Written) -> String {
    made.warnings.iter().for_each(|warning| print_stderr(&format!("warning: {warning}")));
    made.files.iter().map(|path| shown(&path.display().to_string()) + "\n").collect()
}

/// Runs a scenario under several seeds; with `protocols`, under each of them, compared with the
/// baseline.
fn run_several(
    scenario: &SeededScenario,
    (protocols, baseline): (Option<&[String]>, Option<&str>),
    seeds: &SeedList,
    how: &RunArgs,
) -> Result<String> {
    check_force(how, false)?;
    let overrides = scenario.overrides()?;
    let runs = seeds.seeds().len() * protocols.map_or(1, <[String]>::len);
    let total = Total::of(runs, how.verbosity);
    let update = |number: usize, progress: &workbench::Progress| total.update(number, progress);
    let result = workbench::run_seeds(
        scenario.path(),
        &overrides,
        protocols,
        baseline,
        seeds,
        &options(how, Some(&update)),
    );
    total.clear();
    let take = |results| match results {
        Results::Aggregate(aggregate) => Some(aggregate),
        _ => None,
    };
    let (aggregate, unwritten) = done(result, take)?;
    aggregate.warnings.iter().for_each(|warning| how.verbosity.warn(warning));
    let text = match how.json {
        true => json(|to| aggregate.write(to)),
        false => aggregate::tables(&aggregate, &seeds.to_string()),
    };
    ended(text, unwritten, how.announced_out())
}

/// The protocols to compare. `all` selects those that can run the scenario; a warning names the
/// others.
fn compared(
    scenario: &SeededScenario,
    named: Vec<String>,
    verbosity: Verbosity,
) -> Result<Vec<String>> {
    match &named[..] {
        [all] if all == ALL => runnable(scenario.path(), &scenario.overrides()?, verbosity),
        names if names.iter().any(|name| name == ALL) => {
            let message = format!("`{ALL}` cannot be combined with other names");
            Err(Error::Usage { option: "--protocols", message })
        }
        _ => Ok(named),
    }
}

/// Takes part in the run of the first rank.
fn serve(scenario: &SeededScenario, how: &RunArgs, ranks: &Ranks) -> Result<String> {
    let plan = workbench::load(scenario.path(), &scenario.overrides()?)?;
    let threads = how.threads.map(|threads| threads as usize);
    let interrupted = Some(interrupt_flag());
    let options = RunOptions { threads, interrupted, ranks: Some(ranks), ..RunOptions::default() };
    workbench::serve(&plan, &options).map(|()| String::new())
}

/// Runs a job with one progress bar per name, and ends it in an orderly way after a signal.
fn observed<T>(how: &RunArgs, names: &[String], job: impl FnOnce(&RunOptions<'_>) -> T) -> T {
    let bars = Bars::new(names, how.verbosity);
    let update = |number: usize, progress: &workbench::Progress| bars.update(number, progress);
    let warn = |warning: &str| bars.suspended(|| how.verbosity.warn(warning));
    let result = job(&RunOptions { warn: Some(&warn), ..options(how, Some(&update)) });
    bars.clear();
    result
}

fn options<'a>(
    how: &'a RunArgs,
    progress: Option<workbench::ProgressListener<'a>>,
) -> RunOptions<'a> {
    RunOptions {
        out: how.out.as_deref(),
        force: how.force,
        capture: None,
        captured: None,
        tables: None,
        ranks: None,
        warn: None,
        resolved: how.verbosity.notice(),
        threads: how.threads.map(|threads| threads as usize),
        partitions: how.partitions.map(|partitions| partitions as usize),
        progress,
        interrupted: Some(interrupt_flag()),
    }
}
