//! The measures of a run, and their subscriptions to the engine's events.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::{Feedback, Span, Time};
use tidegate_scenario::Plan;
use tidegate_sim::{Departure, FlowRecord, Observer, Sample};

use super::{End, Measure, RunOutput, Start, Subscriptions};
use crate::Error;

/// A measure, its subscriptions, and the time of its next sample.
struct ScheduledMeasure {
    measure: Box<dyn Measure>,
    subscriptions: Subscriptions,
    next_sample: Time,
}

/// The measures of a run.
pub(super) struct Measures(Vec<ScheduledMeasure>);

impl Measures {
    /// Measures before the start of a run.
    pub(super) fn new(measures: Vec<Box<dyn Measure>>) -> Measures {
        let scheduled = |measure: Box<dyn Measure>| {
            let subscriptions = measure.subscriptions();
            ScheduledMeasure { measure, subscriptions, next_sample: Time::NEVER }
        };
        Measures(measures.into_iter().map(scheduled).collect())
    }

    /// Union of the measures' subscriptions.
    fn subscriptions(&self) -> Subscriptions {
        let any = |of: fn(&Subscriptions) -> bool| {
            self.0.iter().any(|scheduled| of(&scheduled.subscriptions))
        };
        Subscriptions {
            delivered: any(|of| of.delivered),
            feedback: any(|of| of.feedback),
            departed: any(|of| of.departed),
        }
    }

    pub(super) fn begin(&mut self, start: &Start<'_>) -> Result<(), Error> {
        for scheduled in &mut self.0 {
            scheduled.next_sample = sample_after(Time::ZERO, &*scheduled.measure, start.plan);
            scheduled.measure.begin(start)?;
        }
        Ok(())
    }

    /// Times of all samples of the run.
    pub(super) fn sample_times(&self, plan: &Plan) -> BTreeSet<Time> {
        let of = |scheduled: &ScheduledMeasure| {
            let first = sample_after(Time::ZERO, &*scheduled.measure, plan);
            std::iter::successors(Some(first), |at| {
                Some(sample_after(*at, &*scheduled.measure, plan))
            })
            .take_while(|at| *at < Time::NEVER)
            .collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of).collect()
    }

    /// Reports a delivery.
    pub(super) fn delivered(&mut self, now: Time, flow: u64, bytes: u32) {
        for scheduled in self.0.iter_mut().filter(|scheduled| scheduled.subscriptions.delivered) {
            scheduled.measure.delivered(now, flow, bytes);
        }
    }

    /// Takes the last samples at `end`, which is before the planned end.
    pub(super) fn ends_at(&mut self, end: Time) {
        let scheduled = self.0.iter_mut().filter(|scheduled| scheduled.next_sample < Time::NEVER);
        scheduled.for_each(|scheduled| scheduled.next_sample = end);
    }

    /// Time of the next sample.
    pub(super) fn next_sample(&self) -> Time {
        self.0.iter().map(|scheduled| scheduled.next_sample).min().unwrap_or(Time::NEVER)
    }

    /// Passes samples to the measures for which they are due.
    pub(super) fn sampled(
        &mut self,
        plan: &Plan,
        at: Time,
        samples: &[Sample],
    ) -> Result<(), Error> {
        for scheduled in self.0.iter_mut().filter(|scheduled| scheduled.next_sample == at) {
            scheduled.measure.sampled(plan, at, samples)?;
            scheduled.next_sample = sample_after(at, &*scheduled.measure, plan);
        }
        Ok(())
    }

    /// Passes `records` to the measures, in the order of `flows.parquet`.
    pub(super) fn flows(
        &mut self,
        plan: &Plan,
        records: impl IntoIterator<Item = FlowRecord>,
    ) -> Result<(), Error> {
        for record in records {
            self.0.iter_mut().try_for_each(|scheduled| scheduled.measure.flow(plan, &record))?;
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, end: &End<'_>, output: &mut RunOutput) -> Result<(), Error> {
        let mut scheduled = std::mem::take(&mut self.0).into_iter();
        scheduled.try_for_each(|scheduled| scheduled.measure.finish(end, output))
    }
}

/// The next sample: every interval, and at the end of the run.
fn sample_after(at: Time, measure: &dyn Measure, plan: &Plan) -> Time {
    match measure.samples_every().filter(|interval| *interval > Span::ZERO) {
        Some(interval) if at < plan.duration => at.after(interval).min(plan.duration),
        _ => Time::NEVER,
    }
}

/// Measures shared by the engine and the main loop.
#[derive(Clone)]
pub(super) struct SharedMeasures {
    /// Union of the measures' subscriptions; the others are not called.
    subscriptions: Subscriptions,
    measures: Arc<Mutex<Measures>>,
}

impl SharedMeasures {
    pub(super) fn new(measures: Measures) -> SharedMeasures {
        SharedMeasures {
            subscriptions: measures.subscriptions(),
            measures: Arc::new(Mutex::new(measures)),
        }
    }

    /// Whether any measure subscribes to packet-level events.
    pub(super) fn has_subscriptions(&self) -> bool {
        let Subscriptions { delivered, feedback, departed } = self.subscriptions;
        delivered || feedback || departed
    }

    /// Locks the measures. The caller must release them before the engine runs, which locks them,
    /// too.
    pub(super) fn lock(&self) -> MutexGuard<'_, Measures> {
        self.measures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for SharedMeasures {
    fn delivered(&mut self, now: Time, flow: u64, bytes: u32) {
        if self.subscriptions.delivered {
            self.lock().delivered(now, flow, bytes);
        }
    }

    fn feedback(&mut self, now: Time, flow: u64, feedback: &Feedback) {
        if !self.subscriptions.feedback {
            return;
        }
        for scheduled in
            self.lock().0.iter_mut().filter(|scheduled| scheduled.subscriptions.feedback)
        {
            scheduled.measure.feedback(now, flow, feedback);
        }
    }

    fn departed(&mut self, departure: &Departure<'_>) {
        if !self.subscriptions.departed {
            return;
        }
        for scheduled in
            self.lock().0.iter_mut().filter(|scheduled| scheduled.subscriptions.departed)
        {
            scheduled.measure.departed(departure);
        }
    }
}
