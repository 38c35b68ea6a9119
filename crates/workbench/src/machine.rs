//! The machine a run happens on, and how much of it the run took.

#![allow(
    clippy::disallowed_types,
    reason = "the edge: what is measured here never reaches a simulation"
)]

use cpu_time::{ProcessTime, ThreadTime};
use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tidegate_results::Host;

/// How long a run has been at it.
pub(crate) struct Stopwatch {
    wall: Instant,
    of_thread: Option<ThreadTime>,
    of_process: Option<ProcessTime>,
    started_unix_seconds: Option<u64>,
}

impl Stopwatch {
    /// Starts now.
    pub(crate) fn start() -> Stopwatch {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        Stopwatch {
            wall: Instant::now(),
            of_thread: ThreadTime::try_now().ok(),
            of_process: ProcessTime::try_now().ok(),
            started_unix_seconds: since_epoch.ok().map(|span| span.as_secs()),
        }
    }
    /// Since the start.
    pub(crate) fn wall(&self) -> Duration {
        self.wall.elapsed()
    }
    /// Processor time since the start; zero where the system does not tell. Of this thread where
    /// it worked alone, of the whole process where several did, and then what other runs take at
    /// the same time is in it.
    pub(crate) fn cpu(&self, threads: usize) -> Duration {
        let elapsed = if threads == 1 {
            self.of_thread.and_then(|cpu| cpu.try_elapsed().ok())
        } else {
            self.of_process.and_then(|cpu| cpu.try_elapsed().ok())
        };
        elapsed.unwrap_or_default()
    }
    /// When it started, unless the clock is before 1970.
    pub(crate) fn started_unix_seconds(&self) -> Option<u64> {
        self.started_unix_seconds
    }
}

/// Most memory that this process ever had, all its runs together; Linux alone tells.
pub(crate) fn peak_rss_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Cores that this process may use.
pub(crate) fn cores() -> Option<usize> {
    std::thread::available_parallelism().ok().map(usize::from)
}

/// The machine.
pub(crate) fn host() -> Host {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    Host {
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        cores: cores(),
        cpu: model.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim().to_owned()),
    }
}
