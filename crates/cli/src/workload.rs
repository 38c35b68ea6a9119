//! `tidegate workload`: scenarios from a user's own traffic.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use clap::{Args as Group, Subcommand};
use tidegate_workbench::results::Fixed;
use tidegate_workbench::workload::{
    DistanceKind, IncastRule, LinkReason, Profile, TimeUnit, Window, WorkloadOptions, percentile,
    window,
};
use tidegate_workbench::{self as workbench, Completions, Error, MeasuredWorkload, options};

use crate::Result;
use crate::format::{bytes, digits, number, shown, signs, tail, time_unit};
use crate::grid::{drawn, new, prose};
use crate::options::{Verbosity, file, folder, whole};
use crate::output::{pretty, written};

/// Commands about a user's own traffic.
#[derive(Debug, Subcommand)]
pub(crate) enum Workload {
    /// Make scenarios from a list of flows (CSV) or a packet capture (pcap, pcapng)
    From(FromArgs),
    /// Compare the completion times of a list of flows with those of simulated runs, by size
    Compare(CompareArgs),
}

/// Options of `tidegate workload from`.
#[derive(Debug, Group)]
pub(crate) struct FromArgs {
    /// A list of flows with named columns (CSV), or a packet capture (pcap, pcapng)
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Write scenarios, distributions, the trace and a page to this folder; it is created
    #[arg(long, value_name = "DIR", value_parser = folder())]
    out: Option<PathBuf>,
    /// Replace existing files in the folder
    #[arg(long, requires = "out")]
    force: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Unit of times in columns whose names have no unit
    #[arg(long, value_name = "UNIT", value_parser = units())]
    time_unit: Option<TimeUnit>,
    /// Use only flows that start in this time after the first one, e.g. `10s..70s`
    #[arg(long, value_name = "FROM..TO")]
    window: Option<String>,
    /// Gap after which the next packet of a connection belongs to a new flow (captures; default:
    /// 10ms)
    #[arg(long, value_name = "TIME")]
    idle_gap: Option<String>,
    /// Rate of the hosts' links, e.g. `25Gbps` (default: the smallest standard rate that carries
    /// the busiest host)
    #[arg(long, value_name = "RATE")]
    host_link: Option<String>,
    /// An incast's sources start within this time (default: 100us)
    #[arg(long, value_name = "TIME")]
    incast_window: Option<String>,
    /// Smallest number of sources of an incast (default: 8)
    #[arg(long, value_name = "N")]
    #[arg(value_parser = whole::<2, 100_000, u64>, allow_negative_numbers = true)]
    incast_sources: Option<u64>,
    /// Print no warnings
    #[arg(short, long)]
    quiet: bool,
}

/// Options of `tidegate workload compare`.
#[derive(Debug, Group)]
pub(crate) struct CompareArgs {
    /// Folder that `tidegate workload from` has written, with completions.csv
    #[arg(value_name = "DIR")]
    workload: PathBuf,
    /// Folders of runs of its replay.toml
    #[arg(value_name = "RESULTS", required = true)]
    runs: Vec<PathBuf>,
    /// Write a page with plots to this file
    #[arg(long, value_name = "FILE", value_parser = file())]
    out: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Parses the name of a unit.
fn units() -> impl TypedValueParser<Value = TimeUnit> {
    let names = PossibleValuesParser::new(TimeUnit::ALL.map(TimeUnit::name));
    names.try_map(|name| TimeUnit::find(&name))
}

impl Workload {
    /// Executes the command.
    pub(crate) fn run(&self) -> Result<String> {
        match self {
            Workload::From(args) => from(args),
            Workload::Compare(args) => compare(args),
        }
    }
}

impl FromArgs {
    fn options(&self) -> Result<WorkloadOptions> {
        let usual = WorkloadOptions::default();
        let IncastRule { window: time, sources } = usual.incast;
        let interval = |option, text: &Option<String>, usual| {
            text.as_ref().map_or(Ok(usual), |text| options::interval(option, text))
        };
        let rate = self.host_link.as_ref().map(|text| options::rate("--host-link", text));
        let part: Option<std::result::Result<Window, _>> =
            self.window.as_ref().map(|text| window("--window", text));
        let wrong = Error::scenario;
        Ok(WorkloadOptions {
            time_unit: self.time_unit,
            idle: interval("--idle-gap", &self.idle_gap, usual.idle).map_err(wrong)?,
            window: part.transpose().map_err(wrong)?,
            host_link: rate.transpose().map_err(wrong)?,
            incast: IncastRule {
                window: interval("--incast-window", &self.incast_window, time).map_err(wrong)?,
                sources: self.incast_sources.map_or(sources, |n| n as u32),
            },
        })
    }
}

fn from(args: &FromArgs) -> Result<String> {
    let options = args.options()?;
    let open = |out: &PathBuf| workbench::workload_destination(out, args.force);
    let destination = args.out.as_ref().map(open).transpose()?;
    let found = workbench::workload_from(&args.path, &options)?;
    let verbosity = Verbosity { quiet: args.quiet, verbose: false };
    found.workload.warnings.iter().for_each(|warning| verbosity.warn(warning));
    if let Some(destination) = destination {
        found.write(destination, workbench::workload_page(&found))?;
    }
    if args.json {
        return Ok(pretty(&found.json()));
    }
    let out = args.out.as_deref();
    Ok(table(&found) + &written(out) + &out.map(next).unwrap_or_default())
}

/// The commands that use the files.
fn next(out: &Path) -> String {
    let path = |name| shown(&out.join(name).display().to_string());
    format!(
        "tidegate run {}    # synthetic traffic\ntidegate run {}      # the flows as they are\n",
        path("scenario.toml"),
        path("replay.toml")
    )
}

fn table(found: &MeasuredWorkload) -> String {
    let workload = &found.workload;
    let trace = &workload.trace;
    let kind = if trace.is_capture { "capture" } else { "list" };
    let link = &workload.host_link;
    let standard = "smallest standard rate for";
    let reason = match link.reason {
        LinkReason::Set => "as set".to_owned(),
        LinkReason::Flow(bps) => format!("{standard} the fastest flow, {}", gbps(bps)),
        LinkReason::Peak(bps, over) => {
            format!("{standard} the busiest host, {} over {}", gbps(bps), time(over.as_us_f64()))
        }
        LinkReason::Mean(bps) => {
            format!("{standard} twice the mean of the busiest host, {}", gbps(bps))
        }
    };
    let mut text = format!(
        "{} ({kind}): {} flows of {} hosts over {}\nHost links: {} ({reason}; --host-link)\n\n",
        shown(&trace.file),
        trace.flows.len(),
        trace.hosts.len(),
        time(trace.duration.as_us_f64()),
        link.rate,
    );
    text += &measures(found);
    text += &incast(found);
    text += "\nDistance of the synthetic traffic\n";
    let mut table = new(&["quantity", "measure", "distance", "by chance"], 2);
    for of in &found.distances {
        let measure = match of.kind {
            DistanceKind::Distribution => "KS",
            DistanceKind::Shares => "cumulative shares",
            DistanceKind::Ratio => "synthetic / measured",
        };
        table.add_row([
            of.text.to_owned(),
            measure.to_owned(),
            number(of.value),
            number(of.by_chance),
        ]);
    }
    text += &drawn(&table);
    text += "KS and cumulative shares: largest difference, from 0 to 1. Two samples of one \
        distribution differ by more than the last column with a probability of 5 %.\n";
    let noted: Vec<_> = trace.noted.iter().filter(|noted| noted.count > 0).collect();
    if !noted.is_empty() {
        text += "\nLeft out and noted\n";
        let mut table = new(&["", "number"], 1);
        for noted in noted {
            table.add_row([noted.text.to_owned(), noted.count.to_string()]);
        }
        text += &drawn(&table);
    }
    prose(&text)
}

/// The mean of `bytes` over `n` flows.
fn each(bytes: u64, n: usize) -> Option<f64> {
    (n > 0).then(|| bytes as f64 / n as f64)
}

fn gbps(bps: f64) -> String {
    format!("{} Gbps", digits(bps / 1e9))
}

/// A time span given in microseconds.
fn time(us: f64) -> String {
    let (factor, unit) = time_unit(us);
    format!("{} {unit}", digits(us * factor))
}

/// Measures of the trace beside those of the synthetic traffic.
fn measures(found: &MeasuredWorkload) -> String {
    let link = found.workload.host_link.rate.as_bps() as f64;
    let load = |bps: f64| format!("{} ({:.1} %)", gbps(bps), 100.0 * bps / link);
    let size = |of: &Profile, share| bytes(percentile(&of.sizes, share).map(|of| of as f64));
    let mean = |of: &Profile| bytes(each(of.bytes, of.sizes.len()));
    type Cell<'a> = &'a dyn Fn(&Profile) -> String;
    let rows: [(&str, Cell<'_>); 10] = [
        ("flows", &|of| of.sizes.len().to_string()),
        ("bytes", &|of| bytes(Some(of.bytes as f64))),
        ("load, all hosts", &|of| gbps(of.mean_bps())),
        ("load of a host, mean", &|of| load(of.mean_host_bps())),
        ("load of the busiest host", &|of| load(of.busiest_bps())),
        ("size, mean", &mean),
        ("size, median", &|of| size(of, 0.5)),
        ("size, 90th percentile", &|of| size(of, 0.9)),
        ("size, 99th percentile", &|of| size(of, 0.99)),
        ("size, largest", &|of| size(of, 1.0)),
    ];
    let mut table = new(&["", "measured", "synthetic"], 1);
    for (name, cell) in rows {
        let (measured, synthetic) = (cell(&found.workload.profile), cell(&found.synthetic));
        table.add_row([name.to_owned(), measured, synthetic]);
    }
    drawn(&table)
}

fn incast(found: &MeasuredWorkload) -> String {
    let rule = found.workload.rule;
    let Some(incast) = &found.workload.incast else {
        return format!(
            "\nNo incast: no {} sources started towards one host within {}\n",
            rule.sources, rule.window
        );
    };
    let size = bytes(each(incast.bytes, incast.flows));
    let towards = match (incast.dst, incast.destinations) {
        (Some(dst), _) => format!("h{dst}"),
        (None, n) => format!("{n} hosts"),
    };
    let (least, most) = incast.fan_in_range;
    let every = incast.interval.map_or(String::new(), |span| {
        let kind = if incast.is_random { "random" } else { "regular" };
        format!(", one every {} ({kind})", time(span.as_us_f64()))
    });
    format!(
        "\nIncast: {} bursts{every} towards {towards}; fan-in {} ({least} to {most}), {size} per \
         source\n",
        incast.bursts, incast.fan_in
    )
}

fn compare(args: &CompareArgs) -> Result<String> {
    let found = workbench::compare_completions(&args.workload, &args.runs)?;
    if let Some(out) = &args.out {
        workbench::write_report(out, &workbench::completions_page(&found))?;
    }
    if args.json {
        return Ok(pretty(&found));
    }
    let page = args
        .out
        .as_ref()
        .map(|out| format!("\nThe page is in {}\n", shown(&out.display().to_string())));
    Ok(completions(&found) + &page.unwrap_or_default())
}

fn completions(found: &Completions) -> String {
    let micros = |us: Option<f64>| crate::format::micros(us.and_then(Fixed::nearest));
    let titles = [
        "size",
        "series",
        "flows",
        "unfinished",
        "completion p50",
        "completion|p99",
        "slowdown p50",
        "slowdown|p99",
    ];
    let mut table = new(&titles, 2);
    for class in &found.classes {
        let size = match class.below_bytes {
            Some(below) => {
                format!("{} to {}", bytes(Some(class.min_bytes as f64)), bytes(Some(below as f64)))
            }
            None => format!("from {}", bytes(Some(class.min_bytes as f64))),
        };
        for (name, of) in found.series.iter().zip(&class.series).filter(|(_, of)| of.count > 0) {
            table.add_row([
                size.clone(),
                name.clone(),
                of.count.to_string(),
                of.unfinished.to_string(),
                micros(of.p50_us),
                tail((of.count, 10), false, micros(of.p99_us)),
                number(of.slowdown_p50),
                tail((of.count, 10), false, number(of.slowdown_p99)),
            ]);
        }
    }
    let mut text = drawn(&table);
    text += &signs(&text, "");
    text += "A measured slowdown is the measured time over the ideal one of the simulator.\n";
    if found.without_ideal > 0 {
        text += &format!(
            "{} of {} measured flows have no counterpart of the same size and hosts in the runs, \
             so slowdowns of their sizes are omitted.\n",
            found.without_ideal, found.measured
        );
    }
    prose(&text)
}
