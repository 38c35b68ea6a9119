//! Observers of tests, behind one type of probe, so engines are compiled once for all of them.

use std::any::Any;

use tidegate_core::{Body, Frame, Time};
pub use tidegate_sim::Observer;
use tidegate_sim::{Departure, Probe};

/// Boxed observer of a test.
pub type TestProbe = Box<dyn Observer>;

/// The same in an engine with explicit dequeues.
pub struct Explicit(TestProbe);

impl Probe for Explicit {
    const EXPLICIT_DEQUEUES: bool = true;
    fn departed(&mut self, departure: &Departure<'_>) {
        self.0.departed(departure);
    }
    fn arrived(&mut self, now: Time, host: u32, frame: &Frame, body: &Body) {
        self.0.arrived(now, host, frame, body);
    }
}

/// Access to the observer of a test.
pub trait ObserverAccess {
    fn of(test: impl Observer) -> Self;

    /// Returns the test's own observer.
    fn inner<T: Observer>(&self) -> &T;
}

impl ObserverAccess for TestProbe {
    fn of(test: impl Observer) -> TestProbe {
        Box::new(test)
    }

    fn inner<T: Observer>(&self) -> &T {
        let any: &dyn Any = &**self;
        any.downcast_ref().expect("the observer that the engine was given")
    }
}

impl ObserverAccess for Explicit {
    fn of(test: impl Observer) -> Explicit {
        Explicit(TestProbe::of(test))
    }

    fn inner<T: Observer>(&self) -> &T {
        self.0.inner()
    }
}
