//! Work that takes long, and what Python wants meanwhile: to hear of it, and to be interrupted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use tidegate_workbench::{Error, Progress, Step};

use crate::errors::raised;

/// Between two looks at Python's signals.
const PATIENCE: Duration = Duration::from_millis(50);

/// How far the work is, as the thread that does it tells the one that waits.
#[derive(Default)]
pub(crate) struct Watch {
    /// Somebody wants an end.
    pub(crate) interrupted: AtomicBool,
    far: Mutex<Far>,
    over: Mutex<bool>,
    ended: Condvar,
}

#[derive(Default)]
struct Far {
    /// How far each run is.
    shares: Vec<f64>,
    /// What is told of them together in place of that: done, all, and the share.
    step: Option<(usize, usize, f64)>,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Watch {
    /// There are so many runs.
    pub(crate) fn begin(&self, runs: usize) {
        held(&self.far).shares = vec![0.0; runs];
    }

    /// Run `number` is so far.
    pub(crate) fn hear(&self, number: usize, progress: &Progress) {
        if let Some(share) = held(&self.far).shares.get_mut(number) {
            *share = progress.share();
        }
    }

    /// The runs together are so far.
    pub(crate) fn step(&self, step: &Step<'_>) {
        held(&self.far).step = Some((step.done, step.all, step.share));
    }

    /// Runs that are done, all of them, and the share of the work that is done.
    fn so_far(&self) -> (usize, usize, f64) {
        let far = held(&self.far);
        let all = far.shares.len();
        far.step.unwrap_or_else(|| {
            let done = far.shares.iter().filter(|share| **share >= 1.0).count();
            (done, all, far.shares.iter().sum::<f64>() / all.max(1) as f64)
        })
    }

    /// Waits a little; whether the work is over.
    fn is_over(&self) -> bool {
        let over = held(&self.over);
        let waited = self.ended.wait_timeout_while(over, PATIENCE, |over| !*over);
        *waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }
}

/// Says that the work is over, however it ends.
struct Ending<'a>(&'a Watch);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        *held(&self.0.over) = true;
        self.0.ended.notify_all();
    }
}

/// Does `job` on a thread of its own and without Python's lock. `tell` is called now and then, with
/// how many runs are done, of how many, and the share of the work. What it raises, or a signal's
/// handler, ends the job, and is raised here.
pub(crate) fn attended<T: Send>(
    py: Python<'_>,
    tell: Option<&Bound<'_, PyAny>>,
    job: impl FnOnce(&Watch) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let watch = &Watch::default();
    thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let _ending = Ending(watch);
            job(watch)
        });
        let tell = || tell.map_or(Ok(()), |tell| tell.call1(watch.so_far()).map(drop));
        let mut end = Ok(());
        while !py.detach(|| watch.is_over()) {
            if end.is_ok() {
                end = py.check_signals().and_then(|()| tell());
                watch.interrupted.store(end.is_err(), Ordering::Relaxed);
            }
        }
        let result = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        end?;
        let result = result.map_err(raised)?;
        tell()?;
        Ok(result)
    })
}
