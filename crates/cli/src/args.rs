//! The command-line arguments.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use crate::bundle::{Bundle, Verify};
use crate::options::*;
use crate::reproduce::{Report, Reproduce};
use crate::sweep::SweepArgs;
use crate::switch::Switch;
use crate::tune::Tune;
use crate::workload::Workload;

/// Maximum width of help.
const WIDTH: usize = 100;

/// Simulates and compares datacenter transports.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, max_term_width = WIDTH, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Args {
    /// Parses the words of a command line. Help is at most `width` columns wide.
    pub(crate) fn parsed(words: Vec<OsString>, width: Option<usize>) -> Result<Args, clap::Error> {
        let command = Args::command();
        let command = match width {
            Some(width) => command.term_width(width.min(WIDTH)),
            None => command,
        };
        Args::from_arg_matches(&command.try_get_matches_from(words)?)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one scenario
    Run {
        #[command(flatten)]
        scenario: SeededScenario,
        #[command(flatten)]
        how: RunArgs,
        #[command(flatten)]
        packets: Packets,
        /// Only estimate the cost of the run, and print its warnings
        #[arg(long)]
        dry_run: bool,
    },
    /// Run one scenario under several protocols, side by side
    Compare {
        #[command(flatten)]
        scenario: SeededScenario,
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
        /// Only estimate the cost of the runs, and print their warnings
        #[arg(long)]
        dry_run: bool,
    },
    /// Run one scenario many times, with varied keys and seeds
    Sweep(SweepArgs),
    /// Search for the parameters of protocols that are best on one scenario (Python package)
    Tune(Box<Tune>),
    /// Make scenarios from your own traffic: a list of flows or a packet capture
    #[command(subcommand)]
    Workload(Box<Workload>),
    /// Reproduce the figures and claims of papers
    Reproduce(Reproduce),
    /// Write one HTML page with plots from folders of results
    Report(Report),
    /// Pack results, their scenarios and a report into one archive that others can verify
    Bundle(Bundle),
    /// Repeat the runs of a bundle, and compare the results byte for byte
    Verify(Verify),
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
        interop: InteropArgs,
    },
    /// Convert a scenario's fabric and flows to another simulator's files
    Export {
        #[command(flatten)]
        scenario: Scenario,
        #[command(flatten)]
        interop: InteropArgs,
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
    /// Load congestion controls and telemetry into the Linux kernel (eBPF, root)
    #[cfg(all(feature = "kernel", target_os = "linux"))]
    #[command(subcommand)]
    Kernel(crate::kernel::Kernel),
    /// Load congestion controls and telemetry into the Linux kernel (not in this build)
    #[cfg(not(all(feature = "kernel", target_os = "linux")))]
    #[command(hide = true, disable_help_flag = true)]
    Kernel {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
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
