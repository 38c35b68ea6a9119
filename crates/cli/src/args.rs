//! The arguments, as people write them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args as Group, Parser, Subcommand};
use clap_complete::Shell;
use tidegate_workbench::{self as workbench, Capture, Format, Notice, Override, SeedList};

use crate::reproduce::{Report, Reproduce};
use crate::sweep::SweepArgs;
use crate::switch::Switch;
use crate::{Result, complain};

/// Datacenter transports, simulated and compared.
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
        how: How,
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
        /// Protocols, separated by commas, or `all` that the scenario can run under; see `tidegate
        /// protocols`
        #[arg(
            long, value_name = "A,B,…", value_delimiter = ',', required = true,
            value_parser = name
        )]
        protocols: Vec<String>,
        /// Of several seeds, compare with this protocol, seed by seed (default: the first)
        #[arg(long, value_name = "PROTOCOL")]
        baseline: Option<String>,
        #[command(flatten)]
        how: How,
        /// Only estimate what it takes
        #[arg(long)]
        dry_run: bool,
    },
    /// Run one scenario many times, with other values of some keys and other seeds
    Sweep(SweepArgs),
    /// Reproduce the figures and claims of papers
    Reproduce(Reproduce),
    /// Make one page, with plots, from folders of results
    Report(Report),
    /// List the protocols, or describe one: what it needs of switches, and its parameters
    Protocols {
        /// The protocol to describe
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a scenario to begin with, all its keys in comments; without a name, list
    /// the fabrics
    New {
        /// The fabric: a paper's, or a kind that is generated
        fabric: Option<String>,
    },
    /// Make a scenario of another simulator's files
    Import {
        /// A fabric, or a fabric and flows; with --fabric flows alone
        #[arg(required = true, num_args = 1..=2)]
        files: Vec<PathBuf>,
        /// The fabric that the flows are for: a scenario file, of which all but the flows is kept,
        /// or a fabric as of `tidegate new`
        #[arg(long, value_name = "SCENARIO")]
        fabric: Option<String>,
        #[command(flatten)]
        exchanged: Exchanged,
    },
    /// Write a scenario's fabric and flows as another simulator reads them
    Export {
        #[command(flatten)]
        scenario: Scenario,
        #[command(flatten)]
        exchanged: Exchanged,
    },
    /// Take real messages over UDP, and answer requests
    #[cfg(target_os = "linux")]
    Serve(crate::net::Serve),
    /// Send real messages to who serves, and measure
    #[cfg(target_os = "linux")]
    Send(crate::net::Send),
    /// Run one scenario with real packets: a process for each host, a switch in software
    #[cfg(target_os = "linux")]
    Testbed(crate::testbed::Testbed),
    /// Be a host of a testbed, which starts it
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    TestbedHost,
    /// Forward real UDP datagrams as a switch of the simulator would (Linux)
    Switch(Switch),
    /// Print a dissector of captured packets for Wireshark
    Dissector,
    /// Print the JSON Schema of scenario files
    Schema,
    /// Print the manual page (for `man -l -`)
    Man {
        /// Write a page for each subcommand to this folder instead
        #[arg(long, value_name = "DIR", value_parser = folder())]
        out: Option<PathBuf>,
    },
    /// Print a script that completes this command line in a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Which scenario.
#[derive(Debug, Group)]
pub(crate) struct Scenario {
    /// Scenario file (TOML)
    #[arg(value_name = "SCENARIO")]
    pub(crate) path: PathBuf,
    /// Change a key of the scenario, `fabric.mtu=1500B` say; may stand several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seed of all randomness
    #[arg(
        long, value_name = "N", allow_negative_numbers = true,
        value_parser = whole::<0, SEED_MAX>
    )]
    seed: Option<u64>,
    /// Run it under several seeds, and show means with 95 % intervals: how many (`5`: 1 to 5), a
    /// range with both its ends (`1..5`), or a list (`1,4,7`)
    #[arg(long, value_name = "SEEDS", allow_hyphen_values = true, conflicts_with = "seed")]
    seeds: Option<SeedList>,
}

impl Scenario {
    /// What is to be changed in the file; `--seed` wins over `--set seed=`, beside which a list of
    /// seeds is refused.
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

    /// The seeds, where they are several.
    pub(crate) fn several_seeds(&self) -> Option<&SeedList> {
        self.seeds.as_ref().filter(|list| list.seeds().len() > 1)
    }
}

/// Whose files, and where they or what is made of them goes.
#[derive(Debug, Group)]
pub(crate) struct Exchanged {
    /// Whose files: HPCC's ns-3 (topology.txt, flow.txt), htsim's (.topo, .cm), or a list of links
    /// (`a b rate delay` a line) with a trace
    #[arg(long = "as", value_name = "FORMAT", value_parser = formats())]
    pub(crate) format: Format,
    /// Write to this folder, which is created
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Replace what is already there
    #[arg(long)]
    pub(crate) force: bool,
}

/// A format by its name.
fn formats() -> impl TypedValueParser<Value = Format> {
    let names = PossibleValuesParser::new(Format::ALL.map(Format::name));
    names.try_map(|name| Format::find(&name))
}

/// How to run it.
#[derive(Debug, Group)]
pub(crate) struct How {
    /// Use at most so many threads (default: one a core); results do not depend on it
    #[arg(
        long, value_name = "N", allow_negative_numbers = true,
        value_parser = whole::<1, THREADS_MAX>
    )]
    pub(crate) threads: Option<u64>,
    /// Divide the fabric into so many partitions, each on a thread of its own, whether or not that
    /// pays: for tests of determinism
    #[arg(long, value_name = "N", hide = true, value_parser = whole::<1, THREADS_MAX>)]
    pub(crate) partitions: Option<u64>,
    /// Write results to this folder, which is created
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub(crate) out: Option<PathBuf>,
    /// Replace what is already where results go
    #[arg(long)]
    pub(crate) force: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) voice: Voice,
}

impl How {
    /// The folder of results, where people are told of it.
    pub(crate) fn told(&self) -> Option<&Path> {
        self.out.as_deref().filter(|_| !self.json)
    }
}

/// How much is told on stderr.
#[derive(Clone, Copy, Debug, Group)]
pub(crate) struct Voice {
    /// Tell of errors alone: no progress, no warnings
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Also tell what is run: the settings that the scenario comes to, and what is done meanwhile
    #[arg(short, long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
}

impl Voice {
    /// Warns, unless that is not wanted.
    pub(crate) fn warn(self, warning: &str) {
        if !self.quiet {
            complain(&format!("warning: {warning}"));
        }
    }

    /// Who tells what is run, if that is wanted.
    pub(crate) fn teller(self) -> Option<Notice<'static>> {
        if self.verbose { Some(&complain) } else { None }
    }
}

/// Where runs are kept.
#[derive(Debug, Group)]
pub(crate) struct Kept {
    /// Keep runs in this folder (default: one in the user's cache)
    #[arg(long, value_name = "DIR", conflicts_with = "no_cache")]
    cache: Option<PathBuf>,
    /// Run everything anew and keep nothing
    #[arg(long)]
    no_cache: bool,
}

impl Kept {
    /// The folder, if there is to be one. One that was named has to be writable; without the
    /// user's own, which is warned of, runs are only not kept.
    pub(crate) fn folder(&self, voice: Voice) -> Result<Option<PathBuf>> {
        if self.no_cache {
            return Ok(None);
        }
        if let Some(folder) = &self.cache {
            return workbench::can_keep(folder).map(|()| Some(folder.clone()));
        }
        let own = workbench::default_cache().filter(|folder| match workbench::can_keep(folder) {
            Ok(()) => true,
            Err(error) => {
                voice.warn(&error.to_string());
                false
            }
        });
        Ok(own)
    }
}

/// Which packets to capture.
#[derive(Debug, Default, Group)]
pub(crate) struct Packets {
    /// Capture packets to this file (pcapng)
    #[arg(long, value_name = "FILE", conflicts_with = "seeds")]
    pub(crate) pcap: Option<PathBuf>,
    /// Capture what leaves onto these links: name of a host, a switch or a link (`h0->s0`), with
    /// `*` and `?`; may stand several times (default: the links of hosts)
    #[arg(long, value_name = "GLOB", requires = "pcap")]
    pub(crate) pcap_of: Vec<String>,
}

impl Packets {
    /// What to capture, if anything.
    pub(crate) fn capture(&self) -> Option<Capture<'_>> {
        self.pcap.as_ref().map(|file| Capture { file, of: &self.pcap_of })
    }
}

/// Options whose value is a list.
const LISTS: [&str; 3] = ["--protocols", "--vary", "--seeds"];

/// The words of a command line as they were meant: a list that the shell divided at blanks beside
/// its commas is one word again. Elsewhere a comma at the end of a list is wrong.
pub(crate) fn rejoined(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    // Whether the last word ends in the value of a list, and whether the next one begins it.
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

/// Reads the name of a folder; `-`, which elsewhere means stdout, is none.
pub(crate) fn folder() -> impl TypedValueParser<Value = PathBuf> {
    no_stdout("stdout takes no files: name a folder")
}

/// Reads the name of a page.
pub(crate) fn file() -> impl TypedValueParser<Value = PathBuf> {
    no_stdout("a page is not written to stdout: name a file")
}

fn no_stdout(message: &'static str) -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(
        move |path| {
            if path.as_os_str() == "-" { Err(message) } else { Ok(path) }
        },
    )
}

/// A name in a list, without the blanks around it.
fn name(text: &str) -> std::result::Result<String, String> {
    let name = text.trim();
    let empty = "a name is missing beside a comma";
    if name.is_empty() { Err(empty.to_owned()) } else { Ok(name.to_owned()) }
}

/// TOML has no larger whole number.
const SEED_MAX: u64 = i64::MAX as u64;
const THREADS_MAX: u64 = 65_535;

/// A whole number from `MIN` to `MAX`.
fn whole<const MIN: u64, const MAX: u64>(text: &str) -> std::result::Result<u64, String> {
    let number = text.parse().ok().filter(|number| (MIN..=MAX).contains(number));
    number.ok_or_else(|| format!("expected a whole number from {MIN} to {MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn lists_that_the_shell_divided_are_whole_again() {
        let rejoined = |line: &str| {
            let words = rejoined(line.split(' ').map(OsString::from)).into_iter();
            words.map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join(" ")
        };
        for (line, meant) in [
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
            assert_eq!(rejoined(line), meant, "{line}");
        }
    }

    #[test]
    fn arguments_are_consistent() {
        Args::command().debug_assert();
    }
}
