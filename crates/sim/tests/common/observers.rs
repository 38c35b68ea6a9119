//! What tests hear of an engine, by one type of probe: engines are compiled once for all of them.

use std::any::Any;

pub use tidegate_sim::Observer;

/// A test's own listener.
pub type Ears = Box<dyn Observer>;

/// What a test does with it.
pub trait WindowState {
    fn of(test: impl Observer) -> Self;

    /// The test's own again.
    fn heard<T: Observer>(&self) -> &T;
}

impl WindowState for Ears {
    fn of(test: impl Observer) -> Ears {
        Box::new(test)
    }

    fn heard<T: Observer>(&self) -> &T {
        let any: &dyn Any = &**self;
        any.downcast_ref().expect("the listener that the engine was given")
    }
}
