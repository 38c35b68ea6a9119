//! Telemetry that a port reads once in a period.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::common::observers::{Observer, ObserverAccess, TestProbe};
use crate::common::*;
use tidegate_core::fabric::TelemetryResolution;
use tidegate_core::{Rate, Span, Time};
use tidegate_sim::{Departure, Engine};

const PERIOD: Span = Span::us(3);
/// The port of the switch that leads to the receiver.
const EGRESS: u32 = 2 * 2 + 1;

/// By period, the values in each data packet that leaves for the receiver.
type Stamps = Arc<Mutex<BTreeMap<u64, Vec<(Time, Span)>>>>;

struct Recorder(Stamps);

impl Observer for Recorder {
    fn departed(&mut self, departure: &Departure<'_>) {
        let Departure { at, port, frame, body, hops, .. } = *departure;
        if port == EGRESS && body.payload_bytes > 0 {
            let read_at = hops.as_slice().last().map_or(Time::ZERO, |hop| hop.at);
            let mut all = self.0.lock().unwrap();
            let period = at.as_ps() / PERIOD.as_ps();
            all.entry(period).or_default().push((read_at, frame.peak_hop_delay));
        }
    }
}

/// Two flows to one receiver, whose port is free now and then.
fn stamps(protocol: &str) -> Vec<Vec<(Time, Span)>> {
    let mut fabric = star(3, Rate::gbps(100), Span::us(1), 1000);
    let resolution = TelemetryResolution { quantum: Span::ZERO, period: PERIOD };
    fabric.switches[0].telemetry_resolution = resolution;
    let flows = vec![unlimited(0, 2, Time::ZERO), unlimited(1, 2, Time::us(5))];
    let all = Stamps::default();
    let probe = TestProbe::of(Recorder(all.clone()));
    let setup = setup(fabric, stack(protocol), flows, Time::us(600));
    let mut engine = Engine::new(setup, probe).unwrap();
    engine.advance(Time::NEVER);
    engine.finish().unwrap();
    let all = all.lock().unwrap();
    all.values().cloned().collect()
}

#[test]
fn hop_records_of_a_period_are_equal() {
    for packets in stamps("powertcp") {
        let (read_at, _) = packets[0];
        assert!(packets.iter().all(|packet| packet.0 == read_at), "{packets:?}");
    }
}

#[test]
fn free_ports_stamp_the_delay_of_the_period() {
    let periods = stamps("poseidon");
    let delays: Vec<Span> = periods.iter().map(|packets| packets[0].1).collect();
    assert!(delays.iter().filter(|delay| **delay > Span::ZERO).count() > 20, "{delays:?}");
    for packets in periods {
        assert!(packets.iter().all(|packet| packet.1 == packets[0].1), "{packets:?}");
    }
}
