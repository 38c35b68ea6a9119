//! The ends of a measurement as processes, and their reports to the process that started them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::record::Figures;

/// Interval between checks for an interrupt while waiting.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A report of an end, one per line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The server is ready; senders need this text.
    Ready(String),
    /// The measurement begins.
    Begin,
    /// The measurement ends.
    End(Figures),
    /// The end has failed.
    Failed(String),
}

/// Sends a report to the process that started this one.
pub(crate) fn report(report: &Report) {
    let line = serde_json::to_string(report).expect("names and numbers");
    let mut out = std::io::stdout().lock();
    // If the parent has ended, the report is lost.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The place of an end.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Place {
    /// MTU of the link
    #[arg(long)]
    pub(crate) mtu: u32,
    /// Its processor: each end has its own, so that the assignment does not depend on the scheduler
    #[arg(long)]
    pub(crate) cpu: usize,
}

/// Runs an end at its place; it ends with the process that started it.
pub(crate) fn end(place: &Place, work: impl FnOnce() -> Result<()>) -> Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    let mut cpus = CpuSet::new();
    cpus.set(place.cpu)?;
    sched_setaffinity(Pid::from_raw(0), &cpus).context("two processors are needed")?;
    if let Err(why) = work() {
        report(&Report::Failed(format!("{why:#}")));
    }
    Ok(())
}

/// An end that runs until this is dropped.
pub(crate) struct End {
    child: Child,
    clock: ClockId,
    reports: Receiver<String>,
}

impl End {
    /// Starts an end.
    pub(crate) fn start(mut command: Command) -> Result<End> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().context("the process has no stdout")?;
        let (to, reports) = channel();
        thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(|line| line.ok());
            lines.into_iter().all(|line| to.send(line).is_ok())
        });
        let clock = clock_getcpuclockid(Pid::from_raw(child.id() as i32));
        // From here on, dropping `end` kills the process.
        let mut end = End { child, clock: ClockId::CLOCK_MONOTONIC, reports };
        end.clock = clock?;
        Ok(end)
    }

    /// Receives its next report.
    ///
    /// # Errors
    /// If the end fails, sends no report in time, or this program is interrupted.
    pub(crate) fn next(&self, timeout: Duration, interrupted: &AtomicBool) -> Result<Report> {
        let since = Instant::now();
        loop {
            match self.reports.recv_timeout(CHECK_INTERVAL) {
                Ok(line) => match serde_json::from_str(&line).context("an invalid report")? {
                    Report::Failed(why) => bail!("{why}"),
                    report => return Ok(report),
                },
                _ if interrupted.load(Ordering::Relaxed) => bail!("interrupted"),
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("the process ended before the measurement was complete")
                }
                Err(RecvTimeoutError::Timeout) if since.elapsed() > timeout => {
                    bail!("no report within {} s", timeout.as_secs());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Processor time of all its threads, in user and kernel mode.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        Ok(clock_gettime(self.clock)?.into())
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
