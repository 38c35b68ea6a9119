//! Answering to an interrupt within a second, whatever is being done.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tidegate_core::Time;
use tidegate_sim::simulation::Simulation;
use tidegate_sim::{Failure, RankFailure};

use crate::Error;

/// Asks whether somebody wants an end.
pub(crate) type Asks<'a> = &'a dyn Fn() -> bool;

/// Events of every part between two looks: some milliseconds of work.
const WORK: u64 = 1 << 14;
/// Time between two looks at work that cannot be divided.
const PATIENCE: Duration = Duration::from_millis(50);

/// Runs the engine to `until`.
///
/// # Errors
/// [`Error::Interrupted`] when that was asked for meanwhile; where another process is lost, or
/// where the run cannot go on.
pub(crate) fn advance(
    engine: &mut dyn Simulation,
    until: Time,
    asks: Asks<'_>,
) -> Result<(), Error> {
    let work = WORK * (engine.partitions() * engine.ranks()) as u64;
    let failed = |failure| match failure {
        Failure::RankFailure(why) => lost(asks)(why),
        Failure::Deadlock(deadlock) => Error::Run(deadlock.to_string()),
    };
    while !engine.advance_some(until, work).map_err(failed)? {
        if asks() {
            return Err(Error::Interrupted);
        }
    }
    Ok(())
}

/// A process is lost. Where an end was asked for, it was asked of all processes, and that is no
/// news.
pub(crate) fn lost(asks: Asks<'_>) -> impl Fn(RankFailure) -> Error {
    move |lost| if asks() { Error::Interrupted } else { Error::RankFailure(lost) }
}

/// Does work that cannot be divided on a thread of its own. Once somebody wants an end, it is left
/// to itself.
///
/// # Errors
/// [`Error::Interrupted`] then; else those of `job`.
pub(crate) fn patiently<T: Send + 'static>(
    asks: Asks<'_>,
    job: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let (to, done) = mpsc::channel();
    let worker = thread::spawn(move || {
        // Nobody may be waiting any more.
        let _ = to.send(job());
    });
    loop {
        match done.recv_timeout(PATIENCE) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) if asks() => return Err(Error::Interrupted),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // It panicked; so does this thread, with the same words.
    match worker.join() {
        Err(panic) => std::panic::resume_unwind(panic),
        Ok(()) => Err(Error::Run("a thread ended without a result".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_types, reason = "how soon it ends is what is measured")]
    fn work_that_takes_long_is_left_to_itself() {
        let started = std::time::Instant::now();
        let sleep = || {
            thread::sleep(Duration::from_secs(60));
            Ok(())
        };
        assert!(matches!(patiently(&|| true, sleep), Err(Error::Interrupted)));
        assert!(started.elapsed() < Duration::from_secs(1));
        assert_eq!(patiently(&|| false, || Ok(7)).unwrap(), 7);
    }

    #[test]
    #[should_panic(expected = "as it happens")]
    fn a_panic_goes_on_where_it_was_asked_for() {
        let _ = patiently(&|| false, || -> Result<(), Error> { panic!("as it happens") });
    }
}
