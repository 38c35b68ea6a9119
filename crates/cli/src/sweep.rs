//! `tidegate sweep`.

use std::path::PathBuf;
use std::sync::OnceLock;

use clap::Args as Group;
use tidegate_workbench::{
    self as workbench, Axis, Bound, Design, Error, Mode, SeedList, Sweep, SweepForecast,
    SweepOptions,
};

use crate::aggregate::{GroupRow, Of, View, all_tables, legend};
use crate::format::{bytes, clock, counted, heads, shown, text};
use crate::grid::prose;
use crate::interrupt::interrupt_flag;
use crate::options::{ALL, CacheArgs, RunArgs, SEED_MAX, check_force, runnable, whole};
use crate::output::pretty;
use crate::progress::Total;
use crate::worst::{self, Worst, worst};
use crate::{Result, emit, print_stderr};

/// Options of `tidegate sweep`.
#[derive(Debug, Group)]
pub(crate) struct SweepArgs {
    /// Sweep file (TOML); with --vary, a scenario file
    #[arg(value_name = "SWEEP|SCENARIO")]
    path: PathBuf,
    /// Vary a key of the scenario: a list `a,b,c`, or an inclusive range with a step,
    /// `traffic.0.load=0.3..0.9:0.1`; repeatable (all combinations are run)
    #[arg(long, value_name = "KEY=VALUES")]
    vary: Vec<String>,
    /// Combine the first values of all keys, then the second values, and so on
    #[arg(long, requires = "vary")]
    zip: bool,
    /// Run this number of points of the grid, chosen at random
    #[arg(long, value_name = "N", requires = "vary", conflicts_with = "zip")]
    #[arg(value_parser = whole::<1, SEED_MAX, u64>, allow_negative_numbers = true)]
    random: Option<u64>,
    /// Seed of the random choice of points
    #[arg(long, value_name = "N", requires = "random", default_value = "1")]
    #[arg(value_parser = whole::<0, SEED_MAX, u64>, allow_negative_numbers = true)]
    search_seed: u64,
    /// Override a key of the scenario for all points; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Run every point under several seeds: a count (`5`: seeds 1 to 5), an inclusive range
    /// (`1..5`), or a list (`1,4,7`) (default: the seed of the scenario)
    #[arg(long, value_name = "SEEDS", allow_hyphen_values = true)]
    seeds: Option<SeedList>,
    /// Run every point under this seed
    #[arg(
        long, value_name = "N", allow_negative_numbers = true, conflicts_with = "seeds",
        value_parser = whole::<0, SEED_MAX, u64>
    )]
    seed: Option<u64>,
    /// The protocol that others are compared with, seed by seed (default: the first varied one)
    #[arg(long, value_name = "PROTOCOL")]
    baseline: Option<String>,
    /// Order the failures of `--vary failure=…` by this metric, with ` of LABEL` for one label
    /// (default: `slowdown_p99`)
    #[arg(long, value_name = "METRIC", value_parser = worst)]
    worst: Option<Worst>,
    /// Only print the number of runs and an estimate of their cost
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    how: RunArgs,
    #[command(flatten)]
    kept: CacheArgs,
}

/// Maximum number of printed rows per table; the files have all rows.
const ROWS: usize = 100;

/// Runs `tidegate sweep`.
pub(crate) fn sweep(args: &SweepArgs) -> Result<String> {
    check_force(&args.how, false)?;
    let design = design(args)?.with_baseline(args.baseline.as_deref())?;
    if args.worst.is_some() && !design.varies(workbench::FAILURE) {
        let message = "orders failures: add --vary failure=each-link".to_owned();
        return Err(Error::Usage { option: "--worst", message });
    }
    let cache = args.kept.folder(args.how.verbosity)?;
    let options = SweepOptions {
        threads: args.how.threads.map(|threads| threads as usize),
        partitions: args.how.partitions.map(|partitions| partitions as usize),
        cache: cache.as_deref(),
        interrupted: Some(interrupt_flag()),
        resolved: args.how.verbosity.notice(),
        ..SweepOptions::default()
    };
    if args.dry_run {
        let warnings = workbench::sweep_warnings(&design)?;
        warnings.iter().for_each(|warning| args.how.verbosity.warn(warning));
        if let Some(notice) = options.resolved {
            design.report_resolved(notice)?;
        }
        let forecast = workbench::forecast_sweep(&design, &options)?;
        let text = if args.how.json { pretty(&forecast) } else { prose(&forecast_text(&forecast)) };
        return Ok(text);
    }
    let out = args.how.out.as_ref();
    let destination =
        out.map(|out| workbench::Destination::open(out, args.how.force)).transpose()?;
    // Set when the number of runs is known.
    let total: OnceLock<Total> = OnceLock::new();
    let begin = |runs: usize| {
        total.get_or_init(|| Total::of(runs, args.how.verbosity));
    };
    let update = |number: usize, progress: &workbench::Progress| {
        if let Some(total) = total.get() {
            total.update(number, progress);
        }
    };
    let options = SweepOptions { begin: Some(&begin), progress: Some(&update), ..options };
    let result = workbench::sweep(&design, &options);
    if let Some(total) = total.get() {
        total.clear();
    }
    let sweep = result?;
    sweep.warnings.iter().for_each(|warning| args.how.verbosity.warn(warning));
    let write = |destination: workbench::Destination| {
        destination.write(&sweep.files().map_err(|error| Error::Run(error.to_string()))?)
    };
    let unwritten = destination.and_then(|destination| write(destination).err());
    let mut text = if args.how.json { pretty(&sweep) } else { tables(&sweep, args.worst.as_ref()) };
    if let Some(error) = unwritten {
        emit(&text);
        return Err(error);
    }
    if let Some(out) = out.filter(|_| !args.how.json) {
        text.push_str(&format!("\nResults are in {}\n", shown(&out.display().to_string())));
    }
    if sweep.failed.is_empty() {
        return Ok(text);
    }
    emit(&text);
    for run in &sweep.failed {
        print_stderr(&format!("{}: {}", place(&sweep, &run.values, run.seed), run.why));
    }
    Err(Error::Run(format!("{} of {} runs failed", sweep.failed.len(), sweep.count())))
}

fn design(args: &SweepArgs) -> Result<Design> {
    let changes = args.set.iter().map(|argument| workbench::set(argument));
    let changes = changes.collect::<Result<Vec<_>>>()?;
    let mut seeds = args.seeds.clone();
    if let Some(seed) = args.seed {
        workbench::only_seeds("--seed", &changes)?;
        let of = SeedList::of(vec![seed]);
        seeds = Some(of.map_err(|message| Error::Usage { option: "--seed", message })?);
    }
    if args.vary.is_empty() {
        return Design::load(&args.path, changes, seeds);
    }
    let axis = |argument: &String| {
        let is_all = argument
            .split_once('=')
            .is_some_and(|(key, values)| (key.trim(), values.trim()) == ("protocol", ALL));
        if !is_all {
            return workbench::vary(argument);
        }
        let names = runnable(&args.path, &changes, args.how.verbosity)?;
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

/// `84 runs, 12 of them cached. The others need about …`
fn forecast_text(forecast: &SweepForecast) -> String {
    let SweepForecast { runs, kept, probes, .. } = *forecast;
    let runs = format!("{}, {kept} of them cached", counted(runs, "run"));
    if probes == 0 {
        return format!("{runs}: nothing remains to run.\n");
    }
    format!("{runs}. The others need {}.\n", takes(forecast))
}

/// `about 1234 M packet-hops, 3:05 on 2 threads, and …`
pub(crate) fn takes(forecast: &SweepForecast) -> String {
    let SweepForecast { threads, probes, wall_seconds, .. } = *forecast;
    let time = std::time::Duration::try_from_secs_f64(wall_seconds).unwrap_or_default();
    let time = if wall_seconds < 1.0 { "less than a second".to_owned() } else { clock(time) };
    let threads = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
    let tried = if probes == 1 { "1 run".to_owned() } else { format!("{probes} runs") };
    let millions = forecast.packet_hops / 1e6;
    let hops = match forecast.bound {
        _ if millions < 1.0 => "less than a million packet-hops".to_owned(),
        Bound::AtMost => format!("at most {millions:.0} M packet-hops"),
        Bound::About => format!("about {millions:.0} M packet-hops"),
    };
    format!(
        "{hops}, {time} on {threads}, and {} of memory; estimated from the traffic and the \
         beginning of {tried}",
        bytes(forecast.memory_bytes.map(|bytes| bytes as f64)),
    )
}

/// `traffic.0.load=0.3, seed 2`
fn place(sweep: &Sweep, values: &[serde_json::Value], seed: u64) -> String {
    let value = |(key, value): (&String, &serde_json::Value)| format!("{key}={}", text(value));
    let values: Vec<String> = sweep.keys.iter().zip(values).map(value).collect();
    format!("{}, seed {seed}", values.join(", "))
}

/// The rows of a table, point by point.
fn rows<'a>(sweep: &'a Sweep, of: Of, view: View<'_>) -> Vec<GroupRow<'a>> {
    let mut rows = Vec::new();
    for point in &sweep.points {
        let values: Vec<String> = point.values.iter().map(text).collect();
        rows.extend(GroupRow::all((of, view), &point.metrics, &values, None, sweep.seeds.len()));
    }
    rows
}

fn tables(sweep: &Sweep, worst: Option<&Worst>) -> String {
    let count = sweep.seeds.len();
    let kept = match sweep.kept {
        0 => String::new(),
        kept => format!(", {kept} of them cached"),
    };
    let name = shown(&sweep.name);
    let keys = shown(&sweep.keys.join(", "));
    let [points, seeds, runs] =
        [(sweep.points.len(), "point"), (count, "seed"), (sweep.count(), "run")]
            .map(|(count, noun)| counted(count, noun));
    let mut out = format!("{name}: {points}, {seeds}, {runs}{kept}\nVaried: {keys}\n");
    out.push_str(&worst::table(sweep, worst).unwrap_or_default());
    let heads = heads(&sweep.keys);
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
    fn forecast_text_cost() {
        let forecast = SweepForecast {
            runs: 84,
            kept: 12,
            packet_hops: 1.234e9,
            cpu_seconds: 370.4,
            wall_seconds: 185.2,
            memory_bytes: Some(120_000_000),
            threads: 2,
            probes: 6,
            bound: Bound::About,
        };
        assert_eq!(
            forecast_text(&forecast),
            "84 runs, 12 of them cached. The others need about 1234 M packet-hops, 3:05 on 2 \
             threads, and 120 MB of memory; estimated from the traffic and the beginning of 6 \
             runs.\n"
        );
        let short = SweepForecast { packet_hops: 999_999.0, ..forecast };
        assert!(takes(&short).starts_with("less than a million packet-hops, 3:05"));
        let most = SweepForecast { bound: Bound::AtMost, ..forecast };
        assert!(takes(&most).starts_with("at most 1234 M packet-hops, 3:05"));
        let one = SweepForecast { runs: 1, kept: 0, ..forecast };
        assert!(forecast_text(&one).starts_with("1 run, 0 of them cached. "));
        let done = SweepForecast { kept: 84, probes: 0, ..forecast };
        assert!(forecast_text(&done).ends_with("84 of them cached: nothing remains to run.\n"));
    }
}
