//! Rounds, each of which measures every system once.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use signal_hook::consts::TERM_SIGNALS;

use crate::namespaces::{Namespace, Pair};
use crate::process::{End, Report};
use crate::record::Figures;
use crate::system::{Choice, Load};

const PORT: u16 = 5_270;
/// Maximum time without a report, in addition to the measured time.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Unit of `/proc/stat`, in seconds.
const TICK: f64 = 0.01;

/// The measurement and its number of rounds.
pub(crate) struct Rounds {
    pub(crate) count: usize,
    pub(crate) mtus: Vec<u32>,
    pub(crate) systems: Vec<Choice>,
    pub(crate) load: Load,
    pub(crate) warmup: f64,
    pub(crate) seconds: f64,
    pub(crate) offloads: bool,
}

/// A system over links of an MTU.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) system: String,
    pub(crate) mtu: u32,
    /// One sample per round.
    pub(crate) samples: Vec<Sample>,
}

/// Measurements of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Sample {
    #[serde(flatten)]
    pub(crate) figures: Figures,
    /// Processor time of both ends, in user and kernel mode. The kernel's work on packet arrival is
    /// charged to the process that it interrupts, here mostly the other end.
    pub(crate) cpu_seconds: f64,
    /// Processor time of the whole machine.
    pub(crate) busy_seconds: f64,
    /// Load average of the last minute.
    pub(crate) load: f64,
}

impl Sample {
    /// Payload, in Gbit/s.
    pub(crate) fn goodput_gbps(&self) -> f64 {
        self.figures.bytes as f64 * 8e-9 / self.figures.seconds
    }

    /// Payload per CPU second of both ends, in Gbit.
    pub(crate) fn gbit_per_cpu_second(&self) -> f64 {
        self.figures.bytes as f64 * 8e-9 / self.cpu_seconds
    }
}

impl Rounds {
    /// Runs all rounds; returns one row per MTU and system.
    pub(crate) fn run(&self) -> Result<Vec<Row>> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for &signal in TERM_SIGNALS {
            signal_hook::flag::register(signal, interrupted.clone())?;
        }
        let mut rows = Vec::new();
        for &mtu in &self.mtus {
            let pair = Pair::new(mtu, self.offloads)?;
            let of_mtu = self.systems.iter().map(|system| Row {
                system: system.to_string(),
                mtu,
                samples: Vec::new(),
            });
            let mut of_mtu: Vec<Row> = of_mtu.collect();
            for round in 0..self.count {
                for (row, system) in of_mtu.iter_mut().zip(&self.systems) {
                    let sample = self.one(&pair, mtu, system, &interrupted);
                    let sample = sample.with_context(|| format!("{system}, MTU {mtu}"))?;
                    let Figures { p50_us, p99_us, .. } = sample.figures;
                    eprintln!(
                        "round {} of {}, MTU {mtu}, {system}: {:.2} Gbit/s, p50 {p50_us:.1} us, \
                         p99 {p99_us:.1} us",
                        round + 1,
                        self.count,
                        sample.goodput_gbps(),
                    );
                    row.samples.push(sample);
                }
            }
            rows.extend(of_mtu);
        }
        Ok(rows)
    }

    fn one(
        &self,
        pair: &Pair,
        mtu: u32,
        system: &Choice,
        interrupted: &AtomicBool,
    ) -> Result<Sample> {
        let [serves, sends] = &pair.ends[..] else { bail!("a pair has two ends") };
        let at = SocketAddr::from((serves.address, PORT)).to_string();
        let command = |end: &Namespace, verb: &str| -> Result<Command> {
            let mut command = end.command()?;
            let (system, mtu, cpu) = (system.to_string(), mtu.to_string(), end.number.to_string());
            command.args([verb, &system, &at, "--mtu", &mtu, "--cpu", &cpu]);
            Ok(command)
        };
        let server = End::start(command(serves, "serve")?)?;
        let Report::Ready(word) = server.next(TIMEOUT, interrupted)? else {
            bail!("expected a server that is ready");
        };
        let mut command = command(sends, "send")?;
        command.args(["--word", &word]);
        command.args(["--bytes", &self.load.bytes.to_string()]);
        command.args(["--ahead", &self.load.ahead.to_string()]);
        command.args(["--warmup", &self.warmup.to_string()]);
        command.args(["--seconds", &self.seconds.to_string()]);
        let sender = End::start(command)?;
        let cpu = || anyhow::Ok((server.cpu()? + sender.cpu()?).as_secs_f64());
        let timeout = TIMEOUT + Duration::from_secs_f64(self.warmup + self.seconds);
        let Report::Begin = sender.next(timeout, interrupted)? else {
            bail!("expected the begin of the measurement");
        };
        let (cpu_before, busy_before) = (cpu()?, busy()?);
        let Report::End(figures) = sender.next(timeout, interrupted)? else {
            bail!("expected the end of the measurement");
        };
        let (cpu_seconds, busy_seconds) = (cpu()? - cpu_before, busy()? - busy_before);
        Ok(Sample { figures, cpu_seconds, busy_seconds, load: load()? })
    }
}

/// Busy seconds of all processors since boot.
fn busy() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let all = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<u64> = all.map(str::parse).collect::<Result<_, _>>()?;
    // Fields: user, nice, system, idle, iowait, irq, softirq.
    let works = [0, 1, 2, 5, 6].iter().filter_map(|&at| ticks.get(at));
    Ok(works.sum::<u64>() as f64 * TICK)
}

fn load() -> Result<f64> {
    let loads = fs::read_to_string("/proc/loadavg")?;
    Ok(loads.split_whitespace().next().unwrap_or_default().parse()?)
}
