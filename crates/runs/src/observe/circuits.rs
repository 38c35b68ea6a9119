//! Utilisation of circuits by the time within their days.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_core::fabric::Fabric;
use tidegate_core::{Rate, Span, Time};
use tidegate_scenario::Plan;
use tidegate_sim::Departure;

use super::{End, Measure, RunOutput, Start, Subscriptions};
use crate::{Error, convert};

/// Resolution of the utilisation within a day.
const STEP: Span = Span::us(1);

/// Days of a circuit, and its utilisation in them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CircuitTrace {
    /// The node that sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// Start of each of its days.
    pub begins_us: Vec<f64>,
    /// Length of a day.
    pub day_us: f64,
    /// Share of time that it transmits, for every microsecond of a day, over all days that lie
    /// completely in the measured window. Empty if there are none.
    pub used: Vec<f64>,
}

/// Records the transmissions of circuits.
#[derive(Default)]
pub(super) struct Circuits {
    /// By port: its rate, and the picoseconds of transmission in every step of its days.
    sent: BTreeMap<u32, (Rate, Vec<u64>)>,
    /// Schedule of all circuits.
    days: Days,
}

/// The days that are measured.
#[derive(Clone, Copy, Default)]
struct Days {
    slot: Span,
    day: Span,
    /// Start and end of the measured window.
    measured: (Time, Time),
}

impl Days {
    /// The days of a plan with circuits.
    fn of(plan: &Plan) -> Option<Days> {
        let circuits = plan.fabric.circuits.as_ref()?;
        let measured = (plan.warmup, plan.duration);
        Some(Days { slot: circuits.slot(), day: circuits.day, measured })
    }

    fn counts(&self, begin: Time) -> bool {
        self.measured.0 <= begin && begin.after(self.day) <= self.measured.1
    }

    /// Start of the day that contains `at`, or whose night contains it.
    fn begin(&self, at: Time) -> Time {
        Time::ZERO.after(self.slot.times(at.as_ps() / self.slot.as_ps()))
    }
}

impl Measure for Circuits {
    fn subscriptions(&self) -> Subscriptions {
        Subscriptions { departed: true, ..Subscriptions::default() }
    }

    fn begin(&mut self, start: &Start<'_>) -> Result<(), Error> {
        let Some(days) = Days::of(start.plan) else { return Ok(()) };
        self.days = days;
        let steps = days.day.as_ps().div_ceil(STEP.as_ps()) as usize;
        let fabric = &start.plan.fabric;
        let rate = |port: u32| fabric.links[port as usize / 2].rate;
        self.sent = ports(fabric).map(|(port, ..)| (port, (rate(port), vec![0; steps]))).collect();
        Ok(())
    }

    fn departed(&mut self, departure: &Departure<'_>) {
        let Some((rate, sent)) = self.sent.get_mut(&departure.port) else { return };
        let begin = self.days.begin(departure.at);
        if !self.days.counts(begin) {
            return;
        }
        let sending = rate.serialise(departure.frame.wire_bytes as u64);
        let (mut at, mut left) = (departure.at.since(begin).as_ps(), sending.as_ps());
        // A packet counts in each step for the time that it is transmitted there.
        while let Some(step) = sent.get_mut((at / STEP.as_ps()) as usize).filter(|_| left > 0) {
            let part = left.min(STEP.as_ps() - at % STEP.as_ps());
            *step += part;
            (at, left) = (at + part, left - part);
        }
    }

    fn finish(self: Box<Self>, end: &End<'_>, output: &mut RunOutput) -> Result<(), Error> {
        let Circuits { sent, days } = *self;
        let trace = |(port, (_, sent)): (u32, (Rate, Vec<u64>))| {
            let record =
                end.outcome.links.get(port as usize).filter(|record| record.packets > 0)?;
            let link = convert::link(end.plan, record);
            let begins = begins(&end.plan.fabric, port, end.plan.duration);
            let counted = begins.iter().filter(|&&begin| days.counts(begin)).count() as u64;
            let share = |(step, sent): (u64, u64)| {
                let length = STEP.min(days.day.beyond(STEP.times(step)));
                sent as f64 / (counted * length.as_ps()) as f64
            };
            let used = (0..).zip(sent).map(share);
            Some(CircuitTrace {
                from: link.from,
                to: link.to,
                begins_us: begins.iter().map(|begin| begin.as_us_f64()).collect(),
                day_us: days.day.as_us_f64(),
                used: if counted > 0 { used.collect() } else { Vec::new() },
            })
        };
        output.seen.circuits = sent.into_iter().filter_map(trace).collect();
        Ok(())
    }
}

/// Ports of circuits, and their source and destination racks.
fn ports(fabric: &Fabric) -> impl Iterator<Item = (u32, u32, u32)> {
    fabric.circuits.iter().flat_map(|circuits| circuits.ports(fabric))
}

/// Starts of the days of a circuit's port before `until`.
fn begins(fabric: &Fabric, port: u32, until: Time) -> Vec<Time> {
    let own = ports(fabric).find(|&(other, ..)| other == port);
    let Some((circuits, (_, from, to))) = fabric.circuits.as_ref().zip(own) else {
        return Vec::new();
    };
    let days = circuits.days(from, to);
    let weeks = 0..=until.as_ps() / circuits.week().as_ps();
    let begin = |week: u64, day: u32| {
        Time::ZERO.after(circuits.week().times(week)).after(circuits.slot().times(day as u64))
    };
    let all = weeks.flat_map(|week| days.iter().map(move |&day| begin(week, day)));
    all.filter(|&begin| begin < until).collect()
}
