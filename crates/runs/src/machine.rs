//! The machine of a run, and the resources that the run used.

#![allow(
    clippy::disallowed_types,
    reason = "the edge: these measurements never enter a simulation"
)]

use cpu_time::{ProcessTime, ThreadTime};
use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tidegate_results::Host;

/// Measures the time of a run.
pub struct Stopwatch {
    wall: Instant,
    of_thread: Option<ThreadTime>,
    of_process: Option<ProcessTime>,
    started_unix_seconds: Option<u64>,
}

impl Stopwatch {
    /// Starts the clocks.
    pub fn start() -> Stopwatch {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        Stopwatch {
            wall: Instant::now(),
            of_thread: ThreadTime::try_now().ok(),
            of_process: ProcessTime::try_now().ok(),
            started_unix_seconds: since_epoch.ok().map(|span| span.as_secs()),
        }
    }
    /// Wall-clock time since the start.
    pub fn wall(&self) -> Duration {
        self.wall.elapsed()
    }
    /// Processor time since the start; zero if the system does not provide it. With one thread, the
    /// time of this thread. With several, the time of the whole process, including other runs at
    /// the same time.
    pub fn cpu(&self, threads: usize) -> Duration {
        let elapsed = if threads == 1 {
            self.of_thread.and_then(|cpu| cpu.try_elapsed().ok())
        } else {
            self.of_process.and_then(|cpu| cpu.try_elapsed().ok())
        };
        elapsed.unwrap_or_default()
    }
    /// Time of the start; `None` if the clock is before 1970.
    pub fn started_unix_seconds(&self) -> Option<u64> {
        self.started_unix_seconds
    }
}

/// Limits how often something is done.
pub struct Pace {
    period: Duration,
    last: Instant,
}

impl Pace {
    /// The first time is a period from now.
    pub fn every(period: Duration) -> Pace {
        Pace { period, last: Instant::now() }
    }

    /// Whether a period has passed since this was last so.
    pub fn is_due(&mut self) -> bool {
        let is_due = self.last.elapsed() >= self.period;
        if is_due {
            self.last = Instant::now();
        }
        is_due
    }
}

/// Peak memory of this process over all its runs; only on Linux.
pub fn peak_rss_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Cores available to this process.
pub fn cores() -> Option<usize> {
    std::thread::available_parallelism().ok().map(usize::from)
}

/// Cores available to this process that other threads probably leave idle at this moment, at least
/// one: at most the cores of the machine minus its other running threads, wherever these run. All
/// available cores if the system does not report running threads.
pub fn idle_cores() -> usize {
    let available = cores().unwrap_or(1);
    let idle = fs::read_to_string("/proc/stat").ok().and_then(|stat| idle_of(&stat));
    available.min(idle.unwrap_or(available)).max(1)
}

/// Cores of the machine minus running threads other than the calling one, by `/proc/stat`.
fn idle_of(stat: &str) -> Option<usize> {
    let is_core = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let all = stat.lines().filter(is_core).count();
    let running = stat.lines().find_map(|line| line.strip_prefix("procs_running"))?;
    let others = running.trim().parse::<usize>().ok()?.saturating_sub(1);
    Some(all.saturating_sub(others))
}

/// Release of the running kernel; empty if it is unknown.
pub fn kernel() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

/// The machine.
pub fn host() -> Host {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    Host {
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        cores: cores(),
        cpu: model.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_cores_by_running_threads() {
        let stat = |running| {
            format!(
                "cpu  9 9\ncpu0 4 4\ncpu1 5 5\nintr 7\nprocs_running {running}\nprocs_blocked 0"
            )
        };
        assert_eq!([1, 2, 3, 9].map(|running| idle_of(&stat(running))), [2, 1, 0, 0].map(Some));
        assert_eq!(idle_of("cpu 1\ncpu0 1"), None);
        assert!(idle_cores() >= 1);
    }
}
