//! What tests hear of an engine, by one type of probe: engines are compiled once for all of them.

use std::any::Any;

use tidegate_core::{Body, Feedback, Frame, Time};
use tidegate_sim::{Departure, Probe};

/// A test's own probe.
pub trait Hears: Any + Send {
    fn departed(&mut self, _departure: &Departure<'_>) {}
    fn dropped(&mut self, _body: &Body) {}
    fn arrived(&mut self, _now: Time, _host: u32, _frame: &Frame, _body: &Body) {}
    fn delivered(&mut self, _now: Time, _flow: u64, _bytes: u32) {}
    fn feedback(&mut self, _now: Time, _flow: u64, _feedback: &Feedback) {}
}

/// Any of them.
pub struct Ears(Box<dyn Hears>);

impl Ears {
    pub fn of(test: impl Hears) -> Ears {
        Ears(Box::new(test))
    }

    /// The test's own again.
    pub fn heard<T: Hears>(&self) -> &T {
        let any: &dyn Any = &*self.0;
        any.downcast_ref().expect("the probe that the engine was given")
    }
}

impl Probe for Ears {
    fn departed(&mut self, departure: &Departure<'_>) {
        self.0.departed(departure);
    }
    fn dropped(&mut self, body: &Body) {
        self.0.dropped(body);
    }
    fn arrived(&mut self, now: Time, host: u32, frame: &Frame, body: &Body) {
        self.0.arrived(now, host, frame, body);
    }
    fn delivered(&mut self, now: Time, flow: u64, bytes: u32) {
        self.0.delivered(now, flow, bytes);
    }
    fn feedback(&mut self, now: Time, flow: u64, feedback: &Feedback) {
        self.0.feedback(now, flow, feedback);
    }
}
