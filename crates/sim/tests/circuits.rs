//! Racks joined by circuits: transmissions by time and link, and equality with explicit dequeues
//! (record by record) and with several partitions.

use crate::common::busy::{Record, Recorder, busy, with_ecn};
use crate::common::observers::{Explicit, ObserverAccess, TestProbe};
use crate::common::racks::Racks;
use crate::common::{flow, none_beats_its_ideal, run, setup, stack, unlimited, unobserved};
use tidegate_algos::{Protocol, Stack};
use tidegate_core::circuits::Circuits;
use tidegate_core::fabric::{Buffer, RateChange, Stamping};
use tidegate_core::faults::{Failing, Flaps, Outage};
use tidegate_core::params::Value;
use tidegate_core::{Rate, Span, Time, frame_flag};
use tidegate_sim::{Engine, FlowRecord, Outcome, Probe, Setup};

const SMALL: Racks = Racks {
    racks: 4,
    hosts: 3,
    host_rate: Rate::gbps(50),
    packet_rate: Rate::gbps(25),
    circuit_rate: Rate::gbps(100),
    delay: Span::ns(600),
    day: Span::us(35),
    night: Span::us(5),
};

/// A change of a plain fabric of racks.
type Change = fn(&mut Setup);

const CHANGES: [(&str, Change); 4] = [
    ("plain", |_| ()),
    ("short queues that are enlarged", |setup| {
        circuits(setup, |circuits| {
            circuits.queue_bytes = 20_000;
            circuits.enlarged_bytes = 60_000;
            circuits.ahead = Span::us(20);
        });
    }),
    ("no nights, shared buffers and losses", |setup| {
        circuits(setup, |circuits| circuits.night = Span::ZERO);
        for switch in &mut setup.fabric.switches {
            switch.buffer = Buffer::Shared { bytes: 150_000, alpha: 1.0 };
        }
        setup.faults.loss = 1e-3;
        setup.histograms = true;
    }),
    ("long days, few joined racks", |setup| {
        circuits(setup, |circuits| {
            circuits.day = Span::us(110);
            circuits.matchings = vec![vec![1, 2, 0, 3], vec![0, 3, 1, 2], vec![1, 0, 3, 2]];
        });
    }),
];

fn circuits(setup: &mut Setup, change: impl FnOnce(&mut Circuits)) {
    change(setup.fabric.circuits.as_mut().unwrap());
}

/// Heavy traffic among four racks.
fn busy_racks(stack: Stack, change: Change) -> Setup {
    let mut setup = busy(stack, 3);
    setup.fabric = SMALL.fabric();
    change(&mut setup);
    setup
}

/// Packets of every port, rows of flows, and the other results.
type Recorded = (Vec<Vec<Record>>, Vec<FlowRecord>, Outcome);

fn recorded<P: Probe + ObserverAccess>(setup: Setup, partitions: usize) -> Recorded {
    let probes = (0..partitions).map(|_| P::of(Recorder::default())).collect();
    let mut engine = Engine::in_partitions(setup, probes).unwrap();
    engine.advance(Time::NEVER);
    assert_eq!(engine.partitions(), partitions);
    let mut ports: Vec<Vec<Record>> = Vec::new();
    for probe in engine.probes() {
        let own = probe.inner::<Recorder>().take_ports();
        ports.resize(ports.len().max(own.len()), Vec::new());
        ports.iter_mut().zip(own).for_each(|(port, mut records)| port.append(&mut records));
    }
    let mut outcome = engine.finish().unwrap();
    outcome.events = 0;
    let finished = std::mem::take(&mut outcome.finished);
    none_beats_its_ideal(&finished);
    (ports, finished, outcome)
}

#[test]
fn lazy_commits_equal_dequeues_and_partitions() {
    for (name, change) in CHANGES {
        let all = Protocol::ALL.iter().filter(|protocol| {
            name == "plain" || ["powertcp", "retcp", "sird"].contains(&protocol.info().name)
        });
        for &protocol in all {
            let setup = || {
                let setup = busy_racks(protocol.stack(), change);
                if name == "plain" { with_ecn(setup) } else { setup }
            };
            let lazy = recorded::<TestProbe>(setup(), 1);
            let by_circuit: usize = lazy.0[32..].iter().map(Vec::len).sum();
            assert!(by_circuit > 300, "{name}, {}: {by_circuit}", protocol.info().name);
            let others = [
                ("explicit", recorded::<Explicit>(setup(), 1)),
                ("two partitions", recorded::<TestProbe>(setup(), 2)),
                ("three parts", recorded::<TestProbe>(setup(), 3)),
            ];
            for (how, other) in others {
                let what = format!("{name}, {}, {how}", protocol.info().name);
                for (port, (a, b)) in lazy.0.iter().zip(&other.0).enumerate() {
                    let first = a.iter().zip(b).position(|(a, b)| a != b);
                    let at = first.unwrap_or(a.len().min(b.len()));
                    assert_eq!(a.get(at), b.get(at), "{what}: packet {at} of port {port}");
                }
                assert!(lazy.1 == other.1, "{what}: rows");
                assert_eq!(format!("{:?}", lazy.2), format!("{:?}", other.2), "{what}");
            }
        }
    }
}

/// Each host sends an unlimited flow to the host with its index in every other rack.
fn all_to_all(racks: Racks, stack: Stack, duration: Time) -> Setup {
    let hosts = racks.racks * racks.hosts;
    let others = |src| (1..racks.racks).map(move |by| (src, (src + by * racks.hosts) % hosts));
    let flows = (0..hosts).flat_map(others).map(|(src, dst)| unlimited(src, dst, Time::ZERO));
    setup(racks.fabric(), stack, flows.collect(), duration)
}

#[test]
fn circuits_replace_the_uplink_in_their_days() {
    let setup = all_to_all(SMALL, stack("swift"), Time::ms(1));
    let fabric = setup.fabric.clone();
    let (ports, ..) = recorded::<TestProbe>(setup, 1);
    let (mut by_circuit, mut by_uplink, mut last) = (0, 0, Span::FOREVER);
    for rack in 0..SMALL.racks {
        for to in (0..SMALL.racks).filter(|&to| to != rack) {
            for record in &ports[Racks::port(&fabric, rack, to) as usize] {
                let (matching, begins, ends) = SMALL.day_at(record.at);
                let end = record.at + SMALL.circuit_rate.serialise(record.frame.1 as u64);
                assert!(begins <= record.at && end <= ends, "{record:?} in {begins} to {ends}");
                assert_eq!(SMALL.peer(rack, matching), to, "{record:?}");
                by_circuit += 1;
                last = last.min(ends - end);
            }
        }
        for record in &ports[SMALL.uplink(rack) as usize] {
            let (matching, _, ends) = SMALL.day_at(record.at);
            // Rack of the source or the destination, because acknowledgements go back.
            let to = record.dst / SMALL.hosts;
            let is_up = record.at < ends && SMALL.peer(rack, matching) == to;
            assert!(!is_up && to != rack, "{record:?} while the circuit to rack {to} is up");
            by_uplink += 1;
        }
    }
    assert!(by_circuit > 10_000 && by_uplink > 5_000, "{by_circuit} and {by_uplink}");
    assert!(last < SMALL.circuit_rate.serialise(1080), "days are used to the end: {last}");
}

#[test]
fn packets_for_other_racks_leave_or_are_dropped() {
    for most in [u32::MAX, 15_000] {
        let mut setup = all_to_all(SMALL, stack("reno"), Time::ms(20));
        setup.workload.flows.iter_mut().for_each(|flow| flow.bytes = 300_000);
        circuits(&mut setup, |circuits| circuits.queue_bytes = most);
        let fabric = setup.fabric.clone();
        let (ports, finished, outcome) = recorded::<TestProbe>(setup, 1);
        assert_eq!((finished.len(), outcome.unfinished.len()), (36, 0));
        let sum = |ports: &[Vec<Record>]| {
            let records = ports.iter().flatten();
            records.fold((0, 0), |(n, bytes), record| (n + 1, bytes + record.frame.1 as u64))
        };
        let mut dropped = 0;
        for rack in 0..SMALL.racks {
            let hosts = SMALL.hosts * rack..SMALL.hosts * (rack + 1);
            let came: Vec<_> = hosts.map(|host| ports[2 * host as usize].clone()).collect();
            let others = (0..SMALL.racks).filter(|&to| to != rack);
            let circuits = others.map(|to| Racks::port(&fabric, rack, to));
            let out: Vec<u32> = circuits.chain([SMALL.uplink(rack)]).collect();
            let left: Vec<_> = out.iter().map(|&port| ports[port as usize].clone()).collect();
            let drops: u64 = out.iter().map(|&port| outcome.links[port as usize].drops).sum();
            let (came, left) = (sum(&came), sum(&left));
            assert!(left.0 > 5_000, "{left:?}");
            // Messages consist of full packets.
            assert_eq!(came.0 - left.0, drops, "packets of rack {rack}");
            let bytes = came.1 - left.1;
            assert!(84 * drops <= bytes && bytes <= 1080 * drops, "{bytes} B in {drops} packets");
            dropped += drops;
        }
        let resent: u64 = finished.iter().map(|row| row.retransmitted_bytes).sum();
        assert_eq!(dropped > 100, most < u32::MAX, "{dropped}");
        assert_eq!(resent > 0, most < u32::MAX, "{resent}");
    }
}

#[test]
fn utilisation_counts_the_measured_days() {
    let mut setup = all_to_all(SMALL, stack("swift"), Time::ps(901_234_567));
    // In the middle of a day and of a transmission.
    setup.warmup = Time::ps(203_141_593);
    let (warmup, end) = (setup.warmup, setup.duration);
    let fabric = setup.fabric.clone();
    let (ports, _, outcome) = recorded::<TestProbe>(setup, 1);
    let circuits = fabric.circuits.as_ref().unwrap();
    let overlap = |from: Time, to: Time| to.min(end).since(from.max(warmup)).as_ps();
    for &(port, from, to) in &circuits.ports(&fabric) {
        let sent = ports[port as usize].iter().map(|record| {
            let wire = record.frame.1 as u64;
            overlap(record.at, record.at + SMALL.circuit_rate.serialise(wire))
        });
        let slots = 0..end.as_ps() / circuits.slot().as_ps() + 1;
        let days = slots.map(|slot| SMALL.day_at(Time::ZERO + circuits.slot().times(slot)));
        let own = days.filter(|&(matching, ..)| SMALL.peer(from, matching) == to);
        let up: u64 = own.map(|(_, begins, ends)| overlap(begins, ends)).sum();
        let expected = sent.sum::<u64>() as f64 / up as f64;
        assert_eq!(outcome.links[port as usize].utilisation, expected, "of rack {from} to {to}");
        assert!(expected > 0.05 && expected < 1.0, "{expected}");
    }
}

#[test]
fn packet_lands_where_its_circuit_led() {
    // A packet is in flight for longer than a night.
    let racks = Racks { delay: Span::us(9), night: Span::us(2), ..SMALL };
    let mut setup = all_to_all(racks, stack("swift"), Time::ms(1));
    setup.drain = Span::ms(5);
    let fabric = setup.fabric.clone();
    let duration = setup.duration;
    let (ports, finished, outcome) = recorded::<TestProbe>(setup, 1);
    let port = Racks::port(&fabric, 0, 2);
    let sent: usize = ports[port as usize].iter().filter(|record| record.at < duration).count();
    assert!(sent > 300 && finished.is_empty());
    // Every packet for a host behind the circuit is measured there, whichever link it used.
    let uplink = &outcome.links[racks.uplink(0) as usize];
    assert_eq!((uplink.queue_bytes.max, uplink.queue_delay_us.max), (0.0, 0.0));
    assert!(outcome.links[port as usize].queue_bytes.max > 1_000.0);
    let delivered = outcome.unfinished.iter().all(|row| row.delivered_bytes > 10_000);
    assert!(delivered, "all flows complete");
}

/// Compares a queue's measures with its packets, whichever link they left by.
#[test]
fn queue_measures_match_its_packets() {
    for protocol in ["powertcp", "poseidon"] {
        let mut setup = all_to_all(SMALL, stack(protocol), Time::ms(4));
        setup.workload.flows.iter_mut().for_each(|flow| flow.bytes = 300_000);
        setup.histograms = true;
        let (fabric, duration) = (setup.fabric.clone(), setup.duration);
        let (ports, finished, outcome) = recorded::<TestProbe>(setup, 1);
        assert_eq!((finished.len(), outcome.unfinished.len()), (36, 0));
        for rack in 0..SMALL.racks {
            for to in (0..SMALL.racks).filter(|&to| to != rack) {
                let circuit = Racks::port(&fabric, rack, to);
                let both = [circuit, SMALL.uplink(rack)].map(|port| &ports[port as usize]);
                let is_own = |record: &&Record| record.dst / SMALL.hosts == to;
                let mut all: Vec<&Record> = both.into_iter().flatten().filter(is_own).collect();
                all.sort_by_key(|record| record.at);
                let (mut sent, mut levels) = (0, Vec::new());
                for record in &all {
                    let wire = record.frame.1 as i64;
                    levels.push((record.at.before(record.waited), wire));
                    levels.push((record.at, -wire));
                    if record.body.payload_bytes > 0 && protocol == "powertcp" {
                        let [hop] = record.hops.as_slice() else { panic!("{record:?}") };
                        let expected = (record.at, sent, SMALL.uplink(rack));
                        assert_eq!((hop.at, hop.tx_bytes, hop.port), expected);
                    } else if record.body.payload_bytes > 0 {
                        assert_eq!(record.frame.0, record.waited, "the largest delay so far");
                    }
                    sent += wire as u64;
                }
                // Bytes that the queue held, by time.
                levels.sort();
                let (mut held, mut since, mut spans) = (0, Time::ZERO, Vec::new());
                for (at, change) in levels {
                    spans.push((held, at.since(since)));
                    (held, since) = (held + change, at);
                }
                spans.push((held, duration.since(since)));
                spans.sort();
                let mut left = duration.since(Time::ZERO).scale(0.99);
                let p99 = spans.iter().find(|(_, span)| {
                    let is_it = *span >= left;
                    left = left.beyond(*span);
                    is_it
                });
                let (p99, record) = (p99.unwrap().0 as f64, &outcome.links[circuit as usize]);
                let ours = record.queue_bytes.p99.unwrap();
                assert!((ours - p99).abs() <= 0.02 * p99, "{ours} and {p99}");
                let longest = all.iter().map(|record| record.waited).max().unwrap();
                assert!(longest > Span::us(5), "{longest}");
                assert_eq!(record.queue_delay_us.max, longest.as_us_f64());
            }
        }
    }
}

/// No other event would wake the rack.
#[test]
fn late_lone_packet_leaves_as_the_night_begins() {
    let link = |rate: Rate| rate.serialise(1080) + SMALL.delay;
    let (host, packet) = (link(SMALL.host_rate), link(SMALL.packet_rate));
    let completed = |left: Span| {
        let at = Time::ZERO + (SMALL.day - left - host);
        let flows = vec![flow(0, 3, 1000, at)];
        let (finished, _) = run(setup(SMALL.fabric(), stack("swift"), flows, Time::ms(1)));
        finished[0].completed.unwrap()
    };
    let fits = SMALL.circuit_rate.serialise(1080);
    let by_circuit = Time::ZERO + SMALL.day + SMALL.delay + SMALL.delay + host;
    assert_eq!(completed(fits), by_circuit);
    let by_uplink = Time::ZERO + SMALL.day + packet + packet + host;
    assert_eq!(completed(fits - Span::ps(1)), by_uplink);
}

/// Ten hosts of a rack send to ten hosts of the next, as in PowerTCP's evaluation.
fn pair(stack: Stack, weeks: u64) -> (Setup, Racks) {
    let racks = Racks {
        racks: 5,
        hosts: 10,
        host_rate: Rate::gbps(25),
        packet_rate: Rate::gbps(25),
        circuit_rate: Rate::gbps(100),
        delay: Span::ns(2_850),
        day: Span::us(225),
        night: Span::us(20),
    };
    let flows = (0..10).map(|host| unlimited(host, host + 10, Time::ZERO)).collect();
    let fabric = racks.fabric();
    let week = fabric.circuits.as_ref().unwrap().week();
    // Each week adds a day.
    let end = Time::ZERO + (week.times(weeks) - Span::ps(1));
    let setup = setup(fabric, stack, flows, end);
    (setup, racks)
}

/// Utilisation of the circuit from rack 0 to rack 1, by 25 us of its days after the first.
fn filling(setup: Setup, racks: Racks) -> Vec<f64> {
    let fabric = setup.fabric.clone();
    let (ports, ..) = recorded::<TestProbe>(setup, 1);
    let mut bytes = [0; 9];
    let mut days = 0;
    let mut last = Time::ZERO;
    for record in &ports[Racks::port(&fabric, 0, 1) as usize] {
        let (_, begins, _) = racks.day_at(record.at);
        if begins > Time::ZERO {
            days += (begins != last) as u64;
            last = begins;
            bytes[(record.at.since(begins).as_ps() / 25_000_000) as usize] += record.frame.1 as u64;
        }
    }
    let most = days * racks.circuit_rate.bytes_in(Span::us(25));
    bytes.iter().map(|&bytes| bytes as f64 / most as f64).collect()
}

fn powertcp(circuits: bool) -> Stack {
    let mut stack = stack("powertcp");
    stack.set("circuits", Value::Flag(circuits)).unwrap();
    // With the lower bound for constant paths, the window could at most double in a round trip.
    stack.set("current_floor", Value::Number(0.0)).unwrap();
    stack
}

#[test]
fn powertcp_fills_a_circuit_within_a_round_trip() {
    let used = |circuits| {
        let (mut setup, racks) = pair(powertcp(circuits), 4);
        setup.fabric.switches[5].telemetry = Stamping::Off;
        filling(setup, racks)
    };
    let (with, without) = (used(true), used(false));
    // No flow can react to the circuit before a base RTT of 23.6 us has passed. Then the higher
    // rate moves pending packets at once, which fills part of the last microseconds.
    assert!(with[0] < 0.4 && with[1] > 0.9 && with[2] > 0.95, "{with:?}");
    assert!(without[1] < 0.75, "{without:?}");
    let all = with.iter().sum::<f64>() / 9.0;
    assert!(all > 0.8, "{all}");
}

#[test]
fn racks_announce_their_circuit_until_it_ends() {
    let (mut setup, racks) = pair(stack("retcp"), 2);
    circuits(&mut setup, |circuits| {
        circuits.queue_bytes = 16 * 1080;
        circuits.enlarged_bytes = 50 * 1080;
        circuits.ahead = Span::us(150);
    });
    let fabric = setup.fabric.clone();
    let (ports, ..) = recorded::<TestProbe>(setup, 1);
    let is_marked = |record: &Record| record.frame.3 & frame_flag::CIRCUIT != 0;
    let mut announced = [[0, 0], [0, 0]];
    // Acknowledgements leave rack 0, and data leaves rack 1. The circuit from rack 0 to rack 1 is
    // up in matching 0, and the one back in matching 3.
    for host in 0..20 {
        let (rack, up_in) = if host < 10 { (0, 0) } else { (1, 3) };
        for record in &ports[2 * host + 1] {
            let at = record.at.before(record.waited);
            let (matching, _, ends) = racks.day_at(at);
            let (next, ..) = racks.day_at(at.after(Span::us(150)));
            let on = matching == up_in && at < ends || next == up_in && matching != up_in;
            assert_eq!(is_marked(record), on, "{record:?}");
            announced[rack][on as usize] += 1;
        }
    }
    assert!(announced.iter().flatten().all(|&packets| packets > 500), "{announced:?}");
    for port in [racks.uplink(0), Racks::port(&fabric, 0, 1)] {
        assert!(!ports[port as usize].iter().any(is_marked));
    }
}

#[test]
fn announcements_fill_the_queue_before_the_day() {
    let used = |ahead| {
        let (mut setup, racks) = pair(stack("retcp"), 6);
        circuits(&mut setup, |circuits| {
            circuits.queue_bytes = 60_000;
            circuits.enlarged_bytes = 400_000;
            circuits.ahead = ahead;
        });
        filling(setup, racks)
    };
    let (with, without) = (used(Span::us(600)), used(Span::ZERO));
    assert!(with[0] > 0.95 && without[0] < 0.75, "{with:?} and {without:?}");
}

#[test]
fn unsupported_settings_with_circuits_are_refused() {
    let error = |change: &dyn Fn(&mut Setup)| {
        let mut setup = all_to_all(SMALL, stack("swift"), Time::ms(1));
        change(&mut setup);
        unobserved(setup, 1).err().expect("refused")
    };
    let with = |change: fn(&mut Circuits)| error(&move |setup: &mut Setup| circuits(setup, change));
    let outage = Outage { of: Failing::Link(12), down: Time::us(1), up: Time::NEVER };
    let flaps = Flaps { mean_up: Span::us(1), mean_down: Span::us(1) };
    let change = RateChange { port: 25, at: Time::ZERO, rate: Rate::gbps(1) };
    let second_uplink = |setup: &mut Setup| {
        let first = setup.fabric.circuits.as_ref().unwrap().first_link as usize;
        let again = setup.fabric.links[first - 3];
        setup.fabric.links.insert(first, again);
        circuits(setup, |circuits| circuits.first_link += 1);
    };
    let cases = [
        (with(|c| c.matchings[1][2] = 3), "matching 1: racks 1 and 2 both send to rack 3"),
        (with(|c| c.matchings[1][2] = 4), "matching 1 does not list each of 4 racks"),
        (with(|c| c.matchings[2].truncate(3)), "matching 2 does not list each of 4 racks"),
        (with(|c| c.day = Span::ZERO), "found 4 racks and days of"),
        (with(|c| c.first_link += 1), "the circuit from rack"),
        (with(|c| c.first_link -= 1), "a circuit link does not join two racks"),
        (error(&second_uplink), "rack 1 needs exactly one link to the packet network"),
        (error(&|setup| setup.faults.outages = vec![outage]), "failures of links between switches"),
        (error(&|setup| setup.faults.flaps = Some(flaps)), "failures of links between switches"),
        (
            error(&|setup| setup.fabric.rate_changes = vec![change]),
            "rate change of port 25: not supported with circuits",
        ),
    ];
    for (error, expected) in cases {
        assert!(error.contains(expected), "{error:?} for {expected:?}");
    }
    // Failures of hosts are supported.
    let mut setup = all_to_all(SMALL, stack("swift"), Time::us(100));
    setup.faults.outages = vec![Outage { of: Failing::Host(3), ..outage }];
    setup.workload.flows.push(flow(0, 4, 10_000, Time::ZERO));
    run(setup);
}
