//! The phases of a run behind software switches: warm-up, samples and drain; and its outcome.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidegate_core::fabric::Node;
use tidegate_core::{Span, Time};
use tidegate_scenario::Plan;
use tidegate_sim::{Delivery, LinkRecord, OpenOutcome, Outcome};
use tidegate_switch::{Report, SoftwareSwitch};

use tidegate_runs::Error;
use tidegate_runs::machine::Stopwatch;
use tidegate_runs::observe::Progress;

/// Queue sizes by sampling time.
pub(super) type Queues = BTreeMap<Time, Vec<(u64, u32)>>;

/// A run that starts at a known time of the switches' clock.
pub(super) struct Phases<'a> {
    pub(super) plan: &'a Plan,
    pub(super) start: Time,
    /// Receives the progress of the run.
    pub(super) progress: &'a dyn Fn(&Progress),
}

impl Phases<'_> {
    /// Forwards up to `duration`. Returns the switches' report since warm-up, and the samples.
    /// `poll` observes the hosts; its error ends the run.
    pub(super) fn measure(
        &self,
        switch: &mut SoftwareSwitch,
        samples: &BTreeSet<Time>,
        mut poll: impl FnMut() -> Result<(), Error>,
    ) -> Result<(Report, Queues), Error> {
        let (warmup, duration) = (self.plan.warmup, self.plan.duration);
        let mut queues = Queues::new();
        let mut samples = samples.iter().copied().peekable();
        let mut warm = false;
        let watch = Stopwatch::start();
        forward(switch, |switch| {
            poll()?;
            let Some(now) = self.now(switch) else { return Ok(true) };
            if !warm && now >= warmup {
                warm = true;
                switch.measure_anew();
            }
            while let Some(at) = samples.next_if(|at| *at <= now) {
                queues.insert(at, switch.queues().collect());
            }
            (self.progress)(&Progress {
                now: now.min(duration),
                duration,
                packet_hops: 0,
                wall: watch.wall(),
                captured_bytes: 0,
            });
            Ok(now < duration)
        })?;
        Ok((switch.report(), queues))
    }

    /// Lets messages finish, and returns how long that took. `is_done` observes the hosts.
    pub(super) fn drain(
        &self,
        switch: &mut SoftwareSwitch,
        mut is_done: impl FnMut() -> Result<bool, Error>,
    ) -> Result<Span, Error> {
        let (duration, drain) = (self.plan.duration, self.plan.drain);
        let mut took = Span::ZERO;
        forward(switch, |switch| {
            let is_done = is_done()?;
            let now = self.now(switch).unwrap_or(Time::ZERO);
            took = now.since(duration).min(drain);
            Ok(took < drain && !is_done)
        })?;
        Ok(took)
    }

    /// The time of the run, once it has started.
    fn now(&self, switch: &SoftwareSwitch) -> Option<Time> {
        let now = switch.now();
        (now >= self.start).then(|| Time::ZERO.after(now.since(self.start)))
    }
}

/// Forwards for as long as `goes_on` returns true.
pub(super) fn forward(
    switch: &mut SoftwareSwitch,
    mut goes_on: impl FnMut(&mut SoftwareSwitch) -> Result<bool, Error>,
) -> Result<(), Error> {
    let mut result = Ok(true);
    let ran = switch.run(|switch| {
        result = goes_on(switch);
        matches!(result, Ok(true))
    });
    ran.map_err(|why| Error::Run(format!("the switches: {why}")))?;
    result.map(|_| ())
}

/// The outcome of a run, and what arrived by time.
pub(super) fn outcome(plan: &Plan, report: Report, seen: OpenOutcome) -> (Outcome, Vec<Delivery>) {
    let outcome = Outcome {
        finished: seen.finished,
        unfinished: seen.unfinished,
        packet_hops: report.ports.iter().chain(&report.uplinks).map(|link| link.packets).sum(),
        links: links(plan, &report),
        switches: report.switches,
        iterations: Vec::new(),
        faults: Default::default(),
        storms: Vec::new(),
        digest: seen.digest,
        events: 0,
    };
    (outcome, seen.deliveries)
}

/// The links of a plan in order, both directions of each, as the switches saw them.
fn links(plan: &Plan, report: &Report) -> Vec<LinkRecord> {
    let mut seen: BTreeMap<(Node, Node), VecDeque<LinkRecord>> = BTreeMap::new();
    for record in report.ports.iter().chain(&report.uplinks) {
        seen.entry((record.from, record.to)).or_default().push_back(record.clone());
    }
    let ends = plan.fabric.links.iter().flat_map(|link| [(link.a, link.b), (link.b, link.a)]);
    ends.filter_map(|ends| seen.get_mut(&ends)?.pop_front()).collect()
}
