//! The command-line arguments.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args as Group, Parser, Subcommand};
use clap_complete::Shell;
use tidegate_workbench::{self as workbench, Capture, Format, Notice, Override, SeedList};

use crate::reproduce::{Report, Reproduce};
use crate::sweep::SweepArgs;
use crate::switch::Switch;
use crate::{Result, print_stderr};

/// Simulates and compares datacenter transports.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one scenario
    Run {
        #[command(flatten)]
        scenario: Scenario,
        #[command(flatten)]
        how: RunArgs,
        #[command(flatten)]
        packets: Packets,
        /// Only estimate what it takes
        #[arg(long)]
        dry_run: bool,
    },
    /// Run one scenario under several protocols, side by side
    Compare {
        #[command(flatten)]
        scenario: Scenario,
        /// Protocols, separated by commas, or `all` for every protocol that can run the scenario;
        /// see `tidegate protocols`
        #[arg(
            long, value_name = "A,B,…", value_delimiter = ',', required = true,
            value_parser = name
        )]
        protocols: Vec<String>,
        /// With several seeds: the protocol that others are compared with, seed by seed (default:
        /// the first)
        #[arg(long, value_name = "PROTOCOL")]
        baseline: Option<String>,
        #[command(flatten)]
        how: RunArgs,
        /// Only estimate the cost of the runs
        #[arg(long)]
        dry_run: bool,
    },
    /// Run one scenario many times, with varied keys and seeds
    Sweep(SweepArgs),
    /// Reproduce the figures and claims of papers
    Reproduce(Reproduce),
    /// Write one HTML page with plots from folders of results
    Report(Report),
    /// List the protocols, or describe one: its switch requirements and parameters
    Protocols {
        /// The protocol to describe
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a scenario template with all keys as comments; without a name, list the fabrics
    New {
        /// The fabric: that of a paper, or a generated kind
        fabric: Option<String>,
    },
    /// Convert another simulator's files to a scenario
    Import {
        /// A fabric file, or a fabric file and a flow file; with --fabric, a flow file only
        #[arg(required = true, num_args = 1..=2)]
        files: Vec<PathBuf>,
        /// The fabric of the flows: a scenario file, whose own flows are replaced, or a fabric
        /// name of `tidegate new`
        #[arg(long, value_name = "SCENARIO")]
        fabric: Option<String>,
        #[command(flatten)]
        exchanged: Exchanged,
    },
    /// Convert a scenario's fabric and flows to another simulator's files
    Export {
        #[command(flatten)]
        scenario: Scenario,
        #[command(flatten)]
        exchanged: Exchanged,
    },
    /// Receive messages over UDP and answer requests
    #[cfg(target_os = "linux")]
    Serve(crate::net::Serve),
    /// Send messages over UDP to a `serve` endpoint and measure
    #[cfg(target_os = "linux")]
    Send(crate::net::Send),
    /// Run one scenario over UDP: one process per host, and a software switch
    #[cfg(target_os = "linux")]
    Testbed(crate::testbed::Testbed),
    /// Run as one host of a testbed; the testbed starts this command
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    TestbedHost,
    /// Forward UDP datagrams as a switch of the simulator does (Linux)
    Switch(Switch),
    /// Print a Wireshark dissector for captured packets
    Dissector,
    /// Print the JSON Schema of scenario files
    Schema,
    /// Print the manual page (for `man -l -`)
    Man {
        /// Write one page per subcommand to this folder instead
        #[arg(long, value_name = "DIR", value_parser = folder())]
        out: Option<PathBuf>,
    },
    /// Print a script that completes this command line in a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// The scenario and its overrides.
#[derive(Debug, Group)]
pub(crate) struct Scenario {
    /// Scenario file (TOML)
    #[arg(value_name = "SCENARIO")]
    pub(crate) path: PathBuf,
    /// Override a key of the scenario, e.g. `fabric.mtu=1500B`; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seed of all randomness
    #[arg(
        long, value_name = "N", allow_negative_numbers = true,
        value_parser = whole::<0, SEED_MAX>
    )]
    seed: Option<u64>,
    /// Run under several seeds and show means with 95 % intervals: a count (`5`: seeds 1 to 5), an
    /// inclusive range (`1..5`), or a list (`1,4,7`)
    #[arg(long, value_name = "SEEDS", allow_hyphen_values = true, conflicts_with = "seed")]
    seeds: Option<SeedList>,
}

impl Scenario {
    /// The overrides of the file. `--seed` takes precedence over `--set seed=`; `--seeds` together
    /// with `--set seed=` is an error.
    pub(crate) fn overrides(&self) -> Result<Vec<Override>> {
        let mut set: Vec<Override> =
            self.set.iter().map(|argument| workbench::set(argument)).collect::<Result<_>>()?;
        if self.seeds.is_some() {
            workbench::only_seeds(&set)?;
        }
        let one = match self.seeds.as_ref().map(SeedList::seeds) {
            Some([seed]) => Some(("--seeds", *seed)),
            _ => self.seed.map(|seed| ("--seed", seed)),
        };
        set.extend(one.map(|(option, seed)| Override::option(option, "seed", &seed.to_string())));
        Ok(set)
    }

    /// The seeds, if there are several.
    pub(crate) fn several_seeds(&self) -> Option<&SeedList> {
        self.seeds.as_ref().filter(|list| list.seeds().len() > 1)
    }
}

/// Format and destination of an import or export.
#[derive(Debug, Group)]
pub(crate) struct Exchanged {
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
fn formats() -> impl TypedValueParser<Value = Format> {
    let names = PossibleValuesParser::new(Format::ALL.map(Format::name));
    names.try_map(|name| Format::find(&name))
}

/// Options of a run.
#[derive(Debug, Group)]
pub(crate) struct RunArgs {
    /// Maximum number of threads (default: one per core); results do not depend on it
    #[arg(
        long, value_name = "N", allow_negative_numbers = true,
        value_parser = whole::<1, THREADS_MAX>
    )]
    pub(crate) threads: Option<u64>,
    /// Divide the fabric into this number of partitions, each on its own thread, even if that is
    /// slower: for tests of determinism
    #[arg(long, value_name = "N", hide = true, value_parser = whole::<1, THREADS_MAX>)]
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

/// RunArgs much is printed on stderr.
#[derive(Clone, Copy, Debug, Group)]
pub(crate) struct Verbosity {
    /// Print errors only: no progress, no warnings
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Also print the resolved settings of the scenario, and each step of the run
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
    /// with `*` and `?`; repeatable (default: all links of hosts)
    #[arg(long, value_name = "GLOB", requires = "pcap")]
    pub(crate) pcap_of: Vec<String>,
}

impl Packets {
    /// The capture, if requested.
    pub(crate) fn capture(&self) -> Option<Capture<'_>> {
        self.pcap.as_ref().map(|file| Capture { file, of: &self.pcap_of })
    }
}

/// Options whose value is a list.
const LISTS: [&str; 3] = ["--protocols", "--vary", "--seeds"];

/// Rejoins lists that the shell divided at blanks beside commas (`--seeds 1, 2`) into one word.
/// Otherwise a comma at the end of a list remains an error.
pub(crate) fn rejoined(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    // Whether the last word belongs to a list, and whether the next word begins one.
    let (mut in_list, mut begins) = (false, false);
    for word in words {
        let text = word.to_str().unwrap_or("");
        let last = joined.last().and_then(|last| last.to_str()).unwrap_or("");
        let is_option = text.strip_prefix('-').is_some_and(|rest| !rest.starts_with(is_digit));
        if in_list && !is_option && (last.ends_with(',') || text.starts_with(',')) {
            joined.last_mut().expect("a list is in it").push(word);
            continue;
        }
        in_list = begins || LISTS.iter().any(|list| is_set(text, list));
        begins = !begins && LISTS.contains(&text);
        joined.push(word);
    }
    joined
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

/// Whether a word is an option with its value: `--seeds=1`.
fn is_set(word: &str, option: &str) -> bool {
    word.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
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
fn name(text: &str) -> std::result::Result<String, String> {
    let name = text.trim();
    let empty = "a name is missing before or after a comma";
    if name.is_empty() { Err(empty.to_owned()) } else { Ok(name.to_owned()) }
}

/// The largest whole number in TOML.
const SEED_MAX: u64 = i64::MAX as u64;
const THREADS_MAX: u64 = 65_535;

/// Parses a whole number from `MIN` to `MAX`.
fn whole<const MIN: u64, const MAX: u64>(text: &str) -> std::result::Result<u64, String> {
    let number = text.parse().ok().filter(|number| (MIN..=MAX).contains(number));
    number.ok_or_else(|| format!("expected a whole number from {MIN} to {MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn rejoined_lists() {
        let rejoined = |line: &str| {
            let words = rejoined(line.split(' ').map(OsString::from)).into_iter();
            words.map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join(" ")
        };
        for (line, expected) in [
            ("x --protocols a, b -q", "x --protocols a,b -q"),
            ("--protocols=a, b , c x.toml", "--protocols=a,b,c x.toml"),
            ("--protocols a ,b x.toml", "--protocols a,b x.toml"),
            ("--vary k=[1, 2], -3 --seeds 1, 2", "--vary k=[1,2],-3 --seeds 1,2"),
            ("--protocols a, --seeds 1, 2", "--protocols a, --seeds 1,2"),
            ("--protocols a,b x.toml ,c", "--protocols a,b x.toml ,c"),
            ("--set name=a, b", "--set name=a, b"),
            ("run a, b", "run a, b"),
            ("--protocols", "--protocols"),
            ("--vary --protocols a, b", "--vary --protocols a, b"),
        ] {
            assert_eq!(rejoined(line), expected, "{line}");
        }
    }

    #[test]
    fn arguments_are_consistent() {
        Args::command().debug_assert();
    }
}
