//! `tidegate sweep`.

use std::path::PathBuf;
use std::sync::OnceLock;

use clap::Args as Group;
use tidegate_workbench::{
    self as workbench, Axis, Design, Error, Mode, SeedList, Sweep, SweepForecast, SweepOptions,
};

use crate::aggregate::{GroupRow, Of, View, all_tables, legend};
use crate::args::{How, Kept};
use crate::format::{bytes, clock, shown};
use crate::grid::prose;
use crate::progress::Total;
use crate::{Result, commands, complain, emit};

/// What to sweep, and how.
#[derive(Debug, Group)]
pub(crate) struct SweepArgs {
    /// Sweep file (TOML), or with --vary a scenario file
    #[arg(value_name = "SWEEP|SCENARIO")]
    path: PathBuf,
    /// Vary a key of the scenario: a list `a,b,c`, or a range with both its ends and a step,
    /// `traffic.0.load=0.3..0.9:0.1`; may stand several times (every value with every other)
    #[arg(long, value_name = "KEY=VALUES")]
    vary: Vec<String>,
    /// Take the first value of each key, then the second of each, and so on
    #[arg(long, requires = "vary")]
    zip: bool,
    /// Take so many points of the grid, drawn at random
    #[arg(long, value_name = "N", requires = "vary", conflicts_with = "zip")]
    random: Option<u64>,
    /// From which points are drawn
    #[arg(long, value_name = "N", requires = "random", default_value = "1")]
    search_seed: u64,
    /// Change a key of the scenario for all points; may stand several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Run every point under several seeds: how many (`5`: 1 to 5), a range with both its ends
    /// (`1..5`), or a list (`1,4,7`); default: the scenario's own
    #[arg(long, value_name = "SEEDS", allow_hyphen_values = true)]
    seeds: Option<SeedList>,
    /// Compare with this protocol, seed by seed (default: the first that varies)
    #[arg(long, value_name = "PROTOCOL")]
    baseline: Option<String>,
    /// Only say how many runs there are, and what they take
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    kept: Kept,
}

/// Rows of a table; the rest is in files.
const ROWS: usize = 100;

/// Sweeps.
pub(crate) fn sweep(args: &SweepArgs) -> Result<String> {
    commands::forces_something(&args.how, false)?;
    let design = design(args)?.with_baseline(args.baseline.as_deref())?;
    let cache = args.kept.folder(args.how.voice)?;
    let options = SweepOptions {
        threads: args.how.threads.map(|threads| threads as usize),
        partitions: args.how.partitions.map(|partitions| partitions as usize),
        cache: cache.as_deref(),
        interrupted: Some(commands::interrupt_flag()),
        resolved: args.how.voice.teller(),
        ..SweepOptions::default()
    };
    if args.dry_run {
        let forecast = workbench::forecast_sweep(&design, &options)?;
        return Ok(if args.how.json { commands::pretty(&forecast) } else { said(&forecast) });
    }
    let out = args.how.out.as_ref();
    let destination =
        out.map(|out| workbench::Destination::open(out, args.how.force)).transpose()?;
    // Known once it is known how many runs there are to be made.
    let total: OnceLock<Total> = OnceLock::new();
    let begin = |runs: usize| {
        total.get_or_init(|| Total::of(runs, args.how.voice));
    };
    let tell = |number: usize, progress: &workbench::Progress| {
        if let Some(total) = total.get() {
            total.hear(number, progress);
        }
    };
    let options = SweepOptions { begin: Some(&begin), progress: Some(&tell), ..options };
    let result = workbench::sweep(&design, &options);
    if let Some(total) = total.get() {
        total.clear();
    }
    let sweep = result?;
    sweep.warnings.iter().for_each(|warning| args.how.voice.warn(warning));
    if let Some(destination) = destination {
        let files = sweep.files().map_err(|error| Error::Run(error.to_string()))?;
        destination.write(&files)?;
    }
    let mut text = if args.how.json { commands::pretty(&sweep) } else { tables(&sweep) };
    if let Some(out) = out.filter(|_| !args.how.json) {
        text.push_str(&format!("\nResults are in {}\n", shown(&out.display().to_string())));
    }
    if sweep.failed.is_empty() {
        return Ok(text);
    }
    emit(&text);
    for run in &sweep.failed {
        complain(&format!("{}: {}", place(&sweep, &run.values, run.seed), run.why));
    }
    Err(Error::Run(format!("{} of {} runs failed", sweep.failed.len(), sweep.count())))
}

fn design(args: &SweepArgs) -> Result<Design> {
    let changes = args.set.iter().map(|argument| workbench::set(argument));
    let changes = changes.collect::<Result<Vec<_>>>()?;
    let seeds = args.seeds.clone();
    if args.vary.is_empty() {
        return Design::load(&args.path, changes, seeds);
    }
    let axis = |argument: &String| {
        let is_all = argument.split_once('=').is_some_and(|(key, values)| {
            (key.trim(), values.trim()) == ("protocol", commands::ALL)
        });
        if !is_all {
            return workbench::vary(argument);
        }
        let names = commands::carried(&args.path, &changes, args.how.voice)?;
        workbench::vary(&format!("protocol={}", names.join(",")))
    };
    let axes = args.vary.iter().map(axis);
    let axes: Vec<Axis> = axes.collect::<Result<_>>()?;
    let mode = match (args.zip, args.random) {
        (_, Some(points)) => Mode::Random { points, seed: args.search_seed },
        (true, None) => Mode::Zip,
        (false, None) => Mode::Grid,
    };
    Design::new(&args.path, changes, (&axes, mode), seeds)
}

/// `84 runs, 12 of them kept from before; the others come to …`
fn said(forecast: &SweepForecast) -> String {
    let SweepForecast { runs, kept, threads, probes, .. } = *forecast;
    let runs = format!("{runs} runs, {kept} of them kept from before");
    if probes == 0 {
        return format!("{runs}: nothing is left to do.\n");
    }
    let time = std::time::Duration::try_from_secs_f64(forecast.wall_seconds).unwrap_or_default();
    let threads = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
    let tried = if probes == 1 { "1 run".to_owned() } else { format!("{probes} runs") };
    format!(
        "{runs}. The others come to some {:.0} M packet-hops, {} on {threads}, and {} of memory: \
         an estimate from the beginning of {tried}.\n",
        forecast.packet_hops / 1e6,
        clock(time),
        bytes(forecast.memory_bytes.map(|bytes| bytes as f64)),
    )
}

/// `traffic.0.load=0.3, seed 2`
fn place(sweep: &Sweep, values: &[serde_json::Value], seed: u64) -> String {
    let value = |(key, value): (&String, &serde_json::Value)| format!("{key}={}", text(value));
    let values: Vec<String> = sweep.keys.iter().zip(values).map(value).collect();
    format!("{}, seed {seed}", values.join(", "))
}

/// JSON without quotes around text.
fn text(value: &serde_json::Value) -> String {
    shown(&value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// What has a row in a table, point by point.
fn rows<'a>(sweep: &'a Sweep, of: Of, view: View<'_>) -> Vec<GroupRow<'a>> {
    let mut rows = Vec::new();
    for point in &sweep.points {
        let values: Vec<String> = point.values.iter().map(text).collect();
        rows.extend(GroupRow::all((of, view), &point.metrics, &values, None, sweep.seeds.len()));
    }
    rows
}

fn tables(sweep: &Sweep) -> String {
    let count = sweep.seeds.len();
    let (points, seeds) = (sweep.points.len(), if count == 1 { "seed" } else { "seeds" });
    let kept = match sweep.kept {
        0 => String::new(),
        kept => format!(", {kept} of them kept from before"),
    };
    let name = shown(&sweep.name);
    let mut out =
        format!("{name}: {points} points, {count} {seeds}, {} runs{kept}\n", sweep.count());
    let heads: Vec<String> = sweep.keys.iter().map(|key| shown(key)).collect();
    let baseline = sweep.baseline.as_deref();
    let views = [View::Means, View::Differences(baseline)];
    let titled = |title: &str| format!("\n{title}\n");
    out.push_str(&all_tables(&heads, ROWS, views, |of, view| rows(sweep, of, view), titled));
    let explained = legend(&out, count, baseline);
    out.push_str(&explained);
    prose(&out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sweep_takes_is_said_in_a_line() {
        let forecast = SweepForecast {
            runs: 84,
            kept: 12,
            packet_hops: 1.234e9,
            wall_seconds: 185.2,
            memory_bytes: Some(120_000_000),
            threads: 2,
            probes: 6,
        };
        assert_eq!(
            said(&forecast),
            "84 runs, 12 of them kept from before. The others come to some 1234 M packet-hops, \
             3:05 on 2 threads, and 120 MB of memory: an estimate from the beginning of 6 runs.\n"
        );
        let done = SweepForecast { kept: 84, probes: 0, ..forecast };
        assert!(said(&done).ends_with("84 of them kept from before: nothing is left to do.\n"));
    }
}
