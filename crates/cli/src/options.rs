//! Options that several subcommands have, and parsers of their values.

use std::path::{Path, PathBuf};

use clap::Args as Group;
use clap::builder::{
    PathBufValueParser, PossibleValuesParser, RangedI64ValueParser, TypedValueParser,
};
use tidegate_workbench::results::MOST_DILATION;
use tidegate_workbench::{self as workbench, Capture, Error, Format, Notice, Override, SeedList};

use crate::{Result, print_stderr};

/// A dilation of time.
pub(crate) fn dilation() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(MOST_DILATION))
}

/// The scenario and its overrides.
#[derive(Debug, Group)]
pub(crate) struct Scenario {
    /// Scenario file (TOML), or the manifest of a run
    #[arg(value_name = "SCENARIO")]
    pub(crate) path: PathBuf,
    /// Override a key of the scenario, e.g. `fabric.mtu=1500B`; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seed of all randomness
    #[arg(
        long, value_name = "N", allow_negative_numbers = true,
        value_parser = whole::<0, SEED_MAX, u64>
    )]
    seed: Option<u64>,
}

impl Scenario {
    /// The overrides of the file. `--seed` together with `--set seed=` is an error.
    pub(crate) fn overrides(&self) -> Result<Vec<Override>> {
        let mut set = self.set()?;
        if let Some(seed) = self.seed {
            workbench::only_seeds("--seed", &set)?;
            set.push(of_seed("--seed", seed));
        }
        Ok(set)
    }

    fn set(&self) -> Result<Vec<Override>> {
        self.set.iter().map(|argument| workbench::set(argument)).collect()
    }
}

fn of_seed(option: &str, seed: u64) -> Override {
    Override::option(option, "seed", &seed.to_string())
}

/// The scenario and its overrides, perhaps under several seeds.
#[derive(Debug, Group)]
pub(crate) struct SeededScenario {
    #[command(flatten)]
    one: Scenario,
    /// Run under several seeds and show means with 95 % intervals: a count (`5`: seeds 1 to 5), an
    /// inclusive range (`1..5`), or a list (`1,4,7`)
    #[arg(long, value_name = "SEEDS", allow_hyphen_values = true, conflicts_with = "seed")]
    seeds: Option<SeedList>,
}

impl SeededScenario {
    pub(crate) fn path(&self) -> &Path {
        &self.one.path
    }

    /// The overrides of the file. `--seeds` together with `--set seed=` is an error.
    pub(crate) fn overrides(&self) -> Result<Vec<Override>> {
        let Some(seeds) = &self.seeds else { return self.one.overrides() };
        let mut set = self.one.set()?;
        workbench::only_seeds("--seeds", &set)?;
        if let [seed] = seeds.seeds() {
            set.push(of_seed("--seeds", *seed));
        }
        Ok(set)
    }

    /// The seeds, if there are several.
    pub(crate) fn several_seeds(&self) -> Option<&SeedList> {
        self.seeds.as_ref().filter(|list| list.seeds().len() > 1)
    }
}

/// Format and destination of an import or export.
#[derive(Debug, Group)]
pub(crate) struct InteropArgs {
    /// File format: HPCC's ns-3 (topology.txt, flow.txt), htsim (.topo, .cm), or a list of links
    /// (one `a b rate delay` per line) with a trace
    #[arg(long = "as", value_name = "FORMAT", value_parser = formats())]
    pub(crate) format: Format,
    /// Write to this folder; it is created
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Replace existing files
    #[arg(long)]
    pub(crate) force: bool,
}

/// Parses the name of a format.
pub(crate) fn formats() -> impl TypedValueParser<Value = Format> {
    let names = PossibleValuesParser::new(Format::ALL.map(Format::name));
    names.try_map(|name| Format::find(&name))
}

/// Options of a run.
#[derive(Debug, Group)]
pub(crate) struct RunArgs {
    /// Maximum number of threads (default: one per core); results do not depend on it
    #[arg(
        long, value_name = "N", allow_negative_numbers = true,
        value_parser = whole::<1, THREADS_MAX, u64>
    )]
    pub(crate) threads: Option<u64>,
    /// Divide the fabric into this number of partitions, each on its own thread, even if that is
    /// slower: for tests of determinism
    #[arg(long, value_name = "N", hide = true)]
    #[arg(value_parser = whole::<1, THREADS_MAX, u64>, allow_negative_numbers = true)]
    pub(crate) partitions: Option<u64>,
    /// Write results to this folder; it is created
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub(crate) out: Option<PathBuf>,
    /// Replace existing results
    #[arg(long)]
    pub(crate) force: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

impl RunArgs {
    /// The folder of results, if the text output names it.
    pub(crate) fn announced_out(&self) -> Option<&Path> {
        self.out.as_deref().filter(|_| !self.json)
    }
}

/// Amount of output on stderr.
#[derive(Clone, Copy, Debug, Group)]
pub(crate) struct Verbosity {
    /// Print no progress and no warnings
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Also print the resolved settings of scenarios, and each step
    #[arg(short, long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
}

impl Verbosity {
    /// Prints a warning, unless `--quiet` is set.
    pub(crate) fn warn(self, warning: &str) {
        if !self.quiet {
            print_stderr(&format!("warning: {warning}"));
        }
    }

    /// The function that prints the resolved settings, if `--verbose` is set.
    pub(crate) fn notice(self) -> Option<Notice<'static>> {
        if self.verbose { Some(&print_stderr) } else { None }
    }
}

/// Where results of runs are cached.
#[derive(Debug, Group)]
pub(crate) struct CacheArgs {
    /// Cache runs in this folder (default: one in the user's cache folder)
    #[arg(long, value_name = "DIR", conflicts_with = "no_cache")]
    cache: Option<PathBuf>,
    /// Repeat every run and cache nothing
    #[arg(long)]
    no_cache: bool,
}

impl CacheArgs {
    /// The cache folder, if any. A named folder must be writable. If the default folder is not
    /// writable, a warning is printed and runs are not cached.
    pub(crate) fn folder(&self, verbosity: Verbosity) -> Result<Option<PathBuf>> {
        if self.no_cache {
            return Ok(None);
        }
        if let Some(folder) = &self.cache {
            return workbench::can_keep(folder).map(|()| Some(folder.clone()));
        }
        let own = workbench::default_cache().filter(|folder| match workbench::can_keep(folder) {
            Ok(()) => true,
            Err(error) => {
                verbosity.warn(&error.to_string());
                false
            }
        });
        Ok(own)
    }
}

/// The packets to capture.
#[derive(Debug, Default, Group)]
pub(crate) struct Packets {
    /// Capture packets to this file (pcapng)
    #[arg(long, value_name = "FILE", conflicts_with = "seeds")]
    pub(crate) pcap: Option<PathBuf>,
    /// Capture packets that enter these links: the name of a host, a switch or a link (`h0->s0`),
    /// with `*`, `?` and ranges such as `[0-3]`; repeatable (default: all links of hosts)
    #[arg(long, value_name = "GLOB", requires = "pcap")]
    pub(crate) pcap_of: Vec<String>,
}

impl Packets {
    /// The capture, if requested.
    pub(crate) fn capture(&self) -> Option<Capture<'_>> {
        self.pcap.as_ref().map(|file| Capture { file, of: &self.pcap_of })
    }
}

/// Parses the name of a folder. `-`, which usually means stdout, is refused.
pub(crate) fn folder() -> impl TypedValueParser<Value = PathBuf> {
    no_stdout("results are files and cannot go to stdout: name a folder")
}

/// Parses the name of an output file.
pub(crate) fn file() -> impl TypedValueParser<Value = PathBuf> {
    no_stdout("the page cannot go to stdout: name a file")
}

fn no_stdout(message: &'static str) -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(
        move |path| {
            if path.as_os_str() == "-" { Err(message) } else { Ok(path) }
        },
    )
}

/// Parses a name in a list, without surrounding blanks.
pub(crate) fn name(text: &str) -> std::result::Result<String, String> {
    let name = text.trim();
    let empty = "a name is missing before or after a comma";
    if name.is_empty() { Err(empty.to_owned()) } else { Ok(name.to_owned()) }
}

/// The largest seed, as in scenarios.
pub(crate) const SEED_MAX: u64 = i64::MAX as u64;
pub(crate) const THREADS_MAX: u64 = 65_535;

/// Parses a whole number from `MIN` to `MAX`.
pub(crate) fn whole<const MIN: u64, const MAX: u64, T: TryFrom<u64>>(
    text: &str,
) -> std::result::Result<T, String> {
    let number = text.parse().ok().filter(|number| (MIN..=MAX).contains(number));
    let number = number.and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| format!("expected a whole number from {MIN} to {MAX}"))
}

/// Refuses `--force` if the run writes nothing.
pub(crate) fn check_force(how: &RunArgs, captures: bool) -> Result<()> {
    if !how.force || how.out.is_some() || captures {
        return Ok(());
    }
    let message = "replaces output files, but this run writes none: name a folder with --out, or \
        a file with --pcap";
    Err(Error::Usage { option: "--force", message: message.to_owned() })
}

/// Selects all protocols that can run a scenario.
pub(crate) const ALL: &str = "all";

/// The protocols that can run a scenario. A warning names the others, with the reason.
pub(crate) fn runnable(
    path: &Path,
    overrides: &[Override],
    verbosity: Verbosity,
) -> Result<Vec<String>> {
    let runnable = workbench::runnable_protocols(path, overrides)?;
    for (names, why) in &runnable.refused {
        verbosity.warn(&format!("skipped {}: {why}", names.join(", ")));
    }
    Ok(runnable.protocols)
}
