//! Long-running jobs, with progress reports to Python and interruption by signals.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use tidegate_workbench::{Error, Progress, Step};

use crate::errors::raised;

/// Interval between checks for Python signals.
const PATIENCE: Duration = Duration::from_millis(50);

/// Progress of a job, shared by the worker thread and the waiting thread.
#[derive(Default)]
pub(crate) struct Watch {
    /// Set when the job must stop.
    pub(crate) interrupted: AtomicBool,
    far: Mutex<Far>,
    over: Mutex<bool>,
    ended: Condvar,
}

#[derive(Default)]
struct Far {
    /// Completed share of each run.
    shares: Vec<f64>,
    /// Total progress, if reported instead: completed runs, all runs, and share.
    step: Option<(usize, usize, f64)>,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Watch {
    /// Sets the number of runs.
    pub(crate) fn begin(&self, runs: usize) {
        held(&self.far).shares = vec![0.0; runs];
    }

    /// Updates the progress of run `number`.
    pub(crate) fn update(&self, number: usize, progress: &Progress) {
        if let Some(share) = held(&self.far).shares.get_mut(number) {
            *share = progress.share();
        }
    }

    /// Updates the total progress.
    pub(crate) fn step(&self, step: &Step<'_>) {
        held(&self.far).step = Some((step.done, step.all, step.share));
    }

    /// Completed runs, all runs, and the completed share of the work.
    fn so_far(&self) -> (usize, usize, f64) {
        let far = held(&self.far);
        let all = far.shares.len();
        far.step.unwrap_or_else(|| {
            let done = far.shares.iter().filter(|share| **share >= 1.0).count();
            (done, all, far.shares.iter().sum::<f64>() / all.max(1) as f64)
        })
    }

    /// Waits for a short time; returns whether the job has ended.
    fn is_over(&self) -> bool {
        let over = held(&self.over);
        let waited = self.ended.wait_timeout_while(over, PATIENCE, |over| !*over);
        *waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }
}

/// Reports the end of the job when dropped.
struct Ending<'a>(&'a Watch);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        *held(&self.0.over) = true;
        self.0.ended.notify_all();
    }
}

/// Runs `job` on its own thread, without Python's lock (GIL). `progress` is called periodically
/// with completed runs, all runs, and the completed share. An exception of `progress` or of a
/// signal handler stops the job and is raised here.
pub(crate) fn attended<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    job: impl FnOnce(&Watch) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let watch = &Watch::default();
    thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let _ending = Ending(watch);
            job(watch)
        });
        let report =
            || progress.map_or(Ok(()), |progress| progress.call1(watch.so_far()).map(drop));
        let mut end = Ok(());
        while !py.detach(|| watch.is_over()) {
            if end.is_ok() {
                end = py.check_signals().and_then(|()| report());
                watch.interrupted.store(end.is_err(), Ordering::Relaxed);
            }
        }
        let result = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        end?;
        let result = result.map_err(raised)?;
        report()?;
        Ok(result)
    })
}
