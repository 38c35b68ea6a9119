//! A wrapper for a measure whose files may not fit the disk: if it fails, the run and its other
//! measures continue.

use tidegate_core::{Feedback, Span, Time};
use tidegate_scenario::Plan;
use tidegate_sim::{Departure, FlowRecord, Sample};

use super::{End, Measure, RunOutput, Start, Subscriptions};
use crate::Error;

/// A measure, until it fails; then the reason.
pub struct FallibleMeasure {
    of: Option<Box<dyn Measure>>,
    failure: Option<Error>,
}

impl FallibleMeasure {
    /// Wraps a measure.
    pub fn boxed(of: Box<dyn Measure>) -> Box<dyn Measure> {
        Box::new(FallibleMeasure { of: Some(of), failure: None })
    }

    fn attempt(&mut self, what: impl FnOnce(&mut Box<dyn Measure>) -> Result<(), Error>) {
        if let Some(Err(error)) = self.of.as_mut().map(what) {
            (self.of, self.failure) = (None, Some(error));
        }
    }
}

impl Measure for FallibleMeasure {
    fn subscriptions(&self) -> Subscriptions {
        self.of.as_ref().map(|of| of.subscriptions()).unwrap_or_default()
    }
    fn samples_every(&self) -> Option<Span> {
        self.of.as_ref().and_then(|of| of.samples_every())
    }
    /// If the files cannot be opened, the run does not start.
    fn begin(&mut self, start: &Start<'_>) -> Result<(), Error> {
        self.of.as_mut().map_or(Ok(()), |of| of.begin(start))
    }
    fn delivered(&mut self, now: Time, flow: u64, bytes: u32) {
        if let Some(of) = &mut self.of {
            of.delivered(now, flow, bytes);
        }
    }
    fn feedback(&mut self, now: Time, flow: u64, feedback: &Feedback) {
        if let Some(of) = &mut self.of {
            of.feedback(now, flow, feedback);
        }
    }
    fn departed(&mut self, departure: &Departure<'_>) {
        if let Some(of) = &mut self.of {
            of.departed(departure);
        }
    }
    fn sampled(&mut self, plan: &Plan, at: Time, samples: &[Sample]) -> Result<(), Error> {
        self.attempt(|of| of.sampled(plan, at, samples));
        Ok(())
    }
    fn flow(&mut self, plan: &Plan, record: &FlowRecord) -> Result<(), Error> {
        self.attempt(|of| of.flow(plan, record));
        Ok(())
    }
    fn finish(mut self: Box<Self>, end: &End<'_>, output: &mut RunOutput) -> Result<(), Error> {
        let failure = match self.of.take() {
            Some(of) => of.finish(end, output).err(),
            None => self.failure,
        };
        output.failure = output.failure.take().or(failure);
        Ok(())
    }
}
