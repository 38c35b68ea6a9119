//! Compares the endpoint with kernel TCP, QUIC and bare UDP over two network namespaces, which this
//! program creates and removes. Needs Linux and root.
//!
//! A [system](system) is a server and a sender of messages, each a process in its own namespace.
//! Rounds alternate between systems, so that other load of the machine affects all of them equally.

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

use crate::process::{Place, Report};
use crate::record::Recorder;
use crate::rounds::Rounds;
use crate::system::{Choice, Load};

/// Compares the endpoint with kernel TCP, QUIC and bare UDP
#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure goodput, and goodput per CPU second
    Bulk {
        /// Systems: tcp- and a congestion control of the kernel, such as tcp-cubic or, if `tidegate
        /// kernel load` has loaded it, tcp-tg_poseidon; quinn; or a protocol of the catalog without
        /// switch requirements, which polls its socket before it sleeps with +poll
        #[arg(long, value_delimiter = ',', value_name = "A,B,…")]
        #[arg(default_value = "tcp-cubic,tcp-bbr,quinn,swift,theta-powertcp")]
        systems: Vec<Choice>,
        /// Size of a message in bytes
        #[arg(long, value_name = "N", default_value_t = 1 << 20)]
        #[arg(value_parser = clap::value_parser!(u32).range(1..=64_000_000))]
        bytes: u32,
        /// Number of concurrent messages
        #[arg(long, value_name = "N", default_value_t = 4)]
        #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
        ahead: u16,
        #[command(flatten)]
        how: How,
    },
    /// Measure the time of 8-byte messages and their answers, one at a time
    Latency {
        /// Systems as for bulk, and udp: a bare ping-pong
        #[arg(long, value_delimiter = ',', value_name = "A,B,…")]
        #[arg(default_value = "udp,tcp-cubic,quinn,swift,udp+poll,swift+poll")]
        systems: Vec<Choice>,
        #[command(flatten)]
        how: How,
    },
    /// Measure message times when many hosts send to one at once through a software switch
    Incast(incast::Incast),
    /// One run of incast
    #[command(hide = true)]
    IncastOnce(incast::Once),
    /// The server: receives messages and answers them
    #[command(hide = true)]
    Serve {
        system: Choice,
        at: SocketAddr,
        #[command(flatten)]
        place: Place,
    },
    /// The sender of messages
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

/// Options of bulk and latency.
#[derive(Debug, Args)]
struct How {
    /// Number of rounds; each measures every system once
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1_000))]
    rounds: u16,
    /// MTUs of the link
    #[arg(long, value_delimiter = ',', value_name = "BYTES,…", default_value = "1500,9000")]
    #[arg(value_parser = clap::value_parser!(u32).range(1_280..=9_000))]
    mtu: Vec<u32>,
    /// Measured time in seconds
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    seconds: f64,
    /// Warm-up in seconds
    #[arg(long, value_name = "S", default_value = "0.5", value_parser = seconds)]
    warmup: f64,
    /// Keep segmentation and coalescing of the link enabled (default: disabled at both ends)
    #[arg(long)]
    offloads: bool,
    /// Print JSON with every round
    #[arg(long)]
    json: bool,
}

/// Parses a number of seconds.
fn seconds(text: &str) -> std::result::Result<f64, String> {
    let found = text.parse().ok().filter(|seconds| (0.01..=600.0).contains(seconds));
    found.ok_or_else(|| "expected 0.01 to 600 seconds".to_owned())
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
                    bail!("{none} has no congestion control: it supports only latency");
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
                    .serve(at, &mut |word| process::report(&Report::Ready(word.into())))
            }),
            Command::Send { system, to, place, word, load, warmup, seconds } => {
                process::end(&place, || {
                    let [warmup, seconds] = [warmup, seconds].map(Duration::from_secs_f64);
                    let recorder = Recorder::new(load.bytes, warmup, seconds);
                    system.system(place.mtu)?.send(to, &word, load, &|took| recorder.done(took))?;
                    ensure!(
                        recorder.is_over(),
                        "the sender ended before the measurement was complete"
                    );
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
