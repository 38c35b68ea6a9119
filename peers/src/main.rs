//! The endpoint beside kernel TCP, QUIC and bare UDP, over a pair of network namespaces that this
//! program makes and removes. Linux, as root.
//!
//! A [system](system) is something that serves and something that sends messages, each a process
//! in a namespace of its own; rounds alternate between systems, so that what else the machine does
//! hits all of them alike.

mod endpoint;
mod incast;
mod namespaces;
mod process;
mod quic;
mod rack;
mod record;
mod rounds;
mod system;
mod table;
mod tcp;
mod udp;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::{Args, Parser, Subcommand};

use crate::process::{Place, Said};
use crate::record::Recorder;
use crate::rounds::Rounds;
use crate::system::{Choice, Load};

/// The endpoint beside kernel TCP, QUIC and bare UDP
#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Goodput, and goodput a second of processor time
    Bulk {
        /// What is compared: tcp-cubic, tcp-bbr, quinn, or a protocol of the catalog that needs
        /// nothing of switches; with +poll it looks at its socket for a while before it sleeps
        #[arg(long, value_delimiter = ',', value_name = "A,B,…")]
        #[arg(default_value = "tcp-cubic,tcp-bbr,quinn,swift,theta-powertcp")]
        systems: Vec<Choice>,
        /// Bytes of a message
        #[arg(long, value_name = "N", default_value_t = 1 << 20)]
        #[arg(value_parser = clap::value_parser!(u32).range(1..=64_000_000))]
        bytes: u32,
        /// Messages at a time
        #[arg(long, value_name = "N", default_value_t = 4)]
        #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
        ahead: u16,
        #[command(flatten)]
        how: How,
    },
    /// How long a message of 8 bytes and its answer take, one at a time
    Latency {
        /// As for bulk, and udp: a bare ping-pong
        #[arg(long, value_delimiter = ',', value_name = "A,B,…")]
        #[arg(default_value = "udp,tcp-cubic,quinn,swift,udp+poll,swift+poll")]
        systems: Vec<Choice>,
        #[command(flatten)]
        how: How,
    },
    /// How long messages of many hosts take that all send to one at once, through a software switch
    Incast(incast::Incast),
    /// One run of that
    #[command(hide = true)]
    IncastOnce(incast::Once),
    /// One end: takes messages and answers them
    #[command(hide = true)]
    Serve {
        system: Choice,
        at: SocketAddr,
        #[command(flatten)]
        place: Place,
    },
    /// One end: sends messages
    #[command(hide = true)]
    Send {
        system: Choice,
        to: SocketAddr,
        #[command(flatten)]
        place: Place,
        #[arg(long)]
        word: String,
        #[command(flatten)]
        load: Load,
        #[arg(long)]
        warmup: f64,
        #[arg(long)]
        seconds: f64,
    },
}

/// How both are measured.
#[derive(Debug, Args)]
struct How {
    /// Rounds, in each of which every system has its turn
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1_000))]
    rounds: u16,
    /// MTUs of the link
    #[arg(long, value_delimiter = ',', value_name = "BYTES,…", default_value = "1500,9000")]
    #[arg(value_parser = clap::value_parser!(u32).range(1_280..=9_000))]
    mtu: Vec<u32>,
    /// Seconds that are measured
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    seconds: f64,
    /// Seconds before that
    #[arg(long, value_name = "S", default_value = "0.5", value_parser = seconds)]
    warmup: f64,
    /// Leave the link's segmentation and coalescing on, which are off otherwise at both ends
    #[arg(long)]
    offloads: bool,
    /// Print JSON, with every round
    #[arg(long)]
    json: bool,
}

/// Reads a number of seconds.
fn seconds(text: &str) -> std::result::Result<f64, String> {
    let found = text.parse().ok().filter(|seconds| (0.01..=600.0).contains(seconds));
    found.ok_or_else(|| "expected seconds, 0.01 to 600".to_owned())
}

fn main() -> ExitCode {
    match Cli::parse().command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why:#}");
            ExitCode::FAILURE
        }
    }
}

impl Command {
    fn run(self) -> Result<()> {
        match self {
            Command::Bulk { systems, bytes, ahead, how } => {
                if let Some(none) = systems.iter().find(|system| !system.carries_bulk()) {
                    bail!("{none} has no congestion control: it is for latency alone");
                }
                let load = Load { bytes: bytes as usize, ahead: ahead.into() };
                how.measure(systems, load, table::bulk)
            }
            Command::Latency { systems, how } => {
                how.measure(systems, Load { bytes: 8, ahead: 1 }, table::latency)
            }
            Command::Incast(incast) => incast.run(),
            Command::IncastOnce(once) => once.run(),
            Command::Serve { system, at, place } => process::end(&place, || {
                system
                    .system(place.mtu)?
                    .serve(at, &mut |word| process::say(&Said::Ready(word.into())))
            }),
            Command::Send { system, to, place, word, load, warmup, seconds } => {
                process::end(&place, || {
                    let [warmup, seconds] = [warmup, seconds].map(Duration::from_secs_f64);
                    let recorder = Recorder::new(load.bytes, warmup, seconds);
                    system.system(place.mtu)?.send(to, &word, load, &|took| recorder.done(took))?;
                    ensure!(recorder.is_over(), "it ended before it had measured");
                    Ok(())
                })
            }
        }
    }
}

impl How {
    fn measure(self, systems: Vec<Choice>, load: Load, table: table::Table) -> Result<()> {
        let How { rounds, mtu: mtus, seconds, warmup, offloads, json } = self;
        let rounds =
            Rounds { count: rounds.into(), mtus, systems, load, warmup, seconds, offloads };
        let rows = rounds.run()?;
        if json {
            println!("{}", serde_json::to_string_pretty(&rows)?);
        } else {
            println!("{}", table(&rows));
        }
        Ok(())
    }
}
