//! Incast: many hosts send to one at the same time; measures their completion times.
//!
//! Each host has its own namespace behind a port of a software switch, and its link has the rate of
//! that port. Senders keep their connections. When all messages of a burst are answered, there is a
//! pause, after which each sender sends its next message, with jitter.

use std::fmt;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use signal_hook::consts::TERM_SIGNALS;
use tidegate_core::{Need, mix64};
use tidegate_switch::SoftwareSwitch;

use crate::rack::{MTU, PRIORITIES, RATE, Rack, address, enter, namespace, switch, within};
use crate::system::{Choice, Load};
use crate::table::{Spread, grid};

const PORT: u16 = 5_270;
/// Pause between two bursts.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum time for a message; a sender that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Minimum retransmission timeout of TCP with `+rto20ms` in place of 200 ms: that of the endpoint's
/// transports here.
const LEAST_TIMEOUT: &str = "20ms";
/// Functions that a software switch always has.
const SWITCHES: [Need; 4] = [Need::CoreEcn, Need::PeakHopDelay, Need::HopRecords, Need::Priorities];

/// A system with its TCP options.
#[derive(Clone, Copy, Debug)]
struct Contestant {
    system: Choice,
    ecn: bool,
    short: bool,
    trims: bool,
}

impl FromStr for Contestant {
    type Err = String;

    fn from_str(text: &str) -> Result<Contestant, String> {
        let mut words = text.split('+');
        let system = words.next().unwrap_or_default().parse()?;
        let mut contestant = Contestant { system, ecn: false, short: false, trims: false };
        for word in words {
            match word {
                "ecn" => contestant.ecn = true,
                "rto20ms" => contestant.short = true,
                "trim" => contestant.trims = true,
                _ => return Err(format!("found +{word}, expected +ecn, +rto20ms or +trim")),
            }
        }
        Ok(contestant)
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |on: bool, word: &'static str| if on { word } else { "" };
        write!(f, "{}{}", self.system, word(self.ecn, "+ecn"))?;
        write!(f, "{}{}", word(self.short, "+rto20ms"), word(self.trims, "+trim"))
    }
}

/// Options of the incast measurement.
#[derive(Debug, Args)]
pub(crate) struct Incast {
    /// tcp-cubic or tcp-bbr, with +rto20ms for a minimum retransmission timeout of 20 ms; or a
    /// protocol of the catalog, with +trim for packet trimming; both with +ecn for ECN
    #[arg(long, value_delimiter = ',', value_name = "A,B,…")]
    #[arg(default_value = "tcp-cubic,tcp-cubic+ecn,tcp-cubic+rto20ms,tcp-cubic+ecn+rto20ms,\
        tcp-bbr,tcp-bbr+rto20ms,sird,homa,poseidon,swift")]
    systems: Vec<Contestant>,
    #[command(flatten)]
    bursts: Bursts,
    /// Number of rounds; each measures every system once
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1_000))]
    rounds: u16,
    /// Print JSON with the time of every message
    #[arg(long)]
    json: bool,
}

/// Options of the senders.
#[derive(Clone, Copy, Debug, Args)]
struct Bursts {
    /// Number of sending hosts
    #[arg(long, value_name = "N", default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=100))]
    senders: u8,
    /// Size of a message in bytes
    #[arg(long, value_name = "N", default_value_t = 64_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64_000_000))]
    bytes: u32,
    /// Messages per sender
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    bursts: u32,
    /// Maximum delay of a sender after the begin of a burst, in microseconds
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    jitter_us: u64,
}

/// One system in one round, in its own process.
#[derive(Debug, Args)]
pub(crate) struct Once {
    system: Choice,
    #[arg(long)]
    rack: String,
    #[arg(long)]
    marks: bool,
    #[arg(long)]
    trims: bool,
    #[arg(long)]
    seed: u64,
    #[command(flatten)]
    bursts: Bursts,
}

/// Measurements of one round.
#[derive(Debug, Serialize, Deserialize)]
struct Sample {
    /// Times of all messages except each sender's first, from submission to answer, sorted.
    times_us: Vec<f64>,
    /// Drops at the port of the receiver.
    drops: u64,
    trims: u64,
    marks: u64,
    queue_bytes_max: f64,
    /// Lateness of the switch, and frames that the kernel lost beside it.
    late_us_p99: f64,
    lost_before: u64,
}

#[derive(Debug, Serialize)]
struct Row {
    system: String,
    samples: Vec<Sample>,
}

impl Incast {
    pub(crate) fn run(self) -> Result<()> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for &signal in TERM_SIGNALS {
            signal_hook::flag::register(signal, interrupted.clone())?;
        }
        let rack = Rack::new(self.bursts.senders + 1)?;
        let row = |system: &Contestant| Row { system: system.to_string(), samples: Vec::new() };
        let mut rows: Vec<Row> = self.systems.iter().map(row).collect();
        for round in 0..self.rounds {
            for (row, contestant) in rows.iter_mut().zip(&self.systems) {
                let sample = self.one(&rack, contestant, round);
                if interrupted.load(Ordering::Relaxed) {
                    bail!("interrupted");
                }
                let sample = sample.with_context(|| row.system.clone())?;
                eprintln!(
                    "round {} of {}, {}: p50 {:.0} ms, p99 {:.0} ms, {} dropped, {} trimmed, \
                     {} marked",
                    round + 1,
                    self.rounds,
                    row.system,
                    sample.at(0.5),
                    sample.at(0.99),
                    sample.drops,
                    sample.trims,
                    sample.marks
                );
                row.samples.push(sample);
            }
        }
        match self.json {
            true => println!("{}", serde_json::to_string(&rows)?),
            false => println!("{}", table(&rows)),
        }
        Ok(())
    }

    fn one(&self, rack: &Rack, contestant: &Contestant, round: u16) -> Result<Sample> {
        let Contestant { system, ecn, short, trims } = *contestant;
        rack.route(ecn, short.then_some(LEAST_TIMEOUT))?;
        let Bursts { senders, bytes, bursts, jitter_us } = self.bursts;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["incast-once", &system.to_string(), "--rack", &rack.name]);
        command.args(ecn.then_some("--marks"));
        command.args(trims.then_some("--trims"));
        command.args(["--seed", &round.to_string(), "--senders", &senders.to_string()]);
        command.args(["--bytes", &bytes.to_string(), "--bursts", &bursts.to_string()]);
        command.args(["--jitter-us", &jitter_us.to_string()]);
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        serde_json::from_slice(&output.stdout).context("the process printed no measurements")
    }
}

/// State shared by the senders.
struct Together {
    begin: Barrier,
    times_us: Mutex<Vec<f64>>,
}

/// A report of a sender: it has connected, or it has finished.
enum Report {
    Connected,
    Done(Result<()>),
}

impl Once {
    pub(crate) fn run(&self) -> Result<()> {
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        let hosts = self.bursts.senders + 1;
        let config = switch(hosts, self.marks, self.trims, self.seed);
        let mut switch =
            within(&namespace(&self.rack, None), || Ok(SoftwareSwitch::open(&config)?))?;
        let over = AtomicBool::new(false);
        let (times_us, report) = thread::scope(|scope| {
            let switch = scope.spawn(|| {
                let result = switch.run(|_| !over.load(Ordering::Relaxed));
                result.map(|()| switch.report())
            });
            let times_us = self.bursts();
            over.store(true, Ordering::Relaxed);
            let panicked = |_| anyhow::anyhow!("the switch has panicked");
            anyhow::Ok((times_us?, switch.join().map_err(panicked)??))
        })?;
        let port = &report.ports[0];
        let sample = Sample {
            times_us,
            drops: port.drops,
            trims: port.trims,
            marks: port.ecn_marks,
            queue_bytes_max: port.queue_bytes.max,
            late_us_p99: report.late_us.p99.unwrap_or_default(),
            lost_before: report.counts.overrun + report.counts.unsent,
        };
        println!("{}", serde_json::to_string(&sample)?);
        Ok(())
    }

    /// Functions of the switch.
    fn switches(&self) -> Vec<Need> {
        let more = [(Need::Ecn, self.marks), (Need::Trimming, self.trims)];
        let more = more.into_iter().filter_map(|(need, has)| has.then_some(need));
        SWITCHES.into_iter().chain(more).collect()
    }

    /// Runs all bursts and returns the times of all messages. Receiver and senders end with the
    /// process.
    fn bursts(&self) -> Result<Vec<f64>> {
        let Bursts { senders, bytes, bursts, jitter_us } = self.bursts;
        let (ready, word) = channel();
        let (system, at) = (self.system, SocketAddr::new(address(0), PORT));
        let receiver = namespace(&self.rack, Some(0));
        let switches = self.switches();
        thread::spawn(move || {
            let report = ready.clone();
            let serve = || {
                enter(&receiver)?;
                let system = system.behind(MTU, RATE, &switches, PRIORITIES)?;
                system.serve(at, &mut |word| drop(report.send(Ok(word.to_owned()))))
            };
            let end = serve();
            drop(ready.send(end.map(|()| String::new())));
        });
        let word = word.recv_timeout(TIMEOUT)??;
        let together = Arc::new(Together {
            begin: Barrier::new(senders.into()),
            times_us: Mutex::new(Vec::new()),
        });
        let (reports, reported) = channel();
        for sender in 1..=senders {
            let (there, word) = (namespace(&self.rack, Some(sender)), word.clone());
            let (together, reports) = (together.clone(), reports.clone());
            let seed = mix64(self.seed << 8 | u64::from(sender));
            let switches = self.switches();
            thread::spawn(move || {
                let send = || {
                    enter(&there)?;
                    let system = system.behind(MTU, RATE, &switches, PRIORITIES)?;
                    let sent = AtomicU32::new(0);
                    let load = Load { bytes: bytes as usize, ahead: 1 };
                    system.send(at, &word, load, &|took| {
                        let number = sent.fetch_add(1, Ordering::Relaxed);
                        together.next(number, took, &reports);
                        let jitter = mix64(seed ^ u64::from(number) << 32) % jitter_us;
                        let goes_on = number < bursts;
                        if goes_on {
                            together.begin.wait();
                            thread::sleep(PAUSE + Duration::from_micros(jitter));
                        }
                        goes_on
                    })
                };
                let end = send();
                drop(reports.send(Report::Done(end)));
            });
            // Connect one by one: queueing by others would distort the measured base RTT.
            match reported.recv_timeout(TIMEOUT).context("a host cannot connect")? {
                Report::Connected => {}
                Report::Done(end) => end?,
            }
        }
        for _ in 0..senders {
            let timeout = TIMEOUT * bursts;
            match reported.recv_timeout(timeout).context("a sender did not finish in time")? {
                Report::Done(end) => end?,
                Report::Connected => bail!("a host connected twice"),
            }
        }
        let mut times_us = together.times_us.lock().unwrap_or_else(PoisonError::into_inner).clone();
        times_us.sort_by(f64::total_cmp);
        Ok(times_us)
    }
}

impl Together {
    /// Records the time of a sender's message. The first is not counted, because it is sent alone.
    fn next(&self, number: u32, took: Duration, reports: &Sender<Report>) {
        if number == 0 {
            // The receiver lives as long as this process.
            let _ = reports.send(Report::Connected);
        } else {
            let mut times_us = self.times_us.lock().unwrap_or_else(PoisonError::into_inner);
            times_us.push(took.as_secs_f64() * 1e6);
        }
    }
}

impl Sample {
    /// A quantile of the times, in milliseconds.
    fn at(&self, quantile: f64) -> f64 {
        let last = self.times_us.len().saturating_sub(1) as f64;
        self.times_us.get((quantile * last).ceil() as usize).map_or(f64::NAN, |us| us / 1e3)
    }
}

fn table(rows: &[Row]) -> String {
    let mut grid = grid(&[
        "system",
        "p50 ms",
        "p99 ms",
        "max ms",
        "dropped",
        "trimmed",
        "marked",
        "queue KB",
        "late p99 us",
    ]);
    for Row { system, samples } in rows {
        let shown = |of: &dyn Fn(&Sample) -> f64, digits| {
            let spread = Spread::of(samples.iter().map(of));
            spread.map_or("-".to_owned(), |spread| spread.shown(digits))
        };
        grid.add_row([
            system.clone(),
            shown(&|sample| sample.at(0.5), 0),
            shown(&|sample| sample.at(0.99), 0),
            shown(&|sample| sample.at(1.0), 0),
            shown(&|sample| sample.drops as f64, 0),
            shown(&|sample| sample.trims as f64, 0),
            shown(&|sample| sample.marks as f64, 0),
            shown(&|sample| sample.queue_bytes_max / 1e3, 0),
            shown(&|sample| sample.late_us_p99, 0),
        ]);
    }
    let lost: u64 = rows.iter().flat_map(|row| &row.samples).map(|sample| sample.lost_before).sum();
    let (rounds, messages) =
        rows.first().map_or((0, 0), |row| (row.samples.len(), row.samples[0].times_us.len()));
    format!(
        "{grid}\n\nMedians of {rounds} rounds, with quartiles; {messages} messages per round. \
         {lost} frames were lost in the kernel before or after the switch."
    )
}
