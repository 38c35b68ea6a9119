//! What tests hear of an engine, by one type of probe: engines are compiled once for all of them.

use std::any::Any;

pub use tidegate_sim::Listener;

/// A test's own listener.
pub type Ears = Box<dyn Listener>;

/// What a test does with it.
pub trait Heard {
    fn of(test: impl Listener) -> Self;

    /// The test's own again.
    fn heard<T: Listener>(&self) -> &T;
}

impl Heard for Ears {
    fn of(test: impl Listener) -> Ears {
        Box::new(test)
    }

    fn heard<T: Listener>(&self) -> &T {
        let any: &dyn Any = &**self;
        any.downcast_ref().expect("the listener that the engine was given")
    }
}
