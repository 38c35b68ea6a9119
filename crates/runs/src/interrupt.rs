//! Reacts to an interrupt within a second, whatever the process is doing.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tidegate_sim::RankFailure;

use crate::Error;

/// Returns whether an interrupt was requested.
pub type InterruptCheck<'a> = &'a dyn Fn() -> bool;

/// Time between two checks during work that cannot be divided.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The error for a lost process. After an interrupt, all processes end, so their loss is not
/// reported.
pub fn lost(is_interrupted: InterruptCheck<'_>) -> impl Fn(RankFailure) -> Error {
    move |lost| if is_interrupted() { Error::Interrupted } else { Error::RankFailure(lost) }
}

/// Runs work that cannot be divided on its own thread. After an interrupt, the thread is abandoned.
///
/// # Errors
/// [`Error::Interrupted`] after an interrupt; otherwise those of `job`.
pub fn run_abandonable<T: Send + 'static>(
    is_interrupted: InterruptCheck<'_>,
    job: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let (to, done) = mpsc::channel();
    let worker = thread::spawn(move || {
        // The receiver may have been dropped.
        let _ = to.send(job());
    });
    loop {
        match done.recv_timeout(POLL_INTERVAL) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) if is_interrupted() => return Err(Error::Interrupted),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // The worker panicked; this thread resumes the same panic.
    match worker.join() {
        Err(panic) => std::panic::resume_unwind(panic),
        Ok(()) => Err(Error::Run("a thread ended without a result".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_types, reason = "the test measures how soon the call returns")]
    fn long_work_is_abandoned() {
        let started = std::time::Instant::now();
        let sleep = || {
            thread::sleep(Duration::from_secs(60));
            Ok(())
        };
        assert!(matches!(run_abandonable(&|| true, sleep), Err(Error::Interrupted)));
        assert!(started.elapsed() < Duration::from_secs(1));
        assert_eq!(run_abandonable(&|| false, || Ok(7)).unwrap(), 7);
    }

    #[test]
    #[should_panic(expected = "as it happens")]
    fn a_panic_resumes_in_the_caller() {
        let _ = run_abandonable(&|| false, || -> Result<(), Error> { panic!("as it happens") });
    }
}
