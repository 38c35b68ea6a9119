//! All results of a run, for comparison.

use super::observers::{ObserverAccess, TestProbe};
use tidegate_core::{Domain, Rng, Span, Time};
use tidegate_sim::{Engine, FlowRecord, Outcome, Sample};

use super::busy::{Record, Recorder};

/// Packets by port, in order.
pub type Departures = Vec<Vec<Record>>;

/// All results of a run, except for the number of events.
#[derive(Debug, PartialEq)]
pub struct Left {
    pub rows: Vec<FlowRecord>,
    pub outcome: String,
    pub samples: Vec<Sample>,
    pub packets: Departures,
    pub end: Time,
}

impl Left {
    /// Advances a run in steps of random length, with samples in between. Returns the results,
    /// without the packets in other processes.
    pub fn of(mut engine: Engine<TestProbe>, duration: Time, steps: u64) -> Left {
        let (mut rows, mut samples) = (Vec::new(), Vec::new());
        let mut rng = Rng::stream(steps, Domain::Faults, 7);
        let quarter = Span::ps(duration.as_ps() / 4);
        let mut next_sample = Time::ZERO + quarter;
        while !engine.is_over() {
            let until = engine.now() + Span::ps(1 + rng.below(quarter.as_ps()));
            let until = until.min(next_sample);
            while !engine.advance_some(until, 1 + rng.below(10_000)).unwrap() {}
            engine.take_finished(&mut rows).unwrap();
            // A drain may end earlier.
            if engine.now() == next_sample {
                engine.sample(&mut samples).unwrap();
                next_sample = next_sample.after(quarter);
            }
        }
        let (end, packets) = (engine.now(), departures(&engine));
        let mut outcome = engine.finish().unwrap();
        rows.append(&mut outcome.finished);
        let outcome = format!("{:?}", Outcome { events: 0, ..outcome });
        Left { rows, outcome, samples, packets, end }
    }

    /// Asserts that both are equal.
    pub fn assert_is(&self, other: &Left, what: &str) {
        for (port, (a, b)) in self.packets.iter().zip(&other.packets).enumerate() {
            let first = a.iter().zip(b).position(|(a, b)| a != b);
            let at = first.unwrap_or(a.len().min(b.len()));
            assert_eq!(a.get(at), b.get(at), "{what}: packet {at} of port {port}");
        }
        assert_eq!(self.rows, other.rows, "{what}");
        let differs = self.samples.iter().zip(&other.samples).find(|(a, b)| a != b);
        assert!(differs.is_none(), "{what}: {differs:?}");
        let (ours, theirs) = (self.samples.len(), other.samples.len());
        assert_eq!((ours, self.end), (theirs, other.end), "{what}: samples and end");
        assert_eq!(self.outcome, other.outcome, "{what}");
    }
}

/// Takes the packets that left ports of this process.
pub fn departures(engine: &Engine<TestProbe>) -> Departures {
    let mut packets = Vec::new();
    engine.probes().for_each(|probe| add(&mut packets, probe.inner::<Recorder>().take_ports()));
    packets
}

/// Adds packets of other ports.
pub fn add(packets: &mut Departures, others: Departures) {
    packets.resize(packets.len().max(others.len()), Vec::new());
    for (port, records) in others.into_iter().enumerate().filter(|(_, of)| !of.is_empty()) {
        assert!(packets[port].is_empty(), "two partitions own port {port}");
        packets[port] = records;
    }
}
