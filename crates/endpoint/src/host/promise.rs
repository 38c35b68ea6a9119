//! Promises of outcomes, and the sources that outcomes are taken from.

use std::sync::{Arc, Mutex};

use event_listener::Event;

use super::Error;
use super::lock::lock;

/// A source of an outcome.
pub(super) trait Source<T>: Send + Sync {
    /// Takes the outcome, if it is available.
    fn take(&self) -> Option<Result<T, Error>>;

    /// Notified when an outcome may be available.
    fn changed(&self) -> &Event;
}

/// Holds one outcome.
struct Slot<T> {
    outcome: Mutex<Outcome<T>>,
    changed: Event,
}

enum Outcome<T> {
    Open,
    Known(Result<T, Error>),
    Given,
}

impl<T: Send> Source<T> for Slot<T> {
    fn take(&self) -> Option<Result<T, Error>> {
        let mut outcome = lock(&self.outcome);
        match std::mem::replace(&mut *outcome, Outcome::Given) {
            Outcome::Known(known) => Some(known),
            Outcome::Given => Some(Err(Error::Given)),
            Outcome::Open => {
                *outcome = Outcome::Open;
                None
            }
        }
    }

    fn changed(&self) -> &Event {
        &self.changed
    }
}

/// The obligation to resolve an outcome. Dropping it resolves the outcome to [`Error::Closed`].
pub(super) struct Promise<T>(Arc<Slot<T>>);

impl<T: Send + 'static> Promise<T> {
    /// Creates a promise with the source of its outcome.
    pub(super) fn new() -> (Promise<T>, Arc<dyn Source<T>>) {
        let slot = Arc::new(Slot { outcome: Mutex::new(Outcome::Open), changed: Event::new() });
        (Promise(slot.clone()), slot)
    }
}

impl<T> Promise<T> {
    pub(super) fn resolve(self, outcome: Result<T, Error>) {
        self.set(outcome);
    }

    /// Sets the outcome; later calls have no effect.
    fn set(&self, known: Result<T, Error>) {
        let mut outcome = lock(&self.0.outcome);
        if matches!(*outcome, Outcome::Open) {
            *outcome = Outcome::Known(known);
            drop(outcome);
            self.0.changed.notify(usize::MAX);
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.set(Err(Error::Closed));
    }
}
