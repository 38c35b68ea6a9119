//! The ends of a measurement as processes, and what they say to the one that has started them.

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

/// How often who waits looks whether it was interrupted.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What an end says, a line each.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Said {
    /// It serves, and senders have to be told that.
    Ready(String),
    /// Measuring begins.
    Begin,
    /// It ends.
    End(Figures),
    /// The end goes no further.
    Failed(String),
}

/// Says it to whoever has started this process.
pub(crate) fn say(said: &Said) {
    let line = serde_json::to_string(said).expect("names and numbers");
    let mut out = std::io::stdout().lock();
    // Nobody hears what is said to nobody.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Where an end is.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Place {
    /// MTU of the link
    #[arg(long)]
    pub(crate) mtu: u32,
    /// Its processor: each end has one, as hosts have, so that it is no matter of chance which of
    /// them share one
    #[arg(long)]
    pub(crate) cpu: usize,
}

/// Is an end at that place, and goes when whoever has started it does.
pub(crate) fn end(place: &Place, work: impl FnOnce() -> Result<()>) -> Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    let mut cpus = CpuSet::new();
    cpus.set(place.cpu)?;
    sched_setaffinity(Pid::from_raw(0), &cpus).context("a machine of two processors is needed")?;
    if let Err(why) = work() {
        say(&Said::Failed(format!("{why:#}")));
    }
    Ok(())
}

/// An end that goes on until this is dropped.
pub(crate) struct End {
    child: Child,
    clock: ClockId,
    said: Receiver<String>,
}

impl End {
    /// Starts it.
    pub(crate) fn start(mut command: Command) -> Result<End> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().context("it has no output")?;
        let (to, said) = channel();
        thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(|line| line.ok());
            lines.into_iter().all(|line| to.send(line).is_ok())
        });
        let clock = clock_getcpuclockid(Pid::from_raw(child.id() as i32));
        // From here on it is not left alone.
        let mut end = End { child, clock: ClockId::CLOCK_MONOTONIC, said };
        end.clock = clock?;
        Ok(end)
    }

    /// What it says next.
    ///
    /// # Errors
    /// Where it fails, or says nothing for too long, or this program is interrupted.
    pub(crate) fn hear(&self, patience: Duration, interrupted: &AtomicBool) -> Result<Said> {
        let since = Instant::now();
        loop {
            match self.said.recv_timeout(LOOK_AGAIN) {
                Ok(line) => match serde_json::from_str(&line).context("not what ends say")? {
                    Said::Failed(why) => bail!("{why}"),
                    said => return Ok(said),
                },
                _ if interrupted.load(Ordering::Relaxed) => bail!("interrupted"),
                Err(RecvTimeoutError::Disconnected) => bail!("it ended before it had measured"),
                Err(RecvTimeoutError::Timeout) if since.elapsed() > patience => {
                    bail!("nothing was measured within {} s", patience.as_secs());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Processor time of all its threads, for itself and in the kernel.
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
