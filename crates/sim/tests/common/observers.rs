//! Observers of tests, behind one type of probe, so engines are compiled once for all of them.

use std::any::Any;

pub use tidegate_sim::Observer;

/// Boxed observer of a test.
pub type TestProbe = Box<dyn Observer>;

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
