//! `live.json`: the state of a run while it goes on, for a page that follows it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use tidegate_core::{Span, Time};
use tidegate_results::{LIVE, Partial};
use tidegate_scenario::Plan;
use tidegate_sim::{FlowRecord, Quantity, Sample};

use super::{End, Measure, RunOutput};
use crate::Error;
use crate::machine::Pace;

/// Number of points of a run.
const POINTS: u64 = 200;
/// Least time between two versions of the file.
const PAUSE: Duration = Duration::from_secs(1);

/// Content of the file.
#[derive(Serialize)]
struct Live<'a> {
    name: &'a str,
    /// Simulated time so far, of the whole.
    share: f64,
    /// End of each interval.
    time_ms: Vec<f64>,
    /// Payload that arrived in each interval, in Gbit/s.
    goodput_gbps: Vec<f64>,
    /// Payload of the flows of each label that completed in the interval, in Gbit/s.
    completed_gbps: BTreeMap<&'a str, Vec<f64>>,
    /// The longest queue of a switch port at the end of each interval.
    queue_kb: &'a [f64],
}

/// Writes the file at most once a second, and removes it at the end. A failure to write it is
/// ignored: the results do not depend on it.
pub struct LiveFile {
    path: PathBuf,
    pace: Pace,
    payload: Payload,
    at: Vec<Time>,
    queue_kb: Vec<f64>,
}

impl LiveFile {
    /// The file of a run in the folder of its results.
    pub fn new(folder: &Path, plan: &Plan) -> LiveFile {
        LiveFile {
            path: folder.join(LIVE),
            pace: Pace::every(PAUSE),
            payload: Payload::new(plan),
            at: Vec::new(),
            queue_kb: Vec::new(),
        }
    }

    /// The state at the last sample, with the intervals whose payload is known.
    fn state<'a>(&'a self, plan: &'a Plan) -> Live<'a> {
        let known = self.at.len().saturating_sub(1);
        let begins = std::iter::once(&Time::ZERO).chain(&self.at);
        let spans = self.at.iter().zip(begins).map(|(end, begin)| end.since(*begin));
        let spans: Vec<f64> = spans.map(|span| span.as_ps() as f64).take(known).collect();
        // 8 bits over a picosecond are 8000 Gbit/s.
        let gbps = |bytes: &[u64]| {
            let bytes = bytes.iter().chain(std::iter::repeat(&0));
            spans.iter().zip(bytes).map(|(span, &bytes)| bytes as f64 * 8e3 / span).collect()
        };
        let labels = plan.labels.iter().zip(&self.payload.completed);
        Live {
            name: &plan.name,
            share: self.at.last().map_or(0.0, |at| at.as_s_f64() / plan.duration.as_s_f64()),
            time_ms: self.at[..known].iter().map(|at| at.as_us_f64() / 1e3).collect(),
            goodput_gbps: gbps(&self.payload.arrived),
            completed_gbps: labels.map(|(label, bytes)| (label.as_str(), gbps(bytes))).collect(),
            queue_kb: &self.queue_kb[..known],
        }
    }

    fn write(&self, plan: &Plan) -> io::Result<()> {
        let mut file = Partial::new(self.path.clone())?;
        file.write_all(&serde_json::to_vec(&self.state(plan))?)?;
        file.publish_unsynced()
    }
}

impl Measure for LiveFile {
    fn samples_every(&self) -> Option<Span> {
        Some(self.payload.interval)
    }

    fn sampled(&mut self, plan: &Plan, at: Time, samples: &[Sample]) -> Result<(), Error> {
        self.payload.sampled(at, samples);
        let queues = samples.iter().filter(|sample| sample.quantity == Quantity::QueueBytes);
        self.queue_kb.push(queues.map(|sample| sample.value).fold(0.0, f64::max) / 1e3);
        self.at.push(at);
        if self.at.len() > 1 && self.pace.is_due() {
            let _ = self.write(plan);
        }
        Ok(())
    }

    fn flow(&mut self, _plan: &Plan, record: &FlowRecord) -> Result<(), Error> {
        self.payload.ended(record);
        Ok(())
    }

    fn finish(self: Box<Self>, _end: &End<'_>, _output: &mut RunOutput) -> Result<(), Error> {
        Ok(())
    }
}

impl Drop for LiveFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Payload by interval, in bytes.
///
/// A flow that completed is in no sample, and its record follows when its sender has the
/// acknowledgement. Its last bytes are then added to the interval in which it completed. Until then
/// that interval lacks them. It is nearly always the last one: an interval is longer than most
/// round trips.
struct Payload {
    interval: Span,
    /// Of all flows.
    arrived: Vec<u64>,
    /// Of the flows that completed in the interval, by label.
    completed: Vec<Vec<u64>>,
    /// Bytes that each running flow had delivered at its last sample, by ID.
    delivered: BTreeMap<u64, u64>,
}

impl Payload {
    fn new(plan: &Plan) -> Payload {
        Payload {
            interval: Span::ps((plan.duration.as_ps() / POINTS).max(1)),
            arrived: Vec::new(),
            completed: vec![Vec::new(); plan.labels.len()],
            delivered: BTreeMap::new(),
        }
    }

    fn sampled(&mut self, at: Time, samples: &[Sample]) {
        let place = place(at, self.interval);
        let of_flows = samples.iter().filter(|of| of.quantity == Quantity::DeliveredBytes);
        for sample in of_flows {
            let bytes = sample.value as u64;
            let before = self.delivered.insert(sample.entity, bytes).unwrap_or(0);
            add(&mut self.arrived, place, bytes.saturating_sub(before));
        }
    }

    fn ended(&mut self, record: &FlowRecord) {
        let Some(completed) = record.completed else { return };
        let place = place(completed, self.interval);
        let before = self.delivered.remove(&record.id).unwrap_or(0);
        add(&mut self.arrived, place, record.delivered_bytes.saturating_sub(before));
        add(&mut self.completed[usize::from(record.label)], place, record.delivered_bytes);
    }
}

/// Position of the interval that contains `at`, or ends there.
fn place(at: Time, interval: Span) -> usize {
    (at.as_ps().div_ceil(interval.as_ps()).max(1) - 1) as usize
}

fn add(intervals: &mut Vec<u64>, place: usize, bytes: u64) {
    if intervals.len() <= place {
        intervals.resize(place + 1, 0);
    }
    intervals[place] += bytes;
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::observe::tests::run_with;

    /// Compares a live file with the payload at each sample, and its states with one another.
    struct Follower {
        live: LiveFile,
        /// Payload of the flows that were running, at each sample.
        running: Vec<(Time, u64)>,
        ended: Vec<(Time, u64)>,
        /// Goodput in the state after each sample.
        states: Vec<Vec<f64>>,
        compared: Arc<Mutex<usize>>,
    }

    impl Measure for Follower {
        fn samples_every(&self) -> Option<Span> {
            self.live.samples_every()
        }
        fn sampled(&mut self, plan: &Plan, at: Time, samples: &[Sample]) -> Result<(), Error> {
            self.live.sampled(plan, at, samples)?;
            let flows = samples.iter().filter(|of| of.quantity == Quantity::DeliveredBytes);
            self.running.push((at, flows.map(|sample| sample.value as u64).sum()));
            self.states.push(self.live.state(plan).goodput_gbps);
            Ok(())
        }
        fn flow(&mut self, plan: &Plan, record: &FlowRecord) -> Result<(), Error> {
            self.ended.extend(record.completed.map(|at| (at, record.delivered_bytes)));
            self.live.flow(plan, record)
        }
        fn finish(self: Box<Self>, end: &End<'_>, _output: &mut RunOutput) -> Result<(), Error> {
            let state = self.live.state(end.plan);
            let mut before = (Time::ZERO, 0);
            for (place, &(at, running)) in self.running.iter().enumerate() {
                let ended = self.ended.iter().filter(|(completed, _)| *completed <= at);
                let total = running + ended.map(|(_, bytes)| bytes).sum::<u64>();
                let gbps = (total - before.1) as f64 * 8e3 / at.since(before.0).as_ps() as f64;
                before = (at, total);
                // The last interval is not shown before the next one has ended.
                if let Some(&shown) = state.goodput_gbps.get(place) {
                    assert!(
                        (shown - gbps).abs() < 1e-6 * gbps.max(1.0),
                        "{at}: {shown} for {gbps}"
                    );
                }
            }
            // A page never shows an interval before its payload is complete.
            for (place, &last) in state.goodput_gbps.iter().enumerate() {
                let first = self.states.iter().find_map(|shown| shown.get(place));
                assert_eq!(first, Some(&last), "interval {place}");
            }
            let of_label: f64 = state.completed_gbps.values().flatten().sum();
            assert!(of_label > 0.9 * state.goodput_gbps.iter().sum::<f64>(), "{of_label}");
            *self.compared.lock().unwrap() = state.goodput_gbps.len();
            Ok(())
        }
    }

    #[test]
    fn the_file_has_the_payload_of_each_interval() {
        let text = "duration = '6ms'\nwarmup = '1ms'\ndrain = '1ms'\n\
            transport = { protocol = 'swift' }\n\
            fabric = { kind = 'leaf-spine', racks = 2, hosts_per_rack = 4, spines = 2 }\n\
            [[traffic]]\nkind = 'poisson'\nsizes = '30KB'\nload = 0.5\n";
        let plan = tidegate_scenario::load(text, "test.toml", &[]).unwrap();
        let compared = Arc::default();
        let folder = tempfile::tempdir().unwrap();
        let follower = Follower {
            live: LiveFile::new(folder.path(), &plan),
            running: Vec::new(),
            ended: Vec::new(),
            states: Vec::new(),
            compared: Arc::clone(&compared),
        };
        run_with(&plan, vec![Box::new(follower)]);
        assert_eq!(*compared.lock().unwrap(), 199);
    }
}
