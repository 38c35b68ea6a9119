//! A measure whose files may find no room: the run goes on all the same, and what else is measured
//! of it is not lost.

use tidegate_core::{Feedback, Span, Time};
use tidegate_scenario::Plan;
use tidegate_sim::{Departure, FlowRecord, Sample};

use super::{End, Hears, Left, Measure, Start};
use crate::Error;

/// That measure, until it fails.
pub(crate) struct Lasting {
    of: Option<Box<dyn Measure>>,
    failure: Option<Error>,
}

impl Lasting {
    /// That goes on around it.
    pub(crate) fn around(of: Box<dyn Measure>) -> Box<dyn Measure> {
        Box::new(Lasting { of: Some(of), failure: None })
    }

    fn attempt(&mut self, what: impl FnOnce(&mut Box<dyn Measure>) -> Result<(), Error>) {
        if let Some(Err(error)) = self.of.as_mut().map(what) {
            (self.of, self.failure) = (None, Some(error));
        }
    }
}

impl Measure for Lasting {
    fn hears(&self) -> Hears {
        self.of.as_ref().map(|of| of.hears()).unwrap_or_default()
    }
    fn samples_every(&self) -> Option<Span> {
        self.of.as_ref().and_then(|of| of.samples_every())
    }
    /// Where files cannot even be opened, nothing runs.
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
    fn finish(mut self: Box<Self>, end: &End<'_>, left: &mut Left) -> Result<(), Error> {
        let failure = match self.of.take() {
            Some(of) => of.finish(end, left).err(),
            None => self.failure,
        };
        left.failure = left.failure.take().or(failure);
        Ok(())
    }
}
